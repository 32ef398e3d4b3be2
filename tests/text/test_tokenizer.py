"""Text in, the same text out; ids that do not depend on luck; errors for people."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Inner

from regard.errors import UserError
from regard.text import BOS, EOS, KINDS, PAD, SPECIALS, UNK, Tokenizer

STEMS = [
    "cat",
    "dog",
    "house",
    "garden",
    "river",
    "mountain",
    "teacher",
    "letter",
    "window",
    "Straße",
    "Käse",
    "morning",
]
ENDINGS = ["", "s", "ing", "ed", "lich", "ungen"]
WORDS = [stem + ending for ending in ENDINGS for stem in STEMS]
TEXTS = [
    "The cat sat on the mat, and the dog sat on the cat.",
    "Der Hund läuft über die Straße; die Katze schläft.",
    "Numbers such as 1, 22 and 333 are here. <pad> </s> </s> </s> <s> <unk>",
    *(f"the {WORDS[i % 71]} and {WORDS[i * 7 % 72]} saw the {WORDS[i * 11 % 72]}." for i in range(300)),
] * 2
EXACT = ("bpe", "unigram", "byte")


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return Tokenizer.learn(TEXTS, kind=request.param, size=400)


@pytest.fixture(scope="module", params=EXACT)
def exact(request: pytest.FixtureRequest) -> Tokenizer:
    return Tokenizer.learn(TEXTS, kind=request.param, size=400)


@pytest.fixture(scope="module")
def uncased() -> Tokenizer:
    return Tokenizer.learn(TEXTS, size=400, uncased=True)


@given(text=st.text())
@settings(max_examples=150, deadline=None)
def test_any_text_comes_back(exact: Tokenizer, text: str) -> None:
    ids = exact.encode(text)
    assert exact.decode(ids) == text
    assert min(ids) > EOS, "ordinary text became a special id"


@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_texts_are_what_the_library_makes_of_ids(tokenizer: Tokenizer, data: st.DataObject) -> None:
    """Whatever the ids are: bytes that are no character, special ones."""
    ids = data.draw(st.lists(st.integers(0, len(tokenizer) - 1)))
    library = Inner.from_str(json.dumps(tokenizer.standalone()))
    said = [number for number in ids if number not in tokenizer.specials.ids]
    assert tokenizer.decode(ids) == library.decode(said, skip_special_tokens=False)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "byte"])
def test_a_mask_means_the_same_to_the_library(kind: str) -> None:
    tokenizer = Tokenizer.learn(TEXTS, kind, 400, mask=True)
    state = json.dumps(tokenizer.standalone(framed=True))
    library = Inner.from_str(state)
    for text in ("the <mask> sat on the mat", "<mask> cat <mask> dog", "the cat <mask>", "no mask here"):
        begin, end = tokenizer.specials.begin, tokenizer.specials.end
        assert library.encode(text).ids == [begin, *tokenizer.encode_masked(text), end]
    again = Tokenizer.from_standalone(Inner.from_str(state))
    assert again is not None
    assert again.checksum == tokenizer.checksum


PARTS = st.sampled_from(
    [*WORDS[:9], *"aÄß1.,'Σς\u0301", " ", " ", " ", "  ", "\t", "\u00a0", "\x1c", "\u3000", "x" * 70, "</s>"]
)


@given(texts=st.lists(st.lists(PARTS, max_size=12).map("".join), max_size=4))
@settings(max_examples=200, deadline=None)
def test_remembered_words_change_nothing(tokenizer: Tokenizer, uncased: Tokenizer, texts: list[str]) -> None:
    for made in (tokenizer, uncased):
        whole = [made.encode_batch([text], [False])[0] for text in texts]  # nothing is looked up in these
        assert made.encode_batch(texts) == whole
        assert [made.encode(text) for text in texts] == whole


def test_what_is_remembered_of_words_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.text.tokenizer.MOST_KNOWN", 50)
    tokenizer = Tokenizer.learn(TEXTS, size=400)
    for number in range(200):
        tokenizer.encode_batch([f"word{number} {'long' * number}", "and the cat"])
        assert len(tokenizer._known) <= 50 + 5
        assert all(len(word) <= 64 for word in tokenizer._known)
    assert tokenizer.decode(tokenizer.encode("word7 and the cat")) == "word7 and the cat"


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "  two  spaces   ",
        "\ttab\t",
        "\n",
        "e\u0301 is not é",
        "👩‍👩‍👧 🇩🇪",
        "नमस्ते",
        "a\u2028b\u0085c\x00d",
        "\r",
        "x" * 1000,
        " " * 500 + "x",
        "</s>",
        "a<pad>b",
        "<s> hello </s>",
    ],
)
def test_awkward_texts_come_back(exact: Tokenizer, text: str) -> None:
    assert exact.decode(exact.encode(text)) == text


def test_known_text_comes_back_in_every_kind(tokenizer: Tokenizer) -> None:
    for text in TEXTS[:3]:
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_text_that_spells_a_special_stays_text(tokenizer: Tokenizer) -> None:
    for special in SPECIALS:
        assert not {PAD, BOS, EOS} & set(tokenizer.encode(f"{special} a{special}b {special}"))


def test_specials_survive_loading_as_text(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "t.json")
    assert not {PAD, BOS, EOS} & set(Tokenizer.load(tmp_path / "t.json").encode("</s> <pad> <s>"))


def test_decode_drops_special_ids(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("the cat")
    assert tokenizer.decode([BOS, *ids, EOS, PAD, PAD]) == "the cat"


def test_unknown_words_and_characters_are_unk() -> None:
    assert Tokenizer.learn(TEXTS, "word", 400).encode("the zebra sat")[1] == UNK
    assert UNK in Tokenizer.learn(TEXTS, "char", 400).encode("日")


def test_a_word_is_one_token_at_the_start_and_in_the_middle() -> None:
    for kind in ("bpe", "unigram", "word"):
        tokenizer = Tokenizer.learn(TEXTS, kind, 500)
        start, middle = tokenizer.encode("cat"), tokenizer.encode("the cat")
        assert start == middle[-len(start) :]
        assert len(start) == 1


def test_words_keep_punctuation_apart() -> None:
    tokenizer = Tokenizer.learn(TEXTS, "word", 400)
    assert tokenizer.surface(tokenizer.encode("the mat, and")) == [" the", " mat", ",", " and"]


def test_batch_equals_single(tokenizer: Tokenizer) -> None:
    texts = [*TEXTS[:5], "", "日本 zebra", "a" * 300]
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]


def test_saved_is_loaded(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "t.json")
    loaded = Tokenizer.load(tmp_path / "t.json")
    assert (loaded.kind, len(loaded), loaded.checksum) == (tokenizer.kind, len(tokenizer), tokenizer.checksum)
    assert loaded.encode(TEXTS[1]) == tokenizer.encode(TEXTS[1])


def test_learning_is_deterministic_across_processes() -> None:
    # The library hashes with a random seed per process: only another process can show the difference.
    code = (
        "from regard.text import KINDS, Tokenizer\n"
        f"texts = {TEXTS!r}\n"
        "print([Tokenizer.learn(texts, kind, 350).checksum for kind in KINDS])"
    )
    runs = {subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout for _ in range(3)}
    assert len(runs) == 1


def test_sizes(tokenizer: Tokenizer) -> None:
    assert len(tokenizer) <= 400
    assert len(Tokenizer.learn(TEXTS, "bpe", 300)) == 300
    assert len(Tokenizer.learn(TEXTS, "unigram", 300)) == 300
    assert len(Tokenizer.learn([], "byte")) == 260
    assert len(Tokenizer.learn(TEXTS, "word", 10)) == 10


@pytest.mark.parametrize(("kind", "least"), [("bpe", 260), ("unigram", 260), ("word", 5), ("char", 5)])
def test_too_small_a_size_names_the_least(kind: str, least: int) -> None:
    with pytest.raises(UserError, match=f"least size is {least}"):
        Tokenizer.learn(TEXTS, kind, least - 1)
    assert len(Tokenizer.learn(TEXTS, kind, least)) == least


def test_surface_shows_characters_and_fragments() -> None:
    tokenizer = Tokenizer.learn([], "byte")
    assert tokenizer.surface(tokenizer.encode("aé")) == [" ", "a", "⟨C3⟩", "⟨A9⟩"]
    assert tokenizer.surface([BOS, EOS]) == ["<s>", "</s>"]
    learned = Tokenizer.learn(TEXTS, "bpe", 500)
    assert "".join(learned.surface(learned.encode(TEXTS[1]))) == " " + TEXTS[1]


@pytest.mark.parametrize("kind", EXACT)
@pytest.mark.parametrize("unit", ["a", "ab c ", " ", "é,", "</s>"])
def test_a_huge_line_takes_linear_time(kind: str, unit: str) -> None:
    tokenizer = Tokenizer.learn(TEXTS, kind, 400)
    times = []
    for length in (10_000, 160_000):
        text = unit * (length // len(unit))
        start = time.process_time()
        assert tokenizer.decode(tokenizer.encode(text)) == text
        times.append(time.process_time() - start)
    # Sixteen times the text; quadratic time would be 256 times. CPU time, since others may be busy;
    # short times are noisy, hence the floor.
    assert times[1] < max(80 * times[0], 1.0)


def test_learning_from_a_huge_line() -> None:
    start = time.process_time()
    for kind in KINDS:
        Tokenizer.learn([*TEXTS, "a" * 100_000], kind, 400)
    assert time.process_time() - start < 6


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\x80\x04pickle", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not a tokenizer of Regard"),
        (b'{"model": {}}', "not a tokenizer of Regard"),
        (b'{"format": "regard-tokenizer", "version": 2, "kind": "bpe"}', "version 2"),
        (b'{"format": "regard-tokenizer", "version": 1, "kind": "mind"}', "'mind'"),
        (b'{"format": "regard-tokenizer", "version": 1, "kind": "bpe", "tokenizer": {}}', "damaged"),
    ],
)
def test_a_file_that_is_no_tokenizer(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=says) as caught:
        Tokenizer.load(path)
    assert str(path) in str(caught.value)


def test_missing_file_and_moved_specials(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        Tokenizer.load(tmp_path / "absent.json")
    path = tmp_path / "t.json"
    Tokenizer.learn(TEXTS, "word", 50).save(path)
    state = json.loads(path.read_text())
    vocabulary = state["tokenizer"]["model"]["vocab"]
    vocabulary["<pad>"], vocabulary["<s>"] = vocabulary["<s>"], vocabulary["<pad>"]
    path.write_text(json.dumps(state))
    with pytest.raises(UserError, match="damaged"):
        Tokenizer.load(path)


def test_errors_for_people() -> None:
    with pytest.raises(UserError, match="bpe, unigram, word, char, byte"):
        Tokenizer.learn(TEXTS, "bep")
    with pytest.raises(UserError, match="no text"):
        Tokenizer.learn([])
    with pytest.raises(UserError, match=r"character 3 .*U\+D800"):
        Tokenizer.learn([], "byte").encode("ab\ud800")
    with pytest.raises(UserError, match=r"character 3 .*U\+D800"):
        Tokenizer.learn([], "byte").encode_batch(["fine", "ab\ud800"])


def test_learning_streams_and_passes_errors_on() -> None:
    def texts() -> object:
        yield "a good line"
        raise UserError("line 2 is bad")

    with pytest.raises(UserError, match="line 2"):
        Tokenizer.learn(texts())  # type: ignore[arg-type]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_is_silent_and_leaves_the_environment_alone() -> None:
    code = (
        "import os\n"
        "from regard.text import Tokenizer\n"
        "t = Tokenizer.learn(['a b c'] * 50); t.encode_batch(['a b'] * 50)\n"
        "child = os.fork()\n"
        "t.encode_batch(['a b'] * 50)\n"
        "if child == 0: os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "print('TOKENIZERS_PARALLELISM' in os.environ)"
    )
    environment = {key: value for key, value in os.environ.items() if key != "TOKENIZERS_PARALLELISM"}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60)
    assert (run.returncode, run.stdout, run.stderr) == (0, "False\n", "")


def test_unknown_words_are_named_once_in_order() -> None:
    texts = ["the man eats bread", "the woman eats fish"] * 3
    words = Tokenizer.learn(texts, kind="word", size=30)
    assert words.unknown("the Man eats, the Man 你好 sleeps") == ["Man", ",", "你好", "sleeps"]
    assert words.unknown("the man") == []
    assert Tokenizer.learn(texts, kind="bpe", size=300).unknown("你好 <script> Ω") == []


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "char", "byte"])
def test_capitals_can_be_read_as_small_letters(kind: str, tmp_path: Path) -> None:
    texts = ["The Cat sat", "the cat SAT", "Émile saw the cat"] * 3
    made = Tokenizer.learn(texts, kind, 300, uncased=True, mask=True)
    assert made.encode("THE CAT SAT") == made.encode("the cat sat")
    assert made.decode(made.encode("Émile SAW the Cat")) == "émile saw the cat"
    assert len(made) <= 300
    _, spans = made.spans("The Cat")
    assert "".join("The Cat"[a:b] for a, b in spans).replace(" ", "") == "TheCat"  # places in the text as it was given
    made.save(tmp_path / "t.json")
    assert Tokenizer.load(tmp_path / "t.json").encode("THE Cat") == made.encode("the cat")
    alone = Inner.from_str(json.dumps(made.standalone()))
    assert alone.encode("THE Cat").ids == [*made.encode("the cat"), EOS]
    back = Tokenizer.from_standalone(alone)
    assert back is not None
    assert back.encode("THE Cat") == made.encode("the cat")
