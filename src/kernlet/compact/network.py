"""Loss and gradient of a Gaussian RBF network, over batches of rows."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np
from array_api_compat import array_namespace
from scipy import sparse

from kernlet._typing import Array, Floats, Indices
from kernlet.devices import NUMPY, Device
from kernlet.kernels.gram import canonical_csr, row_slices
from kernlet.kernels.rbf import augment_centers, augment_rows, gaussian_matmul, row_products
from kernlet.rows.source import RowReader


class Loss(Protocol):
    """A loss of outputs f and targets t, both of shape (n_rows, n_outputs)."""

    def value_and_pull(self, outputs: Array, targets: Array) -> tuple[Array, Array]:
        """The loss of each row, of shape (n_rows,), and its derivative by the outputs."""
        ...


@dataclass(frozen=True)
class CrossEntropy:
    """-sum_c t_c log p_c with p the softmax of the outputs (with one output, of (0, f)).

    The targets of a row add up to 1.

    Parameters
    ----------
    smoothing : float
        In [0, 1): the share of the uniform distribution in the targets.
    """

    smoothing: float = 0.1

    def target_table(self, n_classes: int) -> Floats:
        """The targets of each class, of shape (n_classes, n_outputs)."""
        table = (1 - self.smoothing) * np.eye(n_classes) + self.smoothing / n_classes
        return table if n_classes > 2 else table[:, 1:]

    def value_and_pull(self, outputs: Array, targets: Array) -> tuple[Array, Array]:
        """The loss of each row, and its derivative by the outputs."""
        xp = array_namespace(outputs)
        if outputs.shape[1] == 1:
            small = xp.exp(-xp.abs(outputs))
            positive = xp.where(outputs > 0, outputs, xp.zeros_like(outputs))
            values = positive + xp.log1p(small) - targets * outputs
            chance = xp.where(outputs > 0, 1 / (1 + small), small / (1 + small))
            return values[:, 0], chance - targets
        logits = outputs - xp.max(outputs, axis=1, keepdims=True)
        powers = xp.exp(logits)
        sums = xp.sum(powers, axis=1, keepdims=True)
        values = xp.log(sums[:, 0]) - xp.sum(targets * logits, axis=1)
        return values, powers / sums - targets


@dataclass(frozen=True)
class SquaredHingeLoss:
    """The sum over outputs of max(0, 1 - t_c f_c)^2 / 2, the targets being signs."""

    def target_table(self, n_classes: int) -> Floats:
        """The targets of each class, of shape (n_classes, n_outputs)."""
        table = 2.0 * np.eye(n_classes) - 1.0
        return table if n_classes > 2 else table[:, 1:]

    def value_and_pull(self, outputs: Array, targets: Array) -> tuple[Array, Array]:
        """The loss of each row, and its derivative by the outputs."""
        xp = array_namespace(outputs)
        errors = 1 - targets * outputs
        errors = xp.where(errors > 0, errors, xp.zeros_like(errors))
        return xp.sum(errors * errors, axis=1) / 2, -targets * errors


@dataclass(frozen=True)
class SquaredError:
    """The sum over outputs of (f_c - t_c)^2 / 2."""

    def value_and_pull(self, outputs: Array, targets: Array) -> tuple[Array, Array]:
        """The loss of each row, and its derivative by the outputs."""
        errors = outputs - targets
        return array_namespace(outputs).sum(errors * errors, axis=1) / 2, errors


@dataclass(frozen=True)
class Huber:
    """The squared error of small errors, and a line beyond ``delta``.

    Parameters
    ----------
    delta : float
        In the units of the targets.
    """

    delta: float = 1.0

    def value_and_pull(self, outputs: Array, targets: Array) -> tuple[Array, Array]:
        """The loss of each row, and its derivative by the outputs."""
        xp = array_namespace(outputs)
        errors = outputs - targets
        pull = xp.clip(errors, -self.delta, self.delta)
        return xp.sum(pull * (errors - pull / 2), axis=1), pull


def rounded(values: Array, log_step: Array, n_levels: int) -> Array:
    """The nearest multiples of a step, from -n_levels to n_levels of them.

    Parameters
    ----------
    values : array
    log_step : array of shape (1,)
        The logarithm of the step.
    n_levels : int
        Multiples of the step on either side of 0.

    Returns
    -------
    rounded : array of the shape of values

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.compact.network import rounded
    >>> rounded(np.array([0.2, 0.9, 5.0]), np.array([0.0]), 2)
    array([0., 1., 2.])
    """
    xp = array_namespace(values)
    step = xp.exp(log_step)
    return xp.clip(xp.round(values / step), -n_levels, n_levels) * step


def through_rounding(
    slopes: Array, values: Array, log_step: Array, n_levels: int
) -> tuple[Array, Array]:
    """Derivatives by the numbers and by the log of their step, from those by the rounded numbers.

    Learned step size quantisation (Esser et al., 2020): rounding passes a derivative on as if it
    were not there, except beyond the last level; the step feels the error it makes.

    Parameters
    ----------
    slopes : array
        Derivatives by the rounded numbers.
    values : array
        The numbers before rounding.
    log_step : array of shape (1,)
    n_levels : int

    Returns
    -------
    by_values : array of the shape of values
    by_log_step : array of shape (1,)
    """
    xp = array_namespace(values)
    step = xp.exp(log_step)
    multiples = values / step
    codes = xp.clip(xp.round(multiples), -n_levels, n_levels)
    inside = xp.astype(xp.abs(multiples) <= n_levels, values.dtype)
    by_step = xp.sum(slopes * (codes - inside * multiples))
    return slopes * inside, by_step * step


@dataclass(frozen=True, eq=False)
class Machine:
    """A Gaussian machine as a few arrays, or a gradient by them.

    f_c(x) = sum_j weights[c, j] exp(-gamma_j |P x - centers[j]|^2) + intercept[c], with one
    gamma for all centers or one for each, and with P the identity where there is no projection.

    Parameters
    ----------
    centers : array of shape (n_centers, rank)
    weights : array of shape (n_outputs, n_centers)
    intercept : array of shape (n_outputs,)
    log_gamma : array of shape (1,) or (n_centers,)
    projection : array of shape (rank, n_features), default=None
    """

    centers: Array
    weights: Array
    intercept: Array
    log_gamma: Array
    projection: Array | None = None

    def arrays(self) -> dict[str, Array]:
        """The arrays by name, without a projection that is not there."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: array for name, array in named.items() if array is not None}


