"""Answering from files to predictions: spans of tokens and characters, windows, no answer, and SQuAD's scores."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from typer.testing import CliRunner

from regard.api import load
from regard.bundle import Bundle
from regard.cli import app
from regard.config import make_recipe
from regard.data.squad import Question, read_questions
from regard.errors import UserError
from regard.models import Bert, BertConfig, HeadConfig
from regard.models.heads import Answerer
from regard.predict import PREDICTORS
from regard.tasks.answering import THRESHOLD, Reader, _loss, spans_of
from regard.tasks.spans import best_threshold, of_answer
from regard.text import Specials, Tokenizer
from regard.training.session import train

MODEL = {"name": "bert", "d_model": 32, "d_ff": 64, "heads": 2, "layers": 1, "dropout": 0.0, "attention_dropout": 0.0}
ANSWERS = {"who": ("Anna", "Bruno", "Clara"), "where": ("Rome", "Oslo", "Paris"), "when": ("today", "tomorrow")}


def questions(count: int, seed: int, silent: bool) -> list[Question]:
    """Words of three kinds among others in a text; a question is for one kind, which may be absent."""
    random = np.random.default_rng(seed)
    made = []
    for number in range(count):
        words = ["so", "they", "say", "and", "all", "know"] * 2
        random.shuffle(words)
        words = words[: random.integers(4, 12)]
        kinds = [kind for kind in ANSWERS if not silent or random.integers(3)]
        for kind in kinds:
            words.insert(int(random.integers(len(words) + 1)), ANSWERS[kind][random.integers(len(ANSWERS[kind]))])
        context, asked = " ".join(words), list(ANSWERS)[random.integers(3)]
        found = [word for word in words if word in ANSWERS[asked]]
        made.append(Question(context, f"{asked} ?", tuple((w, context.index(w)) for w in found), "", str(number)))
    return made


def write(path: Path, given: list[Question]) -> None:
    paragraphs = []
    for question in given:
        entry = question.to_dict()
        paragraphs.append({"context": entry.pop("context"), "qas": [entry]})
    path.write_text(json.dumps({"version": "2.0", "data": [{"paragraphs": paragraphs}]}))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("questions")
    for sort in ("plain", "silent"):
        for name, count, seed in (("train", 600, 1), ("dev", 60, 2)):
            write(folder / f"{sort}.{name}.json", questions(count, seed, sort == "silent"))
    return folder


def recipe(folder: Path, sort: str = "silent", data: dict[str, Any] | None = None, **changes: Any) -> Any:
    settings = {
        "steps": 200, "batch": 32, "optimizer": "adamw", "lr": 0.003, "schedule": "linear", "warmup": 5,
        "label_smoothing": 0.0, "validate_every": 50, "save_every": 50, "batch_tokens": 1024, "parts": 1,
    }  # fmt: skip
    tree = {
        "task": "answering", "model": MODEL, "tokenizer": {"kind": "word", "size": 100},
        "data": {name: [str(folder / f"{sort}.{name}.json")] for name in ("train", "dev")} | (data or {}),
        "train": settings | changes,
    }  # fmt: skip
    tree["data"] = {"max_length": 16, "stride": 4} | tree["data"]
    return make_recipe(tree)


@pytest.fixture(scope="module")
def trained(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "run"
    train(recipe(files), out)
    return out


def test_it_learns_answers_and_silence(trained: Path) -> None:
    scores = json.loads((trained / "model" / "model.json").read_text())["scores"]["dev"]
    assert scores["f1"]["value"] > 0.9
    assert scores["exact"]["value"] > 0.9
    assert scores["f1 without answers"]["value"] > 0.8
    assert scores["f1 with answers"]["value"] > 0.8
    assert np.isfinite(scores[THRESHOLD]["value"])


def test_it_predicts_what_stands_in_the_text(trained: Path) -> None:
    context = "so they say Bruno and all know Oslo"
    ask = load(trained).predict
    who, where, when = ask([{"context": context, "question": f"{word} ?"} for word in ANSWERS])
    assert (who.answer, where.answer, when.answer) == ("Bruno", "Oslo", "")
    for found in (who, where):
        assert context[found.start : found.end] == found.answer
        assert 0.5 < found.probability <= 1
    assert when.to_dict().keys() == {"question", "answer", "probability"}
    (nothing,) = ask([{"context": "", "question": "who ?"}])
    assert nothing.answer == ""
    assert ask([]) == []


def test_an_answer_is_found_wherever_it_stands(trained: Path) -> None:
    """In a text of many windows, at its begin, at its end, and at the borders of windows."""
    ask = load(trained).predict
    places = list(range(0, 61, 3))
    words = ["so", "they", "say", "and", "all", "know"] * 10
    contexts = [" ".join([*words[:place], "Clara", *words[place:]]) for place in places]
    found = ask([{"context": context, "question": "who ?"} for context in contexts])
    right = [a.answer == "Clara" and a.start == c.index("Clara") for a, c in zip(found, contexts, strict=True)]
    assert sum(right) >= len(right) - 1, right


def test_a_run_that_is_stopped_knows_when_to_be_silent(files: Path, tmp_path: Path) -> None:
    """And so does the mean of its checkpoints."""

    def stop(event: dict[str, Any]) -> None:
        if event["event"] == "train" and event["step"] == 12:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        train(recipe(files, steps=20, validate_every=10, save_every=5, log_every=1), tmp_path / "run", callbacks=[stop])
    (told,) = (json.loads(line) for line in (tmp_path / "run" / "log.jsonl").open() if '"validate"' in line)
    model = load(tmp_path / "run")
    assert model.predictor.threshold == pytest.approx(told["chosen"][THRESHOLD], abs=1e-4)
    done = CliRunner().invoke(app, ["average", str(tmp_path / "run"), "--out", str(tmp_path / "mean"), "--last", "2"])
    assert done.exit_code == 0, done.output
    assert load(tmp_path / "mean").predictor.threshold == model.predictor.threshold


def test_a_model_without_such_questions_always_answers(files: Path, tmp_path: Path) -> None:
    run = train(recipe(files, "plain", steps=20, validate_every=20), tmp_path / "run")
    assert THRESHOLD not in run.scores["dev"]
    assert set(run.scores["dev"]) == {"exact", "f1"}
    (found,) = load(tmp_path / "run").predict([{"context": "so they say", "question": "who ?"}])
    assert found.answer


def test_a_resumed_run_is_the_same(files: Path, tmp_path: Path) -> None:
    how: dict[str, Any] = {"schedule": "constant", "validate_every": 10, "save_every": 5}
    train(recipe(files, steps=10, **how), tmp_path / "a")
    train(recipe(files, steps=20, **how), tmp_path / "a", resume=True)
    train(recipe(files, steps=20, **how), tmp_path / "b")
    a, b = ((tmp_path / name / "model" / "model.safetensors").read_bytes() for name in "ab")
    assert a == b


def test_the_command_predicts_and_evaluates(trained: Path, files: Path) -> None:
    run = CliRunner().invoke
    line = json.dumps({"context": "they say Anna and all know", "question": "who ?"})
    told = json.loads(run(app, ["predict", str(trained), "--json"], input=line + "\n").stdout)
    assert told | {"probability": 0} == {
        "question": "who ?", "answer": "Anna", "probability": 0, "start": 9, "end": 13,
    }  # fmt: skip
    nameless = json.loads(run(app, ["predict", str(trained), "--json"], input=line[:-1] + ', "id": null}\n').stdout)
    assert nameless | {"probability": 0} == told | {"probability": 0}
    dev = files / "silent.dev.json"
    table = run(app, ["predict", str(trained), str(dev)]).stdout.splitlines()
    assert len(table) == 60
    told = [json.loads(line) for line in run(app, ["predict", str(trained), str(dev), "--json"]).stdout.splitlines()]
    assert [answer["id"] for answer in told] == [question.id for question in read_questions([dev])]
    own = run(app, ["evaluate", str(trained), "--json"]).stdout
    scores = json.loads((trained / "model" / "model.json").read_text())["scores"]["dev"]
    assert json.loads(own)["scores"]["f1"] == pytest.approx(scores["f1"]["value"], abs=1e-3)
    bad = run(app, ["predict", str(trained)], input='{"context": "a"}\n')
    assert isinstance(bad.exception, UserError)
    assert "line 1: no text 'question'" in str(bad.exception)


def test_held_out_questions_share_no_text(files: Path, tmp_path: Path) -> None:
    given = questions(50, 3, True)
    write(tmp_path / "train.json", [*given, *(replace(question, id=f"again {question.id}") for question in given)])
    data = {"train": [str(tmp_path / "train.json")], "dev": []}
    train(recipe(files, data=data, steps=2, validate_every=2), tmp_path / "run")
    held = read_questions([tmp_path / "run" / "dev.jsonl"])
    assert held
    for question in held:  # both of each pair
        assert sum(other.context == question.context for other in held) % 2 == 0


def test_answers_and_tokens_meet() -> None:
    text = "The café’s naïve cost: $3.50, they said in Zürich."
    for kind, size in (("bpe", 270), ("byte", 260)):
        reader = Reader(Tokenizer.learn([text], kind, size), 40, 10, 30)
        for answer in ("café", "naïve cost", "3.50", "Zürich", "The"):
            question = Question(text, "what?", ((answer, text.index(answer)),))
            hits = 0
            for window in reader.windows([question])[0]:
                start, end, begin, stop = window.row.target[0]
                if start == 0:
                    continue
                assert begin <= start <= end < stop
                a, b = window.spans[start - begin, 0], window.spans[end - begin, 1]
                assert text[a:b].strip() == answer
                hits += 1
            assert hits, (kind, answer)


def test_windows_hold_the_question_and_all_of_the_text() -> None:
    reader = Reader(Tokenizer.learn([], "byte"), 32, 8, 30)
    text = "".join(map(chr, range(97, 123))) * 3
    (group,) = reader.windows([Question(text, "who?" * 50)])
    asked = reader.tokenizer.encode("who?" * 50)
    covered: set[int] = set()
    for window in group:
        tokens, (_, _, begin, end) = window.row.tokens.tolist(), window.row.target[0]
        assert len(tokens) <= 32
        assert tokens[0] == reader.tokenizer.specials.begin
        assert tokens[1 : begin - 1] == asked[: begin - 2]
        assert begin - 2 == (32 - 3) // 2  # a long question is cut to half
        covered |= {int(i) for a, b in window.spans for i in range(a, b)}
    assert covered == set(range(len(text)))
    doubled = Reader(reader.tokenizer, 32, 8, 30)
    doubled.tokenizer.specials = Specials(doubled=True)
    row = doubled.windows([Question("ab", "c")])[0][0].row
    begin, end = row.target[0][2:]
    assert row.tokens[begin:end].tolist() == doubled.tokenizer.encode("ab")


def test_a_span_in_two_windows_is_one_span() -> None:
    """Scores that are sure of one span: it is as likely in two windows as in one."""
    tokenizer = Tokenizer.learn(["a b c d e f g h"], "word", 20)
    question = Question("a b c d e f g h", "a")
    for longest, count in ((12, 1), (9, 2)):
        reader = Reader(tokenizer, longest, 4, 30)
        (group,) = reader.windows([question])
        assert len(group) == count
        logits = []
        for window in group:
            begin = int(window.row.target[0][2])
            scores = np.zeros((len(window.row.tokens), 2))
            for place, (start, _) in enumerate(window.spans):
                scores[begin + place] = 40.0 if question.context[start : start + 2].strip() == "d" else 0.0
            logits.append(scores)
        assert sum(bool((scores > 0).any()) for scores in logits) == count
        found = reader.answer(question, group, logits)
        assert found.text == "d"
        assert found.probability == pytest.approx(1.0, abs=1e-6)


def test_a_model_from_elsewhere_with_one_kind_of_text_answers() -> None:
    """RoBERTa's: two ends between question and context, one segment for both."""
    tokenizer = Tokenizer.learn(["who sings all day"], "word", 20)
    tokenizer.specials = Specials(doubled=True)
    shape = {key: value for key, value in MODEL.items() if key != "name"}
    answerer = Answerer(Bert(BertConfig(**shape, segments=1, vocabulary=len(tokenizer))), HeadConfig(), 2).eval()
    bundle = Bundle(answerer, tokenizer, tokenizer, ("", ""), 16, task="answering")
    context = "day who sings all " * 20
    (found,) = PREDICTORS["answering"](bundle)([{"context": context, "question": "who"}])
    assert context[found.start : found.end] == found.answer != ""


