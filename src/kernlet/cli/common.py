"""What the commands share: models and rows from files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from kernlet.expansion import KernelExpansion
from kernlet.export.file import load
from kernlet.model.model import Model, as_model
from kernlet.tables.encode import CategoryColumn
from kernlet.tables.read import Table, gaps, read_table


def open_model(path: Path) -> Any:
    """A fitted model, by what the file begins with.

    Parameters
    ----------
    path : Path

    Returns
    -------
    model : fitted estimator, KernelExpansion, or the path of a LIBSVM model file
    """
    with path.open("rb") as file:
        start = file.read(9)
    if start[:4] == b"PK\x03\x04":
        return _open_skops(path)
    return path if start[:8] in (b"svm_type", b"kernel_t") else load(path)


def _open_skops(path: Path) -> Any:
    """Types that could run code are refused; none is trusted."""
    try:
        from skops import io
    except ImportError:
        raise ImportError("skops is not installed: pip install 'kernlet[skops]'.") from None
    try:
        unknown = io.get_untrusted_types(file=path)
    except Exception as error:  # skops has no exception of its own for a damaged file
        raise ValueError(f"{path} is damaged, or no skops file ({error}).") from None
    if unknown:
        raise ValueError(
            f"{path} holds types that are not trusted: {', '.join(sorted(unknown)[:5])}. Load it "
            "in Python after a look at it, and save it with kernlet.save."
        )
    return io.load(path, trusted=[])


def shipped_model(path: Path) -> Model:
    """What travels, of any file that holds a machine."""
    model = open_model(path)
    try:
        shipped = as_model(model)
    except TypeError as error:
        raise ValueError(f"{path}: {error}") from None
    if isinstance(model, KernelExpansion):
        raise ValueError(f"{path} holds an expansion without classes, and not a classifier.")
    return shipped


def trained_on(shipped: Model) -> dict[str, Any]:
    """What the file says of the training data; it may say anything."""
    data = shipped.summary.get("data")
    return data if isinstance(data, dict) else {}


def known_target(shipped: Model, target: str | None) -> str | None:
    """The column of the labels: the one that is asked for, or that of the training."""
    known = trained_on(shipped).get("target")
    return target or (known if isinstance(known, str) else None)


def categories(shipped: Model) -> list[str]:
    """Columns that were texts in training, whatever another file makes of them."""
    columns = shipped.encoding.columns if shipped.encoding is not None else ()
    return [column.name for column in columns if isinstance(column, CategoryColumn)]


def read_for(shipped: Model, path: Path, target: str | None = None) -> Table:
    """Read a table as the one of the training was read.

    Parameters
    ----------
    shipped : Model
    path : Path
    target : str or None
        The column of the labels, which stay texts where the classes are.

    Returns
    -------
    table : Table
    """
    texts = categories(shipped)
    if target is not None and shipped.classes is not None and shipped.classes.dtype.kind in "OU":
        texts.append(target)
    label = target if shipped.kind == "classifier" else None
    return read_table(path, category=texts, label=label, n_features=shipped.n_features)


def labelled_rows(shipped: Model, path: Path, target: str | None) -> tuple[Any, Any]:
    """Rows of a table as a machine takes them, and their labels."""
    known = known_target(shipped, target)
    read = read_for(shipped, path, known)
    with errors_of(path):
        rows, y = read.split_target(known)
        return rows_for(shipped, rows), y


@contextmanager
def errors_of(path: Path | str) -> Iterator[None]:
    """Say of which file an error speaks."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def rows_for(shipped: Model, table: Table) -> Any:
    """The rows of a table as a machine takes them."""
    if shipped.encoding is not None:
        if table.columns is None:
            raise ValueError(
                "The machine takes a table of named columns, as CSV, TSV or Parquet files have."
            )
        return shipped.encoding.transform(table.columns)
    rows = table.X if table.columns is None else _by_name(shipped, table.columns)
    if rows.shape[1] != shipped.n_features:
        raise ValueError(
            f"The rows have {rows.shape[1]} features; the machine takes {shipped.n_features}."
        )
    return rows


def _by_name(shipped: Model, columns: dict[str, Any]) -> Any:
    """Columns of numbers, in the order in which the machine knows them."""
    names = shipped.feature_names
    if names is None or not set(names) <= set(columns):
        names = tuple(columns)
    rows = []
    for name in names:
        values = np.asarray(columns[name])
        bad = np.flatnonzero(gaps(values) | (values.dtype.kind == "O"))
        if len(bad):
            raise ValueError(
                f"Row {bad[0] + 1}, column {name!r}: {values[bad[0]]!r} is no number, and this "
                "machine has no rule for texts and gaps."
            )
        rows.append(values.astype(np.float64))
    return np.stack(rows, axis=1)
