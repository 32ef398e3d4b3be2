"""Training speed on Multi30k en-de: real target tokens a second, the systems in turn, on the same tokens.

Everything counts: data, forward, loss, backward, optimizer. Every system tells its own speed; the first telling, with
its warm-up, is left out.
"""

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

import numpy as np

from benchmarks import opennmt, peers
from benchmarks.flops import peak, training_flops
from benchmarks.results import ROOT, RUNS
from regard.config import Recipe
from regard.data.cache import TokenCache
from regard.data.formats import read_lines
from regard.data.sets import get
from regard.models import Transformer
from regard.text import Tokenizer

ROUNDS = 3
VOCABULARY = 8000
BATCH = 4096
SECONDS = {"tiny": 45, "base": 120}  # of measuring, once the first speed was told
EVERY = {"tiny": 10, "base": 2}  # updates between two tellings
FOLDER = RUNS / "train-speed"


def run() -> dict[str, Any]:
    _tokenise()
    figures: dict[str, Any] = {
        "about": "Adam, 4,096 tokens a batch, in float32; medians of ratios over rounds, the systems in turn."
    }
    rows = []
    for size in SECONDS:
        systems = {"Regard": _regard, "OpenNMT-py": _opennmt} | ({"JoeyNMT": _joeynmt} if size == "tiny" else {})
        speeds: dict[str, list[float]] = {name: [] for name in systems}
        shares = []
        for number in range(ROUNDS):
            for name, measure in systems.items():
                speeds[name].append(measure(FOLDER / f"{name}-{size}-{number}", size))
                if name == "Regard":
                    shares.append(speeds[name][-1] * _flops(size) / peak())
            told = {name: round(found[-1]) for name, found in speeds.items()}
            rows.append({"size": size, "round": number + 1, "share of peak": round(shares[-1], 3)} | told)
            print(rows[-1])
        figures[f"{size}_tokens_per_second"] = round(statistics.median(speeds["Regard"]))
        for name, key in (("OpenNMT-py", "opennmt"), ("JoeyNMT", "joeynmt")):
            if name in speeds:
                ratios = [a / b for a, b in zip(speeds["Regard"], speeds[name], strict=True)]
                figures[f"{size}_vs_{key}"] = round(statistics.median(ratios), 2)
        figures[f"{size}_share_of_peak"] = round(statistics.median(shares), 3)
    tables = {
        f"Target tokens a second, {size}": [
            {k: v for k, v in row.items() if k != "size"} for row in rows if row["size"] == size
        ]
        for size in SECONDS
    }
    return figures | {"tables": tables}


def _flops(size: str) -> float:
    """Of training on one real target token of the corpus, on average."""
    cache = TokenCache.open(next(FOLDER.glob(f"Regard-{size}-*/tokens")), verify=False)
    lengths = cache.lengths(np.arange(len(cache)))
    tokens = [int(side.sum()) + len(cache) for side in lengths]  # with an end symbol each
    config = Recipe(model={"size": size}).network(VOCABULARY, VOCABULARY)
    return training_flops(config, tokens[0], tokens[1], len(cache)) / tokens[1]


def _text(side: str, part: str = "train") -> Path:
    return FOLDER / f"{part}.{side}"


def _tokenise() -> None:
    """The corpus as tokens with spaces between: what the peers read as words."""
    folder = get("multi30k").paths[0].parent
    if all(_text(side, part).exists() for side in ("en", "de") for part in ("train", "dev")):
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    lines = {side: list(read_lines(folder / f"train.lc.tok.{side}")) for side in ("en", "de")}
    pairs = (text for pair in zip(*lines.values(), strict=True) for text in pair)
    tokenizer = Tokenizer.learn(pairs, "bpe", VOCABULARY)
    for side, texts in lines.items():
        rows = [" ".join(map(tokenizer.token, ids)) for ids in tokenizer.encode_batch(texts)]
        _text(side).write_text("\n".join(rows) + "\n", encoding="utf-8")
        _text(side, "dev").write_text("\n".join(rows[:10]) + "\n", encoding="utf-8")  # JoeyNMT wants one


