"""Kernel features by MMDA, KFD and kernel PCA, and the classifiers that judge them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.decomposition import KernelPCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from kernlet import MMDA, KernelFisherDiscriminant
from kernlet.kernels.bandwidth import resolve_gamma
from papers.cache import timed
from papers.tasks import Task, cluster_error, extended_usps, fold, official
from papers.trees import RULES, Rule, SmallTree

PER_CLASS = (1, 3, 5)  # features per class in the tables
ALL_COUNTS = (1, 2, 3, 4, 5)  # and in Figure 2
ALPHAS = (0.01, 0.1, 1.0, 10.0)
COSTS = (1.0, 10.0, 100.0, 1000.0)
N_FOLDS = 5
SAMPLE = 3500  # rows that KPCA and KFD have of larger data sets, as in the paper
MOST_EXACT_ROWS = 7500  # above, a data set is one of the larger ones
MANY_ROWS = 50_000  # above, fewer iterations of the network
BLOCK = 4000


def _task(name: str, n_rows: int | None) -> Task:
    """A data set with the paper's width; ``n_rows`` limits the training rows."""
    if name == "usps":
        n_all = 266_079
        return extended_usps(1 if n_rows is None else max(1, n_all // n_rows))
    return official(name, n_rows, None if n_rows is None else n_rows // 3)


# Features ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Features:
    """Features of training and test rows by features per class; 0: a number that is fixed.

    ``seconds`` is the CPU time of so many features, ``points`` the mean number of points per
    feature. ``distinct`` counts the points of all features together.
    """

    pairs: dict[int, tuple[Any, Any]]
    seconds: dict[int, float]
    points: dict[int, float]
    distinct: int
    parameters: str = ""
    certificates: dict[str, float] = field(default_factory=dict)


class _RoundClock:
    """A callback that keeps the CPU seconds since it was made, for each round of a fit."""

    def __init__(self) -> None:
        self.start, self.seconds = time.process_time(), []  # type: float, list[float]

    def setup(self, estimator: Any, context: Any) -> None:
        """Nothing to prepare."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Nothing to do."""

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """Keep the time of a round."""
        if context.task_name == "round":
            self.seconds.append(time.process_time() - self.start)

    def teardown(self, estimator: Any, context: Any) -> None:
        """Nothing to release."""


def fit_by_rounds(machine: Any, X: Any, y: Any) -> list[float]:
    """Fit MMDA; CPU seconds until each round of features was found.

    Without callbacks, which scikit-learn has since 1.9, there is one fit for each number of rounds.
    """
    if hasattr(machine, "set_callbacks"):
        clock = _RoundClock()
        machine.set_callbacks(clock).fit(X, y)
        return clock.seconds
    counts = range(1, machine.n_features_per_class + 1)
    return [timed(machine.set_params(n_features_per_class=k).fit, X, y)[1] for k in counts]


def _raw_columns(task: Task, seed: int) -> Features:
    """No features: the columns as they are."""
    return Features({0: (task.X, task.X_test)}, {0: 0.0}, {}, 0)


def _margin_features(
    task: Task, seed: int, solver: Any = "core", n_landmarks: int = 500, n_per_class: int = 5
) -> Features:
    """MMDA; two classes share one sequence of features, twice as long."""
    n = task.n_classes
    n_rounds = 2 if n == 2 else 1  # per feature and class
    machine = MMDA(
        n_per_class * n_rounds,
        solver=solver,
        C=1.0,
        gamma=task.gamma,
        n_landmarks=n_landmarks,
        cache_size=2500,  # MB; the kernel matrix of letter has 2,050
        random_state=seed,
    )
    seconds = fit_by_rounds(machine, task.X, task.y)
    train, test = _transformed(machine, task)
    n_points = np.count_nonzero(machine.components_, axis=1)
    counts = [k for k in ALL_COUNTS if k <= n_per_class]
    certificates = {"gap": float(machine.gap_.max())}
    if solver == "core":
        certificates["ball_gap"] = machine.ball_gap_
    return Features(
        {k: (train[:, : k * n], test[:, : k * n]) for k in counts},
        {k: seconds[k * n_rounds - 1] for k in counts},
        {k: float(n_points[: k * n].mean()) for k in counts},
        machine.n_centers_,
        f"{machine.n_centers_} landmarks" if solver == "landmarks" else f"solver={solver}",
        certificates,
    )


def _fisher_features(task: Task, seed: int, n_landmarks: int | None = None) -> Features:
    """KFD, alpha selected for 1-NN on a fifth of the training rows.

    By landmarks it sees all rows; without, 3,500 random ones of the larger data sets.
    """
    part = fold(task, 0)
    scores = {}
    for alpha in ALPHAS:
        machine, _, _ = _fisher(part, alpha, seed, n_landmarks)
        pair = machine.transform(part.X), machine.transform(part.X_test)
        scores[alpha] = _correct(_nearest_neighbor(), pair, part).mean()
    alpha = max(scores, key=lambda a: scores[a])
    machine, seconds, n_rows = _fisher(task, alpha, seed, n_landmarks)
    n = machine.expansion_.n_centers
    rows = f"{n:,} landmarks" if n_landmarks else f"{n_rows:,} rows"
    parameters = f"alpha={alpha:g}, {rows}"
    return Features({0: _transformed(machine, task)}, {0: seconds}, {0: float(n)}, n, parameters)


def _fisher(task: Task, alpha: float, seed: int, n_landmarks: int | None) -> tuple[Any, float, int]:
    """The machine, its CPU seconds and its number of rows."""
    rows = slice(None) if n_landmarks else _sample(task, seed)
    X, y = task.X[rows], task.y[rows]
    machine = KernelFisherDiscriminant(
        alpha=alpha, gamma=task.gamma, n_landmarks=n_landmarks, random_state=seed
    )
    _, seconds = timed(machine.fit, X, y)
    return machine, seconds, len(y)


def _principal_features(task: Task, seed: int, counts: tuple[int, ...] = (5,)) -> Features:
    """Kernel PCA; of 3,500 random rows on the larger data sets."""
    X = task.X[_sample(task, seed)]
    pairs, all_seconds = {}, {}
    for k in counts:
        machine = KernelPCA(
            k * task.n_classes,
            kernel="rbf",
            gamma=task.gamma,
            eigen_solver="randomized",
            random_state=seed,
        )
        _, all_seconds[k] = timed(machine.fit, X)
        pairs[k] = _transformed(machine, task)
    n = len(X)
    return Features(pairs, all_seconds, dict.fromkeys(counts, float(n)), n, f"{n:,} rows")


def _sample(task: Task, seed: int) -> Any:
    """All rows of a small data set, 3,500 random ones of a larger."""
    if len(task.y) <= MOST_EXACT_ROWS:
        return slice(None)
    return np.random.RandomState(seed).permutation(len(task.y))[:SAMPLE]


def _transformed(machine: Any, task: Task) -> tuple[Any, Any]:
    train, test = (
        np.vstack([machine.transform(X[i : i + BLOCK]) for i in range(0, len(X), BLOCK)])
        for X in (task.X, task.X_test)
    )
    return train, test


EXTRACTORS: dict[str, Callable[..., Features]] = {
    "none": _raw_columns,
    "kpca": _principal_features,
    "kfd": _fisher_features,
    "mmda": _margin_features,
}


# Classifiers -------------------------------------------------------------------------------------


def _nearest_neighbor(n_columns: int = 100) -> Any:
    return KNeighborsClassifier(1, algorithm="kd_tree" if n_columns <= 15 else "brute")


def _network(seed: int, n_rows: int) -> Any:
    """Ten hidden units, as in the paper; weight decay 1 was best on held-out training rows."""
    max_iter = 300 if n_rows <= MANY_ROWS else 100
    network = MLPClassifier((10,), solver="lbfgs", alpha=1.0, max_iter=max_iter, random_state=seed)
    return make_pipeline(StandardScaler(), network)


def _correct(model: Any, pair: tuple[Any, Any], task: Task) -> Any:
    """Whether each test row is classified correctly."""
    train, test = pair
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(train, task.y).predict(test) == task.y_test


def _cross_validated(make: Callable[[], Any], X: Any, task: Task) -> float:
    """Percentage of held-out training rows that are classified correctly, five folds.

    On a large data set they are folds of 5,000 random rows.
    """
    is_correct = []
    for number in range(N_FOLDS):
        part = fold(replace(task, X=X), number, N_FOLDS)
        is_correct.append(_correct(make(), (part.X, part.X_test), part))
    return 100 * float(np.concatenate(is_correct).mean())


def _best_svm(task: Task) -> Any:
    """C by cross-validation, the smallest of equals."""
    scores = {
        C: _cross_validated(lambda C=C: SVC(C=C, gamma=task.gamma), task.X, task)  # type: ignore[misc]
        for C in COSTS
    }
    return SVC(C=max(scores, key=lambda C: scores[C]), gamma=task.gamma)


def _tree_scores(X: Any, task: Task, n_nodes: int, seed: int) -> dict[Rule, float]:
    """Trees that are pruned and trees that grow best node first, cross-validated."""
    return {
        rule: _cross_validated(lambda rule=rule: SmallTree(n_nodes, rule, seed), X, task)  # type: ignore[misc]
        for rule in RULES
    }


class _Scores:
    """Test accuracies by name, with errors where test rows come in groups."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.accuracy: dict[str, float] = {}
        self.test_error: dict[str, float] = {}

    def add(self, name: str, model: Any, pair: tuple[Any, Any]) -> None:
        """Train a classifier on features of the training rows, and test it."""
        is_correct = _correct(model, pair, self.task)
        self.accuracy[name] = 100 * float(is_correct.mean())
        if self.task.test_groups is not None:
            self.test_error[name] = cluster_error(is_correct, self.task.test_groups)


def score_features(
    name: str,
    method: str,
    seed: int,
    n_rows: int | None,
    n_nodes: int | None,
    options: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Test accuracies of all classifiers on the features of a method.

    Trees have at most ``n_nodes`` nodes, all features, and the rule that is better by
    cross-validation; ``options`` go to the method.
    """
    task = _task(name, n_rows)
    features = EXTRACTORS[method](task, seed, **(options or {}))
    scores = _Scores(task)
    facts: dict[str, Any] = {
        "fit": {k: round(seconds, 2) for k, seconds in features.seconds.items()},
        "points": features.points,
        "distinct": features.distinct,
        "parameters": features.parameters,
        "certificates": features.certificates,
        "n_test": len(task.y_test),
    }
    for k, pair in features.pairs.items():
        n_columns = pair[0].shape[1]
        if k in (0, *PER_CLASS) and (n_columns < 200 or name != "usps"):
            scores.add(f"1-NN {k}", _nearest_neighbor(n_columns), pair)
        scores.add(f"ANN {k}", _network(seed, len(task.y)), pair)
    pair = features.pairs[max(features.pairs)]
    if n_nodes is not None:
        by_rule = _tree_scores(pair[0], task, n_nodes, seed)
        tree = SmallTree(n_nodes, max(by_rule, key=lambda rule: by_rule[rule]), seed)
        scores.add("tree", tree, pair)
        facts |= {"nodes": tree.node_count_, "rule": tree.rule, "by_rule": by_rule}
    if method == "none" and len(task.y) <= MANY_ROWS:
        machine = _best_svm(task)
        scores.add("SVM 0", machine, pair)
        facts["C"] = machine.C
    return facts | {"accuracy": scores.accuracy, "test_error": scores.test_error}


def embed_digits(digits: list[int], seed: int) -> dict[str, Any]:
    """Test rows of some digits of optdigits in two features of KFD and of MMDA."""
    data = official("optdigits")
    train, test = np.isin(data.y, digits), np.isin(data.y_test, digits)
    X, y = data.X[train], data.y[train]
    gamma = resolve_gamma("mean_distance", X)
    task = Task(X, y, data.X_test[test], data.y_test[test], gamma)
    places: dict[str, Any] = {"labels": task.y_test.tolist()}
    for name, machine in (
        ("KFD", KernelFisherDiscriminant(alpha=0.1, gamma=gamma, n_landmarks=None)),
        ("MMDA", MMDA(1, solver="exact", gamma=gamma, random_state=seed)),
    ):
        pair = machine.fit_transform(X, y)[:, :2], machine.transform(task.X_test)[:, :2]
        places[name] = pair[1].round(4).tolist()
        places[f"{name} 1-NN"] = 100 * float(_correct(_nearest_neighbor(2), pair, task).mean())
    return places
