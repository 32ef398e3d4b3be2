"""Tagging: a label for each word, such as the names in a sentence."""

# Shapes: W words, T length, C labels.

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from regard.config import Recipe
from regard.data.cache import fingerprint
from regard.data.columns import OUTSIDE, Sentence, as_bio, plain_types, read_sentences
from regard.errors import UserError
from regard.models import HEADS, MODELS
from regard.models.heads import Tagger
from regard.tasks.reading import Batch, Row, RowBatches, outputs, windows
from regard.tasks.spans import of_tags, require_seqeval
from regard.tasks.task import Asked, Evaluation, Loss, kept
from regard.tasks.vocabulary import set_apart, tokenizer_for
from regard.text import IMPORTED, Tokenizer

NOTHING = -100  # the target of a token that carries no label


class Reader:
    """From sentences to rows, and from rows to labels: what training and prediction share.

    A word is encoded by itself; its first piece carries the label, or its last, for a network that has read no further
    than a piece when it speaks of it (network: its name). A long sentence is read in windows that overlap, and each
    word belongs to the one that shows most around it: none is lost, none counts twice. strict: labels are BIO. (What a
    model from elsewhere was taught may be IOB1, whose spans begin with I-.)
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        labels: Sequence[str],
        longest: int,
        stride: int,
        network: str = "bert",
        *,
        strict: bool = True,
    ) -> None:
        self.last = bool(getattr(MODELS[network], "causal", False))
        self.tokenizer, self.labels, self.stride = tokenizer, list(labels), stride
        self.room = max(1, longest - 2)  # between begin and end
        self.barred = _barred(self.labels) if strict else np.zeros((len(labels) + 1, len(labels)))
        self.types = plain_types(self.labels)  # a model from elsewhere may have labels without B- and I-

    def rows(self, sentences: Sequence[Sentence]) -> list[list[Row]]:
        """The windows of each sentence."""
        pieces = self._pieces({word for sentence in sentences for word in sentence.words})
        return [self._windows(sentence, [pieces[word] for word in sentence.words]) for sentence in sentences]

    def _pieces(self, words: set[str]) -> dict[str, list[int]]:
        # An imported byte-level tokenizer tells the words inside a sentence by the space before them; our own add it.
        space, given = " " if self.tokenizer.kind == IMPORTED else "", sorted(words)
        found = self.tokenizer.encode_batch([space + word for word in given])
        return {word: ids[: self.room] or [self.tokenizer.specials.unk] for word, ids in zip(given, found, strict=True)}

    def _windows(self, sentence: Sentence, pieces: list[list[int]]) -> list[Row]:
        targets = self.targets_of(sentence)
        cuts = windows([len(ids) for ids in pieces], self.room, self.stride)
        middles = [(first + last) // 2 for (_, last), (first, _) in pairwise(cuts)]  # of what two windows share
        borders = [0, *middles, len(pieces)]
        made = []
        for (first, last), (begin, end) in zip(cuts, pairwise(borders), strict=True):
            ids, marks = [], [NOTHING]
            for place in range(first, last):
                ids += pieces[place]
                label, rest = targets[place] if begin <= place < end else NOTHING, [NOTHING] * (len(pieces[place]) - 1)
                marks += [*rest, label] if self.last else [label, *rest]
            tokens, second = self.tokenizer.specials.framed(ids)
            made.append(Row(np.array(tokens), second, np.array([*marks, NOTHING])))
        return made

    def targets_of(self, sentence: Sentence) -> list[int]:
        if not sentence.labels:
            return [0] * len(sentence.words)
        for word, label in zip(sentence.words, sentence.labels, strict=True):
            if label not in self.labels:
                raise UserError(
                    f"{sentence.where}: label {label!r} (of {word!r}) is not one of the training data's: {self.labels}"
                )
        return [self.labels.index(label) for label in sentence.labels]

    def collate(self, rows: Sequence[Row], draws: Any = None) -> Batch:
        targets = np.full((len(rows), max(len(row.tokens) for row in rows)), NOTHING, dtype=np.int64)
        for place, row in zip(targets, rows, strict=True):
            place[: len(row.target)] = row.target
        count = int((targets != NOTHING).sum())
        return Batch.of(rows, torch.from_numpy(targets), count, self.tokenizer.specials.pad)

    def logits(self, model: Any, sentences: Sequence[Sentence]) -> list[NDArray[np.float64]]:
        """Of every word of each sentence (W C)."""
        groups = self.rows([Sentence(sentence.words, (), sentence.where) for sentence in sentences])
        found = iter(outputs(model, [row for group in groups for row in group], self.collate))
        return [np.concatenate([next(found)[row.target != NOTHING] for row in group]) for group in groups]

    def chosen(self, logits: NDArray[np.float64]) -> list[int]:
        """The likeliest labels of a sentence's words together, of those that are BIO (Viterbi's algorithm)."""
        if not len(logits):
            return []
        total, backs = logits[0] + self.barred[-1], []
        for word in logits[1:]:
            ways = total[:, None] + self.barred[:-1]  # from C to C
            backs.append(ways.argmax(0))
            total = ways.max(0) + word
        path = [int(total.argmax())]
        for back in reversed(backs):
            path.append(int(back[path[-1]]))
        return path[::-1]

    def probabilities(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        made: NDArray[np.float64] = torch.from_numpy(logits).softmax(-1).numpy()
        return made

    def tags(self, logits: NDArray[np.float64]) -> list[str]:
        return as_bio([self.labels[i] for i in self.chosen(logits)], self.types)

    def scores(
        self, sentences: Sequence[Sentence], logits: Sequence[NDArray[np.float64]]
    ) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
        """Over all spans, and of each type."""
        return of_tags([s.labels for s in sentences], [self.tags(each) for each in logits])


class TaggingTask:
    """Learns what each word of a sentence is."""

    unit = "words"

    def __init__(
        self,
        recipe: Recipe,
        reader: Reader,
        train: Sequence[Sentence],
        dev: Sequence[Sentence],
        test: Sequence[Sentence],
    ) -> None:
        self.recipe, self.reader, self.dev, self.test = recipe, reader, dev, test
        self.source = self.target = reader.tokenizer
        self.labels = reader.labels
        rows, config = [row for group in reader.rows(train) for row in group], recipe.train
        reader.rows([*dev, *test])  # a label that is not known is told before anything is learned
        self.batches = RowBatches(rows, config.batch_tokens, config.batch, recipe.seed, reader.collate)
        self.weights = _balanced(rows, len(self.labels)) if config.class_weights else None

    def model(self) -> Any:
        body = MODELS[self.recipe.network_name](self.recipe.network(len(self.source), len(self.source)))
        return HEADS["tagging"](body, self.recipe.head, len(self.labels))

    def loss(self, model: Tagger, batch: Batch) -> Loss:
        logits = model(batch.tokens, batch.lengths)
        total = self._loss(logits.flatten(0, 1), batch.targets.flatten(), self.recipe.train.label_smoothing)
        return Loss(total, batch.count)

    def _loss(self, logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        weights = None if self.weights is None else self.weights.to(logits)
        return F.cross_entropy(
            logits, targets, weights, ignore_index=NOTHING, reduction="sum", label_smoothing=smoothing
        )

    def evaluate(self, model: Any) -> Evaluation:
        logits = self.reader.logits(model, self.dev)
        targets = torch.tensor([i for sentence in self.dev for i in self.reader.targets_of(sentence)])
        loss = float(self._loss(torch.from_numpy(np.concatenate(logits)).float(), targets, 0.0)) / len(targets)
        return Evaluation({"loss": loss, **self.reader.scores(self.dev, logits)[0]})

    def scores(self, model: Any) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for name, sentences in (("dev", self.dev), ("test", self.test)):
            if sentences:
                scores, types = self.reader.scores(sentences, self.reader.logits(model, sentences))
                found[name] = kept(scores)
                for kind, row in types.items():
                    found[name][f"f1 of {kind}"] = {"value": round(row["f1"], 4), **row}
        return found


def prepare(asked: Asked) -> tuple[TaggingTask, dict[str, Any]]:
    """The task, and the facts that must be the same when the run is resumed."""
    recipe, data = asked.recipe, asked.recipe.data
    require_seqeval()
    if not data.train:
        raise UserError("the recipe names no training data: set data.train to files of CoNLL columns")
    word = data.text[0] if data.text else ""
    train, dev, test = (
        read_sentences(paths, word, data.label) if paths else [] for paths in (data.train, data.dev, data.test)
    )
    kinds = sorted({label[2:] for sentence in train for label in sentence.labels if label != OUTSIDE})
    if not kinds:
        raise UserError("every word of the training data is labelled O; there is nothing to learn")
    if not dev:
        train, dev = set_apart(train, asked, lambda sentence: " ".join(sentence.words), Sentence.to_dict)
    labels = [OUTSIDE, *(f"{mark}-{kind}" for kind in kinds for mark in "BI")]
    tokenizer = tokenizer_for(asked, (" ".join(sentence.words) for sentence in train))
    reader = Reader(tokenizer, labels, data.max_length, data.stride, recipe.network_name)
    task = TaggingTask(recipe, reader, train, dev, test)
    told = f"{len(train):,} training sentences, {len(dev):,} dev; spans of {', '.join(kinds)}"
    asked.tell({"event": "prepare", "text": told})
    return task, {"data": fingerprint(data.train), "pairs": len(train), "tokenizers": [tokenizer.checksum] * 2}


def _barred(labels: Sequence[str]) -> NDArray[np.float64]:
    """C + 1, C: minus infinity where a label cannot follow another, and in the last row where it cannot come first.

    I- goes on with a span of its own type.
    """
    bars = np.zeros((len(labels) + 1, len(labels)))
    for place, label in enumerate(labels):
        begin = f"B-{label[2:]}"
        if label.startswith("I-") and begin in labels:
            bars[:, place] = -np.inf
            bars[[labels.index(begin), place], place] = 0.0
    return bars


def _balanced(rows: Sequence[Row], classes: int) -> Tensor:
    targets = np.concatenate([row.target for row in rows])
    counts = np.bincount(targets[targets != NOTHING], minlength=classes)
    return torch.from_numpy(counts.sum() / (classes * np.maximum(1, counts))).float()
