"""Why this output word: probabilities are the model's, and the map is what all masks together say."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from conftest import PEOPLE, THINGS, VERBS, make_pairs

from regard.api import Model
from regard.errors import UserError
from regard.explain import why, why_steps
from regard.explain.translation import Sentence
from regard.text import BOS, EOS, UNK, Tokenizer

TEXT = "the woman buys the bread today"
SPANISH = "la mujer compra el pan hoy"
MEANS = {e.split()[-1]: s.split()[-1] for table in (PEOPLE, VERBS, THINGS) for e, s in table.items()}


def probabilities(model: Model, source: list[int], target: list[int]) -> list[float]:
    """The plain way: one sentence, one token after the other, by the decoding protocol."""
    network = model.bundle.model
    with torch.inference_mode():
        state = network.start(network.encode(torch.tensor([[*source, EOS]])))
        found = []
        for before, token in zip([BOS, *target], target, strict=False):
            logits, state = network.step(torch.tensor([[before]]), state)
            found.append(float(logits.double().softmax(-1)[0, token]))
    return found


def test_scores_are_the_models_probabilities(translator: Model) -> None:
    sentence = Sentence(translator, TEXT, SPANISH, "words", None)
    masks = np.array([[1, 1, 1, 1, 1, 1], [1, 0, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0]], dtype=float)
    scores = sentence.score(masks)
    tokens, target = translator.bundle.source.encode(TEXT), translator.bundle.target.encode(SPANISH)
    kept = [tokens, [tokens[0], *tokens[2:4]], []]
    for row, source in zip(scores, kept, strict=True):
        np.testing.assert_allclose(row, probabilities(translator, source, target), rtol=1e-4)


def test_the_map_is_what_all_masks_say(translator: Model) -> None:
    sentence = Sentence(translator, TEXT, SPANISH, "words", None)
    masks = np.array(list(product([0.0, 1.0], repeat=6)))
    scores = sentence.score(masks)
    exact = [[s[m == 1].mean() - s[m == 0].mean() for m in masks.T] for s in scores.T]
    found = why(translator, TEXT, SPANISH, masks=3000)
    np.testing.assert_allclose(found.values, exact, atol=0.04)
    assert (np.abs(found.values - exact) < 4.5 * found.errors + 1e-9).all()


def test_a_filler_stands_where_a_word_is_hidden(translator: Model) -> None:
    sentence = Sentence(translator, "the man eats", "el hombre", "words", "<unk>")
    tokens = translator.bundle.source.encode("the man eats")
    wanted = probabilities(translator, [tokens[0], UNK, tokens[2]], translator.bundle.target.encode("el hombre"))
    np.testing.assert_allclose(sentence.score(np.array([[1.0, 0.0, 1.0]]))[0], wanted, rtol=1e-4)


def test_a_words_probability_is_the_product_of_its_tokens(translator: Model) -> None:
    letters = Tokenizer.learn(["abcdefghijklmnopqrstuvwxyz el pan"], kind="char", size=len(translator.bundle.target))
    bundle = replace(translator.bundle, target=letters)
    model = Model([bundle])
    found = why(model, "the man", "el pan", masks=8)
    assert found.rows == ("el", "pan")
    tokens = letters.encode("el pan")
    each = probabilities(model, bundle.source.encode("the man"), tokens)
    assert len(each) == 7  # the tokenizer opens with a space
    np.testing.assert_allclose(found.saliency.whole, [np.prod(each[:3]), np.prod(each[3:])], rtol=1e-4)


def test_it_explains_the_models_own_translation(translator: Model) -> None:
    found = why(translator, TEXT, masks=400)
    assert found.output == SPANISH
    assert found.languages == ("en", "es")
    assert found.places == tuple(TEXT.split())
    assert found.rows == tuple(SPANISH.split())
    assert (found.saliency.whole > 0.8).all()
    assert found.top(found.rows.index("pan"), 1)[0][0] == "bread"


def test_the_top_word_is_the_translation_and_deletion_beats_chance(translator: Model) -> None:
    """A real task, on sentences that were not taught: their nouns and verbs."""
    right, areas, random = [], [], []
    for source, target in make_pairs()[200:208]:
        found = why(translator, source, target, masks=256)
        for (row, label), tested in zip(enumerate(found.rows), found.curves(orders=3), strict=True):
            meant = [place for place in found.places if MEANS.get(place) == label]
            if not meant:
                continue
            right.append(found.top(row, 1)[0][0] == meant[0])
            areas.append(tested.deletion.auc)
            random.append(np.mean(tested.deletion.random))
    assert len(right) >= 20
    assert np.mean(right) > 0.85
    assert np.mean(areas) < 0.6 * np.mean(random)


def test_one_word(translator: Model) -> None:
    for word in ("pan", 4):
        found = why(translator, TEXT, word=word, masks=64)
        assert found.rows == ("pan",)
        assert found.values.shape == (1, 6)
    whole = why(translator, TEXT, masks=64)
    np.testing.assert_allclose(found.values[0], whole.values[4], atol=1e-12)


def test_batches_are_bounded_and_change_nothing(translator: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    first = why(translator, TEXT, masks=64)
    sizes = []
    network = translator.bundle.model
    forward = network.forward

    def watched(source: torch.Tensor, *more: torch.Tensor) -> torch.Tensor:
        sizes.append(len(source))
        return forward(source, *more)

    monkeypatch.setattr(network, "forward", watched)
    monkeypatch.setattr("regard.explain.translation.LOGITS", 5 * 6 * len(network.output))
    found = why(translator, TEXT, masks=64)
    assert max(sizes) == 5
    np.testing.assert_allclose(found.values, first.values, atol=1e-5)


def test_an_ensemble_averages_probabilities(translator: Model) -> None:
    twice = Model([translator.bundle, translator.bundle])
    one, two = (Sentence(m, TEXT, SPANISH, "words", None).score(np.ones((1, 6))) for m in (translator, twice))
    np.testing.assert_allclose(one, two, rtol=1e-6)


def test_tokens(translator: Model) -> None:
    found = next(why_steps(translator, "the man eats", by="tokens", masks=8, batch=4))
    assert found.places == ("the", "man", "eats")
    assert found.saliency.masks == 4


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        (" ", {}, "no text"),
        ("the " * 40 + "man", {}, "has 41 tokens, the model is made for 30"),
        (TEXT, {"target": "el " * 40 + "pan"}, "the target has 41 tokens"),
        (TEXT, {"target": " "}, "target is empty"),
        (TEXT, {"word": 9}, "no word of that number; the output has 6 words: la mujer"),
        (TEXT, {"word": "perro"}, "does not stand in the output; choose one"),
        (TEXT, {"target": "el el", "word": "el"}, "more than once"),
        (TEXT, {"by": "characters"}, "words or tokens"),
        (TEXT, {"keep": 2.0}, "keep"),
        (TEXT, {"filler": "the the the the the the the"}, "a text can have 42 tokens, the model is made for 30"),
    ],
)
def test_mistakes_are_told(translator: Model, given: str, options: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        why(translator, given, **options)  # type: ignore[arg-type]
