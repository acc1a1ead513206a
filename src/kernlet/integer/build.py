"""How a machine becomes one in integers: scales of every stage, chosen by bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernlet._typing import Floats, Indices
from kernlet.affine import StepMap
from kernlet.integer.arithmetic import INT16, Integers, Rescale
from kernlet.integer.machine import (
    MISSING_INPUT,
    Asinh,
    Bound,
    Counts,
    Front,
    IntegerMachine,
    LogWidths,
    Rational,
    Steps,
    Weights,
)
from kernlet.kernels.base import Kernel

_LOG2_E = math.log2(math.e)
_INT32, _UINT32 = 2**31 - 1, 2**32 - 1
_SUM = 2**31 - 2**25  # of sums that are rescaled: half of what a shift divides by is added then
# An exponent of at least 17 gives the kernel value 0; the rest is for the rounding of widths.
_VANISHED = 17.05
_MOST_BITS = 12  # of fractions of center codes; more would not fit beside four bits of code
# Below this many bits of a code and its fraction, distances of a lossless limit are too coarse (six
# more than those of a four-bit code cost no label in any of six machines), and the limit is taken
# from the rows instead.
_LOSSLESS_BITS = 9
# How far inputs and projected features may exceed those of the rows given, before they are clamped.
_INPUT_ROOM, _FEATURE_ROOM, _BASE_ROOM = 4.0, 1.5, 1.25
# An asinh keeps features of up to 128 deviations, and at least eight bits below one deviation.
_ASINH_BITS = (8, 14)
# Beyond this alpha the kernel is computed as the Gaussian, which differs by 0.27 / alpha; an
# error of 4 in the logarithm gives one of 4e-5 alpha.
_GAUSSIAN_ALPHA = 90.0
_MOST_VALUE_SHIFT = 12
_FEWEST_BITS = 5  # of a fraction, which is an index into the table of powers
_TOO_NARROW = (
    "In integers the kernel of this machine is too narrow for its centers: export it in float."
)
_WIDTH_BITS = 20
_FAR_FROM_ZERO = 32.0
_FEWEST_WHOLE = 100  # rows; that features of fewer are whole numbers may be chance
_MOST_WEIGHT_BITS = 8  # of the ratio of two weights; more would leave distances too few
_WEIGHT_ERROR = 1e-6  # of a power of 2 whose logarithm is a float32 number
_CONSTANT = 1e-12  # rows whose features are all smaller say nothing of their range


@dataclass(frozen=True, eq=False)
class Parts:
    """A machine as codes and steps, centers being codes of step 1.

    f_c(x) = coef_step sum_j coef[j, c] k(u, centers[j]) + intercept[c], with
    u = projection_step projection h(v), or u = unit h(v), and v = means((x - shift) * scale).
    """

    n_features: int
    kernel: Kernel
    centers: Integers
    center_levels: int
    coef: Integers
    outputs: Indices | None
    coef_step: float
    intercept: Floats
    shift: Floats
    scale: Floats
    is_asinh: bool = False
    steps: StepMap | None = None
    projection: Any = None
    projection_step: float = 1.0
    unit: float = 1.0
    block: int = 1
    log_widths: tuple[Any, float] | None = None  # codes and step of the logarithms of gamma
    fill: Floats | None = None  # what replaces missing features
    skips_missing: bool = False  # whether they are left out of distances
    log_weights: tuple[Any, float] | None = None  # the same of the weights of features

    def scaled(self, rows: Floats) -> Floats:
        """Scaled features, before an asinh."""
        if self.fill is not None:
            rows = np.where(np.isnan(rows), self.fill, rows)
        rows = (rows - self.shift) * self.scale
        if self.block > 1:
            side = math.isqrt(rows.shape[1]) // self.block
            shape = (len(rows), side, self.block, side, self.block)
            rows = rows.reshape(shape).mean(axis=(2, 4)).reshape(len(rows), -1)
        return rows

    def curved(self, v: Floats) -> Floats:
        """Scaled features behind the asinh."""
        return np.arcsinh(v) if self.is_asinh else v

    def mapped(self, rows: Floats) -> Floats:
        """What the kernel takes."""
        w = self.curved(self.scaled(rows))
        w = w if self.steps is None else self.steps(w)
        if self.projection is not None:
            return self.projection_step * (w @ self.projection.T)
        return self.unit * w

    @property
    def largest_jumps(self) -> float:
        """What the jumps of a feature add up to at most."""
        if self.steps is None:
            return 0.0
        return float(np.bincount(self.steps.features, np.abs(self.steps.jumps)).max())


def build(parts: Parts, rows: Any, n_sums: int = 1) -> IntegerMachine:
    """A machine in integers.

    Parameters
    ----------
    parts : Parts
    rows : array-like of shape (n_samples, n_features)
        Rows of features that set the ranges of inputs.
    n_sums : int, default=1
        How many scores will be added up; their sum must fit in 32 bits too.

    Raises
    ------
    ValueError
        Where no choice of scales fits in 32 bits, or the kernel has no form in integers.
    """
    rows = _present(np.asarray(rows, dtype=np.float64))
    parts = _in_units_of_the_width(parts)
    kernel = _kernel_of_distances(parts, rows)
    kernel = _kernel_of_products(parts, rows) if kernel is None else kernel
    front = _front(parts, rows, kernel["per_unit"])
    bounds = (*front.pop("bounds"), *kernel.pop("bounds"))
    scores, more = _scores(parts, kernel, n_sums)
    del kernel["per_unit"], kernel["largest_value"], kernel["value_unit"]
    machine = IntegerMachine(
        n_features=parts.n_features,
        block=parts.block,
        centers=parts.centers.astype(np.int64),
        coef=parts.coef.astype(np.int64),
        outputs=parts.outputs,
        bounds=(*bounds, *more),
        **front,
        **kernel,
        **scores,
        skips_missing=parts.skips_missing,
    )
    if parts.fill is None:
        return machine
    # of features in the units of the inputs, which a missing one cannot be
    fill = machine.quantized(parts.fill[None])[0]
    return replace(machine, fill=np.maximum(fill, MISSING_INPUT + 1))


def _present(rows: Floats) -> Floats:
    """Rows with the least number of each column in place of NaN, which has the same range."""
    is_missing = np.isnan(rows)
    if not is_missing.any():
        return rows
    least = np.fmin.reduce(rows, axis=0)
    return np.where(is_missing, np.nan_to_num(least), rows)


def _in_units_of_the_width(parts: Parts) -> Parts:
    """Where all centers are 0, and the unit of their codes means nothing, the one of the width."""
    gamma = float(np.max(getattr(parts.kernel, "gamma", 0.0)))
    if parts.centers.any() or not parts.kernel.is_translation_invariant or not gamma > 0:
        return parts
    step = (1 / (16 * gamma)) ** (1.0 if parts.kernel.name == "laplacian" else 0.5)
    return replace(
        parts,
        kernel=parts.kernel.scaled(step)[0],
        unit=parts.unit / step,
        projection_step=parts.projection_step / step,
    )


# -- Kernels ---------------------------------------------------------------------------------------


def _kernel_of_distances(parts: Parts, rows: Floats) -> dict[str, Any] | None:
    """Constants from mapped features to kernel values; None for a kernel of inner products."""
    name = parts.kernel.name
    if name not in ("rbf", "laplacian", "rational_quadratic", "diagonal_rbf"):
        return None
    gamma = np.atleast_1d(np.asarray(parts.kernel.gamma, dtype=np.float64))  # type: ignore[attr-defined]
    alpha = float(getattr(parts.kernel, "alpha", math.inf))
    is_rational = alpha < _GAUSSIAN_ALPHA
    power = 1 if name == "laplacian" else 2
    weights = _weights(parts.log_weights) if name == "diagonal_rbf" else None
    f, limit, largest = _resolution(parts, rows, gamma, power, weights, vanishes=not is_rational)
    if weights is not None:
        gamma = gamma * 2.0**weights.bits  # that of the largest weight
    factor = gamma * 2.0 ** (-power * f)  # gamma D for distances D in integers
    factor *= 1 / alpha if is_rational else _LOG2_E
    if not factor.max() > 2.0**-60:
        raise ValueError("In integers a gamma of 0, or nearly so, makes every kernel value 1.")
    shift = 32 - int(largest).bit_length()
    scaled = -math.frexp(float(factor.max()))[1]  # factor 2^scaled is from 1/2 to 1
    rational = None
    if is_rational:
        bits = min(scaled + shift, 30)
        # 2^bits + D G / 2^16 must stay below 2^32
        while 2.0**bits * (1 + largest * float(factor.max())) > _UINT32:
            bits -= 1
        if bits < _FEWEST_BITS:
            raise ValueError(_TOO_NARROW)
        shift = max(0, min(shift, bits - scaled))
        widths = factor * 2.0 ** (16 + bits - shift)
        rational, fraction = _rational(bits, alpha)
    else:
        fraction = min(scaled + shift, 31)
        if fraction < _FEWEST_BITS:
            raise ValueError(_TOO_NARROW)
        widths = factor * 2.0 ** (16 + fraction - shift)
    log_widths = None
    G = np.minimum(np.rint(widths), 65535).astype(np.int64)
    if parts.log_widths is not None:
        log_widths = _log_widths(*parts.log_widths, float(widths.max()))
        G = log_widths.decoded()
    bounds = (
        Bound("difference of a feature and a center", limit + (parts.center_levels << f), INT16),
        Bound("distance", largest << shift, _UINT32),
    )
    return {
        "kernel": name if name == "laplacian" or is_rational else "rbf",
        "limit": limit,
        "center_shift": f,
        "distance_shift": shift,
        "widths": G,
        "log_widths": log_widths,
        "weights": weights,
        "fraction": fraction,
        "rational": rational,
        "base": None,
        "base_offset": 0,
        "degree": 1,
        "per_unit": 2.0**f,
        "largest_value": 65535,
        "value_unit": 1 / 65535,
        "bounds": bounds,
    }


def _resolution(
    parts: Parts,
    rows: Floats,
    gamma: Floats,
    power: int,
    weights: Weights | None,
    vanishes: bool,
) -> tuple[int, int, int]:
    """Bits of fraction of mapped features, their limit, and the largest distance.

    The most bits for which distances fit in 32 bits. Beyond a lossless limit every kernel value
    is 0. Where that is too far, and for kernels that do not vanish, the limit is half more than
    the largest mapped feature of the rows.
    """
    sizes = np.abs(parts.centers).astype(np.int64)
    largest_code = int(sizes.max(initial=0))
    seen = _FEATURE_ROOM * max(float(np.abs(parts.mapped(rows)).max()), largest_code)
    limits = [(0, seen)]
    if vanishes and gamma.min() > 0:
        least = float(gamma.min()) * (1.0 if weights is None else 2.0**-weights.bits)
        reach = (_VANISHED / (least * _LOG2_E)) ** (1 / power)
        fewest = max(0, _LOSSLESS_BITS - parts.center_levels.bit_length())
        limits = [(fewest, largest_code + reach), *limits]
    least_bits = 0
    if parts.projection is None and (parts.is_asinh or parts.steps is not None):
        # features must fit in 16 bits before their jumps, which may bring them back
        w = np.abs(parts.curved(parts.scaled(rows))).max() + parts.largest_jumps
        least_bits = math.ceil(math.log2(max(float(w) * parts.unit, 1e-30)))
    for fewest, farthest in limits:
        for f in range(min(_MOST_BITS, 14 - least_bits), fewest - 1, -1):
            limit = math.ceil(farthest * 2.0**f) + 1
            if limit + (parts.center_levels << f) > INT16:
                continue
            reaches = limit + (sizes << f)
            sums = reaches**power >> (0 if weights is None else weights.shifts)
            largest = int(sums.sum(axis=1).max())
            if parts.skips_missing:  # the largest feature may be the only one present
                largest = reaches.shape[1] * int(reaches.max()) ** power
            if largest <= _UINT32:
                return f, limit, largest
    raise ValueError(
        "In integers the distances of this machine do not fit in 32 bits: it has too many features "
        "for the width of its kernel. Train one with a projection, or export it in float."
    )


def _weights(log_weights: tuple[Any, float] | None) -> Weights:
    """Weights of features as shifts, from the codes and the step of their logarithms."""
    codes, step = (None, 0.0) if log_weights is None else log_weights
    bits = round(step / math.log(2))
    is_power = bits and abs(step - bits * math.log(2)) <= _WEIGHT_ERROR * step
    if codes is None or not is_power or bits > _MOST_WEIGHT_BITS:
        raise ValueError(
            "In integers the weights of features must be packed powers of 2, from 2 to "
            f"2^{_MOST_WEIGHT_BITS}: give log_weights a step of log(2), or export the machine in "
            "float."
        )
    return Weights(codes.astype(np.int64), bits)


def _rational(bits: int, alpha: float) -> tuple[Rational, int]:
    """Constants of alpha log2(y), and the bits of fraction of the result."""
    mantissa, exponent = math.frexp(alpha)
    # log2(y) < 32 has 16 bits of fraction: shifted by up to 11 it stays below 2^32
    shift = min(11, max(0, 10 + exponent))
    return Rational(bits, shift, min(round(mantissa * 65536), 65535)), 16 + shift - exponent


def _log_widths(codes: Any, step: float, largest: float) -> LogWidths:
    """The widths from the codes of their logarithms, the largest one being ``largest``."""
    fraction = _WIDTH_BITS
    while 256 * step * _LOG2_E * 2.0**fraction > _INT32:
        fraction -= 1
    factor = round(step * _LOG2_E * 2.0**fraction)
    start = round(max(0.0, math.log2(65535 / largest)) * 2.0**fraction)
    return LogWidths(codes.astype(np.int64), int(codes.max()), start, factor, fraction)


def _kernel_of_products(parts: Parts, rows: Floats) -> dict[str, Any]:
    """The same for kernels of inner products."""
    kernel: Any = parts.kernel
    if kernel.name not in ("linear", "poly", "sigmoid"):
        raise ValueError(f"The kernel {kernel.name!r} has no form in integers: export it in float.")
    gamma, coef0 = float(getattr(kernel, "gamma", 1.0)), float(getattr(kernel, "coef0", 0.0))
    if not gamma > 0:
        raise ValueError("In integers the gamma of a kernel must be positive: export it in float.")
    mapped = parts.mapped(rows)
    largest_feature = float(np.abs(mapped).max())
    farthest = _FEATURE_ROOM * (largest_feature if largest_feature > _CONSTANT else 1.0)
    sums = np.abs(parts.centers).astype(np.int64).sum(axis=1)
    limit = min(INT16, _SUM // max(1, int(sums.max(initial=0))))
    per_unit = limit / farthest
    largest_product = limit * int(sums.max(initial=0))
    largest_base = gamma * largest_product / per_unit + abs(coef0) or 1.0
    seen = np.abs(gamma * (mapped @ parts.centers.T) + coef0).max()
    fraction, degree = 0, 1
    if kernel.name == "sigmoid":
        scale = 2 * _LOG2_E  # tanh is a function of exp(-2 b)
        fraction = min(24, math.floor(math.log2(_SUM / (scale * largest_base))))
        if fraction < 5:
            raise ValueError(
                "In integers the sigmoid of this machine is too steep: export it in float."
            )
        unit, largest, value = scale * 2.0**fraction, _INT32, 1.0 / INT16
    else:
        degree = int(getattr(kernel, "degree", 1))
        # a clamped product is exact for the linear kernel, whose bound is small enough
        top = largest_base if kernel.name == "linear" else min(_BASE_ROOM * seen, largest_base)
        top = max(top, largest_base * INT16 / _SUM)  # before it is clamped, it has 32 bits
        unit, largest = INT16 / (top or 1.0), _INT32
        value = (1 / unit) if degree == 1 else (32768 / unit) ** degree / 32768
    base = Rescale.by(gamma * unit / per_unit)
    bounds = (
        Bound("inner product", largest_product, _INT32),
        Bound("argument of the kernel", math.ceil(largest_base * unit) + 1, largest),
    )
    return {
        "kernel": kernel.name,
        "limit": limit,
        "center_shift": 0,
        "distance_shift": 0,
        "widths": np.zeros(1, dtype=np.int64),
        "log_widths": None,
        "weights": None,
        "fraction": fraction,
        "rational": None,
        "base": base,
        "base_offset": round(coef0 * unit),
        "degree": degree,
        "per_unit": per_unit,
        "largest_value": INT16,
        "value_unit": value,
        "bounds": bounds,
    }


# -- Inputs ----------------------------------------------------------------------------------------


def _front(parts: Parts, rows: Floats, per_unit: float) -> dict[str, Any]:
    """Constants from inputs to mapped features, of which ``per_unit`` are a unit of codes."""
    widest = float(np.abs(parts.scaled(rows)).max())
    widest = widest if widest > _CONSTANT else 1.0
    projection, asinh, rescale, room = parts.projection, None, None, INT16
    if projection is None:
        per = per_unit * parts.unit  # integers in a unit of h(v)
    else:
        norm = max(1, int(np.abs(projection).astype(np.int64).sum(axis=1).max()))
        room = min(INT16, _SUM // norm)  # larger features could overflow their sum
        farthest = float(parts.curved(np.asarray(_INPUT_ROOM * widest)))
        per = room / (farthest + parts.largest_jumps)
        rescale = Rescale.by(parts.projection_step * per_unit / per)
    per_input = per  # integers in a unit of v
    if parts.is_asinh:
        bits = min(max(math.floor(math.log2(INT16 / widest)), _ASINH_BITS[0]), _ASINH_BITS[1])
        asinh = Asinh(bits, Rescale.by(math.log(2) / 65536 * per))
        per_input = 2.0**bits
    steps, jumps = None, 0
    if parts.steps is not None:
        order = np.argsort(parts.steps.features, kind="stable")
        thresholds = np.clip(np.rint(parts.steps.thresholds[order] * per), -32768, INT16)
        steps = Steps(
            parts.steps.features[order].astype(np.intp),
            thresholds.astype(np.int64),
            np.rint(parts.steps.jumps[order] * per).astype(np.int64),
        )
        jumps = int(np.bincount(steps.features, np.abs(steps.jumps)).max())
    if rescale is not None:  # the product may be shifted to the left
        room = min(room, math.floor(_SUM / (norm * max(1.0, rescale.ratio))))
    high = _largest_feature(asinh, room - jumps)
    low = -high if steps or asinh or projection is not None else -32768
    largest = (high if asinh is None else int(asinh(np.arange(high + 1)).max())) + jumps
    inputs = _inputs(parts, rows, per_input)
    bounds = [*inputs.pop("bounds"), Bound("feature behind its map", max(largest, -low), 32768)]
    if projection is not None:
        bounds.append(Bound("projected feature", norm * largest, _INT32))
        projection = projection.astype(np.int64)
    return {
        **inputs,
        "low": low,
        "high": high,
        "asinh": asinh,
        "steps": steps,
        "projection": projection,
        "rescale": rescale,
        "bounds": tuple(bounds),
    }


def _largest_feature(asinh: Asinh | None, room: int) -> int:
    """The largest input of a map whose result is at most ``room``."""
    if room < 1:
        raise ValueError("In integers the steps of this machine leave no room for its features.")
    if asinh is None:
        return room
    too_large = np.flatnonzero(asinh(np.arange(INT16 + 1)) > room)
    return int(too_large[0]) - 1 if len(too_large) else INT16


def _inputs(parts: Parts, rows: Floats, per: float) -> dict[str, Any]:
    """Units of the inputs, of which ``per`` are a unit of a scaled feature."""
    area = parts.block**2
    are_whole = bool((rows == np.rint(rows)).all()) and float(np.abs(rows).max()) <= INT16
    are_many = len(rows) >= _FEWEST_WHOLE
    has_one_scale = len(parts.shift) == len(parts.scale) == 1
    are_small = float(np.abs(rows).max()) * area <= INT16
    # with a mean of many deviations, the 16 bits of a multiplier are too few
    is_near_zero = float(np.abs(parts.shift * parts.scale).max()) < _FAR_FROM_ZERO
    if are_whole and are_many and has_one_scale and are_small and is_near_zero:
        factor = per * float(parts.scale[0])
        front = Front(*_fixed_point(factor / area, factor * float(parts.shift[0])))
        return {
            "offset": np.zeros(1, np.float32),
            "scale": np.ones(1, np.float32),
            "is_counts": True,
            "counts": None,
            "front": front,
            "bounds": (_count_bound(*front),),
        }
    scale: Any = area / (parts.scale.astype(np.float64) * per)
    counts = _counts(parts, scale) if are_whole else None
    return {
        "offset": parts.shift.astype(np.float32),
        "scale": scale.astype(np.float32),
        "is_counts": False,
        "counts": counts,
        "front": None,
        "bounds": () if counts is None else (_count_bound(*counts[1:]),),
    }


def _counts(parts: Parts, scale: Any) -> Counts | None:
    """How whole numbers become inputs; None where 16 bits do not hold their means or scales."""
    shift, scale = (np.broadcast_to(values, parts.n_features) for values in (parts.shift, scale))
    base = np.rint(shift)
    if float(np.abs(base).max()) > INT16:
        return None
    try:
        pairs = zip(1 / scale, (shift - base) / scale, strict=True)
        numbers = np.array([_fixed_point(*pair) for pair in pairs], dtype=np.int64)
    except ValueError:
        return None
    return Counts(base.astype(np.int64), *numbers.T)


def _count_bound(multiplier: Any, offset: Any, shift: Any) -> Bound:
    largest = 32768 * np.abs(multiplier) + np.abs(offset) + ((1 << np.asarray(shift)) >> 1)
    return Bound("scaled count", int(np.max(largest)), _INT32)


def _fixed_point(factor: float, offset: float) -> tuple[int, int, int]:
    """Multiplier, offset and shift of x -> factor x - offset, for x of 16 bits."""
    largest = max(abs(factor) / INT16, abs(offset) / 2**29, 1e-30)
    shift = min(30, math.floor(-math.log2(largest)))
    if shift < 0:
        raise ValueError(
            "In integers the features of this machine are too far from zero for their spread, or "
            "too finely scaled: shift or scale them."
        )
    return round(factor * 2.0**shift), round(offset * 2.0**shift), shift


# -- Scores ----------------------------------------------------------------------------------------


def _scores(parts: Parts, kernel: dict[str, Any], n_sums: int) -> tuple[dict[str, Any], Any]:
    """Intercepts, the step of the scores and the bits of kernel values, for sums of 32 bits."""
    coef = np.abs(parts.coef).astype(np.int64)
    n_outputs = len(parts.intercept)
    if parts.outputs is None:
        sums = coef.sum(axis=0)
    else:
        sums = np.bincount(parts.outputs.ravel(), coef.ravel(), n_outputs)
    for shift in range(_MOST_VALUE_SHIFT + 1):
        step = parts.coef_step * kernel["value_unit"] * 2.0**shift
        intercept = np.rint(parts.intercept.astype(np.float64) / step)
        value = (kernel["largest_value"] + (1 << shift >> 1)) >> shift
        largest = float((sums * value + np.abs(intercept)).max())
        if largest * n_sums <= _INT32:
            bound = Bound(
                "score" if n_sums == 1 else "sum of scores", round(largest * n_sums), _INT32
            )
            intercepts = intercept.astype(np.int64)
            fields = {"value_shift": shift, "intercept": intercepts, "score_step": step}
            return fields, (bound,)
    raise ValueError("In integers the scores of this machine do not fit in 32 bits.")
