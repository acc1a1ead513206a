"""C of a machine in the same small program for every library: labels, flash, instructions."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernlet.export.code_size import linked_size
from kernlet.export.emulate import instructions

_MEASURED = """
#include <stdint.h>
{head}
{number} inputs[{n_features}];
int measured(void) {{ return (int)({call}); }}
"""
_MAIN = "int main(void) { return measured(); }\n"
_CLASSIFY = """
#include <string.h>
void classify(const {number} *rows, int n_rows, int *labels)
{{
    for (int i = 0; i < n_rows; ++i) {{
        memcpy(inputs, rows + (long)i * {n_features}, sizeof inputs);
        labels[i] = measured();
    }}
}}
"""
#: Types of features. A double of avr-gcc has four bytes.
_TYPES = {"float": "<f4", "double": "<f8", "int16_t": "<i2"}
_AVR_TYPES = {**_TYPES, "double": "<f4"}


@dataclass(frozen=True, eq=False)
class Program:
    """C files of a machine, and how a row is given to it.

    Parameters
    ----------
    sources : dict
        Texts of C files and headers by name.
    head : str
        C in front of the call: includes, declarations, what turns scores into a class.
    call : str
        C expression: the code of the class of the row in ``inputs``.
    number : {"float", "double", "int16_t"}
        Type of a feature.
    encode : callable
        Features that the library wants from rows; its time is not counted.
    predict : callable
        Class codes of rows by the model in Python, which the C must agree with.
    """

    sources: dict[str, str]
    head: str
    call: str
    number: str
    n_features: int
    encode: Callable[[Any], Any]
    predict: Callable[[Any], Any]

    @property
    def _source(self) -> str:
        return _MEASURED.format(
            head=self.head, number=self.number, n_features=self.n_features, call=self.call
        )

    def labels(self, X: Any) -> Any:
        """Class codes of rows, computed by the C on this computer."""
        code = _CLASSIFY.format(number=self.number, n_features=self.n_features)
        with tempfile.TemporaryDirectory() as name:
            library = _shared_library({**self.sources, "classify.c": self._source + code}, name)
            rows = np.ascontiguousarray(self.encode(X), dtype=_TYPES[self.number])
            labels = np.zeros(len(rows), dtype=np.intc)
            library.classify(_address(rows), len(rows), _address(labels))
        return labels

    def flash(self, target: str) -> tuple[int, int]:
        """Bytes of flash and RAM by which a program grows; the row is not part of the RAM."""
        flash, ram = linked_size(self.sources, self._source + _MAIN, target)
        row = np.dtype(_types(target)[self.number]).itemsize * self.n_features
        alignment = 1 if target == "ATmega328P" else 4
        return flash, ram - -(-row // alignment) * alignment

    def execution(self, target: str, X: Any) -> tuple[float, float, int]:
        """Mean instructions and cycles of the predictions of rows, and bytes of stack."""
        kind = _types(target)[self.number]
        rows = [row.astype(kind).tobytes() for row in self.encode(X)]
        run = instructions(self.sources, self._source, target, rows)
        return float(np.mean(run.instructions)), float(np.mean(run.cycles)), run.stack


def _types(target: str) -> dict[str, str]:
    return _AVR_TYPES if target == "ATmega328P" else _TYPES


def _shared_library(sources: dict[str, str], folder: str) -> ctypes.CDLL:
    """C files as a library of this computer."""
    for file, text in sources.items():
        (Path(folder) / file).write_text(text, encoding="utf-8")
    files = [file for file in sources if file.endswith(".c")]
    command = ["gcc", "-std=c99", "-w", "-O0", "-shared", "-fPIC", *files, "-o", "code.so", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(Path(folder) / "code.so"))


def _address(array: Any) -> ctypes.c_void_p:
    """The address of an array's numbers."""
    return ctypes.c_void_p(array.ctypes.data)
