"""The Transformer of "Attention Is All You Need" (Vaswani 2017): config, module, published sizes."""

# Shapes: B batch, R rows (hypotheses), N sentences, T target length, S source length, D width, V vocabulary.

import math
from dataclasses import dataclass
from typing import Any, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from regard.models.config import check_heads, check_positions
from regard.models.pair import PairConfig, Paired, embeddings
from regard.nn.attention import ATTENTIONS, Fixed, Growing, Mask, MultiHead
from regard.nn.blocks import DecoderLayer, EncoderLayer, FeedForward, Residual
from regard.nn.copying import Copies, Pointer
from regard.nn.dropout import Dropout
from regard.nn.packed import PackedDecoder, PackedState
from regard.nn.position import Learned, Rotary, Sinusoidal


class TransformerConfig(PairConfig):
    """The shape of a Transformer. Defaults are the paper's base model."""

    d_model: int = Field(512, ge=2, description="width of the residual stream")
    d_ff: int = Field(2048, ge=1, description="inner width of the feed-forward layers")
    heads: int = Field(8, ge=1, description="attention heads in each layer")
    encoder_layers: int = Field(6, ge=0, description="layers that read the source")
    decoder_layers: int = Field(6, ge=1, description="layers that write the target; few make translating fast")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout on each sub-layer's output and on the embeddings")
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="dropout on attention weights (slower on CPU)")
    activation_dropout: float = Field(0.0, ge=0, lt=1, description="dropout inside the feed-forward layers")
    norm: Literal["post", "pre"] = Field("post", description="layer norm after each sub-layer (published) or before it")
    norm_eps: float = Field(1e-5, gt=0, description="what keeps a layer norm from dividing by zero")
    activation: Literal["relu", "gelu", "swish"] = Field("relu", description="the feed-forward layers' non-linearity")
    positions: Literal["sinusoidal", "learned", "rotary", "none"] = Field(
        "sinusoidal", description="how word order is known"
    )
    max_positions: int = Field(1024, ge=1, description="how many positions are learned, with positions = 'learned'")
    attention: str = Field("full", description="the attention kernel; of an rnn: none, dot, general or additive")
    attention_bias: bool = Field(False, description="biases in the attention's projections")
    output_bias: bool = Field(False, description="a bias for each token before the softmax")
    scale_embeddings: bool = Field(True, description="embeddings times sqrt(d_model), as published")
    embedding_norm: bool = Field(
        False, description="layer norm of the embeddings in place of the factor sqrt(d_model), as in BERT and BART"
    )
    copying: bool = Field(False, description="a word can be copied from the source in place of being chosen (See 2017)")

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_heads(self.d_model, self.heads)
        check_positions(self.positions, self.d_model, self.heads)
        if self.attention not in ATTENTIONS:
            raise ValueError(f"attention {self.attention!r} is not known; known: {', '.join(ATTENTIONS)}")
        lacks = {"causal", "cross", "cache"} - ATTENTIONS[self.attention].can
        if lacks:
            raise ValueError(
                f"attention {self.attention!r} cannot do {', '.join(sorted(lacks))}, which a decoder needs"
            )
        if self.embedding_norm and self.positions == "sinusoidal":
            raise ValueError("embedding_norm would make the words small beside sinusoids; use positions = 'learned'")
        if self.copying and self.source_vocabulary != self.target_vocabulary:
            raise ValueError("copying takes tokens over as they are, so it needs one tokenizer for both sides")
        return self

    @property
    def embedding_scale(self) -> float:
        return math.sqrt(self.d_model) if self.scale_embeddings and not self.embedding_norm else 1.0

    @property
    def longest(self) -> int | None:
        return self.max_positions if self.positions == "learned" else None

    def parameters(self) -> int:
        d, ff = self.d_model, self.d_ff
        attention = 4 * (d * d + (d if self.attention_bias else 0))
        feed_forward = 2 * d * ff + ff + d
        norm = 2 * d
        encoder = self.encoder_layers * (attention + feed_forward + 2 * norm)
        decoder = self.decoder_layers * (2 * attention + feed_forward + 3 * norm)
        if self.norm == "pre":
            encoder, decoder = encoder + norm, decoder + norm
        if self.positions == "learned":
            encoder, decoder = encoder + self.max_positions * d, decoder + self.max_positions * d
        if self.embedding_norm:
            encoder, decoder = encoder + norm, decoder + norm
        bias = self.target_vocabulary if self.output_bias else 0
        pointer = 2 * (d * d + d) + d + 1 if self.copying else 0
        return encoder + decoder + pointer + bias + self.embedding_parameters()


