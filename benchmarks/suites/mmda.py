"""Kernel features by MMDA: time, memory, growth, transform, and the extended USPS."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.decomposition import KernelPCA
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.tables import Table
from benchmarks.timing import measure, median_seconds
from kernlet import MMDA
from papers.tasks import covertype, extended_usps, extended_usps_validation, official
from papers.tsang2006 import SMALL


def fit(task: Any, n: int, **parameters: Any) -> dict[str, Any]:
    machine = MMDA(n, C=task.C, gamma=task.gamma, random_state=0, **parameters)
    machine.fit(task.X, task.y)
    return {
        "features": len(machine.components_),
        "points": machine.n_centers_,
        "gap": float(machine.gap_.max()),
        "ball_gap": getattr(machine, "ball_gap_", np.nan),
        "machine": machine,
    }


def _without_machine(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: fact for name, fact in facts.items() if name != "machine"}


def landmarks(task: Any) -> dict[str, Any]:
    return _without_machine(fit(task, 5))


def core(task: Any) -> dict[str, Any]:
    return _without_machine(fit(task, 5, solver="core"))


def kernel_pca(task: Any) -> dict[str, Any]:
    n = 5 * task.n_classes
    KernelPCA(n, kernel="rbf", gamma=task.gamma, eigen_solver="randomized", random_state=0).fit(
        task.X
    )
    return {}


def one_feature(task: Any) -> dict[str, Any]:
    return _without_machine(fit(task, 1))


def traced(task: Any, **parameters: Any) -> dict[str, Any]:
    """One feature, and the memory of the fit in MB, data excluded."""
    tracemalloc.start()
    facts = _without_machine(fit(task, 1, **parameters))
    return facts | {"memory": tracemalloc.get_traced_memory()[1] / 2**20}


def traced_by_blocks(task: Any) -> dict[str, Any]:
    return traced(task, cache_size=0)


def one_feature_and_its_accuracy(task: Any) -> dict[str, Any]:
    facts = fit(task, 1)
    values = facts["machine"].transform(task.X)[:, 0]
    threshold = _best_threshold(values, task.y)
    values = facts["machine"].transform(task.X_test)[:, 0]
    return _without_machine(facts) | {
        "accuracy": float(((values > threshold) == task.y_test).mean())
    }


def _best_threshold(values: Any, labels: Any) -> float:
    """The threshold with the best training accuracy."""
    order = np.argsort(values)
    right = np.cumsum(np.where(labels[order], -1, 1))
    return float(values[order[right.argmax()]])


def speed(quick: bool) -> Iterator[Table]:
    """Landmarks against the paper's core sets; large data sets."""
    table = Table(
        "All 5 features per class (C=1, mean-distance width): 500 landmarks against core sets "
        "(eps=0.001, 59-row samples)",
        [
            "set",
            "rows",
            "features",
            "landmarks s",
            "core s",
            "ratio",
            "points of core",
            "true eps of core",
            "gap of core",
            "randomized KernelPCA s",
        ],
    )
    for name in SMALL:
        ours = measure(official, landmarks, name, repeats=3)
        peer = measure(official, core, name)
        pca = measure(official, kernel_pca, name)
        table.add(
            name,
            len(official(name).y),
            ours.answer["features"],
            f"{ours.seconds:.2f}",
            f"{peer.seconds:.2f}",
            f"{peer.seconds / ours.seconds:.1f}x",
            peer.answer["points"],
            f"{peer.answer['ball_gap']:.1e}",
            f"{peer.answer['gap']:.2f}",
            f"{pca.seconds:.2f}",
        )
    yield table
    if not quick:
        yield from _large()


def _large() -> Iterator[Table]:
    table = Table(
        "Large sets by 500 landmarks",
        ["task", "rows", "features", "CPU s", "peak MB", "accuracy"],
    )
    run = measure(official, landmarks, "mnist")
    features = run.answer["features"]
    table.add("mnist", "60,000", features, f"{run.seconds:.1f}", f"{run.peak:.0f}", "-")
    run = measure(covertype, one_feature)
    judged = measure(covertype, one_feature_and_its_accuracy)
    accuracy = f"{100 * judged.answer['accuracy']:.2f} %"
    table.add(
        "covertype 2 v rest",
        "561,012",
        1,
        f"{run.seconds:.1f}",
        f"{run.peak:.0f}",
        accuracy,
    )
    yield table


