"""Tagging from files to predictions: labels meet their words, no word is lost, and a small model learns."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
from typer.testing import CliRunner

from regard.api import load
from regard.bundle import Bundle
from regard.cli import app
from regard.config import make_recipe
from regard.data.columns import Sentence
from regard.errors import UserError
from regard.models import Bert, BertConfig, HeadConfig
from regard.models.heads import Tagger
from regard.predict import PREDICTORS
from regard.tasks.reading import windows
from regard.tasks.spans import of_tags
from regard.tasks.tagging import NOTHING, Reader, _balanced
from regard.text import Specials, Tokenizer
from regard.training.session import train

MODEL = {"name": "bert", "d_model": 32, "d_ff": 64, "heads": 2, "layers": 1, "dropout": 0.0, "attention_dropout": 0.0}
PEOPLE, SURNAMES, PLACES = ("anna", "bruno", "clara", "dario"), ("rossi", "meier", "lopez"), ("rome", "oslo", "paris")
LABELS = ["O", "B-person", "I-person", "B-place", "I-place"]


def sentences(count: int, seed: int) -> list[Sentence]:
    """A person, with or without a surname, does something somewhere."""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        name = [PEOPLE[random.integers(4)], *([SURNAMES[random.integers(3)]] if random.integers(2) else [])]
        verb = ("sings", "reads", "sleeps")[random.integers(3)]
        place = ["new"] * int(random.integers(2)) + [PLACES[random.integers(3)]]
        labels = ["B-person", *["I-person"] * (len(name) - 1), "O", "O", "B-place", *["I-place"] * (len(place) - 1)]
        made.append(Sentence((*name, verb, "in", *place), tuple(labels), ""))
    return made


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sentences")
    for name, count, seed in (("train", 300, 1), ("dev", 50, 2)):
        blocks = ["\n".join(map("\t".join, zip(s.words, s.labels, strict=True))) for s in sentences(count, seed)]
        (folder / f"{name}.conll").write_text("\n\n".join(blocks))
    return folder


def recipe(folder: Path, data: dict[str, Any] | None = None, **changes: Any) -> Any:
    settings = {
        "steps": 60, "batch": 32, "optimizer": "adamw", "lr": 0.005, "schedule": "constant", "warmup": 5,
        "label_smoothing": 0.0, "validate_every": 30, "save_every": 30, "batch_tokens": 1024, "parts": 1,
    }  # fmt: skip
    tree = {
        "task": "tagging", "model": MODEL, "tokenizer": {"kind": "bpe", "size": 300},
        "data": {"max_length": 24} | {n: [str(folder / f"{n}.conll")] for n in ("train", "dev")} | (data or {}),
        "train": settings | changes,
    }  # fmt: skip
    return make_recipe(tree)


@pytest.fixture(scope="module")
def trained(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "run"
    train(recipe(files), out)
    return out


@pytest.fixture(scope="module")
def reader() -> Reader:
    tokenizer = Tokenizer.learn(["anna rossi sings in new rome"] * 3, "bpe", 262)
    return Reader(tokenizer, LABELS, 16, 4)


def test_it_learns_and_says_how_well(trained: Path) -> None:
    facts = json.loads((trained / "model" / "model.json").read_text())
    assert facts["labels"] == LABELS
    scores = facts["scores"]["dev"]
    assert scores["f1"]["value"] > 0.95
    assert scores["accuracy"]["value"] > 0.95
    assert scores["f1 of person"]["spans"] == scores["f1 of place"]["spans"] == 50
    assert "f1 of place" in (trained / "model" / "README.md").read_text()


def test_it_predicts_words_and_spans(trained: Path) -> None:
    found, listed, empty = load(trained).predict(["clara lopez reads in new oslo", ["bruno", "sleeps"], ""])
    assert found.labels == ("B-person", "I-person", "O", "O", "B-place", "I-place")
    assert [(e.type, e.text, e.words) for e in found.entities] == [
        ("person", "clara lopez", (0, 2)),
        ("place", "new oslo", (4, 6)),
    ]
    assert found.entities[0].probability == pytest.approx(found.probabilities[0] * found.probabilities[1])
    assert listed.labels[0] == "B-person"
    assert (empty.words, empty.labels, empty.entities) == ((), (), [])


def test_long_sentences_lose_no_word(trained: Path) -> None:
    """Far more words than the model's 24 positions: each has its label, as it would in a short sentence."""
    given = sentences(40, 5)
    words = [word for s in given for word in s.words]
    (found,) = load(trained).predict([words])
    assert list(found.words) == words
    assert np.mean(np.array(found.labels) == [label for s in given for label in s.labels]) > 0.75


