"""Numbers of bytes as people write them."""

from __future__ import annotations

import re

_UNITS = "kmg"


def parse_bytes(size: int | str) -> int:
    """The number of bytes in 4096, "4096", "2k", "2kB", "1.5k", "1M" or "16Ki".

    k, M and G are powers of 1,000; Ki, Mi and Gi powers of 1,024.
    """
    if not isinstance(size, str):
        return int(size)
    match = re.fullmatch(r"(\d+\.?\d*|\.\d+)\s*(?:([kmg])(i?))?b?", size.strip().lower())
    n_bytes = 0
    if match is not None:
        number, unit, binary = match.groups()
        power = _UNITS.index(unit) + 1 if unit else 0
        n_bytes = int(float(number) * (1024 if binary else 1000) ** power)
    if n_bytes < 1:
        raise ValueError(f"{size!r} is not a number of bytes, such as 4096, '2k' or '16Ki'.")
    return n_bytes
