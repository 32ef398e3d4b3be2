"""A recipe: one TOML file that says everything about a run; strict, typed, with help for every key."""

import difflib
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args, get_origin

import tomli_w
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from regard.decode.options import DecodeOptions
from regard.errors import UserError
from regard.models import MODELS, HeadConfig


class Section(BaseModel):
    """A table of the recipe. Unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _as_name(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Column = Annotated[str, BeforeValidator(_as_name)]  # by name, or by number


class DataConfig(Section):
    train: tuple[str, ...] = Field(
        (), description="training data; pairs are one .tsv or .jsonl file, or two aligned files; .gz too"
    )
    dev: tuple[str, ...] = Field((), description="validation data; when absent, some training data is held out")
    test: tuple[str, ...] = Field((), description="test data, scored once at the end")
    source: str = Field("source", description="code of the language translated from, such as 'en'")
    target: str = Field("target", description="code of the language translated to, such as 'es'")
    max_length: int = Field(
        256,
        ge=1,
        description="most tokens of a row of text; longer pairs are left out and counted, texts to be classified are "
        "cut and counted, others are read in parts",
    )
    stride: int = Field(
        64, ge=0, description="tokens that two windows of a long text share; half a window at most (tagging, answering)"
    )
    max_answer: int = Field(30, ge=1, description="longest answer that is looked for, in tokens (answering)")
    max_chars: int = Field(5000, ge=1, description="pairs with a longer side, in characters, are left out and counted")
    skip_bad: bool = Field(False, description="leave out and count lines that are not UTF-8, in place of an error")
    keys: tuple[str, str] = Field(("source", "target"), description="the two keys of JSON lines")
    text: tuple[Column, ...] = Field(
        (), max_length=2, description="columns with a text, or with the two of a pair: names, or numbers from 1"
    )
    label: Column = Field("", description="the column with the label: a name, or a number from 1")
    labels: Literal["one", "several", "number"] = Field(
        "one", description="a text has one label, any number of them (with commas between), or a number to predict"
    )
    masks: Literal["dynamic", "static"] = Field(
        "dynamic", description="which words are hidden: drawn anew each time (RoBERTa), or once for each row (BERT)"
    )
    masked: float = Field(
        0.15, gt=0, lt=1, description="the share of words to guess in training; scores are always of 0.15 (masked)"
    )
    document: Literal["file", "line", "paragraph"] | None = Field(
        None,
        description="what one document of a plain text is, by default a file (language) or what blank lines part "
        "(masked); of .jsonl files it is a line's text",
    )
    held_out: float = Field(
        0.1,
        gt=0,
        lt=1,
        description="share of the text, from its end, held out when there is no dev set (language, masked)",
    )
    licence: str = Field("", description="the data's licence, noted in the model card")


class TokenizerConfig(Section):
    kind: Literal["bpe", "unigram", "word", "char", "byte", "imported"] = Field(
        "bpe", description="what a token is; 'imported': as the model that is begun from has it"
    )
    size: int = Field(8000, ge=1, description="most tokens in the vocabulary")
    pairs: int = Field(
        150_000, ge=1, description="learned from about so many training pairs at most, drawn at random from all of them"
    )
    shared: bool = Field(True, description="one tokenizer for both languages")
    uncased: bool = Field(False, description="capitals are read as small letters, for tasks that only read")


class TrainConfig(Section):
    steps: int = Field(10_000, ge=1, description="updates of the weights")
    batch_tokens: int = Field(4096, ge=8, description="most tokens of a side in a batch, padding included")
    batch: int = Field(0, ge=0, description="most rows in a batch, within batch_tokens; 0 sets no such limit")
    accumulate: int = Field(1, ge=1, description="batches to an update")
    optimizer: Literal["adam", "adamw", "muon"] = Field(
        "adam", description="adam as published, adamw, or muon for the matrices with adam for the rest"
    )
    lr: float | None = Field(
        None,
        gt=0,
        description="peak learning rate, by default 0.001 (a new head on a trained model: 5e-5); with schedule 'paper' "
        "a factor of it, by default 1",
    )
    matrix_lr: float = Field(0.02, gt=0, description="peak learning rate of the matrices, with optimizer 'muon'")
    vector_share: float = Field(1.0, gt=0, description="learning rate of biases and norms, as a share of lr")
    schedule: Literal["paper", "inverse_sqrt", "cosine", "linear", "constant"] = Field(
        "paper", description="how the learning rate goes after warm-up"
    )
    warmup: int = Field(
        4000,
        ge=0,
        description="updates in which the learning rate rises; linear, cosine: a quarter of the steps at most",
    )
    betas: tuple[float, float] = Field((0.9, 0.98), description="Adam's decay rates")
    eps: float = Field(1e-9, gt=0, description="Adam's epsilon")
    weight_decay: float = Field(0.0, ge=0, description="decoupled weight decay of matrices (adamw, muon)")
    max_norm: float = Field(
        0.0, ge=0, description="largest norm of a class's weights in the last layer, after each update; 0 sets no limit"
    )
    layer_decay: float = Field(
        1.0, gt=0, le=1, description="factor on the learning rate for each layer further down (fine-tuning)"
    )
    freeze: int = Field(
        0, ge=0, description="so many parts from below keep their weights: 1 the embeddings, 2 the first layer too, ..."
    )
    class_weights: bool = Field(False, description="rare classes count for more, as if all were equally frequent")
    rdrop: float = Field(
        0.0,
        ge=0,
        description="classifiers read each text twice, through other dropout masks, and this is the weight of how far "
        "the two readings differ (R-Drop); 0 reads it once",
    )
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="share of the target spread over the vocabulary")
    split: float = Field(
        0.0, ge=0, lt=1, description="chance that a bpe token falls into the two it was merged from (subword sampling)"
    )
    clip: float = Field(0.0, ge=0, description="largest norm of the gradient; 0 does not clip")
    ema: float = Field(
        0.0, ge=0, lt=1, description="decay of a moving average of the weights, used to validate and save"
    )
    validate_every: int = Field(1000, ge=1, description="updates between validations")
    save_every: int = Field(1000, ge=1, description="updates between checkpoints")
    log_every: int = Field(100, ge=1, description="updates between log lines")
    keep: int = Field(3, ge=1, description="checkpoints kept")
    average: int = Field(0, ge=0, description="the final model is the mean of this many last checkpoints")
    final: Literal["best", "last"] = Field("best", description="which weights the final model has, unless averaged")
    metric: str = Field("", description="the score that best means; by default the task's own")
    patience: int = Field(0, ge=0, description="stop after this many validations without a better one; 0 never")
    validation_pairs: int = Field(
        500, ge=1, description="how many dev pairs are decoded, or rows of text read, in a validation"
    )
    samples: int = Field(3, ge=0, description="translations shown at each validation")
    device: str = Field("auto", description="auto, cpu, cuda, or cuda:N")
    precision: Literal["auto", "float32", "int16", "bfloat16"] = Field(
        "auto",
        description="what matrix products of training are made in: auto takes bfloat16 on CUDA, int16 (whole numbers, "
        "a scale for each row) on processors with AVX-512 VNNI where each part has one core, else float32",
    )
    threads: int = Field(0, ge=0, description="CPU threads; 0 takes all cores")
    parts: int = Field(
        0,
        ge=0,
        description="a batch is computed in so many parts side by side; 0: one a core, each of 1,024 tokens at least",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.average > self.keep:
            raise ValueError(f"average = {self.average} checkpoints needs keep of at least as many; it is {self.keep}")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas must be from 0 to below 1; they are {list(self.betas)}")
        if self.weight_decay and self.optimizer == "adam":
            raise ValueError("weight_decay is decoupled, which optimizer 'adam' is not; use optimizer 'adamw'")
        return self

    @property
    def peak(self) -> float:
        """The learning rate that the schedule's factor multiplies."""
        if self.lr is not None:
            return self.lr
        return 1.0 if self.schedule == "paper" else 0.001


