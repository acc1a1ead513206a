"""Kernel features of a set, and what neighbours, networks and trees make of them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.decomposition import KernelPCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from kernlet.datasets import load, make_shifted_digits
from kernlet.estimators import MMDA, KernelFisherDiscriminant
from kernlet.kernels import resolve_gamma

PER_CLASS = (1, 3, 5)
ALPHAS = (0.01, 0.1, 1.0, 10.0)
_PCA_ROWS = 7500  # beyond these the paper's 3,500 random rows are taken
_BLOCK = 4000
_LARGE = 50_000


@dataclass(frozen=True, eq=False)
class Task:
    """Training and test rows, with the width of the kernel."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any
    gamma: float

    @property
    def n_classes(self) -> int:
        """Different labels."""
        return len(np.unique(self.y))


def task_of(name: str, n_rows: int | None = None) -> Task:
    """A set as it is (mnist in [0, 1]) with the paper's width, the mean squared distance.

    ``n_rows`` keeps the first training rows, and a third as many test rows.
    """
    X: Any
    X_test: Any
    if name == "usps":
        shifted = make_shifted_digits()
        step = 1 if n_rows is None else max(1, len(shifted.y) // n_rows)
        X, X_test = (np.asarray(A[::step], np.float32) for A in (shifted.X, shifted.X_test))
        y, y_test = shifted.y[::step], shifted.y_test[::step]
    else:
        data = load(name)
        few = None if n_rows is None else n_rows // 3
        scale = 255.0 if name == "mnist" else 1.0
        X = np.asarray(data.X[:n_rows], dtype=float) / scale
        X_test = np.asarray(data.X_test[:few], dtype=float) / scale  # type: ignore[index]
        y, y_test = data.y[:n_rows], data.y_test[:few]  # type: ignore[index]
    return Task(X, y, X_test, y_test, resolve_gamma("mean_distance", X))


def held_out(task: Task, most: int = 10_000) -> Task:
    """A fifth of (at most so many) training rows in place of the test rows."""
    order = np.random.RandomState(0).permutation(len(task.y))[:most]
    part, rest = order[: len(order) // 5], order[len(order) // 5 :]
    return Task(task.X[rest], task.y[rest], task.X[part], task.y[part], task.gamma)


@dataclass(frozen=True, eq=False)
class Features:
    """Features of training and test rows, by features a class (0: all that there are).

    ``points`` are the points of an average feature, ``distinct`` those of all features.
    """

    pairs: dict[int, tuple[Any, Any]]
    seconds: float
    points: dict[int, float]
    distinct: int
    said: str = ""


def rows_themselves(task: Task, seed: int, **_: Any) -> Features:
    """No features: the columns as they are."""
    return Features({0: (task.X, task.X_test)}, 0.0, {}, 0)


def margin_features(
    task: Task, seed: int, solver: Any = "core", n_landmarks: int = 500
) -> Features:
    """MMDA with 1, 3 and 5 features a class (for two classes 2, 6 and 10 of their one chain)."""
    n = task.n_classes
    per_chain = max(PER_CLASS) * (2 if n == 2 else 1)
    machine = MMDA(
        per_chain,
        solver=solver,
        C=1.0,
        gamma=task.gamma,
        n_landmarks=n_landmarks,
        random_state=seed,
    )
    began = time.process_time()
    machine.fit(task.X, task.y)
    seconds = time.process_time() - began
    A, B = in_blocks(machine, task.X), in_blocks(machine, task.X_test)
    used = np.count_nonzero(machine.components_, axis=1)
    return Features(
        {k: (A[:, : k * n], B[:, : k * n]) for k in PER_CLASS},
        seconds,
        {k: float(used[: k * n].mean()) for k in PER_CLASS},
        machine.n_centers_,
        f"solver={solver}" + (f", {n_landmarks} landmarks" if solver == "landmarks" else ""),
    )


def fisher_features(task: Task, seed: int, **_: Any) -> Features:
    """Kernel Fisher directions, alpha chosen for 1-NN on held-out training rows."""
    part = held_out(task)
    scores = {}
    for alpha in ALPHAS:
        machine = _fisher(part, alpha, seed).fit(part.X, part.y)
        pair = machine.transform(part.X), machine.transform(part.X_test)
        scores[alpha] = _score(neighbours(), pair, part)
    alpha = max(scores, key=lambda a: scores[a])
    machine = _fisher(task, alpha, seed)
    began = time.process_time()
    machine.fit(task.X, task.y)
    seconds = time.process_time() - began
    pair = in_blocks(machine, task.X), in_blocks(machine, task.X_test)
    points = machine.expansion_.n_centers
    said = f"alpha={alpha:g}, {points:,} points"
    return Features({0: pair}, seconds, {0: float(points)}, points, said)


def _fisher(task: Task, alpha: float, seed: int) -> Any:
    n_landmarks = None if len(task.y) <= _PCA_ROWS else 1000
    return KernelFisherDiscriminant(
        alpha=alpha, gamma=task.gamma, n_landmarks=n_landmarks, random_state=seed
    )


def principal_features(task: Task, seed: int, **_: Any) -> Features:
    """Kernel PCA, five features a class; of 3,500 random rows on the larger sets."""
    X = task.X
    if len(X) > _PCA_ROWS:
        X = X[np.random.RandomState(seed).permutation(len(X))[:3500]]
    machine = KernelPCA(
        5 * task.n_classes,
        kernel="rbf",
        gamma=task.gamma,
        eigen_solver="randomized",
        random_state=seed,
    )
    began = time.process_time()
    machine.fit(X)
    seconds = time.process_time() - began
    pair = in_blocks(machine, task.X), in_blocks(machine, task.X_test)
    return Features({0: pair}, seconds, {0: float(len(X))}, len(X), f"{len(X):,} rows")


METHODS: dict[str, Callable[..., Features]] = {
    "none": rows_themselves,
    "kpca": principal_features,
    "kfd": fisher_features,
    "mmda": margin_features,
}


def in_blocks(machine: Any, X: Any) -> Any:
    """Features of rows, some thousand at a time."""
    return np.vstack([machine.transform(X[i : i + _BLOCK]) for i in range(0, len(X), _BLOCK)])


def neighbours(n_columns: int = 100) -> Any:
    """1-NN."""
    return KNeighborsClassifier(1, algorithm="kd_tree" if n_columns <= 15 else "brute")


def network(seed: int, n_rows: int) -> Any:
    """Ten hidden units, as in the paper; weight decay 1 was best on held-out training rows."""
    steps = 300 if n_rows <= _LARGE else 100
    perceptron = MLPClassifier((10,), solver="lbfgs", alpha=1.0, max_iter=steps, random_state=seed)
    return make_pipeline(StandardScaler(), perceptron)


def _score(model: Any, pair: tuple[Any, Any], task: Task) -> float:
    A, B = pair
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return 100 * float(model.fit(A, task.y).score(B, task.y_test))


def score_features(
    name: str,
    method: str,
    seed: int,
    n_rows: int | None,
    n_nodes: int | None,
    options: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Test accuracies of all classifiers on the features of a method.

    Parameters
    ----------
    name, method : str
    seed : int
    n_rows : int or None
        Training rows; None for all.
    n_nodes : int or None
        Of the tree: it grows best node first until it has as many.
    options : dict
        Of the method.

    Returns
    -------
    scores : dict
    """
    task = task_of(name, n_rows)
    features = METHODS[method](task, seed, **(options or {}))
    scores: dict[str, Any] = {
        "fit": round(features.seconds, 2),
        "points": features.points,
        "distinct": features.distinct,
        "said": features.said,
        "n_test": len(task.y_test),
    }
    for k, pair in features.pairs.items():
        n_columns = pair[0].shape[1]
        if n_columns < 200 or name != "usps":
            scores[f"1-NN {k}"] = _score(neighbours(n_columns), pair, task)
        scores[f"ANN {k}"] = _score(network(seed, len(task.y)), pair, task)
    pair = features.pairs[max(features.pairs)]
    if n_nodes is not None:
        scores["tree"], scores["nodes"] = _tree(pair, task, seed, (n_nodes + 1) // 2)
    if n_nodes is not None and len(task.y) <= _LARGE:
        scores["full tree"], scores["full nodes"] = _tree(pair, task, seed, None)
    if method == "none" and len(task.y) <= _LARGE:
        scores["SVM 0"] = _score(SVC(C=1.0, gamma=task.gamma), pair, task)
    return scores


def _tree(pair: Any, task: Task, seed: int, n_leaves: int | None) -> tuple[float, int]:
    tree = DecisionTreeClassifier(
        min_samples_leaf=2, max_leaf_nodes=n_leaves and max(2, n_leaves), random_state=seed
    )
    return _score(tree, pair, task), int(tree.tree_.node_count)


def place_digits(digits: list[int], seed: int) -> dict[str, Any]:
    """Test rows of some digits of optdigits in two features of KFD and of MMDA."""
    whole = task_of("optdigits")
    some, tested = np.isin(whole.y, digits), np.isin(whole.y_test, digits)
    X, y, X_test, y_test = whole.X[some], whole.y[some], whole.X_test[tested], whole.y_test[tested]
    task = Task(X, y, X_test, y_test, resolve_gamma("mean_distance", X))
    places: dict[str, Any] = {"labels": y_test.tolist()}
    for name, machine in (
        ("KFD", KernelFisherDiscriminant(alpha=0.1, gamma=task.gamma)),
        ("MMDA", MMDA(1, gamma=task.gamma, random_state=seed)),
    ):
        pair = machine.fit_transform(X, y)[:, :2], machine.transform(X_test)[:, :2]
        places[name] = pair[1].round(4).tolist()
        places[f"{name} 1-NN"] = _score(neighbours(2), pair, task)
    return places
