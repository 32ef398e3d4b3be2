"""A run's curves as an SVG picture: loss on training and dev data, and the score that best means, over the steps."""

import math
from collections.abc import Sequence
from typing import Any

Point = tuple[float, float]
WIDTH, HEIGHT, LEFT, TOP, GAP = 640, 230, 58, 34, 54
INK = {"train": "#8a94a6", "dev": "#1f6feb"}
SCORE = "#c2410c"


def curves(events: Sequence[dict[str, Any]]) -> str:
    """Two panels from log events; self-contained."""

    def line(event: str, key: str) -> list[Point]:
        return [(e["step"], e[key]) for e in events if e.get("event") == event and e.get(key) is not None]

    train, dev = line("train", "nll"), line("validate", "loss")
    panels = [("loss (nats)", {"train": train, "dev": dev})]
    metric = next((e["metric"] for e in reversed(events) if "metric" in e), "loss")
    if metric != "loss":
        name = metric.upper() if metric == "bleu" else metric.replace("_", " ")
        panels.append((f"{name} on dev", {name: line("validate", metric)}))
    panels = [(title, {k: v for k, v in lines.items() if v}) for title, lines in panels]
    panels = [(title, lines) for title, lines in panels if lines]
    height = max(1, len(panels)) * (HEIGHT + GAP) + 8
    body = [_panel(title, lines, TOP + i * (HEIGHT + GAP)) for i, (title, lines) in enumerate(panels)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH + LEFT + 70} {height}" '
        'font-family="system-ui, sans-serif" font-size="12">'
        "<title>Training curves</title>"
        '<rect width="100%" height="100%" fill="#fff"/>' + "".join(body) + "</svg>\n"
    )


def _panel(title: str, lines: dict[str, list[Point]], top: int) -> str:
    points = [p for line in lines.values() for p in line]
    last = max(x for x, _ in points)
    low, high = min(y for _, y in points), max(y for _, y in points)
    levels = ticks(low, high)
    low, high = min(low, levels[0]), max(high, levels[-1])

    def at(x: float, y: float) -> tuple[float, float]:
        return LEFT + WIDTH * x / max(last, 1), top + HEIGHT * (1 - (y - low) / ((high - low) or 1))

    parts = [f'<text x="{LEFT}" y="{top - 12}" font-weight="600" fill="#24292f">{title}</text>']
    for tick in levels:
        _, y = at(0, tick)
        parts.append(f'<line x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e5e7eb"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#57606a">{tick:g}</text>')
    for tick in ticks(0, last):
        x, _ = at(tick, low)
        if tick <= last:
            parts.append(
                f'<text x="{x:.1f}" y="{top + HEIGHT + 18}" text-anchor="middle" fill="#57606a">{short(tick)}</text>'
            )
    for name, line in lines.items():
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*p) for p in line))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{INK.get(name, SCORE)}" stroke-width="1.8"/>')
        x, y = at(*line[-1])
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{INK.get(name, SCORE)}"/>')
        parts.append(
            f'<text x="{x + 8:.1f}" y="{y + 4:.1f}" fill="{INK.get(name, SCORE)}">{name} {line[-1][1]:.3g}</text>'
        )
    return "".join(parts)


def ticks(low: float, high: float) -> list[float]:
    """About five round numbers over a range."""
    span = (high - low) or max(abs(high), 1.0)
    size = 10 ** math.floor(math.log10(span / 4))
    size = next(size * m for m in (1, 2, 5, 10) if span / (size * m) <= 5)
    first, last = math.floor(low / size), math.ceil(high / size)
    return [round(i * size, 10) for i in range(first, last + 1)]


def short(number: float) -> str:
    """10,000 as 10k and 2,500,000 as 2.5M; below 10,000 only round numbers."""
    if abs(number) < 10_000 and number % 100:
        return f"{number:g}"
    size, letter = next(((s, n) for s, n in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if abs(number) >= s), (1, ""))
    return f"{float(f'{number / size:.3g}'):g}{letter}"
