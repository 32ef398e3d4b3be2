"""ELMo (Peters 2018): words from their characters, read by LSTMs in both directions, and a mix of all layers."""

# Shapes: B batch, T characters of a text, N words of a text, L characters of a word, D width, P = D/2 (one direction).

import re
from typing import Any

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.models.config import ModelConfig
from regard.models.textcnn import TextCNN, TextCNNConfig
from regard.nn.dropout import Dropout

SPECIALS = 4  # of the tokenizer of bytes, before its 256 bytes; each is a word of its own
SPACE = SPECIALS + ord(" ")  # every other word begins with it
WHITE = "".join(chr(code) for code in range(128) if chr(code).isspace())  # what parts words: single bytes alone


def words_of(text: str) -> list[str]:
    """As the model cuts a text: a no-break space is a part of a word."""
    return re.findall(f"[^{WHITE}]+", text)


class ElmoConfig(ModelConfig):
    """The shape of an ELMo. Defaults are the published model's."""

    d_model: int = Field(1024, ge=2, description="width of the states, half of it for each direction")
    cells: int = Field(4096, ge=1, description="memory cells of each LSTM")
    layers: int = Field(2, ge=1, description="how many LSTMs in each direction")
    d_char: int = Field(16, ge=1, description="width of the characters' embeddings")
    windows: tuple[int, ...] = Field((1, 2, 3, 4, 5, 6, 7), min_length=1, description="how many characters are seen")
    maps: tuple[int, ...] = Field((32, 32, 64, 128, 256, 512, 1024), description="feature maps of each window")
    highways: int = Field(2, ge=0, description="highway layers over the characters' features")
    word: int = Field(50, ge=1, description="most characters of a word; the rest is not read")
    bound: float = Field(3.0, ge=0, description="LSTM cells and outputs are held within it; 0 sets no bound")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout on the words and after each layer")
    vocabulary: int = Field(262, ge=1, description="characters; set from the tokenizer")

    @model_validator(mode="after")
    def _check(self) -> "ElmoConfig":
        if self.d_model % 2:
            raise ValueError(f"d_model {self.d_model} has two directions; give an even number")
        assert self.characters
        return self

    @property
    def characters(self) -> TextCNNConfig:
        return TextCNNConfig(d_model=self.d_char, windows=self.windows, maps=self.maps, vocabulary=self.vocabulary)

    def parameters(self) -> int:
        p, c, features = self.d_model // 2, self.cells, self.characters.width
        words = self.highways * 2 * (features + 1) * features + (features + 1) * p
        lstm = 2 * p * 4 * c + 4 * c + c * p
        return self.characters.parameters() + words + 2 * self.layers * lstm + self.layers + 2


SIZES: dict[str, dict[str, Any]] = {
    "mini": {"d_model": 128, "cells": 256, "windows": (1, 2, 3, 4, 5), "maps": (16, 16, 32, 64, 64)},
    "original": {},
}

PUBLISHED: dict[str, tuple[int, float]] = {"original": (262, 93.6e6)}


