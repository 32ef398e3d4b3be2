"""An explanation of a text as lines for a terminal, and as an SVG."""

# Shapes: K rows, N places.

from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

import numpy as np
from rich.cells import cell_len
from rich.text import Text

from regard.view import svg as svgs
from regard.view import words

if TYPE_CHECKING:
    from regard.explain.result import Explanation

SURE = 1.96  # standard errors on each side of a 95 % interval
BAR, LONGEST, NAMED = 28, 18, 4  # widths of a bar and a label, places named for each row
ABOVE, BELOW = (63, 81, 197), (194, 89, 29)
GREY = 160  # what colours fade into: faint on a dark terminal and on a light one
FAINT = 0.1  # of full colour, the least that is drawn


def listing(found: "Explanation", colour: bool = True) -> Text:
    """A line for each row: in colour the whole text, shaded; else the places that count most, with their numbers."""
    lines = [_heading(found), Text()]
    margin = max(cell_len(_cut(row)) for row in found.rows)
    for i, row in enumerate(found.rows):
        line = Text(" " * (margin - cell_len(_cut(row)))).append(_cut(row), "bold").append("  ")
        if colour:
            clear = np.where(np.abs(found.values[i]) > SURE * found.errors[i], found.values[i], 0.0)
            places = zip(map(plain, found.places), clear / found.most, strict=True)
            line.append_text(Text(" ").join(Text(place, _shade(strength)) for place, strength in places))
        else:
            named = [f"{plain(found.places[j])} {value_of(found, i, j)}" for j in strongest(found, i)]
            line.append("  ".join(named) or "(nothing that stands out)")
        lines.append(line)
    return Text("\n").join(lines)


def bars(found: "Explanation", row: int = 0) -> Text:
    """One row: a line for each place, with its value, its 95 % interval and a bar."""
    asked = f'why "{plain(found.rows[row])}"?' if found.output is not None else plain(found.rows[row])
    scores = found.saliency
    told = f"{score_of(scores.whole[row])} with the whole input, {score_of(scores.nothing[row])} with nothing of it"
    lines = [_heading(found), Text(), Text(asked, "bold").append(f"  {told}", "not bold"), Text()]
    margin = max(cell_len(_cut(place)) for place in found.places)
    for j, place in enumerate(found.places):
        value = found.values[row, j]
        length = min(1.0, abs(value) / found.most) * BAR
        line = Text(f"  {_cut(place)}{' ' * (margin - cell_len(_cut(place)))}  {value_of(found, row, j)}")
        line.append(f" ±{number(found, SURE * found.errors[row, j])}".ljust(9), "dim")
        line.append("█" * int(length) + ("▌" if length % 1 >= 0.5 else ""), rgb(ABOVE if value >= 0 else BELOW))
        line.rstrip()
        lines.append(line)
    return Text("\n").join(lines)


def strongest(found: "Explanation", row: int) -> list[int]:
    """The places whose values are far from 0, both in themselves and for their error; the largest first."""
    values, errors = found.values[row], found.errors[row]
    clear = (np.abs(values) > 3 * errors) & (np.abs(values) > 0.05 * found.most)
    return [int(j) for j in np.argsort(-np.abs(values), kind="stable")[:NAMED] if clear[j]]


def value_of(found: "Explanation", row: int, place: int) -> str:
    value = found.values[row, place]
    return f"{'-' if value < 0 else '+'}{number(found, abs(value))}"


def number(found: "Explanation", value: float) -> str:
    """Two places behind the point where the values are about as large as probabilities, else three digits."""
    return f"{value:.2f}" if 0.1 <= found.most < 1000 else f"{value:.3g}"


def svg(found: "Explanation") -> str:
    """A heat map of rows over places; each cell has its number and interval as a tooltip."""
    cell, rows, places = 30, [plain(row) for row in found.rows], [plain(place) for place in found.places]
    left = 20 + max(svgs.width_of(svgs.cut(row)) for row in rows)
    top = 44 + round(0.71 * max(svgs.width_of(svgs.cut(place)) for place in places))
    parts = [_leaning(left + cell * (j + 0.5) + 2, top - 6, place) for j, place in enumerate(places)]
    for i, row in enumerate(rows):
        y = top + cell * i
        middle = y + cell / 2 + svgs.FONT * 0.35
        parts.append(f'<text x="{left - 8}" y="{middle:.1f}" text-anchor="end">{escape(svgs.cut(row))}</text>')
        for j, place in enumerate(places):
            tip = f"{place} for {row}: {value_of(found, i, j)} ± {number(found, SURE * found.errors[i, j])}"
            x = left + cell * j
            parts.append(f'<rect x="{x}" y="{y}" width="{cell - 2}" height="{cell - 2}" rx="4" fill="{svgs.TILE}"/>')
            parts.append(svgs.square(x, y, cell, float(found.values[i, j] / found.most), tip))
    width = left + cell * len(places) + 24 + round(0.71 * svgs.width_of(svgs.cut(places[-1])))
    title = f"What each {'output word' if found.output is not None else 'score'} depends on: {_masks(found)}"
    return svgs.sheet(width, top + cell * len(rows) + 20, title, parts)


def _leaning(x: float, y: float, text: str) -> str:
    return f'<text transform="translate({x} {y}) rotate(-45)">{escape(svgs.cut(text))}</text>'


def _heading(found: "Explanation") -> Text:
    said = Text(plain(found.text))
    if found.output is not None:
        said.append("\n").append(plain(found.output), "bold")
    return said.append(f"\n{_masks(found)}", "dim not bold")


def score_of(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 1000 else f"{value:.4g}"


def _masks(found: "Explanation") -> str:
    scores = found.saliency
    early = f" of {scores.planned:,}, sure enough" if scores.masks < scores.planned else ""
    return f"{scores.masks:,} masks{early}"


def plain(text: str) -> str:
    """On one line, and without characters that would steer a terminal or that XML forbids."""
    return words.labels([" ".join(text.split())], ())[0]


def _cut(text: str) -> str:
    text = plain(text)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _shade(strength: float) -> str:
    """A background from pale to full, and an ink that can be read on it; none where there is next to nothing."""
    if abs(strength) < FAINT:
        return ""
    part = min(1.0, abs(strength))
    ground = [round(GREY + part * (full - GREY)) for full in (ABOVE if strength > 0 else BELOW)]
    return f"{'#ffffff' if part > 0.4 else '#000000'} on {rgb(ground)}"


def rgb(colour: Sequence[int]) -> str:
    return f"rgb({','.join(map(str, colour))})"
