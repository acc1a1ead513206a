"""A machine in integers as one Rust file, which needs no standard library."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kernlet.export.c_interface import environment
from kernlet.export.integer_module import IntegerModule
from kernlet.integer.arithmetic import LOGARITHMS, POWERS
from kernlet.model.model import Model

_LINE = 96  # characters of a line of a table
# Words that a module cannot be called.
_RESERVED = """
abstract as async await become box break const continue core crate do dyn else enum extern false
final fn for gen if impl in let loop macro match mod move mut override priv pub ref return self
static std struct super trait true try type typeof unsafe unsized use virtual where while yield
alloc test
"""


def rust(
    model: Model, *, name: str, arithmetic: str, X: Any, y: Any
) -> tuple[dict[str, str | bytes], list[str]]:
    """One file of Rust and lines for the user."""
    code = _Rust.of(model, name, X, y)
    notes = [f"{code.table_bytes:,} bytes of tables", *code.notes]
    return {f"{code.module}.rs": code.text}, notes


@dataclass(frozen=True)
class _Table:
    """A table of constants."""

    name: str
    about: str
    type: str
    entries: list[str]
    format: str = ""  # of codes
    bits: int = 0
    levels: int = 0

    @property
    def per_line(self) -> int:
        """Entries of a line."""
        return max(1, _LINE // (2 + max(map(len, self.entries), default=1)))


class _Rust(IntegerModule):
    """What the template asks for."""

    @property
    def module(self) -> str:
        """The name of the module."""
        return f"{self.name}_model" if self.name in _RESERVED.split() else self.name

    @property
    def text(self) -> str:
        """The file."""
        template = environment().get_template("model.rs.jinja")
        return template.render(code=self, machine=self.machine)

    @cached_property
    def arrays(self) -> list[_Table]:
        """All tables."""
        machine, tables = self.machine, []
        packed = {"PROJECTION": "projection", "CENTER_CODES": "centers", "COEF": "coef"}
        if machine.log_widths is not None:
            packed["LOG_WIDTHS"] = "log_gamma"
        if machine.weights is not None:
            packed["LOG_WEIGHTS"] = "log_weights"
        for name, key in packed.items():
            if key in self.tables.packed:
                tables.append(self._packed(name, key))
        if machine.outputs is not None:
            integers = self.tables.integers["outputs"]
            about = f"The outputs of the coefficients, {integers.bits} bits each."
            numbers = _numbers(integers.data)
            tables.append(_Table("OUTPUTS", about, "u8", numbers, bits=integers.bits))
        if machine.log_widths is None and len(machine.widths) > 1:
            tables.append(_Table("WIDTHS", "Widths of centers.", "u16", _numbers(machine.widths)))
        tables.append(_Table("INTERCEPT", "Intercepts.", "i32", _numbers(machine.intercept)))
        if machine.fill is not None:
            about = "What replaces the inputs of missing features."
            tables.append(_Table("FILL", about, "i16", _numbers(machine.fill)))
        return [*tables, *self._front(), *self._functions()]

    def _packed(self, name: str, key: str) -> _Table:
        """A table of codes, as it is stored."""
        array = self.tables.packed[key]
        names = {"coef": "coefficients", "log_gamma": "logarithms of widths"}
        what = (names | {"log_weights": "logarithms of weights"}).get(key, key)
        about = f"Codes of {what}, {array.format.name}."
        levels, bits = int(array.format.n_levels or 0), int(array.format.bits)
        return _Table(name, about, "u8", _numbers(array.data), array.format.name, bits, levels)

    def _front(self) -> list[_Table]:
        """Tables of features."""
        machine, tables = self.machine, []
        for name, values in (("OFFSET", machine.offset), ("SCALE", machine.scale)):
            if len(values) > 1:
                about = f"The {name.lower()} of each input."
                tables.append(_Table(name, about, "f32", [self.float(v) for v in values]))
        if machine.counts is not None:
            rows = zip(*(numbers.tolist() for numbers in machine.counts), strict=True)
            about = "Base, multiplier, offset and shift of each feature."
            tables.append(
                _Table("COUNTS", about, "(i16, i16, i32, u8)", [str(row) for row in rows])
            )
        if machine.steps is not None:
            rows = zip(*(numbers.tolist() for numbers in machine.steps), strict=True)
            about = "Feature, threshold and jump of each step."
            tables.append(_Table("STEPS", about, "(u16, i16, i16)", [str(row) for row in rows]))
        return tables

    def _functions(self) -> list[_Table]:
        """Tables of powers and logarithms."""
        tables = []
        if self.uses_exp:
            tables.append(_Table("POWERS", "65535 times 2^(-i/32).", "u16", _numbers(POWERS)))
        if self.uses_log:
            numbers = _numbers(LOGARITHMS)
            tables.append(_Table("LOGARITHMS", "65536 log2(1 + i/32).", "u16", numbers))
        return tables

    def table(self, name: str) -> _Table | None:
        """The table of a name, if there is one."""
        return next((table for table in self.arrays if table.name == name), None)

    @property
    def table_bytes(self) -> int:
        """Bytes of all tables that a prediction from inputs needs."""
        sizes = {"u8": 1, "u16": 2, "i16": 2, "i32": 4, "(u16, i16, i16)": 6}
        return sum(len(table.entries) * sizes.get(table.type, 0) for table in self.arrays)

    def uses_reader(self, name: str) -> bool:
        """Whether a table is read as bytes, bits or trits."""
        tables = [table for table in self.arrays if table.bits]
        kinds = {
            "trits" if t.format == "ternary" else "bytes" if t.bits == 8 else "bits" for t in tables
        }
        return name in kinds

    @property
    def uses_rescale(self) -> bool:
        """Whether a stage multiplies by a ratio."""
        machine = self.machine
        return any(part is not None for part in (machine.asinh, machine.rescale, machine.base))

    @staticmethod
    def float(value: Any) -> str:
        """A constant of type f32, to the last bit."""
        text = str(np.float32(value))
        return text if "." in text or "e" in text else f"{text}.0"

    @staticmethod
    def plus(value: int) -> str:
        """What adds a number; nothing for 0."""
        return f" {'-' if value < 0 else '+'} {abs(value)}" if value else ""

    @staticmethod
    def string(text: str) -> str:
        """A string constant."""
        characters = [
            character
            if " " <= character <= "~" and character not in '"\\'
            else f"\\u{{{ord(character):x}}}"
            for character in text.encode("utf-8", "replace").decode()
        ]
        return '"' + "".join(characters) + '"'


def _numbers(values: Any) -> list[str]:
    return [str(value) for value in np.asarray(values).ravel().tolist()]
