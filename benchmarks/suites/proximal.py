"""The proximal machine: one pass over covertype against its peers, and exactness of updates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg import lstsq
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import accuracy_score, balanced_accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from benchmarks.tables import Table
from benchmarks.timing import measure
from kernlet import ProximalClassifier
from kernlet.datasets import load

#: Machines by name; LinearSVC gets standardised columns, otherwise it takes longer.
MACHINES: dict[str, Any] = {
    "ProximalClassifier, class_weight=None": ProximalClassifier(kernel="linear", class_weight=None),
    'ProximalClassifier, "balanced"': ProximalClassifier(kernel="linear"),
    "RidgeClassifier": RidgeClassifier(),
    'RidgeClassifier, "balanced"': RidgeClassifier(class_weight="balanced"),
    "LinearSVC": LinearSVC(random_state=0),
}


def covertype(name: str, part: str = "all") -> tuple[Any, Any, Any, Any, Any]:
    """The machine, training rows and labels, and test rows and labels."""
    data = load("covertype")
    X, y = np.ascontiguousarray(data.X, dtype=float), data.y
    if name == "LinearSVC":
        X = StandardScaler().fit_transform(X)
    if part == "all":
        return MACHINES[name], X, y, X[:1000], y[:1000]
    split = train_test_split(X, y, test_size=0.2, random_state=0)
    return MACHINES[name], split[0], split[2], split[1], split[3]


def fit(task: Any) -> dict[str, Any]:
    machine, X, y, _, _ = task
    machine.fit(X, y)
    return {"residual": getattr(machine, "residual_", np.nan)}


def judge(task: Any) -> dict[str, Any]:
    machine, X, y, X_test, y_test = task
    predicted = machine.fit(X, y).predict(X_test)
    return {
        "accuracy": accuracy_score(y_test, predicted),
        "balanced": balanced_accuracy_score(y_test, predicted),
    }


def speed(quick: bool) -> Iterator[Table]:
    """One pass over covertype."""
    table = Table(
        "covertype, 581,012 rows of 54 columns, 7 classes: fit, and accuracy on a fifth held out",
        ["machine", "fit CPU s", "times ours", "accuracy", "balanced accuracy", "residual"],
    )
    first = None
    for name in MACHINES:
        if quick and name == "LinearSVC":
            continue
        run = measure(covertype, fit, name, repeats=1 if name == "LinearSVC" else 7)
        answer = measure(covertype, judge, name, "split").answer
        first = first or run.seconds
        residual = run.answer["residual"]
        table.add(
            name,
            f"{run.seconds:.3f}",
            f"{run.seconds / first:.1f}x",
            f"{100 * answer['accuracy']:.2f} %",
            f"{100 * answer['balanced']:.2f} %",
            "-" if np.isnan(residual) else f"{residual:.1e}",
        )
    yield table


def exact(quick: bool) -> Iterator[Table]:
    """Differences between machines that should be equal."""
    table = Table(
        "Largest difference of decision values on all rows (columns as they are, ten blocks)",
        ["set", "machine", "blocks in 5 orders", "half forgotten", "least squares"],
    )
    for name, parameters in _EXACT:
        data = load(name)
        X, y = np.asarray(data.X, dtype=float), data.y
        machine = ProximalClassifier(random_state=0, **parameters)
        table.add(
            name,
            ", ".join(
                f"{key}={value!r}" for key, value in parameters.items() if key != "landmarks"
            ),
            f"{_orders(machine, X, y):.1e}",
            f"{_forgotten(machine, X, y):.1e}",
            f"{_stacked(machine, X, y):.1e}",
        )
    yield table


_EXACT: list[tuple[str, dict[str, Any]]] = [
    ("covertype", {"kernel": "linear", "class_weight": None}),
    ("covertype", {"kernel": "linear", "class_weight": "balanced"}),
    ("pima", {"kernel": "linear", "class_weight": "balanced"}),
    ("usps", {"kernel": "linear", "class_weight": "balanced"}),
    ("letter", {"kernel": "rbf", "class_weight": "balanced", "landmarks": 200}),
]


def _fixed(machine: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """The fitted machine, and an unfitted one of the same kernel and landmarks."""
    fitted = machine.fit(X, y)
    again = ProximalClassifier(**machine.get_params())
    if machine.kernel != "linear":
        expansion = fitted.expansion_
        again.set_params(landmarks=expansion.centers, gamma=expansion.kernel.gamma)
    return fitted, again


def _orders(machine: Any, X: Any, y: Any) -> float:
    fitted, again = _fixed(machine, X, y)
    values, worst = fitted.decision_function(X), 0.0
    blocks = np.array_split(np.arange(len(X)), 10)
    for seed in range(5):
        order = np.random.RandomState(seed).permutation(10)
        again.fit_blocks((X[blocks[number]], y[blocks[number]]) for number in order)
        worst = max(worst, float(np.abs(again.decision_function(X) - values).max()))
    return worst


def _forgotten(machine: Any, X: Any, y: Any) -> float:
    fitted, again = _fixed(machine, X, y)
    half = np.random.RandomState(0).permutation(len(X))[: len(X) // 2]
    rest = np.setdiff1d(np.arange(len(X)), half)
    fitted.partial_forget(X[rest], y[rest])
    again.fit(X[half], y[half])
    return float(np.abs(fitted.decision_function(X) - again.decision_function(X)).max())


def _stacked(machine: Any, X: Any, y: Any) -> float:
    """Against one stacked least-squares system, by QR or SVD; at most 20,000 rows."""
    rows = np.random.RandomState(0).permutation(len(X))[:20_000]
    X, y = X[rows], y[rows]
    fitted = machine.fit(X, y)
    expansion = fitted.expansion_
    features = X if machine.kernel == "linear" else expansion.kernel(X, expansion.centers)
    H = np.hstack([features, np.ones((len(X), 1))])
    values, worst = fitted.decision_function(X).reshape(len(X), -1), 0.0
    labels = fitted.classes_[1:] if values.shape[1] == 1 else fitted.classes_
    for label, column in zip(labels, values.T, strict=True):
        own = y == label
        weights = np.ones(len(X))
        if machine.class_weight == "balanced":
            weights = np.where(own, len(X) / (2 * own.sum()), len(X) / (2 * (~own).sum()))
        root = np.sqrt(machine.C * weights)
        tall = np.vstack([root[:, None] * H, np.eye(H.shape[1])])
        right = np.concatenate([root * np.where(own, 1.0, -1.0), np.zeros(H.shape[1])])
        answer = lstsq(tall, right, lapack_driver="gelsy")[0]
        worst = max(worst, float(np.abs(H @ answer - column).max()))
    return worst


BENCHMARKS = {"proximal-speed": speed, "proximal-exact": exact}
