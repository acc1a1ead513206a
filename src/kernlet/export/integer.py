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
from kernlet.kernels.laplacian import Laplacian
from kernlet.model.model import Model
from kernlet.quantization import FORMATS, QuantizedExpansion, SparsePackedArray, encode

_INT8 = FORMATS["int8"]
# Largest error of a score in integers, relative to the largest score, that is not refused;
# trained machines have a tenth of it at most.
_TOLERANCE = 0.02
_CHECKED_ROWS = 300
_ONE_POINT = 1e-6  # of gamma |z|^2: kernel values have 16 bits


def integer_tables(model: Model, storage: str = "auto") -> tuple[Model, Tables]:
    """The model after its numbers were rounded, and its tables.

    Those of centers, coefficients and a matrix have integer codes.
    """
    if storage == "auto":
        storage = "stored" if is_packed(model.expansion) else "int8"
    if storage not in ("stored", "int8"):
        raise ValueError(
            f'storage={storage!r} holds numbers that are not integers: give "stored", "int8" or '
            '"auto" with integer arithmetic.'
        )
    if storage == "stored" and isinstance(model.expansion, QuantizedExpansion):
        model = replace(model, expansion=_with_codes(model.expansion))
    rounded, tables = pack(model, storage)
    projection = tables.packed.get("projection")
    if projection is not None and projection.format.n_levels is None:  # of a PCA in front
        packed = {**tables.packed, "projection": encode(projection.decoded(), _INT8)}
        tables = replace(tables, packed=packed)
    if _are_one_point(tables):
        centers = tables.packed["centers"]
        zeros = encode(np.zeros(centers.shape), centers.format, 1.0)
        tables = replace(tables, packed={**tables.packed, "centers": zeros})
    return rounded, tables


def _are_one_point(tables: Tables) -> bool:
    """Whether the centers differ by rounding alone: a single one, shifted to 0."""
    centers, gamma = tables.packed["centers"], np.max(getattr(tables.kernel, "gamma", 1.0))
    gamma = gamma * np.max(getattr(tables.kernel, "weights", 1.0))
    is_l1 = isinstance(tables.kernel, Laplacian)
    sizes = np.abs(centers.decoded().astype(np.float64)) ** (1 if is_l1 else 2)
    is_near = gamma * float(sizes.sum(axis=1).max(initial=0.0)) < _ONE_POINT
    return tables.kernel.is_translation_invariant and bool(is_near)


def _has_all_codes(model: Model) -> bool:
    """Whether a model is a packed expansion with codes, and nothing in front of it."""
    if not isinstance(model.expansion, QuantizedExpansion) or model.scaler is not None:
        return False
    arrays = (model.expansion.packed[name] for name in ("centers", "coef", "projection"))
    return all(array is None or array.format.n_levels is not None for array in arrays)


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


def integer_machine(
    rounded: Model, tables: Tables, rows: Floats, model: Model | None = None
) -> IntegerMachine:
    """The machine of tables with codes; ``rows`` of features set the ranges of its inputs.

    With the ``model`` before it was rounded, a packed expansion is the machine that
    :meth:`~kernlet.QuantizedExpansion.integer_values` evaluates, bit by bit. Refused where its
    scores of these rows are not those of the rounded model.
    """
    pairs = rounded.scheme == "one vs one" and rounded.classes is not None
    n_sums = len(rounded.classes) - 1 if pairs else 1
    if model is not None and _has_all_codes(model) and not _are_one_point(tables):
        expansion: Any = model.expansion
        machine = expansion.integer_machine(rows, n_sums)
    else:
        machine = build(_parts(tables, rounded.n_features), rows, n_sums)
    sample = rows[:: -(-len(rows) // _CHECKED_ROWS)]
    exact = rounded.outputs(sample)
    errors = np.abs(integer_outputs(machine, sample) - exact).max(axis=1)
    error = float(errors[_same_steps(machine, tables, sample)].max(initial=0.0))
    # the mean of targets says nothing of how well they are told apart
    middle = exact.mean(axis=0) if rounded.kind == "regressor" and len(sample) > 1 else 0.0
    size = float(np.abs(exact - middle).max())
    if not error <= _TOLERANCE * size:
        raise ValueError(
            f"In integers the scores are off by {error:.3g} where they go up to {size:.3g}: scale "
            "the features, or export the machine in float."
        )
    return machine


def _same_steps(machine: IntegerMachine, tables: Tables, rows: Floats) -> Any:
    """Which rows are beyond the same thresholds in integers: rounding may move them across one."""
    if tables.steps is None or machine.steps is None:
        return np.full(len(rows), True)
    features, thresholds = machine.steps.features, machine.steps.thresholds
    rounded = machine.curved(machine.quantized(rows))[:, features] > thresholds
    parts = _parts(tables, machine.n_features)
    exact = parts.curved(parts.scaled(rows))[:, tables.steps.features] > tables.steps.thresholds
    return (rounded == exact).all(axis=1)


def _parts(tables: Tables, n_features: int) -> Parts:
    packed, map = tables.packed, tables.map
    shift = np.zeros(1) if map is None else map.shift.astype(np.float64)
    scale = np.ones(1) if map is None else map.scale.astype(np.float64)
    if tables.divides:
        scale = tables.factor / replace(packed["scale"], step=1.0).decoded().astype(np.float64)
    log_widths, log_weights = packed.get("log_gamma"), packed.get("log_weights")
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
        fill=None if map is None or map.fill is None else map.fill.astype(np.float64),
        skips_missing=tables.skips_missing,
        log_weights=None if log_weights is None else (log_weights.codes(), log_weights.step),
    )


def integer_outputs(machine: IntegerMachine, rows: Floats) -> Floats:
    """Outputs of the machine for rows of features, in the units of the model."""
    return machine.scores(machine.quantized(rows)) * machine.score_step
