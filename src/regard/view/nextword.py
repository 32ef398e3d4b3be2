"""What the model might have written: the likeliest tokens at each step, and the hypotheses its beam considered."""

# Shapes: T length, D width, V vocabulary.

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from regard.text import EOS, Tokenizer
from regard.view import words
from regard.view.beam import Search

TOP = 10  # alternatives shown at each step


@dataclass(frozen=True)
class Step:
    """One place of the output: what stands there, how likely it was, and what else might have stood there."""

    token: str
    probability: float
    rank: int  # 1 when nothing was likelier
    top: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class NextWords:
    """The model's probabilities under the output as written, and the search that found it."""

    steps: tuple[Step, ...]
    beam: dict[str, Any] | None  # None when the output was given, so that nothing was searched for

    def to_dict(self) -> dict[str, Any]:
        steps = [
            {
                "token": s.token,
                "probability": round(s.probability, 6),
                "rank": s.rank,
                "top": [[t, round(p, 6)] for t, p in s.top],
            }
            for s in self.steps
        ]
        return {"steps": steps, "beam": self.beam}

    def terminal(self) -> str:
        """One line a step: what was written, and the next likely ones."""
        width = max(len(s.token) for s in self.steps)
        lines = ["Each token with its probability, then what else was likely", ""]
        for step in self.steps:
            others = [f"{t} {p:.2f}" for t, p in step.top if t != step.token and p >= 0.005][:4]
            lines.append(f"{step.token:>{width}}  {step.probability:.2f}   {'  '.join(others)}".rstrip())
        if self.beam:
            lines += ["", "What the beam finished with, best first (log-probability, and by length)"]
            ended = [c for step in self.beam["steps"] for c in step if c["fate"] == "ended"]
            for each in sorted(ended, key=lambda c: -c["score"]):
                lines.append(f"{each['log_prob']:>8.2f} {each['score']:>8.2f}   {each['text']}")
        return "\n".join(lines)


def next_words(logits: Tensor, written: Sequence[int], tokenizer: Tokenizer, search: Search | None) -> NextWords:
    """logits (T V) after the begin symbol and after each written token; what is written ends with the end symbol."""
    log_probs = logits.float().log_softmax(-1)
    values, ids = log_probs.topk(min(TOP, log_probs.size(1)))
    steps = []
    for row, token in enumerate((*written, EOS)):
        mine = log_probs[row, token]
        rank = int((log_probs[row] > mine).sum()) + 1
        top = [(label(tokenizer, i), p) for i, p in zip(ids[row].tolist(), values[row].exp().tolist(), strict=True)]
        steps.append(Step(label(tokenizer, token), float(mine.exp()), rank, tuple(top)))
    return NextWords(tuple(steps), None if search is None else _history(search, tokenizer))


def label(tokenizer: Tokenizer, token: int) -> str:
    """A token that stands alone, as a picture shows it."""
    return words.label(words.END if token == EOS else tokenizer.surface([token])[0])


def _history(search: Search, tokenizer: Tokenizer) -> dict[str, Any]:
    steps = [
        [
            {
                "token": label(tokenizer, c.tokens[-1]),
                "text": tokenizer.decode([t for t in c.tokens if t != EOS]),
                "parent": c.parent,
                "log_prob": round(c.log_prob, 4),
                "fate": c.fate,
                "score": None if c.score is None else round(c.score, 4),
            }
            for c in step
        ]
        for step in search.steps
    ]
    return {"steps": steps, "path": search.path()}
