"""Reading CSV and Parquet tables."""

from __future__ import annotations

import csv
import hashlib
import io
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernlet.console import reading_bar
from kernlet.rows.parquet import parquet_files
from kernlet.tables.encode import category_text

_MISSING = ["", "NA", "N/A", "nan", "NaN", "NAN", "null", "NULL", "None", "?"]
_MOSTLY = 0.9  # share of numbers from which a text among them is taken for an error
_LONGEST_HEADER = 1 << 20  # bytes
_DECIMAL_COMMA = r"^[+-]?\d+,\d+$"
_LEADING_ZERO = r"^[+-]?0\d+$"
_LARGEST_WHOLE = 2.0**53  # beyond it, whole numbers share a float64


def read_columns(
    path: Path, delimiter: str, category: Sequence[str] = (), label: str | None = None
) -> dict[str, Any]:
    """Read a text file of columns.

    Parameters
    ----------
    path : Path
    delimiter : str
        A file without commas in its header may have semicolons instead.
    category : sequence of str
        Columns that stay texts.
    label : str or None
        A column that stays texts where numbers would make two of its texts one.

    Returns
    -------
    columns : dict of str to ndarray
        Numbers with NaN where they are missing, or texts with None.
    """
    names, delimiter = _header(path, delimiter)
    table = _arrow_table(path, names, delimiter)
    return {
        name: _column(table[name], name, name in category, name == label, delimiter == ";")
        for name in table.column_names
    }


