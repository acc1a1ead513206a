"""One object for tables of every kind: CSV and Parquet through pyarrow.dataset, .npz, LIBSVM."""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute, dataset, parquet
from pyarrow import csv as arrow_csv

from kernlet.console import reading_bar, say
from kernlet.rows.parquet import parquet_files
from kernlet.tables.encode import distinct_texts, listed
from kernlet.tables.sniff import (
    COMMAS_FOR_THOUSANDS,
    DECIMAL_COMMA,
    DETECTED,
    MISSING_CELLS,
    POINTS_FOR_THOUSANDS,
    WHITE_SPACE,
    TextFormat,
    TextLayout,
    detect_layout,
    is_libsvm,
    open_text,
    split_lines,
)

_MOSTLY = 0.9  # a column with a larger share of numbers is numeric: texts in it are typing errors
_MAX_SAMPLE_BYTES = 1 << 16
_CSV_BLOCK_BYTES = 1 << 22
_ROWS_PER_BLOCK = 1000  # of files that are separated by spaces
_LIBSVM_NAMES = ("libsvm", "svm", "svmlight")
_LEADING_ZERO = r"^[+-]?0\d+$"
_MAX_EXACT_INTEGER = 2.0**53  # above it, float64 no longer tells neighbouring integers apart
_MAX_DENSE_BYTES = 1 << 30  # of LIBSVM rows as dense float32


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
        cells = batch.to_table(schema=self.schema, columns=names)
        return _numbers_and_texts(cells, self.category, self.label)

    def batches(self, names: Sequence[str] | None = None) -> Iterator[tuple[int, Any]]:
        """All batches, each with the number of its first row."""
        for number, start in enumerate(self.starts[:-1]):
            yield int(start), self.batch(number, names)

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
                f"{len(unlabelled):,} of {len(codes):,} rows have no label in column {name!r} "
                f"(empty, NA, None and the like), row {unlabelled[0] + 1} first: add "
                "--skip-unlabelled to leave them out."
            )
        return features, classes, codes

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
    except ValueError as error:
        rows = f"counted from row {start + 1} on" if start else ""
        place = ", ".join(filter(None, [str(path), rows]))
        raise ValueError(f"{place}: {error}" if place else str(error)) from None


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
) -> DataTable:
    """Open a table: Parquet and .npz by the name of the file, text files by their content.

    A folder holds Parquet files. Parquet of more than ``max_bytes`` as float64 is read in batches.
    A text file that is not called .csv or .tsv may hold LIBSVM rows, which are ``n_features``
    wide. ``text_format`` is what is known of a text file, and ``names`` are columns that it should
    have. Columns in ``category`` stay texts, and so does ``label`` (a name or a number) where
    numbers would merge two of its texts. Errors name the row and the column. ``category`` and
    ``names`` may be lists with commas.
    """
    kind = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    with errors_in(path):
        if is_parquet(path):
            table = _open_parquet(path, tuple(category), label, max_bytes)
        elif kind == "npz":
            table = _read_npz(path)
        elif kind in _LIBSVM_NAMES or _holds_libsvm(path, kind, text_format):
            table = _read_libsvm(path, n_features)
        else:
            values = [*names, *category, *([] if label is None else [label])]
            expected = {*values, *named_columns((), values)}
            preferred = "\t" if kind in ("tsv", "tab") else ","
            layout = detect_layout(
                lambda: pa.input_stream(str(path)),
                text_format,
                expected=expected,
                preferred=preferred,
            )
            if text_format.encoding is None and layout.encoding in ("cp1252", "latin-1"):
                say(f"note: {path.name} is not UTF-8 and read as {layout.encoding}; see --encoding")
            is_known = text_format.header is not None or not expected.isdisjoint(layout.names)
            if not (layout.has_header or is_known):
                say(
                    f"note: {path.name} seems to have no header, and its first line is read as a "
                    "row; --header if that is wrong"
                )
            table = _read_csv(path, layout, category, label)
    if not table.n_rows:
        raise ValueError(f"{path} has no rows.")
    return table


