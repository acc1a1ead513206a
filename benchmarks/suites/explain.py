"""Exact Shapley values beside the estimates of shap's KernelExplainer."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import click
import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.feature_selection import f_classif, mutual_info_classif
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks.tables import Table
from kernlet import CompactKernelClassifier, KernelExpansion, shapley_values
from kernlet.extras import require
from kernlet.kernels import RBF
from kernlet.threads import single_thread
from papers.cache import timed

N_CENTERS, N_BACKGROUND, N_OUTPUTS, N_ROWS, N_TRAINED_ROWS = 50, 100, 10, 20, 5
FEATURES = (10, 12, 15, 20, 30, 50, 100)
REPEATS = 5
SETS = {"wine": load_wine, "breast cancer": load_breast_cancer, "digits": load_digits}


def explain(quick: bool) -> Iterator[Table]:
    """Time per row and error of exact values, of KernelExplainer, and of permutations."""
    with single_thread():
        yield _beside_shap(FEATURES[:2] if quick else FEATURES)
        yield _cost((10, 50) if quick else (10, 20, 50, 100, 256, 800))
        yield _trained(quick)


def selection(quick: bool) -> Iterator[Table]:
    """Accuracy of a machine on few features, chosen by Shapley values and by peers."""
    with single_thread():
        yield _selection(1 if quick else 10)


def _random_machine(n_features: int, width: float = 1.0) -> tuple[KernelExpansion, Any, Any]:
    """A machine of random numbers with rows and background."""
    rng = np.random.RandomState(n_features)
    centers, coef = rng.randn(N_CENTERS, n_features), rng.randn(N_OUTPUTS, N_CENTERS)
    machine = KernelExpansion(RBF(width / n_features), centers, coef, np.zeros(N_OUTPUTS))
    return machine, rng.randn(N_ROWS, n_features), rng.randn(N_BACKGROUND, n_features)


def _beside_shap(features: tuple[int, ...]) -> Table:
    table = Table(
        f"rbf, {N_CENTERS} centers, {N_OUTPUTS} outputs, {N_BACKGROUND} background rows; per row "
        f'of {N_ROWS}, and times faster than shap\'s KernelExplainer (l1_reg=False, nsamples="auto"'
        "); errors are the largest, as a share of the largest value",
        [
            *("features", "shap, ms", "error"),
            *("tol=1e-10, ms", "error", "times faster"),
            *("tol=1e-3, ms", "error", "times faster"),
        ],
    )
    for d in features:
        click.echo(f"{d} features", err=True)
        machine, X, background = _random_machine(d)
        exact = shapley_values(machine, X, background, tol=0).values
        values, peer = _by_shap(3, machine.decision_values, X, background)
        cells = [f"{1000 * peer / N_ROWS:.0f}", _share(values - exact, exact)]
        for tol in (1e-10, 1e-3):
            ours, seconds = _explained(REPEATS, machine, X, background, tol=tol)
            cells.append(f"{1000 * seconds / N_ROWS:.2f}")
            cells += [_share(ours.values - exact, exact), f"{peer / seconds:.0f}"]
        table.add(d, *cells)
    return table


def _explained(repeats: int, *given: Any, **options: Any) -> tuple[Any, float]:
    """An explanation and the median time of all rows; the first call fills tables."""
    answer = shapley_values(*given, **options)
    times = [timed(lambda: shapley_values(*given, **options))[1] for _ in range(repeats)]
    return answer, median(times)


def _by_shap(
    repeats: int, function: Callable[[Any], Any], X: Any, background: Any
) -> tuple[Any, float]:
    """Values of KernelExplainer and the median time of all rows."""
    shap = require("shap", "make bench ARGS=explain", "bench")
    explainer = shap.KernelExplainer(function, background)
    options = {"l1_reg": False, "nsamples": "auto", "silent": True}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.random.seed(0)  # noqa: NPY002 - shap draws from it
        runs = [timed(lambda: explainer.shap_values(X, **options)) for _ in range(repeats)]
    values = np.asarray(runs[0][0]).reshape(len(X), X.shape[1], -1)
    return values, median(seconds for _, seconds in runs)


def _share(errors: Any, values: Any) -> str:
    return f"{np.abs(errors).max() / np.abs(values).max():.0e}"


def _cost(features: tuple[int, ...]) -> Table:
    table = Table(
        f"one row alone: rbf, {N_CENTERS} centers, {N_BACKGROUND} background rows; ms with the "
        "default tol=1e-10, and with tol=0; gamma times features",
        ["features", "gamma 1, ms", "tol=0, ms", "gamma 10, ms", "tol=0, ms"],
    )
    for d in features:
        cells = []
        for width in (1.0, 10.0):
            machine, X, background = _random_machine(d, width)
            for tol in (1e-10, 0.0):
                repeats = 3 if d > 200 else 9
                _, seconds = _explained(repeats, machine, X[:1], background, tol=tol)
                cells.append(f"{1000 * seconds:.1f}")
        table.add(d, *cells)
    return table


def _trained(quick: bool) -> Table:
    table = Table(
        f"trained machines, {N_BACKGROUND} background rows, per row of {N_TRAINED_ROWS}; errors as "
        "shares of the largest value: the bound of exact values, the standard error of estimates",
        ["data and machine", "features", "centers", "ms", "error", "shap, ms", "times faster"],
    )
    for name in list(SETS)[: 1 if quick else 3]:
        X, y = SETS[name](return_X_y=True)
        rows = np.random.RandomState(0).permutation(len(X))
        X, y = X[rows], y[rows]
        compact = CompactKernelClassifier(30, random_state=0)
        projected = CompactKernelClassifier(30, projection=6, random_state=0)
        for title, machine in (("SVC", SVC()), ("compact", compact), ("projected", projected)):
            click.echo(f"{name}, {title}", err=True)
            machine = make_pipeline(StandardScaler(), machine).fit(X[100:], y[100:])
            explained, background = X[:N_TRAINED_ROWS], X[100 : 100 + N_BACKGROUND]
            result, seconds = _explained(3, machine, explained, background, random_state=0)
            _, peer = _by_shap(1, machine.decision_function, explained, background)
            last: Any = machine[-1]
            n_centers = len(last.support_) if title == "SVC" else last.n_centers_
            error = _share(result.error, result.values)
            table.add(
                f"{name}, {title}",
                X.shape[1],
                f"{n_centers:,}",
                f"{1000 * seconds / N_TRAINED_ROWS:.1f}",
                f"{error} ({result.error_kind})",
                f"{1000 * peer / N_TRAINED_ROWS:.0f}",
                f"{peer / seconds:.0f}",
            )
    return table


def _selection(n_splits: int) -> Table:
    table = Table(
        "test accuracy in % of an SVC (C=10, standardised) on the features that score highest, "
        f"chosen from the training rows: mean of {n_splits} random splits (3 : 1), ± its standard "
        "error",
        ["data", "features", "Shapley values", "F test", "mutual information", "random"],
    )
    for name, numbers in (("wine", (2, 4, 6)), ("breast cancer", (3, 5, 8)), ("digits", (8, 16))):
        X, y = SETS[name](return_X_y=True)
        scores: dict[int, list[list[float]]] = {number: [] for number in numbers}
        for split in range(n_splits):
            click.echo(f"selection, {name}, split {split}", err=True)
            parts = train_test_split(X, y, stratify=y, random_state=split)
            orders = _orders(parts[0], parts[2], split)
            for number in numbers:
                chosen = [order[:number] for order in orders]
                scores[number].append([_accuracy(parts, features) for features in chosen])
        for number in numbers:
            means = 100 * np.mean(scores[number], axis=0)
            errors = 100 * np.std(scores[number], axis=0) / np.sqrt(max(1, n_splits - 1))
            cells = [f"{m:.1f} ± {e:.1f}" for m, e in zip(means, errors, strict=True)]
            table.add(name, f"{number} of {X.shape[1]}", *cells)
    return table


def _orders(X: Any, y: Any, seed: int) -> list[Any]:
    """Features by Shapley importance, F test and mutual information, and at random."""
    random = np.random.RandomState(seed)
    rows = random.permutation(len(X))
    machine = make_pipeline(StandardScaler(), SVC(C=10)).fit(X, y)
    explanation = shapley_values(machine, X[rows[:200]], X[rows[-50:]], tol=1e-4)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # constant features
        scores = [
            explanation.importance().sum(axis=1),
            np.nan_to_num(f_classif(X, y)[0]),
            mutual_info_classif(X, y, random_state=seed),
        ]
    return [
        *(np.argsort(-score, kind="stable") for score in scores),
        random.permutation(X.shape[1]),
    ]


def _accuracy(parts: Any, features: Any) -> float:
    X, X_test, y, y_test = parts
    machine = make_pipeline(StandardScaler(), SVC(C=10)).fit(X[:, features], y)
    return float(machine.score(X_test[:, features], y_test))


BENCHMARKS = {"explain": explain, "explain-selection": selection}
