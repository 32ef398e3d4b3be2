"""A temporal convolutional network (TCN, Bai 2018): dilated causal convolutions that write what comes next."""

# Shapes: B batch, R rows (texts being written), T length, D width of the embeddings, V vocabulary.

from typing import Any

from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from regard.models.config import ModelConfig
from regard.nn.convolution import Dilated, TemporalBlock, plain
from regard.nn.dropout import Dropout


class TCNConfig(ModelConfig):
    """The shape of a TCN. Defaults are the paper's for the words of the Penn Treebank."""

    d_model: int = Field(600, ge=1, description="width of the embeddings and of the last layer")
    width: int = Field(600, ge=1, description="width of the layers below the last")
    layers: int = Field(4, ge=1, le=24, description="how many layers; layer i looks at what is 2^i tokens apart")
    kernel: int = Field(3, ge=2, description="tokens that a convolution sees at once")
    dropout: float = Field(0.45, ge=0, lt=1, description="dropout after each convolution")
    embedding_dropout: float = Field(0.25, ge=0, lt=1, description="dropout on the embeddings")
    weight_norm: bool = Field(True, description="matrices as direction times length (slower)")
    tie: bool = Field(True, description="what comes next is guessed with the embeddings' own matrix")
    vocabulary: int = Field(10000, ge=1, description="tokens; set from the tokenizer")

    @property
    def shapes(self) -> list[tuple[int, int, int, int]]:
        """Width below, width, kernel and dilation of each layer."""
        widths = [self.d_model, *[self.width] * (self.layers - 1), self.d_model]
        return [(widths[i], widths[i + 1], self.kernel, 2**i) for i in range(self.layers)]

    @property
    def field(self) -> int:
        """The receptive field: how many tokens the next one is guessed from. Each layer has two convolutions."""
        return 1 + 2 * (self.kernel - 1) * ((1 << self.layers) - 1)

    def parameters(self) -> int:
        def affine(d_in: int, d_out: int) -> int:
            return d_in * d_out + d_out * (2 if self.weight_norm else 1)

        total = self.vocabulary * self.d_model * (1 if self.tie else 2)
        for below, width, kernel, _ in self.shapes:
            total += affine(kernel * below, width) + affine(kernel * width, width)
            total += below * width + width if below != width else 0
        return total


SIZES: dict[str, dict[str, Any]] = {
    "mini": {
        "d_model": 128, "width": 128, "layers": 5, "dropout": 0.0, "embedding_dropout": 0.0, "weight_norm": False,
    },
    "ptb-characters": {"d_model": 100, "width": 450, "layers": 3, "dropout": 0.1, "embedding_dropout": 0.1},
    "ptb-words": {},
}  # fmt: skip
PUBLISHED: dict[str, tuple[int, float]] = {}  # the paper compares networks of about one size, and counts none


class State:
    """Where writing stands: what each layer's convolutions read last."""

    def __init__(self, layers: int) -> None:
        self.past: list[tuple[Tensor, Tensor] | None] = [None] * layers  # R (k-1)*dilation width

    def reorder(self, rows: Tensor) -> None:
        """Row i goes on from where row rows[i] stands."""
        self.past = [None if past is None else (past[0][rows], past[1][rows]) for past in self.past]

    def keep(self, sentences: Tensor) -> None:
        """There is no source to forget."""


class TCN(nn.Module):
    """Guesses each token from those before it. `forward` trains; `encode`, `start`, `step` write."""

    Config = TCNConfig
    sizes = SIZES
    published = PUBLISHED
    tasks = frozenset({"language", "classification", "tagging", "summarisation"})
    causal = True  # a state has read what stands before it alone
    limit = None  # of tokens to write

    def __init__(self, config: TCNConfig) -> None:
        super().__init__()
        self.config = c = config
        self.tokens = nn.Embedding(c.vocabulary, c.d_model)
        self.dropout = Dropout(c.embedding_dropout)
        self.layers = nn.ModuleList(TemporalBlock(*shape, c.dropout) for shape in c.shapes)
        self.last = None if c.tie else nn.Embedding(c.vocabulary, c.d_model)
        for embedding in (self.tokens, self.last):
            if embedding is not None:
                nn.init.normal_(embedding.weight, std=0.1)
        if c.weight_norm:
            for conv in [m for m in self.modules() if isinstance(m, Dilated)]:
                weight_norm(conv.linear)

    def stages(self) -> list[list[nn.Module]]:
        """From below, what embeds and then each layer: for freezing, and for rates by depth."""
        return [[self.tokens], *([layer] for layer in self.layers)]

    def for_decoding(self) -> "TCN":
        return plain(self) if self.config.weight_norm else self

    @property
    def output(self) -> Tensor:
        """The matrix before the softmax (V D); logits are states @ output^T."""
        return self.tokens.weight if self.last is None else self.last.weight

    def forward(self, tokens: Tensor, lengths: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        """The states after the last layer (B T D). Padding at the end is the future, which no token sees."""
        return self._read(tokens, self.start())

    def _read(self, tokens: Tensor, state: State) -> Tensor:
        x: Tensor = self.dropout(self.tokens(tokens))  # B T D
        for i, layer in enumerate(self.layers):
            x, state.past[i] = layer(x, state.past[i])
        return x

    def first_seen(self, total: int) -> int:
        """Of so many tokens none is forgotten at once; the receptive field ends by itself."""
        return 0

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> None:
        """There is nothing to read before writing."""

    def start(self, memory: None = None) -> State:
        return State(self.config.layers)

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Logits (R V) after one or more further tokens (R T) of each row."""
        return F.linear(self._read(tokens, state)[:, -1], self.output), state