@dataclass(frozen=True)
class JointMargin:
    """The weighted mean loss of a machine on a batch of rows, and its gradient.

    Exponents are one product of matrices, -gamma_j |u - z_j|^2 = a.c_j with a = (u, |u|^2, 1) and
    c_j = (2 gamma_j z_j, -gamma_j, -gamma_j |z_j|^2); their gradient by all c_j is another one.
    Apart from these a batch is gone through twice, for the exponential and for its derivative.
    Arrays may be numpy's or of any library that follows the array API standard.

    Parameters
    ----------
    loss : Loss
    """

    loss: Loss

    def outputs(self, machine: Machine, X: Array) -> Array:
        """Outputs of all rows, of shape (n_rows, n_outputs)."""
        K = gaussian_matmul(augment_rows(_projected(machine, X)), _lifted_centers(machine))
        return K @ machine.weights.T + machine.intercept

    def value_and_gradient(
        self, machine: Machine, X: Array, targets: Array, row_weights: Array
    ) -> tuple[Array, Machine]:
        """The loss of a batch and its gradient, in the precision of the machine.

        Time is about 4 n_rows n_centers rank, and 4 n_rows rank n_features with a projection;
        memory two matrices of n_rows x n_centers.

        Parameters
        ----------
        machine : Machine
        X : array of shape (n_rows, n_features)
        targets : array of shape (n_rows, n_outputs)
            As the loss wants them.
        row_weights : array of shape (n_rows,)
            Of mean 1 over all rows, so that a batch of heavy rows counts for more.

        Returns
        -------
        value : array of no dimension
        gradient : Machine
        """
        xp = array_namespace(X)
        U = _projected(machine, X)
        rows, centers = augment_rows(U), _lifted_centers(machine)
        K = gaussian_matmul(rows, centers)
        losses, pull = self.loss.value_and_pull(K @ machine.weights.T + machine.intercept, targets)
        shares = row_weights / X.shape[0]
        pull = pull * shares[:, None]
        by_weights, by_intercept = pull.T @ K, xp.sum(pull, axis=0)
        K *= pull @ machine.weights
        by_lifted = K.T @ rows
        by_centers, by_log_gamma = _through_lifted_centers(machine, by_lifted)
        by_projection = None
        if machine.projection is not None:
            by_rows = K @ centers
            by_projection = (by_rows[:, :-2] + 2 * by_rows[:, -2:-1] * U).T @ X
        gradient = Machine(by_centers, by_weights, by_intercept, by_log_gamma, by_projection)
        return xp.sum(shares * losses), gradient


