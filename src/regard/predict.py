"""Labels with probabilities from a trained classifier, and hidden words from a model that guesses them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

from regard.bundle import Bundle
from regard.data.running import RunningText, read_paragraphs
from regard.data.tables import Example
from regard.errors import UserError
from regard.tasks.classification import Reader
from regard.tasks.masked import Texts, measure


@dataclass(frozen=True)
class Prediction:
    """What is said of one text: labels with probabilities, the likeliest first, or a number."""

    labels: dict[str, float]
    number: float | None = None
    chosen: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        if self.number is not None:
            return {"number": self.number}
        return {"labels": list(self.chosen), "probabilities": {n: round(p, 5) for n, p in self.labels.items()}}

    def told(self, top: int) -> list[str]:
        """For a line of a table."""
        if self.number is not None:
            return [f"{self.number:.4f}"]
        return [f"{name} {probability:.3f}" for name, probability in list(self.labels.items())[:top]]


class Predictor:
    """A trained classifier: texts (or pairs of them) in, predictions out."""

    def __init__(self, bundle: Bundle) -> None:
        kind = bundle.training.get("recipe", {}).get("data", {}).get("labels", "one")
        self.bundle = bundle
        self.reader = Reader(bundle.source, bundle.labels, kind, bundle.max_length)

    def __call__(self, texts: Sequence[str | Sequence[str]]) -> list[Prediction]:
        examples = [Example((text,) if isinstance(text, str) else tuple(text), "", "input") for text in texts]
        if not examples:
            return []
        outputs = self.reader.outputs(self.bundle.model, self.reader.rows(examples))
        if self.reader.kind == "number":
            return [Prediction({}, float(row[0])) for row in outputs]
        return [self._prediction(row) for row in self.reader.probabilities(outputs)]

    def _prediction(self, row: Any) -> Prediction:
        ranked = {self.reader.labels[i]: float(row[i]) for i in (-row).argsort(kind="stable")}
        several = self.reader.kind == "several"
        chosen = tuple(name for name, p in ranked.items() if p >= 0.5) if several else tuple(ranked)[:1]
        return Prediction(ranked, chosen=chosen)

    def evaluate(self, examples: Sequence[Example]) -> dict[str, float]:
        """The task's scores on labelled examples."""
        rows = self.reader.rows(examples)
        return self.reader.scores(rows, self.reader.outputs(self.bundle.model, rows))


class Filler:
    """A model of masked words: texts with masks in, the likeliest words for each out."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle

    @torch.inference_mode()
    def __call__(self, texts: Sequence[str], top: int = 10) -> list[list[Prediction]]:
        return [self._filled(text, top) for text in texts]

    def _filled(self, text: str, top: int) -> list[Prediction]:
        model, tokenizer = self.bundle.model, self.bundle.source
        specials = tokenizer.specials
        ids = specials.framed(tokenizer.encode_masked(text))[0]
        if specials.mask not in ids:
            assert specials.mask is not None
            raise UserError(f"there is no {tokenizer.token(specials.mask)} to be filled in here: {text[:60]!r}")
        if len(ids) > self.bundle.max_length:
            raise UserError(f"{len(ids)} tokens, where this model reads up to {self.bundle.max_length}: {text[:60]!r}")
        tokens = torch.tensor([ids], device=next(model.parameters()).device)
        hidden = model.words(model.states(tokens, None)[tokens == specials.mask])
        logits = F.linear(hidden, model.output, model.words.bias)
        logits[:, list(specials.ids)] = -torch.inf
        return [self._prediction(row, top) for row in logits.softmax(-1)]

    def _prediction(self, probabilities: torch.Tensor, top: int) -> Prediction:
        """Of tokens that look alike but for the space before them the likelier one is told."""
        best = probabilities.topk(min(2 * top, len(probabilities)))
        labels: dict[str, float] = {}
        for look, value in zip(self.bundle.source.surface(best.indices), best.values, strict=True):
            labels.setdefault(look.strip() or look, float(value))
        ranked = dict(list(labels.items())[:top])
        return Prediction(ranked, chosen=tuple(ranked)[:1])

    def evaluate(self, files: Sequence[str | Path]) -> dict[str, float]:
        """The scores of training, on files of plain text."""
        bundle = self.bundle
        text = RunningText.of(read_paragraphs(files), bundle.source)
        return measure(
            bundle.model, Texts(text, bundle.source, bundle.max_length, pairs=bundle.model.head.next_sentence)
        )
