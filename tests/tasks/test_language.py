"""Language modelling: documents, packing, batches that replay, scores, a model that learns, resumes and is scored."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from regard.api import load
from regard.bundle import load_bundle
from regard.cli import app
from regard.config import make_recipe
from regard.data import documents as reading
from regard.data.documents import Flat, Piece, divided, documents
from regard.errors import UserError
from regard.models import GPT, GPTConfig
from regard.tasks.language import Windows, measure, windows
from regard.text import EOS, Tokenizer
from regard.training.session import train

MODEL = {"name": "gpt", "d_model": 32, "d_ff": 64, "heads": 2, "layers": 1, "dropout": 0.1, "max_positions": 32}
TEXT = (
    "".join(f"{a} {b} {c}.\n" for a in ("the cat", "a dog") for b in ("sees", "eats") for c in ("fish", "bread")) * 12
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "input.txt"
    path.write_text(TEXT)
    return path


def recipe(file: Path, data: dict[str, Any] | None = None, **changes: Any) -> Any:
    settings = {
        "steps": 60, "batch": 8, "optimizer": "adamw", "lr": 0.01, "schedule": "constant", "warmup": 5,
        "label_smoothing": 0.0, "validate_every": 30, "save_every": 30, "batch_tokens": 1024, "parts": 1,
    }  # fmt: skip
    tree = {
        "task": "language", "model": MODEL, "tokenizer": {"kind": "char", "size": 100},
        "data": {"train": [str(file)], "max_length": 32} | (data or {}), "train": settings | changes,
    }  # fmt: skip
    return make_recipe(tree)


@pytest.fixture(scope="module")
def trained(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "run"
    train(recipe(file), out)
    return out


# --- documents ------------------------------------------------------------------------------------------------------


def test_what_a_document_is(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\n\n\nthree\n")
    (tmp_path / "b.jsonl").write_text('{"text": "four\\nfive"}\n\n{"text": "six"}\n')
    paths = [tmp_path / "a.txt", tmp_path / "b.jsonl"]
    last = [Piece("four\nfive"), Piece("six")]
    assert list(documents(paths, "file")) == [Piece("one\ntwo\n\n\nthree"), *last]
    assert list(documents(paths, "line")) == [Piece("one"), Piece("two"), Piece("three"), *last]
    assert list(documents(paths, "paragraph")) == [Piece("one\ntwo"), Piece("three"), *last]
    (tmp_path / "b.jsonl").write_text('{"body": "four"}\n')
    assert list(documents(paths[1:], "file", "body")) == [Piece("four")]
    with pytest.raises(UserError, match=r"b\.jsonl, line 1: .* under 'text'"):
        list(documents(paths[1:], "file"))


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "char", "byte"])
def test_a_long_file_in_pieces_has_the_tokens_of_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    text = "the cat sat\n\n  on the mat;  \nnaïve\tcafé 12\n\n\n!! end \n and more" * 5
    (tmp_path / "a.txt").write_text(text)
    tokenizer = Tokenizer.learn([text], kind, 300)
    monkeypatch.setattr(reading, "PIECE", 10)
    pieces = list(documents([tmp_path / "a.txt"], "file"))
    assert len(pieces) > 5
    assert "".join(piece.text for piece in pieces) == text
    flat = Flat.of(pieces, tokenizer)
    assert flat.tokens.tolist() == [EOS, *tokenizer.encode(text), EOS]
    assert (flat.documents, flat.characters, flat.bytes) == (1, len(text), len(text.encode()))


def test_documents_have_an_end_symbol_before_between_and_after(tmp_path: Path) -> None:
    tokenizer = Tokenizer.learn(["ab"], "char", 20)
    a, b, space = (tokenizer.encode("ab")[i] for i in (1, 2, 0))
    expected = [EOS, space, a, b, EOS, space, b, EOS]
    assert Flat.of([Piece("ab"), Piece("b")], tokenizer).tokens.tolist() == expected
    made = Flat.at(tmp_path / "tokens", [Piece("ab"), Piece("b")], tokenizer, {"of": 1})
    assert made.tokens.tolist() == expected
    assert Flat.at(tmp_path / "tokens", [Piece("a")], tokenizer, {"of": 1}).tokens.tolist() == expected  # kept
    assert len(Flat.at(tmp_path / "tokens", [Piece("a")], tokenizer, {"of": 2}).tokens) == 4  # made of another text
    meta = json.loads((tmp_path / "tokens" / reading.META).read_text())
    older = meta | {"counts": meta["counts"][:3]}  # unknown tokens were not counted once
    (tmp_path / "tokens" / reading.META).write_text(json.dumps(older))
    tokenizer_of_b = Tokenizer.learn(["b"], "char", 20)
    assert Flat.at(tmp_path / "tokens", [Piece("ab")], tokenizer_of_b, {"of": 2}).unknown == 1
    (tmp_path / "tokens" / reading.TOKENS).write_bytes(b"\0\0")
    assert len(Flat.at(tmp_path / "tokens", [Piece("a")], tokenizer, {"of": 2}).tokens) == 4  # damaged: made anew


def test_the_end_of_a_text_is_held_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(chr(97 + i % 26) + ("\n" if i % 7 == 6 else "") for i in range(200))
    (tmp_path / "a.txt").write_text(text)

    def parts(unit: Any, share: float) -> list[list[Piece]]:
        return [list(p()) for p in divided(lambda: documents([tmp_path / "a.txt"], unit), share, unit)]

    first, last = parts("file", 0.1)
    assert [p.text for p in first] == [text[: int(len(text) * 0.9)]]
    assert [p.text for p in last] == [text[int(len(text) * 0.9) :]]
    monkeypatch.setattr(reading, "PIECE", 20)
    for share in (0.1, 0.32, 0.5):
        first, last = parts("file", share)
        assert "".join(p.text for p in first) == text[: int(len(text) * (1 - share))]
        assert "".join(p.text for p in first + last) == text
        assert [p.first for p in first] == [True] + [False] * (len(first) - 1)
        assert [p.first for p in last] == [True] + [False] * (len(last) - 1)
    first, last = parts("line", 0.25)
    assert [p.text for p in first + last] == text.split("\n")
    assert len(last) == 7  # of 29 lines


# --- batches and scores ---------------------------------------------------------------------------------------------


def test_rows_are_windows_of_the_text_and_replay() -> None:
    flat = Flat(np.arange(100, dtype="<u2"), 1, 99, 99, 0)
    stream = Windows(flat, 64, 10, seed=3)
    seen = set()
    for _ in range(20):
        batch = next(stream)
        starts = batch.tokens[:, 0]
        seen |= set(starts.tolist())
        assert torch.equal(batch.tokens, starts[:, None] + torch.arange(10))
        assert torch.equal(batch.targets, batch.tokens + 1)
        assert batch.count == 640
    assert seen == set(range(90))  # each place, the last too
    assert stream.epoch == 20 * 640 // 100
    again = Windows(flat, 64, 10, seed=3)
    again.restore(stream.state())
    assert torch.equal(next(again).tokens, next(stream).tokens)
    assert not torch.equal(next(Windows(flat, 64, 10, seed=4)).tokens, next(Windows(flat, 64, 10, seed=3)).tokens)


@pytest.mark.parametrize("count", [2, 10, 11, 12, 55, 2000])
def test_each_token_is_guessed_once(count: int) -> None:
    flat = Flat(np.arange(count, dtype="<u2"), 1, 0, 0, 0)
    batches = list(windows(flat, 10))
    assert [int(t) for b in batches for t in b.targets.flatten()] == list(range(1, count))
    assert all(torch.equal(b.targets, b.tokens + 1) for b in batches)
    assert sum(b.count for b in batches) == count - 1


class Even(nn.Module):
    """Finds every token equally likely."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.output = nn.Parameter(torch.zeros(vocabulary, 2))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return torch.ones(*tokens.shape, 2)


