"""BERT (Devlin 2018) and RoBERTa (Liu 2019): a Transformer's encoder that reads to both sides."""

# Shapes: B batch, T length, D width, V vocabulary.

from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.models.config import ModelConfig, check_heads
from regard.nn.attention import Full, Mask, MultiHead
from regard.nn.blocks import EncoderLayer, FeedForward, Residual
from regard.nn.dropout import Dropout


class BertConfig(ModelConfig):
    """The shape of a BERT. Defaults are the published base model."""

    d_model: int = Field(768, ge=2, description="width of the residual stream")
    d_ff: int = Field(3072, ge=1, description="inner width of the feed-forward layers")
    heads: int = Field(12, ge=1, description="attention heads in each layer")
    layers: int = Field(12, ge=1, description="how many layers")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout on each sub-layer's output and on the embeddings")
    attention_dropout: float = Field(0.1, ge=0, lt=1, description="dropout on attention weights (slower on CPU)")
    activation: Literal["gelu", "gelu_tanh", "relu"] = Field(
        "gelu", description="the feed-forward layers' non-linearity"
    )
    norm: Literal["post", "pre"] = Field("post", description="layer norm after each sub-layer (published) or before it")
    norm_eps: float = Field(1e-12, gt=0, description="what keeps a layer norm from dividing by zero")
    max_positions: int = Field(512, ge=1, description="how many positions are learned")
    first_position: int = Field(0, ge=0, description="the first row of positions that is used; RoBERTa's is 2")
    segments: int = Field(2, ge=1, description="kinds of text told apart: the first and the second of a pair")
    vocabulary: int = Field(30522, ge=1, description="tokens; set from the tokenizer")

    @model_validator(mode="after")
    def _check(self) -> "BertConfig":
        check_heads(self.d_model, self.heads)
        return self

    @property
    def longest(self) -> int:
        return self.max_positions

    def parameters(self) -> int:
        d, ff, norm = self.d_model, self.d_ff, 2 * self.d_model
        rows = self.vocabulary + self.first_position + self.max_positions + self.segments
        layer = 4 * (d * d + d) + 2 * d * ff + ff + d + 2 * norm
        return rows * d + self.layers * layer + norm


SIZES: dict[str, dict[str, Any]] = {
    "mini": {"d_model": 128, "d_ff": 512, "heads": 4, "layers": 4},
    "small": {"d_model": 256, "d_ff": 1024, "heads": 4, "layers": 4},
    "base": {"d_model": 768, "d_ff": 3072, "heads": 12, "layers": 12},
    "large": {"d_model": 1024, "d_ff": 4096, "heads": 16, "layers": 24},
}

PUBLISHED: dict[str, tuple[int, float]] = {"base": (30522, 110e6), "large": (30522, 340e6)}


class Bert(nn.Module):
    """A state for each token, made of all tokens."""

    Config = BertConfig
    sizes = SIZES
    published = PUBLISHED
    tasks = frozenset({"masked", "classification", "tagging", "answering"})

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = c = config
        self.tokens = nn.Embedding(c.vocabulary, c.d_model)
        self.positions = nn.Embedding(c.first_position + c.max_positions, c.d_model)
        self.segments = nn.Embedding(c.segments, c.d_model)
        self.norm = nn.LayerNorm(c.d_model, c.norm_eps)  # of the embeddings; before the first layer, or after the last
        self.dropout = Dropout(c.dropout)
        self.layers = nn.ModuleList(
            EncoderLayer(
                MultiHead(c.d_model, c.heads, Full(c.attention_dropout), bias=True),
                FeedForward(c.d_model, c.d_ff, c.activation, 0.0),
                lambda: Residual(c.d_model, c.dropout, c.norm, c.norm_eps),
            )
            for _ in range(c.layers)
        )
        self.apply(_initialise)

    def stages(self) -> list[list[nn.Module]]:
        """From below, what embeds and then each layer: for freezing, and for rates by depth."""
        stages: list[list[nn.Module]] = [
            [self.tokens, self.positions, self.segments],
            *([layer] for layer in self.layers),
        ]
        stages[0 if self.config.norm == "post" else -1].append(self.norm)
        return stages

    def forward(self, tokens: Tensor, lengths: Tensor | None, segments: Tensor | None = None) -> Tensor:
        """The states after the last layer (B T D)."""
        mask, first = Mask(lengths=lengths), self.config.norm == "post"
        x = self._embedded(tokens, segments)  # B T D
        x = self.dropout(self.norm(x) if first else x)
        for layer in self.layers:
            x = layer(x, mask)
        out: Tensor = x if first else self.norm(x)
        return out

    def _embedded(self, tokens: Tensor, segments: Tensor | None) -> Tensor:
        start, length = self.config.first_position, tokens.size(1)
        which = torch.zeros_like(tokens) if segments is None or self.config.segments == 1 else segments
        out: Tensor = self.tokens(tokens) + self.segments(which) + self.positions.weight[start : start + length]
        return out


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.trunc_normal_(module.weight, std=0.02, a=-0.04, b=0.04)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