class ScoreConfig(Section):
    tokenize: Literal["13a", "none", "intl", "char", "zh", "ja-mecab", "ko-mecab"] = Field(
        "13a", description="sacreBLEU's tokenizer; 'none' for text that is tokenised already"
    )
    lowercase: bool = Field(False, description="compare without regard to case")


# What can be learned, and the scores that can say which weights are best: the first is the default.
TASKS: dict[str, tuple[str, ...]] = {
    "translation": ("bleu", "chrf", "loss"),
    "summarisation": ("rouge_l", "rouge_1", "rouge_2", "loss"),
    "masked": ("loss", "accuracy"),
    "two-way": ("loss",),
    "classification": ("accuracy", "macro_f1", "f1", "matthews", "pearson", "spearman", "loss"),
    "language": ("loss",),
    "tagging": ("f1", "precision", "recall", "accuracy", "loss"),
    "answering": ("f1", "exact", "loss"),
}

# Of classification's scores those that a kind of label has not.
LACKING = {"one": ("pearson", "spearman"), "several": ("matthews", "pearson", "spearman"),
           "number": ("accuracy", "macro_f1", "f1", "matthews")}  # fmt: skip
LABELLED = ("classification", "tagging", "answering")
SHORT = {"steps": 2000, "validate_every": 100, "patience": 5}  # labels are few: what is learned soon gets no better
WRITING = ("translation", "summarisation")  # from one text to another; a summary's source is cut, not left out

