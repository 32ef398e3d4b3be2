"""A small model that has learned its corpus, and servers around it."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import make_pairs, small_recipe
from fastapi.testclient import TestClient
from serve.servers import Held, Start

from regard.api import Model, train
from regard.bundle import Bundle
from regard.models import GPT, GPTConfig
from regard.serve.app import make_app
from regard.serve.models import Models, load_models
from regard.serve.settings import Settings
from regard.text import Tokenizer


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("serve") / "small"
    pairs = make_pairs()
    recipe = small_recipe(steps=80, batch_tokens=512, lr=0.02, validate_every=80, save_every=80, log_every=80)
    recipe["train"]["precision"] = "float32"  # what it has learned does not hang on the processor
    recipe["model"] |= {"d_model": 32, "d_ff": 64, "dropout": 0.0, "norm": "pre"}
    recipe["decode"] = {"beam": 3}
    train(recipe, pairs=pairs, dev=pairs[:20], out=out, quiet=True)
    return out


@pytest.fixture(scope="session")
def models(trained: Path) -> Models:
    return load_models([trained], "torch")


@pytest.fixture(scope="session")
def writer() -> Model:
    torch.manual_seed(0)
    tokenizer = Tokenizer.learn(["the cat sat on the mat", "a dog ran"], "byte")
    shape = {"d_model": 16, "d_ff": 32, "heads": 2, "layers": 1, "max_positions": 512, "dropout": 0.0}
    model = GPT(GPTConfig(**shape, vocabulary=len(tokenizer)))  # type: ignore[arg-type]
    return Model([Bundle(model.eval(), tokenizer, tokenizer, ("text", "text"), 64, name="gpt", task="language")])


@pytest.fixture
def start(models: Models) -> Iterator[Start]:
    """Starts an application with these settings; `models` can be others."""
    with ExitStack() as stack:

        def begin(*, served: Models | None = None, **settings: Any) -> TestClient:
            app = make_app(served or models, Settings(**settings))
            return stack.enter_context(TestClient(app, raise_server_exceptions=False))

        yield begin


@pytest.fixture(scope="module")
def client(models: Models) -> Iterator[TestClient]:
    with TestClient(make_app(models, Settings()), raise_server_exceptions=False) as found:
        yield found


@pytest.fixture
def held(models: Models) -> Iterator[Held]:
    one = Held(models.by_direction["en", "es"])
    yield one
    one.gate.set()
