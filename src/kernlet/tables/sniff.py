"""How a text file holds a table: its encoding, separator and header."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

# How this works
#
# The encoding is found first: by a byte order mark, else UTF-8 if every byte of the file fits, else
# Windows-1252. The first 200 lines are then split by every candidate separator, with a parser that
# knows quotes. A separator is scored by the product of
#
# - the share of the lines with as many cells as the first line, which is more than one, and
# - the share of the cells that are clean: numbers, dates, or texts without another separator.
#
# The second factor settles what counts alone cannot: "1,5;2,5" has two commas in every line, but
# the cell "5;2" is not clean, whereas "1,5" is a number with a decimal comma. Ties go to the first
# candidate. Where no separator scores, the file has one column.
#
# The first line is a header if one of its cells is a text above numbers (or above dates), and a row
# if it has a number above numbers, or a text that occurs again below it. Without such a sign it is
# a header. Names that the caller expects decide before all this.
#
# Empty lines, comments (#) and the line sep=; of spreadsheets may come before the table. A line
# with # is the header if it has as many cells as the next one, which is not a header itself.

MISSING_CELLS = ["", "NA", "N/A", "nan", "NaN", "NAN", "null", "NULL", "None", "?"]
WHITE_SPACE = " "  # the separator that stands for runs of spaces and tabs
ONE_COLUMN = "\x1f"  # a control character that no table has
_SEPARATORS = (",", ";", "\t", "|", WHITE_SPACE)
_SEPARATOR_NAMES = {
    **{"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t"},
    **{"pipe": "|", "space": WHITE_SPACE, "spaces": WHITE_SPACE},
}
_MIN_SCORE = 0.5
_MAX_SAMPLE_LINES = 200
_MAX_SAMPLE_CHARACTERS = 1 << 20
_MAX_CELL_CHARACTERS = 1 << 24
_MAX_NUMBER_CHARACTERS = 400  # the largest float64 has 309 digits
_BLOCK_BYTES = 1 << 20
#: A number as Python writes it.
PLAIN_NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
#: Numbers with commas, in columns that have some: 1,5 or 2; 1.234,5 or 1,5 or 2; 1,234.5 or 2.5.
DECIMAL_COMMA = r"[+-]?\d*,?\d+([eE][+-]?\d+)?"
POINTS_FOR_THOUSANDS = rf"[+-]?\d{{1,3}}(\.\d{{3}})+(,\d+)?|{DECIMAL_COMMA}"
COMMAS_FOR_THOUSANDS = rf"[+-]?\d{{1,3}}(,\d{{3}})+(\.\d*)?|{PLAIN_NUMBER}"
_NUMBER = re.compile(
    rf"{POINTS_FOR_THOUSANDS}|{COMMAS_FOR_THOUSANDS}|[+-]?inf(inity)?", re.IGNORECASE
)
_NUMBER_AND_MORE = re.compile(r"\d+\s+\S.*")
# year, month and day in any order, then maybe a time, of which the hour and am or pm are groups
DATE = re.compile(
    r"(\d{1,4})([-/. ])(\d{1,2})\2(\d{1,4})(?:[ T,]+(\d{1,2}):\d{2}(?::\d{2}(?:[.,]\d+)?)?"
    r"(?: ?([ap])\.?m\.?)?(?: ?(?:Z|UTC|[+-]\d{2}:?\d{2}))?)?",
    re.IGNORECASE,
)
_LIBSVM_ROW = re.compile(r"\s*[-+\d.,e]+(\s+(\d+|qid):[-+\w.]+)+\s*(#.*)?", re.IGNORECASE)
_BEFORE_TABLE = re.compile(
    r"(\s*sep=(?P<separator>[^\r\n])[ \t]*(\r\n|\n|\r))?([ \t]*(#[^\r\n]*)?(\r\n|\n|\r))*"
)
_MOSTLY = 0.9  # of the cells of a column that make it one of numbers, or of dates


@dataclass(frozen=True)
class TextFormat:
    """What is known about a text file; None is detected."""

    separator: str | None = None  # one character, or a word such as tab or space
    header: bool | None = None
    encoding: str | None = None

    @property
    def is_given(self) -> bool:
        """Whether something is known."""
        return any(value is not None for value in (self.separator, self.header, self.encoding))


DETECTED = TextFormat()


@dataclass(frozen=True)
class TextLayout:
    """How a text file holds its table."""

    separator: str
    encoding: str
    has_header: bool
    names: tuple[str, ...]
    n_skipped: int  # empty lines and comments before the table
    has_row_names: bool  # in a first column, which the header of R leaves out
    header_has_numbers: bool

    def describe_separator(self) -> str:
        """The separator, for messages."""
        return {"\t": "tabs", WHITE_SPACE: "spaces"}.get(self.separator, repr(self.separator))


def detect_layout(
    open_file: Callable[[], BinaryIO],
    given: TextFormat = DETECTED,
    *,
    expected: Iterable[str] = (),
    preferred: str = ",",
) -> TextLayout:
    """Find how a file holds a table, where it is not given.

    ``expected`` are names that the columns should have, and ``preferred`` the separator to try
    first.
    """
    encoding = given.encoding or detect_encoding(open_file)
    text, n_skipped, separator = _table_text(
        _sample(open_file, encoding), _separator(given.separator), preferred
    )
    rows = _first_rows(text, separator)
    if not rows:
        raise ValueError("its quotes do not match." if text else "the file is empty.")
    has_header = given.header
    if has_header is None:
        numbers = {str(number) for number in range(1, len(rows[0]) + 1)}  # columns by number
        has_header = _has_header(rows, {*expected} - numbers)
    first, others = rows[0], rows[1:]
    if has_header and not others and len(text) < _MAX_SAMPLE_CHARACTERS:
        raise ValueError(f"the file has no rows: its only line is {', '.join(first)[:60]!r}.")
    width = len(first)
    # headers of R leave out the column of row names; other rows may end in a separator
    is_short = has_header and width > 1 and {len(row) for row in others} == {width + 1}
    ends_empty = is_short and not any(row[-1] for row in others)
    has_row_names = is_short and not ends_empty
    names = first if has_header else [""] * width
    names = [""] * has_row_names + names + [""] * ends_empty
    names = [name or f"column_{number}" for number, name in enumerate(names, 1)]
    _check_names(names)
    return TextLayout(
        separator,
        encoding,
        has_header,
        tuple(names),
        n_skipped,
        has_row_names,
        header_has_numbers=has_header and any(map(is_number, first)),
    )


def _check_names(names: list[str]) -> None:
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise ValueError(
            f"the column {repeated[0][:60]!r} occurs twice in the first line; if that is "
            "not a header, add --no-header."
        )


def _separator(name: str | None) -> str | None:
    """The character that an option stands for."""
    if name is None:
        return None
    separator = _SEPARATOR_NAMES.get(name.lower(), name)
    if len(separator) != 1 or separator in '"\r\n':
        raise ValueError(
            f"--separator is one character, or tab, space, comma, semicolon or pipe, not {name!r}."
        )
    return separator


# -- Encoding ----------------------------------------------------------------------------------


def detect_encoding(open_file: Callable[[], BinaryIO]) -> str:
    """The encoding of a text file: by its byte order mark, else the first one that fits."""
    with open_file() as file:
        start = file.read(_BLOCK_BYTES)
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if b"\0" in start:
        raise ValueError(
            "it is not a text file. Tables are text, Parquet or .npz files; of a spreadsheet, save "
            "a sheet as CSV."
        )
    # Latin-1 has a character for every byte: it comes last, and always fits
    return next(name for name in ("utf-8", "cp1252", "latin-1") if _decodes(open_file, name))


def _decodes(open_file: Callable[[], BinaryIO], encoding: str) -> bool:
    decoder = codecs.getincrementaldecoder(encoding)()
    with open_file() as file:
        try:
            while block := file.read(_BLOCK_BYTES):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


def open_text(file: BinaryIO, encoding: str) -> Any:
    """A file as text, without its byte order mark; bytes that do not fit become U+FFFD."""
    try:
        is_text = codecs.lookup(encoding)._is_text_encoding
    except (LookupError, ValueError):  # ValueError: a null character
        is_text = False
    if not is_text:
        raise ValueError(
            f"there is no encoding {encoding!r}; --encoding takes utf-8, utf-16, cp1252, latin-1 "
            "and the other names that Python knows."
        )
    is_utf8 = codecs.lookup(encoding).name == "utf-8"
    name = "utf-8-sig" if is_utf8 else encoding
    return io.TextIOWrapper(file, name, errors="replace", newline="")


def _sample(open_file: Callable[[], BinaryIO], encoding: str) -> str:
    """Complete lines from the start of a file."""
    with open_file() as file, open_text(file, encoding) as stream:
        text = stream.read(_MAX_SAMPLE_CHARACTERS)
        is_cut = len(text) == _MAX_SAMPLE_CHARACTERS
        # very many columns make long lines: read on until there are two
        while is_cut and len(text) < _MAX_CELL_CHARACTERS and len(text.splitlines()) < 3:
            more = stream.read(len(text))
            is_cut, text = bool(more), text + more
    if is_cut and len(text.splitlines()) < 2:
        raise ValueError(f"its first line has more than {len(text):,} characters: is it a table?")
    return text[: max(text.rfind("\n"), text.rfind("\r")) + 1] if is_cut else text


# -- Separator ---------------------------------------------------------------------------------


def _table_text(text: str, separator: str | None, preferred: str) -> tuple[str, int, str]:
    """A text without the lines before its table, their number, and the separator."""
    skipped = _BEFORE_TABLE.match(text)
    assert skipped is not None  # it also matches nothing
    lines, table = skipped[0].splitlines(keepends=True), text[skipped.end() :]
    separator = separator or skipped["separator"] or _best_separator(table, preferred)
    if lines and lines[-1].startswith("#"):
        rows = _first_rows(lines[-1] + table, separator)
        same_width = len(rows) > 1 and len(rows[0]) == len(rows[1])
        if same_width and len(rows[0]) > 1 and 1 not in _signs(rows[1:]):
            table = lines.pop() + table
    return table, len(lines), separator


@contextmanager
def long_cells() -> Iterator[None]:
    """Let Python's parser read cells of more than 131,072 characters, its limit otherwise."""
    limit = csv.field_size_limit(_MAX_CELL_CHARACTERS)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def split_lines(lines: Iterable[str], separator: str) -> Iterator[list[str]]:
    """Rows of cells as a strict CSV parser reads them, or between runs of spaces and tabs."""
    if separator != WHITE_SPACE:
        yield from csv.reader(lines, delimiter=separator, strict=True)
        return
    single = (line.replace("\t", " ").strip(" \r\n") + "\n" for line in lines)
    yield from csv.reader(single, delimiter=" ", skipinitialspace=True, strict=True)


