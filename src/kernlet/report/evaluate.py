"""What a report measures."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support, r2_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.svm import SVC

from kernlet.compact.classifier import CompactKernelClassifier
from kernlet.datasets import Dataset
from kernlet.model.model import Model


@dataclass(frozen=True)
class Measurement:
    """One line of a comparison.

    Parameters
    ----------
    data, machine : str
    accuracy : float
        On the test part.
    centers : int
        Points the machine depends on.
    nbytes : int
        Bytes of its tables as they are held.
    fit_seconds, predict_seconds : float
        CPU time; the median of several predictions of the whole test part.
    loo_bound : float
        Upper bound on the leave-one-out error.
    gap : float or None
        Relative duality gap, where the machine knows it.
    """

    data: str
    machine: str
    accuracy: float
    centers: int
    nbytes: int
    fit_seconds: float
    predict_seconds: float
    loo_bound: float | None
    gap: float | None


def measure(name: str, machine: Any, data: Dataset, *, repeats: int = 5) -> Measurement:
    """Fit a machine on the training part of a data set and measure it on the test part.

    Parameters
    ----------
    name : str
    machine : SVC or a kernlet classifier
    data : Dataset
        With a test part.
    repeats : int, default=5
        Predictions of which the median time is taken.

    Returns
    -------
    measurement : Measurement
    """
    fit_seconds = cpu_seconds(lambda: machine.fit(data.X, data.y))
    predict_seconds = median(
        cpu_seconds(lambda: machine.predict(data.X_test)) for _ in range(repeats)
    )
    gap = machine.duality_gap_.max() if hasattr(machine, "duality_gap_") else None
    return Measurement(
        data=data.name,
        machine=name,
        accuracy=float(machine.score(data.X_test, data.y_test)),
        centers=_centers(machine),
        nbytes=_nbytes(machine),
        fit_seconds=fit_seconds,
        predict_seconds=predict_seconds,
        loo_bound=_loo_bound(machine, len(data.X)),
        gap=gap,
    )


def cpu_seconds(call: Callable[[], Any]) -> float:
    """CPU time of a call in this process."""
    start = time.process_time()
    call()
    return time.process_time() - start


def markdown_table(measurements: Iterable[Measurement]) -> str:
    """The measurements as a Markdown table."""
    header = (
        "| data | machine | test accuracy | centers | bytes | fit (CPU) | predict (CPU) "
        "| leave-one-out error | duality gap |"
    )
    lines = [header, "|---|---|--:|--:|--:|--:|--:|--:|--:|"]
    lines += [_line(m) for m in measurements]
    return "\n".join(lines)


def _line(m: Measurement) -> str:
    gap = "-" if m.gap is None else f"{m.gap:.0e}"
    bound = "-" if m.loo_bound is None else f"<= {100 * m.loo_bound:.0f} %"
    return (
        f"| {m.data} | {m.machine} | {100 * m.accuracy:.1f} % | {m.centers:,} | {m.nbytes:,} "
        f"| {m.fit_seconds:.2f} s | {1000 * m.predict_seconds:.1f} ms "
        f"| {bound} | {gap} |"
    )


def _centers(machine: Any) -> int:
    return len(machine.support_) if isinstance(machine, SVC) else machine.n_centers_


def _nbytes(machine: Any) -> int:
    if isinstance(machine, SVC):
        tables = (machine.support_vectors_, machine.dual_coef_, machine.intercept_)
        return sum(table.nbytes for table in tables)
    return int(machine.expansion_.nbytes)


def _loo_bound(machine: Any, n_rows: int) -> float | None:
    """For an SVC the share of support vectors: no other row can change the machine."""
    if isinstance(machine, SVC):
        return len(machine.support_) / n_rows
    return getattr(machine, "loo_error_bound_", None)


_MOST_ROWS = 5000
_TUNING_ROWS = 1500
_COSTS = (1.0, 10.0, 100.0)
_WIDTHS = (0.3, 1.0, 3.0)  # times gamma="scale"


@dataclass(frozen=True, eq=False)
class Peer:
    """An SVC with C and gamma chosen by cross-validation.

    Parameters
    ----------
    svc : SVC
        Fitted.
    n_rows : int
        It was trained on.
    """

    svc: Any
    n_rows: int

    def measured(self, X: Any, y: Any) -> dict[str, Any]:
        """Accuracy on a test part, size and parameters."""
        tables = (self.svc.support_vectors_, self.svc.dual_coef_, self.svc.intercept_)
        return {
            "accuracy": float(self.svc.score(X, y)),
            "centers": len(self.svc.support_),
            "nbytes": int(sum(4 * np.size(table) for table in tables)),
            "training_rows": self.n_rows,
            "C": float(self.svc.C),
            "gamma": float(self.svc.gamma),
        }


def fit_svc(X: Any, y: Any, *, random_state: int = 0) -> Peer:
    """Tune and fit an SVC on at most 5,000 rows.

    C and gamma come from a grid of nine, by three-fold cross-validation on at most 1,500 rows. Its
    bytes are counted in float32.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Scaled as for the machine that it stands beside.
    y : ndarray of shape (n_rows,)
    random_state : int

    Returns
    -------
    peer : Peer
    """
    random = np.random.RandomState(random_state)
    rows = random.permutation(len(y))[:_MOST_ROWS]
    some = rows[:_TUNING_ROWS]
    variance = float(np.var(X[some])) or 1.0
    gammas = [width / (X.shape[1] * variance) for width in _WIDTHS]
    grid = {"C": list(_COSTS), "gamma": gammas}
    _, counts = np.unique(y[some], return_counts=True)
    if len(counts) < 2 or counts.min() < 3:  # too few to leave a third out
        return Peer(SVC(C=10.0, gamma=gammas[1]).fit(X[rows], y[rows]), len(rows))
    folds = StratifiedKFold(3, shuffle=True, random_state=random_state)
    search = GridSearchCV(SVC(), grid, cv=folds, refit=False).fit(X[some], y[some])
    return Peer(SVC(**search.best_params_).fit(X[rows], y[rows]), len(rows))


@dataclass(frozen=True)
class ClassScores:
    """One line of the table of classes."""

    name: str
    n_rows: int
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class Latency:
    """CPU seconds a row: alone, and in a batch of many."""

    single: float
    batched: float
    n_batch: int


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What was measured on some rows.

    Parameters
    ----------
    n_rows : int
    score : float
        Accuracy, or R2 of a regressor.
    standard_error : float or None
        Of the accuracy.
    majority : float or None
        Share of the most frequent class.
    labels : tuple of str
        Classes, with those that only the rows have.
    confusion : ndarray of shape (n_labels, n_labels) or None
        True class by predicted class.
    classes : tuple of ClassScores
    rmse : float or None
        Of a regressor.
    predictions : ndarray
    latency : Latency
    """

    n_rows: int
    score: float
    standard_error: float | None
    majority: float | None
    labels: tuple[str, ...]
    confusion: Any
    classes: tuple[ClassScores, ...]
    rmse: float | None
    predictions: Any
    latency: Latency


