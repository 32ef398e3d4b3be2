"""What each trick adds: the same tiny Transformer, the same number of target tokens, one thing more in each row."""

from typing import Any

from benchmarks.runs import trained

TOKENS = 2_000_000  # of the target, about five epochs of Multi30k: some minutes a row
FILLED = 0.93  # of a batch is real target tokens

# Each row keeps what the rows before it have. The first is the published recipe, its warm-up scaled to the time.
ROWS: dict[str, list[str]] = {
    "as published: post-norm, Adam, warm-up and 1/sqrt": [
        "model.norm=post", "optimizer=adam", "schedule=paper", "lr=2.0", "weight_decay=0", "batch_tokens=4096",
        "split=0", "clip=0",
    ],
    "the rate falls to zero in a line": ["schedule=linear", "lr=0.005"],
    "norm before the sub-layers": ["model.norm=pre", "clip=1.0"],
    "Muon for the matrices": ["optimizer=muon", "lr=0.01", "matrix_lr=0.02"],
    "weight decay": ["weight_decay=0.5"],
    "batches of 2,048 tokens": ["batch_tokens=2048"],
    "subword sampling": ["split=0.1"],
}  # fmt: skip


def run() -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    settings: dict[str, str] = {}
    for name, changes in ROWS.items():
        settings |= dict(change.split("=") for change in changes)
        steps = round(TOKENS / (FILLED * int(settings["batch_tokens"])))
        overrides = [f"{key}={value}" for key, value in settings.items()]
        overrides += [f"steps={steps}", f"warmup={steps // 10}", f"validate_every={steps}", "average=0", "final=last"]
        bundle, _ = trained(f"tricks/{len(rows)}", "multi30k", "multi30k-tiny.toml", overrides)
        before = rows[-1]["BLEU"] if rows else None
        bleu = round(bundle.scores["test"]["BLEU"]["value"], 2)
        rows.append(
            {
                "what is added": name,
                "BLEU": bleu,
                "gain": "" if before is None else f"{bleu - before:+.2f}",
                "updates": steps,
                "target tokens": bundle.training["target_tokens"],
                "seconds": round(bundle.training["seconds"]),
            }
        )
        print(rows[-1])
    return {
        "about": "Multi30k en-de, tiny, test_2016_flickr, lower-cased and tokenised, beam 5, the last weights.",
        "bleu_as_published": rows[0]["BLEU"],
        "bleu_with_all": rows[-1]["BLEU"],
        "tables": {"One thing more in each row": rows},
    }