# What a recipe leaves open is as the Transformer was published, to translate. For what only reads, or writes on:
OTHERWISE: dict[str, Any] = {
    "optimizer": "adamw", "schedule": "linear", "warmup": 100, "clip": 1.0, "label_smoothing": 0.0,
}  # fmt: skip
GENTLE = 5e-5  # the learning rate, if the recipe gives none, with which a new head goes on from a trained model


class Recipe(Section):
    task: str = Field("translation", description=f"what is learned: {', '.join(TASKS)}")
    seed: int = Field(1, ge=0, description="everything random depends on it")
    model: dict[str, Any] = Field(default_factory=dict, description="name, size, and any key of that model's config")
    head: HeadConfig = HeadConfig()
    data: DataConfig = DataConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    train: TrainConfig = TrainConfig()
    decode: DecodeOptions = DecodeOptions()
    score: ScoreConfig = ScoreConfig()

    @model_validator(mode="before")
    @classmethod
    def _as_the_task_wants(cls, tree: Any) -> Any:
        if not isinstance(tree, dict) or tree.get("task", WRITING[0]) in WRITING:
            return tree
        given = tree.get("train", {})
        if isinstance(given, TrainConfig):
            given = given.model_dump(exclude_unset=True)
        if not isinstance(given, dict) or given.get("schedule") == "paper":  # whose warm-up sets its height
            return tree
        return {**tree, "train": {**OTHERWISE, **given}}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.task not in TASKS:
            raise ValueError(f"task {self.task!r} is not known; known: {', '.join(TASKS)}")
        if self.train.metric and self.train.metric not in self.metrics:
            raise ValueError(f"train.metric {self.train.metric!r} is not one of {self.task}'s: {self.metrics}")
        if self.tokenizer.uncased and self.task in (*WRITING, "language", "two-way"):
            raise ValueError(f"tokenizer.uncased is for tasks that read; {self.task} has words with capitals to give")
        if self.data.skip_bad and self.task not in WRITING:
            raise ValueError(f"data.skip_bad is for sentence pairs; {self.task} stops at a line that is no text")
        classes = self.task == "tagging" or (self.task == "classification" and self.data.labels != "number")
        if self.train.class_weights and not classes:
            raise ValueError("train.class_weights is for classes to tell apart; there are none here")
        if self.train.rdrop and (self.task != "classification" or self.data.labels == "number"):
            raise ValueError("train.rdrop is for classification into classes")
        network = self.shape()
        causal = getattr(MODELS[self.network_name], "causal", False)
        if causal and self.task == "classification" and self.head.pooling == "first":
            raise ValueError(
                f"the first state of a {self.network_name} has read one token alone: set head.pooling to 'last'"
            )
        longest = self.data.max_length
        if self.train.split and self.tokenizer.kind != "bpe":
            raise ValueError(
                f"train.split undoes merges, which tokenizer.kind {self.tokenizer.kind!r} has none of; use 'bpe'"
            )
        reads = getattr(MODELS[self.network_name], "tokenizer", None)
        if reads is not None and self.tokenizer.kind != reads:
            raise ValueError(f"model {self.network_name} reads one kind of token: set tokenizer.kind = {reads!r}")
        needed = longest + 1 if self.task in WRITING and not causal else longest  # with an end symbol
        if self.writes_on and not self.tokenizer.shared:
            raise ValueError(f"a {self.network_name} reads and writes one vocabulary: set tokenizer.shared = true")
        if network.longest is not None and needed > network.longest:
            raise ValueError(
                f"data.max_length {longest} needs {needed} learned positions, model.max_positions is "
                f"{network.longest}: raise it or lower data.max_length"
            )
        return self

    @property
    def metric(self) -> str:
        """The score that says which weights are best."""
        return self.train.metric or self.metrics[0]

    @property
    def metrics(self) -> tuple[str, ...]:
        """The scores that can say so, the default first."""
        lacking = LACKING[self.data.labels] if self.task == "classification" else ()
        return tuple(name for name in TASKS[self.task] if name not in lacking)

    @property
    def writes_on(self) -> bool:
        """Whether a text is written after its source, as its continuation."""
        return self.task in WRITING and getattr(MODELS[self.network_name], "causal", False)

    @property
    def network_name(self) -> str:
        """The network that is named, or the first that can do the task."""
        able = [name for name, kind in MODELS.items() if self.task in kind.tasks]
        name = str(self.model.get("name", able[0]))
        if name not in MODELS:
            raise ValueError(f"model.name {name!r} is not known; known: {', '.join(MODELS)}")
        if name not in able:
            raise ValueError(f"model.name {name!r} cannot learn {self.task}; these can: {', '.join(able)}")
        return name

    def shape(self) -> Any:
        """The model's config but for the vocabularies, which the tokenizers will decide."""
        one = self.tokenizer.shared or self.tokenizer.kind == "imported"  # two of those may have one vocabulary
        return self.network(8, 8 if one else 9)

    def network(self, source_vocabulary: int, target_vocabulary: int) -> Any:
        """The model's config: the named size, the recipe's own keys over it, and the tokenizers' sizes."""
        kind = MODELS[self.network_name]
        keys = {key: value for key, value in self.model.items() if key != "name"}
        size = keys.pop("size", None)
        if size is not None and size not in kind.sizes:
            raise ValueError(f"model.size {size!r} is not known; known: {', '.join(kind.sizes)}")
        vocabularies = {"source_vocabulary": source_vocabulary, "target_vocabulary": target_vocabulary}
        if "vocabulary" in kind.Config.model_fields:
            vocabularies = {"vocabulary": source_vocabulary}
        for key in vocabularies:
            if key in keys:
                raise ValueError(
                    f"model.{key} comes from the tokenizer; remove it (tokenizer.size is the most it can be)"
                )
        fields = {**(kind.sizes[size] if size else {}), **keys, **vocabularies}
        if "target_vocabulary" in vocabularies and not self.tokenizer.shared and "tie" not in keys:
            tie = fields.get("tie", kind.Config.model_fields["tie"].default)
            fields["tie"] = tuple(name for name in tie if name != "source")
        try:
            return kind.Config.model_validate(fields)
        except ValidationError as error:
            raise ValueError(_explain(error, "model", self.network_name)) from None

    def to_toml(self) -> str:
        return tomli_w.dumps(_without_none(self.model_dump(mode="json")))


