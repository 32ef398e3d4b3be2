"""The Transformer's layers: feed-forward, residual step, encoder layer, decoder layer (section 3.1)."""

# Shapes: B batch, T target length, S source length, D width.

from collections.abc import Callable

from torch import Tensor, nn

from regard.nn import native
from regard.nn.attention import Fixed, Growing, Mask, MultiHead
from regard.nn.dropout import Dropout, draws
from regard.nn.fused import feed_forward, fuses, linear


class SquaredReLU(nn.Module):
    """max(0, x)^2 (So 2021)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.relu().square()


ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "relu2": SquaredReLU,
    "gelu": nn.GELU,
    "gelu_tanh": lambda: nn.GELU("tanh"),
    "swish": nn.SiLU,
}


class FeedForward(nn.Module):
    """max(0, x W1 + b1) W2 + b2, section 3.3, equation 2 (or GELU in place of the maximum)."""

    def __init__(self, d_model: int, d_ff: int, activation: str, dropout: float) -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff)
        self.activation = ACTIVATIONS[activation]()
        self.dropout = Dropout(dropout)
        self.outer = nn.Linear(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(self.activation, nn.ReLU) and not self.dropout.active and fuses(x, self.inner, self.outer):
            return feed_forward(x, self.inner, self.outer)
        return linear(self.dropout(self.activation(linear(x, self.inner))), self.outer)


class Residual(nn.Module):
    """LayerNorm(x + Dropout(f(x))) as published ("post"), or x + Dropout(f(LayerNorm(x))) ("pre")."""

    def __init__(self, d_model: int, dropout: float, norm: str, eps: float = 1e-5) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model, eps)
        self.dropout = Dropout(dropout)
        self.first = norm == "pre"

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.first:
            x, normed = native.beside_norm(x, self.norm) if native.norms(self.norm, x) else (x, self.norm(x))
            return self.dropout.add(x, sublayer(normed))
        y = sublayer(x)
        if native.norms(self.norm, x, y):
            return native.add_norm(x, y, draws(y, self.dropout.p) if self.dropout.active else None, self.norm)
        out: Tensor = self.norm(self.dropout.add(x, y))
        return out


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, attention: MultiHead, feed_forward: FeedForward, residual: Callable[[], Residual]) -> None:
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.after_attention = residual()
        self.after_feed_forward = residual()

    def forward(self, x: Tensor, mask: Mask, cache: Growing | None = None) -> Tensor:
        x = self.after_attention(x, lambda y: self.attention(y, None, mask, cache))
        out: Tensor = self.after_feed_forward(x, self.feed_forward)
        return out


class DecoderLayer(nn.Module):
    """Causal self-attention, attention over the source, feed-forward."""

    def __init__(
        self, attention: MultiHead, cross: MultiHead, feed_forward: FeedForward, residual: Callable[[], Residual]
    ) -> None:
        super().__init__()
        self.attention = attention
        self.cross = cross
        self.feed_forward = feed_forward
        self.after_attention = residual()
        self.after_cross = residual()
        self.after_feed_forward = residual()

    def forward(
        self, x: Tensor, memory: Tensor | None, own: Mask, source: Mask, cache: tuple[Growing, Fixed] | None = None
    ) -> Tensor:
        """memory is the encoder's output; when decoding step by step the cache holds its projections instead."""
        grown, fixed = cache or (None, None)
        x = self.after_attention(x, lambda y: self.attention(y, None, own, grown))
        x = self.after_cross(x, lambda y: self.cross(y, memory, source, fixed))
        out: Tensor = self.after_feed_forward(x, self.feed_forward)
        return out
