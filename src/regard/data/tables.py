"""Tables of examples: CSV, TSV and JSON lines as rows whose cells are called by name or by number."""

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.formats import read_lines, read_objects
from regard.errors import UserError

KINDS = (".tsv", ".csv", ".jsonl")
TEXTS, LABELS = ("text", "sentence", "sentence1", "document"), ("label", "labels", "class", "score")
PAIRS = {"sentence1": "sentence2", "sentence": "question"}  # columns that hardly stand alone
ABSENT = object()  # what a JSON object has not
Row = tuple[str, Sequence[object]]  # file and line, and its cells: texts, or whatever a JSON object holds


@dataclass(frozen=True)
class Example:
    """A text or a pair of them, and what is to be said of it; without a label where none is known."""

    texts: tuple[str, ...]
    label: str
    where: str  # file and line


def read_examples(
    paths: Sequence[str | Path], texts: Sequence[str] = (), label: str = "", *, labelled: bool = True
) -> list[Example]:
    """All rows. texts, label: columns by name or number from 1; by default the first and the last of two.

    Without labels, a file that has as many columns as there are texts is taken as it is.
    """
    found: list[Example] = []
    for path in map(Path, paths):
        rows = _rows(path)
        head = next(rows, None)
        if head is None:
            raise UserError(f"{path} is empty")
        shown = list(map(str, head[1]))
        names, first = _names(path, shown, [*texts, label], labelled)
        bare = not labelled and len(names) == max(1, len(texts))
        columns = list(range(len(names))) if bare else _columns(path, names, texts, label, labelled, shown)
        rows = rows if first else _some(rows, path)
        for where, cells in [*([head] if first else []), *rows]:
            if len(cells) <= max(columns):
                raise UserError(f"{where}: {len(cells)} columns, where {max(columns) + 1} are needed")
            if len(cells) > len(names):
                raise UserError(
                    f"{where}: {len(cells)} columns, where the first line has {len(names)}; "
                    "in a .csv file a text that has a comma in it stands in quotation marks"
                )
            taken = [_cell(cells[i], names[i], where) for i in columns]
            *values, last = taken if labelled else (*taken, "")
            found.append(Example(tuple(values), last.strip(), where))
    return found


def _rows(path: Path) -> Iterator[Row]:
    kind = Path(path.name.removesuffix(".gz")).suffix
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


def _names(path: Path, head: list[str], asked: Sequence[str], labelled: bool) -> tuple[list[str], bool]:
    """The columns' names, and whether the first row is an example itself: it is when it names nothing that is asked."""
    if path.name.removesuffix(".gz").endswith(".jsonl"):
        return head, False
    cells = [cell.strip().lower() for cell in head]
    wanted = [name.lower() for name in asked if name and not name.isdecimal()]
    known = any(cell in TEXTS for cell in cells) and (not labelled or any(cell in LABELS for cell in cells))
    if all(name in cells for name in wanted) if wanted else known:
        return [cell.strip() for cell in head], False
    return [str(i + 1) for i in range(len(head))], True


def _some(rows: Iterator[Row], path: Path) -> Iterator[Row]:
    """The rows after the columns' names: there must be any."""
    first = next(rows, None)
    if first is None:
        raise UserError(f"{path} has the columns' names and nothing below them")
    yield first
    yield from rows


def _columns(
    path: Path, names: list[str], texts: Sequence[str], label: str, labelled: bool, head: list[str]
) -> list[int]:
    """head: the first row, which shows what there is where no names were found."""
    lower = [name.lower() for name in names]
    shown = ", ".join(cell.strip()[:30] for cell in head[:20])

    def find(name: str) -> int:
        if name.lower() in lower:  # a number may be a name too
            return lower.index(name.lower())
        if name.isdecimal() and 1 <= int(name) <= len(names):
            return int(name) - 1
        raise UserError(f"{path} has no column {name!r}; its first line is: {shown}. A number from 1 will do too")

    known = next((name for name in TEXTS if name in lower), "")
    if not texts and PAIRS.get(known) in lower:
        raise UserError(
            f"{path} has {known!r} and {PAIRS[known]!r}; say with data.text (or --text) which are read, one or both"
        )
    chosen = [find(name) for name in texts] or [lower.index(known) if known else 0]
    if not labelled:
        return chosen
    if label:
        return [*chosen, find(label)]
    named = next((lower.index(n) for n in LABELS if n in lower), None)
    if named is None and len(names) != len(chosen) + 1:
        raise UserError(
            f"{path} has {len(names)} columns, the first line is: {shown}; say with data.label which one is the label "
            "(a name or a number from 1), and with data.text which one is the text"
        )
    return [*chosen, named if named is not None else next(i for i in range(len(names)) if i not in chosen)]
