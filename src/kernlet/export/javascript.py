"""Export to JavaScript: one ES module that needs nothing else, and its types."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from kernlet import __version__
from kernlet.affine import AffineMap, CurvedMap
from kernlet.expansion import KernelExpansion
from kernlet.export.c_interface import environment
from kernlet.export.rounding import dense_points, likely_rows
from kernlet.kernels.diagonal import DiagonalRBF
from kernlet.kernels.gram import dense_centers
from kernlet.model.model import Model, as_model
from kernlet.quantization import (
    FORMATS,
    Format,
    PackedArray,
    QuantizedExpansion,
    SparsePackedArray,
    block_means,
    encode,
    index_bits,
)
from kernlet.tables.dates import DATE_PARTS, DateColumn
from kernlet.tables.encode import CategoryColumn, ColumnEncoding, NumberColumn
from kernlet.tables.sniff import DATE, MISSING_CELLS, PLAIN_NUMBER
from kernlet.tables.spelling import category_kind

# How this works
# --------------
# The module computes in double, on the same numbers and in the same order of operations as
# `Model` does: the scaler, the input map of the expansion, the kernel, the sum, the rule. Packed
# tables stay packed, as base64 of their bytes, and are decoded when the module is loaded: codes
# times a step, rounded to float32 as `PackedArray.decoded` does. Arrays of float64 are stored in
# the smallest format that holds every number exactly.
#
# Two things are float32 in Python too: what a `CurvedMap` compares with its thresholds, which
# Math.fround repeats bit for bit except for the asinh, and the exponential of packed log-widths,
# for which the widths are written instead.

_MAX_TABLE_BYTES = 100_000_000  # engines hold strings of 512 MB at most; a parser needs seconds
_MAX_SAFE_INTEGER = 2**53 - 1
_LARGEST_EXAMPLE = 8  # features of the example in the comment
_EXAMPLE_CELLS = 4
_MAX_UNION = 50  # classes that the type of a label lists
_LITERALS = 3  # numbers that are written as such
# Lossless formats for arrays of float64, the smallest first.
_EXACT = ("int8", "float16", "float32")


def javascript(model: Model, *, name: str, **_: Any) -> tuple[dict[str, str | bytes], list[str]]:
    """NAME.mjs, a module that predicts, and NAME.d.mts, its types; and a line on their sizes.

    Raises
    ------
    ValueError
        For a kernel of your own without ``js_code``, and tables of more than 100 MB.
    """
    code = _Code(model, name)
    module, types = (_render(code, f"javascript/model.{end}") for end in ("mjs", "d.mts"))
    tables = sum(map(len, code.tables.values()))
    notes = [f"a module of {len(module.encode()):,} bytes, {tables:,} of them tables"]
    return {f"{name}.mjs": module, f"{name}.d.mts": types}, notes


def javascript_module(model: Any, *, encodes: bool = True) -> str:
    """The text of the module, which can also stand in a <script type="module"> of a page.

    Without ``encodes`` it takes rows of features alone, also of a machine of tables.
    """
    return _render(_Code(as_model(model), encodes=encodes), "javascript/model.mjs")


def _render(code: _Code, template: str) -> str:
    return environment().get_template(f"{template}.jinja").render(code=code, js=js_value)


def js_value(value: Any) -> str:
    """A JSON value as JavaScript, which can stand in a comment, a string and a page."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    # Outside of strings JSON has neither "<" nor characters that are not printable: these may end
    # a script of a page, a line of JavaScript or be a lone surrogate, which UTF-8 cannot hold.
    return "".join(_escaped(c) if c == "<" or not c.isprintable() else c for c in text)


def _escaped(character: str) -> str:
    return "\\u003c" if character == "<" else json.dumps(character)[1:-1]


def js_label(label: Any) -> Any:
    """A class as JSON holds it; an integer that a double cannot hold becomes a text."""
    value = label.item() if isinstance(label, np.generic) else label
    is_exact = not isinstance(value, int) or abs(value) <= _MAX_SAFE_INTEGER
    return value if isinstance(value, str | bool | int | float) and is_exact else str(value)


# -- Tables ----------------------------------------------------------------------------------------


