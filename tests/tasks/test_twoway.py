"""Two-way language modelling from plain text, and what it learned as features of a classifier or a tagger."""

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
from regard.errors import UserError
from regard.tasks.twoway import Reader, measure
from regard.text import Tokenizer
from regard.training.session import train

MODEL = {"name": "elmo", "d_model": 32, "cells": 48, "windows": (1, 2, 3), "maps": (8, 8, 16), "dropout": 0.0}
TASKS = {"txt": "two-way", "tsv": "classification", "conll": "tagging"}
SUBJECTS, VERBS = ("cats", "dogs", "owls", "eels"), ("purr", "bark", "soar", "swim")  # batches are of like lengths


def lines(count: int, seed: int) -> list[str]:
    """The first word tells the last one, and the last one the first."""
    which = np.random.default_rng(seed).integers(4, size=count)
    return [f"{SUBJECTS[i]} here {VERBS[i]}" for i in which]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    for name, count, seed in (("train", 300, 1), ("dev", 60, 2)):
        (folder / f"{name}.txt").write_text("\n\n".join(lines(count, seed)) + "\n")
        labelled = [f"{line}\t{'air' if 'soar' in line else 'ground'}\n" for line in lines(count, seed)]
        (folder / f"{name}.tsv").write_text("".join(labelled))
    return folder


def recipe(folder: Path, kind: str = "txt", **changes: Any) -> Any:
    settings = {
        "steps": 200, "batch": 32, "optimizer": "adam", "lr": 0.01, "schedule": "linear", "warmup": 5, "parts": 1,
        "label_smoothing": 0.0, "validate_every": 100, "save_every": 100, "batch_tokens": 2048, "clip": 1.0,
    }  # fmt: skip
    return make_recipe(
        {
            "task": TASKS[kind], "model": MODEL, "tokenizer": {"kind": "byte"},
            "head": {"pooling": "mean"}, "train": settings | changes,
            "data": {"max_length": 60} | {name: [str(folder / f"{name}.{kind}")] for name in ("train", "dev")},
        }
    )  # fmt: skip


@pytest.fixture(scope="module")
def trained(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "run"
    train(recipe(files), out)
    return out


def test_it_learns_what_can_be_known(trained: Path) -> None:
    """Of four guesses each way the first is one of four words; what follows is certain, if the first is remembered."""
    facts = json.loads((trained / "model" / "model.json").read_text())
    assert facts["labels"][:4] == ["<s>", "</s>", "<unk>", "here"]
    assert facts["scores"]["dev"]["loss"]["value"] == pytest.approx(np.log(4) / 4, abs=0.05)
    assert facts["scores"]["dev"]["perplexity"]["value"] == pytest.approx(4 ** (1 / 4), abs=0.1)


def test_neighbours_in_a_batch_change_nothing(trained: Path) -> None:
    bundle = load(trained).bundle
    reader = Reader(bundle.source, bundle.labels, 60)
    texts = ["cats here purr", "dogs run", "a longer line than all others are"]
    alone = [measure(bundle.model, reader, reader.rows([text])) for text in texts]
    counts = [2 * (len(text.split()) + 1) for text in texts]
    mean = sum(one["loss"] * n for one, n in zip(alone, counts, strict=True)) / sum(counts)
    assert measure(bundle.model, reader, reader.rows(texts))["loss"] == pytest.approx(mean, abs=1e-5)


def test_evaluate_finds_the_same_score(files: Path, trained: Path, tmp_path: Path) -> None:
    told = load(trained).bundle.scores["dev"]
    found = json.loads(CliRunner().invoke(app, ["evaluate", str(trained), "--json"]).stdout)
    assert (found["rows"], found["words"]) == (60, 180)
    for name in ("loss", "perplexity"):
        assert found["scores"][name] == pytest.approx(told[name]["value"], abs=1e-4)
    shown = CliRunner().invoke(app, ["evaluate", str(trained), str(files / "train.txt")]).stdout
    assert "300 rows, 900 words" in shown
    assert "perplexity" in shown
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(UserError, match="there is no text"):
        CliRunner().invoke(app, ["evaluate", str(trained), str(tmp_path / "empty.txt")], catch_exceptions=False)


def test_as_features_of_a_tagger(trained: Path, tmp_path: Path) -> None:
    for name, count, seed in (("train", 300, 1), ("dev", 60, 2)):
        rows = [[(w, "B-bird" if w == "owls" else "O") for w in line.split()] for line in lines(count, seed)]
        text = "\n".join("".join(f"{word}\t{label}\n" for word, label in row) for row in rows)
        (tmp_path / f"{name}.conll").write_text(text)
    made = recipe(tmp_path, "conll", freeze=3, steps=60, lr=0.05).model_dump(exclude_none=True)
    for_bert = {"model": {"attention_dropout": 0.0}, "tokenizer": {"kind": "bpe"}}  # a recipe for one will do
    bundle = train(make_recipe(made | for_bert), tmp_path / "run", start_from=trained)
    assert bundle.scores["dev"]["f1"]["value"] > 0.95
    (tagged,) = load(tmp_path / "run").predict(["owls here soar"])
    assert tagged.labels == ("B-bird", "O", "O")


def test_as_features_of_a_classifier(files: Path, trained: Path, tmp_path: Path) -> None:
    before = load(trained).bundle.model
    bundle = train(recipe(files, "tsv", freeze=3, steps=80, lr=0.05), tmp_path / "run", start_from=trained)
    assert bundle.scores["dev"]["accuracy"]["value"] > 0.95
    after = dict(bundle.model.named_parameters())
    for name, old in before.named_parameters():
        if name.startswith("body."):
            assert torch.equal(old, after[name]) != name.startswith("body.mix."), name
    assert load(tmp_path / "run").predict(["owls here soar"])[0].chosen == ("air",)


def test_a_resumed_run_is_the_same(files: Path, tmp_path: Path) -> None:
    for steps in (4, 8):
        train(recipe(files, steps=steps, schedule="constant"), tmp_path / "a", resume=steps > 4)
    train(recipe(files, steps=8, schedule="constant"), tmp_path / "b")
    a, b = ((tmp_path / name / "model" / "model.safetensors").read_bytes() for name in "ab")
    assert a == b


def test_long_texts_come_in_pieces() -> None:
    reader = Reader(Tokenizer.learn(iter(()), "byte"), ["<s>", "</s>", "<unk>", "ab"], 12)
    rows = reader.rows(["ab cd  ab ef", "waytoolongforthis ab", ""])
    assert [row.target.tolist() for row in rows] == [[0, 3, 2, 3, 1], [0, 2, 1], [0, 3, 1]]
    assert [len(row.tokens) for row in rows] == [11, 5, 5]


def test_other_tokens_are_refused(files: Path) -> None:
    with pytest.raises(UserError, match=r"set tokenizer\.kind = 'byte'"):
        make_recipe({"task": "two-way", "tokenizer": {"kind": "bpe"}})
