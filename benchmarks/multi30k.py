"""Multi30k English-German with recipes/multi30k-tiny.toml: BLEU as the published scores count it, and cased BLEU."""

import time
from typing import Any

from benchmarks.results import ROOT, RUNS
from regard.bundle import Bundle
from regard.config import load_recipe
from regard.training.progress import Show
from regard.training.session import train

RECIPE = ROOT / "recipes" / "multi30k-tiny.toml"
# The same recipe on the raw text: cased, untokenised, scored by sacreBLEU's own tokenizer.
CASED = [
    'data.train=["multi30k/train.en", "multi30k/train.de"]',
    'data.dev=["multi30k/val.en", "multi30k/val.de"]',
    'data.test=["multi30k/test_2016_flickr.en", "multi30k/test_2016_flickr.de"]',
    "score.tokenize=13a",
]


def run() -> dict[str, Any]:
    """Each of the two trainings can be stopped and run again: it goes on, and its seconds add up."""
    lower, lower_seconds = trained("multi30k", [])
    cased, cased_seconds = trained("multi30k-cased", CASED)
    return {
        "about": "Transformer-Tiny on Multi30k en-de, test_2016_flickr. Published: 41.02 (lower-cased, tokenised).",
        "bleu_lc_tok": round(lower.scores["test"]["BLEU"]["value"], 2),
        "bleu_cased": round(cased.scores["test"]["BLEU"]["value"], 2),
        "train_seconds": round(lower.training["seconds"]),
        "train_seconds_cased": round(cased.training["seconds"]),
        "session_seconds": round(lower_seconds),
        "session_seconds_cased": round(cased_seconds),
        "steps": lower.training["steps"],
        "target_tokens": lower.training["target_tokens"],
        "parameters": lower.parameters,
        "seed": lower.training["recipe"]["seed"],
        "signature_lc_tok": lower.scores["test"]["BLEU"]["signature"],
        "signature_cased": cased.scores["test"]["BLEU"]["signature"],
    }


def trained(name: str, overrides: list[str]) -> tuple[Bundle, float]:
    """The bundle, and how long this session took with everything: preparing, training, validating, final scores."""
    folder = RUNS / name
    start = time.perf_counter()
    bundle = train(
        load_recipe(RECIPE, overrides), folder, base=RECIPE.parent, resume=folder.exists(), callbacks=[Show()]
    )
    return bundle, time.perf_counter() - start
