"""Numbers of bytes, and other counts, as people write them."""

from __future__ import annotations

import re

_UNITS = "kmg"
_NUMBER = r"(\d+\.?\d*|\.\d+)\s*"


def parse_bytes(size: int | str) -> int:
    """The number of bytes in 4096, "4096", "2k", "2kB", "1.5k", "1M" or "16Ki".

    k, M and G are powers of 1,000; Ki, Mi and Gi powers of 1,024.
    """
    examples = "of bytes, such as 4096, '2k' or '16Ki'"
    return _parsed(size, rf"{_NUMBER}(?:([kmg])(i?))?b?", examples)


def parse_count(number: int | str) -> int:
    """The number in 500, "500", "200k" or "1.5M"; k, M and G are powers of 1,000."""
    return _parsed(number, rf"{_NUMBER}([kmg]?)()", "such as 500, '200k' or '1M'")


def _parsed(text: int | str, pattern: str, examples: str) -> int:
    """A positive number, from its digits, its unit and whether that is binary."""
    if not isinstance(text, str):
        return int(text)
    match = re.fullmatch(pattern, text.strip().lower())
    value = 0
    if match is not None:
        number, unit, binary = match.groups()
        power = _UNITS.index(unit) + 1 if unit else 0
        value = int(float(number) * (1024 if binary else 1000) ** power)
    if value < 1:
        raise ValueError(f"{text!r} is not a number {examples}.")
    return value
