"""A run's folder: one writer at a time, its recipe, its log, its checkpoints, its model."""

import fcntl
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from regard.errors import UserError
from regard.files import disk_errors, write_text
from regard.tasks.task import HELD_OUT
from regard.training.checkpoint import Checkpoints

LOCK = ".lock"  # also says that a folder is a run's
TOKENIZERS = ("tokenizer.json", "tokenizer.target.json")


class Run:
    """runs/NAME: recipe.toml, log.jsonl, curves.svg, dev.jsonl, tokenizers, tokens/, checkpoints/, model/."""

    def __init__(self, folder: Path, keep: int = 3) -> None:
        self.folder = folder
        self.checkpoints = Checkpoints(folder / "checkpoints", keep)
        self.log_path = folder / "log.jsonl"
        self.model_path = folder / "model"
        self.recipe_path = folder / "recipe.toml"
        self.held_out_path = folder / HELD_OUT
        self._log: IO[str] | None = None

    @property
    def begun(self) -> bool:
        return self.recipe_path.exists()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Refuses when another process writes here. The system lets go of the lock when a process dies.

        A folder made for a run that then could not begin is taken away again.
        """
        try:
            made = not self.folder.exists()
            self.folder.mkdir(parents=True, exist_ok=True)
            self._refuse_what_is_not_ours()
            handle = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise UserError(f"cannot write to {self.folder}: {error.strerror}") from None
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(
                    f"another run is writing to {self.folder}; wait for it or choose another folder"
                ) from None
            try:
                yield
            except BaseException:
                with suppress(OSError):
                    if made and [path.name for path in self.folder.iterdir()] == [LOCK]:
                        (self.folder / LOCK).unlink()
                        self.folder.rmdir()
                raise
        finally:
            os.close(handle)
            if self._log is not None:
                self._log.close()
                self._log = None

    def _refuse_what_is_not_ours(self) -> None:
        """A folder that no run has been in may hold files that a run would write over."""
        if self.begun or (self.folder / LOCK).exists():
            return
        names = {self.log_path.name, self.model_path.name, self.held_out_path.name, *TOKENIZERS}
        names |= {"checkpoints", "curves.svg", "tokens"}
        for path in sorted(self.folder.iterdir()):
            if path.name in names:
                raise UserError(f"{path} is there already, and no run's: choose another folder with --out")

    def log(self, event: dict[str, Any]) -> None:
        """One line of JSON, in which a number that is not finite is null."""
        if self._log is None:
            self._log = self.log_path.open("a", encoding="utf-8")
        event = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in event.items()}
        with disk_errors(self.log_path):
            self._log.write(json.dumps(event, ensure_ascii=False, allow_nan=False) + "\n")
            self._log.flush()

    def events(self) -> list[dict[str, Any]]:
        """What was logged so far; a last line cut off by a kill is passed over."""
        if not self.log_path.exists():
            return []
        found = []
        for line in self.log_path.read_bytes().split(b"\n"):
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        return found

    def forget_after(self, step: int) -> None:
        """Drops log lines of steps that will be done again."""
        if not self.log_path.exists():
            return
        kept = [event for event in self.events() if event.get("step", 0) <= step]
        if self._log is not None:
            self._log.close()
            self._log = None
        write_text(self.log_path, "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in kept))
