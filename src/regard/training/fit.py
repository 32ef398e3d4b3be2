"""The one training loop: it knows nothing of translation, the task nothing of files."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from regard.config import TrainConfig
from regard.device import find_device
from regard.errors import UserError
from regard.nn.dropout import drawing
from regard.tasks.task import Task
from regard.training.checkpoint import Checkpoint
from regard.training.optim import Optimizer, Share
from regard.training.run import Run
from regard.training.signals import Stop, Stopped
from regard.workers import Workers

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


@dataclass(frozen=True)
class Part:
    """What one part of a batch gives."""

    gradient: dict[Tensor, Tensor | None]
    total: float
    nll: float


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
        self.task, self.config, self.run, self.seed = task, config, run, seed
        self.device, self.autocast = choose_device(config)
        self.model: nn.Module = model.to(self.device)
        self.optimizer = Optimizer(model, config, d_model, max(1, config.parts))
        self.learned = [p for p in model.parameters() if p.requires_grad]
        self.workers = Workers(config.parts)
        self.metric, self.facts = metric, facts
        self.callbacks, self.on_best = callbacks, on_best
        self.stop = stop or Stop()
        self.progress = Progress()
        self.window = Window()
        self.ema = {n: p.detach().clone() for n, p in model.named_parameters()} if config.ema else None
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
                self._update()
        except Stopped:
            if progress.step not in self.run.checkpoints.scheduled():
                self.save(scheduled=False)
            self._notify({"event": "stopped", "step": progress.step})
            raise
        except (MemoryError, torch.OutOfMemoryError, RuntimeError) as error:
            raise _explain_memory(error, config) from error
        finally:
            self.workers.close()

    def _update(self) -> None:
        """One update from `accumulate` batches; a random draw depends on seed, step, batch and part alone."""
        progress, config = self.progress, self.config
        step = progress.step + 1
        batches = [next(self.task.batches) for _ in range(config.accumulate)]
        count = sum(batch.count for batch in batches)
        self.model.train()
        total, nll = 0.0, 0.0
        for number, batch in enumerate(batches):
            parts = batch.cut(max(1, config.parts))
            seeds = [mixed(self.seed, step, number, part) for part in range(len(parts))]
            work = [(part, count, seed) for part, seed in zip(parts, seeds, strict=True)]
            for part in self._add(list(self.workers.map(self._gradient, work))):
                total, nll = total + part.total, nll + part.nll
        norm = self._clip()
        if math.isfinite(total) and math.isfinite(norm):
            lr = self.optimizer.step(step, self.workers.map)
            self._move_average(step)
            progress.skipped_in_row = 0
            progress.tokens += count
            self.window.loss, self.window.nll = self.window.loss + total, self.window.nll + nll
            self.window.count += count
        else:
            lr = 0.0
            progress.skipped += 1
            progress.skipped_in_row += 1
            self._tell({"event": "skipped", "step": step, "loss": str(total), "norm": str(norm)})
        for parameter in self.model.parameters():
            parameter.grad = None
        progress.step = step
        progress.seconds = time.perf_counter() - self._began
        if progress.skipped_in_row >= MOST_SKIPPED:
            raise UserError(
                f"the loss was not finite {MOST_SKIPPED} updates in a row (step {step}); "
                "lower train.lr, lengthen train.warmup, or set train.clip = 1; the checkpoints before it are sound"
            )
        if step % config.log_every == 0 or step in (FIRST_LINE, config.steps):
            self._log_line(lr, norm)

    def _gradient(self, work: tuple[Any, int, int]) -> Part:
        """Of one part of a batch: the gradient of its loss over the update's count, and its sums of loss and nll."""
        batch, count, seed = work
        draws = torch.Generator(self.device).manual_seed(seed)
        with drawing(draws), torch.autocast(self.device.type, torch.bfloat16, enabled=self.autocast):
            loss = self.task.loss(self.model, batch.to(self.device))
        gradient = torch.autograd.grad(loss.total / count, self.learned, allow_unused=True)
        nll = loss.metrics.get("nll", loss.total)
        return Part(dict(zip(self.learned, gradient, strict=True)), float(loss.total.detach()), float(nll.detach()))

    # What follows is done for each parameter by itself, on all cores: each has a share of them, and they meet once.

    def _add(self, found: list[Part]) -> list[Part]:
        """Sums the gradients in the order of the parts, which are given back without them: they are large."""

        def add(share: Share) -> None:
            for parameter in share.params:
                for more in (part.gradient.pop(parameter) for part in found):
                    if more is not None:
                        parameter.grad = more if parameter.grad is None else parameter.grad + more

        list(self.workers.map(add, self.optimizer.shares))
        return found

    def _clip(self) -> float:
        def norm_of(share: Share) -> float:
            norms = torch._foreach_norm(share.gradients())
            return float(torch.stack(norms).norm()) if norms else 0.0

        norm = math.hypot(*self.workers.map(norm_of, self.optimizer.shares))
        if self.config.clip and norm > self.config.clip:
            factor = self.config.clip / norm
            list(self.workers.map(lambda share: torch._foreach_mul_(share.gradients(), factor), self.optimizer.shares))
        return norm

    def _move_average(self, step: int) -> None:
        if self.ema is None:
            return
        decay = min(self.config.ema, (1 + step) / (10 + step))  # a short memory while there is little to remember
        names, average = self.optimizer.names, self.ema

        def move(share: Share) -> None:
            params = [p.detach() for p in share.params]
            torch._foreach_lerp_([average[names[p]] for p in share.params], params, 1 - decay)

        list(self.workers.map(move, self.optimizer.shares))

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
        began, raw = time.perf_counter(), self._swap_in_average()
        try:
            with self.stop.interruptible():
                evaluation = self.task.evaluate(self.model)
        finally:
            self._swap_out(raw)
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
        }
        self._tell(event)
        if better:
            raw = self._swap_in_average()
            self.on_best(self.model, event)
            self._swap_out(raw)
        self.window.since += time.perf_counter() - began  # validation does not count as slow training

    def _swap_in_average(self) -> dict[str, Tensor] | None:
        """The moving average takes the weights' place; gives back what stood there."""
        if self.ema is None:
            return None
        raw = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        load_weights(self.model, self.ema)
        return raw

    def _swap_out(self, raw: dict[str, Tensor] | None) -> None:
        if raw is not None:
            load_weights(self.model, raw)

    def save(self, *, scheduled: bool = True) -> None:
        tensors: dict[str, dict[str, Tensor]] = {
            "weights": {name: p.detach() for name, p in self.model.named_parameters()},
            "optimizer": self.optimizer.state(),
        }
        if self.ema is not None:
            tensors["ema"] = self.ema
        state = {"progress": asdict(self.progress), "batches": self.task.batches.state(), "facts": self.facts}
        self.run.checkpoints.save(Checkpoint(self.progress.step, tensors, state), scheduled=scheduled)

    def restore(self, checkpoint: Checkpoint, *, restart_epoch: bool = False) -> None:
        """restart_epoch: its batches are others now, so the epoch is begun again."""
        load_weights(self.model, checkpoint.tensors["weights"])
        self.optimizer.load(checkpoint.tensors["optimizer"])
        if self.ema is not None:
            saved = checkpoint.tensors.get("ema", checkpoint.tensors["weights"])  # it may have been switched on since
            self.ema = {n: saved[n].to(self.device) for n in self.ema}
        self.progress = Progress(**checkpoint.state["progress"] | {"finished": False})
        self.task.batches.restore(checkpoint.state["batches"], restart_epoch=restart_epoch)

    def _tell(self, event: Event) -> None:
        self.run.log(event)
        self._notify(event)

    def _notify(self, event: Event) -> None:
        """Tells without a line in the log."""
        for callback in self.callbacks:
            callback(event)


