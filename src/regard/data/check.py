"""A report on a parallel corpus before anybody trains on it: lengths, repeats, pairs that do not match, odd letters."""

import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.characters import Census, Finding, Inspector, visible
from regard.data.formats import KEYS, Report, read_pairs

SIDES = ("source", "target")
WORST = 10  # examples kept of pairs that look misaligned
FAR = 6.0  # standard deviations from the expected length that count as far
UNFIT = 2.0  # and the target is also this many times longer or shorter than expected
TELLING = 0.25  # a sign seen on more than this share of the pairs it concerns is this corpus's habit, not a fault
QUESTION = ("?", "？", "؟", "⁇", "⁈")
CLOSING = " \t\"'”’»“)]…."
DIGIT = re.compile(r"\d")
PLACEHOLDER = re.compile(r"%(?:\d+\$)?[a-z]\b|%[A-Z][A-Z0-9_]+|\$\([A-Za-z0-9_]+\)|\$\{\w+\}|\{\w*\}")
HINT = re.compile(r"[%${]")  # what every placeholder starts with; a quick no for nearly all sentences
BLOCK = 200  # pairs over which a shift of one side against the other is looked for
SHIFTS = (-3, -2, -1, 1, 2, 3)


@dataclass(frozen=True)
class Lengths:
    """Lengths of one side in one unit."""

    mean: float
    median: float
    p95: float
    max: int


@dataclass(frozen=True)
class Suspect:
    """A pair whose sides may not belong together."""

    line: int
    score: float
    reasons: tuple[str, ...]
    source: str = ""
    target: str = ""


@dataclass
class CheckReport:
    """What was found; `lines()` is for people, `to_dict()` for programs."""

    paths: list[str]
    read: Report
    characters: dict[str, Lengths] = field(default_factory=dict)  # by side
    words: dict[str, Lengths] = field(default_factory=dict)  # by side
    ratio: float = 0.0  # characters of the target for one of the source
    duplicates: int = 0  # pairs that occurred before
    ambiguous: int = 0  # sources with more than one target
    identical: int = 0  # pairs whose sides are the same text
    misaligned: int = 0
    reasons: dict[str, int] = field(default_factory=dict)  # pairs per reason
    habits: dict[str, float] = field(default_factory=dict)  # signs too common here to mean anything, with their share
    worst: list[Suspect] = field(default_factory=list)
    shifted: list[tuple[int, int, int]] = field(default_factory=list)  # first line, last line, by how many lines
    repeats: list[tuple[int, str]] = field(default_factory=list)  # a few duplicates: line number, source
    copies: list[tuple[int, str]] = field(default_factory=list)  # a few identical pairs: line number, text
    odd: list[Finding] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """The report as plain text."""
        yield f"{' and '.join(self.paths)}: {self.read}"
        for sort, what in (("bad", "unreadable"), ("too_long", "too long"), ("empty", "empty side")):
            for place in self.read.first.get(sort, [])[:3]:
                yield f"  {what}: {place}"
        if not self.read.pairs:
            return
        yield ""
        yield f"{'lengths':24}{'mean':>9}{'median':>9}{'95 %':>9}{'longest':>9}"
        for unit, sides in (("characters", self.characters), ("words", self.words)):
            for side, found in sides.items():
                row = f"{found.mean:9.1f}{found.median:9.0f}{found.p95:9.0f}{found.max:9,}"
                yield f"  {side + ' ' + unit:22}{row}"
        yield f"  one character of the source makes {self.ratio:.2f} of the target"
        yield ""
        yield f"repeated pairs: {self.duplicates:,}{_places(self.repeats)}"
        yield f"sources with several targets: {self.ambiguous:,}"
        yield f"source and target the same: {self.identical:,}{_places(self.copies)}"
        yield ""
        share = self.misaligned / self.read.pairs
        yield f"pairs that may not belong together: {self.misaligned:,} ({share:.2%})"
        for first, last, shift in self.shifted:
            yield f"  lines {first} to {last}: targets seem to stand {abs(shift)} too {'low' if shift > 0 else 'high'}"
        for reason, count in self.reasons.items():
            yield f"  {reason}: {count:,}"
        for sign, share in self.habits.items():
            yield f"  not judged: {sign} ({share:.0%} of the pairs concerned, so it is the habit of this corpus)"
        for suspect in self.worst:
            yield f"  line {suspect.line}: {', '.join(suspect.reasons)}"
            yield f"    {visible(suspect.source)}"
            yield f"    {visible(suspect.target)}"
        yield ""
        yield "characters out of place: " + ("" if self.odd else "none")
        for finding in self.odd:
            yield f"  {finding.side}: {finding.sort}: {finding.lines:,} lines"
            for line, example in finding.examples:
                yield f"    line {line}: {example}"


