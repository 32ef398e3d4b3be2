"""A small Transformer and a translator around it; its weights are random, which attention does not mind."""

import pytest
import torch

from regard.api import Model
from regard.bundle import Bundle
from regard.models import Transformer
from regard.text import Tokenizer

TEXTS = [
    "the small dog sleeps in the garden",
    "the cat didn't see <script>alert('x')</script> & \"quotes\"",
    "el perro pequeño duerme en el jardín",
] * 20


def transformer(vocabulary: int, **changes: object) -> Transformer:
    torch.manual_seed(7)
    shape = {"d_model": 16, "d_ff": 32, "heads": 4, "encoder_layers": 2, "decoder_layers": 3, "dropout": 0.3}
    sizes = {"source_vocabulary": vocabulary, "target_vocabulary": vocabulary}
    return Transformer(Transformer.Config.model_validate(shape | sizes | changes)).eval()


@pytest.fixture
def network() -> Transformer:
    return transformer(50)


@pytest.fixture(scope="session")
def translator() -> Model:
    tokenizer = Tokenizer.learn(TEXTS, kind="bpe", size=300)
    return Model([Bundle(transformer(len(tokenizer)), tokenizer, tokenizer, ("en", "es"), 200)])
