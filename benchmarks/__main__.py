"""`python -m benchmarks [NAME]`: runs one benchmark, or the quick ones, and writes its results file and the report.

`python -m benchmarks report` measures nothing and writes the report from the results files.
"""

import importlib
import json
import sys

from benchmarks.results import PICTURES, REPORT, RESULTS, page, write
from regard.errors import UserError
from regard.files import write_text
from regard.training.signals import Stopped

NAMES = {
    "demo": "benchmarks.demo",
    "quick": "benchmarks.quick",
    "multi30k": "benchmarks.multi30k",
    "tatoeba": "benchmarks.tatoeba",
    "train-speed": "benchmarks.train_speed",
    "time-to-quality": "benchmarks.time_to_quality",
    "translate-speed": "benchmarks.translate_speed",
    "aeslc": "benchmarks.aeslc",
    "tricks": "benchmarks.tricks",
    "growth": "benchmarks.growth",
    "shakespeare": "benchmarks.shakespeare",
    "ancestors": "benchmarks.ancestors",
    "why-attention": "benchmarks.why_attention",
    "serve-load": "benchmarks.serve_load",
    "sst2-cnn": "benchmarks.sst2_cnn",
    "sst2-minilm": "benchmarks.sst2_minilm",
    "germeval": "benchmarks.germeval",
    "bert-transfer": "benchmarks.bert_transfer",
    "wnut17": "benchmarks.wnut17",
    "squad": "benchmarks.squad",
}
QUICK = ("demo", "quick")


def main() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    wanted = [] if sys.argv[1:] == ["report"] else sys.argv[1:] or list(QUICK)
    for name in wanted:
        if name not in NAMES:
            sys.exit(f"no benchmark is called {name!r}; there are {', '.join(NAMES)}")
        benchmark = importlib.import_module(NAMES[name])
        try:
            path = write(name, benchmark.run())
        except UserError as error:
            sys.exit(f"{name}: {error}")
        except (Stopped, KeyboardInterrupt):
            sys.exit(f"{name}: stopped; the same command goes on with it")
        print(f"written: {path}")
    report()


def report() -> None:
    """docs/benchmarks.md and its pictures, from the measured files alone."""
    for name, module in NAMES.items():
        benchmark, measured = importlib.import_module(module), RESULTS / f"{name}.json"
        if hasattr(benchmark, "plots") and measured.exists():
            for picture, svg in benchmark.plots(json.loads(measured.read_text(encoding="utf-8"))).items():
                write_text(PICTURES / f"{picture}.svg", svg)
    REPORT.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
