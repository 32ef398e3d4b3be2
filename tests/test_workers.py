"""Batches computed in parts: the same gradient, the same bits on any number of cores, the same after a resume."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import small_recipe
from safetensors.torch import load_file
from torch import Tensor
from torch.testing import assert_close

from regard.bundle import load_bundle
from regard.config import load_recipe, make_recipe
from regard.nn.dropout import drawing, keep_mask
from regard.tasks.task import shares
from regard.tasks.translation import Batch
from regard.text import PAD
from regard.training.session import train
from regard.workers import Workers, parts_for

Pairs = list[tuple[str, str]]


@pytest.fixture
def two_threads() -> Iterator[None]:
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


def run(pairs: Pairs, out: Path, dropout: float = 0.3, *, resume: bool = False, **settings: Any) -> dict[str, Tensor]:
    tree = small_recipe(**settings)
    tree["model"] |= {"dropout": dropout, "attention_dropout": dropout}
    train(make_recipe(tree), out, pairs=pairs[:200], dev=pairs[200:], resume=resume)
    return load_file(out / "checkpoints" / f"step-{settings['steps']:08d}" / "weights.safetensors")


def test_parts_add_up_to_the_whole(tmp_path: Path, pairs: Pairs) -> None:
    one = run(pairs, tmp_path / "one", dropout=0.0, steps=3, parts=1)
    three = run(pairs, tmp_path / "three", dropout=0.0, steps=3, parts=3)
    assert not all(torch.equal(one[name], three[name]) for name in one)  # they were computed differently
    for name in one:
        assert_close(three[name], one[name], rtol=1e-3, atol=1e-5)


def test_of_more_parts_than_cores_not_all_gradients_lie_in_memory(
    tmp_path: Path, pairs: Pairs, two_threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regard.training.update import Update

    held: list[int] = []
    add = Update._add
    monkeypatch.setattr(Update, "_add", lambda update, found: held.append(len(found)) or add(update, found))  # type: ignore[func-returns-value]
    two = run(pairs, tmp_path / "two", steps=3, parts=5, threads=2)
    assert set(held) == {2, 1}
    one = run(pairs, tmp_path / "one", steps=3, parts=5, threads=1)
    assert all(torch.equal(one[name], two[name]) for name in one)  # they are added in their order


def test_the_bits_depend_on_the_parts_and_not_on_the_cores(tmp_path: Path, pairs: Pairs, two_threads: None) -> None:
    runs = [run(pairs, tmp_path / name, steps=6, parts=2, threads=len(name)) for name in ("a", "bb", "cc")]
    for other in runs[1:]:
        assert all(torch.equal(runs[0][name], other[name]) for name in runs[0])


def test_all_of_an_update_is_done_on_one_core_each(
    tmp_path: Path, pairs: Pairs, two_threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where cores share every small operation, one that another program keeps busy holds up each of them."""
    seen: list[tuple[int, int]] = []

    def watched(name: str) -> None:
        real = getattr(torch, name)

        def call(*args: Any, **keys: Any) -> Any:
            seen.append((threading.get_ident(), torch.get_num_threads()))
            return real(*args, **keys)

        monkeypatch.setattr(torch, name, call)

    for name in ("_foreach_norm", "_foreach_mul_", "_foreach_lerp_"):  # norm, clipping, average and Muon's momentum
        watched(name)
    step = torch.optim.AdamW.step
    monkeypatch.setattr(torch.optim.AdamW, "step", lambda self: seen.append((0, torch.get_num_threads())) or step(self))
    run(pairs, tmp_path / "run", steps=2, parts=2, threads=2, clip=0.01, ema=0.9, optimizer="muon")
    assert len(seen) >= 2 * 2 * 4
    assert {threads for _, threads in seen} == {1}
    assert threading.get_ident() not in {thread for thread, _ in seen}
    assert len({thread for thread, _ in seen if thread}) == 2


def test_a_run_keeps_its_parts_when_it_goes_on(tmp_path: Path, pairs: Pairs) -> None:
    whole = run(pairs, tmp_path / "whole", steps=6, parts=2)
    run(pairs, tmp_path / "cut", steps=3, parts=2)
    gone_on = run(pairs, tmp_path / "cut", steps=6, parts=0, resume=True)
    assert all(torch.equal(whole[name], gone_on[name]) for name in whole)
    assert load_recipe(tmp_path / "cut" / "recipe.toml").train.parts == 2
    assert load_bundle(tmp_path / "cut" / "model").training["recipe"]["train"]["parts"] == 2


def test_a_run_that_chose_its_parts_keeps_them_on_fewer_cores(tmp_path: Path, pairs: Pairs, two_threads: None) -> None:
    run(pairs, tmp_path / "cut", steps=2, batch_tokens=2048, threads=2)
    assert load_recipe(tmp_path / "cut" / "recipe.toml").train.parts == 2
    gone_on = run(pairs, tmp_path / "cut", steps=4, batch_tokens=2048, threads=1, resume=True)
    whole = run(pairs, tmp_path / "whole", steps=4, batch_tokens=2048, threads=1, parts=2)
    assert all(torch.equal(whole[name], gone_on[name]) for name in whole)


