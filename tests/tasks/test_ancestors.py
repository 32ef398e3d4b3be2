"""The Transformer's ancestors as a user meets them: trained, resumed, translating, looked into, refused for export."""

from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import small_recipe

import regard
from regard.align import IBM1
from regard.config import make_recipe
from regard.errors import UserError
from regard.hub import ctranslate2, huggingface
from regard.serve.align import align
from regard.training.session import train
from regard.view.agreement import agreement
from regard.view.look import look

Pairs = list[tuple[str, str]]
RNN = {"name": "rnn", "d_model": 32, "d_encoder": 16, "d_embed": 16, "d_align": 16, "d_readout": 16, "dropout": 0.1}
MODELS: dict[str, dict[str, Any]] = {
    "additive": RNN,
    "dot": RNN | {"attention": "dot", "cell": "lstm"},
    "none": RNN | {"attention": "none"},
    "cnn": RNN | {"encoder": "cnn", "encoder_layers": 2},
    "conv": {"name": "conv", "size": "tiny", "d_model": 16, "widths": [16], "decoder_layers": 2, "dropout": 0.1},
}


def recipe(name: str, **settings: Any) -> Any:
    return make_recipe(small_recipe(**settings) | {"model": MODELS[name]})


@pytest.fixture(scope="module", params=MODELS)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, pairs: Pairs) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp(request.param)
    settings = {"steps": 120, "lr": 0.02, "validate_every": 120, "save_every": 60, "schedule": "linear"}
    train(recipe(request.param, **settings), folder, pairs=pairs[:220], dev=pairs[220:])
    return request.param, folder / "model"


def test_they_learn_and_translate(trained: tuple[str, Path], pairs: Pairs) -> None:
    name, folder = trained
    model = regard.load(folder)
    assert model.bundle.name == MODELS[name]["name"]
    sources, targets = zip(*pairs[220:], strict=True)
    assert model.bundle.scores["dev"]["BLEU"]["value"] > (25 if name == "none" else 60)
    assert sum(a == b for a, b in zip(model.translate(list(sources)), targets, strict=True)) > 0
    assert model.n_best([sources[0]], n_best=2)
    assert regard.load([folder, folder]).translate(list(sources[:3])) == model.translate(list(sources[:3]))


def test_attention_is_seen_and_where_there_is_none_it_is_told(trained: tuple[str, Path], pairs: Pairs) -> None:
    name, folder = trained
    model, (source, target) = regard.load(folder), pairs[230]
    (by_serve,) = align(model.bundle, [(source, target)], 50)
    assert by_serve.weights.shape == (len(target.split()), len(source.split()))
    if name == "none":
        with pytest.raises(UserError, match="no attention"):
            look(model, source)
        return
    found = look(model, source, target)
    assert found.alignment().shape == (len(target.split()) + 1, len(source.split()) + 1)
    assert found.weights["cross"].shape[0] == (2 if name == "conv" else 1)
    assert "svg" in found.draw("alignment").svg()
    assert "<html" in found.to_html()
    with pytest.raises(UserError, match="not a scaled dot product"):
        found.draw("steps").text()
    aligner = IBM1([(s.split(), t.split()) for s, t in pairs], 10)
    told = agreement(model, pairs[230:236], aligner)
    same = words = 0
    for one, other in pairs[230:236]:
        looked, counted = look(model, one, other).alignment(), aligner.matrix(one.split(), other.split())
        for weights, owed in zip(looked[:-1, :-1], counted, strict=True):
            if owed.max() > 1 - owed.sum():  # else it is the empty word's
                words += 1
                same += int(weights.argmax() == owed.argmax())
    assert (told.words, told.same) == (words, same)
    assert words >= 20


def test_other_programs_formats_are_refused(trained: tuple[str, Path], tmp_path: Path) -> None:
    bundle = regard.load(trained[1]).bundle
    for export in (ctranslate2.export, huggingface.export):
        with pytest.raises(UserError, match=f"this model is '{bundle.name}'"):
            export(bundle, tmp_path / "out")


@pytest.mark.parametrize("name", MODELS)
def test_a_resumed_run_is_the_same_to_the_bit(name: str, tmp_path: Path, pairs: Pairs) -> None:
    whole = train(recipe(name), tmp_path / "whole", pairs=pairs[:100], dev=pairs[100:104])
    train(recipe(name, steps=6), tmp_path / "parts", pairs=pairs[:100], dev=pairs[100:104])
    resumed = train(recipe(name), tmp_path / "parts", pairs=pairs[:100], dev=pairs[100:104], resume=True)
    for (key, one), other in zip(whole.model.named_parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(one, other), key
