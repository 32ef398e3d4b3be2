"""GPT (Radford 2018) and GPT-2 (Radford 2019): a Transformer's decoder alone, which writes what comes next."""

# Shapes: B batch, R rows (texts being written), T length, D width, V vocabulary.

import math
from collections.abc import Sequence
from typing import Any, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from regard.models.config import ModelConfig, check_heads, check_positions
from regard.nn.attention import Full, Growing, Mask, MultiHead
from regard.nn.blocks import EncoderLayer, FeedForward, Residual
from regard.nn.dropout import Dropout
from regard.nn.position import Learned, Rotary, Sinusoidal


class GPTConfig(ModelConfig):
    """The shape of a GPT. Defaults are the smallest published GPT-2."""

    d_model: int = Field(768, ge=2, description="width of the residual stream")
    d_ff: int = Field(3072, ge=1, description="inner width of the feed-forward layers")
    heads: int = Field(12, ge=1, description="attention heads in each layer")
    layers: int = Field(12, ge=1, description="how many layers")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout on each sub-layer's output and on the embeddings")
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="dropout on attention weights (slower on CPU)")
    activation: Literal["gelu_tanh", "gelu", "relu", "relu2"] = Field(
        "gelu_tanh", description="the feed-forward layers' non-linearity; relu2 is the square of relu"
    )
    norm: Literal["pre", "post"] = Field(
        "pre", description="layer norm before each sub-layer and after the last (GPT-2), or after each (GPT)"
    )
    norm_eps: float = Field(1e-5, gt=0, description="what keeps a layer norm from dividing by zero")
    positions: Literal["learned", "rotary", "sinusoidal", "none"] = Field(
        "learned", description="how word order is known"
    )
    max_positions: int = Field(1024, ge=2, description="how many positions are learned, with positions = 'learned'")
    tie: bool = Field(True, description="what comes next is guessed with the embeddings' own matrix")
    vocabulary: int = Field(50257, ge=1, description="tokens; set from the tokenizer")

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_heads(self.d_model, self.heads)
        check_positions(self.positions, self.d_model, self.heads)
        return self

    @property
    def longest(self) -> int | None:
        return self.max_positions if self.positions == "learned" else None

    def parameters(self) -> int:
        d, ff, norm = self.d_model, self.d_ff, 2 * self.d_model
        rows = self.vocabulary * (1 if self.tie else 2) + (self.longest or 0)
        layer = 4 * (d * d + d) + 2 * d * ff + ff + d + 2 * norm
        return rows * d + self.layers * layer + (norm if self.norm == "pre" else 0)


SIZES: dict[str, dict[str, Any]] = {
    "mini": {"d_model": 128, "d_ff": 512, "heads": 4, "layers": 4},
    "gpt1": {"d_model": 768, "d_ff": 3072, "heads": 12, "layers": 12, "norm": "post", "max_positions": 512},
    "small": {"d_model": 768, "d_ff": 3072, "heads": 12, "layers": 12},
    "medium": {"d_model": 1024, "d_ff": 4096, "heads": 16, "layers": 24},
    "large": {"d_model": 1280, "d_ff": 5120, "heads": 20, "layers": 36},
    "xl": {"d_model": 1600, "d_ff": 6400, "heads": 25, "layers": 48},
}

# GPT-2's as its makers count them today; the paper prints 117, 345, 762 and 1,542 million.
PUBLISHED: dict[str, tuple[int, float]] = {
    "gpt1": (40478, 117e6), "small": (50257, 124e6), "medium": (50257, 355e6), "large": (50257, 774e6),
    "xl": (50257, 1558e6),
}  # fmt: skip


class State:
    """Where writing stands: one growing cache a layer, and the tokens that the model still sees."""

    def __init__(self, layers: int) -> None:
        self.layers = layers
        self.total = self.first = 0  # how many tokens were read in all; the first of them that is still seen
        self.tokens: Tensor | None = None  # R T: from the first on
        self.caches = [Growing() for _ in range(layers)]

    def reorder(self, rows: Tensor) -> None:
        """Row i goes on from where row rows[i] stands."""
        self.tokens = None if self.tokens is None else self.tokens[rows]
        for cache in self.caches:
            cache.reorder(rows)

    def keep(self, sentences: Tensor) -> None:
        """There is no source to forget."""

    def read(self, tokens: Tensor, first: int) -> Tensor:
        """Takes in further tokens (R T); gives those that the caches do not hold: all from `first` on, if it moved."""
        seen = tokens if self.tokens is None else torch.cat((self.tokens, tokens), dim=1)
        moved = first - self.first
        self.total, self.first, self.tokens = self.total + tokens.size(1), first, seen[:, moved:]
        if moved:
            self.caches = [Growing() for _ in range(self.layers)]
        return self.tokens if moved else tokens


