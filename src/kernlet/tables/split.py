"""From a table to training rows and held-out rows, in memory or in batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.model_selection import train_test_split

from kernlet.affine import AffineMap
from kernlet.console import say
from kernlet.rows.source import PiecewiseRows, RowSubset
from kernlet.tables.encode import (
    CategoryColumn,
    ColumnEncoding,
    as_numbers,
    choose_scaler,
    distinct_texts,
    learned_categories,
)
from kernlet.tables.read import DataTable, errors_in, is_number_type

# How this works
#
# One path serves tables of every size; only its last step asks whether the table is in memory.
#
# 1. The labels of all rows are read and become indices of classes, 4 bytes per row.
# 2. `split_rows` draws the held-out rows from the labels alone, before any feature is read. The
#    same table, share and seed give the same rows: `kernlet report` repeats the split to find the
#    rows that a machine has not seen.
# 3. One pass over the batches checks the numbers, counts missing cells, collects the categories
#    of the training rows and takes a sample of training rows: all of them if they are in memory,
#    otherwise at most 100,000.
# 4. Medians and the scaler come from the sample, categories from all training rows: a median of a
#    sample is nearly that of the table, but a rare category may be missing from it. Held-out rows
#    never enter. A category that only they have is unknown to the machine, as it would be later.
# 5. `EncodedRows` encodes and scales a batch when it is read. A table in memory is encoded at
#    once, so that training sees arrays; otherwise training sees the row source, and each pass
#    over the rows reads and encodes the file again.

_MAX_NUMERIC_CLASSES = 50  # a target with more distinct floats is a quantity
_MAX_CLASSES = 1000
_MAX_SAMPLE = 100_000  # rows; the standard error of a mean is then 0.3 % of a deviation


@dataclass(frozen=True, eq=False)
class Prepared:
    """Training rows and held-out rows, as arrays or row sources, encoded and scaled.

    Labels of a classifier are indices into ``classes``; a regressor has None there.
    """

    X: Any
    y: Any
    X_test: Any
    y_test: Any
    classes: Any
    encoding: ColumnEncoding | None
    scaler: AffineMap | None
    summary: dict[str, Any]


def prepare(
    table: DataTable,
    target: str | None,
    *,
    regression: bool,
    drop: Sequence[str],
    scale: str,
    test: float,
    seed: int,
) -> Prepared:
    """Split a table, and learn its encoding and scaling from the training rows."""
    if regression and not table.in_memory:
        raise ValueError("--regression needs the table in memory: raise --memory.")
    features, classes, codes = table.without(drop).split_target(target)
    target_summary = _target_summary(classes, codes, target, regression)
    summary: dict[str, Any] = {"rows": table.n_rows, "target": target}
    y = classes[codes] if regression else codes
    if features.has_columns and not features.names:
        raise ValueError("The table has no column besides the target.")
    training, held_out = split_rows(y, test, seed, regression)
    if len(training) < 2 or not (regression or len(np.unique(y[training])) > 1):
        raise ValueError(
            f"Of {len(y)} rows, the {len(training)} to train on are too few, or all of one class: "
            "provide more rows, or another --test or --seed."
        )
    if features.has_columns:
        say(f"encoding {len(features.names)} columns")
        encoding, sample, missing = learn_encoding(features, training)
        summary |= {"columns": len(features.names), "missing": missing}
        _note_identifiers(encoding, len(training))
        scaler, message = choose_scaler(encoding.transform(sample), scale, encoding.is_category)
    else:
        encoding = None
        scaler, message = choose_scaler(features.X[training], scale)
    say(f"scaling: {message}")
    if encoding is not None and not features.in_memory:
        rows = EncodedRows(features, encoding, scaler)
        X_training, X_held_out = RowSubset(rows, training), RowSubset(rows, held_out)
    else:
        X = _encoded(features.batch(0), encoding, scaler)
        X_training, X_held_out = X[training], X[held_out]
    return Prepared(
        X_training,
        y[training],
        X_held_out,
        y[held_out],
        None if regression else classes,
        encoding,
        scaler,
        {"data": summary | target_summary, "scaling": message},
    )


def split_rows(y: Any, test: float, seed: int, regression: bool) -> tuple[Any, Any]:
    """Training rows and held-out rows, the same for the same labels; stratified where possible."""
    rows = np.arange(len(y))
    if not test:
        return rows, rows[:0]
    _, counts = np.unique(y, return_counts=True)
    stratify = None if regression or counts.min() < 2 or test * len(y) < len(counts) else y
    training, held_out = train_test_split(
        rows, test_size=test, random_state=seed, stratify=stratify
    )
    return np.sort(training), np.sort(held_out)


def _target_summary(
    classes: Any, codes: Any, target: str | None, regression: bool
) -> dict[str, Any]:
    if regression:
        if classes.dtype.kind not in "iuf":
            raise ValueError(f"The target {target!r} holds texts; --regression needs numbers.")
        return {"target range": [float(classes[0]), float(classes[-1])]}
    if len(classes) < 2:
        raise ValueError(f"The target has one class only, {str(classes[0])!r}: nothing to learn.")
    if classes.dtype.kind == "f" and (
        len(classes) > _MAX_NUMERIC_CLASSES or (classes != np.rint(classes)).any()
    ):
        raise ValueError(
            f"The target has {len(classes)} different numbers: add --regression to predict them."
        )
    if len(classes) > _MAX_CLASSES:
        raise ValueError(f"The target has {len(classes)} classes, too many to learn.")
    counts = np.bincount(codes, minlength=len(classes)).tolist()
    return {"classes": dict(zip(map(str, classes.tolist()), counts, strict=True))}


def learn_encoding(table: DataTable, training: Any) -> tuple[ColumnEncoding, Any, dict[str, int]]:
    """The encoding of the training rows, a sample of them, and missing cells per column."""
    is_training = np.zeros(table.n_rows, dtype=bool)
    is_training[training] = True
    sampled = training
    if not table.in_memory and len(training) > _MAX_SAMPLE:
        random = np.random.RandomState(0)
        sampled = np.sort(random.choice(training, _MAX_SAMPLE, replace=False))
    texts: dict[str, set[str | None]] = {}
    missing = dict.fromkeys(table.names, 0)
    samples = []
    for start, batch in table.batches():
        stop = start + batch.num_rows
        for name in table.names:
            if is_number_type(batch[name].type):
                with errors_in(start=start):
                    numbers = as_numbers(batch[name], name)
                missing[name] += int(np.count_nonzero(np.isnan(numbers)))
            else:
                distinct, codes = distinct_texts(batch[name])
                missing[name] += batch[name].null_count
                occurring = np.unique(codes[is_training[start:stop]])
                texts.setdefault(name, set()).update(distinct[code] for code in occurring)
                learned_categories(name, texts[name], stop)  # refuses too many of them early
        first, last = np.searchsorted(sampled, [start, stop])
        samples.append(batch.take(pa.array(sampled[first:last] - start)))
    sample = pa.concat_tables(samples)
    columns = tuple(
        learned_categories(column.name, texts[column.name], len(training))
        if isinstance(column, CategoryColumn)
        else column
        for column in ColumnEncoding.learned(sample).columns
    )
    return ColumnEncoding(columns), sample, {name: n for name, n in missing.items() if n}


def _note_identifiers(encoding: ColumnEncoding, n_rows: int) -> None:
    """Point out columns of texts that hardly repeat."""
    for column in encoding.columns:
        count = len(column.categories) if isinstance(column, CategoryColumn) else 0
        if 2 * count > max(n_rows, 8):
            say(
                f"note: column {column.name!r} has {count} different texts in {n_rows} rows; ids, "
                f"dates and the like teach nothing: --drop {column.name} leaves it out"
            )


def _encoded(batch: Any, encoding: ColumnEncoding | None, scaler: AffineMap | None) -> Any:
    """A batch of a table as the rows a machine is trained on."""
    X = batch if encoding is None else encoding.transform(batch)
    return X if scaler is None else scaler(X)


class EncodedRows(PiecewiseRows):
    """Row source over the batches of a table, encoded and scaled when they are read, in float32."""

    def __init__(
        self, table: DataTable, encoding: ColumnEncoding, scaler: AffineMap | None
    ) -> None:
        self.table, self.encoding, self.scaler = table, encoding, scaler
        self.shape = (table.n_rows, len(encoding.feature_names))
        self.dtype, self.starts = np.dtype(np.float32), table.starts

    def load_piece(self, number: int) -> Any:
        """A batch, encoded and scaled."""
        return _encoded(self.table.batch(number), self.encoding, self.scaler)