# Published: table 3 of the paper (millions of weights) and the Multi30k model of Wu 2021, each with its vocabulary.
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {
        "d_model": 128, "d_ff": 256, "heads": 4, "encoder_layers": 4, "decoder_layers": 4,
        "dropout": 0.3, "attention_bias": True,
    },
    "small": {"d_model": 256, "d_ff": 1024, "heads": 4, "encoder_layers": 6, "decoder_layers": 6, "dropout": 0.1},
    "base": {"d_model": 512, "d_ff": 2048, "heads": 8, "encoder_layers": 6, "decoder_layers": 6, "dropout": 0.1},
    "big": {"d_model": 1024, "d_ff": 4096, "heads": 16, "encoder_layers": 6, "decoder_layers": 6, "dropout": 0.3},
}  # fmt: skip
PUBLISHED: dict[str, tuple[int, float]] = {"tiny": (9712, 2.6e6), "base": (37000, 65e6), "big": (37000, 213e6)}


@dataclass
class Memory:
    """What the encoder knows of N sentences."""

    states: Tensor  # N S D
    lengths: Tensor | None  # N, how many positions are real; None when all are
    tokens: Tensor  # N S


class State:
    """Where decoding stands: one growing cache a layer, and the memory's projections, shared by all rows."""

    def __init__(self, caches: list[tuple[Growing, Fixed]], lengths: Tensor | None, copies: Copies | None) -> None:
        self.caches, self.copies = caches, copies
        self.source = Mask(lengths=lengths)

    @property
    def length(self) -> int:
        return self.caches[0][0].length

    def reorder(self, rows: Tensor) -> None:
        """Row i goes on from where row rows[i] stands (rows of one sentence stay together)."""
        for grown, _ in self.caches:
            grown.reorder(rows)

    def keep(self, sentences: Tensor) -> None:
        """Drops the memory of finished sentences; their rows are dropped by `reorder`."""
        for _, fixed in self.caches:
            fixed.keep(sentences)
        self.source = self.source.keep(sentences)
        if self.copies is not None:
            self.copies.keep(sentences)


