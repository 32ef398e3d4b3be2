"""What a translator attends to in one sentence: `look(model, text)` gives an object to read, draw and save."""

# Shapes: L layers, H heads, T queries, S keys.

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from regard.decode import DecodeOptions
from regard.decode.engine import pad
from regard.errors import UserError
from regard.models import Headed
from regard.text import BOS, EOS, Tokenizer
from regard.view import beam, page, words
from regard.view.axes import KINDS, Axis
from regard.view.draw import Drawing, still
from regard.view.matrix import Matrix, clearest, merge
from regard.view.nextword import NextWords, next_words
from regard.view.norms import Norm, record_norms
from regard.view.pack import pack_weights
from regard.view.positions import Positions, positions
from regard.view.record import Trace, record
from regard.view.steps import Vectors, examples

if TYPE_CHECKING:
    from regard.api import Model
    from regard.bundle import Bundle
    from regard.view.roles import Roles

BUDGET = 1_000_000  # numbers of vectors in one page; about five megabytes


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
    vectors: tuple[Vectors, ...] = ()  # q, k and v of each layer of each kind
    norms: tuple[Norm, ...] = ()
    positions: Positions | None = None
    next: NextWords | None = None

    @property
    def source(self) -> tuple[str, ...]:
        return self.axes["source"].tokens

    @property
    def target(self) -> tuple[str, ...]:
        return self.axes["target"].tokens

    @property
    def read(self) -> tuple[str, ...]:
        return self.axes["read"].tokens

    def layer(self, kind: str) -> int:
        """The layer whose heads, averaged, look most clearly each at its own place (see `matrix.information`)."""
        return clearest(self.weights[kind])

    @property
    def clearest(self) -> int:
        """The layer that aligns output and input most clearly."""
        return self.layer("cross" if "cross" in self.weights else next(iter(self.weights)))

    def merged(self) -> "Look":
        """The same over words: summed over the tokens looked at, averaged over the tokens that look."""
        weights = {
            kind: merge(w, self.axes[KINDS[kind][0]].groups, self.axes[KINDS[kind][1]].groups)
            for kind, w in self.weights.items()
        }
        return replace(self, axes={n: a.merged() for n, a in self.axes.items()}, weights=weights, vectors=(), norms=())

    def alignment(self, layer: int | None = None, head: int | None = None) -> Matrix:
        """Output against input (T S), layers and heads from 0: by default the clearest layer, the mean of its heads."""
        return Drawing(self, "alignment", "cross", layer, head).matrix

    def draw(self, view: str = "alignment", **place: Any) -> Drawing:
        """A view to be had with .svg(), .png(), .text() or .numbers(): alignment, heads, grid, steps, next, positions,
        norms. place: kind, layer, head and token, counted from 0; see `Drawing`."""
        return Drawing(self, view, **place)

    def to_dict(self) -> dict[str, Any]:
        """Tokens and weights as JSON has them, weights rounded to four digits."""
        return self._facts() | {
            "attention": {
                kind: dict(zip(("queries", "keys"), KINDS[kind], strict=True))
                | {"weights": np.round(w.astype(float), 4).tolist()}
                for kind, w in self.weights.items()
            }
        }

    def to_page(self, roles: "Roles | str | None" = None, layer: int | None = None) -> dict[str, Any]:
        """All that the page's views show, packed small. roles: a table of heads, or why there is none.

        When the vectors of all layers are too many for one page, it is one layer's: the given one or the clearest.
        """
        kept, note = self._kept(layer)
        packed = {
            kind: dict(zip(("queries", "keys"), KINDS[kind], strict=True)) | {"weights": pack_weights(w)}
            for kind, w in self.weights.items()
        }
        steps = {"parts": [v.to_dict() for v in kept if isinstance(v, Vectors)], "note": note, "examples": examples()}
        found = self._facts() | {"attention": packed, "steps": steps}
        if self.norms:
            found["norms"] = {"parts": [n.to_dict() for n in kept if isinstance(n, Norm)], "note": note}
        if self.positions is not None:
            found["positions"] = self.positions.to_dict()
        if self.next is not None:
            found["next"] = self.next.to_dict()
        if roles is not None:
            found["roles"] = {"needs": roles} if isinstance(roles, str) else roles.numbers()
        return found

    def to_html(self, roles: "Roles | str | None" = None, layer: int | None = None, view: str = "alignment") -> str:
        """The attention page, one file, complete in itself, opened at a view; see `to_page`."""
        return page.make(self.to_page(roles, layer), still(self), view)

    def _repr_html_(self) -> str:
        return page.framed(self.to_html(), "Attention")

    def __repr__(self) -> str:
        layers = {kind: w.shape[:2] for kind, w in self.weights.items()}
        return f"Look({self.text!r} -> {self.translation!r}, layers and heads {layers})"

    def _facts(self) -> dict[str, Any]:
        return {
            "languages": list(self.languages),
            "source": self.text,
            "target": self.translation,
            "axes": {name: axis.to_dict() for name, axis in self.axes.items()},
            "clearest": self.clearest,
        }

    def _kept(self, layer: int | None) -> tuple[list[Vectors | Norm], str | None]:
        """The vectors that a page can hold, and what it says of those that it cannot."""
        every: list[Vectors | Norm] = [*self.vectors, *self.norms]
        count = sum(v.size for v in every)
        if count <= BUDGET:
            return every, None
        least = self.clearest if layer is None else layer
        kept = [v for v in every if v.layer == min(least, self._layers(v) - 1)]
        much = f"the vectors of all layers would be {count / 1e6:.1f} million numbers, too many for this page"
        if sum(v.size for v in kept) <= BUDGET:
            return kept, f"Here is layer {least + 1} alone: {much}."
        return [], f"None are here: {much}. Look at a shorter text."

    def _layers(self, of: Vectors | Norm) -> int:
        return self.weights[of.kind].shape[0] if of.kind in self.weights else 1


