"""Regressors of scikit-learn and kernlet at equal bytes, and the former without a limit.

Peers predict with unrounded numbers but pay for rounded ones: a byte per number of a stored row,
per coefficient, weight and leaf, three bytes per inner node. kernlet's machines predict with what
they store, and all of it counts.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple

import click
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import KFold, ShuffleSplit, train_test_split
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from benchmarks.competitors.contract import Shape, grid
from benchmarks.competitors.expansions import pack, room_for, rounded_rows
from benchmarks.frontier import data as frontier
from benchmarks.frontier.data import Split
from benchmarks.tables import Table
from kernlet import CompactKernelRegressor, compress
from kernlet.compression.refit import match
from kernlet.datasets import load
from kernlet.kernels.rbf import RBF
from papers.cache import timed

BUDGETS = (512, 2048)
MOST_ROWS, TEST_ROWS = 2000, 5000
SMALL_ROWS = 500  # up to which settings are scored by three folds, else on a held-out quarter
N_SETTINGS = 8  # per peer, set, budget and seed
VERDICTS = ("ahead", "tied", "behind")


# -- Sets ----------------------------------------------------------------------------------------


class Column(NamedTuple):
    """A column of a data set to be predicted from other columns."""

    name: str
    target: int
    features: tuple[int, ...]


def _others(n_columns: int, target: int) -> tuple[int, ...]:
    return tuple(column for column in range(n_columns) if column != target)


#: The columns of satimage are four bands of nine pixels, 16 to 19 those of the central one.
COLUMNS = {
    "age (cleveland)": Column("cleveland", 0, _others(13, 0)),
    "elevation (covertype)": Column("covertype", 0, _others(10, 0)),
    "T3 (thyroid)": Column("thyroid", 17, _others(21, 17)),
    "fourth band (satimage)": Column("satimage", 19, tuple(i for i in range(36) if i % 4 < 3)),
    "last x (pendigits)": Column("pendigits", 14, _others(16, 14)),
    "a pixel (optdigits)": Column("optdigits", 36, _others(64, 36)),
}
SETS = ("diabetes", "friedman1", "friedman2", "friedman3", *COLUMNS)


def kind_of_test(name: str) -> str:
    """As in the frontier: ``"official"``, ``"splits"``, ``"samples"`` or ``"draws"``."""
    return frontier.kind_of_test(COLUMNS[name].name if name in COLUMNS else name)


def n_seeds(name: str) -> int:
    """Seeds of the rows and of the machines: more for sets with few rows."""
    return 5 if kind_of_test(name) == "splits" else 3


def split(name: str, seed: int) -> Split:
    """Standardised rows and targets."""
    if name not in COLUMNS:
        return frontier.split(name, seed)
    column, kind = COLUMNS[name], kind_of_test(name)
    data = load(column.name)
    order = np.random.RandomState(seed).permutation(len(data.X))
    if kind == "official":
        rows, test = data.X[order[:MOST_ROWS]], data.X_test
    elif kind == "samples":
        rows, test = data.X[order[:MOST_ROWS]], data.X[order[MOST_ROWS:][:TEST_ROWS]]
    else:
        rows, test = train_test_split(data.X, test_size=0.3, random_state=seed)
    scaler = StandardScaler().fit(rows.astype(float))
    rows, test = (scaler.transform(of.astype(float)).astype(np.float32) for of in (rows, test))
    X, X_test = (of[:, list(column.features)] for of in (rows, test))
    return Split(X, rows[:, column.target], X_test, test[:, column.target])


# -- Peers ---------------------------------------------------------------------------------------


class Fitted(NamedTuple):
    """A trained machine: its predictions, and its bytes by the rule of its kind."""

    predict: Callable[[Any], Any]
    nbytes: int


@dataclass(frozen=True)
class Peer:
    """``build(setting, X, y, seed, max_bytes)``; ``max_bytes`` is None without a limit.

    Settings within a limit may differ from those without; there are ``N_SETTINGS`` of each.
    """

    build: Callable[..., Fitted]
    limited: list[dict[str, Any]]
    unlimited: list[dict[str, Any]]


def _row_bytes(n_rows: int, n_features: int) -> int:
    """Rows with a coefficient each; gamma and the intercept in float32."""
    return n_rows * (n_features + 1) + 8


def _most_rows(n_features: int, max_bytes: int | None, n_rows: int) -> int:
    if max_bytes is None:
        return n_rows
    return min(n_rows, (max_bytes - 8) // (n_features + 1))


def build_svr(setting: dict[str, Any], X: Any, y: Any, seed: int, max_bytes: int | None) -> Fitted:
    """An SVR of as many random rows as have support vectors that fit, by bisection."""
    n_features = X.shape[1]
    room = _most_rows(n_features, max_bytes, len(X))
    order = np.random.RandomState(seed).permutation(len(X))
    options = {**setting, "gamma": setting["gamma"] / n_features}

    def on_rows(n_rows: int) -> SVR:
        return SVR(**options).fit(X[order[:n_rows]], y[order[:n_rows]])

    fewest, most, svr = room, len(X), on_rows(room)
    while fewest < most:
        n_rows = min(2 * fewest, (fewest + most + 1) // 2)
        more = on_rows(n_rows)
        if len(more.support_) <= room:
            fewest, svr = n_rows, more
        else:
            most = n_rows - 1
    return Fitted(svr.predict, _row_bytes(len(svr.support_), n_features))


def build_ridge(
    setting: dict[str, Any], X: Any, y: Any, seed: int, max_bytes: int | None
) -> Fitted:
    """KernelRidge of as many random rows as fit."""
    n_features = X.shape[1]
    room = _most_rows(n_features, max_bytes, len(X))
    rows = np.random.RandomState(seed).permutation(len(X))[:room]
    options = {**setting, "gamma": setting["gamma"] / n_features}
    ridge = KernelRidge(kernel="rbf", **options).fit(X[rows].astype(float), y[rows])
    return Fitted(ridge.predict, _row_bytes(room, n_features))


def build_boosting(
    setting: dict[str, Any], X: Any, y: Any, seed: int, max_bytes: int | None
) -> Fitted:
    """Boosting with as many rounds as fit: three bytes per inner node, one per leaf."""
    rounds = setting.get("max_iter", 0)
    if max_bytes is not None:
        rounds = (max_bytes - 4) // (4 * setting["max_leaf_nodes"] - 3)
    machine = HistGradientBoostingRegressor(
        **{**setting, "max_iter": rounds},
        min_samples_leaf=int(np.clip(len(X) // 40, 2, 20)),
        early_stopping=False,
        random_state=seed,
    ).fit(X, y)
    leaves = [int(tree.nodes["is_leaf"].sum()) for trees in machine._predictors for tree in trees]
    return Fitted(machine.predict, sum(4 * n - 3 for n in leaves) + 4)


def build_mlp(setting: dict[str, Any], X: Any, y: Any, seed: int, max_bytes: int | None) -> Fitted:
    """One hidden layer with as many units as fit, a byte per weight and bias; or 100 units."""
    n_features = X.shape[1]
    n_hidden = 100 if max_bytes is None else (max_bytes - 1) // (n_features + 2)
    machine = MLPRegressor(
        hidden_layer_sizes=(n_hidden,), **setting, max_iter=300, random_state=seed
    ).fit(X, y)
    return Fitted(machine.predict, n_hidden * (n_features + 2) + 1)


_GAMMAS = (0.03, 0.1, 0.3, 1.0)  # divided by the number of features
_RIDGES = grid(gamma=_GAMMAS, alpha=(0.05, 0.5))
_ACTIVATIONS = ("relu", "tanh")
_NETWORKS = [
    *grid(activation=_ACTIVATIONS, learning_rate_init=(0.001, 0.01)),
    *grid(activation=_ACTIVATIONS, solver=("lbfgs",), alpha=(0.1, 10.0)),
]
PEERS = {
    "SVR": Peer(
        build_svr,
        grid(gamma=_GAMMAS, epsilon=(0.1, 0.5), C=(10.0,)),
        grid(gamma=_GAMMAS, C=(1.0, 10.0), epsilon=(0.1,)),
    ),
    "KernelRidge": Peer(build_ridge, _RIDGES, _RIDGES),
    "HistGradientBoosting": Peer(
        build_boosting,
        grid(max_leaf_nodes=(2, 4, 8, 16), learning_rate=(0.1, 0.3)),
        grid(max_leaf_nodes=(4, 8, 16, 31), learning_rate=(0.05, 0.1), max_iter=(150,)),
    ),
    "MLP": Peer(build_mlp, _NETWORKS, _NETWORKS),
}


class Tuned(NamedTuple):
    """The machine of the setting with the least held-out error."""

    machine: Fitted
    setting: dict[str, Any]
    error: float


def tuned(peer: Peer, data: Split, seed: int, max_bytes: int | None, quick: bool) -> Tuned:
    """Choose a setting on held-out training rows, then train on all of them."""
    settings = peer.unlimited if max_bytes is None else peer.limited
    if len(data.X) <= SMALL_ROWS:
        folds: Any = KFold(3, shuffle=True, random_state=seed)
    else:
        folds = ShuffleSplit(1, test_size=0.25, random_state=seed)
    errors = []
    for setting in settings[::4] if quick else settings:
        squares = []
        for train, held_out in folds.split(data.X):
            machine = peer.build(setting, data.X[train], data.y[train], seed, max_bytes)
            squares.append((machine.predict(data.X[held_out]) - data.y[held_out]) ** 2)
        errors.append((float(np.mean(np.concatenate(squares))), len(errors), setting))
    error, _, setting = min(errors)
    return Tuned(peer.build(setting, data.X, data.y, seed, max_bytes), setting, error)


# -- kernlet -------------------------------------------------------------------------------------


def compact(data: Split, seed: int, max_bytes: int) -> Fitted:
    """The public call with its defaults."""
    machine = CompactKernelRegressor(max_bytes=max_bytes, random_state=seed).fit(data.X, data.y)
    return Fitted(machine.predict, machine.nbytes_)


def compressed(data: Split, seed: int, max_bytes: int, setting: dict[str, Any]) -> Fitted:
    """The SVR without a limit, compressed, in centers of int8 and coefficients of float16.

    Coefficients are fitted to y at the rounded centers.
    """
    n_features = data.X.shape[1]
    gamma = setting["gamma"] / n_features
    svr = SVR(**{**setting, "gamma": gamma}).fit(data.X, data.y)
    shape = Shape(len(data.X), n_features, 0)
    room = room_for(shape, max_bytes, "int8", "float16", len(svr.support_))
    small = compress(svr, room, random_state=seed)
    rounded, step = rounded_rows(small.expansion_.centers, "int8")
    ridge = 1 / (2 * setting["C"] * len(data.X))
    expansion = match(RBF(gamma), rounded, data.X, data.y[:, None].astype(float), ridge=ridge)
    machine = pack(expansion, "int8", "float16", step).expansion
    return Fitted(lambda X: machine.decision_values(X)[:, 0], machine.nbytes)


# -- Records -------------------------------------------------------------------------------------


@dataclass
class Record:
    """A method on a set, seed by seed.

    ``losses`` are the squared errors of the test rows divided by their mean squared deviation: R2
    is one minus their mean.
    """

    losses: list[Any] = field(default_factory=list)
    nbytes: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    validated: list[float] = field(default_factory=list)

    def add(self, data: Split, machine: Fitted, seconds: float) -> None:
        """Test a machine."""
        y = data.y_test.astype(float)
        self.losses.append((y - machine.predict(data.X_test)) ** 2 / np.mean((y - y.mean()) ** 2))
        self.nbytes.append(machine.nbytes)
        self.seconds.append(seconds)

    @property
    def scores(self) -> list[float]:
        """R2 by seed."""
        return [1 - float(np.mean(of)) for of in self.losses]


class Key(NamedTuple):
    """A set, a method and its bytes, None without a limit."""

    name: str
    method: str
    max_bytes: int | None


COMPACT, COMPRESSED = "CompactKernelRegressor", "compressed SVR"
BEST = "the best of these four, by validation"
Records = dict[Key, Record]


def measure(name: str, quick: bool) -> Records:
    """All methods on a set.

    A peer may be smaller than its limit: at each number of bytes the machine with the least
    held-out error is taken, of all that were tuned before and fit.
    """
    records: Records = {}
    for seed in range(1 if quick else n_seeds(name)):
        click.echo(f"{name}: seed {seed}", err=True)
        data = split(name, seed)
        tried: dict[str, list[Tuned]] = {title: [] for title in PEERS}
        for max_bytes in (None, *BUDGETS):
            for title, peer in PEERS.items():
                choice, seconds = timed(tuned, peer, data, seed, max_bytes, quick)
                tried[title].append(choice)
                limit = max_bytes or np.inf
                fitting = [of for of in tried[title] if of.machine.nbytes <= limit]
                best = min(fitting, key=lambda of: of.error)
                record = records.setdefault(Key(name, title, max_bytes), Record())
                record.add(data, best.machine, seconds)
                record.validated.append(best.error)
            setting = tried["SVR"][0].setting
            if max_bytes is not None:
                for title, build, options in (
                    (COMPACT, compact, ()),
                    (COMPRESSED, compressed, (setting,)),
                ):
                    machine, seconds = timed(build, data, seed, max_bytes, *options)
                    record = records.setdefault(Key(name, title, max_bytes), Record())
                    record.add(data, machine, seconds)
                    if machine.nbytes > max_bytes:
                        raise ValueError(f"{title} takes {machine.nbytes} of {max_bytes} bytes.")
    return records


def compare(ours: Record, theirs: Record, kind: str) -> tuple[float, float]:
    """The difference in R2 and its standard error.

    Random splits of one set share rows: the variance of the differences by seed counts
    1 / n + n_test / n_train = 1 / n + 3 / 7 times (Nadeau and Bengio, 2003). Else the variance is
    that of the seeds plus that of the test rows, which seeds share in an official test set.
    """
    rows = [b - a for a, b in zip(ours.losses, theirs.losses, strict=True)]
    by_seed = np.array([of.mean() for of in rows])
    n = len(by_seed)
    of_seeds = float(np.var(by_seed, ddof=1)) if n > 1 else 0.0
    if kind == "splits":
        square = of_seeds * (1 / n + 3 / 7)
    else:
        each = np.mean(rows, axis=0) if kind == "official" else np.concatenate(rows)
        square = of_seeds / n + float(np.var(each, ddof=1)) / len(each)
    return float(by_seed.mean()), float(np.sqrt(square))


def verdict(difference: float, error: float) -> str:
    """Tied within one standard error."""
    if abs(difference) <= error:
        return "tied"
    return "ahead" if difference > 0 else "behind"


# -- Tables --------------------------------------------------------------------------------------


def regression(quick: bool) -> Iterator[Table]:
    """R2 within bytes and without a limit, verdicts, and where the call is behind."""
    names = SETS[:1] if quick else SETS
    records: Records = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of networks that would train for longer
        for name in names:
            records |= measure(name, quick)
    yield _sets_table(names)
    for max_bytes in BUDGETS:
        methods = [COMPACT, COMPRESSED, *PEERS]
        title = f"Test R2 within {max_bytes:,} bytes: mean and standard deviation over the seeds"
        yield _scores_table(title, records, names, methods, max_bytes)
    title = "Test R2 of the peers without a limit"
    yield _scores_table(title, records, names, list(PEERS), None)
    yield _costs_table(records, names)
    verdicts, losses = _verdict_tables(records, names)
    yield verdicts
    yield losses


def _sets_table(names: tuple[str, ...]) -> Table:
    made = {
        "official": "a column of real data; official test part",
        "splits": "a column of real data; random splits",
        "samples": "a column of real data; random samples",
        "draws": "generated by scikit-learn's make_..., noise a third of the deviation",
    }
    table = Table(
        "Regression sets; with a data set in brackets: a column of it, predicted from others",
        ["set", "training rows", "columns", "test rows", "seeds", "rows"],
    )
    for name in names:
        data, kind = split(name, 0), kind_of_test(name)
        source = "installed with scikit-learn; random splits" if name == "diabetes" else made[kind]
        sizes = (f"{n:,}" for n in (*data.X.shape, len(data.y_test)))
        table.add(name, *sizes, n_seeds(name), source)
    return table


def _scores_table(
    title: str, records: Records, names: tuple[str, ...], methods: list[str], max_bytes: int | None
) -> Table:
    table = Table(title, ["set", *methods])
    for name in names:
        scores = (records[Key(name, method, max_bytes)].scores for method in methods)
        table.add(name, *map(_mean_and_deviation, scores))
    return table


def _mean_and_deviation(scores: list[float]) -> str:
    spread = f" ± {np.std(scores, ddof=1):.3f}" if len(scores) > 1 else ""
    return f"{np.mean(scores):.3f}{spread}"


def _costs_table(records: Records, names: tuple[str, ...]) -> Table:
    table = Table(
        f"Bytes (range) and CPU seconds (median) over sets and seeds: of peers with the choice "
        f"among {N_SETTINGS} settings, of the {COMPRESSED} without the choice of the SVR",
        ["method", "limit", "bytes", "CPU s"],
    )
    for _, method, max_bytes in [key for key in records if key.name == names[0]]:
        of_method = [records[Key(name, method, max_bytes)] for name in names]
        sizes = [n for record in of_method for n in record.nbytes]
        table.add(
            method,
            f"{max_bytes:,}" if max_bytes else "none",
            f"{min(sizes):,} to {max(sizes):,}",
            f"{median(s for record in of_method for s in record.seconds):.2f}",
        )
    return table


def _best_peer(records: Records, name: str, max_bytes: int | None) -> Record:
    """The peer with the least error on held-out training rows; never by test rows."""
    peers = [records[Key(name, title, max_bytes)] for title in PEERS]
    return min(peers, key=lambda record: float(np.mean(record.validated)))


def _verdict_tables(records: Records, names: tuple[str, ...]) -> tuple[Table, Table]:
    verdicts = Table(
        f"{COMPACT}(max_bytes=...) beside each peer, sets; tied is within one standard error of "
        "the difference in R2",
        ["bytes", "peer", *VERDICTS, "mean difference"],
    )
    losses = Table(
        "Where it is behind a peer",
        ["bytes", "peer", "set", "difference in R2", "standard error"],
    )
    for max_bytes in BUDGETS:
        for limit, titles in ((max_bytes, [*PEERS, BEST, COMPRESSED]), (None, [*PEERS, BEST])):
            for title in titles:
                label = title if limit else f"{title}, no limit"
                counts: Counter[str] = Counter()
                differences = []
                for name in names:
                    ours = records[Key(name, COMPACT, max_bytes)]
                    theirs = (
                        _best_peer(records, name, limit)
                        if title == BEST
                        else records[Key(name, title, limit)]
                    )
                    difference, error = compare(ours, theirs, kind_of_test(name))
                    result = verdict(difference, error)
                    counts[result] += 1
                    differences.append(difference)
                    if result == "behind" and title != BEST:
                        cells = f"{difference:+.3f}", f"{error:.3f}"
                        losses.add(f"{max_bytes:,}", label, name, *cells)
                cells = (counts[of] for of in VERDICTS)
                verdicts.add(f"{max_bytes:,}", label, *cells, f"{np.mean(differences):+.3f}")
    return verdicts, losses


BENCHMARKS = {"regression": regression}
