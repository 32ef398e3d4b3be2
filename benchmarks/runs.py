"""Trainings that a benchmark measures: they can be stopped and run again, and their seconds add up."""

import json
import time
from pathlib import Path
from typing import Any

from benchmarks.results import KEPT, ROOT, RUNS, commit, processor, today
from regard.bundle import WEIGHTS, Bundle, find_bundle
from regard.config import Recipe, load_recipe
from regard.data.cache import fingerprint
from regard.data.sets import get
from regard.errors import UserError
from regard.files import checksum, write_text
from regard.training.fit import Event
from regard.training.prepare import absolute_paths
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
    _same_training(folder, load_recipe(path, overrides or []), path.parent, start_from)
    clock = folder / "sessions.json"
    before: list[dict[str, Any]] = json.loads(clock.read_text()) if clock.exists() else []
    KEPT.extend(f"{name}, at {s['commit']} on {s['date']}, {s['cpu']}" for s in before)
    start, here = time.perf_counter(), {"commit": commit(), "date": today(), "cpu": processor()}
    show = Show()

    def note(event: Event) -> None:
        """At every line, since it may be killed. One that only finds a finished model adds nothing."""
        if event["event"] not in ("prepare", "warning", "finished"):
            now = here | {"seconds": time.perf_counter() - start}
            write_text(clock, json.dumps([*before, now]))

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
            callbacks=[show, note],
        )
    finally:
        show.close()
    return bundle, sum(session["seconds"] for session in json.loads(clock.read_text()))


def _same_training(folder: Path, recipe: Recipe, base: Path, start_from: Path | None) -> None:
    """A kept run of another recipe, other data or another model would be told of as this one: a person removes it."""
    data = absolute_paths(recipe, base).data
    files = fingerprint([*data.train, *data.dev, *data.test])
    parent = checksum(find_bundle(start_from) / WEIGHTS) if start_from else ""
    asked = recipe.to_toml() + f"# data: {sorted(files.values())}, from: {parent}\n"
    kept = folder / "asked.toml"
    if kept.exists() and kept.read_text() != asked:
        raise UserError(f"{folder} was trained with another recipe or other data; remove it to train anew")
    write_text(kept, asked)


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
        "precision": bundle.training.get("precision", "not told"),
        "parameters": bundle.parameters,
        "training_pairs": bundle.training["pairs"],
        "seed": bundle.training["recipe"]["seed"],
    }


def data_files(bundle: Bundle) -> list[str]:
    """The names of the data, without the folder they lay in."""
    data = bundle.training["recipe"]["data"]
    return ["/".join(Path(p).parts[-2:]) for name in ("train", "dev", "test") for p in data.get(name, [])]