class GPT(nn.Module):
    """Guesses each token from those before it. `forward` trains; `encode`, `start`, `step` write.

    Learned positions end. Writing goes on: when the window is full, its last half is read again from position 0. What
    is seen then depends on the number of tokens alone, not on whether they came one by one.
    """

    Config = GPTConfig
    sizes = SIZES
    published = PUBLISHED
    tasks = frozenset({"language", "classification", "tagging", "summarisation"})
    causal = True  # a state has read what stands before it alone
    limit = None  # of tokens to write

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = c = config
        self.tokens = nn.Embedding(c.vocabulary, c.d_model)
        self.positions = _positions(c)
        self.dropout = Dropout(c.dropout)
        rotary = Rotary(c.d_model // c.heads) if c.positions == "rotary" else None
        self.layers = nn.ModuleList(
            EncoderLayer(
                MultiHead(c.d_model, c.heads, Full(c.attention_dropout), bias=True, rotary=rotary),
                FeedForward(c.d_model, c.d_ff, c.activation, 0.0),
                lambda: Residual(c.d_model, c.dropout, c.norm, c.norm_eps),
            )
            for _ in range(c.layers)
        )
        self.norm = nn.LayerNorm(c.d_model, c.norm_eps) if c.norm == "pre" else nn.Identity()
        self.last = None if c.tie else nn.Embedding(c.vocabulary, c.d_model)
        # Sinusoids are as large as 1, embeddings are not: they are scaled as Vaswani 2017 does.
        self.scale = math.sqrt(c.d_model) if c.positions == "sinusoidal" else 1.0
        self._initialise()

    def stages(self) -> list[list[nn.Module]]:
        """From below, what embeds and then each layer: for freezing, and for rates by depth."""
        stages: list[list[nn.Module]] = [[self.tokens], *([layer] for layer in self.layers)]
        stages[0] += [] if self.positions is None else [self.positions]
        stages[-1].append(self.norm)
        return stages

    def _initialise(self) -> None:
        """N(0, 0.02); in GPT-2 what is added to the residual stream, 2 L times, is scaled by 1 / sqrt(2 L)."""
        c = self.config
        for name, parameter in self.named_parameters():
            if parameter.ndim > 1:
                added = c.norm == "pre" and name.endswith(("attention.out.weight", "feed_forward.outer.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * c.layers) if added else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    @property
    def output(self) -> Tensor:
        """The matrix before the softmax (V D); logits are states @ output^T."""
        return self.tokens.weight if self.last is None else self.last.weight

    def forward(self, tokens: Tensor, lengths: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        """The states after the last layer (B T D). Padding at the end is the future, which no token sees."""
        return self._read(tokens, 0, [None] * self.config.layers)

    def _read(self, tokens: Tensor, start: int, caches: Sequence[Growing | None]) -> Tensor:
        mask = Mask(causal=True)
        x: Tensor = self.tokens(tokens) * self.scale  # B T D
        x = self.dropout(x if self.positions is None else self.positions(x, start))
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, mask, cache)
        out: Tensor = self.norm(x)
        return out

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> None:
        """There is nothing to read before writing."""

    def start(self, memory: None = None) -> State:
        return State(self.config.layers)

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Logits (R V) after one or more further tokens (R T) of each row."""
        new = state.read(tokens, self.first_seen(state.total + tokens.size(1)))
        states = self._read(new, state.caches[0].length, state.caches)
        return F.linear(states[:, -1], self.output), state

    def first_seen(self, total: int) -> int:
        """Of so many tokens: 0 until the window is full; then half of it stays, until it is full again."""
        window = self.config.longest
        if window is None or total <= window:
            return 0
        half = window // 2
        again = (total - window - 1) // (window - half + 1)  # how often it was full after the first time
        return window + 1 + again * (window - half + 1) - half


def _positions(c: GPTConfig) -> nn.Module | None:
    if c.positions == "learned":
        return Learned(c.d_model, c.max_positions)
    return Sinusoidal(c.d_model) if c.positions == "sinusoidal" else None
