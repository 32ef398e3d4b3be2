"""Compiles the C files beside it for the machine at hand, once, and loads them."""

import contextlib
import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

SOURCES = tuple(Path(__file__).with_name(name) for name in ("steps.c", "decode.c", "products.c", "whole.c"))
HEADERS = tuple(Path(__file__).with_name(name) for name in ("vectors.h", "blocks.h"))
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-march=native", "-O3", "-fPIC", "-shared", "-std=gnu11", "-fno-math-errno", "-fno-trapping-math")
SECONDS = 120  # a compiler that takes longer hangs


class CannotBuild(Exception):
    """Why there is no library: training goes on without it."""


@functools.cache
def library(folder: Path) -> ctypes.CDLL:
    """The compiled steps; made on this machine, unless they are in the folder from before."""
    problem = CannotBuild("there is no C compiler")
    for compiler in filter(None, map(shutil.which, COMPILERS)):
        for flags in (FLAGS, FLAGS[1:]):  # not every compiler knows the machine's name for itself
            try:
                return _built(compiler, folder, flags)
            except CannotBuild as why:
                problem = why
            except OSError as error:  # no folder for temporary files, say
                problem = CannotBuild(str(error))
    raise problem


def _built(compiler: str, folder: Path, flags: Sequence[str]) -> ctypes.CDLL:
    """Named after all that it depends on: a folder may be shared by machines that differ."""
    about = "\n".join(
        (_said([compiler, "--version"]), *flags, _processor(), *(path.read_text("utf-8") for path in SOURCES + HEADERS))
    )
    path = folder / f"steps-{hashlib.sha256(about.encode()).hexdigest()[:16]}.so"
    if _ours(path):
        try:
            return ctypes.CDLL(str(path))
        except OSError:  # damaged: it is made anew
            pass
    with tempfile.TemporaryDirectory() as place:
        made = Path(place) / path.name
        _said([compiler, *flags, *map(str, SOURCES), "-o", str(made), "-lm"])
        _keep(made, path)
        # It stays in memory when the file goes. Where code in the one folder may not be run, it may be in the other.
        for file in (made, path) if _ours(path) else (made,):
            try:
                return ctypes.CDLL(str(file))
            except OSError as error:
                problem = CannotBuild(f"they cannot be loaded: {error}")
        raise problem


def _ours(path: Path) -> bool:
    """Code that another user may have put there is not run."""
    try:
        return path.stat().st_uid == path.parent.stat().st_uid == os.getuid()
    except (OSError, AttributeError):  # not there, or a system without users
        return False


def _keep(made: Path, path: Path) -> None:
    """Whole or not there. Where nothing can be written, it is made again the next time."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=path.parent) as place:
            part = Path(place) / path.name
            with part.open("wb") as file:
                file.write(made.read_bytes())
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)


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
    """Who made it and what it can do: a library made for one processor may stop another, and is not used alike."""
    known = described("vendor_id") + described("flags", "Features")
    return platform.machine() + (known or platform.platform() + platform.processor())


def described(*names: str) -> str:
    """What the system says of the processor under one of these names; nothing where it does not."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return ""
    return next((line for line in lines if line.startswith(names)), "")
