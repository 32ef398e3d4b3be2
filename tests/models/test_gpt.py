"""GPT and GPT-2: against their equations and their published sizes."""

import itertools
import math
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor
from torch.testing import assert_close

from regard.models import GPT, GPTConfig
from regard.models.gpt import PUBLISHED, SIZES
from regard.nn.initial import Unfilled

SMALL: dict[str, Any] = {
    "d_model": 8, "d_ff": 12, "heads": 2, "layers": 2, "dropout": 0.0, "vocabulary": 11, "max_positions": 16,
}  # fmt: skip
POSITIONS = ("learned", "rotary", "sinusoidal", "none")
OPTIONS = [{"norm": n, "positions": p, "tie": t} for n, p, t in itertools.product(("pre", "post"), POSITIONS, (0, 1))]


def make(**options: Any) -> GPT:
    """A model in double precision whose every weight is random, norms and biases too."""
    torch.manual_seed(0)
    model = GPT(GPTConfig(**{**SMALL, **options}))
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.normal_(1.0 if name.endswith("norm.weight") else 0.0, 0.3)
    return model.double().eval()


def some_tokens(rows: int, length: int, seed: int = 0) -> Tensor:
    return torch.randint(11, (rows, length), generator=torch.Generator().manual_seed(seed))


def equations(model: GPT, tokens: list[int]) -> Tensor:
    """Logits of one text (T V) from the weights alone, a position and a head at a time."""
    w = {name: p.detach() for name, p in model.named_parameters()}
    c, d, width = model.config, model.config.d_model, model.config.d_model // model.config.heads

    def norm(x: Tensor, name: str) -> Tensor:
        centred = x - x.mean()
        return centred / (centred.square().mean() + 1e-5).sqrt() * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(x: Tensor, name: str) -> Tensor:
        return w[f"{name}.weight"] @ x + w[f"{name}.bias"]

    def turned(x: Tensor, place: int) -> Tensor:
        out = x.clone()
        for i in range(0, width, 2):
            angle = place * 10_000 ** (-i / width)
            out[i] = x[i] * math.cos(angle) - x[i + 1] * math.sin(angle)
            out[i + 1] = x[i] * math.sin(angle) + x[i + 1] * math.cos(angle)
        return out if c.positions == "rotary" else x

    def attention(xs: list[Tensor], name: str) -> list[Tensor]:
        q, k, v = ([linear(x, f"{name}.{part}").split(width) for x in xs] for part in "qkv")
        out = []
        for t in range(len(xs)):
            heads = []
            for h in range(c.heads):
                scores = torch.stack([turned(q[t][h], t) @ turned(k[s][h], s) for s in range(t + 1)]) / width**0.5
                weights = scores.softmax(0)
                heads.append(sum(weights[s] * v[s][h] for s in range(t + 1)))
            out.append(linear(torch.cat(heads), f"{name}.out"))  # type: ignore[arg-type]
        return out

    def feed_forward(x: Tensor, name: str) -> Tensor:
        y = linear(x, f"{name}.inner")
        y = 0.5 * y * (1 + torch.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))
        return linear(y, f"{name}.outer")

    xs = []
    for t, token in enumerate(tokens):
        x = w["tokens.weight"][token]
        if c.positions == "learned":
            x = x + w["positions.table"][t]
        if c.positions == "sinusoidal":
            waves = [f(t / 10_000 ** (2 * i / d)) for i in range(d // 2) for f in (math.sin, math.cos)]
            x = x * math.sqrt(d) + torch.tensor(waves, dtype=torch.float64)
        xs.append(x)
    for i in range(c.layers):
        a, b, layer = f"layers.{i}.after_attention.norm", f"layers.{i}.after_feed_forward.norm", f"layers.{i}"
        if c.norm == "pre":
            xs = [x + y for x, y in zip(xs, attention([norm(x, a) for x in xs], f"{layer}.attention"), strict=True)]
            xs = [x + feed_forward(norm(x, b), f"{layer}.feed_forward") for x in xs]
        else:
            xs = [norm(x + y, a) for x, y in zip(xs, attention(xs, f"{layer}.attention"), strict=True)]
            xs = [norm(x + feed_forward(x, f"{layer}.feed_forward"), b) for x in xs]
    xs = [norm(x, "norm") for x in xs] if c.norm == "pre" else xs
    return torch.stack([w["tokens.weight" if c.tie else "last.weight"] @ x for x in xs])


@pytest.mark.parametrize("options", OPTIONS)
def test_forward_is_the_equations(options: dict[str, Any]) -> None:
    model, tokens = make(**options), some_tokens(2, 7)
    with torch.inference_mode():
        found = model(tokens) @ model.output.T
    for row, ids in zip(found, tokens.tolist(), strict=True):
        assert_close(row, equations(model, ids), rtol=0, atol=1e-5)  # the tables of waves are in single precision


@pytest.mark.parametrize("window", [2, 3, 8, 9])
def test_writing_goes_on_where_learned_positions_end(window: int) -> None:
    """When the window is full its last half is read again; and it is all the same how the tokens came."""
    model, tokens = make(max_positions=window), some_tokens(2, 40)
    first = 0
    with torch.inference_mode():
        state = model.start()
        for t in range(40):
            if t + 1 - first > window:
                first = t + 1 - window // 2
            logits, state = model.step(tokens[:, t : t + 1], state)
            assert_close(logits, model(tokens[:, first : t + 1])[:, -1] @ model.output.T, rtol=0, atol=1e-9)
            at_once, _ = model.step(tokens[:, : t + 1], model.start())
            assert_close(at_once, logits, rtol=0, atol=1e-9)


@pytest.mark.parametrize("positions", ["rotary", "sinusoidal", "none"])
def test_other_positions_do_not_end(positions: str) -> None:
    model, tokens = make(positions=positions, max_positions=4), some_tokens(1, 300)
    with torch.inference_mode():
        logits, _ = model.step(tokens, model.start())
        assert_close(logits, model(tokens)[:, -1] @ model.output.T, rtol=0, atol=1e-9)


COUNTS = {
    "gpt1": 116_534_784, "small": 124_439_808, "medium": 354_823_168, "large": 774_030_080, "xl": 1_557_611_200,
}  # fmt: skip


@pytest.mark.parametrize("size", COUNTS)
def test_published_sizes(size: str) -> None:
    vocabulary, printed = PUBLISHED[size]
    config = GPTConfig(**SIZES[size], vocabulary=vocabulary)
    with torch.device("meta"), Unfilled():
        counted = sum(p.numel() for p in GPT(config).parameters())
    assert counted == config.parameters() == COUNTS[size]
    assert abs(counted - printed) / printed < 0.01


@pytest.mark.parametrize("options", OPTIONS)
def test_closed_form_counts_what_is_there(options: dict[str, Any]) -> None:
    model = make(**options)
    assert sum(p.numel() for p in model.parameters()) == model.config.parameters()


def test_initialisation() -> None:
    torch.manual_seed(0)
    shape: dict[str, Any] = {"d_model": 64, "d_ff": 256, "heads": 4, "layers": 8, "vocabulary": 500}
    for norm, added in (("pre", 0.02 / 4), ("post", 0.02)):
        for name, p in GPT(GPTConfig(norm=norm, **shape)).named_parameters():
            if p.ndim == 1:
                assert bool((p == (1 if name.endswith("norm.weight") else 0)).all()), name
            else:
                wanted = added if name.endswith(("attention.out.weight", "feed_forward.outer.weight")) else 0.02
                assert float(p.detach().std()) == pytest.approx(wanted, rel=0.05), name


def test_every_weight_gets_a_gradient_and_dropout_stands_in_training_alone() -> None:
    model = make(dropout=0.5, tie=False)
    tokens = some_tokens(2, 16)
    assert torch.equal(model(tokens), model(tokens))
    model.train()
    assert not torch.equal(model(tokens), model(tokens))
    (model(tokens) @ model.output.T).log_softmax(-1)[..., 3].sum().backward()  # type: ignore[no-untyped-call]
    for name, p in model.named_parameters():
        assert p.grad is not None, name
        assert bool(p.grad.isfinite().all()), name


def test_what_cannot_be_is_refused_with_words() -> None:
    for keys, told in (
        ({"d_model": 10, "heads": 3}, "d_model 10 is not divisible by heads 3; try 9"),
        ({"d_model": 9, "heads": 3, "positions": "rotary"}, "must be even"),
        ({"d_model": 9, "heads": 3, "positions": "sinusoidal"}, "must be even"),
    ):
        with pytest.raises(ValidationError, match=told):
            GPTConfig(**keys)
