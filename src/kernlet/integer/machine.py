"""A kernel machine in integers: every constant and table of it, and what it computes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from kernlet._typing import Floats, Indices
from kernlet.integer.arithmetic import (
    INT16,
    Integers,
    Rescale,
    exp2_neg,
    half,
    log2_int,
    mul16,
    square_root,
)

# How this works
# --------------
# A row of int16 inputs q goes through these stages, the later ones for each center j:
#
#     v   = q, or round(q multiplier - offset) (counts)       clamped
#     w   = h(v), asinh and steps                             int16
#     U   = round(P w), clamped; w itself without a matrix P  int16, in units of 2^-f codes
#     D   = sum_r (U_r - (z_jr << f))^2, or sums of sizes     uint32
#           (each square shifted right by 0, b or 2 b bits, where features have weights: the
#           largest weight is in G, and what is lost is less than 1 per feature)
#     t   = D G_j / 2^16                                      uint32, with F bits of fraction
#     k_j = 65535 2^-t                                        uint16, by a table
#     s_c = B_c + sum_j W_jc k_j                              int32
#
# Clamping U loses nothing with the kernels that vanish: a coordinate beyond the limit makes every
# kernel value 0, and so does the limit.
#
# Inputs, P, U and the scores are integers by themselves, because the steps of all tables are moved
# into the constants of the next stage; only these are rounded, to 16 bits. The largest f that
# leaves D below 2^32 is what accuracy needs most.

# Missing features have the input -32768. A fill value replaces it or, where missing features are
# left out of distances, D is the sum over the n features present, times rank / n, rounded down; of
# a row without any, all U are 0.

_MANY = 1 << 22  # differences that are formed at once
#: The input of a missing feature, where a machine takes them; others are larger then.
MISSING_INPUT = -32768


class Bound(NamedTuple):
    """What can occur at most in a stage, and what its type holds."""

    what: str
    largest: int
    limit: int


def bound_lines(bounds: Sequence[Bound]) -> list[str]:
    """Bounds for people to read, under a line that says what they are."""
    if not bounds:
        return []
    head = "largest numbers that any input can give, and what their types hold:"
    return [head, *(f"  {what}: {largest:,} of {limit:,}" for what, largest, limit in bounds)]


class Front(NamedTuple):
    """v = (q multiplier - offset + half) >> shift: counts to scaled features."""

    multiplier: int
    offset: int
    shift: int

    def __call__(self, q: Integers) -> Integers:
        """Scaled features."""
        return (q * self.multiplier - self.offset + half(self.shift)) >> self.shift


class Counts(NamedTuple):
    """((c - base) multiplier - offset + half) >> shift: whole numbers to inputs, by features.

    All but the differences, which are clamped to 16 bits, and the sum fit in 16 bits.
    """

    base: Integers
    multiplier: Integers
    offset: Integers
    shift: Integers

    def __call__(self, counts: Integers) -> Integers:
        """Inputs."""
        differences = np.clip(counts - self.base, -32768, INT16)
        products = differences * self.multiplier - self.offset + ((1 << self.shift) >> 1)
        return np.clip(products >> self.shift, -32768, INT16)


class Asinh(NamedTuple):
    """v -> the area hyperbolic sine of v / 2^bits."""

    bits: int
    rescale: Rescale

    def __call__(self, v: Integers) -> Integers:
        """By asinh(a) = log(a + sqrt(a a + 1))."""
        size = np.abs(v)
        y = size + square_root(size * size + (1 << (2 * self.bits)))
        return np.sign(v) * self.rescale(np.maximum(log2_int(y) - (self.bits << 16), 0))


class Steps(NamedTuple):
    """Jumps that are added where a feature exceeds a threshold, in the order of the features."""

    features: Indices
    thresholds: Integers
    jumps: Integers

    def __call__(self, v: Integers) -> Integers:
        """Features with their jumps."""
        w = v.copy()
        for feature, threshold, jump in zip(*self, strict=True):
            w[:, feature] += jump * (v[:, feature] > threshold)
        return w


class LogWidths(NamedTuple):
    """Widths as 65535 2^-((start + (top - code) factor) / 2^fraction), from packed logarithms."""

    codes: Integers
    top: int
    start: int
    factor: int
    fraction: int

    def decoded(self) -> Integers:
        """The widths."""
        return exp2_neg(self.start + (self.top - self.codes) * self.factor, self.fraction)


class Weights(NamedTuple):
    """What squared differences are multiplied by: 2^(bits (codes - 1)), codes being -1, 0, 1."""

    codes: Integers
    bits: int

    @property
    def shifts(self) -> Integers:
        """Bits by which the squares are shifted to the right, of shape (n_centers, rank)."""
        return (1 - self.codes) * self.bits


class Rational(NamedTuple):
    """Of the rational quadratic kernel: t = (log2(2^bits + D G) - bits) << shift, times alpha."""

    bits: int
    shift: int
    multiplier: int


@dataclass(frozen=True, eq=False)
class IntegerMachine:
    """A kernel machine in integers.

    Its inputs are int16 numbers q, with x = offset + scale q for the features x of a row.
    :meth:`scores` is computed bit by bit as the exported code computes it, from any such inputs:
    ``bounds`` says how large each intermediate result can become, and what its type holds.

    Parameters
    ----------
    n_features : int
    offset, scale : ndarray of float32, of shape (1,) or (n_features,)
    is_counts : bool
        Whether the inputs are the features themselves, which are whole numbers.
    counts : Counts or None
        How whole numbers become inputs, where these are scaled.
    block : int
        Of square images: side of the blocks of pixels that are added up.
    front : Front or None
    low, high : int
        What scaled features are clamped to.
    asinh : Asinh or None
    steps : Steps or None
    projection : ndarray of shape (rank, n_inputs) or None
        Codes.
    rescale : Rescale or None
        Of the projected features.
    limit : int
        What these are clamped to, in size.
    centers : ndarray of shape (n_centers, rank)
        Codes.
    center_shift : int
        Bits by which these are shifted to the left, for distances.
    kernel : str
    distance_shift : int
        Bits by which distances are shifted to the left before they are multiplied by a width.
    widths : ndarray of shape (1,) or (n_centers,)
    log_widths : LogWidths or None
        What the widths are made from, where they are stored as logarithms.
    weights : Weights or None
        Of the features of each center.
    fraction : int
        Bits of fraction of the exponents.
    rational : Rational or None
    base : Rescale or None
        Of inner products, followed by ``base_offset``.
    base_offset, degree : int
    value_shift : int
        Bits by which kernel values are shorter than 16.
    coef : ndarray of shape (n_centers, n_entries)
        Codes.
    outputs : ndarray of shape (n_centers, n_entries) or None
        Of which outputs the coefficients are; None where each center has all.
    intercept : ndarray of shape (n_outputs,)
    score_step : float
        What scores are multiplied by to have those of the machine.
    bounds : tuple of Bound
    fill : ndarray of shape (n_features,) or None
        The inputs that replace those of missing features.
    skips_missing : bool
        Whether missing features are left out of distances.
    """

    n_features: int
    offset: Floats
    scale: Floats
    is_counts: bool
    counts: Counts | None
    block: int
    front: Front | None
    low: int
    high: int
    asinh: Asinh | None
    steps: Steps | None
    projection: Integers | None
    rescale: Rescale | None
    limit: int
    centers: Integers
    center_shift: int
    kernel: str
    distance_shift: int
    widths: Integers
    log_widths: LogWidths | None
    weights: Weights | None
    fraction: int
    rational: Rational | None
    base: Rescale | None
    base_offset: int
    degree: int
    value_shift: int
    coef: Integers
    outputs: Indices | None
    intercept: Integers
    score_step: float
    bounds: tuple[Bound, ...]
    fill: Integers | None = None
    skips_missing: bool = False

    @property
    def takes_missing(self) -> bool:
        """Whether an input of -32768 is a missing feature."""
        return self.fill is not None or self.skips_missing

    @property
    def least_input(self) -> int:
        """The least input of a feature that is not missing."""
        return MISSING_INPUT + int(self.takes_missing)

    @property
    def n_outputs(self) -> int:
        """Scores of a row."""
        return len(self.intercept)

    def quantized(self, X: Any) -> Integers:
        """Inputs from rows of features, in float32 as the code does it; NaN is the least input."""
        rows, least = np.asarray(X).astype(np.float32), self.least_input
        with np.errstate(over="ignore", invalid="ignore"):
            q = (rows - self.offset) * (np.float32(1) / self.scale)
            q = np.where(q > least, np.minimum(q, np.float32(INT16)), np.float32(least))
            q = np.trunc(q + np.where(q < 0, np.float32(-0.5), np.float32(0.5))).astype(np.int64)
        return np.where(np.isnan(rows), MISSING_INPUT, q)

    def counted(self, counts: Any) -> Integers:
        """Inputs from rows of whole numbers that fit in 16 bits."""
        rows = np.asarray(counts).astype(np.int64)
        if self.counts is None:
            return rows
        inputs = np.maximum(self.counts(rows), self.least_input)
        return (
            np.where(rows == MISSING_INPUT, MISSING_INPUT, inputs) if self.takes_missing else inputs
        )

    def scores(self, inputs: Any) -> Integers:
        """Scores of rows of inputs, of shape (n_samples, n_outputs)."""
        inputs = np.asarray(inputs).astype(np.int64)
        U, present = self.mapped(inputs), None
        if self.skips_missing:
            present = inputs != MISSING_INPUT
            present |= ~present.any(axis=1, keepdims=True)
            U = np.where(inputs != MISSING_INPUT, U, 0)
        scores = np.empty((len(U), self.n_outputs), dtype=np.int64)
        n_rows = max(1, _MANY // max(1, self.centers.size))
        for start in range(0, len(U), n_rows):
            block = slice(start, start + n_rows)
            values = self.kernel_values(U[block], None if present is None else present[block])
            scores[block] = values @ self.dense_coef() + self.intercept
        return scores

    def curved(self, q: Integers) -> Integers:
        """Scaled features, behind an asinh."""
        if self.fill is not None:
            q = np.where(q == MISSING_INPUT, self.fill, q)
        if self.block > 1:
            q = np.clip(_block_sums(q, self.block), -32768, INT16)
        v = q if self.front is None else self.front(q)
        v = np.clip(v, self.low, self.high)
        return v if self.asinh is None else self.asinh(v)

    def mapped(self, q: Integers) -> Integers:
        """What the kernel takes."""
        w = self.curved(q)
        w = w if self.steps is None else self.steps(w)
        if self.projection is not None and self.rescale is not None:
            w = self.rescale(w @ self.projection.T)
        return np.clip(w, -self.limit, self.limit)

    def kernel_values(self, U: Integers, present: Any = None) -> Integers:
        """Kernel values of mapped rows and all centers, over the features that are present."""
        if self.kernel in ("rbf", "laplacian", "rational_quadratic"):
            differences = U[:, None, :] - (self.centers << self.center_shift)
            if present is not None:
                differences *= present[:, None, :]
            if self.kernel == "laplacian":
                distances = np.abs(differences).sum(axis=2)
            else:
                squares = np.square(differences)
                squares = squares if self.weights is None else squares >> self.weights.shifts
                distances = squares.sum(axis=2)
            if present is not None:
                distances = distances * U.shape[1] // present.sum(axis=1)[:, None]
            t = mul16(distances << self.distance_shift, self.widths)
            if self.rational is not None:
                bits, shift, multiplier = self.rational
                t = mul16((log2_int((1 << bits) + t) - (bits << 16)) << shift, multiplier)
            return exp2_neg(t, self.fraction, self.value_shift)
        assert self.base is not None
        b = self.base(U @ self.centers.T) + self.base_offset
        if self.kernel == "sigmoid":
            e = exp2_neg(np.abs(b), self.fraction)
            values = np.sign(b) * (((65535 - e) * INT16) // (65535 + e))
        else:
            b = np.clip(b, -INT16, INT16)
            values = b
            for _ in range(self.degree - 1):
                values = (values * b + 16384) >> 15
        return (values + half(self.value_shift)) >> self.value_shift

    def dense_coef(self) -> Integers:
        """Codes of the coefficients, of shape (n_centers, n_outputs)."""
        if self.outputs is None:
            return self.coef
        dense = np.zeros((len(self.coef), self.n_outputs), dtype=np.int64)
        np.put_along_axis(dense, self.outputs, self.coef, axis=1)
        return dense


def _block_sums(q: Integers, block: int) -> Integers:
    """Sums of blocks of the pixels of square images."""
    side = math.isqrt(q.shape[1]) // block
    pixels = q.reshape(len(q), side, block, side, block)
    return pixels.sum(axis=(2, 4)).reshape(len(q), -1)


# -- Answers ---------------------------------------------------------------------------------------


def integer_codes(scores: Integers, scheme: str, n_classes: int, break_ties: bool) -> Indices:
    """The number of the class of each row, as :class:`kernlet.model.model.Model` decides it."""
    if scheme == "one output":
        is_second = scores[:, 0] > 0 if break_ties else scores[:, 0] >= 0
        return is_second.astype(np.intp)
    if scheme == "one vs rest":
        return scores.argmax(axis=1)
    won = np.zeros((len(scores), n_classes), dtype=np.int64)
    sums = pair_sums(scores, n_classes)
    for pair, (i, j) in enumerate(combinations(range(n_classes), 2)):
        first_wins = scores[:, pair] >= 0 if break_ties else scores[:, pair] > 0
        won[:, i] += first_wins
        won[:, j] += ~first_wins
    if not break_ties:
        return won.argmax(axis=1)
    # of those that win most pairs, the first one with the largest sum
    sums = np.where(won == won.max(axis=1, keepdims=True), sums, sums.min() - 1)
    return sums.argmax(axis=1)


def pair_sums(scores: Integers, n_classes: int) -> Integers:
    """Sums of the scores of the pairs of each class, counted positive in its favour."""
    sums = np.zeros((len(scores), n_classes), dtype=np.int64)
    for pair, (i, j) in enumerate(combinations(range(n_classes), 2)):
        sums[:, i] += scores[:, pair]
        sums[:, j] -= scores[:, pair]
    return sums


@dataclass(frozen=True)
class Probabilities:
    """Probabilities in units of 2^-15 from scores, by a softmax or, of two classes, a sigmoid.

    Parameters
    ----------
    width : int
        What differences of scores are multiplied by, to exponents with ``fraction`` bits.
    fraction : int
    offset : int
        Of the score of two classes.
    """

    width: int
    fraction: int
    offset: int = 0

    @classmethod
    def of(cls, score_step: float, temperature: float, offset: float = 0.0) -> Probabilities:
        """Those of (scores - offset) / temperature."""
        ratio = score_step / temperature * math.log2(math.e)
        fraction = min(max(-math.frexp(ratio)[1], 5), 31)
        width = min(round(ratio * 2.0 ** (16 + fraction)), 65535)
        limit = 2.0**31 - 1
        return cls(width, fraction, round(min(max(offset / score_step, -limit), limit)))

    def q15(self, class_scores: Integers) -> Integers:
        """Probabilities of the classes; of two classes from one score, positive for the second."""
        if class_scores.ndim == 1:
            differences = class_scores - self.offset
            ratio = exp2_neg(mul16(np.abs(differences), self.width), self.fraction)
            less = (ratio << 15) // (65535 + ratio)
            second = np.where(differences > 0, 32768 - less, less)
            return np.stack([32768 - second, second], axis=1)
        top = class_scores.max(axis=1, keepdims=True)
        powers = exp2_neg(mul16(top - class_scores, self.width), self.fraction)
        return (powers << 15) // powers.sum(axis=1, keepdims=True)
