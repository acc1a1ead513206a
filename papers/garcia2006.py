"""Table and evolution figures of Garcia et al. 2006.

D. Garcia, A. Gonzalez and J. R. Dorronsoro, Optimal support vector selection for kernel
perceptrons, Learning 2006. Support vectors are removed in rounds with a growing factor; here on
each of ten folds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Picture
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from kernlet.datasets import load
from kernlet.kernels.gram import Gram
from kernlet.kernels.rbf import RBF
from kernlet.squared.hull import Removal, accuracy_changed, removal_rounds
from kernlet.squared.mdm import find_nearest_point
from kernlet.squared.problem import SquaredMargin
from papers.cache import Experiment
from papers.tables import (
    NOT_YET,
    Figure,
    Measurement,
    NamedExperiments,
    PaperTable,
    Recipe,
    Results,
)

PAPER = "garcia2006"
GAMMA, C = 1 / 50, 10.0  # the paper's, for all data sets
REMOVAL = Removal(start=0.5, step=0.025, rounds=20)
UNSCALED = ("ionosphere",)  # the others are standardised, which fits the paper's counts better


# Experiments -------------------------------------------------------------------------------------


def signed_rows(name: str, n_rows: int | None = None) -> tuple[Any, Any]:
    """All rows of a data set, or a random subset, and signs; thyroid is normal or not."""
    data = load(name)
    X, y = np.asarray(data.X, dtype=float), data.y
    if data.X_test is not None and data.y_test is not None:
        X, y = np.vstack([X, data.X_test]), np.concatenate([y, data.y_test])
    positive = y == 3 if name == "thyroid" else y == np.unique(y)[1]
    signs = np.where(positive, 1.0, -1.0)
    if n_rows is None:
        return X, signs
    subset = np.random.RandomState(0).permutation(len(y))[:n_rows]
    return X[subset], signs[subset]


def scaled_fold(name: str, n_rows: int | None, fold: int) -> tuple[Any, Any, Any, Any]:
    """Training rows and signs, test rows and signs of one of ten folds."""
    X, signs = signed_rows(name, n_rows)
    splits = StratifiedKFold(10, shuffle=True, random_state=0).split(X, signs)
    train, test = list(splits)[fold]
    is_scaled = name not in UNSCALED
    scaler = StandardScaler(with_mean=is_scaled, with_std=is_scaled).fit(X[train])
    return scaler.transform(X[train]), signs[train], scaler.transform(X[test]), signs[test]


def _ten_thousand_sk_steps(problem: SquaredMargin, rows: Any, start: Any) -> Any:
    return find_nearest_point(problem, method="sk", tol=0.0, max_iter=10_000)


def _exact(problem: SquaredMargin, rows: Any, start: Any) -> Any:
    return find_nearest_point(problem, tol=1e-4, start=start)


SOLVERS: dict[str, Callable[[SquaredMargin, Any, Any], Any]] = {
    "sk": _ten_thousand_sk_steps,
    "exact": _exact,
}


def removal_path(name: str, n_rows: int | None, fold: int, solver: str) -> list[list[float]]:
    """Accuracy on removed rows, support vectors, test accuracy and gap of each round."""
    X, signs, X_test, signs_test = scaled_fold(name, n_rows, fold)
    problem = SquaredMargin(Gram(RBF(GAMMA), X, hold=True), signs, np.full(len(X), 2 * C))
    path = []
    for solution, record in removal_rounds(problem, np.ones(len(X)), REMOVAL, SOLVERS[solver]):
        rows = solution.rows
        coef = solution.alpha * signs[rows]
        values = Gram(RBF(GAMMA), X_test, X[rows]).dot(coef) + coef.sum()
        # Before the first round nothing was removed, and there is no accuracy on removed rows.
        validation = 0.0 if np.isnan(record.validation_accuracy) else record.validation_accuracy
        test = float((values * signs_test > 0).mean())
        path.append([validation, float(record.n_support), test, float(record.gap)])
    return path


# Tables ------------------------------------------------------------------------------------------

#: Patterns, and support vectors at the start and at the end, by data set.
REDUCTION = {
    "cleveland": (290, 164.9, 109.1),
    "breastw_699": (690, 117.1, 89.4),
    "ionosphere": (340, 134.8, 84.5),
    "sonar": (200, 136.1, 88.0),
    "pima": (760, 542.0, 416.0),
    "thyroid": (7190, 1121.5, 953.8),
}
#: By data set and factor (0 before any removal): validation and test accuracy, support vectors.
EVOLUTION: dict[str, dict[float, tuple[float | None, float, float]]] = {
    "cleveland": {
        0.0: (None, 0.793, 164.9),
        0.65: (0.991, 0.790, 116.2),
        0.675: (0.988, 0.786, 112.1),
        0.7: (0.980, 0.772, 109.1),
    },
    "breastw_699": {
        0.0: (None, 0.958, 117.1),
        0.925: (1.000, 0.959, 90.5),
        0.95: (1.000, 0.961, 89.8),
        0.975: (1.000, 0.961, 89.4),
    },
    "ionosphere": {
        0.0: (None, 0.918, 134.8),
        0.6: (0.999, 0.915, 87.6),
        0.625: (0.997, 0.915, 86.4),
        0.65: (0.992, 0.918, 84.5),
    },
    "pima": {
        0.0: (None, 0.775, 542.0),
        0.525: (0.998, 0.767, 448.8),
        0.55: (0.995, 0.764, 432.3),
        0.575: (0.991, 0.770, 416.0),
    },
}
_START_REASON = (
    "the scale of the columns is not stated, and other scales are further off; the exact solution "
    "has as many"
)
_COUNT_REASON = (
    "at equal factors fewer rows are removed than in the paper, which states neither the scale nor "
    "what N counts; with N as the remaining rows too many are removed"
)
_TEST_REASON = (
    "10,000 steps end far from the optimum here; solved exactly, the accuracy is that of the paper"
)
_NOTES = [
    "Ten folds; the paper's numbers of patterns are drawn from the data sets at random, as it "
    "prints multiples of ten (heartdis is cleveland without its incomplete rows). Its deviations "
    "are over folds too. The accuracy on removed rows is a stopping criterion and not judged."
]


def experiments(names: list[str], quick: bool) -> NamedExperiments:
    """Ten folds of each data set with both solvers."""
    return {
        f"{name} {solver}": [
            Experiment(
                removal_path,
                {"name": name, "n_rows": REDUCTION[name][0], "fold": fold, "solver": solver},
            )
            for fold in range(3 if quick else 10)
        ]
        for name in (names[:1] if quick else names)
        for solver in SOLVERS
    }


#: Columns of a removal path.
VALIDATION, SUPPORT, TEST = 0, 1, 2


class _Paths:
    """Removal paths of a data set: arrays of folds x rounds x columns, by solver."""

    def __init__(self, results: Results, name: str) -> None:
        self.name, self.seconds = name, results.seconds(f"{name} sk")
        self.sk, self.exact = (self._array(results.answers(f"{name} {s}")) for s in SOLVERS)

    @staticmethod
    def _array(paths: list[Any]) -> Any:
        n_rounds = min(map(len, paths))
        return np.array([path[:n_rounds] for path in paths])

    def measurement(
        self, sk_round: int, exact_round: int, column: int, reason: str = ""
    ) -> Measurement:
        """A column at a round; accuracies in percent."""
        unit = 1 if column == SUPPORT else 100
        exact = unit * self.exact[:, exact_round, column]
        scale = "unscaled columns" if self.name in UNSCALED else "columns standardised"
        n_rows = REDUCTION[self.name][0]
        return Measurement(
            (unit * self.sk[:, sk_round, column]).tolist(),
            None,
            self.seconds,
            f"C=10, sigma^2=50, {n_rows:,} rows, {scale}, 10,000 steps per training",
            "C, width, steps and factors are the paper's; the scale is the one that fits its "
            "counts",
            f"trained to a gap of 1e-4 {exact.mean():.1f} ± {exact.std(ddof=1):.1f}",
            reason,
        )


def last_round(path: Any) -> int:
    """Where the paper's rule stops: accuracy on removed rows and its deviation over folds."""
    mean, deviation = path[:, :, VALIDATION].mean(axis=0), path[:, :, VALIDATION].std(axis=0)
    rounds = (
        k for k in range(2, len(mean)) if accuracy_changed(mean[1 : k + 1], deviation[1 : k + 1])
    )
    return next(rounds, len(mean) - 1)