def _arrow_table(path: Path, names: list[str], delimiter: str) -> Any:
    """All columns as texts."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    options = arrow_csv.ConvertOptions(
        column_types={name: pa.binary() for name in names},
        null_values=_MISSING,
        strings_can_be_null=True,
    )
    try:
        with reading_bar(path) as advance:
            reader = arrow_csv.open_csv(
                path,
                read_options=arrow_csv.ReadOptions(use_threads=False, block_size=1 << 22),
                parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                convert_options=options,
            )
            if reader.schema.names != names:
                raise ValueError("the line of column names cannot be read: quotes do not match.")
            batches = []
            for batch in reader:
                batches.append(batch)
                advance(batch.nbytes)
            return pa.Table.from_batches(batches, schema=reader.schema)
    except pa.ArrowException as error:
        raise ValueError(_in_rows(str(error).splitlines()[0])) from None


def _in_rows(said: str) -> str:
    """An error of pyarrow, which counts lines, in terms of rows."""
    words = said.removeprefix("CSV parse error: ")
    if words.startswith("Row #"):
        number, _, rest = words.removeprefix("Row #").partition(":")
        return f"Row {int(number) - 1}:{rest}"
    return words


def _header(path: Path, delimiter: str) -> tuple[list[str], str]:
    """The names of the columns, which may have line ends inside quotes, and what parts them."""
    import pyarrow as pa

    with pa.input_stream(str(path)) as stream:
        bytes_read = stream.read(_LONGEST_HEADER)
    try:
        start = bytes_read.decode("utf-8-sig")
    except UnicodeDecodeError:  # cells are looked at later
        start = bytes_read.decode("utf-8-sig", errors="replace")
    names = _first_row(start, delimiter)
    if delimiter == "," and len(names) == 1 and ";" in names[0]:
        delimiter = ";"
        names = _first_row(start, delimiter)
    if not any(names):
        raise ValueError("the file has no line of column names.")
    if any("\ufffd" in name for name in names):
        raise ValueError("the line of column names is not UTF-8: save the file as UTF-8.")
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"the column {sorted(twice)[0]!r} is there twice.")
    if all(_is_number(name) for name in names):
        raise ValueError("the first line holds numbers; it must name the columns.")
    return names, delimiter


def _first_row(text: str, delimiter: str) -> list[str]:
    try:
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        return next(lines, [])
    except csv.Error as error:
        raise ValueError(f"the line of column names cannot be read ({error}).") from None


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _column(cells: Any, name: str, is_category: bool, is_label: bool, has_commas: bool) -> Any:
    """Numbers where all texts are, with the first that is not named; texts otherwise."""
    import pyarrow as pa
    from pyarrow import compute

    values = compute.utf8_trim_whitespace(_texts(cells, name))
    if has_commas and not is_category and _are_decimal_commas(values):
        values = compute.replace_substring(values, ",", ".")
    try:
        if not is_category:
            numbers = compute.cast(values, pa.float64())
            if not (is_label and _loses_names(values, numbers)):
                return numbers.to_numpy()
    except pa.ArrowInvalid:
        _refuse_stray_texts(values, name)
    return values.to_numpy(zero_copy_only=False)


def _texts(cells: Any, name: str) -> Any:
    """Cells in UTF-8."""
    import pyarrow as pa

    try:
        return cells.cast(pa.string())
    except pa.ArrowInvalid:
        for row, cell in enumerate(cells.to_pylist()):
            if cell is not None and cell.decode("utf-8", errors="replace").encode() != cell:
                raise ValueError(
                    f"row {row + 1}, column {name!r} is not UTF-8: save the file as UTF-8."
                ) from None
        raise


def _are_decimal_commas(values: Any) -> bool:
    """Whether the texts are numbers with a comma for the point, at least most of them."""
    from pyarrow import compute

    fits = compute.sum(compute.match_substring_regex(values, _DECIMAL_COMMA)).as_py() or 0
    known = len(values) - values.null_count
    points = compute.sum(compute.match_substring(values, ".")).as_py() or 0
    return bool(fits and not points and fits >= _MOSTLY * known)


def _loses_names(values: Any, numbers: Any) -> bool:
    """Whether labels such as 01 and 1, or very long numbers, become one as numbers."""
    from pyarrow import compute

    if compute.any(compute.match_substring_regex(values, _LEADING_ZERO)).as_py():
        return True
    largest = compute.max(compute.abs(numbers)).as_py() or 0.0
    return _LARGEST_WHOLE <= largest < float("inf")


def _refuse_stray_texts(values: Any, name: str) -> None:
    texts = [(row, text) for row, text in enumerate(values.to_pylist()) if text is not None]
    stray = [(row, text) for row, text in texts if not _is_number(text)]
    if stray and len(stray) < (1 - _MOSTLY) * len(texts):
        row, text = stray[0]
        raise ValueError(
            f"row {row + 1}, column {name!r}: {text[:40]!r} is no number as the others are; "
            f"correct it, or say --category {name}."
        )


_LARGEST_DENSE = 1 << 30  # bytes of float32


@dataclass(frozen=True, eq=False)
class Table:
    """Columns by name, or rows of numbers, with their labels where the file has them.

    Parameters
    ----------
    columns : dict of str to ndarray, or None
        Numbers with NaN where they are missing, or texts with None.
    X : ndarray of shape (n_rows, n_features) or None
    y : ndarray of shape (n_rows,) or None
    """

    columns: dict[str, Any] | None = None
    X: Any = None
    y: Any = None

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        if self.columns is not None:
            return len(next(iter(self.columns.values()), ()))
        return len(self.X)

    def split_target(self, target: str | None) -> tuple[Table, Any]:
        """The table without its labels, and the labels."""
        if self.columns is None:
            if self.y is None:
                raise ValueError("The file has no labels: an .npz file needs an array y.")
            return self, self.y
        if target is None:
            raise ValueError(f"Say with --target which of {_some(self.columns)} to predict.")
        if target not in self.columns:
            raise ValueError(f"There is no column {target!r} among {_some(self.columns)}.")
        others = {name: values for name, values in self.columns.items() if name != target}
        return Table(others), labels(self.columns[target], target)


def read_table(
    path: Path,
    *,
    category: Sequence[str] = (),
    label: str | None = None,
    n_features: int | None = None,
) -> Table:
    """Read a file by what its name ends in.

    Parameters
    ----------
    path : Path
        .csv, .tsv, .tab, .parquet, .pq, .npz, or a folder of Parquet files; anything else is
        taken for LIBSVM rows.
    category : sequence of str
        Columns whose numbers are names.
    label : str or None
        The column of classes; it stays texts where numbers would make two of them one.
    n_features : int or None
        Width of LIBSVM rows.

    Returns
    -------
    table : Table

    Raises
    ------
    ValueError
        With the row and the column that are wrong.
    """
    try:
        kind = path.name.lower().removesuffix(".gz").rpartition(".")[2]
        if is_parquet(path):
            table = _read_parquet(path, category, label)
        elif kind in ("csv", "tsv", "tab"):
            table = Table(read_columns(path, "," if kind == "csv" else "\t", category, label))
        elif kind == "npz":
            table = _read_npz(path)
        else:
            table = _read_libsvm(path, n_features)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if not table.n_rows:
        raise ValueError(f"{path} has no rows.")
    return table


def _read_parquet(path: Path, category: Sequence[str], label: str | None) -> Table:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        files = parquet_files(path)
        tables = [parquet.ParquetFile(file).read() for file in files]
        for file, table in zip(files, tables, strict=True):
            if set(table.column_names) != set(tables[0].column_names):
                raise ValueError(f"{file.name} has other columns than {files[0].name}")
        table = pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise ValueError(f"no Parquet file ({str(error).splitlines()[0]})") from None
    return arrow_columns(table, category, label)


def arrow_columns(table: Any, category: Sequence[str], label: str | None) -> Table:
    """The columns of an Arrow table: numbers, or texts.

    Parameters
    ----------
    table : pyarrow.Table
    category : sequence of str
        Columns whose numbers are names.
    label : str or None
        The column of classes.

    Returns
    -------
    table : Table
    """
    import pyarrow as pa

    columns = {}
    for name in table.column_names:
        is_name = name in category or (name == label and _is_long(table[name]))
        if is_number(table[name].type) and not is_name:
            columns[name] = table[name].cast(pa.float64(), safe=False).to_numpy()
        else:
            columns[name] = texts(table[name].to_pylist())
    return Table(columns)


def is_number(kind: Any) -> bool:
    """Whether an Arrow type is one of numbers."""
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def is_parquet(path: Path) -> bool:
    """Whether a table is a Parquet file, or a folder, which can only hold those."""
    return path.is_dir() or path.suffix.lower() in (".parquet", ".pq")


def _is_long(values: Any) -> bool:
    """Whether whole numbers are too long for float64."""
    import pyarrow as pa

    if not pa.types.is_integer(values.type):
        return False
    return any(value is not None and abs(value) >= 2**53 for value in values.to_pylist())


def texts(values: Iterable[Any]) -> Any:
    """Cells as texts, None where one is missing."""
    return np.array(
        [None if v is None or v != v else category_text(v) for v in values], dtype=object
    )


def _read_npz(path: Path) -> Table:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            first, second = ("Xtr", "ytr") if "Xtr" in arrays else ("X", "y")
            if first not in arrays:
                raise ValueError("it needs an array X, and y for labels.")
            X = arrays[first]
            y = arrays.get(second)
    except (zipfile.BadZipFile, zlib.error, EOFError, TypeError):
        raise ValueError("it is damaged, or no .npz file of plain arrays.") from None
    if X.ndim != 2 or X.dtype.kind not in "iufb" or (y is not None and y.shape != X.shape[:1]):
        raise ValueError("X must be a table of numbers, and y one label a row.")
    return Table(X=_finite(X.astype(np.float32)), y=y)


def _finite(X: Any) -> Any:
    wrong = np.argwhere(~np.isfinite(X))
    if len(wrong):
        row, column = wrong[0]
        raise ValueError(f"row {row + 1}, column {column + 1}: {X[row, column]} is no number.")
    return X


def _read_libsvm(path: Path, n_features: int | None) -> Table:
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(str(path), n_features=n_features, dtype=np.float32)
    except (ValueError, IndexError) as error:
        said = str(error).splitlines()[0]
        raise ValueError(f"no rows of LIBSVM, nor another table by its name ({said})") from None
    if 4 * X.shape[0] * X.shape[1] > _LARGEST_DENSE:
        raise ValueError(
            f"{X.shape[0]} rows of {X.shape[1]} features are too many for the command line; "
            "CompactKernelClassifier takes them as a sparse matrix."
        )
    return Table(X=_finite(X.toarray()), y=y)


def file_digest(path: Path) -> str:
    """What tells one file, or one folder of Parquet files, from another."""
    if path.is_dir():
        parts = [f"{file.name} {file_digest(file)}" for file in parquet_files(path)]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def gaps(values: Any) -> Any:
    """Where a column has no value."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    return np.array([value is None or value != value for value in values], dtype=bool)


def labels(values: Any, name: str) -> Any:
    """A column of labels: whole numbers, numbers or texts, none of them missing."""
    values = np.asarray(values)
    missing = np.flatnonzero(gaps(values))
    if len(missing):
        raise ValueError(f"Row {missing[0] + 1}, column {name!r}: the label is missing.")
    if values.dtype.kind == "f" and np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values))[0])
        raise ValueError(f"Row {row + 1}, column {name!r}: {values[row]} is no label.")
    if values.dtype.kind == "f" and (values == np.rint(values)).all():
        return values.astype(np.int64)
    return values.astype(str) if values.dtype.kind == "O" else values


def _some(names: Iterable[str]) -> str:
    names = list(names)
    listed = ", ".join(names[:8])
    return listed if len(names) <= 8 else f"{listed} and {len(names) - 8} more"
