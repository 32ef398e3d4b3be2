"""Whole networks: one file each = config + module + published sizes."""

from regard.models.transformer import Transformer, TransformerConfig

MODELS = {"transformer": Transformer}

__all__ = ["MODELS", "Transformer", "TransformerConfig"]
