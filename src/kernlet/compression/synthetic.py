"""The reduced-set problem: few points in place of many, in the kernel's feature space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils import check_random_state

from kernlet._typing import Floats
from kernlet.expansion import KernelExpansion, distinct_rows
from kernlet.kernels.base import Kernel, require_mercer
from kernlet.kernels.gram import Gram, dense_centers
from kernlet.kernels.linalg import jittered_solve
from kernlet.kernels.linear import Linear
from kernlet.sampling import apportion, kmeans

# How this works
# --------------
# A trained machine is a vector U f(C) in the kernel's feature space: coefficients U over the
# images f(C) of its centers. A machine over fewer points Z is W f(Z), and the best one minimises
#
#     |U f(C) - W f(Z)|^2 = U K(C,C) U' - 2 U K(C,Z) W' + W K(Z,Z) W'        (traces)
#
# over Z and W. Burges ("Simplified support vector decision rules", ICML 1996) searches one point
# after the other; Gonzalez-Castano and Meyer (2000), problem (2), search all points and
# coefficients together. Here the coefficients are eliminated: for fixed Z the best W solves the
# linear system W K(Z,Z) = U K(C,Z), so that L-BFGS searches Z alone (variable projection, Golub
# and Pereyra, 1973). By the envelope theorem the gradient with respect to Z is the partial
# gradient at the best W: no derivative of W is needed. The residual at the best W is
# U K(C,C) U' - W R with R = K(Z,C) U', one trace.
#
# The surface has many local minima of nearly equal height; what matters is a start that spreads
# the points where the machine has weight. k-means of the centers with the same sign of (or the
# largest) coefficient, weighted by it, gives each output its share of points.
#
# A kernel with cusps (laplacian) makes a local minimum of every point that shares a feature's value
# with a center; L-BFGS stops at the first. It searches with rounded cusps, then with sharper ones
# (a continuation), each from where the last one stopped; the coefficients are those of the kernel.
#
# Kernels of differences (rbf) are searched about the mean of the centers: inner products far from
# the origin would cancel.

# A ridge on K(Z,Z), as a share of the mean k(c, c): the search may move two points together, and
# the coefficients must stay bounded while it does.
_RIDGE = 1e-8

# L-BFGS: 20 pairs approximate the Hessian well at little cost next to a kernel matrix; it stops
# when ten digits of the objective stand still or the relative gradient vanishes.
_LBFGS = {"maxcor": 20, "ftol": 1e-10, "gtol": 1e-8}

# Widths of rounded cusps, as shares of the centers' deviation. On thyroid, satimage and pendigits
# three such stages of 67 steps leave residuals as small as two of 200.
_CUSP_WIDTHS = (0.3, 0.03, 0.003)


class ReducedSet:
    """Minimise |U f(C) - W f(Z)|^2 / |U f(C)|^2 over points Z and coefficients W (see above)."""

    def __init__(self, kernel: Kernel, centers: Floats, coef: Floats) -> None:
        require_mercer(kernel, "A reduced set")
        self.kernel, self.centers, self.coef = kernel, centers, coef

    def stages(self) -> list[ReducedSet]:
        """The problem itself or, where its kernel has cusps, problems of rounded kernels."""
        deviation = float(np.sqrt(np.mean(np.square(self.centers)))) or 1.0
        kernels = [self.kernel.smoothed(share * deviation) for share in _CUSP_WIDTHS]
        if kernels[0] is self.kernel:
            return [self]
        return [ReducedSet(kernel, self.centers, self.coef) for kernel in kernels]

    @cached_property
    def total(self) -> float:
        """|U f(C)|^2."""
        products = Gram(self.kernel, self.centers).dot(self.coef.T)
        return float(np.einsum("cj,jc->", self.coef, products))

    @cached_property
    def _ridge(self) -> float:
        sample = self.centers[:: max(1, len(self.centers) // 100)]
        diagonal = np.diag(self.kernel(sample, sample))
        return _RIDGE * max(float(diagonal.mean()), np.finfo(float).tiny)

    def best_coef(self, Z: Floats) -> Floats:
        """The W of least residual for given points."""
        zz, R, _ = self._products(Z)
        return jittered_solve(zz, R, self._ridge).T

    def residual(self, Z: Floats, W: Floats) -> float:
        """|U f(C) - W f(Z)| / |U f(C)|."""
        zz, R, _ = self._products(Z)
        return float(np.sqrt(max(0.0, self._relative(R, zz, W))))

    def projected(self, Z: Floats) -> tuple[float, Floats]:
        """Squared relative residual at the best W, and its gradient with respect to Z."""
        zz, R, gradient = self._products(Z)
        W = jittered_solve(zz, R, self._ridge).T
        return 1.0 - float(np.sum(W * R.T)) / self.total, gradient(W)

    def joint(self, Z: Floats, W: Floats) -> tuple[float, Floats, Floats]:
        """Squared relative residual, and its gradients with respect to Z and W."""
        zz, R, gradient = self._products(Z)
        by_coef = 2.0 * (W @ zz - R.T) / self.total
        return self._relative(R, zz, W), gradient(W), by_coef

    def _products(self, Z: Floats) -> tuple[Floats, Floats, Callable[[Floats], Floats]]:
        """K(Z, Z), R = K(Z, C) U', and the gradient by Z as a function of W."""
        with np.errstate(over="ignore"):  # a large distance gives 0; other infinities are refused
            zc, through_zc = self.kernel.values_and_gradient(Z, self.centers)
            zz, through_zz = self.kernel.values_and_gradient(Z, Z)

        def gradient(W: Floats) -> Floats:
            # k is symmetric: 2 W'W instead of W'W is for both arguments of K(Z,Z)
            by_points = through_zc(-2.0 * W.T @ self.coef) + through_zz(2.0 * W.T @ W)
            return by_points / self.total

        return _finite(zz), _finite(zc @ self.coef.T), gradient

    def _relative(self, R: Floats, zz: Floats, W: Floats) -> float:
        return 1.0 + float(np.sum(W * (W @ zz - 2.0 * R.T))) / self.total


