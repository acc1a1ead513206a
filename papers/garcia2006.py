"""Garcia, Gonzalez and Dorronsoro (Learning 2006): support vectors of kernel perceptrons."""

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
from kernlet.squared.hull import Schedule, removal_rounds, stops
from kernlet.squared.mdm import find_nearest_point
from kernlet.squared.problem import Hull
from papers.cache import Experiment
from papers.tables import NOT_YET, Figure, NamedExperiments, Ours, Recipe, Results, Table

GAMMA, C = 1 / 50, 10.0  # the paper's, for all sets
SCHEDULE = Schedule(0.5, 0.025, 20)
UNSCALED = ("ionosphere",)  # the others are standardised, as fits the paper's counts


def rows_of(name: str, n_rows: int | None = None) -> tuple[Any, Any]:
    """Rows of a set (all, or so many drawn at random), and signs; thyroid is normal or not."""
    data = load(name)
    X, y = np.asarray(data.X, dtype=float), data.y
    if data.X_test is not None and data.y_test is not None:
        X, y = np.vstack([X, data.X_test]), np.concatenate([y, data.y_test])
    y = y == 3 if name == "thyroid" else y == np.unique(y)[1]
    some = np.random.RandomState(0).permutation(len(y))[: n_rows or len(y)]
    some = some if n_rows else np.arange(len(y))
    return X[some], np.where(y[some], 1.0, -1.0)


def fold_of(name: str, n_rows: int | None, fold: int) -> tuple[Any, Any, Any, Any]:
    """Training rows and signs, test rows and signs of one of ten folds, scaled."""
    X, signs = rows_of(name, n_rows)
    splits = StratifiedKFold(10, shuffle=True, random_state=0).split(X, signs)
    train, test = list(splits)[fold]
    is_scaled = name not in UNSCALED
    scaler = StandardScaler(with_mean=is_scaled, with_std=is_scaled).fit(X[train])
    return scaler.transform(X[train]), signs[train], scaler.transform(X[test]), signs[test]


def _ten_thousand_sk_steps(hull: Hull, rows: Any, start: Any) -> Any:
    return find_nearest_point(hull, method="sk", tol=0.0, max_iter=10_000)


def _exactly(hull: Hull, rows: Any, start: Any) -> Any:
    return find_nearest_point(hull, tol=1e-4, start=start)


SOLVERS: dict[str, Callable[[Hull, Any, Any], Any]] = {
    "sk": _ten_thousand_sk_steps,
    "exact": _exactly,
}


def removal_path(name: str, n_rows: int | None, fold: int, solver: str) -> list[list[float]]:
    """Validation accuracy, support vectors, test accuracy and gap of all rounds.

    Parameters
    ----------
    name : str
    n_rows : int or None
        The paper's number of patterns, drawn at random.
    fold : int
    solver : {"sk", "exact"}
        10,000 steps of Schlesinger and Kozinec, or a gap of 1e-4.

    Returns
    -------
    rounds : list of lists
    """
    X, signs, X_test, signs_test = fold_of(name, n_rows, fold)
    hull = Hull(Gram(RBF(GAMMA), X, hold=True), signs, np.full(len(X), C))
    path = []
    for trained in removal_rounds(hull, np.ones(len(X)), SCHEDULE, SOLVERS[solver]):
        rows = trained.rows[trained.solution.rows]
        coef = trained.solution.alpha * signs[rows]
        values = Gram(RBF(GAMMA), X_test, X[rows]).dot(coef) + coef.sum()
        record = trained.record
        validation = 0.0 if np.isnan(record.validation_accuracy) else record.validation_accuracy
        right = float((values * signs_test > 0).mean())
        path.append([validation, float(record.n_support), right, float(record.gap)])
    return path


CITATION = (
    "D. Garcia, A. Gonzalez and J. R. Dorronsoro, Optimal support vector selection for kernel "
    "perceptrons, Learning 2006"
)
#: Patterns, and support vectors at the start and at the end, by set.
REDUCTION = {
    "cleveland": (290, 164.9, 109.1),
    "breastw_699": (690, 117.1, 89.4),
    "ionosphere": (340, 134.8, 84.5),
    "sonar": (200, 136.1, 88.0),
    "pima": (760, 542.0, 416.0),
    "thyroid": (7190, 1121.5, 953.8),
}
#: By set and factor (0 before any removal): validation and test accuracy, support vectors.
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
_WHY_START = (
    "the scale of the columns is not stated, and other scales are further off; the exact solution "
    "has as many"
)
_WHY_COUNT = (
    "at equal factors fewer rows leave than in the paper, which states neither scale nor what N "
    "counts; N as the rows left removes too many instead"
)
_WHY_TEST = (
    "10,000 steps leave the machine far from its optimum here; solved exactly it is at the "
    "paper's accuracy"
)


def experiments(names: list[str], quick: bool) -> NamedExperiments:
    """The measurements: ten folds of each set."""
    return {
        f"{name} {solver}": [
            Experiment(
                removal_path,
                {"name": name, "n_rows": REDUCTION[name][0], "fold": fold, "solver": solver},
            )
            for fold in range(3 if quick else 10)
        ]
        for name in (names[:1] if quick else names)
        for solver in ("sk", "exact")
    }


def _rounds(results: Results, name: str, solver: str) -> Any:
    """Fold, round and figure (validation, support vectors, test accuracy, gap)."""
    paths = results.answers(f"{name} {solver}")
    n_rounds = min(map(len, paths))
    return np.array([path[:n_rounds] for path in paths])


