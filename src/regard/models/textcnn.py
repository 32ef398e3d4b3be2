"""Text CNNs: windows side by side (Kim 2014), or one upon another with k-max pooling (DCNN, Kalchbrenner 2014)."""

# Shapes: B batch, T length, D width, R rows, M maps, K values kept of each row, W width of what stands for a text.

from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from regard.models.config import ModelConfig
from regard.nn.dropout import Dropout


class TextCNNConfig(ModelConfig):
    """The shape of a text CNN. Defaults are Kim's."""

    d_model: int = Field(300, ge=1, description="width of the embeddings")
    windows: tuple[int, ...] = Field((3, 4, 5), min_length=1, description="how many tokens each convolution sees")
    maps: tuple[int, ...] = Field((100, 100, 100), description="feature maps of each convolution")
    stacked: bool = Field(False, description="a convolution reads the one before it, each row of the width by itself")
    wide: bool = Field(False, description="windows may reach over the ends of a text")
    fold: bool = Field(False, description="after each stacked convolution, rows are added two by two")
    kept: int = Field(1, ge=1, description="largest values kept of each row, in order; 1 is the maximum over time")
    dynamic: bool = Field(True, description="below the last of stacked convolutions, more are kept of longer texts")
    activation: Literal["relu", "tanh"] = Field("relu", description="the non-linearity")
    dropout: float = Field(0.0, ge=0, lt=1, description="dropout on the embeddings")
    vocabulary: int = Field(16185, ge=1, description="tokens; set from the tokenizer")

    @model_validator(mode="after")
    def _check(self) -> "TextCNNConfig":
        if len(self.maps) != len(self.windows) or min(self.windows + self.maps) < 1:
            raise ValueError(f"maps {self.maps} should be one number for each of windows {self.windows}, all positive")
        if self.fold and not self.stacked:
            raise ValueError("fold adds the rows of stacked convolutions; set stacked = true, or leave fold out")
        if self.fold and self.d_model % 2 ** len(self.windows):
            raise ValueError(f"d_model {self.d_model} cannot be halved {len(self.windows)} times; choose another")
        return self

    @property
    def shapes(self) -> list[tuple[int, int, int, int]]:
        """Rows, maps read, maps made, and window of each convolution. Side by side they read all of D as one row."""
        if not self.stacked:
            return [(1, self.d_model, made, window) for made, window in zip(self.maps, self.windows, strict=True)]
        rows = [self.d_model >> i * self.fold for i in range(len(self.windows))]
        return list(zip(rows, (1, *self.maps[:-1]), self.maps, self.windows, strict=True))

    @property
    def width(self) -> int:
        """Of the vector that stands for a text."""
        made = [(rows >> self.fold) * maps for rows, _, maps, _ in self.shapes]
        return self.kept * (made[-1] if self.stacked else sum(made))

    def parameters(self) -> int:
        layers = sum(rows * read * made * w + (rows >> self.fold) * made for rows, read, made, w in self.shapes)
        return self.vocabulary * self.d_model + layers


SIZES: dict[str, dict[str, Any]] = {
    "kim": {},
    "dcnn": {
        "d_model": 48, "windows": (7, 5), "maps": (6, 14), "stacked": True, "wide": True, "fold": True, "kept": 4,
        "activation": "tanh",
    },
}  # fmt: skip

PUBLISHED: dict[str, tuple[int, float]] = {}  # neither paper gives a count


class TextCNN(nn.Module):
    """One vector for a text: what its windows found, wherever they found it."""

    Config = TextCNNConfig
    sizes = SIZES
    published = PUBLISHED
    tasks = frozenset({"classification"})

    def __init__(self, config: TextCNNConfig) -> None:
        super().__init__()
        self.config, self.width = config, config.width
        self.tokens = nn.Embedding(config.vocabulary, config.d_model)
        nn.init.uniform_(self.tokens.weight, -0.25, 0.25)  # as Kim's words without a vector
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(Convolution(*shape, config) for shape in config.shapes)

    def stages(self) -> list[list[nn.Module]]:
        """From below, what embeds and then each layer; windows side by side are one."""
        return [[self.tokens], *([layer] for layer in (self.layers if self.config.stacked else [self.layers]))]

    def pooled(self, tokens: Tensor, lengths: Tensor | None, segments: Tensor | None = None) -> Tensor:
        """The vector of each text (B W). A pair is read as one text, with the end symbol between the two."""
        if lengths is None:
            lengths = torch.full((len(tokens),), tokens.size(1), device=tokens.device)
        x: Tensor = self.dropout(self.tokens(tokens)).transpose(1, 2) * real(lengths, tokens.size(1))  # B D T
        top, count = torch.full_like(lengths, self.config.kept), len(self.layers)
        if not self.config.stacked:
            return torch.cat([layer(x, lengths, top)[0].flatten(1) for layer in self.layers], 1)
        left = lengths
        for number, layer in enumerate(self.layers, 1):  # DCNN, equation 5: k = max(k_top, ceil((L - l) / L * s))
            share = -((number - count) * lengths // count)
            x, left = layer(x, left, torch.maximum(top, share) if self.config.dynamic else top)
        return x.flatten(1)


class Convolution(nn.Module):
    """A convolution of each row, folding, k-max pooling, bias and non-linearity (which change no order of values)."""

    def __init__(self, rows: int, read: int, made: int, window: int, config: TextCNNConfig) -> None:
        super().__init__()
        self.rows, self.window, self.wide, self.fold = rows, window, config.wide, config.fold
        self.weight = nn.Parameter(torch.empty(rows * made, read, window))
        self.bias = nn.Parameter(torch.empty((rows >> config.fold) * made, 1))
        self.activation = torch.relu if config.activation == "relu" else torch.tanh
        nn.init.kaiming_uniform_(self.weight, a=5**0.5)
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor, lengths: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """From B R*M T, zero after each length, to B R*M K, zero after the number of values that are there."""
        side = self.window - 1
        x = F.pad(x, (side, side) if self.wide else (0, max(0, self.window - x.size(-1))))
        x = F.conv1d(x, self.weight, groups=self.rows)
        ends = lengths + side if self.wide else (lengths - side).clamp(min=1)  # a short text is a window with zeros
        x, found = k_max(folded(x, self.rows) if self.fold else x, ends, k)
        return self.activation(x + self.bias) * real(found, x.size(-1)), found


def folded(x: Tensor, rows: int) -> Tensor:
    """Each two neighbouring rows are one, their sum: B R*M T to B R/2*M T."""
    return x.view(len(x), rows // 2, 2, -1, x.size(-1)).sum(2).flatten(1, 2)


def k_max(x: Tensor, lengths: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """The k largest of each row's first `lengths` values, in their order (B ... K), and how many there are (B)."""
    found, most, length = torch.minimum(k, lengths), int(k.max()), x.size(-1)
    scores = x.masked_fill(~real(lengths, length), -torch.inf)
    if most == 1:
        return scores.amax(-1, keepdim=True), found
    places = scores.topk(min(most, length)).indices
    places = places.masked_fill(~real(found, places.size(-1)), length).sort().values  # what is too many goes last
    x = x.gather(-1, places.clamp(max=length - 1)) * real(found, places.size(-1))
    return F.pad(x, (0, most - places.size(-1))), found


def real(lengths: Tensor, length: int) -> Tensor:
    """Which places hold something (B 1 T)."""
    return (torch.arange(length, device=lengths.device) < lengths[:, None])[:, None]
