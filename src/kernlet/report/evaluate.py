"""What the report and the demonstration measure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from sklearn.metrics import (
    confusion_matrix,
    get_scorer,
    precision_recall_fscore_support,
    roc_auc_score,
)
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.svm import SVC

from kernlet.affine import AffineMap, compose
from kernlet.compact.classifier import CompactKernelClassifier
from kernlet.compact.inputs import without_missing
from kernlet.datasets import Dataset
from kernlet.model.model import Model
from kernlet.model.scoring import quantile_score

# An SVC takes time in n_rows^2 to n_rows^3: on these numbers of rows it is trained in seconds.
_MAX_SVC_ROWS = 5000
_MAX_TUNING_ROWS = 1500
_SVC_COSTS = (1.0, 10.0, 100.0)
_SVC_WIDTHS = (0.3, 1.0, 3.0)  # times gamma="scale"
_MAX_SIZE_ROWS = 4000
MIN_TEST_ROWS = 30  # fewer say little: the standard error of an accuracy of 80 % is then 7 points
_SIZE_FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)  # times the centers of the machine


# CPU time, because other processes of a busy computer lengthen wall-clock time; the median,
# because the first call also fills caches.
def cpu_seconds(call: Callable[[], Any], repeats: int = 1) -> float:
    """Median CPU time of a call in this process."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return median(times)


@dataclass(frozen=True)
class Measurement:
    """One line of a comparison."""

    data: str
    machine: str
    accuracy: float
    centers: int
    nbytes: int
    fit_seconds: float  # CPU
    predict_seconds: float  # CPU, of the whole test part
    loo_bound: float | None  # upper bound on the leave-one-out error
    gap: float | None  # relative duality gap


def measure(name: str, machine: Any, data: Dataset, *, repeats: int = 5) -> Measurement:
    """Fit an SVC or a kernlet classifier on a training part and measure it on the test part."""
    fit_seconds = cpu_seconds(lambda: machine.fit(data.X, data.y))
    if isinstance(machine, SVC):
        centers = len(machine.support_)
        nbytes = sum(table.nbytes for table in _svc_tables(machine))
        # leaving out a row that is not a support vector does not change the machine
        loo_bound: float | None = centers / len(data.X)
    else:
        centers, nbytes = machine.n_centers_, int(machine.expansion_.nbytes)
        loo_bound = getattr(machine, "loo_error_bound_", None)
    return Measurement(
        data=data.name,
        machine=name,
        accuracy=float(machine.score(data.X_test, data.y_test)),
        centers=centers,
        nbytes=nbytes,
        fit_seconds=fit_seconds,
        predict_seconds=cpu_seconds(lambda: machine.predict(data.X_test), repeats),
        loo_bound=loo_bound,
        gap=machine.duality_gap_.max() if hasattr(machine, "duality_gap_") else None,
    )


def markdown_table(measurements: Iterable[Measurement]) -> str:
    """The measurements as a Markdown table."""
    header = (
        "| data | machine | test accuracy | centers | bytes | fit (CPU) | predict (CPU) "
        "| leave-one-out error | duality gap |"
    )
    lines = [header, "|---|---|--:|--:|--:|--:|--:|--:|--:|"]
    for m in measurements:
        gap = "-" if m.gap is None else f"{m.gap:.0e}"
        bound = "-" if m.loo_bound is None else f"<= {100 * m.loo_bound:.0f} %"
        lines.append(
            f"| {m.data} | {m.machine} | {100 * m.accuracy:.1f} % | {m.centers:,} | {m.nbytes:,} "
            f"| {m.fit_seconds:.2f} s | {1000 * m.predict_seconds:.1f} ms | {bound} | {gap} |"
        )
    return "\n".join(lines)


def _svc_tables(svc: Any) -> tuple[Any, ...]:
    return svc.support_vectors_, svc.dual_coef_, svc.intercept_


def measure_svc(svc: Any, X: Any, y: Any) -> dict[str, Any]:
    """Accuracy of a fitted SVC on a test part, its size (bytes in float32) and parameters."""
    predicted = svc.predict(X)
    return {
        "accuracy": float(np.mean(predicted == y)),
        "balanced_accuracy": balanced_accuracy(y, predicted),
        "centers": len(svc.support_),
        "nbytes": sum(4 * int(table.size) for table in _svc_tables(svc)),
        "training_rows": svc.shape_fit_[0],
        "C": float(svc.C),
        "gamma": float(svc.gamma),
    }


