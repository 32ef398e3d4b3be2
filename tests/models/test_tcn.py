"""TCN: against its equation and its receptive field."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from regard.models import TCN, TCNConfig
from regard.models.tcn import SIZES
from regard.nn.initial import Unfilled

SMALL: dict[str, Any] = {
    "d_model": 6, "width": 8, "layers": 3, "kernel": 2, "dropout": 0.0, "embedding_dropout": 0.0, "vocabulary": 11,
}  # fmt: skip
OPTIONS = [
    {"kernel": k, "width": w, "weight_norm": n, "tie": n}
    for k, w, n in itertools.product((2, 3), (6, 8), (False, True))
]


def make(**options: Any) -> TCN:
    """A model in double precision whose every weight is random, biases too."""
    torch.manual_seed(0)
    model = TCN(TCNConfig(**{**SMALL, **options}))
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(0.1, 0.4)
    return model.double().eval()


def some_tokens(rows: int, length: int) -> Tensor:
    return torch.randint(11, (rows, length), generator=torch.Generator().manual_seed(0))


def equations(model: TCN, tokens: list[int]) -> Tensor:
    """States of one text (T D) from the weights alone: F(s) = b + sum_i f(i) x(s - d i), a token at a time."""
    xs = [model.tokens.weight[token] for token in tokens]
    for number, block in enumerate(model.layers):
        apart, ys = 2**number, xs
        for conv in (block.first, block.second):
            w, b = conv.linear.weight, conv.linear.bias  # the oldest of the k inputs stands first
            size = w.size(1) // conv.kernel
            out = []
            for s in range(len(ys)):
                total = b
                for i in range(conv.kernel):
                    if s - apart * i >= 0:
                        place = conv.kernel - 1 - i
                        total = total + w[:, place * size : (place + 1) * size] @ ys[s - apart * i]
                out.append(total.clamp(min=0))
            ys = out
        xs = [(block.through(x) + y).clamp(min=0) for x, y in zip(xs, ys, strict=True)]
    return torch.stack(xs)


@pytest.mark.parametrize("options", OPTIONS)
def test_forward_is_the_equations(options: dict[str, Any]) -> None:
    model, tokens = make(**options), some_tokens(2, 12)
    with torch.inference_mode():
        found = model(tokens)
        for row, ids in zip(found, tokens.tolist(), strict=True):
            assert_close(row, equations(model, ids), rtol=0, atol=1e-9)
        assert_close(model.for_decoding()(tokens), found)


@pytest.mark.parametrize("kernel", [2, 3])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_state_sees_its_receptive_field_and_no_more(kernel: int, layers: int) -> None:
    """By gradient: what the last state depends on, and that no state depends on what comes after it."""
    model = make(kernel=kernel, layers=layers)
    field = model.config.field
    assert field == 1 + sum(2 * (kernel - 1) * 2**i for i in range(layers))
    tokens = some_tokens(1, field + 6)
    seen: list[Tensor] = []
    model.dropout.register_forward_hook(lambda *call: seen.append(call[2].requires_grad_()))
    with torch.no_grad():
        for p in model.parameters():
            p.abs_()  # no ReLU is closed
    states = model(tokens)
    place = field + 2
    (gradient,) = torch.autograd.grad(states[0, place].sum(), seen[0])
    reached = gradient[0].abs().sum(-1).nonzero().flatten().tolist()
    assert reached == list(range(place - field + 1, place + 1))


@pytest.mark.parametrize("options", [*OPTIONS, *SIZES.values()])
def test_parameters_in_closed_form(options: dict[str, Any]) -> None:
    config = TCNConfig(**options)
    with torch.device("meta"), Unfilled():
        assert sum(p.numel() for p in TCN(config).parameters()) == config.parameters()
