"""The Python interface: load a model and use it, or train one."""

import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NoReturn, overload

from pydantic import ValidationError

from regard.bundle import Bundle, load_bundle
from regard.config import WRITING, Recipe, default_recipe, load_recipe, make_recipe
from regard.decode import DecodeOptions
from regard.decode.engine import Engine, Torch
from regard.decode.translator import WINDOW, Translation, Translator
from regard.decode.writer import Generation, Guess, Piece, Prompt, Writer, ended
from regard.device import find_device
from regard.errors import UserError
from regard.files import cache_folder
from regard.hub.ctranslate2 import CTranslate2
from regard.nn.native import decoding
from regard.predict import PREDICTORS
from regard.tasks.task import Pairs
from regard.training import session
from regard.training.fit import Callback
from regard.training.progress import Show
from regard.training.signals import Stopped

TOKENS = 200  # written after a prompt, unless asked otherwise
DRAWN = ("repetition_penalty", "frequency_penalty", "presence_penalty", "logit_bias")  # a search has none of them
USES = {"translation": "translate", "summarisation": "summarise", "language": "generate"}  # the command of each task
PathLike = str | os.PathLike[str]


class Model:
    """A trained model: it translates, predicts, or writes. Translators with the same tokenizers can be an ensemble."""

    def __init__(self, bundles: Sequence[Bundle], engine: Engine | None = None) -> None:
        first = bundles[0]
        self.bundle = first
        self.bundles = list(bundles)
        if first.task in WRITING:
            self.translator = self._translator(engine)
        elif len(bundles) > 1:
            raise UserError(f"an ensemble translates; {first.path} is a model for {first.task}")
        elif first.task in PREDICTORS:
            self.predictor = PREDICTORS[first.task](first)
        elif first.task == "language":
            self.writer = Writer([first.model], first.target, first.decode)

    def __getattr__(self, name: str) -> NoReturn:
        does = {"translator": "translate", "predictor": "predict", "writer": "generate"}.get(name)
        if does is None:
            raise AttributeError(f"a model has no attribute {name!r}")
        task = self.bundle.task
        use = "predict" if task in PREDICTORS else USES.get(task, "train --from")
        raise UserError(f"{self.bundle.path} is a model for {task}: it does not {does}; use it with `regard {use}`")

    def _translator(self, engine: Engine | None) -> Translator:
        bundles, first = self.bundles, self.bundle
        for other in bundles[1:]:
            if (other.source.checksum, other.target.checksum) != (first.source.checksum, first.target.checksum):
                raise UserError(f"{other.path} and {first.path} have different tokenizers: they cannot be an ensemble")
        if engine is None:
            decoding.allow(cache_folder("native"))
            engine = Torch([b.model for b in bundles])
        return Translator(
            engine,
            first.source,
            first.target,
            first.decode,
            min(b.max_length for b in bundles),
            cut=first.task == "summarisation",
        )

    @property
    def languages(self) -> tuple[str, str]:
        return self.bundle.languages

    @overload
    def translate(self, texts: str, **options: Any) -> str: ...

    @overload
    def translate(self, texts: Sequence[str], **options: Any) -> list[str]: ...

    def translate(self, texts: str | Sequence[str], **options: Any) -> str | list[str]:
        """Translates one text or many; options are those of `DecodeOptions`, such as beam=1."""
        if isinstance(texts, str):
            return self.translator.translate([texts], self.options(**options))[0]
        return self.translator.translate(list(texts), self.options(**options))

    @overload
    def predict(self, texts: str | Mapping[str, str]) -> Any: ...

    @overload
    def predict(self, texts: Sequence[Any]) -> list[Any]: ...

    def predict(self, texts: str | Mapping[str, str] | Sequence[Any]) -> Any:
        """What the model says of one text, or of each of many, with probabilities, as its task has it.

        Classification: a text or a pair of texts gives a `Prediction`. Tagging: a sentence (with spaces between the
        words) or a list of words gives a `Tagged`. Answering: {"context": ..., "question": ...} gives an `Answered`.
        Masked words: a text with <mask> in it gives a `Filled`.
        """
        if isinstance(texts, str | Mapping):
            return self.predictor([texts])[0]
        return list(self.predictor(texts))

    def generate(self, prompt: str = "", **options: Any) -> str:
        """What a language model writes after a prompt, without the prompt.

        options: max_tokens, temperature (0 takes the likeliest token), top_k, top_p, repetition_penalty,
        frequency_penalty, presence_penalty, logit_bias (a number for some of the tokens), stop (a list of texts), seed;
        or beam, for a search in place of sampling.
        """
        return self.generations([prompt], **options)[0][0].text

    def generations(
        self, prompts: Sequence[Prompt], *, top: int | None = None, **options: Any
    ) -> list[list[Generation]]:
        """Several texts for each prompt (n=5), likeliest first, with their log-probabilities and why they end.

        A prompt is a text, or a list of the model's tokens.
        top: each token comes with its probability and with so many of the likeliest at its place.
        """
        return ended(self.generating(prompts, top=top, **options))

    def generating(
        self, prompts: Sequence[Prompt], *, top: int | None = None, **options: Any
    ) -> Generator[None, None, list[list[Generation]]]:
        """As `generations`, a step at a time; at its end it gives them back."""
        return self.writer.writing(list(prompts), self._writing(**options), top=top)

    def stream_text(self, prompt: str = "", **options: Any) -> Generator[str, None, str]:
        """What `generate` gives, in pieces as they are written; no piece cuts a character."""
        return self.writer.stream(prompt, self._writing(**options))

    def stream_pieces(
        self, prompt: Prompt = "", *, top: int | None = None, **options: Any
    ) -> Generator[Piece, None, Generation]:
        """As `stream_text`, with the tokens of each piece; at its end it gives the whole back."""
        return self.writer.pieces(prompt, self._writing(**options), top=top)

    def write_steps(self, tokens: Sequence[int], top: int = 10, **options: Any) -> Iterator[Guess]:
        """What is drawn after these tokens, one at a time, each with what else might have stood there."""
        return self.writer.steps(tokens, self._writing(**options), top)

    def _writing(self, **options: Any) -> DecodeOptions:
        """By sampling, unless a beam is asked for."""
        given = {{"n": "n_best", "max_tokens": "max_length"}.get(k, k): v for k, v in options.items() if v is not None}
        if given.get("temperature") == 0:
            given |= {"temperature": 1.0, "top_k": 1}
        given.setdefault("sample", "beam" not in given)
        given.setdefault("max_length", self.bundle.decode.max_length or TOKENS)
        return self.options(**given)

    def n_best(self, texts: Sequence[str], **options: Any) -> list[list[Translation]]:
        """Several translations of each text with their scores, best first: n_best=5, beam=5."""
        return self.translator.n_best(list(texts), self.options(**options))

    def stream(
        self, lines: Iterable[str], window: int = WINDOW, *, scored: bool = True, **options: Any
    ) -> Iterator[list[Translation]]:
        """As `n_best`, for any number of lines in bounded memory: up to `window` of them are translated together.

        scored=False: texts are all that is wanted, which an engine may have sooner.
        """
        return self.translator.stream(lines, self.options(**options), window, scored=scored)

    def options(self, **changes: Any) -> DecodeOptions:
        """The model's own decode options with some changed."""
        given = {name: value for name, value in changes.items() if value is not None}
        if "n_best" in given and not given.get("sample"):
            given.setdefault("beam", max(self.bundle.decode.beam, given["n_best"]))
        plain = tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in given.items())
        try:
            chosen = _chosen(self.bundle.decode, plain)
        except TypeError:  # what cannot be hashed cannot be looked up
            chosen = _chosen.__wrapped__(self.bundle.decode, plain)
        for name in () if chosen.sample else DRAWN:
            if name in given and getattr(chosen, name) != DecodeOptions.model_fields[name].default:
                raise UserError(f"decode option {name} is for sampling; a beam has no_repeat_ngram")
        if any(token >= len(self.bundle.target) for token, _ in chosen.logit_bias):
            raise UserError(f"decode option logit_bias: the model's tokens are 0 to {len(self.bundle.target) - 1}")
        if self.bundle.task in WRITING:
            self.translator.engine.check(chosen)
        return chosen


