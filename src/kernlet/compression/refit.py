"""Coefficients for given centers: project, match, refit, remove and refine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from kernlet._typing import Floats, Indices
from kernlet.compact.batches import BatchLoader
from kernlet.compact.inputs import Inputs, mean_and_deviation
from kernlet.compact.network import CrossEntropy, KernelNetwork, SquaredHingeLoss
from kernlet.compact.train import RATES, TrainingConfig, train_network
from kernlet.devices import find_device, to_numpy
from kernlet.expansion import KernelExpansion
from kernlet.kernels.base import Kernel, require_mercer
from kernlet.kernels.gram import Gram, kernel_matrix, row_slices
from kernlet.kernels.linalg import jittered_solve
from kernlet.kernels.rbf import RBF
from kernlet.sklearn_base import check_weights

# A ridge on a kernel matrix, as a share of its mean diagonal: round-off, no regularisation. Two
# centers closer than float64 can tell make the matrix singular; this keeps it solvable.
_RIDGE = 1e-10
# The same for normal equations, whose condition number is the square of the features'.
_NORMAL_RIDGE = 1e-12

_STEP_LENGTHS = 0.5 ** np.arange(40)  # a Newton step that overshoots is halved
_SUFFICIENT_DECREASE = 1e-4  # of what the gradient promises: Armijo's rule
_TINY = 1e-300  # a ridge where all costs are zero


def project(expansion: KernelExpansion, centers: Any) -> KernelExpansion:
    """The machine over given centers that is closest in feature space.

    min over W of |U f(C) - W f(Z)|^2, so W K(Z, Z) = U K(C, Z).
    """
    expansion = expansion.unfolded()
    require_mercer(expansion.kernel, "A projection in feature space")
    targets = Gram(expansion.kernel, centers, expansion.centers).dot(expansion.coef.T)
    penalty = kernel_matrix(expansion.kernel, centers, centers)
    coef = jittered_solve(penalty, targets, _ridge(penalty)).T
    return KernelExpansion(expansion.kernel, centers, coef, expansion.intercept)


def match(
    kernel: Kernel,
    centers: Any,
    X: Any,
    values: Floats,
    *,
    ridge: float = 1e-6,
    weights: Floats | None = None,
) -> KernelExpansion:
    """The machine over given centers whose decision values on X are closest to given ones.

    min over W, b of sum_i weights_i |values_i - K(x_i, Z) W' - b|^2 + ridge n_rows W K(Z, Z) W'.
    Time is n_rows * n_centers^2, memory one block of rows.
    """
    require_mercer(kernel, "Matching decision values")
    # Sums over the rows would overflow before the values do. A power of 2 changes no digit.
    unit = 2.0 ** np.floor(np.log2(np.abs(values).max(initial=0.0) or 1.0))
    values = values / unit
    gram = Gram(kernel, X, centers)
    n = centers.shape[0]
    normal, right = np.zeros((n + 1, n + 1)), np.zeros((n + 1, values.shape[1]))
    # Normal equations, summed block by block: X may be large, n_centers is not.
    for rows in row_slices(len(gram.x), 8 * max(n + 1, X.shape[1])):
        block = gram.block(rows, slice(None))
        features = np.hstack([block, np.ones((len(block), 1))])
        weighted = features if weights is None else features * weights[rows, None]
        normal += weighted.T @ features
        right += weighted.T @ values[rows]
    normal[:n, :n] += ridge * len(gram.x) * kernel_matrix(kernel, centers, centers)
    solved = jittered_solve(normal, right, _NORMAL_RIDGE * np.trace(normal) / n).T
    return KernelExpansion(kernel, centers, unit * solved[:, :n], unit * solved[:, n])


def refit(
    kernel: Kernel, centers: Any, X: Any, signs: Floats, *, C: float = 10.0, weights: Any = None
) -> KernelExpansion:
    """The squared-hinge machine over given centers, one output per row of signs.

    It minimises ``1/2 |f|^2 + 1/2 C sum_i weights_i slack_i^2``. Time is n_rows * n_centers^2 per
    Newton step; the kernel block of n_rows x n_centers is held in memory.

    Parameters
    ----------
    kernel : Kernel
        Positive semi-definite.
    centers : array-like of shape (n_centers, n_features)
        The points of the new machine, which stay as they are.
    X : array-like of shape (n_samples, n_features)
        Training rows.
    signs : ndarray of shape (n_outputs, n_samples)
        -1 or 1 for each row: one line per output.
    C : float, default=10.0
        Weight of the squared slacks.
    weights : array-like of shape (n_samples,), default=None
        Weights of the rows; None weighs all by 1.

    Returns
    -------
    KernelExpansion

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.compression.refit import refit
    >>> from kernlet.kernels import RBF
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> machine = refit(RBF(1.0), X[[0, 3]], X, np.array([[-1, -1, 1, 1]]))
    >>> machine.decision_values(X)[:, 0] > 0
    array([False, False,  True,  True])
    """
    require_mercer(kernel, "A machine with a norm in feature space")
    signs = np.atleast_2d(signs)
    if signs.shape[1] != X.shape[0]:
        raise ValueError(
            f"There are {X.shape[0]} rows and signs of {signs.shape[1]}; give a row of signs per "
            "output."
        )
    features = kernel_matrix(kernel, X, centers)
    penalty = kernel_matrix(kernel, centers, centers)
    penalty[np.diag_indices(len(penalty))] += _ridge(penalty)
    costs = C * check_weights(weights, features)
    solutions = [FeatureHinge(features, penalty, row, costs).minimize(tol=1e-6) for row in signs]
    coef = np.array([s.coef for s in solutions])
    intercept = np.array([s.intercept for s in solutions])
    return KernelExpansion(kernel, centers, coef, intercept)


def _ridge(penalty: Floats) -> float:
    return float(max(_RIDGE * np.trace(penalty) / len(penalty), np.finfo(float).tiny))


class HingeSolution(NamedTuple):
    """Coefficients of given features, and how far the search for them came."""

    coef: Floats
    intercept: float
    objective: float
    gradient_norm: float  # largest entry of the gradient, relative to that at zero
    n_iter: int


@dataclass(frozen=True, eq=False)
class FeatureHinge:
    """The squared-hinge problem over given features phi_i, whose intercept is not penalised.

    1/2 w' P w + 1/2 sum_i c_i max(0, 1 - d_i (phi_i w + b))^2; with kernel values at centers as
    features, P = K(centers, centers) makes the first term the norm in feature space.
    """

    features: Floats
    penalty: Floats
    signs: Floats
    costs: Floats

    def slacks(self, point: Floats) -> Floats:
        """max(0, 1 - d_i (phi_i w + b)) at a point (w, b)."""
        return np.maximum(0.0, 1.0 - self.signs * (self.features @ point[:-1] + point[-1]))

    def objective(self, point: Floats) -> float:
        """The objective at a point (w, b)."""
        weights = point[:-1]
        penalty = weights @ self.penalty @ weights
        return float(penalty + self.costs @ self.slacks(point) ** 2) / 2.0

    def gradient(self, point: Floats) -> Floats:
        """Its gradient by (w, b)."""
        pull = self.costs * self.signs * self.slacks(point)
        return np.append(self.penalty @ point[:-1] - pull @ self.features, -pull.sum())

    def minimize(self, *, tol: float = 1e-8, max_iter: int = 100) -> HingeSolution:
        """Newton's method (squared/newton.py explains it), at n_rows n_centers^2 per step.

        ``tol`` is reached by both the gradient relative to that at zero and the Newton decrement
        relative to the objective.
        """
        point: Floats = np.zeros(self.features.shape[1] + 1)
        scale = max(np.abs(self.gradient(point)).max(), np.finfo(float).tiny)
        for n_iter in range(max_iter + 1):
            gradient, objective = self.gradient(point), self.objective(point)
            step = self._newton_step(point, gradient)
            promised = float(gradient @ step)
            decrement = -promised / (2.0 * objective) if objective > 0 else 0.0
            norm = float(np.abs(gradient).max() / scale)
            if max(decrement, norm) <= tol or n_iter == max_iter:
                break
            for length in _STEP_LENGTHS:
                limit = objective + _SUFFICIENT_DECREASE * length * promised
                if self.objective(point + length * step) <= limit:
                    break
            else:  # round-off: no step lowers the objective any more
                break
            point = point + length * step
        return HingeSolution(point[:-1], float(point[-1]), objective, norm, n_iter)

    def _newton_step(self, point: Floats, gradient: Floats) -> Floats:
        """The step to the minimum, if the rows that have an error stay the same."""
        active = self.slacks(point) > 0
        rows = self.features[active]
        weighted = rows * self.costs[active, None]
        n = len(point)
        hessian = np.zeros((n, n))
        hessian[:-1, :-1] = self.penalty + weighted.T @ rows
        hessian[:-1, -1] = hessian[-1, :-1] = weighted.sum(axis=0)
        hessian[-1, -1] = self.costs[active].sum()
        return -jittered_solve(hessian, gradient, max(1e-15 * np.trace(hessian) / n, _TINY))


def remove(
    expansion: KernelExpansion,
    n_centers: int,
    X: Any = None,
    signs: Floats | None = None,
    *,
    n_rounds: int = 1,
    C: float = 10.0,
    weights: Any = None,
) -> KernelExpansion:
    """Drop the centers of smallest coefficients, and refit the others.

    With rows and signs the squared-hinge machine over the remaining centers is trained on all
    rows (``refit``, where C is twice that of a hull perceptron); without, the machine closest in
    feature space is taken (``project``). Several rounds drop an equal share each, by the new
    coefficients of the last.

    The largest coefficients of an SVM belong to its outliers, so that centers drawn at random
    or by k-means are often the better choice for :func:`~kernlet.compression.refit.refit`.

    Parameters
    ----------
    expansion : KernelExpansion
        The machine to make smaller.
    n_centers : int
        Centers to keep.
    X, signs : default=None
        Training rows, and -1 or 1 for each of them: as in ``refit``.
    n_rounds : int, default=1
        Rounds of dropping and refitting.
    C : float, default=10.0
        Weight of the squared slacks.
    weights : array-like of shape (n_samples,), default=None
        Weights of the rows; None weighs all by 1.

    Returns
    -------
    KernelExpansion

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.compression.refit import refit, remove
    >>> from kernlet.kernels import RBF
    >>> X, signs = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([[-1, -1, 1, 1]])
    >>> machine = refit(RBF(1.0), X, X, signs)
    >>> remove(machine, 2, X, signs).n_centers
    2
    """
    expansion = expansion.unfolded()
    if not 1 <= n_centers <= expansion.n_centers:
        raise ValueError(
            f"n_centers={n_centers} is out of range: the machine has {expansion.n_centers} centers."
        )
    if n_rounds < 1:
        raise ValueError(f"n_rounds={n_rounds} must be at least 1.")
    if (X is None) != (signs is None):
        raise ValueError("Give both rows X and their signs to train on them, or neither.")
    if X is None and weights is not None:
        raise ValueError("weights belong to rows: give X and signs too.")
    for count in _counts(expansion.n_centers, n_centers, n_rounds):
        centers = expansion.centers[largest_coefficients(expansion, count)]
        if signs is None:
            expansion = project(expansion, centers)
        else:
            expansion = refit(expansion.kernel, centers, X, signs, C=C, weights=weights)
    return expansion


def largest_coefficients(expansion: KernelExpansion, n_centers: int) -> Indices:
    """Numbers of the centers of largest |coef| in any output, ascending; ties go to the first."""
    largest = np.abs(expansion.coef).max(axis=0)
    return np.sort(np.argsort(-largest, kind="stable")[:n_centers])


def _counts(first: int, last: int, n_rounds: int) -> list[int]:
    """Centers after each round, in a geometric sequence."""
    shares = np.arange(1, n_rounds + 1) / n_rounds
    counts = np.round(first * (last / first) ** shares).astype(int)
    return [*counts[:-1].tolist(), last]


@dataclass(frozen=True, eq=False)
class Refinement:
    """A refined machine, and the mean loss of each epoch."""

    expansion: KernelExpansion
    losses: tuple[float, ...]


def refine(
    expansion: KernelExpansion,
    X: Any,
    codes: Any,
    *,
    loss: Literal["cross_entropy", "squared_hinge"] = "cross_entropy",
    smoothing: float = 0.1,
    noise: float = 0.1,
    n_epochs: int = 60,
    batch_size: int = 256,
    rates: dict[str, float] | None = None,
    sample_weight: Any = None,
    device: str | None = None,
    random_state: Any = None,
) -> Refinement:
    """Train centers, coefficients, intercepts and width of a Gaussian machine together.

    Mini-batches and Adam in float32, on rows standardised by one mean and one deviation, which
    is undone in the result. Time is about 4 n_rows n_centers n_features per epoch; memory is a
    float32 copy of X, if that is small, and a few matrices of batch_size x n_centers.
    :class:`~kernlet.CompactKernelClassifier` does the same and more with ``init=``.

    ``codes`` are class numbers from 0; ``smoothing`` is that of the labels; ``noise`` the
    deviation of noise added to the inputs, relative to their own; ``rates`` the learning rates of
    "centers", "weights", "intercept" and "log_gamma" where they should differ from .1, .5, .5 and
    .05; ``device="cuda"`` trains on a GPU through torch.
    """
    expansion = expansion.unfolded()
    if not isinstance(expansion.kernel, RBF) or not expansion.kernel.is_mercer:
        raise ValueError(f"Only rbf machines can be refined, not {expansion.kernel!r}.")
    if not expansion.n_centers:
        raise ValueError("The machine has no centers to refine.")
    n_classes = int(np.max(codes)) + 1
    if max(2, n_classes) > max(2, expansion.n_outputs):
        raise ValueError(
            f"codes hold {n_classes} classes, but the machine has {expansion.n_outputs} outputs; "
            "give it one output per class."
        )
    kind = CrossEntropy(smoothing) if loss == "cross_entropy" else SquaredHingeLoss()
    shift, scale = mean_and_deviation(X)
    weights = check_weights(sample_weight, X)
    rows = np.flatnonzero(weights)
    batches = BatchLoader(
        X[rows],
        np.asarray(codes)[rows],
        weights[rows] / weights[rows].mean(),
        table=kind.target_table(max(2, expansion.n_outputs)),
        inputs=Inputs(shift, scale),
        device=find_device(device),
    )
    network = KernelNetwork.from_expansion(expansion, shift, scale).map(batches.device.send)
    config = TrainingConfig(n_epochs, batch_size, noise, rates={**RATES, **(rates or {})})
    trained = train_network(network, kind, batches, config, check_random_state(random_state))
    network = trained.network.map(to_numpy)
    centers = network.centers.astype(np.float64) * scale + shift
    refined = KernelExpansion(
        RBF(float(np.exp(network.log_gamma[0])) / scale**2),
        centers.astype(expansion.centers.dtype),
        network.weights.astype(np.float64),
        network.intercept.astype(np.float64),
    )
    return Refinement(refined, trained.losses)
