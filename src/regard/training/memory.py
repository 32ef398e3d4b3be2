"""Keeps freed memory in the process, so that a step does not fault its large tensors in again and again."""

import ctypes
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # glibc's malloc.h


def keep_freed_memory() -> bool:
    """Called when training starts, never at import. Only glibc knows how; elsewhere nothing happens."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    # Never a mapping of its own for a tensor, never give the heap's end back, grow it by 64 MB at a time.
    settings = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, 1 << 30), (_TOP_PAD, 1 << 26))
    return all(mallopt(what, value) == 1 for what, value in settings)
