"""The row of a table in C: fields of a struct, and statements that make features of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernlet.export.c_names import c_comment, c_identifier, c_string, distinct
from kernlet.kernels.base import c_float
from kernlet.tables.dates import DATE_PARTS, DateColumn
from kernlet.tables.encode import ColumnEncoding, NumberColumn

# A text column may encode known, unknown and missing cells in any way, or refuse unknown ones, and
# with them missing ones where it knows none. The code first assigns what unknown texts
# become, and then, for each known text, the numbers that differ.


@dataclass(frozen=True)
class RawColumn:
    """A column of a table in C: its field, what its cells are, and statements that encode them."""

    type: str
    field: str
    about: str
    example: str
    statements: tuple[str, ...]


def raw_columns(encoding: ColumnEncoding, prefix: str) -> list[RawColumn]:
    """The columns of a table as fields of a struct; functions and macros have a prefix."""
    cells = [cell for column in encoding.columns for cell in _cells(column)]
    # a table column that is encoded twice is one field
    keys = list(dict.fromkeys((column.name, _is_text(column)) for column, _ in cells))
    names = distinct([c_identifier(name, "column") for name, _ in keys])
    fields = dict(zip(keys, names, strict=True))
    columns, start = [], 0
    for column, meaning in cells:
        field = fields[column.name, _is_text(column)]
        columns.append(
            _text_column(column, field, start, prefix)
            if _is_text(column)
            else _number_column(column, field, start, meaning)
        )
        start += len(column.features)
    return columns


def _is_text(column: Any) -> bool:
    """Whether cells are texts; a column without categories says whether a number is missing."""
    return bool(getattr(column, "categories", ()))


def _cells(column: Any) -> list[tuple[Any, str]]:
    """A column of texts or numbers; of a date its parts and their meaning: C cannot parse dates."""
    if not isinstance(column, DateColumn):
        return [(column, "")]
    numbers = map(NumberColumn, column.features, column.fills)
    return [(n, f": {DATE_PARTS[part]}") for n, part in zip(numbers, column.parts, strict=True)]


def _number_column(column: Any, field: str, start: int, meaning: str) -> RawColumn:
    # NaN is the only number that is not equal to itself; compilers may warn of == and !=
    value, is_missing = f"raw->{field}", f"!(raw->{field} <= raw->{field})"
    about = f"{c_comment(column.name)}{meaning}"
    if not isinstance(column, NumberColumn):
        line = f"features[{start}] = {is_missing} ? 1.0f : 0.0f;"
        return RawColumn("float ", field, f"{about}; NAN where it is missing", "0.0f", (line,))
    if column.fill is None:
        refuse = f"refused |= {is_missing};"
        lines = (f"features[{start}] = {value};", refuse)
        return RawColumn("float ", field, f"{about}; NAN is refused", "0.0f", lines)
    line = f"features[{start}] = {is_missing} ? {c_float(column.fill)} : {value};"
    about, example = f"{about}; NAN becomes {column.fill:g}", f"{column.fill:.3g}"
    example += "f" if set(".e") & set(example) else ".0f"
    return RawColumn("float ", field, about, example, (line,))


def _text_column(column: Any, field: str, start: int, prefix: str) -> RawColumn:
    value, n_features = f"raw->{field}", len(column.features)
    missing, other = _encoded(column, None), _encoded(column, "\0")  # no category is "\0"
    lines = _assignments(other or [0.0] * n_features, [np.nan] * n_features, start)
    lines += ["known = 0;"] if other is None else []
    cells = [(f"{value} == NULL", missing)]
    for text in column.categories:
        if "\0" not in text:  # which a string of C cannot hold
            constant = f"{prefix.upper()}_TEXT({c_string(text)})"
            cells.append((f"{prefix}_is_text({value}, {constant})", _encoded(column, text)))
    for condition, row in cells:
        if row is None:
            continue
        changes = _assignments(row, other or [0.0] * n_features, start)
        changes += ["known = 1;"] if other is None else []
        if changes:
            lines += [f"if ({condition}) {{", *(f"    {change}" for change in changes), "}"]
    lines += ["refused |= !known;"] if other is None else []
    about = _about_texts(column, missing, other)
    example = c_string(column.categories[0]) if column.categories else "NULL"
    return RawColumn("const char *", field, about, example, tuple(lines))


def _encoded(column: Any, text: str | None) -> list[float] | None:
    """The features of a cell; None where the column refuses it."""
    try:
        return column.encoded([text])[0].tolist()
    except ValueError:
        return None


def _assignments(row: Sequence[float], before: Sequence[float], start: int) -> list[str]:
    """Statements that change the features of a column to a row."""
    pairs = enumerate(zip(row, before, strict=True), start)
    return [f"features[{i}] = {c_float(new)};" for i, (new, old) in pairs if new != old]


def _about_texts(column: Any, missing: list[float] | None, other: list[float] | None) -> str:
    """The texts of a column, and what becomes of other cells."""
    texts = ", ".join(f'"{c_comment(text)}"' for text in column.categories)
    about = f"{c_comment(column.name)}: {texts}"
    if missing is None:
        return f"{about}; other texts and NULL are refused"
    if missing != other:
        about += "; NULL where it is missing"
    if other is None:
        return f"{about}; other texts are refused"
    if not any(other):
        return about
    as_other = [
        f"{c_comment(feature)} = {number:g}"
        for feature, number in zip(column.features, other, strict=True)
        if number
    ]
    return f"{about}; other texts give {', '.join(as_other)}"
