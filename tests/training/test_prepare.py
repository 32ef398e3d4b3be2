"""What preparing does with a corpus: which pairs the tokenizer learns from, and what it warns of."""

from pathlib import Path
from typing import Any

import pytest
from conftest import small_recipe

from regard.config import make_recipe
from regard.errors import UserError
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


def test_what_scores_need_is_asked_for_before_training(
    pairs: Pairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.tasks.scores.find_spec", lambda name: None)
    recipe = make_recipe(small_recipe() | {"task": "summarisation"})
    with pytest.raises(UserError, match="rouge-score"):
        prepare_translation(Asked(recipe, tmp_path, print, pairs=pairs))

    def absent(**_: Any) -> None:
        raise RuntimeError("Please install MeCab")

    monkeypatch.setattr("regard.tasks.scores.BLEU", absent)
    recipe = make_recipe(small_recipe() | {"score": {"tokenize": "ja-mecab"}})
    with pytest.raises(UserError, match="ja-mecab cannot be used: Please install MeCab"):
        prepare_translation(Asked(recipe, tmp_path, print, pairs=pairs))


def test_pairs_of_dev_and_test_that_are_left_out_are_told(pairs: Pairs, tmp_path: Path) -> None:
    (tmp_path / "test.tsv").write_text("the man\tel hombre\n\tnada\n")
    recipe = make_recipe(small_recipe() | {"data": {"test": [str(tmp_path / "test.tsv")]}})
    events: list[dict[str, Any]] = []
    prepare_translation(Asked(recipe, tmp_path, events.append, pairs=pairs, dev=pairs[:5]))
    assert "the test set: 1 pairs; dropped 1 with an empty side" in [event["text"] for event in events]


def test_dev_pairs_that_are_all_too_long_are_told_at_once(pairs: Pairs, tmp_path: Path) -> None:
    recipe = make_recipe(small_recipe() | {"data": {"max_length": 8}})
    with pytest.raises(UserError, match=r"every dev pair is longer than data\.max_length = 8"):
        prepare_translation(Asked(recipe, tmp_path, print, pairs=pairs, dev=[("the man " * 9, "el hombre " * 9)]))


def test_dev_pairs_that_are_also_training_pairs_are_told(pairs: Pairs, tmp_path: Path) -> None:
    events = prepared(pairs, tmp_path / "run", [*pairs[:3], ("nowhere else", "en ningún otro sitio")])
    assert [e["text"] for e in events if e["event"] == "warning"] == [
        "3 of 4 dev pairs (75.0%) are also training pairs: scores will flatter"
    ]
