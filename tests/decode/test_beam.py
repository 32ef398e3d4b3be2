"""Beam search against exhaustive search, and the promises it makes to its users."""

import math
from itertools import product
from typing import Any

import pytest
import torch
from decode.toys import Toy, echo, ids, log_probs, padded, table
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor
from torch.nn import functional as F

from regard.decode import DecodeOptions, Hypothesis, beam_search
from regard.decode.beam import BLOCK, top
from regard.errors import UserError
from regard.models import Transformer, TransformerConfig
from regard.text import BOS, EOS, PAD, UNK

V = 7  # three words beside the specials
WORDS = range(4, V)
SOURCES = [[4, 5, 3], [6, 3], [5, 5, 5, 4, 3]]


def search(model: Any, sources: list[list[int]] = SOURCES, **options: Any) -> list[list[Hypothesis]]:
    models = model if isinstance(model, list) else [model]
    return beam_search(models, *padded(sources), DecodeOptions(**options))


def log_prob(logits: Any, source: tuple[int, ...], tokens: tuple[int, ...]) -> float:
    """By teacher forcing, end symbol included."""
    total, prefix = 0.0, (BOS,)
    for token in (*tokens, EOS):
        total += log_probs(logits(source, prefix))[token]
        prefix = (*prefix, token)
    return total


def exhaustive(logits: Any, source: list[int], longest: int, alpha: float) -> list[tuple[float, tuple[int, ...]]]:
    """Every output of up to `longest` words by its normalised score, best first."""
    found = []
    for n in range(longest + 1):
        for tokens in product(WORDS, repeat=n):
            found.append((log_prob(logits, tuple(source), tokens) / ((5 + n + 1) / 6) ** alpha, tokens))
    return sorted(found, reverse=True)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
@pytest.mark.parametrize("seed", range(4))
def test_a_wide_beam_finds_the_global_best_n(seed: int, alpha: float) -> None:
    logits = table(V, seed)
    found = search(Toy(logits), beam=128, n_best=10, max_length=4, length_penalty=alpha)  # 121 outputs there are
    for source, group in zip(SOURCES, found, strict=True):
        best = exhaustive(logits, source, 4, alpha)[:10]
        assert [h.tokens for h in group] == [tokens for _, tokens in best]
        assert [h.score for h in group] == pytest.approx([score for score, _ in best], abs=1e-4)


@pytest.mark.parametrize("beam", [2, 3, 5])
def test_a_narrow_beam_gives_scores_that_are_what_they_say(beam: int) -> None:
    logits = table(V, 3)
    found = search(Toy(logits), beam=beam, n_best=beam, max_length=6, length_penalty=0.6)
    for source, group in zip(SOURCES, found, strict=True):
        assert len(group) == beam
        assert len({h.tokens for h in group}) == beam
        assert [h.score for h in group] == sorted((h.score for h in group), reverse=True)
        for h in group:
            assert h.log_prob == pytest.approx(log_prob(logits, tuple(source), h.tokens), abs=1e-4)
            assert h.score == pytest.approx(h.log_prob / ((5 + len(h.tokens) + 1) / 6) ** 0.6)


def test_alpha_0_ranks_by_log_probability() -> None:
    for group in search(Toy(table(V)), beam=4, n_best=4, max_length=6, length_penalty=0):
        assert [h.score for h in group] == [h.log_prob for h in group]


@pytest.mark.parametrize("seed", range(5))
def test_beam_1_is_greedy(seed: int) -> None:
    logits = table(V, seed)
    for source, (found,) in zip(SOURCES, search(Toy(logits), beam=1, max_length=8), strict=True):
        prefix = [BOS]
        while True:
            allowed = (EOS, *WORDS) if len(prefix) <= 8 else (EOS,)
            scores = logits(tuple(source), tuple(prefix))
            best = max(allowed, key=lambda i: scores[i])
            if best == EOS:
                break
            prefix.append(best)
        assert found.tokens == tuple(prefix[1:])


@given(
    seed=st.integers(0, 1000),
    beam=st.integers(1, 6),
    low=st.integers(0, 4),
    more=st.integers(0, 4),
    n=st.integers(0, 3),
)
@settings(max_examples=40, deadline=None)
def test_lengths_and_repeats_are_honoured(seed: int, beam: int, low: int, more: int, n: int) -> None:
    """Three words: the rules leave no way to go on now and then, and a result comes out all the same."""
    high = max(1, low + more)
    options = {"beam": beam, "n_best": beam, "min_length": low, "max_length": high, "no_repeat_ngram": n}
    for group in search(Toy(table(V, seed)), **options):
        assert group
        for h in group:
            grams = [h.tokens[i : i + n] for i in range(len(h.tokens) - n + 1)] if n else []
            assert len(grams) == len(set(grams))
            assert len(h.tokens) <= high
            assert set(h.tokens) <= set(WORDS)
            assert math.isfinite(h.score)
            if not n:
                assert low <= len(h.tokens)


