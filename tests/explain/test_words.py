"""A text is cut, hidden and explained as its reader would expect."""

import subprocess
import sys

import numpy as np
import pytest

from regard.errors import UserError
from regard.explain import text
from regard.explain.words import Pieces

FILM = "not a good film, but not a bad one either."


def count(texts: list[str]) -> list[list[float]]:
    return [[t.count("good") - t.count("bad"), float("not" in t)] for t in texts]


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ("I don't know.", ["I", " don't", " know", "."]),
        ("  two  spaces ", ["  two", "  spaces "]),
        ("我喜歡你", ["我", "喜", "歡", "你"]),
        ("a\nb\tc", ["a", "\nb", "\tc"]),
        ("e\u0301tude 👍🏽", ["e\u0301tude", " 👍🏽"]),
    ],
)
def test_words(given: str, parts: list[str]) -> None:
    assert list(Pieces.of(given).parts) == parts


def test_hidden_words_are_taken_away_or_filled() -> None:
    masks = np.array([[1, 1, 1, 1], [0, 1, 1, 0], [1, 0, 1, 1], [0, 0, 0, 0]], dtype=float)
    assert Pieces.of("I don't know.").masked(masks) == ["I don't know.", "don't know", "I know.", ""]
    filled = Pieces.of("I don't know.", filler="[MASK]").masked(masks)
    assert filled == ["I don't know.", "[MASK] don't know[MASK]", "I [MASK] know.", "[MASK] [MASK] [MASK][MASK]"]
    assert Pieces.of(" a b ", filler="_").masked(np.zeros((1, 2))) == ["_ _ "]
    assert Pieces.of("aa b", filler="_").masked(np.array([[0.0, 1.0]])) == ["_ b"]


def test_it_says_which_words_count() -> None:
    found = text(count, FILM, masks=600)
    assert found.places == ("not", "a", "good", "film", ",", "but", "not", "a", "bad", "one", "either", ".")
    assert found.rows == ("score 1", "score 2")
    assert found.top(0, 1)[0] == ("good", pytest.approx(1, abs=0.05))
    assert found.places[found.values[0].argmin()] == "bad"
    second = found.values[1]
    np.testing.assert_allclose(second[[0, 6]], 0.5, atol=0.1)  # either "not" does, so each makes half the difference
    assert found.saliency.whole[1] == 1


def test_characters_and_ones_own_pieces() -> None:
    letters = text(lambda texts: ["b" in t for t in texts], "abc", by="characters", masks=100)
    assert letters.places == ("a", "b", "c")
    assert letters.top(0, 1)[0][0] == "b"
    halves = text(lambda texts: [t == "ab" for t in texts], "abcd", by=lambda t: [t[:2], t[2:]], masks=100)
    assert halves.places == ("ab", "cd")
    assert halves.values[0, 1] < 0 < halves.values[0, 0]


def test_names_and_plan() -> None:
    found = text(count, FILM, names=["tone", "denial"], masks=50, seed=4)
    assert found.rows == ("tone", "denial")
    assert found.saliency.masks == 50
    assert found.to_dict()["rows"][0]["label"] == "tone"


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        ("  ", {}, "no text"),
        ("a b", {"by": "sentences"}, "words or characters"),
        ("a b", {"by": str.split}, "keep every character"),
        ("a b", {"names": ["one"]}, "1 names for 2 scores"),
        ("a b", {"mask": 3}, "no option 'mask'"),
    ],
)
def test_mistakes_are_told(given: str, options: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        text(count, given, **options)  # type: ignore[arg-type]


def test_curves_beat_chance() -> None:
    found = text(count, FILM, masks=600)
    for curves in found.curves(orders=20):
        assert curves.deletion.auc < np.mean(curves.deletion.random)
        assert curves.insertion.auc > np.mean(curves.insertion.random)


def test_a_black_box_needs_no_torch() -> None:
    """And naming the package needs not even numpy."""
    script = """
import sys, regard.explain
assert "numpy" not in sys.modules
from regard.explain import Endpoint, image, text
text(lambda texts: [len(t) for t in texts], "a b c", masks=8)
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)
