"""Machines in integers beside the same machines in float: labels, code, instructions and cycles."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import click
import numpy as np

from benchmarks.frontier.data import LARGE, MEDIUM, SMALL, split
from benchmarks.tables import Table
from kernlet import CompactKernelClassifier, to_c
from kernlet.export.code_size import CodeSize
from kernlet.export.integer_module import IntegerModule
from kernlet.model.model import Model, as_model

_BYTES, _LARGE_BYTES = 1024, 4096
_DEVICES = ("Cortex-M0", "ATmega328P")


def integer(quick: bool) -> Iterator[Table]:
    """The public call on the sets of the frontier, in float and in integers."""
    labels = Table(
        f"CompactKernelClassifier(max_bytes={_BYTES}, random_state=0), {_LARGE_BYTES} for "
        f"{', '.join(LARGE)}: test rows in float, and in integers that fit the training rows",
        ["data", "machine", "test rows", "same label", "accuracy, float", "integer"],
    )
    cost = Table(
        "The same machines in C (gcc -Os): bytes of code and library, instructions (Cortex-M0) and "
        "cycles (ATmega328P) of a prediction, and how many times fewer integers take",
        [
            *("data", "M0 code, float", "integer", "M0 instructions, float", "integer", "ratio"),
            *("AVR cycles, float", "integer", "ratio"),
        ],
    )
    for name in ["iris"] if quick else [*SMALL, *MEDIUM, *LARGE]:
        click.echo(f"measuring {name}", err=True)
        data = split(name, 0)
        max_bytes = _LARGE_BYTES if name in LARGE else _BYTES
        machine = CompactKernelClassifier(max_bytes=max_bytes, random_state=0).fit(data.X, data.y)
        model = as_model(machine)
        labels.add(name, *_labels(model, data.X, data.X_test, data.y_test))
        sizes = [_sizes(model, data.X, arithmetic) for arithmetic in ("float", "integer")]
        cost.add(name, *_costs(*sizes))
    yield labels
    yield cost


def _labels(model: Model, X: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> Iterator[str]:
    module = IntegerModule.of(model, "model", X, None)
    in_float = model.codes(model.outputs(X_test.astype(float)))
    in_integers = module.codes(module.machine.scores(module.machine.quantized(X_test)))
    yield f"{model.expansion.n_centers} centers of {model.expansion.centers.shape[1]} numbers"
    yield f"{len(y_test):,}"
    yield f"{100 * np.mean(in_float == in_integers):.2f} %"
    for codes in (in_float, in_integers):
        yield f"{100 * np.mean(model.classes[codes] == y_test):.2f} %"


def _sizes(model: Model, X: np.ndarray, arithmetic: str) -> dict[str, CodeSize]:
    with tempfile.TemporaryDirectory() as folder:
        source = to_c(model, folder, X=X, arithmetic=arithmetic)
        return {size.target: size for size in source.size_report()}


def _costs(in_float: dict[str, CodeSize], in_integers: dict[str, CodeSize]) -> Iterator[str]:
    m0, avr = ([sizes[device] for sizes in (in_float, in_integers)] for device in _DEVICES)
    for size in m0:
        yield f"{size.code + size.library:,}" if size.flash is not None else size.problem
    for counts in ([size.instructions for size in m0], [size.cycles for size in avr]):
        before, after = counts
        yield from (f"{count:,}" if count is not None else "-" for count in counts)
        yield f"{before / after:.1f}" if before and after else "-"


BENCHMARKS = {"integer": integer}
