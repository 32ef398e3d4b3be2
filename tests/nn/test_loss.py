"""The chunked loss against its formula and PyTorch's cross entropy, in value, gradient and memory."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from regard.nn import loss as module
from regard.nn.loss import smoothed_loss, smoothed_loss_plain

V, D, ROWS = 11, 5, 4


def tensors(n: int, dtype: torch.dtype, bias: bool) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    torch.manual_seed(n)
    hidden, weight = torch.randn(n, D, dtype=dtype, requires_grad=True), torch.randn(V, D, dtype=dtype)
    b = torch.randn(V, dtype=dtype).requires_grad_() if bias else None
    return hidden, weight.requires_grad_(), b, torch.randint(V, (n,))


def formula(hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, smoothing: float) -> Tensor:
    """-sum q log p, q = (1 - eps) one-hot + eps / V; section 5.4."""
    scores = hidden @ weight.T + (0 if bias is None else bias)
    log_p = scores - scores.exp().sum(1, keepdim=True).log()
    q = torch.eye(V, dtype=hidden.dtype)[target] * (1 - smoothing) + smoothing / V
    return -(q * log_p).sum()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("n", [1, ROWS - 1, ROWS, ROWS + 1, 2 * ROWS, 2 * ROWS + 1])
def test_chunked_is_the_formula(
    monkeypatch: pytest.MonkeyPatch, n: int, bias: bool, smoothing: float, dtype: torch.dtype
) -> None:
    monkeypatch.setattr(module, "CHUNK_ELEMENTS", ROWS * V)
    hidden, weight, b, target = tensors(n, dtype, bias)
    inputs = [t for t in (hidden, weight, b) if t is not None]
    loss, nll = smoothed_loss(hidden, weight, b, target, smoothing)
    expected = formula(hidden, weight, b, target, smoothing)
    assert loss.dtype == dtype
    assert_close(loss, expected)
    assert_close(nll, formula(hidden, weight, b, target, 0.0))
    assert_close(torch.autograd.grad(3 * loss, inputs), torch.autograd.grad(3 * expected, inputs))
    reference = F.cross_entropy(F.linear(hidden, weight, b), target, label_smoothing=smoothing, reduction="sum")
    assert_close(loss, reference)
    if dtype == torch.float32:
        assert_close((loss, nll), smoothed_loss_plain(hidden, weight, b, target, smoothing))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_without_tokens_there_is_no_gradient(smoothing: float) -> None:
    _, weight, bias, _ = tensors(1, torch.float32, True)
    hidden = torch.empty(0, D, requires_grad=True)
    dirty = [torch.full_like(weight, torch.nan) for _ in range(50)]
    del dirty  # what is allocated next is likely to hold it
    loss, nll = smoothed_loss(hidden, weight, bias, torch.empty(0, dtype=torch.long), smoothing)
    assert (float(loss.detach()), float(nll)) == (0, 0)
    assert all(not g.any() for g in torch.autograd.grad(loss, (weight, bias)))


def test_an_output_matrix_that_does_not_learn_costs_no_product() -> None:
    hidden, weight, _, target = tensors(6, torch.float32, False)
    expected = torch.autograd.grad(smoothed_loss(hidden, weight, None, target, 0.1)[0], hidden)
    fixed = weight.detach()
    with Watch() as watch:
        loss, _ = smoothed_loss(hidden, fixed, None, target, 0.1)
    assert sum(size == weight.numel() for size in watch.sizes) <= 1  # a view of the weights
    assert_close(torch.autograd.grad(loss, hidden), expected)


def test_gradients_are_those_of_finite_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_ELEMENTS", ROWS * V)
    hidden, weight, bias, target = tensors(6, torch.float64, True)
    torch.autograd.gradcheck(lambda h, w, b: smoothed_loss(h, w, b, target, 0.1)[0], (hidden, weight, bias))


def test_without_smoothing_both_numbers_are_the_negative_log_likelihood() -> None:
    hidden, weight, bias, target = tensors(9, torch.float64, True)
    loss, nll = smoothed_loss(hidden, weight, bias, target, 0.0)
    assert_close(loss, nll)
    assert_close(nll, F.nll_loss(F.linear(hidden, weight, bias).log_softmax(-1), target, reduction="sum"))
    assert not nll.requires_grad


def test_large_scores_do_not_overflow() -> None:
    hidden, weight, _, target = tensors(9, torch.float32, False)
    loss, _ = smoothed_loss(hidden * 1e4, weight, None, target, 0.1)
    assert torch.isfinite(loss)
    assert all(torch.isfinite(g).all() for g in torch.autograd.grad(loss, (hidden, weight)))


def test_under_autocast_it_is_the_plain_loss() -> None:
    hidden, weight, bias, target = tensors(9, torch.float32, True)
    with torch.autocast("cpu", torch.bfloat16):
        found = smoothed_loss(hidden, weight, bias, target, 0.1)
        assert_close(found, smoothed_loss_plain(hidden, weight, bias, target, 0.1))


class Watch(TorchDispatchMode):
    """The sizes of all tensors that operations make."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.sizes += [t.numel() for t in (out if isinstance(out, tuple) else (out,)) if isinstance(t, Tensor)]
        return out


def test_never_holds_all_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_ELEMENTS", ROWS * V)
    hidden, weight, bias, target = tensors(50, torch.float32, True)
    with Watch() as ours:
        smoothed_loss(hidden, weight, bias, target, 0.1)[0].backward()
    with Watch() as plain:
        smoothed_loss_plain(hidden, weight, bias, target, 0.1)[0].backward()
    assert max(ours.sizes) == max(hidden.numel(), weight.numel(), ROWS * V)
    assert max(plain.sizes) == 50 * V  # the watch sees what it should see


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_makes_no_gradient_that_nobody_asked_for(mode: Any) -> None:
    hidden, weight, bias, target = tensors(2, torch.float32, True)
    with mode(), Watch() as watch:
        smoothed_loss(hidden, weight, bias, target, 0.1)
    assert sum(size == weight.numel() for size in watch.sizes) <= 1  # a view of the weights, no gradient beside it


@pytest.mark.parametrize("bias", [False, True])
def test_a_wanted_token_with_no_probability_left_still_has_its_loss(bias: bool) -> None:
    """exp(-400) is zero in float32; the loss of such a token is 400, and its neighbours' are what they were."""
    hidden, weight = torch.eye(3, D), torch.zeros(V, D)
    weight[2, 0], weight[4, 0] = 300.0, -100.0
    b = torch.arange(V, dtype=torch.float32) if bias else None
    target = torch.tensor([4, 4, 0])
    loss, nll = smoothed_loss(hidden, weight, b, target, 0.1)
    scores = hidden.double() @ weight.double().T + (0 if b is None else b.double())
    expected = -scores.log_softmax(1)
    assert float(expected[0, 4]) > 390
    assert_close(nll.double(), expected.gather(1, target[:, None]).sum(), rtol=1e-6, atol=0)
    smoothed = 0.9 * expected.gather(1, target[:, None]).sum() + 0.1 * expected.mean(1).sum()
    assert_close(loss.double(), smoothed, rtol=1e-6, atol=0)
