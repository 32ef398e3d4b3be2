"""Language modelling: what comes next in a text."""

# Shapes: B batch, T length, D width.

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.config import Recipe
from regard.data.cache import fingerprint
from regard.data.documents import Flat, Pieces, Unit, divided, documents
from regard.errors import UserError
from regard.files import write_text
from regard.models import MODELS
from regard.nn.loss import smoothed_loss
from regard.tasks.reading import Batch
from regard.tasks.task import HELD_OUT, Asked, Evaluation, Loss, kept
from regard.tasks.vocabulary import tokenizer_for
from regard.text import Tokenizer

EVALUATED = 8192  # tokens of a batch when nothing is learned
UNITS: dict[str, Unit] = {"language": "file", "masked": "paragraph"}  # what a document is, unless it is said


class Windows:
    """Rows of `length` tokens from random places of a text; a batch depends on the seed and its number alone."""

    def __init__(self, flat: Flat, rows: int, length: int, seed: int) -> None:
        self.tokens, self.rows, self.length, self.seed = flat.tokens, rows, length, seed
        self.number = 0

    def __next__(self) -> Batch:
        random = np.random.Generator(np.random.PCG64(np.random.SeedSequence((5, self.seed, self.number))))
        self.number += 1
        starts = random.integers(len(self.tokens) - self.length, size=self.rows)
        rows = np.stack([self.tokens[start : start + self.length + 1] for start in starts]).astype(np.int64)
        return shifted(torch.from_numpy(rows))

    @property
    def epoch(self) -> int:
        """How often as many tokens as there are were drawn."""
        return self.number * self.rows * self.length // len(self.tokens)

    def state(self) -> dict[str, int]:
        return {"number": self.number}

    def restore(self, state: dict[str, int], *, restart_epoch: bool = False) -> None:
        self.number = state["number"]


def shifted(rows: Tensor) -> Batch:
    """Each token but the last (B T) is to guess the one after it."""
    return Batch(rows[:, :-1], None, None, rows[:, 1:], rows[:, 1:].numel())


def windows(flat: Flat, length: int) -> Iterator[Batch]:
    """The whole text once, in rows side by side that do not overlap; each token but the first is guessed once."""
    tokens = torch.from_numpy(flat.tokens.astype(np.int64))
    whole = (len(tokens) - 1) // length
    size = max(1, EVALUATED // length)
    for start in range(0, whole, size):
        end = min(start + size, whole) * length
        inputs, targets = (tokens[start * length + i : end + i].view(-1, length) for i in (0, 1))
        yield Batch(inputs, None, None, targets, targets.numel())
    if len(tokens) - 1 > whole * length:
        yield shifted(tokens[None, whole * length :])


def loss_of(model: Any, batch: Batch, smoothing: float) -> Loss:
    states = model(batch.tokens)  # B T D
    total, nll = smoothed_loss(states.flatten(0, 1), model.output, None, batch.targets.flatten(), smoothing)
    return Loss(total, batch.count, {"nll": nll})


@torch.inference_mode()
def measure(model: Any, flat: Flat, length: int) -> dict[str, float]:
    """Nats per token, perplexity, and bits per character and per byte of the text (its end symbols are guessed too).

    A text with unknown tokens has no bits: to guess that something unknown comes is not to guess what it is.
    """
    model.eval()
    device = next(model.parameters()).device
    total = sum(float(loss_of(model, batch.to(device), 0.0).total) for batch in windows(flat, length))
    loss, bits = total / (len(flat.tokens) - 1), total / math.log(2)
    found = {"loss": loss, "perplexity": math.exp(loss) if loss < 700 else math.inf}
    if flat.unknown:
        return found
    return found | {
        "bits_per_character": bits / max(1, flat.characters),
        "bits_per_byte": bits / max(1, flat.bytes),
    }


class LanguageTask:
    """Learns p(token | those before it)."""

    unit = "tokens"
    labels = ()

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer, train: Flat, dev: Flat, test: Flat | None = None) -> None:
        self.recipe = recipe
        self.source = self.target = tokenizer
        self.dev, self.test = dev, test
        config, length = recipe.train, recipe.data.max_length
        rows = config.batch_tokens // length
        if not rows:
            raise UserError(
                f"a row has data.max_length = {length} tokens, a batch train.batch_tokens = {config.batch_tokens}: "
                "raise it or lower data.max_length"
            )
        if len(train.tokens) <= length:
            raise UserError(
                f"the training text has {len(train.tokens):,} tokens, too few for rows of {length}: "
                "give more text, or lower data.max_length"
            )
        self.batches = Windows(train, min(rows, config.batch or rows), length, recipe.seed)

    def model(self) -> Any:
        return MODELS[self.recipe.network_name](self.recipe.network(len(self.source), len(self.source)))

    def loss(self, model: Any, batch: Batch) -> Loss:
        return loss_of(model, batch, self.recipe.train.label_smoothing)

    def evaluate(self, model: Any) -> Evaluation:
        return Evaluation(measure(model, self.dev, self.recipe.data.max_length))

    def scores(self, model: Any) -> dict[str, dict[str, Any]]:
        sets = {"dev": self.dev} | ({"test": self.test} if self.test else {})
        return {name: kept(measure(model, flat, self.recipe.data.max_length)) for name, flat in sets.items()}