def test_each_reference_is_learned_in_its_turn() -> None:
    reader = Reader(Tokenizer.learn(["a b c"], "word", 20), 16, 4, 30)
    ((window,),) = reader.windows([Question("a b c", "b", (("a", 0), ("b c", 2)))])
    begin = int(window.row.target[0][2])
    draws = np.random.default_rng(0)
    seen = {tuple(reader.collate([window.row], draws).targets[0, :2].tolist()) for _ in range(20)}
    assert seen == {(begin, begin), (begin + 1, begin + 2)}
    assert tuple(reader.collate([window.row]).targets[0, :2].tolist()) == (begin, begin)


def test_the_loss_by_another_way() -> None:
    torch.manual_seed(0)
    logits, targets = torch.randn(2, 6, 2), torch.tensor([[3, 4, 2, 5], [0, 0, 3, 6]])
    allowed = [[0, 2, 3, 4], [0, 3, 4, 5]]
    for smoothing in (0.0, 0.2):
        expected = sum(
            F.cross_entropy(
                logits[row, allowed[row], side],
                torch.tensor(allowed[row].index(int(targets[row, side]))),
                label_smoothing=smoothing,
            )
            for row in range(2)
            for side in range(2)
        )
        assert float(_loss(logits, targets, smoothing)) == pytest.approx(float(expected) / 2, rel=1e-5)


