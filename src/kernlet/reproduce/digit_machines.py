"""Ten one-vs-rest machines on USPS: minimal kernel, SVM and relevance vectors."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC

from kernlet.datasets import load
from kernlet.estimators import MinimalKernelClassifier
from kernlet.estimators.sampling import hold_out
from kernlet.reproduce.rvm import RelevanceVectorClassifier

Split = tuple[Any, Any, Any, Any]


def digits(n_rows: int | None, part: str) -> Split:
    """USPS, pixels in [-1, 1]; ``part="held out"`` has a fifth of the training rows for testing."""
    data = load("usps")
    X, X_test = (2.0 * np.asarray(A, dtype=float) - 1.0 for A in (data.X[:n_rows], data.X_test))
    y = data.y[:n_rows]
    if part == "test":
        return X, y, X_test, data.y_test
    kept, held = hold_out(y, 0.2, np.random.RandomState(0))
    return X[kept], y[kept], X[held], y[held]


def _facts(machine: Any, split: Split) -> dict[str, Any]:
    X, y, X_test, y_test = split
    began = time.process_time()
    machine.fit(X, y)
    seconds = time.process_time() - began
    return {
        "train error": 100 * (1 - machine.score(X, y)),
        "error": 100 * (1 - machine.score(X_test, y_test)),
        "n_test": len(y_test),
        "fit": round(seconds, 2),
    }


def minimal(C: float, mu: float, gamma: float, n_rows: int | None, part: str) -> dict[str, Any]:
    """The minimal kernel classifier; ``used`` counts centers in all ten machines."""
    split = digits(n_rows, part)
    machine = MinimalKernelClassifier(C, gamma=gamma, mu=mu, random_state=0)
    facts = _facts(machine, split)
    return facts | {
        "used": int(np.count_nonzero(machine.expansion_.coef)),
        "distinct": machine.n_centers_,
        "gap": float(machine.duality_gap_.max()),
    }


def support_vectors(C: float, gamma: float, n_rows: int | None, part: str) -> dict[str, Any]:
    """The SVM, one class against the rest; ``used`` counts support vectors in all ten."""
    split = digits(n_rows, part)
    machine = OneVsRestClassifier(SVC(C=C, gamma=gamma, cache_size=500))
    facts = _facts(machine, split)
    rows = [svc.support_ for svc in machine.estimators_]
    counts = {"used": sum(map(len, rows)), "distinct": len(np.unique(np.concatenate(rows)))}
    return facts | counts


def relevance_vectors(
    gamma: float, n_candidates: int, n_rows: int | None, part: str
) -> dict[str, Any]:
    """The relevance vector machine; ``used`` counts relevance vectors in all ten."""
    split = digits(n_rows, part)
    machine = RelevanceVectorClassifier(
        gamma=gamma, n_candidates=n_candidates, tol=0.01, random_state=0
    )
    facts = _facts(machine, split)
    counts = {"used": int(machine.n_relevant_.sum()), "distinct": machine.n_centers_}
    return facts | counts | {"gain": float(machine.gain_)}
