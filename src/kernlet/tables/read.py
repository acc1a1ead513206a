"""One object for tables of every kind: CSV and Parquet through pyarrow.dataset, .npz, LIBSVM."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute, dataset

from kernlet.console import say
from kernlet.rows.npy import read_npz
from kernlet.rows.parquet import (
    group_starts,
    parquet_files,
    read_schema,
    require_memory,
    require_rows,
)
from kernlet.rows.source import reader_errors, require_file
from kernlet.tables.encode import distinct_texts, listed
from kernlet.tables.sniff import (
    DETECTED,
    MISSING_CELLS,
    TextFormat,
    TextLayout,
    detect_layout,
    is_libsvm,
    open_text,
)
from kernlet.tables.text import MAX_EXACT_INTEGER, read_text

_MAX_SAMPLE_BYTES = 1 << 16
_LIBSVM_NAMES = ("libsvm", "svm", "svmlight")
_MAX_DENSE_BYTES = 1 << 30  # of LIBSVM rows as dense float32
_FREE_BYTES = 1 << 26  # that LIBSVM rows of any length may take
_MAX_EXPANSION = 10_000  # bytes of dense LIBSVM rows per byte of their file beyond those
_MAX_INDEX = 2**31 - 1  # of a feature in LIBSVM rows


@dataclass(frozen=True, eq=False)
class DataTable:
    """Named columns, or plain rows of numbers ``X`` with labels ``y``.

    Columns come in batches of Arrow tables, in which a column is either float64 or string, and
    null or NaN where a cell is missing. A table in memory is one batch; a larger one has the row
    groups of its Parquet files as batches, each read when it is asked for.
    """

    names: tuple[str, ...] = ()
    batches_: tuple[Any, ...] = ()  # an Arrow table, or row groups (Parquet dataset fragments)
    starts: Any = (0,)  # first row of each batch, and last the number of rows
    schema: Any = None  # of all Parquet files together; None for a table in memory
    category: tuple[str, ...] = ()  # columns whose numbers are names
    label: str | None = None  # the column of classes
    X: Any = None
    y: Any = None
    layout: TextLayout | None = None  # of a text file
    stray: dict[str, str] = field(default_factory=dict)  # columns with texts among numbers
    missing_words: dict[str, dict[str, int]] = field(default_factory=dict)  # of a text file
    file_name: str = "it"  # for errors of batches that are read later

    @property
    def has_columns(self) -> bool:
        """Whether the columns have names."""
        return self.X is None

    @property
    def in_memory(self) -> bool:
        """Whether the table is read whole, rather than in batches."""
        return self.schema is None

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        return int(self.starts[-1])

    def batch(self, number: int, names: Sequence[str] | None = None) -> Any:
        """A batch as an Arrow table of the columns named, or the array of plain rows."""
        if not self.has_columns:
            return self.X
        names = list(self.names if names is None else names)
        batch = self.batches_[number]
        if self.in_memory:
            return batch.select(names)
        claimed = int(self.starts[number + 1] - self.starts[number])
        require_memory(self.file_name, claimed, len(names))
        with reader_errors(self.file_name, "a Parquet file"):
            cells = batch.to_table(schema=self.schema, columns=names)
        require_rows(self.file_name, cells.num_rows, claimed)
        return _numbers_and_texts(cells, self.category, self.label)

    def batches(self, names: Sequence[str] | None = None) -> Iterator[tuple[int, Any]]:
        """All batches, each with the number of its first row."""
        for number, start in enumerate(self.starts[:-1]):
            with errors_in(start=int(start)):
                batch = self.batch(number, names)
            yield int(start), batch

    def chosen(self, option: str, values: Sequence[str]) -> list[str]:
        """The columns that an option names, alone or in lists with commas, or by number."""
        if values and not self.has_columns:
            raise ValueError(f"{option} is for tables with named columns.")
        names = named_columns(self.names, values)
        unknown = [name for name in names if name not in self.names]
        if unknown:
            raise ValueError(f"{option}: {self._unknown(unknown[0])}")
        return names

    def without(self, names: Sequence[str]) -> DataTable:
        """The table without the columns named."""
        return replace(self, names=tuple(name for name in self.names if name not in names))

    def check_numbers(self, names: Sequence[str]) -> None:
        """Refuse columns of numbers with a few texts, which are typing errors."""
        for name in names:
            if name in self.stray:
                raise ValueError(self.stray[name])

    def split_target(
        self, target: str | None, skip_unlabelled: bool = False
    ) -> tuple[DataTable, Any, Any]:
        """The table without its labels, their distinct values, and the index of each label.

        Indices take less memory than texts. They are -1 for rows without a label, which are an
        error unless ``skip_unlabelled``.
        """
        if not self.has_columns:
            if self.y is None:
                raise ValueError("The file has no labels: an .npz file needs an array y.")
            name, features = "y", self
            batches = [_label_codes(self.y, name)]
        else:
            if target is None:
                raise ValueError(f"Choose with --target which of {listed(self.names)} to predict.")
            found = column_name(self.names, target)
            if found is None:
                raise ValueError(self._unknown(target))
            self.check_numbers([found])
            name, features, batches = found, self.without([found]), []
            for start, batch in self.batches([found]):
                with errors_in(start=start):
                    batches.append(_label_codes(batch[found].to_numpy(), found))
        classes, codes = _joined_codes(batches, name)
        unlabelled = np.flatnonzero(codes < 0)
        if len(unlabelled) and not skip_unlabelled:
            raise ValueError(
                f"{len(unlabelled):,} of {len(codes):,} rows have no label in column {name!r}, row "
                f"{unlabelled[0] + 1} first: add --skip-unlabelled to leave them out"
                f"{self.advice_on_labels(name)}."
            )
        return features, classes, codes

    def advice_on_labels(self, name: str) -> str:
        """How to keep labels that are words for missing cells, where a column has some."""
        words = self.missing_words.get(name)
        if not words:
            return ""
        counts = ", ".join(f"{word} in {count:,} rows" for word, count in words.items())
        return f", or --category {name} to keep words as classes ({counts})"

    def _unknown(self, name: str) -> str:
        """Why there is no column of a name, as far as the layout of the file tells."""
        layout, columns = self.layout, listed(self.names)
        if layout is None:
            return f"There is no column {name!r} among {columns}."
        if len(self.names) == 1:
            return (
                f"There is no column {name!r}: one column was found, {columns}. If it has several, "
                "name what separates them with --separator."
            )
        parts = f"{columns} (separated by {layout.describe_separator()})"
        if not layout.has_header:
            return (
                f"There is no column {name!r}: the file has no header, and its columns are "
                f"{parts}. Give one of these names, or a number from 1 to {len(self.names)}."
            )
        hint = (
            " The first line has numbers: if it is not a header, add --no-header."
            if layout.header_has_numbers
            else ""
        )
        return f"There is no column {name!r} among {parts}.{hint}"


def column_name(names: Sequence[str], name: str) -> str | None:
    """The column of a name, or of a number counted from 1; None if there is none."""
    if name in names:
        return name
    is_number = name.isdecimal() and 1 <= int(name) <= len(names)
    return names[int(name) - 1] if is_number else None


def named_columns(names: Sequence[str], values: Sequence[str]) -> list[str]:
    """Columns from values that are a name, a number, or several of them between commas."""
    found = []
    for value in values:
        parts = [value] if column_name(names, value) else value.split(",")
        found += [column_name(names, part.strip()) or part.strip() for part in parts]
    return found


@contextmanager
def errors_in(path: Path | str = "", start: int = 0) -> Iterator[None]:
    """Prefix errors with the file, and with the first row of the batch, that they are about."""
    try:
        yield
    except (FileNotFoundError, PermissionError, IsADirectoryError, BrokenPipeError):
        raise
    except (OSError, MemoryError) as error:
        is_memory = isinstance(error, MemoryError)
        problem = "needs more memory than there is" if is_memory else "cannot be read: is it whole?"
        raise ValueError(f"{path or 'the file'} {problem}") from error
    except ValueError as error:
        rows = f"counted from row {start + 1} on" if start else ""
        is_named = str(error).startswith(f"{Path(path).name} ")
        place = ", ".join(filter(None, ["" if is_named else str(path), rows]))
        raise ValueError(f"{place}: {error}" if place else str(error)) from error


@dataclass(frozen=True)
class TableFile:
    """A table on disk, and how it is to be read."""

    path: Path
    text_format: TextFormat = DETECTED
    skip_unlabelled: bool = False


def read_table(
    path: Path,
    *,
    category: Sequence[str] = (),
    label: str | None = None,
    names: Sequence[str] = (),
    text_format: TextFormat = DETECTED,
    n_features: int | None = None,
    max_bytes: float = np.inf,
    label_words: Collection[str] | None = None,
) -> DataTable:
    """Open a table: Parquet and .npz by the name of the file, text files by their content.

    A folder holds Parquet files. Parquet of more than ``max_bytes`` as float64 is read in batches.
    A text file that is not called .csv or .tsv may hold LIBSVM rows, which are ``n_features``
    wide. ``text_format`` is what is known of a text file, and ``names`` are columns that it should
    have. Columns in ``category`` stay texts, and so does ``label`` (a name or a number) where
    numbers would merge two of its texts. ``label_words`` are words such as NA that are labels in
    a text file; by default all of them, if ``label`` is in ``category``, or else none.
    Errors name the row and the column. ``category`` and ``names`` may be lists with commas.
    """
    kind = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    require_file(path)
    with errors_in(path):
        if is_parquet(path):
            table = _open_parquet(path, tuple(category), label, max_bytes)
        elif kind == "npz":
            table = _read_npz(path)
        elif kind in _LIBSVM_NAMES or _holds_libsvm(path, kind, text_format):
            table = _read_libsvm(path, n_features)
        else:
            expected = [*names, *category, *([] if label is None else [label])]
            layout = _layout(path, text_format, expected, "\t" if kind in ("tsv", "tab") else ",")
            table = _read_text_file(path, layout, category, label, label_words)
    if not table.n_rows:
        raise ValueError(f"{path} has no rows.")
    return table


def _layout(path: Path, given: TextFormat, values: Sequence[str], preferred: str) -> TextLayout:
    """How a text file holds its table; ``values`` name columns that it should have."""
    expected = {*values, *named_columns((), values)}
    with _encoding_errors(given.encoding or "that was detected"):
        layout = detect_layout(
            lambda: pa.input_stream(str(path)), given, expected=expected, preferred=preferred
        )
    if given.encoding is None and layout.encoding in ("cp1252", "latin-1"):
        say(f"note: {path.name} is not UTF-8 and read as {layout.encoding}; see --encoding")
    is_known = given.header is not None or not expected.isdisjoint(layout.names)
    if not (layout.has_header or is_known):
        say(
            f"note: {path.name} seems to have no header, and its first line is read as a "
            "row; --header if that is wrong"
        )
    return layout


def _read_text_file(
    path: Path,
    layout: TextLayout,
    category: Sequence[str],
    label: str | None,
    label_words: Collection[str] | None,
) -> DataTable:
    label = None if label is None else column_name(layout.names, label)
    category = named_columns(layout.names, category)
    if label_words is None:
        label_words = MISSING_CELLS[1:] if label in category else ()
    with _encoding_errors(layout.encoding):
        columns = read_text(path, layout, category, label, label_words)
    return replace(
        _in_memory(columns.table),
        layout=layout,
        stray=columns.stray,
        missing_words=columns.missing_words,
    )


@contextmanager
def _encoding_errors(encoding: str) -> Iterator[None]:
    try:
        yield
    except UnicodeError as error:
        raise ValueError(
            f"it is not in the encoding {encoding[:40]}: leave out --encoding, or name another."
        ) from error


def is_parquet(path: Path) -> bool:
    """Whether a table is a Parquet file, or a folder, which can only hold those."""
    return path.is_dir() or path.suffix.lower() in (".parquet", ".pq")


def _open_parquet(
    path: Path, category: tuple[str, ...], label: str | None, max_bytes: float
) -> DataTable:
    files = parquet_files(path)
    schema, counts = _common_schema(files)
    category = tuple(named_columns(schema.names, category))
    label = None if label is None else column_name(schema.names, label)
    # Row groups are streamed through a small buffer, and not fetched whole before decoding: that
    # would double the memory that a batch takes.
    options = dataset.ParquetFragmentScanOptions(use_buffered_stream=True, pre_buffer=False)
    is_small = 8 * sum(counts) * len(schema.names) <= max_bytes
    if is_small:
        require_memory("it", sum(counts), len(schema.names))
    with reader_errors("it", "Parquet data"):
        data = dataset.dataset(
            [str(file) for file in files],
            schema,
            dataset.ParquetFileFormat(default_fragment_scan_options=options),
        )
        groups = [group for file in data.get_fragments() for group in file.split_by_row_group()]
        starts = group_starts(counts)
        whole = data.to_table() if is_small else None
    if len(groups) != len(counts) or (whole is not None and whole.num_rows != starts[-1]):
        raise ValueError("it is corrupt: it does not have the rows that it claims.")
    if whole is None:
        if label is not None and label not in category and _are_long(groups, schema, label):
            category = (*category, label)
        names = tuple(schema.names)
        table = DataTable(names, tuple(groups), starts, schema, category, label)
        return replace(table, file_name=path.name)
    return _in_memory(_numbers_and_texts(whole, category, label))


def _common_schema(files: list[Path]) -> tuple[Any, list[int]]:
    """A schema that all files fit, with decimals where some have whole numbers; rows per group."""
    schemas, counts = [], []
    for file in files:
        schema, own = read_schema(file)
        schemas.append(schema)
        counts += own
        if set(schemas[-1].names) != set(schemas[0].names):
            raise ValueError(f"{file.name} has other columns than {files[0].name}")
    try:
        return pa.unify_schemas(schemas, promote_options="permissive"), counts
    except pa.ArrowException as error:
        raise ValueError(
            "a column holds numbers in one file and texts, or true and false, in another: write "
            f"it with one type ({str(error).splitlines()[0][:200]})"
        ) from error


def _in_memory(table: Any) -> DataTable:
    return DataTable(tuple(table.column_names), (table,), np.array([0, table.num_rows]))


def _numbers_and_texts(table: Any, category: Sequence[str], label: str | None) -> Any:
    """An Arrow table whose columns are float64, or string where they are not numbers."""
    columns = {}
    for name in table.column_names:
        cells = table[name]
        is_name = name in category or (name == label and _has_long_integers(cells))
        with reader_errors(f"its column {name!r}", "of values that can be read"):
            if is_number_type(cells.type) and not is_name:
                columns[name] = cells.cast(pa.float64(), safe=False)
            else:
                texts, codes = distinct_texts(cells)
                columns[name] = pa.array(texts, pa.string()).take(pa.array(codes))
    return pa.table(columns)


def is_number_type(kind: Any) -> bool:
    """Whether an Arrow type is one of numbers."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def _are_long(groups: list[Any], schema: Any, label: str) -> bool:
    """Whether labels are too long for float64 in some row group: they are texts in all then."""
    if not pa.types.is_integer(schema.field(label).type):
        return False
    with reader_errors("it", "Parquet data"):
        columns = (group.to_table(schema=schema, columns=[label])[label] for group in groups)
        return any(map(_has_long_integers, columns))


