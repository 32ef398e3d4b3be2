"""Where a token stands: sinusoids, learned vectors, rotations, or nothing."""

# Shapes: B batch, H heads, T length, D width, K head width.

import torch
from torch import Tensor, nn


def sinusoids(length: int, d_model: int) -> Tensor:
    """PE[p, 2i] = sin(p / 10000^(2i/d)), PE[p, 2i+1] = cos(the same); section 3.5."""
    angles = _angles(length, d_model)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1).float()  # T D


def _angles(length: int, width: int) -> Tensor:
    """p * 10000^(-2i/width), in double precision: single loses the phase at high positions."""
    rates = 10_000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64, device="cpu") / width)
    return torch.arange(length, dtype=torch.float64, device="cpu")[:, None] * rates  # T width/2


class Sinusoidal(nn.Module):
    """Adds the paper's sinusoids; any length."""

    table: Tensor

    def __init__(self, d_model: int, length: int = 256) -> None:
        super().__init__()
        self.register_buffer("table", sinusoids(length, d_model), persistent=False)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        end, table = start + x.size(1), self.table  # a name of its own: another thread may set it meanwhile
        if end > table.size(0):
            with torch.inference_mode(False):  # training must be able to use what decoding made
                table = self.table = sinusoids(2 * end, x.size(2)).to(table)
        return x + table[start:end]


class Learned(nn.Module):
    """Adds a learned vector for each position up to `length`."""

    def __init__(self, d_model: int, length: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(length, d_model) * d_model**-0.5)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        end = start + x.size(1)
        if end > self.table.size(0):
            raise ValueError(f"position {end} is beyond the {self.table.size(0)} learned ones")
        return x + self.table[start:end]


class Rotary(nn.Module):
    """Turns each pair of a query's or key's coordinates by its position times a rate (Su 2021)."""

    table: Tensor  # cosines and sines: 2 T K/2

    def __init__(self, head_width: int, length: int = 256) -> None:
        super().__init__()
        self.register_buffer("table", self._filled(length, head_width), persistent=False)

    @staticmethod
    def _filled(length: int, width: int) -> Tensor:
        angles = _angles(length, width)
        return torch.stack((angles.cos(), angles.sin())).float()

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        end, table = start + x.size(2), self.table  # a name of its own: another thread may set it meanwhile
        if end > table.size(1):
            with torch.inference_mode(False):  # training must be able to use what decoding made
                table = self.table = self._filled(2 * end, x.size(3)).to(table)
        cos, sin = table[:, start:end].to(x)  # T K/2 each
        even, odd = x[..., 0::2], x[..., 1::2]  # B H T K/2
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)
