"""The fused steps against the modules they stand for: the same values, the same gradients, fewer passes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

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


MEMORY = torch.randn(B, T + 2, D, generator=torch.Generator().manual_seed(3))
MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[Any, ...]]] = {
    "feed-forward": (lambda: FeedForward(D, FF, "relu", 0.0), ()),
    "self-attention": (lambda: MultiHead(D, 2, Full(), bias=True), (None, Mask(causal=True))),
    "attention over a memory": (lambda: MultiHead(D, 2, Full(), bias=False), (MEMORY, Mask())),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules_take_the_fused_way_and_get_what_the_plain_way_gives(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(1)
    (make, more), x = MODULES[name], torch.randn(B, T, D)
    module, arguments = make(), (x, *more)
    learned = list(module.parameters())
    found = module(*arguments)
    assert "Linears" in told(found) or "FeedForwardBackward" in told(found)
    for where in ("regard.nn.fused.fuses", "regard.nn.blocks.fuses", "regard.nn.attention.multihead.fuses"):
        monkeypatch.setattr(where, lambda *_: False)
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


@pytest.mark.parametrize("made", [("gelu", 0.0), ("relu2", 0.0), ("relu", 0.5)])
def test_another_activation_or_dropout_within_stays_plain(made: tuple[str, float]) -> None:
    torch.manual_seed(1)
    layer = FeedForward(D, FF, *made).train()
    assert "FeedForwardBackward" not in told(layer(torch.randn(B, T, D)))


def test_where_it_fuses() -> None:
    x, watched = torch.zeros(1), nn.Linear(1, 1)
    assert fuses(x, watched)
    watched.register_forward_hook(lambda *_: None)
    assert not fuses(x, watched)
    for listens in ("forward_pre_hook", "full_backward_hook", "full_backward_pre_hook"):
        other = nn.Linear(4, 4)
        getattr(other, f"register_{listens}")(lambda *_: None)
        assert not fuses(x, other), listens
    assert not fuses(x, nn.Sequential())
    with torch.no_grad():
        assert not fuses(x)
    with torch.autocast("cpu", torch.bfloat16):
        assert not fuses(x)
    assert not fuses(x.to("meta"))


class Watch(TorchDispatchMode):
    """The tensors of one shape that operations make, by operation; those given to fill do not count."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape, self.made = shape, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        given = [*args, *(kwargs or {}).values()]
        if isinstance(out, Tensor) and out.shape == self.shape and not any(out is tensor for tensor in given):
            self.made += 1
        return out


def test_the_activation_works_in_place() -> None:
    """Of the inner width there is one tensor forward, the activation's, and one backward, its gradient."""
    x, inner, outer = torch.randn(T, D, requires_grad=True), nn.Linear(D, FF), nn.Linear(FF, D)
    with Watch((T, FF)) as ours:
        feed_forward(x, inner, outer).sum().backward()
    with Watch((T, FF)) as plain:
        outer(inner(x).relu()).sum().backward()
    assert ours.made == 2
    assert plain.made > 2  # the watch sees what it should see