def _has_long_integers(cells: Any) -> bool:
    """Whether whole numbers are too long for float64."""
    if not pa.types.is_integer(cells.type):
        return False
    bounds = compute.min_max(cells).as_py().values()
    return any(bound is not None and abs(bound) >= MAX_EXACT_INTEGER for bound in bounds)


def _holds_libsvm(path: Path, kind: str, text_format: TextFormat) -> bool:
    if kind in ("csv", "tsv", "tab") or text_format.is_given:
        return False
    with pa.input_stream(str(path)) as stream:
        start = stream.read(_MAX_SAMPLE_BYTES)
    return is_libsvm(start.decode("latin-1"))


def _read_npz(path: Path) -> DataTable:
    arrays = read_npz(path, "Xtr", "ytr", "X", "y")
    keys = ("Xtr", "ytr") if "Xtr" in arrays else ("X", "y")
    if keys[0] not in arrays:
        raise ValueError("it needs an array X, and y for labels.")
    X, y = arrays[keys[0]], arrays.get(keys[1])
    if X.ndim != 2 or X.dtype.kind not in "iufb" or (y is not None and y.shape != X.shape[:1]):
        raise ValueError("X must be a two-dimensional array of numbers, and y one label per row.")
    if y is not None and y.dtype.kind not in "iufbUS":
        raise ValueError(f"y must hold numbers or texts, not {y.dtype}.")
    if y is not None and y.dtype.kind == "S":
        y = np.char.decode(y, "utf-8", "backslashreplace")
    with np.errstate(over="ignore"):
        return _plain_rows(X.astype(np.float32), y)


