"""`python -m benchmarks [NAME]`: runs one benchmark, or the quick ones, and writes its results file and the report.

`python -m benchmarks report` measures nothing and writes the report from the results files.
"""

import importlib
import json
import signal
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
STOPPED = "stopped; a training that was begun is gone on with by the same command"


def main() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    wanted = [] if sys.argv[1:] == ["report"] else sys.argv[1:] or list(QUICK)
    for name in wanted:
        if name not in NAMES:
            sys.exit(f"no benchmark is called {name!r}; there are {', '.join(NAMES)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(STOPPED))  # processes of peers are ended, too
    try:
        for name in wanted:
            print(f"written: {write(name, importlib.import_module(NAMES[name]).run())}")
    except UserError as error:
        sys.exit(f"{name}: {error}")
    except (Stopped, KeyboardInterrupt):
        sys.exit(f"{name}: {STOPPED}")
    finally:
        report()


def report() -> None:
    """docs/benchmarks.md and its pictures, from the measured files alone."""
    about = {}
    for name, module in NAMES.items():
        benchmark, measured = importlib.import_module(module), RESULTS / f"{name}.json"
        about[name] = benchmark.ABOUT
        if hasattr(benchmark, "plots") and measured.exists():
            content = json.loads(measured.read_text(encoding="utf-8"))
            if not content.get("unfinished"):
                for picture, svg in benchmark.plots(content).items():
                    write_text(PICTURES / f"{picture}.svg", svg)
    write_text(REPORT, page(about))


if __name__ == "__main__":
    main()
