"""A text as its sentences and the white space between them: put together again, it keeps its lines and indents."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

LONGEST = 1000  # characters of a sentence
_LINE = re.compile(r"[^\r\n]+")
# It begins at the first of a row of points alone, and gives nothing back: linear in the text, whatever the text.
_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'»”’)\]]*+(?=\s)|[。！？]++[」』”’）]*+")
# After these a point is no end. A sentence too few is harmless; one too many tears what belongs together.
_SHORT = frozenset((
    "mr", "mrs", "ms", "dr", "prof", "st", "sr", "jr", "vs", "no", "nr", "vol", "fig", "approx", "inc", "ltd", "etc",
    "sra", "dra", "ud", "uds", "mme", "mlle", "bzw", "usw", "ca", "str",
))  # fmt: skip


@dataclass(frozen=True)
class Cut:
    """gaps[i] stands before sentences[i], the last gap after the last sentence."""

    gaps: tuple[str, ...]
    sentences: tuple[str, ...]

    def filled(self, sentences: Sequence[str]) -> str:
        """The text with other sentences in the places of its own."""
        parts = [part for pair in zip(self.gaps, sentences, strict=False) for part in pair]
        return "".join(parts) + self.gaps[-1]


def cut(text: str) -> Cut:
    """Every line by itself, cut where sentences end. What holds no letter is not language: it stays in a gap."""
    gaps, sentences, position = [], [], 0
    for line in _LINE.finditer(text):
        for start, end in _spans(text, line.start(), line.end()):
            if has_letters(text[start:end]):
                gaps.append(text[position:start])
                sentences.append(text[start:end])
                position = end
    return Cut((*gaps, text[position:]), tuple(sentences))


def whole(text: str) -> Cut:
    """A text that is not cut, without the white space around it."""
    inner = text.strip()
    before, after = text.split(inner, 1) if inner else (text, "")
    return Cut((before, after), (inner,)) if has_letters(inner) else Cut((text,), ())


def _spans(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Where the sentences of a line stand, without the white space around them."""
    ends = [m.end() for m in _END.finditer(text, start, end) if _closes(text, start, m)]
    found: list[tuple[int, int]] = []
    for stop in (*ends, end):
        sentence = text[start:stop]
        first = start + len(sentence) - len(sentence.lstrip())
        if sentence.strip():
            found += _parts(text, first, first + len(sentence.strip()))
        start = stop
    return found


def _parts(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """A sentence, or what is too long to be one in several parts, which end at a space if there is any."""
    while end - start > LONGEST:
        space = text.rfind(" ", start, start + LONGEST + 1)
        stop = space if space > start else start + LONGEST
        yield start, start + len(text[start:stop].rstrip())
        start = stop
        while text[start].isspace():  # the last character is none
            start += 1
    yield start, end


def _closes(text: str, start: int, match: re.Match[str]) -> bool:
    """Whether a sentence ends here: not after an abbreviation or a short number, nor before a small letter."""
    if match[0][0] in "。！？":
        return True
    following = text[match.end() : match.end() + 40].lstrip()
    if following[:1].islower():
        return False
    if match[0] != ".":
        return True
    before = text[max(start, match.start() - 12) : match.start()].split()
    word = before[-1].lstrip("\"'«“‘([").lower() if before else ""
    return not (word in _SHORT or "." in word or len(word) == 1 or (word.isdigit() and len(word) < 3))


def has_letters(text: str) -> bool:
    return any(unicodedata.category(character)[0] == "L" for character in text)
