"""Questions about texts whose answers stand in the text: SQuAD's JSON (1.1 and 2.0) or JSON lines."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.formats import ending, parse_object, read_lines, read_objects
from regard.errors import UserError


@dataclass(frozen=True)
class Question:
    """A question about a context, and its answers with the character that each begins at; none if it has none."""

    context: str
    question: str
    answers: tuple[tuple[str, int], ...] = ()
    where: str = "input"
    id: str = ""

    def to_dict(self) -> dict[str, Any]:
        answers = [{"text": text, "answer_start": start} for text, start in self.answers]
        told = {"context": self.context, "question": self.question, "answers": answers}
        return told | {"is_impossible": not answers} | ({"id": self.id} if self.id else {})


def read_questions(
    paths: Sequence[str | Path],
    *,
    labelled: bool = True,
    placed: bool = True,
    warn: Callable[[str], None] = lambda text: None,
) -> list[Question]:
    """All questions of .json files as SQuAD has them, or of .jsonl with one question a line.

    An answer that does not stand at its answer_start is left out with a warning, and a question that has no other too.
    placed=False: where an answer stands is not asked (and told as 0), as SQuAD's scorer does not ask.
    """
    found: list[Question] = []
    wrong: list[str] = []
    lost = total = 0
    for path in map(Path, paths):
        kind = ending(path)
        if kind not in (".json", ".jsonl"):
            raise UserError(f"{path}: questions are read from .json (SQuAD) or .jsonl files (or .gz of these)")
        before = total
        for where, context, given in _lines(path) if kind == ".jsonl" else _articles(path):
            total += 1
            question = Question(context, _text(given, "question", where), (), where, question_id(given))
            if not labelled:
                found.append(question)
                continue
            answers = () if given.get("is_impossible") else _answers(given, where, placed)
            right = tuple(a for a in answers if not placed or (a[0] and context.startswith(*a)))
            wrong += [where] * (len(answers) - len(right))
            if answers and not right:
                lost += 1
            else:
                found.append(Question(context, question.question, right, where, question.id))
        if total == before:
            raise UserError(f"{path} has no questions")
    if wrong:
        warn(
            f"{len(wrong):,} answers do not stand at their answer_start and are left out, "
            f"and {lost:,} of {total:,} questions with them; the first: {wrong[0]}"
        )
    return found


def _articles(path: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Place, context and entry of each question of a SQuAD file."""
    content = parse_object("\n".join(read_lines(path)), str(path))
    for i, article in enumerate(_list(content, "data", str(path)), 1):
        for j, paragraph in enumerate(_list(article, "paragraphs", f"{path}, article {i}"), 1):
            where = f"{path}, article {i}, paragraph {j}"
            context = _text(paragraph, "context", where)
            for k, given in enumerate(_list(paragraph, "qas", where), 1):
                yield f"{where}, question {k}", context, _object(given, f"{where}, question {k}")


def _lines(path: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    return ((where, _text(given, "context", where), given) for where, given in read_objects(path))


def parse_question(line: str, where: str) -> dict[str, Any]:
    """One line of JSON lines, with its context and question."""
    given = parse_object(line, where)
    for key in ("context", "question"):
        _text(given, key, where)
    return given


def question_id(given: Mapping[str, Any]) -> str:
    """Of a number its digits; of a question that has none, nothing."""
    return "" if given.get("id") is None else str(given["id"])


def _answers(given: dict[str, Any], where: str, placed: bool) -> tuple[tuple[str, int], ...]:
    answers = []
    columns = _columns(given.get("answers"))
    for answer in _list(given, "answers", where) if columns is None else columns:
        text, start = _text(answer, "text", where), answer.get("answer_start")
        if not placed:
            start = 0
        elif not isinstance(start, int) or start < 0:
            raise UserError(f"{where}: answer_start is {start!r}, where a number of characters from 0 should be")
        answers.append((text, start))
    if not answers:
        raise UserError(f"{where}: no answers; a question without any is marked is_impossible: true")
    return tuple(answers)


def _columns(answers: Any) -> list[dict[str, Any]] | None:
    """Answers whose texts stand in one list and their places in another, as Hugging Face's data sets have them."""
    if not isinstance(answers, dict) or not all(isinstance(column, list) for column in answers.values()):
        return None
    if len({len(column) for column in answers.values()}) != 1:
        return None
    return [dict(zip(answers, row, strict=True)) for row in zip(*answers.values(), strict=True)]


def _list(value: Any, key: str, where: str) -> list[Any]:
    found = _object(value, where).get(key)
    if not isinstance(found, list):
        raise UserError(f"{where}: no list {key!r}; a SQuAD file is data > paragraphs > qas > answers")
    return found


def _text(value: Any, key: str, where: str) -> str:
    found = _object(value, where).get(key)
    if not isinstance(found, str):
        raise UserError(f"{where}: no text {key!r}")
    return found


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UserError(f"{where}: not a JSON object")
    return value
