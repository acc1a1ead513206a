"""The hull perceptron: steps against steps, the paper's figures, and what removal is worth."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks import tasks
from benchmarks.isolated import measure
from benchmarks.tables import Table
from kernlet import HullPerceptronClassifier, KernelExpansion, L1KernelClassifier
from kernlet.datasets import load
from kernlet.estimators.hull_removal import Schedule, removal_rounds, stops
from kernlet.kernels import RBF
from kernlet.kernels.gram import Gram
from kernlet.problems.hull import Hull
from kernlet.reduce import refit, remove
from kernlet.solvers import find_nearest_point

GAMMA, C = 1 / 50, 10.0  # the paper's, for all sets
SCHEDULE = Schedule(0.5, 0.025, 20)
N_CENTERS = 20
#: Name here, whether it is standardised, and the paper's support vectors at the start and at the
#: end with the accuracies (None where it prints none).
PAPER: dict[str, tuple[bool, float, float, float | None, float | None]] = {
    "cleveland": (True, 164.9, 109.1, 0.793, 0.772),
    "breastw_699": (True, 117.1, 89.4, 0.958, 0.961),
    "ionosphere": (False, 134.8, 84.5, 0.918, 0.918),
    "sonar": (True, 136.1, 88.0, None, None),
    "pima": (True, 542.0, 416.0, 0.775, 0.770),
    "thyroid": (True, 1121.5, 953.8, None, None),
}


def rows_of(name: str) -> tuple[Any, Any]:
    """All rows of a set, unscaled, with signs; thyroid is normal against the rest."""
    data = load(name)
    X, y = np.asarray(data.X, dtype=float), data.y
    if data.X_test is not None:
        X, y = np.vstack([X, data.X_test]), np.r_[y, data.y_test]
    y = y == 3 if name == "thyroid" else y
    return X, np.where(y == np.unique(y)[1], 1.0, -1.0)


def hull_of(name: str, *_: Any) -> Hull:
    """A set standardised; 6,480 rows (nine tenths) of thyroid."""
    X, signs = rows_of(name)
    X, signs = X[:6480], signs[:6480]
    X = StandardScaler().fit_transform(X)
    return Hull(Gram(RBF(GAMMA), X, hold=True), signs, np.full(len(X), C))


def mdm(hull: Hull, tol: float) -> dict[str, Any]:
    return _facts(find_nearest_point(hull, tol=tol))


def mdm_to_a_percent(hull: Hull) -> dict[str, Any]:
    return mdm(hull, 1e-2)


def mdm_to_a_millionth(hull: Hull) -> dict[str, Any]:
    return mdm(hull, 1e-6)


def sk_to_a_percent(hull: Hull) -> dict[str, Any]:
    limit = 300_000 if hull.n_rows > 5000 else None  # does not get there in minutes
    return _facts(find_nearest_point(hull, method="sk", tol=1e-2, max_iter=limit))


def _facts(solution: Any) -> dict[str, Any]:
    names = ("n_iter", "n_columns", "gap", "norm")
    return {name: getattr(solution, name) for name in names} | {"support": len(solution.rows)}


def steps(quick: bool) -> Iterator[Table]:
    """MDM against Schlesinger and Kozinec's steps, both by numpy over the same columns."""
    table = Table(
        "To a relative gap of 1e-2 (C=10, sigma^2=50, standardised): MDM against SK",
        [
            "set",
            "rows",
            "MDM ms",
            "steps",
            "SK ms",
            "steps",
            "ratio",
            "wanted",
            "gap of MDM",
            "gap of SK",
            "support vectors",
        ],
    )
    names = ["cleveland", "ionosphere", "breastw", "pima", "thyroid"]
    for name in names[:4] if quick else names:
        ours = measure(hull_of, mdm_to_a_percent, name, repeats=5)
        peer = measure(hull_of, sk_to_a_percent, name)
        table.add(
            name,
            hull_of(name).n_rows,
            f"{1000 * ours.seconds:.1f}",
            ours.answer["n_iter"],
            f"{1000 * peer.seconds:.0f}",
            peer.answer["n_iter"],
            f"{'> ' if peer.answer['gap'] > 1e-2 else ''}{peer.seconds / ours.seconds:.0f}x",
            ">= 8x",
            f"{ours.answer['gap']:.1e}",
            f"{peer.answer['gap']:.1e}",
            ours.answer["support"],
        )
    yield table


