"""Hugging Face Transformers: a model as a folder that its `AutoModelForSeq2SeqLM` and `AutoTokenizer` load.

A model with the norm after each sub-layer becomes a Marian model, one with the norm before it a Pegasus model, which is
the same network in that order. Both put the sines in the first half of the width and the cosines in the second, where
the paper has them in turn: the coordinates of the residual stream are sorted accordingly, which changes no output.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.bundle import Bundle, save_tensors
from regard.errors import UserError
from regard.files import whole_folder
from regard.models import Transformer
from regard.nn.attention import MultiHead
from regard.nn.blocks import DecoderLayer, EncoderLayer, FeedForward
from regard.nn.position import sinusoids
from regard.text import BOS, EOS, PAD, SPECIALS, UNK

KINDS = {"post": ("marian", "MarianMTModel"), "pre": ("pegasus", "PegasusForConditionalGeneration")}
POSITIONS = 1024


def export(bundle: Bundle, out: Path) -> None:
    """Writes config, weights and tokenizer."""
    if out.exists():
        raise UserError(f"{out} is there already; choose another folder")
    _check(bundle)
    with whole_folder(out) as part:
        for name, content in (
            ("config.json", _config(bundle)),
            ("generation_config.json", _generation(bundle)),
            ("tokenizer.json", bundle.source.standalone()),
            ("tokenizer_config.json", _tokenizer()),
        ):
            (part / name).write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        save_tensors(dict(_weights(bundle)), part / "model.safetensors")


def _check(bundle: Bundle) -> None:
    c = bundle.model.config
    if not isinstance(bundle.model, Transformer):
        raise UserError(f"Transformers' Marian and Pegasus are Transformers; this model is {bundle.name!r}")
    if c.copying or c.embedding_norm:
        what = "copies words from the source" if c.copying else "has a norm of its embeddings"
        raise UserError(f"Transformers' Marian and Pegasus have no such part: this model {what}")
    if bundle.source.checksum != bundle.target.checksum or len(set(c.tie)) < 3:
        raise UserError("Transformers' Marian and Pegasus have one vocabulary and one embedding; this model has more")
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


def _tokenizer() -> dict[str, Any]:
    names = {f"{what}_token": SPECIALS[i] for what, i in (("pad", PAD), ("unk", UNK), ("bos", BOS), ("eos", EOS))}
    return names | {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,  # a text that spells an end symbol is that text
    }


def _weights(bundle: Bundle) -> Iterator[tuple[str, Tensor]]:
    model, c = bundle.model, bundle.model.config
    order = torch.cat((torch.arange(0, c.d_model, 2), torch.arange(1, c.d_model, 2)))  # sines, then cosines

    def norm(name: str, module: nn.Module) -> Iterator[tuple[str, Tensor]]:
        assert isinstance(module, nn.LayerNorm)
        yield f"{name}.weight", module.weight[order]
        yield f"{name}.bias", module.bias[order]

    def reads(name: str, layer: nn.Linear) -> Iterator[tuple[str, Tensor]]:  # from the residual stream
        yield f"{name}.weight", layer.weight[:, order]
        yield f"{name}.bias", layer.bias if layer.bias is not None else torch.zeros(layer.out_features)

    def writes(name: str, layer: nn.Linear) -> Iterator[tuple[str, Tensor]]:  # into it
        yield f"{name}.weight", layer.weight[order]
        yield f"{name}.bias", layer.bias[order] if layer.bias is not None else torch.zeros(layer.out_features)

    def attention(name: str, module: MultiHead) -> Iterator[tuple[str, Tensor]]:
        yield from reads(f"{name}.q_proj", module.q)
        yield from reads(f"{name}.k_proj", module.k)
        yield from reads(f"{name}.v_proj", module.v)
        yield from writes(f"{name}.out_proj", module.out)

    def feed_forward(name: str, module: FeedForward) -> Iterator[tuple[str, Tensor]]:
        yield from reads(f"{name}.fc1", module.inner)
        yield from writes(f"{name}.fc2", module.outer)

    yield "model.shared.weight", model.output[:, order]
    yield "final_logits_bias", torch.zeros(1, c.target_vocabulary)
    for side, layers in (("encoder", model.encoder), ("decoder", model.decoder)):
        yield f"model.{side}.embed_positions.weight", sinusoids(POSITIONS, c.d_model)[:, order]
        for i, layer in enumerate(layers):
            assert isinstance(layer, EncoderLayer | DecoderLayer)
            name = f"model.{side}.layers.{i}"
            yield from attention(f"{name}.self_attn", layer.attention)
            yield from norm(f"{name}.self_attn_layer_norm", layer.after_attention.norm)
            if isinstance(layer, DecoderLayer):
                yield from attention(f"{name}.encoder_attn", layer.cross)
                yield from norm(f"{name}.encoder_attn_layer_norm", layer.after_cross.norm)
            yield from feed_forward(name, layer.feed_forward)
            yield from norm(f"{name}.final_layer_norm", layer.after_feed_forward.norm)
    if c.norm == "pre":
        yield from norm("model.encoder.layer_norm", model.encoder_norm)
        yield from norm("model.decoder.layer_norm", model.decoder_norm)
