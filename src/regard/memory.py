"""Keeps freed memory in the process, so that a step does not fault its large tensors in again and again.

What was freed before the first step is given back: small pieces of it lie scattered, and no large tensor fits in them.
"""

import ctypes
import sys
from typing import Any

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # glibc's malloc.h


def keep_freed_memory() -> bool:
    """Called when training starts, never at import. Where there is no glibc, nothing happens."""
    mallopt = _glibc("mallopt")
    # Never a mapping of its own for a tensor, never give the heap's end back, grow it by 64 MB at a time. (What is
    # larger than 64 MB and made in a thread has a mapping none the less: glibc's heaps of threads end there.)
    settings = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, 1 << 30), (_TOP_PAD, 1 << 26))
    return mallopt is not None and all(mallopt(what, value) == 1 for what, value in settings)


def give_back_freed_memory() -> bool:
    """Whole pages, wherever they lie. Tells whether there were any."""
    trim = _glibc("malloc_trim")
    return trim is not None and trim(0) == 1


def _glibc(name: str) -> Any:
    """A function of glibc, or None where there is no glibc."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        return getattr(ctypes.CDLL("libc.so.6"), name)
    except (OSError, AttributeError):
        return None
