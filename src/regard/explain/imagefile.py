"""Reads an image file into bytes (H W 3), through Pillow."""

import struct
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import UserError

Pixels = NDArray[np.uint8]
LARGEST = 2**26  # pixels


def read(path: Path) -> Pixels:
    """The pixels, upright as the camera says; what is transparent is seen on white."""
    if find_spec("PIL") is None:
        raise UserError("reading images needs Pillow: pip install 'regard[images]'")
    image: Any = import_module("PIL.Image")
    upright: Any = import_module("PIL.ImageOps").exif_transpose
    image.MAX_IMAGE_PIXELS = None  # it would warn in places; the size is checked here, before anything is unpacked
    try:
        with image.open(path) as opened:
            width, height = opened.size
            if not 0 < width * height <= LARGEST:
                raise UserError(f"{path}: an image of {width} x {height} pixels is too large or empty")
            turned = upright(opened)
            seen = image.new("RGBA", turned.size, "white")
            seen.alpha_composite(turned.convert("RGBA"))
            return np.array(seen.convert("RGB"), dtype=np.uint8)
    except image.UnidentifiedImageError:
        raise UserError(f"{path} is not an image of a known form, such as PNG or JPEG") from None
    except OSError as error:  # Pillow tells of damage so too
        why = error.strerror or f"the image is damaged ({error})"
        raise UserError(f"cannot read {path}: {why}") from None
    except (SyntaxError, ValueError, struct.error) as error:  # of a chunk or a header
        raise UserError(f"cannot read {path}: the image is damaged ({error})") from None