def _factor(k: int) -> float:
    return REMOVAL.factor(k - 1) if k else 0.0


def _round_of(factor: float) -> int:
    return 0 if factor == 0 else round((factor - REMOVAL.start) / REMOVAL.step) + 1


def build_reduction(results: Results, quick: bool) -> PaperTable:
    """Support vectors at the start and where the rule stops."""
    figures = []
    for name, (_, first, last) in REDUCTION.items():
        if not results.have(f"{name} sk", f"{name} exact"):
            continue
        paths = _Paths(results, name)
        end, exact_end = last_round(paths.sk), last_round(paths.exact)
        start = paths.measurement(0, 0, SUPPORT, _START_REASON)
        stop = paths.measurement(end, exact_end, SUPPORT, _COUNT_REASON)
        shares = (100 * paths.sk[:, end, SUPPORT] / paths.sk[:, 0, SUPPORT]).tolist()
        paper_factor = max(EVOLUTION[name]) if name in EVOLUTION else None
        figures += [
            Figure(name, "support vectors at the start", "size", first, start, "smaller"),
            Figure(name, "support vectors at the end", "size", last, stop, "smaller"),
            Figure(name, "share kept, %", "other", 100 * last / first, Measurement(shares)),
            Figure(name, "last factor", "other", paper_factor, Measurement([_factor(end)])),
        ]
    title = "Support vectors before and after removal"
    return PaperTable(PAPER, "reduction", title, figures, _NOTES)


