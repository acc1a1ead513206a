"""Dates as numbers: year, month, weekday and hour."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from kernlet._typing import Floats
from kernlet.tables.encode import distinct_texts

#: Parts of a date, and the numbers that they are.
DATE_PARTS = {
    "year": "the year",
    "month": "1 to 12",
    "weekday": "0 for Monday to 6 for Sunday",
    "hour": "0 to 23",
}
_NO_DATES = {None, "NaT", ""}
_MIN_SECONDS = 1e8  # since 1970: 1973; smaller numbers are years or the days of spreadsheets
_MAX_SECONDS = 1e11  # the year 5138; larger numbers are milliseconds
_Parts = tuple[int, int, int, int]


@dataclass(frozen=True)
class DateColumn:
    """A column of dates, which becomes a number for each of some parts.

    ``order`` says how dates are written, one of the names in :data:`DATE_ORDERS`. Where a date is
    missing, the parts are those in ``fills``, their medians.
    """

    name: str
    order: str
    parts: tuple[str, ...]
    fills: tuple[float, ...]

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features that it becomes, such as time_hour."""
        return tuple(f"{self.name}_{part}" for part in self.parts)

    @property
    def rule(self) -> str:
        """What it becomes, for people who encode rows in another language."""
        parts = "; ".join(
            f"{feature} is {DATE_PARTS[part]}, {fill:g} where the date is missing"
            for feature, part, fill in zip(self.features, self.parts, self.fills, strict=True)
        )
        return f"{self.name}: a date. {parts}."

    def example(self, values: Any) -> str:
        """How a cell is read, such as '1/2/2024 is 2024-01-02'; nothing for 2024-01-02."""
        if self.order == "year-month-day":
            return ""
        pairs = [(text, _parse(text, self.order)) for text in distinct_texts(values)[0]]
        days = {text: date(*parts[:3]) for text, parts in pairs if parts is not None}
        # 1/1/2024 would not show which is the month
        text = next((text for text, day in days.items() if day.month != day.day), next(iter(days)))
        return f"{text} is {days[text]}"

    def encoded(self, values: Any, note: Any = None) -> Floats:
        """One column of numbers per part."""
        numbers = _date_numbers(values, self.order, self.name)
        columns = numbers[:, [list(DATE_PARTS).index(part) for part in self.parts]]
        return np.where(np.isnan(columns), self.fills, columns)


def learned_dates(name: str, values: Any) -> DateColumn:
    """The order in which dates are written, and the parts that vary."""
    texts, _ = distinct_texts(values)
    order = _order([text for text in texts if text not in _NO_DATES], name)
    numbers = _date_numbers(values, order, name)
    numbers = numbers[~np.isnan(numbers[:, 0])]
    varying = np.ptp(numbers, axis=0) > 0
    if not varying.any():
        raise ValueError(f"Column {name!r} has the same date in every row: leave it out (--drop).")
    parts = tuple(part for part, varies in zip(DATE_PARTS, varying, strict=True) if varies)
    fills = np.median(numbers[:, varying], axis=0)
    return DateColumn(name, order, parts, tuple(fills.tolist()))


def _order(texts: Iterable[Any], name: str) -> str:
    """The first order in which all texts are dates; day-month-year for points, as in 5.1.2024."""
    texts = list(texts)
    if not texts:
        raise ValueError(f"Column {name!r} is empty: leave it out (--drop).")
    orders = list(DATE_ORDERS)
    if re.match(r"\d+\.", texts[0]):
        orders.sort(key=lambda order: order != "day-month-year")
    for order in orders:
        if all(_parse(text, order) is not None for text in texts):
            return order
    wrong = next((text for text in texts if _parse(text, orders[0]) is None), texts[0])
    raise ValueError(
        f"Column {name!r} does not hold dates of one kind, such as 2024-01-31 18:30, 31.1.2024, "
        f"1/31/2024 or seconds since 1970; one cell is {str(wrong)[:40]!r}. Rewrite them, or leave "
        "the column out (--drop)."
    )


def _date_numbers(values: Any, order: str, name: str) -> Floats:
    """Year, month, weekday and hour of every cell; NaN where the date is missing."""
    texts, codes = distinct_texts(values)
    numbers = np.full((len(texts), len(DATE_PARTS)), np.nan)
    for number, text in enumerate(texts):
        if text in _NO_DATES:
            continue
        # typed dates, of Parquet and data frames, are year-month-day as texts
        parts = _parse(text, order) or _parse(text, "year-month-day")
        if parts is None:
            row = int(np.flatnonzero(codes == number)[0])
            raise ValueError(
                f"Row {row + 1}, column {name!r}: {str(text)[:40]!r} is not a date, written as "
                f"{order}."
            )
        year, month, day, hour = parts
        numbers[number] = year, month, date(year, month, day).weekday(), hour
    return numbers[codes]


def _parse(text: Any, order: str) -> _Parts | None:
    """Year, month, day and hour of a text; None if it is not a date of this order."""
    try:
        parts = DATE_ORDERS[order](str(text).strip())
        if parts is not None:
            datetime(*parts)  # there is such a day and hour
    except (ValueError, OverflowError, OSError):
        return None
    return parts


def _written(*places: int) -> Callable[[str], _Parts | None]:
    """A parser for dates whose year, month and day are at these places."""

    def parse(text: str) -> _Parts | None:
        from kernlet.tables.sniff import DATE  # late: its regular expressions take milliseconds

        match = DATE.fullmatch(text)
        if match is None:
            return None
        digits = [match[group] for group in (1, 3, 4)]
        year, month, day = (digits[place] for place in places)
        # a date that starts with a year of two digits is not told from others
        lengths = (4,) if places[0] == 0 else (2, 4)
        if len(year) not in lengths or len(month) > 2 or len(day) > 2:
            return None
        # two digits mean 1970 to 2069
        full = int(year) + (0 if len(year) == 4 else 1900 if int(year) >= 70 else 2000)
        hour = int(match[5] or 0)
        if match[6]:  # 12 am is midnight, and 12 pm is noon
            hour = hour % 12 + 12 * (match[6].lower() == "p")
        return full, int(month), int(day), hour

    return parse


def _compact(text: str) -> _Parts | None:
    is_date = len(text) == 8 and text.isdecimal() and text < "2100"
    return (int(text[:4]), int(text[4:6]), int(text[6:]), 0) if is_date else None


def _since_1970(text: str) -> _Parts | None:
    seconds = float(text)
    if abs(seconds) < _MIN_SECONDS:
        return None
    seconds = seconds if abs(seconds) < _MAX_SECONDS else seconds / 1000
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.year, moment.month, moment.day, moment.hour


#: How dates are written, and their parsers; months come first where a column allows both.
DATE_ORDERS: dict[str, Callable[[str], _Parts | None]] = {
    "year-month-day": _written(0, 1, 2),
    "month-day-year": _written(2, 0, 1),
    "day-month-year": _written(2, 1, 0),
    "yearmonthday": _compact,
    "seconds or milliseconds since 1970": _since_1970,
}
