"""From tokens to words: which tokens make up a word, and how a token or word is written for people."""

import re
import unicodedata
from collections.abc import Sequence

from regard.text import SPECIALS

START, END = "▸", "⏎"  # how the begin and the end symbol are shown
_WHOLE = (START, END, *SPECIALS)  # never part of a longer word
_FRAGMENT = re.compile(r"⟨([0-9A-F]{2})⟩")  # a byte that is no whole character, as `Tokenizer.surface` writes it
_WORD = re.compile(r"s|w+(?:'w+)*|[p']+")
# Scripts that put no spaces between words: there each token stands for itself.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_STAND_IN = "\ue000"


def groups(tokens: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """The indices of the tokens of each word: letters and digits up to a space or punctuation, "don't" in one."""
    pieces = [_STAND_IN.encode() if t in _WHOLE else _bytes(t) for t in tokens]
    text = b"".join(pieces).decode(errors="replace")
    if text.encode() != b"".join(pieces):  # broken characters in the middle: no words to be found
        return tuple((i,) for i in range(len(tokens)))
    found = [(match.start(), match.end()) for match in _WORD.finditer("".join(map(_class, text)))]
    ends = [len(text[:end].encode()) for _, end in found]  # in bytes, as the tokens are
    grouped: list[list[int]] = [[] for _ in found]
    position = word = 0
    for i, piece in enumerate(pieces):
        first = position + len(piece) - len(piece.lstrip())
        while word < len(ends) - 1 and first >= ends[word]:
            word += 1
        if not grouped:
            grouped.append([])
        grouped[word].append(i)
        position += len(piece)
    return tuple(tuple(g) for g in grouped if g)


def word(tokens: Sequence[str]) -> str:
    """The text of a word's tokens, its bytes put together again."""
    if len(tokens) == 1 and tokens[0] in _WHOLE:
        return tokens[0]
    return b"".join(map(_bytes, tokens)).decode(errors="replace").strip() or "".join(tokens)


def labels(tokens: Sequence[str], grouped: Sequence[Sequence[int]]) -> list[str]:
    """Tokens as a picture shows them: without the leading space; a dot before one that goes on with a word."""
    going_on = {i for group in grouped for i in group[1:]}
    return [("·" if i in going_on else "") + _visible(token) for i, token in enumerate(tokens)]


def label(token: str) -> str:
    """A token by itself, as a picture shows it: a dot where it would go on with a word."""
    going_on = token not in _WHOLE and _class(token[:1] or " ") == "w"
    return ("·" if going_on else "") + _visible(token)


def _visible(token: str) -> str:
    """A token without characters that have no picture (and that XML forbids)."""
    text = token.strip(" ") or "␣" * len(token)
    return "".join(_picture(c) for c in text)


def _picture(c: str) -> str:
    if ord(c) < 0x20:
        return chr(0x2400 + ord(c))
    unseen = unicodedata.category(c) in ("Cc", "Cs") or c in "\ufffe\uffff"
    return "\ufffd" if unseen else c


def _bytes(token: str) -> bytes:
    """The bytes that a surface form stands for."""
    parts = _FRAGMENT.split(token)  # text, hex, text, hex, ..., text
    return b"".join(bytes.fromhex(p) if i % 2 else p.encode(errors="replace") for i, p in enumerate(parts))


def _class(c: str) -> str:
    """s stands alone, w of a word, ' joins word parts, p punctuation, or a space."""
    if c == _STAND_IN or _UNSPACED.match(c):
        return "s"
    if c.isspace():
        return " "
    if c in "'’":
        return "'"
    return "w" if unicodedata.category(c)[0] in "LMN" else "p"
