"""What a translator attends to in one sentence: `look(model, text)` gives an object to read, draw and save."""

# Shapes: L layers, H heads, T queries, S keys.

from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from regard.decode.beam import beam_search
from regard.decode.engine import pad
from regard.errors import UserError
from regard.text import BOS, EOS, Tokenizer
from regard.view import page, svg, terminal, words
from regard.view.matrix import Matrix, clearest, merge
from regard.view.record import Trace, record

if TYPE_CHECKING:
    from regard.api import Model
    from regard.bundle import Bundle

# For each kind of attention: whose rows its queries and its keys are.
KINDS = {"encoder": ("source", "source"), "decoder": ("target", "read"), "cross": ("target", "source")}


@dataclass(frozen=True)
class Axis:
    """A row of tokens, and which of them make up each word."""

    tokens: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, tokens: list[str]) -> "Axis":
        return cls(tuple(tokens), words.groups(tokens))

    @property
    def labels(self) -> list[str]:
        return words.labels(self.tokens, self.groups)

    def merged(self) -> "Axis":
        whole = tuple(words.word([self.tokens[i] for i in group]) for group in self.groups)
        return Axis(whole, tuple((i,) for i in range(len(whole))))


@dataclass(frozen=True, eq=False)
class Look:
    """One sentence, its translation, and the weights of every layer and head.

    `source` is what the encoder reads, `target` what the decoder writes, `read` what the decoder has before it as it
    writes: the target shifted by one, with the start in front. Both sides end with the end symbol.
    """

    text: str
    translation: str
    languages: tuple[str, str]
    axes: dict[str, Axis]  # source, target, read
    weights: dict[str, Matrix]  # encoder, decoder, cross: L H T S
    clearest: int  # the decoder layer whose heads, averaged, align output and input most clearly

    @property
    def source(self) -> tuple[str, ...]:
        return self.axes["source"].tokens

    @property
    def target(self) -> tuple[str, ...]:
        return self.axes["target"].tokens

    @property
    def read(self) -> tuple[str, ...]:
        return self.axes["read"].tokens

    def merged(self) -> "Look":
        """The same over words: summed over the tokens looked at, averaged over the tokens that look."""
        weights = {
            kind: merge(w, self.axes[KINDS[kind][0]].groups, self.axes[KINDS[kind][1]].groups)
            for kind, w in self.weights.items()
        }
        return replace(self, axes={name: axis.merged() for name, axis in self.axes.items()}, weights=weights)

    def alignment(self, layer: int | None = None, head: int | None = None) -> Matrix:
        """Output against input (T S), layers and heads from 0.

        Without a layer it is the clearest one (see `matrix.information`), without a head the mean of all heads.
        """
        cross = self.weights["cross"]
        for name, number, count in (("layer", layer, cross.shape[0]), ("head", head, cross.shape[1])):
            if number is not None and not 0 <= number < count:
                raise UserError(f"there is no {name} {number}: the model has {count}, numbered from 0")
        chosen = cross[self.clearest if layer is None else layer]
        picked: Matrix = chosen.mean(0) if head is None else chosen[head]
        return picked

    def alignment_svg(self, layer: int | None = None, head: int | None = None) -> str:
        """The alignment as an SVG document; see `alignment` for what is drawn by default. The title says it too."""
        return svg.draw(self.alignment(layer, head), *self._labels(), self._title(layer, head))

    def terminal(self, layer: int | None = None, head: int | None = None) -> str:
        """The alignment in shade blocks, plain text."""
        return terminal.draw(self.alignment(layer, head), *self._labels(), self._title(layer, head))

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON has it, weights rounded to four digits."""
        return {
            "languages": list(self.languages),
            "source": self.text,
            "target": self.translation,
            "axes": {
                name: {
                    "tokens": list(axis.tokens),
                    "labels": axis.labels,
                    "words": axis.merged().labels,
                    "groups": [list(group) for group in axis.groups],
                }
                for name, axis in self.axes.items()
            },
            "attention": {
                kind: {
                    "queries": KINDS[kind][0],
                    "keys": KINDS[kind][1],
                    "weights": np.round(w.astype(float), 4).tolist(),
                }
                for kind, w in self.weights.items()
            },
            "clearest": self.clearest,
        }

    def to_html(self) -> str:
        """The attention page: one file, complete in itself."""
        return page.make(self.to_dict(), self.merged().alignment_svg())

    def _repr_html_(self) -> str:
        framed = escape(self.to_html(), quote=True)
        frame = 'width="100%" height="860" style="border:0" sandbox="allow-scripts" title="Attention"'
        return f'<iframe srcdoc="{framed}" {frame}></iframe>'

    def __repr__(self) -> str:
        layers = {kind: w.shape[:2] for kind, w in self.weights.items()}
        return f"Look({self.text!r} -> {self.translation!r}, layers and heads {layers})"

    def _labels(self) -> tuple[list[str], list[str]]:
        return self.axes["target"].labels, self.axes["source"].labels

    def _title(self, layer: int | None, head: int | None) -> str:
        layers = self.weights["cross"].shape[0]
        where = f"layer {(self.clearest if layer is None else layer) + 1} of {layers}"
        if layer is None and layers > 1:
            where += " (the clearest)"
        which = "mean of heads" if head is None else f"head {head + 1}"
        return f"Output (rows) looks at input (columns): {where}, {which}"


def look(model: "Model", text: str, target: str | None = None) -> Look:
    """What the model attends to as it writes its own translation of the text, or the given target."""
    if len(model.bundles) > 1:
        raise UserError(f"attention is one model's; look at one of the {len(model.bundles)} models of the ensemble")
    if not text.strip():
        raise UserError("there is no text to look at")
    bundle = model.bundle
    most = model.translator.max_source
    source = _encoded(bundle.source, text, "text", most)
    written = _translated(model, source) if target is None else _encoded(bundle.target, target, "target", most)
    weights = _recorded(bundle, source, written)
    return Look(
        text,
        bundle.target.decode(written) if target is None else target,
        bundle.languages,
        {
            "source": Axis.of([*bundle.source.surface(source), words.END]),
            "target": Axis.of([*bundle.target.surface(written), words.END]),
            "read": Axis.of([words.START, *bundle.target.surface(written)]),
        },
        weights,
        clearest(weights["cross"]),
    )


def _encoded(tokenizer: Tokenizer, text: str, name: str, most: int) -> list[int]:
    tokens = tokenizer.encode(text)
    if len(tokens) > most:
        raise UserError(f"the {name} has {len(tokens)} tokens, the model is made for {most}; look at one sentence")
    return tokens


def _translated(model: "Model", source: list[int]) -> list[int]:
    """The tokens as the beam wrote them: their text, cut into tokens again, can give other ones."""
    tokens, lengths = pad([[*source, EOS]], _device(model.bundle))
    options = model.options(sample=False, n_best=1)
    best = beam_search([model.bundle.model], tokens, lengths, options)[0][0]
    return list(best.tokens)


def _recorded(bundle: "Bundle", source: list[int], written: list[int]) -> dict[str, Matrix]:
    """One pass over the whole target, as in training: the decoder reads each token after it has written it."""
    tokens, _ = pad([[*source, EOS]], _device(bundle))
    before, _ = pad([[BOS, *written]], _device(bundle))
    with torch.inference_mode(), record(bundle.model) as trace:
        bundle.model(tokens, None, before)
    return {kind: _stacked(trace, kind) for kind in KINDS if trace.layers(kind)}


def _stacked(trace: Trace, kind: str) -> Matrix:
    layers = [trace.weights(kind, layer)[0].float().cpu().numpy() for layer in range(trace.layers(kind))]
    return np.stack(layers)  # L H T S


def _device(bundle: "Bundle") -> torch.device:
    return next(bundle.model.parameters()).device
