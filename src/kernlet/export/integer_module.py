"""What modules of any language say of a machine in integers: what it is, its costs, test rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kernlet import __version__
from kernlet._typing import Floats
from kernlet.export.c_tables import Tables, is_packed
from kernlet.export.integer import integer_machine, integer_outputs, integer_tables
from kernlet.export.rounding import Rounding, compare, feature_rows, likely_rows
from kernlet.integer.machine import (
    IntegerMachine,
    Probabilities,
    bound_lines,
    integer_codes,
)
from kernlet.model.describe import kind_in_words
from kernlet.model.model import Model

_TEST_ROWS = 8


@dataclass(frozen=True)
class _Outputs:
    """The outputs of a machine in integers, which are compared with those of the model."""

    machine: IntegerMachine

    def outputs(self, rows: Floats) -> Floats:
        return integer_outputs(self.machine, rows)

    __call__ = outputs


@dataclass(frozen=True, eq=False)
class IntegerModule:
    """A model in integers, to be written as a module of some language.

    Parameters
    ----------
    name : str
        Of the module, unless the language needs another.
    model : Model
    tables : Tables
    machine : IntegerMachine
    rounding : Rounding
        The model compared with the machine in integers.
    rows : ndarray of shape (n_samples, n_features)
        Rows of features that they were compared on.
    rounded : Model
        The model of the tables, in floating point.
    storage : {"stored", "int8"}
        Format of the tables.
    """

    name: str
    model: Model
    tables: Tables
    machine: IntegerMachine
    rounding: Rounding
    rows: Floats
    rounded: Model
    storage: str

    version = __version__

    @classmethod
    def of(cls, model: Model, name: str, X: Any, y: Any, storage: str = "auto") -> Any:
        """The code of a model whose inputs have the ranges of X."""
        if storage == "auto":
            storage = "stored" if is_packed(model.expansion) else "int8"
        rounded, tables = integer_tables(model, storage)
        rows = likely_rows(model) if X is None else feature_rows(model, X)
        stored = model if storage == "stored" else None
        machine = integer_machine(rounded, tables, rows, stored)
        outputs: Any = _Outputs(machine)
        rounding, rows = compare(model, outputs, X, y)
        return cls(name, model, tables, machine, rounding, rows, rounded, storage)

    @property
    def has_classes(self) -> bool:
        """Whether it predicts a class, or 1 or -1 as novelty detectors do."""
        return self.model.classes is not None

    @property
    def is_novelty(self) -> bool:
        """Whether it predicts 1 or -1."""
        return self.model.kind == "novelty"

    @property
    def class_names(self) -> list[str]:
        """Names of the classes."""
        return [str(label) for label in self.model.classes.tolist()]

    @property
    def sentence(self) -> str:
        """What the machine is."""
        return (
            f"A kernel machine of {self.machine.centers.shape[0]} centers for "
            f"{self.machine.n_features} features ({kind_in_words(self.model)}), in integers."
        )

    @property
    def input_lines(self) -> list[str]:
        """What the inputs are."""
        machine = self.machine
        if machine.is_counts:
            return ["Inputs are the features themselves, whole numbers of 16 bits."]
        lines = [
            "Inputs are (feature - offset) / scale, rounded to 16 bits; `from_floats` does it."
        ]
        if machine.counts is not None:
            lines += ["`from_counts` does it without floats, for features that are whole numbers."]
        return lines

    @cached_property
    def probabilities(self) -> Probabilities | None:
        """How scores become probabilities, where the model has them."""
        model = self.model
        if not self.has_classes or not model.temperature:
            return None
        return Probabilities.of(self.machine.score_step, model.temperature, model.offset)

    @property
    def uses_exp(self) -> bool:
        """Whether powers of 2 are needed."""
        is_power = self.machine.base is None or self.machine.kernel == "sigmoid"
        return is_power or self.probabilities is not None

    @property
    def uses_multiply(self) -> bool:
        """Whether products with a width are needed."""
        return self.machine.base is None or self.probabilities is not None

    @property
    def uses_log(self) -> bool:
        """Whether logarithms are needed."""
        return self.machine.asinh is not None or self.machine.rational is not None

    @property
    def side(self) -> int:
        """Pixels of a line of a square image."""
        return math.isqrt(self.machine.n_features)

    @property
    def test_inputs(self) -> list[list[int]]:
        """Inputs of test rows: some of those compared on, and the least and the largest ones."""
        some = self.rows[:: -(-len(self.rows) // _TEST_ROWS)]
        extremes = np.array([[-32768], [32767]]) + np.zeros((1, self.machine.n_features), int)
        return np.concatenate([self.machine.quantized(some), extremes]).tolist()

    @cached_property
    def test_scores(self) -> list[list[int]]:
        """Their scores."""
        return self.scores(np.array(self.test_inputs)).tolist()

    def scores(self, inputs: Any) -> Any:
        """Scores of rows of inputs, sorted where they are quantiles."""
        scores = self.machine.scores(inputs)
        return np.sort(scores, axis=1) if self.model.sorts_outputs else scores

    @property
    def test_classes(self) -> list[int]:
        """The numbers of their classes, or 1 and -1."""
        codes = self.codes(np.array(self.test_scores))
        return (self.model.classes[codes] if self.is_novelty else codes).tolist()

    def codes(self, scores: Any) -> Any:
        """The numbers of the classes of rows of scores."""
        model = self.model
        return integer_codes(scores, model.scheme, len(model.classes), model.break_ties)

    @property
    def notes(self) -> list[str]:
        """Lines for the user: what rounding costs, and how near each sum comes to its limit."""
        return [
            f"before and after, on {self.rounding.n_rows:,} {self.rounding.rows}:",
            *(f"  {line}" for line in self.rounding.lines()),
            *bound_lines(self.machine.bounds),
        ]
