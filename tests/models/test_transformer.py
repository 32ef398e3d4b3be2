"""The whole Transformer: against its equations, its published sizes, and the contracts that every option must keep."""

import itertools
import math
import subprocess
import sys
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close

from regard.models import MODELS, Transformer, TransformerConfig
from regard.models.transformer import PUBLISHED, SIZES
from regard.nn.dropout import Dropout

SMALL: dict[str, Any] = {
    "d_model": 8, "d_ff": 12, "heads": 2, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0,
    "source_vocabulary": 11, "target_vocabulary": 11, "max_positions": 32,
}  # fmt: skip
NORMS, POSITIONS, ACTIVATIONS = ("post", "pre"), ("sinusoidal", "learned", "rotary", "none"), ("relu", "gelu")
EMBEDDINGS = ("source", "target", "output")
TIES = [tie for n in range(4) for tie in itertools.permutations(EMBEDDINGS, n)]
OPTIONS = [{"norm": n, "positions": p, "activation": a} for n, p, a in itertools.product(NORMS, POSITIONS, ACTIVATIONS)]
LENGTHS = torch.tensor([6, 2, 4])


def make(seed: int = 0, **options: Any) -> Transformer:
    """A model in double precision whose every weight is random, norms and biases too."""
    torch.manual_seed(seed)
    model = Transformer(TransformerConfig(**{**SMALL, **options}))
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim == 1:
                p.normal_(1.0 if name.endswith("norm.weight") else 0.0, 0.3)
    return model.double()


def some_tokens(rows: int, length: int, seed: int = 0, vocabulary: int = 11) -> Tensor:
    return torch.randint(4, vocabulary, (rows, length), generator=torch.Generator().manual_seed(seed))


SOURCE, TARGET = some_tokens(3, 6), some_tokens(3, 5, seed=1)


# --- the equations --------------------------------------------------------------------------------------------------