def large(quick: bool) -> Iterator[Table]:
    """Thyroid to many digits, and all of MNIST."""
    table = Table(
        "Larger sets",
        ["task", "rows", "gap", "CPU s", "wanted", "steps", "columns", "SVs", "peak MB", "wanted"],
    )
    run = measure(hull_of, mdm_to_a_millionth, "thyroid", repeats=3)
    table.add(*_large_line("thyroid", 6480, run, "<= 5", "-"))
    for work in (fit_mnist, fit_svc):
        run = measure(tasks.mnist_eight, work, 4000)
        name = "MNIST 8 against the rest" + (", the same by SVC" if work is fit_svc else "")
        table.add(*_large_line(name, 4000, run, "-", "-"))
    if not quick:
        run = measure(tasks.mnist_eight, fit_mnist, 60_000)
        table.add(*_large_line("MNIST 8 against the rest", 60_000, run, "-", "< 4096"))
    yield table


def _large_line(name: str, rows: int, run: Any, seconds: str, megabytes: str) -> list[object]:
    facts = run.answer
    return [
        name,
        f"{rows:,}",
        f"{facts['gap']:.1e}",
        f"{run.seconds:.2f}",
        seconds,
        facts["n_iter"],
        facts["n_columns"],
        facts["support"],
        f"{run.peak:.0f}",
        megabytes,
    ]


def fit_mnist(task: Any) -> dict[str, Any]:
    machine = HullPerceptronClassifier(1.0, gamma=task.gamma, tol=1e-3).fit(task.X, task.y)
    return {
        "gap": machine.gap_,
        "n_iter": machine.n_iter_,
        "n_columns": "-",
        "support": len(machine.support_indices_),
        "score": machine.score(task.X_test, task.y_test),
    }


def fit_svc(task: Any) -> dict[str, Any]:
    """The same optimum by an SVC of hard margin between mirrored points, its matrix held whole."""
    X = np.asarray(task.X, dtype=float)
    hull = Hull(Gram(RBF(task.gamma), X, hold=True), task.signs, np.ones(len(X)))
    Q = hull.columns(np.arange(len(X)))
    scale = Q.mean()
    machine = SVC(kernel="precomputed", C=1e12, tol=1e-3, cache_size=4000)
    machine.fit(np.block([[Q, -Q], [-Q, Q]]) / scale, np.repeat([1, -1], len(X)))
    alpha = np.zeros(2 * len(X))
    alpha[machine.support_] = np.abs(machine.dual_coef_[0])
    alpha = alpha[: len(X)] + alpha[len(X) :]
    alpha /= alpha.sum()
    margins = Q @ alpha
    return {
        "gap": 1 - margins.min() / (alpha @ margins),
        "n_iter": int(machine.n_iter_[0]),
        "n_columns": "all",
        "support": int(np.count_nonzero(alpha)),
    }


