"""The one training loop: it knows nothing of translation, the task nothing of files."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from regard.config import TrainConfig
from regard.errors import UserError
from regard.tasks.task import Evaluation, Task
from regard.training.checkpoint import Checkpoint
from regard.training.run import Run
from regard.training.signals import Stop, Stopped
from regard.training.update import Update

Event = dict[str, Any]
Callback = Callable[[Event], None]

FIRST_LINE = 10  # the step that is logged in any case: one sees soon that it runs, and how fast
MOST_SKIPPED = 5  # updates without a finite loss, one after another, before the run is given up


@dataclass
class Progress:
    """Where training stands; saved with every checkpoint."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    validated: int = -1  # the last step that was validated
    best: float | None = None
    best_loss: float = math.inf  # of the best: it decides between equals
    best_step: int = 0
    without_gain: int = 0
    skipped: int = 0
    skipped_in_row: int = 0
    finished: bool = False


@dataclass
class Window:
    """Sums since the last log line."""

    loss: float = 0.0
    nll: float = 0.0
    count: int = 0
    since: float = field(default_factory=time.perf_counter)


class Fit:
    """Trains a model on a task until its steps are done, patience ends, or a signal comes."""

    def __init__(
        self,
        task: Task,
        model: Any,
        config: TrainConfig,
        run: Run,
        *,
        seed: int,
        d_model: int,
        metric: str,
        facts: dict[str, Any],
        callbacks: Sequence[Callback] = (),
        on_best: Callable[[Any, Event], None] = lambda model, event: None,
        stop: Stop | None = None,
    ) -> None:
        self.task, self.config, self.run = task, config, run
        self.update = Update(task, model, config, seed=seed, d_model=d_model)
        self.model: nn.Module = self.update.model
        self.metric, self.facts = metric, facts
        self.callbacks, self.on_best = callbacks, on_best
        self.stop = stop or Stop()
        self.progress = Progress()
        self.window = Window()
        self._began = time.perf_counter()

    def train(self) -> Progress:
        """Validation and saving stand before the update, so that a resumed run takes up what was still to do."""
        config, progress = self.config, self.progress
        self._began = time.perf_counter() - progress.seconds
        self.window = Window()
        try:
            while True:
                last = progress.step >= config.steps
                if progress.step and (last or progress.step % config.validate_every == 0):
                    self._validate()
                    last = last or (config.patience > 0 and progress.without_gain >= config.patience)
                if last:
                    progress.finished = True
                if progress.step and (last or progress.step % config.save_every == 0):
                    self.save()
                if last:
                    return progress
                if self.stop.requested:
                    raise Stopped
                self._step()
        except Stopped:
            if progress.step not in self.run.checkpoints.scheduled():
                self.save(scheduled=False)
            self._notify({"event": "stopped", "step": progress.step})
            raise
        except (MemoryError, RuntimeError) as error:  # PyTorch's OutOfMemoryError is a RuntimeError
            if _is_memory(error):
                raise _out_of_memory(config) from error
            raise
        finally:
            self.update.workers.close()

    def _step(self) -> None:
        """One update, counted and told."""
        progress, config = self.progress, self.config
        step = progress.step + 1
        made = self.update(step)
        if made.finite:
            progress.skipped_in_row = 0
            progress.tokens += made.count
            self.window.loss, self.window.nll = self.window.loss + made.total, self.window.nll + made.nll
            self.window.count += made.count
        else:
            progress.skipped += 1
            progress.skipped_in_row += 1
            self._tell({"event": "skipped", "step": step, "loss": str(made.total), "norm": str(made.norm)})
        progress.step = step
        progress.seconds = time.perf_counter() - self._began
        if progress.skipped_in_row >= MOST_SKIPPED:
            raise UserError(
                f"the loss was not finite {MOST_SKIPPED} updates in a row (step {step}); "
                "lower train.lr, lengthen train.warmup, or set train.clip = 1; the checkpoints before it are sound"
            )
        if step % config.log_every == 0 or step in (FIRST_LINE, config.steps):
            self._log_line(made.lr, made.norm)

    def _log_line(self, lr: float, norm: float) -> None:
        window, progress = self.window, self.progress
        now = time.perf_counter()
        left = self.config.steps - progress.step
        self._tell(
            {
                "event": "train",
                "step": progress.step,
                "epoch": self.task.batches.epoch,
                "loss": round(window.loss / max(window.count, 1), 5),
                "nll": round(window.nll / max(window.count, 1), 5),
                "lr": lr,
                "norm": round(norm, 4),
                "tokens_per_second": round(window.count / (now - window.since)),
                "unit": self.task.unit,
                "seconds": round(progress.seconds, 2),
                "eta": round(progress.seconds / progress.step * left),
            }
        )
        self.window = Window()

    def _validate(self) -> None:
        progress = self.progress
        if progress.validated == progress.step:
            return
        self._notify({"event": "validating", "step": progress.step})
        self.model.eval()
        began = time.perf_counter()
        with self._averaged():
            with self.stop.interruptible():
                evaluation = self.task.evaluate(self.model)
            event = self._noted(evaluation)
            if event["best"]:
                self.on_best(self.model, event)
        self.window.since += time.perf_counter() - began  # validation does not count as slow training

    def _noted(self, evaluation: Evaluation) -> Event:
        """What a validation found, told, and remembered if it is the best."""
        progress = self.progress
        value, loss = evaluation.scores[self.metric], evaluation.scores["loss"]
        if not math.isfinite(value):
            better = False
        elif progress.best is None:
            better = True
        elif self.metric == "loss":
            better = value < progress.best
        else:
            better = value > progress.best or (value == progress.best and loss < progress.best_loss)
        if better:
            progress.best, progress.best_loss = value, loss
            progress.best_step, progress.without_gain = progress.step, 0
        else:
            progress.without_gain += 1
        progress.validated = progress.step
        progress.seconds = time.perf_counter() - self._began
        event = {
            "event": "validate",
            "step": progress.step,
            "metric": self.metric,
            "scores": list(evaluation.scores),
            **{name: round(v, 5) for name, v in evaluation.scores.items()},
            "best": better,
            "seconds": round(progress.seconds, 2),
            "samples": evaluation.samples,
        } | ({"chosen": evaluation.chosen} if evaluation.chosen else {})
        self._tell(event)
        return event

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        """The moving average, if there is one, has the weights' place."""
        average = self.update.average
        if average is None:
            yield
            return
        raw = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        load_weights(self.model, average)
        try:
            yield
        finally:
            load_weights(self.model, raw)

    def save(self, *, scheduled: bool = True) -> None:
        tensors: dict[str, dict[str, Tensor]] = {
            "weights": {name: p.detach() for name, p in self.model.named_parameters()},
            "optimizer": self.update.optimizer.state(),
        }
        if self.update.average is not None:
            tensors["ema"] = self.update.average
        state = {"progress": asdict(self.progress), "batches": self.task.batches.state(), "facts": self.facts}
        self.run.checkpoints.save(Checkpoint(self.progress.step, tensors, state), scheduled=scheduled)

    def restore(self, checkpoint: Checkpoint, *, restart_epoch: bool = False) -> None:
        """restart_epoch: its batches are others now, so the epoch is begun again."""
        own = {name: p.shape for name, p in self.model.named_parameters()}
        saved = {name: tensor.shape for name, tensor in checkpoint.tensors["weights"].items()}
        if own != saved:
            other = next(name for name in [*own, *saved] if own.get(name) != saved.get(name))
            raise UserError(f"the weights of step {checkpoint.step} are another model's ({other}); begin a new run")
        load_weights(self.model, checkpoint.tensors["weights"])
        self.update.optimizer.load(checkpoint.tensors["optimizer"])
        if self.update.average is not None:
            kept = checkpoint.tensors.get("ema", checkpoint.tensors["weights"])  # it may have been switched on since
            self.update.average = {n: kept[n].to(self.update.device) for n in self.update.average}
        self.progress = Progress(**checkpoint.state["progress"] | {"finished": False})
        self.task.batches.restore(checkpoint.state["batches"], restart_epoch=restart_epoch)

    def _tell(self, event: Event) -> None:
        self.run.log(event)
        self._notify(event)

    def _notify(self, event: Event) -> None:
        """Tells without a line in the log."""
        for callback in self.callbacks:
            callback(event)


@torch.no_grad()
def load_weights(model: nn.Module, weights: dict[str, Tensor]) -> None:
    for name, parameter in model.named_parameters():
        parameter.copy_(weights[name])


def _is_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "allocate memory" in str(error).lower()


def _out_of_memory(config: TrainConfig) -> UserError:
    half = max(8, config.batch_tokens // 2)
    return UserError(
        f"out of memory with train.batch_tokens = {config.batch_tokens}; try batch_tokens={half} "
        f"accumulate={config.accumulate * 2}, which trains the same in less memory (with --resume --force to go on), "
        "fewer train.parts, or a smaller model"
    )
