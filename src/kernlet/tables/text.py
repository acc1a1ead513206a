"""Cells of text files: numbers, texts and missing ones."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import compute
from pyarrow import csv as arrow_csv

from kernlet.console import reading_bar, say
from kernlet.rows.source import memory_bytes
from kernlet.tables.encode import listed
from kernlet.tables.sniff import (
    COMMAS_FOR_THOUSANDS,
    DECIMAL_COMMA,
    MISSING_CELLS,
    POINTS_FOR_THOUSANDS,
    WHITE_SPACE,
    TextLayout,
    long_cells,
    open_text,
    split_lines,
)

# How this works
#
# CSV has no types. All cells are read as bytes first, and a column becomes numbers only if every
# cell parses: pyarrow's own inference looks at the first block alone and would refuse a text that
# follows later, or silently turn the labels 01 and 1 into one class. pyarrow reads the cells
# (quotes, line ends in cells, gzip, byte order mark); the header is read before, because pyarrow
# accepts repeated and numeric names.

_MOSTLY = 0.9  # a column with a larger share of numbers is numeric: texts in it are typing errors
# Bytes that are parsed at a time. A row must fit: where one does not, the larger size is tried.
_BLOCK_BYTES = (1 << 22, 1 << 28)
_ROWS_PER_BLOCK = 1000  # of files that are separated by spaces
_LEADING_ZERO = r"^[+-]?0\d+$"
_LAST_ZEROS = (r"(\.\d*[1-9])0+$", r"\1")  # of versions; 1, 1.0 and 1.00 are one label
#: Above it, float64 no longer tells neighbouring integers apart.
MAX_EXACT_INTEGER = 2.0**53
_MAX_MEMORY_SHARE = 0.5  # of the computer's memory, for the cells of a file, which may be packed
_MAX_MESSAGE = 200  # characters; pyarrow quotes whole rows


@dataclass(frozen=True, eq=False)
class TextColumns:
    """The columns of a text file, each float64 or string, and null where a cell is missing."""

    table: Any
    stray: dict[str, str]  # an error for each column of numbers with a few texts
    missing_words: dict[str, dict[str, int]]  # words other than "" that count as missing


def read_text(
    path: Path,
    layout: TextLayout,
    category: Sequence[str],
    label: str | None,
    label_words: Collection[str] = (),
) -> TextColumns:
    """A text file in memory; commas in cells may be decimal commas or separate thousands.

    Columns in ``category`` stay texts. ``label_words`` are words for missing cells that are labels.
    """
    cells = _read_cells(path, layout)
    categories = set(category)
    columns, stray, words = {}, {}, {}
    commas: dict[str, list[str]] = {}
    for name in layout.names:
        trimmed = compute.utf8_trim_whitespace(_decoded(cells[name], name))
        columns[name], words[name] = _without_missing(trimmed, label_words if name == label else ())
        if name not in categories:
            texts, meaning = _without_commas(columns[name], layout.separator)
            columns[name], stray[name] = _numbers_or_texts(texts, name, name == label)
            if meaning:
                commas.setdefault(meaning, []).append(name)
    for meaning, names in commas.items():
        say(f"note: {meaning}, in {listed(names)}")
    last = layout.names[-1]
    if layout.has_row_names:
        say(f"note: the first column of {path.name} has no name; it is left out as row names")
        del columns[layout.names[0]]
    elif last == f"column_{len(columns)}" and columns[last].null_count == cells.num_rows > 0:
        del columns[last]  # every line ends in a separator
    words = {name: words[name] for name in columns if words[name]}
    if words:
        say(f"note: counted as missing: {describe_words(words)}")
    stray = {name: message for name, message in stray.items() if message}
    return TextColumns(pa.table(columns), stray, words)


def describe_words(words: dict[str, dict[str, int]]) -> str:
    """Words for missing cells, and how often columns have them."""
    counts = [
        f"{word!r} in column {name!r} ({count:,} cell{'s'[: count - 1]})"
        for name, own in itertools.islice(words.items(), 5)
        for word, count in own.items()
    ]
    more = f" and in {len(words) - 5} more columns" if len(words) > 5 else ""
    return ", ".join(counts) + more


def _without_missing(texts: Any, kept: Collection[str]) -> tuple[Any, dict[str, int]]:
    """Null for the words that mean a missing cell, and how often they occur, except for ""."""
    words = pa.array([word for word in MISSING_CELLS if word not in kept])
    is_missing = compute.is_in(texts, value_set=words)
    counts = texts.filter(is_missing).value_counts().to_pylist()
    if not counts:
        return texts, {}
    texts = compute.if_else(is_missing, pa.scalar(None, pa.string()), texts)
    return texts, {entry["values"]: entry["counts"] for entry in counts if entry["values"]}


def _read_cells(path: Path, layout: TextLayout) -> Any:
    """The cells as bytes, without those of the header."""
    for block_bytes in _BLOCK_BYTES:
        try:
            with reading_bar(path) as advance, pa.input_stream(str(path)) as stream:
                return _parsed(stream, layout, block_bytes, advance)
        except (pa.ArrowException, csv.Error) as error:
            message = (str(error).splitlines() or [""])[0]
            if "straddles" in message and block_bytes < _BLOCK_BYTES[-1]:
                continue
            raise ValueError(_parse_error(message, layout)) from error
    raise AssertionError("the last size returns or raises")


def _parse_error(message: str, layout: TextLayout) -> str:
    """A sentence for what pyarrow or the parser of Python says."""
    if "straddles" in message or "field larger" in message:
        return (
            "a row or a cell is too long for a table: a quote may not be closed, or the cells may "
            "be separated in another way (--separator)."
        )
    message = message.rpartition("CSV parse error: ")[2]
    # pyarrow counts all lines
    skipped = layout.n_skipped + layout.has_header
    if layout.separator == WHITE_SPACE:
        skipped = layout.has_header
    message = re.sub(r"^Row #(\d+):", lambda row: f"Row {int(row[1]) - skipped}:", message)
    return message if len(message) < _MAX_MESSAGE else f"{message[:_MAX_MESSAGE]} ..."


def _parsed(
    stream: Any, layout: TextLayout, block_bytes: int, advance: Callable[[int], None]
) -> Any:
    names = list(layout.names)
    options = arrow_csv.ReadOptions(
        use_threads=False,  # errors of parallel readers do not know their row
        block_size=block_bytes,
        column_names=names,
        skip_rows_after_names=int(layout.has_header),
    )
    parse = arrow_csv.ParseOptions(newlines_in_values=True)
    # words for missing cells are found later: spaces may surround them
    convert = arrow_csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.binary()), null_values=[], strings_can_be_null=False
    )
    if layout.separator == WHITE_SPACE:  # unknown to pyarrow
        parse.delimiter = "\t"
        lines = itertools.islice(open_text(stream, layout.encoding), layout.n_skipped, None)
        stream = pa.PythonFile(_TabSeparated(lines), "r")
    else:
        parse.delimiter = layout.separator
        options.encoding, options.skip_rows = layout.encoding, layout.n_skipped
    batches, n_bytes = [], 0
    with arrow_csv.open_csv(stream, options, parse, convert) as reader:
        for batch in reader:
            batches.append(batch)
            n_bytes += batch.nbytes
            advance(batch.nbytes)
            if n_bytes > _MAX_MEMORY_SHARE * memory_bytes():
                raise ValueError(
                    "its cells take more than half of the memory: write a Parquet file, which is "
                    "read in batches."
                )
        return pa.Table.from_batches(batches, schema=reader.schema)


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
            with long_cells():
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
    """Numbers as Python writes them, and what their commas mean, with an example; other texts too.

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
    plain = compute.replace_substring(plain, ",", ".")
    first = compute.index(compute.match_substring(texts, ","), True).as_py()
    return plain, f"{meaning} ({texts[first].as_py()!r} is read as {plain[first].as_py()})"


def _merges_labels(texts: Any, numbers: Any) -> bool:
    """Whether labels such as 01 and 1, 1.1 and 1.10, or very long numbers, would become one."""
    if compute.any(compute.match_substring_regex(texts, _LEADING_ZERO)).as_py():
        return True
    distinct = compute.unique(texts)
    if len(compute.unique(compute.replace_substring_regex(distinct, *_LAST_ZEROS))) < len(distinct):
        return True
    largest = compute.max(compute.abs(numbers)).as_py() or 0.0
    return MAX_EXACT_INTEGER <= largest < float("inf")
