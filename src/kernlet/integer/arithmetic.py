"""Fixed-point functions, bit by bit as the exported code computes them.

Arrays are int64, which holds every intermediate result; the exported code has 32 bits, and the
bounds of :class:`kernlet.integer.machine.IntegerMachine` prove that they are enough.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

#: The kernel value 1.
ONE = 65535
#: Entries of both tables, without the last one that interpolation needs.
N_ENTRIES = 32
#: 65535 times 2 to the -i/32.
POWERS: Integers = np.rint(ONE * 2.0 ** (-np.arange(N_ENTRIES + 1) / N_ENTRIES)).astype(np.int64)
#: 65536 log2(1 + i/32); the last one would be 65536, which 16 bits do not hold.
LOGARITHMS: Integers = np.minimum(
    np.rint(65536 * np.log2(1 + np.arange(N_ENTRIES + 1) / N_ENTRIES)), ONE
).astype(np.int64)
INT16 = 2**15 - 1


def half(shift: int) -> int:
    """What a shift to the right needs to round: half of what it divides by."""
    return (1 << shift) >> 1


def mul16(a: Any, multiplier: Any) -> Any:
    """floor(a multiplier / 2^16), for a of 32 bits and a multiplier below 2^16.

    Without a product of 64 bits: (a >> 16) multiplier + (((a & 0xffff) multiplier) >> 16).
    """
    return (a * multiplier) >> 16


def exp2_neg(t: Integers, fraction: int, more: int = 0) -> Integers:
    """65535 times 2^-(t / 2^fraction + more), rounded.

    Parameters
    ----------
    t : ndarray of int64
        Below 2^32.
    fraction : int
        From 5 to 31.
    more : int, default=0
        Bits that values have fewer than 16.
    """
    n = (t >> fraction) + more
    rest = t & ((1 << fraction) - 1)
    i = rest >> (fraction - 5)
    shift = fraction - 16  # the next eleven bits: entries differ by less than 2^11
    r = (rest >> shift if shift >= 0 else rest << -shift) & 2047
    value = POWERS[i] - (((POWERS[i] - POWERS[i + 1]) * r) >> 11)
    n = np.minimum(n, 17)  # beyond 16 the value is 0
    return np.where(n > 16, 0, (value + ((1 << n) >> 1)) >> n)


def log2_int(y: Integers) -> Integers:
    """65536 log2(y), for y from 1 to 2^32 - 1, off by less than 4.

    Between two entries, the logarithm is above their straight line by log(2) s^2 p / 2^17, where s
    is their difference and p = r (1 - r), with r from 0 to 1 between them.
    """
    n = np.frexp(y.astype(np.float64))[1].astype(np.int64) - 1  # bits but one: exact below 2^53
    m = y << (31 - n)
    i, r = (m >> 26) & 31, (m >> 15) & 2047
    rise = LOGARITHMS[i + 1] - LOGARITHMS[i]
    bulge = (((rise * rise) >> 12) * ((r * (2048 - r)) >> 11) * 45) >> 22
    return (n << 16) + LOGARITHMS[i] + ((rise * r) >> 11) + bulge


def square_root(y: Integers) -> Integers:
    """The largest integer whose square is not above y, for y below 2^32."""
    # the root of a float64 is rounded correctly, and squares below 2^32 are exact
    return np.floor(np.sqrt(y.astype(np.float64))).astype(np.int64)


class Rescale(NamedTuple):
    """a -> round(a multiplier / 2^(16 + shift)), by :func:`mul16` and a shift that rounds.

    A negative shift multiplies.
    """

    multiplier: int
    shift: int

    @classmethod
    def by(cls, ratio: float) -> Rescale:
        """The one that multiplies by a positive ratio, to 16 bits."""
        mantissa, exponent = np.frexp(ratio)  # ratio = mantissa 2^exponent, mantissa in [1/2, 1)
        if exponent < -30:  # 32 bits become 0
            return cls(0, 0)
        return cls(min(int(np.rint(mantissa * 65536)), 65535), -int(exponent))

    @property
    def ratio(self) -> float:
        """What it multiplies by."""
        return self.multiplier * 2.0 ** -(16 + self.shift)

    def __call__(self, a: Any) -> Any:
        """The rescaled numbers."""
        product = mul16(a, self.multiplier)
        if self.shift <= 0:
            return product << -self.shift
        return (product + half(self.shift)) >> self.shift
