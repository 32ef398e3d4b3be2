"""Image files: PNG in all its line filters, PPM, and clear words for the rest."""

import struct
import sys
import tracemalloc
import types
import zlib
from pathlib import Path

import numpy as np
import pytest

from regard.errors import UserError
from regard.explain.imagefile import PNG, read
from regard.view import png


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png_file(pixels: np.ndarray, filters: list[int], colour: int, *, depth: int = 8, interlaced: int = 0) -> bytes:
    """Filtered the plain way, byte by byte, as the specification has it."""
    height, width, channels = pixels.shape
    flat = pixels.reshape(height, -1).astype(int)
    raw = bytearray()
    for y in range(height):
        kind = filters[y % len(filters)]
        raw.append(kind)
        for x in range(width * channels):
            a = flat[y, x - channels] if x >= channels else 0
            b = flat[y - 1, x] if y else 0
            c = flat[y - 1, x - channels] if y and x >= channels else 0
            p = a + b - c
            paeth = a if abs(p - a) <= abs(p - b) and abs(p - a) <= abs(p - c) else b if abs(p - b) <= abs(p - c) else c
            raw.append((flat[y, x] - (0, a, b, (a + b) // 2, paeth)[kind]) % 256)
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)
    data = zlib.compress(bytes(raw))
    half = len(data) // 2
    parts = [(b"IHDR", header), (b"tEXt", b"k\0v"), (b"IDAT", data[:half]), (b"IDAT", data[half:]), (b"IEND", b"")]
    return PNG + b"".join(chunk(*each) for each in parts)


@pytest.fixture
def pixels() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (10, 7, 3)).astype(np.uint8)


def test_every_filter(tmp_path: Path, pixels: np.ndarray) -> None:
    (tmp_path / "a.png").write_bytes(png_file(pixels, [0, 1, 2, 3, 4, 4, 3, 2, 1], 2))
    np.testing.assert_array_equal(read(tmp_path / "a.png"), pixels)


def test_grey_and_alpha(tmp_path: Path, pixels: np.ndarray) -> None:
    (tmp_path / "grey.png").write_bytes(png_file(pixels[..., :1], [4], 0))
    np.testing.assert_array_equal(read(tmp_path / "grey.png"), pixels[..., :1].repeat(3, -1))
    seen = np.full((10, 7, 1), 255, dtype=np.uint8)
    seen[0] = 0
    (tmp_path / "clear.png").write_bytes(png_file(np.concatenate([pixels, seen], -1), [3], 6))
    found = read(tmp_path / "clear.png")
    assert (found[0] == 255).all()  # on white
    np.testing.assert_array_equal(found[1:], pixels[1:])


def test_what_we_write_we_read(tmp_path: Path, pixels: np.ndarray) -> None:
    (tmp_path / "a.png").write_bytes(png.encoded(pixels))
    np.testing.assert_array_equal(read(tmp_path / "a.png"), pixels)


def test_ppm(tmp_path: Path, pixels: np.ndarray) -> None:
    (tmp_path / "a.ppm").write_bytes(b"P6\n# made by hand\n7 10\n255\n" + pixels.tobytes())
    np.testing.assert_array_equal(read(tmp_path / "a.ppm"), pixels)
    (tmp_path / "a.pgm").write_bytes(b"P5 7 10 255 " + pixels[..., 0].tobytes())
    np.testing.assert_array_equal(read(tmp_path / "a.pgm"), pixels[..., :1].repeat(3, -1))


def test_what_is_damaged_is_told(tmp_path: Path, pixels: np.ndarray) -> None:
    whole = png_file(pixels, [0], 2)
    far = b"\xff" * 8 + b"P6"
    cases = {
        "cut.png": whole[: len(whole) // 2],
        "head.png": whole[:20],
        "filter.png": png_file(pixels, [0], 2).replace(b"IDAT", b"IDXT"),
        "short.ppm": b"P6 7 10 255 " + pixels.tobytes()[:-1],
    }
    for name, data in cases.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(UserError, match="damaged"):
            read(tmp_path / name)
    huge = PNG + chunk(b"IHDR", struct.pack(">IIBBBBB", 2**31, 2**31, 8, 2, 0, 0, 0))
    (tmp_path / "huge.png").write_bytes(huge)
    with pytest.raises(UserError, match="too large"):
        read(tmp_path / "huge.png")
    with pytest.raises(UserError, match="cannot read"):
        read(tmp_path / "none.png")
    (tmp_path / "far").write_bytes(far)
    with pytest.raises(UserError, match="neither PNG nor PPM; install Pillow"):
        read(tmp_path / "far")


def test_a_small_file_cannot_grow_without_end(tmp_path: Path) -> None:
    """What is said to be 4 x 4 pixels is not inflated beyond that."""
    header = struct.pack(">IIBBBBB", 4, 4, 8, 0, 0, 0, 0)
    bomb = zlib.compress(bytes(5_000_000))
    (tmp_path / "bomb.png").write_bytes(PNG + chunk(b"IHDR", header) + chunk(b"IDAT", bomb))
    tracemalloc.start()
    assert read(tmp_path / "bomb.png").shape == (4, 4, 3)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1_000_000


def test_other_forms_are_pillows(tmp_path: Path, pixels: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.png").write_bytes(png_file(pixels, [0], 2, interlaced=1))
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setattr("regard.explain.imagefile.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"interlaced.*install Pillow"):
        read(tmp_path / "a.png")

    class Opened:
        def __enter__(self) -> "Opened":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def convert(self, mode: str) -> np.ndarray:
            assert mode == "RGB"
            return pixels

    pillow = types.ModuleType("PIL.Image")
    pillow.open = lambda path: Opened()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "PIL", types.ModuleType("PIL"))
    monkeypatch.setitem(sys.modules, "PIL.Image", pillow)
    monkeypatch.setattr("regard.explain.imagefile.find_spec", lambda name: object())
    np.testing.assert_array_equal(read(tmp_path / "a.png"), pixels)
