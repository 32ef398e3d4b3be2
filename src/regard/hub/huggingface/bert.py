"""BERT and RoBERTa in the Hugging Face layout."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer as Inner
from tokenizers import decoders, models, normalizers, pre_tokenizers
from torch import Tensor

from regard.bundle import Bundle
from regard.errors import UserError
from regard.hub.huggingface.layout import (
    ACTIVATIONS,
    architecture,
    byte_level,
    imported,
    own_tokenizer,
    read_settings,
    read_tokenizer,
    require_numbers,
    require_plain,
    require_rows,
    shaped,
    write,
)
from regard.models import HEADS, Bert, BertConfig, HeadConfig
from regard.models.heads import Answerer, Classifier
from regard.nn.initial import Unfilled
from regard.text import Specials, Tokenizer

# Which head a class of theirs has, and what that head's layers are called there.
CLASSES = {
    "Model": "encoding", "ForMaskedLM": "masked", "ForPreTraining": "masked",
    "ForSequenceClassification": "classification", "ForTokenClassification": "tagging",
    "ForQuestionAnswering": "answering",
}  # fmt: skip
NUMBERS = (
    "hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers", "max_position_embeddings",
    "vocab_size",
)  # fmt: skip
PLAIN = {"is_decoder": False, "add_cross_attention": False}
CUTTERS = ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer")  # with a vocab.txt, in the same way
FAMILIES = {"bert": "Bert", "roberta": "Roberta"}
# What a classifier says of a text: our data.labels, and their problem_type.
PROBLEMS = {"one": "single_label_classification", "several": "multi_label_classification", "number": "regression"}


def read(folder: Path, config: dict[str, Any], weights: dict[str, Tensor]) -> Bundle:
    """A folder in their layout as a bundle of ours."""
    family = str(config["model_type"])
    task = _task(config, family)
    require_plain(config, PLAIN | ({"tie_word_embeddings": True} if task == "masked" else {}))
    labels = _labels(config, weights, folder) if task in ("classification", "tagging") else []
    kind = _kind(config, labels) if task == "classification" else "one"
    head = shaped(
        HeadConfig,
        folder,
        pooling="first" if task == "classification" or any("pooler.dense" in name for name in weights) else "mean",
        next_sentence=any(name.startswith("cls.seq_relationship") for name in weights),
        drop=_drop(config),
    )
    with Unfilled():
        model = HEADS[task](Bert(_shape(config, family, folder)), head, len(labels) or 2)
    _fill(model, weights, family, folder)
    tokenizer = own_tokenizer(folder) or _tokenizer(folder, family)
    require_rows(tokenizer, model.config.vocabulary, folder)
    facts: dict[str, Any] = {"imported": {"from": family, "name": str(config.get("_name_or_path", ""))}}
    if kind != "one":
        facts["recipe"] = {"task": task, "data": {"labels": kind}}
    longest = model.config.max_positions
    return Bundle(
        model.eval(),
        tokenizer,
        tokenizer,
        ("text", "text"),
        longest,
        training=facts,
        name="bert",
        task=task,
        labels=[] if kind == "number" else labels,
    )


def export(bundle: Bundle, out: Path) -> None:
    """Writes what `transformers` loads: config, weights, tokenizer."""
    family = "roberta" if bundle.model.config.first_position else "bert"
    if bundle.model.config.norm != "post":
        raise UserError("BERT as Transformers has it normalises after each sub-layer; this model does before")
    if isinstance(bundle.model, Classifier) and bundle.model.head.pooling != "first":
        raise UserError(
            f"a classifier as Transformers has it reads the first state; this one has head.pooling = "
            f"{bundle.model.head.pooling!r}: train it with head.pooling=first"
        )
    segments = 1 if bundle.source.specials.doubled else min(2, bundle.model.config.segments)
    contents = {
        "config.json": _config(bundle, family),
        "tokenizer.json": bundle.source.standalone(framed=True, segments=segments),
        "tokenizer_config.json": _tokenizer_config(bundle, segments),
    }
    own = {name: p.detach() for name, p in bundle.model.named_parameters()}
    first, wanted = bundle.model.config.first_position, _first_position(family, bundle.source.specials.pad)
    if first != wanted:
        places = own["body.positions.weight"]
        own["body.positions.weight"] = torch.cat((places.new_zeros(wanted, places.size(1)), places[first:]))
    write(out, contents, {theirs: own[ours] for ours, theirs in _names(bundle.model, family) if ours in own})


def _first_position(family: str, pad: int) -> int:
    """The number of a text's first position: RoBERTa's come after that of padding."""
    return pad + 1 if family == "roberta" else 0


def _labels(config: dict[str, Any], weights: dict[str, Tensor], folder: Path) -> list[str]:
    """A name for each row of the last layer. What has no names of its own is called as `transformers` calls it."""
    told = config.get("id2label") or {}
    if not isinstance(told, dict) or not all(key.isdecimal() for key in told):
        raise UserError(f"{folder / 'config.json'}: id2label is {told!r:.80}, expected names by their numbers")
    named = {int(key): str(name) for key, name in told.items()}
    last = next((n for n in ("classifier.out_proj.weight", "classifier.weight") if n in weights), None)
    rows = len(named) if last is None else len(weights[last])
    return [named.get(i, f"LABEL_{i}") for i in range(rows)]


def _kind(config: dict[str, Any], labels: list[str]) -> str:
    """One label, several, or a number; as `transformers` guesses when the model does not say."""
    guessed = PROBLEMS["number" if len(labels) == 1 else "one"]
    told = str(config.get("problem_type") or guessed)
    kinds = {theirs: ours for ours, theirs in PROBLEMS.items()}
    if told not in kinds:
        raise UserError(f"problem_type {told!r} is not known; known: {', '.join(kinds)}")
    if told == PROBLEMS["number"] and len(labels) != 1:
        raise UserError(f"a model that gives {len(labels)} numbers for a text is not known here; one alone is")
    return kinds[told]


def _names(model: Any, family: str) -> Iterator[tuple[str, str]]:
    """Each parameter of ours, and what it is called there."""

    def both(ours: str, theirs: str) -> Iterator[tuple[str, str]]:
        return ((f"{ours}.{end}", f"{theirs}.{end}") for end in ("weight", "bias"))

    yield "body.tokens.weight", f"{family}.embeddings.word_embeddings.weight"
    yield "body.positions.weight", f"{family}.embeddings.position_embeddings.weight"
    yield "body.segments.weight", f"{family}.embeddings.token_type_embeddings.weight"
    yield from both("body.norm", f"{family}.embeddings.LayerNorm")
    for i in range(model.config.layers):
        ours, theirs = f"body.layers.{i}", f"{family}.encoder.layer.{i}"
        for one, other in (("q", "query"), ("k", "key"), ("v", "value")):
            yield from both(f"{ours}.attention.{one}", f"{theirs}.attention.self.{other}")
        yield from both(f"{ours}.attention.out", f"{theirs}.attention.output.dense")
        yield from both(f"{ours}.after_attention.norm", f"{theirs}.attention.output.LayerNorm")
        yield from both(f"{ours}.feed_forward.inner", f"{theirs}.intermediate.dense")
        yield from both(f"{ours}.feed_forward.outer", f"{theirs}.output.dense")
        yield from both(f"{ours}.after_feed_forward.norm", f"{theirs}.output.LayerNorm")
    robertas = family == "roberta" and isinstance(model, Classifier)
    yield from both("pooler.dense", "classifier.dense" if robertas else f"{family}.pooler.dense")
    yield from both("words.dense", "lm_head.dense" if family == "roberta" else "cls.predictions.transform.dense")
    yield from both(
        "words.norm", "lm_head.layer_norm" if family == "roberta" else "cls.predictions.transform.LayerNorm"
    )
    yield "words.bias", "lm_head.bias" if family == "roberta" else "cls.predictions.bias"
    yield from both("follows", "cls.seq_relationship")
    answers = isinstance(model, Answerer)
    yield from both("out", "qa_outputs" if answers else "classifier.out_proj" if robertas else "classifier")


def _task(config: dict[str, Any], family: str) -> str:
    name = architecture(config, f"{FAMILIES[family]}Model")
    kind = name.removeprefix(FAMILIES[family])
    if kind not in CLASSES:
        raise UserError(f"a {name} is not known; known: {', '.join(FAMILIES[family] + kind for kind in CLASSES)}")
    return CLASSES[kind]


def _drop(config: dict[str, Any]) -> Any:
    """Before the last layer; where nothing is said of it, as everywhere."""
    drop = config.get("classifier_dropout")
    return config.get("hidden_dropout_prob", 0.1) if drop is None else drop


def _shape(config: dict[str, Any], family: str, folder: Path) -> BertConfig:
    told = require_numbers(config, NUMBERS, folder)
    pad = 1 if config.get("pad_token_id") is None else require_numbers(config, ["pad_token_id"], folder)["pad_token_id"]
    first = _first_position(family, pad)
    activation = str(config.get("hidden_act", "gelu"))
    if activation not in ACTIVATIONS:
        raise UserError(f"the activation {activation!r} is not known; known: {', '.join(ACTIVATIONS)}")
    if config.get("position_embedding_type", "absolute") != "absolute":
        raise UserError(f"positions of type {config['position_embedding_type']!r} are not known here")
    return shaped(
        BertConfig,
        folder,
        d_model=told["hidden_size"],
        d_ff=told["intermediate_size"],
        heads=told["num_attention_heads"],
        layers=told["num_hidden_layers"],
        dropout=config.get("hidden_dropout_prob", 0.1),
        attention_dropout=config.get("attention_probs_dropout_prob", 0.1),
        activation=ACTIVATIONS[activation],
        norm_eps=config.get("layer_norm_eps", 1e-12),
        max_positions=told["max_position_embeddings"] - first,
        first_position=first,
        segments=config.get("type_vocab_size", 2),
        vocabulary=told["vocab_size"],
    )


def _config(bundle: Bundle, family: str) -> dict[str, Any]:
    c, specials = bundle.model.config, bundle.source.specials
    kinds = {task: kind for kind, task in CLASSES.items() if kind != "ForPreTraining"}
    kind = "ForPreTraining" if bundle.task == "masked" and bundle.model.head.next_sentence else kinds[bundle.task]
    labels: dict[str, Any] = {}
    if bundle.labels or bundle.task == "classification":
        names = bundle.labels or ["LABEL_0"]  # a number
        labels = {"id2label": dict(enumerate(names)), "label2id": {n: i for i, n in enumerate(names)}}
    if bundle.task == "classification":
        labels["problem_type"] = PROBLEMS[bundle.data.get("labels", "one")]
    return {
        "architectures": [FAMILIES[family] + kind],
        "model_type": family,
        "hidden_size": c.d_model,
        "intermediate_size": c.d_ff,
        "num_attention_heads": c.heads,
        "num_hidden_layers": c.layers,
        "hidden_dropout_prob": c.dropout,
        "attention_probs_dropout_prob": c.attention_dropout,
        "classifier_dropout": bundle.model.head.drop,
        "hidden_act": next(theirs for theirs, ours in ACTIVATIONS.items() if ours == c.activation),
        "layer_norm_eps": c.norm_eps,
        "max_position_embeddings": c.max_positions + _first_position(family, specials.pad),
        "type_vocab_size": c.segments,
        "vocab_size": c.vocabulary,
        "pad_token_id": specials.pad,
        "bos_token_id": specials.begin,
        "eos_token_id": specials.end,
        "dtype": "float32",
    } | labels


def _fill(model: Any, weights: dict[str, Tensor], family: str, folder: Path) -> None:
    """All of ours must be there, in their shapes; what is theirs alone (counters, unused heads) is left."""
    own = dict(model.named_parameters())
    names = dict(_names(model, family))
    with torch.no_grad():
        for name, parameter in own.items():
            theirs = names[name]
            found = weights.get(theirs, weights.get(theirs.removeprefix(f"{family}.")))
            if found is None or found.shape != parameter.shape:
                is_there = "absent" if found is None else f"{tuple(found.shape)}"
                raise UserError(f"{folder}: {theirs} is {is_there}, expected {tuple(parameter.shape)}")
            parameter.copy_(found)


def _tokenizer(folder: Path, family: str) -> Tokenizer:
    inner = read_tokenizer(folder, _wordpiece if family == "bert" else byte_level)
    names = (
        ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
        if family == "bert"
        else ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
    )
    ids = {name: inner.token_to_id(name) for name in names}
    for name, number in ids.items():
        if number is None:
            raise UserError(f"the tokenizer in {folder} has no {name}")
    pad, unk, begin, end, mask = (number or 0 for number in ids.values())
    return imported(inner, Specials(pad, unk, begin, end, mask, doubled=family == "roberta"))


def _wordpiece(folder: Path) -> Inner:
    """BERT's, from its list of tokens."""
    path = folder / "vocab.txt"
    if not path.exists():
        raise UserError(f"{folder} has neither tokenizer.json nor vocab.txt")
    settings = read_settings(folder)
    kind = settings.get("tokenizer_class") or read_settings(folder, "config.json").get("tokenizer_class") or CUTTERS[0]
    if "word_tokenizer_type" in settings:  # of the one class that has it
        kind = "BertJapaneseTokenizer"
    if str(kind).removesuffix("Fast") not in CUTTERS:
        raise UserError(
            f"{folder}: how a {kind} cuts texts is not known; known: {', '.join(CUTTERS)}, or a tokenizer.json"
        )
    lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")  # a token may be U+2028
    vocabulary = {token: i for i, token in enumerate(lines)}
    # Of a token that is listed twice the last is used; the number before it is kept under what no word can be.
    vocabulary |= {f"{token} {i}": i for i, token in enumerate(lines) if vocabulary[token] != i}
    inner = Inner(models.WordPiece(vocabulary, unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer(
        lowercase=bool(settings.get("do_lower_case", True)),
        strip_accents=settings.get("strip_accents"),
        handle_chinese_chars=bool(settings.get("tokenize_chinese_chars", True)),
    )
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece()
    return inner


def _tokenizer_config(bundle: Bundle, segments: int) -> dict[str, Any]:
    tokenizer, specials = bundle.source, bundle.source.specials
    named = (("pad", specials.pad), ("unk", specials.unk), ("cls", specials.begin), ("sep", specials.end))
    names = {f"{what}_token": tokenizer.token(i) for what, i in named}
    if specials.mask is not None:
        names["mask_token"] = tokenizer.token(specials.mask)
    inputs = ["input_ids", *(["token_type_ids"] if segments > 1 else []), "attention_mask"]
    return names | {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": inputs,
        "model_max_length": bundle.max_length,
        "clean_up_tokenization_spaces": False,
    }