def growth(quick: bool) -> Iterator[Table]:
    """Time and memory by rows."""
    table = Table(
        "Growth with rows: covertype 2 v rest, one feature by 500 landmarks, blocks kept or "
        "computed again at each pass (cache_size=0); memory is what the fit takes besides the data",
        ["rows", "CPU s, kept", "MB", "CPU s, again", "MB", "bytes per row"],
    )
    for n_rows in (70_000, 140_000, 280_000, 561_012)[: 2 if quick else 4]:
        kept = measure(covertype, traced, n_rows)
        again = measure(covertype, traced_by_blocks, n_rows)
        memory = again.answer["memory"]
        table.add(
            f"{n_rows:,}",
            f"{kept.seconds:.1f}",
            f"{kept.answer['memory']:.0f}",
            f"{again.seconds:.1f}",
            f"{memory:.0f}",
            f"{memory * 2**20 / n_rows:.0f}",
        )
    yield table


def transform(quick: bool) -> Iterator[Table]:
    """Time to transform new rows."""
    table = Table(
        "Transform of the test rows, as many features each (5 per class), CPU ms, medians of 15",
        ["set", "rows", "features", "MMDA, 500 landmarks", "KernelPCA", "ratio"],
    )
    for name in SMALL:
        task = official(name)
        n = 5 * task.n_classes
        ours = MMDA(5, gamma=task.gamma, random_state=0).fit(task.X, task.y)
        pca = KernelPCA(
            n, kernel="rbf", gamma=task.gamma, eigen_solver="randomized", random_state=0
        ).fit(task.X)
        times = [1000 * median_seconds(15, model.transform, task.X_test) for model in (ours, pca)]
        table.add(
            name,
            len(task.X_test),
            n,
            f"{times[0]:.1f}",
            f"{times[1]:.1f}",
            f"{times[1] / times[0]:.1f}x",
        )
    yield table


def fit_usps(task: Any) -> dict[str, Any]:
    return _without_machine(fit(task, 10))


def neighbors_usps(task: Any) -> dict[str, Any]:
    """1-NN accuracies of 2, 6 and 10 features."""
    machine = fit(task, 10)["machine"]
    A, B = machine.transform(task.X), machine.transform(task.X_test)
    return {
        f"{k}": KNeighborsClassifier(1, algorithm="kd_tree")
        .fit(A[:, :k], task.y)
        .score(B[:, :k], task.y_test)
        for k in (2, 6, 10)
    }


def usps(quick: bool) -> Iterator[Table]:
    """266,079 rows of 676 pixels."""
    table = Table(
        "Extended USPS, zeros against ones (266,079 / 75,383 x 676, float32), 500 landmarks, C=1: "
        "1-NN accuracy of 2, 6 and 10 features, % (paper: 99.43, 99.43, 99.41)",
        ["part", "2", "6", "10", "CPU s for 10 features", "paper's s", "peak MB"],
    )
    chosen = measure(extended_usps_validation, neighbors_usps)
    table.add("every fifth image held out", *_percents(chosen.answer), "-", "-", "-")
    if not quick:
        run = measure(extended_usps, fit_usps)
        test = measure(extended_usps, neighbors_usps)
        seconds = f"{run.seconds:.1f}"
        peak = f"{run.peak:.0f}"
        table.add("test", *_percents(test.answer), seconds, "10,630", peak)
    yield table


def _percents(answer: dict[str, float]) -> list[str]:
    return [f"{100 * answer[k]:.2f}" for k in ("2", "6", "10")]


BENCHMARKS = {
    "mmda-speed": speed,
    "mmda-growth": growth,
    "mmda-transform": transform,
    "mmda-usps": usps,
}
