"""Whole networks: one file each = config + module + published sizes."""

from typing import Any

from regard.models.bert import Bert, BertConfig
from regard.models.config import ModelConfig
from regard.models.gpt import GPT, GPTConfig
from regard.models.heads import HEADS, HeadConfig, Headed
from regard.models.transformer import Transformer, TransformerConfig

# The first that can do a task is what a recipe for that task gets when it names none.
MODELS: dict[str, Any] = {"transformer": Transformer, "bert": Bert, "gpt": GPT}

__all__ = [
    "GPT", "HEADS", "MODELS", "Bert", "BertConfig", "GPTConfig", "HeadConfig", "Headed", "ModelConfig", "Transformer",
    "TransformerConfig",
]  # fmt: skip
