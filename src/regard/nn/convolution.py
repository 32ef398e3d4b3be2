"""Convolutions over time: gated (Gehring 2017, ConvS2S), and dilated ones that see the past alone (Bai 2018, TCN)."""

# Shapes: B batch, R rows (hypotheses), T length, S source length, D width of a layer, E width of the embeddings.

import math
from collections.abc import Sequence
from copy import deepcopy
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrize import is_parametrized

from regard.nn.attention.alignment import Dot, look
from regard.nn.attention.cache import Fixed
from regard.nn.attention.mask import Mask
from regard.nn.dropout import Dropout

Network = TypeVar("Network", bound=nn.Module)
HALF = math.sqrt(0.5)  # a sum of two is multiplied by it, so that its variance stays


def neighbours(x: Tensor, kernel: int, apart: int = 1) -> Tensor:
    """Each `kernel` inputs that are so far apart, side by side: (kernel - 1) * apart fewer than there are inputs."""
    length = x.size(1) - (kernel - 1) * apart
    return torch.cat([x[:, i * apart : i * apart + length] for i in range(kernel)], -1)


def plain(model: Network) -> Network:
    """A copy whose normed matrices are made once, not at every step: for decoding."""
    copy = deepcopy(model).requires_grad_(False)
    for parent in list(copy.modules()):
        for name, layer in parent.named_children():
            if isinstance(layer, nn.Linear) and is_parametrized(layer, "weight"):
                linear = nn.Linear(layer.in_features, layer.out_features)  # the normed one's class is the model's, too
                linear.weight, linear.bias = (nn.Parameter(w, requires_grad=False) for w in (layer.weight, layer.bias))
                setattr(parent, name, linear)
    return copy


class Gated(nn.Module):
    """GLU(conv(dropout(x))): one output for every `kernel` neighbours, so kernel - 1 fewer than there are inputs.

    The convolution is a product with the neighbours side by side, which needs no other layout of memory; its weight is
    Conv1d's with the kernel before the input's width.
    """

    def __init__(self, d_in: int, d_out: int, kernel: int, dropout: float) -> None:
        super().__init__()
        self.kernel = kernel
        self.linear = nn.Linear(kernel * d_in, 2 * d_out)
        self.dropout = Dropout(dropout)
        nn.init.normal_(self.linear.weight, std=math.sqrt(4 * (1 - dropout) / (kernel * d_in)))
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        return F.glu(self.linear(neighbours(self.dropout(x), self.kernel)), -1)


def affine(d_in: int, d_out: int, keep: float = 1.0) -> nn.Linear:
    """A layer that keeps the variance of an input of which a share `keep` was not dropped."""
    made = nn.Linear(d_in, d_out)
    nn.init.normal_(made.weight, std=math.sqrt(keep / d_in))
    nn.init.zeros_(made.bias)
    return made


def _through(d_in: int, d_out: int) -> nn.Module:
    """Around a layer, where its width changes there is a projection."""
    return nn.Identity() if d_in == d_out else affine(d_in, d_out)


class ConvEncoderLayer(nn.Module):
    """(GLU(conv(h)) + h) sqrt(.5), h with zeros on both sides."""

    def __init__(self, d_in: int, d_out: int, kernel: int, dropout: float) -> None:
        super().__init__()
        self.conv = Gated(d_in, d_out, kernel, dropout)
        self.through = _through(d_in, d_out)

    def forward(self, h: Tensor) -> Tensor:
        side = self.conv.kernel // 2
        out: Tensor = (self.conv(F.pad(h, (0, 0, side, side))) + self.through(h)) * HALF
        return out


