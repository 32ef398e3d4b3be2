"""Scores of written text, by sacreBLEU and rouge-score: one function for validation, `evaluate` and the model card."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest, Result, _bootstrap_resample

from regard.config import ScoreConfig
from regard.errors import UserError

RESAMPLES = 1000
Values = NDArray[np.float64]
# By task, in the order of a report; and what a log calls them.
METRICS = {"translation": ("BLEU", "chrF++", "TER"), "summarisation": ("ROUGE-1", "ROUGE-2", "ROUGE-L")}
KEYS = {"BLEU": "bleu", "chrF++": "chrf", "ROUGE-1": "rouge_1", "ROUGE-2": "rouge_2", "ROUGE-L": "rouge_l"}


@dataclass(frozen=True)
class Score:
    """A metric's value, half the width of its 95 % interval (None unless asked for), and how it was made."""

    name: str
    value: float
    interval: float | None
    signature: str

    def __str__(self) -> str:
        spread = "" if self.interval is None else f" ± {self.interval:.2f}"
        return f"{self.name} {self.value:.2f}{spread}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def metrics(config: ScoreConfig) -> dict[str, Metric]:
    """BLEU, chrF++ and TER as sacreBLEU defines them."""
    try:
        # force: text that is tokenised already is meant to be when the recipe says so
        bleu = BLEU(tokenize=config.tokenize, lowercase=config.lowercase, force=config.tokenize == "none")
    except (RuntimeError, ImportError) as error:
        raise UserError(f"sacreBLEU's tokenizer {config.tokenize} cannot be used: {error}") from None
    return {
        "BLEU": bleu,
        "chrF++": CHRF(word_order=2, lowercase=config.lowercase),
        "TER": TER(case_sensitive=not config.lowercase),
    }


def require(config: ScoreConfig, names: Sequence[str]) -> None:
    """What these scores need is there: it is told before there is anything to score."""
    score(["a"], ["a"], config, names=names)


def score(
    outputs: Sequence[str],
    references: Sequence[str],
    config: ScoreConfig,
    *,
    names: Sequence[str] = ("BLEU", "chrF++"),
    intervals: bool = False,
) -> dict[str, Score]:
    """Corpus scores by name. Intervals are by bootstrap resampling, with a fixed seed."""
    if not references:
        raise UserError("there is nothing to score: no sentences")
    if len(outputs) != len(references):
        raise UserError(f"{len(outputs)} outputs cannot be scored against {len(references)} references")
    found = {}
    known = metrics(config)
    for name in names:
        if name.startswith("ROUGE"):
            values = rouge(name, outputs, references)
            interval = _spread(_resampled(values)) if intervals else None
            found[name] = Score(name, float(values.mean()), interval, _rouge_signature())
            continue
        metric = known[name]
        result = metric.corpus_score(list(outputs), [list(references)])
        interval = _interval(metric, outputs, references) if intervals else None
        found[name] = Score(name, float(result.score), interval, str(metric.get_signature()))
    return found


def _interval(metric: Metric, outputs: Sequence[str], references: Sequence[str]) -> float:
    """Half of the 95 % interval over sacreBLEU's resamples. (Its own estimate fails when one resample scores 0.)"""
    statistics = metric._extract_corpus_statistics(list(outputs), [list(references)])
    _, scores = _bootstrap_resample(statistics, metric, RESAMPLES)
    return _spread(np.array([float(resampled.score) for resampled in scores]))


def _spread(values: Values) -> float:
    """Half of the interval that holds 95 % of the values."""
    values = np.sort(values)
    tail = len(values) // 40
    return float(values[len(values) - tail - 1] - values[tail]) / 2


def rouge(name: str, outputs: Sequence[str], references: Sequence[str]) -> Values:
    """The F-measure of each output (0 to 100), by Google's rouge-score, with stemming."""
    scorer = _rouge_scorer(name)
    key = name.lower().replace("-", "")[:5] + name[-1]
    found = [scorer.score(r, o)[key].fmeasure for r, o in zip(references, outputs, strict=True)]
    return 100 * np.array(found)


def _rouge_scorer(name: str) -> Any:
    if find_spec("rouge_score") is None:
        raise UserError("scores of summaries need rouge-score: pip install 'regard[summaries]'")
    return import_module("rouge_score.rouge_scorer").RougeScorer([f"rouge{name[-1]}"], use_stemmer=True)


def _rouge_signature() -> str:
    return f"nrefs:1|measure:f|stem:yes|version:rouge-score-{version('rouge-score')}"


def _resampled(values: Values) -> Values:
    """The means of so many draws with replacement; the same ones every time."""
    draws = np.random.default_rng(12345).integers(0, len(values), (RESAMPLES, len(values)))
    means: Values = values[draws].mean(1)
    return means


@dataclass(frozen=True)
class Comparison:
    """One system against another on one metric: p is the chance of so large a difference between equals."""

    name: str
    ours: float
    theirs: float
    p_value: float
    signature: str

    def __str__(self) -> str:
        verdict = "significant" if self.p_value < 0.05 else "not significant"
        name = f"{self.name} (less is better)" if self.name == "TER" else self.name
        return f"{name} {self.ours:.2f} against {self.theirs:.2f}: {self.ours - self.theirs:+.2f}, " + (
            f"p = {self.p_value:.4f}, {verdict} at 0.05"
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def compare(
    ours: Sequence[str],
    theirs: Sequence[str],
    references: Sequence[str],
    config: ScoreConfig,
    task: str = "translation",
) -> list[Comparison]:
    """The paired bootstrap test on the task's metrics (of TER less is better)."""
    if not len(ours) == len(theirs) == len(references):
        raise UserError(f"{len(ours)} and {len(theirs)} outputs cannot be compared on {len(references)} references")
    if task == "summarisation":
        return [_compare_rouge(name, ours, theirs, references) for name in METRICS[task]]
    known = metrics(config)
    test = PairedTest(
        [("theirs", list(theirs)), ("ours", list(ours))],
        known,
        references=[list(references)],
        test_type="bs",
        n_samples=RESAMPLES,
    )
    signatures, results = test()
    found = []
    for name, values in results.items():
        if name == "System":
            continue
        baseline, system = values
        assert isinstance(baseline, Result)
        assert isinstance(system, Result)
        label = next(n for n in known if name.startswith(n.rstrip("+")))
        p_value = 1.0 if system.p_value is None else float(system.p_value)
        found.append(Comparison(label, system.score, baseline.score, p_value, str(signatures[name])))
    return found


def _compare_rouge(name: str, ours: Sequence[str], theirs: Sequence[str], references: Sequence[str]) -> Comparison:
    """As sacreBLEU tests: how often a resampled difference is as far from the mean one as that is from none."""
    mine, other = (rouge(name, outputs, references) for outputs in (ours, theirs))
    gap = float((mine - other).mean())
    far = np.abs(_resampled(mine - other) - gap) >= abs(gap)
    p_value = (int(far.sum()) + 1) / (RESAMPLES + 1)
    return Comparison(name, float(mine.mean()), float(other.mean()), p_value, _rouge_signature())