def equations(model: Transformer, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
    """Logits by section 3, from the weights alone, one sentence at a time and without padding."""
    w = {name: p.detach() for name, p in model.named_parameters(remove_duplicate=False)}
    c = model.config
    d, width = c.d_model, c.d_model // c.heads
    pre = c.norm == "pre"

    def norm(x: Tensor, name: str) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        deviation = (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        return centred / deviation * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(x: Tensor, name: str) -> Tensor:
        return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", torch.zeros(()))

    def attention(x: Tensor, memory: Tensor, name: str, causal: bool, turned: bool) -> Tensor:
        q, k, v = linear(x, f"{name}.q"), linear(memory, f"{name}.k"), linear(memory, f"{name}.v")
        heads = []
        for h in range(c.heads):
            part = slice(h * width, (h + 1) * width)
            qh, kh = (rotate(q[:, part]), rotate(k[:, part])) if turned else (q[:, part], k[:, part])
            scores = qh @ kh.T / math.sqrt(width)
            if causal:
                scores = scores + torch.full_like(scores, -torch.inf).triu(1)
            heads.append(scores.softmax(-1) @ v[:, part])
        return linear(torch.cat(heads, -1), f"{name}.out")

    def rotate(x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.reshape(len(x), -1, 2).contiguous())
        rates = 10000 ** (-2 * torch.arange(width // 2) / width).double()
        angles = torch.arange(len(x))[:, None] * rates
        return torch.view_as_real(pairs * torch.exp(1j * angles)).reshape(len(x), -1)

    def feed_forward(x: Tensor, name: str) -> Tensor:
        inner = linear(x, f"{name}.inner")
        inner = inner.clamp(min=0) if c.activation == "relu" else inner * 0.5 * (1 + torch.erf(inner / math.sqrt(2)))
        return linear(inner, f"{name}.outer")

    def sub_layer(x: Tensor, name: str, f: Any) -> Tensor:
        return x + f(norm(x, f"{name}.norm")) if pre else norm(x + f(x), f"{name}.norm")

    def embed(tokens: Tensor, side: str) -> Tensor:
        x = w[f"embed.{side}.weight"][tokens] * math.sqrt(d)
        if c.positions == "learned":
            x = x + w[f"positions.{side}.table"][: len(tokens)]
        if c.positions == "sinusoidal":
            for p in range(len(tokens)):
                for i in range(d):
                    angle = p / 10000 ** (2 * (i // 2) / d)
                    x[p, i] += math.cos(angle) if i % 2 else math.sin(angle)
        return x

    turned = c.positions == "rotary"
    outputs = []
    for b in range(len(source)):
        x = embed(source[b, : lengths[b]], "source")
        for i in range(c.encoder_layers):
            at = f"encoder.{i}"
            x = sub_layer(
                x, f"{at}.after_attention", lambda y, at=at: attention(y, y, f"{at}.attention", False, turned)
            )
            x = sub_layer(x, f"{at}.after_feed_forward", lambda y, at=at: feed_forward(y, f"{at}.feed_forward"))
        memory = norm(x, "encoder_norm") if pre else x
        y = embed(target[b], "target")
        for i in range(c.decoder_layers):
            at = f"decoder.{i}"
            y = sub_layer(y, f"{at}.after_attention", lambda y, at=at: attention(y, y, f"{at}.attention", True, turned))
            y = sub_layer(
                y, f"{at}.after_cross", lambda y, at=at, m=memory: attention(y, m, f"{at}.cross", False, False)
            )
            y = sub_layer(y, f"{at}.after_feed_forward", lambda y, at=at: feed_forward(y, f"{at}.feed_forward"))
        outputs.append((norm(y, "decoder_norm") if pre else y) @ w["embed.output.weight"].T)
    return torch.stack(outputs)


def logits(model: Transformer, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
    return F.linear(model(source, lengths, target), model.output)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("bias", [False, True])
def test_forward_is_the_papers_equations(options: dict[str, str], bias: bool) -> None:
    model = make(**options, attention_bias=bias, tie=("target", "output"))
    found = logits(model, SOURCE, LENGTHS, TARGET)
    assert_close(found, equations(model, SOURCE, LENGTHS, TARGET), atol=1e-5, rtol=1e-5)


# --- contracts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_weight_gets_a_finite_gradient(options: dict[str, str]) -> None:
    model = make(**options, tie=(), dropout=0.1, attention_dropout=0.1, activation_dropout=0.1, max_positions=6)
    logits(model, SOURCE, LENGTHS, some_tokens(3, 6, seed=1)).logsumexp(-1).sum().backward()
    for name, p in model.named_parameters():
        assert p.grad is not None, name
        assert torch.isfinite(p.grad).all(), name
        if not name.endswith("k.bias"):  # the softmax does not see what is added to every key
            assert p.grad.abs().sum() > 0, name


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_padding_changes_nothing(options: dict[str, str]) -> None:
    model = make(**options).float()
    alone = [logits(model, SOURCE[i : i + 1, :n], None, TARGET[i : i + 1]) for i, n in enumerate(LENGTHS)]
    padded = F.pad(SOURCE, (0, 4), value=0)
    for row, n in enumerate(LENGTHS):
        padded[row, n:] = 7  # whatever stands there
    assert_close(logits(model, padded, LENGTHS, TARGET), torch.cat(alone), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_future_changes_nothing_and_the_past_does(options: dict[str, str]) -> None:
    model = make(**options)
    before = logits(model, SOURCE, LENGTHS, TARGET)
    changed = TARGET.clone()
    changed[:, 3] = (changed[:, 3] - 3) % 7 + 4
    after = logits(model, SOURCE, LENGTHS, changed)
    assert torch.equal(after[:, :3], before[:, :3])
    assert not torch.allclose(after[:, 3], before[:, 3])
    assert not torch.allclose(after[:, 4], before[:, 4])


@pytest.mark.parametrize("cuts", [[1] * 5, [2, 3], [1, 4], [5]], ids=str)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_steps_with_a_cache_are_the_forward_pass(options: dict[str, str], cuts: list[int]) -> None:
    model = make(**options)
    whole = logits(model, SOURCE, LENGTHS, TARGET)
    with torch.inference_mode():
        state = model.start(model.encode(SOURCE, LENGTHS))
        at = 0
        for part in TARGET.split(cuts, 1):
            found, state = model.step(part, state)
            at += part.size(1)
            assert state.length == at
            assert_close(found, whole[:, at - 1])


@pytest.mark.parametrize("positions", POSITIONS)
def test_rows_of_a_state_can_be_chosen_and_sentences_forgotten(positions: str) -> None:
    model = make(positions=positions)
    with torch.inference_mode():
        state = model.start(model.encode(SOURCE, LENGTHS))
        model.step(TARGET[:, :2], state)
        rows = torch.tensor([0, 0, 2, 2])  # two hypotheses of sentences 0 and 2
        state.reorder(rows)
        state.keep(torch.tensor([0, 2]))
        following = torch.tensor([[5], [6], [7], [8]])
        found, _ = model.step(following, state)
    targets = torch.cat((TARGET[rows, :2], following), 1)
    assert_close(found, logits(model, SOURCE[rows], LENGTHS[rows], targets)[:, -1])


@pytest.mark.parametrize(("encoder", "decoder"), [(5, 1), (0, 1), (1, 4)])
@pytest.mark.parametrize("norm", NORMS)
def test_any_depths(encoder: int, decoder: int, norm: str) -> None:
    model = make(encoder_layers=encoder, decoder_layers=decoder, norm=norm)
    found = logits(model, SOURCE, LENGTHS, TARGET)
    assert_close(found, equations(model, SOURCE, LENGTHS, TARGET), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("norm", NORMS)
def test_bfloat16_under_autocast_is_near_float32(norm: str) -> None:
    model = make(norm=norm, dropout=1e-9).float()  # dropout's own path, which drops next to nothing
    exact = model.eval()(SOURCE, LENGTHS, TARGET)
    with torch.autocast("cpu", torch.bfloat16):
        near = model.train()(SOURCE, LENGTHS, TARGET)
    assert_close(near.float(), exact, atol=1.0, rtol=0.1)
    near.float().square().sum().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())


def test_dropout_stands_where_the_paper_puts_it() -> None:
    model = make(dropout=0.3)
    places = [name for name, m in model.named_modules() if isinstance(m, Dropout) and m.p > 0]
    layers = [f"encoder.{i}.after_{s}.dropout" for i in range(2) for s in ("attention", "feed_forward")]
    layers += [f"decoder.{i}.after_{s}.dropout" for i in range(2) for s in ("attention", "cross", "feed_forward")]
    assert sorted(places) == sorted(["dropout", *layers])
    assert not torch.equal(model(SOURCE, None, TARGET), model(SOURCE, None, TARGET))
    model.eval()
    assert torch.equal(model(SOURCE, None, TARGET), model(SOURCE, None, TARGET))


# --- positions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("positions", POSITIONS)
def test_without_positions_the_encoder_reads_a_bag_of_words_and_with_them_not(positions: str) -> None:
    model = make(positions=positions)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    straight = model.encode(SOURCE).states[:, order]
    permuted = model.encode(SOURCE[:, order]).states
    assert torch.allclose(straight, permuted, atol=1e-9) == (positions == "none")


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "none"])
def test_texts_may_be_longer_than_any_table(positions: str) -> None:
    model = make(positions=positions)
    source, target = some_tokens(1, 300), some_tokens(1, 270)
    assert model.limit is None
    assert torch.isfinite(model(source, None, target)).all()


def test_learned_positions_say_how_far_they_go() -> None:
    model = make(positions="learned", max_positions=7)
    assert model.limit == 6
    tokens = some_tokens(1, 7)  # six and an end or begin symbol
    assert torch.isfinite(model(tokens, None, tokens)).all()
    with pytest.raises(ValueError, match="beyond the 7 learned"):
        model(some_tokens(1, 8), None, tokens)


# --- sizes and ties -------------------------------------------------------------------------------------------------


def counted(config: TransformerConfig) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in Transformer(config).parameters())


@pytest.mark.parametrize(("size", "exact"), [("base", 63_045_632), ("big", 214_171_648), ("tiny", 2_568_192)])
def test_published_sizes(size: str, exact: int) -> None:
    vocabulary, published = PUBLISHED[size]
    config = TransformerConfig(**SIZES[size], source_vocabulary=vocabulary, target_vocabulary=vocabulary)
    assert config.parameters() == counted(config) == exact
    assert exact == pytest.approx(published, rel=0.04)


@pytest.mark.parametrize(("size", "exact"), [("base", 63_082_496), ("big", 214_245_376)])
def test_published_sizes_with_attention_biases(size: str, exact: int) -> None:
    config = TransformerConfig(**SIZES[size], attention_bias=True)
    assert config.parameters() == counted(config) == exact


def test_the_defaults_are_the_papers_base_model() -> None:
    assert TransformerConfig() == TransformerConfig(**SIZES["base"])
    assert MODELS["transformer"].sizes is SIZES


@given(
    heads=st.integers(1, 4),
    width=st.sampled_from([2, 4, 6]),
    d_ff=st.integers(1, 20),
    layers=st.tuples(st.integers(0, 4), st.integers(1, 4)),
    norm=st.sampled_from(NORMS),
    positions=st.sampled_from(POSITIONS),
    bias=st.booleans(),
    tie=st.sampled_from(TIES),
    vocabularies=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    max_positions=st.integers(1, 50),
)
@settings(max_examples=60, deadline=None)
def test_closed_form_counts_what_is_there(
    heads: int, width: int, d_ff: int, layers: tuple[int, int], norm: str, positions: str, bias: bool,
    tie: tuple[str, ...], vocabularies: tuple[int, int], max_positions: int,
) -> None:  # fmt: skip
    if "source" in tie and len(tie) > 1:
        vocabularies = (vocabularies[0], vocabularies[0])
    config = TransformerConfig(
        d_model=heads * width, heads=heads, d_ff=d_ff, encoder_layers=layers[0], decoder_layers=layers[1], norm=norm,
        positions=positions, attention_bias=bias, output_bias=bias, tie=tie, source_vocabulary=vocabularies[0],
        target_vocabulary=vocabularies[1], max_positions=max_positions,
    )  # fmt: skip
    assert config.parameters() == counted(config)


@pytest.mark.parametrize("tie", TIES, ids=lambda tie: "+".join(tie) or "none")
def test_tied_embeddings_are_one_parameter_and_others_are_not(tie: tuple[str, ...]) -> None:
    model = make(tie=tie)
    for a, b in itertools.combinations(EMBEDDINGS, 2):
        same = model.embed[a].weight is model.embed[b].weight
        assert same == (a in tie and b in tie)
    assert model.output is model.embed["output"].weight


@pytest.mark.parametrize("tie", [("target", "output"), ("source",), ()])
def test_each_side_has_its_own_vocabulary(tie: tuple[str, ...]) -> None:
    model = make(tie=tie, source_vocabulary=20, target_vocabulary=9)
    found = logits(model, some_tokens(3, 6, vocabulary=20), LENGTHS, some_tokens(3, 5, vocabulary=9))
    assert found.shape == (3, 5, 9)


def test_the_output_is_not_scaled_and_the_embedding_is() -> None:
    model = make()
    tokens = torch.tensor([[5]])
    model.positions.clear()
    assert_close(model.embedded(tokens, "source")[0, 0], model.output[5] * math.sqrt(8))


def test_initialisation() -> None:
    torch.manual_seed(0)
    config = TransformerConfig(d_model=64, d_ff=128, heads=4, encoder_layers=1, decoder_layers=1, attention_bias=True)
    model = Transformer(config)
    assert float(model.output.detach().std()) == pytest.approx(64**-0.5, rel=0.02)
    bound = math.sqrt(6 / (64 + 128))
    inner = model.encoder[0].feed_forward.inner
    assert bound * 0.98 < float(inner.weight.detach().abs().max()) <= bound
    assert all(not p.any() for name, p in model.named_parameters() if name.endswith("bias"))


# --- configs that cannot be -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"d_model": 510, "heads": 8}, "d_model 510 is not divisible by heads 8; try 512"),
        ({"d_model": 3, "heads": 8}, "try 8"),
        ({"d_model": 9, "heads": 3}, "sinusoids come in pairs, so d_model 9 must be even"),
        ({"d_model": 6, "heads": 2, "positions": "rotary"}, "d_model / heads = 3 must be even"),
        ({"attention": "ful"}, "attention 'ful' is not known; known: full"),
        ({"tie": ("target", "target")}, "tie names one embedding twice"),
        ({"source_vocabulary": 5, "target_vocabulary": 6}, "only with a shared tokenizer"),
        ({"source_vocabulary": 5, "target_vocabulary": 6, "tie": ("source", "output")}, "only with a shared tokenizer"),
        ({"dropuot": 0.1}, "dropuot"),
    ],
)
def test_what_cannot_be_is_refused_with_words(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TransformerConfig(**keys)
    assert message in str(caught.value)


def test_a_suggested_width_is_accepted() -> None:
    assert TransformerConfig(d_model=512, heads=8).d_model == 512
    for d_model in range(2, 60):
        try:
            TransformerConfig(d_model=d_model, heads=6, positions="none")
        except ValidationError as error:
            suggested = int(str(error).split("try ")[1].split()[0].rstrip("["))
            assert TransformerConfig(d_model=suggested, heads=6, positions="none")


def test_a_network_without_first_values_has_the_same_shapes_and_waits_for_nothing() -> None:
    """Loading a model must not import torch's compiler, which takes as long as torch itself."""
    code = """
import sys, torch
from regard.models import Transformer
from regard.nn.initial import Unfilled
config = Transformer.Config(d_model=16, d_ff=32, heads=2, source_vocabulary=9, target_vocabulary=9)
whole = {name: p.shape for name, p in Transformer(config).named_parameters()}
with torch.device("meta"), Unfilled():
    assert {name: p.shape for name, p in Transformer(config).named_parameters()} == whole
assert "torch._dynamo" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
