"""Writing on from a prompt: identities of sampling, penalties and stop texts by hand, pieces that cut nothing."""

import json
import math
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from decode.toys import Toy, fixed, log_probs, padded, table
from typer.testing import CliRunner

from regard.api import Model
from regard.bundle import Bundle
from regard.cli import app
from regard.decode import DecodeOptions, Sampler, beam_search, sample
from regard.decode.spelling import Spelling
from regard.decode.writer import Writer
from regard.errors import UserError
from regard.models import GPT, GPTConfig
from regard.text import EOS, Specials, Tokenizer

TEXT = "the naïve café: 日本語 🙂 and the cat"
OURS = Specials()
V = 12


def none(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(count, 0, dtype=torch.long), torch.zeros(count, dtype=torch.long)


def draw(toy: Toy, starts: list[list[int]], specials: Specials = OURS, numbers: Any = None, **options: Any) -> Any:
    chosen = DecodeOptions(sample=True, **{"max_length": 8} | options)
    return sample([toy], *none(len(starts)), chosen, numbers, starts, specials)


# --- prompts --------------------------------------------------------------------------------------------------------


def test_a_start_is_read_and_not_scored() -> None:
    logits = table(V, 3)
    for start, (found,) in zip(STARTS, draw(Toy(logits), STARTS), strict=True):
        total, prefix = 0.0, tuple(start)
        for token in (*found.tokens, EOS):
            total += log_probs(logits((), prefix))[token]
            prefix = (*prefix, token)
        assert found.log_prob == pytest.approx(total, abs=1e-4)


STARTS = [[5, 6, 7, 8, 9], [4], [10, 4, 4]]


def test_rows_of_a_batch_do_not_feel_each_other() -> None:
    """Whatever the lengths of their starts, and whichever ends first."""
    toy = Toy(table(V, 1, spread=0.7))
    together = draw(toy, STARTS, n_best=3)
    for number, start in enumerate(STARTS):
        assert draw(toy, [start], numbers=[number], n_best=3) == [together[number]]


def test_a_stopped_row_changes_no_other() -> None:
    toy = Toy(fixed({4: 0.5, 5: 0.5 - 1e-9, EOS: 1e-9}, V))
    options = DecodeOptions(sample=True, max_length=8)
    free, held = (Sampler([toy], *none(3), options, None, STARTS, OURS) for _ in range(2))
    for step in range(20):
        free.step()
        held.step()
        if step == 6:
            held.stop(1)
    assert held.written(1).tokens == free.written(1).tokens[: len(held.written(1).tokens)]
    assert len(held.written(1).tokens) < len(free.written(1).tokens)
    for row in (0, 2):
        assert held.written(row) == free.written(row)


@pytest.mark.parametrize("options", [{"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-4}])
def test_the_sharpest_sampling_after_a_prompt_is_greedy(options: dict[str, Any]) -> None:
    toy = Toy(table(V, 2))
    for start in STARTS:
        (expected,) = beam_search([toy], *none(1), DecodeOptions(beam=1, max_length=8), torch.tensor([start]), OURS)
        ((found,),) = draw(toy, [start], **options)
        assert found.tokens == expected[0].tokens
        assert found.log_prob == pytest.approx(expected[0].log_prob, abs=1e-5)


def test_limits_count_what_is_written() -> None:
    toy = Toy(fixed({4: 0.9, EOS: 0.1}, V))
    assert {len(group[0].tokens) for group in draw(toy, STARTS, min_length=5, max_length=5)} == {5}


def test_symbols_are_the_tokenizers_own() -> None:
    """One symbol that begins, ends and pads, at the end of the vocabulary; ours are plain tokens there."""
    end = Specials(V - 1, V - 1, V - 1, V - 1)
    toy = Toy(fixed({0: 0.3, 1: 0.2, 2: 0.2, 3: 0.2, V - 1: 0.1}, V))
    found = draw(toy, [[V - 1]] * 200, end, max_length=30)
    assert {token for (h,) in found for token in h.tokens} == {0, 1, 2, 3}
    assert len({len(h.tokens) for (h,) in found}) > 5
    punished = draw(toy, [[V - 1]] * 50, end, repetition_penalty=50.0)
    assert any(not h.tokens for (h,) in punished)  # to end is no repetition of the beginning
    other = Specials(pad=7, unk=8, begin=9, end=10)
    toy = Toy(fixed({7: 0.3, 8: 0.3, 9: 0.3, 4: 0.05, 10: 0.05}, V))
    assert {token for (h,) in draw(toy, [[9]] * 50, other) for token in h.tokens} == {4}


def test_translations_can_be_begun_too() -> None:
    logits = table(V, 4)
    found = sample([Toy(logits)], *padded([[4, 3], [5, 3]]), DecodeOptions(sample=True, top_k=1), None, [[2, 7], [2]])
    wanted = [7, *found[0][0].tokens]
    for i in range(1, len(wanted)):
        row = logits((4, 3), (2, *wanted[:i]))
        assert max((p, t) for t, p in enumerate(row) if t > 2)[1] == wanted[i]


# --- the penalty, by hand ---------------------------------------------------------------------------------------------


def test_repetition_is_less_likely() -> None:
    """p = 1/2, 1/4, 1/4; what was there counts with its log-probability doubled: 1/4 in place of 1/2, 1/16 of 1/4."""
    toy, count = Toy(fixed({4: 0.5, 5: 0.25, 6: 0.25, EOS: 1e-12}, V)), 4000

    def first(start: list[int], penalty: float) -> dict[int, float]:
        (group,) = draw(toy, [start], n_best=count, max_length=1, repetition_penalty=penalty)
        tokens = [h.tokens[0] for h in group]
        return {token: tokens.count(token) / count for token in (4, 5, 6)}

    for start, penalty, weights in (
        ([7], 2.0, (0.5, 0.25, 0.25)),
        ([4, 7], 2.0, (0.25, 0.25, 0.25)),
        ([5, 5, 7], 2.0, (0.5, 0.0625, 0.25)),
        ([4, 5, 6], 2.0, (0.25, 0.0625, 0.0625)),
        ([4, 7], 1.0, (0.5, 0.25, 0.25)),
    ):
        found = first(start, penalty)
        for token, weight in zip((4, 5, 6), weights, strict=True):
            p = weight / sum(weights)
            assert abs(found[token] - p) < 4.5 * math.sqrt(p * (1 - p) / count), (start, token)


def test_the_penalty_is_that_of_transformers() -> None:
    """On logits of both signs, where it could break a loop; log p of what loops is almost 0, whatever its factor."""
    from transformers import RepetitionPenaltyLogitsProcessor

    logits = torch.tensor([[-60.0, -60, -60, -60, -30.0, -31.0, -32.0, *[-50.0] * (V - 7)]])
    for shift in (0.0, 31.5, 60.0):
        toy = Toy(lambda source, prefix, shift=shift: (logits[0] + shift).tolist())
        for start in ([4], [4, 5], [7]):
            expected = RepetitionPenaltyLogitsProcessor(1.3)(torch.tensor([start]), logits + shift)[0].softmax(-1)
            (group,) = draw(toy, [start], n_best=2000, max_length=1, repetition_penalty=1.3)
            found = torch.bincount(torch.tensor([h.tokens[0] for h in group]), minlength=V) / 2000
            assert (found - expected).abs().max() < 0.05, (shift, start)


def test_the_penalty_does_not_touch_the_scores() -> None:
    ((found,),) = draw(
        Toy(fixed({4: 0.75, 5: 0.25, EOS: 1e-12}, V)), [[7]], repetition_penalty=3.0, max_length=1, top_k=1
    )
    assert found.tokens == (4,)
    ((found,),) = draw(Toy(fixed({4: 0.75, 5: 0.2, EOS: 0.05}, V)), [[4]], repetition_penalty=9.0, top_k=1)
    assert found.tokens[0] == 5  # 0.75^9 = 0.075
    expected = sum(math.log({4: 0.75, 5: 0.2, EOS: 0.05}[t]) for t in (*found.tokens, EOS))
    assert found.log_prob == pytest.approx(expected, abs=1e-4)


def test_penalties_and_biases_are_taken_off_the_logits() -> None:
    """logit + bias - count frequency - (count > 0) presence, over what was written, not what was given."""
    logits, starts = table(V, 5, spread=0.3), [[4], [5, 4, 4], [6, 6]]
    bias, frequency, presence = {5: 0.4, 7: -0.3}, 0.7, 0.2
    options = {"frequency_penalty": frequency, "presence_penalty": presence, "logit_bias": bias, "max_length": 12}
    found = draw(Toy(logits), starts, top_k=1, min_length=12, n_best=2, **options)
    plain = draw(Toy(logits), starts, top_k=1, min_length=12, max_length=12)
    for start, group, (other,) in zip(starts, found, plain, strict=True):
        written: list[int] = []
        for _ in range(12):
            row = [
                logit + bias.get(t, 0) - written.count(t) * frequency - (t in written) * presence
                for t, logit in enumerate(logits((), (*start, *written)))
            ]
            written.append(max(range(4, V), key=row.__getitem__))
        assert [h.tokens for h in group] == [tuple(written)] * 2
        assert other.tokens != tuple(written)
    assert DecodeOptions(logit_bias=bias) == DecodeOptions(logit_bias=tuple(bias.items()))  # type: ignore[arg-type]
    ((sure,),) = draw(Toy(logits), [[4]], logit_bias={6: 100}, max_length=3, min_length=3)
    assert sure.tokens == (6, 6, 6)
    total = sum(log_probs(logits((), (4, *[6] * n)))[6 if n < 3 else EOS] for n in range(4))
    assert sure.log_prob == pytest.approx(total, abs=1e-4)  # the model's own


# --- spelling -------------------------------------------------------------------------------------------------------


def test_a_long_stop_text_costs_no_more_than_a_short_one() -> None:
    tokenizer = Tokenizer.learn([], "byte")
    spelling, began = Spelling(tokenizer, ["a" * 1_000_000]), time.process_time()
    for token in tokenizer.encode("bab" * 50):
        spelling.add(token)
    assert time.process_time() - began < 1  # each of them took a minute


@pytest.mark.parametrize("kind", ["bpe", "unigram", "byte", "char", "word"])
def test_pieces_are_the_text_and_cut_no_character(kind: str) -> None:
    tokenizer = Tokenizer.learn([TEXT], kind, 300)
    spelling = Spelling(tokenizer, opening=tokenizer.opening)
    pieces = [spelling.add(token) for token in tokenizer.encode(TEXT)]
    assert "".join([*pieces, spelling.finish()]) == spelling.text == TEXT
    assert all("\ufffd" not in piece for piece in pieces)


def test_what_ends_inside_a_character_is_told_at_the_end() -> None:
    tokenizer = Tokenizer.learn([], "byte")
    spelling = Spelling(tokenizer)
    first, *_ = tokenizer.encode("é")[1:]
    assert spelling.add(first) == ""
    assert spelling.finish() == "\ufffd"


@pytest.mark.parametrize(
    ("stop", "text", "expected"),
    [
        (["\n\n"], "one\ntwo\n\nthree", "one\ntwo"),
        (["ab", "b"], "xxabyy", "xx"),  # the earliest
        (["b", "ab"], "xxabyy", "xx"),
        (["aab"], "aaaab", "aa"),
        (["abc"], "ab", "ab"),  # it only began
        (["é!"], "é é!", "é "),
        ([""], "all", "all"),
        (["x"], "xyz", ""),
    ],
)
def test_stop_texts_cut_exactly(stop: list[str], text: str, expected: str) -> None:
    tokenizer = Tokenizer.learn([], "byte")
    spelling = Spelling(tokenizer, stop, tokenizer.opening)
    pieces = []
    for token in tokenizer.encode(text):
        if not spelling.stopped:
            pieces.append(spelling.add(token))
    pieces.append(spelling.finish())
    assert "".join(pieces) == spelling.text == expected
    assert spelling.stopped == (expected != text)


# --- texts ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    """A model that knows nothing but writes readily."""
    torch.manual_seed(3)
    tokenizer = Tokenizer.learn([TEXT], "byte")
    config = GPTConfig(d_model=16, d_ff=32, heads=2, layers=1, vocabulary=len(tokenizer), max_positions=24)
    model = GPT(config).eval()
    with torch.no_grad():
        model.tokens.weight.mul_(20)
    return Bundle(model, tokenizer, tokenizer, ("text", "text"), 24, name="gpt", task="language")


@pytest.fixture(scope="module")
def writer(bundle: Bundle) -> Writer:
    return Writer([bundle.model], bundle.source, DecodeOptions(sample=True, max_length=60, seed=5))


@pytest.mark.parametrize("prompt", ["", "the cat", "the naïve café: 日本語 and a prompt beyond the window"])
@pytest.mark.parametrize("stop", [(), ("e",), ("a", "t")])
def test_streaming_is_not_streaming(writer: Writer, prompt: str, stop: tuple[str, ...]) -> None:
    options = writer.options.model_copy(update={"stop": stop, "temperature": 0.7})
    ((whole,),) = writer.write([prompt], options)
    pieces = list(writer.stream(prompt, options))
    assert "".join(pieces) == whole.text
    assert all(pieces)
    assert not any(s in whole.text for s in stop)


def test_a_prompt_alone_and_among_others_is_the_same(writer: Writer) -> None:
    prompts = ["the", "", "the naïve café: 日本語 and more than the window holds", "a"]
    options = writer.options.model_copy(update={"n_best": 2, "stop": ("a", "e")})
    together = writer.write(prompts, options)
    for i, prompt in enumerate(prompts):
        (alone,) = writer.write([prompt], options, first=i)
        assert [(g.text, g.tokens, g.reason) for g in alone] == [(g.text, g.tokens, g.reason) for g in together[i]]


def test_the_seed_replays(writer: Writer) -> None:
    def text(seed: int) -> str:
        return writer.write(["the"], writer.options.model_copy(update={"seed": seed}))[0][0].text

    assert text(1) == text(1)
    assert len({text(seed) for seed in range(5)}) == 5


def test_it_says_why_a_text_ends(writer: Writer) -> None:
    def reasons(**changes: Any) -> set[str]:
        options = writer.options.model_copy(update={"n_best": 20} | changes)
        return {made.reason for made in writer.write(["the"], options)[0]}

    assert reasons(max_length=3) == {"length"}
    assert reasons(stop=tuple(map(chr, range(128))), max_length=500) == {"stop"}
    assert "end" in reasons(max_length=5000, n_best=1)


@pytest.mark.parametrize("changes", [{"max_length": 3}, {"stop": ("e", "t"), "max_length": 50}, {"max_length": 5000}])
def test_a_stream_says_why_it_ends_too(writer: Writer, changes: dict[str, Any]) -> None:
    options = writer.options.model_copy(update=changes)
    pieces, reason = writer.stream("the", options), ""
    while not reason:
        try:
            next(pieces)
        except StopIteration as stop:
            reason = stop.value
    assert reason == writer.write(["the"], options)[0][0].reason


def test_an_end_that_was_not_written_is_not_counted(writer: Writer) -> None:
    """A text that was cut is as likely as its tokens are."""
    options = writer.options.model_copy(update={"max_length": 1, "n_best": 5})
    start = torch.tensor([writer.tokenizer.encode("the")])
    with torch.inference_mode():
        model = writer.models[0]
        logits, _ = model.step(start, model.start(model.encode(torch.zeros(1, 0, dtype=torch.long), torch.zeros(1))))
    known = logits.log_softmax(-1)[0]
    for made in writer.write(["the"], options)[0]:
        assert made.tokens == 1
        assert float((known - made.log_prob).abs().min()) < 1e-5  # one of the tokens has just this probability


def test_a_search_that_comes_upon_a_stop_text_counts_to_there(writer: Writer) -> None:
    options = writer.options.model_copy(update={"sample": False, "beam": 2, "max_length": 20})
    whole = writer.write(["the"], options)[0][0]
    stopped = writer.write(["the"], options.model_copy(update={"stop": (whole.text[2],)}))[0][0]
    assert stopped.reason == "stop"
    assert stopped.tokens < whole.tokens


def test_a_search_writes_too(writer: Writer) -> None:
    greedy = writer.options.model_copy(update={"top_k": 1, "max_length": 20})
    searched = writer.options.model_copy(update={"sample": False, "beam": 1, "max_length": 20})
    assert writer.write(["the"], searched)[0][0].text == writer.write(["the"], greedy)[0][0].text
    assert "".join(writer.stream("the", searched)) == writer.write(["the"], searched)[0][0].text
    wide = searched.model_copy(update={"beam": 4, "n_best": 3, "length_penalty": 0.0})
    (found,) = writer.write(["the"], wide)
    assert [g.log_prob for g in found] == sorted((g.log_prob for g in found), reverse=True)


def test_the_command(bundle: Bundle, tmp_path: Path) -> None:
    bundle.save(tmp_path / "model")

    def run(*words: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, ["generate", str(tmp_path / "model"), *words])
        assert (done.exit_code == 0) == (code == 0), done.output
        return done.stdout

    options = ["--seed", "4", "--max-tokens", "12", "--temperature", "0.8", "--top-k", "50", "--top-p", "0.9"]
    shown = run("the cat", *options)
    assert shown.startswith("the cat")
    assert run("the cat", *options) == shown
    (line,) = run("the cat", *options, "--json").splitlines()
    assert "the cat" + json.loads(line)["text"] + "\n" == shown
    (tmp_path / "prompts.txt").write_text("the cat\na dog\n")
    lines = run("--prompts", str(tmp_path / "prompts.txt"), *options, "--n", "2", "--json").splitlines()
    assert [json.loads(line)["prompt"] for line in lines] == ["the cat", "the cat", "a dog", "a dog"]
    assert run("--prompts", str(tmp_path / "prompts.txt"), *options).count("---\n") == 1
    stopped = run("the", *options, "--stop", json.loads(line)["text"][:1] or "x", "--json")
    assert "reason" in stopped
    assert run("x", "--prompts", str(tmp_path / "prompts.txt"), code=1) == ""
    (tmp_path / "prompts.txt").write_text("the cat\n")
    assert run("--prompts", str(tmp_path / "prompts.txt"), *options) == shown


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"beam": {"a": 1}}, "decode option beam"),
        ({"stop": [["a"]]}, "decode option stop"),
        ({"min_length": 9, "max_tokens": 3}, "^decode option: min_length 9"),
        ({"top": 3, "beam": 2}, "a beam has none"),
        ({"presence_penalty": 1, "beam": 2}, "decode option presence_penalty is for sampling"),
        ({"frequency_penalty": 3}, "decode option frequency_penalty"),
        ({"logit_bias": {99999: 1}}, "decode option logit_bias: the model's tokens are 0 to "),
        ({"temperature": -1}, "decode option temperature"),
        ({"seed": "x"}, "decode option seed"),
        ({"max_tokens": 10**30}, "decode option max_length: .* 1000000"),
    ],
)
def test_wrong_options_are_told(bundle: Bundle, options: dict[str, Any], words: str) -> None:
    model = Model([bundle])
    for _ in range(2):  # what is remembered of options is none of the wrong ones
        with pytest.raises(UserError, match=words):
            model.generations(["the"], **options)
    for wrong in ({"frequency_penalty": 1}, {"logit_bias": {5: 1}}):
        with pytest.raises(UserError, match="is for sampling"):
            model.options(**wrong)
    assert model.generate("the", beam=2, logit_bias={}) == model.generate("the", beam=2)
    for stop in (["e"], {"e"}):
        assert model.generate("the", stop=stop, seed=1) == model.generate("the", stop=("e",), seed=1)
    assert model.generate("the", temperature=1e-320) == model.generate("the", temperature=0)


