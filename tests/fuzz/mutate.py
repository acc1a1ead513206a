"""Seeded mutations of the bytes of a valid file."""

from __future__ import annotations

import numpy as np

_NUMBERS = (
    b"0", b"-1", b"nan", b"inf", b"-inf", b"1e400", b"1e-400", b"1e38", b"2147483648",
    b"9223372036854775808", b"99999999999999999999", b"0.1.2", b"1e", b"0x10", b"1_000",
)  # fmt: skip
_SNIPPETS = (
    b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\n", b"\r\n", b'"', b"'", b",", b";", b"\t",
    b"\\", b"{", b"}", b"[" * 40, b"(" * 40, b"null", b"true", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80",
)  # fmt: skip


def damage(data: bytes, rng: np.random.Generator) -> bytes:
    """One to eight mutations of the data, few more often than many."""
    for _ in range(min(8, int(rng.geometric(0.5)))):
        data = _MUTATIONS[rng.integers(len(_MUTATIONS))](data, rng)
    return data


def _span(data: bytes, rng: np.random.Generator) -> tuple[int, int]:
    """Start and end of a piece, mostly short."""
    start = int(rng.integers(len(data) + 1))
    return start, min(len(data), start + int(2 ** rng.uniform(0, 10)))


def _flip(data: bytes, rng: np.random.Generator) -> bytes:
    if not data:
        return data
    changed = bytearray(data)
    changed[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def _overwrite(data: bytes, rng: np.random.Generator) -> bytes:
    start, end = _span(data, rng)
    fill = rng.bytes(end - start) if rng.random() < 0.5 else bytes([rng.choice([0, 255])])
    return data[:start] + fill * (1 if len(fill) > 1 else end - start) + data[end:]


def _truncate(data: bytes, rng: np.random.Generator) -> bytes:
    return data[: rng.integers(len(data) + 1)]


def _delete(data: bytes, rng: np.random.Generator) -> bytes:
    start, end = _span(data, rng)
    return data[:start] + data[end:]


def _repeat(data: bytes, rng: np.random.Generator) -> bytes:
    start, end = _span(data, rng)
    return data[:end] + data[start:end] * int(rng.integers(1, 4)) + data[end:]


def _swap(data: bytes, rng: np.random.Generator) -> bytes:
    """Exchange two neighbouring pieces."""
    start, middle = _span(data, rng)
    end = min(len(data), 2 * middle - start)
    return data[:start] + data[middle:end] + data[start:middle] + data[end:]


def _insert(data: bytes, rng: np.random.Generator) -> bytes:
    at = rng.integers(len(data) + 1)
    return data[:at] + _SNIPPETS[rng.integers(len(_SNIPPETS))] + data[at:]


def _integer(data: bytes, rng: np.random.Generator) -> bytes:
    """Overwrite with a little-endian number at a limit, as sizes in headers are stored."""
    width = int(rng.choice([2, 4, 8]))
    value = int(rng.choice([0, 1, 2 ** (8 * width - 1) - 1, 2 ** (8 * width - 1)]))
    at = int(rng.integers(len(data) + 1))
    return data[:at] + value.to_bytes(width, "little") + data[at + width :]


def _number(data: bytes, rng: np.random.Generator) -> bytes:
    """Replace a number in a text, if there is one near a random place."""
    at = int(rng.integers(len(data) + 1))
    digits = b"0123456789"
    while at < len(data) and data[at] not in digits:
        at += 1
    end = at
    while end < len(data) and data[end] in digits + b".eE-+":
        end += 1
    return data[:at] + _NUMBERS[rng.integers(len(_NUMBERS))] + data[end:]


_MUTATIONS = (
    _flip, _flip, _overwrite, _truncate, _delete, _repeat, _swap, _insert, _integer, _number,
    _number,
)  # fmt: skip
