"""The row of a table in C: fields of a struct, and statements that make features of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernlet._typing import Floats
from kernlet.export.c_names import c_comment, c_identifier, distinct, plain_name
from kernlet.kernels.base import c_float
from kernlet.tables.dates import DATE_PARTS, DateColumn
from kernlet.tables.encode import ColumnEncoding, NumberColumn, as_numbers, distinct_texts
from kernlet.tables.spelling import find_categories

# How this works
#
# A text column has an enum of its categories, and its field holds one of them, NAME_MISSING or
# NAME_OTHER: a device compares small integers and stores no texts. The field is a uint8_t (or
# uint16_t): the size of an enum depends on compiler and options, such as -fshort-enums of ARM, and
# a library and the program that calls it must agree on the struct.
#
# A text column may encode known, unknown and missing cells in any way, or refuse unknown ones, and
# with them missing ones where it knows none. The code first assigns what unknown texts become, and
# then, in a switch, the numbers of each category that differ.
#
# Constants are NAME_CATEGORY_COLUMN_TEXT, which no macro of the code begins with. Both parts are
# cleaned, so that texts, or two columns with their texts, can become the same name (column "a" with
# the text "b c", column "a b" with "c"): `distinct` sees all constants at once.

#: The cells of a text column that are not a category; their numbers are the same in all columns.
SPECIAL = ("MISSING", "OTHER")
_OTHER_TEXT = "\0"  # which is not a category
_MAX_BYTE = 255
_TEST_ROWS = 16
_GIVEN_ROWS = 12  # of the user's table; the others are made up
_LARGEST_CELL = 1e29  # below the largest number that a table may have


@dataclass(frozen=True)
class RawColumn:
    """A column of a table in C: its field, what its cells are, and statements that encode them.

    ``categories`` has the constant of each text that a column of texts knows.
    """

    type: str
    field: str
    title: str
    rules: tuple[str, ...]
    example: str
    statements: tuple[str, ...]
    categories: Mapping[str, str]

    @property
    def about(self) -> str:
        """What the cells are, and what becomes of them."""
        return "; ".join((self.title, *self.rules))


def raw_columns(encoding: ColumnEncoding, prefix: str) -> list[RawColumn]:
    """The columns of a table as fields of a struct; functions and macros have a prefix."""
    cells = _all_cells(encoding)
    # a table column that is encoded twice is one field
    keys = list(dict.fromkeys((column.name, _is_text(column)) for column, _ in cells))
    names = distinct([c_identifier(name, "column") for name, _ in keys])
    fields = dict(zip(keys, names, strict=True))
    constants = _constants([(fields[c.name, True], c) for c, _ in cells if _is_text(c)], prefix)
    columns, start = [], 0
    for column, meaning in cells:
        field = fields[column.name, _is_text(column)]
        columns.append(
            _text_column(column, field, start, prefix, constants[field])
            if _is_text(column)
            else _number_column(column, field, start, meaning)
        )
        start += len(column.features)
    return columns


def struct_fields(columns: Sequence[RawColumn]) -> list[RawColumn]:
    """Columns with fields of different names, and the rules of all columns of a field."""
    fields: dict[str, RawColumn] = {}
    for column in columns:
        first = fields.setdefault(column.field, column)
        rules = tuple(dict.fromkeys((*first.rules, *column.rules)))
        fields[column.field] = replace(first, rules=rules)
    return list(fields.values())


def _all_cells(encoding: ColumnEncoding) -> list[tuple[Any, str]]:
    return [cell for column in encoding.columns for cell in _cells(column)]


def _is_text(column: Any) -> bool:
    """Whether cells are texts; a column without categories says whether a number is missing."""
    return bool(getattr(column, "categories", ()))


def _cells(column: Any) -> list[tuple[Any, str]]:
    """A column of texts or numbers; of a date its parts and their meaning: C cannot parse dates."""
    if not isinstance(column, DateColumn):
        return [(column, "")]
    numbers = map(NumberColumn, column.features, column.fills)
    return [(n, f": {DATE_PARTS[part]}") for n, part in zip(numbers, column.parts, strict=True)]


def _constants(columns: Sequence[tuple[str, Any]], prefix: str) -> dict[str, dict[str, str]]:
    """Of each field, the constants of its texts, those of all columns that have this field."""
    pairs = list(dict.fromkeys((field, text) for field, c in columns for text in c.categories))
    names = distinct([f"{field}_{plain_name(text) or 'unnamed'}" for field, text in pairs])
    constants: dict[str, dict[str, str]] = {field: {} for field, _ in columns}
    for (field, text), name in zip(pairs, names, strict=True):
        constants[field][text] = f"{prefix}_CATEGORY_{name}".upper()
    return constants


def _number_column(column: Any, field: str, start: int, meaning: str) -> RawColumn:
    # NaN is the only number that is not equal to itself; compilers may warn of == and !=
    value, is_missing = f"raw->{field}", f"!(raw->{field} <= raw->{field})"
    rules: tuple[str, ...] = ()
    example = "0.0f"
    if not isinstance(column, NumberColumn):
        lines = [f"features[{start}] = {is_missing} ? 1.0f : 0.0f;"]
        rules = (_rule(column, "NAN", np.ones(1)),)
    elif column.passes_missing:
        lines = [f"features[{start}] = {value};"]
        rules = ("NAN stays NAN",)
    elif column.fill is None:
        lines = [f"features[{start}] = {value};", f"refused |= {is_missing};"]
        rules = (_rule(column, "NAN", None),)
    else:
        lines = [f"features[{start}] = {is_missing} ? {c_float(column.fill)} : {value};"]
        rules, example = (f"NAN becomes {column.fill:g}",), f"{column.fill:.3g}"
        example += "f" if set(".e") & set(example) else ".0f"
    title = f"{c_comment(column.name)}{meaning}"
    return RawColumn("float", field, title, rules, example, tuple(lines), {})


def _text_column(
    column: Any, field: str, start: int, prefix: str, constants: Mapping[str, str]
) -> RawColumn:
    missing_constant, other_constant = (f"{prefix.upper()}_{name}" for name in SPECIAL)
    missing, other, *known = _encoded(column, [None, _OTHER_TEXT, *constants])
    unknown = np.zeros(len(column.features)) if other is None else other
    cases: dict[tuple[str, ...], list[str]] = {}  # constants by the statements that they share
    for constant, row in zip(
        (missing_constant, *constants.values()), (missing, *known), strict=True
    ):
        changes = () if row is None else tuple(_assignments(row, unknown, start))
        if changes or (other is None and row is not None):
            cases.setdefault(changes, []).append(constant)
    lines = _assignments(unknown, np.full(len(unknown), np.nan), start)
    if cases:
        lines.append(f"switch (raw->{field}) {{")
        for statements, members in cases.items():
            lines += [f"case {constant}:" for constant in members]
            lines += [f"    {statement}" for statement in (*statements, "break;")]
        lines += ["default:", *(["    refused = 1;"] if other is None else []), "    break;", "}"]
    special = [(missing_constant, missing), (other_constant, other)]
    rules = [_rule(column, cell, row) for cell, row in special if row is None or row.any()]
    return RawColumn(
        "uint8_t" if len(constants) + len(SPECIAL) <= _MAX_BYTE + 1 else "uint16_t",
        field,
        c_comment(column.name),
        (f"one of enum {prefix}_{field}_category", *rules),
        next(iter(constants.values())),
        tuple(lines),
        constants,
    )


def _encoded(column: Any, cells: Sequence[str | None]) -> list[Floats | None]:
    """The features of each cell; None where the column refuses it."""
    try:
        return list(column.encoded(cells))
    except ValueError:  # some are refused
        return [None] if len(cells) == 1 else [_encoded(column, [cell])[0] for cell in cells]


def _assignments(row: Floats, before: Floats, start: int) -> list[str]:
    """Statements that change the features of a column to a row."""
    return [f"features[{start + i}] = {c_float(row[i])};" for i in np.flatnonzero(row != before)]


def _rule(column: Any, cell: str, row: Floats | None) -> str:
    """What becomes of a cell, for a comment."""
    if row is None:
        return f"{cell} is refused"
    pairs = zip(column.features, row, strict=True)
    numbers = [f"{c_comment(feature)} to {number:g}" for feature, number in pairs if number]
    return f"{cell} sets {', '.join(numbers)}"


# -- Rows of the test program ----------------------------------------------------------------------


def raw_rows(
    encoding: ColumnEncoding, prefix: str, table: Any, sample: Floats
) -> tuple[list[tuple[str, ...]], Floats]:
    """Rows of the struct, the constant of each field, and their features in Python, in float32.

    Some are rows of a table, unless it is None; the others are made up. Their numbers are those of
    a sample of features; a missing and an unknown cell are among them where they are accepted.
    """
    columns = [column for column, _ in _all_cells(encoding)]
    pairs = list(zip(columns, raw_columns(encoding, prefix), strict=True))
    blocks = [] if table is None else [_given_cells(encoding, table)]
    blocks.append(_made_up_cells(pairs, sample, _TEST_ROWS - _GIVEN_ROWS * len(blocks)))
    rows: list[tuple[str, ...]] = []
    features = []
    for cells in blocks:
        fields: dict[str, list[str]] = {}
        for (column, raw), values in zip(pairs, cells, strict=True):
            if raw.field not in fields or isinstance(column, NumberColumn):
                fields[raw.field] = _cell_constants(column, raw.categories, values, prefix)
        rows += zip(*fields.values(), strict=True)
        encoded = [column.encoded(values) for column, values in zip(columns, cells, strict=True)]
        features.append(np.hstack(encoded).astype(np.float32))
    return rows, np.vstack(features)


def _given_cells(encoding: ColumnEncoding, table: Any) -> list[Any]:
    """Some rows of a table: the cells of each column, and of a date the numbers of its parts."""
    column_cells = encoding.column_cells(table)
    n_rows = len(column_cells(0))
    rows = np.linspace(0, n_rows - 1, min(_GIVEN_ROWS, n_rows)).astype(np.intp)
    cells: list[Any] = []
    for number, column in enumerate(encoding.columns):
        values = column_cells(number).take(rows)
        cells += column.encoded(values).T.tolist() if isinstance(column, DateColumn) else [values]
    return cells


def _made_up_cells(
    pairs: Sequence[tuple[Any, RawColumn]], sample: Floats, n_rows: int
) -> list[list[Any]]:
    """Cells of each column; those of a field are the same, whichever column reads it."""
    choices: dict[str, list[Any]] = {}
    start = 0
    for column, raw in pairs:
        if raw.categories:
            choices.setdefault(raw.field, [*raw.categories])
        elif isinstance(column, NumberColumn) or raw.field not in choices:
            numbers = np.clip(sample[:n_rows, start], -_LARGEST_CELL, _LARGEST_CELL)
            choices[raw.field] = numbers.tolist()
        start += len(column.features)
    for field, cells in choices.items():
        same = [(column, raw) for column, raw in pairs if raw.field == field]
        special = [None, _OTHER_TEXT] if same[0][1].categories else [None]
        encoded = [_encoded(column, special) for column, _ in same]
        accepted = [all(row is not None for row in rows) for rows in zip(*encoded, strict=True)]
        cells[1:1] = [cell for cell, is_taken in zip(special, accepted, strict=True) if is_taken]
    return [
        [choices[raw.field][row % len(choices[raw.field])] for row in range(n_rows)]
        for _, raw in pairs
    ]


def _cell_constants(
    column: Any, categories: Mapping[str, str], values: Any, prefix: str
) -> list[str]:
    """Cells of a column as constants of C."""
    if isinstance(column, NumberColumn):
        numbers = as_numbers(values, column.name)
        return ["NAN" if np.isnan(number) else c_float(number) for number in numbers]
    if not categories:  # whether a cell is missing
        return ["NAN" if is_missing else "0.0f" for (is_missing,) in column.encoded(values)]
    missing, other = (f"{prefix.upper()}_{name}" for name in SPECIAL)
    texts, codes = distinct_texts(values)
    entries = find_categories(texts, {**categories, None: missing})
    constants = [constant if is_known else other for constant, is_known in entries]
    return [constants[code] for code in codes]
