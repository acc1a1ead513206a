"""The hull perceptron: MDM against SK steps, and the value of removal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import median
from typing import Any, NamedTuple

import click
import numpy as np
from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks import budget
from benchmarks.budget import Training
from benchmarks.tables import Table
from benchmarks.timing import measure
from kernlet import (
    CompactKernelClassifier,
    HullPerceptronClassifier,
    KernelExpansion,
    L1KernelClassifier,
)
from kernlet.compression.refit import refit, remove
from kernlet.kernels.gram import Gram
from kernlet.kernels.rbf import RBF
from kernlet.squared.mdm import find_nearest_point
from kernlet.squared.problem import SquaredMargin
from papers import tasks
from papers.cache import timed
from papers.garcia2006 import EVOLUTION, GAMMA, REDUCTION, C, scaled_fold, signed_rows
from papers.garcia2006 import REMOVAL as REMOVAL_RULE

N_CENTERS = 20
#: The paper's removal, stopped where the accuracy on removed rows has fallen.
STOPPED = replace(REMOVAL_RULE, stop="fall")


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
            f"{ours.answer['gap']:.1e}",
            f"{peer.answer['gap']:.1e}",
            ours.answer["support"],
        )
    yield table


def large(quick: bool) -> Iterator[Table]:
    """Thyroid to a small gap, and all of MNIST."""
    table = Table(
        "Larger sets",
        ["task", "rows", "gap", "CPU s", "steps", "columns", "SVs", "peak MB"],
    )
    run = measure(hull_of, mdm_to_a_millionth, "thyroid", repeats=3)
    table.add(*_large_line("thyroid", 6480, run))
    for work in (fit_mnist, fit_svc):
        run = measure(tasks.mnist_eight, work, 4000)
        name = "MNIST 8 against the rest" + (", the same by SVC" if work is fit_svc else "")
        table.add(*_large_line(name, 4000, run))
    if not quick:
        run = measure(tasks.mnist_eight, fit_mnist, 60_000)
        table.add(*_large_line("MNIST 8 against the rest", 60_000, run))
    yield table


def _large_line(name: str, rows: int, run: Any) -> list[object]:
    facts = run.answer
    return [
        name,
        f"{rows:,}",
        f"{facts['gap']:.1e}",
        f"{run.seconds:.2f}",
        facts["n_iter"],
        facts["n_columns"],
        facts["support"],
        f"{run.peak:.0f}",
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


class Cell(NamedTuple):
    """A machine on a fold: its size, test accuracy, CPU seconds, and those to choose settings."""

    n_centers: int
    accuracy: float
    seconds: float
    choice_seconds: float = 0.0


_CHOSEN = (
    "1, 5 or 20 passes, last, best or mean hypothesis, intercept or none, and the threshold or C "
    "are chosen by accuracy on three inner folds of the training rows (thyroid: one, but for the "
    "Forgetron). Last lines: on how many sets the "
    "mean difference is beyond its standard error"
)
#: Cells of all folds by data set and column.
Cells = dict[str, dict[str, list[Cell]]]


def removal(quick: bool) -> Iterator[Table]:
    """Removal against other methods with few centers, and against algorithms with a budget."""
    cells: Cells = {name: _measure_set(name) for name in _names(quick)}
    table = Table(
        "Centers / test accuracy by ten folds: ways to fewer centers (C=10, sigma^2=50)",
        ["set", "paper at the end", *METHODS],
    )
    for name, by_column in cells.items():
        paper = f"{REDUCTION[name][2]} / {_paper_accuracy(name)}"
        table.add(name, paper, *[_mean(by_column[way]) for way in METHODS])
    yield table
    yield _budget_table(
        cells,
        f"Budgets of as many support vectors as iterative removal ends with on the fold; {_CHOSEN}",
        [REMOVAL],
        AS_REMOVAL,
    )
    yield _budget_table(
        cells,
        f"Budgets of {N_CENTERS}; chosen as above",
        [LARGEST, K_MEANS, COMPACT],
        AS_FEW,
    )
    yield _cpu_table(cells)


def _names(quick: bool) -> list[str]:
    return [name for name in REDUCTION if not quick or name != "thyroid"]


def _paper_accuracy(name: str) -> object:
    rounds = EVOLUTION.get(name)
    return "-" if rounds is None else rounds[max(rounds)][1]


def _perceptron(**parameters: Any) -> HullPerceptronClassifier:
    return HullPerceptronClassifier(C, gamma=GAMMA, **parameters)


class Start(NamedTuple):
    """The training rows of a fold, and the full and the reduced machine on them."""

    X: Any
    signs: Any
    full: HullPerceptronClassifier
    removed: HullPerceptronClassifier


def _drop_once(start: Start) -> Any:
    """Keep only the rows with the largest alphas, as many as the rounds leave, and retrain."""
    count = len(start.removed.support_indices_)
    rows = start.full.support_indices_[np.argsort(-start.full.alpha_[0], kind="stable")[:count]]
    return _perceptron().fit(start.X[rows], start.signs[rows])


def _largest(start: Start) -> KernelExpansion:
    count = min(N_CENTERS, start.full.n_centers_)
    return remove(start.full.expansion_, count, start.X, start.signs[None, :], C=2 * C)


def k_means_refit(X: Any, signs: Any, n_centers: int) -> KernelExpansion:
    centers = KMeans(n_centers, n_init=1, random_state=0).fit(X).cluster_centers_
    return refit(RBF(GAMMA), centers, X, signs[None, :], C=2 * C)


def _random(start: Start) -> KernelExpansion:
    rows = np.random.RandomState(0).permutation(len(start.X))[:N_CENTERS]
    return refit(RBF(GAMMA), start.X[rows], start.X, start.signs[None, :], C=2 * C)


def _one_norm(start: Start) -> Any:
    machine = L1KernelClassifier(C, gamma=GAMMA, candidates=None, random_state=0)
    return machine.fit(start.X, start.signs)


def _compact(start: Start) -> Any:
    return CompactKernelClassifier(N_CENTERS, random_state=0).fit(start.X, start.signs)


FULL, REMOVAL, DROP = "full", "iterative removal", "drop once, train on these"
LARGEST = f"{N_CENTERS} largest, refit on all"
K_MEANS, COMPACT = f"{N_CENTERS} by k-means, refit on all", f"compact, {N_CENTERS} trained centers"
METHODS: dict[str, Callable[[Start], Any]] = {
    FULL: lambda start: start.full,
    REMOVAL: lambda start: start.removed,
    DROP: _drop_once,
    LARGEST: _largest,
    K_MEANS: lambda start: k_means_refit(start.X, start.signs, N_CENTERS),
    f"{N_CENTERS} at random, refit on all": _random,
    "1-norm machine": _one_norm,
    COMPACT: _compact,
}
#: Columns of budget methods: with as many support vectors as removal leaves, and with N_CENTERS.
AS_REMOVAL, AS_FEW = "{}", f"{{}}, {N_CENTERS}"


def _measure_set(name: str) -> dict[str, list[Cell]]:
    """Every method on ten folds."""
    cells: dict[str, list[Cell]] = defaultdict(list)
    for number, (X, signs, X_test, signs_test) in enumerate(folds(name)):
        click.echo(f"measuring {name}, fold {number}", err=True)
        test = Training(X_test, signs_test, GAMMA)
        full, full_seconds = timed(_perceptron(tol=1e-3).fit, X, signs)
        removed, removal_seconds = timed(_perceptron(removal=STOPPED).fit, X, signs)
        start = Start(X, signs, full, removed)
        before = {REMOVAL: removal_seconds} | dict.fromkeys((FULL, DROP, LARGEST), full_seconds)
        for way, make in METHODS.items():
            machine, seconds = timed(make, start)
            seconds += before.get(way, 0.0)
            cells[way].append(Cell(*_size_and_accuracy(machine, test), seconds))
        for column, n in ((AS_REMOVAL, len(removed.support_indices_)), (AS_FEW, N_CENTERS)):
            for title in budget.METHODS:
                cells[column.format(title)].append(_budget_cell(title, X, signs, n, test))
    return cells


def _size_and_accuracy(machine: Any, test: Training) -> tuple[int, float]:
    """Support vectors or centers of a classifier or an expansion, and its accuracy."""
    if isinstance(machine, KernelExpansion):
        return machine.n_centers, test.accuracy(machine)
    n_centers = len(getattr(machine, "support_indices_", range(machine.n_centers_)))
    return n_centers, machine.score(test.X, test.signs)


def _budget_cell(title: str, X: Any, signs: Any, n: int, test: Training) -> Cell:
    choice, choice_seconds = timed(budget.choose, title, Training(X, signs, GAMMA), n)
    machine, seconds = timed(budget.train, title, Training(X, signs, GAMMA), n, choice)
    return Cell(machine.n_centers, test.accuracy(machine), seconds, choice_seconds)


def _mean(cells: list[Cell]) -> str:
    counts, accuracies = np.array([cell[:2] for cell in cells]).T
    return f"{counts.mean():.1f} / {accuracies.mean():.3f} ± {accuracies.std():.3f}"


def _budget_table(cells: Cells, title: str, ours: list[str], column: str) -> Table:
    """Budget methods beside ours, and on how many sets each is ahead, tied or behind."""
    peers = [column.format(peer) for peer in budget.METHODS]
    table = Table(title, ["set", *ours, *budget.METHODS])
    for name, by_column in cells.items():
        table.add(name, *[_mean(by_column[key]) for key in (*ours, *peers)])
    for reference in ours:
        line = []
        for key in (*ours, *peers):
            verdicts = [_verdict(of[key], of[reference]) for of in cells.values()]
            counts = " / ".join(str(verdicts.count(verdict)) for verdict in VERDICTS)
            line.append("-" if key == reference else counts)
        table.add(f"{' / '.join(VERDICTS)} {reference}", *line)
    return table


VERDICTS = ("ahead of", "tied with", "behind")


def _verdict(cells: list[Cell], reference: list[Cell]) -> str:
    """Whether the mean difference over folds is beyond one standard error of it."""
    pairs = zip(cells, reference, strict=True)
    differences = np.array([cell.accuracy - other.accuracy for cell, other in pairs])
    error = differences.std(ddof=1) / np.sqrt(len(differences))
    if abs(differences.mean()) <= error:
        return "tied with"
    return "ahead of" if differences.mean() > 0 else "behind"


def _cpu_table(cells: Cells) -> Table:
    """Medians over folds, as multiples of iterative removal."""
    table = Table(
        "CPU time as a multiple of iterative removal's (medians of ten folds); of budget methods: "
        "one training / with the choice of settings",
        ["method", *cells],
    )
    removal = {name: _median(by_column[REMOVAL]) for name, by_column in cells.items()}
    table.add(f"{REMOVAL}, s", *[f"{seconds:.2f}" for seconds in removal.values()])
    for key in dict.fromkeys(key for by_column in cells.values() for key in by_column):
        if key == REMOVAL:
            continue
        line = []
        for name, by_column in cells.items():
            once, whole = (
                f"{_median(by_column[key], *more) / removal[name]:.2g}x"
                for more in ((), ("choice_seconds",))
            )
            line.append(once if once == whole else f"{once} / {whole}")
        table.add(key, *line)
    return table


def _median(cells: list[Cell], *more: str) -> float:
    return median(sum(getattr(cell, key) for key in ("seconds", *more)) for cell in cells)


BENCHMARKS = {
    "hull-steps": steps,
    "hull-large": large,
    "hull-removal": removal,
}