def test_what_stands_beside_a_sentence_changes_nothing(trained: Path) -> None:
    model = load(trained)
    (alone,) = model.predict(["anna sings in rome"])
    beside = model.predict(["anna sings in rome", "clara lopez reads in new oslo " * 2, "in"])[0]
    assert beside.probabilities == pytest.approx(alone.probabilities, abs=1e-5)


def test_a_resumed_run_is_the_same(files: Path, tmp_path: Path) -> None:
    train(recipe(files, steps=10, validate_every=10, save_every=5), tmp_path / "a")
    train(recipe(files, steps=20, validate_every=10, save_every=5), tmp_path / "a", resume=True)
    train(recipe(files, steps=20, validate_every=10, save_every=5), tmp_path / "b")
    a, b = ((tmp_path / name / "model" / "model.safetensors").read_bytes() for name in "ab")
    assert a == b


def test_the_command_predicts_and_evaluates(trained: Path, files: Path, tmp_path: Path) -> None:
    run = CliRunner().invoke
    lines = run(app, ["predict", str(trained), "--json"], input="dario sings in paris\n").stdout
    told = json.loads(lines)
    assert told["words"] == ["dario", "sings", "in", "paris"]
    assert told["entities"][0] | {"probability": 0} == {
        "type": "person", "text": "dario", "words": [0, 1], "probability": 0,
    }  # fmt: skip
    table = run(app, ["predict", str(trained), str(files / "dev.conll")]).stdout
    (tmp_path / "guessed.conll").write_text(table)  # columns again: word, probability, label
    again = run(app, ["evaluate", str(trained), str(tmp_path / "guessed.conll"), "--json"]).stdout
    assert json.loads(again)["scores"]["f1"] == 1
    own = run(app, ["evaluate", str(trained)]).stdout
    assert "on its dev set: 50 examples" in own
    assert "person               precision" in own


def test_without_a_dev_set_some_is_held_out(files: Path, tmp_path: Path) -> None:
    train(recipe(files, {"dev": []}, steps=2, validate_every=2), tmp_path / "run")
    held = len((tmp_path / "run" / "dev.jsonl").read_text().splitlines())
    out = CliRunner().invoke(app, ["evaluate", str(tmp_path / "run")]).stdout
    assert f"on its dev set: {held} examples" in out


def test_the_first_piece_carries_the_label(reader: Reader) -> None:
    sentence = Sentence(("anna", "zz", "sings"), ("B-person", "I-person", "O"), "")
    ((row,),) = reader.rows([sentence])
    pieces = [reader.tokenizer.encode(word) for word in sentence.words]
    assert row.tokens[1:-1].tolist() == [i for ids in pieces for i in ids]
    expected = [NOTHING]
    for label, ids in zip((1, 2, 0), pieces, strict=True):
        expected += [label, *[NOTHING] * (len(ids) - 1)]
    assert row.target.tolist() == [*expected, NOTHING]
    assert len(pieces[1]) > 1
    # A network that reads from left to right has read a word at its last piece.
    ((row,),) = Reader(reader.tokenizer, LABELS, 16, 4, "gpt").rows([sentence])
    places = [int(i) for i in np.flatnonzero(row.target != NOTHING)]
    assert places == np.cumsum([len(ids) for ids in pieces]).tolist()


def test_each_word_is_in_one_window_and_seen_whole(reader: Reader) -> None:
    random = np.random.default_rng(0)
    for _ in range(50):
        words = ["xyz"[: random.integers(1, 4)] * int(random.integers(1, 9)) for _ in range(random.integers(1, 40))]
        labels = [LABELS[random.integers(5)] for _ in words]
        (rows,) = reader.rows([Sentence(tuple(words), tuple(labels), "")])
        kept = [LABELS[i] for row in rows for i in row.target if i != NOTHING]
        assert kept == labels
        assert all(len(row.tokens) <= 16 for row in rows)


def test_a_word_of_no_pieces_or_too_many_still_has_a_label() -> None:
    tokenizer = Tokenizer.learn(["anna sings"], "word", 10)
    reader = Reader(tokenizer, LABELS, 4, 1)
    (rows,) = reader.rows([Sentence(("unheard", "", "x"), (), "")])
    assert sum(int((row.target != NOTHING).sum()) for row in rows) == 3
    byte = Reader(Tokenizer.learn([], "byte"), LABELS, 6, 2)
    (rows,) = byte.rows([Sentence(("a" * 50, "b"), (), "")])
    assert sum(int((row.target != NOTHING).sum()) for row in rows) == 2
    assert max(len(row.tokens) for row in rows) == 6


def imported(model: Any, normalizer: Any, pre_tokenizer: Any, specials: Specials) -> Tokenizer:
    inner = tokenizers.Tokenizer(model)
    inner.normalizer, inner.pre_tokenizer = normalizer, pre_tokenizer
    return Tokenizer("imported", inner, specials)


