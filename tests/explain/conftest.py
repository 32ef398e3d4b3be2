"""A translator small enough to be taught in a second or two, by a plain loop: what it knows is known."""

import pytest
import torch
from conftest import make_pairs
from torch.nn import functional as F

from regard.api import Model
from regard.bundle import Bundle
from regard.decode import DecodeOptions
from regard.decode.engine import pad
from regard.models import Transformer
from regard.text import BOS, EOS, PAD, Tokenizer

SHAPE = {"d_model": 32, "d_ff": 64, "heads": 4, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}


def taught(pairs: list[tuple[str, str]], steps: int) -> Model:
    torch.manual_seed(0)
    source = Tokenizer.learn((s for s, _ in pairs), kind="word", size=100)
    target = Tokenizer.learn((t for _, t in pairs), kind="word", size=100)
    sizes = {"source_vocabulary": len(source), "target_vocabulary": len(target), "tie": ("target", "output")}
    network = Transformer(Transformer.Config.model_validate(SHAPE | sizes))
    weights = list(network.parameters())
    mean, square = [torch.zeros_like(w) for w in weights], [torch.zeros_like(w) for w in weights]
    read, lengths = pad([[*source.encode(s), EOS] for s, _ in pairs])
    written, _ = pad([[BOS, *target.encode(t), EOS] for _, t in pairs])
    for step in range(steps):
        rows = torch.arange(64) * 7 + step * 64
        rows %= len(pairs)
        states = network(read[rows], lengths[rows], written[rows, :-1])
        loss = F.cross_entropy((states @ network.output.T).flatten(0, 1), written[rows, 1:].flatten(), ignore_index=PAD)
        # Adam, by hand: importing torch.optim takes longer than all of this
        with torch.no_grad():
            for w, g, m, s in zip(weights, torch.autograd.grad(loss, weights), mean, square, strict=True):
                m.lerp_(g, 0.1)
                s.lerp_(g * g, 0.02)
                correct = (1 - 0.98 ** (step + 1)) ** 0.5 / (1 - 0.9 ** (step + 1))
                w -= 0.01 * correct * m / (s.sqrt() + 1e-8)
    options = DecodeOptions(beam=1, extra_length=5)
    return Model([Bundle(network.eval(), source, target, ("en", "es"), 30, options)])


@pytest.fixture(scope="session")
def translator() -> Model:
    return taught(make_pairs()[:200], 80)
