"""`python -m benchmarks [NAME]`: runs one benchmark, or the quick ones, and writes its results file."""

import importlib
import sys

from benchmarks.results import REPORT, page, write

NAMES = {"multi30k": "benchmarks.multi30k", "tatoeba": "benchmarks.tatoeba", "demo": "benchmarks.demo"}
QUICK = ("demo",)


def main() -> None:
    wanted = sys.argv[1:] or list(QUICK)
    for name in wanted:
        if name not in NAMES:
            sys.exit(f"no benchmark is called {name!r}; there are {', '.join(NAMES)}")
        benchmark = importlib.import_module(NAMES[name])
        path = write(name, benchmark.run())
        print(f"written: {path}")
    REPORT.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
