"""Translation and summarisation: from pairs of texts to batches, loss and scores."""

# Shapes: B batch, T target length, S source length.

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.config import Recipe
from regard.data.batches import Batches
from regard.data.cache import TokenCache
from regard.decode import DecodeOptions
from regard.decode.engine import Torch
from regard.decode.translator import Translator
from regard.files import cache_folder
from regard.models import MODELS, Pair
from regard.nn.native import decoding
from regard.tasks.scores import KEYS, METRICS, score
from regard.tasks.task import Evaluation, Loss, shares
from regard.text import BOS, EOS, PAD, Splitter, Tokenizer


@dataclass(frozen=True)
class Batch:
    """Pairs of like length as tensors; owns the shift of the target and the padding."""

    source: Tensor  # B S, ends with EOS
    lengths: Tensor | None  # B, None when nothing is padded
    target_in: Tensor  # B T, begins with BOS
    target_out: Tensor  # B T, ends with EOS
    count: int  # real target tokens

    @staticmethod
    def of(pairs: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> "Batch":
        sources, targets = zip(*pairs, strict=True)
        source, lengths = _pad(sources, last=EOS)
        target_out, target_lengths = _pad(targets, last=EOS)
        target_in = np.empty_like(target_out)
        target_in[:, 0] = BOS
        target_in[:, 1:] = np.where(target_out[:, :-1] == EOS, PAD, target_out[:, :-1])
        return Batch(
            torch.from_numpy(source),
            None if bool((lengths == source.shape[1]).all()) else torch.from_numpy(lengths),
            torch.from_numpy(target_in),
            torch.from_numpy(target_out),
            int(target_lengths.sum()),
        )

    def to(self, device: torch.device) -> "Batch":
        lengths = None if self.lengths is None else self.lengths.to(device)
        return Batch(self.source.to(device), lengths, self.target_in.to(device), self.target_out.to(device), self.count)

    def cut(self, parts: int) -> "list[Batch]":
        """The rows in at most so many batches of like work, in order, each with no more padding than its rows need."""
        targets = (self.target_out != PAD).sum(1)
        sources = torch.full_like(targets, self.source.size(1)) if self.lengths is None else self.lengths
        return [self._part(rows, sources[rows], targets[rows]) for rows in shares((sources + targets).tolist(), parts)]

    def _part(self, rows: slice, sources: Tensor, targets: Tensor) -> "Batch":
        """sources, targets: how many tokens are real, row by row."""
        longest, width = int(sources.max()), int(targets.max())
        return Batch(
            self.source[rows, :longest],
            None if bool((sources == longest).all()) else sources,
            self.target_in[rows, :width],
            self.target_out[rows, :width],
            int(targets.sum()),
        )


def _pad(sequences: Sequence[NDArray[Any]], last: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    lengths = np.array([len(s) + 1 for s in sequences], dtype=np.int64)
    padded = np.full((len(sequences), lengths.max()), PAD, dtype=np.int64)
    for row, sequence in zip(padded, sequences, strict=True):
        row[: len(sequence)] = sequence
        row[len(sequence)] = last
    return padded, lengths


class TranslationBatches:
    """The training batches in their endless, resumable order. splitters: of the source and the target, if any."""

    def __init__(
        self, cache: TokenCache, tokens: int, seed: int, splitters: tuple[Splitter, Splitter] | None = None
    ) -> None:
        self.cache, self.seed = cache, seed
        self.order = Batches(cache, tokens=tokens, seed=seed)
        self.splitters = splitters

    def __next__(self) -> Batch:
        state = self.order.state()
        pairs = [self.cache.pair(int(i)) for i in next(self.order)]
        if self.splitters is not None:
            # What a batch draws depends on the seed and its place alone: a resumed run draws the same.
            random = np.random.PCG64(np.random.SeedSequence((3, self.seed, *state.values())))
            # Nor does one sentence of many pieces make a batch of thousands several times as wide.
            most = [min(longest, 2 * self.order.tokens // len(pairs) - 1) for longest in self.cache.longest]
            sides = zip(self.splitters, zip(*pairs, strict=True), most, strict=True)
            source, target = ([*split(side, longest, random)] for split, side, longest in sides)
            pairs = list(zip(source, target, strict=True))
        return Batch.of(pairs)

    @property
    def epoch(self) -> int:
        return self.order.epoch

    def state(self) -> dict[str, int]:
        return self.order.state()

    def restore(self, state: dict[str, int], *, restart_epoch: bool = False) -> None:
        self.order.restore(state | {"pool": 0, "batch": 0} if restart_epoch else state)


class TranslationTask:
    """Learns p(target | source) token by token; validates by loss and by decoding."""

    labels = ()
    unit = "tokens"

    def __init__(
        self,
        recipe: Recipe,
        source: Tokenizer,
        target: Tokenizer,
        cache: TokenCache,
        dev: Sequence[tuple[str, str]],
        test: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.recipe = recipe
        self.source, self.target = source, target
        self.dev, self.test = dev, test
        chance = recipe.train.split
        splitters = (Splitter(source, chance), Splitter(target, chance)) if chance else None
        self.batches = TranslationBatches(cache, recipe.train.batch_tokens, recipe.seed, splitters)
        self.cache = cache

    @property
    def limits(self) -> tuple[int, int]:
        """The most tokens of a source and of a target."""
        return self.recipe.data.max_length, self.recipe.data.max_length

    def model(self) -> Pair:
        network: Pair = MODELS[self.recipe.network_name](self.recipe.network(len(self.source), len(self.target)))
        return network

    def loss(self, model: Pair, batch: Batch) -> Loss:
        return self._loss(model, batch, self.recipe.train.label_smoothing)

    def _loss(self, model: Pair, batch: Batch, smoothing: float) -> Loss:
        real = batch.target_out != PAD
        total, nll = model.losses(
            batch.source, batch.lengths, batch.target_in, batch.target_out, real=real, smoothing=smoothing
        )
        return Loss(total, batch.count, {"nll": nll})

    def evaluate(self, model: Pair) -> Evaluation:
        """The dev set's loss per token (not smoothed), and the quick scores of its decoded part."""
        pairs = [self.dev[i] for i in spread(len(self.dev), self.recipe.train.validation_pairs)]
        outputs = self.translator([model]).translate([source for source, _ in pairs])
        names = [name for name in METRICS[self.recipe.task] if name in KEYS]
        found = score(outputs, [target for _, target in pairs], self.recipe.score, names=names)
        scores = {"loss": self.dev_loss(model)} | {KEYS[name]: value.value for name, value in found.items()}
        shown = spread(len(pairs), self.recipe.train.samples)
        samples = [{"source": pairs[i][0], "reference": pairs[i][1], "output": outputs[i]} for i in shown]
        return Evaluation(scores, samples)

    def scores(self, model: Pair) -> dict[str, Any]:
        found: dict[str, Any] = {}
        translator = self.translator([model])
        for name, pairs in (("dev", self.dev), ("test", self.test)):
            if pairs:
                outputs = translator.translate([s for s, _ in pairs])
                names = METRICS[self.recipe.task]
                scores = score(outputs, [t for _, t in pairs], self.recipe.score, names=names, intervals=True)
                found[name] = {metric: s.to_dict() for metric, s in scores.items()}
        return found

    @torch.inference_mode()
    def dev_loss(self, model: Pair) -> float:
        device = next(model.parameters()).device
        total, count = 0.0, 0
        for batch in self.dev_batches():
            loss = self._loss(model, batch.to(device), 0.0)
            total, count = total + float(loss.total), count + loss.count
        return total / max(count, 1)

    def dev_batches(self) -> Iterator[Batch]:
        sources = self.source.encode_batch([source for source, _ in self.dev])
        targets = self.target.encode_batch([target for _, target in self.dev])
        longest, limit = self.limits
        if self.recipe.task == "summarisation":
            sources = [tokens[:longest] for tokens in sources]
        pairs = [
            (np.array(s), np.array(t))
            for s, t in zip(sources, targets, strict=True)
            if len(s) <= longest and len(t) <= limit
        ]
        pairs.sort(key=lambda pair: (len(pair[1]), len(pair[0])))
        size = 64
        for start in range(0, len(pairs), size):
            yield Batch.of(pairs[start : start + size])

    def translator(self, models: Sequence[Pair], options: DecodeOptions | None = None) -> Translator:
        decoding.allow(cache_folder("native"))
        engine, options = Torch(models), options or self.recipe.decode
        cut = self.recipe.task == "summarisation"
        return Translator(engine, self.source, self.target, options, self.recipe.data.max_length, cut=cut)


def spread(count: int, wanted: int) -> list[int]:
    """Indices evenly over a range: the same at every validation, and not the shortest of a sorted file."""
    wanted = min(count, wanted)
    return [i * count // wanted for i in range(wanted)]
