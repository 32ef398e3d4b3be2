"""HTML as pieces to keep and blocks of text to translate: every tag, comment and attribute stays as it was written.

A scanner of our own, after the HTML standard's rules for tags: it keeps each character, takes linear time on any
input, and has no input that it fails on. (The standard library's parser does not give end tags back as written, differs
between versions of Python, and raises on some malformed declarations.)
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape
from typing import Literal

_ATTRIBUTE = r"""[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|[^\s>"'][^\s>]*+)?+)?+"""
_TOKEN = re.compile(
    rf"""(?P<comment><!--(?:-?>|.*?(?:--!?>|\Z))|<[!?][^>]*+(?:>|\Z)|</[^A-Za-z>][^>]*+(?:>|\Z)|</>)
    |</(?P<end>[A-Za-z][^\s/>]*+)[^>]*+(?:>|\Z)
    |<(?P<start>[A-Za-z][^\s/>]*+)(?P<attributes>(?:[\s/]++|{_ATTRIBUTE})*+)(?:>|\Z)
    |[^<]++|<""",
    re.VERBOSE | re.DOTALL,
)
_NAMED = re.compile(r"""(?P<name>[^\s/>][^\s/>=]*+)(?:\s*+=\s*+(?:"([^"]*+)|'([^']*+)|([^\s>"'][^\s>]*+))?+)?+""")

VOID = frozenset((
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
))  # fmt: skip
# Inside a sentence; every other element ends one.
INLINE = frozenset((
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "data", "del", "dfn", "em", "font", "i", "img", "ins",
    "label", "mark", "q", "s", "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "wbr",
))  # fmt: skip
RAW = frozenset((
    "script", "style", "textarea", "xmp", "iframe", "noembed", "noframes", "plaintext",
))  # fmt: skip  # no tags inside
KEPT = frozenset((
    "code", "pre", "kbd", "samp", "var", "math", "svg",
))  # fmt: skip
EMPTY_IF_SLASHED = frozenset(("math", "svg"))  # <svg/> is whole; in HTML's own elements the slash says nothing
# Characters of a block with tags in it, and those tags: beyond that, tags end sentences too. Placing them takes words
# times tags, and a step deeper for each that stands in another.
LONGEST, MOST = 8000, 400


@dataclass(frozen=True)
class Piece:
    """One token of a run of text: its own characters, and what it is."""

    kind: Literal["text", "open", "close", "point"]
    raw: str
    name: str = ""


@dataclass
class Mark:
    """An inline element over a part of a block's text; one without a close is a point (a picture, a comment)."""

    start: int
    end: int
    open: str
    close: str = ""
    inner: list["Mark"] = field(default_factory=list)
    spaced: tuple[bool, bool] = (False, False)  # of a point: whether white space stood before and after it


@dataclass(frozen=True)
class Block:
    """Text that is read as a whole, its inline elements, and how it was written."""

    text: str
    marks: list[Mark]
    raw: str


def parse(html: str) -> list[str | Block]:
    """What is kept as it is (str) and what may be translated, in order: together their `raw` is the input."""
    found: list[str | Block] = []
    run: list[Piece] = []
    for piece in _pieces(html):
        if isinstance(piece, Piece):
            run.append(piece)
        else:
            found += _blocks(run)
            run = []
            found.append(piece)
    return found + _blocks(run)


def _pieces(html: str) -> Iterator[Piece | str]:
    """Pieces of text, and strings that stand between two sentences."""
    position = 0
    while position < len(html):
        match = _TOKEN.match(html, position)
        assert match is not None  # the last two branches take whatever is left
        raw, position = match[0], match.end()
        last = position == len(html)  # it may lack its end: nothing must come after it
        if match["comment"]:
            yield Piece("point", raw) if raw.startswith("<!--") and not last else raw
        elif match["end"]:
            name = match["end"].lower()
            yield Piece("close", raw, name) if name in INLINE else raw
        elif not match["start"]:
            yield Piece("text", raw)
        else:
            name = match["start"].lower()
            if name in EMPTY_IF_SLASHED and raw.endswith("/>"):
                yield raw
            elif name in RAW or ((name in KEPT or _is_foreign(match["attributes"])) and name not in VOID):
                stop = _after_raw(html, name, position) if name in RAW else _after(html, name, position)
                raw, position = html[match.start() : stop], stop
                yield raw
            elif name in INLINE and not last:
                yield Piece("point" if name in VOID else "open", raw, name)
            else:
                yield raw


def _is_foreign(attributes: str) -> bool:
    """Whether a tag says that its text is not to be translated."""
    if "translate" not in attributes.lower():
        return False
    for match in _NAMED.finditer(attributes):
        name, value = match["name"].lower(), (match[2] or match[3] or match[4] or "").lower()
        if (name == "translate" and value.strip() == "no") or (name == "class" and "notranslate" in value.split()):
            return True
    return False


def _after_raw(html: str, name: str, position: int) -> int:
    """Where an element without tags inside ends: after its end tag, or with the text."""
    if name == "plaintext":
        return len(html)
    end = re.compile(rf"</{name}(?=[\s/>])[^>]*+(?:>|\Z)", re.IGNORECASE).search(html, position)
    return end.end() if end else len(html)


def _after(html: str, name: str, position: int) -> int:
    """Where an element ends, with elements of its own name and raw text inside."""
    depth = 1
    while depth and position < len(html):
        match = _TOKEN.match(html, position)
        assert match is not None
        position = match.end()
        start = (match["start"] or "").lower()
        if start in RAW and start != name:
            position = _after_raw(html, start, position)
        depth += start == name
        depth -= (match["end"] or "").lower() == name
    return position


def _blocks(run: list[Piece]) -> list[str | Block]:
    """A run of pieces as one block; where tags do not match one another, they end sentences."""
    if not run:
        return []
    pairs, unmatched = _pairs(run)
    if unmatched:
        found: list[str | Block] = []
        begin = 0
        for at in (*sorted(unmatched), len(run)):
            found += _blocks(run[begin:at])
            found += [piece.raw for piece in run[at : at + 1]]
            begin = at + 1
        return found
    return [_block(run, pairs)]


def _pairs(run: list[Piece]) -> tuple[dict[int, int], set[int]]:
    """Which open tag belongs to which close tag, and the tags that stand alone."""
    pairs: dict[int, int] = {}
    unmatched: set[int] = set()
    opened: list[int] = []
    marks = {at for at, piece in enumerate(run) if piece.kind != "text"}
    if len(marks) > MOST or sum(len(piece.raw) for piece in run if piece.kind == "text") > LONGEST:
        return {}, marks
    for at, piece in enumerate(run):
        if piece.kind == "open":
            opened.append(at)
        elif piece.kind == "close":
            if any(run[i].name == piece.name for i in opened):
                while run[opened[-1]].name != piece.name:
                    unmatched.add(opened.pop())
                pairs[opened.pop()] = at
            else:
                unmatched.add(at)
    return pairs, unmatched | set(opened)


def _block(run: list[Piece], pairs: dict[int, int]) -> Block:
    text = ""
    top: list[Mark] = []
    levels = [top]
    points: list[Mark] = []
    for at, piece in enumerate(run):
        if piece.kind == "text":
            text += unescape(piece.raw)
        elif piece.kind == "close":
            levels.pop()
            levels[-1][-1].end = len(text)
        else:
            mark = Mark(len(text), len(text), piece.raw)
            levels[-1].append(mark)
            if piece.kind == "open":
                mark.close = run[pairs[at]].raw
                levels.append(mark.inner)
            else:
                points.append(mark)
    for point in points:
        point.spaced = (text[: point.start][-1:].isspace(), text[point.end :][:1].isspace())
    return Block(text, top, "".join(piece.raw for piece in run))
