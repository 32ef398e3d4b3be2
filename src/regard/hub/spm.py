"""SentencePiece models, as OPUS-MT brings them, to the `tokenizers` library and back: no code of theirs is needed."""

import base64
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from regard.errors import UserError

SPACE = "▁"
NORMAL, UNKNOWN, CONTROL, USER, BYTE = 1, 2, 3, 4, 6  # kinds of piece
UNIGRAM = 1
LANGUAGE = re.compile(r">>.+<<")
FOREIGN = -10_000.0  # the score of a token that is the other language's: taken only where there is nothing else


@dataclass(frozen=True)
class Pieces:
    """What a .spm file holds: its pieces with their scores, and how a text is made ready for them."""

    scores: dict[str, float]
    charsmap: bytes
    add_prefix: bool
    remove_extra_spaces: bool


def read(path: Path) -> Pieces:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    try:
        return _pieces(data, path)
    except (IndexError, KeyError, struct.error, UnicodeDecodeError, TypeError):
        raise UserError(f"{path} is damaged, or not a SentencePiece model") from None


def _pieces(data: bytes, path: Path) -> Pieces:
    scores: dict[str, float] = {}
    charsmap, prefix, spaces = b"", True, True
    for field, value in _fields(data):
        if field == 1 and isinstance(value, bytes):  # a piece
            parts = dict(_fields(value))
            if parts.get(3, NORMAL) in (NORMAL, USER):
                scores[_text(parts[1])] = struct.unpack("<f", _bytes(parts[2]))[0]
        elif field == 2 and isinstance(value, bytes):  # how it was trained
            if dict(_fields(value)).get(3, UNIGRAM) != UNIGRAM:
                raise UserError(f"{path} is not a unigram model; only those are read")
        elif field == 3 and isinstance(value, bytes):  # how texts are normalised
            parts = dict(_fields(value))
            charsmap = _bytes(parts.get(2, b""))
            prefix, spaces = bool(parts.get(3, 1)), bool(parts.get(4, 1))
    if not scores:
        raise UserError(f"{path} is damaged, or not a SentencePiece model")
    return Pieces(scores, charsmap, prefix, spaces)


def tokenizer(pieces: Pieces, names: Sequence[str], unknown: str = "<unk>") -> Tokenizer:
    """One with these tokens in this order, in which the pieces of two languages may be together.

    A token such as >>fra<<, which tells a model of many languages which one to write, is one wherever it stands.
    """
    scored = [(name, pieces.scores.get(name, FOREIGN)) for name in names]
    inner = Tokenizer(models.Unigram(scored, unk_id=names.index(unknown)))
    steps: list[normalizers.Normalizer] = []
    if pieces.charsmap:
        steps.append(normalizers.Precompiled(pieces.charsmap))
    if pieces.remove_extra_spaces:
        steps += [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    if pieces.add_prefix:
        steps.append(normalizers.Prepend(SPACE))
    if steps:
        inner.normalizer = normalizers.Sequence(steps)
    # Characters that no piece has stand alone: no token of the other language, and no "</s>", spans them and others.
    known = "".join(re.escape(c) for c in sorted({c for piece in pieces.scores for c in piece}))
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(SPACE, prepend_scheme="never", split=True),
            pre_tokenizers.Split(Regex(f"[^{known}]+"), "isolated"),
        ]
    )
    inner.decoder = decoders.Metaspace(SPACE, prepend_scheme="always" if pieces.add_prefix else "never")
    inner.add_tokens([AddedToken(name, normalized=False) for name in names if LANGUAGE.fullmatch(name)])
    return inner


def pieces(state: dict[str, Any]) -> Pieces | None:
    """What `tokenizer` was made from, by its serialised form; None of a tokenizer that was made otherwise."""
    if state["model"]["type"] != "Unigram" or (state["decoder"] or {}).get("type") != "Metaspace":
        return None
    steps = {step["type"]: step for step in (state["normalizer"] or {}).get("normalizers", [])}
    charsmap = base64.b64decode(steps["Precompiled"]["precompiled_charsmap"]) if "Precompiled" in steps else b""
    scores = {name: score for name, score in state["model"]["vocab"] if score != FOREIGN}
    return Pieces(scores, charsmap, "Prepend" in steps, "Strip" in steps)


def written(pieces: Pieces) -> bytes:
    """The contents of a .spm file."""
    specials = (("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL))
    entries = [(name, 0.0, kind) for name, kind in specials] + [(*item, NORMAL) for item in pieces.scores.items()]
    data = b"".join(
        _field(1, _field(1, name.encode()) + _field(2, score) + _field(3, kind)) for name, score, kind in entries
    )
    normalizer = _field(2, pieces.charsmap) + _field(3, int(pieces.add_prefix))
    return data + _field(2, _field(3, UNIGRAM)) + _field(3, normalizer + _field(4, int(pieces.remove_extra_spaces)))


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protocol buffer: numbers, and bytes for all that is longer."""
    at = 0
    while at < len(data):
        key, at = _number(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _number(data, at)
            yield key >> 3, value
            continue
        size, at = _number(data, at) if kind == 2 else ({1: 8, 5: 4}[kind] if kind in (1, 5) else len(data) + 1, at)
        if at + size > len(data):
            raise IndexError
        yield key >> 3, data[at : at + size]
        at += size


def _field(number: int, value: float | bytes) -> bytes:
    """As `_fields` reads it."""
    if isinstance(value, float):
        return _digits(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return _digits(number << 3) + _digits(value)
    return _digits(number << 3 | 2) + _digits(len(value)) + value


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Seven bits a byte, the lowest first; the eighth says that more follow."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _digits(value: int) -> bytes:
    """As `_number` reads it."""
    digits = bytearray()
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    return bytes((*digits, value))


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise TypeError
    return value


def _text(value: int | bytes) -> str:
    return _bytes(value).decode()