class ConvEncoder(nn.Module):
    """From embeddings e to z, what the decoder compares itself with, and to (z + e) sqrt(.5), what it takes."""

    def __init__(self, d_embed: int, widths: Sequence[int], kernels: Sequence[int], dropout: float) -> None:
        super().__init__()
        self.first = affine(d_embed, widths[0], 1 - dropout)
        before = [widths[0], *widths[:-1]]
        self.layers = nn.ModuleList(
            ConvEncoderLayer(*shape, dropout) for shape in zip(before, widths, kernels, strict=True)
        )
        self.last = affine(widths[-1], d_embed)
        self.share = 1.0  # of the gradient that goes on below z: every layer of a decoder adds to it twice

    def forward(self, e: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        h = self.first(e)  # B S D
        padding = None if lengths is None else torch.arange(e.size(1), device=e.device) >= lengths[:, None]
        for layer in self.layers:
            h = layer(h if padding is None else h.masked_fill(padding[..., None], 0))
        z = self.last(h)  # B S E
        if z.requires_grad and self.share != 1:
            z.register_hook(lambda gradient: gradient * self.share)
        return z, (z + e) * HALF


class ConvAttention(nn.Module):
    """h to (W c + h) sqrt(.5), c what (W h + g) sqrt(.5) finds in the source; g: the embeddings of what was written."""

    def __init__(self, width: int, d_embed: int) -> None:
        super().__init__()
        self.q, self.out, self.kernel = affine(width, d_embed), affine(d_embed, width), Dot()

    def forward(self, h: Tensor, g: Tensor, source: Fixed, mask: Mask) -> Tensor:
        c = look(self.kernel, (self.q(h) + g) * HALF, source, mask)  # R T E
        out: Tensor = (self.out(c) + h) * HALF
        return out


class ConvDecoderLayer(nn.Module):
    """A convolution that sees the past alone, attention over the source, and both around the input."""

    def __init__(self, d_in: int, d_out: int, kernel: int, d_embed: int, dropout: float) -> None:
        super().__init__()
        self.conv = Gated(d_in, d_out, kernel, dropout)
        self.cross = ConvAttention(d_out, d_embed)
        self.through = _through(d_in, d_out)

    def forward(self, h: Tensor, past: Tensor, g: Tensor, source: Fixed, mask: Mask) -> tuple[Tensor, Tensor]:
        """past: the kernel - 1 inputs before these (R k-1 D), zeros before the first. Gives the new past too."""
        x = torch.cat((past, h), 1)
        out = self.cross(self.conv(x), g, source, mask)
        return (out + self.through(h)) * HALF, x[:, x.size(1) - past.size(1) :]


class Dilated(nn.Module):
    """Dropout(ReLU(conv(x))), of each input and those 1, ..., kernel - 1 times `apart` before it."""

    def __init__(self, d_in: int, d_out: int, kernel: int, apart: int, dropout: float) -> None:
        super().__init__()
        self.kernel, self.apart = kernel, apart
        self.linear = nn.Linear(kernel * d_in, d_out)
        self.dropout = Dropout(dropout)
        nn.init.normal_(self.linear.weight, std=math.sqrt(2 * (1 - dropout) / (kernel * d_in)))
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor, past: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """past: the (kernel - 1) * apart inputs before these, None at the beginning. Gives the new past too."""
        room = (self.kernel - 1) * self.apart
        x = F.pad(x, (0, 0, room, 0)) if past is None else torch.cat((past, x), 1)
        out: Tensor = self.dropout(torch.relu(self.linear(neighbours(x, self.kernel, self.apart))))
        return out, x[:, x.size(1) - room :]


class TemporalBlock(nn.Module):
    """ReLU(x + F(x)), F two convolutions of one dilation (Bai 2018, figure 1b)."""

    def __init__(self, d_in: int, d_out: int, kernel: int, apart: int, dropout: float) -> None:
        super().__init__()
        self.first = Dilated(d_in, d_out, kernel, apart, dropout)
        self.second = Dilated(d_out, d_out, kernel, apart, dropout)
        self.through = _through(d_in, d_out)

    def forward(self, x: Tensor, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """past: what its two convolutions read before (see `Dilated`). Gives the new past too."""
        before = (None, None) if past is None else past
        y, first = self.first(x, before[0])
        y, second = self.second(y, before[1])
        return torch.relu(self.through(x) + y), (first, second)