def test_a_batch_is_cut_by_work_and_each_part_has_no_more_padding_than_it_needs() -> None:
    lengths = [(2, 1), (2, 2), (4, 5), (5, 4), (6, 4)]  # work, with the ends: 5, 6, 11, 11, 12
    batch = Batch.of([(np.arange(5, 5 + s), np.arange(9, 9 + t)) for s, t in lengths])
    parts, first = batch.cut(3), 0
    assert [len(part.source) for part in parts] == [2, 2, 1]
    for part in parts:
        rows = slice(first, first := first + len(part.source))
        for ours, whole in (
            (part.source, batch.source), (part.target_in, batch.target_in), (part.target_out, batch.target_out)
        ):  # fmt: skip
            width = ours.size(1)
            assert torch.equal(ours, whole[rows, :width])
            assert bool((whole[rows, width:] == PAD).all())
            assert bool((ours[:, -1] != PAD).any())
        real = [s + 1 for s, _ in lengths[rows]]
        assert (part.lengths is None) == (len(set(real)) == 1)
        assert part.lengths is None or part.lengths.tolist() == real
        assert part.count == sum(t + 1 for _, t in lengths[rows])
    assert len(batch.cut(9)) == 5


@pytest.mark.parametrize(
    ("work", "parts", "rows"),
    [
        ([1, 1, 1, 1], 2, [2, 2]),
        ([4, 6, 1], 2, [1, 2]),  # 4 and 7, not 10 and 1
        ([9, 1, 1], 3, [1, 1, 1]),
        ([1, 1, 9], 2, [2, 1]),
        ([9, 1, 1, 1], 2, [1, 3]),
        ([1, 1], 5, [1, 1]),
        ([3], 2, [1]),
    ],
)
def test_parts_are_of_like_work(work: list[float], parts: int, rows: list[int]) -> None:
    found = shares(work, parts)
    assert [part.stop - part.start for part in found] == rows
    assert [i for part in found for i in range(len(work))[part]] == list(range(len(work)))


def test_small_batches_stay_whole() -> None:
    assert parts_for(batch_tokens=256, threads=8) == 1
    assert parts_for(batch_tokens=4096, threads=2) == 2
    assert parts_for(batch_tokens=4096, threads=64) == 4


def test_results_come_in_order_and_from_threads_of_their_own(two_threads: None) -> None:
    workers = Workers(2)
    together = threading.Barrier(2, timeout=10)  # passes only if both run at the same time

    def work(number: int) -> tuple[int, int, int]:
        together.wait()
        return number, torch.get_num_threads(), threading.get_ident()

    (first, threads, a), (second, _, b) = list(workers.map(work, [7, 8]))
    workers.close()
    assert (first, second, threads) == (7, 8, 1)
    assert len({a, b, threading.get_ident()}) == 3
    assert torch.get_num_threads() == 2


def test_results_come_in_order_although_the_first_ends_last(two_threads: None) -> None:
    workers, last_ended = Workers(2), threading.Event()

    def work(number: int) -> int:
        if number == 7:
            assert last_ended.wait(10)
            return number
        last_ended.set()
        return number

    assert list(workers.map(work, [7, 8])) == [7, 8]
    workers.close()


def test_an_error_in_a_part_comes_out(two_threads: None) -> None:
    workers = Workers(2)
    with pytest.raises(ZeroDivisionError):
        list(workers.map(lambda n: 1 / n, [1, 0]))
    assert list(workers.map(lambda n: 1 / n, [1, 2])) == [1.0, 0.5]
    workers.close()


def test_threads_draw_from_generators_of_their_own() -> None:
    x, drawn = torch.ones(4096), {}
    both = threading.Barrier(2, timeout=10)

    def draw(seed: int) -> None:
        with drawing(torch.Generator().manual_seed(seed)):
            both.wait()
            drawn[seed] = [keep_mask(x, 0.5) for _ in range(20)]

    threads = [threading.Thread(target=draw, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in (1, 2):
        with drawing(torch.Generator().manual_seed(seed)):
            assert all(torch.equal(mask, keep_mask(x, 0.5)) for mask in drawn[seed])


def test_a_generator_is_drawn_from_inside_alone() -> None:
    x = torch.ones(4096)
    generator = torch.Generator().manual_seed(1)
    with drawing(generator):
        keep_mask(x, 0.5)
    before = generator.get_state()
    keep_mask(x, 0.5)
    assert torch.equal(generator.get_state(), before)


def flushed(_: Any = None) -> bool:
    return not (torch.full((64,), 1e-30) * 1e-10).any()


def test_what_decays_towards_zero_becomes_zero_in_training_and_only_there(
    tmp_path: Path, pairs: Pairs, two_threads: None
) -> None:
    """Numbers below 1e-38 take a CPU many times as long as others; momentum without gradient ends there."""
    workers = Workers(2)
    assert list(workers.map(flushed, [0, 1])) == [True, True]
    workers.close()
    seen: list[bool] = []
    watch = [lambda _: seen.append(flushed())]
    train(make_recipe(small_recipe(steps=1)), tmp_path / "run", pairs=pairs[:200], dev=pairs[200:], callbacks=watch)
    assert seen
    assert all(seen)
    assert not flushed()
