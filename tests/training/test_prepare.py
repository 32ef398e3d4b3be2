"""What preparing does with a corpus: which pairs the tokenizer learns from, and what it warns of."""

from pathlib import Path
from typing import Any

import pytest
from conftest import small_recipe

from regard.config import make_recipe
from regard.tasks.task import Asked
from regard.text import Tokenizer
from regard.training import prepare as module
from regard.training.prepare import prepare_translation

Pairs = list[tuple[str, str]]


def prepared(train: Pairs, out: Path, dev: Pairs, *, seed: int = 1, **tokenizer: Any) -> list[dict[str, Any]]:
    """The events of preparing in a new folder."""
    settings = small_recipe()
    recipe = make_recipe(settings | {"seed": seed, "tokenizer": settings["tokenizer"] | tokenizer})
    out.mkdir()
    events: list[dict[str, Any]] = []
    prepare_translation(Asked(recipe, out, events.append, pairs=train, dev=dev))
    return events


@pytest.fixture
def learned_from(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The texts that each tokenizer was learned from."""
    seen: list[list[str]] = []
    learn = Tokenizer.learn

    def watched(texts: Any, *options: Any) -> Tokenizer:
        seen.append(list(texts))
        return learn(seen[-1], *options)

    monkeypatch.setattr(module.Tokenizer, "learn", watched)
    return seen


def test_a_large_corpus_is_sampled_for_the_tokenizer(
    pairs: Pairs, tmp_path: Path, learned_from: list[list[str]]
) -> None:
    many, dev = pairs[10:] * 10, pairs[:10]
    prepared(many, tmp_path / "all", dev, pairs=len(many))
    for name, seed in (("first", 1), ("again", 1), ("other", 2)):
        prepared(many, tmp_path / name, dev, pairs=300, seed=seed)
    everything, first, again, other = learned_from
    assert everything == [text for pair in many for text in pair]
    assert 200 < len(first) / 2 < 400
    assert first == again != other


def test_two_tokenizers_learn_from_the_two_sides_of_the_same_pairs(
    pairs: Pairs, tmp_path: Path, learned_from: list[list[str]]
) -> None:
    prepared(pairs[10:], tmp_path / "run", pairs[:10], pairs=50, shared=False)
    assert set(zip(*learned_from, strict=True)) <= set(pairs)


def test_dev_pairs_that_are_also_training_pairs_are_told(pairs: Pairs, tmp_path: Path) -> None:
    events = prepared(pairs, tmp_path / "run", [*pairs[:3], ("nowhere else", "en ningún otro sitio")])
    assert [e["text"] for e in events if e["event"] == "warning"] == [
        "3 of 4 dev pairs (75.0%) are also training pairs: scores will flatter"
    ]
