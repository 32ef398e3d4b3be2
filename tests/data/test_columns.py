"""CoNLL columns: words and labels of every scheme as BIO, and mistakes told with their line."""

from pathlib import Path

import pytest

from regard.data.columns import as_bio, plain_types, read_sentences, spans
from regard.errors import UserError


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def told(path: Path, *columns: str) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    return [(s.words, s.labels) for s in read_sentences([path], *columns)]


FOUND = [(("Ann", "Lee", "sings"), ("B-who", "I-who", "O")), (("Rome",), ("B-where",))]


@pytest.mark.parametrize(
    "text",
    [
        "Ann\tB-who\nLee\tI-who\nsings\tO\n\nRome\tB-where\n",
        "Ann B-who\nLee I-who\nsings O\n\n\nRome B-where",
        "Ann\tB-who\r\nLee\tI-who\r\nsings\tO\r\n\t\r\nRome\tB-where\r\n",
        "-DOCSTART- O\n\nAnn B-who\nLee I-who\nsings O\n-DOCSTART- O\nRome B-where\n",
        "Ann NNP x B-who\nLee NNP x I-who\nsings VBZ x O\n\nRome NNP x B-where\n",
        "Ann\twho\nLee\twho\nsings\tO\n\nRome\twhere\n",
    ],
)
def test_words_and_labels_of_sentences(tmp_path: Path, text: str) -> None:
    assert told(write(tmp_path, "a.conll", text)) == FOUND


def test_columns_by_number_and_words_with_spaces(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", "1\tNew York\tB-where\tx\n2\tsings\tO\tx\n")
    assert told(path, "2", "3") == [(("New York", "sings"), ("B-where", "O"))]


def test_a_no_break_space_parts_no_words(tmp_path: Path) -> None:
    assert told(write(tmp_path, "a.conll", " New\u00a0York  B-where \nsings O\n")) == [
        (("New\u00a0York", "sings"), ("B-where", "O"))
    ]


def test_json_lines_there_and_back(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"words": ["Ann", "Lee"], "labels": ["I-who", "I-who"]}\n\n')
    (sentence,) = read_sentences([path])
    assert sentence.to_dict() == {"words": ["Ann", "Lee"], "labels": ["B-who", "I-who"]}


def test_without_labels_words_are_enough(tmp_path: Path) -> None:
    (sentence,) = read_sentences([write(tmp_path, "a.conll", "Ann\nsings\n")], labelled=False)
    assert (sentence.words, sentence.labels) == (("Ann", "sings"), ())


@pytest.mark.parametrize(
    ("given", "bio"),
    [
        ("B-a I-a O B-a B-a", "B-a I-a O B-a B-a"),  # BIO stays
        ("I-a I-a O I-b I-a", "B-a I-a O B-b B-a"),  # IO
        ("I-a B-a I-a O I-a", "B-a B-a I-a O B-a"),  # IOB1: B- between two that touch
        ("B-a E-a S-a O B-b I-b E-b", "B-a I-a B-a O B-b I-b I-b"),  # BIOES
        ("B-a L-a U-a I-a", "B-a I-a B-a B-a"),  # BILOU; what ended does not go on
        ("a a O b a", "B-a I-a O B-b B-a"),  # types alone
        ("E-MAIL E-MAIL phone", "B-E-MAIL I-E-MAIL B-phone"),  # one of which looks like more
        ("O O", "O O"),
        ("B-a I-b", "B-a B-b"),  # what continues nothing begins
    ],
)
def test_every_scheme_becomes_bio(given: str, bio: str) -> None:
    assert as_bio(given.split(), plain_types(given.split())) == bio.split()


def test_labels_of_both_sorts_are_told_apart_by_the_whole_set() -> None:
    """A model from elsewhere may have them; what a sentence happens to hold decides nothing."""
    types = plain_types(["O", "MISC", "B-PER", "I-PER"])
    assert types == {"MISC"}
    assert as_bio(["MISC", "MISC", "B-PER"], types) == ["B-MISC", "I-MISC", "B-PER"]
    assert as_bio(["MISC"], types) == ["B-MISC"]


def test_spans_of_bio() -> None:
    assert spans(["B-a", "I-a", "O", "B-b", "B-b", "I-b"]) == [("a", 0, 2), ("b", 3, 4), ("b", 4, 6)]
    assert spans([]) == []


@pytest.mark.parametrize(
    ("name", "text", "columns", "words"),
    [
        ("a.conll", "\n\n", (), "has no sentences"),
        ("a.conll", "Ann\n", (), "line 1: one column, where a word and its label"),
        ("a.conll", "Ann\tO\n\nLee\tx\tO\n", (), "line 3: 3 columns, where the lines before have 2"),
        ("a.conll", "Ann\tO\nLee\t\n", (), "line 2: an empty label"),
        ("a.conll", "\tO\n", (), "line 1: an empty word"),
        ("a.conll", "Ann O\n", ("1", "3"), "line 1: there is no column '3'"),
        ("a.conll", "Ann O\n", ("word", ""), "no column 'word'; columns have numbers from 1 to 2"),
        ("a.conll", "Ann B-who\n\nLee who\n", (), "line 3: label 'who' has no B- or I-"),
        ("a.jsonl", "{\n", (), "line 1: not JSON"),
        ("a.jsonl", '{"words": "Ann"}\n', (), "line 1: not an object such as"),
        ("a.jsonl", '{"words": ["Ann"], "labels": []}\n', (), "line 1: 1 words, but 0 labels"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, name: str, text: str, columns: tuple[str, ...], words: str) -> None:
    with pytest.raises(UserError, match=words):
        read_sentences([write(tmp_path, name, text)], *columns)
