"""RISE for images: grid masks, upsampled and shifted at random, over any function from images to scores."""

# Shapes: B masks, H W of the image, C channels, h w of the grid.

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from regard.errors import UserError
from regard.explain import overlay
from regard.explain.curves import Curves, curves
from regard.explain.result import last_of
from regard.explain.rise import Array, Asking, Plan, Saliency, Score, check_keep, planned, rise
from regard.view import png
from regard.view.page import framed

Image = NDArray[Any]  # H W C, or H W
BlackBox = Callable[[Image], Any]  # a batch of images to scores: B, or B K
FILLS = ("zeros", "mean", "blur")
HELD = 2**23  # numbers of one batch of images


@dataclass(frozen=True)
class Grid:
    """The paper's masks: a small grid of bits, enlarged with soft edges, and cut out at a random place.

    A grid of h x w becomes (h + 1) C_h x (w + 1) C_w, where C is a cell's size in the image, and the image's size is
    cut out of it with a shift of less than a cell.
    """

    size: tuple[int, int]  # of the image
    cells: tuple[int, int]
    keep: float = 0.5
    independent: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_keep(self.keep)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.size

    @property
    def free(self) -> int:
        return self.cells[0] * self.cells[1]

    def draw(self, random: np.random.Generator, size: int) -> Array:
        drawn = random.random((size, self.free + 2))
        bits = (drawn[:, 2:] < self.keep).astype(np.float64).reshape(-1, *self.cells)  # B h w
        sides = [self._side(axis, drawn[:, axis]) for axis in (0, 1)]
        masks: Array = sides[0] @ bits @ sides[1].transpose(0, 2, 1)  # B H W
        return masks

    def _side(self, axis: int, shifts: Array) -> Array:
        """For each mask, how much every row (or column) of it has of every row of the grid: B H h."""
        length, cells = self.size[axis], self.cells[axis]
        cell = math.ceil(length / cells)
        weights = bilinear(cells, (cells + 1) * cell)
        starts = (shifts * cell).astype(int)
        return np.stack([weights[start : start + length] for start in starts])


def bilinear(short: int, long: int) -> Array:
    """Weights (long, short) of linear interpolation between the centres of cells; at the ends the last cell goes on."""
    place = np.clip((np.arange(long) + 0.5) * short / long - 0.5, 0, short - 1)
    left = np.minimum(place.astype(int), max(short - 2, 0))
    right = np.minimum(left + 1, short - 1)
    weights = np.zeros((long, short))
    np.add.at(weights, (np.arange(long), left), 1 - (place - left))
    np.add.at(weights, (np.arange(long), right), place - left)
    return weights


class Picture:
    """An image whose places can be hidden: made black, grey in the image's own mean, or blurred."""

    def __init__(self, image: Image, fill: str = "zeros") -> None:
        if fill not in FILLS:
            raise UserError(f"fill is {fill!r}; choose {', '.join(FILLS)}")
        if image.ndim not in (2, 3) or 0 in image.shape:
            raise UserError(f"an image is H x W or H x W x C; this one has shape {image.shape}")
        if image.dtype.kind not in "uif" or not np.isfinite(image).all():
            raise UserError(f"an image is made of finite numbers; this one is {image.dtype}")
        self.image = image
        self.hidden = filling(image, fill)

    def masked(self, masks: Array) -> Image:
        """The image under each mask (B H W), in the image's own kind of number."""
        seen = masks[..., None] if self.image.ndim == 3 else masks
        mixed = self.hidden + seen * (self.image - self.hidden)
        return (np.rint(mixed) if self.image.dtype.kind in "ui" else mixed).astype(self.image.dtype)


def filling(image: Image, fill: str) -> Array:
    """What stands where the image is hidden."""
    whole = image.astype(np.float64)
    if fill == "zeros":
        return np.zeros_like(whole)
    if fill == "mean":
        return np.broadcast_to(whole.mean((0, 1)), whole.shape)
    return blur(whole, max(1.0, min(image.shape[:2]) / 20))


