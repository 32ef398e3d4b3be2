"""Labels, with probabilities, from a trained classifier."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.bundle import Bundle
from regard.data.tables import Example
from regard.tasks.classification import Reader


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