def evaluate(model: Model, X: Any, y: Any) -> Evaluation:
    """Measure a machine.

    Parameters
    ----------
    model : Model
        A classifier or a regressor.
    X : ndarray of shape (n_rows, n_features)
        Before scaling.
    y : ndarray of shape (n_rows,)

    Returns
    -------
    evaluation : Evaluation
    """
    outputs = model.outputs(X)
    latency = _latency(model, X)
    if model.kind == "regressor":
        values = model.scores(outputs)
        rmse = float(np.sqrt(np.mean((values - y) ** 2)))
        score = float(r2_score(y, values))
        return Evaluation(len(y), score, None, None, (), None, (), rmse, values, latency)
    predicted = model.classes[model.codes(outputs)]
    names = np.unique(np.concatenate([model.classes.astype(str), np.asarray(y).astype(str)]))
    if np.asarray(y).dtype.kind in "iuf" and model.classes.dtype.kind in "iuf":
        names = np.unique(np.concatenate([model.classes, y])).astype(str)
    truth, guess = np.asarray(y).astype(str), predicted.astype(str)
    precision, recall, f1, counts = precision_recall_fscore_support(
        truth, guess, labels=names, zero_division=0.0
    )
    accuracy = float(np.mean(truth == guess))
    return Evaluation(
        n_rows=len(y),
        score=accuracy,
        standard_error=float(np.sqrt(accuracy * (1 - accuracy) / len(y))),
        majority=float(counts.max() / len(y)),
        labels=tuple(names.tolist()),
        confusion=confusion_matrix(truth, guess, labels=names),
        classes=tuple(
            ClassScores(str(name), int(n), float(p), float(r), float(f))
            for name, n, p, r, f in zip(names, counts, precision, recall, f1, strict=True)
        ),
        rmse=None,
        predictions=predicted,
        latency=latency,
    )


