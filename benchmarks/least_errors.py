"""The fewest training errors of machines with one or two centers, over all coefficients, exactly.

With the values of two functions as coordinates, a machine is a line in the plane. Every way in
which a line can split the rows is found by turning a line about each row in turn, O(n^2 log n): the
line of a split can be moved until it touches a row, which may then count on either side.
"""

from __future__ import annotations

import numpy as np

from kernlet._typing import Floats


def of_threshold(values: Floats, signs: Floats) -> int:
    """Fewest errors of o (f - threshold), o = +1 or -1, over all thresholds."""
    order = np.argsort(values, kind="stable")
    ends = np.append(np.diff(values[order]) > 0, True)  # equal values stay on one side
    steps = np.cumsum(signs[order])[ends]
    # Rows below are called negative: errors = positives below + negatives above.
    errors = np.append(0.0, steps) + np.count_nonzero(signs < 0)
    return int(min(errors.min(), (len(signs) - errors).min()))


def of_line(x: Floats, y: Floats, signs: Floats) -> tuple[int, tuple[float, float, float]]:
    """Fewest errors of a x + b y + c, and such a machine (a, b, c).

    About row i the normal (-rho, 1) turns from rho = -inf to inf; row k changes sides at the slope
    rho = (y_k - y_i) / (x_k - x_i). Slopes that tie by round-off are passed one by one, which can
    only give too few errors: what is proved by a larger number stays proved.
    """
    n = len(signs)
    dx, dy = x[None, :] - x[:, None], y[None, :] - y[:, None]
    is_same = (dx == 0) & (dy == 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = np.where(is_same, np.inf, np.where(dx == 0, np.copysign(np.inf, dy), dy / dx))
    is_wrong = np.where(dx >= 0, 1.0, -1.0) != signs
    # A flip makes a right row wrong; the rows that coincide with row i are counted apart.
    flips = np.where(is_same, 0, np.where(is_wrong, -1, 1))
    order = np.argsort(slopes, axis=1)
    start = np.count_nonzero(is_wrong & ~is_same, axis=1)
    errors = np.zeros((n, n + 1), dtype=int)
    errors[:, 1:] = np.cumsum(np.take_along_axis(flips, order, axis=1), axis=1)
    errors += start[:, None]
    n_others = n - is_same.sum(axis=1)
    positive = np.count_nonzero(is_same & (signs > 0), axis=1)
    apart = np.minimum(positive, n - n_others - positive)
    both = np.stack([errors, n_others[:, None] - errors]) + apart[:, None]
    side, i, m = np.unravel_index(np.argmin(both), both.shape)
    around = np.concatenate([[-np.inf], slopes[i, order[i]], [np.inf]])[m : m + 2]
    rho = _between(*around)
    a, b = (rho, -1.0) if side else (-rho, 1.0)
    values = a * dx[i] + b * dy[i]
    gap = np.abs(values[~is_same[i]]).min(initial=1.0) / 2
    shift = gap if 2 * positive[i] >= n - n_others[i] else -gap
    return int(both[side, i, m]), (a, b, shift - a * x[i] - b * y[i])


def _between(low: float, high: float) -> float:
    """A number between two, which may be infinite."""
    if np.isinf(low) and np.isinf(high):
        return 0.0
    if np.isinf(low):
        return high - abs(high) - 1.0
    return low + abs(low) + 1.0 if np.isinf(high) else (low + high) / 2


def of_constant(signs: Floats) -> int:
    """Errors of the more frequent class for all rows."""
    return int(min(np.count_nonzero(signs > 0), np.count_nonzero(signs < 0)))


def of_one_center(K: Floats, signs: Floats) -> int:
    """Fewest errors of one of the columns of K with any coefficient and intercept."""
    return min(of_threshold(column, signs) for column in K.T)


def of_two_centers(K: Floats, signs: Floats) -> tuple[int, Floats, float]:
    """Fewest errors of two columns of K with any coefficients; those of a machine that has them."""
    s = K.shape[1]
    best, coef, intercept = len(signs) + 1, np.zeros(s), 0.0
    for j in range(s):
        for k in range(j):
            errors, (a, b, c) = of_line(K[:, j], K[:, k], signs)
            if errors < best:
                best, intercept = errors, c
                coef = np.zeros(s)
                coef[[j, k]] = a, b
    return best, coef, intercept


def add_centers(
    K: Floats, signs: Floats, coef: Floats, intercept: float, errors: int, max_centers: int
) -> tuple[Floats, float]:
    """Add the center that saves most errors until at most ``errors`` are left.

    The machine so far and a candidate are the two coordinates, so that each step is exact for that
    candidate and the scale of the machine so far.
    """
    while np.count_nonzero(coef) < max_centers:
        values = K @ coef + intercept
        left = np.count_nonzero(values * signs <= 0)
        if left <= errors:
            break
        answers = [of_line(values, column, signs) for column in K.T]
        j = int(np.argmin([answer[0] for answer in answers]))
        if answers[j][0] >= left:
            break  # no single candidate helps
        a, b, c = answers[j][1]
        coef, intercept = a * coef, a * intercept + c
        coef[j] += b
    return coef, intercept