def prepare(asked: Asked) -> tuple[LanguageTask, dict[str, Any]]:
    """The task, and the facts that must be the same when the run is resumed."""
    tokenizer, train, dev, test, facts = packed(asked)
    return LanguageTask(asked.recipe, tokenizer, train, dev, test), facts


def packed(asked: Asked, *, mask: bool = False) -> tuple[Tokenizer, Flat, Flat, Flat | None, dict[str, Any]]:
    """The tokenizer, the texts for training, dev and test, and what identifies them.

    mask: with a symbol that stands for a hidden word.
    """
    recipe, data = asked.recipe, asked.recipe.data
    if not data.train:
        raise UserError("the recipe names no training data: set data.train to text files")
    unit = recipe.data.document or UNITS[recipe.task]
    train, dev, test = (reading(recipe, paths, unit) for paths in (data.train, data.dev, data.test))
    if not data.dev:
        train, dev = divided(train, data.held_out, unit)
        _keep(asked, dev)
    tokenizer = tokenizer_for(asked, (piece.text for piece in train()), mask=mask)
    sources = fingerprint(data.train)
    facts: dict[str, Any] = {
        "data": sources,
        "tokenizer": tokenizer.checksum,
        "document": unit,
        "text": list(data.text),
    }
    facts |= {} if data.dev else {"held_out": data.held_out}
    flat = Flat.at(asked.folder / "tokens", train(), tokenizer, facts)
    held = Flat.of(dev(), tokenizer)
    if not held.documents:
        raise UserError(f"there is no dev text: {', '.join(data.dev) or 'data.held_out of the training text is empty'}")
    scored = Flat.of(test(), tokenizer) if data.test else None
    if scored is not None and not scored.documents:
        raise UserError(f"there is no test text: {', '.join(data.test)}")
    told = f"{len(flat.tokens):,} training tokens in {flat.documents:,} documents, {len(held.tokens):,} dev tokens"
    asked.tell({"event": "prepare", "text": f"{told}, vocabulary {len(tokenizer):,}"})
    known = {"data": sources, "pairs": flat.documents, "tokenizers": [tokenizer.checksum] * 2}
    return tokenizer, flat, held, scored, known


def reading(recipe: Recipe, paths: tuple[str, ...], unit: Unit) -> Pieces:
    """The texts of these files."""
    key = recipe.data.text[0] if recipe.data.text else "text"
    return lambda: documents(paths, unit, key)


def _keep(asked: Asked, dev: Pieces) -> None:
    """The text set apart, for later scores on it."""
    key = asked.recipe.data.text[0] if asked.recipe.data.text else "text"
    held: list[str] = []
    for text, first in dev():
        held.append(text if first else held.pop() + text)
    lines = (json.dumps({key: text}, ensure_ascii=False) + "\n" for text in held)
    write_text(asked.folder / HELD_OUT, "".join(lines))
    asked.tell({"event": "prepare", "text": f"no dev set given: the last {asked.recipe.data.held_out:.0%} is held out"})
