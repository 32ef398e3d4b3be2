"""The demo's figures: what `make demo` reaches, and in what time."""

import time
from typing import Any

from benchmarks.results import RUNS
from regard.demo import run as demo

ABOUT = "The embedded corpus, trained and scored by `regard demo`."


def run() -> dict[str, Any]:
    start = time.perf_counter()
    report = demo(RUNS / "demo", fresh=True)
    return {
        "bleu.test": report["bleu"]["test"],
        "bleu.compositional": report["bleu"]["compositional"],
        "bleu.longer": report["bleu"]["longer"],
        "pronoun.gender": report["pronoun"]["gender"],
        "pronoun.attention": report["pronoun"]["attention"],
        "pronoun.head": report["pronoun"]["head"],
        "train_seconds": report["train_seconds"],
        "session_seconds": round(time.perf_counter() - start),
        "seed": 1,
    }
