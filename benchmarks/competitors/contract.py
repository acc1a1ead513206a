"""What a competitor is: a module of ``benchmarks/competitors`` with these names.

- ``TITLE``, its name for readers; ``IS_KERNLET``, whether it is a model of this library;
  ``IS_RANDOM``, whether ``seed`` matters; ``VERSION``, to be raised with every change of the code
  that may change a result, so that cached results are not used any more;
- ``IS_TUNED``, where it is false: the only setting is a call with its defaults, which is not scored
  on held-out rows first;
- ``TASK``, where it is ``"regression"``: targets and predictions are numbers, of mean 0 and
  deviation 1 on the training rows of the first split, and ``Shape.n_classes`` is 0;
- ``SETS``, where it is not for all: the data sets that it is measured on;
- ``settings(shape, max_bytes)``: at most ``N_SETTINGS`` settings, dictionaries of JSON values, to
  be tried on held-out rows. A setting that several budgets share is tried once;
- ``build(setting, X, y, seed)``: a :class:`Machine` trained on float32 rows and class codes.

Modules import nothing but numpy, scipy, scikit-learn and kernlet at their top where they can: a
sweep on another machine imports only those that it measures. ``KERNLET_FRONTIER_DEVICE`` is the
device of calls that can use one.

A machine predicts with the stored numbers: they are rounded before bytes are counted and
predictions are scored.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import product
from typing import Any, Protocol

import numpy as np

from kernlet.sampling import stratified_sample

#: Settings that a competitor may try per data set and budget.
N_SETTINGS = 12
#: The best of them, which are scored again on more rows.
N_FINALISTS = 3


@dataclass(frozen=True)
class Shape:
    """Sizes of a task; ``n_rows`` are the training rows, ``n_classes`` is 0 in regression."""

    n_rows: int
    n_features: int
    n_classes: int

    @property
    def n_outputs(self) -> int:
        """One for two classes and for numbers, else one per class."""
        return self.n_classes if self.n_classes > 2 else 1


class Machine(Protocol):
    """A trained and stored machine."""

    @property
    def nbytes(self) -> int:
        """Bytes of everything that a prediction needs."""

    @property
    def n_centers(self) -> int | None:
        """Number of centers (or random features); None if it has none."""

    def predict(self, X: Any) -> Any:
        """Class codes of rows, or numbers."""


class Competitor(Protocol):
    """A module with these names."""

    TITLE: str
    IS_KERNLET: bool
    IS_RANDOM: bool
    VERSION: int

    def settings(self, shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
        """Settings to try."""

    def build(self, setting: dict[str, Any], X: Any, y: Any, seed: int) -> Machine:
        """Train with a setting."""


def device() -> str | None:
    """Where a call trains: the device in the environment, or the CPU."""
    return os.environ.get("KERNLET_FRONTIER_DEVICE") or None


def grid(**choices: Any) -> list[dict[str, Any]]:
    """All combinations of choices."""
    return [dict(zip(choices, chosen, strict=True)) for chosen in product(*choices.values())]


def spread_out(settings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most ``N_SETTINGS`` of the settings, evenly spread over the list."""
    n = len(settings)
    if n <= N_SETTINGS:
        return settings
    return [settings[i * n // N_SETTINGS] for i in range(N_SETTINGS)]


def subsample(y: Any, most: int, seed: int) -> Any:
    """Indices of at most ``most`` rows, stratified by class."""
    rows = np.arange(len(y))
    if len(rows) <= most:
        return rows
    return stratified_sample(y, rows, most, np.random.RandomState(seed))
