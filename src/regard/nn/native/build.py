"""Compiles steps.c for the machine at hand, once, and loads it."""

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("steps.c")
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-O3", "-fPIC", "-shared", "-std=gnu11", "-fno-math-errno", "-fno-trapping-math")
SECONDS = 120  # a compiler that takes longer hangs


class CannotBuild(Exception):
    """Why there is no library: training goes on without it."""


@functools.cache
def library(folder: Path) -> ctypes.CDLL:
    """The compiled steps; made on this machine, unless they are in the folder from before."""
    compiler = next((found for name in COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise CannotBuild("there is no C compiler")
    try:
        return ctypes.CDLL(str(_built(compiler, folder)))
    except OSError as error:
        raise CannotBuild(f"they cannot be loaded: {error}") from None


def _built(compiler: str, folder: Path) -> Path:
    """Named after all that it depends on: a folder may be shared by machines that differ."""
    version = _said([compiler, "--version"])
    name = hashlib.sha256("\n".join((version, *FLAGS, _processor(), SOURCE.read_text("utf-8"))).encode()).hexdigest()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except OSError:
        writable = False
    path = (folder if writable else Path(tempfile.mkdtemp())) / f"steps-{name[:16]}.so"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=path.parent) as part:
            made = Path(part) / path.name
            _compile(compiler, made)
            made.replace(path)  # whole or not there
    return path


def _compile(compiler: str, out: Path) -> None:
    command = [compiler, *FLAGS, str(SOURCE), "-o", str(out), "-lm"]
    try:
        _said([*command, "-march=native"])
    except CannotBuild:  # not every compiler knows the machine's name for itself
        _said(command)


def _said(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotBuild(f"the C compiler does not run: {error}") from None
    if done.returncode:
        first = next(iter(done.stderr.strip().splitlines()), f"exit code {done.returncode}")
        raise CannotBuild(f"the C compiler says: {first}")
    return done.stdout


def _processor() -> str:
    """What it can do: a library made for one processor may stop another."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.platform() + platform.processor()
    return platform.machine() + next((line for line in lines if line.startswith(("flags", "Features"))), "")
