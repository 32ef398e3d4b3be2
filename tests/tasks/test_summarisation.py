"""Summarisation: the translation task with sources that are cut, and ROUGE."""

import json
import warnings

import pytest
from conftest import make_pairs, small_recipe

from regard.api import Model, train
from regard.config import ScoreConfig
from regard.data.cache import TokenCache
from regard.errors import UserError
from regard.tasks import scores
from regard.tasks.scores import METRICS, compare, score

ROUGE = METRICS["summarisation"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Long sources, of which the first eight tokens are read."""
    out = tmp_path_factory.mktemp("summaries") / "run"
    pairs = [(f"{source} and so on and so on and so on and so on", target) for source, target in make_pairs()]
    recipe = small_recipe(steps=4, metric="rouge_l") | {"task": "summarisation", "data": {"max_length": 8}}
    return train(recipe, pairs=pairs[:100], dev=pairs[200:230], out=out, quiet=True)


def test_long_sources_are_cut_and_none_is_lost(model: Model) -> None:
    assert model.bundle.path is not None
    run = model.bundle.path.parent
    cache = TokenCache.open(run / "tokens")
    assert len(cache) == 100
    assert cache.longest[0] == 8
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a translator warns that it works in parts
        whole, beginning = model.translate(
            ["the man eats the bread and so on and so on", "the man eats the bread and so on"]
        )
    tokens = model.bundle.source.encode("the man eats the bread and so on")
    assert len(tokens) >= 8
    assert whole == beginning


def test_it_is_scored_by_rouge(model: Model) -> None:
    facts = json.loads((model.bundle.path / "model.json").read_text())  # type: ignore[operator]
    assert list(facts["scores"]["dev"]) == list(ROUGE)
    assert "rouge-score" in facts["scores"]["dev"]["ROUGE-L"]["signature"]
    events = [json.loads(line) for line in (model.bundle.path.parent / "log.jsonl").read_text().splitlines()]  # type: ignore[union-attr]
    validated = [event for event in events if event["event"] == "validate"]
    assert validated[-1]["metric"] == "rouge_l"
    assert validated[-1]["scores"] == ["loss", "rouge_1", "rouge_2", "rouge_l"]


def test_rouge_by_hand() -> None:
    # 3 of 3 words are in the reference's 4: F = 2 * 1 * 0.75 / 1.75; pairs: 2 of 2 in 3.
    found = score(["the cat sat"], ["the cat sat down"], ScoreConfig(), names=ROUGE)
    assert found["ROUGE-1"].value == pytest.approx(100 * 6 / 7)
    assert found["ROUGE-2"].value == pytest.approx(100 * 0.8)
    # The longest common subsequence of "sat the cat" and the reference is "the cat".
    found = score(["sat the cat"], ["the cat sat down"], ScoreConfig(), names=ROUGE)
    assert found["ROUGE-L"].value == pytest.approx(100 * 2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4))
    assert score(["dogs"], ["dog"], ScoreConfig(), names=ROUGE)["ROUGE-1"].value == 100  # stems are compared


def test_one_system_against_another() -> None:
    references = [f"word{i} and more" for i in range(40)]
    better, worse = [f"word{i} and" for i in range(40)], ["and" for _ in range(40)]
    found = compare(better, worse, references, ScoreConfig(), "summarisation")
    assert [c.name for c in found] == list(ROUGE)
    assert found[0].ours > found[0].theirs
    assert found[0].p_value < 0.05
    assert compare(worse, worse, references, ScoreConfig(), "summarisation")[0].p_value == 1


def test_what_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scores, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"regard\[summaries\]"):
        score(["a"], ["a"], ScoreConfig(), names=ROUGE)