def last_round(rounds: Any) -> int:
    """Where the paper's rule stops: accuracy on removed rows and its deviation over folds."""
    mean, deviation = rounds[:, :, 0].mean(axis=0), rounds[:, :, 0].std(axis=0)
    seen = (k for k in range(2, len(mean)) if stops(mean[1 : k + 1], deviation[1 : k + 1]))
    return next(seen, len(mean) - 1)


def _ours(
    results: Results, name: str, rounds: tuple[Any, Any], k: tuple[int, int], column: int, why: str
) -> Ours:
    (sk, exact), (at, exact_at) = rounds, k
    scaled = 1 if column == 1 else 100
    other = scaled * exact[:, exact_at, column]
    scale = "columns as they come" if name in UNSCALED else "columns standardised"
    return Ours(
        (scaled * sk[:, at, column]).tolist(),
        None,
        results.seconds(f"{name} sk"),
        f"C=10, sigma^2=50, {REDUCTION[name][0]:,} rows, {scale}, 10,000 steps a training",
        "C, width, steps and factors are the paper's; the scale is the one that fits its counts",
        f"trained to a gap of 1e-4 {other.mean():.1f} ± {other.std(ddof=1):.1f}",
        why,
    )


def build_reduction(results: Results, quick: bool) -> Table:
    """Support vectors at the start and where the rule stops."""
    figures = []
    for name, (_, first, last) in REDUCTION.items():
        if not results.have(f"{name} sk", f"{name} exact"):
            continue
        rounds = _rounds(results, name, "sk"), _rounds(results, name, "exact")
        end = last_round(rounds[0]), last_round(rounds[1])
        start = _ours(results, name, rounds, (0, 0), 1, _WHY_START)
        stop = _ours(results, name, rounds, end, 1, _WHY_COUNT)
        figures += [
            Figure(name, "support vectors at the start", "size", first, start, False),
            Figure(name, "support vectors at the end", "size", last, stop, False),
            Figure(name, "share kept, %", "other", 100 * last / first, _share(rounds[0], end[0])),
            Figure(name, "last factor", "other", _last_factor(name), Ours([_factor(end[0])])),
        ]
    return Table(
        "garcia2006", "reduction", "Support vectors before and after removal", figures, _NOTES
    )


def _share(rounds: Any, end: int) -> Ours:
    return Ours((100 * rounds[:, end, 1] / rounds[:, 0, 1]).tolist())


def _last_factor(name: str) -> float | None:
    return max(EVOLUTION[name]) if name in EVOLUTION else None


def _factor(k: int) -> float:
    return SCHEDULE.factor(k - 1) if k else 0.0


def _round_of(factor: float) -> int:
    return 0 if factor == 0 else round((factor - SCHEDULE.start) / SCHEDULE.step) + 1


def build_evolution(name: str, results: Results, quick: bool) -> Table:
    """The last rounds of a set before the paper's stop, and a picture of all of ours."""
    if not results.have(f"{name} sk", f"{name} exact"):
        missing = Figure(name, "support vectors", "size", None, NOT_YET)
        return Table("garcia2006", name, f"Evolution of {name}", [missing], _NOTES)
    rounds = _rounds(results, name, "sk"), _rounds(results, name, "exact")
    figures = []
    for factor, (validation, test, support) in EVOLUTION[name].items():
        k = min(_round_of(factor), rounds[0].shape[1] - 1)
        at = k, min(k, rounds[1].shape[1] - 1)
        row = f"factor {factor:g}" if factor else "before removal"
        why = _WHY_COUNT if factor else _WHY_START
        if validation is not None:
            ours = _ours(results, name, rounds, at, 0, "")
            figures.append(
                Figure(row, "accuracy on removed rows, %", "other", 100 * validation, ours)
            )
        tested = _ours(results, name, rounds, at, 2, _WHY_TEST)
        counted = _ours(results, name, rounds, at, 1, why)
        figures.append(Figure(row, "test accuracy, %", "accuracy", 100 * test, tested))
        figures.append(Figure(row, "support vectors", "size", support, counted, False))
    pictures = {f"garcia2006-{name}.png": draw_evolution(name, rounds[0])}
    return Table("garcia2006", name, f"Evolution of {name}", figures, _NOTES, pictures)


def draw_evolution(name: str, rounds: Any) -> Picture:
    """Accuracy on removed rows and on test rows, and support vectors, round by round."""
    factors = [_factor(k) for k in range(rounds.shape[1])][1:]
    mean, deviation = rounds.mean(axis=0)[1:], rounds.std(axis=0)[1:]
    figure = Picture(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.add_subplot()
    for column, color, label in ((0, "#2b6cb0", "removed rows"), (2, "#dd6b20", "test rows")):
        axes.errorbar(
            factors, mean[:, column], deviation[:, column], color=color, label=label, capsize=2
        )
    axes.axvline(_factor(last_round(rounds)), color="#1a202c", linestyle=":", label="stop")
    other = axes.twinx()
    other.plot(factors, mean[:, 1], ".-", color="#718096", markersize=3)
    other.set_ylabel("support vectors (grey)")
    axes.set(xlabel="factor", ylabel="accuracy", title=f"{name}: removal round by round")
    axes.legend(loc="lower left")
    return figure


_NOTES = [
    "Ten folds; the paper's numbers of patterns are drawn from the sets at random, as it prints "
    "multiples of ten (heartdis is cleveland without its incomplete rows). Its deviations are "
    "across folds too. The accuracy on removed rows is a means of stopping and not judged."
]

TABLES: dict[str, Recipe] = {
    "reduction": Recipe(partial(experiments, list(REDUCTION)), build_reduction),
    **{
        name: Recipe(partial(experiments, [name]), partial(build_evolution, name))
        for name in EVOLUTION
    },
}
