"""The 1-norm machine by one call of HiGHS on the whole linear program: the reference."""

from __future__ import annotations

from typing import Any

import highspy
import numpy as np

from benchmarks.tasks import Task
from kernlet.kernels import RBF


def split_coefficients(task: Task) -> highspy.HighsLp:
    """LP (10) with beta = p - q and p, q >= 0: the form that one call solves fastest."""
    K, d = RBF(task.gamma)(task.X, task.X), task.signs
    m = len(d)
    signed = d[:, None] * K
    columns = 3 * m + 1
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = columns, m
    lp.col_cost_ = np.concatenate([np.ones(2 * m), [0.0], np.full(m, task.C)])
    lp.col_lower_ = np.where(np.arange(columns) == 2 * m, -np.inf, 0.0)
    lp.col_upper_ = np.full(columns, np.inf)
    lp.row_lower_, lp.row_upper_ = np.ones(m), np.full(m, np.inf)
    dense = np.concatenate([signed, -signed, d[:, None]], axis=1).T.ravel()
    lp.a_matrix_.start_ = np.concatenate(
        [np.arange(2 * m + 1) * m, (2 * m + 1) * m + np.arange(m + 1)]
    )
    lp.a_matrix_.index_ = np.concatenate([np.tile(np.arange(m), 2 * m + 1), np.arange(m)])
    lp.a_matrix_.value_ = np.concatenate([dense, np.ones(m)])
    return lp


def ranged_dual(task: Task) -> highspy.HighsLp:
    """The dual with one boxed column a row and one ranged row a center."""
    K, d = RBF(task.gamma)(task.X, task.X), task.signs
    m = len(d)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = m, m + 1
    lp.col_cost_ = -np.ones(m)
    lp.col_lower_, lp.col_upper_ = np.zeros(m), np.full(m, task.C)
    lp.row_lower_ = np.concatenate([[0.0], -np.ones(m)])
    lp.row_upper_ = np.concatenate([[0.0], np.ones(m)])
    lp.a_matrix_.start_ = np.arange(m + 1) * (m + 1)
    lp.a_matrix_.index_ = np.tile(np.arange(m + 1), m)
    lp.a_matrix_.value_ = np.concatenate([d[:, None], d[:, None] * K.T], axis=1).ravel()
    return lp


def solve(lp: highspy.HighsLp) -> dict[str, Any]:
    """One call with presolve off, HiGHS's own choice of simplex and its own tolerances."""
    highs = highspy.Highs()
    for name, value in (("output_flag", False), ("presolve", "off"), ("threads", 1)):
        highs.setOptionValue(name, value)
    highs.setOptionValue("solver", "simplex")
    highs.passModel(lp)
    highs.run()
    return {"objective": abs(highs.getInfo().objective_function_value)}