def _first_rows(text: str, separator: str) -> list[list[str]]:
    """The first rows that are not empty, trimmed; none after quotes that do not match."""
    rows = (row for row in split_lines(io.StringIO(text, newline=""), separator) if any(row))
    first: list[list[str]] = []
    with long_cells(), suppress(csv.Error):
        for row in itertools.islice(rows, _MAX_SAMPLE_LINES):
            first.append([cell.strip() for cell in row])
    return first


def _best_separator(text: str, preferred: str) -> str:
    """The separator of the highest score; where none has one, there is a single column."""
    candidates = sorted(_SEPARATORS, key=lambda separator: separator != preferred)
    scores = {separator: _score(text, separator) for separator in candidates}
    best = max(candidates, key=lambda separator: scores[separator])
    if scores[best] >= _MIN_SCORE:
        return best
    if text.partition("\n")[0].count('"') % 2:
        raise ValueError("the first line cannot be parsed: its quotes do not match.")
    return ONE_COLUMN


def _score(text: str, separator: str) -> float:
    rows = _first_rows(text, separator)
    if not rows or len(rows[0]) < 2:
        return 0.0
    width = len(rows[0])
    if len(rows) > 1 and all(len(row) == width + 1 for row in rows[1:]):  # row names of R
        width, rows = width + 1, rows[1:]
    consistent = sum(len(row) == width for row in rows) / len(rows)
    cells = [cell for row in rows for cell in row]
    others = [other for other in _SEPARATORS if other not in (separator, WHITE_SPACE)]

    def is_clean(cell: str) -> bool:
        if '"' in cell or (separator == "," and _NUMBER_AND_MORE.fullmatch(cell)):
            return False  # a quote inside a cell, or a part of 0,5 1,5 with decimal commas
        return is_number(cell) or is_date(cell) or not any(other in cell for other in others)

    return consistent * sum(map(is_clean, cells)) / len(cells)