class _Gathered:
    """What the first pass keeps of each pair: some 40 bytes, however long the sentences are."""

    def __init__(self) -> None:
        self.line = array("Q")
        self.characters = (array("I"), array("I"))
        self.words = (array("I"), array("I"))
        self.source_hash = array("q")
        self.pair_hash = array("q")
        self.signs = array("B")
        self.census = (Census(), Census())

    def add(self, source: str, target: str, line: int) -> None:
        self.line.append(line)
        for side, text in enumerate((source, target)):
            self.characters[side].append(len(text))
            self.words[side].append(len(text.split()))
            self.census[side].add(text)
        self.source_hash.append(hash(source))
        self.pair_hash.append(hash((source, target)))
        self.signs.append(_signs(source, target))


NUMBERS, NUMBERS_DIFFER, ASKS, ASKS_DIFFER, PLACES, PLACES_DIFFER, SAME = (1 << bit for bit in range(7))


def _signs(source: str, target: str) -> int:
    """Bits: what the pair shows that can be compared without knowing the languages."""
    signs = 0
    digits = [sorted(int(digit) for digit in DIGIT.findall(text)) for text in (source, target)]
    if any(digits[0]) and any(digits[1]):
        # Only where both sides write digits: "3" against "three" is a translator's choice. As a bag of digits without
        # zeros, because order and separators are a language's own (1,000.5 and 1.000,5; 9 and 9:00).
        bags = [[digit for digit in side if digit] for side in digits]
        signs |= NUMBERS | (NUMBERS_DIFFER if bags[0] != bags[1] else 0)
    places = [sorted(PLACEHOLDER.findall(text)) if HINT.search(text) else [] for text in (source, target)]
    if places[0] or places[1]:
        signs |= PLACES | (PLACES_DIFFER if places[0] != places[1] else 0)
    asks = [text.rstrip(CLOSING).endswith(QUESTION) for text in (source, target)]
    if any(asks):
        signs |= ASKS | (ASKS_DIFFER if asks[0] != asks[1] else 0)
    if source == target and any(character.isalpha() for character in source):
        signs |= SAME
    return signs


def check_pairs(
    paths: Sequence[str | Path], *, keys: tuple[str, str] = KEYS, max_chars: int = 2000, examples: int = WORST
) -> CheckReport:
    """Read the corpus twice: once to learn what is usual in it, once to find what is not."""
    report = CheckReport([str(path) for path in paths], Report())
    gathered = _Gathered()
    for pair in read_pairs(paths, keys=keys, max_chars=max_chars, skip_bad=True, report=report.read):
        gathered.add(*pair)
    if not report.read.pairs:
        return report
    line = np.array(gathered.line, dtype=np.int64)
    _measure(report, gathered)
    repeats = line[_count_repeats(report, gathered)][:3]
    same = (np.array(gathered.signs) & SAME) > 0
    report.identical = int(same.sum())
    copies = line[same][:3]
    report.worst = _judge(report, gathered, line, examples)
    inspectors = [Inspector(side, census) for side, census in zip(SIDES, gathered.census, strict=True)]
    texts: dict[int, tuple[str, str]] = {}
    wanted = {*repeats.tolist(), *copies.tolist(), *(suspect.line for suspect in report.worst)}
    for pair in read_pairs(paths, keys=keys, max_chars=max_chars, skip_bad=True):
        inspectors[0].look(pair.source, pair.line)
        inspectors[1].look(pair.target, pair.line)
        if pair.line in wanted:
            texts[pair.line] = (_short(pair.source), _short(pair.target))
    report.worst = [Suspect(s.line, s.score, s.reasons, *texts[s.line]) for s in report.worst]
    report.repeats = [(number, texts[number][0]) for number in repeats.tolist()]
    report.copies = [(number, texts[number][0]) for number in copies.tolist()]
    report.odd = [finding for inspector in inspectors for finding in inspector.findings()]
    return report


def _measure(report: CheckReport, gathered: _Gathered) -> None:
    for unit, columns in ((report.characters, gathered.characters), (report.words, gathered.words)):
        for side, column in zip(SIDES, columns, strict=True):
            values = np.array(column)
            median, p95 = np.percentile(values, (50, 95)).tolist()
            unit[side] = Lengths(round(float(values.mean()), 2), median, p95, int(values.max()))


