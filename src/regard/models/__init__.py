"""Whole networks: one file each = config + module + published sizes."""

from typing import Any

from regard.models.bert import Bert, BertConfig
from regard.models.config import ModelConfig
from regard.models.convolutional import Convolutional, ConvolutionalConfig
from regard.models.elmo import Elmo, ElmoConfig
from regard.models.gpt import GPT, GPTConfig
from regard.models.heads import HEADS, HeadConfig, Headed, Prompted
from regard.models.recurrent import Recurrent, RecurrentConfig
from regard.models.tcn import TCN, TCNConfig
from regard.models.textcnn import TextCNN, TextCNNConfig
from regard.models.transformer import Transformer, TransformerConfig

# The first that can do a task is what a recipe for that task gets when it names none.
MODELS: dict[str, Any] = {
    "transformer": Transformer, "rnn": Recurrent, "conv": Convolutional, "bert": Bert, "textcnn": TextCNN, "elmo": Elmo,
    "gpt": GPT, "tcn": TCN,
}  # fmt: skip

# Those that write one sequence from another: `forward`, `output` to train; `encode`, `start`, `step` to decode.
Pair = Transformer | Recurrent | Convolutional | Prompted

__all__ = [
    "GPT", "HEADS", "MODELS", "TCN", "Bert", "BertConfig", "Convolutional", "ConvolutionalConfig", "Elmo", "ElmoConfig",
    "GPTConfig", "HeadConfig", "Headed", "ModelConfig", "Pair", "Prompted", "Recurrent", "RecurrentConfig", "TCNConfig",
    "TextCNN", "TextCNNConfig", "Transformer", "TransformerConfig",
]  # fmt: skip