def load_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """Reads a recipe and applies `key=value` overrides."""
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"there is no recipe {path}") from None
    except (UnicodeDecodeError, OSError) as error:
        raise UserError(f"cannot read recipe {path}: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path} is not TOML: {error}") from None
    return make_recipe(tree, overrides, where=str(path))


def make_recipe(tree: Mapping[str, Any], overrides: Sequence[str] = (), where: str = "recipe") -> Recipe:
    merged = {key: dict(value) if isinstance(value, dict) else value for key, value in tree.items()}
    for override in overrides:
        section, key, value = _parse_override(override)
        target = merged.setdefault(section, {}) if section else merged
        if not isinstance(target, dict):
            raise UserError(f"{where}: {section} is {target!r}, where a section [{section}] should be")
        target[key] = value
    try:
        return Recipe.model_validate(merged)
    except ValidationError as error:
        raise UserError(f"{where}: {_explain(error)}") from None


def default_recipe(files: Sequence[str], overrides: Sequence[str] = ()) -> Recipe:
    """The built-in recipe for data without one; languages are taken from names such as train.en, train.de."""
    text = resources.files("regard").joinpath("recipes/default.toml").read_text(encoding="utf-8")
    tree = tomllib.loads(text)
    chosen = {(section, key): value for section, key, value in map(_parse_override, overrides)}
    task = chosen.get(("", "task"), WRITING[0])
    name = chosen.get(("model", "name"), next((n for n, kind in MODELS.items() if task in kind.tasks), ""))
    if name in MODELS and task in WRITING:  # what another network knows of the defaults
        known = {"size", *MODELS[name].Config.model_fields}
        tree["model"] = {key: value for key, value in tree["model"].items() if key in known}
        if tree["model"]["size"] not in MODELS[name].sizes:
            tree["model"]["size"] = "mini"
    elif name in MODELS:  # the task's own defaults, and a network that an ordinary computer can train
        tree = {"model": {"size": "mini"} if "mini" in MODELS[name].sizes else {}}
        if task in LABELLED:
            tree["train"] = SHORT
    tree["data"] = {"train": list(files)}
    if len(files) == 2:
        endings = [name.removesuffix(".gz").rpartition(".")[2] for name in files]
        if all(e.isalpha() and len(e) in (2, 3) for e in endings) and endings != ["txt", "txt"]:
            tree["data"] |= dict(zip(("source", "target"), endings, strict=True))
    return make_recipe(tree, overrides)


