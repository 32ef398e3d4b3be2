"""Positions and norms are the model's own, and batch norm beside them is batch norm."""

import numpy as np
import pytest
import torch
from torch import nn

from regard.api import Model
from regard.view.look import look
from regard.view.norms import record_norms
from regard.view.positions import positions
from tests.view.conftest import transformer


def test_positions_are_added_as_they_are_shown() -> None:
    for kind in ("sinusoidal", "learned"):
        model = transformer(50, positions=kind, max_positions=100)
        found = positions(model)
        assert found.table is not None
        assert found.table.shape == (64, 16)
        zero = torch.zeros(1, 64, 16)
        np.testing.assert_allclose(model.positions["source"](zero)[0].detach().numpy(), found.table, atol=1e-6)
        assert found.products is not None
        np.testing.assert_allclose(found.products, found.table @ found.table.T)


def test_sinusoids_products_depend_on_the_distance_alone() -> None:
    for kind in ("sinusoidal", "rotary"):
        products = positions(transformer(50, positions=kind)).products
        assert products is not None
        for distance in (0, 1, 7):
            diagonal = np.diagonal(products, distance)
            np.testing.assert_allclose(diagonal, diagonal[0], atol=1e-4)


def test_there_may_be_no_positions() -> None:
    found = positions(transformer(50, positions="none"))
    assert (found.kind, found.table, found.products) == ("none", None, None)
    assert found.to_dict() == {"kind": "none", "table": None}
    assert positions(transformer(50), 5000).table.shape == (256, 16)  # type: ignore[union-attr]


def test_norms_are_the_models_own(translator: Model) -> None:
    found = look(translator, "the small dog", "el perro")
    assert len(found.norms) == 2 * 2 + 3 * 3
    modules = dict(translator.bundle.model.named_modules())
    for norm in found.norms:
        module = modules[norm.name]
        with torch.no_grad():
            expected = module(torch.tensor(norm.x)).numpy()
        np.testing.assert_allclose(norm.output(), expected, atol=1e-5)
        assert len(norm.x) == len(found.axes[norm.side].tokens)
    assert found.norms[0].label == "encoder, layer 1, attention"
    assert {n.label for n in found.norms} >= {
        "decoder, layer 3, attention over the input",
        "decoder, layer 1, feed-forward",
    }


def test_a_norm_after_the_last_layer_has_its_name() -> None:
    model = transformer(50, norm="pre")
    with torch.no_grad(), record_norms(model) as norms:
        model(torch.tensor([[5, 6, 3]]), None, torch.tensor([[2, 7]]))
    assert [n.label for n in norms if n.layer < 0] == ["encoder, after the last layer", "decoder, after the last layer"]
    assert [len(m._forward_hooks) for m in model.modules() if isinstance(m, nn.LayerNorm)] == [0] * len(norms)


def test_batch_norm_is_batch_norm(translator: Model) -> None:
    norm = look(translator, "the small dog sleeps in the garden", "el").norms[0]
    batch = nn.BatchNorm1d(16, eps=norm.eps, affine=False)
    np.testing.assert_allclose(norm.batch(), batch(torch.tensor(norm.x)).numpy(), atol=1e-4)
    said = norm.terminal(1, "small")
    assert "batch norm" in said
    assert f"{norm.x[1].mean():.2f}" in said
    numbers = norm.numbers(1)
    assert numbers["output"] == pytest.approx(norm.output()[1].tolist(), abs=1e-5)
