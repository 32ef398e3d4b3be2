"""Reading pairs of sentences, and plain lines, as a stream: one line in memory, whatever the size of the file."""

import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from regard.errors import UserError

BOM = b"\xef\xbb\xbf"
KEYS = ("source", "target")
CHUNK = 1 << 16
# Bytes that rarely open a text, and what they mean when they do.
FOREIGN = {
    b"\x1f\x8b": "it is gzip data: name the file .gz",
    b"\xff\xfe": "it is UTF-16: convert it with iconv -f UTF-16 -t UTF-8",
    b"\xfe\xff": "it is UTF-16: convert it with iconv -f UTF-16 -t UTF-8",
    b"PK": "it is a zip archive: unpack it",
}


class Pair(NamedTuple):
    source: str
    target: str
    line: int  # counted from 1


@dataclass
class Report:
    """What became of the lines that were read."""

    pairs: int = 0
    empty: int = 0
    too_long: int = 0
    bad: int = 0
    first: dict[str, list[str]] = field(default_factory=dict)  # the first few dropped ones of each sort, with the place

    def drop(self, sort: str, where: str) -> None:
        setattr(self, sort, getattr(self, sort) + 1)
        places = self.first.setdefault(sort, [])
        if len(places) < 5:
            places.append(where)

    @property
    def dropped(self) -> dict[str, int]:
        return {"with an empty side": self.empty, "too long": self.too_long, "unreadable": self.bad}

    def __str__(self) -> str:
        parts = [f"{count:,} {what}" for what, count in self.dropped.items() if count]
        return f"{self.pairs:,} pairs" + (f"; dropped {', '.join(parts)}" if parts else "")


class _Line(NamedTuple):
    number: int  # counted from 1
    offset: int  # of its first byte in the (unpacked) file
    content: bytes | None  # None: longer than the limit, and not kept


class _BadLineError(Exception):
    """One line that cannot be used; it becomes a UserError, or a count when bad lines are skipped."""


Row = tuple[_Line, ...]  # one line of each file
Parse = Callable[[Row], tuple[str, str]]


def read_pairs(
    paths: Sequence[str | Path],
    *,
    keys: tuple[str, str] = KEYS,
    max_chars: int = 2000,
    skip_bad: bool = False,
    report: Report | None = None,
) -> Iterator[Pair]:
    """The pairs of one .tsv or .jsonl file, or of two aligned text files; each may end in .gz.

    Dropped and counted in `report`: a pair with an empty side, a side of more than `max_chars` characters, and with
    `skip_bad` lines that are not UTF-8 or not of the format, which are errors otherwise.
    """
    files = [Path(path) for path in paths]
    report = Report() if report is None else report
    parse = _parser(files, keys)
    names = " and ".join(str(path) for path in files)
    # A character takes at most 4 bytes, or 12 as JSON escapes; the rest is room for further columns and keys.
    for row in _rows(files, limit=24 * max_chars + (1 << 20)):
        number = row[0].number
        if any(line.content is None for line in row):
            report.drop("too_long", f"{names}, line {number}")
            continue
        try:
            source, target = parse(row)
        except _BadLineError as bad:
            if not skip_bad:
                raise UserError(
                    f"{bad}; mend the line, or skip such lines (--skip-bad, or skip_bad=true in the recipe)"
                ) from None
            report.drop("bad", str(bad))
            continue
        if len(source) > max_chars or len(target) > max_chars:
            report.drop("too_long", f"{names}, line {number}")
        elif not source.strip() or not target.strip():
            report.drop("empty", f"{names}, line {number}")
        else:
            report.pairs += 1
            yield Pair(source, target, number)


def read_lines(source: str | Path | BinaryIO, name: str = "standard input") -> Iterator[str]:
    """The lines of a text file (also .gz) or of a binary stream, split at LF alone; empty lines stay."""
    with ExitStack() as stack:
        if isinstance(source, str | Path):
            source, name = stack.enter_context(_opened(Path(source))), str(source)
        for line in _lines(source):
            try:
                yield _decoded(line, name)
            except _BadLineError as bad:
                raise UserError(f"{bad}; mend the line") from None