def mixed(*numbers: int) -> int:
    """A seed from several numbers: different for different ones, the same every time."""
    value = 0x9E3779B97F4A7C15
    for number in numbers:
        value = (value ^ number) * 0xBF58476D1CE4E5B9 % 2**64
        value ^= value >> 31
    return value % 2**63


@torch.no_grad()
def load_weights(model: nn.Module, weights: dict[str, Tensor]) -> None:
    for name, parameter in model.named_parameters():
        parameter.copy_(weights[name])


def choose_device(config: TrainConfig) -> tuple[torch.device, bool]:
    """The device, and whether bfloat16 gains there: on CUDA it does; a CPU without its units is slower with it."""
    device = find_device(config.device)
    return device, config.precision == "bfloat16" or (config.precision == "auto" and device.type == "cuda")


def _explain_memory(error: Exception, config: TrainConfig) -> Exception:
    words = str(error).lower()
    if not isinstance(error, MemoryError | torch.OutOfMemoryError) and "allocate memory" not in words:
        return error
    half = max(8, config.batch_tokens // 2)
    return UserError(
        f"out of memory with train.batch_tokens = {config.batch_tokens}; try batch_tokens={half} "
        f"accumulate={config.accumulate * 2}, which trains the same in less memory (with --resume --force to go on), "
        "fewer train.parts, or a smaller model"
    )