def folds(name: str) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Ten folds: training rows and signs, test rows and signs, scaled as the set wants it."""
    X, signs = rows_of(name)
    for train, test in StratifiedKFold(10, shuffle=True, random_state=0).split(X, signs):
        scaler = StandardScaler(with_mean=PAPER[name][0], with_std=PAPER[name][0]).fit(X[train])
        yield scaler.transform(X[train]), signs[train], scaler.transform(X[test]), signs[test]


def paper(quick: bool) -> Iterator[Table]:
    """The start of the paper's tables: ten folds, before any removal."""
    table = Table(
        "Support vectors and accuracy before removal, ten folds (C=10, sigma^2=50)",
        ["set", "paper", "10,000 SK steps", "gap left", "to a gap of 1e-6"],
    )
    for name in _names(quick):
        _, support, _, accuracy, _ = PAPER[name]
        early = [
            _cell(_perceptron(solver="sk", tol=0.0, max_iter=10_000), fold) for fold in folds(name)
        ]
        exact = [_cell(_perceptron(tol=1e-6), fold) for fold in folds(name)]
        table.add(
            name,
            f"{support} / {'-' if accuracy is None else accuracy}",
            _mean(early),
            f"{np.mean([cell[2] for cell in early]):.2f}",
            _mean(exact),
        )
    yield table


def paper_rule(quick: bool) -> Iterator[Table]:
    """The end of the paper's tables: accuracy and deviation over folds say when to stop."""
    table = Table(
        "Removal by the paper's rule over ten folds: support vectors / test accuracy at the stop "
        "(share of support vectors kept; last factor; accuracy on removed rows)",
        ["set", "paper", *READINGS],
    )
    for name in _names(quick):
        _, first, last, _, accuracy = PAPER[name]
        table.add(
            name,
            f"{last} / {'-' if accuracy is None else accuracy} ({100 * last / first:.0f} %)",
            *[
                _at_the_stop([_path(fold, schedule, train) for fold in folds(name)])
                for schedule, train in READINGS.values()
            ],
        )
    yield table


def _at_the_stop(paths: list[list[list[float]]]) -> str:
    n_rounds = min(len(path) for path in paths)
    cells = np.array([path[:n_rounds] for path in paths])  # fold, round, figure
    mean, deviation = cells[:, :, 0].mean(axis=0), cells[:, :, 0].std(axis=0)
    seen = (k for k in range(2, n_rounds) if stops(mean[1 : k + 1], deviation[1 : k + 1]))
    k = next(seen, n_rounds - 1)
    support = cells[:, :, 1].mean(axis=0)
    return (
        f"{support[k]:.1f} / {cells[:, k, 2].mean():.3f} ± {cells[:, k, 2].std():.3f} "
        f"({100 * support[k] / support[0]:.0f} %; {SCHEDULE.factor(k - 1):.3f}; {mean[k]:.3f})"
    )


def _path(fold: Any, schedule: Schedule, train: Any) -> list[list[float]]:
    """Validation accuracy, support vectors and test accuracy of all rounds."""
    X, signs, X_test, signs_test = fold
    hull = Hull(Gram(RBF(GAMMA), X, hold=True), signs, np.full(len(X), C))
    path = []
    for trained in removal_rounds(hull, np.ones(len(X)), schedule, train):
        rows = trained.rows[trained.solution.rows]
        coef = trained.solution.alpha * signs[rows]
        values = Gram(RBF(GAMMA), X_test, X[rows]).dot(coef) + coef.sum()
        record = trained.record
        right = float((values * signs_test > 0).mean())
        path.append([record.validation_accuracy, record.n_support, right])
    return path


def _ten_thousand_sk_steps(hull: Hull, rows: Any, start: Any) -> Any:
    return find_nearest_point(hull, method="sk", tol=0.0, max_iter=10_000)


def _exactly(hull: Hull, rows: Any, start: Any) -> Any:
    return find_nearest_point(hull, tol=1e-4, start=start)


#: What N in the threshold counts, and how each training is done.
READINGS = {
    "N all rows, 10,000 SK steps": (SCHEDULE, _ten_thousand_sk_steps),
    "N all rows, gap 1e-4": (SCHEDULE, _exactly),
    "N the rows left, gap 1e-4": (replace(SCHEDULE, size="current"), _exactly),
}


