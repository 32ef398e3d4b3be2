"""Checkpoints in the Hugging Face layout (config.json, safetensors, tokenizer files), both ways: one file a family."""

from pathlib import Path
from typing import Any

from regard.bundle import Bundle
from regard.errors import UserError
from regard.hub.huggingface import bert, gpt, marian
from regard.hub.huggingface.layout import read_json, read_weights

FAMILIES: dict[str, Any] = {
    "bert": bert, "roberta": bert, "gpt2": gpt, "openai-gpt": gpt, "marian": marian, "pegasus": marian,
}  # fmt: skip  # their model_type
MODELS: dict[str, Any] = {"bert": bert, "gpt": gpt, "transformer": marian}  # our names


def read(folder: Path, *, allow_pickle: bool = False) -> Bundle:
    """A folder in their layout as a bundle of ours."""
    config = read_json(folder / "config.json")
    family = str(config.get("model_type"))
    if family not in FAMILIES:
        raise UserError(f"{folder}: models of type {family!r} are not known; known: {', '.join(FAMILIES)}")
    bundle: Bundle = FAMILIES[family].read(folder, config, read_weights(folder, allow_pickle))
    return bundle


def export(bundle: Bundle, out: Path) -> None:
    """Writes what `transformers` loads: config, weights, tokenizer."""
    if bundle.name not in MODELS:
        raise UserError(f"this model is {bundle.name!r}; in this layout can be written: {', '.join(MODELS)}")
    MODELS[bundle.name].export(bundle, out)
