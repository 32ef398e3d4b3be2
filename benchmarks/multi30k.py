"""Multi30k English-German with recipes/multi30k-tiny.toml: BLEU as the published scores count it, and cased BLEU.

Two trainings that differ in the seed alone can be a point of BLEU apart at equal loss. So there are two of them, each
half as long as one could be, and what counts is what they translate together.
"""

import time
from typing import Any

from benchmarks.results import write
from benchmarks.runs import data_files, facts, trained
from benchmarks.spaced import bleu
from regard.api import Model
from regard.bundle import Bundle
from regard.data.formats import read_lines
from regard.data.sets import get

ABOUT = (
    "Transformer-Tiny on Multi30k en-de, test_2016_flickr. Where there are two seeds, there are two models, trained "
    "one after the other, that translate together (their probabilities averaged); times and tokens are of both. "
    "Published for one model: 41.02 (lower-cased, tokenised)."
)

SEEDS: dict[str, list[str]] = {"multi30k": [], "multi30k-2": ["seed=2"]}
LIMIT = 6000  # seconds for both

# The same recipe on the raw text, fewer steps: cased, untokenised, scored by sacreBLEU's own tokenizer.
CASED = [
    "train.steps=2000",
    "train.warmup=200",
    "train.validate_every=2000",
    "train.save_every=40",
    "model.dropout=0.15",
    'data.train=["multi30k/train.en", "multi30k/train.de"]',
    'data.dev=["multi30k/val.en", "multi30k/val.de"]',
    'data.test=["multi30k/test_2016_flickr.en", "multi30k/test_2016_flickr.de"]',
    "score.tokenize=13a",
]


def run() -> dict[str, Any]:
    members = [trained(name, "multi30k", "multi30k-tiny.toml", changes) for name, changes in SEEDS.items()]
    bundles, start = [bundle for bundle, _ in members], time.perf_counter()
    found = _together(bundles, "test_2016_flickr")
    seconds = sum(spent for _, spent in members) + time.perf_counter() - start
    figures: dict[str, Any] = {
        "bleu_lc_tok": found,
        "within_100_minutes": seconds <= LIMIT,
        "bleu_lc_tok_of_each": [round(bundle.scores["test"]["BLEU"]["value"], 2) for bundle in bundles],
        "bleu_dev": _together(bundles, "val"),
        "bleu_dev_of_each": [round(bundle.scores["dev"]["BLEU"]["value"], 2) for bundle in bundles],
        **facts(bundles[0], seconds),
        "train_seconds": round(sum(bundle.training["seconds"] for bundle in bundles)),
        "steps": [bundle.training["steps"] for bundle in bundles],
        "target_tokens": sum(bundle.training["target_tokens"] for bundle in bundles),
        "seeds": [bundle.training["recipe"]["seed"] for bundle in bundles],
        "signature_lc_tok": bundles[0].scores["test"]["BLEU"]["signature"],
        "data": data_files(bundles[0]),
    }
    del figures["seed"]  # there are two
    write("multi30k", figures, complete=False)  # the figure asked for is there before the cased training begins
    cased, cased_seconds = trained("multi30k-cased", "multi30k", "multi30k-tiny.toml", CASED)
    return figures | {
        "bleu_cased": round(cased.scores["test"]["BLEU"]["value"], 2),
        "train_seconds_cased": round(cased.training["seconds"]),
        "session_seconds_cased": round(cased_seconds),
        "signature_cased": cased.scores["test"]["BLEU"]["signature"],
    }


def _together(bundles: list[Bundle], part: str) -> float:
    """BLEU of all members as one, on one of the sets."""
    source, references = (list(read_lines(get("multi30k").folder / f"{part}.lc.tok.{side}")) for side in ("en", "de"))
    return bleu(Model(bundles).translate(source), references)