def test_spans_by_hand() -> None:
    scores = np.array([[1.0, 0.0], [5.0, 2.0], [0.0, 4.0]])  # as first, as last
    assert spans_of(scores, 2).tolist() == [[1.0, 7.0, 4.0], [3.0, 9.0, -np.inf]]
    assert spans_of(scores, 9).shape == (3, 3)


@pytest.mark.parametrize(
    ("answer", "references", "exact", "f1"),
    [
        ("The Rome!", ["rome"], 1, 1),  # articles, case, punctuation
        ("in Rome", ["Rome", "in old Rome"], 0, 0.8),  # the better of two
        ("a b b", ["b b c"], 0, 0.8),  # "a" is an article: {b b} of {b b c}
        ("x x", ["x"], 0, 2 / 3),  # words count as often as they stand there
        ("Rome", ["Oslo"], 0, 0),
        ("", [], 1, 1),
        ("Rome", [], 0, 0),
        ("", ["Rome"], 0, 0),
        ("the", ["the", "Rome"], 0, 0),  # nothing is left of a reference: it does not count
        ("U.S.", ["US"], 1, 1),
        ("24–10", ["24-10"], 0, 0),  # only ASCII punctuation goes, as in the official script
    ],
)
def test_squads_scores(answer: str, references: list[str], exact: float, f1: float) -> None:
    assert of_answer(answer, references) == pytest.approx((exact, f1))


