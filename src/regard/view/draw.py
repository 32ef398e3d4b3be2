"""One view of a look as SVG, PNG, text or numbers."""

# Shapes: L layers, H heads, T queries, S keys.

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.errors import UserError
from regard.text import PAD, SPECIALS
from regard.view import pictures
from regard.view import png as pngs
from regard.view import svg as svgs
from regard.view import terminal as texts
from regard.view.axes import KINDS
from regard.view.matrix import Matrix
from regard.view.norms import Norm
from regard.view.page import STILL
from regard.view.steps import Vectors

if TYPE_CHECKING:
    from regard.view.look import Look

SAYS = {"encoder": "Input looks at itself", "decoder": "Output looks back", "cross": "Output looks at input"}


@dataclass(frozen=True)
class Drawing:
    """What to draw: a view, and of which attention and token. Without a kind it is the one between output and input,
    without a layer the clearest, without a head all of them; layers, heads and tokens count from 0."""

    look: "Look"
    view: str
    kind: str | None = None
    layer: int | None = None
    head: int | None = None
    token: int = 0

    def svg(self) -> str:
        return str(self._made("an SVG", {
            "alignment": self._map,
            "heads": self._lines,
            "grid": lambda: pictures.thumbnails(self.weights, f"{self._says}: every layer and head"),
            "positions": self._positions,
            "next": lambda: pictures.next_words(self._next(), "Each token's probability, and what else was likely"),
        }))  # fmt: skip

    def png(self) -> bytes:
        """The SVG, rendered; where nothing can render it, a heat map without its words."""
        image = pngs.rendered(self.svg())
        if image is not None:
            return image
        if self.view == "alignment":
            return pngs.cells(self.matrix)
        if self.view == "positions":
            return pngs.cells(self._products(), float(np.abs(self._products()).max()))
        raise UserError(pngs.needed(self.view))

    def text(self) -> str:
        return str(self._made("text", {
            "alignment": lambda: texts.draw(self.matrix, *self._labels(), self.title()),
            "heads": lambda: texts.strongest(self.matrix, *self._labels(), self.title()),
            "steps": self._steps_text,
            "next": lambda: self._next().terminal(),
            "positions": self._positions_text,
            "norms": lambda: self._norm().terminal(self.token, self.look.axes[self._norm().side].labels[self.token]),
        }))  # fmt: skip

    def numbers(self) -> dict[str, Any]:
        """As JSON has it."""
        return dict(self._made("numbers", {
            "alignment": self.look.to_dict,
            "heads": self.look.to_dict,
            "grid": self.look.to_dict,
            "steps": lambda: self._vectors().steps(self.head or 0, self.token).to_dict(),
            "next": lambda: self._next().to_dict(),
            "positions": lambda: {"products": np.round(self._products().astype(float), 4).tolist()},
            "norms": lambda: self._norm().numbers(self.token),
        }))  # fmt: skip

    @property
    def of(self) -> str:
        """The kind of attention."""
        if self.kind is not None and self.kind not in self.look.weights:
            raise UserError(f"there is no {self.kind} attention; there is {', '.join(self.look.weights)}")
        return self.kind or ("cross" if "cross" in self.look.weights else next(iter(self.look.weights)))

    @property
    def weights(self) -> Matrix:
        """Of all layers and heads (L H T S)."""
        weights = self.look.weights[self.of]
        for name, number, count in (("layer", self.layer, weights.shape[0]), ("head", self.head, weights.shape[1])):
            if number is not None and not 0 <= number < count:
                raise UserError(f"there is no such {name}: the model has {count}")
        return weights

    @property
    def where(self) -> int:
        """The layer."""
        return self.look.layer(self.of) if self.layer is None else self.layer

    @property
    def matrix(self) -> Matrix:
        """One layer's weights (T S): of one head, or the mean of all."""
        picked: Matrix = self.weights[self.where]
        matrix: Matrix = picked.mean(0) if self.head is None else picked[self.head]
        return matrix

    def title(self, whole: str = "mean of heads") -> str:
        """Which layer and head these are, of several; a recurrent network's attention is one."""
        layers, heads = self.weights.shape[:2]
        said = []
        if layers > 1:
            said.append(f"layer {self.where + 1} of {layers}{' (the clearest)' if self.layer is None else ''}")
        if heads > 1:
            said.append(whole if self.head is None else f"head {self.head + 1}")
        what = "Output (rows) looks at input (columns)" if self.of == "cross" else self._says
        return f"{what}: {', '.join(said)}" if said else what

    @property
    def _says(self) -> str:
        return SAYS.get(self.of, "Attention")

    def _made(self, what: str, makers: dict[str, Callable[[], Any]]) -> Any:
        if self.view not in makers:
            raise UserError(f"{self.view} cannot be had as {what}; that can be {', '.join(makers)}")
        return makers[self.view]()

    def _labels(self) -> tuple[list[str], list[str]]:
        queries, keys = KINDS[self.of]
        return self.look.axes[queries].labels, self.look.axes[keys].labels

    def _map(self) -> str:
        return svgs.heat(self.matrix, *self._labels(), self.title())

    def _lines(self) -> str:
        layer = self.weights[self.where]
        heads = range(len(layer)) if self.head is None else [self.head]
        return pictures.lines(layer, list(heads), *self._labels(), self.title(whole="all heads"))

    def _positions(self) -> str:
        self._products()
        assert self.look.positions is not None
        return pictures.position_maps(self.look.positions, f"Positions ({self.look.positions.kind})")

    def _positions_text(self) -> str:
        products = self._products()[:32, :32]
        names = [str(i) for i in range(len(products))]
        return texts.draw(products / products.max(), names, names, "Dot products between positions, of the largest")

    def _steps_text(self) -> str:
        rows, columns = self._labels()
        vectors = self._vectors()
        names = [*columns, *[SPECIALS[PAD]] * (vectors.k.shape[1] - len(columns))]
        steps = vectors.steps(self.head or 0, self.token).terminal(rows[self.token], names)
        return f"{self._says}: layer {self.where + 1}, head {(self.head or 0) + 1}\n\n{steps}"

    def _vectors(self) -> Vectors:
        found = [v for v in self.look.vectors if (v.kind, v.layer) == (self.of, self.where)]
        if not found:
            raise UserError(
                "there are no queries, keys and values in this look: it is over words, or of a bare trace, "
                "or the attention is not a scaled dot product"
            )
        return found[0]

    def _norm(self) -> Norm:
        """The first norm of the layer."""
        side = "encoder" if self.kind in ("encoder", None) else "decoder"
        found = [n for n in self.look.norms if (n.kind, n.layer) == (side, self.layer or 0)]
        if not found:
            raise UserError(f"there are no norms of layer {(self.layer or 0) + 1} of the {side} in this look")
        count = len(found[0].x)
        if not 0 <= self.token < count:
            raise UserError(f"there is no such token: there are {count}")
        return found[0]

    def _next(self) -> Any:
        if self.look.next is None:
            raise UserError("there are no next words in this look: it is of a bare trace")
        return self.look.next

    def _products(self) -> Matrix:
        if self.look.positions is None or self.look.positions.products is None:
            raise UserError("this model has no position vectors to draw")
        return self.look.positions.products


def still(look: "Look") -> str:
    """The picture that a page shows where scripts do not run; none when it would be too large."""
    queries, keys = (look.axes[side].groups for side in KINDS[Drawing(look, "alignment").of])
    return Drawing(look.merged(), "alignment").svg() if len(queries) * len(keys) <= STILL else ""
