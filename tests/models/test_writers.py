"""What every network that guesses each token from those before it must keep, whatever its name and options."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from regard.models import MODELS

GPT: dict[str, Any] = {"d_model": 8, "d_ff": 12, "heads": 2, "layers": 2, "dropout": 0.0, "max_positions": 24}
TCN: dict[str, Any] = {"d_model": 6, "layers": 3, "dropout": 0.0, "embedding_dropout": 0.0}
CASES: list[tuple[str, dict[str, Any]]] = [
    *(
        ("gpt", GPT | {"norm": norm, "positions": positions, "tie": tie})
        for norm, positions, tie in itertools.product(
            ("pre", "post"), ("learned", "rotary", "sinusoidal", "none"), (False, True)
        )
    ),
    *(
        ("tcn", TCN | {"kernel": kernel, "width": width, "weight_norm": normed, "tie": normed})
        for kernel, width, normed in itertools.product((2, 3), (6, 8), (False, True))
    ),
]


def make(name: str, options: dict[str, Any]) -> Any:
    """In double precision, with every weight random."""
    torch.manual_seed(0)
    model = MODELS[name](MODELS[name].Config(**options, vocabulary=11))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.1, 0.4)
    return model.double().eval()


def some_tokens(rows: int, length: int) -> Tensor:
    return torch.randint(11, (rows, length), generator=torch.Generator().manual_seed(0))


def test_none_is_left_out() -> None:
    writing = {name for name, model in MODELS.items() if "language" in model.tasks and hasattr(model, "step")}
    assert {name for name, _ in CASES} == writing


@pytest.mark.parametrize(("name", "options"), CASES)
def test_the_future_changes_nothing_and_the_past_does(name: str, options: dict[str, Any]) -> None:
    model, tokens = make(name, options), some_tokens(1, 9)
    other = tokens.clone()
    other[0, 5] = (other[0, 5] + 1) % 11
    with torch.inference_mode():
        a, b = model(tokens), model(other)
    assert torch.equal(a[:, :5], b[:, :5])
    assert all(not torch.allclose(a[:, t], b[:, t]) for t in range(5, 9))


@pytest.mark.parametrize("cuts", [[1] * 20, [4, 1, 15], [20]])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_steps_are_the_forward_pass(name: str, options: dict[str, Any], cuts: list[int]) -> None:
    model, tokens = make(name, options), some_tokens(3, 20)
    state, done = model.start(model.encode(tokens)), 0
    with torch.inference_mode():
        whole = model(tokens) @ model.output.T
        for cut in cuts:
            done += cut
            logits, state = model.step(tokens[:, done - cut : done], state)
            assert_close(logits, whole[:, done - 1], rtol=0, atol=1e-9)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_rows_of_a_state_can_be_chosen(name: str, options: dict[str, Any]) -> None:
    model, tokens, chosen = make(name, options), some_tokens(3, 16), torch.tensor([2, 0, 0, 1])
    with torch.inference_mode():
        _, state = model.step(tokens[:, :15], model.start())
        state.reorder(chosen)
        state.keep(torch.tensor([0]))
        logits, _ = model.step(tokens[chosen, 15:], state)
        whole = model(tokens) @ model.output.T
    assert_close(logits, whole[chosen, 15], rtol=0, atol=1e-9)
