"""Tables of examples: columns by name and number, headers found, mistakes told with their line."""

from pathlib import Path
from typing import Any

import pytest

from regard.data.tables import read_examples
from regard.errors import UserError


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def told(path: Path, *columns: str, label: str = "") -> list[tuple[tuple[str, ...], str]]:
    return [(example.texts, example.label) for example in read_examples([path], columns, label)]


def test_two_columns_need_no_names(tmp_path: Path) -> None:
    assert told(write(tmp_path, "a.tsv", "good film\t1\n\nbad film\t0\n")) == [
        (("good film",), "1"),
        (("bad film",), "0"),
    ]


def test_a_header_is_found(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", 'label,sentence\nx,"one, two"\ny,"a ""quoted"" word"\n')
    assert told(path) == [(("one, two",), "x"), (('a "quoted" word',), "y")]
    path = write(tmp_path, "b.tsv", "id\tpremise\thypothesis\tgold\n1\ta\tb\tyes\n")
    assert told(path, "premise", "hypothesis", label="gold") == [(("a", "b"), "yes")]


def test_numbers_are_columns_too(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", "tweet\tOTHER\tfine\nsecond\tOFFENSE\tABUSE\n")
    assert told(path, "1", label="2") == [(("tweet",), "OTHER"), (("second",), "OFFENSE")]


@pytest.mark.parametrize(
    "header", ["gold\ttext", "gold\tSentence", "label\treview", "Class\tsentence", "score\ttext", "kind\tdocument"]
)
def test_one_known_name_makes_a_header(tmp_path: Path, header: str) -> None:
    """The labels stand first, where by their place alone they would be the texts."""
    rows = "pos\tgood film\nneg\tbad film\n"
    expected = [(("good film",), "pos"), (("bad film",), "neg")]
    for name, text in (("a.tsv", f"{header}\n{rows}"), ("a.csv", f"{header}\n{rows}".replace("\t", ","))):
        assert told(write(tmp_path, name, text)) == expected
    assert told(write(tmp_path, "b.tsv", f"{header}\n{rows}"), "2", label="1") == expected


def test_an_id_is_no_text(tmp_path: Path) -> None:
    assert told(write(tmp_path, "a.csv", "id,text\n7,good film\n")) == [(("good film",), "7")]  # as of JSON lines
    path = write(tmp_path, "b.csv", "id,text,gold\n7,good film,pos\n")
    with pytest.raises(UserError, match=r"first line is: id, text, gold; say with data\.label"):
        read_examples([path])
    assert told(path, label="gold") == [(("good film",), "pos")]


def test_a_label_that_is_called_as_columns_are_is_no_header(tmp_path: Path) -> None:
    rows = [("int x;", "code"), ("a text", "text"), ("goal!", "score"), ("rose is a rose", "Text"), ("2:1", "Score")]
    for first in (1, 2):
        shown = [rows[first], *rows]
        path = write(tmp_path, "a.tsv", "".join(f"{text}\t{label}\n" for text, label in shown))
        assert told(path) == [((text,), label) for text, label in shown]


@pytest.mark.parametrize("rows", ["sentiment,review\npos,good\n", "good,pos\nsentiment,neg\n"])
def test_a_first_row_without_known_names_is_an_example(tmp_path: Path, rows: str) -> None:
    cells = [line.split(",") for line in rows.splitlines()]
    assert told(write(tmp_path, "a.csv", rows)) == [((text,), label) for text, label in cells]


@pytest.mark.parametrize(
    ("name", "text", "label"),
    [
        ("a.jsonl", '{"label": "pos", "review": "good film"}\n', ""),
        ("a.jsonl", '{"gold": "pos", "text": "good film"}\n', ""),
        ("a.tsv", "pos\tgood film\n", "1"),
        ("a.csv", "text,review\npos,good film\n", "text"),  # the label is called as a text is elsewhere
    ],
)
def test_the_text_is_what_the_label_leaves(tmp_path: Path, name: str, text: str, label: str) -> None:
    assert told(write(tmp_path, name, text), label=label) == [(("good film",), "pos")]


def test_json_lines(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"text": "a", "label": 1}\n{"label": ["x", "y"], "text": "b"}\n')
    assert told(path) == [(("a",), "1"), (("b",), "x,y")]


def test_other_keys_may_hold_anything_or_be_absent(tmp_path: Path) -> None:
    rows = '{"text": "a", "tokens": ["Hi", ","], "label": 1}\n{"label": 2, "text": "b"}\n'
    assert told(write(tmp_path, "a.jsonl", rows)) == [(("a",), "1"), (("b",), "2")]


def test_two_texts_that_are_named(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", "sentence1\tsentence2\tlabel\na\tb\t1\n")
    assert told(path, "sentence1", "sentence2") == [(("a", "b"), "1")]
    assert told(path, "sentence1") == [(("a",), "1")]


def test_two_texts_are_taken_by_their_names_or_in_order(tmp_path: Path) -> None:
    """A file with no more columns than texts may have them the other way round."""
    turned = write(tmp_path, "a.csv", "hypothesis,premise\nb,a\n")
    objects = write(tmp_path, "a.jsonl", '{"hypothesis": "b", "premise": "a"}\n')
    bare = write(tmp_path, "a.tsv", "a\tb\n")
    for path in (turned, objects, bare):
        assert read(path, "premise", "hypothesis") == [("a", "b")]
    assert read(bare, "2", "3") == [("a", "b")]  # training's columns, of which the first was the label
    assert read(bare, "2", "1", alone=False) == [("b", "a")]
    other = write(tmp_path, "b.jsonl", '{"one": "a", "two": "b"}\n')
    for path, alone in ((bare, False), (other, True), (write(tmp_path, "c.csv", "premise,body\na,b\n"), True)):
        with pytest.raises(UserError, match=r"no column '(premise|hypothesis)'"):
            read(path, "premise", "hypothesis", alone=alone)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_which_of_several_columns_is_the_text_is_asked(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, name, "id,review\n7,good\n" if name == "a.csv" else '{"id": 7, "review": "good"}\n')
    with pytest.raises(UserError, match=r"2 columns, the first line is: id, review; say with data"):
        read(path)
    assert read(path, "review", alone=False) == [("good",)]


@pytest.mark.parametrize("name", ["A.CSV", "a.Tsv", "A.JSONL"])
def test_endings_may_have_capitals(tmp_path: Path, name: str) -> None:
    text = {"A.CSV": "text,label\ngood,1\n", "a.Tsv": "good\t1\n", "A.JSONL": '{"text": "good", "label": 1}\n'}
    assert told(write(tmp_path, name, text[name])) == [(("good",), "1")]


def test_a_cell_over_two_lines(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", 'text,label\n"one\ntwo",x\nthree,y\n')
    assert told(path) == [(("one\ntwo",), "x"), (("three",), "y")]


@pytest.mark.parametrize(
    ("name", "text", "columns", "words"),
    [
        ("a.tsv", "", {}, "is empty"),
        ("a.txt", "a", {}, "are read from .tsv"),
        ("a.tsv", "a\tb\tc\n", {}, "say with data.label"),
        ("a.jsonl", '{"id": 7, "review": "good", "label": "pos"}\n', {}, r"3 columns, .*: id, review, label; say with"),
        ("a.jsonl", '{"mood": "pos", "review": "good"}\n', {}, "say with data.label"),  # keys have no order
        ("a.tsv", "a\tb\n", {"texts": ["1"], "label": "1"}, "column '1' is the label; say with data.text"),
        ("a.tsv", "a\tb\nonly one\n", {}, "line 2: 1 columns, where 2 are needed"),
        ("a.tsv", "a\tb\n", {"label": "nope"}, "no column 'nope'; its first line is: a, b"),
        ("a.tsv", "a\tb\n", {"label": "3"}, "no column '3'"),
        ("a.csv", "text,label\ngood, and long,1\n", {}, "line 2: 3 columns, where the first line has 2"),
        ("a.tsv", "a\tb\nmore\tthan\ttwo\n", {}, "line 2: 3 columns, where the first line has 2"),
        ("a.tsv", "sentence1\tsentence2\tlabel\na\tb\t1\n", {}, "'sentence1' and 'sentence2'; say with data.text"),
        ("a.tsv", "question\tsentence\tlabel\na\tb\t1\n", {}, "'sentence' and 'question'; say with data.text"),
        ("a.jsonl", "{\n", {}, "line 1: not JSON"),
        ("a.jsonl", "[" * 100_000, {}, "line 1: not JSON"),
        ("a.jsonl", '{"text": "\\ud800", "label": 1}\n', {}, "line 1: half of a surrogate pair"),
        ("a.jsonl", "[1]\n", {}, "line 1: not a JSON object"),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": "b"}\n', {}, "line 2: no key 'label'"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, name: str, text: str, columns: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        read_examples([write(tmp_path, name, text)], **columns)


def test_a_name_that_is_a_number_comes_before_the_number(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"2": "a text", "1": "yes"}\n')
    assert [(e.texts, e.label) for e in read_examples([path], ["2"], "1")] == [(("a text",), "yes")]


def test_what_json_holds_becomes_a_label(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"text": "a", "label": null}\n{"text": "b", "label": ["x", "y"]}\n')
    assert [e.label for e in read_examples([path])] == ["", "x,y"]
    path = write(tmp_path, "b.jsonl", '{"text": "a", "label": ["toys, games"]}\n')
    with pytest.raises(UserError, match="line 1: 'toys, games' has a comma"):
        read_examples([path])


def read(path: Path, *columns: str, alone: bool = True) -> list[tuple[str, ...]]:
    return [example.texts for example in read_examples([path], columns, labelled=False, alone=alone)]


def test_without_labels(tmp_path: Path) -> None:
    """A file of texts alone needs no names of columns; with more columns the names are those of training."""
    alone = write(tmp_path, "a.tsv", "one\ntwo\n")
    headed = write(tmp_path, "b.tsv", "text\none\ntwo\n")
    full = write(tmp_path, "c.csv", "id,review,sentiment\n1,one,yes\n2,two,no\n")
    for path in (alone, headed, full):
        assert read(path, *(["review"] if path == full else [])) == [("one",), ("two",)]
    for path in (alone, headed):
        assert read(path, "review") == [("one",), ("two",)]
    with pytest.raises(UserError, match="no column 'nope'; its first line is: id, review, sentiment"):
        read_examples([full], ["nope"], labelled=False)
    with pytest.raises(UserError, match="names and nothing below"):
        read_examples([write(tmp_path, "d.csv", "text,label\n")])


def beside(path: Path, *columns: str, label: str = "") -> list[tuple[str, ...]]:
    """The texts that a model of the labels pos and neg reads."""
    known = ("pos", "neg", "score").__contains__
    examples = read_examples([path], columns, label, labelled=False, alone=True, is_label=known)
    return [example.texts for example in examples]


@pytest.mark.parametrize(
    ("name", "text", "label"),
    [
        ("a.tsv", "good film\tpos\nbad film\tneg\n", ""),
        ("a.tsv", "good film\tscore\nbad film\tneg\n", ""),
        ("a.tsv", "pos\tgood film\nneg\tbad film\n", "1"),
        ("a.csv", "gold,review\npos,good film\nneg,bad film\n", "gold"),
        ("a.csv", "review,label\ngood film,pos\nbad film,neg\n", ""),
        ("a.csv", "gold,text\n?,good film\n,bad film\n", ""),  # its name says which the text is
        ("a.csv", "text,review\npos,good film\nneg,bad film\n", "text"),
        ("a.csv", "text,label\ngood film,pos\nbad film,neg\n", "1"),
        ("a.jsonl", '{"label": "pos", "review": "good film"}\n{"label": "neg", "review": "bad film"}\n', ""),
        ("a.jsonl", '{"mood": "pos", "review": "good film"}\n{"mood": "neg", "review": "bad film"}\n', "mood"),
        ("a.tsv", "good film\nbad film\n", "2"),
        ("a.tsv", "good film\nbad film\n", "gold"),
    ],
)
def test_the_text_is_what_the_models_labels_leave(tmp_path: Path, name: str, text: str, label: str) -> None:
    assert beside(write(tmp_path, name, text), label=label) == [("good film",), ("bad film",)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", "good film\tpos\nbad film\ta text\n"),
        ("a.tsv", "7\tgood film\n8\tpos\n"),
        ("a.tsv", "pos\tgood film\nneg\tbad film\n"),
        ("a.tsv", "good film\tpos\nbad film\t\n"),
        ("a.tsv", "7\tgood film\tpos\n"),
        ("a.jsonl", '{"mood": "pos", "review": "good film"}\n'),
        ("a.jsonl", '{"label": "a text", "review": "good film"}\n'),
    ],
)
def test_what_may_be_a_text_is_not_dropped(tmp_path: Path, name: str, text: str) -> None:
    path = write(tmp_path, name, text)
    with pytest.raises(UserError, match=r"columns, the first line is: .*; say with data.text"):
        beside(path)
    with pytest.raises(UserError, match=r"columns, the first line is: .*; say with data.text"):
        read(path)


def test_of_a_pair_the_second_text_is_no_label(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", "good film\tpos\nbad film\tneg\n")
    for columns in (("premise", "hypothesis"), ("2", "3")):
        assert beside(path, *columns, label="gold") == [("good film", "pos"), ("bad film", "neg")]


@pytest.mark.parametrize("rest", ["bad film,0\nok,1\n", "a long line,0\n" * 20_000, ""])
def test_a_quotation_mark_that_is_never_closed(tmp_path: Path, rest: str) -> None:
    path = write(tmp_path, "a.csv", f'text,label\nfine,1\n"good film,1\n{rest}')
    with pytest.raises(UserError, match=r"a.csv, line 3: .*not closed"):
        read_examples([path])
    inside = write(tmp_path, "b.csv", f'text,label\na 5" disk,1\n{rest}')
    assert read_examples([inside])[0].texts == ('a 5" disk',)


def test_a_long_cell_is_no_unclosed_one(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", f'text,label\n"{"long " * 40_000}",1\n')
    assert len(read_examples([path])[0].texts[0]) == 200_000


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(b"good\t1\nbad \xff\t0\n")
    with pytest.raises(UserError, match="line 2"):
        read_examples([tmp_path / "a.tsv"])
