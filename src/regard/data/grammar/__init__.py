"""An endless English-Spanish corpus from a grammar: every pair right, every split honest, every "it" resolved."""

from regard.data.grammar.lexicon import words
from regard.data.grammar.sentence import Pronoun, Role, Sentence
from regard.data.grammar.splits import LIMIT, MAX_WORDS, SPLITS, generate

__all__ = ["LIMIT", "MAX_WORDS", "SPLITS", "Pronoun", "Role", "Sentence", "generate", "words"]