def is_parquet(path: Path) -> bool:
    """Whether a table is a Parquet file, or a folder, which can only hold those."""
    return path.is_dir() or path.suffix.lower() in (".parquet", ".pq")


def _open_parquet(
    path: Path, category: tuple[str, ...], label: str | None, max_bytes: float
) -> DataTable:
    files = parquet_files(path)
    schema = _common_schema(files)
    category = tuple(named_columns(schema.names, category))
    label = None if label is None else column_name(schema.names, label)
    # Row groups are streamed through a small buffer, and not fetched whole before decoding: that
    # would double the memory that a batch takes.
    options = dataset.ParquetFragmentScanOptions(use_buffered_stream=True, pre_buffer=False)
    try:
        data = dataset.dataset(
            [str(file) for file in files],
            schema,
            dataset.ParquetFileFormat(default_fragment_scan_options=options),
        )
        groups = [group for file in data.get_fragments() for group in file.split_by_row_group()]
        counts = [group.row_groups[0].num_rows for group in groups]
        table = DataTable(
            tuple(schema.names),
            tuple(groups),
            np.concatenate([[0], np.cumsum(counts)]).astype(np.intp),
            schema,
            category,
            label,
        )
        if 8 * table.n_rows * len(table.names) > max_bytes:
            return table
        whole = data.to_table()
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"corrupt Parquet data ({str(error).splitlines()[0]})") from None
    return _in_memory(_numbers_and_texts(whole, category, label))


def _common_schema(files: list[Path]) -> Any:
    """A schema that all files fit: whole numbers in one and decimals in another are decimals."""
    schemas = []
    for file in files:
        try:
            schemas.append(parquet.read_schema(file))
        except (pa.ArrowInvalid, OSError) as error:
            reason = str(error).splitlines()[0]
            raise ValueError(f"{file.name} is corrupt, or not a Parquet file ({reason})") from None
        if set(schemas[-1].names) != set(schemas[0].names):
            raise ValueError(f"{file.name} has other columns than {files[0].name}")
    try:
        return pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(
            "a column holds numbers in one file and texts, or true and false, in another: write "
            f"it with one type ({str(error).splitlines()[0]})"
        ) from None


def _in_memory(table: Any) -> DataTable:
    return DataTable(tuple(table.column_names), (table,), np.array([0, table.num_rows]))


def _numbers_and_texts(table: Any, category: Sequence[str], label: str | None) -> Any:
    """An Arrow table whose columns are float64, or string where they are not numbers."""
    columns = {}
    for name in table.column_names:
        cells = table[name]
        is_name = name in category or (name == label and _has_long_integers(cells))
        if is_number_type(cells.type) and not is_name:
            columns[name] = cells.cast(pa.float64(), safe=False)
        else:
            texts, codes = distinct_texts(cells)
            columns[name] = pa.array(texts, pa.string()).take(pa.array(codes))
    return pa.table(columns)


