"""RISE (Petsiuk, Das, Saenko 2018): which parts of an input a black box's score depends on, by masking it at random."""

# Shapes: B masks of a batch, K scores, N places (a map's places in one row).

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from itertools import count
from statistics import NormalDist
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from regard.errors import UserError

Array = NDArray[np.float64]
Score = Callable[[Array], Any]  # masks (B and the map's shape) to scores: B, or B K

BLOCK = 8  # masks between two corrections of the prediction
LEAST = 64  # masks before a run may end early
LARGEST = 2**24  # numbers in a map over all scores
FEW = 12  # up to so many words, the black box is asked once for each of the masks there are


class Masks(Protocol):
    """Where masks come from: 1 is seen, 0 is hidden, and the mean of each place is `keep`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a mask, and so of the map."""

    @property
    def keep(self) -> float: ...

    @property
    def free(self) -> int:
        """How many random bits a mask has."""

    @property
    def independent(self) -> bool:
        """Whether every place is a bit of its own."""

    def draw(self, random: np.random.Generator, size: int) -> Array:
        """The next masks. It takes equally many random numbers for each, so that no batch size changes them."""


@dataclass(frozen=True)
class Bits:
    """Every place is seen with probability `keep`, whatever the others are: words, tokens, characters."""

    places: int
    keep: float = 0.5
    independent: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_keep(self.keep)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.places,)

    @property
    def free(self) -> int:
        return self.places

    def draw(self, random: np.random.Generator, size: int) -> Array:
        return (random.random((size, self.places)) < self.keep).astype(np.float64)


def check_keep(keep: float) -> None:
    if not 0 < keep < 1:
        raise UserError(f"keep is {keep}; it is the probability that a place is seen, between 0 and 1")


@dataclass(frozen=True)
class Plan:
    """How long to look, and how: the options of every explanation.

    With a confidence the run ends early: once, with this confidence, every value of the map is known to within
    `within` of the map's range (all of them at once, by Bonferroni's bound).
    """

    masks: int = 1000
    seed: int = 0
    batch: int = 64  # inputs that the black box gets at once; with a confidence, how often it is looked at
    confidence: float | None = None
    within: float = 0.1

    def __post_init__(self) -> None:
        for name, least in (("masks", 2), ("seed", 0), ("batch", 1)):
            if getattr(self, name) < least:
                raise UserError(f"{name} is {getattr(self, name)}; the least is {least}")
        if self.confidence is not None and not 0 < self.confidence < 1:
            raise UserError(f"confidence is {self.confidence}; it lies between 0 and 1, such as 0.95")
        if not self.within > 0:
            raise UserError(f"within is {self.within}; it is a part of the map's range, such as 0.1")


def planned(**options: Any) -> Plan:
    """A plan from options; one that does not exist is a user's mistake."""
    known = [f.name for f in fields(Plan)]
    for name in options:
        if name not in known:
            raise UserError(f"there is no option {name!r}; those of a plan are {', '.join(known)}")
    return Plan(**options)


@dataclass(frozen=True, eq=False)
class Saliency:
    """The map as far as it is known after some masks.

    A value is the mean score when the place is seen less the mean score when it is hidden, the other places being
    masked at random: in the score's own unit, 0 where the place does not matter. The paper's map is `rise`.
    """

    values: Array  # K and the map's shape
    errors: Array  # the values' standard errors
    mean: Array  # K, the mean score of a masked input
    whole: Array  # K, the score of the input as it is
    nothing: Array  # K, the score when all is hidden
    masks: int
    planned: int
    keep: float
    reached: bool  # whether the confidence asked for is reached

    @property
    def done(self) -> bool:
        return self.reached or self.masks == self.planned

    @property
    def rise(self) -> Array:
        """The paper's S: the mean score, weighted by how much of the place was seen."""
        mean = self.mean.reshape(-1, *[1] * (self.values.ndim - 1))
        found: Array = mean + (1 - self.keep) * self.values
        return found


def rise(score: Score, masks: Masks, plan: Plan | None = None) -> Iterator[Saliency]:
    """Masks the input at random, batch by batch, and yields the map after each; memory does not grow with the masks.

    The last one yielded is `done`. For the same seed the masks are the same, whatever the batch size.
    """
    plan = plan or Plan()
    ask = Asking(score, plan.batch, remember=masks.independent and masks.free <= FEW)
    ends = ask(np.stack([np.ones(masks.shape), np.zeros(masks.shape)]))
    running = Running(masks, guess=ends.mean(0))
    random = np.random.default_rng(plan.seed)
    for start in count(0, plan.batch):
        drawn = masks.draw(random, min(plan.batch, plan.masks - start))
        running.add(drawn, ask(drawn))
        found = running.saliency(ends, plan)
        yield found
        if found.done:
            return


