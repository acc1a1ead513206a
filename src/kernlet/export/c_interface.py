"""What the header of a machine in C says and declares, whichever arithmetic the code uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, ClassVar

import jinja2
import numpy as np

from kernlet import __version__
from kernlet._typing import Floats, Indices
from kernlet.expansion import KernelExpansion
from kernlet.export.c_columns import SPECIAL, RawColumn, raw_columns, raw_rows, struct_fields
from kernlet.export.c_names import c_comment, c_string, distinct, plain_name, wrapped
from kernlet.export.c_tables import Tables
from kernlet.export.rounding import Rounding, has_cells
from kernlet.kernels.base import Kernel, c_float
from kernlet.model.model import Model
from kernlet.quantization import PackedArray

_C_TYPES = {"float32": "float", "float16": "uint16_t", "int8": "int8_t"}  # bytes otherwise
_LISTED_FEATURES = 1000


def render(template: str, code: Interface) -> str:
    """A template, which sees the machine as ``code`` and its prefixes as ``m`` and ``M``."""
    return environment().get_template(template).render(code=code, m=code.name, M=code.macro)


@cache
def environment() -> jinja2.Environment:
    """The templates, compiled once."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("kernlet.export"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        auto_reload=False,
    )
    environment.filters |= {"comment": c_comment, "c_string": c_string, "number": c_float}
    environment.filters |= {"wrapped": wrapped}
    return environment