def _table(array: Any) -> str:
    """An expression that decodes an array; one of float64 in the smallest exact format."""
    if isinstance(array, np.ndarray) and array.size <= _LITERALS:
        return js_value(array.ravel().tolist())
    packed = array if isinstance(array, PackedArray) else _exactly(np.asarray(array))
    if isinstance(packed, np.ndarray):
        return f'floats("{_base64(packed.astype("<f8"))}", 8)'
    data, format, step = packed.data, packed.format, float(packed.step)
    if format.n_levels is None:
        numbers = data.astype(f"<f{int(format.bits) // 8}")
        last = f", {step!r}" if format.has_step and step != 1 else ""
        return f'floats("{_base64(numbers)}", {int(format.bits) // 8}{last})'
    count = math.prod(packed.shape)
    if format.name == "ternary":
        return f'trits("{_base64(data)}", {count}, {step!r})'
    bits = int(format.bits)
    return f'codes("{_base64(data)}", {bits}, {count}, {format.n_levels}, {step!r})'


def _exactly(array: Any) -> Any:
    """Numbers in the smallest packed format that holds all of them, or as they are."""
    for name in _EXACT:
        packed = _in_format(array, FORMATS[name])
        if packed is not None and np.array_equal(packed.decoded().astype(array.dtype), array):
            return packed
    return array


def _in_format(array: Any, format: Format) -> PackedArray | None:
    """Numbers in a format with step 1; None where it cannot hold them."""
    limit = format.n_levels or float(np.finfo(format.name).max)
    if np.abs(array).max(initial=0.0) > limit:
        return None
    return encode(array, format, 1.0)


def _base64(data: Any) -> str:
    return base64.b64encode(np.ascontiguousarray(data).tobytes()).decode("ascii")


