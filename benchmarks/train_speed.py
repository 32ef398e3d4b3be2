"""Training speed on Multi30k en-de: real target tokens a second, the systems in turn, on the same tokens.

Every part of an update counts: data, forward, loss, backward, optimizer. All systems are started and warmed up; then
each runs for a slice of time while the others are stopped, round after round, so that what disturbs the machine
disturbs them all.
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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import opennmt, peers
from benchmarks.flops import peak, training_flops
from benchmarks.results import ROOT, RUNS
from benchmarks.spaced import spaced
from regard.config import Recipe
from regard.data.batches import Batches
from regard.data.cache import TokenCache
from regard.data.formats import read_lines
from regard.data.sets import get
from regard.errors import UserError
from regard.models import Transformer
from regard.text import Tokenizer

VOCABULARY = 8000
BATCH = 4096
ROUNDS = 8
SLICE = {"tiny": 15.0, "base": 45.0}  # seconds
OURS = {"Regard": "auto", "Regard in float32": "float32"}  # precision
PEERS = {"tiny": ("OpenNMT-py", "JoeyNMT"), "base": ("OpenNMT-py",)}
WARM = {"tiny": 10, "base": 3}  # updates before the first slice: memory is laid out by then
PATIENCE = 600.0  # seconds until a system is warm
FOLDER = RUNS / "train-speed"
ABOUT = (
    f"Adam, 4,096 tokens a batch. {ROUNDS} rounds, the systems in turn for a slice of time each. Regard as it comes, "
    "its matrix products in the format named under precision, and once more in float32 like the peers; the share of "
    "the peak is that of the latter. What is not in the slices: OpenNMT-py fills its bucket anew every five hundred "
    "updates or so, which takes it most of a minute."
)


class Trainer:
    """A system that trains in a process of its own, stopped unless it is measured. told: the updates it has logged."""

    def __init__(self, command: list[str], log: Path, told: Callable[[str], int], warm: int) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log, self.told = log, told
        with log.open("w") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out, cwd=ROOT, start_new_session=True)
        try:
            end = time.monotonic() + PATIENCE
            while self.updates() < warm:
                time.sleep(0.5)
                self._check(time.monotonic() < end)
        except BaseException:
            self.end()
            raise
        os.killpg(self.process.pid, signal.SIGSTOP)

    def updates(self) -> int:
        return self.told(self.log.read_text())

    def run(self, seconds: float) -> tuple[int, float]:
        """The updates made in about so many seconds, and how many they were.

        An update that a slice cuts in two is counted in the next one.
        """
        before, start = self.updates(), time.perf_counter()
        os.killpg(self.process.pid, signal.SIGCONT)
        time.sleep(seconds)
        os.killpg(self.process.pid, signal.SIGSTOP)
        spent = time.perf_counter() - start
        self._check()
        return self.updates() - before, spent

    def _check(self, soon: bool = True) -> None:
        if self.process.poll() is not None or not soon:
            raise UserError(f"a trainer ended or did not begin, see {self.log.relative_to(ROOT)}")

    def end(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def run() -> dict[str, Any]:
    figures: dict[str, Any] = {"seed": 1, "data": ["multi30k/train.lc.tok.en", "multi30k/train.lc.tok.de"]}
    tables = {}
    for size in SLICE:
        found, rows = compare(size, PEERS[size], ROUNDS, SLICE[size])
        figures |= found
        tables[f"Target tokens a second, {size}"] = rows
    return figures | {"versions": peers.versions("opennmt", "joeynmt"), "tables": tables}


def compare(
    size: str, others: Sequence[str], rounds: int, seconds: float
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Our speed, what it is of the peers' and of the peak; and the rounds."""
    _tokenise()
    for name in others:
        peers.python(INSTALLED[name])  # before anything is measured
    trainers: dict[str, Trainer] = {}
    spent: dict[str, list[tuple[int, float]]] = {name: [] for name in (*OURS, *others)}
    peaks, rows = [], []
    try:
        for name in spent:
            folder = FOLDER / f"{name.replace(' ', '-')}-{size}"
            trainers[name] = _regard(folder, size, OURS[name]) if name in OURS else STARTS[name](folder, size)
        tokens, flops = _a_batch(size)
        for number in range(rounds):
            for name, trainer in trainers.items():
                spent[name].append(trainer.run(seconds))
            peaks.append(peak())
            a_batch = {name: tokens if name in OURS else _their_tokens(t) for name, t in trainers.items()}
            told = {name: round(a_batch[name] * found[-1][0] / found[-1][1]) for name, found in spent.items()}
            rows.append({"round": number + 1, "GFLOP/s of a matrix product": round(peaks[-1] / 1e9)} | told)
            print(rows[-1])
    finally:
        for trainer in trainers.values():
            trainer.end()
    # Sums over all rounds: a slice holds few updates, and the one that is cut in two counts in the next.
    speeds = {n: a_batch[n] * sum(u for u, _ in found) / sum(s for _, s in found) for n, found in spent.items()}
    figures: dict[str, Any] = {"precision": _precision(trainers["Regard"])}
    for ours, mark in zip(OURS, ("", "_float32"), strict=True):
        figures[f"{size}_tokens_per_second{mark}"] = round(speeds[ours])
        for name in others:
            figures[f"{size}_vs_{INSTALLED[name]}{mark}"] = round(speeds[ours] / speeds[name], 2)
    figures[f"{size}_share_of_peak"] = round(speeds["Regard in float32"] * flops / statistics.median(peaks), 3)
    return figures, rows


