"""SIGTERM and Ctrl-C while training: the first saves and stops, a second Ctrl-C is out at once."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SAVED = 75  # exit code: stopped on request with everything saved (EX_TEMPFAIL: try again later)
AT_ONCE = 130  # exit code: a second Ctrl-C, or one before there was anything to save


class Stopped(BaseException):
    """A signal asked to stop, at a place where that is harmless."""


class Stop:
    """Whether a signal has come. Where stopping at once is harmless (`interruptible`) it raises `Stopped`."""

    def __init__(self) -> None:
        self.requested = False
        self._harmless = False

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        if self.requested:
            raise Stopped
        self._harmless = True
        try:
            yield
        finally:
            self._harmless = False

    @contextmanager
    def listening(self) -> Iterator["Stop"]:
        """Handles the two signals inside; only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        before = {s: signal.signal(s, self._handle) for s in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield self
        finally:
            for which, handler in before.items():
                signal.signal(which, handler)

    def _handle(self, which: int, frame: FrameType | None) -> None:
        if self.requested and which == signal.SIGINT:
            os._exit(AT_ONCE)
        self.requested = True
        if self._harmless:
            raise Stopped