def _count_repeats(report: CheckReport, gathered: _Gathered) -> NDArray[np.int64]:
    """Counts repeated pairs and sources with several targets; gives the places of the repeats."""
    pairs, sources = np.array(gathered.pair_hash), np.array(gathered.source_hash)
    _, first = np.unique(pairs, return_index=True)
    report.duplicates = len(pairs) - len(first)
    _, targets = np.unique(sources[first], return_counts=True)
    report.ambiguous = int((targets > 1).sum())
    repeated = np.ones(len(pairs), dtype=bool)
    repeated[first] = False
    return np.flatnonzero(repeated)


def _judge(report: CheckReport, gathered: _Gathered, line: NDArray[np.int64], examples: int) -> list[Suspect]:
    """Scores each pair by the signs that its sides do not belong together; gives the worst ones."""
    source, target = (np.array(column, dtype=np.float64) for column in gathered.characters)
    signs = np.array(gathered.signs)
    report.ratio = round(float(np.median(target / source)), 3)
    # Gale and Church (1993): the difference of lengths grows as the square root of the length.
    off = (target - report.ratio * source) / np.sqrt(source + target)
    spread = 1.4826 * float(np.median(np.abs(off - np.median(off)))) or 1.0
    far = np.abs(off) / spread / FAR
    times = np.maximum((target + 5) / (report.ratio * source + 5), (report.ratio * source + 5) / (target + 5))
    flags = {"far from the usual length": (far > 1) & (times > UNFIT)}
    for sign, concerned, differs in (
        ("numbers differ", NUMBERS, NUMBERS_DIFFER),
        ("placeholders differ", PLACES, PLACES_DIFFER),
        ("one side asks, the other does not", ASKS, ASKS_DIFFER),
    ):
        differing = (signs & differs) > 0
        share = float(differing.sum()) / max(1, int(((signs & concerned) > 0).sum()))
        if share > TELLING:
            report.habits[sign] = round(share, 3)
        else:
            flags[sign] = differing
    score = np.where(flags["far from the usual length"], np.minimum(far, 3.0), 0.0)
    for flag in list(flags.values())[1:]:
        score += flag * (1.0 + 0.1 * np.minimum(far, 3.0))  # among equals, the less fitting lengths come first
    report.reasons = {sign: int(flag.sum()) for sign, flag in flags.items() if flag.any()}
    report.misaligned = int((score > 0).sum())
    report.shifted = _shifts(source, target, line)
    places = np.argsort(-score, kind="stable")[: min(examples, report.misaligned)].tolist()
    return [
        Suspect(int(line[i]), round(float(score[i]), 2), tuple(sign for sign, flag in flags.items() if flag[i]))
        for i in places
    ]


def _shifts(
    source: NDArray[np.float64], target: NDArray[np.float64], line: NDArray[np.int64]
) -> list[tuple[int, int, int]]:
    """Stretches in which the lengths of the sides go together only after one side is moved by a few lines.

    Comparing with the unmoved lengths, not with a bound: in a file that is sorted by length nothing goes together.
    """
    a, b = np.log(source + 1), np.log(target + 1)
    found: list[tuple[int, int, int]] = []
    for start in range(-SHIFTS[0], len(a) - BLOCK - SHIFTS[-1] + 1, BLOCK):
        block = slice(start, start + BLOCK)
        fit = {shift: _correlation(a[block], b[start + shift : start + BLOCK + shift]) for shift in (0, *SHIFTS)}
        shift = max(fit, key=lambda key: fit[key])
        if fit[shift] < 0.4 or fit[shift] - fit[0] < 0.35:
            continue
        first, last = int(line[start]), int(line[start + BLOCK - 1])
        if found and found[-1][2] == shift and int(line[start - 1]) == found[-1][1]:
            first = found.pop()[0]
        found.append((first, last, shift))
    return found


def _correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    a, b = a - a.mean(), b - b.mean()
    return float(a @ b / (np.sqrt(a @ a * (b @ b)) or 1.0))


def _short(text: str, limit: int = 100) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _places(examples: Sequence[tuple[int, str]]) -> str:
    if not examples:
        return ""
    return " (" + "; ".join(f"line {line}: {visible(_short(text, 40))}" for line, text in examples) + ")"
