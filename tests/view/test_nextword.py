"""The beam with a history finds what the fast beam finds, and the next words are the model's probabilities."""

import pytest
import torch

from regard.api import Model
from regard.decode import DecodeOptions
from regard.decode.beam import beam_search
from regard.models import Transformer
from regard.text import BOS, EOS
from regard.view.beam import search
from regard.view.look import look
from regard.view.words import END
from tests.decode.toys import Toy, table
from tests.view.conftest import transformer

CPU = torch.device("cpu")
OPTIONS = [
    DecodeOptions(beam=beam, length_penalty=penalty, max_length=8, **rules)
    for beam in (1, 2, 5)
    for penalty in (0.0, 0.6, 2.0)
    for rules in ({}, {"min_length": 4}, {"no_repeat_ngram": 1})
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_it_finds_what_the_fast_beam_finds(options: DecodeOptions) -> None:
    every = options.model_copy(update={"n_best": options.beam})
    for seed in range(6):
        toy = Toy(table(9, seed))
        source = [5, 6, 7, EOS]
        fast = beam_search([toy], torch.tensor([source]), torch.tensor([4]), every)[0]
        found = search([toy], source, options, CPU)
        assert [h.tokens for h in sorted(found.finished, key=lambda h: -h.score)][: len(fast)] == [
            h.tokens for h in fast
        ]
        assert found.best.tokens == fast[0].tokens
        assert found.best.score == pytest.approx(fast[0].score, abs=1e-5)


def test_it_finds_what_a_transformers_beam_finds() -> None:
    model = transformer(60)
    options = DecodeOptions(beam=4, max_length=10)
    for first in range(5, 25):
        source = [first, first + 7, 9, EOS]
        fast = beam_search([model], torch.tensor([source]), torch.tensor([4]), options)[0][0]
        found = search([model], source, options, CPU)
        assert found.best.tokens == fast.tokens
        assert found.best.log_prob == pytest.approx(fast.log_prob, abs=1e-4)


def test_the_history_is_a_tree_that_leads_to_the_output() -> None:
    found = search([Toy(table(9, 3))], [5, 6, EOS], DecodeOptions(beam=3, max_length=6), CPU)
    for number, step in enumerate(found.steps):
        assert [c.log_prob for c in step] == sorted((c.log_prob for c in step), reverse=True)
        assert sum(c.fate == "kept" for c in step) <= 3
        for candidate in step:
            assert len(candidate.tokens) == number + 1
            assert (candidate.score is not None) == (candidate.fate == "ended")
            if number:
                parent = found.steps[number - 1][candidate.parent]
                assert parent.fate == "kept"
                assert parent.tokens == candidate.tokens[:-1]
    path = found.path()
    assert [found.steps[i][n].tokens[-1] for i, n in enumerate(path)] == [*found.best.tokens, EOS]
    assert sum(c.fate == "ended" for step in found.steps for c in step) == len(found.finished)


def test_probabilities_are_those_of_the_written_output(translator: Model) -> None:
    text, target = "the small dog sleeps", "el perro"
    found = look(translator, text, target).next
    assert found is not None
    assert found.beam is None
    bundle = translator.bundle
    source, written = bundle.source.encode(text), bundle.target.encode(target)
    model: Transformer = bundle.model
    with torch.no_grad():
        state = model.start(model.encode(torch.tensor([[*source, EOS]])))
        for place, (before, token) in enumerate(zip([BOS, *written], [*written, EOS], strict=True)):
            logits, state = model.step(torch.tensor([[before]]), state)
            p = logits[0].softmax(-1)
            step = found.steps[place]
            assert step.probability == pytest.approx(float(p[token]), abs=1e-5)
            assert step.rank == int((p > p[token]).sum()) + 1
            assert [q for _, q in step.top] == pytest.approx(p.topk(10).values.tolist(), abs=1e-5)
    assert found.steps[-1].token == END
    said = found.terminal()
    assert said.count("\n") == len(found.steps) + 1


def test_the_models_own_output_comes_with_its_search(translator: Model) -> None:
    translator.bundle.decode = translator.options(beam=3, max_length=5)
    found = look(translator, "the small dog sleeps")
    assert found.next is not None
    assert found.next.beam is not None
    ended = [c for step in found.next.beam["steps"] for c in step if c["fate"] == "ended"]
    best = max(ended, key=lambda c: c["score"])
    assert best["text"] == found.translation == translator.translate("the small dog sleeps")
    assert best["text"] in found.next.terminal()
