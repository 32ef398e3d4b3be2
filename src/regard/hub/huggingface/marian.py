"""Marian (OPUS-MT) in the Hugging Face layout, both ways.

Theirs has the norm after each sub-layer; a Transformer with the norm before it is written as a Pegasus, which is the
same network in that order. Both put the sines in the first half of the width and the cosines in the second, where the
paper has them in turn: the coordinates of the residual stream are sorted accordingly, which changes no output.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from regard.bundle import Bundle
from regard.decode import DecodeOptions
from regard.errors import UserError
from regard.hub import spm
from regard.hub.huggingface.layout import own_tokenizer, read_json, require_numbers, shaped, write
from regard.models import Transformer, TransformerConfig
from regard.nn.initial import Unfilled
from regard.nn.position import sinusoids
from regard.text import BOS, EOS, IMPORTED, PAD, SPECIALS, UNK, Specials, Tokenizer

KINDS = {"post": ("marian", "MarianMTModel"), "pre": ("pegasus", "PegasusForConditionalGeneration")}
NORMS = {kind: norm for norm, (kind, _) in KINDS.items()}
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}
# What a Marian model is here. Keys that a file lacks have these values.
PLAIN = {
    "static_position_embeddings": True, "share_encoder_decoder_embeddings": True, "tie_word_embeddings": True,
    "normalize_embedding": False,
}  # fmt: skip
POSITIONS = 1024
EPS = 1e-5  # in the norms, which theirs do not say
NUMBERS = (
    "vocab_size", "d_model", "encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads",
    "encoder_ffn_dim", "decoder_ffn_dim", "max_position_embeddings", "pad_token_id", "eos_token_id",
    "decoder_start_token_id",
)  # fmt: skip
UNWRITTEN = -100.0  # the bias of a token that is never an output: its probability is none


def read(folder: Path, config: dict[str, Any], weights: dict[str, Tensor]) -> Bundle:
    """A folder in their layout as a bundle of ours."""
    _check_theirs(config, folder)
    own = own_tokenizer(folder)
    reader, writer, numbers = (own, own, list(range(len(own)))) if own else _tokenizers(folder, config)
    with Unfilled():
        model = Transformer(_shape(config, folder, len(numbers)))
    _fill(model, weights, numbers, folder)
    facts = {"imported": {"from": "marian", "name": str(config.get("_name_or_path", ""))}}
    longest = config["max_position_embeddings"] - 1  # the end symbol has a position too
    return Bundle(model.eval(), reader, writer, _languages(folder), longest, _decode(folder, config), facts)


def _tokenizers(folder: Path, config: dict[str, Any]) -> tuple[Tokenizer, Tokenizer, list[int]]:
    """One for each language, and which of their tokens each of ours is: the vocabulary is put in our order.

    Theirs has no begin symbol: ours is a copy of the token that their decoder starts with. Pieces that their
    vocabulary lacks are copies of the unknown token, each with a number of its own, so that a text is cut as
    SentencePiece cuts it.
    """
    vocabulary = _vocabulary(folder, config["vocab_size"])
    source, target = (spm.read(folder / name) for name in ("source.spm", "target.spm"))
    pad, end, unknown = config["pad_token_id"], config["eos_token_id"], vocabulary[SPECIALS[UNK]]
    begin, taken = config["decoder_start_token_id"], {pad, end, unknown}
    if vocabulary.get(SPECIALS[BOS]) == begin:  # as we write it
        taken.add(begin)
    others = {name: i for name, i in vocabulary.items() if i not in taken}
    known = {*vocabulary, *SPECIALS}
    missing = [name for name in source.scores | target.scores if name not in known]
    names = [*SPECIALS, *(f"<{name}>" if name in SPECIALS else name for name in others), *missing]
    numbers = [pad, unknown, begin, end, *others.values(), *[unknown] * len(missing)]
    reader, writer = (Tokenizer(IMPORTED, spm.tokenizer(pieces, names), Specials()) for pieces in (source, target))
    return reader, writer, numbers


def export(bundle: Bundle, out: Path) -> None:
    """Writes what `transformers` loads: config, weights, tokenizer. Pieces of SentencePiece are written as such too."""
    _check(bundle)
    source, target = (spm.pieces(tokenizer.standalone()) for tokenizer in (bundle.source, bundle.target))
    contents: dict[str, Any] = {
        "config.json": _config(bundle),
        "generation_config.json": _generation(bundle),
        "tokenizer.json": bundle.source.standalone(),
        "tokenizer_config.json": _tokenizer(bundle.languages),
    }
    if source and target:
        names = {bundle.source.token(i): i for i in range(len(bundle.source))}
        contents |= {"vocab.json": names, "source.spm": spm.written(source), "target.spm": spm.written(target)}
    write(out, contents, dict(_weights(bundle)))


def _names(c: TransformerConfig) -> Iterator[tuple[str, str, int | None]]:
    """What each tensor is called there and here, and which of its dimensions is the residual stream, if one is."""

    def reads(theirs: str, ours: str) -> Iterator[tuple[str, str, int | None]]:  # from the stream
        yield f"{theirs}.weight", f"{ours}.weight", 1
        yield f"{theirs}.bias", f"{ours}.bias", None

    def writes(theirs: str, ours: str) -> Iterator[tuple[str, str, int | None]]:  # into it; a norm is within it
        yield f"{theirs}.weight", f"{ours}.weight", 0
        yield f"{theirs}.bias", f"{ours}.bias", 0

    yield "model.shared.weight", "embed.source.weight", 1
    yield "final_logits_bias", "output_bias", None
    for side, layers in (("encoder", c.encoder_layers), ("decoder", c.decoder_layers)):
        attentions = [("self_attn", "attention")] + [("encoder_attn", "cross")] * (side == "decoder")
        for i in range(layers):
            theirs, ours = f"model.{side}.layers.{i}", f"{side}.{i}"
            for one, other in attentions:
                for part in "qkv":
                    yield from reads(f"{theirs}.{one}.{part}_proj", f"{ours}.{other}.{part}")
                yield from writes(f"{theirs}.{one}.out_proj", f"{ours}.{other}.out")
                yield from writes(f"{theirs}.{one}_layer_norm", f"{ours}.after_{other}.norm")
            yield from reads(f"{theirs}.fc1", f"{ours}.feed_forward.inner")
            yield from writes(f"{theirs}.fc2", f"{ours}.feed_forward.outer")
            yield from writes(f"{theirs}.final_layer_norm", f"{ours}.after_feed_forward.norm")
        if c.norm == "pre":
            yield from writes(f"model.{side}.layer_norm", f"{side}_norm")


def _order(width: int) -> Tensor:
    """Which of our coordinates each of theirs is: the sines, then the cosines."""
    return torch.cat((torch.arange(0, width, 2), torch.arange(1, width, 2)))


def _fill(model: Transformer, weights: dict[str, Tensor], numbers: list[int], folder: Path) -> None:
    """numbers: which of their tokens each of ours is."""
    own, back = dict(model.named_parameters()), _order(model.config.d_model).argsort()
    with torch.no_grad():
        for theirs, ours, dim in _names(model.config):
            of_tokens, shape = ours in ("embed.source.weight", "output_bias"), tuple(own[ours].shape)
            if of_tokens:
                shape = (max(numbers) + 1, *shape[1:])
            found = weights.get(theirs)
            if found is not None and ours == "output_bias":
                found = found.flatten()
            if found is None or tuple(found.shape) != shape:
                is_there = "absent" if found is None else f"{tuple(found.shape)}"
                raise UserError(f"{folder}: {theirs} is {is_there}, expected {shape}")
            if dim is not None:
                found = found.index_select(dim, back)
            own[ours].copy_(found[numbers] if of_tokens else found)
        copies = [BOS, *(i for i, number in enumerate(numbers) if number == numbers[UNK] and i != UNK)]
        own["output_bias"][copies] = UNWRITTEN


def _weights(bundle: Bundle) -> Iterator[tuple[str, Tensor]]:
    c, own = bundle.model.config, dict(bundle.model.named_parameters())
    order = _order(c.d_model)
    for theirs, ours, dim in _names(c):
        if ours == "output_bias":
            yield theirs, own.get(ours, torch.zeros(c.target_vocabulary))[None]
        elif ours not in own:  # an attention without biases
            yield theirs, torch.zeros(c.d_model)
        else:
            yield theirs, own[ours] if dim is None else own[ours].index_select(dim, order)
    for side in ("encoder", "decoder"):
        yield f"model.{side}.embed_positions.weight", sinusoids(POSITIONS, c.d_model)[:, order]


def _check_theirs(config: dict[str, Any], folder: Path) -> None:
    require_numbers(config, NUMBERS, folder)
    for key in ("pad_token_id", "eos_token_id", "decoder_start_token_id"):
        if not 0 <= config[key] < config["vocab_size"]:
            raise UserError(f"{folder / 'config.json'}: {key} {config[key]} is not in the vocabulary")
    if config["max_position_embeddings"] < 2:
        raise UserError(f"{folder / 'config.json'}: max_position_embeddings leaves no room for a text")
    before = NORMS[config["model_type"]] == "pre"
    for key, plain in (PLAIN | {"normalize_before": before, "add_final_layer_norm": before}).items():
        if config.get(key, plain) != plain:
            raise UserError(
                f"{folder / 'config.json'}: a {config['model_type']} with {key} = {config[key]} is not known here"
            )
    for key in ("attention_heads", "ffn_dim"):
        if config[f"encoder_{key}"] != config[f"decoder_{key}"]:
            raise UserError(f"{folder / 'config.json'}: encoder and decoder differ in {key}; here they have one")
    if config.get("scale_embedding") is not True:
        raise UserError(f"{folder / 'config.json'}: scale_embedding is not true; here embeddings are scaled by sqrt(d)")


def _vocabulary(folder: Path, size: int) -> dict[str, int]:
    """Their tokens with their numbers, in order."""
    path = folder / "vocab.json"
    found = read_json(path)
    if not all(isinstance(i, int) for i in found.values()) or sorted(found.values()) != list(range(size)):
        raise UserError(f"{path}: its {len(found)} tokens are not numbered 0 to {size - 1}, as vocab_size has it")
    if SPECIALS[UNK] not in found:
        raise UserError(f"{path} has no {SPECIALS[UNK]}")
    return dict(sorted(found.items(), key=lambda item: item[1]))


def _shape(config: dict[str, Any], folder: Path, vocabulary: int) -> TransformerConfig:
    activation = config.get("activation_function")
    if activation not in ACTIVATIONS:
        raise UserError(f"the activation {activation!r} is not known; known: {', '.join(ACTIVATIONS)}")
    return shaped(
        TransformerConfig,
        folder,
        norm=NORMS[config["model_type"]],
        d_model=config["d_model"],
        d_ff=config["encoder_ffn_dim"],
        heads=config["encoder_attention_heads"],
        encoder_layers=config["encoder_layers"],
        decoder_layers=config["decoder_layers"],
        dropout=config.get("dropout", 0.1),
        attention_dropout=config.get("attention_dropout", 0.0),
        activation_dropout=config.get("activation_dropout", 0.0),
        activation=ACTIVATIONS[activation],
        attention_bias=True,
        output_bias=True,
        source_vocabulary=vocabulary,
        target_vocabulary=vocabulary,
    )


def _languages(folder: Path) -> tuple[str, str]:
    path = folder / "tokenizer_config.json"
    told = read_json(path) if path.exists() else {}
    return str(told.get("source_lang") or "source"), str(told.get("target_lang") or "target")


def _decode(folder: Path, config: dict[str, Any]) -> DecodeOptions:
    """The search's width and length penalty; how long an output may be is ours to say."""
    path = folder / "generation_config.json"
    given = config | (read_json(path) if path.exists() else {})
    told = {"num_beams": 4, "length_penalty": 1.0} | {key: value for key, value in given.items() if value is not None}
    try:
        return DecodeOptions(beam=told["num_beams"], length_penalty=told["length_penalty"])
    except ValidationError as error:
        raise UserError(f"{path}: {error.errors()[0]['msg']}") from None


