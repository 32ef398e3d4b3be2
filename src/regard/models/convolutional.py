"""Convolutional sequence to sequence learning (ConvS2S, Gehring 2017): config, module, published sizes."""

# Shapes: R rows (hypotheses), N sentences, T target length, S source length, D width of a layer, E of the embeddings.

import math
from typing import Any, Self

from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from regard.models.pair import Embedding, PairConfig, Stepwise, embeddings
from regard.nn.attention import Fixed, Mask
from regard.nn.convolution import ConvDecoderLayer, ConvEncoder, affine, plain
from regard.nn.dropout import Dropout
from regard.nn.position import Learned


class ConvolutionalConfig(PairConfig):
    """The shape of a ConvS2S. Defaults are the paper's model for WMT English-German."""

    d_model: int = Field(512, ge=1, description="width of the embeddings and of attention")
    encoder_layers: int = Field(15, ge=1, description="layers that read the source")
    decoder_layers: int = Field(15, ge=1, description="layers that write the target")
    widths: tuple[int, ...] = Field(
        (*[512] * 10, *[768] * 3, 2048), description="of the layers from below; the last is that of all above it"
    )
    kernels: tuple[int, ...] = Field(
        (*[3] * 13, 1), description="words that a layer sees at once, from below, odd; the last is that of all above it"
    )
    weight_norm: bool = Field(True, description="matrices as direction times length (slower)")
    max_positions: int = Field(1024, ge=1, description="how many positions are learned")
    dropout: float = Field(0.2, ge=0, lt=1, description="dropout on embeddings, each layer's input and the last states")
    tie: tuple[Embedding, ...] = Field((), description="which of source, target and output embeddings share one matrix")
    source_vocabulary: int = Field(40000, ge=1, description="source tokens; set from the tokenizer")
    target_vocabulary: int = Field(40000, ge=1, description="target tokens; set from the tokenizer")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.widths or min(self.widths) < 1:
            raise ValueError("widths: one width at least, none below 1")
        for kernel in self.kernels or (0,):
            if kernel < 0:
                raise ValueError(f"kernels: {kernel} is no number of words")
            if kernel % 2 == 0:
                raise ValueError(f"kernels: {kernel} words have no middle; try {kernel + 1}")
        return self

    @property
    def longest(self) -> int | None:
        return self.max_positions

    def shapes(self, layers: int) -> list[tuple[int, int, int]]:
        """Width below, width and kernel of each layer."""
        widths, kernels = ([*given, *[given[-1]] * layers][:layers] for given in (self.widths, self.kernels))
        return list(zip([widths[0], *widths], widths, kernels, strict=False))

    def parameters(self) -> int:
        e, more = self.d_model, 1 if self.weight_norm else 0

        def affine(d_in: int, d_out: int) -> int:
            return d_in * d_out + d_out * (1 + more)

        total = 2 * self.max_positions * e + self.embedding_parameters()
        for layers, attends in ((self.encoder_layers, False), (self.decoder_layers, True)):
            shapes = self.shapes(layers)
            total += affine(e, shapes[0][0]) + affine(shapes[-1][1], e)
            for below, width, kernel in shapes:
                total += affine(kernel * below, 2 * width) + (affine(below, width) if below != width else 0)
                total += affine(width, e) + affine(e, width) if attends else 0
        return total


SIZES: dict[str, dict[str, Any]] = {
    "tiny": {
        "d_model": 128, "encoder_layers": 4, "decoder_layers": 3, "widths": (192,), "kernels": (3,), "dropout": 0.3,
        "weight_norm": False, "tie": ("source", "target", "output"),
    },
    "wmt-en-ro": {"encoder_layers": 20, "decoder_layers": 20, "widths": (512,), "kernels": (3,)},
    "wmt-en-de": {},
}  # fmt: skip
PUBLISHED: dict[str, tuple[int, float]] = {}  # the paper gives shapes, no counts


