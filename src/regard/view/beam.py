"""The beam once more, plainly, for one sentence: it keeps what it considered. `decode/beam.py` is the fast one."""

# Shapes: W hypotheses kept, T length, V vocabulary.

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch

from regard.decode.options import DecodeOptions
from regard.decode.protocol import Decodable, Hypothesis, Model
from regard.text import BOS, EOS


@dataclass(frozen=True)
class Candidate:
    """A hypothesis with one more token, as it stood at one step of the search."""

    tokens: tuple[int, ...]  # all so far; a finished one ends with the end symbol
    parent: int  # which candidate of the step before it continues
    log_prob: float
    fate: Literal["kept", "ended", "dropped"]
    score: float | None  # what an ended one is ranked by


@dataclass
class Search:
    """Every step's candidates, best first, and what came of them."""

    steps: list[list[Candidate]] = field(default_factory=list)
    finished: list[Hypothesis] = field(default_factory=list)

    @property
    def best(self) -> Hypothesis:
        return max(self.finished, key=lambda h: h.score)

    def path(self) -> list[int]:
        """Which candidate of each step the best output went through."""
        wanted = (*self.best.tokens, EOS)
        last = len(wanted) - 1
        place = next(i for i, c in enumerate(self.steps[last]) if c.tokens == wanted and c.fate == "ended")
        places = [place]
        for step in range(last, 0, -1):
            places.append(self.steps[step][places[-1]].parent)
        return places[::-1]


@torch.inference_mode()
def search(models: Sequence[Decodable], source: Sequence[int], options: DecodeOptions, device: torch.device) -> Search:
    """Beam search for one source (its end symbol included), with its history."""
    model = Model(models, torch.tensor([list(source)], device=device), None)
    longest = options.longest(torch.tensor([len(source)], device=device), model.most_written)
    tokens = torch.full((1, 1), BOS, device=device)  # W T
    scores = torch.zeros(1, device=device)  # W
    places = [0]  # of each row among the candidates of the step before
    found = Search()
    while True:
        log_probs = model.step(tokens[:, -1:])  # W V
        options.forbid(log_probs, tokens, longest.expand(len(tokens)))
        total = scores[:, None] + log_probs
        values, chosen = total.flatten().topk(min(2 * options.beam, total.numel()))
        rows: list[int] = []
        kept: list[int] = []
        step: list[Candidate] = []
        for rank, (value, place) in enumerate(zip(values.tolist(), chosen.tolist(), strict=True)):
            row, token = divmod(place, total.size(1))
            if value == -torch.inf:
                break
            so_far = (*tokens[row, 1:].tolist(), token)
            fate: Literal["kept", "ended", "dropped"] = "dropped"
            if token == EOS and rank < options.beam:
                fate = "ended"
                found.finished.append(Hypothesis(so_far[:-1], value, options.normalise(value, len(so_far))))
            elif token != EOS and len(rows) < options.beam:
                fate = "kept"
                rows.append(row)
                kept.append(rank)
            score = found.finished[-1].score if fate == "ended" else None
            step.append(Candidate(so_far, places[row], value, fate, score))
        found.steps.append(step)
        if len(found.finished) >= options.beam or not rows:
            return found
        index = torch.tensor(rows, device=device)
        model.reorder(index)
        tokens = torch.tensor([[BOS, *step[i].tokens] for i in kept], device=device)
        scores, places = values[kept], kept