def _check(bundle: Bundle) -> None:
    c = bundle.model.config
    if c.copying or c.embedding_scale == 1:
        what = "copies words from the source" if c.copying else "does not multiply its embeddings by sqrt(d)"
        raise UserError(f"Transformers' Marian and Pegasus are otherwise: this model {what}")
    if not bundle.one_vocabulary or len(set(c.tie)) < 3:
        raise UserError("Transformers' Marian and Pegasus have one vocabulary and one embedding; this model has more")
    if c.norm_eps != EPS:
        raise UserError(f"Transformers' Marian and Pegasus normalise with {EPS}; this model with {c.norm_eps}")
    if c.positions != "sinusoidal" or c.attention != "full":
        raise UserError(
            f"Transformers' Marian and Pegasus have sinusoids and full attention; this model has {c.positions} "
            f"positions and {c.attention} attention"
        )


def _config(bundle: Bundle) -> dict[str, Any]:
    c = bundle.model.config
    kind, architecture = KINDS[c.norm]
    sides = {
        f"{side}_{key}": value
        for side, layers in (("encoder", c.encoder_layers), ("decoder", c.decoder_layers))
        for key, value in (("layers", layers), ("attention_heads", c.heads), ("ffn_dim", c.d_ff), ("layerdrop", 0.0))
    }
    return sides | {
        "architectures": [architecture],
        "model_type": kind,
        "vocab_size": c.target_vocabulary,
        "decoder_vocab_size": c.target_vocabulary,
        "d_model": c.d_model,
        "activation_function": c.activation,
        "dropout": c.dropout,
        "attention_dropout": c.attention_dropout,
        "activation_dropout": c.activation_dropout,
        "max_position_embeddings": POSITIONS,
        "static_position_embeddings": True,
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "is_encoder_decoder": True,
        "use_cache": True,
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
        "forced_eos_token_id": None,
        "dtype": "float32",
    }


def _generation(bundle: Bundle) -> dict[str, Any]:
    return {
        "num_beams": bundle.decode.beam,
        "length_penalty": bundle.decode.length_penalty,
        "max_length": POSITIONS,
        "early_stopping": True,
        "bad_words_ids": [[PAD], [UNK], [BOS]],
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
    }


def _tokenizer(languages: tuple[str, str]) -> dict[str, Any]:
    names = {f"{what}_token": SPECIALS[i] for what, i in (("pad", PAD), ("unk", UNK), ("bos", BOS), ("eos", EOS))}
    return names | {
        "source_lang": languages[0],
        "target_lang": languages[1],
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,  # a text that spells an end symbol is that text
    }
