"""Static SVG that opens anywhere: the sheet that every picture is drawn on, and heat maps."""

import unicodedata
from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape

from regard.view.matrix import Matrix

FONT = 13
INK, MUTED, ACCENT, PAPER, TILE, BELOW = "#1f1e1c", "#6b6862", "#3f51c5", "#ffffff", "#f3f2ef", "#c2591d"
HEADS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#6f6c66", "#a89b00")  # colour-blind safe
LONGEST = 24  # characters of a label
FAINT = 0.004  # a cell below it is left blank
TIPS = 4000  # cells that have their number as a tooltip; with more, a picture grows too large


def sheet(width: float, height: float, title: str, parts: Iterable[str]) -> str:
    """A whole picture: its title above, and whatever is drawn from 40 pixels down."""
    wide = max(round(width), 32 + round(0.54 * 12 * len(title)))
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {round(height)}" width="{wide}" '
        f'height="{round(height)}" role="img" font-family="system-ui, -apple-system, Segoe UI, sans-serif" '
        f'font-size="{FONT}" fill="{INK}">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{wide}" height="{round(height)}" rx="10" fill="{PAPER}"/>',
        f'<text x="16" y="24" font-size="12" fill="{MUTED}">{escape(title)}</text>',
        *parts,
        "</svg>",
    ])  # fmt: skip


def heat(values: Matrix, rows: Sequence[str], columns: Sequence[str], title: str) -> str:
    """A heat map of numbers up to 1, one row a query and one column a key."""
    cell = 30 if max(values.shape) <= 40 else 16 if max(values.shape) <= 128 else 6
    named = cell >= 16
    rows_cut, columns_cut = ([cut(text) for text in labels] if named else [""] for labels in (rows, columns))
    left = 20 + max(map(width_of, rows_cut))
    top = 44 + round(0.71 * max(map(width_of, columns_cut)))
    right = 24 + round(0.71 * width_of(columns_cut[-1]))  # the last label leans over the edge
    parts = [f'<rect x="{left}" y="{top}" width="{cell * len(columns)}" height="{cell * len(rows)}" fill="{TILE}"/>']
    if named:
        down = "".join(f"M{left + cell * j - 1} {top}v{cell * len(rows)}" for j in range(1, len(columns)))
        across = "".join(f"M{left} {top + cell * i - 1}h{cell * len(columns)}" for i in range(1, len(rows)))
        parts.append(f'<path d="{down}{across}" stroke="{PAPER}" stroke-width="2"/>')
        for j, text in enumerate(columns_cut):
            x, y = left + cell * (j + 0.5) + 2, top - 6
            parts.append(f'<text transform="translate({x} {y}) rotate(-45)">{escape(text)}</text>')
        for i, text in enumerate(rows_cut):
            middle = top + cell * (i + 0.5) + FONT * 0.35
            parts.append(f'<text x="{left - 8}" y="{middle:.1f}" text-anchor="end">{escape(text)}</text>')
    tips = values.size <= TIPS
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            tip = f"{row} looks at {column}: {values[i, j]:.2f}" if tips else ""
            parts.append(square(left + cell * j, top + cell * i, cell, float(values[i, j]), tip))
    return sheet(left + cell * len(columns) + right, top + cell * len(rows) + 20, title, filter(None, parts))


def square(x: float, y: float, cell: float, strength: float, tip: str = "") -> str:
    """One cell, from blank to full colour, another one below zero; nothing at all where there is nothing to see."""
    if abs(strength) < FAINT and not tip:
        return ""
    gap = 2 if cell >= 16 else 0
    box = f'x="{x:g}" y="{y:g}" width="{cell - gap:g}" height="{cell - gap:g}" rx="{2 * gap}"'
    shade = f'<rect {box} fill="{ACCENT if strength >= 0 else BELOW}" fill-opacity="{min(1, abs(strength)):.3f}"/>'
    return f"<g><title>{escape(tip)}</title>{shade}</g>" if tip else shade


def cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def width_of(text: str) -> int:
    """About how wide a text is in pixels."""
    return round(sum(FONT * (1.0 if unicodedata.east_asian_width(c) in "WF" else 0.58) for c in text))