def test_scores_are_what_they_say() -> None:
    text = "naïve"  # five characters, six bytes
    tokenizer = Tokenizer.learn([text], "byte")
    flat = Flat.of([Piece(text)], tokenizer)
    scores = measure(Even(512), flat, 4)
    guessed = 1 + 6 + 1  # the space before a text, its bytes, the end
    assert scores["loss"] == pytest.approx(math.log(512))
    assert scores["perplexity"] == pytest.approx(512)
    assert scores["bits_per_character"] == pytest.approx(9 * guessed / 5)
    assert scores["bits_per_byte"] == pytest.approx(9 * guessed / 6)


def test_what_is_unknown_is_not_worth_bits(tmp_path: Path) -> None:
    pieces, facts = [Piece("a bird sees a dog"), Piece("a cat")], {"of": 1}
    for kind, unknown in (("word", 2), ("char", 7), ("byte", 0)):
        tokenizer = Tokenizer.learn(["a cat sees a cat"], kind)
        flat = Flat.at(tmp_path / kind, pieces, tokenizer, facts)
        assert flat.unknown == Flat.of(pieces, tokenizer).unknown == unknown
        assert ("bits_per_byte" in measure(Even(512), flat, 4)) == (unknown == 0)


def test_a_loss_is_the_mean_over_windows() -> None:
    torch.manual_seed(0)
    shape = {key: value for key, value in MODEL.items() if key != "name"}
    model = GPT(GPTConfig.model_validate(shape | {"vocabulary": 9})).eval()
    flat = Flat(np.random.default_rng(0).integers(9, size=50).astype("<u2"), 1, 49, 49, 0)
    tokens, total = torch.from_numpy(flat.tokens.astype(np.int64)), 0.0
    with torch.inference_mode():
        for start in range(0, 49, 10):
            row = tokens[start : start + 11]
            logits = model(row[None, :-1])[0] @ model.output.T
            total -= float(logits.log_softmax(-1).gather(1, row[1:, None]).sum())
    assert measure(model, flat, 10)["loss"] == pytest.approx(total / 49, abs=1e-5)


