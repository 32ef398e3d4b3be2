"""Translating speed on Multi30k en-de: one model in our engines and in the peers, in bulk and a sentence at a time."""

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path
from typing import Any

import torch

from benchmarks import opennmt, peers
from benchmarks.results import ROOT, RUNS
from benchmarks.runs import data_files, trained
from benchmarks.spaced import SCORE, bleu, joined, spaced
from regard.api import Model
from regard.bundle import WEIGHTS, Bundle, find_bundle
from regard.data.formats import read_lines
from regard.data.sets import get
from regard.data.splice import spliced
from regard.errors import UserError
from regard.files import checksum, write_text
from regard.hub import ctranslate2, huggingface
from regard.tasks.scores import compare

ABOUT = (
    "One trained model (tiny, 4 + 4 layers) in every system; medians over rounds, the systems in turn, other sentences "
    "in each round. The shallow decoder is another model (8 + 1 layers, 6,000 tokens for each language in place of "
    "10,000 for both), trained on people's translations and on what the first makes of sentences that are spliced from "
    "the training sentences."
)
# How many are translated in a round, and how many rounds: in bulk, one at a time. What disturbs the machine lasts
# longer than a short round, so that it disturbs both of two neighbours; but the first sentences of a round find what
# others left in the caches.
LINES, ROUNDS = {False: 500, True: 24}, {False: 11, True: 25}
SPLICED = 87_000  # sentences for the student beside the 29,000 that people translated
BEAMS = (1, 5)
OWN, SHALLOW = "Regard, torch", "Regard, torch, shallow decoder"
OWN_CT2, RAW = "Regard, ctranslate2", "CTranslate2"
TRANSFORMERS, OPENNMT = "Transformers", "OpenNMT-py"
# What a ratio is of, and to.
RATIOS = {
    "torch_vs_transformers": (OWN, TRANSFORMERS),
    "torch_vs_opennmt": (OWN, OPENNMT),
    "ctranslate2_vs_raw": (OWN_CT2, RAW),
}
Speeds = dict[tuple[str, int, bool], list[float]]  # system, beam, one at a time -> tokens a second in each round


