"""What pre-training is worth: SST-2 from a BERT pre-trained on WikiText-2, and from random weights of its shape."""

from pathlib import Path
from typing import Any

import torch

from benchmarks import results
from benchmarks.runs import data_files, trained
from regard.bundle import Bundle
from regard.models import HEADS, MODELS

ABOUT = (
    "A small BERT pre-trained on WikiText-2, then SST-2's 6,920 sentences; accuracy on dev, mean of three seeds, "
    "against random weights of the same shape with the same tokenizer. Each arm has the weights after its last step, "
    "and a learning rate that was chosen on this very set."
)

SEEDS = (1, 2, 3)
# Three epochs, scored after the last step.
TUNING = ["steps=648", "warmup=65", "ema=0", "rdrop=0", "validate_every=216", "final=last"]
TUNING += ["model.dropout=0.3", "head.drop=0.3"]
# Each arm has a learning rate that suits it: what has learned nothing yet may move further.
RATES = {"pretrained": "lr=6e-4", "scratch": "lr=1e-3"}


def run() -> dict[str, Any]:
    parent, seconds = trained("bert-wikitext2", None, "bert-wikitext2.toml")
    folders = {"pretrained": [results.RUNS / "bert-wikitext2"] * len(SEEDS)}
    folders["scratch"] = [_untrained(parent, seed) for seed in SEEDS]
    rows, accuracies = [], {}
    for arm, starts in folders.items():
        runs = [
            trained(f"bert-transfer/{arm}-{seed}", None, "sst2.toml", [*TUNING, RATES[arm], f"seed={seed}"], start)
            for seed, start in zip(SEEDS, starts, strict=True)
        ]
        found = [float(bundle.scores["dev"]["accuracy"]["value"]) for bundle, _ in runs]
        accuracies[arm] = sum(found) / len(found)
        spent = round(sum(seconds for _, seconds in runs) / len(runs))
        rows.append({"from": arm, "accuracy": round(accuracies[arm], 4), "each": found, "seconds of a run": spent})
    words = parent.scores["dev"]
    return {
        "gain": round(accuracies["pretrained"] - accuracies["scratch"], 4),
        "accuracy_pretrained": round(accuracies["pretrained"], 4),
        "accuracy_scratch": round(accuracies["scratch"], 4),
        "masked_word_accuracy": words["accuracy"]["value"],
        "masked_word_perplexity": words["perplexity"]["value"],
        "pretrain_seconds": round(parent.training["seconds"]),
        "pretrain_session_seconds": round(seconds),
        "pretrain_steps": parent.training["steps"],
        "parameters": parent.parameters,
        "seeds": list(SEEDS),
        "data": data_files(parent) + data_files(runs[0][0]),
        "tables": {"SST-2 from": rows},
    }


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