class Running:
    """The sums that a map is made of.

    Estimating the covariance of score and mask directly is noisy: the score changes with all places at once, and each
    place's value takes the blame. So what is already known (the mean, and the map so far, shrunk while it is unsure)
    predicts the scores of the next masks; only what the prediction leaves over is measured, and what it contains of
    each place is known and added back. Since a prediction is made of earlier masks alone, the estimate has no bias,
    whatever the prediction is worth. The map can predict only where the places are masked independently; elsewhere the
    mean alone does.
    """

    def __init__(self, masks: Masks, guess: Array) -> None:
        self.masks = masks
        self.count = 0
        size = (len(guess), int(np.prod(masks.shape)))
        if size[0] * size[1] > LARGEST:
            raise UserError(f"{size[0]:,} scores of {size[1]:,} places are too many; choose some of the scores")
        self.level, self.slope = guess, np.zeros(size)  # the prediction: level + slope (mask - keep)
        self.total, self.squares = np.zeros(size), np.zeros(size)
        self.mean = np.zeros(len(guess))

    def add(self, masks: Array, scores: Array) -> None:
        """Takes the scores (B K) of masks into account, in blocks that do not depend on the batch size."""
        masks, start = masks.reshape(len(masks), -1), 0
        while start < len(masks):
            size = BLOCK - self.count % BLOCK
            self._add(masks[start : start + size] - self.masks.keep, scores[start : start + size])
            start += size

    def _add(self, seen: Array, scores: Array) -> None:
        size, unit = len(seen), self.masks.keep * (1 - self.masks.keep)
        rest = scores - self.level - seen @ self.slope.T  # B K
        change = rest.T @ seen / unit  # K N
        self.total += size * self.slope + change
        self.squares += size * self.slope**2 + 2 * self.slope * change + (rest**2).T @ seen**2 / unit**2
        self.mean += size * self.level + rest.sum(0)
        self.count += size
        if self.count % BLOCK == 0:
            self.level = self.mean / self.count
            if self.masks.independent:
                self.slope = self.total / (self.count + self.total.shape[1])

    def saliency(self, ends: Array, plan: Plan) -> Saliency:
        shape = (-1, *self.masks.shape)
        values = self.total / self.count
        variance = np.maximum(self.squares / self.count - values**2, 0) / max(self.count - 1, 1)
        errors = np.sqrt(variance)
        return Saliency(
            values.reshape(shape),
            errors.reshape(shape),
            mean=self.mean / self.count,
            whole=ends[0],
            nothing=ends[1],
            masks=self.count,
            planned=plan.masks,
            keep=self.masks.keep,
            reached=self.count >= LEAST and self._sure(values, errors, plan),
        )

    def _sure(self, values: Array, errors: Array, plan: Plan) -> bool:
        if plan.confidence is None:
            return False
        known_at_once = len(values) * self.masks.free
        width = NormalDist().inv_cdf(1 - (1 - plan.confidence) / (2 * known_at_once))
        return bool(width * errors.max() <= plan.within * np.ptp(values))


class Asking:
    """Calls the black box, at most `batch` inputs at once, and checks what it answers."""

    def __init__(self, score: Score, batch: int, *, remember: bool = False) -> None:
        self.score, self.batch = score, batch
        self.known: dict[bytes, Array] | None = {} if remember else None
        self.asked = 0
        self.scores: int | None = None

    def __call__(self, masks: Array) -> Array:
        """The scores (B K) of masks; of those that are remembered, without a call."""
        if self.known is None:
            return np.concatenate([self._ask(masks[i : i + self.batch]) for i in range(0, len(masks), self.batch)])
        keys = [mask.tobytes() for mask in masks]
        new = {key: row for row, key in enumerate(keys) if key not in self.known}
        rows = list(new.values())
        for i in range(0, len(rows), self.batch):
            answers = self._ask(masks[rows[i : i + self.batch]])
            self.known.update(zip(list(new)[i : i + self.batch], answers, strict=True))
        return np.stack([self.known[key] for key in keys])

    def _ask(self, masks: Array) -> Array:
        answer = self.score(masks)
        try:
            scores = np.asarray(answer, dtype=np.float64)
        except (TypeError, ValueError):
            raise UserError(f"the black box answered {answer!r:.80}, which is not an array of numbers") from None
        if scores.ndim == 1:
            scores = scores[:, None]
        if scores.ndim != 2 or len(scores) != len(masks) or not scores.shape[1]:
            raise UserError(
                f"the black box got {len(masks)} inputs and answered with shape {np.shape(answer)}; "
                "it must give one score for each input, or one row of scores"
            )
        if self.scores not in (None, scores.shape[1]):
            raise UserError(f"the black box gave {self.scores} scores for an input before, now {scores.shape[1]}")
        self.scores = scores.shape[1]
        wrong = np.flatnonzero(~np.isfinite(scores).all(1))
        if len(wrong):
            bad = scores[wrong[0]]
            hidden = int((masks[wrong[0]] < 0.5).sum())
            raise UserError(
                f"the black box gave {bad[~np.isfinite(bad)][0]} for masked input {self.asked + wrong[0] + 1}, "
                f"in which {hidden} of {masks[wrong[0]].size} places are hidden"
            )
        self.asked += len(masks)
        return scores
