"""What every network that reads must keep under every head that it can carry, whatever its name and options."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from regard.config import TrainConfig
from regard.errors import UserError
from regard.models import HEADS, MODELS, HeadConfig
from regard.training.optim import Optimizer, freeze

READING = ("classification", "tagging", "answering")
ATTENDING: dict[str, Any] = {"d_model": 8, "d_ff": 12, "heads": 2, "layers": 3, "max_positions": 24}
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("bert", ATTENDING),
    "bert-pre": ("bert", ATTENDING | {"norm": "pre", "first_position": 2, "segments": 1}),
    "gpt": ("gpt", ATTENDING | {"norm": "pre"}),
    "gpt-post": ("gpt", ATTENDING | {"norm": "post", "positions": "rotary"}),
    "tcn": ("tcn", {"d_model": 6, "layers": 3, "embedding_dropout": 0.0}),
    "kim": ("textcnn", {"d_model": 6, "windows": (2, 3, 4), "maps": (5, 5, 5)}),
    "dcnn": ("textcnn", {"d_model": 8, "windows": (3, 2), "maps": (3, 4), "stacked": True, "wide": True, "fold": True,
                         "kept": 2, "activation": "tanh"}),
    "elmo": ("elmo", {"d_model": 8, "cells": 6, "layers": 2}),
}  # fmt: skip
CASES = [
    (case, task, pooling)
    for case, task in itertools.product(SHAPES, READING)
    if task in MODELS[SHAPES[case][0]].tasks
    for pooling in (("first", "mean", "last") if task == "classification" else ("mean",))
]
SEEING_ALL = [(case, task, pooling) for case, task, pooling in CASES if pooling == "mean" or case == "bert"]


def make(case: str, task: str = "classification", pooling: str = "mean") -> Any:
    """In double precision, with every weight random."""
    name, options = SHAPES[case]
    torch.manual_seed(0)
    body = MODELS[name](MODELS[name].Config(**{"vocabulary": 300, "dropout": 0.0} | options))
    model = HEADS[task](body, HeadConfig(pooling=pooling, drop=0.0), 2 if task == "answering" else 3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.05, 0.2)
    return model.double().eval()


def texts(lengths: list[int], width: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Rows of bytes, some of them spaces; what stands after each length is noise that no one may look at."""
    drawn = torch.Generator().manual_seed(seed)
    tokens = torch.randint(4, 260, (len(lengths), width), generator=drawn)
    return tokens.masked_fill(torch.rand(tokens.shape, generator=drawn) < 0.2, 36), torch.tensor(lengths)


def test_none_is_left_out() -> None:
    carrying = {(name, task) for name, model in MODELS.items() for task in READING if task in model.tasks}
    assert {(SHAPES[case][0], task) for case, task, _ in CASES} == carrying


@pytest.mark.parametrize(("case", "task", "pooling"), CASES)
def test_padding_and_neighbours_change_nothing(case: str, task: str, pooling: str) -> None:
    model, (tokens, lengths) = make(case, task, pooling), texts([9, 20, 5], 20)
    other, _ = texts([9, 20, 5], 20, seed=1)
    real = torch.arange(20) < lengths[:, None]
    with torch.inference_mode():
        together, noisy = model(tokens, lengths), model(torch.where(real, tokens, other), lengths)
        for row, length in enumerate(lengths.tolist()):
            alone = model(tokens[row : row + 1, :length], None)[0]
            for batch in (together, noisy):
                found = batch[row] if task == "classification" else batch[row, :length]
                assert_close(found, alone, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("case", "task", "pooling"), SEEING_ALL)
def test_every_weight_of_body_and_head_learns(case: str, task: str, pooling: str) -> None:
    model, (tokens, lengths) = make(case, task, pooling), texts([9, 20, 24], 24)
    segments = (torch.arange(24) > 6).long().expand(3, -1)
    model(tokens, lengths, segments).square().sum().backward()
    unused = {"body.last.weight"}  # an output of its own is for guessing words
    still = {n for n, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0}
    assert still <= unused


@pytest.mark.parametrize("case", SHAPES)
def test_what_is_frozen_is_what_is_read_first(case: str) -> None:
    """A part of a body comes above another exactly if it changes with what the other says, and not the other way."""
    model, (tokens, lengths) = make(case), texts([9, 12], 12)
    stages = model.body.stages()
    held = [p for parts in stages for part in parts for p in part.parameters()]
    assert len({id(p) for p in held}) == len(held)
    said: dict[nn.Module, list[Tensor]] = {}
    for part in {part for parts in stages for part in parts}:
        for module in part if isinstance(part, nn.ModuleList) else [part]:
            said[module] = []
            module.register_forward_hook(lambda m, _, out: said[m].append(out[0] if isinstance(out, tuple) else out))

    def heard() -> dict[nn.Module, Any]:
        for outs in said.values():
            outs.clear()
        with torch.no_grad():
            model(tokens, lengths)
        return {module: [out.clone() for out in outs] for module, outs in said.items() if outs}

    before = heard()
    for depth, parts in enumerate(stages):
        with torch.no_grad():
            for p in (p for part in parts for p in part.parameters()):
                p.mul_(1.01)
        after = heard()
        moved = {m for m in before if any(not torch.equal(a, b) for a, b in zip(before[m], after[m], strict=True))}
        below = {m for part in itertools.chain(*stages[:depth]) for m in part.modules()}
        above = {m for part in itertools.chain(*stages[depth + 1 :]) for m in part.modules()} & before.keys()
        assert not moved & below
        assert above <= moved
        before = after


@pytest.mark.parametrize("case", SHAPES)
def test_parts_from_below_are_frozen_and_learn_more_slowly(case: str) -> None:
    model = make(case)
    count = len(model.body.stages())
    rates = Optimizer(model, TrainConfig(optimizer="adamw", layer_decay=0.5), 8).parts[-1][1].param_groups
    share = {id(p): group["share"] for group in rates for p in group["params"]}
    for parts in range(count + 1):
        freeze(model, parts)
        for depth, stage in enumerate(model.body.stages()):
            for p in (p for part in stage for p in part.parameters()):
                assert p.requires_grad == (depth >= parts)
                assert share[id(p)] == 0.5 ** (count - depth)
        assert model.out.weight.requires_grad
    assert share[id(model.out.weight)] == 1
    with pytest.raises(UserError, match=f"freeze = {count + 1} would leave nothing to learn"):
        freeze(model, count + 1)


@pytest.mark.parametrize("case", SHAPES)
def test_every_weight_of_a_body_stands_at_some_depth(case: str) -> None:
    """Only how layers are mixed, and a matrix before the softmax, are learned with the head."""
    body = make(case).body
    placed = {p for parts in body.stages() for part in parts for p in part.parameters()}
    left = {name for name, p in body.named_parameters() if p not in placed}
    assert all(name.startswith(("mix.", "last.")) for name in left), left


def test_what_has_no_body_that_reads_has_nothing_to_freeze() -> None:
    model = MODELS["rnn"](MODELS["rnn"].Config(source_vocabulary=20, target_vocabulary=20))
    with pytest.raises(UserError, match=r"train\.freeze is for models that read with a body of layers"):
        freeze(model, 1)
