"""API keys from a file: one a line, with a rate of its own if wanted; read again when the file changes."""

import hashlib
import hmac
import logging
import threading
from dataclasses import dataclass
from pathlib import Path

from regard.errors import UserError
from regard.serve import logs


@dataclass(frozen=True)
class Key:
    """A key as the server remembers it: by its hash alone."""

    digest: bytes
    rate: int | None = None  # requests a minute; None is the server's own

    @property
    def name(self) -> str:
        """What log lines call it."""
        return self.digest.hex()[:8]


class Keys:
    """The keys of a file. A file that cannot be read any more leaves the last keys in force."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._keys = read_keys(path)
        self._seen = _mark(path)

    def find(self, given: str) -> Key | None:
        """The key that was given, if it is one. Every key is compared, each in constant time."""
        self._refresh()
        digest, found = _digest(given), None
        for key in self._keys:
            if hmac.compare_digest(key.digest, digest):
                found = key
        return found

    def _refresh(self) -> None:
        mark = _mark(self.path)
        if mark == self._seen:
            return
        with self._lock:
            if mark != self._seen:
                self._seen = mark
                try:
                    self._keys = read_keys(self.path)
                    logs.event("keys read", count=len(self._keys))
                except UserError:
                    logs.event("keys cannot be read; the last ones stay in force", logging.ERROR)


def read_keys(path: Path) -> list[Key]:
    """Lines of `KEY` or `KEY REQUESTS-A-MINUTE`; empty lines and those that begin with # say nothing."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the keys in {path}: {error}") from None
    keys = []
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) > 2 or (len(words) == 2 and not (words[1].isdecimal() and int(words[1]) > 0)):
            raise UserError(f"{path}, line {number}: write a key, and after it, if you like, its requests a minute")
        keys.append(Key(_digest(words[0]), int(words[1]) if len(words) == 2 else None))
    if not keys:
        raise UserError(f"{path} holds no key; write one a line")
    return keys


def _digest(key: str) -> bytes:
    """Of one length for every key, so that comparing tells nothing of it."""
    return hashlib.sha256(key.encode(errors="replace")).digest()


def _mark(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
