"""Masked words: pre-training on plain text, with or without guessing whether one text follows another (BERT)."""

# Shapes: B batch, T length, N picked words, D width, V vocabulary.

import json
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from regard.config import Recipe
from regard.data.cache import fingerprint
from regard.data.running import RunningText, read_paragraphs
from regard.errors import UserError
from regard.files import write_text
from regard.models import HEADS, MODELS
from regard.models.heads import PreTrainer
from regard.nn.loss import smoothed_loss
from regard.tasks.reading import Batch, Row, RowBatches, Rows, Tokens, framed, in_batches
from regard.tasks.task import HELD_OUT, Asked, Evaluation, Loss
from regard.tasks.vocabulary import MOST, tokenizer_for
from regard.text import Tokenizer

PICKED, HIDDEN, REPLACED = 0.15, 0.8, 0.1  # of the words; of the picked ones: behind the mask, by another word
FOLLOWS, STRANGE = 0, 1  # what the second text does, as Google numbered it
NOTHING = -1  # the target where nothing is to be guessed
EVALUATED = 8192  # tokens of a batch when nothing is learned
EVERY = 10  # without a dev set: one document of so many is held out


class Masks:
    """Which words are hidden, and behind what (Devlin 2018, section 3.1). Special symbols never are."""

    def __init__(self, tokenizer: Tokenizer) -> None:
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
        count = min(len(places), max(1, round(PICKED * len(places))))
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
        self, text: RunningText, tokenizer: Tokenizer, longest: int, *, pairs: bool = False, static: bool = False
    ) -> None:
        self.text, self.specials, self.masks = text, tokenizer.specials, Masks(tokenizer)
        self.most, self.pairs, self.static = longest, pairs, static
        self.frame = len(self.specials.framed([], [] if pairs else None)[0])
        self.size = longest - self.frame
        if self.size < 2:
            raise UserError(f"data.max_length = {longest} leaves no room for text; {self.frame + 2} is the least")
        whole = np.zeros(1, np.int64), np.full(1, len(text), np.int64)
        self.begins, self.ends = text.documents() if pairs else whole
        # The first row of each document, and their number. What is left of one token is no row.
        rows = -(-np.maximum(self.ends - self.begins - 1, 0) // self.size)
        self.firsts = np.concatenate([[0], rows.cumsum()])
        if not len(self):
            raise UserError("there is no text, or hardly any, where a row of it is wanted")
        if pairs and (rows > 0).sum() < 2:
            raise UserError("head.next_sentence needs two documents at least; blank lines stand between documents")

    def __len__(self) -> int:
        return int(self.firsts[-1])

    def __getitem__(self, index: Any) -> Any:
        """The text alone; its number is what the batch is made from."""
        if not 0 <= index < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        begin, end = self._span(index)
        return Row(self.text.tokens[begin:end].astype(np.int64), 0, index)

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
        """A row's text in two, or its beginning with the second half of a row of another document."""
        place = self._break(row.target, draws)
        first, second = row.tokens[:place], row.tokens[place:]
        if draws.random() < 0.5:
            return first, second, FOLLOWS
        document = int(self.firsts.searchsorted(row.target, "right")) - 1
        before, after = int(self.firsts[document]), int(self.firsts[document + 1])
        other = int(draws.random() * (len(self) - (after - before)))
        strange = self[other if other < before else other + after - before]
        return first, strange.tokens[self._break(strange.target, draws) :][: len(second)], STRANGE

    def _break(self, index: int, draws: np.random.Generator) -> int:
        """Where a row is cut in two: where a paragraph begins if one does inside, else anywhere."""
        begin, end = self._span(index)
        inside = self.text.starts.searchsorted(np.array([begin + 1, end], dtype=np.uint64))
        chosen = draws.random()
        if inside[0] < inside[1]:
            return int(self.text.starts[inside[0] + int(chosen * (inside[1] - inside[0]))]) - int(begin)
        return 1 + int(chosen * (end - begin - 1))


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
        return {
            name: {metric: {"value": round(value, 4)} for metric, value in measure(model, texts).items()}
            for name, texts in sets.items()
        }


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
    if not data.train:
        raise UserError("the recipe names no training data: set data.train to files of plain text (.txt, .gz)")
    if recipe.head.next_sentence and recipe.shape().segments < 2:
        raise UserError("head.next_sentence tells two texts apart: set model.segments = 2")
    documents, paragraphs = _counts(read_paragraphs(data.train, skip_bad=data.skip_bad))
    every = 0 if data.dev else min(documents, max(EVERY, -(-documents // MOST)))
    if every == 1:
        raise UserError("one document is too few to hold any out: part it with blank lines, or give data.dev")

    def training(held: bool = False) -> Iterator[str]:
        stream = read_paragraphs(data.train, skip_bad=data.skip_bad)
        return _apart(stream, every, held) if every else stream

    def some() -> Iterator[str]:
        # Different words are counted in memory, and more text has more of them.
        share, draw = recipe.tokenizer.pairs / max(1, paragraphs), random.Random(recipe.seed).random
        return (text for text in training() if text and (share >= 1 or draw() < share))

    if every:
        _write_held_out(training(held=True), asked)
    tokenizer = tokenizer_for(asked, some(), mask=True)
    facts = {
        "data": fingerprint(data.train), "tokenizer": tokenizer.checksum, "held_out": every, "skip_bad": data.skip_bad,
    }  # fmt: skip
    text = RunningText.kept(asked.folder / "tokens", training(), tokenizer, facts)

    def texts(text: RunningText) -> Texts:
        static = data.masks == "static"
        return Texts(text, tokenizer, data.max_length, pairs=recipe.head.next_sentence, static=static)

    def small(paragraphs: Iterable[str]) -> Texts:
        return texts(RunningText.of(paragraphs, tokenizer))

    train, dev = texts(text), small(training(held=True) if every else read_paragraphs(data.dev))
    test = small(read_paragraphs(data.test)) if data.test else None
    asked.tell(
        {
            "event": "prepare",
            "text": f"{len(text):,} training tokens in {len(train):,} rows of up to {data.max_length}, "
            f"{len(dev):,} dev rows; vocabulary {len(tokenizer):,}",
        }
    )
    known = {"data": facts["data"], "pairs": len(train), "tokenizers": [tokenizer.checksum] * 2}
    return MaskedTask(recipe, tokenizer, train, dev, test), known


def _counts(paragraphs: Iterable[str]) -> tuple[int, int]:
    """Of documents and of paragraphs."""
    documents = count = 0
    for text in paragraphs:
        documents, count = (documents, count + 1) if text else (documents + 1, count)
    if not count:
        raise UserError("there is no text in the training files")
    return documents, count


def _apart(paragraphs: Iterable[str], every: int, held: bool) -> Iterator[str]:
    """The last of so many documents each time, or all the others."""
    number = 1
    for text in paragraphs:
        if (number % every == 0) == held:
            yield text
        number += not text


def _write_held_out(paragraphs: Iterable[str], asked: Asked) -> None:
    documents: list[list[str]] = [[]]
    for text in paragraphs:
        if text:
            documents[-1].append(text)
        else:
            documents.append([])
    lines = [json.dumps({"text": "\n".join(each)}, ensure_ascii=False) + "\n" for each in documents if each]
    write_text(asked.folder / HELD_OUT, "".join(lines))
    asked.tell({"event": "prepare", "text": f"no dev set given: {len(lines)} documents are held out"})
