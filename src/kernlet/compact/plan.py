"""What a compact machine stores: sizes, formats and bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from kernlet._typing import Array, Floats
from kernlet.devices import to_numpy
from kernlet.quantization import FORMATS, QuantizedExpansion, encode

#: Formats of centers, coefficients and projection for each value of ``storage``.
STORAGE = {
    "float32": ("float32", "float32", "float32"),
    "float16": ("float16", "float16", "float16"),
    "int8": ("int8", "int8", "int8"),
    "int4": ("int4", "int4", "int4"),
}
#: Parameters of a network that are stored as packed tables, in the order of the formats.
PACKED = ("centers", "weights", "projection")

_RANKS = (8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128)
_MAX_RANKS_TRIED = 5
# With few features a square matrix, which is a learned metric, costs little and often pays.
_MAX_METRIC_FEATURES = 32
# Share of the budget that a projection may take. With less its rank is too low to carry the
# classes; with more too few bytes are left for centers.
_PROJECTION_SHARE = (0.03, 0.65)
# Formats with fewer levels than int8 are rounded during training: to 127 levels on either side of
# zero, rounding afterwards costs no accuracy.
_LEVELS_ROUNDED_AFTERWARDS = 127
_SHIFT_AND_SCALE_BYTES = 8
# exp(80) is about the largest number of float32.
_LARGEST_LOG_GAMMA = 80.0


@dataclass(frozen=True)
class StoragePlan:
    """Sizes and formats of the tables of a compact machine.

    ``rank`` is that of the projection, None without one; ``formats`` are those of centers,
    coefficients and projection. An intercept takes 4 bytes, or 8 in regression, where targets may
    lie far from zero.
    """

    n_features: int
    n_outputs: int
    n_centers: int
    rank: int | None = None
    formats: tuple[str, str, str] = STORAGE["float32"]
    width: str = "shared"
    intercept_bytes: int = 4

    @classmethod
    def of(cls, expansion: QuantizedExpansion, intercept_bytes: int = 4) -> StoragePlan:
        """The plan that an expansion was stored by."""
        formats = expansion.storage
        return cls(
            expansion.n_features,
            expansion.n_outputs,
            expansion.n_centers,
            expansion.rank if "projection" in formats else None,
            (formats["centers"], formats["coef"], formats.get("projection", "float32")),
            "per_center" if len(expansion.gamma) > 1 else "shared",
            intercept_bytes,
        )

    @property
    def nbytes(self) -> int:
        """Bytes of everything stored.

        >>> StoragePlan(n_features=256, n_outputs=10, n_centers=100).nbytes
        106452
        """
        centers, coef, projection = (FORMATS[name] for name in self.formats)
        rank = self.n_features if self.rank is None else self.rank
        tables = centers.n_bytes(self.n_centers * rank)
        tables += coef.n_bytes(self.n_centers * self.n_outputs)
        if self.rank is not None:
            tables += projection.n_bytes(self.rank * self.n_features)
        widths = 4 * self.n_centers if self.width == "per_center" else 4
        return tables + widths + self.intercept_bytes * self.n_outputs + _SHIFT_AND_SCALE_BYTES

    @property
    def levels(self) -> dict[str, int]:
        """The parameters that are rounded during training, with their levels on either side."""
        names = PACKED[: 2 if self.rank is None else 3]
        levels = {name: FORMATS[f].n_levels for name, f in zip(names, self.formats, strict=False)}
        return {
            name: n
            for name, n in levels.items()
            if n is not None and n < _LEVELS_ROUNDED_AFTERWARDS
        }

    def describe(self) -> str:
        """The plan in one line."""
        centers, coef, projection = self.formats
        input_map = (
            "no projection" if self.rank is None else f"projection to {self.rank} ({projection})"
        )
        return f"{self.n_centers} centers ({centers}), coefficients ({coef}), {input_map}"

    def pack(
        self, arrays: Mapping[str, Array], steps: Mapping[str, float], shift: float, scale: float
    ) -> QuantizedExpansion:
        """Store the parameters of a network; ``steps`` are those that training has learned."""
        arrays = {name: to_numpy(array) for name, array in arrays.items()}
        tables = {
            name: encode(arrays[name], FORMATS[format], steps.get(name))
            for name, format in zip(PACKED, self.formats, strict=True)
            if name in arrays
        }
        log_gamma = np.clip(arrays["log_gamma"], -_LARGEST_LOG_GAMMA, _LARGEST_LOG_GAMMA)
        gamma: Floats = np.exp(log_gamma)
        return QuantizedExpansion(
            gamma,
            tables["centers"],
            tables["weights"],
            arrays["intercept"].astype(f"float{8 * self.intercept_bytes}"),
            shift,
            scale,
            tables.get("projection"),
        )


def largest_within(plan: StoragePlan, max_bytes: int, max_centers: int) -> StoragePlan | None:
    """The plan with as many centers as fit in the bytes; None where not even one fits."""
    fits, too_many = 0, max_centers + 1
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if replace(plan, n_centers=middle).nbytes <= max_bytes:
            fits = middle
        else:
            too_many = middle
    return replace(plan, n_centers=fits) if fits else None


def plans_within(
    plan: StoragePlan, max_bytes: int, max_centers: int, storage: str, projection: object
) -> tuple[list[StoragePlan], list[StoragePlan]]:
    """Plans that fill a number of bytes: one per rank worth trying, and their other formats."""
    by_rank: list[StoragePlan] = []
    other_formats: list[StoragePlan] = []
    for rank in _ranks(plan.n_features, max_bytes, projection):
        for number, formats in enumerate(_formats(storage, rank, plan.n_features)):
            filled = replace(plan, rank=rank, formats=formats)
            largest = largest_within(filled, max_bytes, max_centers)
            if largest is not None:
                (other_formats if number else by_rank).append(largest)
    return by_rank, other_formats


def _ranks(n_features: int, max_bytes: int, projection: object) -> list[int | None]:
    """No projection, and a few ranks whose matrix takes a reasonable share of the bytes."""
    if projection != "auto":
        return [projection]  # type: ignore[list-item]
    format = FORMATS[_projection_formats(n_features)[0]]
    low, high = (share * max_bytes for share in _PROJECTION_SHARE)
    ranks = [r for r in _RANKS if r < n_features and format.n_bytes(r * n_features) <= high]
    if n_features <= _MAX_METRIC_FEATURES and format.n_bytes(n_features**2) <= high:
        ranks.append(n_features)
    ranks = [r for r in ranks if format.n_bytes(r * n_features) >= low] or ranks
    stride = max(1, -(-len(ranks) // _MAX_RANKS_TRIED))
    return [None, *ranks[-1::-stride][::-1]]


def _projection_formats(n_features: int) -> tuple[str, str]:
    """The usual and the other format: ternary for a large matrix, eight bits for a small one."""
    return ("int8", "int4") if n_features <= _MAX_METRIC_FEATURES else ("ternary", "int4")


def _formats(storage: str, rank: int | None, n_features: int) -> list[tuple[str, str, str]]:
    """Formats to try, the usual ones first."""
    if storage != "auto":
        return [STORAGE[storage]]
    if rank is None:
        return [("int4", "int4", "int4"), ("int8", "int8", "int8"), ("int6", "int4", "int4")]
    usual, other = _projection_formats(n_features)
    return [("int4", "int4", usual), ("int6", "int4", usual), ("int4", "int4", other)]