def _precision(trainer: Trainer) -> str:
    """What our matrix products were made in, as the run told."""
    told = re.search(r"training to step \S+ on cpu in (\w+)", trainer.log.read_text())
    assert told
    return told[1]


def _a_batch(size: str) -> tuple[float, float]:
    """Real target tokens in a batch, on average, and operations that training on one of them takes.

    Ours; peers tell their own, whose batches hold more padding.
    """
    cache = TokenCache.open(FOLDER / f"Regard-{size}" / "tokens", verify=False)
    lengths = cache.lengths(np.arange(len(cache)))
    source, target = (int(side.sum()) + len(cache) for side in lengths)  # with an end symbol each
    config = Recipe(model={"size": size}).network(VOCABULARY, VOCABULARY)
    batches = Batches(cache, tokens=BATCH, seed=1)
    count = 0
    while batches.epoch == 0:
        next(batches)
        count += 1
    return target / count, training_flops(config, source, target, len(cache)) / target


def _their_tokens(trainer: Trainer) -> float:
    """Real target tokens in a batch, on average: OpenNMT-py tells them with each update, JoeyNMT is made to."""
    return statistics.mean(map(float, re.findall(r"(?:bsz:\s*\d+/\s*|target tokens: )(\d+)", trainer.log.read_text())))


def _text(side: str, part: str = "train") -> Path:
    return FOLDER / f"{part}.{side}"


def _tokenise() -> None:
    """The corpus as tokens with spaces between: what the peers read as words."""
    folder = get("multi30k").folder
    if all(_text(side, part).exists() for side in ("en", "de") for part in ("train", "dev")):
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    lines = {side: list(read_lines(folder / f"train.lc.tok.{side}")) for side in ("en", "de")}
    pairs = (text for pair in zip(*lines.values(), strict=True) for text in pair)
    tokenizer = Tokenizer.learn(pairs, "bpe", VOCABULARY)
    for side, texts in lines.items():
        rows = spaced(tokenizer, texts)
        _text(side).write_text("\n".join(rows) + "\n", encoding="utf-8")
        _text(side, "dev").write_text("\n".join(rows[:10]) + "\n", encoding="utf-8")  # JoeyNMT wants one


def _regard(folder: Path, size: str, precision: str) -> Trainer:
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "regard", "train", "recipes/multi30k-tiny.toml", f"model.size={size}"]
    settings = {
        "norm": "post", "tokenizer.size": VOCABULARY, "optimizer": "adam", "schedule": "paper", "warmup": 4000,
        "lr": 1.0, "vector_share": 1.0, "model.dropout": Transformer.sizes[size]["dropout"],
        "weight_decay": 0, "batch_tokens": BATCH, "log_every": 1, "steps": 100_000, "clip": 0, "parts": 0,
        "validate_every": 100_000, "save_every": 100_000, "precision": precision,
    }  # fmt: skip
    command += [*(f"{key}={value}" for key, value in settings.items()), "--out", str(folder)]

    def told(_: str) -> int:
        log = folder / "log.jsonl"
        return log.read_text().count('"event": "train"') if log.exists() else 0

    return Trainer(command, folder.with_suffix(".log"), told, WARM[size])


def _opennmt(folder: Path, size: str) -> Trainer:
    shutil.rmtree(folder, ignore_errors=True)
    config = opennmt.settings(folder, (_text("en"), _text("de")), size, batch_size=BATCH, report_every=1)

    return Trainer(opennmt.trainer(config), folder.with_suffix(".log"), _told, WARM[size])


def _joeynmt(folder: Path, size: str) -> Trainer:
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
            "validation_freq": 100000, "logging_freq": 1, "early_stopping_metric": "loss", "overwrite": True,
        },
        "model": {
            "initializer": "xavier_uniform", "embed_initializer": "normal", "embed_init_weight": 0.05,
            "tied_embeddings": True, "tied_softmax": True,
            "encoder": layers | {"num_layers": shape["encoder_layers"]},
            "decoder": layers | {"num_layers": shape["decoder_layers"]},
        },
    }  # fmt: skip
    config.write_text(json.dumps(settings))
    command = [python, "-W", "ignore", "-c", TELLING_JOEYNMT, "train", str(config)]

    return Trainer(command, folder.with_suffix(".log"), _told, WARM[size])


def _told(log: str) -> int:
    """Both peers log a line with "Step" an update."""
    return len(re.findall(r"Step:?\s+\d+[,/]", log))


# JoeyNMT's command, with a line about each batch that it makes: how many of its target tokens are no padding.
TELLING_JOEYNMT = """
from joeynmt import batch
from joeynmt.__main__ import main
make = batch.Batch.__init__
def tell(self, *args, **kwargs):
    make(self, *args, **kwargs)
    print("target tokens:", int(self.ntokens), flush=True)
batch.Batch.__init__ = tell
main()
"""
STARTS = {"OpenNMT-py": _opennmt, "JoeyNMT": _joeynmt}
INSTALLED = {"OpenNMT-py": "opennmt", "JoeyNMT": "joeynmt"}
