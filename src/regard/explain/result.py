"""What an explanation of a text says, and how it is shown: numbers, a terminal, JSON."""

# Shapes: K scores (rows), N places.

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
from rich.text import Text

from regard.explain import page, show
from regard.explain.curves import Curves, curves
from regard.explain.rise import Array, Saliency, Score
from regard.view.page import STILL, framed

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Explanation:
    """How much each place of a text matters to each score: the rows are scores, or the words of an output."""

    text: str
    places: tuple[str, ...]
    rows: tuple[str, ...]
    saliency: Saliency
    score: Score  # masks to scores: the black box, as it was asked
    output: str | None = None  # of a translator: what the rows are the words of
    languages: tuple[str, str] | None = None

    @property
    def values(self) -> Array:
        """K N: the mean score when the place is seen less the mean score when it is hidden."""
        return self.saliency.values

    @property
    def errors(self) -> Array:
        """K N: the standard errors of the values."""
        return self.saliency.errors

    @property
    def most(self) -> float:
        """The value that is drawn in full colour: a whole probability, or the largest value where scores are any."""
        return 1.0 if self.output is not None else float(np.abs(self.values).max()) or 1.0

    def top(self, row: int = 0, count: int = 3) -> list[tuple[str, float]]:
        """The places that raise a score most."""
        order = np.argsort(-self.values[row], kind="stable")[:count]
        return [(self.places[i], float(self.values[row, i])) for i in order]

    def curves(self, orders: int = 5, seed: int = 0, batch: int = 64) -> tuple[Curves, ...]:
        """Deletion and insertion for each row, beside random orders; it asks the black box again."""
        return curves(self.score, self.values, orders=orders, seed=seed, batch=batch)

    def to_dict(self, tested: Sequence[Curves] = ()) -> dict[str, Any]:
        """Everything as JSON has it, with the rows' curves if they are given; saliency.js draws it."""
        found = self.saliency
        return {
            "text": self.text,
            "output": self.output,
            "languages": None if self.languages is None else list(self.languages),
            "places": list(self.places),
            "rows": [
                {
                    "label": label,
                    "whole": _digits(found.whole[i]),
                    "nothing": _digits(found.nothing[i]),
                    "mean": _digits(found.mean[i]),
                    "values": [_digits(v) for v in found.values[i]],
                    "errors": [_digits(v) for v in found.errors[i]],
                    **({"curves": tested[i].to_dict()} if tested else {}),
                }
                for i, label in enumerate(self.rows)
            ],
            "most": _digits(self.most),
            "keep": found.keep,
            "masks": found.masks,
            "planned": found.planned,
            "done": found.done,
            "image": None,
        }

    def terminal(self, colour: bool = False) -> Text:
        """Lines for a terminal: bars for one row, a line for each of several; its `plain` is the text alone."""
        return show.listing(self, colour) if len(self.rows) > 1 else show.bars(self)

    def to_svg(self) -> str:
        """A heat map of rows over places, as an SVG document."""
        return show.svg(self)

    def to_html(self, tested: Sequence[Curves] = ()) -> str:
        """A page that is complete in itself."""
        still = self.to_svg() if self.values.size <= STILL else ""
        return page.html(self.to_dict(tested), still)

    def _repr_html_(self) -> str:
        return framed(self.to_html(), "Explanation")

    def __repr__(self) -> str:
        found = ", ".join(f"{row!r}: {self.top(i, 1)[0][0]!r}" for i, row in enumerate(self.rows[:8]))
        return f"Explanation({self.text!r}, {self.saliency.masks} masks, {found})"


def _digits(value: float) -> float:
    """Five digits that count: the noise is larger."""
    return float(f"{value:.5g}")


def last_of(steps: Callable[P, Iterator[T]]) -> Callable[P, T]:
    """The function that gives only the last of what a generator gives."""

    @wraps(steps)
    def last(*args: P.args, **options: P.kwargs) -> T:
        for found in steps(*args, **options):  # noqa: B007
            pass
        return found

    last.__name__ = steps.__name__.removesuffix("_steps")
    last.__doc__ = (steps.__doc__ or "").replace(", again and again as more masks are tried", "")
    return last