# -- What the templates ask for --------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Code:
    """A model to be written, and what the templates ask of it."""

    model: Model
    name: str = "model"
    encodes: bool = True

    version, date_parts = __version__, tuple(DATE_PARTS)
    missing_cells, number_pattern, date_pattern = MISSING_CELLS, PLAIN_NUMBER, DATE.pattern

    @property
    def expansion(self) -> KernelExpansion:
        """What the code evaluates."""
        return self.model.expansion

    @property
    def term(self) -> str:
        """What one feature adds to the sum that the kernel takes."""
        kernel = self.expansion.kernel
        if isinstance(kernel, DiagonalRBF):
            return f"weights[j * x.length + i] * {kernel.js_term}"
        return kernel.js_term if kernel.is_translation_invariant else ""

    @cached_property
    def kernel(self) -> str:
        """The kernel's value."""
        self.expansion.kernel.to_dict()  # refuses a kernel without a name
        return self.expansion.kernel.js_code("sum")

    @property
    def map(self) -> AffineMap | None:
        """The input map of the expansion; its matrix is a table, and blocks stand beside it."""
        return self.expansion.input_map

    @property
    def curve(self) -> CurvedMap | None:
        """The same where it has an asinh or steps."""
        return self.map if isinstance(self.map, CurvedMap) else None

    @property
    def digits(self) -> str:
        """To how many digits scores agree with those of Python."""
        # the asinh of float32 numbers may differ in the last bit
        return "six" if self.curve is not None and self.curve.is_asinh else "nine"

    @property
    def block(self) -> int:
        """The side of the blocks of pixels."""
        return getattr(self.expansion, "block", 1)

    @property
    def block_weight(self) -> float:
        """What a pixel counts in the mean of its block, in float32."""
        return float(block_means(1, self.block)[0, 0])

    @property
    def n_means(self) -> int:
        """Means of blocks of an image."""
        return self.expansion.n_features // self.block**2

    @cached_property
    def tables(self) -> dict[str, str]:
        """Expressions of all tables, by the names that the template uses."""
        tables = dict(self._map_tables("scaler", self.model.scaler))
        tables |= self._map_tables("map", self.map)
        expansion = self.expansion
        packed = expansion.packed if isinstance(expansion, QuantizedExpansion) else {}
        for name, value in expansion.kernel.to_dict().items():
            if isinstance(value, np.ndarray) and (np.size(value) > 1 or value.ndim > 1):
                tables[name] = _table(value)
        if "log_weights" in packed:  # of three numbers, as NumPy rounds them
            three = np.exp(packed["log_weights"].step * np.arange(-1, 2, dtype=np.float32)).tolist()
            codes = _table(replace(packed["log_weights"], step=1.0))
            tables["weights"] = f"{codes}.map((code) => {js_value(three)}[code + 1])"
        tables["centers"] = _table(
            packed.get("centers", dense_points(dense_centers(expansion.centers)))
        )
        coef = packed.get("coef", expansion.coef)
        if isinstance(coef, SparsePackedArray):
            tables["entries"] = _table(coef.values)
            bits, count = index_bits(coef.n_outputs), math.prod(coef.values.shape)
            tables["places"] = f'integers("{_base64(coef.data)}", {bits}, {count})'
        else:
            tables["coef"] = _table(coef)
        tables["intercept"] = _table(np.asarray(expansion.intercept))
        size = sum(map(len, tables.values()))
        if size > _MAX_TABLE_BYTES:
            raise ValueError(
                f"The tables of the machine are {size:,} bytes of JavaScript, more than "
                f"{_MAX_TABLE_BYTES:,}: make it smaller with kernlet.compress."
            )
        return tables

    def _map_tables(self, name: str, map: AffineMap | None) -> dict[str, str]:
        """Shift, scale and matrix of a map that are not trivial, and its steps."""
        tables: dict[str, str] = {}
        if map is None:
            return tables
        own = self.expansion if map is self.expansion.input_map else None
        if map.shift.any() or isinstance(map, CurvedMap):
            stored = getattr(own, "shift", None)
            shift = stored if isinstance(stored, PackedArray) else map.shift
            tables[f"{name}Shift"] = _table(shift)
        if (map.scale != 1).any() or isinstance(map, CurvedMap):
            stored = getattr(own, "scale", None)
            is_packed = isinstance(stored, PackedArray)  # what features are divided by, in float32
            scale = f"{_table(stored)}.map((s) => Math.fround(1 / s))" if is_packed else ""
            tables[f"{name}Scale"] = scale or _table(map.scale)
        if map.fill is not None:
            tables[f"{name}Fill"] = _table(getattr(own, "fill", None) or map.fill)
        packed = getattr(own, "packed", {})
        matrix = packed.get("projection") if packed else map.matrix
        if matrix is not None:
            # a projection of means of blocks is multiplied by the weight of a pixel, in float32
            weight = f".map((p) => Math.fround(p * {self.block_weight}))"
            has_blocks = own is not None and self.block > 1
            tables[f"{name}Matrix"] = _table(matrix) + (weight if has_blocks else "")
        steps = map.steps if isinstance(map, CurvedMap) else None
        if steps is not None:
            tables["stepFeatures"] = js_value(np.asarray(steps.features).tolist())
            tables["thresholds"] = _table(np.asarray(steps.thresholds, dtype=np.float32))
            stored = getattr(own, "steps", None)
            jumps = np.asarray(steps.jumps, dtype=np.float32) if stored is None else stored.jumps
            tables["jumps"] = _table(jumps)
        return tables

    def decodes(self, function: str) -> bool:
        """Whether a table is decoded by a function."""
        return any(text.startswith(f"{function}(") for text in self.tables.values())

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the features, where they have any."""
        names = self.model.feature_names
        if self.model.encoding is not None:
            names = self.model.encoding.feature_names
        return None if names is None else [str(name) for name in names]

    @cached_property
    def labels(self) -> list[Any]:
        """The classes, as JSON holds them; none unless it is a classifier."""
        classes = [] if self.model.classes is None else list(self.model.classes)
        return [js_label(label) for label in classes]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The two classes of each output, one vs one."""
        return list(combinations(range(len(self.labels)), 2))

    @property
    def gives_array(self) -> bool:
        """Whether a prediction is several numbers."""
        is_number = self.model.kind == "regressor" and self.model.is_flat
        return not self.labels and not is_number

    @property
    def has_one_score(self) -> bool:
        """Whether probabilities are a sigmoid, of two classes, and not a softmax."""
        return self.model.scheme == "one output" or (
            self.model.scheme == "one vs one" and len(self.labels) == 2
        )

    @property
    def about(self) -> list[str]:
        """What the machine is made of."""
        facts = self.model.describe(digits=6)
        return [js_value(f"{name}: {text}")[1:-1] for name, text in facts.items()]

    # -- The comment and the types -----------------------------------------------------------------

    @property
    def example(self) -> list[float] | None:
        """A row near a center, unless it is a long one."""
        if self.model.n_features > _LARGEST_EXAMPLE:
            return None
        return [float(f"{value:.3g}") for value in likely_rows(self.model, 1)[0]]

    @property
    def answer(self) -> str:
        """What the machine predicts for the example."""
        outputs = self.model.outputs(np.array([self.example]))
        if self.labels:
            return js_value(self.labels[int(self.model.codes(outputs)[0])])
        values = [float(f"{value:.6g}") for value in np.ravel(self.model.scores(outputs))]
        return js_value(values if self.gives_array else values[0])

    @property
    def example_cells(self) -> str:
        """The first cells of a row of a table."""
        assert self.encoding is not None
        columns = {column.name: column for column in self.encoding.columns}
        cells = [f"{js_value(name)}: {_example(column)}" for name, column in columns.items()]
        return ", ".join(cells[:_EXAMPLE_CELLS] + ["..."] * (len(cells) > _EXAMPLE_CELLS))

    @property
    def label_type(self) -> str:
        """The type of a class."""
        if len(self.labels) <= _MAX_UNION:
            return " | ".join(js_value(label) for label in self.labels)
        names = {str: "string", bool: "boolean", int: "number", float: "number"}
        return " | ".join(dict.fromkeys(names[type(label)] for label in self.labels))

    @property
    def encoding(self) -> ColumnEncoding | None:
        """How the cells of a row of a table become features, where the module does it."""
        return self.model.encoding if self.encodes else None

    @property
    def columns(self) -> list[dict[str, Any]]:
        """The columns of a table, as the function that encodes a row takes them."""
        encoding = self.encoding
        assert encoding is not None
        positions: Sequence[int | None] = encoding.positions or [None] * len(encoding.columns)
        return [
            {"name": column.name, "position": position} | _column(column)
            for column, position in zip(encoding.columns, positions, strict=True)
        ]

    def uses(self, kind: str) -> bool:
        """Whether a column is of a kind."""
        return any(column["kind"] == kind for column in self.columns)

    @property
    def cells(self) -> list[tuple[str, str, str]]:
        """Names, types and meanings of the cells of a row."""
        assert self.encoding is not None
        cells: dict[str, tuple[str, str, str]] = {}
        for column in self.encoding.columns:
            rule = js_value(column.rule)[1:-1].replace("*/", "* /")
            cells.setdefault(column.name, (js_value(column.name), _cell_type(column), rule))
        return list(cells.values())


