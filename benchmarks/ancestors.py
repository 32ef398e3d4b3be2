"""The Transformer beside its ancestors on Multi30k en-de: the same data and minutes, one architecture a row.

Each system's number of updates is reckoned from its own measured speed, so that all train for as long. Runs can be
stopped and taken up again.
"""

import json
import time
from itertools import pairwise
from typing import Any

from benchmarks.plots import chart
from benchmarks.results import RESULTS, ROOT, RUNS, machine, write
from benchmarks.runs import data_files, trained
from regard.api import Model
from regard.bundle import Bundle
from regard.config import load_recipe
from regard.data.formats import read_lines
from regard.data.sets import get, resolve
from regard.files import cache_folder, write_text
from regard.memory import keep_freed_memory
from regard.nn import native
from regard.tasks.scores import score
from regard.tasks.task import Asked
from regard.training.prepare import PREPARE, absolute_paths
from regard.training.update import Update
from regard.workers import no_denormals

ABOUT = (
    "Multi30k en-de, test_2016_flickr, lower-cased and tokenised, beam 5; each system planned for 25 minutes; the "
    "table has the seconds it took, and on which machine."
)
MINUTES = 25.0
WARM, TIMED = 5, 100  # updates whose time does not count, and those that do
SPARE = 0.1  # of the time: a machine has slower stretches than the one that was timed
LENGTHS = (0, 8, 11, 14, 18, 100)  # words of the source: the bounds of the groups that are scored
BARS = {"bleu.rnn_additive": 28.0, "bleu.conv": 26.0, "bleu.attention_gain": 3.0}
FOLDER = RUNS / "ancestors"

# Name -> recipe, and what is changed in it.
SYSTEMS: dict[str, tuple[str, list[str]]] = {
    "rnn_additive": ("multi30k-rnn.toml", []),
    "rnn_none": ("multi30k-rnn-none.toml", []),
    "conv": ("multi30k-conv.toml", []),
    "transformer": ("multi30k-tiny.toml", ["model.dropout=0.25"]),
    "rnn_dot": ("multi30k-rnn.toml", ["model.attention=dot"]),
    "cnn_rnn": ("multi30k-rnn.toml", ["model.encoder=cnn", "model.encoder_layers=4", "model.d_encoder=192"]),
}


def run(minutes: float = MINUTES, only: list[str] | None = None) -> dict[str, Any]:
    """only: these systems; what was measured of the others before, wherever that was, stays."""
    get("multi30k")
    before = json.loads((RESULTS / "ancestors.json").read_text(encoding="utf-8")) if only else {}
    here = machine()
    measured = before["tables"]["Systems"] if only else []
    rows: list[dict[str, Any]] = [row for row in measured if row["system"] not in (only or [])]
    by_length: dict[str, dict[str, float]] = {row["system"]: before["by_length"][row["system"]] for row in rows}
    figures: dict[str, Any] = {f"bleu.{row['system']}": row["BLEU"] for row in rows} | {
        f"parameters.{row['system']}": row["parameters"] for row in rows
    }
    figures |= {
        "minutes": minutes,
    }
    for name in only or SYSTEMS:
        recipe, changes = SYSTEMS[name]
        steps = planned(name, minutes)
        overrides = [*changes, f"steps={steps}", f"warmup={max(1, steps // 20)}", f"validate_every={steps}"]
        overrides += [f"save_every={max(1, steps // 50)}"]  # the mean of the last five is of the last tenth
        bundle, seconds = trained(f"ancestors/{name}", "multi30k", recipe, overrides)
        figures[f"bleu.{name}"] = round(bundle.scores["test"]["BLEU"]["value"], 2)
        figures[f"parameters.{name}"] = bundle.parameters
        by_length[name] = _by_length(bundle)
        rows.append(
            {
                "system": name, "BLEU": figures[f"bleu.{name}"], "parameters": bundle.parameters, "updates": steps,
                "target tokens": bundle.training["target_tokens"], "seconds": round(bundle.training["seconds"]),
                "whole session": round(seconds), "on": f"{here['cpu']}, {here['gflops']} GFLOP/s",
            }
        )  # fmt: skip
        print(rows[-1], flush=True)
        if {"rnn_additive", "rnn_none"} <= by_length.keys():
            figures["bleu.attention_gain"] = round(figures["bleu.rnn_additive"] - figures["bleu.rnn_none"], 2)
        figures |= {f"above_bar.{key}": figures[key] >= bar for key, bar in BARS.items() if key in figures}
        lengths = [{"system": system} | found for system, found in by_length.items()]
        figures |= {"by_length": by_length, "data": data_files(bundle), "seed": bundle.training["recipe"]["seed"]}
        figures["tables"] = {"Systems": rows, "BLEU by words in the source": lengths}
        write("ancestors", figures, complete=False)  # what is measured is kept, whatever comes after
    return figures


def plots(results: dict[str, Any]) -> dict[str, str]:
    """BLEU against the source's length, a line a system."""
    lines = {
        name: [(sum(map(float, group.split("-"))) / 2, bleu) for group, bleu in found.items()]
        for name, found in results["by_length"].items()
    }
    return {"ancestors": chart("BLEU by sentence length, Multi30k en-de", "words in the source", "BLEU", lines)}


def planned(name: str, minutes: float) -> int:
    """How many updates fit into the time: measured once and kept, so that a resumed run has the same plan."""
    kept = FOLDER / f"{name}.json"
    if kept.exists():
        return int(json.loads(kept.read_text(encoding="utf-8"))["steps"])
    each = _seconds_an_update(name)
    steps = max(1, int(minutes * 60 * (1 - SPARE) / each))
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_text(kept, json.dumps({"steps": steps, "seconds_an_update": round(each, 4)}))
    return steps


def _seconds_an_update(name: str) -> float:
    """Of the training alone: nothing is validated or saved."""
    file, changes = SYSTEMS[name]
    path = ROOT / "recipes" / file
    settings = [*changes, f"steps={WARM + TIMED}", "log_every=1000000"]
    recipe = absolute_paths(load_recipe(path, settings), path.parent)
    folder = FOLDER / f"{name}-speed"
    folder.mkdir(parents=True, exist_ok=True)
    task, _ = PREPARE[recipe.task](Asked(recipe, folder, lambda event: None))
    model = task.model()
    update = Update(task, model, recipe.train, seed=1, d_model=model.config.d_model)
    start = 0.0
    keep_freed_memory()
    with native.compiled(cache_folder("native"), recipe.train.precision), no_denormals():  # as in training
        for step in range(1, WARM + TIMED + 1):
            update(step)
            if step == WARM:
                start = time.perf_counter()
    update.workers.close()
    return (time.perf_counter() - start) / TIMED


def _by_length(bundle: Bundle) -> dict[str, float]:
    """BLEU of the test set in groups by the source's words."""
    recipe = bundle.training["recipe"]
    source, target = (list(read_lines(resolve(path))) for path in recipe["data"]["test"])
    outputs = Model([bundle]).translate(source)
    scoring = load_recipe(ROOT / "recipes" / "multi30k-tiny.toml").score
    found = {}
    for low, high in pairwise(LENGTHS):
        group = [i for i, text in enumerate(source) if low < len(text.split()) <= high]
        if not group:
            continue
        longest = max(len(source[i].split()) for i in group)
        bleu = score([outputs[i] for i in group], [target[i] for i in group], scoring)["BLEU"].value
        found[f"{low + 1}-{min(high, longest)}"] = round(bleu, 2)
    return found
