"""The reduced-set problem: few points in place of many, in the kernel's feature space."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils import check_random_state

from kernlet._typing import Floats
from kernlet.expansion import KernelExpansion, distinct_rows
from kernlet.kernels.base import Kernel, evaluate_derivatives, gradient, require_mercer
from kernlet.kernels.gram import Gram
from kernlet.kernels.linalg import jittered_solve
from kernlet.kernels.linear import Linear
from kernlet.sampling import apportion, kmeans

_RIDGE = 1e-8  # of the mean k(c, c): points may come close to each other


class ReducedSet:
    """Problem (2) of Gonzalez-Castano and Meyer (2000), for several outputs at once.

    With the map f to feature space, centers C of coefficients U (one row an output)::

        minimise over Z, W  |U f(C) - W f(Z)|^2
                            = U K(C,C) U' - 2 U K(C,Z) W' + W K(Z,Z) W'   (traces)

    For fixed Z the best W is a linear system, so that only Z is searched (variable
    projection); the gradient by Z is that at the best W. Values are relative to U K(C,C) U'.

    Parameters
    ----------
    kernel : Kernel
        Positive semi-definite, with derivatives.
    centers : ndarray of shape (n_centers, n_features)
    coef : ndarray of shape (n_outputs, n_centers)
    """

    def __init__(self, kernel: Kernel, centers: Floats, coef: Floats) -> None:
        require_mercer(kernel, "A reduced set")
        self.kernel, self.centers, self.coef = kernel, centers, coef

    @cached_property
    def total(self) -> float:
        """|U f(C)|^2."""
        products = Gram(self.kernel, self.centers).dot(self.coef.T)
        return float(np.einsum("cj,jc->", self.coef, products))

    @cached_property
    def _ridge(self) -> float:
        some = self.centers[:: max(1, len(self.centers) // 100)]
        diagonal = np.diag(evaluate_derivatives(self.kernel, some, some).values)
        return _RIDGE * max(float(diagonal.mean()), np.finfo(float).tiny)

    def best_coef(self, Z: Floats) -> Floats:
        """The W of least residual for given points."""
        zc = evaluate_derivatives(self.kernel, Z, self.centers).values
        return self._solve(evaluate_derivatives(self.kernel, Z, Z).values, zc @ self.coef.T).T

    def residual(self, Z: Floats, W: Floats) -> float:
        """|U f(C) - W f(Z)| / |U f(C)|."""
        zc = evaluate_derivatives(self.kernel, Z, self.centers).values
        zz = evaluate_derivatives(self.kernel, Z, Z).values
        return float(np.sqrt(max(0.0, self._relative(zc @ self.coef.T, zz, W))))

    def projected(self, Z: Floats) -> tuple[float, Floats]:
        """Squared relative residual at the best W, and its gradient by Z."""
        zc = evaluate_derivatives(self.kernel, Z, self.centers)
        zz = evaluate_derivatives(self.kernel, Z, Z)
        R = zc.values @ self.coef.T
        W = self._solve(zz.values, R).T
        slope = gradient(zc, -2.0 * W.T @ self.coef, Z, self.centers)
        slope += gradient(zz, 2.0 * W.T @ W, Z, Z)
        return 1.0 - float(np.sum(W * R.T)) / self.total, slope / self.total

    def joint(self, Z: Floats, W: Floats) -> tuple[float, Floats, Floats]:
        """Squared relative residual, and its gradients by Z and by W."""
        zc = evaluate_derivatives(self.kernel, Z, self.centers)
        zz = evaluate_derivatives(self.kernel, Z, Z)
        R = zc.values @ self.coef.T
        slope = gradient(zc, -2.0 * W.T @ self.coef, Z, self.centers)
        slope += gradient(zz, 2.0 * W.T @ W, Z, Z)
        by_coef = 2.0 * (W @ zz.values - R.T)
        return self._relative(R, zz.values, W), slope / self.total, by_coef / self.total

    def _relative(self, R: Floats, zz: Floats, W: Floats) -> float:
        return 1.0 + float(np.sum(W * (W @ zz - 2.0 * R.T))) / self.total

    def _solve(self, zz: Floats, R: Floats) -> Floats:
        return jittered_solve(zz, R, self._ridge)


@dataclass(frozen=True, eq=False)
class Reduction:
    """A smaller expansion, and how near it is.

    Parameters
    ----------
    expansion : KernelExpansion
    residuals : tuple of float
        Relative residual in feature space at the start and after every step of the search;
        it never increases.
    """

    expansion: KernelExpansion
    residuals: tuple[float, ...]

    @property
    def residual(self) -> float:
        """The last of them, |f - f_small| / |f|."""
        return self.residuals[-1]


def synthesize(
    expansion: KernelExpansion,
    n_centers: int,
    *,
    init: str | Any = "kmeans",
    n_starts: int = 1,
    box: float | None = None,
    max_iter: int = 200,
    random_state: Any = None,
) -> Reduction:
    """Approximate a machine by one with few synthetic centers, all outputs sharing them.

    L-BFGS on the centers with their best coefficients (see
    :class:`~kernlet.compression.synthetic.ReducedSet`). An evaluation costs
    n_centers * expansion.n_centers * n_features multiplications and holds a few matrices of
    n_centers x expansion.n_centers. The linear kernel has a closed form.

    Parameters
    ----------
    expansion : KernelExpansion
    n_centers : int
    init : {"kmeans", "members"} or ndarray of shape (n_centers, n_features), default="kmeans"
        Where the search starts: k-means of the centers that speak for the same output, weighted
        by their coefficients; centers drawn at random; or given points.
    n_starts : int, default=1
        Searches of which the best is kept; those after the first start from random members.
    box : float or None, default=None
        Limits each coefficient to this multiple of that of the center nearest to its starting
        point, as Gonzalez-Castano and Meyer do with 1.25. It speeds up their solver and makes
        the approximation much worse.
    max_iter : int, default=200
        Steps of each search.
    random_state : int, RandomState instance or None

    Returns
    -------
    reduction : Reduction

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet import KernelExpansion
    >>> from kernlet.kernels.rbf import RBF
    >>> from kernlet.compression.synthetic import synthesize
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> f = KernelExpansion(RBF(0.5), X, np.ones((1, 20)), np.zeros(1))
    >>> synthesize(f, 3, random_state=0).residual < 0.01
    True
    """
    if n_centers < 1 or n_starts < 1 or max_iter < 1:
        raise ValueError("n_centers, n_starts and max_iter must be at least 1.")
    is_linear = isinstance(expansion.kernel, Linear)
    if n_centers >= expansion.n_centers and not (is_linear and expansion.n_centers):
        return Reduction(expansion, (0.0,))
    expansion = expansion.unfolded()
    centers, shift = _shifted(expansion)
    problem = ReducedSet(expansion.kernel, centers, expansion.coef)
    if problem.total <= 0:  # a machine that is nothing but its intercepts
        nothing = np.zeros((expansion.n_outputs, 0))
        empty = KernelExpansion(expansion.kernel, centers[:0], nothing, expansion.intercept)
        return Reduction(empty, (0.0,))
    if is_linear:
        return _principal_directions(expansion, problem, n_centers)
    random_state = check_random_state(random_state)
    inits = [init] + ["members"] * (n_starts - 1)
    starts = [_start(name, problem, n_centers, shift, random_state) for name in inits]
    searches = [_search(problem, start, box, max_iter) for start in starts]
    Z, W, residuals = min(searches, key=lambda search: search[2][-1])
    smaller = KernelExpansion(expansion.kernel, Z + shift, W, expansion.intercept)
    return Reduction(smaller, residuals)


def _shifted(expansion: KernelExpansion) -> tuple[Floats, Floats]:
    """Dense centers, about their mean where the kernel allows it."""
    centers = expansion.centers
    centers = centers.toarray() if sparse.issparse(centers) else np.asarray(centers)
    centers = centers.astype(np.float64, copy=False)
    if not expansion.kernel.is_translation_invariant:
        return centers, np.zeros(centers.shape[1])
    shift = centers.mean(axis=0)
    return centers - shift, shift


def _principal_directions(
    expansion: KernelExpansion, problem: ReducedSet, n_centers: int
) -> Reduction:
    """Linear kernel: the outputs' weight vectors U C, or their best approximation of low rank."""
    left, values, right = np.linalg.svd(expansion.coef @ problem.centers, full_matrices=False)
    kept = min(n_centers, len(values))
    W = left[:, :kept] * values[:kept]
    smaller = KernelExpansion(expansion.kernel, right[:kept], W, expansion.intercept)
    return Reduction(smaller, (problem.residual(right[:kept], W),))


