"""1-norm and minimal kernel regressors beside SVR and scikit-learn's QuantileRegressor."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import click
import numpy as np
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.linear_model import QuantileRegressor
from sklearn.metrics import mean_absolute_error, r2_score
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from benchmarks.tables import Table
from kernlet import L1KernelRegressor, MinimalKernelRegressor
from kernlet._typing import Floats
from kernlet.datasets import load
from kernlet.kernels.rbf import RBF
from papers.cache import timed

EPSILON = 0.1  # deviations of y, for all
COSTS = (0.1, 1.0, 10.0)
WIDTHS = (0.1, 0.3, 1.0)  # gamma is one of these divided by the number of features
FOLDS = KFold(3, shuffle=True, random_state=0)
MACHINES = {
    "SVR": SVR(epsilon=EPSILON),
    "L1KernelRegressor, 200 candidates": L1KernelRegressor(
        epsilon=EPSILON, candidates=200, random_state=0
    ),
    "MinimalKernelRegressor, 200 candidates": MinimalKernelRegressor(
        epsilon=EPSILON, candidates=200, random_state=0
    ),
}
QUANTILE, CANDIDATES, COST = 0.9, 100, 0.05
ROWS, ROWS_OF_THE_PEER = (1_000, 4_000, 40_000, 400_000), 4_000


class Split(NamedTuple):
    """Standardised rows and targets."""

    X: Floats
    y: Floats
    X_test: Floats
    y_test: Floats


def split(X: Any, y: Any, n_rows: int, n_test: int) -> Split:
    """Random rows to train on and to test on, scaled by the former."""
    order = np.random.RandomState(0).permutation(len(y))
    train, test = order[:n_rows], order[n_rows : n_rows + n_test]
    scaler, mean, scale = StandardScaler().fit(X[train]), y[train].mean(), y[train].std()
    targets = (y - mean) / scale
    return Split(
        scaler.transform(X[train]), targets[train], scaler.transform(X[test]), targets[test]
    )


def elevation() -> tuple[Any, Any]:
    """The elevation of covertype's rows, and their other nine measurements."""
    X = load("covertype").X[:, :10].astype(np.float64)
    return X[:, 1:], X[:, 0]


def sets() -> Iterator[tuple[str, Split]]:
    """What regressors are compared on."""
    yield "diabetes", split(*load_diabetes(return_X_y=True), 300, 142)
    friedman = make_friedman1(6000, n_features=10, noise=1.0, random_state=0)
    yield "friedman1", split(*friedman, 1000, 5000)
    yield "elevation of covertype", split(*elevation(), 1500, 20_000)


def against_svr(quick: bool) -> Iterator[Table]:
    """Test error and centers of the same grid of C and gamma."""
    for name, data in sets():
        n_rows, n_features = data.X.shape
        table = Table(
            f"{name}: {n_rows:,} training rows, {n_features} columns, epsilon {EPSILON} "
            f"deviations; C and gamma by 3-fold cross-validation; {len(data.y_test):,} test rows",
            ["machine", "R2", "mean absolute error", "centers", "fit, s", "largest gap"],
        )
        grid = {"C": COSTS, "gamma": [width / n_features for width in WIDTHS]}
        if quick:
            grid = {"C": COSTS[1:2], "gamma": grid["gamma"][:1]}
        for title, machine in MACHINES.items():
            click.echo(f"{name}: {title}", err=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of settings at the ends of the grid
                search = GridSearchCV(machine, grid, cv=FOLDS, refit=False).fit(data.X, data.y)
            best = machine.set_params(**search.best_params_)
            fitted, seconds = timed(best.fit, data.X, data.y)
            values = fitted.predict(data.X_test)
            is_ours = hasattr(fitted, "duality_gap_")
            table.add(
                title,
                f"{r2_score(data.y_test, values):.3f}",
                f"{mean_absolute_error(data.y_test, values):.3f}",
                f"{fitted.n_centers_ if is_ours else len(fitted.support_):,}",
                f"{seconds:.2f}",
                f"{fitted.duality_gap_.max():.0e}" if is_ours else "-",
            )
        yield table
        if quick:
            return


def against_quantile_regressor(quick: bool) -> Iterator[Table]:
    """The same linear program, by scikit-learn on kernel values and here."""
    X, y = elevation()
    table = Table(
        f"Quantile {QUANTILE} of the elevation, {CANDIDATES} candidates, C = {COST}: "
        "scikit-learn's QuantileRegressor(solver='highs') on the kernel values as columns",
        ["rows", "L1KernelRegressor, s", "gap", "rows below, %", "QuantileRegressor, s",
         "objective of ours over its"],
    )  # fmt: skip
    for n_rows in ROWS[:1] if quick else ROWS:
        data = split(X, y, n_rows, 1)
        points = data.X[:CANDIDATES]
        machine = L1KernelRegressor(
            COST, loss="pinball", quantile=QUANTILE, gamma=0.1, candidates=points, random_state=0
        )
        fitted, seconds = timed(machine.fit, data.X, data.y)
        below = 100 * np.mean(data.y < fitted.predict(data.X))
        cells = [f"{seconds:.2f}", f"{fitted.duality_gap_[0]:.0e}", f"{below:.2f}"]
        if n_rows > ROWS_OF_THE_PEER:
            table.add(f"{n_rows:,}", *cells, "not run", "-")
            continue
        K = RBF(0.1)(data.X, points)
        peer = QuantileRegressor(quantile=QUANTILE, alpha=1 / (COST * n_rows), solver="highs")
        peer, peer_seconds = timed(peer.fit, K, data.y)
        r = data.y - peer.predict(K)
        loss = np.where(r > 0, QUANTILE * r, (QUANTILE - 1) * r).sum()
        value = COST * loss + np.abs(peer.coef_).sum()
        table.add(
            f"{n_rows:,}",
            *cells,
            f"{peer_seconds:.2f}",
            f"1 {fitted.objective_[0] / value - 1:+.0e}",
        )
    yield table


def lp_regression(quick: bool) -> Iterator[Table]:
    """Both comparisons."""
    yield from against_svr(quick)
    yield from against_quantile_regressor(quick)


BENCHMARKS = {"lp-regression": lp_regression}
