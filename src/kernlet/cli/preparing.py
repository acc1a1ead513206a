"""Rows to train on and rows to test with, of a table in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from kernlet.affine import AffineMap
from kernlet.cli.progress import say
from kernlet.cli.reading import Table, gaps
from kernlet.cli.scaling import choose_scaler
from kernlet.export.encoding import CategoryColumn, ColumnEncoding, as_numbers

_MANY_NUMBERS = 50  # different numbers from which a target is no class


@dataclass(frozen=True, eq=False)
class Prepared:
    """Rows to train on and to test with."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any
    encoding: ColumnEncoding | None
    scaler: AffineMap | None
    summary: dict[str, Any]
    classes: Any = None  # where y holds their numbers


def prepare(
    table: Table, target: str | None, regression: bool, scale: str, test: float, seed: int
) -> Prepared:
    """Labels, encoding, scaling and the rows kept aside."""
    rows, y = table.split_target(target)
    summary = _summary(rows, y, target, regression)
    if rows.columns is not None and not rows.columns:
        raise ValueError("The table has no column besides the target.")
    kept, held_out = split_rows(y, test, seed, regression)
    require_enough(y, kept, regression)
    encoding, X = None, rows.X
    if rows.columns is not None:
        say(f"encoding {len(rows.columns)} columns")
        _require_numbers(rows.columns)
        encoding = ColumnEncoding.learned({k: v[kept] for k, v in rows.columns.items()})
        _note_names_of_rows(encoding, len(kept))
        X = encoding.transform(rows.columns)
    is_category = None if encoding is None else encoding.is_category
    scaler, words = choose_scaler(X[kept], scale, is_category)
    summary["scaling"] = words
    say(f"scaling: {words}")
    if scaler is not None:
        X = scaler(X)
    return Prepared(X[kept], y[kept], X[held_out], y[held_out], encoding, scaler, summary)


def require_enough(y: Any, kept: Any, regression: bool) -> None:
    """Refuse too few rows to train on."""
    if len(kept) < 2 or not (regression or len(np.unique(y[kept])) > 1):
        raise ValueError(
            f"Of {len(y)} rows, the {len(kept)} to train on are too few, or of one class only: "
            "give more rows, or another --test or --seed."
        )


def _require_numbers(columns: dict[str, Any]) -> None:
    """Name the row of the file that is wrong, before the rows are split."""
    for name, values in columns.items():
        if values.dtype.kind == "f":
            as_numbers(values, name)


def _note_names_of_rows(encoding: ColumnEncoding, n_rows: int) -> None:
    """Say which columns are texts that hardly repeat."""
    for column in encoding.columns:
        count = len(column.categories) if isinstance(column, CategoryColumn) else 0
        if 2 * count > max(n_rows, 8):
            say(
                f"note: column {column.name!r} has {count} different texts in {n_rows} rows; ids, "
                f"dates and the like teach nothing: --drop {column.name} leaves it out"
            )


def without(table: Table, drop: tuple[str, ...]) -> Table:
    """The table without some columns."""
    if not drop:
        return table
    if table.columns is None:
        raise ValueError("--drop is for tables of named columns.")
    require_columns(table.columns, drop)
    return Table({k: v for k, v in table.columns.items() if k not in drop})


def require_columns(names: Iterable[str], drop: tuple[str, ...]) -> None:
    """Refuse to drop what is not there."""
    unknown = [name for name in drop if name not in names]
    if unknown:
        raise ValueError(f"There is no column {unknown[0]!r} to drop.")


def split_rows(y: Any, test: float, seed: int, regression: bool) -> tuple[Any, Any]:
    """Rows to train on, and rows kept aside; the same ones for the same table."""
    numbers = np.arange(len(y))
    if not test:
        return numbers, numbers[:0]
    _, counts = np.unique(y, return_counts=True)
    stratify = None if regression or counts.min() < 2 or test * len(y) < len(counts) else y
    kept, held_out = train_test_split(numbers, test_size=test, random_state=seed, stratify=stratify)
    return np.sort(kept), np.sort(held_out)


def _summary(rows: Table, y: Any, target: str | None, regression: bool) -> dict[str, Any]:
    data: dict[str, Any] = {"rows": len(y), "target": target}
    if rows.columns is not None:
        data["columns"] = len(rows.columns)
        data["missing"] = {
            name: n for name, values in rows.columns.items() if (n := int(gaps(values).sum()))
        }
    if regression:
        if y.dtype.kind not in "iuf":
            raise ValueError(f"The target {target!r} holds texts; --regression needs numbers.")
        return {"data": data | {"target range": [float(y.min()), float(y.max())]}}
    labels, counts = np.unique(y, return_counts=True)
    require_classes(labels)
    data["classes"] = {str(k): int(n) for k, n in zip(labels, counts, strict=True)}
    return {"data": data}


def require_classes(labels: Any) -> None:
    """Refuse a target that is no class, by its distinct values."""
    if len(labels) < 2:
        raise ValueError(f"The target has one class only, {str(labels[0])!r}: nothing to learn.")
    if labels.dtype.kind == "f" and len(labels) > _MANY_NUMBERS:
        raise ValueError(
            f"The target has {len(labels)} different numbers: say --regression to predict them."
        )
    if len(labels) > 1000:
        raise ValueError(f"The target has {len(labels)} classes, too many to learn.")
