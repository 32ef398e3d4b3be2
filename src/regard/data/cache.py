"""Tokens of a parallel corpus on disk, memory-mapped and checksummed, so that a corpus larger than memory trains."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain, compress, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.formats import Pair
from regard.errors import UserError
from regard.files import checksum, whole_folder
from regard.text import Tokenizer

SIDES = ("source", "target")
META = "meta.json"
VERSION = 1
CHUNK = 1024  # pairs tokenised at once; larger chunks were slower (memory), smaller ones too (threads)

Texts = Pair | tuple[str, str]
Tokens = NDArray[np.unsignedinteger[Any]]


class TokenCache:
    """Pairs of token sequences by number, without begin and end symbols. Pages are read when touched, not before."""

    def __init__(self, folder: Path, meta: Mapping[str, Any]) -> None:
        self.folder = folder
        self.meta = meta
        self.longest = (int(meta["longest"][0]), int(meta["longest"][1]))  # source, target
        dtypes = [np.dtype(name) for name in meta["dtypes"]]
        self._tokens = [_mapped(folder / f"{side}.tokens", dtype) for side, dtype in zip(SIDES, dtypes, strict=True)]
        self._offsets = [_mapped(folder / f"{side}.offsets", np.dtype("<u8")) for side in SIDES]

    @classmethod
    def build(
        cls,
        folder: str | Path,
        pairs: Iterable[Texts],
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        *,
        max_length: int | tuple[int, int],
        facts: Mapping[str, Any],
        cut: bool = False,
    ) -> "TokenCache":
        """Tokenise a stream of pairs into `folder`; pairs with a side of more than `max_length` tokens are dropped.

        max_length: of both sides, or of each.
        cut: of an over-long source the beginning is kept instead.
        The folder appears complete or not at all. `facts` says what the cache was made of (see `fingerprint`).
        """
        folder = Path(folder)
        if folder.exists() and not (folder / META).is_file():
            raise UserError(f"{folder} exists and is no token cache; give another folder, or remove it")
        with whole_folder(folder) as part:
            limits = (max_length, max_length) if isinstance(max_length, int) else max_length
            meta = _write(part, pairs, (source_tokenizer, target_tokenizer), limits, cut)
            text = json.dumps({**meta, "facts": dict(facts)}, indent=1, sort_keys=True)
            (part / META).write_text(text, encoding="utf-8", newline="\n")
        return cls.open(folder, verify=False)

    @classmethod
    def open(cls, folder: str | Path, *, verify: bool = True) -> "TokenCache":
        """Map a cache; sizes are always checked, checksums with `verify` (one pass over the files)."""
        folder = Path(folder)
        if not (folder / META).is_file():
            raise UserError(f"{folder} is no token cache (it has no {META}); prepare the data again")
        try:
            meta = json.loads((folder / META).read_text(encoding="utf-8"))
            version = meta["version"]
            expected = {name: (int(entry["bytes"]), str(entry["sha256"])) for name, entry in meta["files"].items()}
            numbers = [int(meta["pairs"]), int(meta["dropped"]), *map(int, meta["longest"])]
            widths = [np.dtype(name).itemsize for name in meta["dtypes"]]
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise _damaged(folder / META, "it cannot be parsed") from None
        if version != VERSION:
            raise UserError(f"{folder} is a token cache of version {version}, not {VERSION}; prepare the data again")
        if set(expected) != {f"{side}.{part}" for side in SIDES for part in ("tokens", "offsets")} or min(numbers) < 0:
            raise _damaged(folder / META, "its entries are wrong")
        for name, (size, digest) in expected.items():
            path = folder / name
            found = path.stat().st_size if path.is_file() else None
            if found != size:
                raise _damaged(path, "it is missing" if found is None else f"{found:,} bytes instead of {size:,}")
            if verify and checksum(path) != digest:
                raise _damaged(path, "its checksum differs")
        cache = cls(folder, meta)
        for offsets, tokens, width, side in zip(cache._offsets, cache._tokens, widths, SIDES, strict=True):
            if len(offsets) != numbers[0] + 1 or int(offsets[-1]) != len(tokens) or not width:
                raise _damaged(folder / META, f"its numbers do not fit {side}.offsets")
        return cache

    def __len__(self) -> int:
        return int(self.meta["pairs"])

    def pair(self, index: int) -> tuple[Tokens, Tokens]:
        """Source and target tokens of one pair, as views of the file."""
        if not 0 <= index < len(self):
            raise IndexError(f"pair {index} of {len(self)}")
        (a, b), (c, d) = (offsets[index : index + 2].tolist() for offsets in self._offsets)
        return self._tokens[0][a:b], self._tokens[1][c:d]

    def lengths(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Numbers of source and of target tokens of these pairs."""
        source, target = ((offsets[indices + 1] - offsets[indices]).astype(np.int64) for offsets in self._offsets)
        return source, target


