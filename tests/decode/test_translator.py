"""From text to text: what users see with empty, long, strange and many lines."""

import math
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from decode.toys import Toy, echo, fixed
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.decode import DecodeOptions, translator
from regard.decode.engine import Torch
from regard.decode.translator import OverlongWarning, Translation, Translator
from regard.models import Transformer, TransformerConfig
from regard.text import EOS, PAD, Tokenizer

BYTES = Tokenizer.learn([], "byte")
GREEDY = DecodeOptions(beam=1)


def copier(max_source: int = 40, **options: Any) -> Translator:
    """Gives back what it reads, so that whatever is lost on the way shows."""
    return Translator(Torch([Toy(echo(len(BYTES)))]), BYTES, BYTES, DecodeOptions(**{"beam": 1, **options}), max_source)


def random_model(**keys: Any) -> Transformer:
    torch.manual_seed(0)
    vocabulary = {"source_vocabulary": len(BYTES), "target_vocabulary": len(BYTES)}
    shape: dict[str, Any] = {"d_model": 16, "d_ff": 32, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    return Transformer(TransformerConfig(**{**shape, **vocabulary, **keys}))


def squeezed(text: str) -> str:
    return "".join(text.split())


def copied(text: str, **options: Any) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlongWarning)
        return copier(**options).translate([text])[0]


@pytest.mark.parametrize("empty", ["", " ", "\t \n", "\u3000"])
def test_nothing_stays_nothing_and_keeps_its_line(empty: str) -> None:
    found = copier().n_best(["one", empty, "two"])
    assert [group[0].text for group in found] == ["one", "", "two"]
    assert found[1] == [Translation("", 0.0, 1.0)]
    assert copier().translate([]) == []
    assert copier().translate([empty]) == [""]


def test_what_no_output_was_found_for_is_empty_and_not_believed_in() -> None:
    """A model that gives probability to padding alone; a text of several parts all the same."""
    dead = Translator(Torch([Toy(fixed({PAD: 1.0}, len(BYTES)))]), BYTES, BYTES, GREEDY, 40)
    with pytest.warns(OverlongWarning):
        found = dead.n_best(["one", "", "This one is rather long for it. It is cut in two."])
    nothing = [Translation("", -math.inf, 0.0)]
    assert found == [nothing, [Translation("", 0.0, 1.0)], nothing]


def test_a_part_that_nothing_was_found_for_does_not_take_the_others_along() -> None:
    write, silent = echo(len(BYTES)), fixed({PAD: 1.0}, len(BYTES))
    first, second = "The first sentence is here, it is.", "But the second one is not."
    bad = (*BYTES.encode(second), EOS)
    half = Toy(lambda source, prefix: (silent if source == bad else write)(source, prefix))
    with pytest.warns(OverlongWarning, match="2 parts"):
        (found,) = Translator(Torch([half]), BYTES, BYTES, GREEDY, 40).n_best([f"{first} {second}"])
    assert found[0].text == first


def test_a_long_text_is_cut_at_sentence_ends_with_a_warning() -> None:
    text = "The first sentence is here. Is this the second? Yes! It is the fourth one…  The fifth comes last."
    with pytest.warns(OverlongWarning, match=f"input 1 has {len(text) + 3} tokens, more than the 40") as caught:
        (found,) = copier().translate([text])
    assert len(caught) == 1
    assert found == text.replace("  ", " ")
    expected = [
        "The first sentence is here. ",
        "Is this the second? Yes! ",
        "It is the fourth one…  ",
        "The fifth comes last.",
    ]
    assert list(copier()._split(text)) == expected
    assert "in 4 parts" in str(caught[0].message)


def test_closing_quotes_and_brackets_stay_with_their_sentence() -> None:
    text = 'He said: "I will go there now." (She did not believe him.) «Vámonos ya de aquí.» And they went.'
    assert copied(text) == text
    starts = ["He said", "(She", "«Vám", "And they"]
    assert [part[: len(start)] for part, start in zip(copier()._split(text), starts, strict=True)] == starts


def test_a_sentence_that_is_too_long_is_cut_between_words() -> None:
    text = "a sentence without any end that goes on and on for far more tokens than the model was made for"
    assert copied(text) == text


def test_scripts_without_spaces_are_cut_at_their_full_stops() -> None:
    text = "今日は天気がいい。明日も晴れる？「うん。」そうだ！"
    parts = list(copier(max_source=40)._split(text))
    assert parts == ["今日は天気がいい。", "明日も晴れる？「うん。」", "そうだ！"]
    assert copied(text, max_source=40) == text  # and put together again without spaces


@pytest.mark.parametrize("word", ["x" * 1000, "ñ" * 333, "漢字" * 100, "👩‍🚀" * 60])
@pytest.mark.parametrize("limit", [5, 7, 40])
def test_one_giant_word_loses_no_character(word: str, limit: int) -> None:
    found = copied(f"A {word} b.", max_source=limit)
    assert squeezed(found) == squeezed(f"A{word}b.")
    assert "\ufffd" not in found


def test_a_character_longer_than_the_limit_passes_in_pieces() -> None:
    assert len(copied("漢", max_source=2)) > 0  # four tokens


@given(st.text(alphabet=st.sampled_from("ab .!?…\"')。\n\té漢👍"), max_size=120), st.integers(5, 30))
@settings(max_examples=150, deadline=None)
def test_parts_cover_the_text_and_each_fits(text: str, limit: int) -> None:
    made = copier(max_source=limit)
    assert "".join(made._split(text)) == text
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlongWarning)
        pieces = made._pieces(text, made.source.encode(text), 0) if text.strip() else []
    assert all(1 <= len(piece) <= limit for piece in pieces)
    assert squeezed("".join(BYTES.decode(piece) for piece in pieces)) == squeezed(text)


