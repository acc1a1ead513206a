"""1-norm and minimal kernel machines against single HiGHS calls and SVC: time and memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import highspy
import numpy as np
from sklearn.svm import SVC

from benchmarks.tables import Table
from benchmarks.timing import measure
from kernlet import L1KernelClassifier, MinimalKernelClassifier
from kernlet.kernels.rbf import RBF
from papers import tasks
from papers.tasks import Task


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
    """The dual with one boxed column per row and one ranged row per center."""
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


def solve_once(lp: highspy.HighsLp) -> dict[str, Any]:
    """One call without presolve, with HiGHS's default simplex and tolerances."""
    highs = highspy.Highs()
    for name, value in (("output_flag", False), ("presolve", "off"), ("threads", 1)):
        highs.setOptionValue(name, value)
    highs.setOptionValue("solver", "simplex")
    highs.passModel(lp)
    highs.run()
    return {"objective": abs(highs.getInfo().objective_function_value)}


def fit_l1(task: Task) -> dict[str, Any]:
    machine = L1KernelClassifier(task.C, gamma=task.gamma, candidates=None, random_state=0).fit(
        task.X, task.y
    )
    return _facts(machine, task)


def fit_minimal(task: Task) -> dict[str, Any]:
    machine = MinimalKernelClassifier(task.C, gamma=task.gamma, candidates=None, random_state=0)
    return _facts(machine.fit(task.X, task.y), task)


def fit_svc(task: Task) -> dict[str, Any]:
    machine = SVC(C=10.0, gamma=task.gamma).fit(task.X, task.y)
    return {"centers": len(machine.support_)}


def _facts(machine: Any, task: Task) -> dict[str, Any]:
    return {
        "objective": float(machine.objective_[0]),
        "gap": float(machine.duality_gap_.max()),
        "rows": len(machine.margin_indices_),
        "centers": machine.n_centers_,
        "used": int((machine.expansion_.coef != 0).sum()),
        "iterations": machine.n_iter_,
        "lps": [int(n) for n in getattr(machine, "n_lps_", [1])],
        "machine": machine,
    }


def against_one_call(quick: bool) -> Iterator[Table]:
    """Against single HiGHS calls on the same linear program."""
    table = Table(
        "One linear program: generation against one HiGHS call on the whole of it",
        [
            "task",
            "rows",
            "kernlet s",
            "split beta s",
            "ratio",
            "ranged dual s",
            "ratio",
            "gap",
            "objectives differ by",
        ],
    )
    cases = [
        (tasks.checkerboard, 1000),
        (tasks.usps_eight, 2000),
        (tasks.usps_eight, 4000),
    ]
    for prepare, m in cases[:2] if quick else cases:
        repeats = 3 if m <= 1000 else 1
        ours = measure(prepare, fit_l1, m, repeats=5)
        split = measure(_split, solve_once, prepare, m, repeats=repeats)
        ranged = measure(_ranged, solve_once, prepare, m, repeats=repeats)
        objective = ours.answer["objective"]
        table.add(
            prepare.__name__,
            m,
            f"{ours.seconds:.2f}",
            f"{split.seconds:.2f}",
            f"{split.seconds / ours.seconds:.1f}x",
            f"{ranged.seconds:.2f}",
            f"{ranged.seconds / ours.seconds:.1f}x",
            f"{ours.answer['gap']:.0e}",
            f"{max(abs(r.answer['objective'] / objective - 1) for r in (split, ranged)):.0e}",
        )
    yield table


def _split(prepare: Any, m: int) -> Any:
    return split_coefficients(prepare(m))


def _ranged(prepare: Any, m: int) -> Any:
    return ranged_dual(prepare(m))


def growth(quick: bool) -> Iterator[Table]:
    """Time and memory by number of rows, against SVC(C=10) on the same rows."""
    table = Table(
        "All rows as candidates: growth with the rows, beside SVC(C=10)",
        [
            "task",
            "rows",
            "kernlet s",
            "SVC s",
            "ratio",
            "iterations",
            "m1",
            "m2",
            "SVs",
            "gap",
            "peak MB",
            "grown by MB",
        ],
    )
    cases = [(tasks.usps_eight, m) for m in (1000, 2000, 4000, 7291)]
    cases += [(tasks.mnist_eight, m) for m in (1000, 2000, 4000, 7291, 20_000, 60_000)]
    for prepare, m in cases:
        if not quick or m <= 7291:
            table.add(*_growth_line(prepare, m))
    yield table


def _growth_line(prepare: Any, m: int) -> list[object]:
    repeats = 3 if m <= 7291 else 1
    ours = measure(prepare, fit_l1, m, repeats=repeats)
    svc = measure(prepare, fit_svc, m, repeats=repeats)
    facts = ours.answer
    return [
        prepare.__name__,
        f"{m:,}",
        f"{ours.seconds:.2f}",
        f"{svc.seconds:.2f}",
        f"{ours.seconds / svc.seconds:.2f}",
        facts["iterations"],
        facts["rows"],
        facts["centers"],
        svc.answer["centers"],
        f"{facts['gap']:.0e}",
        f"{ours.peak:.0f}",
        f"{ours.growth:.0f}",
    ]


def linearization(quick: bool) -> Iterator[Table]:
    """Cost of the linearisations on top of the first linear program."""
    table = Table(
        "Successive linearisation against the linear program alone",
        [
            "task",
            "LP s",
            "all LPs s",
            "ratio",
            "LPs",
            "m1 x m2 of the LP",
            "m1 x m2 at the end",
        ],
    )
    cases = [(tasks.usps_eight, 7291), (tasks.checkerboard, 1000)]
    for prepare, m in cases:
        one = measure(prepare, fit_l1, m, repeats=5)
        all_lps = measure(prepare, fit_minimal, m, repeats=5)
        first, last = one.answer, all_lps.answer
        table.add(
            prepare.__name__,
            f"{one.seconds:.2f}",
            f"{all_lps.seconds:.2f}",
            f"{all_lps.seconds / one.seconds:.2f}",
            last["lps"][0],
            f"{first['rows']} x {first['centers']}",
            f"{last['rows']} x {last['centers']}",
        )
    yield table


BENCHMARKS = {
    "one-call": against_one_call,
    "linearization": linearization,
    "growth": growth,
}