@lru_cache(64)  # checking them takes longer than to translate a word
def _chosen(own: DecodeOptions, changes: tuple[tuple[str, Any], ...]) -> DecodeOptions:
    try:
        return DecodeOptions.model_validate(own.model_dump() | dict(changes))
    except ValidationError as error:
        problem = error.errors()[0]
        name = " ".join(["decode option", ".".join(map(str, problem["loc"]))]).rstrip()
        raise UserError(f"{name}: {problem['msg'].removeprefix('Value error, ')}") from None


def load(
    path: PathLike | Sequence[PathLike],
    *,
    device: str = "auto",
    engine: Literal["torch", "ctranslate2"] = "torch",
    precision: str = "float32",
) -> Model:
    """Loads a bundle or a run's folder; several paths make an ensemble.

    device: auto, cpu, cuda or cuda:N. engine: what translates; with ctranslate2, precision may be int8.
    """
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    if not paths:
        raise UserError("no model was given")
    where, bundles = find_device(device), [load_bundle(Path(p)) for p in paths]
    if engine == "ctranslate2":
        if bundles[0].task not in WRITING:
            raise UserError(f"the ctranslate2 engine translates; {bundles[0].path} is a model for {bundles[0].task}")
        if len(bundles) > 1:
            raise UserError("CTranslate2 runs one model; an ensemble needs the torch engine")
        if where.type != "cpu" and device != "auto":
            raise UserError(f"the ctranslate2 engine runs on the CPU here; {device} needs the torch engine")
        return Model(bundles, CTranslate2(bundles[0], precision))
    if engine != "torch":
        raise UserError(f"engine {engine!r} is not known; choose torch or ctranslate2")
    if precision != "float32":
        raise UserError(f"precision {precision} needs the ctranslate2 engine")
    for bundle in bundles:
        bundle.model.to(where)
    return Model(bundles)


