"""SQuAD's JSON: questions with answers that stand where they are said to, and mistakes told with their place."""

import json
from pathlib import Path
from typing import Any

import pytest

from regard.data.squad import read_questions
from regard.errors import UserError

CONTEXT = "Ann lives in Rome. Rome is old."


def write(folder: Path, *entries: dict[str, Any], **file: Any) -> Path:
    paragraph = {"context": CONTEXT, "qas": list(entries)}
    content = {"version": "1.1", "data": [{"title": "a", "paragraphs": [paragraph]}]} | file
    (folder / "a.json").write_text(json.dumps(content), encoding="utf-8")
    return folder / "a.json"


def entry(*answers: tuple[str, int], **more: Any) -> dict[str, Any]:
    given = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": "7", "question": "Where?", "answers": given} | more


def test_answers_with_their_places(tmp_path: Path) -> None:
    (question,) = read_questions([write(tmp_path, entry(("Rome", 13), ("Rome", 19)))])
    assert (question.context, question.question, question.id) == (CONTEXT, "Where?", "7")
    assert question.answers == (("Rome", 13), ("Rome", 19))


def test_questions_without_an_answer(tmp_path: Path) -> None:
    path = write(tmp_path, entry(is_impossible=True, plausible_answers=[{"text": "Ann", "answer_start": 0}]))
    assert read_questions([path])[0].answers == ()


def test_answers_may_come_as_columns(tmp_path: Path) -> None:
    columns = {"text": ["Rome", "Ann"], "answer_start": [13, 0]}
    (question,) = read_questions([write(tmp_path, entry() | {"answers": columns})])
    assert question.answers == (("Rome", 13), ("Ann", 0))
    for wrong in (columns | {"text": ["Rome"]}, {"text": "Rome", "answer_start": 13}):
        with pytest.raises(UserError, match="no list 'answers'"):
            read_questions([write(tmp_path, entry() | {"answers": wrong})])
    with pytest.raises(UserError, match="is marked is_impossible"):
        read_questions([write(tmp_path, entry() | {"answers": {"text": [], "answer_start": []}})])


def test_answers_elsewhere_are_left_out_and_told(tmp_path: Path) -> None:
    told: list[str] = []
    path = write(tmp_path, entry(("Rome", 13), ("Rome", 14)), entry(("Oslo", 13)), entry(("Ann", 0)))
    found = read_questions([path], warn=told.append)
    assert [q.answers for q in found] == [(("Rome", 13),), (("Ann", 0),)]
    assert told == [
        "2 answers do not stand at their answer_start and are left out, and 1 of 3 questions with them; "
        f"the first: {path}, article 1, paragraph 1, question 1"
    ]


def test_where_an_answer_stands_is_not_asked_for_scores(tmp_path: Path) -> None:
    """As SQuAD's own scorer does not: no reference and no question is lost."""
    path = write(tmp_path, entry(("Rome", 14), ("Oslo", -1)), {"question": "Who?", "answers": [{"text": "Ann"}]})
    found = read_questions([path], placed=False)
    assert [[text for text, _ in q.answers] for q in found] == [["Rome", "Oslo"], ["Ann"]]


def test_json_lines_there_and_back(tmp_path: Path) -> None:
    first = read_questions([write(tmp_path, entry(("Rome", 13)), entry(is_impossible=True))])
    lines = tmp_path / "a.jsonl"
    lines.write_text("\n".join(json.dumps(q.to_dict()) for q in first))
    again = read_questions([lines])
    assert [q.to_dict() for q in again] == [q.to_dict() for q in first]


def test_without_labels_a_question_is_enough(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"context": "a b", "question": "c?"}\n')
    (question,) = read_questions([tmp_path / "a.jsonl"], labelled=False)
    assert (question.context, question.question) == ("a b", "c?")


@pytest.mark.parametrize(
    ("entries", "file", "words"),
    [
        ([entry()], {}, "question 1: no answers; a question without any is marked is_impossible"),
        ([entry(("Rome", -1))], {}, "answer_start is -1"),
        ([entry(question=5)], {}, "paragraph 1, question 1: no text 'question'"),
        ([{"question": "a"}], {}, "no list 'answers'"),
        ([], {}, "has no questions"),
        ([], {"data": 1}, "no list 'data'"),
        ([], {"data": [1]}, "article 1: not a JSON object"),
        ([], {"data": [{"paragraphs": [{}]}]}, "article 1, paragraph 1: no text 'context'"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, entries: list[dict[str, Any]], file: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        read_questions([write(tmp_path, *entries, **file)])


def test_files_that_are_no_questions(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(UserError, match="not JSON"):
        read_questions([tmp_path / "a.json"])
    (tmp_path / "a.jsonl").write_text('\n{"context": "a"}\n')
    with pytest.raises(UserError, match="line 2: no text 'question'"):
        read_questions([tmp_path / "a.jsonl"])
    with pytest.raises(UserError, match=r"are read from \.json"):
        read_questions([tmp_path / "a.tsv"])
