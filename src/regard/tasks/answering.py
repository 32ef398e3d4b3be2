"""Answering: the part of a text that answers a question, or that there is none."""

# Shapes: B batch, T length, N tokens of the context in a window, K tokens of an answer, R references.

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.config import Recipe
from regard.data.cache import fingerprint
from regard.data.squad import Question, read_questions
from regard.errors import UserError
from regard.models import HEADS, MODELS
from regard.models.heads import Answerer
from regard.tasks.reading import Batch, Row, RowBatches, outputs, windows
from regard.tasks.spans import best_threshold, of_answer
from regard.tasks.task import Asked, Evaluation, Loss, kept
from regard.tasks.vocabulary import set_apart, tokenizer_for
from regard.text import Tokenizer

ASKED = 64  # most tokens of a question, as published
THRESHOLD = "no answer threshold"  # among a model's scores on dev


@dataclass(frozen=True)
class Window:
    """A question and a part of its context, from its token `first` on; spans: the characters of each of its tokens."""

    row: Row  # its target (R 4): first and last token of an answer, and where the context begins and ends
    spans: NDArray[np.int64]  # N 2
    first: int = 0


@dataclass(frozen=True)
class Answer:
    """The best part of the context, how likely it is among all parts and none, and how likely none is."""

    text: str
    start: int  # characters of the context
    end: int
    probability: float
    none: float
    margin: float  # by how much the score of no answer is above that of this one

    def said(self, threshold: float | None) -> str:
        """The text, or nothing when the margin is above the threshold."""
        return "" if threshold is not None and self.margin > threshold else self.text