def _column(column: Any) -> dict[str, Any]:
    """A column of a table as a JSON value."""
    if isinstance(column, NumberColumn):
        passes = {"passes": True} if column.passes_missing else {}
        return {"kind": "number", "fill": column.fill, **passes}
    if isinstance(column, DateColumn):
        parts = [list(DATE_PARTS).index(part) for part in column.parts]
        return {"kind": "date", "order": column.order, "parts": parts, "fills": column.fills}
    index, is_one_hot = dict(column.index), isinstance(column, CategoryColumn)
    missing = index.pop(None, None)
    return {
        "kind": "category",
        "width": len(column.features) if is_one_hot else 0,  # 0: one number
        "by": category_kind(column.categories),
        "entries": list(map(list, index.items())),
        "missing": missing,
        "unknown": column.unknown,
    }


def _example(column: Any) -> str:
    if isinstance(column, DateColumn):
        return '"2024-01-31 18:30"'
    if isinstance(column, NumberColumn):
        return f"{column.fill or 0:.3g}"
    return js_value(column.categories[0] if column.categories else None)


def _cell_type(column: Any) -> str:
    if isinstance(column, DateColumn):
        return "Date | string | number | null"
    return (
        "number | null" if isinstance(column, NumberColumn) else "string | number | boolean | null"
    )