def blur(image: Array, sigma: float) -> Array:
    """Gaussian, one axis after the other; beyond the edge the image is mirrored."""
    reach = math.ceil(3 * sigma)
    kernel = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * sigma**2))
    kernel /= kernel.sum()
    for axis in (0, 1):
        padding = [(reach, reach) if a == axis else (0, 0) for a in range(image.ndim)]
        wide = np.pad(image, padding, mode="symmetric")
        length = image.shape[axis]
        image = sum(w * wide.take(range(i, i + length), axis) for i, w in enumerate(kernel))
    return image


@dataclass(frozen=True, eq=False)
class ImageExplanation:
    """How much each place of an image matters to one score."""

    image: Image
    of: int  # which score
    saliency: Saliency
    deleting: Score  # from masks to scores, as the explanation was made
    inserting: Score  # the same, but a hidden place is blurred
    batch: int

    @property
    def values(self) -> Array:
        """H W: the mean score, weighted by how much of the place is seen, less the same by how much is hidden."""
        only: Array = self.saliency.values[0]
        return only

    @property
    def errors(self) -> Array:
        """H W: the standard errors of the values."""
        only: Array = self.saliency.errors[0]
        return only

    def to_png(self) -> bytes:
        """The map in colour over the image in grey."""
        return png.encoded(overlay.over(self.image, self.values))

    def to_svg(self) -> str:
        return overlay.svg(self)

    def terminal(self, colour: bool = False) -> Text:
        """The map in shades, or with colours the image under it."""
        return overlay.terminal(self, colour)

    def to_dict(self, tested: Sequence[Curves] = ()) -> dict[str, Any]:
        """What saliency.js draws, with the curves if they are given."""
        return overlay.data(self, tested)

    def to_html(self, tested: Sequence[Curves] = ()) -> str:
        """A page that is complete in itself."""
        return overlay.html(self, tested)

    def _repr_html_(self) -> str:
        return framed(self.to_html(), "Explanation")

    def __repr__(self) -> str:
        size = " x ".join(map(str, self.values.shape))
        return f"ImageExplanation(image of {size}, score {self.of}, {self.saliency.masks} masks)"

    @property
    def rows(self) -> tuple[str, ...]:
        return (f"score {self.of + 1}",)

    def curves(self, steps: int = 50, orders: int = 5, seed: int = 0) -> tuple[Curves, ...]:
        """Deletion as the explanation hides, insertion into the blurred image, as in the paper: of the one row."""
        return curves(
            self.deleting, self.saliency.values, inserting=self.inserting,
            steps=steps, orders=orders, seed=seed, batch=self.batch,
        )  # fmt: skip


def image_steps(
    score: BlackBox,
    image: Image,
    *,
    of: int | None = None,
    cells: int = 7,
    keep: float = 0.5,
    fill: str = "zeros",
    **plan: Any,
) -> Iterator[ImageExplanation]:
    """Which places of an image a black box's score depends on, again and again as more masks are tried.

    score takes a batch of images (B H W C, of the image's own kind) and gives an array: one score an image, or one
    row of scores; `of` chooses one, by default the one that is highest for the whole image. The grid is cells x cells.
    """
    picture, soft = Picture(image, fill), Picture(image, "blur")
    options = planned(**{"masks": 4000} | plan)
    if cells < 1:
        raise UserError(f"cells is {cells}; the least is 1")
    height, width = image.shape[:2]
    batch = min(options.batch, max(1, HELD // image.size))
    which = _of(score, image, of)

    def seen_as(shown: Picture) -> Score:
        return lambda masks: _row(score(shown.masked(masks)), which)

    masks = Grid((height, width), (min(cells, height), min(cells, width)), keep)
    deleting = seen_as(picture)
    for found in rise(deleting, masks, Plan(**vars(options) | {"batch": batch})):
        yield ImageExplanation(image, which, found, deleting, seen_as(soft), batch)


image = last_of(image_steps)


def _of(score: BlackBox, image: Image, of: int | None) -> int:
    whole = Asking(lambda _: score(image[None]), 1)(np.ones((1, 1)))[0]
    if of is not None and not 0 <= of < len(whole):
        raise UserError(f"there is no score {of}: the black box gives {len(whole)}, numbered from 0")
    return int(whole.argmax()) if of is None else of


def _row(answer: Any, which: int) -> Any:
    scores = np.asarray(answer)
    return scores[:, which] if scores.ndim == 2 and which < scores.shape[1] else scores
