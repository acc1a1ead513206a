"""Which test rows a machine gets right, as text: comparisons are paired by row."""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from typing import Any

import numpy as np


def pack_rows(right: Any) -> str:
    """Truth values of test rows: their number, then compressed bits in base 64."""
    bits = np.packbits(np.asarray(right, dtype=bool)).tobytes()
    return f"{len(right)}:{b64encode(zlib.compress(bits, 9)).decode('ascii')}"


def unpack_rows(text: str) -> Any:
    """The truth values that were packed."""
    number, _, packed = text.partition(":")
    bits = np.frombuffer(zlib.decompress(b64decode(packed)), np.uint8)
    return np.unpackbits(bits, count=int(number)).astype(bool)
