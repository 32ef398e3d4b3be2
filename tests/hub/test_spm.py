"""SentencePiece models: the same pieces as the library that made them."""

import json
import random
from pathlib import Path

import pytest
import sentencepiece

from regard.errors import UserError
from regard.hub import spm

SENTENCE = "the cat sat on a mat while seven dogs were running through an open gate and nobody knew why they did it"
WORDS = SENTENCE.split()
TEXTS = (
    "the cat sat on a mat", "  Two   spaces\tand a tab ", "ﬁne ligatures ① ½", "Grüße", "nobodyknew", "a", "", "....",
    "x",
    "the\u00a0cat", "日本 cat", "e\u0301",
)  # fmt: skip


@pytest.fixture(scope="module", params=["nmt_nfkc", "identity"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spm")
    draw = random.Random(1)
    lines = [" ".join(draw.choices(WORDS, k=draw.randint(3, 9))) for _ in range(400)]
    (folder / "text.txt").write_text("\n".join(lines) + "\n")
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text.txt"), model_prefix=str(folder / "m"), vocab_size=45, model_type="unigram",
        normalization_rule_name=request.param, minloglevel=2,
    )  # fmt: skip
    return folder / "m.model"


def test_the_pieces_are_the_same(model: Path) -> None:
    reference = sentencepiece.SentencePieceProcessor(model_file=str(model))
    pieces = spm.read(model)
    names = ["</s>", "<unk>", *pieces.scores, "<pad>"]
    vocabulary = {name: i for i, name in enumerate(names)}
    ours = spm.tokenizer(pieces, names)
    draw = random.Random(2)
    for text in (*TEXTS, *(" ".join(draw.choices(WORDS, k=6)) for _ in range(50))):
        expected = [vocabulary.get(piece, 1) for piece in reference.encode(text, out_type=str)]
        assert ours.encode(text, add_special_tokens=False).ids == expected, text


def test_there_and_back(model: Path) -> None:
    pieces = spm.read(model)
    ours = spm.tokenizer(pieces, ["<unk>", *pieces.scores])
    assert ours.decode(ours.encode("the cat sat on a mat", add_special_tokens=False).ids) == "the cat sat on a mat"


def test_written_again_it_is_the_same_model(model: Path, tmp_path: Path) -> None:
    found = spm.read(model)
    ours = spm.tokenizer(found, ["</s>", "<unk>", *found.scores, "▁Grüße"])
    again = spm.pieces(json.loads(ours.to_str()))
    assert again == found
    (tmp_path / "again.spm").write_bytes(spm.written(again))
    assert spm.read(tmp_path / "again.spm") == found
    before, after = (sentencepiece.SentencePieceProcessor(model_file=str(p)) for p in (model, tmp_path / "again.spm"))
    for text in TEXTS:
        assert after.encode(text, out_type=str) == before.encode(text, out_type=str), text
        assert after.decode(after.encode(text)) == before.decode(before.encode(text)), text


def test_the_other_languages_pieces_are_not_taken(model: Path) -> None:
    pieces = spm.read(model)
    ours = spm.tokenizer(pieces, ["<unk>", *pieces.scores, "▁nobodyknew", "▁Grüße", "ü"])
    assert "▁nobodyknew" not in ours.encode("nobodyknew", add_special_tokens=False).tokens
    assert "▁Grüße" not in ours.encode("Grüße", add_special_tokens=False).tokens  # though it lacks letters of it
    assert "ü" in ours.encode("Grüße", add_special_tokens=False).tokens


def test_what_is_no_model_is_told(tmp_path: Path, model: Path) -> None:
    with pytest.raises(UserError, match="cannot read"):
        spm.read(tmp_path / "none.spm")
    for name, data in {"text": b"no model at all", "empty": b"", "cut": model.read_bytes()[:500]}.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(UserError, match="damaged, or not a SentencePiece"):
            spm.read(tmp_path / name)
