"""OpenNMT-py, trained and used from its own environment on ready tokens."""

import json
import subprocess
from pathlib import Path
from typing import Any

from benchmarks import peers
from regard.models import Transformer


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
