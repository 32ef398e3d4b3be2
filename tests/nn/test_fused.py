"""The fused steps against the modules they stand for: the same values, the same gradients, fewer passes."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from regard.nn import fused
from regard.nn.attention import Full, Mask, MultiHead
from regard.nn.blocks import FeedForward
from regard.nn.fused import feed_forward, fuses, linears

B, T, D, FF = 3, 5, 8, 12


def gradients(outputs: Tensor | tuple[Tensor, ...], inputs: list[Tensor]) -> tuple[Tensor, ...]:
    torch.manual_seed(2)
    given = (outputs,) if isinstance(outputs, Tensor) else outputs
    return torch.autograd.grad(sum((o * torch.randn_like(o)).sum() for o in given), inputs)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("layers", [1, 3])
def test_linears_are_the_layers_one_by_one(layers: int, bias: bool) -> None:
    torch.manual_seed(1)
    x = torch.randn(B, T, D, dtype=torch.float64, requires_grad=True)
    maps = [nn.Linear(D, D + i, bias=bias, dtype=torch.float64) for i in range(layers)]
    inputs = [x, *(p for layer in maps for p in layer.parameters())]
    ours, plain = linears(x, *maps), tuple(layer(x) for layer in maps)
    assert_close(ours, plain)
    assert_close(gradients(ours, inputs), gradients(plain, inputs))


def test_feed_forward_is_the_two_layers() -> None:
    torch.manual_seed(1)
    x = torch.randn(B, T, D, dtype=torch.float64, requires_grad=True)
    inner, outer = nn.Linear(D, FF, dtype=torch.float64), nn.Linear(FF, D, dtype=torch.float64)
    inputs = [x, *inner.parameters(), *outer.parameters()]
    ours, plain = feed_forward(x, inner, outer), outer(inner(x).relu())
    assert_close(ours, plain)
    assert_close(gradients(ours, inputs), gradients(plain, inputs))


def test_what_does_not_learn_gets_no_gradient() -> None:
    """A frozen layer below, or frozen weights: the rest has the gradient it has without."""
    torch.manual_seed(1)
    x = torch.randn(T, D)
    first, second = nn.Linear(D, D), nn.Linear(D, D)
    first.weight.requires_grad_(False)
    second.bias.requires_grad_(False)
    learned = [first.bias, second.weight]
    assert_close(gradients(linears(x, first, second), learned), gradients((first(x), second(x)), learned))
    y, outer = x.clone().requires_grad_(), nn.Linear(D, D).requires_grad_(False)
    assert_close(
        gradients(feed_forward(y, first, outer), [y, first.bias]), gradients(outer(first(y).relu()), [y, first.bias])
    )


@pytest.mark.parametrize("make", [lambda: FeedForward(D, FF, "relu", 0.0), lambda: MultiHead(D, 2, Full(), bias=True)])
def test_modules_take_the_fused_way_only_where_gradients_are_made(
    make: Callable[[], nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(1)
    module, x = make(), torch.randn(B, T, D)
    arguments = (x,) if isinstance(module, FeedForward) else (x, None, Mask(causal=True))
    learned = list(module.parameters())
    found = module(*arguments)
    assert "Linears" in told(found) or "FeedForwardBackward" in told(found)
    for where in ("regard.nn.blocks.fuses", "regard.nn.attention.multihead.fuses"):
        monkeypatch.setattr(where, lambda _: False)
    plain = module(*arguments)
    assert "Linears" not in told(plain)
    assert "FeedForwardBackward" not in told(plain)
    assert_close(found, plain)
    assert_close(gradients(found, learned), gradients(plain, learned))


def told(out: Tensor) -> str:
    """The names of the steps that a gradient goes through."""
    seen, left = set(), [out.grad_fn]
    while left:
        step = left.pop()
        if step is not None and step not in seen:
            seen.add(step)
            left += [before for before, _ in step.next_functions]
    return " ".join(step.name() for step in seen)


def test_where_it_fuses() -> None:
    x = torch.zeros(1)
    assert fuses(x)
    with torch.no_grad():
        assert not fuses(x)
    with torch.autocast("cpu", torch.bfloat16):
        assert not fuses(x)
    assert not fuses(x.to("meta"))


def test_the_activation_makes_no_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The inner layer's output is held once: what backward keeps is what the activation made in its place."""
    x, inner, outer = torch.randn(T, D, requires_grad=True), nn.Linear(D, FF), nn.Linear(FF, D)
    kept: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        feed_forward(x, inner, outer)
    assert [t.shape for t in kept].count((T, FF)) == 1
    assert fused.__doc__
