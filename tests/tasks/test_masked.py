"""Pre-training from plain text: what is hidden, what follows what, and a model that goes on to another task."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from regard.api import load
from regard.cli import app
from regard.config import make_recipe
from regard.data.documents import Flat, Piece
from regard.errors import UserError
from regard.tasks import masked
from regard.tasks.masked import FOLLOWS, NOTHING, STRANGE, Masks, Texts
from regard.tasks.reading import RowBatches
from regard.tasks.task import Asked
from regard.text import Tokenizer
from regard.training.session import train

MODEL = {
    "name": "bert", "d_model": 32, "d_ff": 64, "heads": 2, "layers": 1, "norm": "pre", "dropout": 0.1,
    "attention_dropout": 0.0,
}  # fmt: skip
BYTES = Tokenizer.learn([], "byte", 261, mask=True)
SPECIALS = BYTES.specials
THINGS = {"sun": "warm", "snow": "cold", "night": "dark", "day": "bright", "sea": "deep", "hill": "high"}


def documents(count: int, seed: int = 0) -> list[list[str]]:
    """Of some paragraphs each, in which the thing tells the word that is said of it."""
    random = np.random.default_rng(seed)
    names = list(THINGS)
    return [
        [f"the {(n := names[random.integers(6)])} is {THINGS[n]} and so it stays" for _ in range(random.integers(1, 5))]
        for _ in range(count)
    ]


def flat(some: list[list[str]]) -> Flat:
    return Flat.of([Piece("\n".join(document)) for document in some], BYTES)


def texts(**options: Any) -> Texts:
    return Texts(flat(documents(40)), BYTES, 64, **options)


# --- rows -----------------------------------------------------------------------------------------------------------


def test_rows_are_all_of_the_text_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = texts()
    together = np.concatenate([row.tokens for row in rows])
    assert together.tolist() == rows.tokens.tolist()[1 : 1 + len(together)]
    assert len(rows.tokens) - 1 - len(together) <= 1
    assert all(len(row.tokens) == 62 for row in list(rows)[:-1])
    monkeypatch.setattr(masked, "CHUNK", 100)
    pairs = texts(pairs=True)
    wanted = ["\n".join(document) for document in documents(40)]
    read = [BYTES.decode(pairs.tokens[a:b].tolist()) for a, b in zip(pairs.begins, pairs.ends, strict=True)]
    assert read == wanted
    together = np.concatenate([row.tokens for row in pairs])
    assert sum(len(BYTES.encode(text)) for text in wanted) - len(together) <= len(wanted)
    assert SPECIALS.end not in together
    assert [len(row.tokens) + 2 for row in pairs] == pairs.lengths(np.arange(len(pairs)))[0].tolist()


# --- masks ----------------------------------------------------------------------------------------------------------


def test_as_many_words_are_picked_as_published_and_never_a_special_symbol() -> None:
    masks, draws = Masks(BYTES), np.random.default_rng(0)
    tokens = np.random.default_rng(1).integers(4, 260, 20_000)
    tokens = np.concatenate([tokens, np.repeat(sorted(SPECIALS.ids), 400)])
    np.random.default_rng(2).shuffle(tokens)
    seen, targets = masks(tokens, draws)
    picked = targets != NOTHING
    assert picked.sum() == 3000
    assert not picked[np.isin(tokens, list(SPECIALS.ids))].any()
    assert (targets[picked] == tokens[picked]).all()
    assert (seen[~picked] == tokens[~picked]).all()
    hidden, kept = seen[picked] == SPECIALS.mask, seen[picked] == tokens[picked]
    other = ~hidden & ~kept
    assert hidden.mean() == pytest.approx(0.8, abs=0.03)
    assert kept.mean() == pytest.approx(0.1, abs=0.02)
    assert other.mean() == pytest.approx(0.1, abs=0.02)
    assert not np.isin(seen[picked][other], list(SPECIALS.ids)).any()
    assert len(set(seen[picked][other].tolist())) > 150
    places = np.flatnonzero(picked)
    assert np.histogram(places, 4, (0, len(tokens)))[0] == pytest.approx(750, abs=90)  # everywhere alike


@pytest.mark.parametrize(("length", "count"), [(1, 1), (3, 1), (10, 2), (62, 9), (100, 15)])
def test_the_count_is_exact(length: int, count: int) -> None:
    tokens = np.array([SPECIALS.begin, *[7] * length, SPECIALS.end])
    for seed in range(5):
        assert (Masks(BYTES)(tokens, np.random.default_rng(seed))[1] != NOTHING).sum() == count


def test_another_share_is_for_training_alone(files: Path, tmp_path: Path) -> None:
    task, _ = masked.prepare(Asked(recipe(files, data={"masked": 0.4}), tmp_path, lambda event: None))
    for rows, share in ((task.batches.rows, 0.4), (task.dev, 0.15)):
        batch = rows.collate([rows[0]], np.random.default_rng(0))
        words = len(rows[0].tokens)
        assert int((batch.targets[:, 1:] != NOTHING).sum()) == round(share * words)


def test_every_validation_hides_the_same_words() -> None:
    rows = texts(pairs=True)
    first, again = (rows.collate([rows[i] for i in (3, 0, 5)], None) for _ in range(2))
    alone = rows.collate([rows[5]], None)
    assert torch.equal(first.tokens, again.tokens)
    assert torch.equal(first.targets[2:, : alone.targets.size(1)], alone.targets)


def drawn(batches: RowBatches, count: int) -> list[Any]:
    return [next(batches).tokens for _ in range(count)]


def same(some: list[Any], others: list[Any]) -> bool:
    return all(a.shape == b.shape and torch.equal(a, b) for a, b in zip(some, others, strict=True))


@pytest.mark.parametrize("pairs", [False, True])
def test_a_resumed_run_draws_the_same_masks(pairs: bool) -> None:
    rows = texts(pairs=pairs)
    a, b = (RowBatches(rows, 512, 0, 3, rows.collate) for _ in range(2))
    drawn(a, 5)
    b.restore(a.state())
    assert same(drawn(a, 9), drawn(b, 9))


def test_masks_are_drawn_anew_each_epoch_or_once() -> None:
    def epochs(static: bool, pairs: bool) -> list[Any]:
        rows = texts(static=static, pairs=pairs)
        batches, found = RowBatches(rows, 64, 1, 3, rows.collate), []
        for epoch in range(2):
            made = []
            while batches.epoch == epoch:
                made.append(next(batches))
            found.append(sorted(tuple(batch.tokens[0].tolist()) for batch in made))
        return found

    for pairs in (False, True):
        first, second = epochs(static=True, pairs=pairs)
        assert first == second
        first, second = epochs(static=False, pairs=pairs)
        assert first != second


# --- what follows ---------------------------------------------------------------------------------------------------


def test_half_of_the_second_texts_follow_and_half_are_from_elsewhere() -> None:
    rows = Texts(flat(documents(400)), BYTES, 96, pairs=True)
    rows.masks = lambda tokens, draws: (tokens, np.full_like(tokens, NOTHING))  # type: ignore[assignment]
    labels = []
    whole = {"\n".join(document) for document in documents(400)}
    for row in rows:
        batch = rows.collate([row], np.random.default_rng(row.target))
        second = int(batch.segments.argmax()) if batch.segments is not None else 0
        assert second > 2
        assert batch.tokens[0, second - 1] == SPECIALS.end
        first, other = batch.tokens[0, 1 : second - 1], batch.tokens[0, second:-1]
        labels.append(int(batch.targets[0, 0]))
        assert row.tokens[: len(first)].tolist() == first.tolist()
        assert 1 <= len(other) <= len(row.tokens) - len(first)
        if labels[-1] == FOLLOWS:
            assert row.tokens[: len(first) + len(other)].tolist() == [*first.tolist(), *other.tolist()]
        else:
            assert any(BYTES.decode(other.tolist()) in text for text in whole)
    assert set(labels) == {FOLLOWS, STRANGE}
    assert np.mean(labels) == pytest.approx(0.5, abs=0.06)


def test_neither_the_length_nor_the_beginning_tells_whether_a_text_follows() -> None:
    """Documents of one to thirty lines: what guesses from these two alone is right half the time."""
    made = np.random.default_rng(0)
    lines = [[f"line {i} " + "x" * int(made.integers(30)) for i in range(made.integers(1, 30))] for _ in range(300)]
    rows = Texts(flat(lines), BYTES, 96, pairs=True)
    found: dict[tuple[int, bool], list[int]] = {}
    for row in rows:
        for seed in range(4):
            first, second, label = rows._pair(row, np.random.default_rng([row.target, seed]))
            begins = BYTES.decode(second.tolist()).startswith("line ")
            found.setdefault((len(first) + len(second), begins), []).append(label)
    count = sum(map(len, found.values()))
    guessed = sum(max(labels.count(FOLLOWS), labels.count(STRANGE)) for labels in found.values() if len(labels) > 200)
    seen = sum(len(labels) for labels in found.values() if len(labels) > 200)
    assert seen > count / 2 > 2000
    assert guessed / seen < 0.54


def test_a_row_is_cut_where_a_line_ends() -> None:
    rows = Texts(flat([["aaaa", "bbbb", "cccc"], ["dddddddd"]]), BYTES, 32, pairs=True)
    places = {rows._break(rows[0].tokens, np.random.default_rng(seed)) for seed in range(30)}
    assert places == {6, 11}  # a text is opened with a space
    assert {rows._break(rows[1].tokens, np.random.default_rng(seed)) for seed in range(60)} == set(range(1, 9))


def test_another_document_is_another_one() -> None:
    rows = Texts(flat([["a" * 200], ["b" * 30], ["c" * 30]]), BYTES, 32, pairs=True)
    space = BYTES.encode("a")[0]
    for row in rows:
        for seed in range(20):
            _, second, label = rows._pair(row, np.random.default_rng(seed))
            assert (set(second.tolist()) <= {*row.tokens.tolist(), space}) == (label == FOLLOWS)


# --- training -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    for name, count, seed in (("train", 150, 1), ("dev", 20, 2)):
        some = ["\n".join(document) for document in documents(count, seed)]
        (folder / f"{name}.txt").write_text("\n\n".join(some))
        # One document, a line of nine words with its end: a row is just a line.
        (folder / f"{name}-one.txt").write_text("\n".join(some))
    return folder


def recipe(folder: Path, *, data: Any = None, head: Any = None, model: Any = None, **changes: Any) -> Any:
    settings = {
        "steps": 100, "batch_tokens": 512, "optimizer": "muon", "lr": 0.03, "schedule": "constant", "warmup": 5,
        "label_smoothing": 0.0, "validate_every": 100, "save_every": 100, "parts": 1,
    }  # fmt: skip
    tree = {
        "task": "masked", "model": MODEL | (model or {}), "tokenizer": {"kind": "word", "size": 60}, "head": head or {},
        "data": {name: [str(folder / f"{name}.txt")] for name in ("train", "dev")} | {"max_length": 32} | (data or {}),
        "train": settings | changes,
    }  # fmt: skip
    return make_recipe(tree)


@pytest.fixture(scope="module")
def trained(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "run"
    data = {name: [str(files / f"{name}-one.txt")] for name in ("train", "dev")} | {"max_length": 11}
    train(recipe(files, data=data, model={"dropout": 0.0}), out)
    return out


def test_it_learns_to_fill_in(trained: Path) -> None:
    facts = json.loads((trained / "model" / "model.json").read_text())
    assert facts["task"] == "masked"
    scores = {name: score["value"] for name, score in facts["scores"]["dev"].items()}
    assert scores["accuracy"] > 0.8
    assert scores["perplexity"] == pytest.approx(np.exp(scores["loss"]), rel=1e-3)
    found = load(trained).predict(["the snow is <mask> and so it stays", "the <mask> is dark and so <mask> stays"])
    assert [[next(iter(mask)) for mask in text.masks] for text in found] == [["cold"], ["night", "it"]]
    assert 0.5 < found[0].masks[0]["cold"] <= 1
    assert len(found[0].masks[0]) == 10


def test_the_command_fills_in_and_scores(trained: Path, files: Path, tmp_path: Path) -> None:
    run = CliRunner().invoke
    said = run(app, ["predict", str(trained), "--top", "2"], input="the snow is <mask> and so it stays\n")
    assert said.exit_code == 0, said.output
    assert said.output.startswith("cold 0.")
    assert said.output.endswith("\tthe snow is <mask> and so it stays\n")
    said = run(app, ["predict", str(trained), "--json"], input="the snow is <mask> and so <mask> stays\n")
    assert [next(iter(mask)) for mask in json.loads(said.output)["masks"]] == ["cold", "it"]
    said = run(app, ["evaluate", str(trained), str(files / "dev-one.txt"), "--json"])
    dev = json.loads((trained / "model" / "model.json").read_text())["scores"]["dev"]
    assert json.loads(said.output)["scores"]["loss"] == pytest.approx(dev["loss"]["value"], abs=1e-3)
    assert json.loads(said.output)["examples"] > 1  # rows of the one file
    said = run(app, ["predict", str(trained), str(files / "dev-one.txt"), "--text", "a"])
    assert "--text names columns; a model for masked reads none" in str(said.exception)


def test_a_text_without_a_mask_is_refused(trained: Path) -> None:
    with pytest.raises(UserError, match="there is no <mask> to be filled in here: 'the snow'"):
        load(trained).predict(["the snow"])
    with pytest.raises(UserError, match="43 tokens, where this model reads up to 11"):
        load(trained).predict(["snow " * 40 + "<mask>"])


def test_a_resumed_run_is_the_same(files: Path, tmp_path: Path) -> None:
    changes: dict[str, Any] = {"head": {"next_sentence": True}, "validate_every": 6, "save_every": 6}
    train(recipe(files, steps=6, **changes), tmp_path / "a")
    train(recipe(files, steps=12, **changes), tmp_path / "a", resume=True)
    train(recipe(files, steps=12, **changes), tmp_path / "b")
    a, b = ((tmp_path / name / "model" / "model.safetensors").read_bytes() for name in "ab")
    assert a == b
    scores = json.loads((tmp_path / "a" / "model" / "model.json").read_text())["scores"]["dev"]
    assert 0 <= scores["next_sentence_accuracy"]["value"] <= 1


def test_documents_are_held_out_when_there_is_no_dev_set(files: Path, tmp_path: Path) -> None:
    train(recipe(files, data={"dev": []}, steps=2, validate_every=2), tmp_path / "run")
    held = [json.loads(line)["text"] for line in (tmp_path / "run" / "dev.jsonl").read_text().splitlines()]
    every = ["\n".join(document) for document in documents(150, 1)]
    assert 5 < len(held) < 30
    assert held == every[-len(held) :]


def test_a_classifier_goes_on_from_it(trained: Path, tmp_path: Path) -> None:
    rows = [(f"the {thing} is {word}", str(int(thing < "n"))) for thing, word in THINGS.items()]
    for name, times in (("train", 20), ("dev", 2)):
        (tmp_path / f"{name}.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in rows * times))
    tree = {
        "task": "classification", "head": {"pooling": "mean"},
        "data": {name: [str(tmp_path / f"{name}.tsv")] for name in ("train", "dev")} | {"max_length": 20},
        "train": {"steps": 40, "batch": 16, "optimizer": "adamw", "lr": 0.003, "schedule": "linear", "warmup": 5,
                  "label_smoothing": 0.0, "validate_every": 40, "parts": 1},
    }  # fmt: skip
    still = make_recipe(tree, ["freeze=1", "steps=1"])
    train(still, tmp_path / "still", start_from=trained)
    before, after = load(trained).bundle, load(tmp_path / "still").bundle
    assert after.source.checksum == before.source.checksum
    assert torch.equal(after.model.body.tokens.weight, before.model.body.tokens.weight)
    bundle = train(make_recipe(tree), tmp_path / "run", start_from=trained)
    assert bundle.task == "classification"
    assert bundle.scores["dev"]["accuracy"]["value"] == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data": {"train": []}}, "names no training data"),
        ({"data": {"max_length": 3}}, "leaves no room for text; 4 is the least"),
        ({"data": {"train": ["one.txt"]}, "head": {"next_sentence": True}}, "two documents at least"),
        ({"data": {"train": ["empty.txt"]}}, "there is no text"),
        ({"metric": "bleu"}, "is not one of masked's"),
    ],
)
def test_mistakes_are_told(files: Path, tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    (tmp_path / "one.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / "empty.txt").write_text("\n\n")
    with pytest.raises(UserError, match=words):
        train(recipe(files, **changes), tmp_path / "run", base=tmp_path)


def test_next_sentence_needs_segments(files: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"set model\.segments = 2"):
        train(recipe(files, head={"next_sentence": True}, model={"segments": 1}), tmp_path / "run")


# --- text with masks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["byte", "bpe", "word"])
def test_a_mask_in_a_text_stands_for_a_word_with_its_space(kind: str) -> None:
    tokenizer = Tokenizer.learn(["the cat sat, and slept"] * 5, kind, 300, mask=True)
    mask, whole = tokenizer.specials.mask, tokenizer.encode("the cat sat, and slept")
    word = tokenizer.encode("cat")
    place = next(i for i in range(len(whole)) if whole[i : i + len(word)] == word)
    expected = [*whole[:place], mask, *whole[place + len(word) :]]
    assert tokenizer.encode_masked("the <mask> sat, and slept") == expected
    (rest,) = tokenizer.encode_batch([", and slept"], going_on=[True])
    assert tokenizer.encode_masked("<mask>, and slept") == [mask, *rest]
    assert tokenizer.encode_masked("<mask> <mask>") == [mask, mask]
    assert tokenizer.encode_masked("the cat sat, and slept") == whole
    assert mask not in tokenizer.encode("the <mask> sat")
