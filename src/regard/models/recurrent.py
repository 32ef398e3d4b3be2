"""Recurrent encoder and decoder with or without attention: Bahdanau 2015, Luong 2015; or a convolutional encoder."""

# Shapes: R rows (hypotheses), N sentences, T target length, S source length, D width, M memory width, E embeddings.

import math
from dataclasses import dataclass
from typing import Any, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from regard.models.pair import Embedding, PairConfig, Stepwise, embeddings
from regard.nn.attention import Fixed, Mask
from regard.nn.attention.alignment import Alignment, Span
from regard.nn.convolution import ConvEncoder
from regard.nn.dropout import Dropout
from regard.nn.position import Learned
from regard.nn.recurrent import Hidden, Reader, Writer, initialise


class RecurrentConfig(PairConfig):
    """The shape of a recurrent translator. Defaults are Bahdanau's RNNsearch.

    With additive attention the decoder is Bahdanau's: its previous state looks, what it finds feeds all gates, and
    maxout reads it out. With dot and general it is Luong's: the new state h looks and tanh(W [c; h]) is read out.
    """

    cell: Literal["lstm", "gru"] = Field("gru", description="the recurrent layers' kind")
    encoder: Literal["rnn", "cnn"] = Field(
        "rnn", description="what reads the source: recurrent or convolutional layers"
    )
    attention: Literal["none", "dot", "general", "additive"] = Field(
        "additive", description="how source states are scored; none: the source is known by the first state alone"
    )
    span: Span = Field("global", description="over all source words, or near the same place, or a predicted one")
    reach: int = Field(10, ge=1, description="words on each side that local attention sees")
    input_feeding: bool = Field(False, description="what was read out is an input of the next step (dot, general)")
    encoder_layers: int = Field(1, ge=1, description="layers that read the source")
    decoder_layers: int = Field(1, ge=1, description="layers that write the target")
    two_way: bool = Field(True, description="recurrent encoder layers read in both directions")
    d_model: int = Field(1000, ge=1, description="width of the decoder's states")
    d_encoder: int = Field(1000, ge=1, description="width of the encoder's layers, of each direction")
    d_embed: int = Field(620, ge=1, description="width of the embeddings")
    d_align: int = Field(1000, ge=1, description="inner width of additive attention")
    d_readout: int = Field(500, ge=1, description="width of what the softmax reads")
    encoder_kernel: int = Field(3, ge=1, description="words that a convolutional encoder's layer sees at once; odd")
    max_positions: int = Field(1024, ge=1, description="how many positions are learned, with encoder = 'cnn'")
    dropout: float = Field(0.0, ge=0, lt=1, description="dropout on embeddings, between layers and before the softmax")
    tie: tuple[Embedding, ...] = Field((), description="which of source, target and output embeddings share one matrix")
    source_vocabulary: int = Field(30000, ge=1, description="source tokens; set from the tokenizer")
    target_vocabulary: int = Field(30000, ge=1, description="target tokens; set from the tokenizer")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.attention == "dot" and self.d_memory != self.d_model:
            raise ValueError(
                f"dot attention compares source states of width {self.d_memory} with states of width {self.d_model}: "
                "make them equal, or use attention = 'general'"
            )
        if self.input_feeding and self.attention not in ("dot", "general"):
            raise ValueError(f"input_feeding is for dot and general attention; this is {self.attention}")
        if self.span != "global" and self.attention == "none":
            raise ValueError(f"span = {self.span!r} needs an attention; attention is 'none'")
        if self.encoder == "cnn" and self.encoder_kernel % 2 == 0:
            raise ValueError(f"encoder_kernel {self.encoder_kernel} has no middle; try {self.encoder_kernel + 1}")
        return self

    @property
    def embedding_shapes(self) -> dict[str, tuple[int, int]]:
        source, target = self.source_vocabulary, self.target_vocabulary
        return {"source": (source, self.d_embed), "target": (target, self.d_embed), "output": (target, self.d_readout)}

    @property
    def longest(self) -> int | None:
        return self.max_positions if self.encoder == "cnn" else None

    @property
    def d_memory(self) -> int:
        if self.encoder == "cnn":
            return self.d_embed
        return self.d_encoder * (2 if self.two_way else 1)

    @property
    def d_end(self) -> int:
        """Width of what the decoder's first state is made from. Bahdanau takes the state at the first word alone, which
        has read the sentence backwards; without attention all that was read should be in it."""
        return self.d_memory if self.encoder == "cnn" or self.attention == "none" else self.d_encoder

    @property
    def copies(self) -> bool:
        """The decoder begins with the encoder's last states as they are."""
        shapes = (self.encoder_layers, self.d_encoder) == (self.decoder_layers, self.d_model)
        return self.encoder == "rnn" and not self.two_way and shapes

    @property
    def fed(self) -> int:
        """What the first layer gets beside the embedding."""
        if self.attention == "additive":
            return self.d_memory
        return self.d_readout if self.input_feeding else 0

    def parameters(self) -> int:
        d, m, e, w = self.d_model, self.d_memory, self.d_embed, self.d_encoder
        gates, held = (4, 2) if self.cell == "lstm" else (3, 1)

        def layer(d_in: int, d_out: int) -> int:
            return gates * (d_in * d_out + d_out * d_out + 2 * d_out)

        if self.encoder == "cnn":
            conv = self.encoder_kernel * w * 2 * w + 2 * w
            encoder = (e * w + w) + self.encoder_layers * conv + (w * e + e) + self.max_positions * e
        else:
            encoder = (m // w) * (layer(e, w) + (self.encoder_layers - 1) * layer(m, w))
        decoder = layer(e + self.fed, d) + (self.decoder_layers - 1) * layer(d, d)
        bridge = 0 if self.copies else self.decoder_layers * (self.d_end * d + d) * held
        align = {"none": 0, "dot": 0, "general": m * d, "additive": (d + m + 1) * self.d_align}[self.attention]
        if self.span == "local-p":
            align += d * d + d
        readout = (d + m) * self.d_readout
        if self.attention == "additive":
            readout = (d + e + m) * 2 * self.d_readout
        elif self.attention == "none":
            readout = 0 if d == self.d_readout else d * self.d_readout
        return encoder + bridge + decoder + align + readout + self.embedding_parameters()


LUONG: dict[str, Any] = {
    "cell": "lstm", "encoder_layers": 4, "decoder_layers": 4, "two_way": False, "d_model": 1000, "d_encoder": 1000,
    "d_embed": 1000, "d_readout": 1000, "dropout": 0.2,
}  # fmt: skip
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {
        "d_model": 256, "d_encoder": 128, "d_embed": 128, "d_align": 128, "d_readout": 128, "dropout": 0.3,
        "tie": ("source", "target", "output"),
    },
    "bahdanau": {},
    "luong-none": {**LUONG, "attention": "none"},
    "luong-general": {**LUONG, "attention": "general", "input_feeding": True},
    "luong-local": {**LUONG, "attention": "general", "input_feeding": True, "span": "local-p"},
}  # fmt: skip
# Counted from the papers' equations with one bias a gate; PyTorch has two, a thousandth more.
PUBLISHED: dict[str, tuple[int, float]] = {
    "bahdanau": (30000, 80.411e6), "luong-none": (50000, 214.0e6), "luong-general": (50000, 221.0e6),
}  # fmt: skip


