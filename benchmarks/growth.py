"""How time and memory grow: with sentence, batch, width, depth and vocabulary, and with the corpus up to 10M pairs."""

import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.plots import chart, panels
from benchmarks.results import ROOT, RUNS, write
from regard.config import make_recipe
from regard.data.cache import TokenCache, Tokens
from regard.files import cache_folder
from regard.memory import keep_freed_memory
from regard.models import Pair, Transformer
from regard.nn import native
from regard.tasks.task import Evaluation
from regard.tasks.translation import TranslationTask
from regard.text import EOS, Tokenizer
from regard.training.fit import Event, Fit
from regard.training.run import Run
from regard.training.session import train
from regard.workers import parts_for

ABOUT = "Each row in a process of its own; its memory is the peak of its anonymous pages (RssAnon)."

FOLDER = RUNS / "growth"
PAUSE = 0.02  # seconds between two looks at a process's memory

# One setting is varied at a time, the others stay as they are here.
BASE = {"length": 32, "batch_tokens": 2048, "d_model": 256, "layers": 3, "vocabulary": 8000}
VARIED: dict[str, tuple[str, str, tuple[int, ...]]] = {
    "length": ("Sentence length", "tokens in a sentence", (16, 32, 64, 128, 256, 512, 1024)),
    "batch_tokens": ("Batch", "tokens in a batch", (512, 1024, 2048, 4096, 8192)),
    "d_model": ("Width", "d_model", (64, 128, 256, 512)),
    "layers": ("Depth", "layers of encoder and of decoder", (1, 2, 4, 8)),
    "vocabulary": ("Vocabulary", "tokens in the vocabulary", (4000, 8000, 16000, 32000, 64000)),
}
WARM, STEPS = 2, 6  # updates that do not count, and all

GIVEN, HELD_OUT = "given", "held out"
CORPORA = (
    (10_000, GIVEN),
    (100_000, GIVEN),
    (1_000_000, GIVEN),
    (10_000, HELD_OUT),
    (100_000, HELD_OUT),  # from here on 1,000 pairs are held out, and scored at the end
    (1_000_000, HELD_OUT),
    (10_000_000, GIVEN),
)
DEV = 50  # pairs of the dev file
KEPT = 1_000_000  # files of larger corpora are removed
STEP, CORPUS = "Training steps", "Corpus size"  # the tables


def run() -> dict[str, Any]:
    rows: dict[str, list[dict[str, Any]]] = {STEP: [], CORPUS: []}
    for varied, (_, _, values) in VARIED.items():
        for value in values:
            rows[STEP].append({"varied": varied, "value": value} | measured("step", BASE | {varied: value}))
            print(rows[STEP][-1], flush=True)
    for pairs, dev in CORPORA:
        rows[CORPUS].append(on_corpus(pairs, dev))
        print(rows[CORPUS][-1], flush=True)
        write("growth", _figures(rows), complete=False)
    return _figures(rows)


