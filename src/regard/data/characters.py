"""Characters that are out of place in a column of sentences: broken encodings, invisible marks, foreign letters."""

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from functools import cache

RARE = 0.001  # a script with a smaller share of a column's letters is foreign there
EXAMPLES = 3
BUFFER = 1 << 16

LATIN = "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f"
CYRILLIC = "\u0400-\u052f"
# Greek letters that look like Latin ones; others (μ, π, Δ) stand next to Latin letters with good reason.
GREEK_TWINS = "\u0391\u0392\u0395-\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf\u03bd"
# How the second byte of a UTF-8 letter looks when it was read as Latin-1 or Windows-1252.
TAIL = "\u0080-\u00bf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ"

SORTS = {
    "replacement character (text was lost)": "\ufffd",
    "mojibake (UTF-8 read as Latin-1)": f"Ã[{TAIL}]|Â[\u0080-\u00bf]|â€[{TAIL}]|[ÐÑ][{TAIL}](?=[ÐÑ])",
    "line separator": "[\u0085\u2028\u2029]",
    "control character": "[\x01-\x08\x0b-\x1f\x7f-\x9f]",
    "private-use character": "[\ue000-\uf8ff\U000f0000-\U0010fffd]",
    # Joiners belong to emoji and to Indic and Arabic letters; after a Latin letter they are stray.
    "invisible mark": f"[\u00ad\u200b\u2060-\u2064\ufeff]|(?<=[{LATIN}])[\u200c\u200d]",
    "direction mark": "[\u200e\u200f\u202a-\u202e\u2066-\u2069]",
    "word of mixed scripts": f"[{LATIN}](?=[{CYRILLIC}{GREEK_TWINS}])|[{CYRILLIC}{GREEK_TWINS}](?=[{LATIN}])",
}
RIGHT_TO_LEFT = {"ARABIC", "HEBREW", "SYRIAC", "THAANA"}
SCRIPTS = RIGHT_TO_LEFT | {
    *(
        "LATIN",
        "GREEK",
        "CYRILLIC",
        "ARMENIAN",
        "GEORGIAN",
        "HIRAGANA",
        "KATAKANA",
        "CJK",
        "HANGUL",
        "BOPOMOFO",
        "THAI",
    ),
    *("DEVANAGARI", "BENGALI", "GURMUKHI", "GUJARATI", "ORIYA", "TAMIL", "TELUGU", "KANNADA", "MALAYALAM", "SINHALA"),
    *("LAO", "TIBETAN", "MYANMAR", "KHMER", "MONGOLIAN", "ETHIOPIC", "CHEROKEE", "TIFINAGH"),
}


@cache
def script(character: str) -> str | None:
    """The script of a letter, by its Unicode name; None for whatever belongs to no script alone."""
    if not character.isalpha():
        return None
    first = unicodedata.name(character, "").partition(" ")[0].partition("-")[0]
    return first if first in SCRIPTS else None


class Census:
    """Counts the characters of one column, a buffer at a time because that is several times faster."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._texts: list[str] = []
        self._size = 0

    def add(self, text: str) -> None:
        self._texts.append(text)
        self._size += len(text)
        if self._size > BUFFER:
            self.flush()

    def flush(self) -> None:
        self.counts.update("".join(self._texts))
        self._texts, self._size = [], 0

    def scripts(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for character, count in self.counts.items():
            if name := script(character):
                found[name] += count
        return found


@dataclass
class Finding:
    """One sort of character out of place in one column."""

    sort: str
    side: str
    lines: int = 0
    examples: list[tuple[int, str]] = field(default_factory=list)  # line number, what it looks like there


class Inspector:
    """Looks for characters out of place in the lines of one column, given the census of the whole column."""

    def __init__(self, side: str, census: Census) -> None:
        self.side = side
        census.flush()
        scripts = census.scripts()
        total = sum(scripts.values())
        foreign = {name for name, count in scripts.items() if count < RARE * total}
        sorts = dict(SORTS)
        if any(scripts[name] >= RARE * total for name in RIGHT_TO_LEFT & scripts.keys()):
            del sorts["direction mark"]  # they are part of how such languages are written
        for name in sorted(foreign):
            letters = "".join(re.escape(c) for c in census.counts if script(c) == name)
            sorts[f"letter of a script rare in this column ({name.capitalize()})"] = f"[{letters}]"
        # A sort whose characters do not occur at all is not looked for: clean columns cost nothing.
        present = "".join(census.counts)
        self._sorts = [name for name, pattern in sorts.items() if re.search(_characters(pattern), present)]
        patterns = (f"({sorts[name]})" for name in self._sorts)
        self._pattern = re.compile("|".join(patterns)) if self._sorts else None
        self._found = {name: Finding(name, side) for name in self._sorts}

    def look(self, text: str, line: int) -> None:
        if self._pattern is None:
            return
        seen: set[str] = set()
        for match in self._pattern.finditer(text):
            assert match.lastindex is not None
            name = self._sorts[match.lastindex - 1]
            if name not in seen:
                seen.add(name)
                finding = self._found[name]
                finding.lines += 1
                if len(finding.examples) < EXAMPLES:
                    finding.examples.append((line, shown(text, match.start())))

    def findings(self) -> list[Finding]:
        found = [finding for finding in self._found.values() if finding.lines]
        return sorted(found, key=lambda finding: -finding.lines)


def shown(text: str, place: int, reach: int = 12) -> str:
    """The visible surroundings of a place in a text."""
    start, end = max(0, place - reach), place + reach + 1
    return ("…" if start else "") + visible(text[start:end]) + ("…" if end < len(text) else "")


def visible(text: str) -> str:
    """The text with whatever cannot be seen written as its number; so nothing in a corpus can command a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else f"⟨U+{ord(c):04X}⟩" for c in text)


def _characters(pattern: str) -> str:
    """The pattern without its look-around, to be tried on the bare set of characters: true more often, never less."""
    classes = re.findall(r"\[[^]]*\]|[^\[\]()|?=<]", re.sub(r"\(\?<?=\[[^]]*\]\)", "", pattern))
    return "|".join(classes)