# -- Header ------------------------------------------------------------------------------------


def is_number(cell: str) -> bool:
    """Whether a cell is a number, maybe with a decimal comma or separators of thousands."""
    return len(cell) <= _MAX_NUMBER_CHARACTERS and bool(_NUMBER.fullmatch(cell))


def is_date(cell: str) -> bool:
    """Whether a cell looks like a date, maybe with a time."""
    return bool(DATE.fullmatch(cell))


def _has_header(rows: Sequence[list[str]], expected: set[str]) -> bool:
    first, others = rows[0], rows[1:]
    if any(
        cell in expected and all(row[number : number + 1] != [cell] for row in others)
        for number, cell in enumerate(first)
    ):
        return True
    signs = _signs(rows)
    # the table of the training may not have had a header either
    expects_none = expected and all(re.fullmatch(r"column_\d+", name) for name in expected)
    return 1 in signs or not (expects_none or -1 in signs)


def _signs(rows: Sequence[list[str]]) -> list[int]:
    """For each cell of the first row, whether it looks like a name or like a value."""
    first, others = rows[0], rows[1:]
    columns = (
        [row[number] for row in others if len(row) > number and row[number] not in MISSING_CELLS]
        for number in range(len(first))
    )
    return [_sign(cell, below) for cell, below in zip(first, columns, strict=True)]


def _sign(cell: str, below: list[str]) -> int:
    """1 if a cell looks like a name above its column, -1 if like a value, else 0."""
    if cell in MISSING_CELLS:
        return 0
    for is_kind in (is_number, is_date):
        if is_kind(cell) and not below:  # a single line of values
            return -1
        if below and sum(map(is_kind, below)) >= _MOSTLY * len(below):
            return -1 if is_kind(cell) else 1
    return -1 if cell in below else 0


def is_libsvm(text: str) -> bool:
    """Whether most lines are a label and pairs of index:value."""
    lines = [line for line in text.splitlines()[:_MAX_SAMPLE_LINES] if line.strip()]
    return 2 * sum(bool(_LIBSVM_ROW.fullmatch(line)) for line in lines) > len(lines)