def _projected(machine: Machine, X: Array) -> Array:
    return X if machine.projection is None else X @ machine.projection.T


def _lifted_centers(machine: Machine) -> Array:
    xp = array_namespace(machine.log_gamma)
    return augment_centers(machine.centers, xp.exp(machine.log_gamma))


def _through_lifted_centers(machine: Machine, slopes: Array) -> tuple[Array, Array]:
    """Derivatives by centers and log gamma, from those by the lifted centers."""
    xp = array_namespace(slopes)
    Z, gamma = machine.centers, xp.exp(machine.log_gamma)
    by_products, by_gamma, by_squares = slopes[:, :-2], slopes[:, -2], slopes[:, -1]
    by_centers = by_products - by_squares[:, None] * Z
    by_centers *= 2 * gamma[:, None]
    by_gamma = 2 * row_products(Z, by_products) - by_gamma
    by_gamma = by_gamma - by_squares * row_products(Z, Z)
    if gamma.shape[0] == 1:
        by_gamma = xp.sum(by_gamma)[None]
    return by_centers, gamma * by_gamma


#: Rows that take no more than this in float32 are converted once and held, others at each use.
HELD_BYTES = 2**30


class Examples:
    """Rows (x - shift) / scale in float32 on a device, with targets and weights.

    Memory beyond X is at most ``HELD_BYTES`` for the rows, and what the targets take.

    Parameters
    ----------
    X : {ndarray, sparse matrix, RowReader} of shape (n_rows, n_features)
    targets : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        Class numbers where there is a table, otherwise the targets themselves.
    weights : ndarray of shape (n_rows,)
    table : ndarray of shape (n_classes, n_outputs), default=None
        The targets of each class.
    shift, scale : float
    device : Device
    """

    def __init__(
        self,
        X: Any,
        targets: Any,
        weights: Floats,
        *,
        table: Floats | None = None,
        shift: float = 0.0,
        scale: float = 1.0,
        device: Device = NUMPY,
    ) -> None:
        self.shift, self.scale, self.device = shift, scale, device
        self.n_rows, self.n_features = X.shape
        self._table = None if table is None else device.send(table)
        if table is None:
            self._targets = device.send(targets if np.ndim(targets) == 2 else targets[:, None])
        else:
            self._targets = device.send(np.asarray(targets, dtype=np.int64), floats=False)
        self._weights = device.send(weights)
        self._X: Any = X
        self._held: Array = None
        self._numbers: Indices | None = None
        if 4 * self.n_rows * self.n_features <= HELD_BYTES:
            self._held, self._X = device.send(self._all_scaled()), None

    def part(self, numbers: Indices) -> Examples:
        """Some of the rows, by their numbers; they stay where they are."""
        part = copy(self)
        part._numbers, part.n_rows = numbers, len(numbers)
        return part

    @property
    def is_held(self) -> bool:
        """Whether all rows are on the device."""
        return self._held is not None

    def as_indices(self, rows: Indices) -> Array:
        """What the methods below want: row numbers of all rows, on the device if they are."""
        if self._numbers is not None:
            rows = self._numbers[rows]
        return rows if self._held is None else self.device.send(rows, floats=False)

    def shuffled(self, random: np.random.RandomState) -> Array:
        """All rows in a random order; block by block where the rows are read from a source."""
        if isinstance(self._X, RowReader):
            numbers = np.arange(self.n_rows) if self._numbers is None else self._numbers
            return self.as_indices(self._X.shuffled(numbers, random))
        return self.as_indices(random.permutation(self.n_rows))

    def blocks(self) -> Iterator[Array]:
        """All rows, as indices, in blocks of bounded memory."""
        for rows in row_slices(self.n_rows, 4 * self.n_features):
            yield self.as_indices(np.arange(rows.start, rows.stop))

    def rows(self, indices: Any) -> Array:
        """Scaled rows; a copy."""
        if self._held is None:
            return self.device.send(self._scaled(indices))
        return self._take(self._held, indices)

    def targets(self, indices: Any) -> Array:
        """Targets of rows, of shape (n_rows, n_outputs)."""
        targets = self._take(self._targets, indices)
        if self._table is None:
            return targets
        return self.device.namespace.take(self._table, targets, axis=0)

    def weights(self, indices: Any) -> Array:
        """Weights of rows."""
        return self._take(self._weights, indices)

    def _take(self, array: Array, indices: Any) -> Array:
        indices = self.device.send(indices, floats=False)
        return self.device.namespace.take(array, indices, axis=0)

    def _all_scaled(self) -> Floats:
        scaled = np.empty((self.n_rows, self.n_features), np.float32)
        for rows in row_slices(self.n_rows, 8 * self.n_features):
            scaled[rows] = self._scaled(rows)
        return scaled

    def _scaled(self, rows: Any) -> Floats:
        chosen = self._X[rows]
        dense = chosen.toarray() if sparse.issparse(chosen) else chosen
        if dense.dtype == np.float16:
            dense = dense.astype(np.float32)
        scaled: Floats = (dense - self.shift).astype(np.float32, copy=False)
        scaled *= np.float32(1 / self.scale)
        return scaled


