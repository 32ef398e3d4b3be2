"""Translating speed on Multi30k en-de: one model in our engines and in the peers, in bulk and a sentence at a time."""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import peers
from benchmarks.results import ROOT, RUNS
from benchmarks.runs import trained
from regard.api import Model
from regard.bundle import Bundle
from regard.config import ScoreConfig
from regard.data.formats import read_lines
from regard.data.sets import get
from regard.hub import ctranslate2, transformers
from regard.tasks.scores import compare, score

# Of the two trainings, for fewer updates than the recipes have: enough for translations of the right length, and for a
# fair comparison of BLEU.
SHORT = ["train.steps=2000", "train.validate_every=1000", "train.save_every=50", "train.split=0"]
LINES = {False: 500, True: 40}  # how many are translated: in bulk, one at a time
ROUNDS = 5
BEAMS = (1, 5)
CORES = os.cpu_count() or 1
OWN, SHALLOW = "Regard, torch", "Regard, torch, shallow decoder"
OWN_CT2, RAW = "Regard, ctranslate2", "CTranslate2"
SCORE = ScoreConfig(tokenize="none")


class Worker:
    """A system in a process of its own, waiting for lines to translate."""

    def __init__(self, python: Path | str, script: str, *arguments: object, ready_tokens: bool = False) -> None:
        command = [str(python), "-W", "ignore", str(ROOT / "benchmarks" / "workers" / script), *map(str, arguments)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT
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
            sys.exit(f"a worker ended: {' '.join(map(str, self.process.args))}")  # type: ignore[arg-type]
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def run() -> dict[str, Any]:
    recipes = {"tiny": "multi30k-tiny.toml", "shallow": "multi30k-shallow.toml"}
    models = {name: trained(f"translate-{name}", "multi30k", recipe, SHORT)[0] for name, recipe in recipes.items()}
    texts = _test()
    workers = _workers(models)
    try:
        rows, figures = _measured(workers, models["tiny"], texts)
    finally:
        for worker in workers.values():
            worker.close()
    return (
        {"about": "One trained model (tiny, 4 + 4 layers) in every system; medians over rounds, the systems in turn."}
        | figures
        | _shallow(models, texts)
        | {"tables": {"Tokens a second": rows}}
    )


def _test() -> tuple[list[str], list[str]]:
    folder = get("multi30k").paths[0].parent
    source, target = (list(read_lines(folder / f"test_2016_flickr.lc.tok.{side}")) for side in ("en", "de"))
    return source, target


def _workers(models: dict[str, Bundle]) -> dict[str, Worker]:
    """All systems, loaded and waiting."""
    tiny, python = models["tiny"], sys.executable
    folder = RUNS / "translate-speed"
    for precision in ("float32", "int8"):
        if not (folder / precision).exists():
            ctranslate2.export(tiny, folder / precision, precision)
    if not (folder / "transformers").exists():
        transformers.export(tiny, folder / "transformers")
    found = {
        OWN: Worker(python, "regard_worker.py", tiny.path, "torch", "float32"),
        SHALLOW: Worker(python, "regard_worker.py", models["shallow"].path, "torch", "float32"),
        OWN_CT2: Worker(python, "regard_worker.py", tiny.path, "ctranslate2", "float32"),
        f"{OWN_CT2} int8": Worker(python, "regard_worker.py", tiny.path, "ctranslate2", "int8"),
    }
    for precision, name in (("float32", RAW), ("int8", f"{RAW} int8")):
        model = folder / precision
        found[name] = Worker(python, "ctranslate2_worker.py", model, precision, CORES, ready_tokens=True)
    found["Transformers"] = Worker(peers.python("transformers"), "transformers_worker.py", folder / "transformers")
    checkpoints = sorted((RUNS / "time-to-quality" / "opennmt").glob("model_step_*.pt"))
    if checkpoints:  # its own model of the same shape, once there is one
        python = peers.python("opennmt")
        found["OpenNMT-py"] = Worker(python, "opennmt_worker.py", checkpoints[-1], ready_tokens=True)
    return found


def _measured(
    workers: dict[str, Worker], model: Bundle, texts: tuple[list[str], list[str]]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Speeds of all workers in all four cases, and the ratios."""
    rows, speeds = [], {}
    for single in (False, True):
        for beam in BEAMS:
            lines, references = (side[: LINES[single]] for side in texts)
            ready = [_spaced(model, line) for line in lines]
            answers: dict[str, list[dict[str, Any]]] = {name: [] for name in workers}
            for _ in range(ROUNDS + 1):  # the first is for warming up
                for name, worker in workers.items():
                    answers[name].append(worker(ready if worker.ready_tokens else lines, beam, single))
            for name, (_, *rounds) in answers.items():
                outputs = rounds[0]["outputs"]
                if workers[name].ready_tokens:
                    outputs = [_joined(model, output) for output in outputs]
                tokens = sum(len(ids) + 1 for ids in model.target.encode_batch(outputs))
                found = [tokens / answer["seconds"] for answer in rounds]
                speeds[name, beam, single] = found
                rows.append(
                    {
                        "system": name,
                        "beam": beam,
                        "how": "one at a time" if single else "in bulk",
                        "tokens/s": round(statistics.median(found)),
                        "least - most": f"{min(found):.0f} - {max(found):.0f}",
                        "ms a sentence": round(1000 * statistics.median(a["seconds"] for a in rounds) / len(lines), 1),
                        "peak MB": round(max(answer["megabytes"] for answer in rounds)),
                        "BLEU": "" if single else _bleu(outputs, references),
                    }
                )
                print(rows[-1])

    def ratio(one: str, other: str, beam: int, single: bool) -> float:
        """Round by round, since what disturbs one disturbs its neighbour."""
        pairs = zip(speeds[one, beam, single], speeds[other, beam, single], strict=True)
        return round(statistics.median(a / b for a, b in pairs), 2)

    cases = [(beam, single) for single in (False, True) for beam in BEAMS]
    against = {case: ratio(OWN, "Transformers", *case) for case in cases}
    raw = {case: ratio(OWN_CT2, RAW, *case) for case in cases}
    figures: dict[str, Any] = {"torch_vs_transformers": min(against.values()), "ctranslate2_vs_raw": min(raw.values())}
    for (beam, single), value in against.items():
        figures[f"torch_vs_transformers_beam_{beam}_{'single' if single else 'bulk'}"] = value
    for (beam, single), value in raw.items():
        figures[f"ctranslate2_vs_raw_beam_{beam}_{'single' if single else 'bulk'}"] = value
    figures["shallow_decoder_speedup"] = ratio(SHALLOW, OWN, 5, False)
    figures["shallow_decoder_speedup_beam_1"] = ratio(SHALLOW, OWN, 1, False)
    figures["shallow_decoder_speedup_single"] = ratio(SHALLOW, OWN, 5, True)
    return rows, figures


def _spaced(model: Bundle, text: str) -> str:
    return " ".join(model.source.token(i) for i in model.source.encode(text))


def _joined(model: Bundle, output: str) -> str:
    numbers = {model.target.token(i): i for i in range(len(model.target))}
    return model.target.decode(numbers[token] for token in output.split(" ") if token in numbers)


def _bleu(outputs: list[str], references: list[str]) -> float:
    return round(score(outputs, references, SCORE, names=("BLEU",))["BLEU"].value, 2)


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
        "shallow_decoder_layers": "8 + 1",
        "parameters": models["tiny"].parameters,
        "shallow_decoder_parameters": models["shallow"].parameters,
    }
