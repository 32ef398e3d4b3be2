"""A trained model as a folder: model.json, model.safetensors, tokenizers, and a README that is its card."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from regard.card import card
from regard.decode import DecodeOptions
from regard.errors import UserError
from regard.files import checksum, whole_folder
from regard.models import HEADS, MODELS, HeadConfig, Headed
from regard.nn.initial import Unfilled
from regard.text import Tokenizer

FORMAT = 1
WEIGHTS = "model.safetensors"


@dataclass
class Bundle:
    """A model with everything needed to use it and to know where it came from."""

    model: Any
    source: Tokenizer  # of what is read
    target: Tokenizer  # of what is written; a model with one tokenizer has it in both places
    languages: tuple[str, str]
    max_length: int  # tokens of a side, as trained
    decode: DecodeOptions = field(default_factory=DecodeOptions)
    training: dict[str, Any] = field(default_factory=dict)  # steps, tokens, seconds, data, recipe
    scores: dict[str, Any] = field(default_factory=dict)  # set -> metric -> value, interval, signature
    licences: list[str] = field(default_factory=list)
    name: str = "transformer"
    path: Path | None = None
    task: str = "translation"
    labels: list[str] = field(default_factory=list)  # what the outputs of a head are called

    @property
    def parameters(self) -> int:
        return sum(p.numel() for p in self.model.parameters())

    @property
    def data(self) -> dict[str, Any]:
        """What the recipe said of the data; nothing for a model from elsewhere, or what its maker said."""
        found: dict[str, Any] = self.training.get("recipe", {}).get("data", {})
        return found

    @property
    def one_vocabulary(self) -> bool:
        """Whether a number is the same token on both sides, though texts may be cut differently."""
        words = [[side.token(i) for i in range(len(side))] for side in (self.source, self.target)]
        return words[0] == words[1]

    def save(self, folder: Path) -> None:
        """Writes the bundle; an older one in its place is replaced in one step."""
        weights = {name: p.detach() for name, p in self.model.named_parameters()}
        with whole_folder(folder) as part:
            save_tensors(weights, part / WEIGHTS)
            tokenizers = {"source": "tokenizer.json", "target": "tokenizer.json"}
            self.source.save(part / "tokenizer.json")
            if self.target.checksum != self.source.checksum:
                tokenizers["target"] = "tokenizer.target.json"
                self.target.save(part / "tokenizer.target.json")
            files = {f.name: {"sha256": checksum(f), "bytes": f.stat().st_size} for f in sorted(part.iterdir())}
            content = self._facts() | {"tokenizers": tokenizers, "files": files}
            (part / "model.json").write_text(json.dumps(content, indent=2, ensure_ascii=False), encoding="utf-8")
            (part / "README.md").write_text(card(content), encoding="utf-8")
        self.path = folder

    def _facts(self) -> dict[str, Any]:
        from regard import __version__

        names = dict(self.model.named_parameters())
        tied = {name: p for name, p in self.model.named_parameters(remove_duplicate=False) if name not in names}
        mask = self.source.specials.mask
        aliases = {name: next(n for n, p in names.items() if p is parameter) for name, parameter in tied.items()}
        return {
            "format": FORMAT,
            "regard": __version__,
            "task": self.task,
            "architecture": {"name": self.name, "config": self.model.config.model_dump(mode="json")} | self._head(),
            "parameters": self.parameters,
            "languages": {"source": self.languages[0], "target": self.languages[1]},
            "max_length": self.max_length,
            "decode": self.decode.model_dump(mode="json"),
            "training": self.training,
            "scores": self.scores,
            "licences": self.licences,
            "aliases": aliases,
            **({"labels": self.labels} if self.labels else {}),
            **({"mask": self.source.token(mask)} if self.task == "masked" and mask is not None else {}),
        }

    def _head(self) -> dict[str, Any]:
        if not isinstance(self.model, Headed):
            return {}
        return {"head": self.model.head.model_dump(mode="json"), "outputs": self.model.outputs}


def save_tensors(tensors: dict[str, torch.Tensor], path: Path) -> None:
    """Named tensors as a safetensors file; a full disk is an OSError, as everywhere else."""
    try:
        plain = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
        path.touch()
        mode = path.stat().st_mode
        save_file(plain, path, metadata={"format": "pt"})
        path.chmod(mode)  # the library makes a file that only its owner can read
    except SafetensorError as error:  # it tells of a full disk in words alone
        if number := re.search(r"os error (\d+)", str(error)):
            raise OSError(int(number[1]), str(error)) from None
        raise


def find_bundle(path: Path) -> Path:
    """The bundle at a path: the folder itself, or the model of a run's folder."""
    for folder in (path, path / "model"):
        if (folder / "model.json").is_file():
            return folder
    if not path.exists():
        raise UserError(f"there is no model at {path}")
    if (path / "checkpoints").is_dir():
        raise UserError(f"{path} is a run without a model yet: it is written at the first validation")
    raise UserError(f"{path} is not a model: it has no model.json (a model is a folder that `regard train` wrote)")


