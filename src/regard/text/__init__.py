"""Text to token ids and back."""

from regard.text.kinds import BOS, EOS, KINDS, PAD, SPECIALS, UNK
from regard.text.sampling import Splitter
from regard.text.tokenizer import IMPORTED, Specials, Tokenizer

__all__ = ["BOS", "EOS", "IMPORTED", "KINDS", "PAD", "SPECIALS", "UNK", "Specials", "Splitter", "Tokenizer"]
