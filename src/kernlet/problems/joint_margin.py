"""Centers, weights, intercepts, width and projection of a machine, trained together on rows."""

from __future__ import annotations

from dataclasses import dataclass, fields

from array_api_compat import array_namespace

from kernlet.kernels.lifted import Array, gaussian, lifted_centers, lifted_rows, row_products
from kernlet.problems.losses import Loss


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
        K = gaussian(lifted_rows(_projected(machine, X)), _lifted_centers(machine))
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
        rows, centers = lifted_rows(U), _lifted_centers(machine)
        K = gaussian(rows, centers)
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
    return lifted_centers(machine.centers, xp.exp(machine.log_gamma))


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
