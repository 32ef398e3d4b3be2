"""Real files are dirty: each fault is named with its place, or dropped and counted."""

import gzip
import io
import json
import time
import tracemalloc
from pathlib import Path

import pytest

from regard.data.formats import Pair, Report, read_lines, read_pairs, read_texts
from regard.errors import UserError


def put(path: Path, content: bytes | str) -> Path:
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def sides(*paths: Path, **options: object) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in read_pairs(paths, **options)]  # type: ignore[arg-type]


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_each_format_reads_the_same(tmp_path: Path, ending: str) -> None:
    expected = [("a b", "ä b"), ("c", "d")]
    objects = [json.dumps({"source": s, "target": t, "id": 1}) for s, t in expected]
    assert sides(put(tmp_path / f"x.tsv{ending}", "a b\tä b\tfurther\tcolumns\nc\td\n")) == expected
    assert sides(put(tmp_path / f"x.jsonl{ending}", "\n".join(objects))) == expected
    assert sides(put(tmp_path / f"x.json{ending}", "\n".join(objects) + "\n\n")) == expected
    assert sides(put(tmp_path / f"x.en{ending}", "a b\nc\n"), put(tmp_path / f"x.de{ending}", "ä b\nd")) == expected


def test_lines_are_numbered_from_one_and_count_dropped_ones(tmp_path: Path) -> None:
    assert list(read_pairs([put(tmp_path / "x.tsv", "a\tb\n\t\nc\td\n")])) == [Pair("a", "b", 1), Pair("c", "d", 3)]


def test_texts_of_json_lines_stand_under_a_key_however_the_file_is_called(tmp_path: Path) -> None:
    for name in ("a.jsonl", "A.JSONL", "a.Jsonl.gz"):
        assert list(read_texts(put(tmp_path / name, '{"source": "a\\nb"}\n'), "source")) == ["a\nb"], name


def test_keys_can_be_named(tmp_path: Path) -> None:
    path = put(tmp_path / "x.jsonl", '{"en": "a", "de": "b"}\n')
    assert sides(path, keys=("en", "de")) == [("a", "b")]
    with pytest.raises(UserError, match=r"x.jsonl, line 1: keys 'source' and 'target'.*found \['de', 'en'\]"):
        sides(path)


# Fault 13


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_invalid_utf8_names_file_line_and_byte(tmp_path: Path, ending: str) -> None:
    path = put(tmp_path / f"x.tsv{ending}", b"good\tgut\ncaf\xe9\tkaffee\nlast\tletzt\n")
    with pytest.raises(UserError, match=r"x\.tsv(\.gz)?, line 2, byte 4 \(offset 12 in the file\): 0xE9 is not UTF-8"):
        sides(path)
    report = Report()
    assert sides(path, skip_bad=True, report=report) == [("good", "gut"), ("last", "letzt")]
    assert (report.pairs, report.bad) == (2, 1)
    assert "line 2" in report.first["bad"][0]


def test_skipping_a_bad_line_of_aligned_files_keeps_them_aligned(tmp_path: Path) -> None:
    files = put(tmp_path / "x.en", b"a\nb\xff\nc\n"), put(tmp_path / "x.de", "A\nB\nC\n")
    assert sides(*files, skip_bad=True) == [("a", "A"), ("c", "C")]
    with pytest.raises(UserError, match=r"x\.en, line 2, byte 2"):
        sides(*files)


@pytest.mark.parametrize("line", ["no tab here", ""])
def test_a_missing_tab_is_an_error_with_its_line(tmp_path: Path, line: str) -> None:
    path = put(tmp_path / "x.tsv", f"a\tb\n{line}\nc\td\n")
    with pytest.raises(UserError, match=r"x\.tsv, line 2: no tab"):
        sides(path)
    assert len(sides(path, skip_bad=True)) == 2


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "line 1: not a JSON object"),
        ("[1, 2]", "but a list"),
        ('{"source": "a"}', "not both there"),
        ('{"source": "a", "target": 7}', "'target' is not a text but 7"),
        ('{"source": "a", "target": "\\ud800"}', "half of a surrogate pair"),
        ("[" * 100_000, "line 1: not a JSON object"),
    ],
)
def test_broken_json_lines(tmp_path: Path, line: str, says: str) -> None:
    path = put(tmp_path / "x.jsonl", line + '\n{"source": "a", "target": "b"}\n')
    with pytest.raises(UserError, match=says):
        sides(path)
    assert sides(path, skip_bad=True) == [("a", "b")]


# Fault 14


def test_unequal_line_counts_show_both_before_the_first_pair(tmp_path: Path) -> None:
    files = put(tmp_path / "x.en", "a\nb\nc\n"), put(tmp_path / "x.de.gz", "A\nB")
    with pytest.raises(UserError, match=r"x\.en has 3 but .*x\.de\.gz has 2"):
        next(read_pairs(files))


# Fault 15


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\u0085", "\v", "\f", "\r", "\x1c", "\x1e"])
def test_lines_end_at_lf_alone(tmp_path: Path, mark: str) -> None:
    assert sides(put(tmp_path / "x.tsv", f"a{mark}b\tc\nd\te{mark}f\n")) == [(f"a{mark}b", "c"), ("d", f"e{mark}f")]
    assert list(read_lines(put(tmp_path / "x.txt", f"a{mark}b\n\nc"))) == [f"a{mark}b", "", "c"]


