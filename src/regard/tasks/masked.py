"""Masked words: pre-training on plain text, with or without guessing whether one text follows another (BERT)."""

# Shapes: B batch, T length, N picked words, D width, V vocabulary.

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from regard.config import Recipe
from regard.data.documents import Flat
from regard.errors import UserError
from regard.models import HEADS, MODELS
from regard.models.heads import PreTrainer
from regard.nn.loss import smoothed_loss
from regard.tasks.language import packed
from regard.tasks.reading import EVALUATED, Batch, Row, RowBatches, Rows, Tokens, framed, in_batches
from regard.tasks.task import Asked, Evaluation, Loss, kept
from regard.text import Tokenizer

PICKED, HIDDEN, REPLACED = 0.15, 0.8, 0.1  # of the words; of the picked ones: behind the mask, by another word
FOLLOWS, STRANGE = 0, 1  # what the second text does, as Google numbered it
NOTHING = -1  # the target where nothing is to be guessed
CHUNK = 1 << 24  # tokens looked through at once


class Masks:
    """Which words are hidden, and behind what (Devlin 2018, section 3.1). Special symbols never are."""

    def __init__(self, tokenizer: Tokenizer, share: float = PICKED) -> None:
        self.share = share
        specials = tokenizer.specials
        if specials.mask is None:
            raise UserError(
                "the tokenizer has no mask symbol: begin without --from, or from a model that guesses words"
            )
        self.mask = specials.mask
        self.special = np.isin(np.arange(len(tokenizer)), list(specials.ids))  # V
        self.words = np.flatnonzero(~self.special)

    def __call__(self, tokens: Tokens, draws: np.random.Generator) -> tuple[Tokens, Tokens]:
        """What the model sees, and the words that it is to guess."""
        places = np.flatnonzero(~self.special[tokens])
        count = min(len(places), max(1, round(self.share * len(places))))
        picked = places[draws.random(len(places)).argsort(kind="stable")[:count]]
        fate, other = draws.random((2, count))
        random_words = self.words[(other * len(self.words)).astype(np.int64)]
        seen, targets = tokens.copy(), np.full_like(tokens, NOTHING)
        targets[picked] = tokens[picked]
        seen[picked] = np.where(fate < HIDDEN + REPLACED, random_words, tokens[picked])
        seen[picked[fate < HIDDEN]] = self.mask
        return seen, targets


