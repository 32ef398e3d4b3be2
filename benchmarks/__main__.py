"""`python -m benchmarks [NAME]`: runs one benchmark, or the quick ones, and writes its results file."""

import importlib
import sys

from benchmarks.results import REPORT, page, write
from regard.errors import UserError
from regard.training.signals import Stopped

NAMES = {
    "demo": "benchmarks.demo",
    "multi30k": "benchmarks.multi30k",
    "tatoeba": "benchmarks.tatoeba",
    "train-speed": "benchmarks.train_speed",
}
QUICK = ("demo",)


def main() -> None:
    wanted = sys.argv[1:] or list(QUICK)
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
    REPORT.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
