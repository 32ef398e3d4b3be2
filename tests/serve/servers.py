"""Servers and models for tests: of random weights, held until they are let, listening on a real port."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import uvicorn
from fastapi.testclient import TestClient

from regard.api import Model
from regard.bundle import Bundle
from regard.decode import DecodeOptions
from regard.decode.translator import Translation
from regard.models import Transformer
from regard.serve.app import make_app
from regard.serve.listen import bind, url
from regard.serve.models import Models, Served
from regard.serve.settings import Settings
from regard.text import Tokenizer

Start = Callable[..., TestClient]


def untrained(source: str, target: str, seed: int = 0) -> Served:
    """A model of random weights."""
    torch.manual_seed(seed)
    tokenizer = Tokenizer.learn(["el hombre come el pan", "the man eats"] * 5, kind="word", size=50)
    sizes = {"source_vocabulary": len(tokenizer), "target_vocabulary": len(tokenizer)}
    shape = {"d_model": 16, "d_ff": 32, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
    network = Transformer(Transformer.Config.model_validate(shape | sizes)).eval()
    options = DecodeOptions(beam=2, max_length=6)
    return Served(Model([Bundle(network, tokenizer, tokenizer, (source, target), 30, options)]), f"{source}-{target}")


class Held(Served):
    """A model that translates only when it is let: `gate.set()`. It says what it was asked."""

    def __init__(self, served: Served) -> None:
        super().__init__(served.model, "held")
        self.gate, self.begun = threading.Event(), threading.Event()
        self.asked: list[list[str]] = []

    def decode(self, texts: Sequence[str], options: DecodeOptions) -> list[list[Translation]]:
        self.asked.append(list(texts))
        self.begun.set()
        assert self.gate.wait(20)
        return super().decode(texts, options)


@contextmanager
def listening(served: Models, **settings: Any) -> Iterator[str]:
    """A real server in a thread of its own; its address."""
    bound = bind("127.0.0.1", 0)
    config = uvicorn.Config(make_app(served, Settings(**settings)), log_config=None, access_log=False, ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    until(lambda: server.started)
    try:
        yield url(bound)
    finally:
        server.should_exit = True
        thread.join(20)


def until(true: Callable[[], bool], seconds: float = 20) -> None:
    """Waits for what another thread is about to do."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)
