"""Compiled matrix products, in float32 and in whole numbers: PyTorch's values, and only where they may stand in.

What whole numbers may be off by follows from how they are made, of a row and a column scaled to a length of 32,000.
"""

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
from regard.workers import no_denormals

NEEDED = {"float32": "avx2", "int16": "avx512_vnni"}


class Calls:
    """Counts the products that are ours."""

    def __init__(self, kind: str) -> None:
        self.count, self.kind = 0, kind

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


@pytest.fixture(params=NEEDED)
def calls(folder: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Calls]:
    """Our products are chosen, whatever the processor, for one thread and for matrices of any size."""
    if NEEDED[request.param] not in described("flags"):
        pytest.skip(f"the products in {request.param} are written for {NEEDED[request.param]}")
    threads, counted = torch.get_num_threads(), Calls(request.param)
    monkeypatch.setattr(native, "_slow_library", lambda: True)
    monkeypatch.setattr(native, "LEAST", 1)
    monkeypatch.setattr(native, "multiply", counted)
    torch.set_num_threads(1)
    try:
        with native.compiled(folder, request.param) as why:
            assert not why
            assert native.products() == request.param
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
# Around the widths of tiles (6 and 16, 12 and 32), of vectors (8, 16), of blocks (240 rows, 256 or 512 inner), and far
# from all.
SIZES = (
    (1, 1, 1), (5, 7, 15), (6, 8, 16), (7, 9, 17), (12, 2, 32), (13, 3, 33), (14, 300, 37), (24, 512, 64),
    (241, 257, 33), (260, 24, 50), (487, 520, 64), (25, 1031, 95),
)  # fmt: skip


def assert_near(found: Tensor, a: Tensor, b: Tensor, kind: str, more: Tensor | float = 0) -> None:
    """found = a b + more, as near as it has to be.

    A line of K whole numbers is off by less than sqrt(K) / 2 units, a 32,000th of its length each: what two lines make
    is off by the product of their lengths times that, at most. On average a number is off by sqrt(1 / 12).
    """
    wanted = a.double() @ b.double() + more
    if kind == "float32":
        assert_close(found.double(), wanted, rtol=1e-5, atol=1e-4)
        return
    lengths = a.double().norm(dim=1, keepdim=True) * b.double().norm(dim=0)
    off = (found.double() - wanted) / lengths
    rounding = 1e-6  # of what is float32 outside: the sum, and scales
    assert off.abs().max() <= min(a.size(1), 512) ** 0.5 / 32_000 + rounding
    if found.numel() > 500:  # of few it means little
        assert off.square().mean().sqrt() <= 1.1 * (2 / 12) ** 0.5 / 32_000 + rounding


@pytest.mark.parametrize(("left", "right"), list(pairs(LAYOUTS, LAYOUTS)))
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_a_product_is_the_product(sizes: tuple[int, int, int], left: str, right: str, calls: Calls) -> None:
    torch.manual_seed(1)
    rows, inner, columns = sizes
    a, b, c = matrix(rows, inner, left), matrix(inner, columns, right), torch.randn(rows, columns)
    with torch.no_grad():
        assert_near(mm(a, b), a, b, calls.kind)
        place = torch.full((rows, columns), torch.nan)  # what stood there is not read
        assert mm(a, b, place) is place
        assert_near(place, a, b, calls.kind)
        summed = c.clone()
        assert mm(a, b, summed, add=True) is summed
        assert_near(summed, a, b, calls.kind, c)
    assert calls.count == 3


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
            assert_near(out[1:-1], *inside, calls.kind)
            assert (out[[0, -1]] == 7).all()
    assert calls.count == 2 * len(SIZES)


def test_what_is_not_a_number_stays_so(calls: Calls) -> None:
    a, b = torch.ones(20, 30), torch.ones(30, 20)
    a[3, 4], b[7, 5] = torch.nan, torch.inf
    with torch.no_grad():
        found = mm(a, b)
    assert calls.count == 1
    assert found[3].isnan().all()
    assert not found[:, 5].isfinite().any()
    assert found.isfinite().sum() == 19 * 19


def test_zeros_make_zero_and_sizes_do_not_matter(calls: Calls) -> None:
    """Each row and each column has a scale of its own: none is lost beside another, and none is divided by zero."""
    torch.manual_seed(1)
    a, b = torch.randn(40, 100), torch.randn(100, 40)
    a[0], b[:, 1] = 0, 0
    a *= torch.logspace(-15, 15, 40)[:, None]
    b *= torch.logspace(12, -12, 40)
    with torch.no_grad():
        found = mm(a, b)
    assert calls.count == 1
    assert not found[0].any()
    assert not found[:, 1].any()
    lengths = a.double().norm(dim=1, keepdim=True) * b.double().norm(dim=0)
    assert (found.double() - a.double() @ b.double()).abs().div(lengths)[1:, 2:].max() < 100**0.5 / 32_000


def test_the_largest_sums_do_not_overflow(calls: Calls) -> None:
    """A row and a column that point the same way: no sum is larger, however the numbers are spread."""
    with torch.no_grad():
        for row in (torch.ones(512), torch.eye(512)[0], torch.arange(512.0), -torch.ones(512)):
            a = row.expand(13, 512).contiguous()
            assert_close(mm(a, a.t()), a @ a.t(), rtol=1e-3, atol=0)
    assert calls.count == 4


def test_lines_too_short_to_be_measured_do_not_overflow(calls: Calls) -> None:
    """Without subnormal numbers most of a row's squares vanish, and the row would seem shorter than it is."""
    row, column = torch.full((32, 512), 1e-19), torch.ones(512, 32)
    row[:, 0], column[0] = 1.1e-18, 11.0
    with torch.no_grad(), no_denormals():
        found = mm(row, column)
    if calls.kind == "int16":
        assert (found == 0).all()
    else:
        assert_close(found, row @ column)


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
        assert native.products(2) == "float32"
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
    if calls.kind == "float32":
        assert_close(ours, plain)
        assert_close(found, gradients(plain, learned), rtol=1e-4, atol=1e-6)
    else:
        assert_close(ours, plain, rtol=1e-4, atol=0)
        for one, other in zip(found, gradients(plain, learned), strict=True):
            assert (one - other).norm() < 1e-3 * other.norm()


def test_what_is_scored_is_not_rounded(calls: Calls) -> None:
    torch.manual_seed(1)
    hidden, layer, target = torch.randn(7, 16), nn.Linear(16, 11), torch.randint(0, 11, (7,))
    with torch.no_grad():
        ours, nll = smoothed_loss(hidden, layer.weight, layer.bias, target, 0.1)
        assert_close((ours, nll), smoothed_loss_plain(hidden, layer.weight, layer.bias, target, 0.1))
    assert calls.count == 0


def test_a_gradient_of_a_gradient_is_right(calls: Calls) -> None:
    torch.manual_seed(1)
    x, layer = torch.randn(5, 8, requires_grad=True), nn.Linear(8, 8)
    found = []
    for y in (linears(x, layer)[0], layer(x)):
        (slope,) = gradients(y.tanh().sum(), [x], create_graph=True)
        found.append(gradients(slope.square().sum(), [x, layer.weight]))
    assert_close(*found, **({} if calls.kind == "float32" else {"rtol": 1e-3, "atol": 1e-3}))
    assert calls.count  # forward


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