# --- training -------------------------------------------------------------------------------------------------------


def test_it_learns_and_says_how_well(trained: Path) -> None:
    facts = json.loads((trained / "model" / "model.json").read_text())
    assert facts["task"] == "language"
    scores = {name: entry["value"] for name, entry in facts["scores"]["dev"].items()}
    assert scores["loss"] < 1.2  # from log 25 = 3.2
    assert scores["perplexity"] == pytest.approx(math.exp(scores["loss"]), rel=1e-3)
    held = json.loads((trained / "dev.jsonl").read_text())["text"]
    assert held == TEXT.removesuffix("\n")[int((len(TEXT) - 1) * 0.9) :]
    assert 'generate("How a text begins")' in (trained / "model" / "README.md").read_text()


def test_evaluate_finds_the_same_score(trained: Path, file: Path) -> None:
    facts = json.loads((trained / "model" / "model.json").read_text())
    run = CliRunner().invoke(app, ["evaluate", str(trained), "--json"])
    found = json.loads(run.stdout)
    for name, entry in facts["scores"]["dev"].items():
        assert found["scores"][name] == pytest.approx(entry["value"], abs=1e-4), name
    shown = CliRunner().invoke(app, ["evaluate", str(trained), str(file)]).stdout
    assert f"{len(TEXT) - 1:,} bytes" in shown
    assert "bits per byte" in shown
    (file.parent / "other.txt").write_text("the cub sees fish")
    shown = CliRunner().invoke(app, ["evaluate", str(trained), str(file.parent / "other.txt")]).stdout
    assert "1 unknown tokens" in shown
    assert "perplexity" in shown
    assert "bits" not in shown


def test_convolutions_learn_it_write_and_are_scored(file: Path, tmp_path: Path) -> None:
    shape = {"name": "tcn", "d_model": 32, "width": 24, "layers": 3, "dropout": 0.1, "weight_norm": True}
    train(recipe(file).model_copy(update={"model": shape}), tmp_path / "run")
    loss = json.loads(CliRunner().invoke(app, ["evaluate", str(tmp_path / "run"), "--json"]).stdout)["scores"]["loss"]
    assert loss < 1.2  # from log 25 = 3.2
    assert load(tmp_path / "run").generate("the cat ", temperature=0, max_tokens=4) in ("sees", "eats")
    shown = CliRunner().invoke(app, ["generate", str(tmp_path / "run"), "a dog", "--max-tokens", "5", "--seed", "1"])
    assert shown.stdout.startswith("a dog")


def test_a_resumed_run_is_the_same(file: Path, tmp_path: Path) -> None:
    train(recipe(file, steps=10, validate_every=10), tmp_path / "a")
    train(recipe(file, steps=20, validate_every=10), tmp_path / "a", resume=True)
    train(recipe(file, steps=20, validate_every=10), tmp_path / "b")
    a, b = ((tmp_path / name / "model" / "model.safetensors").read_bytes() for name in "ab")
    assert a == b


def test_a_classifier_can_begin_from_it(trained: Path, tmp_path: Path) -> None:
    rows = "".join(f"{line}\t{int('cat' in line)}\n" for line in TEXT.splitlines())
    (tmp_path / "train.tsv").write_text(rows)
    settings = {"steps": 2, "validate_every": 2, "optimizer": "adamw", "schedule": "constant", "freeze": 1, "parts": 1}
    tree: dict[str, Any] = {
        "task": "classification", "model": {"name": "gpt"}, "train": settings,
        "data": {"train": [str(tmp_path / "train.tsv")], "max_length": 32},
    }  # fmt: skip
    with pytest.raises(UserError, match=r"has read one token alone: set head\.pooling to 'last'"):
        make_recipe(tree)
    train(make_recipe(tree | {"head": {"pooling": "last"}}), tmp_path / "run", start_from=trained)
    before, after = load_bundle(trained).model, load_bundle(tmp_path / "run").model
    assert torch.equal(after.body.tokens.weight, before.tokens.weight)
    assert load(tmp_path / "run").predict(["the cat sees fish."])[0].chosen in (("0",), ("1",))


@pytest.mark.parametrize(
    ("data", "changes", "told"),
    [
        ({"train": []}, {}, "names no training data: set data.train to text files"),
        ({}, {"batch_tokens": 16}, "a row has data.max_length = 32 tokens, a batch train.batch_tokens = 16"),
        ({"held_out": 0.99}, {}, "too few for rows of 32"),
        ({"max_length": 64}, {}, "model.max_positions is 32"),
    ],
)
def test_mistakes_are_told(
    file: Path, tmp_path: Path, data: dict[str, Any], changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(UserError, match=told):
        train(recipe(file, data, **changes), tmp_path / "run")
