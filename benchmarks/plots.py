"""Line charts as self-contained SVG: one chart, or several in a grid of two columns."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from regard.training.curves import short, ticks

Point = tuple[float, float]

WIDTH, HEIGHT, FONT = 420, 310, 15
LEFT, RIGHT, TOP, BOTTOM = 58, 26, 66, 58  # around the plot; RIGHT grows with the names at the lines' ends
COLUMNS, GAP = 2, 12
INK, MUTED, AXIS, GRID = "#24292f", "#57606a", "#afb8c1", "#e5e7eb"
COLOURS = ("#1f6feb", "#c2410c", "#0f8a5f", "#8250df", "#b0861a", "#697386")
LETTER = 0.56 * FONT  # a letter's width on average
MOST_TICKS = 7  # so many different numbers on a logarithmic axis are its ticks


def chart(
    title: str,
    x_label: str,
    y_label: str,
    lines: dict[str, list[Point]],
    *,
    log_x: bool = False,
    log_y: bool = False,
    width: int = WIDTH,
) -> str:
    """Lines with their names at their ends; a name may be empty. An axis that is not logarithmic begins at zero."""
    lines = {name: sorted(line) for name, line in lines.items() if line}
    colours = [COLOURS[i % len(COLOURS)] for i in range(len(lines))]
    right = RIGHT + LETTER * max(map(len, lines), default=0)
    xs = _axis([x for line in lines.values() for x, _ in line], log_x, LEFT, width - right, tight=True)
    ys = _axis([y for line in lines.values() for _, y in line], log_y, HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{HEIGHT}" viewBox="0 0 {width} {HEIGHT}" '
        f'font-family="system-ui, -apple-system, Segoe UI, sans-serif" font-size="{FONT}" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{HEIGHT}" rx="6" fill="#fff"/>',
        _text(14, 25, title, INK, weight=600),
        _text(14, 46, y_label, MUTED),
        _text((xs.start + xs.end) / 2, HEIGHT - 13, x_label, MUTED, anchor="middle"),
        *_grid(xs, ys),
    ]
    drawn = [[(xs.at(x), ys.at(y)) for x, y in line] for line in lines.values()]
    for colour, line in zip(colours, drawn, strict=True):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in line)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}" stroke="#fff"/>' for x, y in line]
    for colour, name, line, y in zip(colours, lines, drawn, _label_heights(list(lines), drawn), strict=True):
        parts.append(_text(line[-1][0] + 10, y + 5, name, colour))
    return "".join(parts) + "</svg>\n"


def panels(charts: Sequence[str]) -> str:
    """Several charts in one picture, row by row."""
    rows = math.ceil(len(charts) / COLUMNS)
    width, height = COLUMNS * (WIDTH + GAP) + GAP, rows * (HEIGHT + GAP) + GAP
    placed = (
        f'<g transform="translate({GAP + i % COLUMNS * (WIDTH + GAP)} {GAP + i // COLUMNS * (HEIGHT + GAP)})">{one}</g>'
        for i, one in enumerate(charts)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f'<rect width="{width}" height="{height}" rx="6" fill="#fff"/>{"".join(placed)}</svg>\n'
    )


@dataclass(frozen=True)
class _Axis:
    """From numbers to places along one axis."""

    ticks: list[float]  # the first and the last are its ends, or outside of the numbers
    low: float
    high: float
    log: bool
    start: float
    end: float

    def at(self, number: float) -> float:
        low, high, here = ((math.log(n) if self.log else n) for n in (self.low, self.high, number))
        return self.start + (self.end - self.start) * (here - low) / ((high - low) or 1.0)


def _axis(numbers: Sequence[float], log: bool, start: float, end: float, *, tight: bool = False) -> _Axis:
    """tight: it ends with its numbers, and where a logarithmic axis has few of them, these are its ticks."""
    low, high = min(numbers, default=0.0), max(numbers, default=1.0)
    places = sorted(set(numbers))
    log = log and bool(places)
    if not log:
        marks = [m for m in ticks(min(low, 0.0), high) if m <= high or not tight]
    elif tight and len(places) <= MOST_TICKS:
        marks = places
    else:
        marks = _log_ticks(low, high)
    return _Axis(marks, min(low, marks[0]), max(high, marks[-1]), log, start, end)


def _log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten around the range: some of them if they are many, steps between them if they are few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = last - first
    steps = (1,) if decades > 3 else (1, 3) if decades > 2 else (1, 2, 5)
    powers = range(first, last + 1 + decades // MOST_TICKS, 1 + decades // MOST_TICKS)
    marks = [float(f"{step}e{power}") for power in powers for step in steps]
    lowest, highest = max(m for m in marks if m <= low), min(m for m in marks if m >= high)
    return [m for m in marks if lowest <= m <= highest]


def _grid(xs: _Axis, ys: _Axis) -> list[str]:
    """Lines and numbers across, numbers along; a number that would touch the one before it is left out."""
    parts = []
    for tick, shown in zip(ys.ticks, _shown(ys.ticks), strict=True):
        y, colour = ys.at(tick), AXIS if tick == ys.low else GRID
        parts.append(f'<path d="M{xs.start:.0f} {y:.1f}H{xs.end:.0f}" stroke="{colour}"/>')
        parts.append(_text(xs.start - 9, y + 5, shown, MUTED, anchor="end"))
    free = -math.inf
    for tick, shown in zip(xs.ticks, _shown(xs.ticks), strict=True):
        x, half = xs.at(tick), LETTER * len(shown) / 2
        if x - half > free:
            parts.append(_text(x, ys.start + 21, shown, MUTED, anchor="middle"))
            free = x + half + LETTER / 2
    return parts


def _label_heights(names: Sequence[str], drawn: Sequence[list[Point]]) -> list[float]:
    """Where each name stands beside the end of its line: as near as the lines and the names before it leave room."""
    taken = [place for line in drawn for place in _dense(line)]
    heights = [line[-1][1] for line in drawn]
    for i in sorted(range(len(names)), key=lambda i: heights[i]):
        left, end = drawn[i][-1][0] + 6, heights[i]
        right = left + LETTER * len(names[i])
        for move in sorted(range(-90, 91, 3), key=abs):
            inside = TOP - 8 < end + move < HEIGHT - BOTTOM
            if inside and not any(left < x < right and abs(y - end - move) < FONT * 0.6 for x, y in taken):
                heights[i] = end + move
                break
        taken += [(left + LETTER * k, heights[i] + side) for k in range(len(names[i])) for side in (-7, 7)]
    return heights


def _dense(line: Sequence[Point], pieces: int = 40) -> list[Point]:
    """Points all along a line."""
    return [
        (a + (c - a) * k / pieces, b + (d - b) * k / pieces) for (a, b), (c, d) in pairwise(line) for k in range(pieces)
    ] + [line[-1]]


def _shown(marks: Sequence[float]) -> list[str]:
    """Numbers of one axis, short if one of them is long."""
    return [short(mark) if max(marks) >= 10_000 else f"{mark:,g}" for mark in marks]


def _text(x: float, y: float, text: str, colour: str, *, anchor: str = "start", weight: int = 400) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" fill="{colour}">'
        f"{escape(text)}</text>"
    )
