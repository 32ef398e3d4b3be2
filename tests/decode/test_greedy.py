"""Greedy search against its plain twin, beam search of width one."""

import math
from typing import Any

import pytest
import torch
from decode.toys import Toy, fixed, ids, padded, table
from torch import Tensor

from regard.decode import DecodeOptions, Hypothesis, beam_search
from regard.decode.engine import Torch
from regard.decode.greedy import greedy, likeliest
from regard.errors import UserError
from regard.text import EOS

V = 12
SOURCES = [[4, 5, 3], [6, 3], [5, 5, 5, 4, 3], [7, 7, 3], [3]]


def both(models: list[Any], **options: Any) -> tuple[list[list[Hypothesis]], list[list[Hypothesis]]]:
    chosen = DecodeOptions(beam=1, **options)
    return greedy(models, *padded(SOURCES), chosen), beam_search(models, *padded(SOURCES), chosen)


@pytest.mark.parametrize(
    "options",
    [
        {"max_length": 20},
        {"max_length": 3},
        {"min_length": 6, "max_length": 9},
        {"no_repeat_ngram": 2, "max_length": 30},
        {"no_repeat_ngram": 1, "extra_length": 30},
        {"length_penalty": 0, "extra_length": 1},
    ],
    ids=str,
)
def test_it_finds_what_a_beam_of_one_finds(options: dict[str, Any]) -> None:
    lengths: set[int] = set()
    for seed in range(6):
        found, expected = both([Toy(table(V, seed))], **options)
        assert found == expected  # tokens, log-probabilities and scores, to the last bit
        lengths |= {len(group[0].tokens) for group in found}
    assert len(lengths) > 1 or options["max_length"] == 3


def test_an_ensemble() -> None:
    found, expected = both([Toy(table(V, 1)), Toy(table(V, 2))], max_length=12)
    assert found == expected
    assert ids(found) != ids(both([Toy(table(V, 1))], max_length=12)[0])


@pytest.mark.parametrize("members", [1, 2])
def test_without_scores_the_tokens_are_the_same(members: int) -> None:
    models = [Toy(table(V, seed)) for seed in range(members)]
    options = DecodeOptions(beam=1, max_length=15)
    bare = greedy(models, *padded(SOURCES), options, scored=False)
    assert ids(bare) == ids(greedy(models, *padded(SOURCES), options))
    assert all(math.isnan(h.score) and math.isnan(h.log_prob) for group in bare for h in group)


def test_a_row_that_nothing_can_follow_is_given_up() -> None:
    dead = Toy(fixed({4: 1.0}, V))  # neither another word nor the end has any probability
    for search in both([dead], no_repeat_ngram=1, max_length=8):
        assert search == [[] for _ in SOURCES]


@pytest.mark.parametrize("scored", [True, False])
@pytest.mark.parametrize("column", [0, 5])
def test_what_is_no_number_is_refused(column: int, scored: bool) -> None:
    def logits(source: Any, prefix: Any) -> list[float]:
        row = [math.nan if i == column and len(prefix) > 2 else float(-i) for i in range(V)]
        row[EOS] = -99.0
        return row

    with pytest.raises(UserError, match="not numbers"):
        greedy([Toy(logits)], *padded(SOURCES), DecodeOptions(beam=1, max_length=6), scored=scored)


def test_the_likeliest_is_where_pytorch_finds_it() -> None:
    scores = torch.randn(50, 1003, generator=torch.Generator().manual_seed(0))
    scores[7] = -torch.inf
    scores[7, 1002] = -1e30
    assert torch.equal(likeliest(scores), scores.argmax(-1))


def test_the_engine_is_greedy_with_a_beam_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Tensor:
        raise AssertionError("a beam for one hypothesis")

    monkeypatch.setattr("regard.decode.engine.beam_search", refuse)
    found = dict(Torch([Toy(table(V))]).decode([[4], [5, 6]], [0, 1], DecodeOptions(beam=1, max_length=5)))
    assert sorted(found) == [0, 1]
    assert all(EOS not in group[0].tokens for group in found.values())
