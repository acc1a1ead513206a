"""The hull perceptron: MDM against SK steps, and the value of removal."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks.tables import Table
from benchmarks.timing import measure
from kernlet import HullPerceptronClassifier, KernelExpansion, L1KernelClassifier, Removal
from kernlet.compression.refit import refit, remove
from kernlet.kernels.gram import Gram
from kernlet.kernels.rbf import RBF
from kernlet.squared.mdm import find_nearest_point
from kernlet.squared.problem import SquaredMargin
from papers import tasks
from papers.garcia2006 import EVOLUTION, GAMMA, REDUCTION, C, scaled_fold, signed_rows

N_CENTERS = 20


def hull_of(name: str, *_: Any) -> SquaredMargin:
    """A standardised data set; 6,480 rows (nine tenths) of thyroid."""
    X, signs = signed_rows(name)
    X, signs = X[:6480], signs[:6480]
    X = StandardScaler().fit_transform(X)
    return SquaredMargin(Gram(RBF(GAMMA), X, hold=True), signs, np.full(len(X), 2 * C))


def mdm(hull: SquaredMargin, tol: float) -> dict[str, Any]:
    return _facts(find_nearest_point(hull, tol=tol))


def mdm_to_a_percent(hull: SquaredMargin) -> dict[str, Any]:
    return mdm(hull, 1e-2)


def mdm_to_a_millionth(hull: SquaredMargin) -> dict[str, Any]:
    return mdm(hull, 1e-6)


def sk_to_a_percent(hull: SquaredMargin) -> dict[str, Any]:
    limit = 300_000 if hull.n_rows > 5000 else None  # it does not converge in minutes
    return _facts(find_nearest_point(hull, method="sk", tol=1e-2, max_iter=limit))


def _facts(solution: Any) -> dict[str, Any]:
    names = ("n_iter", "n_columns", "gap", "norm")
    return {name: getattr(solution, name) for name in names} | {"support": len(solution.rows)}


def steps(quick: bool) -> Iterator[Table]:
    """MDM against Schlesinger and Kozinec's steps, both in numpy over the same columns."""
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
            "target",
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
    """Thyroid to a small gap, and all of MNIST."""
    table = Table(
        "Larger sets",
        ["task", "rows", "gap", "CPU s", "target", "steps", "columns", "SVs", "peak MB", "target"],
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
    """The same optimum by a hard-margin SVC between mirrored points, with the whole matrix."""
    X = np.asarray(task.X, dtype=float)
    hull = SquaredMargin(Gram(RBF(task.gamma), X, hold=True), task.signs, np.full(len(X), 2.0))
    Q = hull.products(np.arange(len(X)))
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
    """Ten folds of all rows: training rows and signs, test rows and signs, scaled."""
    for fold in range(10):
        yield scaled_fold(name, None, fold)


def removal(quick: bool) -> Iterator[Table]:
    """Removal against other methods with few centers."""
    table = Table(
        "Centers / test accuracy by ten folds: ways to fewer centers (C=10, sigma^2=50)",
        ["set", "paper at the end", *METHODS],
    )
    for name in _names(quick):
        support = REDUCTION[name][2]
        cells: dict[str, list[Any]] = {way: [] for way in METHODS}
        for fold in folds(name):
            full = _perceptron(tol=1e-3).fit(fold[0], fold[1])
            for way, make in METHODS.items():
                cells[way].append(_cell(make(full, fold[0], fold[1]), fold))
        table.add(
            name,
            f"{support} / {_paper_accuracy(name)}",
            *[_mean(cells[way]) for way in METHODS],
        )
    yield table


def _names(quick: bool) -> list[str]:
    return [name for name in REDUCTION if not quick or name != "thyroid"]


def _paper_accuracy(name: str) -> object:
    rounds = EVOLUTION.get(name)
    return "-" if rounds is None else rounds[max(rounds)][1]


def _perceptron(**parameters: Any) -> HullPerceptronClassifier:
    return HullPerceptronClassifier(C, gamma=GAMMA, **parameters)


def _iterative(full: Any, X: Any, signs: Any) -> Any:
    return _perceptron(removal=Removal()).fit(X, signs)


def _drop_once(full: Any, X: Any, signs: Any) -> Any:
    """Keep only the rows with the largest alphas, as many as the rounds leave, and retrain."""
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
    return L1KernelClassifier(C, gamma=GAMMA, candidates=None, random_state=0).fit(X, signs)


METHODS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "full": lambda full, X, signs: full,
    "iterative removal": _iterative,
    "drop once, train on these": _drop_once,
    f"{N_CENTERS} largest, refit on all": _largest,
    f"{N_CENTERS} by k-means, refit on all": _k_means,
    f"{N_CENTERS} at random, refit on all": _random,
    "1-norm machine": _one_norm,
}


def _cell(machine: Any, fold: Any) -> tuple[int, float, float]:
    """Centers, test accuracy and gap of a classifier, which is fitted if necessary."""
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
    "hull-removal": removal,
}
