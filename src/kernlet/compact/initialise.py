"""Initial RBF networks: from clusters, from points, or from a given model."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import solve
from sklearn.base import is_classifier
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.svm import SVR, NuSVR
from sklearn.utils import check_array
from sklearn.utils.extmath import randomized_svd
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from kernlet._typing import Floats, Indices
from kernlet.compact.network import (
    Examples,
    Machine,
    Task,
)
from kernlet.compact.plan import Layout
from kernlet.devices import to_numpy
from kernlet.expansion import KernelExpansion
from kernlet.kernels.gram import Gram, row_slices
from kernlet.kernels.rbf import RBF
from kernlet.model.model import as_classifier
from kernlet.quantization import QuantizedExpansion


def scaled_machine(expansion: KernelExpansion, shift: float, scale: float) -> Machine:
    """An rbf machine in inputs (x - shift) / scale, as arrays of numpy.

    Parameters
    ----------
    expansion : KernelExpansion
    shift, scale : float

    Returns
    -------
    machine : Machine
    """
    centers = expansion.centers
    centers = centers.toarray() if sparse.issparse(centers) else centers
    gamma = expansion.kernel.gamma * scale**2  # type: ignore[attr-defined]
    return Machine(
        (centers - shift) / scale,
        expansion.coef,
        expansion.intercept,
        np.log(np.array([gamma])),
    )


_SAMPLE = 10_000  # rows that a start looks at, or twenty a center if that is more
_SAMPLE_NUMBERS = 2**26  # in all rows of a sample, unless the centers need more
_WIDE = 1000  # features from which few directions are found by sampling
_RIDGE = 1e-3
_NOTHING = 1e-12


class Sample:
    """Some scaled rows, with what the start needs to know of them.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
    targets : ndarray of shape (n_rows, n_outputs)
        What the first outputs should be near.
    weights : ndarray of shape (n_rows,)
    groups : ndarray of shape (n_rows,)
        Rows of a group have centers of their own: the classes.
    gamma_factors : tuple of float
        What the usual gamma may be multiplied by; of several, the one at which ridge regression
        does best on rows it has not seen. Numbers want wider kernels than classes do.
    """

    def __init__(
        self,
        rows: Floats,
        targets: Floats,
        weights: Floats,
        groups: Indices,
        gamma_factors: tuple[float, ...] = (1.0,),
    ) -> None:
        self.rows, self.targets, self.weights, self.groups = rows, targets, weights, groups
        self.gamma_factors = gamma_factors

    def projected(self, projection: Floats | None) -> Sample:
        """The rows behind a projection."""
        if projection is None:
            return self
        return self._with(self.rows @ projection.T, slice(None))

    def part(self, rows: Any) -> Sample:
        """Some of the rows."""
        return self._with(self.rows[rows], rows)

    def _with(self, X: Floats, rows: Any) -> Sample:
        return Sample(
            X, self.targets[rows], self.weights[rows], self.groups[rows], self.gamma_factors
        )


def sample_rows(
    n_rows: int, n_features: int, n_centers: int, random: np.random.RandomState
) -> Indices:
    """Row numbers of a sample large enough for so many centers, of bounded memory."""
    size = min(max(_SAMPLE, 20 * n_centers), max(2 * n_centers, _SAMPLE_NUMBERS // n_features))
    if n_rows <= size:
        return np.arange(n_rows)
    return np.sort(random.choice(n_rows, size, replace=False))


def principal_projection(sample: Sample, rank: int) -> Floats:
    """The directions of largest variance, as rows; the identity where all are kept.

    Time is n_rows n_features^2 + n_features^3; many features and few directions take about
    n_rows n_features rank instead.
    """
    n_features = sample.rows.shape[1]
    if rank >= n_features:
        return np.eye(n_features)
    shares = sample.weights / sample.weights.sum()
    rows = sample.rows - (shares @ sample.rows).astype(sample.rows.dtype)
    if n_features > _WIDE and 4 * rank < n_features:
        rows *= np.sqrt(shares)[:, None].astype(rows.dtype)
        _, _, directions = randomized_svd(rows, rank, random_state=0)
    else:
        _, vectors = np.linalg.eigh((rows * shares[:, None]).T.astype(np.float64) @ rows)
        directions = vectors[:, ::-1][:, :rank].T
    signs = np.sign(directions[np.arange(rank), np.abs(directions).argmax(axis=1)])
    return np.ascontiguousarray(directions * signs[:, None])


def cluster_centers(
    sample: Sample, n_centers: int, random: np.random.RandomState
) -> tuple[Floats, Indices]:
    """k-means in every group, with equally many centers.

    Parameters
    ----------
    sample : Sample
    n_centers : int
        With fewer of them than groups, the groups are put together.
    random : RandomState

    Returns
    -------
    centers : ndarray of shape (n_centers, n_features)
    groups : ndarray of shape (n_centers,)
        The group of each center; -1 for all.
    """
    labels, codes = np.unique(sample.groups, return_inverse=True)
    if n_centers < len(labels):
        labels, codes = np.array([-1]), np.zeros_like(codes)
    shares = _share_out(np.bincount(codes), n_centers)
    centers, groups = [], []
    for label, share in enumerate(shares):
        mine = codes == label
        centers.append(kmeans(sample.rows[mine], int(share), random, sample.weights[mine]))
        groups.append(np.full(len(centers[-1]), labels[label]))
    return np.vstack(centers), np.concatenate(groups)


def first_gamma(sample: Sample, centers: Floats, groups: Indices, noise: float = 0.0) -> float:
    """Two over the mean squared distance from a row to the nearest center of its group.

    Every center takes one row out of the mean, since a lone row is its own center; the noise that
    rows will have in training is added.
    """
    distances = np.empty(len(sample.rows))
    for group in np.unique(groups):
        mine = sample.groups == group if group >= 0 else np.full(len(distances), True)
        some = centers[groups == group]
        distances[mine] = _nearest(sample.rows[mine], some)
    mean = float(np.average(distances, weights=sample.weights))
    n_rows, n_features = sample.rows.shape
    mean *= n_rows / max(1, n_rows - len(centers))
    mean += noise**2 * n_features
    spread = float(sample.rows.var(axis=0).sum())
    if mean > 1e-3 * spread:
        return 2.0 / mean
    return 2.0 / spread if spread else 1.0


def first_coefficients(sample: Sample, centers: Floats, gamma: float) -> Floats:
    """Ridge regression of the targets on the kernel values, by blocks of rows."""
    shares = sample.weights / sample.weights.sum()
    normal = np.diag(np.full(len(centers), _RIDGE))
    products = np.zeros((len(centers), sample.targets.shape[1]))
    for rows in row_slices(len(sample.rows), 8 * len(centers)):
        K = _kernel(sample.part(rows), centers, gamma)
        weighted = K * shares[rows, None].astype(K.dtype)
        normal += weighted.T @ K
        products += weighted.T @ sample.targets[rows]
    return solve(normal, products, assume_a="pos").T


def cluster_start(
    sample: Sample,
    n_centers: int,
    rank: int | None,
    random: np.random.RandomState,
    noise: float = 0.0,
) -> Machine:
    """A machine to start from, of k-means centers behind principal directions.

    Parameters
    ----------
    sample : Sample
    n_centers : int
    rank : int or None
    random : RandomState
    noise : float
        That the rows will have in training.

    Returns
    -------
    machine : Machine
        Of numpy arrays, with one width.
    """
    projection = None if rank is None else principal_projection(sample, rank)
    sample = sample.projected(projection)
    centers, groups = cluster_centers(sample, n_centers, random)
    return _complete(sample, centers, first_gamma(sample, centers, groups, noise), projection)


def point_start(sample: Sample, points: Floats, rank: int | None, noise: float = 0.0) -> Machine:
    """A machine to start from, over given centers in scaled inputs."""
    projection = None if rank is None else principal_projection(sample, rank)
    sample = sample.projected(projection)
    centers = points if projection is None else points @ projection.T
    everyone = np.full(len(centers), -1)
    return _complete(sample, centers, first_gamma(sample, centers, everyone, noise), projection)


def _complete(sample: Sample, centers: Floats, gamma: float, projection: Floats | None) -> Machine:
    gamma = _best_gamma(sample, centers, gamma)
    coef = first_coefficients(sample, centers, gamma)
    intercept = np.zeros(len(coef))
    return Machine(centers, coef, intercept, np.log(np.array([gamma])), projection)


def _best_gamma(sample: Sample, centers: Floats, gamma: float) -> float:
    """The gamma at which ridge regression on two thirds of the rows does best on the others."""
    gammas = [factor * gamma for factor in sample.gamma_factors]
    if len(gammas) == 1 or len(sample.rows) < 3:
        return gammas[0]
    thirds = np.arange(len(sample.rows)) % 3
    seen, unseen = sample.part(thirds > 0), sample.part(thirds == 0)
    errors = []
    for tried in gammas:
        outputs = _kernel(unseen, centers, tried) @ first_coefficients(seen, centers, tried).T
        squares = np.mean((outputs - unseen.targets) ** 2, axis=1)
        errors.append(np.average(squares, weights=unseen.weights))
    return gammas[int(np.argmin(errors))]


def _kernel(sample: Sample, centers: Floats, gamma: float) -> Floats:
    gram = Gram(RBF(gamma), sample.rows, centers.astype(sample.rows.dtype), dtype=np.float32)
    K = gram.block(slice(None), slice(None))
    K[K < _NOTHING] = 0.0  # squares of smaller values are too small for fast arithmetic
    return K


def _share_out(counts: Indices, n_centers: int) -> Indices:
    """Centers of each group: equally many, and no more than it has rows."""
    shares = np.zeros_like(counts)
    left = min(n_centers, int(counts.sum()))
    while left:
        open_groups = np.flatnonzero(shares < counts)
        each = max(1, left // len(open_groups))
        for group in open_groups[: left // each]:
            more = min(each, counts[group] - shares[group])
            shares[group] += more
            left -= more
    return shares


def kmeans(rows: Floats, n_centers: int, random: Any, weights: Floats | None = None) -> Floats:
    """Centers of clusters; the rows themselves where there are no more of them."""
    if n_centers >= len(rows):
        return rows
    model = KMeans(n_centers, n_init=1, max_iter=10, random_state=random)
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different rows than centers
        return model.fit(rows, sample_weight=weights).cluster_centers_


def _nearest(X: Floats, Z: Floats) -> Floats:
    """Squared distances from the rows of X to the nearest rows of Z, by blocks of rows."""
    distances = np.empty(len(X))
    norms = (Z * Z).sum(axis=1)
    for rows in row_slices(len(X), 8 * len(Z)):
        beyond = norms - 2 * (X[rows] @ Z.T)
        distances[rows] = beyond.min(axis=1) + (X[rows] * X[rows]).sum(axis=1)
    return np.maximum(distances, 0)


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
        front = self.machine.input_map
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
    assert expansion.input_map is not None
    return Machine(
        expansion.centers,
        expansion.coef,
        expansion.intercept,
        np.log(expansion.gamma),
        expansion.input_map.matrix,
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
    model = as_classifier(init)
    if model.steps or model.scaler is not None or model.encoding is not None:
        raise ValueError(
            "init is a Pipeline with steps in front of the machine, whose centers live behind "
            "them. Put these steps in front of this estimator too, and give the last step as init."
        )
    if not np.array_equal(model.classes, classes):
        raise ValueError(
            f"init was trained for the classes {list(model.classes)}, but y holds {list(classes)}."
        )
    usable = model.scheme in ("one output", "one vs rest")
    return _initial_machine(model.expansion, n_features, usable)


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
    is_rbf = isinstance(expansion.kernel, RBF) and expansion.kernel.is_mercer
    is_rbf = is_rbf and expansion.input_map is None
    return Initial(centers, expansion if usable and is_rbf else None)


def _initial_points(init: Any, n_features: int) -> Initial:
    points = check_array(init, dtype=np.float64, input_name="init")
    if points.shape[1] != n_features:
        raise ValueError(
            f"init holds points of {points.shape[1]} features, but X has {n_features}."
        )
    return Initial(points)
