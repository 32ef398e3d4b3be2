"""What pre-training is worth: SST-2 from a BERT pre-trained on WikiText-2, and from random weights of its shape."""

import math
import random
from pathlib import Path
from typing import Any

import torch

from benchmarks import results
from benchmarks.plots import chart
from benchmarks.runs import data_files, trained
from regard.bundle import Bundle
from regard.data.formats import read_lines
from regard.data.sets import resolve
from regard.files import write_text
from regard.models import HEADS, MODELS

ABOUT = (
    "A small BERT pre-trained on WikiText-2, then SST-2's 6,920 sentences; accuracy on dev, mean of three seeds, "
    "against random weights of the same shape with the same tokenizer. Each arm has the weights after its last step, "
    "and a learning rate that was chosen on this very set, with all labels. With fewer labels, each seed has others."
)

SEEDS = (1, 2, 3)
ALL = 6920
LABELS = (ALL, 2000, 1000, 500)
TUNING = ["ema=0", "rdrop=0", "validate_every=1000", "final=last", "model.dropout=0.3", "head.drop=0.3"]
# Each arm has a learning rate that suits it: what has learned nothing yet may move further.
RATES = {"pretrained": "lr=6e-4", "scratch": "lr=1e-3"}


def run() -> dict[str, Any]:
    parent, seconds = trained("bert-wikitext2", None, "bert-wikitext2.toml")
    starts = {"pretrained": [results.RUNS / "bert-wikitext2"] * len(SEEDS)}
    starts["scratch"] = [_untrained(parent, seed) for seed in SEEDS]
    rows, mean = [], {}
    for labels in LABELS:
        for arm in starts:
            runs = [_tuned(arm, labels, seed, start) for seed, start in zip(SEEDS, starts[arm], strict=True)]
            found = [float(bundle.scores["dev"]["accuracy"]["value"]) for bundle, _ in runs]
            mean[arm, labels] = sum(found) / len(found)
            rows.append(
                {
                    "from": arm,
                    "labels": labels,
                    "accuracy": round(mean[arm, labels], 4),
                    "each": found,
                    "seconds of a run": round(sum(seconds for _, seconds in runs) / len(runs)),
                }
            )
    gains = {labels: round(mean["pretrained", labels] - mean["scratch", labels], 4) for labels in LABELS}
    words = parent.scores["dev"]
    return {
        "gain": gains[ALL],
        "accuracy_pretrained": round(mean["pretrained", ALL], 4),
        "accuracy_scratch": round(mean["scratch", ALL], 4),
        **{f"gain_{labels}_labels": gain for labels, gain in gains.items() if labels < ALL},
        "masked_word_accuracy": words["accuracy"]["value"],
        "masked_word_perplexity": words["perplexity"]["value"],
        "pretrain_seconds": round(parent.training["seconds"]),
        "pretrain_session_seconds": round(seconds),
        "pretrain_steps": parent.training["steps"],
        "parameters": parent.parameters,
        "seeds": list(SEEDS),
        "data": [*data_files(parent), "sst2/train.tsv", "sst2/dev.tsv"],
        "tables": {"SST-2 from": rows},
    }


def plots(content: dict[str, Any]) -> dict[str, str]:
    """The picture from the measured file."""
    rows = content["tables"]["SST-2 from"]
    lines = {arm: [(row["labels"], row["accuracy"]) for row in rows if row["from"] == arm] for arm in RATES}
    title = "Sentiment from a pre-trained BERT and from scratch"
    return {"bert-transfer": chart(title, "labelled sentences", "accuracy", lines, log_x=True, log_y=True, width=640)}


def _tuned(arm: str, labels: int, seed: int, start: Path) -> tuple[Bundle, float]:
    """Three epochs of all labels; fewer are read more often, scored after the last step."""
    steps = round(648 * math.sqrt(labels / ALL))
    changes = [*TUNING, RATES[arm], f"seed={seed}", f"steps={steps}", f"warmup={steps // 10}"]
    if labels < ALL:
        some = results.RUNS / f"bert-transfer/sst2-{labels}-{seed}.tsv"
        rows = list(read_lines(resolve("sst2/train.tsv")))
        write_text(some, "\n".join(random.Random(seed).sample(rows, labels)) + "\n")
        changes.append(f'data.train=["{some}"]')
    return trained(f"bert-transfer/{arm}-{labels}-{seed}", None, "sst2.toml", changes, start)


def _untrained(parent: Bundle, seed: int) -> Path:
    """A model like this one that has learned nothing: the same shape and tokenizer, weights as they begin."""
    folder: Path = results.RUNS / f"bert-transfer/untrained-{seed}"
    if not folder.exists():
        torch.manual_seed(seed)
        model = HEADS[parent.task](MODELS[parent.name](parent.model.config), parent.model.head, parent.model.outputs)
        Bundle(
            model, parent.source, parent.target, parent.languages, parent.max_length, name=parent.name, task=parent.task
        ).save(folder)
    return folder
