"""Results files: figures under plain keys with commit, machine, versions, data, seeds, date and command."""

import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
RUNS = ROOT / "benchmarks" / "runs"
REPORT = ROOT / "docs" / "benchmarks.md"
PICTURES = ROOT / "docs" / "pictures"
PACKAGES = ("regard", "torch", "tokenizers", "sacrebleu", "numpy")


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "instruction_set": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "system": platform.system(),
        "gflops": round(_gflops()),
    }


def _gflops(size: int = 1536, repeats: int = 6) -> float:
    """The matrix product's speed here, so that figures from different machines can be set beside each other."""
    import time

    a, b = torch.randn(size, size), torch.randn(size, size)
    a @ b
    best = min(_timed(lambda: a @ b, time.perf_counter) for _ in range(repeats))
    return 2 * size**3 / best / 1e9


def _timed(work: Any, clock: Any) -> float:
    start = clock()
    work()
    return float(clock() - start)


def write(name: str, figures: dict[str, Any]) -> Path:
    """Writes results/NAME.json and prints the figures."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    content = figures | {
        "commit": _commit(),
        "machine": machine(),
        "versions": {"python": platform.python_version()} | {package: version(package) for package in PACKAGES},
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "command": f"make bench NAME={name}",
    }
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    for key, value in figures.items():
        if isinstance(value, int | float | str):
            print(f"{key:>24}  {value}")
    return path.relative_to(ROOT)


def _commit() -> str:
    """With "-dirty" if the code is another than the commit's; what a benchmark has just written is no such thing."""
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!benchmarks/results", ":!docs")
    return (_git("rev-parse", "--short", "HEAD") or "unknown") + ("-dirty" if changed else "")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def page() -> str:
    """docs/benchmarks.md, made from the results files alone."""
    lines = [
        "# Benchmarks",
        "",
        "Made by `make bench` from the files under benchmarks/results; do not edit by hand.",
    ]
    for path in sorted(RESULTS.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        about = content["machine"]
        lines += ["", f"## {path.stem}", "", content.get("about", ""), "", "| figure | value |", "|---|---|"]
        meta = {"commit", "machine", "versions", "date", "command", "about"}
        for key, value in content.items():
            if key not in meta and isinstance(value, int | float | str):
                lines.append(f"| {key} | {_cell(value)} |")
        where = (
            f"{about['cpu']}, {about['cores']} cores ({about['threads']} used), {about['instruction_set']}, "
            f"{about['gflops']} GFLOP/s in float32"
        )
        versions = ", ".join(f"{name} {number}" for name, number in content["versions"].items())
        lines += ["", f"`{content['command']}` at {content['commit']}, {content['date']}. {where}. {versions}."]
        for picture in sorted(PICTURES.glob(f"{path.stem}*.svg")):
            lines += ["", f"![{picture.stem}]({PICTURES.name}/{picture.name})"]
        for title, rows in content.get("tables", {}).items():
            lines += ["", f"### {title}", "", *_table(rows)]
    return "\n".join(lines) + "\n"


def _table(rows: list[dict[str, Any]]) -> list[str]:
    if not rows:
        return ["(none)"]
    heads = list(rows[0])
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return lines + ["| " + " | ".join(_cell(row[head]) for head in heads) + " |" for row in rows]


def _cell(value: Any) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    sys.stdout.write(page())
