"""How far a model's attention and IBM model 1 agree on which word stands for which."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from regard.align import IBM1, owed, same_places
from regard.view.look import look

if TYPE_CHECKING:
    from regard.api import Model


@dataclass(frozen=True)
class Agreement:
    """Of so many target words, how many have the same source word as their strongest by attention as by counting."""

    words: int
    same: int
    diagonal: int  # the same, had attention looked at the n-th part of the source for the n-th part of the target

    @property
    def share(self) -> float:
        return self.same / self.words if self.words else 0.0

    @property
    def base(self) -> float:
        return self.diagonal / self.words if self.words else 0.0


def agreement(model: "Model", pairs: Iterable[tuple[str, str]], aligner: IBM1) -> Agreement:
    """Over pairs of texts, by the model's clearest layer, words as they stand between spaces; ends are left out."""
    words = same = diagonal = 0
    for source, target in pairs:
        found = look(model, source, target).merged()
        ours, theirs = ([word.strip() for word in found.axes[side].tokens[:-1]] for side in ("source", "target"))
        if ours and theirs:
            counted = aligner.matrix(ours, theirs)
            known = owed(counted)  # the others come from nowhere
            words += int(known.sum())
            same += same_places(found.alignment()[:-1, :-1][known], counted[known])
            places = np.arange(len(theirs)) * len(ours) // len(theirs)
            diagonal += int((places == counted.argmax(1))[known].sum())
    return Agreement(words, same, diagonal)
