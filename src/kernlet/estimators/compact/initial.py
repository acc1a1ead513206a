"""What a training starts from: clusters of rows, points, or a trained machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.svm import SVR, NuSVR
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from kernlet.devices import to_numpy
from kernlet.estimators.adopt import adopt
from kernlet.estimators.compact.layout import Layout
from kernlet.estimators.compact.start import Sample, cluster_start, kmeans, point_start, sample_rows
from kernlet.estimators.compact.task import Task
from kernlet.expansion import KernelExpansion
from kernlet.kernels import RBF
from kernlet.kernels.kernel import Floats
from kernlet.problems.joint_margin import Machine
from kernlet.quantized import QuantizedExpansion
from kernlet.reduce.joint import scaled_machine
from kernlet.solvers.examples import Examples

# What the usual gamma may be multiplied by where the targets are numbers.
_REGRESSION_FACTORS = (1.0, 1 / 4, 1 / 16, 1 / 64)


@dataclass(frozen=True, eq=False)
class Initial:
    """What a training starts from.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_features)
        Centers, in the inputs as the user has them; None for a machine behind a projection.
    machine : KernelExpansion or None
        The machine whose centers they are, where its outputs are those wanted.
    """

    points: Floats | None
    machine: KernelExpansion | None = None

    @property
    def n_centers(self) -> int:
        """Centers to start from."""
        if self.points is not None:
            return len(self.points)
        assert self.machine is not None
        return self.machine.n_centers

    @property
    def scaling(self) -> tuple[float, float] | None:
        """The shift and the scale that the machine carries, where it has them."""
        if not isinstance(self.machine, QuantizedExpansion):
            return None
        front = self.machine.front
        assert front is not None
        return float(front.shift[0]), self.machine.input_scale

    def scaled_points(self, shift: float, scale: float) -> Floats:
        """The points in scaled inputs."""
        assert self.points is not None
        return (self.points - shift) / scale

    def scaled_machine(self, shift: float, scale: float) -> Machine | None:
        """The machine in scaled inputs."""
        if isinstance(self.machine, QuantizedExpansion):
            return decoded_machine(self.machine)
        return None if self.machine is None else scaled_machine(self.machine, shift, scale)


@dataclass(frozen=True, eq=False)
class Starts:
    """Starts for layouts, from the rows to train on or from what the user gave.

    Parameters
    ----------
    task : Task
    kept : Examples
        The rows to train on.
    initial : Initial or None
        None for clusters of the rows.
    noise : float
        That the rows will have in training.
    """

    task: Task
    kept: Examples
    initial: Initial | None
    noise: float

    def __call__(self, layout: Layout, random: np.random.RandomState) -> Machine:
        """A machine of a layout to start from, of numpy arrays."""
        sample = self._sample(layout.n_centers, random)
        if self.initial is None:
            return cluster_start(sample, layout.n_centers, layout.rank, random, self.noise)
        shift, scale = self.kept.shift, self.kept.scale
        machine = self.initial.scaled_machine(shift, scale)
        if machine is not None and _has_shape(machine, layout):
            return machine
        points = kmeans(self.initial.scaled_points(shift, scale), layout.n_centers, random)
        return point_start(sample, points, layout.rank, self.noise)

    def _sample(self, n_centers: int, random: np.random.RandomState) -> Sample:
        chosen = sample_rows(self.kept.n_rows, self.kept.n_features, n_centers, random)
        rows = self.task.kept[chosen]
        return Sample(
            to_numpy(self.kept.rows(self.kept.as_indices(chosen))),
            self.task.first_targets(rows),
            self.task.weights[rows],
            self.task.groups[rows],
            (1.0,) if self.task.table is not None else _REGRESSION_FACTORS,
        )


def _has_shape(machine: Machine, layout: Layout) -> bool:
    rank = None if machine.projection is None else len(machine.projection)
    return len(machine.centers) == layout.n_centers and rank == layout.rank


def decoded_machine(expansion: QuantizedExpansion) -> Machine:
    """The machine that the tables stand for, as arrays of numpy in scaled inputs."""
    assert expansion.front is not None
    return Machine(
        expansion.centers,
        expansion.coef,
        expansion.intercept,
        np.log(expansion.gamma),
        expansion.front.matrix,
    )


def initial_classifier(init: Any, n_features: int, classes: Any) -> Initial:
    """Points or a trained classifier, to start from.

    Parameters
    ----------
    init : array-like, or a fitted kernel classifier
    n_features : int
    classes : ndarray of shape (n_classes,)

    Returns
    -------
    initial : Initial
    """
    if not hasattr(init, "fit"):
        return _initial_points(init, n_features)
    adopted = adopt(init)
    if adopted.preprocessing:
        raise ValueError(
            "init is a Pipeline with steps in front of the machine, whose centers live behind "
            "them. Put these steps in front of this estimator too, and give the last step as init."
        )
    if not np.array_equal(adopted.classes, classes):
        raise ValueError(
            f"init was trained for the classes {list(adopted.classes)}, but y holds "
            f"{list(classes)}."
        )
    usable = adopted.scheme in ("one output", "one vs rest")
    return _initial_machine(adopted.expansion, n_features, usable)


def initial_regressor(init: Any, n_features: int, n_outputs: int) -> Initial:
    """Points or a trained regressor, to start from.

    Parameters
    ----------
    init : array-like, or a fitted CompactKernelRegressor, SVR or NuSVR
    n_features : int
    n_outputs : int

    Returns
    -------
    initial : Initial
    """
    if not hasattr(init, "fit"):
        return _initial_points(init, n_features)
    init = init.estimator if isinstance(init, FrozenEstimator) else init
    check_is_fitted(init)
    if isinstance(init, SVR | NuSVR):
        points = init.support_vectors_
        points = points.toarray() if hasattr(points, "toarray") else points
        return _initial_points(points, n_features)
    if is_classifier(init) or not isinstance(getattr(init, "expansion_", None), KernelExpansion):
        raise TypeError(
            f"init={type(init).__name__} is no kernel regressor. Give a fitted "
            'CompactKernelRegressor, SVR or NuSVR, an array of points, or "kmeans".'
        )
    expansion = init.expansion_
    if expansion.n_outputs != n_outputs:
        raise ValueError(
            f"init predicts {expansion.n_outputs} numbers a row, but y holds {n_outputs}."
        )
    return _initial_machine(expansion, n_features, usable=True)


def _initial_machine(expansion: KernelExpansion, n_features: int, usable: bool) -> Initial:
    if expansion.n_features != n_features:
        raise ValueError(f"init has {expansion.n_features} features, but X has {n_features}.")
    if not expansion.n_centers:
        raise ValueError("init has no centers to start from.")
    if isinstance(expansion, QuantizedExpansion):
        return Initial(None, expansion)
    centers = expansion.centers
    centers = centers.toarray() if hasattr(centers, "toarray") else centers
    is_rbf = isinstance(expansion.kernel, RBF) and expansion.front is None
    return Initial(centers, expansion if usable and is_rbf else None)


def _initial_points(init: Any, n_features: int) -> Initial:
    points = check_array(init, dtype=np.float64, input_name="init")
    if points.shape[1] != n_features:
        raise ValueError(
            f"init holds points of {points.shape[1]} features, but X has {n_features}."
        )
    return Initial(points)
