"""Ours and the peers side by side in minutes: training the tiny Transformer, and translating with a small model."""

import shutil
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

from benchmarks import peers, train_speed, translate_speed
from benchmarks.results import RUNS
from regard.bundle import Bundle
from regard.config import make_recipe
from regard.data.formats import read_lines
from regard.data.grammar import generate
from regard.files import write_text
from regard.training.session import train

ABOUT = "A short look at what train-speed and translate-speed measure at length."

ROUNDS, SECONDS = 5, 10.0  # of training
LINES, TURNS = {False: 200, True: 10}, {False: 5, True: 20}  # translated in bulk, one at a time
PAIRS = {"train": 20_000, "dev": 200, "test": 200}
FOLDER = RUNS / "quick"


def run() -> dict[str, Any]:
    training, rounds = train_speed.compare("tiny", ["OpenNMT-py"], ROUNDS, SECONDS)
    model = _model(FOLDER / "run")
    test, fresh = (
        [line.split("\t") for line in read_lines(FOLDER / "run" / "data" / f"{split}.tsv")]
        for split in ("test", "train")
    )
    source, target = ([pair[side] for pair in test] for side in (0, 1))
    rows, speeds = translate_speed.measured(
        translate_speed.started(model, FOLDER), model, (source, target), (pair[0] for pair in fresh), LINES, TURNS
    )
    tables = {"Training, target tokens a second": rounds, "Translating the embedded corpus": rows}
    versions = peers.versions("opennmt", "transformers")
    return training | translate_speed.ratios(speeds) | {"seed": 1, "versions": versions, "tables": tables}


def _model(folder: Path) -> Bundle:
    """The demo's, trained for less long, with one vocabulary of subwords, as the peers want it."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "data").mkdir(parents=True)
    for split, count in PAIRS.items():
        lines = (f"{sentence.source}\t{sentence.target}\n" for sentence in generate(split, count, seed=1))
        write_text(folder / "data" / f"{split}.tsv", "".join(lines))
    tree = tomllib.loads(resources.files("regard").joinpath("recipes/demo.toml").read_text(encoding="utf-8"))
    recipe = make_recipe(
        tree,
        [
            "tokenizer.kind=bpe",
            "tokenizer.size=1000",
            "tokenizer.shared=true",
            "train.steps=300",
            "train.validate_every=300",
        ],
    )
    return train(recipe, folder, base=folder)
