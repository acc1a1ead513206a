"""Columns of CSV and TSV files: numbers, or texts, with the cell that is wrong named."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernlet.cli.progress import reading_bar

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