class Elmo(nn.Module):
    """A state for each character: that of its word, made of the words before it and of those after it."""

    Config = ElmoConfig
    sizes = SIZES
    published = PUBLISHED
    tasks = frozenset({"two-way", "classification", "tagging"})
    tokenizer = "byte"

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        self.config = c = config
        self.characters = TextCNN(c.characters)
        self.highways = nn.ModuleList(Highway(self.characters.width) for _ in range(c.highways))
        self.projection = nn.Linear(self.characters.width, c.d_model // 2)
        self.dropout = Dropout(c.dropout)
        self.layers = nn.ModuleList(TwoWay(c.d_model // 2, c.cells, c.bound) for _ in range(c.layers))
        self.mix = Mix(c.layers + 1)

    def stages(self) -> list[list[nn.Module]]:
        """From below, what reads a word and then each layer. How they are mixed is learned with the head."""
        return [[self.characters, self.highways, self.projection], *([layer] for layer in self.layers)]

    def forward(self, tokens: Tensor, lengths: Tensor | None, segments: Tensor | None = None) -> Tensor:
        """The mix of all layers (B T D). A pair is read as one text."""
        words = self.cut(tokens, lengths)
        mixed: Tensor = self.mix(self.states(words))
        return mixed.gather(1, words.owner[..., None].expand(-1, -1, mixed.size(-1)))

    def cut(self, tokens: Tensor, lengths: Tensor | None) -> "Words":
        return Words.of(tokens, lengths, self.config.word)

    def states(self, words: "Words") -> list[Tensor]:
        """What each layer says of each word (B N D), the words themselves first, twice."""
        x = self.characters.pooled(words.characters.flatten(0, 1), words.sizes.flatten())
        for highway in self.highways:
            x = highway(x)
        x = self.dropout(self.projection(x)).unflatten(0, words.sizes.shape)  # B N P
        states = [torch.cat((x, x), -1)]
        for number, layer in enumerate(self.layers):
            y = self.dropout(layer(states[-1], words.count))
            states.append(states[-1] + y if number else y)  # a residual from the second layer on
        return states


class Words:
    """Texts cut into words: their characters (B N L), how many each has (B N), how many there are (B); and the word of
    each character of a text (B T)."""

    def __init__(self, characters: Tensor, sizes: Tensor, count: Tensor, owner: Tensor) -> None:
        self.characters, self.sizes, self.count, self.owner = characters, sizes, count, owner

    @staticmethod
    def of(tokens: Tensor, lengths: Tensor | None, longest: int) -> "Words":
        """A word begins at the last white space before it, which is read as a space; a special token is one.

        All other white space is no part of a word, as in pre-training; its state is that of the word before.
        """
        special, places = tokens < SPECIALS, torch.arange(tokens.size(1), device=tokens.device)
        white = torch.isin(tokens, tokens.new_tensor(list(WHITE.encode())) + SPECIALS)
        real = torch.ones_like(special) if lengths is None else places < lengths[:, None]
        letter = real & ~(special | white)
        begins = special.clone()
        begins[:, :-1] |= white[:, :-1] & letter[:, 1:]
        begins[:, 1:] |= letter[:, 1:] & special[:, :-1]
        begins[:, 0] = True
        begins &= real
        owner = begins.cumsum(1) - 1  # padding belongs to the last word, and is not written
        first = torch.where(begins, places, 0).cummax(1).values
        written = (begins | letter) & (places - first < longest)
        count = owner[:, -1] + 1
        rows = torch.arange(len(tokens), device=tokens.device)[:, None].expand_as(tokens)
        characters = tokens.new_zeros(len(tokens), int(count.max()), longest)
        where = (rows[written], owner[written], (places - first)[written])
        characters[where] = tokens.masked_fill(white, SPACE)[written]
        sizes = torch.zeros_like(characters).index_put(where, torch.ones_like(where[0])).sum(-1)
        return Words(characters[..., : int(sizes.max())], sizes, count, owner)


class Highway(nn.Module):
    """g x + (1 - g) relu(W x + b), with g = sigmoid(V x + c) (Srivastava 2015)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, 2 * width)
        nn.init.normal_(self.layer.weight, std=width**-0.5)
        nn.init.zeros_(self.layer.bias)
        with torch.no_grad():
            self.layer.bias[width:] += 1  # it begins by carrying its input on

    def forward(self, x: Tensor) -> Tensor:
        made, gate = self.layer(x).chunk(2, -1)
        return torch.lerp(made.relu(), x, gate.sigmoid())


class LSTM(nn.Module):
    """An LSTM whose output is projected before it goes back in (Sak 2014), cells and outputs held within a bound."""

    def __init__(self, width: int, cells: int, bound: float) -> None:
        super().__init__()
        self.bound = bound
        self.read = nn.Linear(width, 4 * cells)  # input, forget, new, output
        self.back = nn.Linear(width, 4 * cells, bias=False)
        self.out = nn.Linear(cells, width, bias=False)
        nn.init.zeros_(self.read.bias)
        with torch.no_grad():
            self.read.bias[cells : 2 * cells] += 1  # it begins by keeping what it has

    def forward(self, x: Tensor) -> Tensor:
        """B N P to B N P, from the first to the last."""
        h, cell, outputs = x.new_zeros(len(x), x.size(-1)), x.new_zeros(len(x), self.out.in_features), []
        for read in self.read(x).unbind(1):
            i, f, new, o = (read + self.back(h)).chunk(4, -1)
            cell = self._held(f.sigmoid() * cell + i.sigmoid() * new.tanh())
            h = self._held(self.out(o.sigmoid() * cell.tanh()))
            outputs.append(h)
        return torch.stack(outputs, 1)

    def _held(self, x: Tensor) -> Tensor:
        return x.clamp(-self.bound, self.bound) if self.bound else x


class TwoWay(nn.Module):
    """One LSTM reads to the right, another to the left, each what the same direction said below."""

    def __init__(self, width: int, cells: int, bound: float) -> None:
        super().__init__()
        self.right, self.left = LSTM(width, cells, bound), LSTM(width, cells, bound)

    def forward(self, x: Tensor, count: Tensor) -> Tensor:
        """B N D to B N D. What stands after a text's last word is not read before it."""
        right, left = x.chunk(2, -1)
        return torch.cat((self.right(right), turned(self.left(turned(left, count)), count)), -1)


def turned(x: Tensor, count: Tensor) -> Tensor:
    """Each text's words in the opposite order; what comes after the last stays where it is."""
    places = torch.arange(x.size(1), device=x.device)
    other = torch.where(places < count[:, None], count[:, None] - 1 - places, places)
    return x.gather(1, other[..., None].expand_as(x))


class Mix(nn.Module):
    """gamma times the mean of the layers, weighted by softmax(s): equation 1."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.s = nn.Parameter(torch.empty(layers))
        self.gamma = nn.Parameter(torch.empty(()))
        nn.init.zeros_(self.s)
        nn.init.ones_(self.gamma)

    def forward(self, states: list[Tensor]) -> Tensor:
        weighted = [share * state for share, state in zip(self.s.softmax(0), states, strict=True)]
        return self.gamma * torch.stack(weighted).sum(0)
