"""ELMo: against its equations and PyTorch's own LSTM, its published size, and the words that it cuts a text into."""

from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn
from torch.testing import assert_close

from regard.models import Elmo, ElmoConfig
from regard.models.elmo import LSTM, SIZES, SPACE, SPECIALS, Highway, Mix, Words, turned, words_of
from regard.nn.initial import Unfilled
from regard.text import Tokenizer

SMALL: dict[str, Any] = {
    "d_model": 12, "cells": 7, "d_char": 4, "windows": (1, 3), "maps": (5, 3), "dropout": 0.0, "vocabulary": 260,
}  # fmt: skip
TEXTS = ("the man eats", "so do I in a long sentence", "bread", "")


def make(**options: Any) -> Elmo:
    torch.manual_seed(0)
    model = Elmo(ElmoConfig(**SMALL | options))
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(0, 0.5)
    return model.double().eval()


def batch(*texts: str) -> tuple[Tensor, Tensor]:
    tokenizer = Tokenizer.learn(iter(()), "byte")
    ids = [tokenizer.specials.framed(tokenizer.encode(text))[0] for text in texts]
    lengths = torch.tensor([len(row) for row in ids])
    return torch.tensor([row + [0] * (int(lengths.max()) - len(row)) for row in ids]), lengths


def test_the_published_size() -> None:
    config = ElmoConfig(**SIZES["original"])
    with torch.device("meta"), Unfilled():
        model = Elmo(config)
    counts = {name: p.numel() for name, p in model.named_parameters()}
    mix = sum(n for name, n in counts.items() if name.startswith("mix."))
    assert sum(counts.values()) - mix == 93_600_864
    assert config.parameters() == sum(counts.values())
    assert ElmoConfig(**SMALL).parameters() == sum(p.numel() for p in make().parameters())


def test_words_are_those_of_pre_training() -> None:
    """Line ends and tabs part words too, and no number of them makes an empty one."""
    plain = "one two three"
    for text in (plain, "one\ntwo\tthree", "  one\r\n two \x0b\x1f three \n", "\none two  three"):
        assert words_of(text) == plain.split()
        both = Words.of(*batch(plain, text), 50)
        assert both.count.tolist() == [5, 5]
        assert torch.equal(both.characters[0], both.characters[1]), text
        assert torch.equal(both.sizes[0], both.sizes[1])
    for text in ("one\xa0two three", "one\u3000two\u2003three", "one\u2028two"):  # as many words with begin and end
        assert Words.of(*batch(text), 50).count.tolist() == [2 + len(words_of(text))], text
    assert Words.of(*batch(" \n "), 50).count.tolist() == [2]
    assert Words.of(*batch("a\n\nb"), 50).owner[0].tolist() == [0, 1, 1, 1, 2, 2, 3]


def test_words_are_what_stands_between_spaces() -> None:
    tokens, lengths = batch(*TEXTS)
    words = Words.of(tokens, lengths, 5)
    assert words.count.tolist() == [5, 9, 3, 2]  # with begin and end
    assert words.sizes[0].tolist()[:5] == [1, 4, 4, 5, 1]
    assert words.sizes[1].tolist() == [1, 3, 3, 2, 3, 2, 5, 5, 1]  # cut after five characters, the space among them
    assert words.characters[0, 1, :4].tolist() == [SPACE, *(SPECIALS + c for c in b"the")]
    assert words.owner[0].tolist()[:6] == [0, 1, 1, 1, 1, 2]
    assert not words.characters[2, 3:].any()


def test_forward_is_the_papers_equations() -> None:
    model = make(bound=0.0)
    tokens, lengths = batch(*TEXTS)
    found = model(tokens, lengths)
    for row, length, out in zip(tokens, lengths, found, strict=True):
        assert_close(out[:length], equations(model, row[:length]))


