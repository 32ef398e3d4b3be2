"""One small class around the `tokenizers` library: text to ids and back, exactly, for five kinds of token."""

import codecs
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Inner
from tokenizers import decoders, normalizers, processors

from regard.errors import UserError
from regard.files import write_text
from regard.text.kinds import BOS, BYTE_OF, EOS, KINDS, PAD, SPECIALS, UNK, settled

MASK = "<mask>"
IMPORTED = "imported"
FORMAT = "regard-tokenizer"
MOST_KNOWN = 1 << 16  # words whose ids are remembered
LONGEST_KNOWN = 64  # characters of such a word
LITTLE = 256  # characters of texts that are encoded on one core


@dataclass(frozen=True)
class Specials:
    """The ids that are no text. Those of an imported tokenizer are its own."""

    pad: int = PAD
    unk: int = UNK
    begin: int = BOS  # before a text; BERT's [CLS]
    end: int = EOS  # after a text; BERT's [SEP]
    mask: int | None = None  # in place of a word to be guessed
    doubled: bool = False  # two ends stand between two texts (RoBERTa)

    @cached_property
    def ids(self) -> frozenset[int]:
        return frozenset(i for i in (self.pad, self.unk, self.begin, self.end, self.mask) if i is not None)

    def framed(self, first: Sequence[int], second: Sequence[int] | None = None) -> tuple[list[int], int]:
        """One text or two with begin and ends, and where the second begins."""
        ids = [self.begin, *first, self.end]
        if second is None:
            return ids, len(ids)
        between = len(ids)
        return [*ids, *([self.end] if self.doubled else []), *second, self.end], between


