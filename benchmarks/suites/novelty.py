"""Detection of novelties: one class of a data set is left out, and has to be noticed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import click
import numpy as np
from sklearn.covariance import EllipticEnvelope
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import SGDOneClassSVM
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.svm import OneClassSVM

from benchmarks.frontier.data import raw_split
from benchmarks.tables import Table
from kernlet import CompactNoveltyDetector, CoreVectorNovelty
from kernlet.affine import ColumnRanges
from kernlet.compact.inputs import have_one_unit
from papers.cache import timed

_SETS = ("letter", "satimage", "pendigits", "optdigits", "covertype", "thyroid", "mnist")
_ROWS, _TEST_ROWS = 5_000, 1_000  # normal rows to train on; normal rows and anomalies to test on
_BUDGETS = (1024, 4096)
_CONTAMINATION = 0.05
_FACTORS = (1, 3, 10, 30, 100)  # of gamma="scale"
_SCALING_BYTES, _HEADER_BYTES = 2, 16  # per column, and in all: given to every peer
_NODE_BYTES = 4  # of a tree: feature, threshold and two links


# -- Tasks ---------------------------------------------------------------------------------------


class Task:
    """Normal rows to train on, normal rows and anomalies to test on: raw and scaled.

    The scaled ones, for the peers, are standardised column by column, or all together where the
    rule of CompactNoveltyDetector says that columns have one unit.
    """

    def __init__(self, name: str, label: int) -> None:
        split = raw_split(name, 0)
        random = np.random.RandomState(0)
        X, test = (
            rows[codes != label].astype(float)
            for rows, codes in ((split.X, split.y), (split.X_test, split.y_test))
        )
        anomalies = [
            rows[codes == label]
            for rows, codes in ((split.X_test, split.y_test), (split.X, split.y))
        ]
        X, test = (rows[random.permutation(len(rows))] for rows in (X, test))
        self.name, self.X = name, X[:_ROWS]
        test, rare = test[:_TEST_ROWS], np.vstack(anomalies)[:_TEST_ROWS].astype(float)
        self.X_test = np.vstack([test, rare])
        self.is_normal = np.arange(len(self.X_test)) < len(test)
        shift, scale = self.X.mean(axis=0), self.X.std(axis=0)
        if have_one_unit(self.X, ColumnRanges.of(self.X)):
            shift, scale = self.X.mean(), self.X.std()
        scale = np.where(scale > 0, scale, 1.0)
        self.scaled, self.scaled_test = (self.X - shift) / scale, (self.X_test - shift) / scale

    @property
    def n_features(self) -> int:
        """Columns."""
        return self.X.shape[1]

    def figures(self, scores: np.ndarray) -> tuple[float, float]:
        """Area under the ROC curve, and average precision of the anomalies."""
        area = roc_auc_score(self.is_normal, scores)
        return area, average_precision_score(~self.is_normal, -scores)


def _tasks(quick: bool) -> Iterator[Task]:
    for name in ("optdigits",) if quick else _SETS:
        labels = np.unique(raw_split(name, 0).y)
        yield from (Task(name, int(label)) for label in labels[: 1 if quick else None])


# -- Peers without a limit -----------------------------------------------------------------------


def _one_class_svm(factor: float) -> Callable[[Task], np.ndarray]:
    def scores(task: Task) -> np.ndarray:
        gamma = factor / (task.n_features * task.scaled.var())
        return OneClassSVM(nu=0.1, gamma=gamma).fit(task.scaled).decision_function(task.scaled_test)

    return scores


def _tuned_one_class_svm(task: Task) -> np.ndarray:
    """The gamma at which held-out normal rows are told best from uniform noise in their box."""
    random = np.random.RandomState(0)
    cut = len(task.scaled) * 4 // 5
    train, held_out = task.scaled[:cut], task.scaled[cut:]
    low, high = train.min(axis=0), train.max(axis=0)
    middle = (
        train[random.randint(cut, size=len(held_out))]
        + train[random.randint(cut, size=len(held_out))]
    ) / 2
    noise = np.vstack([random.uniform(low, high, size=held_out.shape), middle])
    labels = np.repeat([1, 0], [len(held_out), len(noise)])

    def value(factor: float) -> float:
        gamma = factor / (task.n_features * task.scaled.var())
        svm = OneClassSVM(nu=0.1, gamma=gamma).fit(train)
        return roc_auc_score(labels, svm.decision_function(np.vstack([held_out, noise])))

    return _one_class_svm(max(_FACTORS, key=value))(task)


def _neighbors(task: Task) -> np.ndarray:
    neighbors = NearestNeighbors(n_neighbors=5).fit(task.scaled)
    return -neighbors.kneighbors(task.scaled_test)[0].mean(axis=1)


def _require_few_columns(task: Task) -> None:
    if task.n_features > 100:
        raise ValueError("Full covariances of so many columns take minutes.")


def _mixture(task: Task) -> np.ndarray:
    _require_few_columns(task)
    cut = len(task.scaled) * 4 // 5
    best = max(
        (1, 4, 16),
        key=lambda k: _full_mixture(k).fit(task.scaled[:cut]).score(task.scaled[cut:]),
    )
    return _full_mixture(best).fit(task.scaled).score_samples(task.scaled_test)


def _full_mixture(n_components: int) -> GaussianMixture:
    return GaussianMixture(n_components, reg_covar=1e-2, random_state=0, max_iter=50)


def _reconstruction(task: Task, n_components: Any = 0.9) -> np.ndarray:
    pca = PCA(n_components, random_state=0).fit(task.scaled)
    residual = task.scaled_test - pca.inverse_transform(pca.transform(task.scaled_test))
    return -np.einsum("ij,ij->i", residual, residual)


def _outlier_factor(task: Task) -> np.ndarray:
    return LocalOutlierFactor(novelty=True).fit(task.scaled).decision_function(task.scaled_test)


def _forest(task: Task) -> np.ndarray:
    return IsolationForest(random_state=0).fit(task.scaled).decision_function(task.scaled_test)


def _envelope(task: Task) -> np.ndarray:
    _require_few_columns(task)
    return EllipticEnvelope(random_state=0).fit(task.scaled).decision_function(task.scaled_test)


def _stochastic(task: Task, n_landmarks: int = 300) -> np.ndarray:
    gamma = 10 / (task.n_features * task.scaled.var())
    features = Nystroem(gamma=gamma, n_components=n_landmarks, random_state=0)
    svm = make_pipeline(features, SGDOneClassSVM(nu=0.1, random_state=0))
    return svm.fit(task.scaled).decision_function(task.scaled_test)


def _core_vector(task: Task) -> np.ndarray:
    return CoreVectorNovelty(random_state=0).fit(task.scaled).score_samples(task.scaled_test)


UNLIMITED: dict[str, Callable[[Task], np.ndarray]] = {
    "OneClassSVM(nu=.1)": _one_class_svm(1),
    "OneClassSVM, 10 x gamma": _one_class_svm(10),
    "OneClassSVM, 30 x gamma": _one_class_svm(30),
    "OneClassSVM, gamma by noise": _tuned_one_class_svm,
    "mean distance of 5 neighbors": _neighbors,
    "LocalOutlierFactor": _outlier_factor,
    "IsolationForest": _forest,
    "EllipticEnvelope": _envelope,
    "GaussianMixture, full": _mixture,
    "Nystroem(300), SGDOneClassSVM": _stochastic,
    "PCA residual, 90 %": _reconstruction,
    "CoreVectorNovelty": _core_vector,
}


# -- Peers cut to a number of bytes --------------------------------------------------------------
#
# A number of a peer counts as one byte, without the loss of rounding it; two bytes per column for
# the scaling, and 16 for the rest.


def _fit_in(task: Task, max_bytes: int, per_part: int) -> int:
    """How many parts of so many bytes fit."""
    free = max_bytes - _HEADER_BYTES - _SCALING_BYTES * task.n_features
    if free < per_part:
        raise ValueError("does not fit")
    return free // per_part


def _small_svm(task: Task, max_bytes: int) -> np.ndarray:
    """Trained on as many rows as may all become support vectors."""
    n_rows = _fit_in(task, max_bytes, task.n_features + 1)
    gamma = 10 / (task.n_features * task.scaled.var())
    svm = OneClassSVM(nu=0.1, gamma=gamma).fit(task.scaled[:n_rows])
    return svm.decision_function(task.scaled_test)


def _small_neighbors(task: Task, max_bytes: int) -> np.ndarray:
    rows = task.scaled[: _fit_in(task, max_bytes, task.n_features)]
    return -NearestNeighbors(n_neighbors=1).fit(rows).kneighbors(task.scaled_test)[0][:, 0]


def _small_factor(task: Task, max_bytes: int) -> np.ndarray:
    rows = task.scaled[: _fit_in(task, max_bytes, task.n_features + 2)]
    if len(rows) < 3:
        raise ValueError("does not fit")
    model = LocalOutlierFactor(n_neighbors=min(20, len(rows) - 1), novelty=True).fit(rows)
    return model.decision_function(task.scaled_test)


def _small_forest(task: Task, max_bytes: int) -> np.ndarray:
    n_trees = _fit_in(task, max_bytes, 31 * _NODE_BYTES)  # of 16 rows
    forest = IsolationForest(n_estimators=n_trees, max_samples=16, random_state=0).fit(task.scaled)
    return forest.decision_function(task.scaled_test)


def _small_envelope(task: Task, max_bytes: int) -> np.ndarray:
    d = task.n_features
    _fit_in(task, max_bytes, d + d * (d + 1) // 2)
    return _envelope(task)


def _small_mixture(covariance: str) -> Callable[[Task, int], np.ndarray]:
    def scores(task: Task, max_bytes: int) -> np.ndarray:
        d = task.n_features
        numbers = {"full": d * (d + 1) // 2, "diag": d, "spherical": 1}[covariance]
        n_components = min(_fit_in(task, max_bytes, d + 1 + numbers), len(task.scaled) // 4)
        mixture = GaussianMixture(
            n_components, covariance_type=covariance, reg_covar=1e-2, random_state=0, max_iter=50
        )
        return mixture.fit(task.scaled).score_samples(task.scaled_test)

    return scores


def _small_stochastic(task: Task, max_bytes: int) -> np.ndarray:
    return _stochastic(task, _fit_in(task, max_bytes, task.n_features + 1))


def _small_reconstruction(task: Task, max_bytes: int) -> np.ndarray:
    n_components = _fit_in(task, max_bytes, task.n_features) - 1  # and the mean
    if n_components < 1:
        raise ValueError("does not fit")
    return _reconstruction(task, min(n_components, task.n_features // 2))


SMALL: dict[str, Callable[[Task, int], np.ndarray]] = {
    "OneClassSVM on rows that fit": _small_svm,
    "1-NN on rows that fit": _small_neighbors,
    "LocalOutlierFactor on rows that fit": _small_factor,
    "IsolationForest that fits": _small_forest,
    "EllipticEnvelope that fits": _small_envelope,
    "GaussianMixture, full": _small_mixture("full"),
    "GaussianMixture, diagonal": _small_mixture("diag"),
    "GaussianMixture, spherical": _small_mixture("spherical"),
    "Nystroem that fits, SGDOneClassSVM": _small_stochastic,
    "PCA residual that fits": _small_reconstruction,
}


# -- The benchmark -------------------------------------------------------------------------------

Records = dict[str, dict[int, tuple[float, float, float]]]


def novelty(quick: bool) -> Iterator[Table]:
    """Each class of seven sets in turn, left out of training and sought among test rows."""
    records: Records = {}
    alarms: dict[int, list[float]] = {budget: [] for budget in _BUDGETS}
    sets: list[str] = []
    for number, task in enumerate(_tasks(quick)):
        click.echo(f"task {number}: {task.name}", err=True)
        sets.append(task.name)
        for budget in _BUDGETS:
            detector = CompactNoveltyDetector(
                max_bytes=budget, contamination=_CONTAMINATION, random_state=0
            )
            _, seconds = timed(detector.fit, task.X)
            figures = task.figures(detector.score_samples(task.X_test))
            records.setdefault(_ours(budget), {})[number] = (*figures, seconds)
            found = detector.predict(task.X_test)
            alarms[budget].append(float(np.mean(found[task.is_normal] < 0)))
            for name, peer in SMALL.items():
                _record(records, f"{name}, {budget:,} bytes", number, task, peer, budget)
        for name, method in UNLIMITED.items():
            _record(records, name, number, task, method)
    yield _areas(records, sets)
    yield _verdicts(records)
    yield _alarms(alarms, sets)


def _ours(budget: int) -> str:
    return f"CompactNoveltyDetector, {budget:,} bytes"


def _record(
    records: Records, name: str, number: int, task: Task, method: Any, *arguments: Any
) -> None:
    """Measure a peer; one that does not fit leaves no record."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores, seconds = timed(method, task, *arguments)
    except ValueError:
        return
    records.setdefault(name, {})[number] = (*task.figures(scores), seconds)


