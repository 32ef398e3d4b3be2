"""Sentences with a label for each word: CoNLL columns or JSON lines, whose spans are always told as BIO."""

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.formats import ending, read_lines, read_objects
from regard.errors import UserError

DOCUMENT = "-DOCSTART-"
OUTSIDE = "O"
PREFIXED = re.compile(r"[BIESLU]-.+")


@dataclass(frozen=True)
class Sentence:
    """Words with their labels; without labels where none are known."""

    words: tuple[str, ...]
    labels: tuple[str, ...]
    where: str  # file and line of the first word

    def to_dict(self) -> dict[str, object]:
        return {"words": list(self.words), "labels": list(self.labels)}


def read_sentences(
    paths: Sequence[str | Path], word: str = "", label: str = "", *, labelled: bool = True
) -> list[Sentence]:
    """All sentences of CoNLL columns (a word a line, a blank line after a sentence) or of .jsonl {words, labels}.

    word, label: numbers of columns from 1; by default the first and the last.
    """
    found: list[Sentence] = []
    for path in map(Path, paths):
        sentences = list(
            _objects(path, labelled) if ending(path) == ".jsonl" else _columns(path, word, label, labelled)
        )
        if not sentences:
            raise UserError(f"{path} has no sentences")
        found += sentences
    return _as_bio(found) if labelled else found


def plain_types(labels: Iterable[str]) -> frozenset[str]:
    """Of a whole set of labels those that are a type alone; where none has B- or I-, E-MAIL is one too."""
    inside = {label for label in labels if label != OUTSIDE}
    bare = {label for label in inside if not PREFIXED.fullmatch(label)}
    return frozenset(bare if any(label.startswith(("B-", "I-")) for label in inside) or not bare else inside)


def as_bio(labels: Sequence[str], types: Set[str] = frozenset()) -> list[str]:
    """BIO from BIO, IO, IOB1, BIOES or BILOU, and from plain types: what continues no span begins one."""
    made, inside = [], ""
    for label in labels:
        mark, kind = ("I", label) if label in types else (label[0], label[2:])
        if label == OUTSIDE:
            made.append(OUTSIDE)
            inside = ""
            continue
        goes_on = mark in "IEL" and kind == inside
        made.append(f"{'I' if goes_on else 'B'}-{kind}")
        inside = "" if mark in "ESLU" else kind
    return made


def spans(labels: Sequence[str]) -> list[tuple[str, int, int]]:
    """Type, first word and the word after the last, of each span of BIO labels."""
    found: list[tuple[str, int, int]] = []
    for place, label in enumerate(labels):
        if label.startswith("B-"):
            found.append((label[2:], place, place + 1))
        elif label != OUTSIDE:
            kind, first, _ = found[-1]
            found[-1] = kind, first, place + 1
    return found


def _as_bio(sentences: Sequence[Sentence]) -> list[Sentence]:
    """The labels of a whole set are of one sort: all with a prefix, or none."""
    inside = [(label, s) for s in sentences for label in s.labels if label != OUTSIDE]
    types = plain_types(label for label, _ in inside)
    bare = next(((label, s) for label, s in inside if label in types), None)
    marked = next(((label, s) for label, s in inside if label not in types), None)
    if bare and marked:
        raise UserError(
            f"{bare[1].where}: label {bare[0]!r} has no B- or I- before it, but {marked[0]!r} ({marked[1].where}) does"
        )
    return [Sentence(s.words, tuple(as_bio(s.labels, types)), s.where) for s in sentences]


def _columns(path: Path, word: str, label: str, labelled: bool) -> Iterator[Sentence]:
    words: list[str] = []
    labels: list[str] = []
    begin = columns = 0
    for number, line in enumerate(read_lines(path), 1):
        line = line.rstrip("\r")
        cells = line.split("\t") if "\t" in line else re.split(" +", line.strip(" "))  # a no-break space parts no words
        if not any(cell.strip() for cell in cells) or cells[0].strip() == DOCUMENT:
            if words:
                yield Sentence(tuple(words), tuple(labels), f"{path}, line {begin}")
            words, labels = [], []
            continue
        where = f"{path}, line {number}"
        columns = columns or len(cells)
        if len(cells) != columns:
            raise UserError(f"{where}: {len(cells)} columns, where the lines before have {columns}")
        if not words:
            begin = number
        words.append(_cell(cells, word if labelled or columns > 1 else "", 0, where))  # words alone have one column
        if labelled:
            if columns < 2:
                raise UserError(f"{where}: one column, where a word and its label are needed")
            labels.append(_cell(cells, label, -1, where))
    if words:
        yield Sentence(tuple(words), tuple(labels), f"{path}, line {begin}")


def _cell(cells: list[str], column: str, default: int, where: str) -> str:
    if column and not (column.isdigit() and 1 <= int(column) <= len(cells)):
        raise UserError(f"{where}: there is no column {column!r}; columns have numbers from 1 to {len(cells)}")
    cell = cells[int(column) - 1 if column else default].strip()
    if not cell:
        raise UserError(f"{where}: an empty {'label' if default else 'word'}")
    return cell


def _objects(path: Path, labelled: bool) -> Iterator[Sentence]:
    for where, value in read_objects(path):
        words, labels = _texts(value, "words", where), _texts(value, "labels", where) if labelled else []
        if labelled and len(words) != len(labels):
            raise UserError(f"{where}: {len(words)} words, but {len(labels)} labels")
        yield Sentence(tuple(words), tuple(labels), where)


def _texts(value: dict[str, Any], key: str, where: str) -> list[str]:
    found = value.get(key)
    if not isinstance(found, list) or not all(isinstance(text, str) and text.strip() for text in found):
        raise UserError(f'{where}: not an object such as {{"words": ["Paris"], "labels": ["B-place"]}}')
    return found
