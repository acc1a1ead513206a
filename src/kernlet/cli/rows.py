"""Rows for a machine from a table on disk. It needs pyarrow, which a core install lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kernlet.cli.common import trained_on
from kernlet.console import say
from kernlet.model.model import Model
from kernlet.tables.dates import DateColumn
from kernlet.tables.encode import CategoryColumn, OrdinalColumn, category_text
from kernlet.tables.read import (
    DataTable,
    TableFile,
    column_name,
    errors_in,
    file_digest,
    is_number_type,
    read_table,
)
from kernlet.tables.spelling import find_categories
from kernlet.tables.split import split_normal_rows, split_rows


def read_for(
    model: Model, file: TableFile, target: str | None = None, max_bytes: float = np.inf
) -> DataTable:
    """Read a table as the training table was read.

    Columns of categories stay texts whatever the file suggests, and so do labels of a machine
    whose classes are texts.
    """
    columns = model.encoding.columns if model.encoding is not None else ()
    texts = CategoryColumn | DateColumn | OrdinalColumn
    category = [column.name for column in columns if isinstance(column, texts)]
    if target is not None and model.classes is not None and model.classes.dtype.kind in "OU":
        category.append(target)
    label = target if model.classes is not None else None
    names = (model.feature_names or ()) if model.encoding is None else model.encoding.names
    table = read_table(
        file.path,
        category=category,
        label=label,
        names=names,
        text_format=file.text_format,
        n_features=(model.encoding and model.encoding.n_columns) or model.n_features_in,
        max_bytes=max_bytes,
        label_words=[] if model.classes is None else [str(label) for label in model.classes],
    )
    with errors_in(file.path):
        table.check_numbers(names or table.names)
    return table


def labelled_rows(
    model: Model,
    file: TableFile,
    target: str | None,
    *,
    required: bool = True,
    note: bool = True,
    encoded: bool = True,
) -> tuple[Any, Any]:
    """Rows of a table and their labels or, if not required, None.

    The rows are ``encoded`` as features, or as the functions in Python take them.

    The column of the labels is by default that of the training; one that is named is required.
    Rows of a novelty detector need none; their labels become 1 and -1.
    A note says if the machine was trained on some of the rows.
    """
    known = trained_on(model).get("target")
    required = (required and model.kind != "novelty") or target is not None
    if target is None and model.output_names and known == list(model.output_names):
        return _rows_of_targets(model, file, known, required, note, encoded)
    if model.kind == "regressor" and model.quantiles is None and required:
        _check_one_output(model, known)
    target = target or (known if isinstance(known, str) else None)
    table = read_for(model, file, target)
    if model.quantiles and isinstance(known, str) and target and table.has_columns:
        named = column_name(table.names, target)
        if named is not None and named != known:
            say(f"note: the machine predicts quantiles of {known!r}, compared here with {named!r}")
    has_labels, is_encoded = table.y is not None, encoded or model.encoding is None
    normal = trained_on(model).get("normal") if model.kind == "novelty" else None
    if normal == [] and target is None:
        has_labels = False  # kernlet fit took all rows for normal, whatever the labels in the file
    if table.has_columns:
        has_labels = target is not None and column_name(table.names, target) is not None
    with errors_in(file.path):
        if not (has_labels or required):
            return (rows_for(model, table.batch(0)) if is_encoded else table.batch(0)), None
        skip = file.skip_unlabelled or not required
        features, classes, codes = table.split_target(target, skip)
        labelled = codes >= 0
        X, y = features.batch(0), spelled_as(model, classes)[codes[labelled]]
        X = rows_for(model, X) if is_encoded else X
        X = X[labelled] if isinstance(X, np.ndarray) else X.filter(labelled)
    if model.kind == "novelty":
        y = _signs(y, normal)
    if note:
        note_training_rows(model, file.path, y)
    return X, y


def _check_one_output(model: Model, known: Any) -> None:
    """Refuse one column for a machine of several targets."""
    n_outputs = model.expansion.n_outputs
    if n_outputs == 1:
        return
    if model.output_names and known == list(model.output_names):
        raise ValueError(
            f"--target names one column, and the machine predicts {n_outputs}: leave --target "
            f"out, and {', '.join(map(repr, model.output_names))} are taken from the table."
        )
    raise ValueError(
        f"The machine predicts {n_outputs} numbers per row and does not know the columns of "
        "their targets: train it with kernlet fit and one --target for each."
    )


def _signs(labels: Any, normal: Any = None) -> Any:
    """1 for labels that are ``normal``; else 1 and -1 as they are, or -1 for the rarer of two."""
    if isinstance(normal, list) and normal:
        texts = [str(category_text(label)) for label in labels.tolist()]
        return np.where(np.isin(texts, [str(label) for label in normal]), 1, -1)
    names, counts = np.unique(labels.astype(str), return_counts=True)
    if np.isin(labels, (-1, 1)).all():
        return labels.astype(int)
    if len(names) != 2:
        raise ValueError(
            f"The labels have {len(names)} different values, and a novelty detector has two: 1 for "
            "inliers and -1 for outliers, or any two, the rarer of which is that of the outliers."
        )
    rare = str(names[counts.argmin()])
    say(f"note: rows labelled {rare!r}, the rarer of two labels, count as outliers")
    return np.where(labels.astype(str) == rare, -1, 1)


def _rows_of_targets(
    model: Model, file: TableFile, targets: list[str], required: bool, note: bool, encoded: bool
) -> tuple[Any, Any]:
    """Rows of a table with several targets, as a matrix, or with none."""
    table, is_encoded = read_for(model, file), encoded or model.encoding is None
    with errors_in(file.path):
        X = rows_for(model, table.batch(0)) if is_encoded else table.batch(0)
        missing = [name for name in targets if name not in table.names]
        if missing and not required:
            return X, None
        columns, is_labelled = [], np.full(table.n_rows, True)
        for name in targets:
            _, values, codes = table.split_target(name, file.skip_unlabelled or not required)
            if values.dtype.kind not in "iuf":
                raise ValueError(f"The target {name!r} holds texts, and not numbers.")
            columns.append(values[codes].astype(np.float64))
            is_labelled &= codes >= 0
        y = np.stack(columns, axis=1)[is_labelled]
        X = X[is_labelled] if isinstance(X, np.ndarray) else X.filter(is_labelled)
    if note:
        note_training_rows(model, file.path, y)
    return X, y


def spelled_as(model: Model, labels: Any) -> Any:
    """Labels of a table as the classes of a model that they denote: True as true, 1.0 as 1."""
    if model.classes is None:
        return labels
    index = {category_text(label): label for label in model.classes.tolist()}
    found = find_categories([category_text(label) for label in labels.tolist()], index)
    pairs = zip(found, labels.tolist(), strict=True)
    return np.array([known if is_known else label for (known, is_known), label in pairs])


def training_split(model: Model, path: Path, y: Any) -> tuple[Any, Any] | None:
    """Training rows and held-out rows of a table, if kernlet fit was given this very file.

    Rows of a novelty detector are split by their number alone, which y may be, unless it was
    trained on those of some labels.
    """
    split = model.summary.get("split")
    if not isinstance(split, dict) or trained_on(model).get("sha256") != file_digest(path):
        return None
    test, seed = split.get("test", 0.0), split.get("seed", 0)
    # a model file may state anything: do not pass it on unchecked
    if type(test) not in (int, float) or not 0 <= test < 1:
        return None
    if type(seed) is not int or not 0 <= seed < 2**32:
        return None
    if model.kind == "novelty" and trained_on(model).get("normal") and not isinstance(y, int):
        return split_normal_rows(y > 0, test, seed) if (y > 0).sum() > 1 else None
    if model.kind == "novelty":
        y = np.zeros(y if isinstance(y, int) else len(y))
    return split_rows(y, test, seed, model.kind != "classifier")


def note_training_rows(model: Model, path: Path, y: Any) -> None:
    """Label accuracies of a table that the machine was trained on."""
    split = training_split(model, path, y)
    if split is not None:
        say(
            f"note: the machine was trained on {len(split[0]):,} of these {len(y):,} rows: the "
            "accuracy on them is too optimistic"
        )


def rows_for(model: Model, batch: Any, noted: set[str] | None = None) -> Any:
    """A batch of a table, an Arrow table or an array, as the rows that a machine takes.

    A column without a known category is noted once; its name is added to ``noted``.
    """
    noted = set() if noted is None else noted

    def note(name: str, text: str) -> None:
        if name not in noted:
            noted.add(name)
            say(f"note: {text}")

    has_columns = not isinstance(batch, np.ndarray)
    if model.encoding is not None:
        if not has_columns and not model.encoding.positions:
            raise ValueError(
                "The machine takes a table with named columns: a CSV, TSV or Parquet file."
            )
        return model.encoding.transform(batch, np.float64, note)
    rows = _numbers(model, batch) if has_columns else batch
    if rows.shape[1] != model.n_features:
        raise ValueError(
            f"The rows have {rows.shape[1]} features; the machine takes {model.n_features}."
        )
    return rows


def _numbers(model: Model, batch: Any) -> Any:
    """Columns of numbers in the order of the machine's features, or of the table."""
    names = model.feature_names
    if names is None or not set(names) <= set(batch.column_names):
        names = tuple(batch.column_names)
    columns = []
    for name in names:
        values = batch[name].to_numpy()
        # a column of texts is wrong from its first row on
        wrong = [0] if not is_number_type(batch[name].type) else np.flatnonzero(np.isnan(values))
        if len(wrong):
            raise ValueError(
                f"Row {wrong[0] + 1}, column {name!r}: {values[wrong[0]]!r} is not a number, and "
                "this machine has no encoding for texts and missing cells."
            )
        columns.append(values)
    return np.stack(columns, axis=1)
