"""IBM model 1: it converges to what the words of a toy corpus mean, and its likelihood never falls."""

import numpy as np
import pytest

from regard.align import IBM1, both_ways, owed, same_places

TOY = [("the house", "das haus"), ("the book", "das buch"), ("a book", "ein buch")]
PAIRS = [(s.split(), t.split()) for s, t in TOY]


def plain(pairs: list[tuple[list[str], list[str]]], iterations: int) -> dict[tuple[str, str], float]:
    """Brown 1993 by dictionaries, word by word: the reference."""
    seen = {(f, e) for source, target in pairs for e in ["", *source] for f in target}
    t = {(f, e): 1 / len({g for g, x in seen if x == e}) for f, e in seen}
    for _ in range(iterations):
        counts = dict.fromkeys(t, 0.0)
        for source, target in pairs:
            for f in target:
                total = sum(t[f, e] for e in ["", *source])
                for e in ["", *source]:
                    counts[f, e] += t[f, e] / total
        t = {(f, e): c / sum(d for (_, x), d in counts.items() if x == e) for (f, e), c in counts.items()}
    return t


@pytest.mark.parametrize("iterations", [0, 1, 7])
def test_it_is_the_plain_algorithm(iterations: int) -> None:
    pairs = [*PAIRS, (["the", "the"], ["das"]), (["a"], ["ein", "ein", "haus"])]  # words twice, sides of other lengths
    model, expected = IBM1(pairs, iterations), plain(pairs, iterations)
    for (f, e), p in expected.items():
        assert model.probability(f, e) == pytest.approx(p, abs=1e-12)


def test_it_converges_to_the_meaning_of_words() -> None:
    model = IBM1(PAIRS, 50)
    for source, target in (("the", "das"), ("house", "haus"), ("book", "buch"), ("a", "ein")):
        assert model.probability(target, source) > 0.9, (source, target)
    assert IBM1(PAIRS, 1).probability("das", "the") == pytest.approx(0.5)


def test_the_likelihood_never_falls_and_settles() -> None:
    found = IBM1(PAIRS, 200).log_likelihood
    steps = np.diff(found)
    assert len(found) == 200
    assert (steps >= -1e-12).all()
    assert steps[0] > 0.1 > 1e-4 > steps[-1]


def test_a_matrix_shares_each_target_word_among_the_source_words_and_the_empty_one() -> None:
    model = IBM1(PAIRS, 30)
    found = model.matrix(["the", "book"], ["buch", "das"])
    assert found.shape == (2, 2)
    assert found.argmax(1).tolist() == [1, 0]
    assert (found.sum(1) <= 1 + 1e-12).all()
    expected = [model.probability("buch", e) for e in ("", "the", "book")]
    assert found[0].tolist() == pytest.approx([p / sum(expected) for p in expected[1:]])


def test_words_never_seen_are_owed_to_all_alike() -> None:
    model = IBM1(PAIRS, 5)
    assert model.matrix(["the", "book"], ["pferd"]).tolist() == [[pytest.approx(1 / 3)] * 2]
    assert model.matrix(["horse"], ["das"])[0, 0] == 0  # the empty word's, which it was seen with
    assert model.probability("pferd", "the") == model.probability("das", "horse") == 0
    assert IBM1([]).matrix(["the"], ["das"]).tolist() == [[0.5]]


def test_what_both_directions_find_is_kept() -> None:
    forward, backward = np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([[0.7, 0.3], [0.4, 0.6]])
    assert both_ways(forward, backward).tolist() == [[True, False], [False, False]]
    assert same_places(forward, backward) == 1


def test_a_word_that_comes_from_nowhere_has_no_link() -> None:
    """What is left to 1 is the empty word's."""
    forward, backward = np.array([[0.9, 0.05], [0.02, 0.01]]), np.array([[0.8, 0.1], [0.4, 0.6]])
    assert owed(forward).tolist() == [True, False]
    assert both_ways(forward, backward).tolist() == [[True, False], [False, False]]
    assert both_ways(np.eye(2) * 0.9, np.array([[0.8, 0.1], [0.1, 0.2]])).tolist() == [[True, False], [False, False]]