@dataclass(frozen=True, eq=False)
class Interface:
    """A model to be written, and what the templates of headers and test programs ask of it.

    Each arithmetic has a subclass, with its ``templates`` (header, source, test program and
    example), the C types ``input_type`` and ``score_type``, ``test``, the rows, scores and
    classes of the test program, and ``expected`` for rows of a table.

    Parameters
    ----------
    name : str
        Prefix of all names.
    storage : str
    model, rounded : Model
        Before and after its numbers were rounded to the tables.
    tables : Tables
    rounding : Rounding
    sample : array of shape (n_samples, n_features)
        Rows of features in float32.
    single_header : bool
        Whether the header holds the source too.
    exp : str
        Of float arithmetic: the exponential.
    tolerance : float
        How far a score of the test program may be from that of Python.
    X : table, array or None
        The rows that were given to the export.
    """

    name: str
    storage: str
    model: Model
    rounded: Model
    tables: Tables
    rounding: Rounding
    sample: Floats
    single_header: bool = field(default=False, kw_only=True)
    exp: str = field(default="", kw_only=True)
    tolerance: float = field(default=0.0, kw_only=True)
    X: Any = field(default=None, kw_only=True)

    arithmetic: ClassVar[str]
    templates: ClassVar[tuple[str, ...]]
    input_type: ClassVar[str]
    input_name: ClassVar[str]
    score_type: ClassVar[str]
    version: ClassVar[str] = __version__

    @property
    def bounds(self) -> Sequence[Any]:
        """What can occur in integer arithmetic at most, and what its type holds."""
        return ()

    @property
    def uses_libm(self) -> bool:
        """Whether the code needs <math.h>."""
        return False

    @property
    def example_row(self) -> list[str]:
        """Features of the example: the first row without a missing one, or else zeros for these."""
        is_missing = np.isnan(self.sample)
        row = self.sample[int(is_missing.any(axis=1).argmin())]
        return [c_float(number) for number in np.nan_to_num(row)]

    @property
    def missing(self) -> str:
        """What a missing feature is: "error", "median" or "distance"."""
        return self.model.missing

    @property
    def table_bytes(self) -> int:
        """Bytes of all tables."""
        return self.tables.nbytes

    @property
    def macro(self) -> str:
        """Prefix of all macros."""
        return self.name.upper()

    @property
    def expansion(self) -> KernelExpansion:
        """What the code evaluates."""
        return self.rounded.expansion

    @property
    def kernel(self) -> Kernel:
        """Its kernel, in the units of the code."""
        return self.tables.kernel

    @property
    def packed(self) -> dict[str, PackedArray]:
        """Its tables."""
        return self.tables.packed

    @property
    def description(self) -> dict[str, str]:
        """What the machine is made of; the format of the tables is said elsewhere."""
        facts = self.model.describe(digits=6)
        return {name: text for name, text in facts.items() if name != "storage"}

    @property
    def features(self) -> list[tuple[str, str]]:
        """Constants and names of the first features, where they have names."""
        return self._constants("FEATURE", (self.model.feature_names or ())[:_LISTED_FEATURES])

    @property
    def classes(self) -> list[tuple[str, str]]:
        """Constants and names of the classes."""
        if self.is_novelty:
            return [(f"{self.macro}_CLASS_OUTLIER", "-1"), (f"{self.macro}_CLASS_INLIER", "1")]
        return self._constants("CLASS", self.class_names)

    @property
    def output_constants(self) -> list[tuple[str, str]]:
        """Constants and names of the outputs of a regressor, where they have names."""
        return self._constants("OUTPUT", self.model.output_labels)

    @property
    def coverage(self) -> float:
        """The share of the targets between the lowest and the highest quantile."""
        levels = self.model.quantiles or (0.0,)
        return levels[-1] - levels[0]

    def _constants(self, kind: str, names: Sequence[str]) -> list[tuple[str, str]]:
        """Enumerators of names; no macro begins with FEATURE_, CLASS_ or OUTPUT_."""
        parts = distinct([plain_name(name) or "UNNAMED" for name in names])
        constants = [f"{self.macro}_{kind}_{part.upper()}" for part in parts]
        return list(zip(constants, names, strict=True))

    @cached_property
    def columns(self) -> list[RawColumn]:
        """The columns of a row of the original table, where the model takes one."""
        return [] if self.model.encoding is None else raw_columns(self.model.encoding, self.name)

    @property
    def encoding_lines(self) -> list[str]:
        """Statements that encode a row of the table."""
        return [line for column in self.columns for line in column.statements]

    def encoding_uses(self, word: str) -> bool:
        """Whether one of them has a word."""
        return any(word in line for line in self.encoding_lines)

    @property
    def fields(self) -> list[RawColumn]:
        """Columns with fields of different names."""
        return struct_fields(self.columns)

    @property
    def text_fields(self) -> list[RawColumn]:
        """Those whose cells are categories."""
        return [column for column in self.fields if column.categories]

    @property
    def special_cells(self) -> list[str]:
        """Constants of cells that are not a category, missing ones first."""
        return [f"{self.macro}_{name}" for name in SPECIAL] if self.text_fields else []

    @property
    def about_table(self) -> str:
        """What a row of the table holds."""
        text = "A row of the original table. A missing number is NAN, of <math.h>."
        if not self.text_fields:
            return text
        missing, other = self.special_cells
        return (
            f"{text} A category is one of the enum of its column, {missing} or {other}; numbers "
            f"that the enum does not have count as {other}. Its field has a fixed size, because "
            "that of an enum depends on the compiler. Unless stated otherwise, all features of a "
            f"column are 0 for {missing} and {other}."
        )

    @cached_property
    def raw_test(self) -> dict[str, Any]:
        """Rows of the table for the test program, and what Python computes for them.

        There are features of all rows, and scores and classes of the first ones, those that are
        clear.
        """
        encoding = self.model.encoding
        if encoding is None:
            return {"cells": [], "features": [], "scores": [], "classes": ""}
        table = self.X if has_cells(self.model, self.X) else None
        cells, features = raw_rows(encoding, self.name, table, self.sample)
        clear = self.clear(features)
        others = np.setdiff1d(np.arange(len(features)), clear)
        order = np.concatenate([clear, others])
        predicted = self.expected(features[clear]) if len(clear) else {"scores": [], "classes": ""}
        return {
            "cells": [", ".join(cells[row]) for row in order],
            "features": [", ".join(map(c_cell, row)) for row in features[order]],
            **predicted,
        }

    def clear(self, rows: Floats) -> Indices:
        """Rows of features whose class and scores round-off cannot change too far: all of them."""
        return np.arange(len(rows))

    def expected(self, rows: Floats) -> dict[str, Any]:
        """``scores`` and ``classes`` of rows of features, for the test program."""
        raise NotImplementedError

    @property
    def is_novelty(self) -> bool:
        """Whether it predicts 1 or -1 instead of the number of a class."""
        return self.model.kind == "novelty"

    def returned(self, codes: Indices) -> list[int]:
        """What the code returns for rows of these class numbers."""
        return (self.model.classes[codes] if self.is_novelty else codes).tolist()

    @property
    def class_names(self) -> list[str]:
        """Names of the classes; none unless it predicts one."""
        return [] if self.model.classes is None else [str(c) for c in self.model.classes.tolist()]

    @property
    def n_scores(self) -> int:
        """Numbers that a prediction returns besides its class."""
        return self.model.scores(np.zeros((1, self.expansion.n_outputs))).size

    @property
    def meaning(self) -> str:
        """What the scores are."""
        model = self.model
        if model.quantiles is not None:
            levels = ", ".join(f"{level:g}" for level in model.quantiles)
            ordered = ", in ascending order for every row" if model.sorts_outputs else ""
            return f"Quantiles of the target ({levels}){ordered}."
        if model.kind == "regressor":
            return "The numbers that are predicted."
        if model.kind == "transformer":
            return "The features of a row."
        if model.kind == "expansion":
            return "The outputs of the machine."
        if self.is_novelty:
            return "There is one score, how normal the row is: negative for outliers."
        if self.n_scores == 1:
            return "There is one score, positive for class 1."
        if model.scheme == "one vs one" and not model.votes:
            return "There is a score for each pair i < j of classes, positive for i."
        return "There is a score for each class."

    @property
    def arrays(self) -> list[tuple[str, str, list[str]]]:
        """Types, names and entries of constant arrays; a single shift or width is none of them."""
        return self.constant_arrays(self.packed)

    def constant_arrays(self, packed: dict[str, PackedArray]) -> list[tuple[str, str, list[str]]]:
        """The same of given packed arrays and of the tables of integers."""
        arrays = [
            (_C_TYPES.get(array.format.name, "uint8_t"), self._table(name), c_entries(array))
            for name, array in packed.items()
        ]
        for name, table in self.tables.integers.items():
            entries = [f"{number}u" for number in table.data.tolist()]
            arrays.append((f"{table.data.dtype.name}_t", self._table(name), entries))
        return arrays

    def _table(self, name: str) -> str:
        """The name of a table."""
        return f"{self.name}_table_{name}"


def c_cell(number: Any) -> str:
    """A feature as a constant of C; NAN, of <math.h>, where it is missing."""
    return "NAN" if np.isnan(number) else c_float(number)


def c_entries(array: PackedArray) -> list[str]:
    """The entries of a packed array as C constants: numbers, codes, or packed bytes."""
    if array.format.name == "float32":
        return [c_float(value) for value in array.data.ravel()]
    if array.format.name == "float16":
        return [f"{bits}u" for bits in array.data.ravel().view(np.uint16).tolist()]
    if array.format.name == "int8":
        return [str(code) for code in array.codes().ravel().tolist()]
    return [f"{byte}u" for byte in array.data.tolist()]
