"""A model in integers: its tables with codes, and the machine that evaluates them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from kernlet._typing import Floats
from kernlet.affine import CurvedMap
from kernlet.export.c_tables import Tables, is_packed, pack
from kernlet.integer.build import Parts, build
from kernlet.integer.machine import IntegerMachine
from kernlet.model.model import Model
from kernlet.quantization import FORMATS, QuantizedExpansion, SparsePackedArray, encode

_INT8 = FORMATS["int8"]
#: Largest error of a score in integers, relative to the largest score, that is not refused.
INTEGER_TOLERANCE = 0.02


def integer_tables(model: Model, storage: str = "auto") -> Tables:
    """The tables of a model, every one of centers, coefficients and a matrix with integer codes."""
    if storage == "auto":
        storage = "stored" if is_packed(model.expansion) else "int8"
    if storage not in ("stored", "int8"):
        raise ValueError(
            f'storage={storage!r} holds numbers that are no integers: give "stored", "int8" or '
            '"auto" with integer arithmetic.'
        )
    if storage == "stored" and isinstance(model.expansion, QuantizedExpansion):
        model = replace(model, expansion=_with_codes(model.expansion))
    tables = pack(model, storage)[1]
    projection = tables.packed.get("projection")
    if projection is not None and projection.format.n_levels is None:  # of a PCA in front
        packed = {**tables.packed, "projection": encode(projection.decoded(), _INT8)}
        tables = replace(tables, packed=packed)
    return tables


def _with_codes(expansion: QuantizedExpansion) -> QuantizedExpansion:
    """The expansion with its floating-point tables rounded to eight bits."""
    changes: dict[str, Any] = {}
    for name in ("centers", "coef", "projection"):
        array = expansion.packed[name]
        if array is None or array.format.n_levels is not None:
            continue
        if isinstance(array, SparsePackedArray):
            changes[name] = replace(array, values=encode(array.values.decoded(), _INT8))
        else:
            changes[name] = encode(array.decoded(), _INT8)
    return expansion.replaced(**changes) if changes else expansion


def integer_machine(model: Model, tables: Tables, rows: Floats) -> IntegerMachine:
    """The machine of tables with codes; ``rows`` of features set the ranges of its inputs."""
    pairs = model.scheme == "one vs one" and model.classes is not None
    return build(_parts(tables, model.n_features), rows, len(model.classes) - 1 if pairs else 1)


def _parts(tables: Tables, n_features: int) -> Parts:
    packed, map = tables.packed, tables.map
    shift = np.zeros(1) if map is None else map.shift.astype(np.float64)
    scale = np.ones(1) if map is None else map.scale.astype(np.float64)
    if tables.divides:
        scale = tables.factor / replace(packed["scale"], step=1.0).decoded().astype(np.float64)
    log_widths = packed.get("log_gamma")
    if log_widths is not None and log_widths.format.n_levels is None:
        log_widths = None
    return Parts(
        n_features=n_features,
        kernel=tables.kernel,
        centers=packed["centers"].codes().astype(np.int64),
        center_levels=int(packed["centers"].format.n_levels or 0),
        coef=packed["coef"].codes().astype(np.int64),
        outputs=tables.outputs_of_centers(),
        coef_step=float(packed["coef"].step),
        intercept=packed["intercept"].decoded().astype(np.float64),
        shift=shift,
        scale=scale,
        is_asinh=isinstance(map, CurvedMap) and map.is_asinh,
        steps=tables.steps,
        projection=packed["projection"].codes() if "projection" in packed else None,
        projection_step=float(packed["projection"].step) if "projection" in packed else 1.0,
        unit=tables.unit,
        block=tables.block,
        log_widths=None if log_widths is None else (log_widths.codes(), float(log_widths.step)),
    )


def integer_outputs(machine: IntegerMachine, rows: Floats) -> Floats:
    """Outputs of the machine for rows of features, in the units of the model."""
    return machine.scores(machine.quantized(rows)) * machine.score_step
