"""Why attention won, in measured numbers: how a gradient fades with distance, how far words are apart in each kind of
layer, and what a layer costs (table 1 of "Attention Is All You Need")."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.plots import chart, panels
from regard.models import Transformer, TransformerConfig
from regard.nn.attention import Full, Mask, MultiHead, attend
from regard.nn.convolution import ConvEncoder, ConvEncoderLayer
from regard.nn.recurrent import Reader, initialise

ABOUT = "First weights, no training; width 128, convolutions of three words, four heads; one core."

WIDTH, KERNEL, HEADS = 128, 3, 4
PLACES, SEEDS = 129, 3  # words of a sentence whose gradient is taken, and first weights over which it is averaged
DISTANCES = (0, 1, 2, 4, 8, 16, 32, 64, 128)
LENGTHS = (8, 16, 32, 64, 128, 256)
Layer = Callable[[Tensor], Tensor]


def run() -> dict[str, Any]:
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # a gradient that has all but vanished would cost a hundred times its time
    norms = {name: _gradients(make) for name, make in _stacks().items()}
    gradients = [{"distance": d} | {name: found[d] for name, found in norms.items()} for d in DISTANCES]
    paths = [{"words apart": n} | {name: path(n) for name, path in PATHS.items()} for n in LENGTHS]
    costs = [{"words": n} | _costs(n) for n in LENGTHS]
    far = gradients[-1]
    return {
        "gradient_128_words_apart.gru": far["GRU"],
        "gradient_128_words_apart.lstm": far["LSTM"],
        "gradient_128_words_apart.self_attention": far["self-attention"],
        "steps_256_words_apart.gru": paths[-1]["recurrent"],
        "tables": {
            "Gradient of the last state by a word so far before it": gradients,
            "Layers or steps between two words": paths,
            "One layer over one sentence": costs,
        },
    }  # fmt: skip


def plots(results: dict[str, Any]) -> dict[str, str]:
    gradients, paths, costs = results["tables"].values()

    def lines(rows: list[dict[str, Any]], x: str, unit: str = "") -> dict[str, list[tuple[float, float]]]:
        names = [name for name in rows[0] if name != x and name.endswith(unit)]
        return {
            name.removesuffix(unit): [(row[x], row[name]) for row in rows if row[x] > 0 and row[name] > 0]
            for name in names
        }

    charts = [
        chart("Gradient by distance", "words apart", "norm, of one word apart", _relative(lines(gradients, "distance")),
              log_x=True, log_y=True),
        chart("Path between two words", "words apart", "layers or steps", lines(paths, "words apart"),
              log_x=True, log_y=True),
        chart("Work of a layer", "words", "million multiply-adds", lines(costs, "words", ", Mops"),
              log_x=True, log_y=True),
        chart("Time of a layer", "words", "ms, forward and backward", lines(costs, "words", ", ms"),
              log_x=True, log_y=True),
    ]  # fmt: skip
    return {"why-attention": panels(charts)}


def _relative(lines: dict[str, list[tuple[float, float]]]) -> dict[str, list[tuple[float, float]]]:
    """What is too small to tell from nothing is left out."""
    return {name: [(x, y / line[0][1]) for x, y in line if y / line[0][1] > 1e-12] for name, line in lines.items()}


# --- how a gradient fades -------------------------------------------------------------------------------------------


def _stacks() -> dict[str, Callable[[], Layer]]:
    """Encoders as the models have them: two recurrent layers, eight convolutions, two layers of self-attention."""
    return {"GRU": lambda: _recurrent("gru", 2), "LSTM": lambda: _recurrent("lstm", 2), "convolution": _convolutions,
            "self-attention": _attention}  # fmt: skip


def _recurrent(cell: str, layers: int) -> Layer:
    reader = Reader(cell, WIDTH, WIDTH, layers, False, 0.0)
    reader.apply(initialise)
    return lambda x: reader(x, None)[0]


def _convolutions() -> Layer:
    encoder = ConvEncoder(WIDTH, [WIDTH] * 8, [KERNEL] * 8, 0.0)
    return lambda x: encoder(x, None)[0]


def _attention() -> Layer:
    model = Transformer(
        TransformerConfig(
            d_model=WIDTH, d_ff=2 * WIDTH, heads=HEADS, encoder_layers=2, decoder_layers=1, dropout=0.0,
            source_vocabulary=4, target_vocabulary=4,
        )
    )  # fmt: skip

    def encode(x: Tensor) -> Tensor:
        x = model.positions["source"](x)
        for layer in model.encoder:
            x = layer(x, Mask())
        return x

    return encode


def _gradients(make: Callable[[], Layer]) -> dict[int, float]:
    """The norm of d(r . last state) / d(word), r of length one, by the word's distance from the last; mean of seeds."""
    total = torch.zeros(PLACES)
    for seed in range(SEEDS):
        torch.manual_seed(seed)
        layer, x = make(), torch.randn(1, PLACES, WIDTH, requires_grad=True)
        direction = nn.functional.normalize(torch.randn(WIDTH), dim=0)
        (gradient,) = torch.autograd.grad(layer(x)[0, -1] @ direction, x)
        total += gradient[0].norm(dim=-1).flip(0) / SEEDS
    return {d: float(f"{float(total[d]):.4g}") for d in DISTANCES}