def _figures(rows: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """What has been measured so far."""
    figures: dict[str, Any] = {
        "base": ", ".join(f"{key} {value:,}" for key, value in BASE.items()),
    }
    peaks = {(row["pairs"], row["dev"]): row["peak MB"] for row in rows[CORPUS]}
    for name, (large, small), dev in (
        ("memory_10M_vs_10k_pairs", (10_000_000, 10_000), GIVEN),
        ("memory_1M_vs_10k_pairs", (1_000_000, 10_000), GIVEN),
        ("memory_1M_vs_100k_pairs_held_out", (1_000_000, 100_000), HELD_OUT),
    ):
        if (large, dev) in peaks:
            figures[name] = round(peaks[large, dev] / peaks[small, dev], 3)
    for row in rows[CORPUS]:
        if row["pairs"] == 10_000_000:
            figures["prepare_seconds_10M_pairs"] = row["prepare seconds"]
    return figures | {"tables": rows, "seed": 1}


def plots(results: dict[str, Any]) -> dict[str, str]:
    """The pictures, from a results file's content: time on the left, memory on the right."""
    steps, corpora = results["tables"][STEP], results["tables"][CORPUS]
    drawn = []
    for varied, (title, label, _) in VARIED.items():
        for what, key in (("ms per 1,000 target tokens", "ms per 1,000 tokens"), ("peak memory, MB", "peak MB")):
            line = [(row["value"], row[key]) for row in steps if row["varied"] == varied]
            drawn.append(chart(title, label, what, {"": line}, log_x=True))

    def lines(key: str) -> dict[str, list[tuple[float, float]]]:
        found: dict[str, list[tuple[float, float]]] = {f"dev {dev}": [] for dev in (GIVEN, HELD_OUT)}
        for row in corpora:
            found[f"dev {row['dev']}"].append((row["pairs"], row[key]))
        return found

    about = ("Corpus size", "training pairs")
    drawn.append(chart(*about, "seconds to prepare", lines("prepare seconds"), log_x=True, log_y=True))
    drawn.append(chart(*about, "peak memory, MB", lines("peak MB"), log_x=True))
    return {"growth": panels(drawn)}


def on_corpus(pairs: int, dev: str) -> dict[str, Any]:
    """The row of one corpus: its file is made here, so that the making does not count."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for seed, count in enumerate((DEV, pairs)):
        if not _file(count).exists():
            write_pairs(_file(count), count, seed)
    shutil.rmtree(_out(pairs, dev), ignore_errors=True)
    settings = {"pairs": pairs, "dev": dev}
    try:
        return settings | measured("corpus", settings)
    finally:
        if pairs > KEPT:
            _file(pairs).unlink()
            shutil.rmtree(_out(pairs, dev))


def measured(kind: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The row that a process of its own makes of these settings; its memory is watched from here."""
    command = [sys.executable, "-m", "benchmarks.growth", kind, json.dumps(settings)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        samples = []
        while process.poll() is None:
            samples.append((time.monotonic(), _anonymous(process.pid)))
            time.sleep(PAUSE)
        assert process.stdout is not None
        told = process.stdout.read()
    if process.returncode:
        sys.exit(f"the measurement failed: {' '.join(command)}")
    row: dict[str, Any] = json.loads(told.splitlines()[-1])
    prepared, peak = row.pop("prepared"), row.pop("peak")
    if prepared:
        row["peak MB preparing"] = round(max(size for when, size in samples if when < prepared))
    row["peak MB"] = round(max(size for _, size in samples) or peak)
    return row


def _anonymous(process: int) -> float:
    """Megabytes that belong to a process alone: pages of mapped files are the system's to drop. 0 if unknown."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) / 1024


def _tell(row: dict[str, Any], prepared: float = 0.0) -> None:
    """To the process that watches. peak: for systems where it cannot watch."""
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    print(json.dumps(row | {"prepared": prepared, "peak": peak}))


# In the measured process, first sort: training steps on generated batches.


class _Tokens(TokenCache):
    """Random tokens in place of a corpus, every sentence of one length."""

    def __init__(self, pairs: int, length: int, vocabulary: int) -> None:
        inside = length - 1  # the end symbol comes with the batch
        self.tokens = np.random.default_rng(1).integers(EOS + 1, vocabulary, (2, pairs, inside), np.uint32)
        self.longest = (inside, inside)

    def __len__(self) -> int:
        return int(self.tokens.shape[1])

    def pair(self, index: int) -> tuple[Tokens, Tokens]:
        return self.tokens[0, index], self.tokens[1, index]

    def lengths(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.full(len(indices), self.longest[0]), np.full(len(indices), self.longest[1])


class _Unscored(TranslationTask):
    def evaluate(self, model: Pair) -> Evaluation:
        return Evaluation({"loss": 0.0, "bleu": 0.0})


def _step(length: int, batch_tokens: int, d_model: int, layers: int, vocabulary: int) -> None:
    keep_freed_memory()
    shape = {"d_model": d_model, "d_ff": 4 * d_model, "heads": 4, "encoder_layers": layers, "decoder_layers": layers}
    parts = parts_for(batch_tokens, torch.get_num_threads())
    settings = {"steps": STEPS, "batch_tokens": batch_tokens, "parts": parts, "log_every": 1}
    recipe = make_recipe({"model": shape, "train": settings})
    unused = Tokenizer.learn([], "byte", 260)
    task = _Unscored(recipe, unused, unused, _Tokens(2 * batch_tokens // length, length, vocabulary), dev=[])
    times = []

    def note(event: Event) -> None:
        if event["event"] == "train":
            times.append(time.perf_counter())

    steps = native.compiled(cache_folder("native"), recipe.train.precision)
    with tempfile.TemporaryDirectory() as folder, steps:
        model = Transformer(recipe.network(vocabulary, vocabulary))
        run = Run(Path(folder))
        fit = Fit(task, model, recipe.train, run, seed=1, d_model=d_model, metric="loss", facts={}, callbacks=[note])
        tokens = fit.train().tokens / STEPS
    seconds = statistics.median(b - a for a, b in pairwise(times[WARM - 1 :]))
    _tell({"ms a step": round(seconds * 1000), "ms per 1,000 tokens": round(seconds * 1e6 / tokens, 1)})


# Second sort: all of `regard train` on a corpus.


def _corpus(pairs: int, dev: str) -> None:
    files = {"train": _file(pairs), "dev": _file(DEV)}
    used = [name for name in files if name == "train" or dev == GIVEN]
    recipe = make_recipe(
        {
            "data": {name: [str(files[name])] for name in used},
            "model": {"d_model": 64, "d_ff": 128, "heads": 2, "encoder_layers": 1, "decoder_layers": 1},
            "train": {"steps": 30, "batch_tokens": 2048, "log_every": 10, "validation_pairs": 20},
            "decode": {"beam": 1, "extra_length": 5},
        }
    )
    times: dict[tuple[str, int], float] = {}

    def note(event: Event) -> None:
        times[event["event"], event.get("step", 0)] = time.monotonic()

    began = time.monotonic()
    train(recipe, _out(pairs, dev), callbacks=[note])
    prepared, tenth, last = times["begin", 0], times["train", 10], times["train", 30]
    row = {"prepare seconds": round(prepared - began, 1), "steps a second": round(20 / (last - tenth), 1)}
    _tell(row, prepared)


def _file(pairs: int) -> Path:
    return FOLDER / f"{pairs}.tsv"


def _out(pairs: int, dev: str) -> Path:
    return FOLDER / f"{pairs}-{dev.replace(' ', '-')}"


def write_pairs(path: Path, count: int, seed: int, chunk: int = 100_000) -> None:
    """Generated pairs as .tsv. A part of it is never seen under its name."""
    random, part = np.random.default_rng(seed), path.with_suffix(".part")
    with part.open("wb") as file:
        for done in range(0, count, chunk):
            file.write(_pairs(random, min(chunk, count - done)))
    part.replace(path)


def _pairs(random: np.random.Generator, count: int) -> bytes:
    """Sentences of 4 to 10 words; a target word is its source word from right to left.

    Of 2,000,000 words, few are frequent and short and most are rare: as in real text, a larger corpus has more words.
    """
    lengths = random.integers(4, 11, count)
    words = int(lengths.sum())
    ranks = np.exp(np.log(2e6) * random.random((2, words)).min(0)).astype(np.int64)
    letters = _spelled(ranks)
    starts, own = np.repeat(np.cumsum(lengths) - lengths, lengths), np.repeat(lengths, lengths)
    place = np.arange(words) + starts  # of the source words; each sentence's target words follow them
    cells = np.full((2 * words, letters.shape[1] + 1), ord(" "), np.uint8)
    cells[place, :-1] = letters
    cells[place + own, :-1] = letters[:, ::-1]
    ends = np.cumsum(2 * lengths)
    cells[ends - lengths - 1, -1] = ord("\t")
    cells[ends - 1, -1] = ord("\n")
    written: NDArray[np.uint8] = cells[cells != 0]
    return written.tobytes()


def _spelled(numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Four syllables each, in letters; leading ones are left out (0)."""
    consonants, vowels = (np.frombuffer(letters, np.uint8) for letters in (b"bcdfghjklmnprstv", b"aeiou"))
    base = len(consonants) * len(vowels)
    columns: list[NDArray[np.uint8]] = []
    for power in (base**3, base**2, base, 1):
        digits = numbers // power
        here = digits > 0
        columns += [side * here for side in (consonants[digits % base // 5], vowels[digits % base % 5])]
    return np.stack(columns, 1)


if __name__ == "__main__":
    kind, settings = sys.argv[1], json.loads(sys.argv[2])
    _step(**settings) if kind == "step" else _corpus(**settings)