def _latency(model: Model, X: Any) -> Latency:
    batch = X[:1000]
    one = X[:1]
    single = _seconds(lambda: model.outputs(one), 50)
    return Latency(single, _seconds(lambda: model.outputs(batch), 7) / len(batch), len(batch))


def _seconds(call: Callable[[], Any], repeats: int) -> float:
    """Median CPU time of a call."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return median(times)


_MOST_ROWS_SIZES = 4000
_FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Size:
    """A machine of some size, and how well it does."""

    n_centers: int
    nbytes: int
    accuracy: float


@dataclass(frozen=True)
class Sizes:
    """Machines that were trained and tested on the same rows.

    Parameters
    ----------
    n_training, n_test : int
    machines : tuple of Size
    svc : Size
    chosen : Size
        The machine of the report, on the same test rows.
    standard_error : float
        Of the accuracies, about.
    """

    n_training: int
    n_test: int
    machines: tuple[Size, ...]
    svc: Size
    chosen: Size
    standard_error: float


def try_sizes(
    model: Model,
    X: Any,
    y: Any,
    *,
    training: tuple[Any, Any] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Sizes | None:
    """Train compact machines about the size of one, and a tuned SVC.

    Parameters
    ----------
    model : Model
        A classifier.
    X, y : ndarray
        Rows before scaling, and their labels: to test on.
    training : tuple of (X, y) or None
        To train on; half of the rows unless given, and tested on the other half then.
    say : callable
        Told what is being trained.

    Returns
    -------
    sizes : Sizes or None
        None where the rows are too few.
    """
    labels, counts = np.unique(y if training is None else training[1], return_counts=True)
    if len(y) < 30 or len(labels) < 2 or counts.min() < 4:
        return None
    if training is None:
        X_train, X, y_train, y = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
    else:
        X_train, y_train = training
    some = np.random.RandomState(0).permutation(len(y_train))[:_MOST_ROWS_SIZES]
    scaled = (lambda A: A) if model.scaler is None else model.scaler
    train, y_train = scaled(X_train[some]), y_train[some]
    X, y = X[:_MOST_ROWS_SIZES], y[:_MOST_ROWS_SIZES]
    test = scaled(X)
    machines = []
    for n_centers in _numbers(model.expansion.n_centers, len(train), len(labels)):
        say(f"training {n_centers} centers on {len(train):,} rows")
        machine = CompactKernelClassifier(n_centers, random_state=0, validation_fraction=None)
        machine.fit(train, y_train)
        accuracy = float(machine.score(test, y))
        machines.append(Size(machine.n_centers_, machine.nbytes_, accuracy))
    say("training an SVC")
    peer = fit_svc(train, y_train).measured(test, y)
    accuracy = float(np.mean(model.classes[model.codes(model.outputs(X))] == y))
    chosen = Size(model.expansion.n_centers, model.nbytes, accuracy)
    return Sizes(
        len(train),
        len(test),
        tuple(machines),
        Size(peer["centers"], peer["nbytes"], peer["accuracy"]),
        chosen,
        float(np.sqrt(accuracy * (1 - accuracy) / len(test))),
    )


def _numbers(n_centers: int, n_rows: int, n_classes: int) -> list[int]:
    """Sizes about a number of centers, at least one a class and at most a third of the rows."""
    wanted = {max(min(2, n_classes), round(factor * n_centers)) for factor in _FACTORS}
    return sorted(size for size in wanted if size <= min(400, max(2, n_rows // 3)))
