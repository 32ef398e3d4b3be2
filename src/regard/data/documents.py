"""Plain texts as documents (files, lines, paragraphs, JSON lines), and their tokens in one flat array."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.data.formats import ending, read_lines, read_objects
from regard.errors import UserError
from regard.files import checksum, whole_folder
from regard.text import Tokenizer

Unit = Literal["file", "line", "paragraph"]
PIECE = 1 << 20  # characters of a long document that are tokenised at a time
META, TOKENS = "meta.json", "flat.tokens"


class Piece(NamedTuple):
    """A document, or the next part of a long one."""

    text: str
    first: bool = True


Pieces = Callable[[], Iterable[Piece]]  # can be read again and again


def documents(paths: Sequence[str | Path], unit: Unit, key: str = "text") -> Iterator[Piece]:
    """The documents of text files (also .gz), in order, without empty ones; line ends are LF.

    unit: what a document is. Of .jsonl files each line is one, under `key`.
    """
    for path in paths:
        if ending(path) == ".jsonl":
            found: Iterable[Piece] = (Piece(text) for text in _objects(path, key))
        elif unit == "line":
            found = (Piece(line) for line in read_lines(path))
        else:
            found = _paragraphs(path) if unit == "paragraph" else _whole(path)
        yield from (piece for piece in found if piece.text.strip() or not piece.first)


def _objects(path: str | Path, key: str) -> Iterator[str]:
    for where, value in read_objects(path):
        found = value.get(key)
        if not isinstance(found, str):
            raise UserError(f"{where}: no text under {key!r}; set data.text to the key")
        yield found


def _paragraphs(path: str | Path) -> Iterator[Piece]:
    """What stands between empty lines."""
    held: list[str] = []
    for line in read_lines(path):
        if line.strip():
            held.append(line)
        elif held:
            yield Piece("\n".join(held))
            held = []
    yield Piece("\n".join(held))


def _whole(path: str | Path) -> Iterator[Piece]:
    """A file in pieces that give the tokens of the whole: cut before white space that follows something else."""
    held: list[str] = []
    size, first = 0, True
    for line in read_lines(path):
        if size > PIECE and held[-1] and not held[-1][-1].isspace():
            yield Piece("\n".join(held), first)
            held, size, first = [""], 0, False  # the line end belongs to what follows
        held.append(line)
        size += len(line) + 1
    yield Piece("\n".join(held), first)


def divided(pieces: Pieces, share: float, unit: Unit) -> tuple[Pieces, Pieces]:
    """The first part of the text, and the last `share` of its characters; lines and paragraphs stay whole."""
    mark = int(sum(len(piece.text) for piece in pieces()) * (1 - share))

    def parts(last: bool) -> Iterator[Piece]:
        seen, begun = 0, False
        for text, first in pieces():
            cut = mark - seen if unit == "file" else 0 if seen >= mark else len(text)
            cut, seen = min(max(cut, 0), len(text)), seen + len(text)
            if last and text[cut:]:
                yield Piece(text[cut:], first or not begun)
                begun = True
            elif not last and text[:cut]:
                yield Piece(text[:cut], first)

    return lambda: parts(False), lambda: parts(True)


@dataclass(frozen=True)
class Flat:
    """The tokens of all documents one after another, an end symbol before, between and after them."""

    tokens: NDArray[Any]  # mapped from a file, or in memory
    documents: int
    characters: int  # of the text; end symbols have none
    bytes: int
    unknown: int  # tokens that stand for what the vocabulary lacks

    @staticmethod
    def of(pieces: Iterable[Piece], tokenizer: Tokenizer) -> "Flat":
        """In memory."""
        writer = _Packer(tokenizer)
        arrays = list(writer.arrays(pieces))
        return Flat(np.concatenate(arrays), *writer.counts)

    @staticmethod
    def at(folder: Path, pieces: Iterable[Piece], tokenizer: Tokenizer, facts: Mapping[str, Any]) -> "Flat":
        """In a file of this folder, which is made once for the same facts."""
        return _opened(folder, facts) or _built(folder, pieces, tokenizer, facts)


def _opened(folder: Path, facts: Mapping[str, Any]) -> Flat | None:
    """What was packed before; None when it is not there, is damaged, or was made of something else."""
    try:
        meta = json.loads((folder / META).read_text(encoding="utf-8"))
        if meta["facts"] != dict(facts) or checksum(folder / TOKENS) != meta["sha256"]:
            return None
        mapped = np.asarray(np.memmap(folder / TOKENS, dtype=np.dtype(meta["dtype"]), mode="r"))
        documents, characters, size, unknown = map(int, meta["counts"])
        return Flat(mapped, documents, characters, size, unknown)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _built(folder: Path, pieces: Iterable[Piece], tokenizer: Tokenizer, facts: Mapping[str, Any]) -> Flat:
    writer, digest = _Packer(tokenizer), hashlib.sha256()
    with whole_folder(folder) as part:
        with (part / TOKENS).open("wb") as file:
            for array in writer.arrays(pieces):
                data = array.tobytes()
                file.write(data)
                digest.update(data)
        meta = {"facts": dict(facts), "dtype": writer.dtype.str, "counts": writer.counts, "sha256": digest.hexdigest()}
        (part / META).write_text(json.dumps(meta, indent=1), encoding="utf-8")
    found = _opened(folder, json.loads(json.dumps(dict(facts))))
    assert found is not None
    return found


class _Packer:
    """Turns pieces into arrays of tokens and counts what it has seen."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.dtype = np.dtype("<u2" if len(tokenizer) <= 1 << 16 else "<u4")
        self.counts = [0, 0, 0, 0]  # documents, characters, bytes, unknown tokens

    def arrays(self, pieces: Iterable[Piece]) -> Iterator[NDArray[Any]]:
        held: list[Piece] = []
        size = 0
        for piece in pieces:
            held.append(piece)
            size += len(piece.text)
            if size >= PIECE:
                yield self._packed(held)
                held, size = [], 0
        yield self._packed(held)
        yield np.array([self.tokenizer.specials.end], self.dtype)

    def _packed(self, pieces: list[Piece]) -> NDArray[Any]:
        ids: list[int] = []
        found = self.tokenizer.encode_batch([p.text for p in pieces], [not p.first for p in pieces])
        for piece, tokens in zip(pieces, found, strict=True):
            ids += [*([self.tokenizer.specials.end] if piece.first else []), *tokens]
            unknown = tokens.count(self.tokenizer.specials.unk)
            more = (int(piece.first), len(piece.text), len(piece.text.encode()), unknown)
            self.counts = [a + b for a, b in zip(self.counts, more, strict=True)]
        return np.array(ids, self.dtype)