def _measured(command: list[str], seconds: float, log: Path, speeds: Callable[[str], list[float]]) -> float:
    """Runs a trainer until it has told its speed for a while."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, cwd=ROOT, start_new_session=True)
        began: float | None = None
        try:
            while process.poll() is None:
                time.sleep(1)
                if began is None and speeds(log.read_text()):
                    began = time.monotonic()
                enough = began is not None and len(speeds(log.read_text())) > 2
                if began is not None and enough and time.monotonic() - began > seconds:
                    break
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    found = speeds(log.read_text())[1:]
    if not found:
        sys.exit(f"no speed was told; see {log}")
    return statistics.median(found)


def _regard(folder: Path, size: str) -> float:
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "regard", "train", "recipes/multi30k-tiny.toml", f"model.size={size}"]
    command += ["model.norm=post", f"tokenizer.size={VOCABULARY}", "optimizer=adam", "schedule=paper", "warmup=4000"]
    command += ["lr=1.0", f"batch_tokens={BATCH}", f"log_every={EVERY[size]}", "steps=100000", "validate_every=100000"]
    command += ["save_every=100000", "parts=0", "clip=0", "--out", str(folder)]

    def speeds(_: str) -> list[float]:
        log = folder / "log.jsonl"
        lines = log.read_text().splitlines() if log.exists() else []
        return [e["tokens_per_second"] for e in map(json.loads, lines) if e["event"] == "train"]

    return _measured(command, SECONDS[size], folder.with_suffix(".log"), speeds)


def _opennmt(folder: Path, size: str) -> float:
    shutil.rmtree(folder, ignore_errors=True)
    config = opennmt.settings(folder, (_text("en"), _text("de")), size, batch_size=BATCH, report_every=EVERY[size])

    def speeds(text: str) -> list[float]:
        return [float(found) for found in re.findall(r"/\s*(\d+) tok/s", text)]

    return _measured(opennmt.trainer(config), SECONDS[size], folder.with_suffix(".log"), speeds)


def _joeynmt(folder: Path, size: str) -> float:
    shape = Transformer.sizes[size]
    python = str(peers.python("joeynmt"))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    vocabulary, config = FOLDER / "joeynmt.vocab", folder / "config.yaml"
    if not vocabulary.exists():
        words = {word for side in ("en", "de") for line in read_lines(_text(side)) for word in line.split(" ")}
        vocabulary.write_text("\n".join(["<unk>", "<pad>", "<s>", "</s>", *sorted(words)]) + "\n", encoding="utf-8")
    language = {"level": "word", "lowercase": False, "max_length": 256, "voc_file": str(vocabulary), "voc_min_freq": 1}
    layers = {
        "type": "transformer", "num_heads": shape["heads"], "hidden_size": shape["d_model"], "ff_size": shape["d_ff"],
        "dropout": shape["dropout"], "embeddings": {"embedding_dim": shape["d_model"], "scale": True},
        "layer_norm": "post",
    }  # fmt: skip
    settings = {
        "name": "speed", "joeynmt_version": "2.3.0", "model_dir": str(folder / "model"), "use_cuda": False,
        "fp16": False, "random_seed": 1, "num_workers": 0,
        "data": {
            "train": str(FOLDER / "train"), "dev": str(FOLDER / "dev"), "dataset_type": "plain",
            "src": {"lang": "en"} | language, "trg": {"lang": "de"} | language,
        },
        "testing": {"beam_size": 1, "eval_metrics": ["bleu"], "max_output_length": 60},
        "training": {
            "optimizer": "adam", "adam_betas": [0.9, 0.98], "scheduling": "noam", "learning_rate_factor": 1,
            "learning_rate_warmup": 4000, "learning_rate_min": 0.0, "loss": "crossentropy", "label_smoothing": 0.1,
            "normalization": "tokens", "batch_size": BATCH, "batch_type": "token", "epochs": 1000,
            "validation_freq": 100000, "logging_freq": 2, "early_stopping_metric": "loss", "overwrite": True,
        },
        "model": {
            "initializer": "xavier_uniform", "embed_initializer": "normal", "embed_init_weight": 0.05,
            "tied_embeddings": True, "tied_softmax": True,
            "encoder": layers | {"num_layers": shape["encoder_layers"]},
            "decoder": layers | {"num_layers": shape["decoder_layers"]},
        },
    }  # fmt: skip
    config.write_text(json.dumps(settings))
    command = [python, "-W", "ignore", "-m", "joeynmt", "train", str(config)]

    def speeds(text: str) -> list[float]:
        return [float(found.replace(",", "")) for found in re.findall(r"Tokens per Sec:\s*([\d,]+)", text)]

    return _measured(command, SECONDS[size], folder.with_suffix(".log"), speeds)
