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
from regard.tasks.translation import Batch
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


def test_the_bits_depend_on_the_parts_and_not_on_the_cores(tmp_path: Path, pairs: Pairs, two_threads: None) -> None:
    runs = [run(pairs, tmp_path / name, steps=6, parts=2, threads=len(name)) for name in ("a", "bb", "cc")]
    for other in runs[1:]:
        assert all(torch.equal(runs[0][name], other[name]) for name in runs[0])


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


def test_a_batch_is_cut_by_rows() -> None:
    batch = Batch.of([(np.arange(5, 5 + n), np.arange(9, 9 + n)) for n in (1, 2, 3, 4, 5)])
    parts = batch.cut(3)
    assert [len(part.source) for part in parts] == [1, 2, 2]
    assert torch.equal(torch.cat([part.target_out for part in parts]), batch.target_out)
    assert sum(part.count for part in parts) == batch.count
    assert len(batch.cut(9)) == 5


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
