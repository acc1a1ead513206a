"""Values out of JSON that may say anything."""

from __future__ import annotations

import math
from typing import Any


class ModelFileError(ValueError):
    """A file that is damaged, foreign or too new."""


class Fields:
    """The fields of a JSON object, each taken out with a check.

    Parameters
    ----------
    values : object
        What was parsed.
    where : str
        For error messages.

    Examples
    --------
    >>> from kernlet.export.fields import Fields
    >>> Fields({"gamma": 0.5}, "kernel").number("gamma")
    0.5
    >>> Fields({"gamma": "wide"}, "kernel").number("gamma")
    Traceback (most recent call last):
        ...
    kernlet.export.fields.ModelFileError: is damaged: 'gamma' of its kernel is no finite number.
    """

    def __init__(self, values: Any, where: str) -> None:
        if not isinstance(values, dict):
            raise ModelFileError(f"is damaged: its {where} has no fields.")
        self.values, self.where = values, where

    def _wrong(self, name: str, what: str) -> ModelFileError:
        return ModelFileError(f"is damaged: {name!r} of its {self.where} is {what}.")

    def number(self, name: str, above: float | None = None) -> float:
        """A finite number."""
        value = self.values.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(name, "no finite number")
        number = float(value) if abs(value) < 1e300 else math.inf
        if not math.isfinite(number) or (above is not None and not number > above):
            raise self._wrong(name, "no number that makes sense")
        return number

    def whole(self, name: str, smallest: int, largest: int = 2**53) -> int:
        """A whole number between two others."""
        value = self.values.get(name)
        if type(value) is not int or not smallest <= value <= largest:
            raise self._wrong(name, f"no whole number from {smallest} to {largest}")
        return value

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self.values.get(name)
        if not isinstance(value, bool):
            raise self._wrong(name, "neither true nor false")
        return value

    def text(self, name: str) -> str:
        """A text."""
        value = self.values.get(name)
        if not isinstance(value, str):
            raise self._wrong(name, "no text")
        return value

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """One of some texts."""
        value = self.text(name)
        if value not in choices:
            raise self._wrong(name, f"none of {', '.join(choices)}")
        return value

    def entries(self, name: str) -> list[Any]:
        """A list."""
        value = self.values.get(name)
        if not isinstance(value, list):
            raise self._wrong(name, "no list")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts."""
        entries = self.entries(name)
        if not all(isinstance(entry, str) for entry in entries):
            raise self._wrong(name, "no list of texts")
        return tuple(entries)

    def shape(self, name: str, n_dimensions: int) -> tuple[int, ...]:
        """Sizes of an array."""
        entries = self.entries(name)
        good = all(type(entry) is int and 0 <= entry < 2**31 for entry in entries)
        if not good or len(entries) != n_dimensions:
            raise self._wrong(name, "no shape")
        return tuple(entries)

    def inside(self, name: str) -> Fields:
        """The fields of an object inside."""
        return Fields(self.values.get(name), name)
