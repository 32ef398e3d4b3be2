"""Checkpoints: whole or not there, checksummed, kept to a number; tensors in safetensors, the rest in JSON."""

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from regard.bundle import save_tensors
from regard.errors import UserError
from regard.files import TEMPORARY, checksum, sweep, whole_folder

FORMAT = 1


@dataclass(frozen=True)
class Checkpoint:
    """Everything needed to go on: named groups of tensors and plain facts."""

    step: int
    tensors: dict[str, dict[str, Tensor]]  # group (weights, optimizer, ema) -> name -> tensor
    state: dict[str, Any]


class Checkpoints:
    """The folder of a run's checkpoints."""

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder, self.keep = folder, keep

    def steps(self) -> list[int]:
        """Complete checkpoints, oldest first."""
        return sorted({*self.scheduled(), *self._numbers("stop")})

    def scheduled(self) -> list[int]:
        """Those saved on schedule: a run that was stopped and one that was not have the same."""
        return self._numbers("step")

    def _numbers(self, kind: str) -> list[int]:
        """A copy that a person made, under a name of their own, is none of ours."""
        names = (path.name.removeprefix(f"{kind}-") for path in self.folder.glob(f"{kind}-*") if path.is_dir())
        return sorted(int(name) for name in names if name.isdecimal())

    def path(self, step: int) -> Path:
        scheduled, stopped = self.folder / f"step-{step:08d}", self.folder / f"stop-{step:08d}"
        return stopped if stopped.exists() and not scheduled.exists() else scheduled

    def save(self, checkpoint: Checkpoint, *, scheduled: bool = True) -> None:
        """Writes a new checkpoint, then removes the oldest beyond `keep`. A failure leaves the others untouched.

        One that is not scheduled (a signal came) lasts until the next scheduled one, and counts for nothing else.
        """
        sweep(self.folder)
        kind = "step" if scheduled else "stop"
        with whole_folder(self.folder / f"{kind}-{checkpoint.step:08d}") as part:
            files = {}
            for group, tensors in checkpoint.tensors.items():
                file = part / f"{group}.safetensors"
                save_tensors(tensors, file)
                files[file.name] = checksum(file)
            content = {"format": FORMAT, "step": checkpoint.step, "state": checkpoint.state, "files": files}
            content["checksum"] = _digest(content)
            (part / "checkpoint.json").write_text(json.dumps(content, indent=1), encoding="utf-8")
        if scheduled:
            for stopped in self._numbers("stop"):
                self._remove(self.folder / f"stop-{stopped:08d}")
            for old in self.scheduled()[: -self.keep]:
                self.remove(old)

    def remove(self, step: int) -> None:
        self._remove(self.path(step))

    def _remove(self, path: Path) -> None:
        """Renamed first: a half-removed checkpoint must not look like a whole one."""
        doomed = self.folder / f"{TEMPORARY}{path.name}"
        path.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)

    def load(self, step: int | None = None, groups: Sequence[str] | None = None) -> Checkpoint:
        """The newest checkpoint, or that of a step; a damaged one is named and the sound one before it offered.

        groups: of its tensors these alone.
        """
        steps = self.steps()
        if not steps:
            raise UserError(f"there is no checkpoint in {self.folder}; nothing to resume")
        wanted = steps[-1] if step is None else step
        if wanted not in steps:
            raise UserError(f"there is no checkpoint of step {wanted}; there are {', '.join(map(str, steps))}")
        try:
            return self._read(wanted, groups)
        except _Damage as damage:
            offer = next((s for s in reversed(steps) if s < wanted and self._sound(s)), None)
            hint = (
                f"the one before it is sound: resume with --step {offer}" if offer is not None else "there is no other"
            )
            raise UserError(f"checkpoint {self.path(wanted)} is damaged ({damage}); {hint}") from None

    def weights(self, step: int) -> dict[str, Tensor]:
        """The weights that validation saw: the moving average where there is one."""
        tensors = self.load(step, ("ema", "weights")).tensors
        return tensors.get("ema") or tensors["weights"]

    def _sound(self, step: int) -> bool:
        try:
            self._read(step)
        except _Damage:
            return False
        return True

    def _read(self, step: int, groups: Sequence[str] | None = None) -> Checkpoint:
        folder = self.path(step)
        try:
            content = json.loads((folder / "checkpoint.json").read_text(encoding="utf-8"))
            claimed = content.pop("checksum")
            if claimed != _digest(content):
                raise _Damage("checkpoint.json: checksum differs")
            if content["format"] > FORMAT:
                raise UserError(f"{folder} was written by a newer version of regard (format {content['format']})")
            tensors = {}
            for name, expected in content["files"].items():
                group = name.removesuffix(".safetensors")
                if groups is not None and group not in groups:
                    continue
                if not (folder / name).is_file():
                    raise _Damage(f"{name} is missing")
                if checksum(folder / name) != expected:
                    raise _Damage(f"{name}: checksum differs")
                tensors[group] = load_file(folder / name)
            return Checkpoint(content["step"], tensors, content["state"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
            raise _Damage(str(error) or type(error).__name__) from None


class _Damage(Exception):
    """What is wrong with a checkpoint."""


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
