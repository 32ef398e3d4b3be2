"""Classification: one label, several, or a number for a text or a pair of texts."""

# Shapes: B batch, N examples, C classes.

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from regard.config import Recipe
from regard.data.cache import fingerprint
from regard.data.tables import Example, read_examples
from regard.errors import UserError
from regard.models import HEADS, MODELS
from regard.models.heads import Classifier
from regard.tasks import labels as scoring
from regard.tasks.reading import Batch, Row, RowBatches, framed, outputs
from regard.tasks.task import Asked, Evaluation, Loss, kept
from regard.tasks.vocabulary import hold_out, tokenizer_for
from regard.text import Tokenizer
from regard.text.sampling import Splitter

WHOLE = re.compile(r"-?[0-9]{1,18}")


class Reader:
    """From examples to rows, and from rows to probabilities (or numbers): what training and prediction share."""

    def __init__(self, tokenizer: Tokenizer, labels: Sequence[str], kind: str, longest: int) -> None:
        self.tokenizer, self.labels, self.kind, self.longest = tokenizer, list(labels), kind, longest

    def rows(self, examples: Sequence[Example], *, labelled: bool = True) -> list[Row]:
        firsts = self.tokenizer.encode_batch([example.texts[0] for example in examples])
        pairs = [example.texts[1] if len(example.texts) > 1 else None for example in examples]
        seconds = [None if text is None else self.tokenizer.encode(text) for text in pairs]
        numbers = {label: i for i, label in enumerate(self.labels)}
        found = []
        for example, first, second in zip(examples, firsts, seconds, strict=True):
            tokens, begin = framed(self.tokenizer.specials, first, second, self.longest)
            cut = len(tokens) < len(self.tokenizer.specials.framed(first, second)[0])
            found.append(Row(tokens, begin, self._target(example, numbers) if labelled else self._no_target(), cut))
        return found

    @property
    def positive(self) -> str:
        """Of two labels the one whose F1 is told: the last."""
        return self.labels[1] if self.kind == "one" and len(self.labels) == 2 else ""

    def knows(self, label: str) -> bool:
        """Whether training may have had this label."""
        if self.kind == "number":
            return math.isfinite(_parsed(label))
        return all(name in self.labels for name in (_several(label) if self.kind == "several" else [label]))

    def _no_target(self) -> Any:
        return np.zeros(len(self.labels), dtype=np.float32) if self.kind == "several" else 0

    def _target(self, example: Example, numbers: dict[str, int]) -> Any:
        if not example.label and self.kind != "several":
            raise UserError(f"{example.where}: there is no label")
        if self.kind == "number":
            return _number(example)
        given = _several(example.label) if self.kind == "several" else [example.label]
        for label in given:
            if label not in numbers:
                raise UserError(
                    f"{example.where}: label {label!r} is not one of the training data's: {self.labels[:20]}"
                )
        if self.kind == "one":
            return numbers[given[0]]
        return np.isin(np.arange(len(numbers)), [numbers[label] for label in given]).astype(np.float32)

    def collate(self, rows: Sequence[Row], draws: Any = None) -> Batch:
        kind = torch.long if self.kind == "one" else torch.float
        targets = torch.tensor(np.array([row.target for row in rows]), dtype=kind)
        return Batch.of(rows, targets, len(rows), self.tokenizer.specials.pad)

    def outputs(self, model: Any, rows: Sequence[Row]) -> NDArray[np.float64]:
        """What the model says of each row (N C), before any softmax."""
        return np.stack(outputs(model, rows, self.collate))

    def probabilities(self, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        logits = torch.from_numpy(outputs)
        made: NDArray[np.float64] = (logits.softmax(-1) if self.kind == "one" else logits.sigmoid()).numpy()
        return made

    def scores(self, rows: Sequence[Row], outputs: NDArray[np.float64]) -> dict[str, float]:
        truth = np.array([row.target for row in rows])
        if self.kind == "number":
            return scoring.of_numbers(truth, outputs[:, 0])
        made = self.probabilities(outputs)
        return scoring.of_classes(truth, made) if self.kind == "one" else scoring.of_several(truth, made)


class ClassificationTask:
    """Learns what is to be said of a text."""

    unit = "examples"

    def __init__(
        self, recipe: Recipe, reader: Reader, train: Sequence[Row], dev: Sequence[Row], test: Sequence[Row]
    ) -> None:
        self.recipe, self.reader = recipe, reader
        self.source = self.target = reader.tokenizer
        self.labels = reader.labels
        self.dev, self.test = dev, test
        config = recipe.train
        self.splitter = Splitter(reader.tokenizer, config.split) if config.split else None
        self.batches = RowBatches(train, config.batch_tokens, config.batch, recipe.seed, self._drawn)
        self.weights = _balanced(train, len(self.labels), reader.kind) if config.class_weights else None

    def model(self) -> Any:
        body = MODELS[self.recipe.network_name](self.recipe.network(len(self.source), len(self.source)))
        return HEADS["classification"](body, self.recipe.head, max(1, len(self.labels)))

    def _drawn(self, rows: Sequence[Row], draws: np.random.Generator | None) -> Batch:
        """A training batch, with subword sampling if it is asked for."""
        if self.splitter is not None and draws is not None:
            texts = [part for row in rows for part in (row.tokens[: row.second], row.tokens[row.second :])]
            parts = self.splitter(texts, self.reader.longest, draws.bit_generator)
            both = zip(rows, parts[::2], parts[1::2], strict=True)
            split = [Row(np.concatenate((a, b)), len(a), row.target) for row, a, b in both]
            short = (new.tokens.size <= self.reader.longest for new in split)
            rows = [new if fits else row for new, fits, row in zip(split, short, rows, strict=True)]
        return self.reader.collate(rows)

    def loss(self, model: Classifier, batch: Batch) -> Loss:
        config, given = self.recipe.train, (batch.tokens, batch.lengths, batch.segments)
        if not config.rdrop:
            return Loss(self._loss(model(*given), batch.targets, config.label_smoothing), batch.count)
        one, other = model(*(None if t is None else torch.cat((t, t)) for t in given)).chunk(2)
        lost = sum(self._loss(logits, batch.targets, config.label_smoothing) for logits in (one, other)) / 2
        return Loss(lost + config.rdrop / 4 * self._apart(one, other), batch.count)

    def _apart(self, one: Tensor, other: Tensor) -> Tensor:
        """KL(p, q) + KL(q, p), summed over the rows: their normalisers cancel each other."""
        if self.reader.kind == "several":
            return ((one.sigmoid() - other.sigmoid()) * (one - other)).sum() / one.size(1)
        return ((one.softmax(-1) - other.softmax(-1)) * (one - other)).sum()

    def _loss(self, logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        if self.reader.kind == "number":
            return F.mse_loss(logits[:, 0], targets, reduction="sum")
        weights = None if self.weights is None else self.weights.to(logits)
        if self.reader.kind == "several":
            softer = targets * (1 - smoothing) + smoothing / 2
            lost = F.binary_cross_entropy_with_logits(logits, softer, pos_weight=weights, reduction="sum")
            return lost / logits.size(1)
        return F.cross_entropy(logits, targets, weights, reduction="sum", label_smoothing=smoothing)

    def evaluate(self, model: Any) -> Evaluation:
        outputs = self.reader.outputs(model, self.dev)
        targets = self.reader.collate(self.dev).targets
        loss = float(self._loss(torch.from_numpy(outputs).float(), targets, 0.0)) / len(self.dev)
        return Evaluation({"loss": loss, **self.reader.scores(self.dev, outputs)})

    def scores(self, model: Any) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for name, rows in (("dev", self.dev), ("test", self.test)):
            if rows:
                found[name] = kept(self.reader.scores(rows, self.reader.outputs(model, rows)))
                if self.reader.positive:
                    found[name]["f1"]["of"] = self.reader.positive
        return found


def prepare(asked: Asked) -> tuple[ClassificationTask, dict[str, Any]]:
    """The task, and the facts that must be the same when the run is resumed."""
    recipe, data = asked.recipe, asked.recipe.data
    if not data.train:
        raise UserError("the recipe names no training data: set data.train to .tsv, .csv or .jsonl files")
    train, dev, test = (
        read_examples(paths, data.text, data.label) if paths else [] for paths in (data.train, data.dev, data.test)
    )
    names = _labels(train, data.labels)
    if data.labels != "number" and len(names) < 2:
        raise UserError(f"the training data has one label only: {names}; there is nothing to learn")
    if recipe.metric == "f1" and data.labels == "one" and len(names) > 2:
        raise UserError(f"train.metric f1 is that of one of two classes; here are {len(names)}: choose macro_f1")
    _warn_of_header(train, asked)
    if not dev:
        train, dev = hold_out(train, asked)
    tokenizer = tokenizer_for(asked, (text for example in train for text in example.texts))
    reader = Reader(tokenizer, names, data.labels, data.max_length)
    sets = [reader.rows(examples) for examples in (train, dev, test)]
    if told := cut_told(sum(row.cut for rows in sets for row in rows), sum(map(len, sets)), data.max_length):
        asked.tell({"event": "warning", "text": f"{told}; data.max_length says how many are read"})
    task = ClassificationTask(recipe, reader, *sets)
    told = f"{len(names)} labels" if names else "a number each"
    told += f", f1 is that of {reader.positive!r}" if reader.positive else ""
    asked.tell({"event": "prepare", "text": f"{len(train):,} training examples, {len(dev):,} dev; {told}"})
    return task, {"data": fingerprint(data.train), "pairs": len(train), "tokenizers": [tokenizer.checksum] * 2}


def cut_told(cut: int, total: int, longest: int) -> str:
    """How many of some texts are not read to their ends; nothing if all are."""
    return f"{cut:,} of {total:,} texts are longer than {longest:,} tokens and are cut" if cut else ""


def _warn_of_header(examples: Sequence[Example], asked: Asked) -> None:
    """Where columns have numbers, a first line that names them is read as an example."""
    counts = Counter(example.label for example in examples)
    for example in examples:
        if example.where.endswith(", line 1") and counts[example.label] == 1 < len(counts) < len(examples) / 2:
            text = f"{example.where} is read as an example, whose label {example.label!r} is nowhere else"
            asked.tell({"event": "warning", "text": f"{text}; if it names the columns, give data.text these names"})


def _labels(examples: Sequence[Example], kind: str) -> list[str]:
    """In their order: by number if they are numbers, else by name."""
    if kind == "number":
        for example in examples:
            _number(example)
        return []
    for example in examples:
        if not example.label and kind == "one":
            raise UserError(f"{example.where}: there is no label")
    given = {label for e in examples for label in (_several(e.label) if kind == "several" else [e.label])}
    if len(given) > 1000:
        raise UserError(
            f"{len(given):,} different labels: is data.label the right column? Numbers are labels = 'number'"
        )
    return sorted(given, key=lambda name: (not WHOLE.fullmatch(name), int(name) if WHOLE.fullmatch(name) else 0, name))


def _several(label: str) -> list[str]:
    return [part.strip() for part in label.split(",") if part.strip()]


def _number(example: Example) -> float:
    number = _parsed(example.label)
    if not math.isfinite(number):
        raise UserError(f"{example.where}: {example.label!r} is not a number")
    return number


def _parsed(label: str) -> float:
    try:
        return float(label)
    except ValueError:
        return math.nan


def _balanced(rows: Sequence[Row], classes: int, kind: str) -> Tensor:
    """The weight of each class; of several labels, that of a label's being there beside its being absent."""
    if kind == "several":
        there = torch.tensor(np.sum([row.target for row in rows], axis=0))
        return (len(rows) - there).clamp(min=1) / there.clamp(min=1)
    counts = Counter(int(row.target) for row in rows)  # one of a label's examples may be held out, and be its only one
    return torch.tensor([len(rows) / (classes * max(1, counts[i])) for i in range(classes)])
