"""Layers against PyTorch's own with the same weights."""

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from regard.nn.attention import Full, Mask, MultiHead
from regard.nn.blocks import DecoderLayer, EncoderLayer, FeedForward, Residual

D, FF, HEADS, B, T, S = 12, 20, 3, 3, 5, 6
LENGTHS = torch.tensor([6, 2, 4])


def attention() -> MultiHead:
    return MultiHead(D, HEADS, Full(), bias=True)


def shaken(module: nn.Module) -> nn.Module:
    """No weight is 0 or 1, so that none can be forgotten."""
    torch.manual_seed(0)
    with torch.no_grad():
        for p in module.parameters():
            p.normal_(std=0.5)
    return module.double()


def copy_attention(theirs: nn.MultiheadAttention, ours: MultiHead) -> None:
    theirs.in_proj_weight.copy_(torch.cat([ours.q.weight, ours.k.weight, ours.v.weight]))
    theirs.in_proj_bias.copy_(torch.cat([ours.q.bias, ours.k.bias, ours.v.bias]))
    theirs.out_proj.load_state_dict(ours.out.state_dict())


def copy_rest(theirs: nn.Module, feed_forward: FeedForward, *norms: Residual) -> None:
    theirs.linear1.load_state_dict(feed_forward.inner.state_dict())
    theirs.linear2.load_state_dict(feed_forward.outer.state_dict())
    for i, residual in enumerate(norms, start=1):
        getattr(theirs, f"norm{i}").load_state_dict(residual.norm.state_dict())


def inputs() -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(1)
    return (torch.randn(B, n, D, generator=g, dtype=torch.float64) for n in (T, S))


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_encoder_layer_is_pytorchs(norm: str, activation: str) -> None:
    ours = shaken(EncoderLayer(attention(), FeedForward(D, FF, activation, 0.0), lambda: Residual(D, 0.0, norm)))
    theirs = nn.TransformerEncoderLayer(
        D, HEADS, FF, dropout=0.0, activation=activation, batch_first=True, norm_first=norm == "pre"
    ).double()
    with torch.no_grad():
        copy_attention(theirs.self_attn, ours.attention)
        copy_rest(theirs, ours.feed_forward, ours.after_attention, ours.after_feed_forward)
    _, x = inputs()
    padding = torch.arange(S) >= LENGTHS[:, None]
    assert_close(ours(x, Mask(lengths=LENGTHS)), theirs(x, src_key_padding_mask=padding))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_decoder_layer_is_pytorchs(norm: str) -> None:
    ours = shaken(
        DecoderLayer(attention(), attention(), FeedForward(D, FF, "relu", 0.0), lambda: Residual(D, 0.0, norm))
    )
    theirs = nn.TransformerDecoderLayer(D, HEADS, FF, dropout=0.0, batch_first=True, norm_first=norm == "pre").double()
    with torch.no_grad():
        copy_attention(theirs.self_attn, ours.attention)
        copy_attention(theirs.multihead_attn, ours.cross)
        copy_rest(theirs, ours.feed_forward, ours.after_attention, ours.after_cross, ours.after_feed_forward)
    x, memory = inputs()
    expected = theirs(
        x,
        memory,
        tgt_mask=torch.ones(T, T, dtype=torch.bool).triu(1),
        memory_key_padding_mask=torch.arange(S) >= LENGTHS[:, None],
    )
    assert_close(ours(x, memory, Mask(causal=True), Mask(lengths=LENGTHS)), expected)


def test_feed_forward_is_equation_2() -> None:
    layer = shaken(FeedForward(D, FF, "relu", 0.0))
    x, _ = inputs()
    hidden = (x @ layer.inner.weight.T + layer.inner.bias).clamp(min=0)
    assert_close(layer(x), hidden @ layer.outer.weight.T + layer.outer.bias)


def test_a_sub_layer_that_does_nothing_leaves_pre_norm_alone_and_post_norm_normalised() -> None:
    x, _ = inputs()
    assert torch.equal(Residual(D, 0.0, "pre").double()(x, torch.zeros_like), x)
    normed = Residual(D, 0.0, "post").double()(x, torch.zeros_like)
    assert_close(normed.mean(-1), torch.zeros(B, T, dtype=torch.float64))
    assert_close(normed.var(-1, unbiased=False), torch.ones(B, T, dtype=torch.float64), atol=1e-3, rtol=0)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_dropout_falls_on_the_sub_layer_and_not_on_the_residual(norm: str) -> None:
    x = torch.zeros(1, 1000, D)
    torch.manual_seed(0)
    residual = Residual(D, 0.5, norm)
    residual.norm = nn.Identity()
    out = residual(x + 10, lambda y: torch.ones_like(y))
    share = float((out == 10).float().mean())
    assert share == pytest.approx(0.5, abs=0.03)
    assert_close(out[out != 10], torch.full_like(out[out != 10], 12.0))
