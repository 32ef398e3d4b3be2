"""The models of a server, by direction, and the ways between languages: direct, or through a third one."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch

from regard.api import Model, PathLike, load
from regard.bundle import read_facts
from regard.decode import DecodeOptions
from regard.decode.engine import Torch
from regard.decode.translator import Translation
from regard.errors import UserError
from regard.serve.priority import stand_back
from regard.serve.sentences import Cut, cut, whole

EngineName = Literal["auto", "torch", "ctranslate2"]
Direction = tuple[str, str]
Result = TypeVar("Result")


class Served:
    """A model in service. Its decoding and the looks into it are kept apart where they use the same network."""

    def __init__(self, model: Model, name: str, beam: int | None = None) -> None:
        self.model, self.name, self.beam = model, name, beam
        self.engine = "torch" if isinstance(model.translator.engine, Torch) else "ctranslate2"
        # How many batches are decoded at once: CTranslate2 has a worker a core, torch shares each batch itself. Asked
        # now: what any thread sets later changes the answer.
        self.threads = torch.get_num_threads() if self.engine == "ctranslate2" else 1
        self._own = threading.Lock()
        self._options: dict[int, DecodeOptions] = {}
        self.options(0)  # a wrong beam is told at once

    @property
    def direction(self) -> Direction:
        return self.model.languages

    @property
    def summarises(self) -> bool:
        return self.model.bundle.task == "summarisation"

    def cut(self, text: str) -> Cut:
        """What is translated at a time: sentences; a document that is to be summarised is one text."""
        return whole(text) if self.summarises else cut(text)

    def options(self, alternatives: int) -> DecodeOptions:
        """The model's own decode options, with so many alternatives."""
        if alternatives not in self._options:
            beam = max(self.beam or self.model.bundle.decode.beam, alternatives + 1)
            self._options[alternatives] = self.model.options(beam=beam, n_best=alternatives + 1, sample=False)
        return self._options[alternatives]

    def decode(self, texts: Sequence[str], options: DecodeOptions) -> list[list[Translation]]:
        if self.engine == "ctranslate2":
            return self.model.translator.n_best(texts, options)
        with self._own:
            return self.model.translator.n_best(texts, options)

    def look(self, work: Callable[[Model], Result]) -> Result:
        """Work that records what the network does: nobody else may use it meanwhile."""
        with self._own:
            return work(self.model)

    def to_dict(self) -> dict[str, Any]:
        """What the page says of it."""
        config = self.model.bundle.model.config
        layers = {side: getattr(config, f"{side}_layers", 0) for side in ("encoder", "decoder")}
        return {
            "name": self.name,
            "source": self.direction[0],
            "target": self.direction[1],
            "parameters": self.model.bundle.parameters,
            "members": len(self.model.bundles),
            "engine": self.engine,
            "max_length": self.model.translator.max_source,
            "layers": layers if any(layers.values()) else {"encoder": 0, "decoder": config.layers},
            "heads": getattr(config, "heads", 1),
        }


class Models:
    """All directions of a server, and the language models that write, by name."""

    def __init__(self, served: Sequence[Served], writers: Mapping[str, Model] | None = None) -> None:
        self.writers = dict(writers or {})
        if not served and not self.writers:
            raise UserError("no model was given")
        self.by_direction: dict[Direction, Served] = {}
        for one in served:
            other = self.by_direction.get(one.direction)
            if other is not None:
                raise UserError(
                    f"{other.name} and {one.name} both translate {' to '.join(one.direction)}; "
                    "serve one of them, or both as one with --ensemble"
                )
            self.by_direction[one.direction] = one
        self.languages = list(dict.fromkeys(code for direction in self.by_direction for code in direction))

    def targets(self, source: str) -> list[str]:
        """What can be reached from a language; itself, where there are summaries."""
        return [code for code in self.languages if self.way(source, code)]

    def way(self, source: str, target: str) -> list[Served]:
        """One model, or two through a third language; empty when there is no way, or none is needed."""
        if direct := self.by_direction.get((source, target)):
            return [direct]
        if source == target:
            return []
        for (start, middle), first in self.by_direction.items():
            if start == source and (second := self.by_direction.get((middle, target))):
                return [first, second]
        return []


def load_models(
    paths: Sequence[PathLike],
    engine: EngineName = "auto",
    precision: str = "float32",
    *,
    ensemble: bool = False,
    beam: int | None = None,
) -> Models:
    """Loads models; with ensemble, those of one direction translate together."""
    writing = [path for path in paths if read_facts(Path(path)).get("task") == "language"]
    translating = [path for path in paths if path not in writing]
    if writing and not translating:
        asked = {f"--engine {engine}": engine == "ctranslate2", f"--precision {precision}": precision != "float32"}
        for option, given in (asked | {"--beam": beam is not None, "--ensemble": ensemble}).items():
            if given:
                raise UserError(f"{option} is for models that translate; here are language models alone")
    groups = _by_direction(translating) if ensemble else [[path] for path in translating]
    with ThreadPoolExecutor(1, initializer=stand_back) as loading:  # an engine's threads inherit the one they start in
        loaded = list(loading.map(lambda group: _loaded(group, engine, precision), groups))
    served = [Served(model, _name(group), beam) for model, group in zip(loaded, groups, strict=True)]
    writers: dict[str, Model] = {}
    for path in writing:
        if (name := _name([path])) in writers:
            raise UserError(f"two language models are called {name}, after their folders; rename one of these")
        writers[name] = load(path)
    return Models(served, writers)


def _by_direction(paths: Sequence[PathLike]) -> list[list[PathLike]]:
    groups: dict[tuple[Any, Any], list[PathLike]] = {}
    for path in paths:
        languages = read_facts(Path(path)).get("languages", {})
        groups.setdefault((languages.get("source"), languages.get("target")), []).append(path)
    return list(groups.values())


def _loaded(paths: Sequence[PathLike], engine: EngineName, precision: str) -> Model:
    """auto is CTranslate2 where it is installed and can run the model."""
    if engine != "auto":
        return load(paths, engine=engine, precision=precision)
    if len(paths) == 1 and not torch.cuda.is_available():
        try:
            return load(paths, engine="ctranslate2", precision=precision)
        except UserError:
            pass  # what is wrong with the model itself is told below
    return load(paths, precision=precision)


def _name(paths: Sequence[PathLike]) -> str:
    """The folder's name; of a run, the run's."""
    names = [p.resolve().parent.name if p.name == "model" else p.resolve().name for p in map(Path, paths)]
    return " + ".join(names)
