"""Sampling: the distribution it claims, the rules it keeps, draws that depend on seed, sentence and position alone."""

import math
from typing import Any

import pytest
import torch
from decode.toys import Toy, fixed, ids, log_probs, padded, table
from torch import Tensor

from regard.decode import DecodeOptions, Hypothesis, beam_search, sample
from regard.decode.sample import BLOCK, pick
from regard.text import BOS, EOS

V = 8
SOURCES = [[4, 5, 3], [6, 3], [5, 5, 5, 4, 3]]
KNOWN = {EOS: 0.1, 4: 0.4, 5: 0.3, 6: 0.15, 7: 0.05}


def draw(model: Any, sources: list[list[int]] = SOURCES, numbers: Any = None, **options: Any) -> list[list[Hypothesis]]:
    models = model if isinstance(model, list) else [model]
    return sample(models, *padded(sources), DecodeOptions(sample=True, **options), numbers)


def frequencies(count: int = 4000, **options: Any) -> dict[int, float]:
    """How often each token is drawn first (EOS: an empty output)."""
    (group,) = draw(Toy(fixed(KNOWN, V)), [[4, 3]], n_best=count, max_length=1, **options)
    first = [h.tokens[0] if h.tokens else EOS for h in group]
    return {token: first.count(token) / count for token in sorted(set(first))}


def expect(found: dict[int, float], weights: dict[int, float], count: int = 4000) -> None:
    assert set(found) == set(weights)
    total = sum(weights.values())
    for token, weight in weights.items():
        p = weight / total
        assert abs(found[token] - p) <= 4.5 * math.sqrt(p * (1 - p) / count), token


def test_frequencies_are_the_models_probabilities() -> None:
    expect(frequencies(), KNOWN)


def test_temperature_raises_probabilities_to_a_power() -> None:
    expect(frequencies(temperature=0.5), {token: p**2 for token, p in KNOWN.items()})
    expect(frequencies(temperature=2.0), {token: p**0.5 for token, p in KNOWN.items()})


def test_top_k_keeps_the_k_likeliest() -> None:
    expect(frequencies(top_k=2), {4: 0.4, 5: 0.3})


def test_the_nucleus_includes_the_token_that_crosses() -> None:
    expect(frequencies(top_p=0.75), {4: 0.4, 5: 0.3, 6: 0.15})
    expect(frequencies(top_p=0.69), {4: 0.4, 5: 0.3})
    expect(frequencies(top_p=0.39), {4: 0.4})


def test_the_nucleus_is_a_share_of_what_top_k_left() -> None:
    expect(frequencies(top_k=3, top_p=0.8), {4: 0.4, 5: 0.3})  # of 0.85 in all; 0.7 / 0.85 = 0.82


@pytest.mark.parametrize("options", [{}, {"top_k": 2}, {"top_p": 0.5}, {"temperature": 0.01}])
def test_every_draw_picks_an_allowed_token(options: dict[str, Any]) -> None:
    row = torch.tensor([[-torch.inf, -torch.inf, -torch.inf, -9.0, -1.0, -1.0, -2.0, -torch.inf]])
    draws = torch.cat([torch.linspace(0, 1, 1001)[:-1], torch.tensor([1 - 2**-24])])
    found = pick(row.expand(len(draws), -1), draws, DecodeOptions(sample=True, **options))
    assert set(found.tolist()) <= {3, 4, 5, 6}


