"""One spelling of a category: true and True, 1 and 1.0, dates and missing cells of any source."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Any

import numpy as np

from kernlet.tables.sniff import MISSING_CELLS, PLAIN_NUMBER

# How this works
#
# The same value has another text in every source: true in CSV is True in pandas, 1 becomes 1.0
# beside a missing cell, a day is 2024-01-31, 2024-01-31 00:00:00 or 2024-01-31T00:00:00.000000000,
# a float32 of Parquet is 0.10000000149011612. The categories of a column decide how its cells are
# compared. Where all are
#
# - numbers, or all are true and false: by value; true is 1 and false is 0, as in Python,
# - dates: by moment, in UTC where they have a time zone,
# - else, also where two numbers or dates differ as texts only (01 and 1, or the versions 1.1 and
#   1.10): as texts without spaces around them, true in any case.
#
# A cell is first looked up as it is written, so that models keep the categories that they have;
# then by value, and last by its value in float32. A value that two categories share is nobody's.
# A missing cell is the category NA (or another word for it) if there is one such category, and
# these words are missing cells in a column that has them and no such category.
#
# Learned categories are spelled in one way for every source: False and True, 1 and 0.5 instead of
# 1.0 and 0.50, 2024-01-31 instead of 2024-01-31 00:00:00. 01 keeps its zero.

_MAX_CHARACTERS = 100  # longer texts are not numbers or dates
_MAX_DIGITS = 15  # of numbers that float64 tells apart
_NUMBER = re.compile(PLAIN_NUMBER)
_PADDED = re.compile(r"[+-]?0\d")
_MOMENT = re.compile(
    r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?( ?(Z|UTC|[+-]\d\d:?\d\d))?"
)
_BYTES = re.compile(r"""b(['"]).*\1""", re.DOTALL)
_BOOLEANS = {"false": "0", "true": "1"}
_MISSING = frozenset(MISSING_CELLS)
Key = Callable[[str], str | None]


def find_categories(
    texts: Iterable[str | None], index: Mapping[Any, Any]
) -> list[tuple[Any, bool]]:
    """For each text, what ``index`` has for its category, and whether there is one."""
    texts = list(texts)
    if all(text in index for text in texts):
        return [(index[text], True) for text in texts]
    categories = [text for text in index if text is not None]
    levels = [_by_key(index, categories, key) for key in _keys(categories)]
    words = [text for text in categories if text in _MISSING]
    return [_found(text, index, levels, words) for text in texts]


def _found(text: str | None, index: Mapping[Any, Any], levels: Any, words: Any) -> tuple[Any, bool]:
    if text in index:
        return index[text], True
    if text is None:
        return (index[words[0]], True) if len(words) == 1 else (None, False)
    for key, known in levels:
        value = key(text)
        if value in known:
            return known[value], True
    if text.strip() in _MISSING and None in index:
        return index[None], True
    return None, False


def _by_key(
    index: Mapping[Any, Any], categories: list[str], key: Key
) -> tuple[Key, dict[Any, Any]]:
    """The index by keys; a key that several categories share needs the same entry for all."""
    entries: dict[str | None, set[Any]] = {}
    for text in categories:
        entries.setdefault(key(text), set()).add(index[text])
    known = {name: next(iter(own)) for name, own in entries.items() if len(own) == 1}
    known.pop(None, None)
    return key, known


def _keys(categories: Collection[str]) -> list[Key]:
    """How cells are compared with these categories, the strictest way first."""
    kind = category_kind(categories)
    if kind in ("boolean", "number"):
        return [_value, _single_precision]
    return [_moment if kind == "date" else _plain]


def category_kind(categories: Collection[str]) -> str:
    """Whether cells are compared as booleans, numbers, dates or texts."""
    n_booleans = sum(_plain(text) in _BOOLEANS for text in categories)
    if 0 < n_booleans == len(categories):
        return "boolean"
    for kind, key in (("number", _value), ("date", _moment)):
        keys = {key(text) for text in categories}
        if not n_booleans and None not in keys and len(keys) == len(categories):
            return kind
    return "text"


def one_spelling(texts: Iterable[str]) -> set[str]:
    """Distinct categories of a column, each in the spelling that all sources share."""
    texts = set(texts)
    kind = category_kind(texts)
    return {_spelling(kind, text) for text in texts}


def _spelling(kind: str, text: str) -> str:
    if kind == "text":
        return text
    if kind == "boolean":
        return _plain(text).capitalize()
    if kind == "date":
        return str(_moment(text))
    value = str(_value(text))
    is_short = len(value) <= _MAX_DIGITS and "E" not in value
    return value if is_short and not _PADDED.match(text.strip()) else text.strip()


def _plain(text: str) -> str:
    """A text without spaces around it, true and false in lower case."""
    text = text.strip()
    if _BYTES.fullmatch(text):  # of a file that was written before bytes were texts
        try:
            return ast.literal_eval(text).decode("utf-8", "backslashreplace").strip()
        except (SyntaxError, ValueError):
            return text
    return text.lower() if text.lower() in _BOOLEANS else text


def _value(text: str) -> str | None:
    """The number that a text denotes, in one spelling; None if it is not one."""
    text = text.strip()
    if text.lower() in _BOOLEANS:
        return _BOOLEANS[text.lower()]
    if len(text) > _MAX_CHARACTERS or not text.isascii() or not _NUMBER.fullmatch(text):
        return None
    try:  # exact, so that long numbers stay apart
        exact = Context(_MAX_CHARACTERS, Emin=MIN_EMIN, Emax=MAX_EMAX)
        number = exact.normalize(Decimal(text))
    except ArithmeticError:
        return None
    if not number:
        return "0"
    is_short = 0 <= int(number.as_tuple().exponent) <= _MAX_CHARACTERS
    return f"{number:f}" if is_short else str(number)


def _single_precision(text: str) -> str | None:
    """The number that a text denotes, in float32."""
    value = _value(text)
    if value is None:
        return None
    with np.errstate(over="ignore"):
        single = np.float32(float(value))
    # a whole number is exact in all sources, and long ones must stay apart
    return str(single) if np.isfinite(single) and not float(single).is_integer() else None


def _moment(text: str) -> str | None:
    """A date in one spelling, 2024-01-31 or 2024-01-31 18:30:00, or None if it is not one."""
    text = text.strip()
    if not _MOMENT.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text.replace(" UTC", "Z").replace("UTC", "Z"))
        if moment.tzinfo is not None:
            moment = moment.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None
    is_day = (moment.hour, moment.minute, moment.second, moment.microsecond) == (0, 0, 0, 0)
    return str(moment.date()) if is_day else str(moment)