def read_objects(path: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Where each object of a file of JSON lines stands, and the object; empty lines are passed over."""
    for number, line in enumerate(read_lines(path), 1):
        if line.strip():
            where = f"{path}, line {number}"
            yield where, parse_object(line, where)


def read_texts(path: str | Path, key: str) -> Iterator[str]:
    """The lines of a text file; of JSON lines what stands under a key."""
    if ending(path) != ".jsonl":
        yield from read_lines(path)
        return
    for where, found in read_objects(path):
        text = found.get(key)
        if not isinstance(text, str):
            raise UserError(f"{where}: no text under {key!r}, where the model's training data (data.keys) had it")
        yield text


def parse_object(text: str, where: str) -> dict[str, Any]:
    """A JSON object whose texts are texts: half of a surrogate pair is none."""
    try:
        found = json.loads(text)
        if "\\u" in text:
            json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UserError(f"{where}: half of a surrogate pair stands there, which is no character") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: not JSON: {error}") from None
    if not isinstance(found, dict):
        raise UserError(f"{where}: not a JSON object")
    return found


def _parser(files: Sequence[Path], keys: tuple[str, str]) -> Parse:
    """How one row of these files becomes a pair, judged by the number of files and their names."""
    formats = {".tsv": _from_tsv, ".jsonl": _from_json, ".json": _from_json}
    found = [formats.get(ending(path)) for path in files]
    names = " and ".join(str(path) for path in files)
    if len(files) == 2:
        if any(found):
            raise UserError(
                f"{names}: two files are read as aligned plain text; give one .tsv or .jsonl file at a time"
            )
        return lambda row: (_clean(row[0], files[0]), _clean(row[1], files[1]))
    if len(files) != 1:
        raise UserError(f"{len(files)} data files given; give one .tsv or .jsonl file, or two aligned text files")
    read = found[0]
    if read is None:
        raise UserError(f"{names}: one file must be .tsv or .jsonl (or .gz of these); or give two aligned text files")
    return lambda row: read(_clean(row[0], files[0]), f"{files[0]}, line {row[0].number}", keys)


def _from_tsv(text: str, where: str, keys: tuple[str, str]) -> tuple[str, str]:
    cells = text.split("\t", 2)
    if len(cells) < 2:
        raise _BadLineError(f"{where}: no tab between source and target")
    return cells[0], cells[1]


def _from_json(text: str, where: str, keys: tuple[str, str]) -> tuple[str, str]:
    if not text.strip():
        return "", ""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _BadLineError(f"{where}: not a JSON object on one line ({error})") from None
    if not isinstance(found, dict):
        raise _BadLineError(f"{where}: not a JSON object on one line but a {type(found).__name__}")
    if any(key not in found for key in keys):
        raise _BadLineError(f"{where}: keys {keys[0]!r} and {keys[1]!r} are not both there; found {sorted(found)}")
    source, target = found[keys[0]], found[keys[1]]
    for key, side in zip(keys, (source, target), strict=True):
        if not isinstance(side, str):
            raise _BadLineError(f"{where}: {key!r} is not a text but {json.dumps(side)[:40]}")
        if not side.isascii() and any("\ud800" <= character <= "\udfff" for character in side):
            raise _BadLineError(f"{where}: {key!r} holds half of a surrogate pair")
    return source, target


def _clean(line: _Line, path: Path) -> str:
    """The text of a line of a data file, where a NUL means that the file is no text."""
    content = line.content or b""
    if b"\0" in content:
        place = f"{path}, line {line.number}, byte {content.index(0) + 1}"
        raise _BadLineError(f"{place}: a NUL; this looks like a binary file{_hint(line)}")
    return _decoded(line, path)


def _decoded(line: _Line, name: str | Path) -> str:
    content = line.content or b""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        # The byte in the line is counted from 1 as lines are; the offset from 0 as tools such as xxd do.
        where = f"{name}, line {line.number}, byte {error.start + 1} (offset {line.offset + error.start} in the file)"
        raise _BadLineError(f"{where}: 0x{content[error.start]:02X} is not UTF-8{_hint(line)}") from None


def _hint(line: _Line) -> str:
    signs = FOREIGN.items() if line.offset == 0 else ()
    return next((f" ({says})" for sign, says in signs if (line.content or b"").startswith(sign)), "")


def _rows(files: Sequence[Path], limit: int) -> Iterator[Row]:
    """The lines of one file, or of two files side by side after comparing their numbers of lines."""
    if len(files) == 2:
        counts = [_count_lines(path) for path in files]
        if counts[0] != counts[1]:
            shown = " but ".join(f"{path} has {count:,}" for path, count in zip(files, counts, strict=True))
            raise UserError(f"the aligned files differ in their numbers of lines: {shown}; line n must match line n")
    with ExitStack() as stack:
        streams = [stack.enter_context(_opened(path)) for path in files]
        row = None
        for row in zip(*(_lines(stream, limit) for stream in streams), strict=True):
            yield row
        if row is None:
            raise UserError(f"{files[0]}: the file is empty; give a file with one pair per line")


def _lines(stream: BinaryIO, limit: int = -1) -> Iterator[_Line]:
    """Lines end at LF and nowhere else; a byte order mark and a CR before LF are no part of the text."""
    number = offset = 0
    while chunk := stream.readline(limit):
        number, start, offset = number + 1, offset, offset + len(chunk)
        content: bytes | None = chunk.removesuffix(b"\n")
        if chunk.endswith(b"\r\n"):
            content = chunk[:-2]
        elif len(chunk) == limit and not chunk.endswith(b"\n"):
            content = None
            while not chunk.endswith(b"\n") and (chunk := stream.readline(CHUNK)):
                offset += len(chunk)
        if number == 1 and content is not None and content.startswith(BOM):
            content, start = content[len(BOM) :], len(BOM)
        yield _Line(number, start, content)


def _count_lines(path: Path) -> int:
    count, last = 0, b"\n"
    with _opened(path) as stream:
        while chunk := stream.read(CHUNK):
            count += chunk.count(b"\n")
            last = chunk[-1:]
    return count + (last != b"\n")


def ending(path: str | Path) -> str:
    """What tells a file's format: .tsv of a.TSV.gz."""
    name = str(path).lower().removesuffix(".gz")
    return Path(name).suffix


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a file, unpacked if it is .gz; what the system has to say against it becomes a UserError."""
    try:
        with path.open("rb") as plain:
            if path.suffix.lower() == ".gz":
                yield cast(BinaryIO, io.BufferedReader(gzip.GzipFile(fileobj=plain), CHUNK))
            else:
                yield plain
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(f"{path}: damaged or cut off gzip file ({error}); fetch it again") from None
    except OSError as error:
        raise UserError(f"{path}: cannot read this file: {error.strerror or error}") from None