def test_words_of_imported_tokenizers_are_those_inside_a_sentence() -> None:
    numbers = {token: i for i, token in enumerate(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "anna", "##s", "in"))}
    bert = imported(
        tokenizers.models.WordPiece(numbers, unk_token="[UNK]"),
        tokenizers.normalizers.BertNormalizer(),
        tokenizers.pre_tokenizers.BertPreTokenizer(),
        Specials(0, 1, 2, 3),
    )
    ((row,),) = Reader(bert, LABELS, 16, 4).rows([Sentence(("Annas", "in", "\u200b"), (), "")])
    assert row.tokens.tolist() == [2, 4, 5, 6, 1, 3]  # of a word without a piece there is the unknown one
    assert row.target.tolist() == [NOTHING, 0, NOTHING, 0, 0, NOTHING]
    letters = ["<s>", "<pad>", "</s>", "<unk>", "Ġ", "a", "b", "Ġa"]
    roberta = imported(
        tokenizers.models.BPE({token: i for i, token in enumerate(letters)}, [("Ġ", "a")]),
        None,
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False),
        Specials(1, 3, 0, 2, doubled=True),
    )
    ((row,),) = Reader(roberta, LABELS, 16, 4).rows([Sentence(("ab", "a"), (), "")])
    assert row.tokens.tolist() == [0, 7, 6, 7, 2]


def test_a_model_from_elsewhere_predicts(reader: Reader) -> None:
    body = Bert(BertConfig(**{k: v for k, v in MODEL.items() if k != "name"}, vocabulary=len(reader.tokenizer)))
    tagger = Tagger(body, HeadConfig(), len(LABELS)).eval()
    bundle = Bundle(tagger, reader.tokenizer, reader.tokenizer, ("", ""), 32, task="tagging", labels=LABELS)
    (found,) = PREDICTORS["tagging"](bundle)(["anna sings " * 40])
    assert len(found.labels) == 80


def test_names_of_a_model_from_elsewhere_may_begin_with_i(reader: Reader) -> None:
    """IOB1: B- is for a span that follows one of its own type."""
    body = Bert(BertConfig(**{k: v for k, v in MODEL.items() if k != "name"}, vocabulary=len(reader.tokenizer)))
    tagger = Tagger(body, HeadConfig(), len(LABELS)).eval()
    bundle = Bundle(tagger, reader.tokenizer, reader.tokenizer, ("", ""), 32, task="tagging", labels=LABELS)
    theirs = PREDICTORS["tagging"](bundle).reader
    logits = np.eye(5)[[0, 4, 4, 3, 0]] * 9
    assert theirs.tags(logits) == ["O", "B-place", "I-place", "B-place", "O"]
    bundle.training = {"recipe": {}}
    assert PREDICTORS["tagging"](bundle).reader.tags(logits)[1] != "B-person"
    assert PREDICTORS["tagging"](bundle).reader.chosen(logits) != theirs.chosen(logits)


def test_labels_of_another_sort_can_be_scored(reader: Reader, tmp_path: Path) -> None:
    """A model that knows plain types, and a file of them."""
    body = Bert(BertConfig(**{k: v for k, v in MODEL.items() if k != "name"}, vocabulary=len(reader.tokenizer)))
    labels = ["O", "person", "place"]
    tagger = Tagger(body, HeadConfig(), len(labels)).eval()
    bundle = Bundle(tagger, reader.tokenizer, reader.tokenizer, ("", ""), 32, task="tagging", labels=labels)
    predictor = PREDICTORS["tagging"](bundle)
    (tmp_path / "a.conll").write_text("anna\tperson\nsings\tO\nin\tO\nrome\tplace\n")
    examples = predictor.examples([str(tmp_path / "a.conll")], print)
    assert examples[0].labels == ("B-person", "O", "O", "B-place")
    assert set(predictor.evaluate(examples)) >= {"f1", "accuracy"}


def test_the_words_column_of_training_is_that_of_prediction(tmp_path: Path) -> None:
    for name, count, seed in (("train", 30, 1), ("dev", 10, 2)):
        rows = [
            "\n".join(f"{i}\t{w}\t{label}" for i, (w, label) in enumerate(zip(s.words, s.labels, strict=True)))
            for s in sentences(count, seed)
        ]
        (tmp_path / f"{name}.conll").write_text("\n\n".join(rows))
    train(recipe(tmp_path, {"text": ["2"]}, steps=2, validate_every=2), tmp_path / "run")
    table = CliRunner().invoke(app, ["predict", str(tmp_path / "run"), str(tmp_path / "dev.conll")]).stdout
    assert table.split("\t")[0] == sentences(10, 2)[0].words[0]


