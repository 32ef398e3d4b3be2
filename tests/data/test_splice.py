"""Sentences made of others: new, like them, and as many as asked for."""

from itertools import pairwise

import pytest

from regard.data.splice import spliced
from regard.errors import UserError

LINES = [
    "a man in a blue shirt is reading a book .",
    "a dog in a blue boat looks at the sea .",
    "two women read a book in a small garden .",
    "the dog is in a small house by the sea .",
    "a child looks at the sea with a small dog .",
]


def test_new_sentences_of_old_pairs_of_words() -> None:
    made = list(spliced(LINES, 12, seed=3))
    assert len(set(made)) == 12
    assert not set(made) & set(LINES)
    known = {pair for line in LINES for pair in pairwise(line.split())}
    for text in made:
        words = text.split()
        assert set(pairwise(words)) <= known
        assert any(line.split()[:2] == words[:2] for line in LINES)  # begins as one of them
        assert any(line.split()[-2:] == words[-2:] for line in LINES)  # and ends as one


def test_a_seed_says_which() -> None:
    assert list(spliced(LINES, 8, 1)) == list(spliced(LINES, 8, 1)) != list(spliced(LINES, 8, 2))


def test_spaces_do_not_make_a_sentence_new() -> None:
    with pytest.raises(UserError, match="0 new sentences"):
        list(spliced(["a b  c d", " a b c d"], 1))


@pytest.mark.parametrize("lines", [[], ["alone"], ["no two alike here", "nor any over there"], ["一句话", "另一句"]])
def test_where_nothing_is_shared_it_says_so(lines: list[str]) -> None:
    with pytest.raises(UserError, match="0 new sentences were found, not 5"):
        list(spliced(lines, 5))


def test_what_there_is_comes_before_the_refusal() -> None:
    found = spliced(["a b c d", "x b c y"], 3)
    assert sorted([next(found), next(found)]) == ["a b c y", "x b c d"]
    with pytest.raises(UserError, match="2 new sentences were found, not 3"):
        next(found)