def equations(model: Elmo, tokens: Tensor) -> Tensor:
    """One text at a time, with PyTorch's LSTM."""
    words = Words.of(tokens[None], None, 50)
    x = []
    for characters, size in zip(words.characters[0], words.sizes[0], strict=True):
        y = model.characters.pooled(characters[None, :size], None)[0]
        for highway in model.highways:
            made, gate = highway.layer(y).chunk(2)
            g = 1 / (1 + (-gate).exp())
            y = g * y + (1 - g) * made.clamp(min=0)
        x.append(model.projection(y))
    layers = [torch.cat((torch.stack(x), torch.stack(x)), -1)]
    for number, layer in enumerate(model.layers):
        right, left = layers[-1].chunk(2, -1)
        y = torch.cat((theirs(layer.right)(right)[0], theirs(layer.left)(left.flip(0))[0].flip(0)), -1)
        layers.append(y + layers[-1] if number else y)
    weights = model.mix.s.exp() / model.mix.s.exp().sum()
    mixed = model.mix.gamma * sum(w * layer for w, layer in zip(weights, layers, strict=True))
    return mixed[words.owner[0]]


def theirs(lstm: LSTM) -> nn.LSTM:
    width, cells = lstm.read.in_features, lstm.out.in_features
    model = nn.LSTM(width, cells, proj_size=width).double()
    with torch.no_grad():
        model.weight_ih_l0.copy_(lstm.read.weight)
        model.bias_ih_l0.copy_(lstm.read.bias)
        model.weight_hh_l0.copy_(lstm.back.weight)
        model.weight_hr_l0.copy_(lstm.out.weight)
        model.bias_hh_l0.zero_()
    return model


def test_cells_and_outputs_are_held() -> None:
    lstm = make(bound=0.01).layers[0].right
    assert float(lstm(torch.randn(2, 9, 6).double()).detach().abs().max()) == 0.01
    lstm.bound = 0.0
    assert float(lstm(torch.randn(2, 9, 6).double()).detach().abs().max()) > 0.01


def test_a_direction_knows_one_side_only() -> None:
    model, (tokens, lengths) = make(), batch("the man eats bread now", "the man eats cakes now")
    for state in model.states(model.cut(tokens, lengths))[1:]:
        right, left = state.chunk(2, -1)  # words: begin, the, man, eats, bread | cakes, now, end
        assert_close(right[0, :4], right[1, :4])
        assert_close(left[0, 5:], left[1, 5:])
        assert (right[0, 4:] - right[1, 4:]).abs().amax(-1).min() > 1e-4
        assert (left[0, :5] - left[1, :5]).abs().amax(-1).min() > 1e-4


def test_the_mix() -> None:
    mix, states = Mix(3), list(torch.randn(3, 2, 4, 6))
    with torch.no_grad():
        assert_close(mix(states), torch.stack(states).mean(0))
        mix.s.copy_(torch.tensor([0.0, 100.0, 0.0]))
        assert_close(mix(states), states[1])
        mix.gamma.zero_()
        assert not mix(states).any()


def test_a_highway_carries_or_changes() -> None:
    highway, x = Highway(4), torch.randn(3, 4)
    with torch.no_grad():
        highway.layer.weight[4:] = 0
        highway.layer.bias[4:] = 100
        assert_close(highway(x), x)
        highway.layer.bias[4:] = -100
        assert_close(highway(x), highway.layer(x)[:, :4].relu())


def test_turning_twice_is_nothing() -> None:
    x, count = torch.randn(3, 5, 2), torch.tensor([5, 3, 1])
    assert torch.equal(turned(turned(x, count), count), x)
    assert torch.equal(turned(x, count)[1], x[1, [2, 1, 0, 3, 4]])


def test_every_weight_gets_a_gradient() -> None:
    model, (tokens, lengths) = make(), batch(*TEXTS)
    model(tokens, lengths).square().sum().backward()
    for name, p in model.named_parameters():
        assert p.grad is not None, name
        assert torch.isfinite(p.grad).all(), name
        assert p.grad.abs().sum() > 0, name


def test_an_odd_width_cannot_be() -> None:
    with pytest.raises(ValidationError, match="two directions; give an even number"):
        ElmoConfig(d_model=7)
