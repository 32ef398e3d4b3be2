"""Sentiment of film reviews (SST-2) with recipes/sst2-cnn.toml: a text CNN from random weights, mean of three seeds."""

from typing import Any

from benchmarks.runs import seeds

ABOUT = "Text CNN from random weights on SST-2's 6,920 sentences; accuracy on dev, after the last step of each run."


def run() -> dict[str, Any]:
    return seeds("sst2-cnn", "sst2-cnn.toml")
