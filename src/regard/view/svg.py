"""Draws an alignment as a static SVG that opens anywhere: a file, a document, a page without scripts."""

import unicodedata
from collections.abc import Sequence
from xml.sax.saxutils import escape

from regard.view.matrix import Matrix

CELL, GAP, FONT = 30, 2, 13
INK, MUTED, ACCENT, PAPER, TILE = "#1f1e1c", "#6b6862", "#3f51c5", "#ffffff", "#f3f2ef"
LONGEST = 18  # characters of a label


def draw(weights: Matrix, rows: Sequence[str], columns: Sequence[str], title: str) -> str:
    """A heat map, one row a query and one column a key; each cell has its number as a tooltip."""
    rows_cut, columns_cut = [_cut(r) for r in rows], [_cut(c) for c in columns]
    left = 20 + max(map(_width, rows_cut))
    top = 44 + round(0.71 * max(map(_width, columns_cut)))
    right = 24 + round(0.71 * _width(columns_cut[-1]))  # the last label leans over the edge
    width = max(left + CELL * len(columns) + right, 32 + round(0.54 * 12 * len(title)))
    height = top + CELL * len(rows) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" font-family="system-ui, -apple-system, Segoe UI, sans-serif" font-size="{FONT}" fill="{INK}">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" rx="10" fill="{PAPER}"/>',
        f'<text x="16" y="24" font-size="12" fill="{MUTED}">{escape(title)}</text>',
    ]
    for j, text in enumerate(columns_cut):
        x, y = left + CELL * j + CELL / 2 + 2, top - 6
        parts.append(f'<text transform="translate({x} {y}) rotate(-45)">{escape(text)}</text>')
    for i, text in enumerate(rows_cut):
        middle = top + CELL * i + CELL / 2 + FONT * 0.35
        parts.append(f'<text x="{left - 8}" y="{middle:.1f}" text-anchor="end">{escape(text)}</text>')
        parts += [
            _cell(left + CELL * j, top + CELL * i, float(weights[i, j]), rows[i], c) for j, c in enumerate(columns)
        ]
    return "\n".join([*parts, "</svg>"])


def _cell(x: int, y: int, weight: float, row: str, column: str) -> str:
    box = f'x="{x}" y="{y}" width="{CELL - GAP}" height="{CELL - GAP}" rx="4"'
    tip = escape(f"{row} looks at {column}: {weight:.2f}")
    shade = f'<rect {box} fill="{ACCENT}" fill-opacity="{weight:.3f}"/>'
    return f'<g><title>{tip}</title><rect {box} fill="{TILE}"/>{shade}</g>'


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _width(text: str) -> int:
    """About how wide a text is in pixels."""
    return round(sum(FONT * (1.0 if unicodedata.east_asian_width(c) in "WF" else 0.58) for c in text))
