"""Rows, targets and weights as users have them, and as they should not have them.

Everything is drawn by ``source.integers(low, high)`` alone, so that a generator of NumPy can be the
source in a campaign, and hypothesis, which can shrink the numbers it drew, in a test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from scipy import sparse

T = TypeVar("T")

_SIZES = (20, 30, 40, 60, 12, 8, 5, 3, 2, 1, 0)
_WIDTHS = (2, 3, 1, 5, 12, 30, 0)
_EXPONENTS = (-300, -200, -160, -100, -30, -15, -8, -3, 3, 8, 15, 30, 100, 152, 160, 200, 300)


class Source(Protocol):
    """Where choices come from."""

    def integers(self, low: int, high: int) -> int:
        """A number from ``low`` to ``high`` - 1."""
        ...


def pick(source: Source, options: Sequence[T]) -> T:
    """One of the options; sources that shrink go to the first."""
    return options[int(source.integers(0, len(options)))]


def happens(source: Source, percent: int) -> bool:
    """True for this percentage of the draws; sources that shrink go to false."""
    return int(source.integers(0, 100)) >= 100 - percent


def generator(source: Source) -> np.random.Generator:
    """A generator for the numbers in arrays, which need not shrink."""
    return np.random.default_rng(int(source.integers(0, 1000)))


# -- Rows ------------------------------------------------------------------------------------


def draw_rows(source: Source, folder: Path) -> Any:
    """Rows in some container; mostly a valid one."""
    n_rows = pick(source, _SIZES[:5] if happens(source, 90) else _SIZES)
    width = pick(source, _WIDTHS[:4] if happens(source, 90) else _WIDTHS)
    values = _numbers(source, n_rows, width)
    if happens(source, 20):
        dtype = pick(source, _DTYPES)
        with np.errstate(all="ignore"):
            values = values.astype(dtype)
    if happens(source, 35):
        return pick(source, _CONTAINERS)(values, source, folder)
    return values


_DTYPES = (
    *("float32", "float16", "longdouble", "int64", "int8", "uint8", "uint64", "bool", "object"),
    *("complex128", "U20", ">f8", ">i4", "datetime64[s]"),
)


def _numbers(source: Source, n_rows: int, width: int) -> np.ndarray:
    """Two blobs, and what happens to them."""
    rng = generator(source)
    values = rng.normal(size=(n_rows, width)) + 2.0 * (np.arange(n_rows) % 2)[:, None]
    if happens(source, 35) and values.size:
        pick(source, _CHANGES)(values, source, rng)
    return values


def _scale(values: np.ndarray, source: Source, rng: Any) -> None:
    values *= 10.0 ** pick(source, _EXPONENTS)


def _scale_column(values: np.ndarray, source: Source, rng: Any) -> None:
    values[:, 0] *= 10.0 ** pick(source, _EXPONENTS)


def _offset(values: np.ndarray, source: Source, rng: Any) -> None:
    values += 10.0 ** pick(source, _EXPONENTS[8:])


def _offset_column(values: np.ndarray, source: Source, rng: Any) -> None:
    values[:, -1] += 10.0 ** pick(source, _EXPONENTS[8:])


def _constant(values: np.ndarray, source: Source, rng: Any) -> None:
    values[:] = pick(source, (0.0, 1.0, -3e7, 1e-300, 1e300))


def _constant_column(values: np.ndarray, source: Source, rng: Any) -> None:
    values[:, 0] = pick(source, (0.0, 1.0, 1e15, 1e-300, 1e300))


def _duplicates(values: np.ndarray, source: Source, rng: Any) -> None:
    values[:] = values[rng.integers(0, min(3, len(values)), len(values))]


def _collinear(values: np.ndarray, source: Source, rng: Any) -> None:
    values[:] = values[:, :1] * np.arange(1, values.shape[1] + 1)


def _whole(values: np.ndarray, source: Source, rng: Any) -> None:
    values[:] = np.round(values)


def _outlier(values: np.ndarray, source: Source, rng: Any) -> None:
    values[0, 0] = 10.0 ** pick(source, _EXPONENTS[8:])


def _missing(values: np.ndarray, source: Source, rng: Any) -> None:
    values[0, -1] = pick(source, (np.nan, np.inf, -np.inf))


def _subnormal(values: np.ndarray, source: Source, rng: Any) -> None:
    values[:] = rng.integers(0, 5, values.shape) * 5e-324


_CHANGES: tuple[Callable[[np.ndarray, Source, Any], None], ...] = (
    *(_scale, _offset, _scale_column, _offset_column, _constant, _constant_column, _duplicates),
    *(_collinear, _whole, _outlier, _missing, _subnormal),
)

# Containers ---------------------------------------------------------------------------------


def _frame(values: np.ndarray, source: Source, folder: Path) -> Any:
    names: list[Any] = [f"f{number}" for number in range(values.shape[1])]
    kind = pick(source, ("plain", "nullable", "category", "equal names", "numbers", "holes"))
    # pandas has no other byte orders, and no categories of float16.
    is_rare = values.dtype.kind == "f" and values.dtype.itemsize not in (4, 8)
    values = values.astype("f4" if is_rare else values.dtype.newbyteorder("="))
    frame = pd.DataFrame(values, columns=names)
    if kind == "nullable":
        return frame.convert_dtypes()
    if kind == "category":
        return frame.astype("category")
    if kind == "equal names":
        frame.columns = ["same"] * values.shape[1]
    if kind == "numbers":
        frame.columns = range(values.shape[1])
    if kind == "holes" and values.size:
        frame = frame.convert_dtypes()
        frame.iloc[0, 0] = pd.NA
    return frame


def _sparse(values: np.ndarray, source: Source, folder: Path) -> Any:
    if values.dtype.kind not in "fiub" or values.dtype == np.float16:
        values = np.zeros(values.shape)
    values = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("=")))
    rows = sparse.coo_array(values)
    kind = pick(source, ("csr", "csc", "coo", "lil", "dok", "bsr", "matrix", "duplicates", "zeros"))
    if kind == "matrix":
        return sparse.csr_matrix(rows)
    if kind == "duplicates":
        index = np.concatenate([rows.coords[0]] * 2), np.concatenate([rows.coords[1]] * 2)
        return sparse.coo_array((np.concatenate([rows.data] * 2), index), rows.shape)
    if kind == "zeros":
        rows = sparse.csr_array(rows)
        rows.data[::2] = 0
        return rows
    return rows.asformat(kind)


def _memmap(values: np.ndarray, source: Source, folder: Path) -> Any:
    if not values.size or values.dtype == object:
        return values
    mapped = np.memmap(folder / "rows", values.dtype, "w+", shape=values.shape)
    mapped[:] = values
    return mapped


def _read_only(values: np.ndarray, source: Source, folder: Path) -> Any:
    values.flags.writeable = False
    return values


def _arrow(values: np.ndarray, source: Source, folder: Path) -> Any:
    if values.dtype.kind not in "fiub" or values.dtype == np.longdouble:
        values = np.zeros(values.shape)
    values = values.astype(values.dtype.newbyteorder("="))
    columns = {f"f{number}": column.copy() for number, column in enumerate(values.T)}
    return pick(source, (pl.DataFrame, pa.table))(columns)


def _wrong(values: np.ndarray, source: Source, folder: Path) -> Any:
    wrong = (None, "rows", 3.0, values[:, :, None], values.ravel(), {}, [], [[], []], object())
    return pick(source, wrong)


_CONTAINERS: tuple[Callable[[np.ndarray, Source, Path], Any], ...] = (
    *(_frame, _sparse, _memmap, _read_only, _arrow, _frame, _sparse, _wrong),
    lambda values, source, folder: np.asfortranarray(values),
    lambda values, source, folder: np.repeat(values, 2, axis=0)[::2],
    lambda values, source, folder: values[::-1, ::-1],
    lambda values, source, folder: values.tolist(),
    lambda values, source, folder: tuple(map(tuple, values)),
    lambda values, source, folder: np.ma.masked_array(values, mask=values == 0),
)


# -- Targets and weights ---------------------------------------------------------------------


def draw_classes(source: Source, n_rows: int) -> Any:
    """Labels for rows; mostly 0 and 1 as the blobs are."""
    codes = np.arange(n_rows) % 2
    if happens(source, 70):
        return codes
    return pick(source, _CLASSES)(codes, source)


def _named(names: Sequence[Any], dtype: Any = None) -> Callable[[np.ndarray, Source], Any]:
    """Labels out of a list, each as often as the others."""

    def labels(codes: np.ndarray, source: Source) -> Any:
        values = np.empty(len(names), dtype=object)
        values[:] = names
        of_rows = values[np.arange(len(codes)) % len(names)]
        return of_rows if dtype is None else of_rows.astype(dtype)

    return labels


def _with_one(value: Any) -> Callable[[np.ndarray, Source], Any]:
    """Labels of which one is something else."""

    def labels(codes: np.ndarray, source: Source) -> Any:
        of_rows = codes.astype(float if isinstance(value, float) else object)
        of_rows[:1] = value
        return of_rows if happens(source, 50) else of_rows.tolist()

    return labels


_DAYS = np.array(["2020-01-01", "2020-01-02"], "datetime64[D]")
_CLASSES: tuple[Callable[[np.ndarray, Source], Any], ...] = (
    _named([0, 1, 2], int),
    _named(["no", "yes"], str),
    _named(["no", "yes", "maybe"]),
    _named([False, True], bool),
    _named([0.0, 1.0], float),
    _named([-1.0, 1.0], "float32"),
    _named([0.5, 1.5], float),
    _named(["a\0", "a"]),
    _named(["a\0b", "a\0c"], str),
    _named([2**62, 2**62 + 1], "int64"),
    _named([2**63, 2**63 + 1], "uint64"),
    _named([10**30, 10**30 + 1]),
    _named([-128, 127], "int8"),
    _named([7], int),
    _named(range(50), int),
    _named([b"x", b"y"]),
    _named([(1, 2), (3,)]),
    _with_one(None),
    _with_one(float("nan")),
    _with_one(float("inf")),
    _with_one("x"),
    _with_one(pd.NA),
    lambda codes, source: np.arange(len(codes)),
    lambda codes, source: (np.arange(len(codes)) < 1).astype(int),
    lambda codes, source: np.arange(len(codes)) + 0.1,
    lambda codes, source: codes[:, None],
    lambda codes, source: np.stack([codes, codes], axis=1),
    lambda codes, source: codes[1:],
    lambda codes, source: np.append(codes, 1),
    lambda codes, source: _DAYS[codes],
    lambda codes, source: list(codes.astype(str)),
    lambda codes, source: pd.Series(codes, dtype="category"),
    lambda codes, source: pd.Series(codes, dtype="Int64"),
    lambda codes, source: pd.Series(codes, dtype="string"),
    lambda codes, source: pl.Series(codes.astype(str)),
    lambda codes, source: pa.array(codes),
    lambda codes, source: np.ma.masked_array(codes, mask=codes == 0),
    lambda codes, source: None,
    lambda codes, source: "target",
    lambda codes, source: 1,
)


def draw_numbers(source: Source, n_rows: int) -> Any:
    """Targets of a regression."""
    rng = generator(source)
    targets = np.sin(np.arange(n_rows)) + 0.1 * rng.normal(size=n_rows)
    if happens(source, 55):
        return targets
    if happens(source, 30):
        return draw_classes(source, n_rows)
    return pick(source, _NUMBERS)(targets, source)


def _with_target(value: Any) -> Callable[[np.ndarray, Source], Any]:
    def numbers(targets: np.ndarray, source: Source) -> Any:
        of_rows = targets.astype(float if isinstance(value, float) else object)
        of_rows[:1] = value
        return of_rows

    return numbers


_NUMBERS: tuple[Callable[[np.ndarray, Source], Any], ...] = (
    lambda targets, source: targets * 10.0 ** pick(source, _EXPONENTS),
    lambda targets, source: targets + 10.0 ** pick(source, _EXPONENTS[8:]),
    lambda targets, source: np.full(len(targets), pick(source, (0.0, 1.0, -1e20, 1e300, 1e-300))),
    lambda targets, source: np.stack([targets, -targets], axis=1),
    lambda targets, source: targets[:, None],
    lambda targets, source: targets.astype(pick(source, _DTYPES)),
    lambda targets, source: targets.tolist(),
    lambda targets, source: pd.Series(targets).convert_dtypes(),
    _with_target(None),
    _with_target(float("nan")),
    _with_target(float("inf")),
    _with_target(1e300),
    _with_target("x"),
)


def draw_weights(source: Source, n_rows: int) -> Any:
    """Weights of rows; mostly none."""
    if happens(source, 75):
        return None
    weights = generator(source).uniform(size=n_rows)
    return pick(source, _WEIGHTS)(weights, source)


def _with_weight(value: float) -> Callable[[np.ndarray, Source], Any]:
    def of_rows(weights: np.ndarray, source: Source) -> Any:
        weights[:1] = value
        return weights

    return of_rows


_WEIGHTS: tuple[Callable[[np.ndarray, Source], Any], ...] = (
    lambda weights, source: np.ones(len(weights)),
    lambda weights, source: weights,
    lambda weights, source: np.round(weights),
    lambda weights, source: (np.arange(len(weights)) % 2).astype(float),
    lambda weights, source: np.zeros(len(weights)),
    lambda weights, source: weights * 10.0 ** pick(source, _EXPONENTS),
    lambda weights, source: 10.0 ** (20 * weights - 10),
    lambda weights, source: np.full(len(weights), 5e-324),
    lambda weights, source: np.full(len(weights), 1.7e308),
    lambda weights, source: weights > 0.5,
    lambda weights, source: np.round(10 * weights).astype(int),
    lambda weights, source: weights.astype("float16"),
    lambda weights, source: weights.tolist(),
    lambda weights, source: weights.astype(object),
    lambda weights, source: pd.Series(weights),
    lambda weights, source: weights.astype(complex),
    lambda weights, source: weights.astype(str),
    lambda weights, source: np.full(len(weights), "heavy", dtype=object),
    lambda weights, source: np.full(len(weights), None),
    lambda weights, source: weights[1:],
    lambda weights, source: weights[:, None],
    lambda weights, source: pick(
        source, (2.0, 3, np.float32(0.5), 0.0, -1.0, float("nan"), "heavy")
    ),
    _with_weight(float("nan")),
    _with_weight(float("inf")),
    _with_weight(-1.0),
    _with_weight(-0.0),
    _with_weight(1e300),
)
