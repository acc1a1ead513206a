"""Compact machines of random shapes with random numbers: costs do not depend on the training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from kernlet.affine import AffineMap
from kernlet.compact.plan import StoragePlan
from kernlet.model.model import Model
from kernlet.quantization import FORMATS, encode

_MAX_BYTES = 16_000  # so that the ATmega328P can hold it
_FORMATS = ("int4", "int4", "int4", "int8", "int8", "int8", *FORMATS)
_PROJECTIONS = ("ternary", "int4", "int6", "int8", "ternary", "int4", "int6", "int8", *FORMATS)


def random_plan(random: Any) -> StoragePlan:
    """A plan of any shape, in any formats."""
    n_features = int(random.choice([2, 5, 8, 13, 16, 29, 36, 64, 100]))
    rank = int(random.integers(1, min(n_features, 32) + 1)) if random.random() < 0.5 else None
    width = str(random.choice(["shared", "shared", "per_center", "per_feature"]))
    # a table with steps or scaled columns, or an image with means of blocks, or neither
    kind = str(random.choice(["plain", "plain", "columns", "steps", "asinh", "blocks"]))
    shape: dict[str, Any] = {"width": width}
    if kind in ("steps", "asinh"):
        shape |= {"n_steps": int(random.choice([4, 8, 16])), "is_asinh": kind == "asinh"}
        shape["width"] = "shared" if kind == "asinh" and width == "per_feature" else width
    if kind in ("columns", "asinh"):
        shape["scaling_bytes"] = int(random.choice([4, 8])) * n_features + 8
    if kind == "blocks" and n_features in (16, 36, 64, 100):
        shape |= {"block": 2, "width": "shared"}
        rank = None if rank is None else min(rank, n_features // 4)
    n_outputs = int(random.choice([1, 1, 3, 6, 10, 26]))
    shape |= {
        "rank": rank,
        "formats": tuple(str(random.choice(f)) for f in (_FORMATS, _FORMATS, _PROJECTIONS)),
        "kernel": str(random.choice(["rbf", "rbf", "rational_quadratic"])),
        "n_entries": int(random.integers(1, 4))
        if n_outputs > 3 and random.random() < 0.4
        else None,
        "intercept_bytes": int(random.choice([2, 8])) if n_outputs == 1 else 2,
    }
    n_centers = int(random.choice([2, 4, 10, 20, 40, 80]))
    plan = StoragePlan(n_features, n_outputs, n_centers, **shape)
    while plan.nbytes > _MAX_BYTES:
        plan = replace(plan, n_centers=plan.n_centers // 2)
    return plan


def random_machine(random: Any, plan: StoragePlan, has_scaler: bool = False) -> tuple[Model, Any]:
    """A model of a plan, and rows for it."""
    rank = plan.n_inputs if plan.rank is None else plan.rank
    rows = 3 + 2 * random.normal(size=(40, plan.n_features))
    unit = 1.0
    if random.random() < 0.5:  # whole numbers, such as counts of a converter
        unit = 20.0
        rows = np.rint(unit * rows)
    n_centers = plan.n_centers
    arrays = {
        "centers": random.normal(size=(n_centers, rank)),
        "weights": random.normal(size=(plan.n_outputs, n_centers)),
        "intercept": random.normal(size=plan.n_outputs),
        # kernel values from nearly 1 to nearly 0
        "log_gamma": random.normal(size=n_centers if plan.has_widths else 1) - np.log(rank),
        "log_alpha": np.array([0.3]),
        "log_feature_scales": 0.1 * random.normal(size=plan.n_inputs),
        "jumps": random.normal(size=plan.n_steps),
        "projection": random.normal(size=(rank, plan.n_inputs)) / np.sqrt(plan.n_inputs),
    }
    if plan.kernel == "diagonal_rbf":
        arrays["log_weights"] = random.normal(size=(n_centers, rank))
    shift: Any = 3.0 * unit
    scale: Any = 2.0 * unit
    if plan.scaling_bytes > StoragePlan.scaling_bytes:
        wide = FORMATS["float32" if plan.scaling_bytes >= 8 * plan.n_features else "float16"]
        shift = encode(np.full(plan.n_features, shift), wide)
        scale = encode(np.full(plan.n_features, scale), wide)
    if has_scaler:  # shift and scale of the machine are about 0 and 1 then
        shift, scale = 0.1, 1.1
    places = None
    if plan.n_steps:
        thresholds = random.normal(size=plan.n_steps).astype(np.float16)
        places = (random.integers(plan.n_inputs, size=plan.n_steps), thresholds)
    expansion = plan.pack(arrays, {}, shift, scale, places)
    options: dict[str, Any] = {"kind": "regressor", "is_flat": True}
    if plan.intercept_bytes == StoragePlan.intercept_bytes:
        n_classes = max(2, plan.n_outputs)
        scheme = "one output" if n_classes == 2 else "one vs rest"
        options = {"kind": "classifier", "classes": np.arange(n_classes), "scheme": scheme}
        options["temperature"] = 1.0
    if has_scaler:
        columns = np.linspace(0.9, 1.1, plan.n_features)
        options["scaler"] = AffineMap(3 * unit * columns, columns / (2 * unit))
    return Model(expansion, **options), rows
