"""GPT and GPT-2 in the Hugging Face layout."""

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
    read_tokenizer,
    require_numbers,
    require_plain,
    require_rows,
    shaped,
    vocabulary_and_merges,
    write,
)
from regard.models import GPT, GPTConfig
from regard.nn.initial import Unfilled
from regard.text import Specials, Tokenizer

CLASSES = {"gpt2": ("GPT2LMHeadModel", "GPT2Model"), "openai-gpt": ("OpenAIGPTLMHeadModel", "OpenAIGPTModel")}
END = {"gpt2": "<|endoftext|>", "openai-gpt": "<unk>"}  # GPT has no end symbol; its unknown one stands for it
PREFIX = "transformer."
PLAIN = {"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False}


def read(folder: Path, config: dict[str, Any], weights: dict[str, Tensor]) -> Bundle:
    """A folder in their layout as a bundle of ours."""
    family = str(config["model_type"])
    kind = architecture(config, CLASSES[family][0])
    if kind not in CLASSES[family]:
        raise UserError(f"a {kind} is not known; known: {', '.join(CLASSES[family])}")
    with Unfilled():
        model = GPT(_shape(config, family, folder))
    theirs = {name.removeprefix(PREFIX): tensor for name, tensor in weights.items()}
    own = dict(model.named_parameters())
    with torch.no_grad():
        for name, ours in _names(model, family):
            if name not in theirs:
                raise UserError(f"{folder}: {PREFIX}{name} is absent")
            joined = theirs[name].t() if _turned(name) else theirs[name]
            expected = (sum(len(own[part]) for part in ours), *own[ours[0]].shape[1:])
            if tuple(joined.shape) != expected:
                shapes = f"{tuple(theirs[name].shape)}, expected {expected[::-1] if _turned(name) else expected}"
                raise UserError(f"{folder}: {PREFIX}{name} is {shapes}")
            for part, tensor in zip(ours, joined.chunk(len(ours)), strict=True):
                own[part].copy_(tensor)
    tokenizer = own_tokenizer(folder) or _tokenizer(folder, family)
    require_rows(tokenizer, model.config.vocabulary, folder)
    facts = {"imported": {"from": family, "name": str(config.get("_name_or_path", ""))}}
    longest = model.config.max_positions
    texts = ("text", "text")
    return Bundle(model.eval(), tokenizer, tokenizer, texts, longest, training=facts, name="gpt", task="language")


def export(bundle: Bundle, out: Path) -> None:
    """Writes what `transformers` loads: config, weights, tokenizer."""
    c = bundle.model.config
    if bundle.task != "language":
        raise UserError(f"of GPTs, language models can be written in this layout; this one is for {bundle.task}")
    if c.positions != "learned":
        raise UserError(f"GPT-2 as Transformers has it learns its positions; this model's are {c.positions}")
    if c.activation not in ACTIVATIONS.values():
        raise UserError(f"Transformers has no activation {c.activation!r} for GPT-2")
    family = "gpt2" if c.norm == "pre" else "openai-gpt"
    own = {name: p.detach() for name, p in bundle.model.named_parameters()}
    tensors = {}
    for name, ours in _names(bundle.model, family):
        joined = torch.cat([own[part] for part in ours])
        tensors[name if name.startswith("lm_head") else PREFIX + name] = joined.t() if _turned(name) else joined
    specials = bundle.source.specials
    named = {"bos": specials.end, "eos": specials.end, "unk": specials.unk, "pad": specials.pad}
    contents = {
        "config.json": _config(bundle, family),
        "tokenizer.json": bundle.source.standalone() | {"post_processor": None},  # a prompt has no end
        "tokenizer_config.json": {f"{what}_token": bundle.source.token(i) for what, i in named.items()}
        | {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False},
    }
    write(out, contents, tensors)


def _names(model: GPT, family: str) -> Iterator[tuple[str, list[str]]]:
    """What each tensor is called there, and those of ours that it is made of, one below the other."""
    tokens, positions = ("wte", "wpe") if family == "gpt2" else ("tokens_embed", "positions_embed")
    yield f"{tokens}.weight", ["tokens.weight"]
    yield f"{positions}.weight", ["positions.table"]
    for i in range(model.config.layers):
        ours = f"layers.{i}"
        for theirs, parts in (
            ("ln_1", ["after_attention.norm"]),
            ("attn.c_attn", ["attention.q", "attention.k", "attention.v"]),
            ("attn.c_proj", ["attention.out"]),
            ("ln_2", ["after_feed_forward.norm"]),
            ("mlp.c_fc", ["feed_forward.inner"]),
            ("mlp.c_proj", ["feed_forward.outer"]),
        ):
            for end in ("weight", "bias"):
                yield f"h.{i}.{theirs}.{end}", [f"{ours}.{part}.{end}" for part in parts]
    if family == "gpt2":
        yield from ((f"ln_f.{end}", [f"norm.{end}"]) for end in ("weight", "bias"))
    if not model.config.tie:
        yield "lm_head.weight", ["last.weight"]


def _turned(name: str) -> bool:
    """Their layers keep matrices as [in, out]."""
    return name.endswith("weight") and ".c_" in name


def _shape(config: dict[str, Any], family: str, folder: Path) -> GPTConfig:
    told = require_numbers(config, ("n_embd", "n_head", "n_layer", "n_positions", "vocab_size"), folder)
    require_plain(config, PLAIN)
    activation = str(config.get("activation_function" if family == "gpt2" else "afn", "gelu_new"))
    if family == "openai-gpt" and activation == "gelu":
        activation = "gelu_new"  # what the class of that name computes
    if activation not in ACTIVATIONS:
        raise UserError(f"the activation {activation!r} is not known; known: {', '.join(ACTIVATIONS)}")
    return shaped(
        GPTConfig,
        folder,
        d_model=told["n_embd"],
        d_ff=config.get("n_inner") or 4 * told["n_embd"],
        heads=told["n_head"],
        layers=told["n_layer"],
        dropout=config.get("resid_pdrop", 0.1),
        attention_dropout=config.get("attn_pdrop", 0.1),
        activation=ACTIVATIONS[activation],
        norm="pre" if family == "gpt2" else "post",
        norm_eps=config.get("layer_norm_epsilon", 1e-5),
        max_positions=told["n_positions"],
        tie=config.get("tie_word_embeddings", True),
        vocabulary=told["vocab_size"],
    )


def _config(bundle: Bundle, family: str) -> dict[str, Any]:
    c, specials = bundle.model.config, bundle.source.specials
    activation = next(theirs for theirs, ours in ACTIVATIONS.items() if ours == c.activation)
    if family == "openai-gpt":
        if c.d_ff != 4 * c.d_model or c.activation not in ("gelu_tanh", "relu"):
            raise UserError("GPT as Transformers has it has d_ff of 4 d_model, and gelu_tanh or relu")
        activation = activation.removesuffix("_new")
    return {
        "architectures": [CLASSES[family][0]],
        "model_type": family,
        "n_embd": c.d_model,
        "n_head": c.heads,
        "n_layer": c.layers,
        "n_positions": c.max_positions,
        "resid_pdrop": c.dropout,
        "embd_pdrop": c.dropout,
        "attn_pdrop": c.attention_dropout,
        "layer_norm_epsilon": c.norm_eps,
        "tie_word_embeddings": c.tie,
        "vocab_size": c.vocabulary,
        "bos_token_id": specials.end,  # what a text begins after in training
        "eos_token_id": specials.end,
        "pad_token_id": specials.pad,
        "dtype": "float32",
    } | ({"n_inner": c.d_ff, "activation_function": activation} if family == "gpt2" else {"afn": activation})


def _tokenizer(folder: Path, family: str) -> Tokenizer:
    inner = read_tokenizer(folder, byte_level if family == "gpt2" else _words)
    end = inner.token_to_id(END[family])
    if end is None:
        raise UserError(f"the tokenizer in {folder} has no {END[family]}")
    return imported(inner, Specials(end, end, end, end))


def _words(folder: Path) -> Inner:
    """GPT's, from vocabulary and merges: lower case, with a mark at the end of a word."""
    files = vocabulary_and_merges(folder)
    inner = Inner(models.BPE.from_file(*files, unk_token=END["openai-gpt"], end_of_word_suffix="</w>"))
    inner.normalizer = normalizers.BertNormalizer(lowercase=True)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.BPEDecoder("</w>")
    return inner
