"""Whole networks: one file each = config + module + published sizes."""

from typing import Any

from regard.models.bert import Bert, BertConfig
from regard.models.config import ModelConfig
from regard.models.convolutional import Convolutional, ConvolutionalConfig
from regard.models.heads import HEADS, HeadConfig, Headed
from regard.models.recurrent import Recurrent, RecurrentConfig
from regard.models.transformer import Transformer, TransformerConfig

# The first that can do a task is what a recipe for that task gets when it names none.
MODELS: dict[str, Any] = {"transformer": Transformer, "bert": Bert, "rnn": Recurrent, "conv": Convolutional}

# Those that write one sequence from another: `forward`, `output` to train; `encode`, `start`, `step` to decode.
Pair = Transformer | Recurrent | Convolutional

__all__ = [
    "HEADS", "MODELS", "Bert", "BertConfig", "Convolutional", "ConvolutionalConfig", "HeadConfig", "Headed",
    "ModelConfig", "Pair", "Recurrent", "RecurrentConfig", "Transformer", "TransformerConfig",
]  # fmt: skip
