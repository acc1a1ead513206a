"""Condensers: accuracy against fraction kept, and cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import numpy as np
from imblearn.under_sampling import (
    AllKNN,
    CondensedNearestNeighbour,
    EditedNearestNeighbours,
    NeighbourhoodCleaningRule,
)
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.tables import Table
from benchmarks.timing import measure
from kernlet import BoundaryCondenser, CentroidCondenser, TypicalCondenser
from kernlet.datasets import load
from papers.cache import timed
from papers.neighbors import Condense, all_rows, choose_k, random_subset, scores
from papers.tasks import Task

SETS = ("usps", "satimage", "pendigits", "letter", "optdigits")
N_SEEDS = 10
SHARES = (0.02, 0.05, 0.12, 0.18)


def split(name: str) -> Task:
    """An official split, in float64."""
    data = load(name)
    X, X_test = (np.asarray(A, dtype=float) for A in (data.X, data.X_test))
    return Task(X, data.y, X_test, data.y_test)


def by(*condensers: Any) -> Condense:
    """Condensers in sequence, each with the seed if it is random."""

    def condense(X: Any, y: Any, seed: int) -> tuple[Any, Any]:
        for condenser in condensers:
            if "random_state" in condenser.get_params():
                condenser.set_params(random_state=seed)
            X, y = condenser.fit_resample(X, y)
        return X, y

    return condense


def condensers(quick: bool) -> dict[str, tuple[Condense, int]]:
    """Condensers with their numbers of seeds: one if nothing is random."""
    boundary = BoundaryCondenser(threshold=300)
    methods: dict[str, tuple[Condense, int]] = {
        "all rows": (all_rows, 1),
        "typical, linear": (by(TypicalCondenser()), 1),
        "typical, rbf": (by(TypicalCondenser(kernel="rbf")), 5),
        "typical as written": (by(TypicalCondenser(form="literal")), 1),
        "boundary, T=300": (by(boundary), 1),
        "boundary as written, T=300": (by(BoundaryCondenser(threshold=300, form="literal")), 1),
        "typical, then boundary": (by(TypicalCondenser(), boundary), 1),
    }
    for share in SHARES:
        methods[f"centroids, {100 * share:.0f} %"] = by(CentroidCondenser(share)), N_SEEDS
    for peer in (EditedNearestNeighbours, AllKNN, NeighbourhoodCleaningRule):
        methods[peer.__name__] = by(peer(sampling_strategy="all")), 1
    if not quick:  # slow
        peer = CondensedNearestNeighbour
        methods[peer.__name__] = by(peer(sampling_strategy="all")), 5
    return methods


def sets(quick: bool) -> Iterator[Table]:
    """Accuracy against fraction kept, compared with a random subset of the same size."""
    for name in SETS[:1] if quick else SETS:
        data = split(name)
        table = Table(
            f"{name}: {len(data.X):,} training rows, k-NN on {len(data.X_test):,} test rows, k by "
            "five-fold cross-validation on training rows",
            ["condenser", "kept", "k", "accuracy", "random subset", "ahead of it", "CPU s"],
        )
        for title, (condense, n_seeds) in condensers(quick).items():
            click.echo(f"{name}: {title}", err=True)
            table.add(title, *_cells(condense, n_seeds, data, choose_k(condense, data.X, data.y)))
        yield table


def _cells(condense: Condense, n_seeds: int, data: Task, k: int) -> list[str]:
    _, seconds = timed(condense, data.X, data.y, 0)
    kept, accuracies = scores(condense, k, data, n_seeds)
    share = float(np.mean(kept))
    if share == 1:
        return ["100.0 %", str(k), _spread(accuracies), "-", "-", "-"]
    peer = random_subset(share)
    baseline = scores(peer, choose_k(peer, data.X, data.y), data, N_SEEDS)[1]
    ahead = float(np.mean(accuracies) - np.mean(baseline))
    return [
        f"{100 * share:.1f} %",
        str(k),
        _spread(accuracies),
        _spread(baseline),
        f"{ahead:+.2f}",
        f"{seconds:.2f}",
    ]


def _spread(accuracies: list[float]) -> str:
    mean = f"{np.mean(accuracies):.2f}"
    return mean if len(accuracies) == 1 else f"{mean} ± {np.std(accuracies):.2f}"


def predict_neighbors(data: Task) -> dict[str, Any]:
    KNeighborsClassifier(5).fit(data.X, data.y).predict(data.X_test)
    return {"rows": len(data.X)}


def remove_typical(data: Task) -> dict[str, Any]:
    return {"rows": len(TypicalCondenser().fit_resample(data.X, data.y)[0])}


def remove_typical_rbf(data: Task) -> dict[str, Any]:
    condenser = TypicalCondenser(kernel="rbf", random_state=0)
    return {"rows": len(condenser.fit_resample(data.X, data.y)[0])}


def remove_boundary(data: Task) -> dict[str, Any]:
    return {"rows": len(BoundaryCondenser(300).fit_resample(data.X, data.y)[0])}


def take_centroids(data: Task) -> dict[str, Any]:
    condenser = CentroidCondenser(0.12, random_state=0)
    return {"rows": len(condenser.fit_resample(data.X, data.y)[0])}


def edit_neighbors(data: Task) -> dict[str, Any]:
    return {
        "rows": len(
            EditedNearestNeighbours(sampling_strategy="all").fit_resample(data.X, data.y)[0]
        )
    }


def cost(quick: bool) -> Iterator[Table]:
    """CPU time of condensing USPS against one k-NN prediction of its test set."""
    table = Table(
        "Condensing USPS against one prediction of its test part by 5-NN with all rows",
        ["work", "CPU s", "of a prediction", "rows left"],
    )
    works = {
        "5-NN prediction of 2,007 rows": predict_neighbors,
        "TypicalCondenser()": remove_typical,
        "BoundaryCondenser(300)": remove_boundary,
        'TypicalCondenser(kernel="rbf")': remove_typical_rbf,
        "CentroidCondenser(0.12)": take_centroids,
        "EditedNearestNeighbours (imbalanced-learn)": edit_neighbors,
    }
    whole = None
    for name, work in works.items():
        run = measure(split, work, "usps", repeats=7)
        whole = whole or run.seconds
        ratio = f"{run.seconds / whole:.2f}"
        table.add(name, f"{run.seconds:.3f}", ratio, f"{run.answer['rows']:,}")
    yield table


BENCHMARKS = {"condense-sets": sets, "condense-cost": cost}