def _finite(values: Any) -> Any:
    """The values, refused where they are not finite."""
    if not np.isfinite(values).all():
        raise ValueError(
            "Kernel values of the centers, or of points that would replace them, overflow. Scale "
            "the features, for example with StandardScaler."
        )
    return values


@dataclass(frozen=True, eq=False)
class Reduction:
    """A smaller expansion, and its relative residuals at the start and after every step.

    They need not fall where the kernel has cusps.
    ``converged`` is false where the search ended at ``max_iter`` steps.
    """

    expansion: KernelExpansion
    residuals: tuple[float, ...]
    converged: bool = True

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
    """Approximate a machine by one with few synthetic centers, shared by all outputs.

    The search starts from k-means of the centers, from random "members" of them, or from given
    points (``init``); of ``n_starts`` searches, all but the first from random members, the best
    is kept. ``box`` limits each coefficient to this multiple of that of the center nearest to its
    starting point, as Gonzalez-Castano and Meyer do with 1.25: it speeds up their solver and
    makes the approximation much worse. An evaluation costs n_centers * expansion.n_centers *
    n_features multiplications. The linear kernel has a closed form.
    """
    if n_centers < 1 or n_starts < 1 or max_iter < 1:
        raise ValueError("n_centers, n_starts and max_iter must be at least 1.")
    is_linear = isinstance(expansion.kernel, Linear)
    if n_centers >= expansion.n_centers and not (is_linear and expansion.n_centers):
        return Reduction(expansion, (0.0,))
    expansion = expansion.unfolded()
    centers, shift = _shifted(expansion)
    problem = ReducedSet(expansion.kernel, centers, expansion.coef)
    with np.errstate(over="ignore", invalid="ignore"):
        is_finite = np.isfinite(problem.total)
    if not is_finite:
        raise ValueError(
            "The machine is too large to be compressed: its norm overflows. Train it on scaled "
            "features, for example with a StandardScaler in front."
        )
    if problem.total <= 0:  # nothing but intercepts
        no_coef = np.zeros((expansion.n_outputs, 0))
        empty = KernelExpansion(expansion.kernel, centers[:0], no_coef, expansion.intercept)
        return Reduction(empty, (0.0,))
    if is_linear:
        return _principal_directions(expansion, problem, n_centers)
    random_state = check_random_state(random_state)
    inits = [init] + ["members"] * (n_starts - 1)
    starts = [_start(name, problem, n_centers, shift, random_state) for name in inits]
    searches = [_search(problem, start, box, max_iter) for start in starts]
    Z, W, residuals, converged = min(searches, key=lambda search: search[2][-1])
    smaller = KernelExpansion(expansion.kernel, Z + shift, W, expansion.intercept)
    return Reduction(smaller, residuals, converged)


def _shifted(expansion: KernelExpansion) -> tuple[Floats, Floats]:
    """Dense centers about their mean, where the kernel depends on differences only."""
    centers = dense_centers(expansion.centers).astype(np.float64, copy=False)
    if not expansion.kernel.is_translation_invariant:
        return centers, np.zeros(centers.shape[1])
    shift = centers.mean(axis=0)
    return centers - shift, shift