# --- how far words are apart ----------------------------------------------------------------------------------------


def _steps(length: int) -> int:
    """Of a recurrent layer until its state has heard of a word so far from the first."""
    x = torch.randn(1, length + 1, WIDTH, requires_grad=True)
    states = _recurrent("gru", 1)(x)[0]
    for steps in range(length, -1, -1):  # from the end: the first that does not depend on the last word is one too few
        (gradient,) = torch.autograd.grad(states[steps, 0], x, retain_graph=True)
        if gradient[0, length].abs().sum() == 0:
            return steps + 1
    return 0


def _conv_layers(length: int) -> int:
    """The fewest layers through which the last place hears of the first, found by halving."""
    low, high = 1, length
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _heard(middle, length) else (middle + 1, high)
    return low


def _heard(layers: int, length: int) -> bool:
    """Whether anything at all comes through: every weight is positive, so that nothing can cancel or fade to zero."""
    x = torch.zeros(1, 1, length + 1)
    x[0, 0, 0] = 1.0
    for _ in range(layers):
        x = (nn.functional.conv1d(x, torch.ones(1, 1, KERNEL), padding=KERNEL // 2) > 0).float()
    return bool(x[0, 0, -1] > 0)


def _attention_layers(length: int) -> int:
    x = torch.randn(1, length + 1, WIDTH, requires_grad=True)
    out = MultiHead(WIDTH, HEADS, Full(), bias=False)(x, None, Mask())
    (gradient,) = torch.autograd.grad(out[0, -1].sum(), x)
    return 1 if gradient[0, 0].abs().sum() > 0 else 2


PATHS = {"recurrent": _steps, "convolution": _conv_layers, "self-attention": _attention_layers}


# --- what a layer costs ---------------------------------------------------------------------------------------------


class _Plain(Full):
    """The equation itself, whose products can be counted."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        return attend(q, k, v, mask)[0]


def _costs(length: int) -> dict[str, float]:
    attention, reader = MultiHead(WIDTH, HEADS, _Plain(), bias=False), _recurrent("gru", 1)
    convolution = ConvEncoderLayer(WIDTH, WIDTH, KERNEL, 0.0)
    layers: dict[str, Layer] = {
        "recurrent": reader, "convolution": convolution, "self-attention": lambda x: attention(x, None, Mask()),
    }  # fmt: skip
    found: dict[str, float] = {}
    for name, layer in layers.items():
        x = torch.randn(1, length, WIDTH, requires_grad=True)
        with FlopCounterMode(display=False) as counter:
            layer(x)
        found[f"{name}, Mops"] = round(counter.get_total_flops() / 2e6, 3)
        times = []
        for _ in range(5):
            start = time.perf_counter()
            layer(x).sum().backward()  # type: ignore[no-untyped-call]
            times.append(time.perf_counter() - start)
        found[f"{name}, ms"] = round(statistics.median(times[2:]) * 1e3, 3)
    return found
