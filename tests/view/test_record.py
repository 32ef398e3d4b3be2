"""Recording changes nothing, costs nothing when it is off, and gives the equation's weights."""

import math

import pytest
import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.models import Transformer
from regard.nn.attention import Full, Mask, MultiHead
from regard.view.record import Trace, place, record

SOURCE = torch.tensor([[5, 6, 7, 8, 9, 3], [10, 11, 12, 3, 0, 0]])
LENGTHS = torch.tensor([6, 4])
TARGET = torch.tensor([[2, 20, 21, 22, 23], [2, 24, 25, 0, 0]])
LAYERS = {"encoder": 2, "decoder": 3, "cross": 3}


def traced(network: Transformer, *, full: bool = False) -> tuple[Tensor, Trace]:
    with torch.no_grad(), record(network, full=full) as trace:
        return network(SOURCE, LENGTHS, TARGET), trace


def hooks(module: nn.Module) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in module.modules())


@pytest.mark.parametrize("full", [False, True])
def test_the_output_is_the_same_to_the_bit(network: Transformer, full: bool) -> None:
    with torch.no_grad():
        plain = network(SOURCE, LENGTHS, TARGET)
    recorded, trace = traced(network, full=full)
    assert torch.equal(plain, recorded)
    assert {kind: trace.layers(kind) for kind in trace.kinds} == LAYERS


def test_gradients_flow_as_without_recording(network: Transformer) -> None:
    with record(network) as trace:
        out = network(SOURCE, LENGTHS, TARGET)
    assert out.requires_grad
    assert not trace.weights("cross", 0).requires_grad


@pytest.mark.parametrize("kind", LAYERS)
def test_weights_are_the_equation(network: Transformer, kind: str) -> None:
    _, trace = traced(network, full=True)
    for layer in range(LAYERS[kind]):
        found = trace.only(kind, layer)
        assert found.q is not None
        assert found.k is not None
        assert found.v is not None
        scores = torch.einsum("bhtk,bhsk->bhts", found.q.double(), found.k.double()) / math.sqrt(found.q.size(-1))
        allowed = torch.ones(scores.shape, dtype=torch.bool)
        if kind == "decoder":
            allowed &= torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        else:
            allowed &= (torch.arange(6) < LENGTHS[:, None])[:, None, None]
        expected = torch.where(allowed, scores.exp(), 0.0)
        expected = expected / expected.sum(-1, keepdim=True)
        torch.testing.assert_close(found.weights.double(), expected, atol=1e-5, rtol=0)
        torch.testing.assert_close(found.heads, found.weights @ found.v, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(found.weights.sum(-1), torch.ones(scores.shape[:-1]), atol=1e-5, rtol=0)


def test_padding_and_the_future_get_nothing(network: Transformer) -> None:
    _, trace = traced(network)
    for kind in ("encoder", "cross"):
        for layer in range(LAYERS[kind]):
            weights = trace.weights(kind, layer)
            assert weights[1, :, :, 4:].abs().max() == 0, kind
            assert weights[0, :, :, 4:].min() > 0, kind
    for layer in range(3):
        assert trace.weights("decoder", layer).triu(1).abs().max() == 0
        assert trace.weights("decoder", layer)[0].tril().count_nonzero() == 4 * 15


def test_nothing_is_recorded_outside_and_no_hook_stays(network: Transformer) -> None:
    before = hooks(network)
    with torch.no_grad(), record(network) as trace:
        assert hooks(network) > before
        network(SOURCE, LENGTHS, TARGET)
    count = len(trace.records)
    network(SOURCE, LENGTHS, TARGET)
    assert len(trace.records) == count == sum(LAYERS.values())
    assert hooks(network) == before


def test_hooks_are_removed_after_an_error(network: Transformer) -> None:
    with pytest.raises(IndexError), record(network):
        network(SOURCE + 1000, LENGTHS, TARGET)
    assert hooks(network) == 0


def test_nothing_but_weights_is_kept_unless_asked(network: Transformer) -> None:
    _, trace = traced(network)
    found = trace.only("encoder", 1)
    assert (found.q, found.k, found.v, found.scores, found.heads) == (None,) * 5
    _, trace = traced(network, full=True)
    heads = trace.only("encoder", 1).heads
    assert heads is not None
    assert heads.shape == (2, 4, 6, 4)


def test_training_mode_is_refused(network: Transformer) -> None:
    with pytest.raises(UserError, match=r"model\.eval\(\)"), record(network.train()):
        pass
    with pytest.raises(UserError, match=r"model\.eval\(\)"), record(network.eval()):
        network.train()(SOURCE, LENGTHS, TARGET)
    assert hooks(network) == 0


def test_a_model_without_attention_is_refused() -> None:
    with pytest.raises(UserError, match="no attention"), record(nn.Linear(2, 2).eval()):
        pass


def test_several_calls_are_kept_but_not_mixed_up(network: Transformer) -> None:
    with torch.no_grad(), record(network) as trace:
        state = network.start(network.encode(SOURCE, LENGTHS))
        for tokens in TARGET.split(1, dim=1):
            _, state = network.step(tokens, state)
    with pytest.raises(UserError, match="called 5 times"):
        trace.weights("cross", 0)
    steps = [r.weights for r in trace.records if (r.kind, r.layer) == ("cross", 2)]
    _, whole = traced(network)
    torch.testing.assert_close(torch.cat(steps, dim=2), whole.weights("cross", 2), atol=1e-5, rtol=1e-4)


def test_what_was_not_recorded_is_told(network: Transformer) -> None:
    _, trace = traced(network)
    with pytest.raises(UserError, match="encoder with 2 layers"):
        trace.weights("encoder", 2)


def test_any_module_around_attention_can_be_recorded() -> None:
    attention = MultiHead(8, 2, Full(), bias=False).eval()
    x = torch.randn(1, 3, 8)
    with torch.no_grad(), record(attention) as trace:
        attention(x, None, Mask())
    assert trace.weights("attention", 0).shape == (1, 2, 3, 3)


def test_a_kernel_called_by_keywords_is_recorded() -> None:
    attention = MultiHead(8, 2, Full(), bias=False).eval()
    q = torch.randn(1, 2, 3, 4)
    with record(attention) as trace:
        attention.kernel(q=q, k=q, v=q, mask=Mask(causal=True))
    assert trace.weights("attention", 0)[0, 0, 0].tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("encoder.0.attention", ("encoder", 0)),
        ("decoder.11.attention", ("decoder", 11)),
        ("decoder.2.cross", ("cross", 2)),
        ("model.decoder.2.cross", ("cross", 2)),
        ("layers.4.attention", ("attention", 4)),
        ("block2.attention", ("attention", 0)),
        ("", ("attention", 0)),
    ],
)
def test_names_give_kind_and_layer(name: str, expected: tuple[str, int]) -> None:
    assert place(name) == expected