class Reader:
    """From questions to rows, and from rows to answers: what training and prediction share."""

    def __init__(self, tokenizer: Tokenizer, longest: int, stride: int, max_answer: int) -> None:
        self.tokenizer, self.longest, self.stride, self.max_answer = tokenizer, longest, stride, max_answer

    def windows(self, questions: Sequence[Question]) -> list[list[Window]]:
        """The windows of each question."""
        contexts = {context: self.tokenizer.spans(context) for context in dict.fromkeys(q.context for q in questions)}
        asked = self.tokenizer.encode_batch([question.question for question in questions])
        return [self._windows(q, ids, *contexts[q.context]) for q, ids in zip(questions, asked, strict=True)]

    def _windows(
        self, question: Question, asked: list[int], ids: list[int], places: list[tuple[int, int]]
    ) -> list[Window]:
        specials = self.tokenizer.specials
        around = len(specials.framed([], [])[0])
        asked = asked[: max(0, min(ASKED, (self.longest - around) // 2))]
        spans = np.array(places, dtype=np.int64).reshape(-1, 2)
        made = []
        for first, last in windows([1] * len(ids), max(1, self.longest - around - len(asked)), self.stride):
            tokens, second = specials.framed(asked, ids[first:last])
            end = len(tokens) - 1
            begin = end - (last - first)
            targets = [
                (begin + a - first, begin + b - first) if first <= a <= b < last else (0, 0)
                for a, b in (_tokens(spans, start, start + len(text)) for text, start in question.answers)
            ] or [(0, 0)]
            target = np.array([(*target, begin, end) for target in targets])
            made.append(Window(Row(np.array(tokens), second, target), spans[first:last], first))
        return made

    def collate(self, rows: Sequence[Row], draws: np.random.Generator | None = None) -> Batch:
        """Of several references any is learned in its turn."""
        chosen = [row.target[0 if draws is None else draws.integers(len(row.target))] for row in rows]
        return Batch.of(rows, torch.from_numpy(np.stack(chosen)), len(rows), self.tokenizer.specials.pad)

    def logits(self, model: Any, groups: Sequence[Sequence[Window]]) -> list[list[NDArray[np.float64]]]:
        """Of every token of each window as the first and as the last of an answer (T 2)."""
        found = iter(outputs(model, [window.row for group in groups for window in group], self.collate))
        return [[next(found) for _ in group] for group in groups]

    def answers(self, model: Any, questions: Sequence[Question]) -> list[Answer]:
        groups = self.windows(questions)
        return list(map(self.answer, questions, groups, self.logits(model, groups)))

    def answer(self, question: Question, group: Sequence[Window], logits: Sequence[NDArray[np.float64]]) -> Answer:
        """The best span of all windows; no answer scores as in the window that believes in it least, as published."""
        none = min(float(scores[0].sum()) for scores in logits)
        count = group[-1].first + len(group[-1].spans)
        every = np.full((self.max_answer, count), -np.inf)  # a span that two windows have scores as in the better one
        places = np.zeros((count, 2), dtype=np.int64)
        for window, scores in zip(group, logits, strict=True):
            _, _, first, last = window.row.target[0]
            here = slice(window.first, window.first + last - first)
            places[here] = window.spans
            sums = spans_of(scores[first:last], self.max_answer)  # K N
            every[: len(sums), here] = np.maximum(every[: len(sums), here], sums)
        best, start, end = -np.inf, 0, 0
        if count:  # else the context is empty
            more, place = np.unravel_index(every.argmax(), every.shape)
            best, start, end = float(every[more, place]), int(places[place, 0]), int(places[place + more, 1])
        total = np.logaddexp(none, np.logaddexp.reduce(every, axis=None))
        text = question.context[start:end]
        start, end = start + len(text) - len(text.lstrip()), end - len(text) + len(text.rstrip())
        return Answer(
            question.context[start:end], start, max(start, end),
            float(np.exp(best - total)), float(np.exp(none - total)), none - best if np.isfinite(best) else 0.0,
        )  # fmt: skip

    def scores(
        self, questions: Sequence[Question], answers: Sequence[Answer], threshold: float | None = None
    ) -> dict[str, float]:
        """Exact match and F1 as SQuAD counts them. With a threshold, a margin above it means no answer."""
        given = [a.said(threshold) for a in answers]
        made = np.array([of_answer(text, [t for t, _ in q.answers]) for text, q in zip(given, questions, strict=True)])
        found = {"exact": float(made[:, 0].mean()), "f1": float(made[:, 1].mean())}
        silent = np.array([not question.answers for question in questions])
        if silent.any():
            found |= {"f1 without answers": float(made[silent, 1].mean())}
        if silent.any() and not silent.all():
            found |= {"f1 with answers": float(made[~silent, 1].mean())}
        return found

    def threshold(self, questions: Sequence[Question], answers: Sequence[Answer]) -> float:
        """The margin above which no answer is the better one, for the best F1 of these questions."""
        answered = [of_answer(a.text, [t for t, _ in q.answers])[1] for a, q in zip(answers, questions, strict=True)]
        silent = [float(not question.answers) for question in questions]
        return best_threshold(np.array([a.margin for a in answers]), np.array(answered), np.array(silent))


class AnsweringTask:
    """Learns where in a text the answer to a question stands."""

    unit = "windows"
    labels: Sequence[str] = ()

    def __init__(
        self,
        recipe: Recipe,
        reader: Reader,
        train: Sequence[Question],
        dev: Sequence[Question],
        test: Sequence[Question],
    ) -> None:
        self.recipe, self.reader, self.dev, self.test = recipe, reader, dev, test
        self.source = self.target = reader.tokenizer
        self.silent = not all(question.answers for question in train)  # some have no answer
        rows, config = [window.row for group in reader.windows(train) for window in group], recipe.train
        self.batches = RowBatches(rows, config.batch_tokens, config.batch, recipe.seed, reader.collate)

    def model(self) -> Any:
        body = MODELS[self.recipe.network_name](self.recipe.network(len(self.source), len(self.source)))
        return HEADS["answering"](body, self.recipe.head, 2)

    def loss(self, model: Answerer, batch: Batch) -> Loss:
        """Of the first and of the last token, each among the context's tokens and the begin symbol (no answer)."""
        return Loss(
            _loss(model(batch.tokens, batch.lengths, batch.segments), batch.targets, self.recipe.train.label_smoothing),
            batch.count,
        )

    def evaluate(self, model: Any) -> Evaluation:
        groups = self.reader.windows(self.dev)
        logits = self.reader.logits(model, groups)
        answers = list(map(self.reader.answer, self.dev, groups, logits))
        losses = [
            float(_loss(torch.from_numpy(scores)[None], torch.from_numpy(window.row.target[:1]), 0.0))
            for group, found in zip(groups, logits, strict=True)
            for window, scores in zip(group, found, strict=True)
        ]
        threshold = self._threshold(answers)
        scores = self.reader.scores(self.dev, answers, threshold)
        samples = [
            {
                "source": q.question,
                "output": a.said(threshold),
                "reference": q.answers[0][0] if q.answers else "",
            }
            for q, a in zip(self.dev[: self.recipe.train.samples], answers, strict=False)
        ]
        chosen = {} if threshold is None else {THRESHOLD: threshold}
        return Evaluation({"loss": sum(losses) / len(losses), **scores}, samples, chosen)

    def _threshold(self, answers: Sequence[Answer]) -> float | None:
        """Chosen on dev, when questions without an answer are learned."""
        return self.reader.threshold(self.dev, answers) if self.silent else None

    def scores(self, model: Any) -> dict[str, dict[str, Any]]:
        answers = self.reader.answers(model, self.dev)
        threshold = self._threshold(answers)
        found = {"dev": self.reader.scores(self.dev, answers, threshold)}
        if self.test:
            found["test"] = self.reader.scores(self.test, self.reader.answers(model, self.test), threshold)
        if threshold is not None:
            found["dev"][THRESHOLD] = threshold
        return {name: kept(scores) for name, scores in found.items()}


def prepare(asked: Asked) -> tuple[AnsweringTask, dict[str, Any]]:
    """The task, and the facts that must be the same when the run is resumed."""
    recipe, data = asked.recipe, asked.recipe.data
    if not data.train:
        raise UserError("the recipe names no training data: set data.train to SQuAD's .json or to .jsonl files")
    train, dev, test = (
        read_questions(paths, warn=lambda text: asked.tell({"event": "warning", "text": text})) if paths else []
        for paths in (data.train, data.dev, data.test)
    )
    if not any(question.answers for question in train):
        raise UserError("no question of the training data has an answer; there is nothing to learn")
    for name, left, given in (("dev", dev, data.dev), ("test", test, data.test)):
        if given and not left:
            raise UserError(f"no question of data.{name} is left: none of its answers stands at its answer_start")
    if not dev:
        train, dev = set_apart(train, asked, lambda question: question.context, Question.to_dict)
    tokenizer = tokenizer_for(asked, (text for question in train for text in (question.question, question.context)))
    task = AnsweringTask(recipe, Reader(tokenizer, data.max_length, data.stride, data.max_answer), train, dev, test)
    none = sum(not question.answers for question in train)
    told = f"{len(train):,} training questions, {len(dev):,} dev" + (f"; {none:,} have no answer" if none else "")
    asked.tell({"event": "prepare", "text": told})
    return task, {"data": fingerprint(data.train), "pairs": len(train), "tokenizers": [tokenizer.checksum] * 2}


def spans_of(scores: NDArray[np.float64], longest: int) -> NDArray[np.float64]:
    """The score of each span: K N, by how many tokens follow its first and where that is."""
    first, last = scores.T
    sums = np.full((min(longest, len(scores)), len(scores)), -np.inf)
    for more, row in enumerate(sums):
        row[: len(scores) - more] = first[: len(scores) - more] + last[more:]
    return sums


def _tokens(spans: NDArray[np.int64], start: int, end: int) -> tuple[int, int]:
    """The first and the last token that stand for any of these characters."""
    inside = np.flatnonzero((spans[:, 1] > start) & (spans[:, 0] < end))
    return (int(inside[0]), int(inside[-1])) if len(inside) else (-1, -1)


def _loss(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """logits: B T 2, targets: B 4. The mean of both ends, summed over the rows."""
    places = torch.arange(logits.size(1), device=logits.device)
    allowed = ((places >= targets[:, 2:3]) & (places < targets[:, 3:4])) | (places == 0)  # B T
    logs = logits.float().masked_fill(~allowed[..., None], -torch.inf).log_softmax(1)
    right = logs.gather(1, targets[:, None, :2]).sum((1, 2)) / 2  # B
    each = logs.masked_fill(~allowed[..., None], 0.0).sum((1, 2)) / (2 * allowed.sum(1))
    return -((1 - smoothing) * right + smoothing * each).sum()
