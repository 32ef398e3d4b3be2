"""Compiled matrix products against PyTorch's: the same values, and only where they may stand in."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product as pairs
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from regard.nn import loss, native
from regard.nn.fused import feed_forward, linears
from regard.nn.loss import smoothed_loss, smoothed_loss_plain
from regard.nn.native.build import CannotBuild, described, library
from regard.nn.product import affine, mm

has_avx2 = pytest.mark.skipif("avx2" not in described("flags"), reason="the products are written for AVX2")


class Calls:
    """Counts the products that are ours."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, *arguments: Any, **options: Any) -> bool:
        done = MULTIPLY(*arguments, **options)
        self.count += done
        return done


MULTIPLY = native.multiply


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("native")
    try:
        library(place)
    except CannotBuild as why:
        pytest.skip(str(why))
    return place


@pytest.fixture
def calls(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Calls]:
    """Our products are chosen, whatever the processor, for one thread and for matrices of any size."""
    threads, counted = torch.get_num_threads(), Calls()
    monkeypatch.setattr(native, "_slow_library", lambda: True)
    monkeypatch.setattr(native, "LEAST", 1)
    monkeypatch.setattr(native, "multiply", counted)
    torch.set_num_threads(1)
    try:
        with native.compiled(folder) as why:
            assert not why
            yield counted
    finally:
        torch.set_num_threads(threads)


def matrix(rows: int, columns: int, layout: str) -> Tensor:
    if layout == "turned":
        return torch.randn(columns, rows).t()
    if layout == "part":  # of a wider one
        return torch.randn(rows, columns + 3)[:, 1 : columns + 1]
    return torch.randn(rows, columns)


LAYOUTS = ("plain", "turned", "part")
# Around the widths of tiles (6 and 16), of vectors (8), of blocks (240 rows, 256 inner), and far from all.
SIZES = ((1, 1, 1), (5, 7, 15), (6, 8, 16), (7, 9, 17), (14, 300, 37), (241, 257, 33), (260, 24, 50), (487, 520, 64))


@has_avx2
@pytest.mark.parametrize(("left", "right"), list(pairs(LAYOUTS, LAYOUTS)))
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_a_product_is_the_product(sizes: tuple[int, int, int], left: str, right: str, calls: Calls) -> None:
    torch.manual_seed(1)
    rows, inner, columns = sizes
    a, b, c = matrix(rows, inner, left), matrix(inner, columns, right), torch.randn(rows, columns)
    wanted = a.double() @ b.double()
    close = {"rtol": 1e-5, "atol": 1e-4}
    with torch.no_grad():
        assert_close(mm(a, b).double(), wanted, **close)
        place = torch.full((rows, columns), torch.nan)  # what stood there is not read
        assert mm(a, b, place) is place
        assert_close(place.double(), wanted, **close)
        summed = c.clone()
        assert mm(a, b, summed, add=True) is summed
        assert_close(summed.double(), c.double() + wanted, **close)
    assert calls.count == 3


@has_avx2
def test_nothing_beside_the_product_is_written_or_read(calls: Calls) -> None:
    """What surrounds the matrices is no number: read, it would spread; the room around the product stays as it was."""
    torch.manual_seed(1)
    for rows, inner, columns in SIZES:
        for turned in (False, True):
            a, b = (torch.full((h + 2, w + 8), torch.nan) for h, w in ((rows, inner), (inner, columns)))
            inside = [x[1:-1, 4:-4] for x in (a, b)]
            for x in inside:
                x.normal_()
            if turned:
                whole = [torch.full((x.size(1) + 2, x.size(0) + 8), torch.nan) for x in inside]
                for place, x in zip(whole, inside, strict=True):
                    place[1:-1, 4:-4] = x.t()
                inside = [place[1:-1, 4:-4].t() for place in whole]
            out = torch.full((rows + 2, columns), 7.0)
            with torch.no_grad():
                mm(*inside, out[1:-1])
            assert_close(out[1:-1].double(), inside[0].double() @ inside[1].double(), rtol=1e-5, atol=1e-4)
            assert (out[[0, -1]] == 7).all()
    assert calls.count == 2 * len(SIZES)


@has_avx2
def test_what_is_not_a_number_stays_so(calls: Calls) -> None:
    a, b = torch.ones(20, 30), torch.ones(30, 20)
    a[3, 4], b[7, 5] = torch.nan, torch.inf
    with torch.no_grad():
        found = mm(a, b)
    assert calls.count == 1
    assert found[3].isnan().all()
    assert found[[i for i in range(20) if i != 3], 5].isinf().all()
    assert found.isfinite().sum() == 19 * 19


