"""What a compact machine stores, in how many bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernlet._typing import Array
from kernlet.devices import to_numpy
from kernlet.quantization import (
    FORMATS,
    MOST_STEP_FEATURES,
    PackedArray,
    QuantizedExpansion,
    as_numbers,
    encode,
    encode_sparse,
    encode_steps,
    scaling_bytes,
    sparse_bytes,
    steps_bytes,
)

#: Formats of centers, coefficients and projection for each value of ``storage``.
STORAGE = {name: (name, name, name) for name in ("float32", "float16", "int8", "int4")}
#: Parameters that are stored as packed tables, in the order of the formats.
PACKED = ("centers", "weights", "projection")
# Formats with fewer levels than int8 are rounded during training: to 127 levels on either side of
# zero, rounding afterwards costs no accuracy.
_LEVELS_ROUNDED_AFTERWARDS = 127
#: Bytes of a shift and a scale of all inputs together.
SHIFT_AND_SCALE_BYTES = 8
_LARGEST_LOG_GAMMA = 80.0  # exp(80) is about the largest number of float32


#: The logarithm of the ratio of two weights of features, unless another one is given.
LOG_WEIGHT_STEP = math.log(2)
#: Widths of centers are stored as whole numbers of this step of their logarithm.
LOG_GAMMA_STEP = 1 / 8
_LARGEST_INTERCEPT = 6e4  # of a float16


@dataclass(frozen=True)
class StoragePlan:
    """Sizes and formats of the tables of a compact machine.

    ``rank`` is that of the projection, None without one; ``formats`` are those of centers,
    coefficients and projection. ``width`` is "shared", "per_center" (a byte each) or "per_feature"
    (trained scales of the features); with ``kernel="diagonal_rbf"`` each feature of each center has
    one of three weights besides, which are not trained by gradients. ``n_entries`` are the
    coefficients that a center keeps, None for all; ``n_steps`` those of the step map. An intercept
    takes 2 bytes, or 8 in regression, where targets may lie far from zero; ``scaling_bytes`` are
    those of shift and scale.
    """

    n_features: int
    n_outputs: int
    n_centers: int
    rank: int | None = None
    formats: tuple[str, str, str] = STORAGE["float32"]
    width: str = "shared"
    intercept_bytes: int = 2
    scaling_bytes: int = SHIFT_AND_SCALE_BYTES
    kernel: str = "rbf"
    n_entries: int | None = None
    n_steps: int = 0
    is_asinh: bool = False
    block: int = 1

    def __post_init__(self) -> None:
        if self.width == "per_feature" and self.is_asinh:
            raise ValueError(
                'width="per_feature" scales the columns, which an asinh behind them does not '
                "allow: give another width."
            )
        if self.n_steps and self.n_inputs > MOST_STEP_FEATURES:
            raise ValueError(
                f"n_steps={self.n_steps}, but steps are stored for up to {MOST_STEP_FEATURES:,} "
                f"features, and there are {self.n_inputs:,}: leave n_steps out."
            )

    @classmethod
    def of(cls, compact: QuantizedExpansion) -> StoragePlan:
        """The plan of a compact machine; widths of features are part of its scales."""
        stored = compact.storage
        has_widths = compact.gamma is not None and len(compact.gamma) > 1
        return cls(
            compact.n_features,
            compact.n_outputs,
            compact.n_centers,
            compact.rank if "projection" in stored else None,
            (stored["centers"], stored["coef"], stored.get("projection", "float32")),
            "per_center" if has_widths else "shared",
            compact.intercept.dtype.itemsize,
            scaling_bytes(compact.shift, compact.scale),
            compact.kernel.name,
            compact.n_entries,
            0 if compact.steps is None else len(compact.steps.features),
            compact.is_asinh,
            compact.block,
        )

    @property
    def n_inputs(self) -> int:
        """Features behind the means of blocks."""
        return self.n_features // self.block**2

    @property
    def nbytes(self) -> int:
        """Bytes of everything stored."""
        centers, coef, projection = (FORMATS[name] for name in self.formats)
        rank = self.n_inputs if self.rank is None else self.rank
        tables = centers.n_bytes(self.n_centers * rank) + self._width_bytes
        if self.keeps_all:
            tables += coef.n_bytes(self.n_centers * self.n_outputs)
        else:
            assert self.n_entries is not None
            tables += sparse_bytes(self.n_centers, self.n_outputs, self.n_entries, coef)
        if self.rank is not None:
            tables += projection.n_bytes(self.rank * self.n_inputs)
        tables += steps_bytes(self.n_steps, self.n_inputs, 4 if self.width == "per_feature" else 2)
        return tables + self.intercept_bytes * self.n_outputs + self._scaling_bytes

    @property
    def _width_bytes(self) -> int:
        more = 4 if self.kernel == "rational_quadratic" else 0
        if self.kernel == "diagonal_rbf":
            rank = self.n_inputs if self.rank is None else self.rank
            more = FORMATS["ternary"].n_bytes(self.n_centers * rank)
        return more + (FORMATS["int8"].n_bytes(self.n_centers) if self.has_widths else 4)

    @property
    def _scaling_bytes(self) -> int:
        if self.width == "per_feature" and self.scaling_bytes == SHIFT_AND_SCALE_BYTES:
            # one shift, and a scale for each feature
            return SHIFT_AND_SCALE_BYTES // 2 + FORMATS["float16"].n_bytes(self.n_inputs)
        return self.scaling_bytes

    @property
    def has_scaled_columns(self) -> bool:
        """Whether each feature has its own shift or scale."""
        return self.width == "per_feature" or self.scaling_bytes > SHIFT_AND_SCALE_BYTES

    @property
    def has_widths(self) -> bool:
        """Whether each center has its own width."""
        return self.width == "per_center"

    @property
    def keeps_all(self) -> bool:
        """Whether a center keeps the coefficients of all outputs."""
        return self.n_entries is None or self.n_entries >= self.n_outputs

    @property
    def levels(self) -> dict[str, int]:
        """The parameters that are rounded during training, with their levels on either side."""
        names = PACKED[: 2 if self.rank is None else 3]
        levels = {name: FORMATS[f].n_levels for name, f in zip(names, self.formats, strict=False)}
        return {name: n for name, n in levels.items() if n and n < _LEVELS_ROUNDED_AFTERWARDS}

    def describe(self) -> str:
        """The plan in one line."""
        centers, coef, projection = self.formats
        parts = [f"{self.n_centers} center{'s' * (self.n_centers != 1)} ({centers})"]
        classes = "1 class" if self.n_entries == 1 else f"{self.n_entries} classes"
        entries = "" if self.keeps_all else f" of {classes} per center"
        parts.append(f"coefficients{entries} ({coef})")
        if self.kernel == "rational_quadratic":
            parts.append("rational quadratic kernel")
        if self.has_widths or self.width == "per_feature":
            parts.append("a width per center" if self.has_widths else "a width per feature")
        if self.kernel == "diagonal_rbf":
            parts.append("weights of the features of each center (ternary)")
        parts.append(f"projection to {self.rank} ({projection})" if self.rank else "no projection")
        if self.block > 1:
            parts.append(f"means of {self.block} x {self.block} pixels")
        if self.n_steps:
            parts.append(f"{self.n_steps} steps")
        if self.is_asinh:
            parts.append("asinh of the columns")
        elif self.scaling_bytes > SHIFT_AND_SCALE_BYTES:
            parts.append("standardised columns")
        return ", ".join(parts)

    def pack(
        self,
        arrays: Mapping[str, Array],
        steps: Mapping[str, float],
        shift: Any,
        scale: Any,
        step_places: tuple[Any, Any] | None = None,
    ) -> QuantizedExpansion:
        """Store the parameters of a network; ``steps`` are the rounding steps it has learned.

        ``step_places`` are the features and thresholds of the step map. The arrays of a plan with
        the kernel "diagonal_rbf" have "log_weights", of the shape of the centers, besides.
        """
        arrays = {name: to_numpy(array) for name, array in arrays.items()}
        projection = None
        if self.rank is not None:
            format = FORMATS[self.formats[2]]
            projection = encode(arrays["projection"], format, steps.get("projection"))
        places, jumps = step_places, arrays.get("jumps")
        if self.width == "per_feature":
            widths, before = np.exp(arrays["log_feature_scales"]), as_numbers(scale)
            scale = _rescaled(scale, widths)
            if places is not None:
                # By the factors as they are stored, so that no row changes its side of a threshold.
                factors = np.broadcast_to(before / scale.decoded(), widths.shape)
                places = (places[0], np.float32(places[1]) * np.float32(factors[places[0]]))
                jumps = jumps * widths[places[0]]
        packed_steps = None
        if places is not None and len(places[0]):
            packed_steps = encode_steps(*places, jumps, self.n_inputs)
        intercept = arrays["intercept"]
        if self.intercept_bytes == 2:
            intercept = np.clip(intercept, -_LARGEST_INTERCEPT, _LARGEST_INTERCEPT)
        return QuantizedExpansion(
            **self._packed_kernel(arrays, steps),
            coef=self._packed_coef(arrays["weights"], steps.get("weights")),
            intercept=intercept.astype(f"float{8 * self.intercept_bytes}"),
            shift=shift,
            scale=scale,
            projection=projection,
            steps=packed_steps,
            is_asinh=self.is_asinh,
            block=self.block,
        )

    def _packed_kernel(self, arrays: Mapping[str, Any], steps: Mapping[str, float]) -> Any:
        """Centers and widths."""
        log_gamma = np.clip(arrays["log_gamma"], -_LARGEST_LOG_GAMMA, _LARGEST_LOG_GAMMA)
        gamma = np.exp(log_gamma)
        if self.has_widths:
            log_gamma = np.broadcast_to(log_gamma, len(arrays["centers"]))
            gamma = encode(log_gamma, FORMATS["int8"], LOG_GAMMA_STEP)
        is_rational = self.kernel == "rational_quadratic"
        log_weights = None
        if self.kernel == "diagonal_rbf":
            step = steps.get("log_weights", LOG_WEIGHT_STEP)
            log_weights = encode(arrays["log_weights"], FORMATS["ternary"], step)
        return {
            "gamma": gamma,
            "centers": encode(arrays["centers"], FORMATS[self.formats[0]], steps.get("centers")),
            "alpha": float(np.exp(arrays["log_alpha"]).ravel()[0]) if is_rational else None,
            "log_weights": log_weights,
        }

    def _packed_coef(self, weights: Any, step: float | None) -> Any:
        format = FORMATS[self.formats[1]]
        if self.keeps_all:
            return encode(weights, format, step)
        assert self.n_entries is not None
        return encode_sparse(weights, self.n_entries, format, step)


def _rescaled(scale: Any, factors: Any) -> PackedArray:
    """Scales that multiply the scaled features by factors, in the format they had, or float16."""
    numbers = np.broadcast_to(as_numbers(scale) / factors, factors.shape)
    format = scale.format if isinstance(scale, PackedArray) else FORMATS["float16"]
    step = None
    if format.has_step:
        # A power of 2 that makes the largest a half of what float16 holds. Numbers down to 2^-29
        # of it then have all their digits, down to 2^-34 five bits; 0 could not be divided by.
        largest = float(numbers.max())
        step = 2.0 ** np.ceil(np.log2(largest) - 15)
        numbers = np.maximum(numbers, 2.0**-34 * largest)
    return encode(numbers, format, step)