def build_evolution(name: str, results: Results, quick: bool) -> PaperTable:
    """The last rounds of a data set before the paper's stop, and a picture of all of ours."""
    title = f"Evolution of {name}"
    if not results.have(f"{name} sk", f"{name} exact"):
        missing = Figure(name, "support vectors", "size", None, NOT_YET)
        return PaperTable(PAPER, name, title, [missing], _NOTES)
    paths = _Paths(results, name)
    figures = []
    for factor, (validation, test, support) in EVOLUTION[name].items():
        k = min(_round_of(factor), paths.sk.shape[1] - 1)
        rounds = k, min(k, paths.exact.shape[1] - 1)
        row = f"factor {factor:g}" if factor else "before removal"
        if validation is not None:
            ours = paths.measurement(*rounds, VALIDATION)
            figures.append(
                Figure(row, "accuracy on removed rows, %", "other", 100 * validation, ours)
            )
        ours = paths.measurement(*rounds, TEST, _TEST_REASON)
        figures.append(Figure(row, "test accuracy, %", "accuracy", 100 * test, ours))
        reason = _COUNT_REASON if factor else _START_REASON
        ours = paths.measurement(*rounds, SUPPORT, reason)
        figures.append(Figure(row, "support vectors", "size", support, ours, "smaller"))
    pictures = {f"{PAPER}-{name}.png": draw_evolution(name, paths.sk)}
    return PaperTable(PAPER, name, title, figures, _NOTES, pictures)


def draw_evolution(name: str, path: Any) -> Picture:
    """Accuracy on removed rows and on test rows, and support vectors, round by round."""
    factors = [_factor(k) for k in range(path.shape[1])][1:]
    mean, deviation = path.mean(axis=0)[1:], path.std(axis=0)[1:]
    figure = Picture(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.add_subplot()
    lines = (VALIDATION, "#2b6cb0", "removed rows"), (TEST, "#dd6b20", "test rows")
    for column, color, label in lines:
        axes.errorbar(
            factors, mean[:, column], deviation[:, column], color=color, label=label, capsize=2
        )
    axes.axvline(_factor(last_round(path)), color="#1a202c", linestyle=":", label="stop")
    counts = axes.twinx()
    counts.plot(factors, mean[:, SUPPORT], ".-", color="#718096", markersize=3)
    counts.set_ylabel("support vectors (grey)")
    axes.set(xlabel="factor", ylabel="accuracy", title=f"{name}: removal round by round")
    axes.legend(loc="lower left")
    return figure


TABLES: dict[str, Recipe] = {
    "reduction": Recipe(partial(experiments, list(REDUCTION)), build_reduction),
    **{
        name: Recipe(partial(experiments, [name]), partial(build_evolution, name))
        for name in EVOLUTION
    },
}