def test_the_threshold_that_scores_most() -> None:
    answered, silent = np.array([1.0, 0.5, 0.0, 0.0]), np.array([0.0, 0.0, 1.0, 1.0])
    assert best_threshold(np.array([-3.0, -1.0, 1.0, 3.0]), answered, silent) == 0
    assert best_threshold(np.array([-3.0, -1.0]), np.ones(2), np.zeros(2)) == 0  # above all margins
    assert best_threshold(np.array([-3.0, -1.0]), np.zeros(2), np.ones(2)) == -4  # below all of them
    assert best_threshold(np.array([2.0, 2.0, 5.0]), np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.9, 1.0])) == 3.5


@pytest.mark.parametrize(
    ("given", "data", "words"),
    [
        ([Question("a", "b?")], {}, "no question of the training data has an answer"),
        (None, {"train": []}, "names no training data"),
        ([Question("one text", "b?", (("one", 0),))] * 30, {"dev": []}, "share one text"),
    ],
)
def test_mistakes_are_told(
    files: Path, tmp_path: Path, given: list[Question] | None, data: dict[str, Any], words: str
) -> None:
    write(tmp_path / "train.json", given or [])
    with pytest.raises(UserError, match=words):
        train(recipe(files, data={"train": [str(tmp_path / "train.json")]} | data), tmp_path / "run")


def test_answers_elsewhere_are_told_and_left_out(files: Path, tmp_path: Path) -> None:
    write(tmp_path / "train.json", [*questions(30, 4, False), Question("a b", "c?", (("z", 0),))])
    told: list[str] = []
    data = {"train": [str(tmp_path / "train.json")]}
    train(
        recipe(files, data=data, steps=1, validate_every=1), tmp_path / "run",
        callbacks=[lambda event: told.append(event["text"]) if event["event"] == "warning" else None],
    )  # fmt: skip
    assert "1 of 31 questions" in told[0]
