"""Plain text as a stream of paragraphs, and as one array of tokens on disk, so that text larger than memory trains."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.cache import CHUNK, META, Tokens, Writer, checked, damaged, mapped, narrowest
from regard.data.formats import read_lines
from regard.errors import UserError
from regard.files import whole_folder
from regard.text import Tokenizer

FILES = ("text.tokens", "text.starts")
VERSION = 1


def read_paragraphs(paths: Iterable[str | Path], *, skip_bad: bool = False) -> Iterator[str]:
    """The paragraphs of these files, and an empty one after each document.

    A line is a paragraph; blank lines and the end of a file end a document. Of JSON lines each is a document, its
    text under the key "text".
    """
    for path in map(Path, paths):
        lines = read_lines(path, skip_bad=skip_bad)
        inside = False
        for line in _documents(path, lines) if path.name.removesuffix(".gz").endswith(".jsonl") else lines:
            text = line.strip()
            if text or inside:
                yield text
            inside = bool(text)
        if inside:
            yield ""


def _documents(path: Path, lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            text = json.loads(line)["text"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise UserError(f'{path}, line {number}: not a JSON object with a key "text"') from None
        if not isinstance(text, str):
            raise UserError(f'{path}, line {number}: "text" is not a text but {json.dumps(text)[:40]}')
        yield from filter(str.strip, text.split("\n"))
        yield ""


class RunningText:
    """The tokens of all paragraphs one after another, with an end symbol after each document.

    starts: where each paragraph begins, an end symbol counting as one, and where the last one ends.
    """

    def __init__(self, tokens: Tokens, starts: NDArray[np.uint64], end: int) -> None:
        self.tokens, self.starts, self.end = tokens, starts, end

    def __len__(self) -> int:
        return len(self.tokens)

    def documents(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where each begins, and where its end symbol stands."""
        ends = self.starts[:-1][self.tokens[self.starts[:-1]] == self.end].astype(np.int64)
        return np.concatenate([[0], ends[:-1] + 1]).astype(np.int64)[: len(ends)], ends

    @classmethod
    def of(cls, paragraphs: Iterable[str], tokenizer: Tokenizer) -> "RunningText":
        """In memory."""
        parts = list(_encoded(paragraphs, tokenizer))
        tokens = np.concatenate([np.zeros(0, narrowest(tokenizer)), *(flat for flat, _ in parts)])
        lengths = np.concatenate([np.zeros(1, np.int64), *(lengths for _, lengths in parts)])
        return cls(tokens, lengths.cumsum().astype("<u8"), tokenizer.specials.end)

    @classmethod
    def kept(
        cls, folder: Path, paragraphs: Iterable[str], tokenizer: Tokenizer, facts: Mapping[str, Any]
    ) -> "RunningText":
        """On disk, memory-mapped: as the folder has it if that was made of the same (`facts`), else made anew."""
        if folder.exists() and checked(folder, VERSION, FILES, verify=False).get("facts") == dict(facts):
            return cls.open(folder)
        with whole_folder(folder) as part:
            total = 0
            with ExitStack() as stack:
                tokens, starts = (Writer(part / name, stack) for name in FILES)
                starts.write(np.zeros(1, "<u8"))
                for flat, lengths in _encoded(paragraphs, tokenizer):
                    tokens.write(flat)
                    starts.write((total + lengths.cumsum()).astype("<u8"))
                    total += len(flat)
                files = {writer.path.name: writer.finish() for writer in (tokens, starts)}
            if not total:
                raise UserError("there is no text to train on; check the training data")
            meta = {
                "version": VERSION, "tokens": total, "dtype": narrowest(tokenizer).str, "end": tokenizer.specials.end,
                "files": files, "facts": dict(facts),
            }  # fmt: skip
            (part / META).write_text(json.dumps(meta, indent=1, sort_keys=True), encoding="utf-8", newline="\n")
        return cls.open(folder, verify=False)

    @classmethod
    def open(cls, folder: Path, *, verify: bool = True) -> "RunningText":
        meta = checked(folder, VERSION, FILES, verify)
        try:
            tokens = mapped(folder / FILES[0], np.dtype(meta["dtype"]))
            starts = mapped(folder / FILES[1], np.dtype("<u8"))
            text = cls(tokens, starts, int(meta["end"]))
        except (ValueError, TypeError, KeyError):
            raise damaged(folder / META, "it cannot be parsed") from None
        if not len(tokens) == meta.get("tokens") == int(starts[-1]):
            raise damaged(folder / META, f"its numbers do not fit {FILES[1]}")
        return text


def _encoded(paragraphs: Iterable[str], tokenizer: Tokenizer) -> Iterator[tuple[Tokens, NDArray[np.int64]]]:
    """Some paragraphs at a time: their tokens, and how many each has."""
    stream, end, kind = iter(paragraphs), [tokenizer.specials.end], narrowest(tokenizer)
    while chunk := list(islice(stream, CHUNK)):
        found: Sequence[Sequence[int]] = [
            ids if text else end for text, ids in zip(chunk, tokenizer.encode_batch(chunk), strict=True)
        ]
        lengths = np.array([len(ids) for ids in found], dtype=np.int64)
        yield np.fromiter(chain.from_iterable(found), kind, count=int(lengths.sum())), lengths