def test_rules_that_leave_no_way_on_end_the_output() -> None:
    (found,) = search(Toy(table(V)), [[4, 3]], beam=1, no_repeat_ngram=1, min_length=10)
    assert sorted(found[0].tokens) == list(WORDS)  # each word once, then nothing is left


def test_default_limit_is_the_input_and_extra_length_for_each_sentence_by_itself() -> None:
    babble = Toy(lambda s, p: [0, 0, 0, -9, 2, 1, 0])
    assert ids(search(babble, beam=1, extra_length=2)) == [[(4,) * (len(s) + 2)] for s in SOURCES]
    assert ids(search(babble, beam=1, extra_length=2, min_length=6)) == [[(4,) * max(6, len(s) + 2)] for s in SOURCES]
    assert ids(search(babble, beam=1, max_length=3)) == [[(4,) * 3]] * 3


def test_a_models_own_limit_is_kept_whatever_is_asked_for() -> None:
    babble = Toy(lambda s, p: [0, 0, 0, -9, 2, 1, 0], limit=3)
    for options in ({"max_length": 50}, {"min_length": 50}, {}):
        assert {len(h.tokens) for (h,) in search(babble, beam=1, **options)} == {3}
    wider = Toy(lambda s, p: [0, 0, 0, -9, 2, 1, 0], limit=5)
    assert {len(h.tokens) for (h,) in search([wider, babble, Toy(table(V))], beam=1, min_length=50)} == {3}


def test_symbols_that_are_no_output_never_come_out() -> None:
    likely = [9.0, 9.0, 9.0, 0.0, 1.0, 1.0, 1.0]
    assert (likely[PAD], likely[UNK], likely[BOS]) == (9.0, 9.0, 9.0)
    for group in search(Toy(lambda s, p: likely), beam=4, n_best=4, max_length=5):
        assert all(set(h.tokens) <= set(WORDS) for h in group)


def test_a_beam_wider_than_the_vocabulary() -> None:
    found = search(Toy(table(V)), beam=20, n_best=20, max_length=5)
    assert [len(group) for group in found] == [20, 20, 20]


def test_fewer_outputs_than_asked_for_only_where_no_more_exist() -> None:
    found = search(Toy(table(V)), beam=9, n_best=9, max_length=1)
    assert [set(group) for group in ids(found)] == [{(), (4,), (5,), (6,)}] * 3


@pytest.mark.parametrize("beam", [1, 3])
def test_sentences_do_not_feel_their_neighbours(beam: int) -> None:
    toy = Toy(table(V, 8))
    together = search(toy, beam=beam, n_best=beam, max_length=7)
    alone = [search(toy, [s], beam=beam, n_best=beam, max_length=7)[0] for s in SOURCES]
    assert together == alone


def test_echo_is_undisturbed_by_finished_neighbours() -> None:
    sources = [[4 + (i + j) % 3 for j in range(n)] + [EOS] for i, n in enumerate([9, 1, 5, 1, 7])]
    found = search(Toy(echo(V)), sources, beam=3)
    assert ids([group[:1] for group in found]) == [[tuple(s[:-1])] for s in sources]


def test_a_model_that_gives_no_numbers_is_named() -> None:
    with pytest.raises(UserError, match="not numbers"):
        search(Toy(lambda s, p: [math.nan] * V))


# --- ensembles ------------------------------------------------------------------------------------------------------


def test_two_of_the_same_model_are_the_model() -> None:
    toy = Toy(table(V, 5))
    one, two = search(toy, beam=4, n_best=4, max_length=6), search([toy, toy], beam=4, n_best=4, max_length=6)
    assert ids(one) == ids(two)
    for a, b in zip(one, two, strict=True):
        assert [h.score for h in a] == pytest.approx([h.score for h in b], abs=1e-4)


def test_an_ensemble_averages_probabilities() -> None:
    a, b = table(V, 1), table(V, 2)

    def mean(source: Any, prefix: Any) -> list[float]:
        pairs = zip(log_probs(a(source, prefix)), log_probs(b(source, prefix)), strict=True)
        return [math.log((math.exp(x) + math.exp(y)) / 2) for x, y in pairs]

    options = {"beam": 128, "n_best": 5, "max_length": 4, "length_penalty": 0.6}
    for source, group in zip(SOURCES, search([Toy(a), Toy(b)], **options), strict=True):
        best = exhaustive(mean, source, 4, 0.6)[:5]
        assert [h.tokens for h in group] == [tokens for _, tokens in best]
        assert [h.score for h in group] == pytest.approx([score for score, _ in best], abs=1e-4)


# --- the largest of each row ----------------------------------------------------------------------------------------


