"""WNUT 2017 with recipes/wnut17.toml: F1 of the names in tweets and posts, by a fine-tuned MiniLM."""

from typing import Any

from benchmarks.minilm import minilm
from benchmarks.runs import data_files, facts, trained

ABOUT = (
    "Names in tweets and posts (WNUT 2017, dev), a MiniLM (6 layers, uncased) fine-tuned. Strict BIO. The best of nine "
    "validations on this very set."
)


def run() -> dict[str, Any]:
    bundle, seconds = trained("wnut17", None, "wnut17.toml", start_from=minilm())
    dev = bundle.scores["dev"]
    return {
        "f1": dev["f1"]["value"],
        "precision": dev["precision"]["value"],
        "recall": dev["recall"]["value"],
        "accuracy": dev["accuracy"]["value"],
        **facts(bundle, seconds),
        "data": data_files(bundle),
        "tables": {
            "By type": [
                {"type": name.removeprefix("f1 of "), **{k: round(v, 4) for k, v in row.items() if k != "value"}}
                for name, row in dev.items()
                if name.startswith("f1 of ")
            ]
        },
    }
