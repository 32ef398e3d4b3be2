"""Results files: figures under plain keys with commit, machine, versions, data, seeds, date and command."""

import json
import os
import platform
import subprocess
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from benchmarks.flops import peak

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
RUNS = ROOT / "benchmarks" / "runs"
REPORT = ROOT / "docs" / "benchmarks.md"
PICTURES = ROOT / "docs" / "pictures"
PACKAGES = (
    "regard",
    "torch",
    "tokenizers",
    "sacrebleu",
    "numpy",
    "ctranslate2",
    "scikit-learn",
    "seqeval",
    "rouge-score",
)
COUNTERS = Path("/proc/stat")
KEPT: list[str] = []  # trainings of an earlier session that these figures rest on


def _times() -> tuple[int, int]:
    """Time of all processors since the system began: what it wanted, and what the host gave to others of that."""
    if not COUNTERS.exists():  # not Linux
        return 0, 0
    user, nice, system, _, _, irq, softirq, stolen, *_ = map(int, COUNTERS.read_text().split("\n", 1)[0].split()[1:])
    return user + nice + system + irq + softirq + stolen, stolen


BEGAN = _times()


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    wanted, stolen = (now - then for now, then in zip(_times(), BEGAN, strict=True))
    told = {"stolen": round(stolen / wanted, 3)} if wanted else {}  # of the time that it should have had
    return {
        "cpu": processor(),
        "cores": os.cpu_count(),
        "instruction_set": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "system": platform.system(),
        **told,
        "gflops": round(peak(seconds=1.0) / 1e9),  # so that figures of different machines can be set side by side
    }


def processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def today() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d")


def write(name: str, figures: dict[str, Any], *, complete: bool = True) -> Path:
    """Writes results/NAME.json and prints the figures. complete: there is nothing more to come."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    content = figures | ({} if complete else {"unfinished": True}) | ({"kept": KEPT} if KEPT else {})
    content |= {
        "commit": commit(),
        "machine": machine(),
        "versions": versions() | figures.get("versions", {}),
        "date": today(),
        "command": f"make bench NAME={name}",
    }
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    for key, value in figures.items():
        if isinstance(value, int | float | str):
            print(f"{key:>24}  {value}")
    return path.relative_to(ROOT)


def commit() -> str:
    """With "-dirty" if the code is another than the commit's; what a benchmark has just written is no such thing."""
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!benchmarks/results", ":!docs")
    return (_git("rev-parse", "--short", "HEAD") or "unknown") + ("-dirty" if changed else "")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def page(about: dict[str, str]) -> str:
    """docs/benchmarks.md, made from the results files, and what each benchmark says about itself."""
    lines = [
        "# Benchmarks",
        "",
        "Made by `make bench` from the files under benchmarks/results; do not edit by hand.",
    ]
    for path in sorted(RESULTS.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        on = content["machine"]
        lines += ["", f"## {path.stem}", "", about[path.stem], "", "| figure | value |", "|---|---|"]
        meta = {"commit", "machine", "versions", "date", "command", "about", "unfinished", "kept", "data"}
        for key, value in content.items():
            if key not in meta and _short(value):
                lines.append(f"| {key} | {_cell(value)} |")
        where = (
            f"{on['cpu']}, {on['cores']} cores ({on['threads']} used), {on['instruction_set']}, "
            f"{on['gflops']} GFLOP/s in float32"
        )
        if "stolen" in on:
            where += f", {on['stolen']:.1%} of its time given to other machines by their host"
        used = ", ".join(f"{name} {number}" for name, number in content["versions"].items())
        lines += ["", f"`{content['command']}` at {content['commit']}, {content['date']}. {where}. {used}."]
        if data := content.get("data"):
            lines += ["", f"Data: {', '.join(data)}."]
        if content.get("unfinished"):
            lines += ["", "Stopped before its end: there would be more figures."]
        if kept := content.get("kept"):
            lines += ["", f"Trained before: {'; '.join(kept)}."]
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


def _short(value: Any) -> bool:
    """A figure, or one for each of a few seeds."""
    scalar = (int, float, str)
    few = isinstance(value, list) and len(value) <= 8 and all(isinstance(one, scalar) for one in value)
    return isinstance(value, scalar) or few


def _cell(value: Any) -> str:
    told = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return told.replace("|", "\\|").replace("\n", " ")