def test_guesses_of_what_was_drawn(writer: Writer) -> None:
    """Beyond the window too, and with neighbours that end sooner or have longer prompts."""
    prompts = ["the", "the naïve café and more than the window holds"]
    options = writer.options.model_copy(update={"n_best": 2, "max_length": 40})
    text = writer.write(["the"], options)[0][0].text
    options = options.model_copy(update={"stop": (text[2:4],)})
    found = writer.write(prompts, options, top=4)
    assert {"length", "stop"} <= {made.reason for group in found for made in group}
    for made in (one for group in found for one in group):
        assert all(guess.rank >= 1 and len(guess.top) == 4 for guess in made.guesses)
        assert all(guess.log_prob <= guess.top[0][1] + 1e-6 for guess in made.guesses)
        if made.reason == "length":  # nothing was cut off
            assert len(made.guesses) == made.tokens
            assert sum(guess.log_prob for guess in made.guesses) == pytest.approx(made.log_prob, abs=1e-3)
        else:
            assert bool(made.text) <= len(made.guesses) < made.tokens
            assert all(guess.start < len(made.text) for guess in made.guesses)
    (alone,) = writer.write(["the"], options)  # to be watched changes nothing
    assert [made.text for made in alone] == [made.text for made in found[0]]


def test_prompts_of_like_lengths_are_written_on_together(writer: Writer) -> None:
    """A long prompt beside a short one is read a token a step, which takes longer than a batch of its own."""
    prompts = ["the cat", "t", "the naïve café and the cat and the café", "the"]
    short, long = (writer.options.model_copy(update={"max_length": most}) for most in (3, 100))
    sizes = [len(writer.start(prompt)) for prompt in prompts]
    assert writer._batches(sizes, short) == [[1, 3], [0], [2]]
    assert writer._batches(sizes, long) == [[1, 3, 0, 2]]
    many = long.model_copy(update={"n_best": 32})
    assert writer._batches(sizes, many) == [[1, 3], [0, 2]]
    found = [made.text for (made,) in writer.write(prompts, short, first=5)]
    assert found == [writer.write([prompt], short, first=5 + i)[0][0].text for i, prompt in enumerate(prompts)]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_stream_tells_the_tokens_of_what_it_shows(writer: Writer, size: int) -> None:
    """What may begin a stop text is held back, its tokens too."""
    options = writer.options.model_copy(update={"max_length": 40})
    whole = writer.write(["the"], options)[0][0].text
    for place in range(5, 30, 4):
        stopped = options.model_copy(update={"stop": (whole[place : place + size],)})
        ((made,),) = writer.write(["the"], stopped, top=2)
        pieces, shown = list(writer.pieces("the", stopped, top=2)), 0
        assert [guess for piece in pieces for guess in piece.guesses] == list(made.guesses)
        for piece in pieces:
            shown += len(piece.text)
            assert all(guess.start < shown for guess in piece.guesses)
