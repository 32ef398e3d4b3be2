"""Ours and the peers side by side in minutes: training the tiny Transformer, and translating with the demo's model."""

from typing import Any

from benchmarks import demo, train_speed, translate_speed
from benchmarks.results import RUNS
from regard.bundle import load_bundle
from regard.data.formats import read_lines

ROUNDS, SECONDS = 4, 10.0  # of training
LINES = {False: 200, True: 20}  # translated in bulk, one at a time
FOLDER = RUNS / "demo"


def run() -> dict[str, Any]:
    if not (FOLDER / "report.json").exists():
        demo.run()
    model = load_bundle(FOLDER)
    pairs = [line.split("\t") for line in read_lines(FOLDER / "data" / "test.tsv")]
    source, target = ([pair[side] for pair in pairs] for side in (0, 1))
    training, rounds = train_speed.compare("tiny", ["OpenNMT-py"], ROUNDS, SECONDS)
    workers = translate_speed.started(model, RUNS / "quick")
    rows, speeds = translate_speed.measured(workers, model, (source, target), LINES, rounds=2)
    return (
        {"about": "A short look at what train-speed and translate-speed measure at length."}
        | training
        | translate_speed.ratios(speeds)
        | {"tables": {"Training, target tokens a second": rounds, "Translating with the demo's model": rows}}
    )