def removal(quick: bool) -> Iterator[Table]:
    """What removal is worth beside other ways to few centers."""
    table = Table(
        "Centers / test accuracy by ten folds: ways to fewer centers (C=10, sigma^2=50)",
        ["set", "paper at the end", *WAYS],
    )
    for name in _names(quick):
        _, _, support, _, accuracy = PAPER[name]
        cells: dict[str, list[Any]] = {way: [] for way in WAYS}
        for fold in folds(name):
            full = _perceptron(tol=1e-3).fit(fold[0], fold[1])
            for way, make in WAYS.items():
                cells[way].append(_cell(make(full, fold[0], fold[1]), fold))
        table.add(
            name,
            f"{support} / {'-' if accuracy is None else accuracy}",
            *[_mean(cells[way]) for way in WAYS],
        )
    yield table


def _names(quick: bool) -> list[str]:
    return [name for name in PAPER if not quick or name != "thyroid"]


def _perceptron(**parameters: Any) -> HullPerceptronClassifier:
    return HullPerceptronClassifier(C, gamma=GAMMA, **parameters)


def _iterative(full: Any, X: Any, signs: Any) -> Any:
    return _perceptron(removal="iterative").fit(X, signs)


def _drop_once(full: Any, X: Any, signs: Any) -> Any:
    """As many rows as the rounds leave, of largest alpha at once, trained on alone."""
    count = _iterative(full, X, signs).removal_path_[-1].n_rows
    rows = full.support_indices_[np.argsort(-full.alpha_[0], kind="stable")[:count]]
    return _perceptron().fit(X[rows], signs[rows])


def _largest(full: Any, X: Any, signs: Any) -> KernelExpansion:
    count = min(N_CENTERS, full.n_centers_)
    return remove(full.expansion_, count, X, signs[None, :], C=2 * C)


def k_means_refit(X: Any, signs: Any, n_centers: int) -> KernelExpansion:
    centers = KMeans(n_centers, n_init=1, random_state=0).fit(X).cluster_centers_
    return refit(RBF(GAMMA), centers, X, signs[None, :], C=2 * C)


def _k_means(full: Any, X: Any, signs: Any) -> KernelExpansion:
    return k_means_refit(X, signs, N_CENTERS)


def _random(full: Any, X: Any, signs: Any) -> KernelExpansion:
    rows = np.random.RandomState(0).permutation(len(X))[:N_CENTERS]
    return refit(RBF(GAMMA), X[rows], X, signs[None, :], C=2 * C)


def _one_norm(full: Any, X: Any, signs: Any) -> Any:
    return L1KernelClassifier(C, gamma=GAMMA, random_state=0).fit(X, signs)


WAYS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "full": lambda full, X, signs: full,
    "iterative removal": _iterative,
    "drop once, train on these": _drop_once,
    f"{N_CENTERS} largest, refit on all": _largest,
    f"{N_CENTERS} by k-means, refit on all": _k_means,
    f"{N_CENTERS} at random, refit on all": _random,
    "1-norm machine": _one_norm,
}


def _cell(machine: Any, fold: Any) -> tuple[int, float, float]:
    """Centers, test accuracy and gap of a machine, which is fitted where it is not yet."""
    X, signs, X_test, signs_test = fold
    if isinstance(machine, KernelExpansion):
        right = np.where(machine.decision_values(X_test)[:, 0] > 0, 1.0, -1.0) == signs_test
        return machine.n_centers, float(right.mean()), np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine = machine if hasattr(machine, "expansion_") else machine.fit(X, signs)
    support = getattr(machine, "support_indices_", machine.center_indices_)
    return len(support), machine.score(X_test, signs_test), getattr(machine, "gap_", np.nan)


def _mean(cells: list[tuple[int, float, float]]) -> str:
    counts, accuracies, _ = np.array(cells).T
    return f"{counts.mean():.1f} / {accuracies.mean():.3f} ± {accuracies.std():.3f}"


BENCHMARKS = {
    "hull-steps": steps,
    "hull-large": large,
    "hull-paper": paper,
    "hull-paper-rule": paper_rule,
    "hull-removal": removal,
}