def fingerprint(paths: Sequence[str | Path]) -> dict[str, str]:
    """The sha256 of each data file, by its path as given."""
    return {str(path): checksum(Path(path)) for path in paths}


def _mapped(path: Path, dtype: np.dtype[Any]) -> NDArray[Any]:
    # As a plain array: slices of np.memmap itself cost several times as much to make.
    return np.asarray(np.memmap(path, dtype=dtype, mode="r"))


class _Writer:
    """One file that is hashed while it is written."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self.path, self.hash = path, hashlib.sha256()
        self.file = stack.enter_context(path.open("wb"))

    def write(self, array: NDArray[Any]) -> None:
        data = array.tobytes()
        self.file.write(data)
        self.hash.update(data)

    def finish(self) -> dict[str, Any]:
        return {"bytes": self.file.tell(), "sha256": self.hash.hexdigest()}


def _write(
    folder: Path, pairs: Iterable[Texts], tokenizers: tuple[Tokenizer, Tokenizer], limits: tuple[int, int], cut: bool
) -> dict[str, Any]:
    """Stream the pairs into the four files of the cache; returns what is to be known about them."""
    dtypes = [np.dtype("<u2" if len(tokenizer) <= 1 << 16 else "<u4") for tokenizer in tokenizers]
    count, dropped, ends, longest = 0, 0, [0, 0], [0, 0]
    with ExitStack() as stack:
        tokens = [_Writer(folder / f"{side}.tokens", stack) for side in SIDES]
        offsets = [_Writer(folder / f"{side}.offsets", stack) for side in SIDES]
        for writer in offsets:
            writer.write(np.zeros(1, "<u8"))
        for chunk in _chunks(pairs, CHUNK):
            sources, targets = [pair[0] for pair in chunk], [pair[1] for pair in chunk]
            sequences = [tokenizers[0].encode_batch(sources), tokenizers[1].encode_batch(targets)]
            if cut:
                sequences[0] = [tokens[: limits[0]] for tokens in sequences[0]]
            lengths = np.array([[len(sequence) for sequence in side] for side in sequences])  # 2 N
            keep: NDArray[np.bool_] = np.all(lengths <= np.array(limits)[:, None], axis=0)
            dropped += int((~keep).sum())
            count += int(keep.sum())
            for side in (0, 1) if keep.any() else ():
                kept = lengths[side, keep]
                flat = chain.from_iterable(compress(sequences[side], keep))
                tokens[side].write(np.fromiter(flat, dtypes[side], count=int(kept.sum())))
                positions = ends[side] + np.cumsum(kept)
                offsets[side].write(positions.astype("<u8"))
                ends[side], longest[side] = int(positions[-1]), max(longest[side], int(kept.max()))
        files = {writer.path.name: writer.finish() for writer in (*tokens, *offsets)}
    if not count:
        raise UserError(
            f"no pair is left to train on ({dropped:,} have a side of more than {_either(limits)} tokens); "
            "check the data, or raise the greatest length"
        )
    return {
        "version": VERSION,
        "pairs": count,
        "dropped": dropped,
        "max_length": list(limits),
        "longest": longest,
        "dtypes": [dtype.str for dtype in dtypes],
        "tokenizers": [tokenizer.checksum for tokenizer in tokenizers],
        "files": files,
    }


def _either(limits: tuple[int, int]) -> str:
    return " or ".join(map(str, dict.fromkeys(limits)))


def _chunks(pairs: Iterable[Texts], size: int) -> Iterator[list[Texts]]:
    stream = iter(pairs)
    while chunk := list(islice(stream, size)):
        yield chunk


def _damaged(path: Path, why: str) -> UserError:
    return UserError(f"the token cache is damaged: {path}: {why}; remove the folder and prepare the data again")
