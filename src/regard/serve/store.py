"""Translated files, kept for a while for download: a bounded number, under names that cannot be guessed."""

import secrets
import tempfile
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Kept:
    path: Path
    download: str  # the name it has for whoever downloads it
    when: float


class Store:
    """A folder of its own, removed with the server."""

    def __init__(self, most: int, seconds: float) -> None:
        self.most, self.seconds = most, seconds
        self._folder = tempfile.TemporaryDirectory(prefix="regard-files-")
        self._kept: OrderedDict[str, Kept] = OrderedDict()

    def add(self, content: str, download: str) -> str:
        """Keeps a file; its name for the address."""
        self._sweep(room=1)
        name = secrets.token_urlsafe(16) + Path(download).suffix
        path = Path(self._folder.name) / name
        path.write_text(content, encoding="utf-8", newline="")
        self._kept[name] = Kept(path, download, time.monotonic())
        return name

    def find(self, name: str) -> Kept | None:
        """Names are looked up, never made into paths."""
        self._sweep()
        return self._kept.get(name)

    def close(self) -> None:
        self._kept.clear()
        self._folder.cleanup()

    def _sweep(self, room: int = 0) -> None:
        oldest = time.monotonic() - self.seconds
        while self._kept:
            name, kept = next(iter(self._kept.items()))
            if kept.when >= oldest and len(self._kept) + room <= self.most:
                break
            del self._kept[name]
            kept.path.unlink(missing_ok=True)
