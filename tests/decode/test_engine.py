"""Batches of inputs and the engine that runs them: nothing is lost, and the cores change no result."""

import math
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from decode.toys import Toy, echo, in_order
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.decode import DecodeOptions, Hypothesis
from regard.decode.engine import Torch, batched
from regard.models import Transformer, TransformerConfig

LENGTHS = st.lists(st.integers(1, 60), min_size=1, max_size=60)


@given(lengths=LENGTHS, tokens=st.integers(1, 400), workers=st.integers(1, 6))
@settings(max_examples=200, deadline=None)
def test_every_input_once_within_the_budget_beside_its_like(lengths: list[int], tokens: int, workers: int) -> None:
    batches = batched(lengths, tokens, workers)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    sizes = [lengths[i] for batch in batches for i in batch]
    assert sizes == sorted(sizes, reverse=True)  # the longest first, so that the last batch to end is a short one
    for batch in batches:
        padded = len(batch) * max(lengths[i] for i in batch)
        assert padded <= tokens or len(batch) == 1


@given(lengths=LENGTHS, tokens=st.integers(1, 400))
@settings(max_examples=200, deadline=None)
def test_there_are_no_more_batches_than_there_must(lengths: list[int], tokens: int) -> None:
    filled: list[list[int]] = []
    for length in sorted(lengths, reverse=True):
        if not filled or filled[-1][0] * (len(filled[-1]) + 1) > tokens:
            filled.append([])
        filled[-1].append(length)
    assert len(batched(lengths, tokens, 1)) == len(filled)


@given(lengths=LENGTHS.filter(lambda lengths: len(lengths) >= 2), tokens=st.integers(1, 10_000))
@settings(max_examples=100, deadline=None)
def test_two_workers_both_have_work(lengths: list[int], tokens: int) -> None:
    assert len(batched(lengths, tokens, 2)) >= 2


@pytest.mark.parametrize(("lengths", "workers", "largest"), [([2] * 8, 5, 2), ([2] * 5, 5, 1), ([100, 2, 2], 3, 1)])
def test_few_inputs_are_shared_among_many_workers(lengths: list[int], workers: int, largest: int) -> None:
    assert max(map(len, batched(lengths, 1024, workers))) == largest


@pytest.mark.parametrize(
    ("count", "workers", "sizes"), [(800, 2, [100] * 8), (900, 2, [90] * 10), (250, 1, [84, 84, 82])]
)
def test_batches_are_alike_and_as_many_for_each_worker(count: int, workers: int, sizes: list[int]) -> None:
    assert [len(batch) for batch in batched([10] * count, 1000, workers)] == sizes


# --- one core and two -----------------------------------------------------------------------------------------------


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def inputs() -> list[list[int]]:
    g = torch.Generator().manual_seed(0)
    return [torch.randint(4, 20, (n,), generator=g).tolist() for n in (3, 17, 1, 8, 8, 2, 30, 5)]


def model() -> Transformer:
    torch.manual_seed(4)
    made = Transformer(
        TransformerConfig(
            d_model=16, d_ff=32, heads=2, encoder_layers=2, decoder_layers=2, source_vocabulary=20, target_vocabulary=20
        )
    )
    with torch.no_grad():
        made.output.mul_(2)  # sharper, so that near-ties are rare
    return made


def decoded(**options: Any) -> tuple[int, list[list[Hypothesis]]]:
    engine = Torch([model()])
    found = in_order(engine.decode(inputs(), range(8), DecodeOptions(extra_length=6, **options)))
    engine.workers.close()
    return engine.workers.count, found


@pytest.mark.parametrize("options", [{"beam": 1}, {"beam": 4, "n_best": 4}, {"sample": True, "n_best": 2}], ids=str)
def test_the_same_on_one_core_and_on_two(options: dict[str, Any], two_threads: None) -> None:
    two, side_by_side = decoded(**options)
    torch.set_num_threads(1)
    one, in_turn = decoded(**options)
    assert (one, two) == (1, 2)
    for a, b in zip(in_turn, side_by_side, strict=True):
        assert [h.tokens for h in a] == [h.tokens for h in b]
        assert [h.score for h in a] == pytest.approx([h.score for h in b], abs=1e-4)


def test_two_workers_share_the_batches(two_threads: None) -> None:
    """Each waits at its first step until the other is at its own: they run side by side or not at all."""
    together = threading.Barrier(2, timeout=30)
    met = threading.local()
    write = echo(20)

    def logits(source: Any, prefix: Any) -> Any:
        if not hasattr(met, "once"):
            met.once = together.wait()
        return write(source, prefix)

    engine = Torch([Toy(logits)])
    found = in_order(engine.decode(inputs(), range(8), DecodeOptions(beam=1)))
    engine.workers.close()
    assert [list(group[0].tokens) for group in found] == inputs()  # each at its own place


@pytest.mark.parametrize("count", [1, 2])
def test_one_sentence_stays_in_the_calling_thread_and_several_do_not(count: int, two_threads: None) -> None:
    seen: set[int] = set()
    write = echo(20)

    def logits(source: Any, prefix: Any) -> Any:
        seen.add(threading.get_ident())
        return write(source, prefix)

    engine = Torch([Toy(logits)])
    found = in_order(engine.decode(inputs()[:count], range(count), DecodeOptions(beam=1)))
    engine.workers.close()
    assert [list(group[0].tokens) for group in found] == inputs()[:count]
    assert (threading.get_ident() in seen) == (count == 1)  # which has all cores, as the workers have one each


def test_scores_that_nobody_asks_for_are_left_out_of_a_greedy_search() -> None:
    engine, options = Torch([Toy(echo(20))]), DecodeOptions(beam=1)
    bare, scored = (in_order(engine.decode([[5, 6]], [0], options, scored=asked))[0][0] for asked in (False, True))
    assert bare.tokens == scored.tokens == (5, 6)
    assert math.isnan(bare.score)
    assert math.isfinite(scored.score)


def test_no_inputs_and_an_empty_one() -> None:
    engine = Torch([Toy(echo(20))])
    assert not list(engine.decode([], [], DecodeOptions()))
    found = in_order(engine.decode([[], [5]], [0, 1], DecodeOptions(beam=1)))
    assert [group[0].tokens for group in found] == [(), (5,)]