def read_facts(path: Path) -> dict[str, Any]:
    """model.json, checked for being one of ours."""
    file = find_bundle(path) / "model.json"
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        version = int(content["format"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{file} is damaged or not a model of Regard: {error}") from None
    if version > FORMAT:
        raise UserError(f"{file} has format {version}; this version of Regard reads up to {FORMAT}: upgrade it")
    return dict(content)


def load_bundle(path: Path, *, verify: bool = True) -> Bundle:
    """Reads and checks a bundle. Nothing in it is executed."""
    folder = find_bundle(path)
    facts = read_facts(folder)
    try:
        for name, expected in facts["files"].items():
            _check_file(folder, name, expected, verify)
        return Bundle(
            _filled(_network(facts), load_file(_inside(folder, WEIGHTS))),
            Tokenizer.load(_inside(folder, facts["tokenizers"]["source"])),
            Tokenizer.load(_inside(folder, facts["tokenizers"]["target"])),
            (facts["languages"]["source"], facts["languages"]["target"]),
            int(facts["max_length"]),
            DecodeOptions.model_validate(facts["decode"]),
            facts["training"],
            facts["scores"],
            facts["licences"],
            facts["architecture"]["name"],
            folder,
            facts["task"],
            facts.get("labels", []),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{folder / 'model.json'} is damaged: {type(error).__name__} {error}") from None
    except ValidationError as error:
        raise UserError(f"{folder / 'model.json'} is damaged: {error.errors()[0]['msg']}") from None
    except (SafetensorError, OSError) as error:
        raise UserError(f"{folder / WEIGHTS} cannot be read: {error}") from None


def _network(facts: dict[str, Any]) -> Callable[[], Any]:
    """What makes the network that model.json tells of."""
    told = facts["architecture"]
    kind = MODELS[told["name"]]
    config = kind.Config.model_validate(told["config"])
    if "head" not in told:
        return lambda: kind(config)
    head = HeadConfig.model_validate(told["head"])
    return lambda: HEADS[facts["task"]](kind(config), head, int(told["outputs"]))


def _filled(make: Callable[[], Any], weights: dict[str, torch.Tensor]) -> Any:
    """A model with these weights; names and shapes must be just the model's own."""
    with torch.device("meta"), Unfilled():
        expected = {name: tuple(p.shape) for name, p in make().named_parameters()}
    found = {name: tuple(t.shape) for name, t in weights.items()}
    if expected != found:
        wrong = sorted({name for name, _ in expected.items() ^ found.items()})[0]
        raise UserError(
            f"the weights do not fit the architecture: {wrong} is {found.get(wrong, 'absent')}, "
            f"expected {expected.get(wrong, 'absent')}"
        )
    with Unfilled():
        model = make()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])
    return model.eval()


def _inside(folder: Path, name: str) -> Path:
    if Path(name).name != name:
        raise UserError(f"{folder / 'model.json'} names a file outside its folder: {name!r}")
    return folder / name


def _check_file(folder: Path, name: str, expected: dict[str, Any], verify: bool) -> None:
    file = _inside(folder, name)
    if not file.is_file():
        raise UserError(f"{file} is missing")
    if file.stat().st_size != expected["bytes"]:
        raise UserError(f"{file} is damaged: {file.stat().st_size} bytes, expected {expected['bytes']}")
    if verify and checksum(file) != expected["sha256"]:
        raise UserError(f"{file} is damaged: its checksum differs from model.json's")