def _areas(records: Records, sets: list[str]) -> Table:
    """Mean areas by set, and over the sets."""
    names = list(dict.fromkeys(sets))
    table = Table(
        f"Area under the ROC curve, mean over the classes that were left out ({len(sets)} tasks), "
        f"up to {_ROWS:,} normal rows; one split",
        ["detector", *names, "mean of sets", "average precision", "CPU s, median"],
    )

    def by_set(record: dict[int, tuple[float, ...]], column: int) -> list[float]:
        values = [[r[column] for i, r in record.items() if sets[i] == name] for name in names]
        return [float(np.mean(v)) if v else float("nan") for v in values]

    rows = []
    for name, record in records.items():
        areas, precisions = by_set(record, 0), by_set(record, 1)
        seconds = float(np.median([r[2] for r in record.values()]))
        cells = ["-" if np.isnan(area) else f"{area:.3f}" for area in areas]
        mean = "-" if np.isnan(areas).any() else f"{np.mean(areas):.3f}"
        precision = "-" if np.isnan(areas).any() else f"{np.mean(precisions):.3f}"
        rows.append(
            (np.nan_to_num(np.mean(areas)), name, *cells, mean, precision, f"{seconds:.2f}")
        )
    for _, *cells in sorted(rows, key=lambda row: -row[0]):
        table.add(*cells)
    return table


