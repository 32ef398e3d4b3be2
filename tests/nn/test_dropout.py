"""Dropout: the right share, the exact scale, every random byte used, replayed by its seed."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close

from regard.nn.dropout import Dropout, keep_mask

COUNT = 1 << 17


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_share_and_scale(p: float) -> None:
    torch.manual_seed(0)
    mask = keep_mask(torch.empty(COUNT), p)
    keep = round((1 - p) * 256) / 256
    assert abs(keep - (1 - p)) <= 0.5 / 256
    values = mask.unique()
    assert_close(values, torch.tensor([0, 1 / keep]))
    kept = float((mask > 0).float().mean())
    assert abs(kept - keep) < 5 * (keep * (1 - keep) / COUNT) ** 0.5


def test_a_tiny_share_keeps_nearly_all_and_a_huge_one_something() -> None:
    torch.manual_seed(0)
    assert float((keep_mask(torch.empty(COUNT), 0.001) > 0).float().mean()) > 0.99
    assert 0 < float((keep_mask(torch.empty(COUNT), 0.999) > 0).float().mean()) < 0.01


def test_statistics_are_those_of_pytorchs_dropout() -> None:
    torch.manual_seed(0)
    x = torch.ones(COUNT)
    ours, theirs = x * keep_mask(x, 0.5), F.dropout(x, 0.5)
    assert float(ours.mean()) == pytest.approx(float(theirs.mean()), abs=0.02)
    assert float(ours.var()) == pytest.approx(float(theirs.var()), abs=0.02)


def drawn_bytes(count: int) -> Tensor:
    """The bytes behind a mask: a byte b is kept by just those thresholds k of 1 .. 255 that are above it."""
    kept = torch.zeros(count, dtype=torch.int64)
    for threshold in range(1, 256):
        torch.manual_seed(0)
        kept += keep_mask(torch.empty(count), 1 - threshold / 256) > 0
    return 255 - kept


def check_every_lane() -> None:
    lanes = drawn_bytes(1 << 15).view(-1, 8)
    for lane in lanes.T:
        counts = torch.bincount(lane, minlength=256)
        assert int(counts.min()) > 0, "a byte value never comes up"
        expected = lane.numel() / 256
        assert float(((counts - expected) ** 2 / expected).sum()) < 255 + 6 * (2 * 255) ** 0.5  # chi-square, 6 sigma
    assert abs(float(torch.corrcoef(lanes.T.double()).fill_diagonal_(0).abs().max())) < 6 / len(lanes) ** 0.5


def test_every_byte_of_every_lane_is_uniform() -> None:
    check_every_lane()


def test_the_check_above_would_notice_a_missing_sign_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = torch.Tensor.random_
    monkeypatch.setattr(torch.Tensor, "random_", lambda self, *bounds, **options: plain(self))
    with pytest.raises(AssertionError, match="never comes up"):
        check_every_lane()


@pytest.mark.parametrize("shape", [(1,), (7,), (8,), (3, 5), (2, 3, 4)])
def test_replayed_by_its_seed_in_every_shape(shape: tuple[int, ...]) -> None:
    x, layer = torch.randn(shape), Dropout(0.4)
    torch.manual_seed(5)
    first = layer(x)
    torch.manual_seed(5)
    assert torch.equal(layer(x), first)
    assert first.shape == x.shape


def test_two_draws_differ() -> None:
    torch.manual_seed(0)
    x = torch.ones(64)
    assert not torch.equal(keep_mask(x, 0.5), keep_mask(x, 0.5))


def test_identity_without_dropout_and_in_evaluation() -> None:
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    state = torch.get_rng_state()
    for layer in (Dropout(0.0), Dropout(0.5).eval()):
        assert torch.equal(layer(x), x)
        assert torch.equal(layer.add(x, y), x + y)
    assert torch.equal(torch.get_rng_state(), state)  # nothing was drawn


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_add_is_x_plus_dropout_of_y(dtype: torch.dtype) -> None:
    x, y, layer = torch.randn(9, 9, dtype=dtype), torch.randn(9, 9, dtype=dtype), Dropout(0.3)
    torch.manual_seed(2)
    expected = x + layer(y)
    torch.manual_seed(2)
    assert_close(layer.add(x, y), expected)


def test_the_gradient_passes_where_the_value_did() -> None:
    x = torch.randn(200, requires_grad=True)
    torch.manual_seed(3)
    Dropout(0.3)(x).sum().backward()
    torch.manual_seed(3)
    assert x.grad is not None
    assert torch.equal(x.grad, keep_mask(x, 0.3))
