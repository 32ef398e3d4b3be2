"""Image files: the pixels as they were, and clear words for what cannot be read."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.errors import UserError
from regard.explain.imagefile import read
from regard.view import png

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


@pytest.fixture
def pixels() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (10, 7, 3)).astype(np.uint8)


@pytest.mark.parametrize("name", ["a.png", "a.ppm", "a.bmp", "a.tiff", "a.gif"])
def test_the_pixels_are_those_of_the_file(tmp_path: Path, pixels: np.ndarray, name: str) -> None:
    Image.fromarray(pixels).save(tmp_path / name)
    np.testing.assert_array_equal(read(tmp_path / name), pixels)


def test_grey_and_transparent(tmp_path: Path, pixels: np.ndarray) -> None:
    Image.fromarray(pixels[..., 0]).save(tmp_path / "grey.png")
    np.testing.assert_array_equal(read(tmp_path / "grey.png"), pixels[..., :1].repeat(3, -1))
    alpha = np.full((10, 7, 1), 255, dtype=np.uint8)
    alpha[0] = 0
    Image.fromarray(np.concatenate([pixels, alpha], -1)).save(tmp_path / "clear.png")
    found = read(tmp_path / "clear.png")
    assert (found[0] == 255).all()  # on white
    np.testing.assert_array_equal(found[1:], pixels[1:])


def test_a_photo_that_lies_on_its_side_is_seen_upright(tmp_path: Path, pixels: np.ndarray) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: what is left is above
    Image.fromarray(np.rot90(pixels).copy()).save(tmp_path / "a.png", exif=exif)
    np.testing.assert_array_equal(read(tmp_path / "a.png"), pixels)
    exif[0x0112] = 99  # no way to turn it
    Image.fromarray(pixels).save(tmp_path / "b.png", exif=exif)
    np.testing.assert_array_equal(read(tmp_path / "b.png"), pixels)


def test_what_we_write_we_read(tmp_path: Path, pixels: np.ndarray) -> None:
    (tmp_path / "a.png").write_bytes(png.encoded(pixels))
    np.testing.assert_array_equal(read(tmp_path / "a.png"), pixels)


def test_what_cannot_be_read_is_told(tmp_path: Path, pixels: np.ndarray) -> None:
    Image.fromarray(pixels).save(tmp_path / "whole.png")
    whole = (tmp_path / "whole.png").read_bytes()
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 2**30, 2**30, 8, 2, 0, 0, 0))
    cases = {
        "cut.png": (whole[: len(whole) // 2], "damaged"),
        "head.png": (whole[:20], "not an image|damaged"),
        "wrong.png": (whole.replace(b"IDAT", b"IDXT"), "not an image|damaged"),
        "huge.png": (SIGNATURE + header + chunk(b"IDAT", b""), "too large"),
        "text.png": (b"no picture", "not an image"),
        "empty.png": (b"", "not an image"),
    }
    for name, (data, words) in cases.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(UserError, match=words):
            read(tmp_path / name)
    with pytest.raises(UserError, match="No such file"):
        read(tmp_path / "none.png")
    with pytest.raises(UserError, match="Is a directory"):
        read(tmp_path)


def test_without_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.explain.imagefile.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"regard\[images\]"):
        read(tmp_path / "a.png")
