"""Tables of examples: CSV, TSV and JSON lines as rows whose cells are called by name or by number."""

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path

from regard.data.formats import ending, read_lines, read_objects
from regard.errors import UserError

KINDS = (".tsv", ".csv", ".jsonl")
TEXTS, LABELS = ("text", "sentence", "sentence1", "document"), ("label", "labels", "class", "score")
PAIRS = {"sentence1": "sentence2", "sentence": "question"}  # columns that hardly stand alone
LOOKED_AT = 1000  # rows, in which a label that the first one has is there again
ABSENT = object()  # what a JSON object has not
Row = tuple[str, Sequence[object]]  # file and line, and its cells: texts, or whatever a JSON object holds


@dataclass(frozen=True)
class Example:
    """A text or a pair of them, and what is to be said of it; without a label where none is known."""

    texts: tuple[str, ...]
    label: str
    where: str  # file and line


@dataclass(frozen=True)
class _Head:
    """The first row of a file: the columns' names, or an example, whose columns have numbers."""

    path: Path
    cells: list[str]
    named: bool

    @cached_property
    def names(self) -> list[str]:
        return self.cells if self.named else [str(i + 1) for i in range(len(self.cells))]

    @cached_property
    def lower(self) -> list[str]:
        return [name.lower() for name in self.names]

    @property
    def shown(self) -> str:
        return ", ".join(cell[:30] for cell in self.cells[:20])

    def find(self, name: str) -> int:
        if name.lower() in self.lower:  # a number may be a name too
            return self.lower.index(name.lower())
        if self.has_number(name):
            return int(name) - 1
        raise UserError(
            f"{self.path} has no column {name!r}; its first line is: {self.shown}. A number from 1 will do too"
        )

    def has(self, name: str) -> bool:
        return name.lower() in self.lower or self.has_number(name)

    def has_number(self, name: str) -> bool:
        return name.isdecimal() and 1 <= int(name) <= len(self.cells)

    def known(self, names: Sequence[str], others: Sequence[int]) -> list[int]:
        """The first column that has one of these names, if there is one that is not among the others."""
        places = (self.lower.index(name) for name in names if name in self.lower)
        return [place for place in places if place not in others][:1]

    def has_texts_alone(self, texts: Sequence[str]) -> bool:
        """Whether there is a column for each text, under no names that could tell another order."""
        told = self.named and len(texts) > 1
        return len(self.cells) == len(texts) and not told and not all(map(self.has_number, texts))

    def refuse_pairs(self) -> None:
        known = next((name for name in TEXTS if name in self.lower), "")
        if PAIRS.get(known) in self.lower:
            raise UserError(
                f"{self.path} has {known!r} and {PAIRS[known]!r}; "
                "say with data.text (or --text) which are read, one or both"
            )

    def unclear(self, labelled: bool) -> UserError:
        label_too = "with data.label (or --label) which one is the label, and " if labelled else ""
        return UserError(
            f"{self.path} has {len(self.cells)} columns, the first line is: {self.shown}; say {label_too}"
            "with data.text (or --text) which one is the text (a name or a number from 1)"
        )


def read_examples(
    paths: Sequence[str | Path],
    texts: Sequence[str] = (),
    label: str = "",
    *,
    labelled: bool = True,
    alone: bool = False,
    is_label: Callable[[str], bool] = lambda _: False,
) -> list[Example]:
    """All rows. texts, label: columns by name or number from 1; by default those whose names are known, or are left.

    alone: a file without these columns may have the texts alone, in their order.
    is_label: where no labels are read, what is one all the same; a column of these alone may tell which is the text.
    """
    found: list[Example] = []
    for path in map(Path, paths):
        head, rows = _opened(path, [*texts, label], is_label)
        chosen, marked = _columns(head, texts, label, labelled, alone)
        for where, cells in rows:
            _check_width(cells, where, max([*chosen, *marked]) + 1, len(head.cells))
            values = tuple(_cell(cells[i], head.names[i], where) for i in chosen)
            said = "".join(_cell(cells[i], head.names[i], where) for i in marked).strip()
            if marked and not labelled and not is_label(said):
                raise head.unclear(labelled)
            found.append(Example(values, said, where))
    return found


def _opened(path: Path, asked: Sequence[str], is_label: Callable[[str], bool]) -> tuple[_Head, Iterator[Row]]:
    """A file's first row, and the rows that are examples."""
    rows = _rows(path)
    first = list(islice(rows, LOOKED_AT))
    if not first:
        raise UserError(f"{path} is empty")
    head = _head(first, path, asked, is_label)
    if head.named and len(first) == 1:
        raise UserError(f"{path} has the columns' names and nothing below them")
    return head, chain(first[1:] if head.named else first, rows)


def _check_width(cells: Sequence[object], where: str, needed: int, most: int) -> None:
    if len(cells) < needed:
        raise UserError(f"{where}: {len(cells)} columns, where {needed} are needed")
    if len(cells) > most:
        raise UserError(
            f"{where}: {len(cells)} columns, where the first line has {most}; "
            "in a .csv file a text that has a comma in it stands in quotation marks"
        )


