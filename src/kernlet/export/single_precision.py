"""What the generated code computes: every number in float32."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from kernlet.export.rounding import close_calls
from kernlet.export.shipped import ShippedModel
from kernlet.export.stored import StoredMachine
from kernlet.kernels import Kernel, Linear, Polynomial, Sigmoid
from kernlet.kernels.kernel import Floats
from kernlet.tables import Table

_MOST_ROWS, _FEWEST_ROWS = 300, 16
_MOST_WORK = 500_000_000  # differences of numbers


def require_float32(model: ShippedModel, machine: StoredMachine, rows: Floats) -> None:
    """Refuse a machine that needs more than float32.

    Parameters
    ----------
    model : ShippedModel
    machine : StoredMachine
        Its tables.
    rows : ndarray of shape (n_rows, n_features)
        Of which some hundreds are tried.

    Raises
    ------
    ValueError
        Where classes differ though their scores are clearly apart, or scores by a thousandth of
        the largest.
    """
    with np.errstate(over="ignore"):
        some = _some(rows, machine.centers.shape).astype(np.float32)
    exact = machine.expansion.decision_values(some.astype(np.float64))
    found = float32_outputs(machine, some).astype(np.float64)
    error, size = float(np.abs(found - exact).max()), max(1.0, float(np.abs(exact).max()))
    same = True
    if model.kind == "classifier" and np.isfinite(found).all():
        far = np.setdiff1d(np.arange(len(some)), close_calls(model, exact))
        same = np.array_equal(model.codes(found)[far], model.codes(exact)[far])
    if not same or not error <= 1e-3 * size:
        raise ValueError(
            f"In float32 the code is off by {error:.3g} where scores go up to {size:.3g}: scale "
            "the features, for example with a StandardScaler in front."
        )


def _some(rows: Floats, shape: tuple[int, ...]) -> Floats:
    """Rows from all over the table, fewer of them for a large machine."""
    wanted = min(_MOST_ROWS, max(_FEWEST_ROWS, _MOST_WORK // max(1, math.prod(shape))))
    return rows[:: -(-len(rows) // wanted)]


def float32_outputs(machine: StoredMachine, rows: Floats) -> Floats:
    """Outputs of a machine, step by step as the code has them.

    Takes time as ``n_rows * n_centers * rank`` and the memory of the centers twice.

    Parameters
    ----------
    machine : StoredMachine
    rows : ndarray of shape (n_rows, n_features), float32

    Returns
    -------
    outputs : ndarray of shape (n_rows, n_outputs), float32
    """
    centers, gamma = machine.centers.decoded(), _single(getattr(machine.kernel, "gamma", 0.0))
    coef, coef_step = _codes(machine.coef)
    intercept = machine.intercept.astype(np.float32)
    with np.errstate(all="ignore"):
        points = _mapped(machine, rows)
        values = np.stack([_kernel_values(machine.kernel, gamma, u, centers) for u in points])
        return coef_step * (values @ coef) + intercept


def _mapped(machine: StoredMachine, rows: Floats) -> Floats:
    if machine.shift is None or machine.scale is None:
        return rows
    moved = (rows - machine.shift) * machine.scale
    if machine.projection is None:
        return moved
    projection, step = _codes(machine.projection)
    return step * (moved @ projection.T)


def _kernel_values(kernel: Kernel, gamma: Any, u: Floats, centers: Floats) -> Floats:
    if kernel.is_translation_invariant:
        return np.exp(-gamma * np.square(u - centers).sum(axis=1))
    products = centers @ u
    if isinstance(kernel, Linear):
        return products
    assert isinstance(kernel, Polynomial | Sigmoid)
    inside = gamma * products + _single(kernel.coef0)
    if isinstance(kernel, Sigmoid):
        return np.tanh(inside)
    power = inside
    for _ in range(1, kernel.degree):
        power = power * inside
    return power


def _codes(table: Table) -> tuple[Floats, Any]:
    """Entries of a table and what multiplies their sums."""
    if not table.format.has_step:
        return table.decoded(), _single(1.0)
    return replace(table, step=1.0).decoded(), _single(table.step)


def _single(value: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(np.float32)[()]
