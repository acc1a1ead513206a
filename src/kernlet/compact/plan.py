"""What a compact machine stores, in how many bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernlet._typing import Array
from kernlet.devices import to_numpy
from kernlet.quantization import FORMATS, QuantizedExpansion, encode

#: Formats of centers, coefficients and projection for each value of ``storage``.
STORAGE = {name: (name, name, name) for name in ("float32", "float16", "int8", "int4")}
#: Parameters that are stored as packed tables, in the order of the formats.
PACKED = ("centers", "weights", "projection")
# Formats with fewer levels than int8 are rounded during training: to 127 levels on either side of
# zero, rounding afterwards costs no accuracy.
_LEVELS_ROUNDED_AFTERWARDS = 127
_SHIFT_AND_SCALE_BYTES = 8  # of all inputs together
_LARGEST_LOG_GAMMA = 80.0  # exp(80) is about the largest number of float32


@dataclass(frozen=True)
class StoragePlan:
    """Sizes and formats of the tables of a compact machine.

    ``rank`` is that of the projection, None without one; ``formats`` are those of centers,
    coefficients and projection. An intercept takes 4 bytes, or 8 in regression, where targets may
    lie far from zero; ``scaling_bytes`` are those of shift and scale.
    """

    n_features: int
    n_outputs: int
    n_centers: int
    rank: int | None = None
    formats: tuple[str, str, str] = STORAGE["float32"]
    width: str = "shared"
    intercept_bytes: int = 4
    scaling_bytes: int = _SHIFT_AND_SCALE_BYTES

    @property
    def nbytes(self) -> int:
        """Bytes of everything stored."""
        centers, coef, projection = (FORMATS[name] for name in self.formats)
        rank = self.n_features if self.rank is None else self.rank
        tables = centers.n_bytes(self.n_centers * rank)
        tables += coef.n_bytes(self.n_centers * self.n_outputs)
        if self.rank is not None:
            tables += projection.n_bytes(self.rank * self.n_features)
        widths = 4 * self.n_centers if self.width == "per_center" else 4
        return tables + widths + self.intercept_bytes * self.n_outputs + self.scaling_bytes

    @property
    def levels(self) -> dict[str, int]:
        """The parameters that are rounded during training, with their levels on either side."""
        names = PACKED[: 2 if self.rank is None else 3]
        levels = {name: FORMATS[f].n_levels for name, f in zip(names, self.formats, strict=False)}
        return {name: n for name, n in levels.items() if n and n < _LEVELS_ROUNDED_AFTERWARDS}

    def describe(self) -> str:
        """The plan in one line."""
        centers, coef, projection = self.formats
        input_map = f"projection to {self.rank} ({projection})" if self.rank else "no projection"
        if self.scaling_bytes > _SHIFT_AND_SCALE_BYTES:
            input_map += ", standardised columns"
        return f"{self.n_centers} centers ({centers}), coefficients ({coef}), {input_map}"

    def pack(
        self, arrays: Mapping[str, Array], steps: Mapping[str, float], shift: Any, scale: Any
    ) -> QuantizedExpansion:
        """Store the parameters of a network; ``steps`` are the rounding steps it has learned."""
        arrays = {name: to_numpy(array) for name, array in arrays.items()}
        tables = {
            name: encode(arrays[name], FORMATS[format], steps.get(name))
            for name, format in zip(PACKED, self.formats, strict=True)
            if name in arrays
        }
        log_gamma = np.clip(arrays["log_gamma"], -_LARGEST_LOG_GAMMA, _LARGEST_LOG_GAMMA)
        return QuantizedExpansion(
            np.exp(log_gamma),
            tables["centers"],
            tables["weights"],
            arrays["intercept"].astype(f"float{8 * self.intercept_bytes}"),
            shift,
            scale,
            tables.get("projection"),
        )
