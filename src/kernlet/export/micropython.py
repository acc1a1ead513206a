"""A machine in integers for MicroPython: a module that evaluates it, and a file of its tables."""

from __future__ import annotations

import json
import keyword
from functools import cached_property
from typing import Any

import numpy as np

from kernlet.export.c_interface import environment
from kernlet.export.integer_module import IntegerModule
from kernlet.integer.arithmetic import LOGARITHMS, POWERS
from kernlet.model.model import Model
from kernlet.tables.dates import DateColumn
from kernlet.tables.encode import CategoryColumn, NumberColumn
from kernlet.tables.spelling import find_categories

#: The metadata of a table file; a model file has another key.
SETTINGS_KEY = "kernlet-integer"
# Modules of boards, which one of the same name would hide.
_MODULES = """
array asyncio binascii bluetooth board builtins cmath collections cryptolib deflate digitalio errno
esp esp32 framebuf gc hashlib heapq io json kernlet lcd160cr machine math micropython neopixel
network ntptime openamp os platform pyb random re rp2 select socket ssl stm struct supervisor sys
time uarray uctypes ujson uos ustruct utime vfs wipy wm8960 zephyr zsensor zlib
"""


def micropython(
    model: Model, *, name: str, arithmetic: str, X: Any, y: Any
) -> tuple[dict[str, str | bytes], list[str]]:
    """Module and table file, and lines for the user."""
    code = _MicroPython.of(model, name, X, y)
    notes = [f"{len(code.table_file):,} bytes in {code.module}.kernlet", *code.notes]
    return {f"{code.module}.py": code.text, f"{code.module}.kernlet": code.table_file}, notes


class _MicroPython(IntegerModule):
    """What the module and the table file hold."""

    powers, logarithms = POWERS.tolist(), LOGARITHMS.tolist()

    @property
    def module(self) -> str:
        """The name of the module."""
        is_taken = keyword.iskeyword(self.name) or self.name in _MODULES.split()
        return f"{self.name}_model" if is_taken else self.name

    @property
    def text(self) -> str:
        """The module."""
        return environment().get_template("micropython.py.jinja").render(code=self)

    @property
    def example(self) -> list[str]:
        """The features of a row, in three digits or so."""
        return [f"{value:.4g}" for value in self.rows[0][:8]] + ["..."] * (self.rows.shape[1] > 8)

    @property
    def example_answer(self) -> str:
        """What it is for."""
        if self.is_novelty:
            return "1, or -1 for an outlier"
        return "a class" if self.has_classes else "a value"

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All constants."""
        machine, model = self.machine, self.model
        settings: dict[str, Any] = {
            "version": self.version,
            "n_features": machine.n_features,
            "n_centers": machine.centers.shape[0],
            "rank": machine.centers.shape[1],
            "n_entries": machine.coef.shape[1],
            "classes": model.classes.tolist() if self.has_classes else None,
            "scheme": model.scheme,
            "break_ties": bool(model.break_ties),
            "is_flat": bool(model.is_flat) and model.kind == "regressor",
            "sorts_outputs": model.sorts_outputs,
            "block": machine.block,
            "side": self.side,
        }
        for name in ("is_counts", "low", "high", "limit", "center_shift", "kernel"):
            settings[name] = getattr(machine, name)
        for name in ("distance_shift", "fraction", "value_shift", "degree", "base_offset"):
            settings[name] = getattr(machine, name)
        settings["score_step"] = machine.score_step
        for name in ("front", "asinh", "rescale", "rational", "base"):
            if getattr(machine, name) is not None:
                settings[name] = getattr(machine, name)  # as a list
        if machine.log_widths is not None:
            _, top, start, factor, fraction = machine.log_widths
            settings["log_widths"] = [top, start, factor, fraction]
        if machine.weights is not None:
            settings["weight_bits"] = machine.weights.bits
        if self.probabilities is not None:
            p = self.probabilities
            settings["probabilities"] = [p.width, p.fraction, p.offset]
        for name in ("projection", "centers", "coef"):
            if name in self.tables.packed:
                format = self.tables.packed[name].format
                settings[name] = [int(format.bits), format.n_levels]
        if machine.takes_missing:
            settings["missing"] = "distance" if machine.skips_missing else "median"
        if machine.outputs is not None:
            settings["output_bits"] = self.tables.integers["outputs"].bits
        if model.encoding is not None:
            columns = [cell for column in model.encoding.columns for cell in _cells(column)]
            settings["columns"] = columns
        return settings

    @cached_property
    def arrays(self) -> dict[str, Any]:
        """All tables."""
        machine, packed = self.machine, self.tables.packed
        arrays = {"offset": machine.offset, "scale": machine.scale}
        arrays |= {name: packed[name].data for name in ("centers", "coef")}
        arrays["intercept"] = machine.intercept.astype(np.int32)
        if machine.projection is not None:
            arrays["projection"] = packed["projection"].data
        if machine.outputs is not None:
            arrays["outputs"] = self.tables.integers["outputs"].data
        if machine.log_widths is not None:
            arrays["log_gamma"] = packed["log_gamma"].data
        elif machine.base is None:
            arrays["widths"] = machine.widths.astype(np.uint16)
        if machine.fill is not None:
            arrays["fill"] = machine.fill.astype(np.int16)
        if machine.weights is not None:
            arrays["log_weights"] = packed["log_weights"].data
        if machine.steps is not None:
            arrays["step_features"] = machine.steps.features.astype(np.uint16)
            arrays["thresholds"] = machine.steps.thresholds.astype(np.int16)
            arrays["jumps"] = machine.steps.jumps.astype(np.int16)
        if machine.counts is not None:
            arrays["bases"] = machine.counts.base.astype(np.int16)
            arrays["multipliers"] = machine.counts.multiplier.astype(np.int16)
            arrays["offsets"] = machine.counts.offset.astype(np.int32)
            arrays["shifts"] = machine.counts.shift.astype(np.uint8)
        return arrays

    @cached_property
    def table_file(self) -> bytes:
        """The tables, packed as they are, and the constants, in the safetensors format."""
        # wide numbers first, so that each array begins at a multiple of its width
        arrays = sorted(self.arrays.items(), key=lambda item: -item[1].itemsize)
        text = json.dumps(self.settings, separators=(",", ":"))
        header: dict[str, Any] = {"__metadata__": {SETTINGS_KEY: text}}
        start = 0
        for name, array in arrays:
            dtype = f"{array.dtype.kind.upper()}{8 * array.itemsize}"
            places = [start, start := start + array.nbytes]
            header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": places}
        content = json.dumps(header, separators=(",", ":")).encode()
        content += b" " * (-len(content) % 8)
        size = len(content).to_bytes(8, "little")
        return b"".join([size, content, *(array.tobytes() for _, array in arrays)])


def _cells(column: Any) -> list[dict[str, Any]]:
    """How the cells of a column become features; a date is given as its parts."""
    if isinstance(column, DateColumn):
        pairs = zip(column.features, column.fills, strict=True)
        return [{"name": name, "fill": fill} for name, fill in pairs]
    if isinstance(column, NumberColumn):
        passes = {"passes": True} if column.passes_missing else {}
        return [{"name": column.name, "fill": column.fill, **passes}]
    if not column.categories:  # whether a number is missing
        return [{"name": column.name}]
    index = dict(column.index)
    missing, is_known = find_categories([None], index)[0]
    index.pop(None, None)
    return [
        {
            "name": column.name,
            "texts": index,
            "missing": missing if is_known else column.unknown,
            "other": column.unknown,
            "n_features": len(column.features) if isinstance(column, CategoryColumn) else 0,
        }
    ]