def fit_svc(
    X: Any, y: Any, *, class_weight: Any = None, scoring: str | None = None, random_state: int = 0
) -> SVC:
    """Tune and fit an SVC on at most 5,000 rows, which are scaled already.

    C and gamma come from a grid of nine, by three-fold cross-validation on at most 1,500 rows.
    Scorers of probabilities, which an SVC does not have, are replaced by the accuracy.
    """
    random = np.random.RandomState(random_state)
    rows = random.permutation(len(y))[:_MAX_SVC_ROWS]
    tuning = rows[:_MAX_TUNING_ROWS]
    variance = float(np.var(X[tuning])) or 1.0
    gammas = [width / (X.shape[1] * variance) for width in _SVC_WIDTHS]
    parameters = {"C": 10.0, "gamma": gammas[1]}
    _, counts = np.unique(y[tuning], return_counts=True)
    if len(counts) > 1 and counts.min() >= 3:  # else too few for three folds
        grid = {"C": _SVC_COSTS, "gamma": gammas}
        folds = StratifiedKFold(3, shuffle=True, random_state=random_state)
        svc = SVC(class_weight=class_weight)
        if scorer_value(scoring, svc.fit(X[tuning], y[tuning]), X[tuning], y[tuning]) is None:
            scoring = None
        search = GridSearchCV(svc, grid, scoring=scoring, cv=folds, refit=False)
        parameters = search.fit(X[tuning], y[tuning]).best_params_
    return SVC(**parameters, class_weight=class_weight).fit(X[rows], y[rows])


def scorer_value(scoring: str | None, machine: Any, X: Any, y: Any) -> float | None:
    """The score of a machine by the name of a scorer; None if it cannot be computed."""
    try:
        return None if scoring is None else float(get_scorer(scoring)(machine, X, y))
    except (AttributeError, ValueError):  # such as a log loss without probabilities
        return None


def balanced_accuracy(truth: Any, predicted: Any) -> float:
    """The mean over the classes that occur of the share of their rows that are right."""
    classes = np.unique(truth)
    return float(np.mean([np.mean(predicted[truth == label] == label) for label in classes]))


def balanced_standard_error(truth: Any, predicted: Any) -> float:
    """Of the balanced accuracy, a mean of one share per class that occurs."""
    parts = [predicted[truth == label] == label for label in np.unique(truth)]
    errors = [standard_error(float(np.mean(part)), len(part)) for part in parts]
    return float(np.linalg.norm(errors) / len(errors))


def majority_share(truth: Any) -> float:
    """The accuracy of always predicting the largest class."""
    return float(np.unique(truth, return_counts=True)[1].max() / len(truth))


