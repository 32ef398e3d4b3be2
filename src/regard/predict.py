"""What trained models that read say of texts: labels, names, answers, each with probabilities."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Protocol

import torch
from torch.nn import functional as F

from regard.bundle import Bundle
from regard.data.columns import Sentence, read_sentences, spans
from regard.data.documents import Flat, documents
from regard.data.formats import ending, read_lines
from regard.data.squad import Question, parse_question, question_id, read_questions
from regard.data.tables import KINDS, Example, read_examples
from regard.errors import UserError
from regard.tasks import answering, classification, tagging
from regard.tasks.language import UNITS
from regard.tasks.masked import Texts, measure
from regard.tasks.reading import Row

Warn = Callable[[str], None]


def _row(*cells: str) -> str:
    """A line of a table, whatever ends of lines and tabs a text has."""
    return "\t".join(" ".join(re.split(r"[\t\r\n]", cell)) for cell in cells)


@dataclass(frozen=True)
class Prediction:
    """What is said of one text: labels with probabilities, the likeliest first, or a number."""

    labels: dict[str, float]
    number: float | None = None
    chosen: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    cut: bool = False  # the texts are longer than what the model reads

    def to_dict(self) -> dict[str, Any]:
        text: dict[str, Any] = {"text": self.texts[0] if len(self.texts) == 1 else list(self.texts)}
        if self.cut:
            text["cut"] = True
        if self.number is not None:
            return text | {"number": self.number}
        return text | {"labels": list(self.chosen), "probabilities": {n: round(p, 5) for n, p in self.labels.items()}}

    def table(self, top: int) -> str:
        """A line: the likeliest labels, and the text."""
        if self.number is not None:
            return _row(f"{self.number:.4f}", *self.texts)
        shown = list(self.labels.items())[:top]
        if top == 1 and len(self.chosen) != 1:  # of several labels all that are given, or none
            shown = [(name, self.labels[name]) for name in self.chosen]
            return _row(", ".join(f"{name} {p:.3f}" for name, p in shown) or "-", *self.texts)
        return _row(*(f"{name} {p:.3f}" for name, p in shown), *self.texts)


@dataclass(frozen=True)
class Filled:
    """A text, and for each of its masks the likeliest words with their probabilities."""

    text: str
    masks: tuple[dict[str, float], ...]

    def to_dict(self) -> dict[str, Any]:
        return {"text": self.text, "masks": [{word: round(p, 5) for word, p in mask.items()} for mask in self.masks]}

    def table(self, top: int) -> str:
        """A line for each mask: the likeliest words, and the text."""
        rows = ([f"{word} {p:.3f}" for word, p in list(mask.items())[:top]] for mask in self.masks)
        return "\n".join(_row(*row, self.text) for row in rows)


@dataclass(frozen=True)
class Entity:
    """A span of words with its type; its probability is that of all its labels together."""

    type: str
    text: str
    words: tuple[int, int]  # the first, and the one after the last
    probability: float


@dataclass(frozen=True)
class Tagged:
    """The words of a sentence, a BIO label with its probability for each, and the spans that these make."""

    words: tuple[str, ...]
    labels: tuple[str, ...]
    probabilities: tuple[float, ...]

    @property
    def entities(self) -> list[Entity]:
        return [
            Entity(kind, " ".join(self.words[a:b]), (a, b), prod(self.probabilities[a:b]))
            for kind, a, b in spans(self.labels)
        ]

    def to_dict(self) -> dict[str, Any]:
        rounded = [round(p, 5) for p in self.probabilities]
        entities = [
            {"type": e.type, "text": e.text, "words": list(e.words), "probability": round(e.probability, 5)}
            for e in self.entities
        ]
        return {"words": self.words, "labels": self.labels, "probabilities": rounded, "entities": entities}

    def table(self, top: int) -> str:
        """CoNLL columns: word, probability, label."""
        rows = zip(self.words, self.probabilities, self.labels, strict=True)
        return "".join(f"{word}\t{p:.3f}\t{label}\n" for word, p, label in rows)


@dataclass(frozen=True)
class Answered:
    """A question's answer as it stands in the context (characters start to end); "" if there is none."""

    question: str
    answer: str
    probability: float
    start: int
    end: int
    id: str = ""  # of a question that has one

    def to_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = {"id": self.id} if self.id else {}
        told |= {"question": self.question, "answer": self.answer, "probability": round(self.probability, 5)}
        return told | ({"start": self.start, "end": self.end} if self.answer else {})

    def table(self, top: int) -> str:
        """A line: answer, probability, its characters, question."""
        return _row(self.answer, f"{self.probability:.3f}", f"{self.start}-{self.end}", self.question)