def train(
    recipe: Recipe | Mapping[str, Any] | PathLike | None = None,
    *,
    pairs: Pairs | None = None,
    dev: Pairs | None = None,
    out: PathLike,
    resume: bool = False,
    start_from: PathLike | None = None,
    changes: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
    quiet: bool = False,
) -> Model:
    """Trains a model from a recipe (a path, a dict, or a Recipe), or from pairs in memory, and loads it.

    Without a recipe it is the one that `regard train FILES` uses. changes: "key=value", as on the command line.
    Callbacks get every event as a dict: those of log.jsonl, and what happens around them.
    """
    base = None
    if recipe is None:
        recipe = default_recipe([], changes)
    elif isinstance(recipe, str | os.PathLike):
        base = Path(recipe).parent
        recipe = load_recipe(Path(recipe), changes)
    elif not isinstance(recipe, Recipe):
        recipe = make_recipe(recipe, changes)
    elif changes:
        recipe = make_recipe(recipe.model_dump(exclude_none=True), changes)
    show = [] if quiet else [Show()]
    try:
        bundle = session.train(
            recipe,
            Path(out),
            pairs=pairs,
            dev=dev,
            base=base,
            resume=resume,
            start_from=None if start_from is None else Path(start_from),
            callbacks=[*show, *callbacks],
        )
    except Stopped:
        raise KeyboardInterrupt from None
    finally:
        for shown in show:
            shown.close()
    return Model([bundle])
