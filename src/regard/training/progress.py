"""What a person sees while training: a live line on a terminal, plain lines elsewhere."""

import time
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn

Event = dict[str, Any]


class Show:
    """A callback for `train` that prints its events."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self.live = self.console.is_terminal
        self.bar: Progress | None = None
        self.row: TaskID | None = None
        self.steps = 0

    def __call__(self, event: Event) -> None:
        handler = getattr(self, f"_{event['event']}", None)
        if handler is not None:
            handler(event)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None

    def _print(self, text: str, style: str = "") -> None:
        self.console.print(text, style=style or None, soft_wrap=True)

    def _prepare(self, event: Event) -> None:
        self._print(escape(event["text"]), "dim")

    def _warning(self, event: Event) -> None:
        self._print(f"warning: {escape(event['text'])}", "yellow")

    def _begin(self, event: Event) -> None:
        self.steps = event["steps"]
        where = f"from step {event['step']:,} " if event["step"] else ""
        self._print(
            f"training {where}to step {self.steps:,} on {event['device']} in {event['precision']}: "
            f"{event['parameters']:,} parameters, in {escape(event['out'])}"
        )
        if self.live:
            columns = (BarColumn(bar_width=24), TextColumn("{task.description}"))
            self.bar = Progress(*columns, console=self.console, transient=True)
            self.row = self.bar.add_task("starting", total=self.steps, completed=event["step"])
            self.bar.start()

    def _train(self, event: Event) -> None:
        text = (
            f"step {event['step']:,}/{self.steps:,}  epoch {event['epoch'] + 1}  loss {event['nll']:.3f}  "
            f"{event['tokens_per_second']:,} {event['unit']}/s  lr {event['lr']:.2g}  {clock(event['eta'])} left"
        )
        if self.bar is not None and self.row is not None:
            self.bar.update(self.row, completed=event["step"], description=text)
        else:
            self._print(text)

    def _validating(self, event: Event) -> None:
        if self.bar is not None and self.row is not None:
            self.bar.update(self.row, description=f"step {event['step']:,}: scoring the dev set")

    def _validate(self, event: Event) -> None:
        scores = "  ".join(
            f"{name.replace('_', ' ')} {event[name]:.{2 if name in ('bleu', 'chrf') else 3}f}"
            for name in event["scores"]
        )
        mark = "  [green]best so far[/]" if event["best"] else ""
        self._print(f"[bold]dev[/] at step {event['step']:,}: {scores}{mark}")
        for sample in event["samples"]:
            self._print(f"    [dim]{escape(sample['source'])}[/]")
            self._print(f"    {escape(sample['output'])}")
            if sample["output"] != sample["reference"]:
                self._print(f"    [dim]expected: {escape(sample['reference'])}[/]")

    def _skipped(self, event: Event) -> None:
        self._print(f"step {event['step']:,} skipped: loss {event['loss']}, gradient norm {event['norm']}", "yellow")

    def _finishing(self, event: Event) -> None:
        self.close()
        self._print("scoring the final model", "dim")

    def _finished(self, event: Event) -> None:
        self._print(f"this run is finished (step {event['step']:,}); nothing to do")

    def _stopped(self, event: Event) -> None:
        self.close()
        self._print(f"stopped and saved at step {event['step']:,}; go on with --resume", "yellow")

    def _end(self, event: Event) -> None:
        self.close()
        for name, scores in event["scores"].items():
            values = "  ".join(f"{m.replace('_', ' ')} {_value(s)}" for m, s in scores.items())
            self._print(f"[bold]{name}[/]: {values}")
        self._print(f"done after {clock(event['seconds'])} of training")


def _value(score: dict[str, Any]) -> str:
    if score.get("interval") is None:
        return f"{score['value']:.4f}"
    return f"{score['value']:.2f} ± {score['interval']:.2f}"


def clock(seconds: float) -> str:
    """1:02:03, or 2:03."""
    whole = time.gmtime(round(seconds))
    hours = round(seconds) // 3600
    return f"{hours}:{whole.tm_min:02d}:{whole.tm_sec:02d}" if hours else f"{whole.tm_min}:{whole.tm_sec:02d}"