def _read_libsvm(path: Path, n_features: int | None) -> DataTable:
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(str(path), n_features=n_features, dtype=np.float32)
    except (FileNotFoundError, PermissionError, MemoryError):
        raise
    except Exception as error:  # it does not define what it raises
        problem = _libsvm_problem(path, n_features)
        raise ValueError(f"its first lines are LIBSVM rows, but {problem}") from error
    n_bytes = 4 * X.shape[0] * X.shape[1]
    # memory grows with the file and not with an index in it
    if n_bytes > min(_MAX_DENSE_BYTES, _FREE_BYTES + _MAX_EXPANSION * path.stat().st_size):
        raise ValueError(
            f"{X.shape[0]} rows of {X.shape[1]} features are too many for the command line; "
            "CompactKernelClassifier takes them as a sparse matrix."
        )
    return _plain_rows(X.toarray(), y)


def _libsvm_problem(path: Path, n_features: int | None) -> str:
    """What is wrong with the first line that is not a LIBSVM row."""
    limit = _MAX_INDEX if n_features is None else n_features
    with reader_errors("it", "complete"), pa.input_stream(str(path)) as stream:
        for number, line in enumerate(open_text(stream, "utf-8"), 1):
            row = line.partition("#")[0].strip()
            place = f"line {number}, {row[:40]!r},"
            if row and not (is_libsvm(row) and _has_numbers(row)):
                return f"{place} is not a label and pairs of index:value."
            indices = [int(index.lstrip("0")[:20] or 0) for index in re.findall(r"\s(\d+):", row)]
            if max(indices, default=0) > limit:
                return f"{place} has the index {max(indices)}, and the largest is {limit}."
            if sorted(set(indices)) != indices:
                return f"{place} has indices that do not ascend."
    return "one of its lines cannot be read."


