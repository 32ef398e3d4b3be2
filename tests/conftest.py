"""A small corpus and a small recipe that train in seconds; a browser."""

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PEOPLE = {"the man": "el hombre", "the woman": "la mujer", "the boy": "el chico", "my sister": "mi hermana"}
VERBS = {"sees": "ve", "eats": "come", "buys": "compra", "wants": "quiere"}
THINGS = {"the bread": "el pan", "the apple": "la manzana", "the fish": "el pescado", "a cake": "un pastel"}
WHEN = {"": "", " today": " hoy", " here": " aquí", " now": " ahora"}


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """Two test processes share two cores."""
    torch.set_num_threads(1)


def make_pairs() -> list[tuple[str, str]]:
    pairs = [
        (f"{p} {v} {t}{w}", f"{PEOPLE[p]} {VERBS[v]} {THINGS[t]}{WHEN[w]}")
        for p in PEOPLE
        for v in VERBS
        for t in THINGS
        for w in WHEN
    ]
    random.Random(0).shuffle(pairs)
    return pairs


@pytest.fixture(scope="session")
def pairs() -> list[tuple[str, str]]:
    return make_pairs()


def small_recipe(**train: Any) -> dict[str, Any]:
    """A model of a few thousand weights, with dropout so that random draws matter."""
    settings = {
        "steps": 12,
        "batch_tokens": 256,
        "optimizer": "adam",
        "schedule": "constant",
        "lr": 0.003,
        "warmup": 2,
        "validate_every": 6,
        "save_every": 3,
        "log_every": 3,
        "validation_pairs": 4,
        "samples": 1,
        "threads": 1,
    }
    return {
        "model": {"d_model": 16, "d_ff": 32, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.1},
        "tokenizer": {"kind": "word", "size": 100},
        "data": {"source": "en", "target": "es"},
        "train": settings | train,
        "decode": {"beam": 1, "extra_length": 5},
    }


@pytest.fixture
def corpus(tmp_path: Path, pairs: list[tuple[str, str]]) -> Path:
    """A folder with train.tsv and dev.tsv and a recipe.toml that names them."""
    import tomli_w

    folder = tmp_path / "corpus"
    folder.mkdir()
    write_tsv(folder / "train.tsv", pairs[:200])
    write_tsv(folder / "dev.tsv", pairs[200:])
    tree = small_recipe()
    tree["data"] |= {"train": ["train.tsv"], "dev": ["dev.tsv"]}
    (folder / "small.toml").write_text(tomli_w.dumps(tree), encoding="utf-8")
    return folder


def write_tsv(path: Path, pairs: list[tuple[str, str]]) -> None:
    path.write_text("".join(f"{s}\t{t}\n" for s, t in pairs), encoding="utf-8")


BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.fixture(scope="module")  # no longer: its event loop runs in this thread, and others want one of their own
def browser() -> "Iterator[Browser]":
    """A real browser: skipped where there is none, but never in CI."""
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        missing = f"no browser: none of {', '.join(BROWSERS)} is installed"
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield launched
        launched.close()