def check_top(scores: Tensor, count: int) -> None:
    values, places = top(scores, count)
    assert torch.equal(values, scores.topk(min(count, scores.size(1))).values)
    assert torch.equal(scores.gather(1, places), values)
    assert all(len(set(row)) == len(row) for row in places.tolist())


@pytest.mark.parametrize("rows", [1, 3, 4, 33])
@pytest.mark.parametrize("count", [1, 2, 8])
@pytest.mark.parametrize("more", [-1, 0, 1, BLOCK - 1, 5 * BLOCK + 7])
def test_the_largest_are_those_of_topk(rows: int, count: int, more: int) -> None:
    g = torch.Generator().manual_seed(rows)
    scores = torch.randn(rows, 4 * count * BLOCK + more, generator=g)  # fewer than these are not cut into blocks
    check_top(scores, count)
    scores[:, -1] = 9.0  # what is left over after the last whole block counts too
    scores[:, :count] = 8.0  # one block may hold them all
    check_top(scores, count)
    scores[1:, count // 2 :] = -torch.inf
    check_top(scores, count)


@given(
    rows=st.integers(1, 6), width=st.integers(1, 150), count=st.integers(1, 6), kinds=st.integers(1, 30),
    seed=st.integers(0, 2**32),
)  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_the_largest_among_equals_and_impossible_ones(rows: int, width: int, count: int, kinds: int, seed: int) -> None:
    """Few different values, -inf among them, over small blocks."""
    values = torch.tensor([-math.inf, *range(kinds)])
    drawn = torch.randint(len(values), (rows, width), generator=torch.Generator().manual_seed(seed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.decode.beam.BLOCK", 4)
        check_top(values[drawn], count)


# --- the Transformer ------------------------------------------------------------------------------------------------


def transformer(**options: Any) -> Transformer:
    torch.manual_seed(4)
    shape: dict[str, Any] = {"d_model": 16, "d_ff": 32, "heads": 2, "encoder_layers": 2, "decoder_layers": 2}
    vocabulary = {"source_vocabulary": 20, "target_vocabulary": 20}
    model = Transformer(TransformerConfig(**{**shape, **vocabulary, **options})).eval()
    with torch.no_grad():
        model.output.mul_(2)  # sharper, so that near-ties are rare
    return model


def sentences() -> list[list[int]]:
    g = torch.Generator().manual_seed(0)
    return [[*torch.randint(4, 20, (n,), generator=g).tolist(), EOS] for n in (3, 17, 1, 8, 8)]


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "learned"])
@pytest.mark.parametrize("beam", [1, 4])
def test_transformer_scores_are_the_log_probabilities_of_a_forward_pass(beam: int, positions: str) -> None:
    model = transformer(positions=positions)
    found = search(model, sentences(), beam=beam, n_best=beam, extra_length=6)
    for source, group in zip(sentences(), found, strict=True):
        assert len(group) == beam
        for h in group:
            with torch.inference_mode():
                states = model(torch.tensor([source]), None, torch.tensor([[BOS, *h.tokens]]))
                steps = F.linear(states, model.output).log_softmax(-1)[0]
            forced = sum(float(steps[i, token]) for i, token in enumerate((*h.tokens, EOS)))
            assert h.log_prob == pytest.approx(forced, abs=1e-4)


@pytest.mark.parametrize("beam", [1, 4])
def test_transformer_sentences_do_not_feel_their_neighbours(beam: int) -> None:
    model = transformer()
    together = search(model, sentences(), beam=beam, n_best=beam, extra_length=6)
    for source, group in zip(sentences(), together, strict=True):
        (alone,) = search(model, [source], beam=beam, n_best=beam, extra_length=6)
        assert ids([alone]) == ids([group])
        assert [h.log_prob for h in alone] == pytest.approx([h.log_prob for h in group], abs=1e-4)


# --- options --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_best": 5, "beam": 4}, "n_best 5 needs a beam of at least 5; it is 4"),
        ({"min_length": 5, "max_length": 4}, "min_length 5 is above max_length 4"),
        ({"beam": 0}, "greater than or equal to 1"),
        ({"beem": 4}, "beem"),
    ],
)
def test_options_that_cannot_be(options: dict[str, int], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        DecodeOptions(**options)


def test_sampling_may_give_more_than_the_beam() -> None:
    assert DecodeOptions(sample=True, n_best=50).n_best == 50


@pytest.mark.parametrize("length", [1, 2, 10, 300])
def test_length_penalty_is_the_papers(length: int) -> None:
    assert DecodeOptions(length_penalty=0.6).normalise(-3.0, length) == pytest.approx(-3 / ((5 + length) / 6) ** 0.6)
    assert DecodeOptions(length_penalty=0).normalise(-3.0, length) == -3
    assert DecodeOptions(length_penalty=0.6).normalise(-3.0, 1) == -3  # lp of one symbol is 1