def _rows(path: Path) -> Iterator[Row]:
    kind = ending(path)
    if kind not in KINDS:
        raise UserError(f"{path}: examples are read from {', '.join(KINDS)} files (or .gz of these)")
    if kind == ".tsv":
        for number, line in enumerate(read_lines(path), 1):
            if line.strip():
                yield f"{path}, line {number}", line.split("\t")
    elif kind == ".csv":
        yield from _cells(path)
    else:
        yield from _objects(path)


def _cells(path: Path) -> Iterator[Row]:
    """Rows of commas and quotation marks; one that is never closed would swallow the rest of the file."""
    last: list[str] = []  # the lines of the row that is being read

    def kept() -> Iterator[str]:
        for line in read_lines(path):
            last.append(line)
            yield f"{line}\n"

    csv.field_size_limit(2**31 - 1)  # a cell is as long as it is
    reader, first = csv.reader(kept()), 1
    try:
        for cells in reader:
            if sum(line.count('"') for line in last) % 2:
                list(csv.reader(last, strict=True))
            if cells:
                yield f"{path}, line {reader.line_num}", [cell.removesuffix("\n") for cell in cells]
            last.clear()
            first = reader.line_num + 1
    except csv.Error as error:
        raise UserError(f"{path}, line {first}: is a quotation mark opened there and not closed? ({error})") from None


def _objects(path: Path) -> Iterator[Row]:
    """JSON lines as rows under the first one's keys, which come as a row of their own."""
    names: list[str] = []
    for where, value in read_objects(path):
        if not names:
            names = list(value)
            yield where, names
        yield where, [value.get(name, ABSENT) for name in names]


def _cell(value: object, name: str, where: str) -> str:
    if value is ABSENT:
        raise UserError(f"{where}: no key {name!r}, which the first line has")
    if value is None:
        return ""
    if isinstance(value, list):
        with_comma = next((item for item in value if "," in str(item)), None)
        if with_comma is not None:
            raise UserError(f"{where}: {with_comma!r} has a comma, which stands between labels")
        return ",".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _head(rows: Sequence[Row], path: Path, asked: Sequence[str], is_label: Callable[[str], bool]) -> _Head:
    """The first row is an example itself when it names nothing that is asked, or known."""
    shown = [str(cell).strip() for cell in rows[0][1]]
    wanted = {name.lower() for name in asked if name and not name.isdecimal()}
    named = not wanted.isdisjoint(cell.lower() for cell in shown)
    names = (*TEXTS, *LABELS) if len(shown) > 1 else TEXTS
    known = (i for i, cell in enumerate(shown) if cell.lower() in names and not is_label(cell))
    return _Head(path, shown, named or ending(path) == ".jsonl" or any(_is_alone(i, rows) for i in known))


def _is_alone(place: int, rows: Sequence[Row]) -> bool:
    """Whether the first row's cell is not below it too, as a label would be that is called as columns are."""
    name, *below = (str(cells[place]).strip().lower() for _, cells in rows if place < len(cells))
    return name not in below


def _columns(head: _Head, texts: Sequence[str], label: str, labelled: bool, alone: bool) -> tuple[list[int], list[int]]:
    """Those of the texts, and that of the label; where no label is read, only if it tells which one is the text."""
    if alone and head.has_texts_alone(texts):
        return list(range(len(texts))), []
    if not texts:
        head.refuse_pairs()
    chosen, marked = (_with_label if labelled else _without_label)(head, texts, label)
    if not chosen or (labelled and not marked):
        raise head.unclear(labelled)
    return chosen, marked


def _with_label(head: _Head, texts: Sequence[str], label: str) -> tuple[list[int], list[int]]:
    chosen, marked = [head.find(name) for name in texts], [head.find(label)] if label else []
    if set(chosen) & set(marked):
        raise UserError(
            f"{head.path}: column {label!r} is the label; say with data.text (or --text) which has the text"
        )
    marked = marked or head.known(LABELS, chosen)
    chosen = chosen or head.known(TEXTS, marked)
    left = [i for i in range(len(head.cells)) if i not in (*chosen, *marked)]
    if not head.named and not chosen and not marked:
        left, marked = left[:-1], left[-1:]  # where nothing has a name, the label comes last
    if len(left) == 1 and not chosen:
        chosen = left
    elif len(left) == 1 and not marked:
        marked = left
    return chosen, marked


def _without_label(head: _Head, texts: Sequence[str], label: str) -> tuple[list[int], list[int]]:
    """The text that is asked for, is known by its name or is alone; else the one that training takes beside a label."""
    if texts:
        return [head.find(name) for name in texts], []
    named = head.known(TEXTS, head.known([label.lower()], []))
    if named or len(head.cells) == 1:
        return named or [0], []
    return _with_label(head, (), label if head.has(label) else "")