def look(model: "Model", text: str, target: str | None = None, options: DecodeOptions | None = None) -> Look:
    """What the model attends to as it writes its own translation of the text, or the given target.

    options: how it translates, by default the model's own.
    """
    if len(model.bundles) > 1:
        raise UserError(f"attention is one model's; look at one of the {len(model.bundles)} models of the ensemble")
    if not text.strip():
        raise UserError("there is no text to look at")
    bundle = model.bundle
    if bundle.task == "language" or isinstance(bundle.model, Headed):
        raise UserError(f"a look is into an encoder and a decoder; this model is a {bundle.name} alone")
    most = model.translator.max_source
    source = encoded(bundle.source, text, "text", most)
    search = None
    if target is not None:
        written = encoded(bundle.target, target, "target", most)
    else:
        options = options or model.options(sample=False, n_best=1)
        search = beam.search([bundle.model], [*source, EOS], options, _device(bundle))
        written = list(search.best.tokens)  # their text, cut into tokens again, can give other ones
    trace, norms, logits = _recorded(bundle, source, written)
    return Look(
        text,
        bundle.target.decode(written) if target is None else target,
        bundle.languages,
        {
            "source": Axis.of([*bundle.source.surface(source), words.END]),
            "target": Axis.of([*bundle.target.surface(written), words.END]),
            "read": Axis.of([words.START, *bundle.target.surface(written)]),
        },
        {kind: _stacked(trace, kind) for kind in KINDS if trace.layers(kind)},
        tuple(Vectors.of(r) for r in trace.records if r.q is not None),
        tuple(norms),
        positions(bundle.model, max(len(source), len(written)) + 1),
        next_words(logits, written, bundle.target, search),
    )


def show(trace: Trace, source: Sequence[str], target: Sequence[str] | None, row: int) -> Look:
    """A look at what was recorded, with the tokens that the caller knows; see `Trace.show`."""
    given = {"source": source} if target is None else {"source": source, "target": target, "read": target}
    kinds = [kind for kind in trace.kinds if all(side in given for side in KINDS[kind])]
    if not kinds:
        raise UserError(f"{', '.join(trace.kinds) or 'nothing'} was recorded; give the target's tokens too")
    weights = {kind: _stacked(trace, kind, row) for kind in kinds}
    for kind, w in weights.items():
        for side, have in zip(KINDS[kind], w.shape[2:], strict=True):
            if len(given[side]) > have:
                raise UserError(f"{len(given[side])} {side} tokens were given, but {kind} attention has {have}")
        queries, keys = (len(given[side]) for side in KINDS[kind])
        weights[kind] = w[:, :, :queries, :keys]  # the rest is padding
    axes = {"source": Axis.of(source)}
    if target is not None:
        axes |= {"target": Axis.of(target), "read": Axis.of([words.START, *target[:-1]])}
    joined = ["".join(tokens).strip() for tokens in (source, target or ())]
    vectors = tuple(Vectors.of(r, row) for r in trace.records if r.kind in kinds and r.q is not None)
    return Look(joined[0], joined[1], ("", ""), axes, weights, vectors)


def encoded(tokenizer: Tokenizer, text: str, name: str, most: int) -> list[int]:
    """The tokens of one sentence, which must be no more than the model is made for."""
    tokens = tokenizer.encode(text)
    if len(tokens) > most:
        raise UserError(f"the {name} has {len(tokens)} tokens, the model is made for {most}; give one sentence")
    return tokens


def _recorded(bundle: "Bundle", source: list[int], written: list[int]) -> tuple[Trace, list[Norm], torch.Tensor]:
    """One pass over the whole target, as in training: the decoder reads each token after it has written it."""
    tokens, _ = pad([[*source, EOS]], _device(bundle))
    before, _ = pad([[BOS, *written]], _device(bundle))
    bundle.model.eval()
    with torch.inference_mode(), record(bundle.model, full=True) as trace, record_norms(bundle.model) as norms:
        logits = bundle.model.logits(tokens, None, before)[0]  # T V
    return trace, norms, logits


def _stacked(trace: Trace, kind: str, row: int = 0) -> Matrix:
    layers = [trace.weights(kind, layer)[row].float().cpu().numpy() for layer in range(trace.layers(kind))]
    return np.stack(layers)  # L H T S


def _device(bundle: "Bundle") -> torch.device:
    device: torch.device = next(bundle.model.parameters()).device
    return device
