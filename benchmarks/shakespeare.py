"""Tiny Shakespeare by characters: nanoGPT's small setting for a CPU, and a better recipe in the same time."""

from typing import Any

from benchmarks.results import write
from benchmarks.runs import data_files, facts, trained

ABOUT = (
    "Loss (nats a character) on the last tenth of tiny Shakespeare, which the better recipe was chosen on too. "
    "nanoGPT, same setting: 1.88."
)


def run() -> dict[str, Any]:
    plain, seconds = trained("shakespeare", None, "shakespeare.toml")
    figures: dict[str, Any] = {
        "loss": plain.scores["dev"]["loss"]["value"],
        "bits_per_byte": plain.scores["dev"]["bits_per_byte"]["value"],
        **facts(plain, seconds),
        "data": data_files(plain),
    }
    write("shakespeare", figures, complete=False)  # the figure asked for is there before the second training begins
    best, best_seconds = trained("shakespeare-best", None, "shakespeare-best.toml")
    return figures | {
        "best_loss": best.scores["dev"]["loss"]["value"],
        "best_bits_per_byte": best.scores["dev"]["bits_per_byte"]["value"],
        "best_train_seconds": round(best.training["seconds"]),
        "best_session_seconds": round(best_seconds),
        "best_target_tokens": best.training["target_tokens"],
        "best_parameters": best.parameters,
        "time_ratio": round(best.training["seconds"] / plain.training["seconds"], 3),
    }