class Transformer(Paired):
    """Encoder and decoder. `forward` trains; `encode`, `start`, `step` decode."""

    Config = TransformerConfig
    sizes = SIZES
    published = PUBLISHED
    tasks = frozenset({"translation", "summarisation"})

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = c = config
        self.embed = embeddings(c)
        self.positions = self._positions(c)
        sides = ("source", "target") if c.embedding_norm else ()
        self.embedding_norms = nn.ModuleDict({side: nn.LayerNorm(c.d_model, c.norm_eps) for side in sides})
        self.dropout = Dropout(c.dropout)
        rotary = Rotary(c.d_model // c.heads) if c.positions == "rotary" else None

        def attention(over: Rotary | None = None) -> MultiHead:
            kernel = ATTENTIONS[c.attention](c.attention_dropout)
            return MultiHead(c.d_model, c.heads, kernel, bias=c.attention_bias, rotary=over)

        def feed_forward() -> FeedForward:
            return FeedForward(c.d_model, c.d_ff, c.activation, c.activation_dropout)

        def residual() -> Residual:
            return Residual(c.d_model, c.dropout, c.norm, c.norm_eps)

        def last_norm() -> nn.Module:
            return nn.LayerNorm(c.d_model, c.norm_eps) if c.norm == "pre" else nn.Identity()

        self.encoder = nn.ModuleList(
            EncoderLayer(attention(rotary), feed_forward(), residual) for _ in range(c.encoder_layers)
        )
        self.encoder_norm = last_norm()
        self.decoder = nn.ModuleList(
            DecoderLayer(attention(rotary), attention(), feed_forward(), residual) for _ in range(c.decoder_layers)
        )
        self.decoder_norm = last_norm()
        self.output_bias = nn.Parameter(torch.zeros(c.target_vocabulary)) if c.output_bias else None
        self.pointer = Pointer(c.d_model) if c.copying else None
        self.apply(self._initialise)

    def stages(self) -> list[list[nn.Module]]:
        """From below, what embeds and then each layer of the encoder: for freezing, and for rates by depth."""
        embeds = [self.embed["source"], self.embed["target"], self.positions, self.embedding_norms]
        stages = [embeds, *([layer] for layer in self.encoder)]
        stages[-1].append(self.encoder_norm)
        return stages

    @staticmethod
    def _positions(c: TransformerConfig) -> nn.ModuleDict:
        """Sinusoids are the same on both sides; learned ones are not."""
        if c.positions == "sinusoidal":
            table = Sinusoidal(c.d_model)
            return nn.ModuleDict({"source": table, "target": table})
        if c.positions == "learned":
            return nn.ModuleDict({side: Learned(c.d_model, c.max_positions) for side in ("source", "target")})
        return nn.ModuleDict()

    def _initialise(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=self.config.d_model**-0.5)

    @property
    def limit(self) -> int | None:
        """The most tokens of a side, its begin or end symbol not counted; None when there is no limit."""
        longest = self.config.longest
        return None if longest is None else longest - 1

    def embedded(self, tokens: Tensor, side: str, start: int = 0) -> Tensor:
        """Dropout(E[x] sqrt(d) + PE), sections 3.4 and 3.5; or Dropout(LayerNorm(E[x] + PE))."""
        x: Tensor = self.embed[side](tokens) * self.config.embedding_scale
        if side in self.positions:
            x = self.positions[side](x, start)
        if side in self.embedding_norms:
            x = self.embedding_norms[side](x)
        out: Tensor = self.dropout(x)
        return out

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Memory:
        mask = Mask(lengths=lengths)
        x = self.embedded(source, "source")  # B S D
        for layer in self.encoder:
            x = layer(x, mask)
        return Memory(self.encoder_norm(x), lengths, source)

    def forward(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        """The decoder's last states (B T D) for a known target, all positions at once; see `output`."""
        return self.decoded(self.encode(source, lengths), target)

    def decoded(self, memory: Memory, target: Tensor) -> Tensor:
        own, over = Mask(causal=True), Mask(lengths=memory.lengths)
        x = self.embedded(target, "target")  # B T D
        for layer in self.decoder:
            x = layer(x, memory.states, own, over)
        out: Tensor = self.decoder_norm(x)
        return out

    def logits(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        """Whose softmax is p(next) after each token of a known target (B T V); log p itself when it copies."""
        if self.pointer is None:
            return super().logits(source, lengths, target)
        memory = self.encode(source, lengths)
        states = self.decoded(memory, target)
        copies = self.pointer.copies(source, memory.states, lengths)
        out: Tensor = self.pointer(states, F.linear(states, self.output, self.output_bias), copies)
        return out

    def losses(
        self, source: Tensor, lengths: Tensor | None, target: Tensor, wanted: Tensor, real: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        if self.pointer is None:
            return super().losses(source, lengths, target, wanted, real, smoothing)
        memory = self.encode(source, lengths)
        copies = self.pointer.copies(source, memory.states, lengths)
        return self.pointer.losses(
            self.decoded(memory, target), self.output, self.output_bias, copies, wanted, real, smoothing
        )

    def for_decoding(self) -> "Packed":
        """The same model, faster at writing token by token; its decoder's weights are copied."""
        return Packed(self)

    def start(self, memory: Memory) -> State:
        caches = []
        for layer in self.decoder:
            assert isinstance(layer, DecoderLayer)
            caches.append((Growing(), Fixed(*layer.cross.project(memory.states))))
        return State(caches, memory.lengths, self.copies(memory))

    def copies(self, memory: Memory) -> Copies | None:
        return None if self.pointer is None else self.pointer.copies(memory.tokens, memory.states, memory.lengths)

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Logits (R V) after one or more further tokens (R T) of each row."""
        own = Mask(causal=True)
        x = self.embedded(tokens, "target", state.length)  # R T D
        for layer, cache in zip(self.decoder, state.caches, strict=True):
            x = layer(x, None, own, state.source, cache)
        x = self.decoder_norm(x[:, -1])
        return self.pointed(x, F.linear(x, self.output, self.output_bias), state.copies), state

    def pointed(self, states: Tensor, logits: Tensor, copies: Copies | None) -> Tensor:
        """The logits (R V), or with something to copy from, log p with it."""
        if self.pointer is None or copies is None:
            return logits
        out: Tensor = self.pointer(states[:, None], logits[:, None], copies)
        return out[:, 0]


class Packed:
    """A Transformer whose decoder is packed for decoding: `encode`, `start` and, for one token, `step` as its own."""

    def __init__(self, model: Transformer) -> None:
        self.model, self.encode, self.limit = model, model.encode, model.limit
        embedding = model.embed["target"]
        assert isinstance(embedding, nn.Embedding)
        layers = [layer for layer in model.decoder if isinstance(layer, DecoderLayer)]
        table = embedding.weight.detach() * model.config.embedding_scale
        positions, first = (dict(parts).get("target") for parts in (model.positions, model.embedding_norms))
        output, bias = model.output.detach(), None if model.output_bias is None else model.output_bias.detach()
        self.decoder = PackedDecoder(layers, table, positions, first, model.decoder_norm, output, bias)

    def start(self, memory: Memory) -> PackedState:
        state = self.decoder.start(memory.states, memory.lengths)
        state.copies = self.model.copies(memory)
        return state

    def step(self, tokens: Tensor, state: PackedState) -> tuple[Tensor, PackedState]:
        states, logits = self.decoder.step(tokens, state)
        return self.model.pointed(states, logits, state.copies), state
