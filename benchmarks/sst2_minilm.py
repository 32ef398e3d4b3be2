"""Sentiment of film reviews (SST-2): MiniLM imported and fine-tuned with recipes/sst2.toml, mean of three seeds."""

from typing import Any

from benchmarks.minilm import minilm
from benchmarks.runs import seeds

ABOUT = (
    "MiniLM (BERT, 6 layers, width 384) fine-tuned on SST-2's 6,920 sentences; accuracy on dev, the best of four "
    "validations on it."
)


def run() -> dict[str, Any]:
    return seeds("sst2-minilm", "sst2.toml", start_from=minilm())
