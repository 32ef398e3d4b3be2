"""The kinds of token, and how each is cut, learned and joined by the `tokenizers` library."""

import json
from collections.abc import Callable
from dataclasses import dataclass

from tokenizers import Regex, decoders, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as Inner

PAD, UNK, BOS, EOS = 0, 1, 2, 3
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")

# A word with its leading space, single digits (so that numbers are copied digit by digit), punctuation, white space.
# Runs are cut at 64 characters: a line without spaces costs linear time, and no token can grow without end.
# Letters never share a piece with punctuation, hence no learned token can spell one of SPECIALS.
WORDS = r" ?[\p{L}\p{M}]{1,64}| ?\p{N}| ?[^\s\p{L}\p{M}\p{N}]{1,64}|\s{1,64}(?!\S)|\s{1,64}"
CHARACTERS = r"[\s\S]"


def _byte_characters() -> list[str]:
    """The printable character that stands for each byte in a byte-level vocabulary (GPT-2's table)."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(spare)) for byte in range(256)]


BYTE_CHARACTERS = _byte_characters()
BYTE_OF = {character: byte for byte, character in enumerate(BYTE_CHARACTERS)}


@dataclass(frozen=True)
class Kind:
    """How one kind of token is cut, learned and joined."""

    help: str
    least: int  # the smallest vocabulary it can have, specials included
    model: Callable[[], models.Model]
    trainer: Callable[[int], trainers.Trainer] | None  # None: there is nothing to learn
    pattern: str = WORDS
    byte_level: bool = True

    def start(self) -> Inner:
        inner = Inner(self.model())
        cut = pre_tokenizers.Split(Regex(self.pattern), behavior="isolated")
        if self.byte_level:
            to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
            inner.pre_tokenizer = pre_tokenizers.Sequence([cut, to_bytes])
            inner.decoder = decoders.ByteLevel()
        else:
            inner.pre_tokenizer = cut
            inner.decoder = decoders.Fuse()
        inner.encode_special_tokens = True
        return inner


def _word_level() -> models.Model:
    return models.WordLevel({SPECIALS[UNK]: UNK}, unk_token=SPECIALS[UNK])


def _bytes_only() -> models.Model:
    return models.BPE({token: i for i, token in enumerate([*SPECIALS, *BYTE_CHARACTERS])}, [])


def _bpe_trainer(size: int) -> trainers.Trainer:
    return trainers.BpeTrainer(
        vocab_size=size, special_tokens=list(SPECIALS), initial_alphabet=BYTE_CHARACTERS, show_progress=False
    )


def _unigram_trainer(size: int) -> trainers.Trainer:
    return trainers.UnigramTrainer(
        vocab_size=size,
        special_tokens=list(SPECIALS),
        initial_alphabet=BYTE_CHARACTERS,
        unk_token=SPECIALS[UNK],
        show_progress=False,
    )


def _word_trainer(size: int) -> trainers.Trainer:
    return trainers.WordLevelTrainer(vocab_size=size, special_tokens=list(SPECIALS), show_progress=False)


_BYTES = len(SPECIALS) + 256
_ONE = len(SPECIALS) + 1
KINDS = {
    "bpe": Kind("byte-pair encoding over bytes: nothing is unknown", _BYTES, models.BPE, _bpe_trainer),
    "unigram": Kind("unigram pieces over bytes: nothing is unknown", _BYTES, models.Unigram, _unigram_trainer),
    "word": Kind("the most frequent words; others are unknown", _ONE, _word_level, _word_trainer, byte_level=False),
    "char": Kind("the most frequent characters", _ONE, _word_level, _word_trainer, CHARACTERS, byte_level=False),
    "byte": Kind("the 256 bytes of UTF-8, nothing to learn", _BYTES, _bytes_only, None),
}


def settled(inner: Inner, size: int) -> Inner:
    """The same unigram model without the traces of the trainer's random hash order, and of at most `size` pieces.

    The trainer gives bytes that it has no score for the lowest score plus 0.0001, 0.0002, ... in hash order, and sums
    in hash order, which shows in the last bits. It also overshoots the size when that is the least one.
    """
    state = json.loads(inner.to_str())
    learned: dict[str, float] = dict(state["model"]["vocab"][len(SPECIALS) :])
    lowest = min(learned.values())
    invented = lowest + 0.0001 * (len(BYTE_CHARACTERS) + 1)
    score = {p: round(lowest if len(p) == 1 and s < invented else s, 4) for p, s in learned.items()}
    ranked = sorted(score, key=lambda piece: (len(piece) > 1, -score[piece], piece))  # single bytes are never cut off
    kept = sorted(ranked[: size - len(SPECIALS)], key=lambda piece: (-score[piece], piece))
    state["model"]["vocab"][len(SPECIALS) :] = [(piece, score[piece]) for piece in kept]
    return Inner.from_str(json.dumps(state))
