"""Whole networks: one file each = config + module + published sizes."""

from typing import Any

from regard.models.bert import Bert, BertConfig
from regard.models.config import ModelConfig
from regard.models.elmo import Elmo, ElmoConfig
from regard.models.heads import HEADS, HeadConfig, Headed
from regard.models.textcnn import TextCNN, TextCNNConfig
from regard.models.transformer import Transformer, TransformerConfig

# The first that can do a task is what a recipe for that task gets when it names none.
MODELS: dict[str, Any] = {"transformer": Transformer, "bert": Bert, "textcnn": TextCNN, "elmo": Elmo}

__all__ = [
    "HEADS", "MODELS", "Bert", "BertConfig", "Elmo", "ElmoConfig", "HeadConfig", "Headed", "ModelConfig", "TextCNN",
    "TextCNNConfig", "Transformer", "TransformerConfig",
]  # fmt: skip
