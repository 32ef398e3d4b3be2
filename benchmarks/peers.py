"""Peers, each in an environment of its own under benchmarks/envs, made from the pinned list peers/NAME.txt."""

import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = HERE / "envs"


def python(name: str) -> Path:
    """The interpreter of a peer's environment, which is made the first time it is asked for."""
    folder, listed = ENVIRONMENTS / name, HERE / "peers" / f"{name}.txt"
    ready = folder / "installed.txt"
    if not ready.exists() or ready.read_text() != listed.read_text():
        print(f"installing {name} in {folder.relative_to(HERE.parent)}", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        pip: list[str | Path] = [folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "-r", listed], check=True)
        ready.write_text(listed.read_text())
    return folder / "bin" / "python"
