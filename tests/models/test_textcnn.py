"""Text CNNs: against the equations of Kim and of DCNN, written plainly; their published shapes; padding."""

import math
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor
from torch.testing import assert_close

from regard.models import HeadConfig, TextCNN, TextCNNConfig
from regard.models.heads import Classifier
from regard.models.textcnn import SIZES, folded, k_max

SMALL: dict[str, Any] = {"d_model": 8, "windows": (2, 3), "maps": (4, 2), "vocabulary": 11}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"wide": True},
    {"kept": 2},
    {"kept": 3, "wide": True, "activation": "tanh"},
    {"stacked": True},
    {"stacked": True, "wide": True, "fold": True, "kept": 4, "activation": "tanh"},
    {"stacked": True, "wide": True, "kept": 2, "dynamic": False},
    {"stacked": True, "fold": True, "kept": 2, "windows": (2, 3, 2), "maps": (2, 3, 4)},
]
LENGTHS = torch.tensor([9, 2, 5, 1])
TOKENS = torch.randint(1, 11, (4, 9), generator=torch.Generator().manual_seed(0))


def make(**options: Any) -> TextCNN:
    torch.manual_seed(0)
    model = TextCNN(TextCNNConfig(**SMALL | options))
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(0, 0.5)
    return model.double().eval()


def equations(model: TextCNN, tokens: Tensor) -> Tensor:
    """The vector of one text, by sums over windows, row by row and map by map."""
    c, weights = model.config, {name: p.detach() for name, p in model.named_parameters()}
    step = torch.relu if c.activation == "relu" else torch.tanh

    def convolved(rows: list[Tensor], kernels: Tensor) -> Tensor:
        """rows: one sequence for each map that is read; kernels: as many by window."""
        window, length = kernels.size(1), len(rows[0])
        first, last = (1 - window, length) if c.wide else (0, max(1, length - window + 1))
        return torch.stack(
            [
                sum(
                    (kernels[m, j] * rows[m][i + j] for m in range(len(rows)) for j in range(window)
                     if 0 <= i + j < length), start=torch.zeros((), dtype=torch.double),
                )
                for i in range(first, last)
            ]
        )  # fmt: skip

    def largest(row: Tensor, k: int) -> Tensor:
        kept = sorted(sorted(range(len(row)), key=lambda i: -float(row[i]))[:k])
        return row[kept]

    x = weights["tokens.weight"][tokens].T  # D T
    if not c.stacked:
        found = []
        for n, maps in enumerate(c.maps):
            for m in range(maps):
                best = largest(convolved(list(x), weights[f"layers.{n}.weight"][m]), c.kept)
                found.append(padded(step(best + weights[f"layers.{n}.bias"][m]), c.kept))
        return torch.cat(found)
    rows = [[row] for row in x]  # D rows with one map
    for n, maps in enumerate(c.maps):
        kernels = weights[f"layers.{n}.weight"].unflatten(0, (len(rows), maps))
        made = [[convolved(row, kernels[r, m]) for m in range(maps)] for r, row in enumerate(rows)]
        if c.fold:
            made = [[made[r][m] + made[r + 1][m] for m in range(maps)] for r in range(0, len(made), 2)]
        share = math.ceil((len(c.maps) - n - 1) / len(c.maps) * len(tokens)) if c.dynamic else 0
        bias = weights[f"layers.{n}.bias"].view(len(made), maps)
        rows = [
            [step(largest(made[r][m], max(c.kept, share)) + bias[r, m]) for m in range(maps)] for r in range(len(made))
        ]
    return torch.cat([padded(row, c.kept) for maps in rows for row in maps])


def padded(row: Tensor, k: int) -> Tensor:
    return torch.cat([row, row.new_zeros(k - len(row))])


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_it_is_the_papers_equations(options: dict[str, Any]) -> None:
    """In a batch of different lengths, too short ones among them; what stands in the padding is of no matter."""
    model = make(**options)
    found = model.pooled(TOKENS, LENGTHS)
    assert found.shape == (4, model.width)
    for row, tokens, length in zip(found, TOKENS, LENGTHS, strict=True):
        assert_close(row, equations(model, tokens[:length]))
    assert_close(model.pooled(TOKENS[:1], None), found[:1])


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_counts_and_gradients(options: dict[str, Any]) -> None:
    model = make(**options)
    assert sum(p.numel() for p in model.parameters()) == model.config.parameters()
    model.pooled(TOKENS, LENGTHS).square().sum().backward()
    for name, p in model.named_parameters():
        assert p.grad is not None, name
        assert torch.isfinite(p.grad).all(), name
        assert p.grad.abs().sum() > 0, name


def test_a_window_does_not_care_where() -> None:
    """Beyond its window the maximum over time knows no order."""
    model = make(windows=(2,), maps=(5,))
    assert_close(model.pooled(torch.tensor([[4, 5, 4, 5, 4]]), None), model.pooled(torch.tensor([[5, 4, 5, 4]]), None))


def test_k_max() -> None:
    x = torch.randn(3, 4, 7, dtype=torch.double)
    lengths = torch.tensor([7, 5, 2])
    for k in (7, 9):  # all of them: as they were
        kept, found = k_max(x, lengths, torch.tensor([k] * 3))
        assert found.tolist() == [7, 5, 2]
        for row, old, length in zip(kept, x, lengths, strict=True):
            assert torch.equal(row[:, :length], old[:, :length])
            assert not row[:, length:].any()
    one, _ = k_max(x, lengths, torch.tensor([1, 1, 1]))
    each, found = k_max(x, lengths, torch.tensor([1, 3, 1]))
    assert found.tolist() == [1, 3, 1]
    for i, length in enumerate(lengths):
        assert torch.equal(one[i, :, 0], x[i, :, :length].amax(-1))
    assert torch.equal(each[::2, :, :1], one[::2])
    kept, _ = k_max(torch.tensor([[[3.0, 9, 1, 7, 5]]]), torch.tensor([5]), torch.tensor([3]))
    assert kept.tolist() == [[[9, 7, 5]]]


def test_folding_halves_the_rows() -> None:
    x = torch.arange(24.0).view(1, 8, 3)  # 4 rows of 2 maps
    assert torch.equal(folded(x, 4), torch.cat((x[:, :2] + x[:, 2:4], x[:, 4:6] + x[:, 6:8]), 1))


def test_the_published_shapes() -> None:
    kim = Classifier(TextCNN(TextCNNConfig(**SIZES["kim"])), HeadConfig(drop=0.5), 2)
    counts = {name: p.numel() for name, p in kim.named_parameters()}
    assert sum(n for name, n in counts.items() if name.startswith("body.layers")) == 360_300
    assert counts["out.weight"] + counts["out.bias"] == 602
    dcnn = TextCNNConfig(**SIZES["dcnn"])
    assert dcnn.width == 12 * 14 * 4  # 48 rows folded twice, 14 maps, 4 values of each


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"windows": (3,)}, "one number for each"),
        ({"maps": (4, 0)}, "all positive"),
        ({"fold": True}, "set stacked = true"),
        ({"fold": True, "stacked": True, "d_model": 6}, "cannot be halved 2 times"),
    ],
)
def test_shapes_that_cannot_be(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        TextCNNConfig(**SMALL | options)
