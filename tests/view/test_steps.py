"""The six steps are the equation, on the model's own vectors and on the example that everyone teaches with."""

import numpy as np
import pytest
import torch

from regard.errors import UserError
from regard.models import Transformer
from regard.view.record import record
from regard.view.steps import EXAMPLE_TOKENS, Vectors, example, examples
from tests.view.conftest import transformer

SOURCE = torch.tensor([[5, 6, 7, 8, 9, 3], [10, 11, 12, 3, 0, 0]])
LENGTHS = torch.tensor([6, 4])
TARGET = torch.tensor([[2, 20, 21, 22, 23], [2, 24, 25, 0, 0]])


def test_thinking_machines_follows_by_computing() -> None:
    steps = example().steps(0, 0)
    assert steps.q.size == 64
    assert steps.scores.tolist() == [112, 96]
    assert steps.scaled.tolist() == [14, 12]
    np.testing.assert_allclose(steps.weights, [0.88, 0.12], atol=0.005)
    np.testing.assert_allclose(steps.sum, 0.8807970779778823 * steps.v[0] + 0.11920292202211755 * steps.v[1])
    said = steps.terminal("Thinking", EXAMPLE_TOKENS[:2])
    assert "112.00      14.00" in said
    assert "96.00      12.00" in said


def test_masks_are_told_apart() -> None:
    causal = example(causal=True).steps(0, 0)
    assert (causal.future.tolist(), causal.padding.tolist()) == ([False, True], [False, False])
    assert causal.weights.tolist() == [1, 0]
    padded = example(padding=True).steps(0, 1)
    assert (padded.future.tolist(), padded.padding.tolist()) == ([False] * 3, [False, False, True])
    assert padded.weights[2] == 0
    assert padded.weights.sum() == pytest.approx(1)
    assert set(examples()["cases"]) == {"plain", "causal", "padding"}


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize("row", [0, 1])
def test_steps_end_where_the_model_does(network: Transformer, kind: str, row: int) -> None:
    with torch.no_grad(), record(network, full=True) as trace:
        network(SOURCE, LENGTHS, TARGET)
    found = trace.only(kind, 1)
    assert found.heads is not None
    assert found.scores is not None
    vectors = Vectors.of(found, row)
    for head in range(4):
        for token in range(found.weights.size(2)):
            steps = vectors.steps(head, token)
            np.testing.assert_allclose(steps.scores, found.scores[row, head, token].numpy(), atol=1e-5)
            np.testing.assert_allclose(steps.weights, found.weights[row, head, token].numpy(), atol=1e-5)
            np.testing.assert_allclose(steps.sum, found.heads[row, head, token].numpy(), atol=1e-5)
    padding = vectors.steps(0, 0).padding.sum()
    assert padding == (2 if row == 1 and kind != "decoder" else 0)
    assert vectors.steps(0, 0).future.sum() == (4 if kind == "decoder" else 0)


@pytest.mark.parametrize("changes", [{"positions": "rotary"}, {"positions": "learned"}, {"norm": "pre"}], ids=str)
def test_it_holds_for_other_transformers(changes: dict[str, str]) -> None:
    network = transformer(50, **changes)
    with torch.no_grad():
        plain = network(SOURCE, LENGTHS, TARGET)
        with record(network, full=True) as trace:
            assert torch.equal(plain, network(SOURCE, LENGTHS, TARGET))
    for found in trace.records:
        assert found.heads is not None
        steps = Vectors.of(found).steps(3, 2)
        np.testing.assert_allclose(steps.weights, found.weights[0, 3, 2].numpy(), atol=1e-5)
        np.testing.assert_allclose(steps.sum, found.heads[0, 3, 2].numpy(), atol=1e-5)


def test_mistakes_are_told(network: Transformer) -> None:
    with torch.no_grad(), record(network) as trace:
        network(SOURCE, LENGTHS, TARGET)
    with pytest.raises(UserError, match="full=True"):
        Vectors.of(trace.only("encoder", 0))
    with pytest.raises(UserError, match="no such head: the model has 1"):
        example().steps(1, 0)
    with pytest.raises(UserError, match="no such token"):
        example().steps(0, 2)
    with pytest.raises(UserError, match="no such head"):
        example().to_dict(5)