def is_number_type(kind: Any) -> bool:
    """Whether an Arrow type is one of numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _has_long_integers(cells: Any) -> bool:
    """Whether whole numbers are too long for float64."""
    if not pa.types.is_integer(cells.type):
        return False
    bounds = compute.min_max(cells).as_py().values()
    return any(bound is not None and abs(bound) >= _MAX_EXACT_INTEGER for bound in bounds)


# CSV has no types. All cells are read as bytes first, and a column becomes numbers only if every
# cell parses: pyarrow's own inference looks at the first block alone and would refuse a text that
# follows later, or silently turn the labels 01 and 1 into one class. pyarrow reads the cells
# (quotes, line ends in cells, gzip, byte order mark); the header is read before, because pyarrow
# accepts repeated and numeric names.


def _read_csv(
    path: Path, layout: TextLayout, category: Sequence[str], label: str | None
) -> DataTable:
    """A text file in memory; commas in cells may be decimal commas or separate thousands."""
    label = None if label is None else column_name(layout.names, label)
    category = named_columns(layout.names, category)
    cells = _read_cells(path, layout)
    columns, stray = {}, {}
    commas: dict[str, list[str]] = {}
    for name in layout.names:
        columns[name] = compute.utf8_trim_whitespace(_decoded(cells[name], name))
        if name not in category:
            texts, meaning = _without_commas(columns[name], layout.separator)
            columns[name], stray[name] = _numbers_or_texts(texts, name, name == label)
            if meaning:
                commas.setdefault(meaning, []).append(name)
    for meaning, names in commas.items():
        say(f"note: {meaning} in {listed(names)}")
    last = layout.names[-1]
    if layout.has_row_names:
        say(f"note: the first column of {path.name} has no name; it is left out as row names")
        del columns[layout.names[0]]
    elif last == f"column_{len(columns)}" and columns[last].null_count == cells.num_rows > 0:
        del columns[last]  # every line ends in a separator
    stray = {name: message for name, message in stray.items() if message}
    return replace(_in_memory(pa.table(columns)), layout=layout, stray=stray)


def _read_cells(path: Path, layout: TextLayout) -> Any:
    names = list(layout.names)
    options = arrow_csv.ReadOptions(
        use_threads=False,  # errors of parallel readers do not know their row
        block_size=_CSV_BLOCK_BYTES,
        column_names=names,
        skip_rows_after_names=int(layout.has_header),
    )
    parse = arrow_csv.ParseOptions(newlines_in_values=True)
    convert = arrow_csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.binary()),
        null_values=MISSING_CELLS,
        strings_can_be_null=True,
    )
    try:
        with reading_bar(path) as advance, pa.input_stream(str(path)) as stream:
            if layout.separator == WHITE_SPACE:  # unknown to pyarrow
                parse.delimiter = "\t"
                text = open_text(stream, layout.encoding)
                lines = itertools.islice(text, layout.n_skipped, None)
                stream = pa.PythonFile(_TabSeparated(lines), "r")
            else:
                parse.delimiter = layout.separator
                options.encoding, options.skip_rows = layout.encoding, layout.n_skipped
            batches = []
            with arrow_csv.open_csv(stream, options, parse, convert) as reader:
                for batch in reader:
                    batches.append(batch)
                    advance(batch.nbytes)
                return pa.Table.from_batches(batches, schema=reader.schema)
    except (pa.ArrowException, csv.Error) as error:
        message = str(error).splitlines()[0].rpartition("CSV parse error: ")[2]
        # pyarrow counts all lines
        skipped = options.skip_rows + layout.has_header
        message = re.sub(r"^Row #(\d+):", lambda row: f"Row {int(row[1]) - skipped}:", message)
        raise ValueError(message) from None


class _TabSeparated(io.RawIOBase):
    """Lines with runs of spaces between their cells, as a binary file with tabs instead."""

    def __init__(self, lines: Any) -> None:
        self._rows, self._rest = split_lines(lines, WHITE_SPACE), b""

    def readable(self) -> bool:
        """It can be read."""
        return True

    def read(self, size: int = -1) -> bytes:
        """The next bytes, fewer at the end."""
        parts, n_bytes = [self._rest], len(self._rest)
        while size < 0 or n_bytes < size:
            rows = list(itertools.islice(self._rows, _ROWS_PER_BLOCK))
            if not rows:
                break
            text = io.StringIO()
            csv.writer(text, delimiter="\t", lineterminator="\n").writerows(filter(any, rows))
            parts.append(text.getvalue().encode())
            n_bytes += len(parts[-1])
        content = b"".join(parts)
        size = len(content) if size < 0 else size
        self._rest = content[size:]
        return content[:size]


def _holds_libsvm(path: Path, kind: str, text_format: TextFormat) -> bool:
    if kind in ("csv", "tsv", "tab") or text_format.is_given:
        return False
    with pa.input_stream(str(path)) as stream:
        start = stream.read(_MAX_SAMPLE_BYTES)
    return is_libsvm(start.decode("latin-1"))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _numbers_or_texts(texts: Any, name: str, is_label: bool) -> tuple[Any, str]:
    """Numbers where all cells are, else texts; an error for the column if only a few are texts."""
    try:
        numbers = compute.cast(texts, pa.float64())
    except pa.ArrowInvalid:
        known = [(row, text) for row, text in enumerate(texts.to_pylist()) if text is not None]
        stray = [(row, text) for row, text in known if not _is_number(text)]
        if stray and len(stray) < (1 - _MOSTLY) * len(known):
            row, text = stray[0]
            return texts, (
                f"row {row + 1}, column {name!r}: {text[:40]!r} is not a number, as the others "
                f"are; correct it, or add --category {name}."
            )
        return texts, ""
    return (texts if is_label and _merges_labels(texts, numbers) else numbers), ""


def _decoded(cells: Any, name: str) -> Any:
    try:
        return cells.cast(pa.string())
    except pa.ArrowInvalid:
        for row, cell in enumerate(cells.to_pylist()):
            if cell is not None and cell.decode("utf-8", errors="replace").encode() != cell:
                raise ValueError(
                    f"row {row + 1}, column {name!r} is not in the encoding that was given: leave "
                    "out --encoding, or name another."
                ) from None
        raise


def _without_commas(texts: Any, separator: str) -> tuple[Any, str]:
    """Numbers as Python writes them, and what their commas mean; other texts as they are.

    Whole numbers among them need no comma. The meaning is the one that fits most cells, and
    nearly all; 1,234 is 1.234 unless commas also separate the cells.
    """
    if not compute.any(compute.match_substring(texts, ",")).as_py():
        return texts, ""
    thousands = {"commas that separate thousands": COMMAS_FOR_THOUSANDS}
    meanings = {
        **(thousands if separator == "," else {}),  # the first of equals is taken
        "decimal commas": DECIMAL_COMMA,
        "decimal commas, and points that separate thousands,": POINTS_FOR_THOUSANDS,
        **thousands,
    }
    counts = {
        meaning: compute.sum(compute.match_substring_regex(texts, f"^({form})$")).as_py()
        for meaning, form in meanings.items()
    }
    meaning = max(counts, key=counts.__getitem__)
    if counts[meaning] < _MOSTLY * (len(texts) - texts.null_count):
        return texts, ""
    group = "," if meaning.startswith("commas") else "."
    plain = compute.replace_substring(texts, group, "")
    return compute.replace_substring(plain, ",", "."), meaning


def _merges_labels(texts: Any, numbers: Any) -> bool:
    """Whether labels such as 01 and 1, or very long numbers, would become one as numbers."""
    if compute.any(compute.match_substring_regex(texts, _LEADING_ZERO)).as_py():
        return True
    largest = compute.max(compute.abs(numbers)).as_py() or 0.0
    return _MAX_EXACT_INTEGER <= largest < float("inf")


def _read_npz(path: Path) -> DataTable:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            keys = ("Xtr", "ytr") if "Xtr" in arrays else ("X", "y")
            if keys[0] not in arrays:
                raise ValueError("it needs an array X, and y for labels.")
            X, y = arrays[keys[0]], arrays.get(keys[1])
    except (zipfile.BadZipFile, zlib.error, EOFError, TypeError):
        raise ValueError("it is corrupt, or not an .npz file of plain arrays.") from None
    if X.ndim != 2 or X.dtype.kind not in "iufb" or (y is not None and y.shape != X.shape[:1]):
        raise ValueError("X must be a two-dimensional array of numbers, and y one label per row.")
    return _plain_rows(X.astype(np.float32), y)


def _read_libsvm(path: Path, n_features: int | None) -> DataTable:
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(str(path), n_features=n_features, dtype=np.float32)
    except (ValueError, IndexError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"its first lines are LIBSVM rows, but it cannot be read as such ({reason})"
        ) from None
    if 4 * X.shape[0] * X.shape[1] > _MAX_DENSE_BYTES:
        raise ValueError(
            f"{X.shape[0]} rows of {X.shape[1]} features are too many for the command line; "
            "CompactKernelClassifier takes them as a sparse matrix."
        )
    return _plain_rows(X.toarray(), y)


def _plain_rows(X: Any, y: Any) -> DataTable:
    wrong = np.argwhere(~np.isfinite(X))
    if len(wrong):
        row, column = wrong[0]
        raise ValueError(
            f"row {row + 1}, column {column + 1}: {X[row, column]} is not a finite number."
        )
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
    elif known.dtype.kind == "f" and (known == np.rint(known)).all():
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
