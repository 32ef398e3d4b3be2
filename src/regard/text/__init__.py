"""Text to token ids and back."""

from regard.text.sampling import Splitter
from regard.text.tokenizer import BOS, EOS, KINDS, PAD, SPECIALS, UNK, Tokenizer

__all__ = ["BOS", "EOS", "KINDS", "PAD", "SPECIALS", "UNK", "Splitter", "Tokenizer"]