class Tokenizer:
    """Text to ids and back. Ids never contain begin or end symbols unless the caller adds them.

    For the kinds over bytes (bpe, unigram, byte) `decode(encode(text)) == text` for every text; if uncased, with each
    character in lower case.
    """

    def __init__(self, kind: str, inner: Inner, specials: Specials | None = None) -> None:
        self.kind = kind
        self._inner = inner
        self.specials = specials or Specials(mask=inner.token_to_id(MASK))
        self._known: dict[str, list[int]] = {}  # the ids of words
        # A text that spells "</s>" is that text, not the end symbol. The library does not save this switch.
        self._inner.encode_special_tokens = True

    @classmethod
    def learn(
        cls, texts: Iterable[str], kind: str = "bpe", size: int = 8000, *, mask: bool = False, uncased: bool = False
    ) -> "Tokenizer":
        """Learn a vocabulary of up to `size` tokens (specials included) from a stream of texts.

        mask: with a symbol that stands for a hidden word. uncased: capitals are read as small letters.
        """
        if mask:
            inner = cls.learn(texts, kind, size - 1, uncased=uncased)._inner
            inner.add_special_tokens([MASK])
            return cls(kind, inner)
        if kind not in KINDS:
            raise UserError(f"tokenizer kind {kind!r} is not known; choose one of {', '.join(KINDS)}")
        made = KINDS[kind]
        if size < made.least:
            raise UserError(f"a {kind} vocabulary of {size} is too small; the least size is {made.least}")
        inner = made.start()
        inner.normalizer = normalizers.Lowercase() if uncased else None
        if made.trainer is None:
            inner.add_special_tokens(list(SPECIALS))
            return cls(kind, inner)
        stream = _Counted(texts)
        inner.train_from_iterator(stream, made.trainer(size))
        if stream.count == 0:
            raise UserError("there is no text to learn a vocabulary from; check the training data")
        return cls(kind, settled(inner, size) if kind == "unigram" else inner)

    @property
    def uncased(self) -> bool:
        """Whether it was learned to read capitals as small letters. (An imported one does as it does.)"""
        return self.kind != IMPORTED and self._inner.normalizer is not None

    def encode(self, text: str) -> list[int]:
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str], going_on: Sequence[bool] | None = None) -> list[list[int]]:
        """The ids of each text. going_on: which texts go on from the one before."""
        try:
            if going_on is not None:
                opened = zip(texts, going_on, strict=True)
                return self._whole([text if goes_on else self._opened(text) for text, goes_on in opened])
            if self.kind == IMPORTED:
                return self._whole(texts)
            return self._by_words(texts)
        except TypeError as error:
            raise _refused(texts, error) from None

    def _by_words(self, texts: Sequence[str]) -> list[list[int]]:
        """Our kinds cut a text before each single space, so that a word's ids are the same wherever it stands.

        Most words came up before: to look them up takes a third of the time. A text with a long word, or with any white
        space but single spaces between words, is left to the library as a whole.
        """
        cut, known = [text.split(" ") for text in texts], self._known
        new = {word for words in cut for word in words if word not in known}
        odd = {word for word in new if len(word) > LONGEST_KNOWN or word.split() != [word]}
        fresh = list(new - odd)
        known.update(zip(fresh, self._whole([_opened(word) for word in fresh]), strict=True))
        self._known = known if len(known) <= MOST_KNOWN else {}
        whole = (_opened(text) for text, words in zip(texts, cut, strict=True) if not odd.isdisjoint(words))
        rest = iter(self._whole(list(whole)))
        return [list(chain.from_iterable(map(known.__getitem__, w))) if odd.isdisjoint(w) else next(rest) for w in cut]

    def forget(self) -> None:
        """Lets go of the words that were looked up, which a large corpus has many of."""
        self._known = {}

    def _whole(self, texts: Sequence[str]) -> list[list[int]]:
        """What the library makes of texts as they are, on all cores where that pays."""
        if len(texts) <= 1 or sum(map(len, texts)) <= LITTLE:  # one core is sooner done than another is woken
            return [self._inner.encode(text, add_special_tokens=False).ids for text in texts]
        return [found.ids for found in self._inner.encode_batch_fast(texts, add_special_tokens=False)]

    def encode_masked(self, text: str) -> list[int]:
        """As `encode`, but where the text spells the mask stands its id. The space before it is the hidden word's."""
        if self.specials.mask is None:
            return self.encode(text)
        first, *others = text.split(self.token(self.specials.mask))
        ids = self.encode(first.rstrip() if others else first) if first.strip() else []
        for number, part in enumerate(others, 1):
            rest = part if number == len(others) else part.rstrip()
            ids += [self.specials.mask, *self.encode_batch([rest], [True])[0]]
        return ids

    def spans(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """The ids, and the characters of the text that each stands for."""
        found = self._inner.encode(self._opened(text), add_special_tokens=False)
        return found.ids, [(max(0, a - self.opening), max(0, b - self.opening)) for a, b in found.offsets]

    @property
    def opening(self) -> int:
        """How many spaces `encode` puts before a text."""
        return len(self._opened(""))

    def _opened(self, text: str) -> str:
        return text if self.kind == IMPORTED else _opened(text)

    def unknown(self, text: str) -> list[str]:
        """The words of a text that the vocabulary lacks, each once. Pieces down to bytes lack none."""
        opened = self._opened(text)
        found = self._inner.encode(opened, add_special_tokens=False)
        missing = (
            opened[a:b].strip()
            for number, (a, b) in zip(found.ids, found.offsets, strict=True)
            if number == self.specials.unk
        )
        return list(dict.fromkeys(missing))

    def decode(self, ids: Iterable[int]) -> str:
        """The text of these ids; special ids say nothing."""
        if self.kind != IMPORTED:
            pieces = self._pieces
            return b"".join([pieces[number] for number in ids]).decode(errors="replace").removeprefix(" ")
        silent = self.specials.ids
        kept = [number for number in map(int, ids) if number not in silent]
        return self._inner.decode(kept, skip_special_tokens=False).removeprefix(" ")

    def piece(self, number: int) -> bytes:
        """What this id adds to a text, which may end inside a character; a special id adds nothing."""
        return self._pieces[number] if number < len(self._pieces) else b""  # a model may have numbers to spare

    @cached_property
    def _pieces(self) -> list[bytes]:
        state = json.loads(self._inner.to_str())
        if self.kind == IMPORTED:
            byte_level, look = _is_byte_level(state), _surface_of(state)
        else:
            byte_level, look = KINDS[self.kind].byte_level, str
        plain = _plain(state)

        def made(number: int) -> bytes:
            if number in self.specials.ids:
                return b""
            token = self.token(number)
            if not byte_level or number in plain:
                return (token if number in plain else look(token)).encode()
            return bytes(map(BYTE_OF.__getitem__, token))

        return [made(number) for number in range(len(self))]

    def token(self, number: int) -> str:
        """What the vocabulary calls this id."""
        found = self._inner.id_to_token(number)
        assert found is not None, f"there is no token {number}"
        return found

    def merges(self) -> Iterator[tuple[int, int, int]]:
        """Of byte-pair encoding: each merged token with the two that it was merged from."""
        state = json.loads(self._inner.to_str())["model"]
        numbers: dict[str, int] = state["vocab"]
        for left, right in state["merges"]:
            yield numbers[left + right], numbers[left], numbers[right]

    def surface(self, ids: Iterable[int]) -> list[str]:
        """What each token looks like to a person: its characters, or ⟨C3⟩ for bytes that are no whole character."""
        return [self._looks[int(i)] for i in ids]

    @cached_property
    def _looks(self) -> dict[int, str]:
        vocabulary = self._inner.get_vocab(with_added_tokens=True)
        if self.kind == IMPORTED:
            state = json.loads(self._inner.to_str())
            look, plain = _surface_of(state), self.specials.ids | _plain(state)
            return {i: token if i in plain else look(token) for token, i in vocabulary.items()}
        if not KINDS[self.kind].byte_level:
            return {i: token for token, i in vocabulary.items()}
        return {i: token if i in self.specials.ids else _shown(token) for token, i in vocabulary.items()}

    @cached_property
    def words(self) -> list[int]:
        """The ids that are text."""
        return sorted(set(self._looks) - self.specials.ids - _placeholders(json.loads(self._inner.to_str())))

    def __len__(self) -> int:
        return self._inner.get_vocab_size(with_added_tokens=True)

    def __repr__(self) -> str:
        return f"Tokenizer({self.kind}, {len(self)} tokens)"

    @cached_property
    def checksum(self) -> str:
        """The sha256 of the serialised form: equal checksums mean equal ids for every text."""
        return hashlib.sha256(self._serialised().encode()).hexdigest()

    def _serialised(self) -> str:
        state = {"format": FORMAT, "version": 1, "kind": self.kind, "tokenizer": json.loads(self._inner.to_str())}
        if self.kind == IMPORTED:
            state["specials"] = asdict(self.specials)
        return json.dumps(state, ensure_ascii=False, indent=1)

    def save(self, path: str | os.PathLike[str]) -> None:
        write_text(Path(path), self._serialised())

    def standalone(self, *, framed: bool = False, segments: int = 2) -> dict[str, Any]:
        """For programs that know the `tokenizers` library alone: it adds the first space and the end symbol itself.

        framed: with begin and end around a text, and between the two of a pair, as encoders want it.
        segments: 2 where the second of a pair has a number of its own, else 1.
        """
        inner = Inner.from_str(self._inner.to_str())
        if self.kind != IMPORTED:
            opened = normalizers.Prepend(" ")
            inner.normalizer = normalizers.Sequence([opened, inner.normalizer]) if inner.normalizer else opened
            inner.decoder = decoders.Sequence([inner.decoder, decoders.Strip(" ", 1, 0)])
        (begin, i), (end, j) = ((self.token(k), k) for k in (self.specials.begin, self.specials.end))
        double = f"{end}:0 " if self.specials.doubled else ""
        second = segments - 1
        inner.post_processor = processors.TemplateProcessing(
            single=f"{begin}:0 $A:0 {end}:0" if framed else f"$A {end}",
            pair=f"{begin}:0 $A:0 {end}:0 {double}$B:{second} {end}:{second}" if framed else None,
            special_tokens=[(begin, i), (end, j)],
        )
        state: dict[str, Any] = json.loads(inner.to_str())
        if self.kind != IMPORTED:
            _spaces_around_masks(state, taken=True)  # the first space is added after a mask too
        return state

    @classmethod
    def from_standalone(cls, inner: Inner) -> "Tokenizer | None":
        """The tokenizer that `standalone` was asked for, if it was of one of our kinds."""
        state = json.loads(inner.to_str())
        numbers = tuple(inner.token_to_id(token) for token in SPECIALS)
        opened, lowered = {"type": "Prepend", "prepend": " "}, {"type": "Lowercase"}
        steps = (state["normalizer"] or {}).get("normalizers", [state["normalizer"]])
        if numbers != (PAD, UNK, BOS, EOS) or steps not in ([opened], [opened, lowered]):
            return None
        learned = state["model"].get("merges") != []
        for kind, made in KINDS.items():
            start = json.loads(made.start().to_str())
            if (
                learned == (made.trainer is not None)
                and state["model"]["type"] == start["model"]["type"]
                and state["pre_tokenizer"] == start["pre_tokenizer"]
            ):
                _spaces_around_masks(state, taken=False)
                state |= {
                    "normalizer": lowered if lowered in steps else None,
                    "decoder": start["decoder"],
                    "post_processor": None,
                }
                return cls(kind, Inner.from_str(json.dumps(state)))
        return None

    def with_our_specials(self) -> "tuple[Tokenizer, list[int]]":
        """The same tokenizer with PAD, UNK, BOS and EOS in our numbers, and the old number of each new one.

        What stood there before, and all between, moves up. Of symbols that are one (GPT-2's) the others are added, but
        for those that the tokenizer was taught under our names, which become the symbols that they are called.
        """
        old = self.specials
        first = [old.pad, old.unk, old.begin, old.end]
        if first == [PAD, UNK, BOS, EOS]:
            return self, list(range(len(self)))
        kept = {number: i for i, number in enumerate(first)}  # one number can stay one symbol alone
        kept |= {number: i for i, number in enumerate(first) if self.token(number) == SPECIALS[i]}
        named = [i for i, number in enumerate(first) if kept[number] != i]
        for i in named:
            taught = self._inner.token_to_id(SPECIALS[i])
            first[i] = first[i] if taught is None else taught
        order = [*first, *(i for i in range(len(self)) if i not in first)]
        new = {number: i for i, number in enumerate(order)} | kept
        specials = Specials(mask=None if old.mask is None else new[old.mask], doubled=old.doubled)
        inner = _renumbered(self._inner, new, {SPECIALS[i]: i for i in named})
        return Tokenizer(self.kind, inner, specials), order

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Tokenizer":
        try:
            state = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise UserError(f"{path}: cannot read this tokenizer file: {error.strerror}") from None
        except (ValueError, RecursionError):
            raise UserError(f"{path}: not a tokenizer file (not JSON); give the file that Regard saved") from None
        return cls(*_checked(state, path))


def _renumbered(inner: Inner, new: dict[int, int], symbols: dict[str, int]) -> Inner:
    """With a new number for each old one, and these symbols, which may be new."""
    state = json.loads(inner.to_str())
    if not isinstance(state["model"]["vocab"], dict):
        raise UserError(f"the numbers of a {state['model']['type']} tokenizer's tokens cannot be changed")
    for entry in state["added_tokens"]:
        state["model"]["vocab"][entry["content"]] = entry["id"]  # one that was added later would come last again
        entry["id"] = new[entry["id"]]
    state["model"]["vocab"] = {token: new[i] for token, i in state["model"]["vocab"].items()} | symbols
    others = [entry for entry in state["added_tokens"] if entry["content"] not in symbols]
    added = others + [_symbol(i, token) for token, i in symbols.items()]
    state["added_tokens"] = sorted(added, key=lambda entry: entry["id"])
    state["post_processor"] = None  # it frames texts with the old numbers, which nobody asks it to
    return Inner.from_str(json.dumps(state))


def _symbol(number: int, content: str) -> dict[str, Any]:
    """One that is no text, as the library keeps it."""
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": content, **plain, "special": True}


def _spaces_around_masks(state: dict[str, Any], *, taken: bool) -> None:
    """Whether the mask takes the spaces around it, in a serialised tokenizer of the library."""
    for entry in state["added_tokens"]:
        if entry["content"] == MASK:
            entry |= {"lstrip": taken, "rstrip": taken}


def _opened(text: str) -> str:
    # "cat" at the start and " cat" in the middle become one token; decode() takes the space away again.
    return " " + text


class _Counted:
    """Passes texts on as the model will see them, and remembers how many there were."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts, self.count = texts, 0

    def __iter__(self) -> Iterator[str]:
        for text in self.texts:
            self.count += 1
            yield _opened(text)


def _refused(texts: Sequence[str], error: TypeError) -> Exception:
    """A lone surrogate is the one str that is no text (JSON escapes can smuggle it in); all else is our own bug."""
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as lone:
            place, code = lone.start + 1, ord(text[lone.start])
            return UserError(f"character {place} of a text is half of a surrogate pair (U+{code:04X}); remove it")
    return error


def _fragment(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "".join(f"⟨{byte:02X}⟩" for byte in error.object[error.start : error.end]), error.end


codecs.register_error("regard.fragment", _fragment)


def _is_byte_level(state: dict[str, Any]) -> bool:
    return (state["decoder"] or {}).get("type") == "ByteLevel"


def _plain(state: dict[str, Any]) -> set[int]:
    """The ids of added tokens, which a vocabulary of bytes has as they are."""
    return {entry["id"] for entry in state["added_tokens"]} if _is_byte_level(state) else set()


def _placeholders(state: dict[str, Any]) -> set[int]:
    """The ids that only keep a number: pieces of words with a space in them, as of a token that was listed twice."""
    if state["model"]["type"] != "WordPiece":
        return set()
    added = {entry["id"] for entry in state["added_tokens"]}
    return {i for token, i in state["model"]["vocab"].items() if " " in token} - added


def _surface_of(state: dict[str, Any]) -> Callable[[str], str]:
    """How an imported vocabulary's tokens look: it marks where a word begins, or where one goes on."""
    if state["model"]["type"] == "WordPiece":
        going_on = state["model"]["continuing_subword_prefix"]
        return lambda token: token.removeprefix(going_on) if token.startswith(going_on) else " " + token
    if _is_byte_level(state):
        return _shown
    if (state["decoder"] or {}).get("type") == "BPEDecoder":
        return lambda token: token.replace(state["decoder"]["suffix"], " ")
    return lambda token: token.replace("▁", " ")


def _shown(token: str) -> str:
    return bytes(BYTE_OF[character] for character in token).decode(errors="regard.fragment")


def _checked(state: Any, path: str | os.PathLike[str]) -> tuple[str, Inner, Specials | None]:
    """The parts of a saved tokenizer, or an error that says why it is none."""
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise UserError(f"{path}: not a tokenizer of Regard; give the file that Regard saved")
    kind = state.get("kind")
    if state.get("version") != 1 or kind not in (*KINDS, IMPORTED):
        found = f"version {state.get('version')}, kind {kind!r}"
        raise UserError(f"{path}: a tokenizer of another Regard ({found}); this one reads version 1")
    try:
        inner = Inner.from_str(json.dumps(state.get("tokenizer")))
    except Exception as error:  # the library raises a bare Exception for whatever it cannot parse
        raise UserError(f"{path}: the tokenizer file is damaged ({error}); take a fresh copy") from None
    if kind == IMPORTED:
        try:
            return str(kind), inner, Specials(**state["specials"])
        except (KeyError, TypeError):
            raise UserError(f"{path}: the tokenizer file is damaged: it has no specials; take a fresh copy") from None
    ids = tuple(inner.token_to_id(token) for token in SPECIALS)
    if ids != (PAD, UNK, BOS, EOS):
        raise UserError(f"{path}: the tokenizer file is damaged: {SPECIALS} have ids {ids}; take a fresh copy")
    return str(kind), inner, None


_SWITCH = "TOKENIZERS_PARALLELISM"


def _before_fork() -> None:
    # A forked child must not use the library's thread pool. The library (0.21, not 0.23) prints a warning about it
    # unless the switch is set, so it is set for the instant of the fork and stays set in the child alone.
    global _ours
    _ours = _SWITCH not in os.environ
    if _ours:
        os.environ[_SWITCH] = "false"


def _after_fork_in_parent() -> None:
    if _ours:
        os.environ.pop(_SWITCH, None)


_ours = False
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent)
