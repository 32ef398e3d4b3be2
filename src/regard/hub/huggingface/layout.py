"""What a folder in the Hugging Face layout holds, whatever the model: JSON, tensors, tokenizer files."""

import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from pydantic import BaseModel, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Inner
from torch import Tensor

from regard.bundle import save_tensors
from regard.errors import UserError
from regard.files import whole_folder
from regard.text import IMPORTED, Specials, Tokenizer

Shape = TypeVar("Shape", bound=BaseModel)
# The symbols that a tokenizer may name, in the order in which those that the vocabulary lacks are numbered.
NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
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


def read_settings(folder: Path, name: str = "tokenizer_config.json") -> dict[str, Any]:
    """Of a file that need not be there."""
    return read_json(folder / name) if (folder / name).exists() else {}


def architecture(config: dict[str, Any], otherwise: str) -> str:
    """The class of theirs that the weights are of."""
    told = config.get("architectures") or [otherwise]
    if not isinstance(told, list):
        raise UserError(f"architectures is {told!r}, expected a list with the name of a class")
    return str(told[0])


def require_plain(config: dict[str, Any], plain: dict[str, bool]) -> None:
    """Switches that change what a model computes, and are known in one position alone, which absent ones have."""
    for key, known in plain.items():
        if config.get(key, known) != known:
            raise UserError(f"{key} = {config[key]} is not known here")


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
        problem = error.errors()[0]
        where = [str(folder / "config.json"), *map(str, problem["loc"])]
        raise UserError(": ".join([*where, problem["msg"].removeprefix("Value error, ")])) from None


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
    except (SafetensorError, OSError, RuntimeError, EOFError, ValueError, KeyError) as error:
        raise UserError(f"the weights in {folder} cannot be read: {error}") from None
    for file in [] if files else pickles:
        found |= _unpickled(file)
    return {_new_name(name): tensor.float() for name, tensor in found.items() if torch.is_floating_point(tensor)}


def _unpickled(file: Path) -> dict[str, Tensor]:
    """Tensors by name; whatever else a pickle may hold is refused."""
    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:  # its own advice is to let the file run what it likes
        raise UserError(
            f"{file} is damaged, or holds more than tensors, which is not read: it could run any code"
        ) from None
    except Exception as error:  # a damaged pickle can raise anything
        raise UserError(f"{file} cannot be read: {error}") from None
    odd = content.items() if isinstance(content, dict) else [("its content", content)]
    for name, value in odd:
        if not isinstance(value, Tensor):
            raise UserError(
                f"{file} has no tensors by name: {name} is of type {type(value).__name__}; "
                "save model.state_dict() alone"
            )
    return {str(name): tensor for name, tensor in content.items()}


def _new_name(name: str) -> str:
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


def read_tokenizer(folder: Path, otherwise: Callable[[Path], Inner] | None = None) -> Inner:
    """From tokenizer.json, or from the files that a family had before; it cuts, pads and frames nothing."""
    path = folder / "tokenizer.json"
    try:
        if path.exists() or otherwise is None:
            inner = Inner.from_file(str(path))
        else:
            inner = otherwise(folder)
            _add_tokens(inner, folder)
    except UserError:
        raise
    except Exception as error:  # the library raises a bare Exception for whatever it cannot parse
        raise UserError(f"the tokenizer in {folder} cannot be read: {error}") from None
    inner.no_padding()
    inner.no_truncation()
    inner.post_processor = None
    return inner


def _add_tokens(inner: Inner, folder: Path) -> None:
    """Tokens that stand whole in a text, beside the vocabulary's pieces: marks around names, say.

    Those with a number of their own come first, then the symbols with a name, then the others as they are listed. The
    library gives each the number after the last, unless the vocabulary has it.
    """
    settings = read_settings(folder)
    decoder = settings.get("added_tokens_decoder")  # takes the place of two older files
    mapped = read_settings(folder, "special_tokens_map.json") if decoder is None else {}
    named, listed = list(_named(settings | mapped)), _listed(mapped | settings)
    if decoder is None:
        special = {token.content for token in (*named, *_listed(settings))}
        older = read_settings(folder, "added_tokens.json")
        numbered = {i: AddedToken(token, normalized=token not in special) for token, i in older.items()}
    else:
        numbered = {int(i): AddedToken(**entry) for i, entry in decoder.items()}
    tokens: dict[str, AddedToken] = {}
    for token in (*(numbered[i] for i in sorted(numbered)), *named, *listed):
        tokens.setdefault(token.content, token)
    inner.add_tokens(list(tokens.values()))
    for number, token in numbered.items():
        found = inner.token_to_id(token.content)
        if found != number:
            raise UserError(f"{folder}: the added token {token.content!r} is number {number}, by its place {found}")


def _named(settings: dict[str, Any]) -> Iterator[AddedToken]:
    """The symbols that have a name each; families may have more of them than NAMED."""
    extra = settings.get("extra_special_tokens")
    others = [key for key in settings if key.endswith("_token") and key not in NAMED]
    told = [settings.get(key) for key in (*NAMED, *others)] + [*(extra.values() if isinstance(extra, dict) else ())]
    return (_symbol(entry) for entry in told if isinstance(entry, str | dict))


def _listed(settings: dict[str, Any]) -> list[AddedToken]:
    """The symbols without a name, under the newer of two keys if it has any."""
    extra = settings.get("extra_special_tokens")
    listed = extra if extra and isinstance(extra, list) else settings.get("additional_special_tokens")
    return [_symbol(entry) for entry in listed or []]


def _symbol(entry: str | dict[str, Any]) -> AddedToken:
    told = {"content": entry} if isinstance(entry, str) else {key: entry[key] for key in entry if key != "__type"}
    return AddedToken(**{"special": True} | told)


def imported(inner: Inner, specials: Specials) -> Tokenizer:
    """Special symbols beside these (such as marks around names) are found in texts, as there."""
    state = json.loads(inner.to_str())
    for entry in state["added_tokens"]:
        entry["special"] = entry["id"] in specials.ids
    return Tokenizer(IMPORTED, Inner.from_str(json.dumps(state)), specials)


def require_rows(tokenizer: Tokenizer, vocabulary: int, folder: Path) -> None:
    """A model may have tokens to spare, and no token may lack its row."""
    last = max(*tokenizer.words, *tokenizer.specials.ids)
    if last >= vocabulary:
        raise UserError(
            f"{folder}: the tokenizer counts up to {last:,} ({tokenizer.token(last)!r}), "
            f"the model's vocab_size is {vocabulary:,}; is it another model's tokenizer?"
        )


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
    space = bool(read_settings(folder).get("add_prefix_space", False))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=space)
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
