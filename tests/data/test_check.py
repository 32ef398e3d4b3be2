"""The report on a corpus finds what was planted, and stays silent on what is sound."""

import json
import random
from pathlib import Path

import pytest

from regard.data.characters import SORTS
from regard.data.check import CheckReport, check_pairs

WORDS = ["the", "old", "river", "house", "walks", "slowly", "beneath", "a", "mountain", "of", "light", "and", "snow"]


def sentences(count: int, seed: int = 0) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    pairs = []
    for number in range(count):
        words = [rng.choice(WORDS) for _ in range(rng.randint(3, 20))]
        target = [word.capitalize() + ("en" if rng.random() < 0.3 else "") for word in words]
        end = "?" if number % 10 == 0 else "."
        digits = f" {rng.randint(1, 9999)}" if number % 7 == 0 else ""
        pairs.append((" ".join(words) + digits + f"{number}x{end}", " ".join(target) + digits + f"{number}x{end}"))
    return pairs


def check(folder: Path, pairs: list[tuple[str, str]], **options: int) -> CheckReport:
    path = folder / "x.tsv"
    path.write_bytes("".join(f"{source}\t{target}\n" for source, target in pairs).encode())
    return check_pairs([path], **options)  # type: ignore[arg-type]


def test_a_sound_corpus_is_left_in_peace(tmp_path: Path) -> None:
    report = check(tmp_path, sentences(2000))
    assert report.read.pairs == 2000
    assert (report.duplicates, report.ambiguous, report.identical, report.misaligned) == (0, 0, 0, 0)
    assert (report.odd, report.shifted, report.habits) == ([], [], {})


def test_lengths(tmp_path: Path) -> None:
    report = check(tmp_path, [("ab cd", "x"), ("ab", "xy z"), ("a", "x")])
    source = report.characters["source"]
    assert (source.mean, source.median, source.max) == (2.67, 2, 5)
    assert report.words["target"].max == 2


def test_repeats(tmp_path: Path) -> None:
    report = check(tmp_path, [("a", "b"), ("a", "b"), ("a", "c"), ("d", "d"), ("7", "7"), ("a", "b")])
    assert report.duplicates == 2
    assert report.repeats == [(2, "a"), (6, "a")]
    assert report.ambiguous == 1
    assert report.copies == [(4, "d")], "a number is the same in every language"


@pytest.mark.parametrize(
    ("planted", "reason"),
    [
        (
            ("the old river house walks slowly beneath a mountain of light and snow.", "Der."),
            "far from the usual length",
        ),
        (("it was in 1984.", "es war in 1948 und 7."), "numbers differ"),
        (("who is there?", "Wer da ist."), "one side asks, the other does not"),
        (("delete %FILENAME now", "%NAME jetzt weg"), "placeholders differ"),
    ],
)
def test_a_pair_that_does_not_match_is_found(tmp_path: Path, planted: tuple[str, str], reason: str) -> None:
    pairs = sentences(1500)
    pairs[700] = planted
    pairs[710:714] = [("keep %FILENAME", "behalte %FILENAME")] * 4
    report = check(tmp_path, pairs)
    assert report.misaligned == 1
    assert (report.worst[0].line, report.worst[0].reasons) == (701, (reason,))
    assert (report.worst[0].source, report.worst[0].target) == planted


@pytest.mark.parametrize(
    "pair", [("at 9 a.m.", "um 9:00"), ("1,000.50 m", "1.000,5 m"), ("call 3 men", "rufe drei Leute")]
)
def test_numbers_written_in_another_way_are_no_fault(tmp_path: Path, pair: tuple[str, str]) -> None:
    assert "numbers differ" not in check(tmp_path, [*sentences(100), pair]).reasons


def test_the_habit_of_a_corpus_is_no_fault(tmp_path: Path) -> None:
    report = check(tmp_path, [(source, target.replace("?", ";")) for source, target in sentences(300)])
    assert report.misaligned == 0
    assert report.habits == {"one side asks, the other does not": 1.0}


def test_a_shift_is_found(tmp_path: Path) -> None:
    pairs = sentences(3000)
    targets = [target for _, target in pairs]
    del targets[1000]
    report = check(tmp_path, [(source, target) for (source, _), target in zip(pairs, [*targets, "end"], strict=True)])
    [(first, last, shift)] = report.shifted
    assert shift == -1
    assert 1000 <= first <= 1210
    assert last > 2700
    assert any("targets seem to stand 1 too high" in line for line in report.lines())


def test_a_file_sorted_by_length_is_not_taken_for_shifted(tmp_path: Path) -> None:
    assert check(tmp_path, sorted(sentences(3000), key=lambda pair: len(pair[0]))).shifted == []


@pytest.mark.parametrize(
    ("text", "sort"),
    [
        ("caf\ufffd", "replacement character (text was lost)"),
        ("cafÃ© con leche", "mojibake (UTF-8 read as Latin-1)"),
        ("itâ€™s", "mojibake (UTF-8 read as Latin-1)"),
        ("one\u2028two", "line separator"),
        ("bell\x07", "control character"),
        ("bullet \ue4c4", "private-use character"),
        ("zero\u200bwidth", "invisible mark"),
        ("left\u200e", "direction mark"),
        ("s\u0441hool", "word of mixed scripts"),
        ("日 stands here", "letter of a script rare in this column (Cjk)"),
    ],
)
def test_characters_out_of_place(tmp_path: Path, text: str, sort: str) -> None:
    pairs = sentences(400)
    pairs[250] = (pairs[250][0], text)
    found = [finding for finding in check(tmp_path, pairs).odd if finding.sort == sort]
    assert [(finding.side, finding.lines, finding.examples[0][0]) for finding in found] == [("target", 1, 251)]


@pytest.mark.parametrize(
    "text", ["Ã is a letter", "NÃO, É «CAFÉ».", "50 µm, Δx = π", "👩‍👩‍👧 and 👍🏽", "naïve Straße – “ok” … €5", "tab"]
)
def test_characters_in_place(tmp_path: Path, text: str) -> None:
    pairs = [(source, text) for source, _ in sentences(200)]
    assert [finding.sort for finding in check(tmp_path, pairs).odd if finding.sort in SORTS] == []


def test_dirty_files_do_not_stop_it(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_bytes(b"a\tb\n\xff\tb\nno tab\n\tempty\n" + b"a" * 3000 + b"\tb\nc\td\n")
    report = check_pairs([path])
    assert (report.read.pairs, report.read.bad, report.read.empty, report.read.too_long) == (2, 2, 1, 1)
    text = "\n".join(report.lines())
    assert "line 2, byte 1" in text
    assert "line 3: no tab" in text
    path.write_bytes(b"\t\n")
    assert next(check_pairs([path]).lines()).endswith("0 pairs; dropped 1 with an empty side")


def test_the_report_is_json_and_text(tmp_path: Path) -> None:
    pairs = [*sentences(300), ("who\u200b?", "wer\x1b[2J")]
    report = check(tmp_path, pairs)
    assert json.loads(json.dumps(report.to_dict()))["odd"][0]["sort"] == "invisible mark"
    text = "\n".join(report.lines())
    assert "pairs that may not belong together: 1" in text
    assert "who⟨U+200B⟩?" in text
    assert "\x1b" not in text, "a corpus must not command the terminal"


def test_number_of_examples(tmp_path: Path) -> None:
    pairs = sentences(900)
    for i in range(0, 60, 3):
        pairs[i * 10 + 5] = ("it is 12.", "es ist 34.")
    assert len(check(tmp_path, pairs, examples=4).worst) == 4
