"""The pictures beside the heat map, as SVG: lines between tokens, all heads, position vectors, the next words."""

# Shapes: L layers, H heads, T queries, S keys.

import base64
from collections.abc import Sequence
from xml.sax.saxutils import escape

import numpy as np

from regard.view import png
from regard.view.matrix import Matrix
from regard.view.nextword import NextWords
from regard.view.positions import Positions
from regard.view.svg import ACCENT, FONT, HEADS, MUTED, TILE, cut, sheet, square, width_of

ROW, SPAN = 26, 260  # of the lines: height of a token, distance of the columns
THUMB, LARGEST = 96, 48  # of a small picture: its size, and its most cells on a side
LEAST = 0.1  # the weight from which a line is drawn


def lines(weights: Matrix, heads: Sequence[int], rows: Sequence[str], columns: Sequence[str], title: str) -> str:
    """Two columns of tokens with a line for each weight (of H T S) from `LEAST` on, coloured by head."""
    left, right = max(width_of(cut(r)) for r in rows), max(width_of(cut(c)) for c in columns)
    x0, x1, top = 28 + left, 28 + left + SPAN, 76
    parts = []
    for place, head in enumerate(heads):
        x, colour = 20 + 44 * place, HEADS[head % len(HEADS)]
        parts.append(f'<circle cx="{x}" cy="48" r="5" fill="{colour}"/><text x="{x + 9}" y="52">{head + 1}</text>')
    for side, labels, x in (("end", rows, x0 - 8), ("start", columns, x1 + 8)):
        for i, text in enumerate(labels):
            y = top + ROW * (i + 0.5) + FONT * 0.35
            parts.append(f'<text x="{x}" y="{y:.1f}" text-anchor="{side}">{escape(cut(text))}</text>')
    bend = 0.42 * SPAN
    for place, head in enumerate(heads):
        shift = 10 * (place / (len(heads) - 1) - 0.5) if len(heads) > 1 else 0
        for i, j in np.argwhere(weights[head] >= LEAST).tolist():
            a, b = (top + ROW * (n + 0.5) + shift for n in (i, j))
            weight = float(weights[head, i, j])
            parts.append(
                f'<path d="M{x0} {a:.1f}C{x0 + bend:.0f} {a:.1f} {x1 - bend:.0f} {b:.1f} {x1} {b:.1f}" fill="none" '
                f'stroke="{HEADS[head % len(HEADS)]}" stroke-width="2" stroke-opacity="{weight:.2f}">'
                f"<title>{escape(f'{rows[i]} looks at {columns[j]}: {weight:.2f}, head {head + 1}')}</title></path>"
            )
    height = top + ROW * max(len(rows), len(columns)) + 16
    return sheet(max(x1 + 8 + right, 20 + 44 * len(heads)) + 20, height, title, parts)


def thumbnails(weights: Matrix, title: str) -> str:
    """Every head of every layer (L H T S), small."""
    layers, heads = weights.shape[:2]
    left, top, step = 76, 64, THUMB + 12
    parts = [
        f'<text x="{left + step * h + THUMB / 2}" y="56" text-anchor="middle">{h + 1}</text>' for h in range(heads)
    ]
    for layer in range(layers):
        y = top + step * layer
        parts.append(f'<text x="16" y="{y + THUMB / 2 + 4}">layer {layer + 1}</text>')
        for head in range(heads):
            x = left + step * head
            small = pooled(weights[layer, head], LARGEST)
            cell = THUMB / max(small.shape)
            wide, high = cell * small.shape[1], cell * small.shape[0]
            parts.append(f'<rect x="{x}" y="{y}" width="{wide:g}" height="{high:g}" fill="{TILE}"/>')
            parts += [square(x + cell * j, y + cell * i, cell, float(small[i, j])) for i, j in np.ndindex(small.shape)]
    return sheet(left + step * heads + 8, top + step * layers + 8, title, filter(None, parts))


def position_maps(found: Positions, title: str) -> str:
    """The vectors and the dot products between them, side by side; too many cells for anything but images."""
    assert found.table is not None
    assert found.products is not None
    parts, left, top, high = [], 48, 72, 384
    maps = (("vectors: positions down, their numbers across", found.table, 576), ("dot products", found.products, 384))
    for name, values, wide in maps:
        image = base64.b64encode(png.cells(values, float(np.abs(values).max()), size=1)).decode()
        parts.append(f'<text x="{left}" y="{top - 12}">{name}</text>')
        parts.append(
            f'<image x="{left}" y="{top}" width="{wide}" height="{high}" preserveAspectRatio="none" '
            f'style="image-rendering: pixelated" href="data:image/png;base64,{image}"/>'
        )
        for text, y in (("0", top + 10), (str(len(values) - 1), top + high)):
            parts.append(f'<text x="{left - 6}" y="{y}" text-anchor="end" font-size="11" fill="{MUTED}">{text}</text>')
        left += wide + 48
    return sheet(left - 24, top + high + 20, title, parts)


def pooled(matrix: Matrix, largest: int) -> Matrix:
    """The strongest of each block of cells, so that no side has more than `largest`."""
    edges = [np.unique(np.linspace(0, n, min(n, largest), endpoint=False, dtype=int)) for n in matrix.shape]
    small: Matrix = np.maximum.reduceat(np.maximum.reduceat(matrix, edges[0], axis=0), edges[1], axis=1)
    return small


def next_words(found: NextWords, title: str, others: int = 4) -> str:
    """A row for each step: what was written with its probability, and the next likely ones."""
    left = 24 + max(width_of(cut(s.token)) for s in found.steps)
    each, top, row = 130, 48, 28
    parts = []
    for i, step in enumerate(found.steps):
        y = top + row * i
        alternatives = [(t, p) for t, p in step.top if t != step.token][:others]
        parts.append(
            f'<text x="{left - 10}" y="{y + 17}" text-anchor="end" font-weight="600">{escape(cut(step.token))}</text>'
        )
        for place, (text, p) in enumerate([("", step.probability), *alternatives]):
            x = left + each * place
            colour = ACCENT if place == 0 else MUTED
            parts.append(f'<rect x="{x}" y="{y + 21}" width="{each - 16}" height="3" rx="1.5" fill="{TILE}"/>')
            parts.append(
                f'<rect x="{x}" y="{y + 21}" width="{(each - 16) * p:.1f}" height="3" rx="1.5" fill="{colour}"/>'
            )
            parts.append(f'<text x="{x}" y="{y + 16}" font-size="12">{p:.2f} {escape(cut(text))}</text>')
    return sheet(left + each * (others + 1) + 8, top + row * len(found.steps) + 16, title, parts)