def _verdicts(records: Records) -> Table:
    """How often the area is the largest of all at equal bytes."""
    table = Table(
        "Tasks by the area under the ROC curve, at equal bytes and against peers without a limit",
        ["bytes", "against", "tasks", "ahead", "ahead or within .005", "mean difference"],
    )
    for budget in _BUDGETS:
        ours = records[_ours(budget)]
        small = [f"{name}, {budget:,} bytes" for name in SMALL]
        for name in [*small, "the best of these, in hindsight", *UNLIMITED]:
            names = small if name.startswith("the best") else [name]
            differences = []
            for number, (area, *_) in ours.items():
                peers = [records[n][number][0] for n in names if number in records.get(n, {})]
                if peers:
                    differences.append(area - max(peers))
            if differences:
                found = np.array(differences)
                table.add(
                    f"{budget:,}",
                    name,
                    len(found),
                    int((found > 0).sum()),
                    int((found >= -0.005).sum()),
                    f"{found.mean():+.3f}",
                )
    return table


def _alarms(alarms: dict[int, list[float]], sets: list[str]) -> Table:
    names = list(dict.fromkeys(sets))
    table = Table(
        f"False alarms on test rows, contamination={_CONTAMINATION}: mean over tasks, by set",
        ["bytes", *names, "all tasks"],
    )
    for budget, shares in alarms.items():
        means = [
            np.mean([s for s, n in zip(shares, sets, strict=True) if n == name]) for name in names
        ]
        table.add(f"{budget:,}", *(f"{mean:.3f}" for mean in means), f"{np.mean(shares):.3f}")
    return table


BENCHMARKS = {"novelty": novelty}