class Texts(Rows):
    """Running text cut into full rows; or, to guess what follows, documents cut into rows that are cut in two."""

    def __init__(
        self,
        text: Flat,
        tokenizer: Tokenizer,
        longest: int,
        *,
        pairs: bool = False,
        static: bool = False,
        share: float = PICKED,
    ) -> None:
        self.tokens, self.specials, self.masks = text.tokens, tokenizer.specials, Masks(tokenizer, share)
        self.line_end = np.array(["\n" in look for look in tokenizer.surface(range(len(tokenizer)))])  # V
        self.most, self.pairs, self.static = longest, pairs, static
        self.frame = len(self.specials.framed([], [] if pairs else None)[0])
        self.size = longest - self.frame
        if self.size < 2:
            raise UserError(f"data.max_length = {longest} leaves no room for text; {self.frame + 2} is the least")
        ends = _places(self.tokens, self.specials.end) if pairs else np.array([0, len(self.tokens)])
        self.begins, self.ends = ends[:-1] + 1, ends[1:]  # of documents, or of all as if it were one
        # The first row of each document, and their number. What is left of one token is no row.
        rows = -(-np.maximum(self.ends - self.begins - 1, 0) // self.size)
        self.firsts = np.concatenate([[0], rows.cumsum()])
        if not len(self):
            raise UserError("there is no text, or hardly any, where a row of it is wanted")
        if pairs and (rows > 0).sum() < 2:
            raise UserError("head.next_sentence needs two documents at least; data.document says what one is")

    def __len__(self) -> int:
        return int(self.firsts[-1])

    def __getitem__(self, index: Any) -> Any:
        """The text alone; its number is what the batch is made from."""
        if not 0 <= index < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        begin, end = self._span(index)
        return Row(self.tokens[begin:end].astype(np.int64), 0, index)

    @property
    def longest(self) -> tuple[int]:
        return (min(self.size, int((self.ends - self.begins).max())) + self.frame - 1,)

    def lengths(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        begin, end = self._span(indices)
        return (lengths := end - begin + self.frame - 1), lengths

    def _span(self, index: Any) -> tuple[Any, Any]:
        document = self.firsts.searchsorted(index, "right") - 1
        begin = self.begins[document] + (index - self.firsts[document]) * self.size
        return begin, np.minimum(begin + self.size, self.ends[document])

    def collate(self, rows: Sequence[Row], draws: np.random.Generator | None) -> Batch:
        """With masks from these draws; without any, or with static masks, a row's own, from its number alone."""
        made = [self._masked(row, _own_draws(row) if draws is None or self.static else draws) for row in rows]
        longest = max(len(row.tokens) for row in made)
        targets = np.full((len(made), longest), NOTHING, dtype=np.int64)
        for place, row in zip(targets, made, strict=True):
            place[: len(row.tokens)] = row.target
        count = int((targets[:, 1:] != NOTHING).sum())
        return Batch.of(made, torch.from_numpy(targets), max(1, count), self.specials.pad)

    def _masked(self, row: Row, draws: np.random.Generator) -> Row:
        """Its target at the first place, whose state tells it, is whether the second text follows."""
        first, second, follows = self._pair(row, draws) if self.pairs else (row.tokens, None, NOTHING)
        tokens, begin = framed(self.specials, first.tolist(), None if second is None else second.tolist(), self.most)
        seen, targets = self.masks(tokens, draws)
        targets[0] = follows
        return Row(seen, begin, targets)

    def _pair(self, row: Row, draws: np.random.Generator) -> tuple[Tokens, Tokens, int]:
        """A row's text in two, or its beginning with as much of another document.

        Both begin at a line's beginning, or neither, and both are as long: that alone tells nothing.
        """
        place = self._break(row.tokens, draws)
        first, second = row.tokens[:place], row.tokens[place:]
        strange = self._strange(row, len(second), bool(self.line_end[first[-1]]), draws)
        if draws.random() < 0.5:
            return first, second[: len(strange)], FOLLOWS
        return first, strange, STRANGE

    def _strange(self, row: Row, size: int, at_line: bool, draws: np.random.Generator) -> Tokens:
        """So many tokens of another document, fewer if it ends before."""
        document = int(self.firsts.searchsorted(row.target, "right")) - 1
        before, after = int(self.firsts[document]), int(self.firsts[document + 1])
        other = int(draws.random() * (len(self) - (after - before)))
        other = other if other < before else other + after - before
        begin, end = (int(place) for place in self._span(other))
        found = int(self.firsts.searchsorted(other, "right")) - 1
        opening, last = int(self.begins[found]), int(self.ends[found])  # of the other document
        places = np.arange(begin, end)
        if at_line:
            starts = places[(places == opening) | self.line_end[self.tokens[places - 1]]]
            places = starts if len(starts) else places
        roomy = places[places + size <= last]
        place = int(roomy[int(draws.random() * len(roomy))]) if len(roomy) else int(places[0])
        return self.tokens[place : min(place + size, last)].astype(np.int64)

    def _break(self, tokens: Tokens, draws: np.random.Generator) -> int:
        """Where a row is cut in two: after a line if one ends inside, else anywhere."""
        places = 1 + np.flatnonzero(self.line_end[tokens[:-1]])
        if not len(places):
            places = np.arange(1, len(tokens))
        return int(places[int(draws.random() * len(places))])


def _places(tokens: NDArray[Any], wanted: int) -> NDArray[np.int64]:
    """Where a token stands, in bounded memory but for the places."""
    parts = (tokens[start : start + CHUNK] == wanted for start in range(0, len(tokens), CHUNK))
    return np.concatenate([np.flatnonzero(part) + i * CHUNK for i, part in enumerate(parts)])


def _own_draws(row: Row) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence((5, row.target))))


