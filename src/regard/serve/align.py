"""Which words of a translation stand for which words of its source, by the model's own cross-attention."""

# Shapes: L layers, H heads, T target tokens, S source tokens.

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from regard.bundle import Bundle
from regard.decode.engine import pad
from regard.text import BOS, EOS, SPECIALS, UNK
from regard.view import words
from regard.view.matrix import Matrix, clearest, merge
from regard.view.record import kernels_of, place, record

Span = tuple[int, int]
TOGETHER = 16  # pairs recorded in one pass
_RUN = re.compile(r"\S+")


@dataclass(frozen=True, eq=False)
class Alignment:
    """Words of both sides, as places in their texts, and how much each target word looks at each source word."""

    source: list[Span]
    target: list[Span]
    weights: Matrix  # target words x source words, rows sum to one


@torch.inference_mode()
def align(bundle: Bundle, pairs: Sequence[tuple[str, str]], longest: int) -> list[Alignment]:
    """The alignment of each pair; of one that is too long, or by a model without attention, by place alone.

    White space in a source is a space to the model, as it was when the model translated it.
    """
    tokens = [(bundle.source.encode(" ".join(one.split())), bundle.target.encode(other)) for one, other in pairs]
    # A model without attention cannot say, nor can one that has no encoder to look at.
    able = any(place(name)[0] == "cross" for name in kernels_of(bundle.model))
    fit = [i for i, (one, other) in enumerate(tokens) if able and max(len(one), len(other)) <= longest]
    found: dict[int, Alignment] = {}
    for start in range(0, len(fit), TOGETHER):
        some = fit[start : start + TOGETHER]
        for i, weights in zip(some, _weights(bundle, [tokens[i] for i in some]), strict=True):
            found[i] = _merged(bundle, pairs[i], tokens[i], weights)
    return [found[i] if i in found else by_place(*pair) for i, pair in enumerate(pairs)]


def by_place(source: str, target: str) -> Alignment:
    """The n-th part of one with the n-th part of the other."""
    ours = [match.span() for match in _RUN.finditer(source)]
    theirs = [match.span() for match in _RUN.finditer(target)]
    weights = np.zeros((len(theirs), len(ours)))
    for row in range(len(theirs)):
        weights[row, min(len(ours) - 1, (2 * row + 1) * len(ours) // (2 * len(theirs)))] = 1
    return Alignment(ours, theirs, weights)


def located(text: str, names: Sequence[str]) -> list[Span]:
    """Where words stand in a text, in their order; what is not there by name (an unknown word) is what lies between."""
    spans: list[Span | None] = []
    position = 0
    for name in names:
        at = -1 if name == SPECIALS[UNK] else _find(text, name, position)
        spans.append(None if at < 0 else (at, at + len(name)))
        position = position if at < 0 else at + len(name)
    return _filled(text, spans)


def _find(text: str, name: str, position: int) -> int:
    """The next place of a word that is not the inside of a longer one."""
    while (at := text.find(name, position)) > 0 and name[:1].isalnum() and text[at - 1].isalnum():
        if position > 0 and at == position:  # it goes on where the last one ended
            return at
        position = at + 1
    return at


def _filled(text: str, spans: Sequence[Span | None]) -> list[Span]:
    """The unknown ones share the runs of text between their known neighbours."""
    filled: list[Span] = []
    at = 0
    while at < len(spans):
        known = spans[at]
        if known is not None:
            filled.append(known)
            at += 1
            continue
        count = next((i for i, span in enumerate(spans[at:]) if span is not None), len(spans) - at)
        begin = filled[-1][1] if filled else 0
        following = spans[at + count] if at + count < len(spans) else None
        end = following[0] if following else len(text)
        runs = [match.span() for match in _RUN.finditer(text, begin, end)] or [(begin, begin)]
        filled += [runs[min(i * len(runs) // count, len(runs) - 1)] for i in range(count)]
        at += count
    return filled


def _weights(bundle: Bundle, tokens: Sequence[tuple[list[int], list[int]]]) -> list[Matrix]:
    """Of each pair: the clearest layer's mean over heads (T S), both sides with their end symbol."""
    device = bundle.model.output.device
    source, lengths = pad([[*one, EOS] for one, _ in tokens], device)
    before, _ = pad([[BOS, *other] for _, other in tokens], device)
    with record(bundle.model) as trace:
        bundle.model(source, lengths, before)
    layers = [trace.weights("cross", layer) for layer in range(trace.layers("cross"))]
    every = torch.stack(layers, dim=1).float().cpu().numpy()  # B L H T S
    cut = [every[row][..., : len(t) + 1, : len(s) + 1] for row, (s, t) in enumerate(tokens)]
    return [one[clearest(one)].mean(0) for one in cut]


def _merged(bundle: Bundle, pair: tuple[str, str], tokens: tuple[list[int], list[int]], weights: Matrix) -> Alignment:
    """From tokens to words, without the end symbols."""
    sides = []
    for text, ids, tokenizer in zip(pair, tokens, (bundle.source, bundle.target), strict=True):
        surface = tokenizer.surface(ids)
        groups = words.groups(surface)
        sides.append((groups, located(text, [words.word([surface[i] for i in group]) for group in groups])))
    (ours, source), (theirs, target) = sides
    if not ours or not theirs:
        return by_place(*pair)
    merged = merge(weights, theirs, ours)
    return Alignment(source, target, merged / np.maximum(merged.sum(-1, keepdims=True), 1e-9))
