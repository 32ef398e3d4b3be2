"""OpenNMT-py, trained and used from its own environment on ready tokens."""

import json
import re
import subprocess
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch

from benchmarks import peers
from regard.bundle import Bundle
from regard.decode.options import NEVER
from regard.errors import UserError
from regard.models import Transformer
from regard.nn.position import sinusoids
from regard.text import BOS, EOS, PAD, UNK

END = "</s>"  # its mark; our models expect one after a source sentence, its own do not
MARKS = {PAD: "<blank>", UNK: "<unk>", BOS: "<s>", EOS: END}
POSITIONS = 5000  # rows of its table
# Our names of a layer's parts and its names, in the encoder and in the decoder.
NAMES = [
    (r"encoder\.(\d+)\.after_attention\.norm", r"encoder.transformer.\1.layer_norm"),
    (r"decoder\.(\d+)\.after_attention\.norm", r"decoder.transformer_layers.\1.layer_norm_1"),
    (r"decoder\.(\d+)\.after_cross\.norm", r"decoder.transformer_layers.\1.layer_norm_2"),
    (r"encoder\.(\d+)", r"encoder.transformer.\1"),
    (r"decoder\.(\d+)", r"decoder.transformer_layers.\1"),
    (r"after_feed_forward\.norm", "feed_forward.layer_norm"),
    (r"\.attention\.", ".self_attn."),
    (r"\.cross\.", ".context_attn."),
    (r"\.q\.", ".linear_query."),
    (r"\.k\.", ".linear_keys."),
    (r"\.v\.", ".linear_values."),
    (r"_attn\.out", "_attn.final_linear"),
    (r"\.inner\.", ".w_1."),
    (r"\.outer\.", ".w_2."),
    (r"coder_norm", "coder.layer_norm"),
]


def python() -> str:
    return str(peers.python("opennmt"))


def settings(folder: Path, texts: tuple[Path, Path], size: str, **changes: Any) -> Path:
    """A config file in `folder` for a Transformer of one of the published sizes; the vocabulary is made if needed."""
    folder.mkdir(parents=True, exist_ok=True)
    shape = Transformer.sizes[size]
    vocabulary, config = texts[0].parent / "opennmt.vocab", folder / "config.json"
    wanted: dict[str, Any] = {
        "data": {"corpus_1": {"path_src": str(texts[0]), "path_tgt": str(texts[1])}},
        "save_data": str(folder / "data"), "overwrite": True, "n_sample": -1,
        "src_vocab": str(vocabulary), "tgt_vocab": str(vocabulary), "share_vocab": True,
    }  # fmt: skip
    if not vocabulary.exists():
        config.write_text(json.dumps(wanted))  # JSON is YAML
        subprocess.run([python(), "-W", "ignore", "-m", "onmt.bin.build_vocab", "-config", str(config)], check=True)
    del wanted["n_sample"]  # with it, training is refused
    wanted |= {
        "save_model": str(folder / "model"), "world_size": 1, "num_workers": 0, "seed": 1,
        "batch_type": "tokens", "batch_size": 4096, "accum_count": [1], "normalization": "tokens",
        "train_steps": 100000, "valid_steps": 100000, "save_checkpoint_steps": 100000, "report_every": 10,
        "encoder_type": "transformer", "decoder_type": "transformer", "position_encoding": True,
        "enc_layers": shape["encoder_layers"], "dec_layers": shape["decoder_layers"], "heads": shape["heads"],
        "hidden_size": shape["d_model"], "word_vec_size": shape["d_model"], "transformer_ff": shape["d_ff"],
        "dropout": [shape["dropout"]], "attention_dropout": [0.0], "dropout_steps": [0], "label_smoothing": 0.1,
        "share_embeddings": True, "share_decoder_embeddings": True,
        "optim": "adam", "adam_beta2": 0.98, "decay_method": "noam", "warmup_steps": 4000, "learning_rate": 1.0,
        "max_grad_norm": 0, "param_init": 0, "param_init_glorot": True,
    }  # fmt: skip
    config.write_text(json.dumps(wanted | changes))
    return config


def trainer(config: Path) -> list[str]:
    """The command that trains."""
    return [python(), "-W", "ignore", "-m", "onmt.bin.train", "-config", str(config)]


def convert(model: Bundle, path: Path) -> None:
    """Our model as a checkpoint of its kind, which is a pickle: written here, read in its own environment alone."""
    network, c = model.model, model.model.config
    if not isinstance(network, Transformer) or (c.norm, c.activation, c.positions) != ("pre", "relu", "sinusoidal"):
        raise UserError(f"OpenNMT-py has no such model as {model.path}")
    weights = {}
    for name, value in network.state_dict().items():
        if name.startswith(("encoder", "decoder")):
            for ours, theirs in NAMES:
                name = re.sub(ours, theirs, name)
            weights[name] = value
    for side in ("encoder", "decoder"):
        embedding = f"{side}.embeddings.make_embedding"
        weights[f"{embedding}.emb_luts.0.weight"] = network.output
        weights[f"{embedding}.pe.pe"] = sinusoids(POSITIONS, c.d_model).unsqueeze(1)
    bias = torch.zeros(len(model.target))
    bias[NEVER] = -1e4  # as our search: they are no output
    words = [MARKS.get(i, model.target.token(i)) for i in range(len(model.target))]
    options = {
        "model_type": "text", "model_task": "seq2seq", "encoder_type": "transformer", "decoder_type": "transformer",
        "position_encoding": True, "enc_layers": c.encoder_layers, "dec_layers": c.decoder_layers, "heads": c.heads,
        "hidden_size": c.d_model, "word_vec_size": c.d_model, "transformer_ff": c.d_ff, "dropout": [0.0],
        "add_qkvbias": True, "norm_eps": c.norm_eps, "share_embeddings": True, "share_decoder_embeddings": True,
        "share_vocab": True, "optim": "adam", "freeze_word_vecs_enc": False, "freeze_word_vecs_dec": False,
    }  # fmt: skip
    vocabulary = {"src": words, "tgt": words, "data_task": "seq2seq", "decoder_start_token": MARKS[BOS]}
    generator = {"weight": network.output, "bias": bias}
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save({"model": weights, "generator": generator, "vocab": vocabulary, "opt": Namespace(**options)}, path)