class Predictor(Protocol):
    """What every task that reads can do with a trained model; the inputs are of the task's own kind."""

    def __call__(self, texts: Sequence[Any], /) -> Sequence[Any]: ...

    def lines(self, lines: Iterable[str]) -> Iterator[Any]:
        """Inputs from lines of text, such as standard input's, as they come."""

    def read(self, file: Path, columns: Sequence[str] = ()) -> list[Any]:
        """Inputs from a file of the task's kind, without labels."""

    def examples(self, paths: Sequence[str], warn: Warn, columns: Sequence[str] = (), label: str = "") -> Sequence[Any]:
        """What can be scored on."""

    def evaluate(self, examples: Any) -> dict[str, Any]:
        """The scores; a table by types is under "types", and under "positive" the label that f1 is of."""


class ClassPredictor:
    """A trained classifier: texts (or pairs of them) in, predictions out."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle, self.data = bundle, bundle.data
        kind = self.data.get("labels", "one")
        self.reader = classification.Reader(bundle.source, bundle.labels, kind, bundle.max_length)

    @property
    def texts(self) -> Sequence[str]:
        """The columns it was trained on, as far as the recipe named them."""
        named: Sequence[str] = self.data.get("text", ())
        return named

    def lines(self, lines: Iterable[str]) -> Iterator[Any]:
        """A text a line; two texts have a tab between them (a model from elsewhere does not tell which it reads)."""
        pairs, unknown = len(self.texts) == 2, "text" not in self.data
        for line in lines:
            yield tuple(line.split("\t")) if pairs or (unknown and line.count("\t") == 1) else line

    def read(self, file: Path, columns: Sequence[str] = ()) -> list[Any]:
        """The columns that are asked for, else those of training, or all of a file that has the texts alone."""
        if ending(file) in KINDS:
            trained_here = "text" in self.data  # a model from elsewhere does not tell what it read
            given = read_examples(
                [file],
                columns or self.texts,
                self.data.get("label", ""),
                labelled=False,
                alone=not columns,
                is_label=lambda label: trained_here and self.reader.knows(label),
            )
            return [example.texts for example in given]
        if columns:
            raise UserError(f"--text names columns; {file} is read line by line, and is none of {', '.join(KINDS)}")
        return list(self.lines(read_lines(file)))

    def examples(self, paths: Sequence[str], warn: Warn, columns: Sequence[str] = (), label: str = "") -> list[Row]:
        rows = self.reader.rows(read_examples(paths, columns or self.texts, label or self.data.get("label", "")))
        if told := classification.cut_told(sum(row.cut for row in rows), len(rows), self.reader.longest):
            warn(told)
        return rows

    def __call__(self, texts: Sequence[str | Sequence[str]]) -> list[Prediction]:
        examples = [Example((text,) if isinstance(text, str) else tuple(text), "", "input") for text in texts]
        wanted = len(self.texts)
        for example in examples:
            if len(example.texts) > 2 or (wanted and len(example.texts) != wanted):
                raise UserError(
                    f"there are {len(example.texts)} texts in {' '.join(example.texts)[:40]!r}; this model reads "
                    + (f"{wanted}" if wanted else "one or two")
                    + (f" ({' and '.join(self.texts)}), on a line with a tab between them" if wanted == 2 else "")
                )
        if not examples:
            return []
        rows = self.reader.rows(examples, labelled=False)
        outputs = self.reader.outputs(self.bundle.model, rows)
        told = [(example.texts, row.cut) for example, row in zip(examples, rows, strict=True)]
        if self.reader.kind == "number":
            return [Prediction({}, float(out[0]), (), *rest) for out, rest in zip(outputs, told, strict=True)]
        return [self._prediction(p, *rest) for p, rest in zip(self.reader.probabilities(outputs), told, strict=True)]

    def _prediction(self, row: Any, texts: tuple[str, ...], cut: bool) -> Prediction:
        ranked = {self.reader.labels[i]: float(row[i]) for i in (-row).argsort(kind="stable")}
        several = self.reader.kind == "several"
        chosen = tuple(name for name, p in ranked.items() if p >= 0.5) if several else tuple(ranked)[:1]
        return Prediction(ranked, None, chosen, texts, cut)

    def evaluate(self, examples: Sequence[Row]) -> dict[str, Any]:
        scores = dict(self.reader.scores(examples, self.reader.outputs(self.bundle.model, examples)))
        return scores | ({"positive": self.reader.positive} if self.reader.positive else {})


class FillPredictor:
    """A model of masked words: texts with masks in, the likeliest words for each mask out."""

    most = 10  # words told of each mask

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle

    def lines(self, lines: Iterable[str]) -> Iterator[Any]:
        return iter(lines)

    def read(self, file: Path, columns: Sequence[str] = ()) -> list[Any]:
        return list(self.lines(read_lines(file)))

    def examples(self, paths: Sequence[str], warn: Warn, columns: Sequence[str] = (), label: str = "") -> Texts:
        """The rows of files of plain text."""
        bundle, data = self.bundle, self.bundle.data
        pieces = documents(paths, data.get("document", UNITS["masked"]), next(iter(data.get("text", ())), "text"))
        return Texts(
            Flat.of(pieces, bundle.source), bundle.source, bundle.max_length, pairs=bundle.model.head.next_sentence
        )

    @torch.inference_mode()
    def __call__(self, texts: Sequence[str]) -> list[Filled]:
        return [Filled(text, self._filled(text)) for text in texts]

    def _filled(self, text: str) -> tuple[dict[str, float], ...]:
        model, tokenizer = self.bundle.model, self.bundle.source
        specials = tokenizer.specials
        ids = specials.framed(tokenizer.encode_masked(text))[0]
        if specials.mask not in ids:
            assert specials.mask is not None
            raise UserError(f"there is no {tokenizer.token(specials.mask)} to be filled in here: {text[:60]!r}")
        if len(ids) > self.bundle.max_length:
            raise UserError(f"{len(ids)} tokens, where this model reads up to {self.bundle.max_length}: {text[:60]!r}")
        tokens = torch.tensor([ids], device=next(model.parameters()).device)
        hidden = model.words(model.states(tokens, None)[tokens == specials.mask])
        logits = F.linear(hidden, model.output, model.words.bias)
        allowed = torch.full_like(logits, -torch.inf)
        allowed[:, tokenizer.words] = logits[:, tokenizer.words]  # a model may have numbers to spare
        return tuple(self._likeliest(row) for row in allowed.softmax(-1))

    def _likeliest(self, probabilities: torch.Tensor) -> dict[str, float]:
        """Of tokens that look alike but for the space before them the likelier one is told."""
        best = probabilities.topk(min(2 * self.most, len(self.bundle.source.words)))
        words: dict[str, float] = {}
        for look, value in zip(self.bundle.source.surface(best.indices), best.values, strict=True):
            words.setdefault(look.strip() or look, float(value))
        return dict(list(words.items())[: self.most])

    def evaluate(self, examples: Texts) -> dict[str, Any]:
        """The scores of training."""
        return dict(measure(self.bundle.model, examples))


class TagPredictor:
    """A trained tagger: sentences (words with spaces between, or lists of words) in, labels of all words out."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle, self.data = bundle, bundle.data
        stride = self.data.get("stride", bundle.max_length // 4)
        self.reader = tagging.Reader(
            bundle.source,
            bundle.labels,
            bundle.max_length,
            stride,
            bundle.name,
            strict="recipe" in bundle.training,  # a model from elsewhere has none
        )

    def lines(self, lines: Iterable[str]) -> Iterator[Any]:
        return iter(lines)

    def read(self, file: Path, columns: Sequence[str] = ()) -> list[Any]:
        """Columns, or .jsonl; a .txt file has a sentence a line."""
        if ending(file) in (".txt", ""):
            return list(self.lines(read_lines(file)))
        return [s.words for s in read_sentences([file], self._word(columns), labelled=False)]

    def examples(
        self, paths: Sequence[str], warn: Warn, columns: Sequence[str] = (), label: str = ""
    ) -> list[Sentence]:
        return read_sentences(paths, self._word(columns), label or self.data.get("label", ""))

    def _word(self, columns: Sequence[str]) -> str:
        """The column that is asked for, else that of training."""
        return next(iter(columns or self.data.get("text", ())), "")

    def __call__(self, texts: Sequence[str | Sequence[str]]) -> list[Tagged]:
        given = [Sentence(tuple(t.split() if isinstance(t, str) else t), (), "input") for t in texts]
        found = self.reader.logits(self.bundle.model, given)
        return [self._tagged(sentence, logits) for sentence, logits in zip(given, found, strict=True)]

    def _tagged(self, sentence: Sentence, logits: Any) -> Tagged:
        chosen, likely = self.reader.chosen(logits), self.reader.probabilities(logits)
        probabilities = tuple(float(row[i]) for row, i in zip(likely, chosen, strict=True))
        return Tagged(sentence.words, tuple(self.reader.tags(logits)), probabilities)

    def evaluate(self, examples: Sequence[Sentence]) -> dict[str, Any]:
        scores, types = self.reader.scores(examples, self.reader.logits(self.bundle.model, examples))
        return scores | {"types": types}


class AnswerPredictor:
    """A trained reader of texts: {"context": ..., "question": ...} in, answers out."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle, data = bundle, bundle.data
        stride, longest = data.get("stride", bundle.max_length // 4), data.get("max_answer", 30)
        self.reader = answering.Reader(bundle.source, bundle.max_length, stride, longest)
        told = bundle.scores.get("dev", {}).get(answering.THRESHOLD)
        # Chosen in training; a model from elsewhere lets its scores decide; one that always had an answer gives one.
        always = None if "recipe" in bundle.training else 0.0
        self.threshold: float | None = always if told is None else float(told["value"])

    def lines(self, lines: Iterable[str]) -> Iterator[Any]:
        return (parse_question(line, f"line {number}") for number, line in enumerate(lines, 1) if line.strip())

    def read(self, file: Path, columns: Sequence[str] = ()) -> list[Any]:
        given = read_questions([file], labelled=False)
        return [{"context": q.context, "question": q.question, "id": q.id} for q in given]

    def examples(
        self, paths: Sequence[str], warn: Warn, columns: Sequence[str] = (), label: str = ""
    ) -> list[Question]:
        return read_questions(paths, placed=False, warn=warn)

    def __call__(self, texts: Sequence[Mapping[str, str]]) -> list[Answered]:
        given = [Question(text["context"], text["question"], id=question_id(text)) for text in texts]
        found = self.reader.answers(self.bundle.model, given)
        return [self._answered(question, answer) for question, answer in zip(given, found, strict=True)]

    def _answered(self, question: Question, answer: answering.Answer) -> Answered:
        if not answer.said(self.threshold):
            return Answered(question.question, "", answer.none, 0, 0, question.id)
        return Answered(question.question, answer.text, answer.probability, answer.start, answer.end, question.id)

    def evaluate(self, examples: Sequence[Question]) -> dict[str, Any]:
        answers = self.reader.answers(self.bundle.model, examples)
        return dict(self.reader.scores(examples, answers, self.threshold))


PREDICTORS: dict[str, Callable[[Bundle], Predictor]] = {
    "classification": ClassPredictor,
    "tagging": TagPredictor,
    "answering": AnswerPredictor,
    "masked": FillPredictor,
}
