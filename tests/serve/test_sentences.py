"""Sentences and what stands between them."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.serve.sentences import LONGEST, cut, whole


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three? Four", ("One.", "Two!", "Three?", "Four")),
        ("One line\nanother line\r\n\n  third", ("One line", "another line", "third")),
        ("Mr. Smith met Dr. Jones. They spoke.", ("Mr. Smith met Dr. Jones.", "They spoke.")),
        ("Use e.g. Paris or the U.S. Army.", ("Use e.g. Paris or the U.S. Army.",)),
        ("am 3. Oktober 1990. Danach", ("am 3. Oktober 1990.", "Danach")),
        ("He said “no.” Then he left.", ("He said “no.”", "Then he left.")),
        ("wait... what", ("wait... what",)),
        ("version 2.0 is out", ("version 2.0 is out",)),
        ("你好。再见！", ("你好。", "再见！")),
        ("12 + 3 = 15\n***\n- - -", ()),
        ("", ()),
        (" \n ", ()),
    ],
)
def test_where_sentences_end(text: str, sentences: tuple[str, ...]) -> None:
    assert cut(text).sentences == sentences


@given(st.text(alphabet="ab.!? \n\t。\"'1A") | st.text())
def test_put_together_again_it_is_the_text(text: str) -> None:
    found = cut(text)
    assert found.filled(found.sentences) == text
    assert all(s == s.strip() and "\n" not in s for s in found.sentences)
    assert whole(text).filled(whole(text).sentences) == text


@pytest.mark.parametrize("text", ["word " * 1000, "字" * 3500, "a" * 2500 + "  \t b", "x" * 1000, "ab \u2003cd " * 500])
def test_what_is_too_long_to_be_a_sentence_comes_in_parts(text: str) -> None:
    found = cut(text)
    assert max(map(len, found.sentences)) <= LONGEST
    assert found.filled(found.sentences) == text
    assert len(found.sentences) == -(-len(text.strip()) // LONGEST)
    if " " in text.strip() and "aaa" not in text:
        assert all(text[text.index(s) + len(s)] == " " for s in found.sentences[:-1])  # no word is cut


@pytest.mark.parametrize("unit", [".", "a. ", ".'", " .", "\n", "…!?", "a\n", "a", "a ", "a     "])
def test_it_takes_linear_time(unit: str) -> None:
    start = time.process_time()
    cut(unit * (50_000 // len(unit)))
    assert time.process_time() - start < 2  # in square time it would be minutes