class Memory:
    """What the encoder knows of N sentences: what is compared with, and what is taken."""

    def __init__(self, keys: Tensor, values: Tensor, lengths: Tensor | None) -> None:
        self.keys, self.values, self.lengths = keys, values, lengths  # N S E


class State:
    """Where decoding stands: of each layer the last kernel - 1 inputs, and the source, shared by a sentence's rows."""

    def __init__(self, past: list[Tensor], source: Fixed, lengths: Tensor | None) -> None:
        self.past, self.source, self.mask = past, source, Mask(lengths=lengths)  # R k-1 D
        self.length = 0

    def reorder(self, rows: Tensor) -> None:
        """Row i goes on from where row rows[i] stands; there may be more or fewer rows than before."""
        self.past = [past[rows] for past in self.past]

    def keep(self, sentences: Tensor) -> None:
        self.source.keep(sentences)
        self.mask = self.mask.keep(sentences)


class Convolutional(Stepwise):
    """Gated convolutions on both sides; every layer of the decoder attends to the source."""

    Config = ConvolutionalConfig
    sizes = SIZES
    published = PUBLISHED
    tasks = frozenset({"translation", "summarisation"})

    def __init__(self, config: ConvolutionalConfig) -> None:
        super().__init__()
        self.config = c = config
        self.embed = embeddings(c)
        self.positions = nn.ModuleDict({side: Learned(c.d_model, c.max_positions) for side in ("source", "target")})
        for parameter in (*self.embed.parameters(), *self.positions.parameters()):
            nn.init.normal_(parameter, std=0.1)
        self.dropout = Dropout(c.dropout)
        reading, writing = c.shapes(c.encoder_layers), c.shapes(c.decoder_layers)
        self.encoder = ConvEncoder(c.d_model, [s[1] for s in reading], [s[2] for s in reading], c.dropout)
        self.encoder.share = 1 / (2 * c.decoder_layers)
        self.first = affine(c.d_model, writing[0][0], 1 - c.dropout)
        self.decoder = nn.ModuleList(ConvDecoderLayer(*shape, c.d_model, c.dropout) for shape in writing)
        self.last = affine(writing[-1][1], c.d_model)
        if c.weight_norm:
            for module in [m for m in self.modules() if isinstance(m, nn.Linear)]:
                weight_norm(module)

    def for_decoding(self) -> "Convolutional":
        return plain(self) if self.config.weight_norm else self

    @property
    def limit(self) -> int:
        """The most tokens of a side, its begin or end symbol not counted."""
        return self.config.max_positions - 1

    def embedded(self, tokens: Tensor, side: str, start: int = 0) -> Tensor:
        """Dropout(E[x] + P), section 3.1."""
        x: Tensor = self.dropout(self.positions[side](self.embed[side](tokens), start))
        return x

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Memory:
        keys, values = self.encoder(self.embedded(source, "source"), lengths)
        return Memory(keys, values, lengths)

    def start(self, memory: Memory) -> State:
        """A mean of m words has m times less variance: section 3.4 multiplies it by m sqrt(1 / m)."""
        words = memory.keys.size(1) if memory.lengths is None else memory.lengths[:, None, None]
        scale = math.sqrt(words) if isinstance(words, int) else words.to(memory.values.dtype).sqrt()
        source = Fixed(memory.keys[:, None], (memory.values * scale)[:, None])
        rows, layers = memory.keys.size(0), self.config.shapes(self.config.decoder_layers)
        past = [memory.keys.new_zeros(rows, kernel - 1, width) for width, _, kernel in layers]
        return State(past, source, memory.lengths)

    def write(self, tokens: Tensor, state: State) -> Tensor:
        g = self.embedded(tokens, "target", state.length)  # R T E
        state.length += tokens.size(1)
        h = self.first(g)
        for i, layer in enumerate(self.decoder):
            h, state.past[i] = layer(h, state.past[i], g, state.source, state.mask)
        out: Tensor = self.dropout(self.last(h))
        return out
