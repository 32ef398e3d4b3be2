"""Draws weights in plain text: shade blocks under words written downwards, or each row's strongest as numbers."""

import unicodedata
from collections.abc import Sequence
from itertools import zip_longest

from regard.view.matrix import Matrix

SHADES = ((0.7, "██"), (0.4, "▓▓"), (0.2, "▒▒"), (0.05, "░░"), (0.0, "· "))  # from this weight on
LONGEST = 14  # characters of a label


def draw(weights: Matrix, rows: Sequence[str], columns: Sequence[str], title: str) -> str:
    """Lines of text, each cell two characters wide."""
    labels = [_characters(text) for text in rows]
    margin = max(sum(map(_width, label)) for label in labels)
    lines = [title, ""]
    # Written downwards, ending just above the column.
    upwards = zip_longest(*(reversed(_characters(text)) for text in columns), fillvalue=" ")
    for row in reversed(list(upwards)):
        lines.append((" " * (margin + 1) + "".join(c + " " * (2 - _width(c)) for c in row)).rstrip())
    for label, row_weights in zip(labels, weights, strict=True):
        indent = " " * (margin - sum(map(_width, label)))
        lines.append(f"{indent}{''.join(label)} {''.join(_shade(float(w)) for w in row_weights)}".rstrip())
    legend = "  ".join(f"{block} from {least:g}" for least, block in reversed(SHADES) if least)
    return "\n".join([*lines, "", legend])


def strongest(weights: Matrix, rows: Sequence[str], columns: Sequence[str], title: str, count: int = 5) -> str:
    """One line a row: where most of its weight goes."""
    margin = max(sum(map(_width, _characters(text))) for text in rows)
    lines = [title, ""]
    for name, row in zip(rows, weights, strict=True):
        label = _characters(name)
        most = [(columns[j], float(row[j])) for j in row.argsort()[::-1][:count] if row[j] >= 0.01]
        indent = " " * (margin - sum(map(_width, label)))
        lines.append(f"{indent}{''.join(label)} → {'  '.join(f'{text} {weight:.2f}' for text, weight in most)}")
    return "\n".join(lines)


def _shade(weight: float) -> str:
    return next((block for least, block in SHADES if weight >= least), SHADES[-1][1])


def _characters(text: str) -> list[str]:
    """What stands in one place each: a character with its combining marks. A long text is cut."""
    places: list[str] = []
    for c in unicodedata.normalize("NFC", text):
        if places and unicodedata.category(c) in ("Mn", "Me", "Cf"):
            places[-1] += c
        else:
            places.append(c)
    return places if len(places) <= LONGEST else [*places[: LONGEST - 1], "…"]


def _width(place: str) -> int:
    return 2 if unicodedata.east_asian_width(place[0]) in "WF" else 1