def test_a_label_whose_only_example_is_held_out_is_a_label(tmp_path: Path) -> None:
    blocks = ["\n".join(map("\t".join, zip(s.words, s.labels, strict=True))) for s in sentences(40, 1)]
    rare = [f"anna\tB-kind{i}" for i in range(60)]  # of one word each, so that some are held out
    for i, row in enumerate(rare):
        rare[i] = row.replace("anna", f"word{i}")
    (tmp_path / "train.conll").write_text("\n\n".join(blocks + rare))
    run = train(recipe(tmp_path, {"dev": []}, steps=2, validate_every=2, class_weights=True), tmp_path / "run")
    assert len(run.labels) == 1 + 2 * 62


def test_windows_cover_all_share_enough_and_go_on() -> None:
    assert windows([1] * 10, 4, 2) == [(0, 4), (2, 6), (4, 8), (6, 10)]
    assert windows([1] * 10, 4, 99) == windows([1] * 10, 4, 2)  # half a window at most
    assert windows([1] * 4, 4, 2) == [(0, 4)]
    assert windows([3, 4, 1, 4], 4, 2) == [(0, 1), (1, 2), (2, 3), (3, 4)]  # no room to share anything
    assert windows([2, 2, 1, 4], 4, 2) == [(0, 2), (1, 3), (3, 4)]  # none without anything new
    assert windows([], 4, 2) == [(0, 0)]


def test_labels_are_chosen_together(reader: Reader) -> None:
    """I-place is likeliest twice, but it cannot begin a span, nor go on with a person."""
    logits = np.log(np.array([[0.3, 0.1, 0.0, 0.2, 0.4], [0.1, 0.0, 0.1, 0.1, 0.7]]) + 1e-9)
    assert [LABELS[i] for i in reader.chosen(logits)] == ["B-place", "I-place"]
    logits = np.log(np.array([[0.1, 0.9, 0.0, 0.0, 0.0], [0.0, 0.0, 0.4, 0.0, 0.6]]) + 1e-9)
    assert reader.tags(logits) == ["B-person", "I-person"]
    free = Reader(reader.tokenizer, ["O", "I-place"], 16, 4)  # a model from elsewhere that knows no B-
    assert free.tags(np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])) == ["B-place", "I-place", "O"]


def test_scores_by_hand() -> None:
    truth = [["B-a", "I-a", "O", "B-b"], ["O", "B-a"]]
    guess = [["B-a", "O", "O", "B-b"], ["B-b", "B-a"]]
    scores, types = of_tags(truth, guess)  # right: b, a; wrong: the short a, the b that is none
    assert scores == pytest.approx({"precision": 0.5, "recall": 2 / 3, "f1": 4 / 7, "accuracy": 4 / 6})
    assert types["a"] == pytest.approx({"precision": 0.5, "recall": 0.5, "f1": 0.5, "spans": 2})
    assert types["b"] == pytest.approx({"precision": 0.5, "recall": 1, "f1": 2 / 3, "spans": 1})
    strict, _ = of_tags([["B-a", "I-a"]], [["I-a", "I-a"]])
    assert strict["f1"] == 0
    assert of_tags([["O"]], [["O"]])[0] == {"precision": 0, "recall": 0, "f1": 0, "accuracy": 1}


def test_rare_labels_count_for_more(files: Path, tmp_path: Path, reader: Reader) -> None:
    rows = [row for group in reader.rows(sentences(50, 3)) for row in group]
    weights = _balanced(rows, 5)
    targets = np.concatenate([row.target for row in rows])
    assert float(weights[targets[targets != NOTHING]].sum()) == pytest.approx((targets != NOTHING).sum(), rel=1e-4)
    assert weights[2] > weights[0]
    train(recipe(files, class_weights=True, steps=2, validate_every=2), tmp_path / "run")


@pytest.mark.parametrize(
    ("text", "data", "words"),
    [
        ("anna\tO\n", {}, "every word of the training data is labelled O"),
        ("anna\tB-x\n", {}, r"dev.conll, line 1: label 'B-person' \(of '\w+'\) is not one of the training data's"),
        ("anna\tB-person\n", {"dev": []}, "too few to hold any out"),
        (None, {"train": []}, "names no training data"),
    ],
)
def test_mistakes_are_told(files: Path, tmp_path: Path, text: str | None, data: dict[str, Any], words: str) -> None:
    (tmp_path / "train.conll").write_text(text or "x\tO\n")
    settings = {"train": [str(tmp_path / "train.conll")], "dev": [str(files / "dev.conll")]} | data
    with pytest.raises(UserError, match=words):
        train(recipe(files, settings), tmp_path / "run")


def test_seqeval_is_asked_for_before_training(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "seqeval", None)
    with pytest.raises(UserError, match=r"pip install 'regard\[tagging\]'"):
        train(recipe(files), tmp_path / "run")