def _parse_override(text: str) -> tuple[str, str, Any]:
    name, sign, raw = text.partition("=")
    if not sign or not name:
        raise UserError(f"{text!r} is not key=value")
    section, dot, key = name.rpartition(".")
    if not dot:
        section = _section_of(name)
    try:
        value = tomllib.loads(f"value = {raw}")["value"]
    except tomllib.TOMLDecodeError:
        value = raw
    return section, key or name, value


def _section_of(key: str) -> str:
    """A bare key belongs to the one section that has it."""
    if key in Recipe.model_fields:
        return ""
    homes = [name for name, fields in _sections().items() if key in fields]
    if len(homes) > 1:
        raise UserError(f"{key} could be {' or '.join(f'{home}.{key}' for home in homes)}; write one of these")
    if not homes:
        raise UserError("; ".join(filter(None, (f"no section of a recipe has a key {key!r}", _meant(key)))))
    return homes[0]


def _sections(networks: Iterable[str] = MODELS) -> dict[str, list[str]]:
    sections = {
        name: list(field.annotation.model_fields)
        for name, field in Recipe.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
    }
    keys = dict.fromkeys(key for name in networks for key in MODELS[name].Config.model_fields)
    return {**sections, "model": ["name", "size", *keys]}


def describe() -> Iterator[tuple[str, str, str, str]]:
    """Every key of a recipe: name, type, default, help."""
    for name, field in Recipe.model_fields.items():
        kind = field.annotation
        if name == "model":
            yield "model.name", " | ".join(MODELS), "", "which network; by default the task's own"
            sizes = "; ".join(f"{network}: {' | '.join(made.sizes)}" for network, made in MODELS.items())
            yield "model.size", sizes, "", "a published size; other keys override it"
            told: set[str] = set()  # what several networks have is told once
            for made in MODELS.values():
                rows = [row for row in _fields("model.", made.Config) if row[0] not in told]
                told |= {row[0] for row in rows}
                yield from rows
        elif isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _fields(f"{name}.", kind)
        else:
            yield from _fields("", Recipe, only=name)


