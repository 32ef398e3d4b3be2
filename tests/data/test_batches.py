"""Each pair once per epoch, within the budget, with little padding, in an order that resumes exactly."""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batches import ROUNDS, Batches, bucketed, permuted
from regard.data.cache import TokenCache
from regard.errors import UserError
from regard.text import Tokenizer


class Lengths:
    """Stands in for a token cache: batches ask for nothing but lengths."""

    def __init__(self, source: np.ndarray, target: np.ndarray) -> None:
        self.source, self.target = source.astype(np.int64), target.astype(np.int64)
        self.longest = (int(source.max()), int(target.max()))

    def __len__(self) -> int:
        return len(self.source)

    def lengths(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.source[indices], self.target[indices]


def corpus(size: int, seed: int = 0) -> Lengths:
    """Log-normal lengths, correlated between the sides as in translations."""
    rng = np.random.default_rng(seed)
    source = np.clip(rng.lognormal(2.8, 0.5, size), 1, 100).astype(int)
    target = np.clip(source * rng.lognormal(0.1, 0.2, size), 1, 100).astype(int)
    return Lengths(source, target)


def make(cache: object, tokens: int = 400, seed: int = 1, **options: int) -> Batches:
    return Batches(cache, tokens, seed, **options)  # type: ignore[arg-type]


def epoch_of(batches: Batches) -> list[list[int]]:
    current, found = batches.epoch, []
    while batches.epoch == current:
        found.append(next(batches).tolist())
    return found


@given(size=st.integers(1, 700), pool=st.integers(1, 300), seed=st.integers(0, 2**40), tokens=st.integers(101, 2000))
@settings(max_examples=80, deadline=None)
def test_each_pair_once_per_epoch_within_the_budget(size: int, pool: int, seed: int, tokens: int) -> None:
    cache = corpus(size)
    batches = make(cache, tokens, seed, pool=pool)
    for _ in range(2):
        epoch = epoch_of(batches)
        assert sorted(i for batch in epoch for i in batch) == list(range(size))
        for batch in epoch:
            source, target = cache.lengths(np.array(batch))
            assert len(batch) * (max(source.max(), target.max()) + 1) <= tokens


@given(size=st.integers(1, 5000), key=st.integers(0, 2**64 - 1))
@settings(max_examples=100, deadline=None)
def test_the_permutation_is_one(size: int, key: int) -> None:
    keys = np.random.PCG64(key).random_raw(ROUNDS)
    assert sorted(permuted(np.arange(size, dtype=np.uint64), size, keys).tolist()) == list(range(size))


def test_the_permutation_looks_random() -> None:
    size = 100_003
    keys = np.random.PCG64(5).random_raw(ROUNDS)
    order = permuted(np.arange(size, dtype=np.uint64), size, keys)
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.02
    assert abs(np.corrcoef(order, np.arange(size))[0, 1]) < 0.02
    parts = np.histogram(order[: size // 10], bins=10, range=(0, size))[0]  # the first tenth comes from everywhere
    assert parts.min() > 0.9 * size / 100
    assert parts.max() < 1.1 * size / 100


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    cache = corpus(500)
    first, again, other = make(cache, seed=1), make(cache, seed=1), make(cache, seed=2)
    epochs = [epoch_of(first) for _ in range(3)]
    assert [epoch_of(again) for _ in range(3)] == epochs
    assert epochs[0] != epochs[1] != epochs[2]
    assert epoch_of(other) != epochs[0]


def test_the_order_is_what_it_was() -> None:
    # A run that was started with an older Regard resumes with this one: the order is part of the format.
    numbers = np.arange(60)
    batches = make(Lengths(numbers % 11 + 1, numbers % 7 + 1), 120, seed=7)
    assert [next(batches).tolist() for _ in range(3)] == [
        [52, 30, 8, 42, 9, 31, 53, 20, 54, 32],
        [10, 43, 21],
        [0, 56, 1, 22, 44, 23, 2, 57, 35, 14, 36, 58, 3, 24, 45, 11, 46, 25, 4, 59],
    ]


@pytest.mark.parametrize("pool", [100, 128, 1 << 16])
def test_restored_is_uninterrupted(pool: int) -> None:
    cache = corpus(500)
    whole = make(cache, 300, pool=pool)
    stream, states = [], [whole.state()]
    while whole.epoch < 3:  # every state there is: mid-pool, pool end, epoch end
        stream.append(next(whole).tolist())
        states.append(whole.state())
    assert len({state["pool"] for state in states}) == -(-500 // pool)
    for at in range(0, len(states) - 5, 3 if pool > 500 else 1):
        resumed = make(cache, 300, pool=pool)
        resumed.restore(states[at])
        assert resumed.state() == states[at]
        assert [batch.tolist() for batch in islice(resumed, 5)] == stream[at : at + 5]


def test_the_state_at_an_epochs_end_is_the_next_epochs_start() -> None:
    batches = make(corpus(50))
    epoch_of(batches)
    assert (batches.epoch, batches.state()) == (1, {"epoch": 1, "pool": 0, "batch": 0})


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"epoch": 0, "pool": 9, "batch": 0},
        {"epoch": 0, "pool": 0, "batch": 10**6},
        {"epoch": -1, "pool": 0, "batch": 0},
    ],
)
def test_a_state_of_other_data_is_refused(state: dict[str, int]) -> None:
    with pytest.raises(UserError, match="state"):
        make(corpus(50)).restore(state)


def test_little_padding() -> None:
    assert make(corpus(60_000), 4096).padding() < 0.05
    assert make(corpus(20_000), 2048).padding() < 0.05


def test_batches_are_full_and_not_sorted() -> None:
    cache = corpus(20_000)
    batches = make(cache, 2048)
    epoch = epoch_of(batches)
    widths = [int(max(side.max() for side in cache.lengths(np.array(batch)))) + 1 for batch in epoch]
    filled = np.array([len(batch) * width for batch, width in zip(epoch, widths, strict=True)])
    assert filled.mean() > 0.9 * 2048
    assert abs(np.corrcoef(widths[:-1], widths[1:])[0, 1]) < 0.2


def test_a_sentence_above_the_budget_is_named() -> None:
    with pytest.raises(UserError, match=r"has 101 tokens .* batch of 100; raise the tokens per batch to 101"):
        make(Lengths(np.array([3, 100]), np.array([3, 4])), 100)
    make(Lengths(np.array([3, 100]), np.array([3, 4])), 101)


def test_bucketed_alone() -> None:
    lengths = np.array([9, 1, 8, 1, 50])
    found = bucketed(lengths, 20)
    assert [sorted(batch.tolist()) for batch in found] == [[1, 3], [0, 2], [4]], "a giant travels alone"
    assert bucketed(np.array([], dtype=np.int64), 20) == []


def test_batches_of_a_real_cache(tmp_path: Path) -> None:
    tokenizer = Tokenizer.learn([], "byte")
    pairs = [("a" * (i % 20 + 1), "b" * (i % 13 + 1)) for i in range(100)]
    cache = TokenCache.build(tmp_path / "c", pairs, tokenizer, tokenizer, max_length=30, facts={})
    epoch = epoch_of(Batches(cache, 100, 3))
    assert sorted(i for batch in epoch for i in batch) == list(range(100))


def test_ten_million_pairs_need_no_array_of_that_size() -> None:
    class Vast:
        longest = (20, 20)

        def __len__(self) -> int:
            return 10_000_019

        def lengths(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            assert len(indices) <= 1 << 16
            return indices % 20 + 1, indices % 19 + 1

    seen = np.concatenate(list(islice(make(Vast(), 4096), 900)))
    assert len(np.unique(seen)) == len(seen)
    assert seen.max() < 10_000_019
