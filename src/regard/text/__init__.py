"""Text to token ids and back."""

from regard.text.sampling import Splitter
from regard.text.tokenizer import BOS, EOS, IMPORTED, KINDS, PAD, SPECIALS, UNK, Specials, Tokenizer

__all__ = ["BOS", "EOS", "IMPORTED", "KINDS", "PAD", "SPECIALS", "UNK", "Specials", "Splitter", "Tokenizer"]