def _principal_directions(
    expansion: KernelExpansion, problem: ReducedSet, n_centers: int
) -> Reduction:
    """Linear kernel: the weight vectors U C, or their best low-rank approximation (by the SVD)."""
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
                f"{problem.centers.shape[1]} features are needed."
            )
        return points - shift
    if init == "members":
        return problem.centers[random.permutation(len(problem.centers))[:n_centers]]
    if init == "kmeans":
        return _cluster(problem, n_centers, random)
    raise ValueError(f'init={init!r} is not "kmeans", "members" or points.')


def _cluster(problem: ReducedSet, n_centers: int, random: np.random.RandomState) -> Floats:
    """Means of the centers with the same dominant output, in proportion to their weight."""
    # With one output, positive and negative coefficients are the two groups.
    signed = np.vstack([problem.coef, -problem.coef]) if len(problem.coef) == 1 else problem.coef
    group = signed.argmax(axis=0)
    weight = np.abs(problem.coef).max(axis=0)
    members = [np.flatnonzero(group == number) for number in range(len(signed))]
    group_weights = np.array([weight[rows].sum() for rows in members])
    means, unused = [], []
    for rows, share in zip(members, apportion(group_weights, n_centers), strict=True):
        _, first = distinct_rows(problem.centers[rows])
        if len(first) <= share:  # as many points as centers: no need to average
            means.append(problem.centers[rows[first]])
            continue
        unused.append(rows[first])
        if share:
            clusters = kmeans(
                problem.centers[rows], share, random, max_iter=20, weights=weight[rows]
            )
            means.append(clusters.cluster_centers_)
    points = np.vstack(means)
    # Points that a group of few distinct centers could not use go to random other centers.
    rest = random.permutation(np.concatenate([np.empty(0, int), *unused]))
    return np.vstack([points, problem.centers[rest[: n_centers - len(points)]]])


def _search(
    problem: ReducedSet, start: Floats, box: float | None, max_iter: int
) -> tuple[Floats, Floats, tuple[float, ...], bool]:
    """L-BFGS from a start: points, coefficients, residuals of the steps, and convergence."""
    if box is not None:
        return _boxed_search(problem, start, box, max_iter)

    def objective(flat: Floats, stage: ReducedSet) -> tuple[float, Floats]:
        value, by_points = stage.projected(flat.reshape(start.shape))
        return value, by_points.ravel()

    flat, residuals, converged = _minimize(objective, problem, start.ravel(), max_iter)
    Z = flat.reshape(start.shape)
    W = problem.best_coef(Z)
    return Z, W, (*residuals, problem.residual(Z, W)), converged


def _boxed_search(
    problem: ReducedSet, start: Floats, box: float, max_iter: int
) -> tuple[Floats, Floats, tuple[float, ...], bool]:
    """The same with coefficients in a box: they cannot be eliminated, so Z and W are searched."""
    n_outputs = len(problem.coef)
    nearest = pairwise_distances_argmin(start, problem.centers)
    limit = box * np.abs(problem.coef[:, nearest])
    first = np.clip(problem.best_coef(start), -limit, limit)

    def split(flat: Floats) -> tuple[Floats, Floats]:
        return flat[: start.size].reshape(start.shape), flat[start.size :].reshape(n_outputs, -1)

    def objective(flat: Floats, stage: ReducedSet) -> tuple[float, Floats]:
        value, by_points, by_coef = stage.joint(*split(flat))
        return value, np.concatenate([by_points.ravel(), by_coef.ravel()])

    bounds = [(None, None)] * start.size + [(-b, b) for b in limit.ravel()]
    flat = np.concatenate([start.ravel(), first.ravel()])
    flat, residuals, converged = _minimize(objective, problem, flat, max_iter, bounds)
    Z, W = split(flat)
    return Z, W, (*residuals, problem.residual(Z, W)), converged


def _minimize(
    objective: Callable[[Floats, ReducedSet], tuple[float, Floats]],
    problem: ReducedSet,
    start: Floats,
    max_iter: int,
    bounds: Any = None,
) -> tuple[Floats, tuple[float, ...], bool]:
    """The minimiser, roots of the objective at the start and after every step, and convergence."""
    stages = problem.stages()
    is_rounded, steps = stages[0] is not problem, max(1, max_iter // len(stages))
    values, best = [objective(start, problem)[0]], start

    def record(intermediate_result: Any) -> None:
        nonlocal best
        x, value = intermediate_result.x, intermediate_result.fun
        value = objective(x, problem)[0] if is_rounded else value
        if value < min(values):
            best = x.copy()
        values.append(value)

    for stage in stages:
        solution = minimize(
            objective,
            start,
            (stage,),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            callback=record,
            options={"maxiter": steps, **_LBFGS},
        )
        start = solution.x
    residuals = tuple(float(np.sqrt(max(0.0, value))) for value in values)
    return best if is_rounded else start, residuals, solution.nit < steps
