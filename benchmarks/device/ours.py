"""Compact machines of several sizes as C programs; fitted ones are kept outside the repository."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.device.data import ThreeWaySplit
from benchmarks.device.peers import Family, Setting
from benchmarks.device.program import Program
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


_FROM_COUNTS = """
static int predict(const int16_t *counts)
{
    int16_t row[MODEL_FEATURES];
    model_from_counts(counts, row);
    return model_predict(row, 0);
}
"""


def program(data: ThreeWaySplit, setting: Setting, *, arithmetic: str) -> Program:
    """The C of a machine; in integers, the scales of its features are part of a prediction."""
    model = machine(data, setting["max_bytes"])
    with tempfile.TemporaryDirectory() as folder:
        to_c(model, folder, X=data.X, y=data.y, arithmetic=arithmetic)
        files = [Path(folder) / name for name in ("model.c", "model.h")]
        sources = {file.name: file.read_text("utf-8") for file in files}
    head, call = '#include "model.h"\n', "model_predict(inputs, 0)"
    if arithmetic == "integer" and "model_from_counts" in sources["model.h"]:
        head, call = head + _FROM_COUNTS, "predict(inputs)"
    number, encode = {"integer": ("int16_t", np.int16), "float": ("float", np.float32)}[arithmetic]
    return Program(sources, head, call, number, data.X.shape[1], encode, model.predict)


_LADDER = [{"max_bytes": size} for size in SIZES]
INTEGER, FLOAT = "kernlet-integer", "kernlet-float"
OURS = {
    INTEGER: Family("kernlet, integer", "kernlet", _LADDER, partial(program, arithmetic="integer")),
    FLOAT: Family("kernlet, float", "kernlet", _LADDER, partial(program, arithmetic="float")),
}
