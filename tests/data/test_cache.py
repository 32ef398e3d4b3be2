"""The token cache gives back what was put in, appears whole or not at all, and notices damage."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from regard.data.cache import CHUNK, TokenCache, fingerprint
from regard.errors import UserError
from regard.text import Tokenizer

BYTES = Tokenizer.learn([], "byte")
PAIRS = [(f"source {i}" + " x" * (i % 7), f"Ziel {i}" + " ü" * (i % 5)) for i in range(200)]


def build(folder: Path, pairs: object = PAIRS, max_length: int = 100, **options: object) -> TokenCache:
    settings = {"max_length": max_length, "facts": {"data": "abc"}, **options}
    return TokenCache.build(folder, pairs, BYTES, BYTES, **settings)  # type: ignore[arg-type]


def test_pairs_come_back(tmp_path: Path) -> None:
    build(tmp_path / "cache")
    cache = TokenCache.open(tmp_path / "cache")
    assert len(cache) == len(PAIRS)
    for i in (0, 7, 199):
        source, target = cache.pair(i)
        assert (BYTES.decode(source), BYTES.decode(target)) == PAIRS[i]
        assert source.tolist() == BYTES.encode(PAIRS[i][0]), "no begin or end symbols"
    with pytest.raises(IndexError):
        cache.pair(200)
    with pytest.raises(IndexError):
        cache.pair(-1)


def test_lengths_are_vectorised(tmp_path: Path) -> None:
    cache = build(tmp_path / "cache")
    indices = np.array([5, 0, 199, 5])
    source, target = cache.lengths(indices)
    assert source.tolist() == [len(cache.pair(int(i))[0]) for i in indices]
    assert target.tolist() == [len(cache.pair(int(i))[1]) for i in indices]
    assert cache.longest == tuple(int(lengths.max()) for lengths in cache.lengths(np.arange(200)))


def test_long_pairs_are_dropped_and_counted(tmp_path: Path) -> None:
    cache = build(tmp_path / "cache", [*PAIRS, ("a" * 100, "b"), ("a", "b" * 100), ("a" * 99, "b")])
    assert (len(cache), cache.meta["dropped"]) == (201, 2)


def test_meta_says_what_it_was_made_of(tmp_path: Path) -> None:
    build(tmp_path / "cache")
    meta = TokenCache.open(tmp_path / "cache").meta
    assert meta["facts"] == {"data": "abc"}
    assert meta["tokenizers"] == [BYTES.checksum] * 2
    assert meta["dtypes"] == ["<u2", "<u2"]


def test_a_vocabulary_above_65536_takes_four_bytes(tmp_path: Path) -> None:
    words = [f"w{'abcdefghij'[i % 10]}{chr(0x4E00 + i // 10)}" for i in range(70_000)]
    large = Tokenizer.learn([" ".join(words)], "word", 70_000)
    assert len(large) > 1 << 16
    cache = TokenCache.build(tmp_path / "c", [(words[0], "b")], large, BYTES, max_length=9, facts={})
    assert cache.meta["dtypes"] == ["<u4", "<u2"]
    assert large.decode(cache.pair(0)[0]) == words[0]


def test_chunks_do_not_show(tmp_path: Path) -> None:
    pairs = [(str(i), str(-i)) for i in range(2 * CHUNK + 3)]
    cache = build(tmp_path / "cache", iter(pairs))
    assert len(cache) == len(pairs)
    for i in (0, CHUNK - 1, CHUNK, 2 * CHUNK + 2):
        assert tuple(BYTES.decode(side) for side in cache.pair(i)) == pairs[i]


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> Iterator[tuple[str, str]]:
        yield from PAIRS
        raise UserError("line 201 is bad")

    with pytest.raises(UserError, match="line 201"):
        build(tmp_path / "cache", broken())
    assert list(tmp_path.iterdir()) == []
    build(tmp_path / "cache")
    with pytest.raises(UserError, match="line 201"):
        build(tmp_path / "cache", broken())
    assert len(TokenCache.open(tmp_path / "cache")) == 200, "the old cache survives a failed rebuild"


def test_a_rebuild_replaces_and_leaves_nothing_else(tmp_path: Path) -> None:
    build(tmp_path / "cache")
    assert len(build(tmp_path / "cache", PAIRS[:10])) == 10
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


def test_a_folder_that_is_no_cache_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(UserError, match="is no token cache"):
        build(tmp_path)
    with pytest.raises(UserError, match="is no token cache"):
        TokenCache.open(tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_nothing_to_train_on(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no pair is left"):
        build(tmp_path / "cache", [])
    with pytest.raises(UserError, match=r"200 have a side of more than 3 tokens"):
        build(tmp_path / "cache", max_length=3)


@pytest.mark.parametrize("name", ["source.tokens", "target.tokens", "source.offsets", "target.offsets"])
def test_damage_is_named(tmp_path: Path, name: str) -> None:
    build(tmp_path / "cache")
    path = tmp_path / "cache" / name
    whole = bytearray(path.read_bytes())
    path.write_bytes(whole[:-8])
    for verify in (True, False):
        with pytest.raises(UserError, match=f"{name}: .* bytes instead of"):
            TokenCache.open(tmp_path / "cache", verify=verify)
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)
    with pytest.raises(UserError, match=f"{name}: its checksum differs"):
        TokenCache.open(tmp_path / "cache")
    path.unlink()
    with pytest.raises(UserError, match=f"{name}: it is missing"):
        TokenCache.open(tmp_path / "cache")


@pytest.mark.parametrize(
    "change",
    [
        lambda meta: meta.pop("pairs"),
        lambda meta: meta.update(pairs=199),
        lambda meta: meta.update(dtypes=["<u4", "<u2"]),
        lambda meta: meta.update(files={}),
        lambda meta: meta["files"].update({"../x": {"bytes": 1, "sha256": ""}}),
        lambda meta: meta.update(longest=[-1, 3]),
    ],
)
def test_damaged_meta(tmp_path: Path, change: object) -> None:
    build(tmp_path / "cache")
    path = tmp_path / "cache" / "meta.json"
    meta = json.loads(path.read_text())
    change(meta)  # type: ignore[operator]
    path.write_text(json.dumps(meta))
    with pytest.raises(UserError, match=r"damaged: .*meta\.json"):
        TokenCache.open(tmp_path / "cache")
    path.write_text("{")
    with pytest.raises(UserError, match=r"damaged: .*meta\.json"):
        TokenCache.open(tmp_path / "cache")


def test_fingerprint(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_bytes(b"abc")
    sha = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert fingerprint([path]) == {str(path): sha}
    with pytest.raises(UserError, match="No such file"):
        fingerprint([tmp_path / "absent"])
