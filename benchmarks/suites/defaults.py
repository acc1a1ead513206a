"""Every public estimator with all its defaults on many noisy rows: time, accuracy, warnings."""

from __future__ import annotations

import inspect
import multiprocessing
import resource
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import click
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.datasets import make_classification
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC, SVR

import kernlet
from benchmarks.tables import Table
from papers.cache import timed
from papers.tasks import Task

_N_ROWS, _N_TEST = 50_000, 10_000
_LIMIT = 120  # CPU seconds, twice what a user should wait
_GAPS = ("duality_gap_", "gap_", "residual_")


def estimators() -> dict[str, Any]:
    """All public estimators by name, as a user makes them who gives no parameter."""
    classes = {name: getattr(kernlet, name) for name in kernlet.__all__}
    originals = {"CompressedClassifier": SVC(), "CompressedRegressor": SVR()}
    return {
        name: each(originals[name]) if name in originals else each()
        for name, each in classes.items()
        if inspect.isclass(each) and issubclass(each, BaseEstimator)
    }


def noisy_rows(n_rows: int, n_classes: int = 2) -> Task:
    """Rows of 50 features, ten of them informative, a tenth of the labels random; standardised."""
    X, y = make_classification(
        n_rows + _N_TEST,
        50,
        n_informative=10,
        n_classes=n_classes,
        flip_y=0.1,
        random_state=0,
    )
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return Task(X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:])


def fit_default(
    name: str, n_rows: int, n_classes: int, warned: Callable[[float, str], Any]
) -> dict[str, Any]:
    """A fit of the estimator and what it reached; ``warned`` hears of warnings, with CPU time."""
    data, estimator = noisy_rows(n_rows, n_classes), estimators()[name]
    if "random_state" in estimator.get_params():
        estimator.set_params(random_state=0)
    began = time.process_time()

    def show(message: Any, *_: Any, **__: Any) -> None:
        warned(time.process_time() - began, str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        fitted, seconds = timed(_fit, estimator, data)
    return {"seconds": seconds} | fitted


def _fit(estimator: Any, data: Task) -> dict[str, Any]:
    """Fit and score: features and condensed rows by the nearest neighbours in them."""
    if hasattr(estimator, "fit_resample"):
        X, y = estimator.fit_resample(data.X, data.y)
        return {"size": f"{len(X):,} rows", "peer": (X, y, data.X_test)}
    estimator.fit(data.X, data.y)
    gap = next((np.max(getattr(estimator, g)) for g in _GAPS if hasattr(estimator, g)), None)
    facts = {"size": f"{estimator.n_centers_:,}", "gap": gap, "estimator": estimator}
    if not hasattr(estimator, "predict"):
        features = estimator.transform(data.X), data.y, estimator.transform(data.X_test)
        return facts | {"peer": features}
    return facts


def _scored(facts: dict[str, Any], data: Task) -> float:
    """Accuracy on test rows, or R2; not part of the time."""
    if "peer" in facts:
        X, y, X_test = facts.pop("peer")
        facts.pop("estimator", None)
        return float(KNeighborsClassifier(5).fit(X, y).score(X_test, data.y_test))
    return float(facts.pop("estimator").score(data.X_test, data.y_test))


def _work(send: Any, name: str, n_rows: int, n_classes: int) -> None:
    """In a new process, whose fit the system ends after ``_LIMIT`` CPU seconds."""
    unlimited = resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_CPU, (_LIMIT, unlimited))
    facts = fit_default(name, n_rows, n_classes, lambda *warning: send.send(warning))
    resource.setrlimit(resource.RLIMIT_CPU, (unlimited, unlimited))
    facts["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    facts["score"] = _scored(facts, noisy_rows(n_rows, n_classes))
    send.send(facts)


def measure_default(name: str, n_rows: int, n_classes: int = 2) -> dict[str, Any]:
    """The warnings of one estimator and, where it ended in time, what it reached."""
    click.echo(f"measuring {name} on {n_rows:,} rows", err=True)
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(send, name, n_rows, n_classes))
    process.start()
    send.close()
    messages: list[Any] = []
    try:
        while True:
            messages.append(receive.recv())
    except EOFError:
        process.join()
    facts = messages.pop() if messages and isinstance(messages[-1], dict) else {}
    return {"warnings": messages} | facts


def tables(facts: dict[str, dict[str, Any]], n_rows: int) -> Iterator[Table]:
    """The table of all estimators, and the sentences of their warnings."""
    table = Table(
        f"All defaults, {n_rows:,} noisy rows of 50 features, two classes; accuracy (R2 for a "
        "regressor, 5 neighbours for condensers and features) on 10,000 others",
        ["estimator", "CPU s", "accuracy", "centers", "gap", "peak MB", "warnings", "first after"],
    )
    warned = Table("What they warn of", ["estimator", "sentence"])
    for name, of in facts.items():
        first = f"{of['warnings'][0][0]:.1f} s" if of["warnings"] else "-"
        for _, sentence in of["warnings"]:
            warned.add(name, sentence)
        n_warnings, gap = len(of["warnings"]), of.get("gap")
        if "seconds" not in of:
            table.add(name, f"> {_LIMIT}", "-", "-", "-", "-", n_warnings, first)
            continue
        cells = f"{of['seconds']:.1f}", f"{100 * of['score']:.2f}", of["size"]
        shown = "-" if gap is None else f"{gap:.1e}"
        table.add(name, *cells, shown, f"{of['peak']:.0f}", n_warnings, first)
    yield table
    yield warned


def defaults(quick: bool) -> Iterator[Table]:
    """CPU time, accuracy, certificate and warnings with all defaults."""
    n_rows = 5000 if quick else _N_ROWS
    yield from tables({name: measure_default(name, n_rows) for name in estimators()}, n_rows)


BENCHMARKS = {"defaults": defaults}
