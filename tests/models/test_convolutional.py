"""ConvS2S: against its paper's equations, identities and sizes."""

import math
from typing import Any

import pytest
import torch
from models.test_pairs import LENGTHS, SOURCE, TARGET
from pydantic import ValidationError
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

from regard.config import TrainConfig
from regard.decode.engine import Torch
from regard.models import Convolutional, ConvolutionalConfig
from regard.models.convolutional import SIZES
from regard.nn.convolution import ConvEncoderLayer, Gated
from regard.training.optim import Optimizer

SMALL: dict[str, Any] = {
    "d_model": 6, "encoder_layers": 2, "decoder_layers": 2, "widths": [8, 10], "kernels": [3, 5], "dropout": 0.0,
    "max_positions": 16, "source_vocabulary": 13, "target_vocabulary": 13, "weight_norm": False,
}  # fmt: skip
HALF = math.sqrt(0.5)


def make(**options: Any) -> Convolutional:
    torch.manual_seed(0)
    model = Convolutional(ConvolutionalConfig(**{**SMALL, **options})).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.normal_(std=0.3)
    return model


def test_forward_is_the_papers_equations() -> None:
    """Section 3, word by word from the weights alone: convolutions written out as sums over neighbours."""
    model = make()
    w = {name: p.detach() for name, p in model.named_parameters()}

    def linear(x: Tensor, name: str) -> Tensor:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def glu(x: list[Tensor], name: str, before: int) -> list[Tensor]:
        weight, bias = w[f"{name}.linear.weight"], w[f"{name}.linear.bias"]
        kernel, width = weight.size(1) // len(x[0]), len(x[0])
        out = []
        for i in range(len(x)):
            total = bias.clone()
            for j in range(kernel):
                if 0 <= i + j - before < len(x):
                    total = total + weight[:, j * width : (j + 1) * width] @ x[i + j - before]
            a, b = total.chunk(2)
            out.append(a * b.sigmoid())
        return out

    def through(x: Tensor, name: str) -> Tensor:
        return linear(x, name) if f"{name}.weight" in w else x

    e = [w["embed.source.weight"][t] + w["positions.source.table"][i] for i, t in enumerate(SOURCE[0])]
    h = [linear(x, "encoder.first") for x in e]
    for i, kernel in enumerate((3, 5)):
        at = f"encoder.layers.{i}"
        inner = glu(h, f"{at}.conv", kernel // 2)
        h = [(a + through(b, f"{at}.through")) * HALF for a, b in zip(inner, h, strict=True)]
    z = torch.stack([linear(x, "encoder.last") for x in h])
    taken = (z + torch.stack(e)) * HALF * len(z) * math.sqrt(1 / len(z))
    g = [w["embed.target.weight"][t] + w["positions.target.table"][i] for i, t in enumerate(TARGET[0])]
    h = [linear(x, "first") for x in g]
    for i, kernel in enumerate((3, 5)):
        at = f"decoder.{i}"
        inner = glu(h, f"{at}.conv", kernel - 1)
        for j, x in enumerate(inner):
            a = (z @ ((linear(x, f"{at}.cross.q") + g[j]) * HALF)).softmax(0)
            inner[j] = (linear(a @ taken, f"{at}.cross.out") + x) * HALF
        h = [(a + through(b, f"{at}.through")) * HALF for a, b in zip(inner, h, strict=True)]
    expected = torch.stack([linear(x, "last") for x in h])
    assert_close(model(SOURCE[:1], None, TARGET[:1])[0], expected)


def test_the_convolution_is_pytorchs() -> None:
    torch.manual_seed(0)
    gated, x = Gated(4, 5, 3, 0.0), torch.randn(2, 7, 4)
    weight = gated.linear.weight.view(10, 3, 4).transpose(1, 2)
    expected = F.glu(F.conv1d(x.transpose(1, 2), weight, gated.linear.bias), 1).transpose(1, 2)
    assert_close(gated(x), expected)


def test_a_convolution_of_zeros_leaves_the_input_times_the_root_of_a_half() -> None:
    layer, h = ConvEncoderLayer(4, 4, 3, 0.0), torch.randn(1, 5, 4)
    nn.init.zeros_(layer.conv.linear.weight)
    assert_close(layer(h), h * HALF)


def test_normed_weights_begin_as_they_were_and_have_a_direction_and_a_length() -> None:
    torch.manual_seed(0)
    plain = Convolutional(ConvolutionalConfig(**SMALL)).eval()
    torch.manual_seed(0)
    normed = Convolutional(ConvolutionalConfig(**{**SMALL, "weight_norm": True})).eval()
    assert_close(normed(SOURCE, LENGTHS, TARGET), plain(SOURCE, LENGTHS, TARGET))
    length = normed.first.parametrizations.weight.original0  # type: ignore[union-attr]
    assert_close(length, plain.first.weight.norm(dim=1, keepdim=True))
    assert normed.config.parameters() == sum(p.numel() for p in normed.parameters())


def test_decoding_makes_normed_weights_once() -> None:
    """The engine asks for a twin, which says the same; the model goes on learning as it is."""
    model = make(weight_norm=True)
    twin = model.for_decoding()
    assert not any("parametrizations" in name for name, _ in twin.named_parameters())
    assert_close(twin(SOURCE, LENGTHS, TARGET), model(SOURCE, LENGTHS, TARGET))
    assert any("parametrizations" in name for name, _ in model.named_parameters())
    assert Torch([model]).models[0] is not model
    assert not any("parametrizations" in name for name, _ in Torch([model]).models[0].named_parameters())


def test_lengths_of_normed_weights_do_not_decay() -> None:
    learner = Optimizer(make(weight_norm=True), TrainConfig(optimizer="adamw", weight_decay=0.1), 6)
    groups = [group for _, part in learner.parts for group in part.param_groups if not group["weight_decay"]]
    kept = {learner.names[p] for group in groups for p in group["params"]}
    assert kept == {name for name in learner.names.values() if name.endswith(("original0", "bias"))}


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_normed_weights_learn(optimizer: str) -> None:
    model = make(weight_norm=True)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    learner = Optimizer(model, TrainConfig(optimizer=optimizer), 6)
    model(SOURCE, LENGTHS, TARGET).square().sum().backward()
    learner.step(400)
    same = [n for n, p in model.named_parameters() if torch.equal(p, before[n])]
    assert same == ["embed.output.weight"]  # which the states do not use


def test_the_encoders_gradient_is_shared_among_the_layers_that_look() -> None:
    """Divided by twice the attentions; what goes straight to the source's embeddings is not."""
    model = make(tie=())
    model(SOURCE, LENGTHS, TARGET).sum().backward()
    shared = model.encoder.last.bias.grad.clone()  # type: ignore[union-attr]
    model.zero_grad()
    model.encoder.share = 1.0
    model(SOURCE, LENGTHS, TARGET).sum().backward()
    assert_close(shared, model.encoder.last.bias.grad / 4)


def test_variance_stays_through_twenty_layers() -> None:
    torch.manual_seed(0)
    shape = {"encoder_layers": 20, "decoder_layers": 20, "widths": [64], "kernels": [3], "d_model": 64}
    model = Convolutional(ConvolutionalConfig(**{**SMALL, **shape})).eval()
    first = model.embedded(TARGET, "target").std()
    assert 0.2 < float(model(SOURCE, None, TARGET).std() / first) < 5


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("normed", [False, True])
def test_closed_form_counts_what_is_there(size: str, normed: bool) -> None:
    config = ConvolutionalConfig(**SIZES[size] | {"weight_norm": normed})
    with torch.device("meta"):
        assert config.parameters() == sum(p.numel() for p in Convolutional(config).parameters())


def test_the_papers_english_german_model_has_its_layers() -> None:
    shapes = ConvolutionalConfig().shapes(15)
    assert [(w, k) for _, w, k in shapes] == [(512, 3)] * 10 + [(768, 3)] * 3 + [(2048, 1)] * 2


@pytest.mark.parametrize(("options", "message"), [
    ({"kernels": [3, 4]}, "4 words have no middle; try 5"),
    ({"kernels": []}, "no middle"),
    ({"kernels": [-1]}, "-1 is no number of words"),
    ({"widths": []}, "one width at least"),
])  # fmt: skip
def test_what_does_not_fit_is_told(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ConvolutionalConfig(**{**SMALL, **options})
