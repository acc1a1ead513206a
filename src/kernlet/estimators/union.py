"""Candidates that small machines on parts of the rows have chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from kernlet.estimators.base import TrainingData
from kernlet.estimators.candidates import Candidates
from kernlet.kernels import Kernel
from kernlet.rows import as_rows

_PARTS, _ROWS_A_PART = 10, 1000


def union_of_choices(estimator: Any, kernel: Kernel, data: TrainingData, seed: int) -> Candidates:
    """The centers of machines on a sample of each tenth of the rows, which are shuffled.

    Each machine may choose from all rows of its sample, at the C that makes the errors of
    the sample weigh as much as those of all rows.

    Parameters
    ----------
    estimator : L1KernelClassifier
    kernel : Kernel
    data : TrainingData
    seed : int

    Returns
    -------
    candidates : Candidates
    """
    rows = as_rows(data.X)
    random = np.random.RandomState(seed)
    weighing = random.permutation(np.flatnonzero(data.sample_weight))
    chosen = []
    for part in np.array_split(weighing, min(_PARTS, len(weighing))):
        numbers = np.sort(part[:_ROWS_A_PART])
        labels = data.y[numbers]
        if len(np.unique(labels)) < 2:
            continue
        machine = clone(estimator).set_params(
            C=estimator.C * len(weighing) / len(numbers),
            kernel=kernel,
            candidates=None,
            solver="generation",
            tol=1e-3,
            checkpoint=None,
            random_state=0,
        )
        machine.fit(rows.take(numbers), labels, np.ascontiguousarray(data.sample_weight[numbers]))
        chosen.append(numbers[machine.center_indices_])
    if not chosen or not sum(map(len, chosen)):
        raise ValueError(
            'candidates="union" found no center: the samples of all parts hold one class only, or '
            "their machines are constant. Give candidates as a number of rows."
        )
    numbers = np.unique(np.concatenate(chosen))
    return Candidates(rows.take(numbers), numbers)
