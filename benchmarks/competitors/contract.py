"""What a competitor is: a module of ``benchmarks/competitors``.

Such a module has

- ``TITLE``, its name for readers; ``IS_KERNLET``, whether it is a machine of this library;
  ``IS_RANDOM``, whether ``seed`` matters; ``VERSION``, a number to raise with every change of the
  code that may change a result: what was measured before is then measured anew;
- ``settings(shape, max_bytes)``: at most ``N_SETTINGS`` settings, each a dictionary that JSON can
  hold, to be tried on rows held out. The same setting at several budgets is tried once;
- ``build(setting, X, y, seed)``: a :class:`Machine` trained on rows of float32 and class numbers.

A machine predicts with what it stores: numbers are rounded before they are counted and scored.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, Protocol

import numpy as np

from kernlet.sampling import stratified_sample

#: Settings that every competitor may try for a data set and a number of bytes.
N_SETTINGS = 12
#: The best of them, which are judged again on more rows.
N_FINALISTS = 3


@dataclass(frozen=True)
class Shape:
    """Sizes of a task.

    Parameters
    ----------
    n_rows : int
        To train on.
    n_features, n_classes : int
    """

    n_rows: int
    n_features: int
    n_classes: int

    @property
    def n_outputs(self) -> int:
        """One for two classes, else one a class."""
        return self.n_classes if self.n_classes > 2 else 1


class Machine(Protocol):
    """A trained and stored machine."""

    @property
    def nbytes(self) -> int:
        """Bytes of everything that a prediction needs."""

    @property
    def n_centers(self) -> int | None:
        """Points (or random features) it depends on; None where it has none."""

    def predict(self, X: Any) -> Any:
        """Class numbers of rows."""


class Competitor(Protocol):
    """A module with these names."""

    TITLE: str
    IS_KERNLET: bool
    IS_RANDOM: bool
    VERSION: int

    def settings(self, shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
        """What is tried."""

    def build(self, setting: dict[str, Any], X: Any, y: Any, seed: int) -> Machine:
        """Train with a setting."""


def grid(**choices: Any) -> list[dict[str, Any]]:
    """All combinations of choices."""
    return [dict(zip(choices, chosen, strict=True)) for chosen in product(*choices.values())]


def spread_out(settings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most ``N_SETTINGS`` of the settings, evenly spread over the list."""
    n = len(settings)
    if n <= N_SETTINGS:
        return settings
    return [settings[i * n // N_SETTINGS] for i in range(N_SETTINGS)]


def sample_of(y: Any, most: int, seed: int) -> Any:
    """At most so many rows, the classes in proportion."""
    rows = np.arange(len(y))
    if len(rows) <= most:
        return rows
    return stratified_sample(y, rows, most, np.random.RandomState(seed))
