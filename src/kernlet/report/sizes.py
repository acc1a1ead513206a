"""Other sizes of a machine, and an SVC, trained on half of the rows and tested on the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from kernlet.estimators import CompactKernelClassifier
from kernlet.export import ShippedModel
from kernlet.report.peers import fit_svc

_MOST_ROWS = 4000
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
    model: ShippedModel,
    X: Any,
    y: Any,
    *,
    training: tuple[Any, Any] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Sizes | None:
    """Train compact machines about the size of one, and a tuned SVC.

    Parameters
    ----------
    model : ShippedModel
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
    some = np.random.RandomState(0).permutation(len(y_train))[:_MOST_ROWS]
    scaled = (lambda A: A) if model.scaler is None else model.scaler
    train, y_train = scaled(X_train[some]), y_train[some]
    X, y = X[:_MOST_ROWS], y[:_MOST_ROWS]
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
