"""Arrays inside JSON, small: deflated numbers as base64, which the page's data.js unpacks."""

import base64
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

MANY = 1_000_000  # weights; above it three digits are kept in place of four


def pack_weights(weights: NDArray[Any]) -> dict[str, Any]:
    """Numbers from 0 to 1 as whole thousandths or ten-thousandths: most are small, alike, and deflate well."""
    parts = 10_000 if weights.size <= MANY else 1000
    return _packed("uint16", np.rint(weights * parts).astype("<u2"), 1 / parts)


def pack_floats(values: NDArray[Any]) -> dict[str, Any]:
    """The same numbers, to the bit."""
    return _packed("float32", values.astype("<f4"), 1)


def _packed(kind: str, values: NDArray[Any], scale: float) -> dict[str, Any]:
    data = base64.b64encode(zlib.compress(values.tobytes(), 4)).decode()
    return {"packed": kind, "shape": list(values.shape), "scale": scale, "data": data}
