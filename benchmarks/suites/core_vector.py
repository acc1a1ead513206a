"""The core vector machine: effect of C and eps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.svm import SVC

from benchmarks.tables import Table
from kernlet import CoreVectorClassifier
from papers.cache import timed
from papers.tasks import Task, covertype, official

RULES: dict[str, dict[str, Any]] = {
    "eps=0.001, one sample of 59 (paper)": {"eps": 1e-3, "sample_size": 59},
    "eps=0.001, five samples": {"eps": 1e-3, "sample_size": 59, "n_tries": 5},
    "eps=0.001, all rows": {"eps": 1e-3},
    "eps=1e-5, all rows": {"eps": 1e-5},
    "tol=0.001 (default)": {},
}


def task_of(name: str) -> Task:
    """One class against the rest."""
    if name == "covertype":
        return covertype(4000)
    task = official(name)
    label = {"optdigits": 8, "pendigits": 8, "satimage": 4}[name]
    return Task(task.X, task.y == label, task.X_test, task.y_test == label, task.gamma, 1.0)


def core_vector(quick: bool) -> Iterator[Table]:
    """Objective over optimum, true eps and accuracy by C and by rule."""
    table = Table(
        "Core vector machines by C and stopping rule (mean-distance width): objective over "
        "optimum, true eps, core set, test accuracy",
        [
            "task",
            "C",
            "rule",
            "CPU s",
            "objective / optimum",
            "gap_",
            "ball_gap_",
            "core set",
            "accuracy %",
            "SVC(C) %, s",
        ],
    )
    for name in ("optdigits", "satimage", "pendigits", *(() if quick else ("covertype",))):
        task = task_of(name)
        for C in (1.0, 100.0, 1000.0)[: 1 if name == "covertype" else 3]:
            best, _ = _fit(task, C, tol=1e-6)
            optimum = float(best.objective_[0]) * (1 - best.gap_)
            svc, seconds = _timed(SVC(C=C, gamma=task.gamma), task)
            peer = f"{100 * svc.score(task.X_test, task.y_test):.2f}, {seconds:.2f}"
            for rule, parameters in RULES.items():
                machine, seconds = _fit(task, C, **parameters)
                table.add(
                    name,
                    f"{C:g}",
                    rule,
                    f"{seconds:.2f}",
                    f"{machine.objective_[0] / optimum:.3f}",
                    f"{machine.gap_:.1e}",
                    f"{machine.ball_gap_:.1e}",
                    len(machine.core_indices_),
                    f"{100 * machine.score(task.X_test, task.y_test):.2f}",
                    peer,
                )
    yield table


def _fit(task: Task, C: float, **parameters: Any) -> tuple[Any, float]:
    machine = CoreVectorClassifier(C, gamma=task.gamma, random_state=0, **parameters)
    return _timed(machine, task)


def _timed(machine: Any, task: Task) -> tuple[Any, float]:
    return timed(machine.fit, np.asarray(task.X, dtype=float), task.y)


BENCHMARKS = {"core-vector": core_vector}
