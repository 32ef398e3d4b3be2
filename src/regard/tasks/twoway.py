"""Two-way language modelling: each word is guessed from all before it, and again from all after it (ELMo)."""

# Shapes: B batch, N words of a text, P width of a direction.

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.config import Recipe
from regard.data.cache import fingerprint
from regard.data.documents import documents
from regard.data.tables import Example
from regard.errors import UserError
from regard.models import HEADS, MODELS
from regard.models.elmo import words_of
from regard.nn.loss import smoothed_loss
from regard.tasks.reading import Batch, Row, RowBatches, in_batches
from regard.tasks.task import Asked, Evaluation, Loss, kept
from regard.tasks.vocabulary import hold_out, tokenizer_for
from regard.text import Tokenizer

BEGIN, END, UNKNOWN = "<s>", "</s>", "<unk>"
NOTHING = -1  # the target where there is no word
EVALUATED = 8192  # characters of a batch when nothing is learned


class Reader:
    """Texts as rows of characters, with the numbers of their words."""

    def __init__(self, tokenizer: Tokenizer, labels: Sequence[str], longest: int) -> None:
        self.tokenizer, self.labels, self.longest = tokenizer, list(labels), longest

    def rows(self, texts: Iterable[str]) -> list[Row]:
        numbers, unknown = {label: i for i, label in enumerate(self.labels)}, self.labels.index(UNKNOWN)
        pieces = [piece for text in texts for piece in self._pieces(text)]
        encoded = self.tokenizer.encode_batch([" ".join(words) for words in pieces])
        found = []
        for words, ids in zip(pieces, encoded, strict=True):
            tokens = np.array(self.tokenizer.specials.framed(ids)[0], dtype=np.int64)
            told = [numbers.get(word, unknown) for word in (BEGIN, *words, END)]
            found.append(Row(tokens, len(tokens), np.array(told, dtype=np.int64)))
        return found

    def _pieces(self, text: str) -> Iterator[list[str]]:
        """A text in as many pieces as it takes, cut between words; a word alone may be too long, and is left out."""
        words: list[str] = []
        room = self.longest - 2  # without begin and end
        for word in words_of(text):
            size = len(word.encode("utf-8", "surrogatepass")) + 1
            if size > room and words:
                yield words
                words, room = [], self.longest - 2
            if size <= room:
                words.append(word)
                room -= size
        if words:
            yield words

    def collate(self, rows: Sequence[Row], draws: Any = None) -> Batch:
        targets = np.full((len(rows), max(len(row.target) for row in rows)), NOTHING, dtype=np.int64)
        for place, row in zip(targets, rows, strict=True):
            place[: len(row.target)] = row.target
        guessed = sum(2 * (len(row.target) - 1) for row in rows)
        return Batch.of(rows, torch.from_numpy(targets), guessed, self.tokenizer.specials.pad)


class TwoWayTask:
    """Learns to guess the next word, and the one before."""

    unit = "words"

    def __init__(
        self, recipe: Recipe, reader: Reader, train: Sequence[Row], dev: Sequence[Row], test: Sequence[Row]
    ) -> None:
        self.recipe, self.reader, self.dev, self.test = recipe, reader, dev, test
        self.source = self.target = reader.tokenizer
        self.labels = reader.labels
        config = recipe.train
        self.batches = RowBatches(train, config.batch_tokens, config.batch, recipe.seed, reader.collate)

    def model(self) -> Any:
        body = MODELS[self.recipe.network_name](self.recipe.network(len(self.source), len(self.source)))
        return HEADS["two-way"](body, self.recipe.head, len(self.labels))

    def loss(self, model: Any, batch: Batch) -> Loss:
        total, nll = _loss(model, batch, self.recipe.train.label_smoothing)
        return Loss(total, batch.count, {"nll": nll})

    def evaluate(self, model: Any) -> Evaluation:
        return Evaluation(measure(model, self.reader, self.dev[: self.recipe.train.validation_pairs]))

    def scores(self, model: Any) -> dict[str, dict[str, Any]]:
        sets = {name: rows for name, rows in (("dev", self.dev), ("test", self.test)) if rows}
        return {name: kept(measure(model, self.reader, rows)) for name, rows in sets.items()}


def _loss(model: Any, batch: Batch, smoothing: float) -> tuple[Tensor, Tensor]:
    """Sums over both directions, whose last layer is one."""
    right, left = model(batch.tokens, batch.lengths).chunk(2, -1)  # B N P
    words = batch.targets[:, : right.size(1)]
    there = words[:, 1:] != NOTHING
    hidden = torch.cat((right[:, :-1][there], left[:, 1:][there]))
    targets = torch.cat((words[:, 1:][there], words[:, :-1][there]))
    return smoothed_loss(hidden, model.words.weight, model.words.bias, targets, smoothing)


@torch.inference_mode()
def measure(model: Any, reader: Reader, rows: Sequence[Row]) -> dict[str, float]:
    """The mean over words and directions; the perplexity is that of the mean loss."""
    model.eval()
    device = next(model.parameters()).device
    total, count = 0.0, 0
    for _, batch in in_batches(rows, EVALUATED, reader.collate):
        total += float(_loss(model, batch.to(device), 0.0)[1])
        count += batch.count
    return {"loss": total / count, "perplexity": math.exp(min(total / count, 700.0))}


def prepare(asked: Asked) -> tuple[TwoWayTask, dict[str, Any]]:
    """The task, and the facts that must be the same when the run is resumed."""
    recipe, data = asked.recipe, asked.recipe.data
    if not data.train:
        raise UserError("the recipe names no training data: set data.train to files of plain text (.txt, .gz)")
    train, dev, test = (
        [Example((piece.text,), "", "") for piece in documents(paths, "line")]
        for paths in (data.train, data.dev, data.test)
    )
    if not dev:
        train, dev = hold_out(train, asked)
    texts = [[example.texts[0] for example in part] for part in (train, dev, test)]
    tokenizer = tokenizer_for(asked, texts[0])
    labels = _words(texts[0], recipe.tokenizer.size)
    reader = Reader(tokenizer, labels, data.max_length)
    rows = [reader.rows(part) for part in texts]
    if not rows[0] or not rows[1]:
        raise UserError("there is no text to train on, or none to validate on; check data.train and data.dev")
    told = f"{sum(len(row.target) - 2 for row in rows[0]):,} training words in {len(rows[0]):,} rows"
    asked.tell({"event": "prepare", "text": f"{told}, {len(rows[1]):,} dev rows; {len(labels):,} words to guess"})
    facts = {"data": fingerprint(data.train), "pairs": len(rows[0]), "tokenizers": [tokenizer.checksum] * 2}
    return TwoWayTask(recipe, reader, *rows), facts


def _words(texts: Iterable[str], size: int) -> list[str]:
    """The most frequent words, so that there are `size` with those that are none."""
    counts = Counter(word for text in texts for word in words_of(text))
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    none = [BEGIN, END, UNKNOWN]
    return none + [word for word in ranked if word not in none][: max(0, size - len(none))]