def _start(
    init: Any, problem: ReducedSet, n_centers: int, shift: Floats, random: np.random.RandomState
) -> Floats:
    if not isinstance(init, str):
        points = np.asarray(init, dtype=np.float64)
        if points.shape != (n_centers, problem.centers.shape[1]):
            raise ValueError(
                f"init has shape {points.shape}; {n_centers} centers of "
                f"{problem.centers.shape[1]} features are wanted."
            )
        return points - shift
    if init == "members":
        return problem.centers[random.permutation(len(problem.centers))[:n_centers]]
    if init == "kmeans":
        return _cluster(problem, n_centers, random)
    raise ValueError(f'init={init!r} is neither "kmeans", "members" nor points.')


def _cluster(problem: ReducedSet, n_centers: int, random: np.random.RandomState) -> Floats:
    """Means of the centers that speak for the same output, in proportion to their weight."""
    signed = np.vstack([problem.coef, -problem.coef]) if len(problem.coef) == 1 else problem.coef
    group = signed.argmax(axis=0)
    weight = np.abs(problem.coef).max(axis=0)
    members = [np.flatnonzero(group == number) for number in range(len(signed))]
    heaviness = np.array([weight[rows].sum() for rows in members])
    means, spare = [], []
    for rows, share in zip(members, apportion(heaviness, n_centers), strict=True):
        _, first = distinct_rows(problem.centers[rows])
        if len(first) <= share:  # each of them is a center of its own
            means.append(problem.centers[rows[first]])
            continue
        spare.append(rows[first])
        if share:
            clusters = kmeans(
                problem.centers[rows], share, random, max_iter=20, weights=weight[rows]
            )
            means.append(clusters.cluster_centers_)
    found = np.vstack(means)
    rest = random.permutation(np.concatenate([np.empty(0, int), *spare]))
    return np.vstack([found, problem.centers[rest[: n_centers - len(found)]]])