def test_at_the_limit_there_is_no_warning() -> None:
    text = "x" * 39  # forty tokens with the space before it
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert copier().translate([text]) == [text]
    with pytest.warns(OverlongWarning):
        copier().translate([text + "x"])


@pytest.mark.parametrize("batch", [1, 37, 10_000])
def test_order_is_kept_over_batches(batch: int) -> None:
    texts = [f"line {i} " + "x" * ((i * 7) % 23) for i in range(30)] + ["", "end"]
    assert copier(batch=batch).translate(texts) == [text if text.strip() else "" for text in texts]


def test_a_batch_is_within_its_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    made, sizes = copier(batch=64), []
    encode = Toy.encode

    def watched(self: Toy, source: torch.Tensor, lengths: Any) -> Any:
        sizes.append(source.numel())
        return encode(self, source, lengths)

    monkeypatch.setattr(Toy, "encode", watched)
    made.translate(["x" * n for n in range(1, 31)])
    assert max(sizes) <= 64
    assert len(sizes) < 20


def test_a_stream_reads_one_window_at_a_time() -> None:
    read = []

    def lines() -> Iterator[str]:
        for i in range(8):
            read.append(i)
            yield f"line {i}"

    results = copier().stream(lines(), window=3)
    assert next(results)[0].text == "line 0"
    assert read == [0, 1, 2]
    assert [group[0].text for group in results] == [f"line {i}" for i in range(1, 8)]


def test_a_warning_in_a_stream_names_the_line() -> None:
    with pytest.warns(OverlongWarning, match="input 4 has"):
        list(copier().stream(["a", "b", "c", "long " * 20, "e"], window=2))


def test_n_best_and_confidence() -> None:
    made = Translator(Torch([random_model()]), BYTES, BYTES, DecodeOptions(beam=4, max_length=6), 40)
    (group,) = made.n_best(["hello"], DecodeOptions(beam=4, n_best=3, max_length=6))
    assert len(group) == 3
    assert [t.score for t in group] == sorted((t.score for t in group), reverse=True)
    assert all(0 < t.confidence < 1 for t in group)
    assert copier().n_best(["hello"])[0][0].confidence > 0.99


def test_batch_and_window_do_not_change_a_translation(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["short", "a somewhat longer line of text", "", "mid length", "x", "word " * 6]
    made = Translator(Torch([random_model()]), BYTES, BYTES, DecodeOptions(beam=3, extra_length=5), 40)
    alone = [made.n_best([text])[0][0] for text in texts]
    monkeypatch.setattr(translator, "WINDOW", 4)
    for found, expected in zip(made.stream(texts), alone, strict=True):
        assert found[0].text == expected.text
        assert found[0].score == pytest.approx(expected.score, abs=1e-4)


def test_a_model_is_put_into_evaluation() -> None:
    model = random_model(dropout=0.5).train()
    made = Translator(Torch([model]), BYTES, BYTES, DecodeOptions(beam=2, max_length=8), 40)
    assert made.n_best(["the same"]) == made.n_best(["the same"])
    assert not model.training


# --- sampling -------------------------------------------------------------------------------------------------------


def sampled(texts: list[str], first: int = 0, **options: Any) -> list[list[str]]:
    made = Translator(Torch([random_model()]), BYTES, BYTES, DecodeOptions(sample=True, max_length=6, **options), 20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlongWarning)
        return [[t.text for t in group] for group in made.n_best(texts, first=first)]


def test_a_sample_depends_on_the_lines_number_and_not_on_other_lines() -> None:
    texts = ["one", "two two", "three", "four"]
    whole = sampled(texts, n_best=3)
    assert sampled(texts[2:], first=2, n_best=3) == whole[2:]
    assert sampled(["", "long " * 30, *texts[2:]], n_best=3)[2:] == whole[2:]  # split, and yet one line
    assert sampled(texts, n_best=3, seed=1) != whole
    assert sampled(texts, n_best=3, batch=1) == whole


def test_the_parts_of_one_text_are_drawn_apart() -> None:
    letters = BYTES.encode("abcdefgh")[1:]
    toy = Toy(fixed(dict.fromkeys(letters, 1 / 8) | {EOS: 1e-9}, len(BYTES)))
    made = Translator(Torch([toy]), BYTES, BYTES, DecodeOptions(sample=True, max_length=12), 30)
    with pytest.warns(OverlongWarning, match="in 2 parts"):
        (text,) = made.translate(["same same same same. " * 2])
    first, second = text.split(" ")
    assert len(first) == len(second) == 12
    assert first != second


# --- learned positions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"beam": 3}, {"sample": True}, {"beam": 1, "min_length": 50}, {"max_length": 50}])
def test_learned_positions_are_never_overrun(options: dict[str, Any]) -> None:
    model = random_model(positions="learned", max_positions=12)
    with torch.no_grad():
        model.output[3] = -9 * model.output[3]  # it babbles
    made = Translator(Torch([model]), BYTES, BYTES, DecodeOptions(**options), 1000)
    with pytest.warns(OverlongWarning, match="more than the 11"):
        (found,) = made.translate(["one two three four five six"])
    assert found


def test_an_ensemble_goes_as_far_as_its_shortest_member() -> None:
    models = [random_model(positions="learned", max_positions=n) for n in (30, 12)] + [random_model()]
    assert Translator(Torch(models), BYTES, BYTES, GREEDY, 1000).max_source == 11
    assert Translator(Torch(models[2:]), BYTES, BYTES, GREEDY, 1000).max_source == 1000
    assert Translator(Torch(models[:1]), BYTES, BYTES, GREEDY, 20).max_source == 20