class Worker:
    """A system in a process of its own, waiting for lines to translate."""

    def __init__(self, python: Path | str, script: str, *arguments: object, ready_tokens: bool = False) -> None:
        command = [str(python), "-W", "ignore", str(ROOT / "benchmarks" / "workers" / script), *map(str, arguments)]
        self.errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, cwd=ROOT
        )
        self.ready_tokens = ready_tokens  # it reads and writes tokens with spaces between
        self._answer()

    def __call__(self, texts: list[str], beam: int, single: bool) -> dict[str, Any]:
        assert self.process.stdin is not None
        print(json.dumps({"texts": texts, "beam": beam, "single": single}), file=self.process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.errors.seek(0)
            why = "\n".join(self.errors.read().splitlines()[-10:])
            raise UserError(f"a worker ended: {' '.join(map(str, self.process.args))}\n{why}")  # type: ignore[arg-type]
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def run() -> dict[str, Any]:
    teacher, _ = trained("multi30k", "multi30k", "multi30k-tiny.toml")
    taught = f"data.train={json.dumps([str(path) for path in _taught(teacher)])}"
    student, _ = trained("translate-shallow", "multi30k", "multi30k-shallow.toml", [taught])
    models, texts = {"tiny": teacher, "shallow": student}, _test()
    workers = started(models["tiny"], RUNS / "translate-speed")
    workers[SHALLOW] = Worker(sys.executable, "regard_worker.py", models["shallow"].path, "torch", "float32")
    theirs = RUNS / "translate-speed" / "opennmt.pt"
    opennmt.convert(teacher, theirs)
    workers[OPENNMT] = Worker(opennmt.python(), "opennmt_worker.py", theirs, opennmt.END, ready_tokens=True)
    rows, speeds = measured(workers, models["tiny"], texts, _lines("train", "en"), LINES, ROUNDS)
    figures = ratios(speeds)
    for key, beam, single in (("", 5, False), ("_beam_1", 1, False), ("_single", 5, True)):
        figures[f"shallow_decoder_speedup{key}"] = _ratio(speeds, SHALLOW, OWN, beam, single)
    figures |= {"data": data_files(teacher), "seed": teacher.training["recipe"]["seed"]}
    figures["versions"] = peers.versions("transformers", "opennmt")
    return figures | _shallow(models, texts) | {"tables": {"Tokens a second": rows}}


def _lines(split: str, side: str) -> Iterator[str]:
    return read_lines(get("multi30k").folder / f"{split}.lc.tok.{side}")


def _test() -> tuple[list[str], list[str]]:
    return list(_lines("test_2016_flickr", "en")), list(_lines("test_2016_flickr", "de"))


def _taught(teacher: Bundle) -> tuple[Path, Path]:
    """What the student learns from: the training pairs, and the teacher's translations of sentences new to it."""
    out = RUNS / "translate-speed"
    out.mkdir(parents=True, exist_ok=True)
    weights = checksum(find_bundle(RUNS / "multi30k") / WEIGHTS)
    files, by = (out / "taught.en", out / "taught.de"), out / "taught.by"
    if by.exists() and by.read_text() == weights:  # it takes minutes
        return files
    source, target = (list(_lines("train", side)) for side in ("en", "de"))
    more = list(spliced(source, SPLICED, seed=1))
    fast = Model([teacher], ctranslate2.CTranslate2(teacher))
    found = [group[0].text for group in fast.stream(more, scored=False, beam=5)]
    for file, lines in zip(files, (source + more, target + found), strict=True):
        write_text(file, "\n".join(lines) + "\n")
    write_text(by, weights)
    return files


def started(model: Bundle, folder: Path) -> dict[str, Worker]:
    """One model in all systems that can run it, loaded and waiting. folder: where it is kept in their formats."""
    for name in ("float32", "int8", "transformers"):
        shutil.rmtree(folder / name, ignore_errors=True)  # of another model, it may be
    for precision in ("float32", "int8"):
        ctranslate2.export(model, folder / precision, precision)
    huggingface.export(model, folder / "transformers")
    python = sys.executable
    found = {OWN: Worker(python, "regard_worker.py", model.path, "torch", "float32")}
    for precision, mark in (("float32", ""), ("int8", " int8")):  # neighbours are compared
        found[OWN_CT2 + mark] = Worker(python, "regard_worker.py", model.path, "ctranslate2", precision)
        raw = ("ctranslate2_worker.py", folder / precision, precision, torch.get_num_threads())  # as many as ours
        found[RAW + mark] = Worker(python, *raw, ready_tokens=True)
    found[TRANSFORMERS] = Worker(peers.python("transformers"), "transformers_worker.py", folder / "transformers")
    return found


def measured(
    workers: dict[str, Worker],
    model: Bundle,
    texts: tuple[list[str], list[str]],
    fresh: Iterator[str],
    lines: dict[bool, int],
    rounds: dict[bool, int],
) -> tuple[list[dict[str, Any]], Speeds]:
    """All workers in all four cases, in turn; ends them. lines, rounds: how many, in bulk and one at a time.

    texts: translated to warm up, and scored. fresh: what is timed, others in every round, so that nobody has seen them.
    """
    rows: list[dict[str, Any]] = []
    speeds: Speeds = {}
    try:
        for single, beam in product(lines, BEAMS):
            size = lines[single]
            inputs, references = (side[:size] for side in texts)
            timed = [list(islice(fresh, size)) for _ in range(rounds[single])]
            for name, (first, *answers) in _answers(workers, model, [inputs, *timed], beam, single).items():
                outputs = first["outputs"]
                found = speeds[name, beam, single] = [_tokens(model, a["outputs"]) / a["seconds"] for a in answers]
                milliseconds = 1000 * statistics.median(a["seconds"] for a in answers) / size
                rows.append(
                    {
                        "system": name,
                        "beam": beam,
                        "how": "one at a time" if single else "in bulk",
                        "tokens/s": round(statistics.median(found)),
                        "least - most": f"{min(found):.0f} - {max(found):.0f}",
                        "ms a sentence": round(milliseconds, 1),
                        "peak MB": round(max(answer["megabytes"] for answer in answers)),
                        "BLEU": "" if single else bleu(outputs, references),
                    }
                )
                print(rows[-1])
    finally:
        for worker in workers.values():
            worker.close()
    return rows, speeds


def _answers(
    workers: dict[str, Worker], model: Bundle, rounds: list[list[str]], beam: int, single: bool
) -> dict[str, list[dict[str, Any]]]:
    """What each worker answered in each round, of which every second goes through them backwards."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in workers}
    for number, lines in enumerate(rounds):
        ready = spaced(model.source, lines)
        for name, worker in list(workers.items())[:: -1 if number % 2 else 1]:
            answer = worker(ready if worker.ready_tokens else lines, beam, single)
            if worker.ready_tokens:
                answer["outputs"] = joined(model.target, answer["outputs"])
            found[name].append(answer)
    return found


def _tokens(model: Bundle, outputs: list[str]) -> int:
    return sum(len(ids) + 1 for ids in model.target.encode_batch(outputs))


def ratios(speeds: Speeds) -> dict[str, Any]:
    """Ours to the peers' in each case, and the worst of them."""
    figures: dict[str, Any] = {}
    for key, (one, other) in RATIOS.items():
        cases = [(beam, single) for name, beam, single in speeds if name == other]
        if not cases:  # that peer was not asked
            continue
        found = {case: _ratio(speeds, one, other, *case) for case in cases}
        figures[key] = min(found.values())
        for (beam, single), value in found.items():
            figures[f"{key}_beam_{beam}_{'single' if single else 'bulk'}"] = value
    return figures


def _ratio(speeds: Speeds, one: str, other: str, beam: int, single: bool) -> float:
    """Round by round, since what disturbs one disturbs its neighbour."""
    pairs = zip(speeds[one, beam, single], speeds[other, beam, single], strict=True)
    return round(statistics.median(a / b for a, b in pairs), 2)


def _shallow(models: dict[str, Bundle], texts: tuple[list[str], list[str]]) -> dict[str, Any]:
    """What the shallow decoder costs on the whole test set, and whether that could be chance."""
    source, references = texts
    outputs = {name: Model([bundle]).translate(source, beam=5) for name, bundle in models.items()}
    found = next(c for c in compare(outputs["shallow"], outputs["tiny"], references, SCORE) if c.name == "BLEU")
    return {
        "bleu": round(found.theirs, 2),
        "shallow_decoder_bleu": round(found.ours, 2),
        "shallow_decoder_bleu_loss": round(found.theirs - found.ours, 2),
        "shallow_decoder_p_value": round(found.p_value, 4),
        "steps": models["tiny"].training["steps"],
        "shallow_decoder_steps": models["shallow"].training["steps"],
        "shallow_decoder_layers": "8 + 1",
        "parameters": models["tiny"].parameters,
        "shallow_decoder_parameters": models["shallow"].parameters,
    }