def _has_numbers(row: str) -> bool:
    """Whether the label and the values of a LIBSVM row are numbers."""
    try:
        [float(cell.rpartition(":")[2]) for cell in row.split()]
    except ValueError:
        return False
    return True


def _plain_rows(X: Any, y: Any) -> DataTable:
    if not X.shape[1]:
        raise ValueError("it has no features.")
    wrong = np.argwhere(~np.isfinite(X))
    if len(wrong):
        row, column = wrong[0]
        what = "missing" if np.isnan(X[row, column]) else "infinite, or too large for float32"
        raise ValueError(f"row {row + 1}, column {column + 1}: the number is {what}.")
    return DataTable(X=X, y=y, starts=(0, len(X)))


def _label_codes(values: Any, name: str) -> tuple[Any, Any]:
    """Distinct labels of a batch, and the index of each label, -1 where it is missing."""
    if values.dtype.kind == "f":
        is_missing = np.isnan(values)
        if np.isinf(values).any():
            row = int(np.flatnonzero(np.isinf(values))[0])
            raise ValueError(f"Row {row + 1}, column {name!r}: {values[row]} is not a label.")
    elif values.dtype.kind == "O":
        is_missing = np.array([value is None for value in values], dtype=bool)
    else:
        is_missing = np.zeros(len(values), dtype=bool)
    known = values[~is_missing]
    if known.dtype.kind == "O":
        known = known.astype(str)
    elif known.dtype.kind == "f":
        known = known.astype(np.float64)
        # exact: every larger number is whole, and many are beyond int64
        if (known == np.rint(known)).all() and (np.abs(known) < MAX_EXACT_INTEGER).all():
            known = known.astype(np.int64)
    codes = np.full(len(values), -1, dtype=np.int32)
    labels, codes[~is_missing] = np.unique(known, return_inverse=True)
    return labels, codes


def _joined_codes(batches: list[tuple[Any, Any]], name: str) -> tuple[Any, Any]:
    """Distinct labels of all batches, and the index of each label in them."""
    distinct = [labels for labels, _ in batches if len(labels)]
    if not distinct:
        raise ValueError(f"Column {name!r} has no labels at all.")
    if len({labels.dtype.kind == "U" for labels in distinct}) > 1:
        raise ValueError(
            f"Column {name!r} holds numbers in some row groups and texts in others: write it with "
            "one type."
        )
    classes = np.unique(np.concatenate(distinct))
    # a last entry for the code -1, which stays
    tables = [np.append(np.searchsorted(classes, labels), -1) for labels, _ in batches]
    pairs = zip(tables, batches, strict=True)
    return classes, np.concatenate([table.astype(np.int32)[codes] for table, (_, codes) in pairs])


def file_digest(path: Path) -> str:
    """SHA-256 of a file, or of the names and digests of a folder's Parquet files."""
    if path.is_dir():
        lines = [f"{file.name} {file_digest(file)}" for file in parquet_files(path)]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