@dataclass(frozen=True)
class ClassScores:
    """One line of the table of classes."""

    name: str
    n_rows: int
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class OutputScores:
    """One line of the table of outputs: of a target, or of a quantile."""

    name: str
    score: float  # R2, or D2 of a quantile
    mae: float | None = None
    below: float | None = None  # share of the rows below a quantile


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A machine on rows with labels; fields of the other kind of machine are None or empty."""

    n_rows: int
    score: float  # accuracy, R2, D2 of quantiles, or the share of outliers of a detector
    predictions: Any
    seconds_alone: float  # CPU time per row, each predicted alone
    seconds_in_batch: float  # and in a batch of n_batch rows
    n_batch: int
    rmse: float | None = None
    standard_error: float | None = None  # of the accuracy
    majority: float | None = None  # accuracy of the largest class alone
    balanced_accuracy: float | None = None
    labels: tuple[str, ...] = ()  # classes of the machine and of the rows
    confusion: Any = None  # true class by predicted class
    classes: tuple[ClassScores, ...] = ()
    values: Any = None  # decision values of a novelty detector
    roc_auc: float | None = None  # of these, where rows of both kinds are labelled
    outputs: tuple[OutputScores, ...] = ()  # of a regressor of several numbers
    coverage: float | None = None  # share of the rows between the outermost quantiles


def evaluate(model: Model, X: Any, y: Any) -> Evaluation:
    """Measure a machine on rows before scaling; those of a novelty detector need no labels."""
    outputs = model.outputs(X)
    batch = X[:1000]
    alone = cpu_seconds(lambda: model.outputs(X[:1]), 50)
    in_batch = cpu_seconds(lambda: model.outputs(batch), 7) / len(batch)
    if model.kind == "regressor":
        values = model.scores(outputs).reshape(len(y), -1)
        n_columns = np.size(y) // len(y)
        has = f"y has {n_columns} column{'s' if n_columns != 1 else ''}"
        if model.quantiles is None and n_columns != values.shape[1]:
            numbers = "one number" if values.shape[1] == 1 else f"{values.shape[1]} numbers"
            raise ValueError(
                f"The machine predicts {numbers} per row, but {has}: give one for each."
            )
        if model.quantiles is not None and n_columns != 1:
            raise ValueError(f"The machine predicts quantiles of one target, but {has}: give one.")
        values = values[:, 0] if values.shape[1] == 1 else values
        scores = regression_scores(model, outputs, y)
        rmse = None if values.ndim > 1 else float(np.sqrt(np.mean((values - np.ravel(y)) ** 2)))
        return Evaluation(
            len(y),
            scores["score"],
            values,
            alone,
            in_batch,
            len(batch),
            rmse,
            outputs=tuple(OutputScores(**line) for line in scores.get("outputs", ())),
            coverage=scores.get("coverage"),
        )
    predicted = model.classes[model.codes(outputs)]
    if model.kind == "novelty":
        share, values = float(np.mean(predicted < 0)), model.scores(outputs)
        facts = {"values": values} | _against(y, predicted, values)
        return Evaluation(len(X), share, predicted, alone, in_batch, len(batch), **facts)
    y = np.asarray(y)
    names = np.unique(np.concatenate([model.classes.astype(str), y.astype(str)]))
    if y.dtype.kind in "iuf" and model.classes.dtype.kind in "iuf":  # 10 comes after 9
        names = np.unique(np.concatenate([model.classes, y])).astype(str)
    # compared as texts, because the labels of a file may have another type than the classes
    truth, guess = y.astype(str), predicted.astype(str)
    accuracy = float(np.mean(truth == guess))
    return Evaluation(
        len(y),
        accuracy,
        predicted,
        alone,
        in_batch,
        len(batch),
        standard_error=standard_error(accuracy, len(y)),
        majority=majority_share(truth),
        balanced_accuracy=balanced_accuracy(truth, guess),
        **_per_class(truth, guess, names),
    )


def _per_class(truth: Any, guess: Any, names: Any) -> dict[str, Any]:
    """The confusion matrix and the scores of each class, from labels as texts."""
    precision, recall, f1, counts = precision_recall_fscore_support(
        truth, guess, labels=names, zero_division=0.0
    )
    return {
        "labels": tuple(names.tolist()),
        "confusion": confusion_matrix(truth, guess, labels=names),
        "classes": tuple(map(ClassScores, names, counts, precision, recall, f1)),
    }


def _against(y: Any, predicted: Any, values: Any) -> dict[str, Any]:
    """What labels of 1 and -1, where there are any, say of a novelty detector."""
    if y is None:
        return {}
    names = np.array(["outlier", "inlier"])
    truth, guess = (names[(np.asarray(signs) > 0).astype(int)] for signs in (y, predicted))
    has_both = len(np.unique(truth)) == 2
    roc_auc = float(roc_auc_score(np.asarray(y) > 0, values)) if has_both else None
    return _per_class(truth, guess, names) | {"roc_auc": roc_auc}


def regression_scores(model: Model, outputs: Any, y: Any) -> dict[str, Any]:
    """R2, of several targets their mean, with R2 and mean absolute error of each.

    Of quantiles D2, with that of each and the share of the rows below it, and the coverage: the
    share of the rows between the lowest and the highest.
    """
    values = model.scores(outputs).reshape(len(y), -1)
    if model.quantiles is not None:
        return _quantile_scores(model, values, y)
    targets = np.asarray(y, dtype=float).reshape(values.shape)
    each = [_r2(t, v) for t, v in zip(targets.T, values.T, strict=True)]
    if len(each) == 1:
        return {"score": each[0]}
    errors = np.abs(targets - values).mean(axis=0).tolist()
    names = model.output_labels or [f"output {k + 1}" for k in range(len(each))]
    lines = [
        {"name": name, "score": score, "mae": error}
        for name, score, error in zip(names, each, errors, strict=True)
    ]
    return {"score": float(np.mean(each)), "outputs": lines}


def _quantile_scores(model: Model, values: Any, y: Any) -> dict[str, Any]:
    assert model.quantiles is not None
    each = [quantile_score(y, c, [q]) for q, c in zip(model.quantiles, values.T, strict=True)]
    shares = (np.asarray(y)[:, None] <= values).mean(axis=0).tolist()
    lines = [
        {"name": name, "score": score, "below": share}
        for name, score, share in zip(model.output_labels, each, shares, strict=True)
    ]
    scores: dict[str, Any] = {"score": float(np.mean(each)), "outputs": lines}
    if model.sorts_outputs:
        scores["coverage"] = float(np.mean((values[:, 0] <= y) & (y <= values[:, -1])))
    return scores


def _r2(y: Any, values: Any) -> float:
    """R2, without a division by zero for a constant target."""
    return float(1 - np.mean((values - y) ** 2) / max(np.var(y), 1e-300))


def output_lines(
    model: Model, outputs: Sequence[OutputScores], coverage: float | None
) -> list[str]:
    """The outputs of a regressor of several numbers, in lines for people."""
    if model.quantiles is None:
        return [
            f"  {line.name}: R2 {line.score:.4f}, mean absolute error {line.mae:.4g}"
            for line in outputs
        ]
    lines = []
    for level, line in zip(model.quantiles, outputs, strict=True):
        below = 0.0 if line.below is None else line.below
        lines.append(f"  {line.name}: {100 * below:.1f} % of the rows below, of {100 * level:g}")
    if coverage is not None:
        nominal = 100 * (model.quantiles[-1] - model.quantiles[0])
        lines.append(f"  the interval holds {100 * coverage:.1f} %, of {nominal:g}")
    return lines


def standard_error(accuracy: float, n_rows: int) -> float:
    """Of a share of n independent rows: sqrt(p (1 - p) / n)."""
    return float(np.sqrt(accuracy * (1 - accuracy) / n_rows))


@dataclass(frozen=True)
class Size:
    """The size of a machine and its accuracy."""

    n_centers: int
    nbytes: int
    accuracy: float


@dataclass(frozen=True)
class Sizes:
    """Machines trained and tested on the same rows; ``chosen`` is the machine of the report."""

    n_training: int
    n_test: int
    machines: tuple[Size, ...]
    svc: Size
    chosen: Size
    standard_error: float  # of the accuracies, about

    @property
    def smaller(self) -> Size | None:
        """The most accurate of the machines with fewer centers that are no less accurate."""
        chosen = self.chosen
        fewer = [size for size in self.machines if size.n_centers < chosen.n_centers]
        better = [size for size in fewer if size.accuracy >= chosen.accuracy]
        return max(better, key=lambda size: size.accuracy, default=None)


def try_sizes(
    model: Model,
    X: Any,
    y: Any,
    *,
    training: tuple[Any, Any] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Sizes | None:
    """Train compact machines of sizes around that of a classifier, and a tuned SVC.

    Rows are those before scaling. Without ``training`` rows, half of the rows are trained on and
    the other half tested on. Too few rows give None.
    """
    labels, counts = np.unique(y if training is None else training[1], return_counts=True)
    if len(y) < 30 or len(labels) < 2 or counts.min() < 4:
        return None
    if training is None:
        X_train, X, y_train, y = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
    else:
        X_train, y_train = training
    rows = np.random.RandomState(0).permutation(len(y_train))[:_MAX_SIZE_ROWS]
    X_train, y_train, X, y = X_train[rows], y_train[rows], X[:_MAX_SIZE_ROWS], y[:_MAX_SIZE_ROWS]
    accuracy = float(np.mean(model.classes[model.codes(model.outputs(X))] == y))
    chosen = Size(model.expansion.n_centers, model.nbytes, accuracy)
    scaler, map = model.scaler, model.expansion.input_map
    if map is not None and len(map.scale) > 1:  # a scale per column inside the machine
        scaler = compose(scaler, AffineMap(map.shift, map.scale))
    if scaler is not None:
        X_train, X = scaler(X_train), scaler(X)
    X_train, X = without_missing(X_train), without_missing(X)
    machines = []
    for n_centers in _numbers_of_centers(chosen.n_centers, len(X_train), len(labels)):
        say(f"training {n_centers} centers on {len(X_train):,} rows")
        # nothing is chosen: no row has to be held out
        machine = CompactKernelClassifier(n_centers, random_state=0, validation_fraction=None)
        machine.fit(X_train, y_train)
        machines.append(Size(machine.n_centers_, machine.nbytes_, float(machine.score(X, y))))
    say("training an SVC")
    peer = measure_svc(fit_svc(X_train, y_train), X, y)
    svc = Size(peer["centers"], peer["nbytes"], peer["accuracy"])
    error = standard_error(accuracy, len(X))
    return Sizes(len(X_train), len(X), tuple(machines), svc, chosen, error)


def _numbers_of_centers(n_centers: int, n_rows: int, n_classes: int) -> list[int]:
    """Multiples of a number of centers, at least one per class and at most a third of the rows."""
    sizes = {max(min(2, n_classes), round(factor * n_centers)) for factor in _SIZE_FACTORS}
    # at most 400, to bound the time of training
    return sorted(size for size in sizes if size <= min(400, max(2, n_rows // 3)))
