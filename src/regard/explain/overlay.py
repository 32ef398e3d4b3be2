"""A map over its image: PNG, SVG, and the data of the page."""

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from regard.explain import page
from regard.explain.rise import Array
from regard.explain.show import ABOVE, BELOW, rgb, score_of
from regard.view import png
from regard.view.svg import INK, PAPER

if TYPE_CHECKING:
    from regard.explain.curves import Curves
    from regard.explain.picture import ImageExplanation

Pixels = NDArray[np.uint8]
WIDE = 48  # characters of a line of the map
SHADES = "·░▒▓█"
FINEST = 64  # places of a page's map in each direction; it is smooth between them


def pixels(image: NDArray[Any]) -> Pixels:
    """An image of any numbers as red, green and blue bytes (H W 3)."""
    whole = image if image.ndim == 3 else image[..., None]
    if whole.dtype != np.uint8:
        least, most = float(whole.min()), float(whole.max())
        if whole.dtype.kind == "f" and least >= 0 and most <= 1:
            least, most = 0.0, 1.0
        whole = np.rint((whole - least) / ((most - least) or 1.0) * 255).astype(np.uint8)
    if whole.shape[2] not in (1, 3):
        whole = np.rint(whole.mean(2, keepdims=True)).astype(np.uint8)
    return np.broadcast_to(whole, (*whole.shape[:2], 3))


def over(image: NDArray[Any], values: Array) -> Pixels:
    """The image, grey and pale, with the map in colour over it: blue where seeing raises the score, else orange."""
    grey = 128 + pixels(image).mean(2, keepdims=True) / 2
    strength = (np.abs(values) / (np.abs(values).max() or 1.0))[..., None]
    colour = np.where((values >= 0)[..., None], ABOVE, BELOW)
    mixed: Pixels = np.rint(grey + 0.85 * strength * (colour - grey)).astype(np.uint8)
    return mixed


def terminal(found: "ImageExplanation", colour: bool) -> Text:
    """Two rows of the map in each line of half blocks, in colour; else shades, darker where a place matters more."""
    scores = found.saliency
    told = f"{score_of(scores.whole[0])} for the whole image, {score_of(scores.nothing[0])} with all of it hidden"
    lines = [
        Text(found.rows[0], "bold").append(f"  {told}", "not bold"),
        Text(f"{scores.masks:,} masks", "dim"),
        Text(),
    ]
    shown, values = over(found.image, found.values), found.values
    high = max(2, round(WIDE * values.shape[0] / values.shape[1] / 2)) * 2
    at = np.ix_(
        *(np.linspace(0, n - 1, count).round().astype(int) for n, count in zip(values.shape, (high, WIDE), strict=True))
    )
    for y in range(0, high, 2):
        if colour:
            upper, lower = (shown[at][y + half] for half in (0, 1))
            lines.append(Text().join(Text("▀", f"{rgb(a)} on {rgb(b)}") for a, b in zip(upper, lower, strict=True)))
        else:
            strength = values[at][y : y + 2].mean(0) / (np.abs(values).max() or 1.0)
            lines.append(Text("".join(SHADES[int(np.clip(4 * part + 0.5, 0, 4))] for part in strength)))
    return Text("\n").join(lines)


def svg(found: "ImageExplanation") -> str:
    """The overlay with its title."""
    height, width = found.values.shape
    wide, shown = max(width, 360), address(over(found.image, found.values))
    title = escape(f"{found.rows[0]} is {score_of(found.saliency.whole[0])}; {found.saliency.masks:,} masks")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide + 32} {height + 60}" width="{wide + 32}" '
        f'height="{height + 60}" role="img" font-family="system-ui, sans-serif" font-size="13" fill="{INK}">'
        f'<title>{title}</title><rect width="{wide + 32}" height="{height + 60}" rx="10" fill="{PAPER}"/>'
        f'<text x="16" y="26">{title}</text>'
        f'<image x="16" y="42" width="{width}" height="{height}" href="{shown}"/></svg>'
    )


def data(found: "ImageExplanation", tested: "Sequence[Curves]") -> dict[str, Any]:
    """What saliency.js draws; the map is coarser than the image, as it is smooth."""
    scores = found.saliency
    values = coarse(found.values)
    row = {
        "label": found.rows[0],
        **{name: float(getattr(scores, name)[0]) for name in ("whole", "nothing", "mean")},
        "values": [],
        "errors": [],
        **({"curves": tested[0].to_dict()} if tested else {}),
    }
    height, width = found.values.shape
    return {
        "text": "",
        "output": None,
        "languages": None,
        "places": [],
        "rows": [row],
        "most": float(np.abs(values).max()) or 1.0,
        "keep": scores.keep,
        "masks": scores.masks,
        "planned": scores.planned,
        "done": scores.done,
        "image": {
            "src": address(pixels(found.image)),
            "width": width,
            "height": height,
            "values": {
                "height": values.shape[0],
                "width": values.shape[1],
                "values": [float(f"{v:.4g}") for v in values.ravel()],
            },
        },
    }


def html(found: "ImageExplanation", tested: "Sequence[Curves]") -> str:
    return page.html(data(found, tested), svg(found))


def coarse(values: Array) -> Array:
    """Means over as many places as make the map small enough."""
    for axis in (0, 1):
        count = min(FINEST, values.shape[axis])
        starts = np.linspace(0, values.shape[axis], count, endpoint=False).astype(int)
        sizes = np.diff([*starts, values.shape[axis]])
        values = np.add.reduceat(values, starts, axis) / np.expand_dims(sizes, 1 - axis)
    return values


def address(shown: Pixels) -> str:
    """An image that stands in the document itself."""
    return f"data:image/png;base64,{base64.b64encode(png.encoded(shown)).decode()}"