def _fields(prefix: str, kind: type[BaseModel], only: str | None = None) -> Iterator[tuple[str, str, str, str]]:
    for name, field in kind.model_fields.items():
        if only not in (None, name):
            continue
        default = field.get_default(call_default_factory=True)
        shown, text = "" if default is None else str(default), field.description or ""
        if kind is TrainConfig and name in OTHERWISE:
            text += f"; by default {OTHERWISE[name]} for tasks other than {' and '.join(WRITING)}"
        yield prefix + name, _type_name(field.annotation), shown, text


def _type_name(kind: Any) -> str:
    if get_origin(kind) is Annotated:
        return _type_name(get_args(kind)[0])
    parts = [part for part in get_args(kind) if part not in (Ellipsis, type(None))]
    if get_origin(kind) is Literal:
        return " | ".join(parts)
    if get_origin(kind) is tuple:
        return f"list of {_type_name(parts[0])}"
    return " | ".join(map(_type_name, parts)) or str(kind.__name__)


PLAIN_WORDS = {
    "tuple_type": 'should be a list in square brackets, with its texts in quotes, such as ["one", "two"]',
    "model_type": "is a section with keys of its own, not a value",
    "dict_type": "is a section with keys of its own, not a value",
}


def _explain(error: ValidationError, section: str = "", network: str = "") -> str:
    """The first thing that is wrong, in words that say what to do. network: whose config it is, if one's."""
    problem = error.errors()[0]
    place = [*([section] if section else []), *(str(part) for part in problem["loc"])]
    if problem["type"] == "extra_forbidden":
        return _unknown(".".join(place[:-1]), place[-1], network)
    message = PLAIN_WORDS.get(problem["type"], problem["msg"].removeprefix("Value error, "))
    given = problem.get("input")
    shown = f" (it is {given!r})" if problem["loc"] and isinstance(given, str | int | float) else ""
    return f"{'.'.join(place)}: {message}{shown}" if place else message


def _unknown(section: str, key: str, network: str = "") -> str:
    """Where an unknown key belongs, or which key was meant."""
    sections = _sections([network] if network else MODELS)
    known = sections.get(section, list(Recipe.model_fields))
    homes = [f"[{home}]" for home, keys in sections.items() if key in keys]
    if section and key in Recipe.model_fields and key not in sections:
        homes.append("the top level")
    if network and key in _sections()["model"]:
        hint = f"{network} has no such key, only {', '.join(known)}"
    elif homes:
        hint = f"it belongs in {' or '.join(homes)}"
    elif near := difflib.get_close_matches(key, known, n=1):
        hint = f"did you mean {near[0]!r}?"
    else:
        hint = f"known keys: {', '.join(known)}" + (f"; {meant}" if (meant := _meant(key)) else "")
    return f"unknown key {key!r} in {f'[{section}]' if section else 'the top level'}; {hint}"


def _meant(key: str) -> str:
    """The key of any section that is nearest to an unknown one."""
    known = {field: f"{home}.{field}" for home, fields in _sections().items() for field in fields}
    near = difflib.get_close_matches(key, known, n=1)
    return f"did you mean {known[near[0]]}?" if near else ""


def _without_none(tree: dict[str, Any]) -> dict[str, Any]:
    """TOML has no null: an absent key means the default."""
    return {k: _without_none(v) if isinstance(v, dict) else v for k, v in tree.items() if v is not None}
