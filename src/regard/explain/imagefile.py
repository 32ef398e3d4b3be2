"""Reads an image file into bytes (H W 3): PNG and PPM by itself, other formats where Pillow is installed."""

import math
import re
import struct
import zlib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.errors import UserError

Pixels = NDArray[np.uint8]
LARGEST = 2**26  # pixels
PNG = b"\x89PNG\r\n\x1a\n"
CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}  # of PNG's colour types: grey, colour, and both with alpha
_PPM = re.compile(rb"P([56])\s+(?:#[^\n]*\n\s*)*(\d+)\s+(?:#[^\n]*\n\s*)*(\d+)\s+(?:#[^\n]*\n\s*)*(\d+)\s")


class Foreign(Exception):
    """A form that is not read here; Pillow may."""


def read(path: Path) -> Pixels:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    try:
        return _read(data)
    except Foreign as foreign:
        if find_spec("PIL") is None:
            raise UserError(f"{path} is {foreign}; install Pillow (pip install pillow) or give a PNG or PPM") from None
    except (struct.error, zlib.error, ValueError):
        raise UserError(f"{path} is damaged: it cannot be read as an image") from None
    return _by_pillow(path)


def _read(data: bytes) -> Pixels:
    if data.startswith(PNG):
        return _png(data)
    if header := _PPM.match(data):
        return _ppm(data, header)
    raise Foreign("neither PNG nor PPM")


def _by_pillow(path: Path) -> Pixels:
    image = import_module("PIL.Image")
    try:
        with image.open(path) as opened:
            return np.asarray(opened.convert("RGB"), dtype=np.uint8)
    except OSError as error:  # Pillow's own errors are of this kind
        raise UserError(f"{path} cannot be read as an image: {error}") from None


def _ppm(data: bytes, header: re.Match[bytes]) -> Pixels:
    width, height, most = (int(header[i]) for i in (2, 3, 4))
    if most != 255:
        raise Foreign(f"a PPM with values up to {most}")
    channels = 3 if header[1] == b"6" else 1
    _check(width, height)
    pixels = np.frombuffer(data, np.uint8, width * height * channels, header.end())
    return np.broadcast_to(pixels.reshape(height, width, channels), (height, width, 3)).copy()


def _check(width: int, height: int) -> None:
    if not 0 < width * height <= LARGEST:
        raise UserError(f"an image of {width} x {height} pixels is too large or empty")


def _png(data: bytes) -> Pixels:
    """The two kinds of file that are most of them: eight bits a channel, line after line."""
    width, height, depth, colour, _, _, interlaced = struct.unpack_from(">IIBBBBB", data, 16)
    if depth != 8 or interlaced or colour not in CHANNELS:
        raise Foreign("a PNG with a palette, interlaced, or not of eight bits")
    _check(width, height)
    channels = CHANNELS[colour]
    size = (width * channels + 1) * height
    raw = zlib.decompressobj().decompress(b"".join(_chunks(data, b"IDAT")), size)
    if len(raw) < size:
        raise ValueError
    lines = np.frombuffer(raw, np.uint8, size).reshape(height, -1)
    pixels = _unfiltered(lines[:, 0], lines[:, 1:].reshape(height, width, channels))
    if channels in (2, 4):  # seen on white
        alpha = pixels[..., -1:] / 255
        pixels = np.rint(pixels[..., :-1] * alpha + 255 * (1 - alpha)).astype(np.uint8)
    return np.broadcast_to(pixels, (height, width, 3)).copy()


def _chunks(data: bytes, name: bytes) -> list[bytes]:
    found, at = [], len(PNG)
    while at + 12 <= len(data):
        (size,) = struct.unpack_from(">I", data, at)
        if data[at + 4 : at + 8] == name:
            found.append(data[at + 8 : at + 8 + size])
        at += 12 + size
    return found


def _unfiltered(filters: Pixels, lines: Pixels) -> Pixels:
    """Each line is told as differences from its left, upper, or both neighbours; sums are of bytes and go round."""
    out = np.zeros_like(lines)
    above = np.zeros_like(lines[0])
    for y, (kind, line) in enumerate(zip(filters, lines, strict=True)):
        if kind == 0:
            out[y] = line
        elif kind == 1:
            out[y] = np.cumsum(line, axis=0, dtype=np.uint8)
        elif kind == 2:
            out[y] = line + above
        elif kind in (3, 4):
            out[y] = _by_neighbours(kind == 4, line, above)
        else:
            raise ValueError
        above = out[y]
    return out


def _by_neighbours(paeth: bool, line: Pixels, above: Pixels) -> list[list[int]]:
    """The two filters that need the pixel before, already undone."""
    made: list[list[int]] = []
    left = corner = [0] * line.shape[1]
    for given, upper in zip(line.tolist(), above.tolist(), strict=True):
        if paeth:
            guess = [_paeth(a, b, c) for a, b, c in zip(left, upper, corner, strict=True)]
        else:
            guess = [(a + b) // 2 for a, b in zip(left, upper, strict=True)]
        left, corner = [(d + g) & 255 for d, g in zip(given, guess, strict=True)], upper
        made.append(left)
    return made


def _paeth(left: int, upper: int, corner: int) -> int:
    """Whichever of the three is nearest to left + upper - corner."""
    near = left + upper - corner
    by = [math.fabs(near - value) for value in (left, upper, corner)]
    return (left, upper, corner)[by.index(min(by))]