@pytest.mark.parametrize("options", [{}, {"top_k": 40}, {"top_k": 700, "top_p": 0.5}, {"top_p": 0.05}, {"top_p": 0.9}])
@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_a_large_vocabulary_is_drawn_from_by_the_plain_rule(options: dict[str, Any], temperature: float) -> None:
    """Without sorting all of it, if the nucleus is small: two rows, of which one is nearly flat."""
    count, draws = 3000, 3000
    rows = torch.randn(2, count, generator=torch.Generator().manual_seed(1)) * torch.tensor([[3.0], [0.1]])
    for row in rows:
        chosen = DecodeOptions(sample=True, temperature=temperature, **options)
        found = torch.cat([pick(row.expand(100, -1), part, chosen) for part in torch.rand(draws).split(100)])
        probs, order = (row.double() / temperature).softmax(0).sort(descending=True)
        probs[chosen.top_k or count :] = 0
        probs[(probs.cumsum(0) - probs) / probs.sum() >= chosen.top_p] = 0
        allowed = set(order[probs > 0].tolist())
        assert set(found.tolist()) <= allowed
        half = order[: int((probs.cumsum(0) / probs.sum() < 0.5).sum()) + 1]  # the likeliest, with half of the mass
        share = float(probs[: len(half)].sum() / probs.sum())
        assert abs(float(torch.isin(found, half).float().mean()) - share) <= 4.5 * math.sqrt(0.25 / draws)