def _search(
    problem: ReducedSet, start: Floats, box: float | None, max_iter: int
) -> tuple[Floats, Floats, tuple[float, ...]]:
    """L-BFGS from a starting point: points, coefficients and the residual after every step."""
    if box is not None:
        return _boxed_search(problem, start, box, max_iter)
    shape = start.shape
    values = [problem.projected(start)[0]]

    def objective(flat: Floats) -> tuple[float, Floats]:
        value, slope = problem.projected(flat.reshape(shape))
        return value, slope.ravel()

    found = minimize(
        objective,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        callback=lambda intermediate_result: values.append(intermediate_result.fun),
        options={"maxiter": max_iter, "maxcor": 20, "ftol": 1e-10, "gtol": 1e-8},
    )
    Z = found.x.reshape(shape)
    W = problem.best_coef(Z)
    return Z, W, (*_roots(values), problem.residual(Z, W))


def _boxed_search(
    problem: ReducedSet, start: Floats, box: float, max_iter: int
) -> tuple[Floats, Floats, tuple[float, ...]]:
    """The same with coefficients held in a box, searched together with the points."""
    shape, n_outputs = start.shape, len(problem.coef)
    nearest = pairwise_distances_argmin(start, problem.centers)
    limit = box * np.abs(problem.coef[:, nearest])
    first = np.clip(problem.best_coef(start), -limit, limit)
    values = [problem.joint(start, first)[0]]

    def split(flat: Floats) -> tuple[Floats, Floats]:
        return flat[: start.size].reshape(shape), flat[start.size :].reshape(n_outputs, -1)

    def objective(flat: Floats) -> tuple[float, Floats]:
        value, by_points, by_coef = problem.joint(*split(flat))
        return value, np.concatenate([by_points.ravel(), by_coef.ravel()])

    found = minimize(
        objective,
        np.concatenate([start.ravel(), first.ravel()]),
        jac=True,
        method="L-BFGS-B",
        bounds=[(None, None)] * start.size + [(-b, b) for b in limit.ravel()],
        callback=lambda intermediate_result: values.append(intermediate_result.fun),
        options={"maxiter": max_iter, "maxcor": 20, "ftol": 1e-10, "gtol": 1e-8},
    )
    Z, W = split(found.x)
    return Z, W, (*_roots(values), problem.residual(Z, W))


def _roots(values: list[float]) -> tuple[float, ...]:
    return tuple(float(np.sqrt(max(0.0, value))) for value in values)
