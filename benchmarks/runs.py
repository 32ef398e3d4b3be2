"""Trainings that a benchmark measures: they can be stopped and run again, and their seconds add up."""

import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.results import ROOT, RUNS
from regard.bundle import Bundle
from regard.config import load_recipe
from regard.data.sets import get
from regard.training.progress import Show
from regard.training.session import train


def trained(
    name: str, data: str | None, recipe: str, overrides: list[str] | None = None, start_from: Path | None = None
) -> tuple[Bundle, float]:
    """The bundle, and the wall-clock seconds of all sessions: preparing, training, validating, final scores.

    data: a known set to get, or None for one that $REGARD_DATA must have. start_from: a model to fine-tune.
    """
    if data is not None:
        get(data)  # from $REGARD_DATA or by download
    folder, path = RUNS / name, ROOT / "recipes" / recipe
    folder.mkdir(parents=True, exist_ok=True)
    _same_recipe(folder, load_recipe(path, overrides or []).to_toml())
    clock = folder / "sessions.json"
    before: list[float] = json.loads(clock.read_text()) if clock.exists() else []
    start = time.perf_counter()
    show = Show()
    try:
        begun = (folder / "recipe.toml").exists()
        if begun and start_from is not None and any((folder / "checkpoints").glob("*")):
            path, start_from = folder / "recipe.toml", None  # it goes on from its own weights, with their shape
        bundle = train(
            load_recipe(path, overrides or []),
            folder,
            base=path.parent,
            resume=begun,
            start_from=start_from,
            callbacks=[show],
        )
    finally:
        show.close()
        sessions = [*before, time.perf_counter() - start]
        clock.write_text(json.dumps(sessions))
    return bundle, sum(sessions)


def _same_recipe(folder: Path, asked: str) -> None:
    """A kept run of another recipe would be told of as this one's: it is for a person to remove."""
    kept = folder / "asked.toml"
    if kept.exists() and kept.read_text() != asked:
        sys.exit(f"{folder} was trained with another recipe; remove it to train anew")
    kept.write_text(asked)


def seeds(name: str, recipe: str, count: int = 3, start_from: Path | None = None) -> dict[str, Any]:
    """The same training from several seeds: the mean of the dev set's accuracy, and what it took."""
    runs = [trained(f"{name}-{i}", None, recipe, [f"seed={i}"], start_from) for i in range(1, count + 1)]
    accuracies = [bundle.scores["dev"]["accuracy"]["value"] for bundle, _ in runs]
    return {
        "accuracy": round(sum(accuracies) / count, 4),
        "accuracies": accuracies,
        "seconds": [round(seconds) for _, seconds in runs],
        "longest_seconds": round(max(seconds for _, seconds in runs)),
        "steps": runs[0][0].training["steps"],
        "parameters": runs[0][0].parameters,
        "training_examples": runs[0][0].training["pairs"],
        "seeds": list(range(1, count + 1)),
        "data": data_files(runs[0][0]),
    }


def facts(bundle: Bundle, seconds: float) -> dict[str, Any]:
    """What every training benchmark reports."""
    return {
        "train_seconds": round(bundle.training["seconds"]),
        "session_seconds": round(seconds),
        "steps": bundle.training["steps"],
        "target_tokens": bundle.training["target_tokens"],
        "parameters": bundle.parameters,
        "training_pairs": bundle.training["pairs"],
        "seed": bundle.training["recipe"]["seed"],
    }


def data_files(bundle: Bundle) -> list[str]:
    """The names of the data, without the folder they lay in."""
    data = bundle.training["recipe"]["data"]
    return ["/".join(Path(p).parts[-2:]) for name in ("train", "dev", "test") for p in data.get(name, [])]
