"""Training speed on Multi30k en-de beside OpenNMT-py: real target tokens a second, in turn, on the same tokens."""

import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import peers
from benchmarks.results import ROOT, RUNS
from regard.data.formats import read_lines
from regard.data.sets import get
from regard.models import Transformer
from regard.text import Tokenizer

ROUNDS = 3
VOCABULARY = 8000
BATCH = 4096
SECONDS = {"tiny": 60, "base": 150}  # of measuring, once the first speed was told


def run() -> dict[str, Any]:
    folder = RUNS / "train-speed"
    texts = _tokenised(folder)
    figures: dict[str, Any] = {"about": "Adam, 4,096 tokens a batch; medians over rounds, the systems in turn."}
    rows = []
    for size in SECONDS:
        ours, theirs = [], []
        for number in range(ROUNDS):
            ours.append(_ours(folder / f"ours-{size}-{number}", size))
            theirs.append(_opennmt(folder / f"opennmt-{size}-{number}", size, texts))
            rows.append({"size": size, "round": number + 1, "Regard": round(ours[-1]), "OpenNMT-py": round(theirs[-1])})
            print(rows[-1])
        figures[f"{size}_tokens_per_second"] = round(statistics.median(ours))
        figures[f"{size}_vs_opennmt"] = round(statistics.median(ours) / statistics.median(theirs), 2)
    return figures | {"tables": {"Target tokens a second": rows}}


def _tokenised(folder: Path) -> dict[str, Path]:
    """The training text as tokens with spaces between: what the peers read as words."""
    where = get("multi30k").paths[0].parent
    raw = {side: where / f"train.lc.tok.{side}" for side in ("en", "de")}
    done = {side: folder / f"train.tokens.{side}" for side in raw}
    if not all(path.exists() for path in done.values()):
        folder.mkdir(parents=True, exist_ok=True)
        lines = {side: list(read_lines(path)) for side, path in raw.items()}
        tokenizer = Tokenizer.learn(
            (text for pair in zip(*lines.values(), strict=True) for text in pair), "bpe", VOCABULARY
        )
        for side, texts in lines.items():
            rows = [" ".join(map(tokenizer.token, ids)) for ids in tokenizer.encode_batch(texts)]
            done[side].write_text("\n".join(rows) + "\n", encoding="utf-8")
    return done


def _measured(command: list[str], seconds: float, log: Path, speeds: Callable[[str], list[float]]) -> float:
    """Runs a trainer until it has told its speed for a while; the first line, with its warm-up, does not count."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, cwd=ROOT, start_new_session=True)
        began: float | None = None
        try:
            while process.poll() is None:
                time.sleep(1)
                if began is None and speeds(log.read_text()):
                    began = time.monotonic()
                if began is not None and time.monotonic() - began > seconds:
                    break
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    found = speeds(log.read_text())[1:]
    if not found:
        sys.exit(f"no speed was told; see {log}")
    return statistics.median(found)


def _ours(folder: Path, size: str) -> float:
    shutil.rmtree(folder, ignore_errors=True)
    every = 10 if size == "tiny" else 2
    command = [sys.executable, "-m", "regard", "train", "recipes/multi30k-tiny.toml", f"model.size={size}"]
    command += ["model.norm=post", f"tokenizer.size={VOCABULARY}", "optimizer=adam", "schedule=paper", "warmup=4000"]
    command += ["lr=1.0", f"batch_tokens={BATCH}", f"log_every={every}", "steps=100000", "validate_every=100000"]
    command += ["save_every=100000", "parts=0", "clip=0", "--out", str(folder)]

    def speeds(_: str) -> list[float]:
        log = folder / "log.jsonl"
        lines = log.read_text().splitlines() if log.exists() else []
        return [e["tokens_per_second"] for e in map(json.loads, lines) if e["event"] == "train"]

    return _measured(command, SECONDS[size], folder.with_suffix(".log"), speeds)


def _opennmt(folder: Path, size: str, texts: dict[str, Path]) -> float:
    shape = Transformer.sizes[size]
    python = str(peers.python("opennmt"))
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary, config = folder.parent / "opennmt.vocab", folder / "config.json"
    settings = {
        "data": {"corpus_1": {"path_src": str(texts["en"]), "path_tgt": str(texts["de"])}},
        "save_data": str(folder / "data"), "overwrite": True, "n_sample": -1,
        "src_vocab": str(vocabulary), "tgt_vocab": str(vocabulary), "share_vocab": True,
    }  # fmt: skip
    if not vocabulary.exists():
        config.write_text(json.dumps(settings))  # JSON is YAML
        subprocess.run([python, "-W", "ignore", "-m", "onmt.bin.build_vocab", "-config", str(config)], check=True)
    del settings["n_sample"]  # with it, training is refused
    settings |= {
        "save_model": str(folder / "model"), "world_size": 1, "num_workers": 0, "seed": 1,
        "batch_type": "tokens", "batch_size": BATCH, "accum_count": [1], "normalization": "tokens",
        "train_steps": 100000, "valid_steps": 100000, "save_checkpoint_steps": 100000,
        "report_every": 10 if size == "tiny" else 2,
        "encoder_type": "transformer", "decoder_type": "transformer", "position_encoding": True,
        "enc_layers": shape["encoder_layers"], "dec_layers": shape["decoder_layers"], "heads": shape["heads"],
        "hidden_size": shape["d_model"], "word_vec_size": shape["d_model"], "transformer_ff": shape["d_ff"],
        "dropout": [shape["dropout"]], "attention_dropout": [0.0], "dropout_steps": [0], "label_smoothing": 0.1,
        "share_embeddings": True, "share_decoder_embeddings": True,
        "optim": "adam", "adam_beta2": 0.98, "decay_method": "noam", "warmup_steps": 4000, "learning_rate": 1.0,
        "max_grad_norm": 0, "param_init": 0, "param_init_glorot": True,
    }  # fmt: skip
    config.write_text(json.dumps(settings))
    command = [python, "-W", "ignore", "-m", "onmt.bin.train", "-config", str(config)]

    def speeds(text: str) -> list[float]:
        return [float(found) for found in re.findall(r"/\s*(\d+) tok/s", text)]

    return _measured(command, SECONDS[size], folder.with_suffix(".log"), speeds)