@dataclass
class Memory:
    """What the encoder knows of N sentences, and what the decoder begins with."""

    keys: Tensor  # N S M
    values: Tensor  # N S M
    lengths: Tensor | None
    first: list[Hidden]


class State:
    """Where decoding stands: each layer's state, and the source, shared by all rows of a sentence."""

    def __init__(self, hidden: list[Hidden], source: Fixed | None, lengths: Tensor | None, fed: Tensor | None) -> None:
        self.hidden, self.source, self.mask, self.fed = hidden, source, Mask(lengths=lengths), fed
        self.length = 0

    @property
    def top(self) -> Tensor:
        return self.hidden[-1][0]  # R D

    def reorder(self, rows: Tensor) -> None:
        """Row i goes on from where row rows[i] stands; there may be more or fewer rows than before."""
        self.hidden = [tuple(h[rows] for h in hidden) for hidden in self.hidden]
        self.fed = None if self.fed is None else self.fed[rows]

    def keep(self, sentences: Tensor) -> None:
        if self.source is not None:
            self.source.keep(sentences)
        self.mask = self.mask.keep(sentences)


class Recurrent(Stepwise):
    """Reads with recurrent (or convolutional) layers, writes with recurrent ones."""

    Config = RecurrentConfig
    sizes = SIZES
    published = PUBLISHED
    tasks = frozenset({"translation", "summarisation"})

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.config = c = config
        self.embed = embeddings(c)
        self.dropout = Dropout(c.dropout)
        self.encoder: nn.Module
        self.positions = nn.ModuleDict()
        if c.encoder == "cnn":
            widths, kernels = [c.d_encoder] * c.encoder_layers, [c.encoder_kernel] * c.encoder_layers
            self.positions["source"] = Learned(c.d_embed, c.max_positions)
            self.encoder = ConvEncoder(c.d_embed, widths, kernels, c.dropout)
        else:
            self.encoder = Reader(c.cell, c.d_embed, c.d_encoder, c.encoder_layers, c.two_way, c.dropout)
        bridges = 0 if c.copies else c.decoder_layers
        self.bridge = nn.ModuleList(
            nn.Linear(c.d_end, c.d_model * (2 if c.cell == "lstm" else 1)) for _ in range(bridges)
        )
        self.decoder = nn.ModuleList(
            Writer(c.cell, c.d_model if i else c.d_embed + c.fed, c.d_model) for i in range(c.decoder_layers)
        )
        if c.attention != "none":
            self.cross = Alignment(c.attention, c.d_model, c.d_memory, c.d_align, c.span, c.reach)
        self.readout = self._readout(c)
        self._initialise()

    @staticmethod
    def _readout(c: RecurrentConfig) -> nn.Module:
        if c.attention == "additive":
            return nn.Linear(c.d_model + c.d_embed + c.d_memory, 2 * c.d_readout, bias=False)
        if c.attention == "none":
            return nn.Identity() if c.d_readout == c.d_model else nn.Linear(c.d_model, c.d_readout, bias=False)
        return nn.Linear(c.d_memory + c.d_model, c.d_readout, bias=False)

    def _initialise(self) -> None:
        """Convolutional layers have values of their own kind already.

        First every source word counts the same, or nearly: scores that begin large choose one word, whatever the
        others are, and hardly learn another. Additive attention's v begins at zero, so does general's matrix; for dot
        a convolutional encoder's states, which have no bound as recurrent ones have, begin small.
        """
        for name, module in self.named_modules():
            initialise(module)
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
            elif isinstance(module, nn.Linear) and not name.startswith("encoder."):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        if self.config.attention == "general" and isinstance(self.cross.k, nn.Linear):
            nn.init.zeros_(self.cross.k.weight)
        elif self.config.attention == "dot" and isinstance(self.encoder, ConvEncoder):
            nn.init.normal_(self.encoder.last.weight, std=0.1 * self.config.d_encoder**-0.5)

    @property
    def limit(self) -> int | None:
        """The most tokens of a side, its end symbol not counted; None when there is no limit."""
        longest = self.config.longest
        return None if longest is None else longest - 1

    def embedded(self, tokens: Tensor, side: str) -> Tensor:
        """Words as vectors of variance one, though their matrix may be the output's as well, which begins smaller."""
        x: Tensor = self.embed[side](tokens)
        x = self.positions[side](x) if side in self.positions else x
        out: Tensor = self.dropout(x * math.sqrt(self.config.d_embed))
        return out

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Memory:
        x = self.embedded(source, "source")  # N S E
        if isinstance(self.encoder, ConvEncoder):
            keys, values = self.encoder(x, lengths)
            return Memory(keys, values, lengths, self._begin([(_mean(keys, lengths),)]))
        states, ends = self.encoder(x, lengths)
        return Memory(states, states, lengths, self._begin(ends))

    def _begin(self, ends: list[Hidden]) -> list[Hidden]:
        """The decoder's first states: s_0 = tanh(W h), h the encoder's last; an LSTM's c without the tanh."""
        if self.config.copies:
            return ends
        last = ends[-1][0][:, -self.config.d_end :]
        made = [bridge(last).split(self.config.d_model, -1) for bridge in self.bridge]
        return [(first[0].tanh(), *first[1:]) for first in made]

    def start(self, memory: Memory) -> State:
        c = self.config
        source = None if c.attention == "none" else self.cross.project(memory.keys, memory.values)
        fed = memory.keys.new_zeros(memory.keys.size(0), c.d_readout) if c.input_feeding else None
        return State(list(memory.first), source, memory.lengths, fed)

    def write(self, tokens: Tensor, state: State) -> Tensor:
        y = self.embedded(tokens, "target")  # R T E
        if self.config.attention == "additive":
            read = self._searching(y, state)
        elif self.config.input_feeding:
            read = self._feeding(y, state)
        else:
            read = self._plain(y, state)
        state.length += tokens.size(1)
        out: Tensor = self.dropout(read)
        return out

    def _searching(self, y: Tensor, state: State) -> Tensor:
        """Bahdanau, appendix A.2: c_i by s_{i-1}; s_i by y_{i-1} and c_i; maxout over s_i, y_{i-1} and c_i."""
        found: list[Tensor] = []
        tops: list[Tensor] = []
        for gates, columns in self._gates(y):
            context = self._look(state.top[:, None], state, len(tops))[:, 0]  # R M
            self._advance(gates + F.linear(context, columns), state)
            found.append(context)
            tops.append(state.top)
        wide: Tensor = self.readout(torch.cat((torch.stack(tops, 1), y, torch.stack(found, 1)), -1))
        return wide.view(*y.shape[:2], -1, 2).amax(-1)  # R T D_readout

    def _feeding(self, y: Tensor, state: State) -> Tensor:
        """Luong, section 3.3: what was read out, tanh(W [c; h]), is an input of the next step."""
        read: list[Tensor] = []
        for gates, columns in self._gates(y):
            assert state.fed is not None
            self._advance(gates + F.linear(state.fed, columns), state)
            state.fed = self._read(state.top[:, None], state, len(read))[:, 0]
            read.append(state.fed)
        return torch.stack(read, 1)

    def _plain(self, y: Tensor, state: State) -> Tensor:
        """Nothing that is found feeds the layers: each can go over all steps at once."""
        for i, layer in enumerate(self.decoder):
            y, state.hidden[i] = layer(self.dropout(y) if i else y, state.hidden[i])
        return self._read(y, state)

    def _gates(self, y: Tensor) -> list[tuple[Tensor, Tensor]]:
        """For each step the embedding's part in the first layer's gates, and the matrix of what is fed beside it."""
        first = self.decoder[0]
        assert isinstance(first, Writer)
        own, fed = first.columns(self.config.d_embed)
        return [(gates, fed) for gates in first.project(y, own).unbind(1)]

    def _advance(self, gates: Tensor, state: State) -> None:
        for i, layer in enumerate(self.decoder):
            assert isinstance(layer, Writer)
            if i:
                gates = layer.project(self.dropout(state.hidden[i - 1][0]))
            state.hidden[i] = layer.advance(gates, state.hidden[i])

    def _look(self, states: Tensor, state: State, done: int = 0) -> Tensor:
        assert state.source is not None
        found: Tensor = self.cross(states, state.source, state.mask, state.length + done)
        return found

    def _read(self, h: Tensor, state: State, done: int = 0) -> Tensor:
        """tanh(W [c; h]), Luong's equation 5; without attention h alone, as it is if it has the width asked for."""
        if self.config.attention != "none":
            h = torch.cat((self._look(h, state, done), h), -1)
        read: Tensor = self.readout(h)
        return read if isinstance(self.readout, nn.Identity) else read.tanh()


def _mean(states: Tensor, lengths: Tensor | None) -> Tensor:
    """Over the real words (N M)."""
    if lengths is None:
        return states.mean(1)
    real = torch.arange(states.size(1), device=states.device) < lengths[:, None]
    return (states * real[..., None]).sum(1) / lengths[:, None]