def mean_and_deviation(X: Any, weights: Floats | None = None) -> tuple[float, float]:
    """The mean and the standard deviation of all numbers in X; a deviation of 0 becomes 1.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (n_rows, n_features)
    weights : ndarray of shape (n_rows,), default=None

    Returns
    -------
    mean, deviation : float

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.compact.network import mean_and_deviation
    >>> mean_and_deviation(np.array([[1.0, 3.0]]))
    (2.0, 1.0)
    """
    X = canonical_csr(X)
    n_rows, n_features = X.shape
    shares = np.full(n_rows, 1 / n_rows) if weights is None else weights / weights.sum()
    slices = list(row_slices(n_rows, 8 * n_features))
    largest = max(float(np.abs(_stored(X[rows])).max(initial=0.0)) for rows in slices) or 1.0
    mean = square = 0.0
    for rows in slices:
        mean += float(shares[rows] @ (_row_sums(X[rows]) / largest)) / n_features
    for rows in slices:
        part = X[rows]
        if sparse.issparse(part):
            away = part / largest
            sums = _row_sums(away.multiply(away)) - 2 * mean * _row_sums(away)
            square += float(shares[rows] @ (sums + n_features * mean**2)) / n_features
        else:
            away = part / largest - mean
            square += float(shares[rows] @ np.einsum("ij,ij->i", away, away)) / n_features
    if square < 1e-24:  # a constant, up to rounding
        return largest * mean, 1.0
    return largest * mean, largest * float(np.sqrt(square))


def _stored(X: Any) -> Any:
    return X.data if sparse.issparse(X) else X


def _row_sums(X: Any) -> Floats:
    return np.asarray(X.sum(axis=1, dtype=np.float64)).ravel()


@dataclass(frozen=True, eq=False)
class Task:
    """What is to be learned.

    Parameters
    ----------
    X : {ndarray, sparse matrix, RowReader} of shape (n_rows, n_features)
    y : ndarray
        As the user has it.
    weights : ndarray of shape (n_rows,)
    targets : ndarray
        Class numbers, or the numbers to predict, of shape (n_rows, n_outputs).
    table : ndarray of shape (n_classes, n_outputs) or None
        The targets of each class.
    first_table : ndarray of shape (n_classes, n_outputs) or None
        Outputs that a start aims at, for each class.
    loss : Loss
    kept, held_out : ndarray
        Rows to train on, and to judge by.
    """

    X: Any
    y: Any
    weights: Floats
    targets: Any
    table: Floats | None
    first_table: Floats | None
    loss: Loss
    kept: Indices
    held_out: Indices

    @property
    def n_outputs(self) -> int:
        """Outputs of the machine."""
        return int((self.targets if self.table is None else self.table).shape[1])

    @property
    def groups(self) -> Indices:
        """Rows that have centers of their own: the classes."""
        if self.table is None:
            return np.zeros(len(self.targets), dtype=np.intp)
        return self.targets

    def first_targets(self, rows: Indices) -> Floats:
        """What the first outputs should be near."""
        targets = self.targets[rows]
        return targets if self.first_table is None else self.first_table[targets]

    def validation_for_callbacks(self) -> dict[str, Any]:
        """The rows held out, as scikit-learn's callbacks take them."""
        if not len(self.held_out) or isinstance(self.X, RowReader):
            return {}
        return {"X": self.X[self.held_out], "y": self.y[self.held_out]}
