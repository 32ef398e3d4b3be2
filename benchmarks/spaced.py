"""Texts as tokens with spaces between, which is what peers read as words; and the score of what they wrote."""

from collections.abc import Sequence

from regard.config import ScoreConfig
from regard.tasks.scores import score
from regard.text import Tokenizer

SCORE = ScoreConfig(tokenize="none")


def spaced(tokenizer: Tokenizer, texts: Sequence[str]) -> list[str]:
    return [" ".join(map(tokenizer.token, ids)) for ids in tokenizer.encode_batch(list(texts))]


def joined(tokenizer: Tokenizer, lines: Sequence[str]) -> list[str]:
    """The texts again. Words that are no tokens, such as a peer's own marks, are left out."""
    numbers = {tokenizer.token(i): i for i in range(len(tokenizer))}
    return [tokenizer.decode(numbers[word] for word in line.split(" ") if word in numbers) for line in lines]


def bleu(outputs: Sequence[str], references: Sequence[str]) -> float:
    return round(score(list(outputs), list(references), SCORE, names=("BLEU",))["BLEU"].value, 2)