@has_avx2
def test_it_stands_in_where_it_may_alone(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = torch.randn(6, 4), torch.randn(4, 5)
    with torch.no_grad():
        mm(a.double(), b.double())
        mm(a[:, ::2], b[::2])  # no step of one either way
        mm(a[:, :1].expand(6, 4), b)
        mm(a[:0], b)
        assert_close(mm(a[:, :0], b[:0]), torch.zeros(6, 5))
        wide = torch.zeros(6, 9)
        mm(a, b, wide[:, :5])
        assert_close(wide[:, :5], a @ b)
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            mm(a, b[:3])
        torch.set_num_threads(2)
        mm(a, b)
        torch.set_num_threads(1)
        monkeypatch.setattr(native, "LEAST", 5)
        mm(a, b)
        monkeypatch.setattr(native, "LEAST", 1)
    mm(a.requires_grad_(), b).sum().backward()  # type: ignore[no-untyped-call]
    assert a.grad is not None
    assert calls.count == 0
    with torch.no_grad():
        mm(a, b)
    assert calls.count == 1


def gradients(total: Tensor, inputs: list[Tensor], **options: bool) -> tuple[Tensor, ...]:
    return torch.autograd.grad(total, inputs, **options)  # type: ignore[arg-type]


@has_avx2
def test_layers_and_loss_go_through_it_and_learn_the_same(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "CHUNK_ELEMENTS", 33)  # three tokens of eleven at a time, so three times
    torch.manual_seed(1)
    x, target = torch.randn(7, 16, requires_grad=True), torch.randint(0, 11, (7,))
    layers = [nn.Linear(16, 16), nn.Linear(16, 16, bias=False)]
    inner, outer, last = nn.Linear(16, 32), nn.Linear(32, 16), nn.Linear(16, 11)
    learned = [x, *(p for layer in (*layers, inner, outer, last) for p in layer.parameters())]
    hidden = feed_forward(sum(linears(x, *layers)), inner, outer)
    ours, _ = smoothed_loss(hidden, last.weight, last.bias, target, 0.1)
    found = gradients(ours, learned)
    assert calls.count == (2 + 4) + (2 + 4) + 3 * 3  # forward and backward of two and two layers, and of the output
    hidden = outer(inner(layers[0](x) + layers[1](x)).relu())
    plain, _ = smoothed_loss_plain(hidden, last.weight, last.bias, target, 0.1)
    assert_close(ours, plain)
    assert_close(found, gradients(plain, learned), rtol=1e-4, atol=1e-6)


@has_avx2
def test_a_gradient_of_a_gradient_is_right(calls: Calls) -> None:
    torch.manual_seed(1)
    x, layer = torch.randn(5, 8, requires_grad=True), nn.Linear(8, 8)
    found = []
    for y in (linears(x, layer)[0], layer(x)):
        (slope,) = gradients(y.tanh().sum(), [x], create_graph=True)
        found.append(gradients(slope.square().sum(), [x, layer.weight]))
    assert_close(*found)
    assert calls.count  # forward


@has_avx2
def test_threads_do_not_disturb_each_other(calls: Calls) -> None:
    torch.manual_seed(1)
    a, b = torch.randn(100, 300), torch.randn(300, 70)
    with torch.no_grad():
        alone = mm(a, b)

    def work(_: int) -> bool:
        torch.get_num_threads()  # a thread's first question sets it to the process's number
        torch.set_num_threads(1)
        with torch.no_grad():
            return all(torch.equal(mm(a, b), alone) for _ in range(50))

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(8)))


@has_avx2
def test_without_memory_pytorch_does_it(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_call", lambda *_: 0)
    x, weight, bias = torch.randn(6, 4), torch.randn(5, 4), torch.randn(5)
    with torch.no_grad():
        assert_close(affine(x, weight, bias), torch.addmm(bias, x, weight.t()))
        assert_close(mm(x, weight.t()), x @ weight.t())
    assert calls.count == 0


@pytest.mark.parametrize(
    ("processor", "ours"),
    [
        ("vendor_id : AuthenticAMD\nflags : fma avx2", True),
        ("vendor_id : AuthenticAMD\nflags : fma avx2 avx512f", False),
        ("vendor_id : GenuineIntel\nflags : fma avx2", False),
        ("", False),
    ],
)
def test_the_processor_decides(processor: str, ours: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda *_: processor)
    assert native._slow_library() is ours
