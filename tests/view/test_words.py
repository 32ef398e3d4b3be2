"""Tokens become words, and words become something that can be seen."""

import numpy as np
import pytest

from regard.text import Tokenizer
from regard.view.matrix import clearest, information, merge
from regard.view.words import END, START, groups, labels, word


def words(tokens: list[str]) -> list[str]:
    return [word([tokens[i] for i in group]) for group in groups(tokens)]


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([" the", " un", "believ", "able", ".", END], ["the", "unbelievable", ".", END]),
        ([" didn", "'", "t", " go"], ["didn't", "go"]),
        ([" (", "a", ")", " 1", "9", "8"], ["(", "a", ")", "198"]),
        ([" ", "c", "a", "t", " ", "i", "s"], ["cat", "is"]),
        ([" ma", "⟨C3⟩", "⟨B1⟩", "ana"], ["mañana"]),
        ([" हि", "न्दी", " है"], ["हिन्दी", "है"]),
        ([" 我", "喜欢", "猫"], ["我", "喜欢", "猫"]),
        ([START, "<unk>", "<unk>", " dog"], [START, "<unk>", "<unk>", "dog"]),
        ([" <", "unk", ">"], ["<", "unk", ">"]),
        (["⟨C3⟩", " a", "b"], ["�", "a", "b"]),
        ([" ", "\t"], [" \t"]),
        ([END], [END]),
    ],
)
def test_words_are_found(tokens: list[str], expected: list[str]) -> None:
    assert words(tokens) == expected


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char", "byte", "word"])
def test_every_kind_of_tokenizer_gives_the_same_words(kind: str) -> None:
    text = "the señor can't see the niño, can he?"
    tokenizer = Tokenizer.learn([text] * 5, kind=kind, size=280)
    tokens = [*tokenizer.surface(tokenizer.encode(text)), END]
    assert words(tokens) == ["the", "señor", "can't", "see", "the", "niño", ",", "can", "he", "?", END]
    assert [i for group in groups(tokens) for i in group] == list(range(len(tokens)))


def test_labels_have_no_spaces_and_mark_what_goes_on() -> None:
    tokens = [" un", "able", " ", "\n", "\x00", "a\x85b"]
    assert labels(tokens, [[0, 1], [2], [3], [4], [5]]) == ["un", "·able", "␣", "␊", "␀", "a�b"]


def test_merging_sums_over_keys_and_averages_over_queries() -> None:
    weights = np.array([[0.1, 0.2, 0.7], [0.5, 0.3, 0.2]])
    merged = merge(weights, [(0, 1)], [(0,), (1, 2)])
    np.testing.assert_allclose(merged, [[0.3, 0.7]])


def test_the_clearest_layer_is_neither_flat_nor_stuck() -> None:
    flat = np.full((4, 4), 0.25)
    stuck = np.eye(4)[[3, 3, 3, 3]]  # sharp, but every query looks at the last key
    clear = 0.9 * np.eye(4) + 0.025
    np.testing.assert_allclose(information(np.stack([flat, stuck, np.eye(4)])), [0, 0, 2], atol=1e-9)
    assert clearest(np.stack([flat, stuck, clear, flat])[:, None]) == 2
