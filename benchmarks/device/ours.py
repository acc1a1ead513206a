"""Compact machines of several sizes as C programs; fitted ones are kept outside the repository."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.device.data import ThreeWaySplit
from benchmarks.device.peers import Family, Setting
from benchmarks.device.program import Program, address, shared_library
from benchmarks.frontier.measure import ROOT
from kernlet import CompactKernelClassifier, load, save, to_c

#: Fitted machines and cached measurements: not in the repository.
FOLDER = ROOT / "benchmarks" / "results" / "device"
SIZES = (512, 1024, 2048, 4096, 8192)


def machine(data: ThreeWaySplit, max_bytes: int) -> Any:
    """The machine of a data set within a budget, read from its file if it was fitted before."""
    path = FOLDER / f"{data.name}-{max_bytes}.kernlet"
    if not path.exists():
        fitted = CompactKernelClassifier(max_bytes=max_bytes, random_state=0).fit(data.X, data.y)
        FOLDER.mkdir(parents=True, exist_ok=True)
        save(fitted, path)
    return load(path)


def program(data: ThreeWaySplit, setting: Setting, *, arithmetic: str) -> Program:
    """The C of a machine; in integers, its own function turns features into int16."""
    model = machine(data, setting["max_bytes"])
    with tempfile.TemporaryDirectory() as folder:
        to_c(model, folder, X=data.X, y=data.y, arithmetic=arithmetic)
        files = [Path(folder) / name for name in ("model.c", "model.h")]
        sources = {file.name: file.read_text("utf-8") for file in files}
    is_integer = arithmetic == "integer"
    return Program(
        sources,
        '#include "model.h"',
        "model_predict(inputs, 0)",
        "int16_t" if is_integer else "float",
        data.X.shape[1],
        partial(_from_floats, sources) if is_integer else np.float32,
        model.predict,
    )


def _from_floats(sources: dict[str, str], X: Any) -> Any:
    """Rows as the machine's own conversion gives them."""
    rows = np.ascontiguousarray(X, dtype=np.float32)
    inputs = np.zeros(rows.shape, dtype=np.int16)
    with tempfile.TemporaryDirectory() as folder:
        library = shared_library(sources, folder)
        for row, converted in zip(rows, inputs, strict=True):
            library.model_from_floats(address(row), address(converted))
    return inputs


_LADDER = [{"max_bytes": size} for size in SIZES]
INTEGER, FLOAT = "kernlet-integer", "kernlet-float"
OURS = {
    INTEGER: Family("kernlet, integer", "kernlet", _LADDER, partial(program, arithmetic="integer")),
    FLOAT: Family("kernlet, float", "kernlet", _LADDER, partial(program, arithmetic="float")),
}
