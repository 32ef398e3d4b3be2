"""A slice of SQuAD 1.1 with recipes/squad.toml: exact match and F1 of answers, by a fine-tuned MiniLM."""

from typing import Any

from benchmarks.minilm import minilm
from benchmarks.runs import data_files, facts, trained

ABOUT = (
    "Questions on 6 articles of SQuAD 1.1 (dev) after training on 36 others, a MiniLM (6 layers) fine-tuned. The best "
    "of three validations on this very set."
)


def run() -> dict[str, Any]:
    bundle, seconds = trained("squad", None, "squad.toml", start_from=minilm())
    dev = bundle.scores["dev"]
    return {
        "f1": dev["f1"]["value"],
        "exact": dev["exact"]["value"],
        **facts(bundle, seconds),
        "data": data_files(bundle),
    }