# Fault 16


def test_byte_order_mark_and_carriage_returns_are_stripped(tmp_path: Path) -> None:
    crlf = "\ufeffa\tb\r\nc\td\r\n"
    assert sides(put(tmp_path / "x.tsv", crlf)) == [("a", "b"), ("c", "d")]
    assert sides(put(tmp_path / "x.en", "\ufeffa\r\n"), put(tmp_path / "x.de", "\ufeffA\r\n")) == [("a", "A")]
    assert sides(put(tmp_path / "x.jsonl", '\ufeff{"source": "a", "target": "b"}\r\n')) == [("a", "b")]
    assert list(read_lines(io.BytesIO("\ufeffa\r\nb\r\n".encode()))) == ["a", "b"]
    assert sides(put(tmp_path / "y.tsv", "a\t\ufeffb\n")) == [("a", "\ufeffb")], (
        "only the file's start is a BOM's place"
    )


# Fault 17


def test_an_empty_side_is_dropped_and_counted(tmp_path: Path) -> None:
    report = Report()
    assert sides(put(tmp_path / "x.tsv", "a\tb\n\tx\nx\t\n \t x\n\t\n"), report=report) == [("a", "b")]
    assert (report.pairs, report.empty) == (1, 4)
    report = Report()
    assert sides(put(tmp_path / "x.en", "a\n\n"), put(tmp_path / "x.de", "b\nx\n"), report=report) == [("a", "b")]
    assert report.empty == 1


# Fault 18


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("length", [100_000, 10_000_000])
def test_a_huge_line_is_dropped_and_counted_quickly(tmp_path: Path, length: int, ending: str) -> None:
    report, start = Report(), time.process_time()
    content = b"x\ty\n" + b"a" * length + b"\tb\n" + b"c\td\n"
    assert sides(put(tmp_path / f"x.tsv{ending}", content), report=report) == [("x", "y"), ("c", "d")]
    assert (report.too_long, report.pairs) == (1, 2)
    assert time.process_time() - start < 2


def test_a_huge_line_does_not_fill_memory(tmp_path: Path) -> None:
    path = put(tmp_path / "x.tsv", b"a" * 30_000_000 + b"\tb\nc\td\n")
    tracemalloc.start()
    assert sides(path) == [("c", "d")]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000


def test_the_limit_counts_characters_of_each_side(tmp_path: Path) -> None:
    path = put(tmp_path / "x.tsv", "é" * 10 + "\tb\n" + "é" * 11 + "\tb\n" + "a\t" + "b" * 11 + "\n")
    report = Report()
    assert sides(path, max_chars=10, report=report) == [("é" * 10, "b")]
    assert str(report) == "1 pairs; dropped 2 too long"


# Files that are none


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    cut = tmp_path / "cut.tsv.gz"
    cut.write_bytes(gzip.compress(b"a\tb\n" * 10_000)[:-20])
    fake = tmp_path / "fake.tsv.gz"
    fake.write_bytes(b"a\tb\n")
    folder = tmp_path / "folder.tsv"
    folder.mkdir()
    for path, says in [
        (cut, "cut off gzip"),
        (fake, "gzip"),
        (folder, "directory"),
        (tmp_path / "absent.tsv", "No such file"),
        (put(tmp_path / "empty.tsv", b""), "the file is empty"),
        (put(tmp_path / "empty.tsv.gz", b""), "the file is empty"),
        (put(tmp_path / "binary.tsv", b"\x7fELF\x02\x00\x00\t\n"), "line 1, byte 6: a NUL; this looks like a binary"),
        (put(tmp_path / "wide.tsv", "a\tb\n".encode("utf-16")), "it is UTF-16"),
        (put(tmp_path / "packed.tsv", gzip.compress(b"a\tb\n")), "name the file .gz"),
        (put(tmp_path / "plain.txt", "a\tb\n"), "must be .tsv or .jsonl"),
    ]:
        with pytest.raises(UserError, match=says) as caught:
            sides(path)
        assert path.name in str(caught.value)


def test_numbers_and_names_of_files(tmp_path: Path) -> None:
    tsv = put(tmp_path / "x.tsv", "a\tb\n")
    for paths in ([], [tsv, tsv, tsv], [tsv, tsv]):
        with pytest.raises(UserError, match=r"give one \.tsv or \.jsonl file"):
            sides(*paths)
    with pytest.raises(UserError, match="the file is empty"):
        sides(put(tmp_path / "x.en", ""), put(tmp_path / "x.de", ""))


def test_plain_lines_name_their_faults(tmp_path: Path) -> None:
    assert list(read_lines(put(tmp_path / "x.txt.gz", "a\n\nb"))) == ["a", "", "b"]
    assert list(read_lines(io.BytesIO(b""))) == []
    with pytest.raises(UserError, match="standard input, line 2, byte 1"):
        list(read_lines(io.BytesIO(b"a\n\xff\n")))
    with pytest.raises(UserError, match="No such file"):
        list(read_lines(tmp_path / "absent.txt"))


def test_the_report_is_one_line() -> None:
    assert str(Report(pairs=12_345)) == "12,345 pairs"
    full = Report(pairs=10, empty=1, too_long=2, bad=3)
    assert str(full) == "10 pairs; dropped 1 with an empty side, 2 too long, 3 unreadable"