@pytest.mark.parametrize("options", [{"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-4}])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_sharpest_sampling_is_greedy(options: dict[str, Any], seed: int) -> None:
    toy = Toy(table(V, 2))
    greedy = beam_search([toy], *padded(SOURCES), DecodeOptions(beam=1, max_length=8))
    assert ids(draw(toy, max_length=8, seed=seed, **options)) == ids(greedy)


def test_scores_are_the_models_own_whatever_the_temperature() -> None:
    logits = table(V, 1)
    found = draw(Toy(logits), n_best=5, max_length=6, temperature=3.0, top_k=4)
    for source, group in zip(SOURCES, found, strict=True):
        assert len(group) == 5
        assert [h.score for h in group] == sorted((h.score for h in group), reverse=True)
        for h in group:
            total, prefix = 0.0, (BOS,)
            for token in (*h.tokens, EOS):
                total += log_probs(logits(tuple(source), prefix))[token]
                prefix = (*prefix, token)
            assert h.log_prob == pytest.approx(total, abs=1e-4)


def test_the_seed_decides() -> None:
    toy = Toy(table(V, 1, spread=0.5))
    assert draw(toy, seed=3, n_best=3) == draw(toy, seed=3, n_best=3)
    assert ids(draw(toy, seed=3, n_best=3)) != ids(draw(toy, seed=4, n_best=3))


def test_outputs_of_one_sentence_differ_from_one_another() -> None:
    (group,) = draw(Toy(table(V, 1, spread=0.5)), [[4, 3]], n_best=10)
    assert len({h.tokens for h in group}) > 5


def test_a_draw_does_not_feel_the_neighbours() -> None:
    toy = Toy(table(V, 1, spread=0.5))
    together = draw(toy, n_best=3)
    for number, source in enumerate(SOURCES):
        assert draw(toy, [source], [number], n_best=3) == [together[number]]
    assert draw(toy, SOURCES[::-1], [2, 1, 0], n_best=3) == together[::-1]


def test_equal_sentences_with_different_numbers_are_drawn_apart() -> None:
    same = draw(Toy(table(V, 1, spread=0.3)), [[4, 5, 3]] * 6)
    assert len({group[0].tokens for group in same}) > 3


@pytest.mark.parametrize("n", [1, 2, 3])
def test_rules_are_kept_also_when_some_rows_have_ended(n: int) -> None:
    """Ended rows wait for the others; a rule must not count their end symbols as a repetition."""
    for group in draw(Toy(table(V, 1, spread=0.5)), n_best=20, no_repeat_ngram=n, min_length=2, max_length=9):
        assert len({len(h.tokens) for h in group}) > 1
        for h in group:
            grams = [h.tokens[i : i + n] for i in range(len(h.tokens) - n + 1)]
            assert len(grams) == len(set(grams))
            assert 2 <= len(h.tokens) <= 9
            assert set(h.tokens) <= set(range(4, V))
            assert math.isfinite(h.log_prob)


def test_sentences_that_have_ended_leave_the_batch() -> None:
    rows: list[int] = []

    def logits(source: tuple[int, ...], prefix: tuple[int, ...]) -> list[float]:
        wanted = 4 if len(prefix) < 2 * len(source) else EOS
        return [30.0 if i == wanted else 0.0 for i in range(V)]

    class Counting(Toy):
        def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
            rows.append(len(tokens))
            return super().step(tokens, state)

    sources = [[4] * size + [3] for size in (9, 1, 1, 4)]
    found = draw(Counting(logits), sources, n_best=2, max_length=30)
    assert [[len(h.tokens) for h in group] for group in found] == [[2 * len(s) - 1] * 2 for s in sources]
    assert rows == [4] + [8] * 3 + [4] * 6 + [2] * 10


def test_limits_end_an_output() -> None:
    babble = Toy(lambda s, p: [9.0, 9.0, 9.0, -30, 2, 1, 0, 0])
    assert [len(g[0].tokens) for g in draw(babble, extra_length=2)] == [len(s) + 2 for s in SOURCES]
    babble.limit = 3
    assert [len(g[0].tokens) for g in draw(babble, min_length=20)] == [3, 3, 3]


def test_an_ensemble_is_sampled_from_its_mean() -> None:
    a, b = {4: 0.8, 5: 0.1, EOS: 0.1}, {4: 0.1, 5: 0.6, EOS: 0.3}
    (group,) = draw([Toy(fixed(a, V)), Toy(fixed(b, V))], [[4, 3]], n_best=4000, max_length=1)
    first = [h.tokens[0] if h.tokens else EOS for h in group]
    expect({t: first.count(t) / 4000 for t in set(first)}, {4: 0.45, 5: 0.35, EOS: 0.2})


def test_draws_of_a_long_output_begin_like_those_of_a_short_one() -> None:
    def tokens(longest: int) -> Tensor:
        (group,) = draw(Toy(fixed({4: 0.5, 5: 0.3, 6: 0.2 - 1e-9, EOS: 1e-9}, V)), [[4, 3]], max_length=longest)
        return torch.tensor(group[0].tokens)

    assert torch.equal(tokens(100)[:20], tokens(20))


def test_what_may_become_long_costs_what_it_becomes(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what does become longer than a block of draws goes on as it began."""
    drawn: list[int] = []

    def counted(*size: int, rand: Any = torch.rand, **how: Any) -> Tensor:
        drawn.append(math.prod(size))
        return rand(*size, **how)  # type: ignore[no-any-return]

    monkeypatch.setattr(torch, "rand", counted)
    words = {4: 0.5, 5: 0.3, 6: 0.2 - 2e-3, EOS: 2e-3}
    (short,), (long,) = (
        draw(Toy(fixed(words, V)), [[4, 3]], max_length=longest, n_best=3) for longest in (20, 1_000_000)
    )
    longest = max(len(h.tokens) for h in long)
    assert longest > BLOCK
    assert sum(drawn) <= 3 * (longest + 2 * BLOCK) + 3 * BLOCK
    assert {h.tokens for h in short} == {h.tokens[:20] for h in long}


def test_a_row_takes_its_draws_along_when_others_leave() -> None:
    """Past the first block of draws too."""

    def logits(source: tuple[int, ...], prefix: tuple[int, ...]) -> list[float]:
        words = [math.log(known) if (known := KNOWN.get(token, 0)) and token != EOS else -60.0 for token in range(V)]
        words[EOS] = 60.0 if len(prefix) > 40 * len(source) else -60.0
        return words

    toy, sources = Toy(logits), [[4, 3], [4] * 8 + [3], [5, 3], [6, 3]]
    together = draw(toy, sources, n_best=2, max_length=1000)
    assert len(together[1][0].tokens) > BLOCK > len(together[0][0].tokens)
    for number, source in enumerate(sources):
        assert draw(toy, [source], [number], n_best=2, max_length=1000) == [together[number]]


def test_more_outputs_are_added_to_those_there_are() -> None:
    toy = Toy(table(V, 1, spread=0.5))
    few, more = (draw(toy, n_best=count) for count in (2, 5))
    for group, larger in zip(few, more, strict=True):
        assert {h.tokens for h in group} <= {h.tokens for h in larger}