class MaskedTask:
    """Learns to guess hidden words."""

    unit = "masked words"
    labels: Sequence[str] = ()

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer, train: Texts, dev: Texts, test: Texts | None) -> None:
        self.recipe = recipe
        self.source = self.target = tokenizer
        self.dev, self.test = dev, test
        self.batches = RowBatches(train, recipe.train.batch_tokens, recipe.train.batch, recipe.seed, train.collate)

    def model(self) -> Any:
        body = MODELS[self.recipe.network_name](self.recipe.network(len(self.source), len(self.source)))
        return HEADS["masked"](body, self.recipe.head, 2)

    def loss(self, model: PreTrainer, batch: Batch) -> Loss:
        """Of the picked words alone; the mean over rows of what follows is added to the mean over words."""
        states = model.states(batch.tokens, batch.lengths, batch.segments)
        picked = _picked(batch)
        words, nll = smoothed_loss(
            model.words(states[picked]),
            model.output,
            model.words.bias,
            batch.targets[picked],
            self.recipe.train.label_smoothing,
        )
        if model.follows is None or model.pooler is None:
            return Loss(words, batch.count, {"nll": nll})
        follows = F.cross_entropy(model.follows(model.pooler(states, batch.lengths)), batch.targets[:, 0])
        return Loss(words + follows * batch.count, batch.count, {"nll": nll})

    def evaluate(self, model: Any) -> Evaluation:
        return Evaluation(measure(model, self.dev, self.recipe.train.validation_pairs))

    def scores(self, model: Any) -> dict[str, dict[str, Any]]:
        sets = {"dev": self.dev} | ({"test": self.test} if self.test else {})
        return {name: kept(measure(model, texts)) for name, texts in sets.items()}


def _picked(batch: Batch) -> torch.Tensor:
    picked = batch.targets != NOTHING
    picked[:, 0] = False
    return picked


@torch.inference_mode()
def measure(model: Any, texts: Texts, most: int | None = None) -> dict[str, float]:
    """How well hidden words are guessed, on all rows or on so many, evenly apart; masks are the same every time."""
    model.eval()
    device = next(model.parameters()).device
    chosen = np.linspace(0, len(texts) - 1, min(most or len(texts), len(texts))).round().astype(int)
    nll, right, words, follow_loss, follow_right = 0.0, 0, 0, 0.0, 0
    for _, batch in in_batches([texts[int(i)] for i in chosen], EVALUATED, texts.collate):
        batch = batch.to(device)
        states = model.states(batch.tokens, batch.lengths, batch.segments)
        picked = _picked(batch)
        logits = F.linear(model.words(states[picked]), model.output, model.words.bias)  # N V
        targets = batch.targets[picked]
        nll += float(F.cross_entropy(logits, targets, reduction="sum"))
        right += int((logits.argmax(1) == targets).sum())
        words += len(targets)
        if texts.pairs and model.follows is not None:
            says, truth = model.follows(model.pooler(states, batch.lengths)), batch.targets[:, 0]
            follow_loss += float(F.cross_entropy(says, truth, reduction="sum"))
            follow_right += int((says.argmax(1) == truth).sum())
    mean = nll / max(1, words)
    found = {"loss": mean, "perplexity": math.exp(min(mean, 700.0)), "accuracy": right / max(1, words)}
    if not texts.pairs:
        return found
    return found | {"loss": mean + follow_loss / len(chosen), "next_sentence_accuracy": follow_right / len(chosen)}


def prepare(asked: Asked) -> tuple[MaskedTask, dict[str, Any]]:
    """The task, and the facts that must be the same when the run is resumed."""
    recipe, data = asked.recipe, asked.recipe.data
    pairs, static = recipe.head.next_sentence, data.masks == "static"
    if pairs and recipe.shape().segments < 2:
        raise UserError("head.next_sentence tells two texts apart: set model.segments = 2")
    tokenizer, train, dev, test, facts = packed(asked, mask=True)

    def texts(flat: Flat, share: float = PICKED) -> Texts:
        return Texts(flat, tokenizer, data.max_length, pairs=pairs, static=static, share=share)

    task = MaskedTask(recipe, tokenizer, texts(train, data.masked), texts(dev), None if test is None else texts(test))
    return task, facts | {"pairs": len(task.batches.rows)}
