"""PNG without a browser: an SVG through a renderer where one is installed, heat maps alone through zlib everywhere."""

import shutil
import struct
import subprocess
import zlib
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.view.matrix import Matrix

SCALE = 2  # pixels for each of the SVG's


def rendered(svg: str) -> bytes | None:
    """The picture as PNG, words and all; None where nothing can render it."""
    if find_spec("cairosvg") is not None:
        image: bytes = import_module("cairosvg").svg2png(bytestring=svg.encode(), scale=SCALE)
        return image
    command = shutil.which("rsvg-convert")
    if command is None:
        return None
    return subprocess.run([command, "--zoom", str(SCALE)], input=svg.encode(), capture_output=True, check=True).stdout


def can_render() -> bool:
    return find_spec("cairosvg") is not None or shutil.which("rsvg-convert") is not None


def needed(view: str) -> str:
    return f"a PNG of {view} needs cairosvg (pip install cairosvg) or the command rsvg-convert; an SVG needs nothing"


def cells(values: Matrix, most: float = 1.0, size: int = 900) -> bytes:
    """A heat map without words: squares of as many pixels as fit, in the SVG's colours."""
    paper, above, below = (np.array(c) for c in ((243, 242, 239), (63, 81, 197), (194, 89, 29)))
    strength = np.clip(np.abs(values) / most, 0, 1)[..., None]
    colour = np.where((values >= 0)[..., None], above, below)
    pixels = np.rint(paper + strength * (colour - paper)).astype(np.uint8)
    cell = max(1, size // max(values.shape))
    return encoded(pixels.repeat(cell, 0).repeat(cell, 1))


def encoded(pixels: NDArray[Any]) -> bytes:
    """Red, green and blue bytes (rows, columns, 3) as a PNG file."""
    height, width, _ = pixels.shape
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)  # each line is told to be plain
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
