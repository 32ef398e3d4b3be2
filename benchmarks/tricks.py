"""What each trick adds: the same tiny Transformer, the same number of target tokens, one thing more in each row."""

from typing import Any

from benchmarks.runs import trained

ABOUT = "Multi30k en-de, tiny, test_2016_flickr, lower-cased and tokenised, beam 5, the last weights."

TOKENS = 2_000_000  # of the target, about five epochs of Multi30k: some minutes a row
FILLED = 0.93  # of a batch is real target tokens

# Each row keeps what the rows before it have. The first is the published recipe, its warm-up scaled to the time.
ROWS: dict[str, list[str]] = {
    "as published: post-norm, Adam, warm-up and 1/sqrt": [
        "model.norm=post", "optimizer=adam", "schedule=paper", "lr=2.0", "weight_decay=0", "batch_tokens=4096",
        "clip=0", "vector_share=1", "model.dropout=0.3",
    ],
    "the rate falls to zero in a line": ["schedule=linear", "lr=0.005"],
    "norm before the sub-layers": ["model.norm=pre", "clip=1.0"],
    "Muon for the matrices": ["optimizer=muon", "lr=0.01", "matrix_lr=0.02"],
    "weight decay": ["weight_decay=0.2"],
    "batches of 2,048 tokens": ["batch_tokens=2048"],
    "biases and norms at a fifth of the rate": ["vector_share=0.2"],
    "dropout 0.15 in place of 0.3": ["model.dropout=0.15"],
}  # fmt: skip
# Each of these by itself with all of the above: what does not pay in so short a time.
LEFT: dict[str, list[str]] = {
    "subword sampling": ["split=0.1"],
    "a vocabulary for each language": ["tokenizer.shared=false", "tokenizer.size=6000"],
}


def run() -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    settings: dict[str, str] = {}
    for name, changes in ROWS.items():
        settings |= _parsed(changes)
        rows.append(_row(f"tricks/{len(rows)}", name, settings, rows[-1]["BLEU"] if rows else None))
    best = rows[-1]["BLEU"]
    left = [_row(f"tricks/left-{i}", name, settings | _parsed(LEFT[name]), best) for i, name in enumerate(LEFT)]
    return {
        "bleu_as_published": rows[0]["BLEU"],
        "bleu_with_all": best,
        "tables": {"One thing more in each row": rows, "Left out: each by itself with all of those": left},
    }


def _parsed(changes: list[str]) -> dict[str, str]:
    return dict(change.split("=") for change in changes)


def _row(folder: str, name: str, settings: dict[str, str], before: float | None) -> dict[str, Any]:
    steps = round(TOKENS / (FILLED * int(settings["batch_tokens"])))
    overrides = [f"{key}={value}" for key, value in settings.items()]
    overrides += [f"steps={steps}", f"warmup={steps // 10}", f"validate_every={steps}", "average=0", "final=last"]
    bundle, _ = trained(folder, "multi30k", "multi30k-tiny.toml", overrides)
    bleu = round(bundle.scores["test"]["BLEU"]["value"], 2)
    row = {
        "what is added": name,
        "BLEU": bleu,
        "gain": "" if before is None else f"{bleu - before:+.2f}",
        "updates": steps,
        "target tokens": bundle.training["target_tokens"],
        "seconds": round(bundle.training["seconds"]),
    }
    print(row)
    return row
