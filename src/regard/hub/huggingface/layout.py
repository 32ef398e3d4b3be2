"""What a folder in the Hugging Face layout holds, whatever the model: JSON, tensors, tokenizer files."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from pydantic import BaseModel, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import Tokenizer as Inner
from tokenizers import decoders, models, pre_tokenizers
from torch import Tensor

from regard.bundle import save_tensors
from regard.errors import UserError
from regard.files import whole_folder
from regard.text import Tokenizer

Shape = TypeVar("Shape", bound=BaseModel)
ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu"}


def read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise UserError(f"{path} is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} is not a JSON object")
    return content


def require_numbers(config: dict[str, Any], names: Sequence[str], folder: Path) -> dict[str, int]:
    """What must be there, and be a number."""
    for name in names:
        if type(config.get(name)) is not int:
            raise UserError(f"{folder / 'config.json'}: {name} is {config.get(name)!r}, expected a number")
    return {name: config[name] for name in names}


def shaped(kind: type[Shape], folder: Path, **fields: Any) -> Shape:
    """A network's shape from what config.json says."""
    try:
        return kind(**fields)
    except ValidationError as error:
        raise UserError(f"{folder / 'config.json'}: {error.errors()[0]['msg']}") from None


def read_weights(folder: Path, allow_pickle: bool) -> dict[str, Tensor]:
    """All tensors of the folder, in one file or several; old names of the norms are read too."""
    files = sorted(folder.glob("*.safetensors"))
    pickles = sorted(folder.glob("pytorch_model*.bin"))
    if not files and not pickles:
        raise UserError(f"{folder} has no model.safetensors and no pytorch_model.bin")
    if not files and not allow_pickle:
        raise UserError(f"{pickles[0]} is a pickle; --allow-pickle reads it, weights only")
    found: dict[str, Tensor] = {}
    try:
        for file in files:
            found |= load_file(file)
        for file in [] if files else pickles:
            found |= torch.load(file, map_location="cpu", weights_only=True)
    except (SafetensorError, OSError, RuntimeError, EOFError, ValueError, KeyError) as error:
        raise UserError(f"the weights in {folder} cannot be read: {error}") from None
    return {_new_name(name): tensor.float() for name, tensor in found.items() if torch.is_floating_point(tensor)}


def _new_name(name: str) -> str:
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


def read_tokenizer(folder: Path, otherwise: Callable[[Path], Inner] | None = None) -> Inner:
    """From tokenizer.json, or from the files that a family had before; it cuts, pads and frames nothing."""
    path = folder / "tokenizer.json"
    try:
        inner = Inner.from_file(str(path)) if path.exists() or otherwise is None else otherwise(folder)
    except UserError:
        raise
    except Exception as error:  # the library raises a bare Exception for whatever it cannot parse
        raise UserError(f"the tokenizer in {folder} cannot be read: {error}") from None
    inner.no_padding()
    inner.no_truncation()
    inner.post_processor = None
    return inner


def own_tokenizer(folder: Path) -> Tokenizer | None:
    """Of a folder that this project wrote for a model of its own: the tokenizer that the model was trained with."""
    return Tokenizer.from_standalone(read_tokenizer(folder)) if (folder / "tokenizer.json").exists() else None


def vocabulary_and_merges(folder: Path) -> tuple[str, str]:
    files = folder / "vocab.json", folder / "merges.txt"
    if not all(file.exists() for file in files):
        raise UserError(f"{folder} has neither tokenizer.json nor vocab.json and merges.txt")
    return str(files[0]), str(files[1])


def byte_level(folder: Path) -> Inner:
    """RoBERTa's and GPT-2's, from vocabulary and merges."""
    inner = Inner(models.BPE.from_file(*vocabulary_and_merges(folder)))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return inner


def write(out: Path, contents: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """A folder with these files (bytes as they are, all else as JSON) and weights, whole or not at all."""
    if out.exists():
        raise UserError(f"{out} is there already; choose another folder")
    with whole_folder(out) as part:
        for name, content in contents.items():
            if not isinstance(content, bytes):
                content = (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()
            (part / name).write_bytes(content)
        save_tensors(tensors, part / "model.safetensors")
