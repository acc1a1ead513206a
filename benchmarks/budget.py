"""Online kernel machines whose support is limited from the start: peers of removal.

- Forgetron, self-tuned: O. Dekel, S. Shalev-Shwartz and Y. Singer, The Forgetron: a kernel-based
  perceptron on a budget, SIAM Journal on Computing 37, 2008.
- Projectron and Projectron++: F. Orabona, J. Keshet and B. Caputo, Bounded kernel-based online
  learning, Journal of Machine Learning Research 10, 2009.
- BSGD with merging: Z. Wang, K. Crammer and S. Vucetic, Breaking the curse of kernelization,
  Journal of Machine Learning Research 13, 2012.

They are written from the definitions in these papers. Each is a generator that reads the rows in
the orders of ``passes`` and yields a machine after each pass. The perceptrons take the matrix of
any kernel with k(x, x) <= 1 and yield rows and coefficients; BSGD makes new points of rows, and
its kernel is Gaussian. Plain twins are in tests/naive.py. ``METHODS`` has what a fair comparison
needs besides: settings to choose from, and which of the hypotheses is used.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from sklearn.model_selection import StratifiedKFold

from benchmarks.competitors.contract import grid
from kernlet import KernelExpansion
from kernlet.kernels.gram import kernel_matrix
from kernlet.kernels.rbf import RBF

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

#: Of the mistakes: how much deviation the Forgetron's mistake bound lets removals add up to.
FORGETTING_SHARE = 15 / 32
#: A row closer than this to the span of the support lies in it, but for round-off.
IN_SPAN = 1e-6
#: Newton steps for the best merge. They converge quadratically, except for equal weights at an
#: exponent of 2, where the root is triple: each step leaves two thirds of the error, and the cost
#: is so flat there that it does not matter.
NEWTON_STEPS = 8
SMALL_STEP = 1e-4  # in log(h / (1 - h)); the next would be about its square


def random_passes(n_rows: int, seed: int) -> Iterator[Indices]:
    """Orders of the rows, one per pass, without end."""
    random = np.random.RandomState(seed)
    while True:
        yield random.permutation(n_rows)


# Forgetron ---------------------------------------------------------------------------------------


def deviation(weight: float, margin: float) -> float:
    """What removing a row of a weight and a margin y f(x) may cost the mistake bound."""
    return weight * (weight + 2 - 2 * margin)


def shrinking(weight: float, margin: float, allowed: float) -> float:
    """The largest factor <= 1 with ``deviation(factor * weight, factor * margin) <= allowed``.

    The deviation is a x^2 + b x in the factor x, with b > 0, and ``allowed`` is positive: if 1 is
    too large, the answer is the smaller positive root, in the form that does not cancel.
    """
    a, b = weight * (weight - 2 * margin), 2 * weight
    if a + b <= allowed:
        return 1.0
    return 2 * allowed / (b + sqrt(b * b + 4 * a * allowed))


def forgetron(
    K: Floats, signs: Floats, budget: int, passes: Iterable[Indices]
) -> Iterator[tuple[Indices, Floats]]:
    """The perceptron that shrinks all weights and forgets the oldest row when it is full.

    A row is stored with each mistake on it, so that it may be stored repeatedly.
    """
    rows, coef = np.zeros(budget, dtype=np.intp), np.zeros(budget)
    n_stored = n_mistakes = oldest = 0
    total = 0.0  # deviation of all removals
    for order in passes:
        for t in order:
            sign = signs[t]
            if sign * (K[t, rows[:n_stored]] @ coef[:n_stored]) > 0:
                continue
            n_mistakes += 1
            if n_stored < budget:
                rows[n_stored], coef[n_stored] = t, sign
                n_stored += 1
                continue
            r = rows[oldest]
            margin = signs[r] * (K[r, rows] @ coef + sign * K[r, t])
            weight = abs(coef[oldest])
            factor = shrinking(weight, margin, FORGETTING_SHARE * n_mistakes - total)
            total += deviation(factor * weight, factor * margin)
            rows[oldest], coef[oldest] = t, sign
            coef *= factor
            oldest = (oldest + 1) % budget
        yield rows[:n_stored].copy(), coef[:n_stored].copy()


# Projectron --------------------------------------------------------------------------------------


class Projected(NamedTuple):
    """A Projectron after a pass: the last coefficients of its rows, and their mean over time."""

    rows: Indices
    last: Floats
    mean: Floats


def projectron(
    K: Floats,
    signs: Floats,
    budget: int,
    passes: Iterable[Indices],
    *,
    threshold: float,
    margin_updates: bool = True,
) -> Iterator[Projected]:
    """Projectron++, or the Projectron without updates on margin errors.

    A mistake whose row is within ``threshold`` of the span of the support updates the hypothesis by
    the projection of the row, another adds the row. Once ``budget`` rows are stored all are
    projected; the mistake bound holds up to there.

    How this works: a partial Cholesky decomposition K = F F' grows by one column with each row
    that is added, for all rows at once. F[t] are the coordinates of the projection of row t in an
    orthonormal basis of the span, and the hypothesis is linear in them: a step costs one product
    of vectors, and no inverse is updated. The basis only grows, so that the mean of all hypotheses
    has the same support.
    """
    n_rows = len(signs)
    F = np.zeros((n_rows, min(budget, n_rows)))
    squared_distance = K.diagonal().copy()
    support: list[int] = []
    w, late = np.zeros(F.shape[1]), np.zeros(F.shape[1])  # late: updates times steps before them
    n_steps = 0
    for order in passes:
        for t in order:
            k = len(support)
            value = signs[t] * (w[:k] @ F[t, :k])
            n_steps += 1
            if value >= 1 or (value > 0 and not margin_updates):
                continue
            distance = sqrt(max(squared_distance[t], 0.0))
            step = 1.0
            if value > 0:
                step = _margin_step(1 - value, distance, F[t, :k], threshold)
            elif distance > max(threshold, IN_SPAN) and k < F.shape[1]:
                F[:, k] = (K[t] - F[:, :k] @ F[t, :k]) / distance
                squared_distance -= F[:, k] ** 2
                support.append(t)
                k += 1
            update = step * signs[t] * F[t, :k]
            w[:k] += update
            late[:k] += (n_steps - 1) * update
        k = len(support)
        both = np.column_stack([w[:k], w[:k] - late[:k] / n_steps])
        coef = solve_triangular(F[support, :k], both, lower=True, trans="T")
        yield Projected(np.array(support), coef[:, 0], coef[:, 1])


def _margin_step(loss: float, distance: float, projected: Floats, threshold: float) -> float:
    """Step on a row that is right with too small a margin: 0 where the projection loses more."""
    if loss * threshold <= distance:
        return 0.0
    squared_norm = projected @ projected
    return min(1.0, loss / squared_norm, 2 * (loss - distance / threshold) / squared_norm)


# BSGD --------------------------------------------------------------------------------------------


class Gaussians(NamedTuple):
    """Centers, coefficients and intercept of a Gaussian machine."""

    centers: Floats
    coef: Floats
    intercept: float


def bsgd(
    X: Floats,
    signs: Floats,
    budget: int,
    passes: Iterable[Indices],
    *,
    gamma: float,
    regularization: float,
    has_intercept: bool = True,
) -> Iterator[Gaussians]:
    """Pegasos, which merges two centers of the same sign when it has too many.

    It minimises regularization / 2 (|w|^2 + b^2) + mean hinge loss by steps of 1 / (regularization
    t). After t of them the coefficients are integers over regularization t as long as nothing was
    merged: ``weights`` are the numerators.
    """
    n_features = X.shape[1]
    centers, norms = np.empty((budget + 1, n_features)), np.empty(budget + 1)
    weights, intercept = np.empty(budget + 1), 0.0
    n_centers = t = 0
    row_norms = gamma * (X * X).sum(axis=1)
    for order in passes:
        for i in order:
            x, sign, n = X[i], signs[i], n_centers
            kernel = np.exp(2 * gamma * (centers[:n] @ x) - norms[:n] - row_norms[i])
            value = weights[:n] @ kernel + intercept
            if sign * value < regularization * t or t == 0:
                centers[n], norms[n], weights[n] = x, row_norms[i], sign
                intercept += sign * has_intercept
                n_centers = n + 1
                if n_centers > budget:
                    n_centers = merge_smallest(centers, weights, gamma)
                    norms[:] = gamma * (centers * centers).sum(axis=1)
            t += 1
        n, scale = n_centers, 1 / (regularization * t)
        yield Gaussians(centers[:n].copy(), scale * weights[:n], scale * intercept)


def merge_smallest(centers: Floats, weights: Floats, gamma: float) -> int:
    """Merge the center of smallest weight with the one that costs least; how many are left.

    The last line of both arrays becomes free. Without another center of the same sign the
    smallest is dropped.
    """
    last = len(weights) - 1
    small = int(np.argmin(np.abs(weights)))
    others = np.flatnonzero(weights * weights[small] > 0)
    others = others[others != small]
    if len(others):
        exponents = gamma * ((centers[others] - centers[small]) ** 2).sum(axis=1)
        a, b = abs(weights[small]), np.abs(weights[others])
        share, merged, cost = best_merge(a, b, exponents)
        k = int(np.argmin(cost))
        other = others[k]
        centers[other] = share[k] * centers[other] + (1 - share[k]) * centers[small]
        weights[other] = np.sign(weights[small]) * merged[k]
    centers[small], weights[small] = centers[last], weights[last]
    return last


def best_merge(a: float, b: Floats, exponents: Floats) -> tuple[Floats, Floats, Floats]:
    """Merges of weight ``a`` with larger weights ``b`` at -log k(x_a, x_b) = ``exponents``.

    The point z = h x_b + (1 - h) x_a gets the weight c(h) = a k^(h^2) + b k^((1 - h)^2), and the
    squared distance in feature space that is lost is a^2 + b^2 + 2 a b k - c^2. Returned are h,
    c(h) and this cost where it is least.

    The paper searches h by golden sections. With u = log(h / (1 - h)) the derivative of c is zero
    where u = log(b / a) + exponent tanh(u / 2). As c(h) >= c(1 - h) for h >= 1/2, the optimum has u
    >= 0; it is the largest root, to which Newton's method falls monotonically from log(b / a) +
    exponent, because the difference of the two sides is convex there.
    """
    start = np.log(b / a)
    u = start + exponents
    for _ in range(NEWTON_STEPS):
        tanh = np.tanh(0.5 * u)
        step = u - start - exponents * tanh
        step /= np.maximum(1 - 0.5 * exponents * (1 - tanh * tanh), np.finfo(float).tiny)
        u -= step
        if step.max() < SMALL_STEP:
            break
    h = 1 / (1 + np.exp(-np.maximum(u, 0.0)))
    merged = a * np.exp(-exponents * h**2) + b * np.exp(-exponents * (1 - h) ** 2)
    cost = a * a + b * b + 2 * a * b * np.exp(-exponents) - merged**2
    return h, merged, cost


# Settings and their choice -----------------------------------------------------------------------

#: Passes that are tried; a run of the last has the others on its way.
N_PASSES = (1, 5, 20)
N_INNER_FOLDS = 3
#: Of more rows than this Projectron++ and BSGD use one inner fold, to save minutes per choice. The
#: Forgetron's hypotheses differ too much from mistake to mistake for that.
MANY_ROWS = 2000


@dataclass(frozen=True, eq=False)
class Training:
    """Training rows, and the width of the kernel that all methods share."""

    X: Floats
    signs: Floats
    gamma: float

    @cached_property
    def K(self) -> Floats:  # noqa: N802
        """The Gaussian kernel between all rows."""
        return kernel_matrix(RBF(self.gamma), self.X, self.X)

    def kernel(self, has_intercept: bool) -> Floats:
        """k, or (1 + k) / 2: an intercept is a constant kernel, and k(x, x) stays 1."""
        return (1 + self.K) / 2 if has_intercept else self.K

    def expansion(self, rows: Indices, coef: Floats, has_intercept: bool) -> KernelExpansion:
        """The machine of coefficients of ``kernel(has_intercept)``."""
        coef = coef / 2 if has_intercept else coef
        intercept = coef.sum() if has_intercept else 0.0
        return KernelExpansion(RBF(self.gamma), self.X[rows], coef[None, :], np.array([intercept]))

    def subset(self, rows: Indices) -> Training:
        """Some of the rows."""
        return Training(self.X[rows], self.signs[rows], self.gamma)

    def accuracy(self, machine: KernelExpansion) -> float:
        """Share of these rows that a machine classifies correctly."""
        values = machine.decision_values(self.X)[:, 0]
        return float(np.mean(np.where(values > 0, 1.0, -1.0) == self.signs))


class Hypothesis(NamedTuple):
    """A method after a pass: its machine, its values at the training rows, and perhaps a mean."""

    last: KernelExpansion
    values: Callable[[], Floats]
    mean: KernelExpansion | None = None


def run_forgetron(
    training: Training, budget: int, passes: Iterable[Indices], has_intercept: bool
) -> Iterator[Hypothesis]:
    K = training.kernel(has_intercept)
    for rows, coef in forgetron(K, training.signs, budget, passes):
        machine = training.expansion(rows, coef, has_intercept)
        yield Hypothesis(machine, partial(_values, K, rows, coef))


def run_projectron(
    training: Training,
    budget: int,
    passes: Iterable[Indices],
    threshold: float,
    has_intercept: bool,
) -> Iterator[Hypothesis]:
    K = training.kernel(has_intercept)
    for rows, last, mean in projectron(K, training.signs, budget, passes, threshold=threshold):
        yield Hypothesis(
            training.expansion(rows, last, has_intercept),
            partial(_values, K, rows, last),
            training.expansion(rows, mean, has_intercept),
        )


def _values(K: Floats, rows: Indices, coef: Floats) -> Floats:
    return K[:, rows] @ coef


def run_bsgd(
    training: Training, budget: int, passes: Iterable[Indices], C: float, has_intercept: bool
) -> Iterator[Hypothesis]:
    """C weights the sum of the losses, as in an SVM."""
    for centers, coef, intercept in bsgd(
        training.X,
        training.signs,
        budget,
        passes,
        gamma=training.gamma,
        regularization=1 / (C * len(training.X)),
        has_intercept=has_intercept,
    ):
        kernel = RBF(training.gamma)
        machine = KernelExpansion(kernel, centers, coef[None, :], np.array([intercept]))
        yield Hypothesis(machine, partial(_first_output, machine, training.X))


def _first_output(machine: KernelExpansion, X: Floats) -> Floats:
    return machine.decision_values(X)[:, 0]


class Method(NamedTuple):
    """How to run a method, settings and hypotheses to choose from, and inner folds of many rows.

    Hypotheses are the "last", the "best" of those after each pass, by errors on the training rows,
    and the "mean" of all, which is within the budget only where the support is never exchanged.
    """

    run: Callable[..., Iterator[Hypothesis]]
    settings: list[dict[str, Any]]
    kinds: tuple[str, ...]
    n_folds_of_many: int = 1


_INTERCEPT = (False, True)
METHODS = {
    "Forgetron": Method(
        run_forgetron, grid(has_intercept=_INTERCEPT), ("last", "best"), N_INNER_FOLDS
    ),
    "Projectron++": Method(
        run_projectron,
        grid(threshold=(0.03, 0.1, 0.2, 0.4), has_intercept=_INTERCEPT),
        ("mean", "last", "best"),
    ),
    "BSGD, merging": Method(
        run_bsgd,
        grid(C=(1.0, 10.0, 100.0, 1000.0), has_intercept=_INTERCEPT),
        ("last", "best"),
    ),
}


class Choice(NamedTuple):
    """A setting, how many passes it takes, and which hypothesis is used."""

    setting: dict[str, Any]
    n_passes: int
    kind: str


def machines(
    method: Method,
    training: Training,
    budget: int,
    choice: Choice,
    kinds: tuple[str, ...],
    seed: int,
) -> Iterator[list[KernelExpansion]]:
    """The hypotheses of some kinds after each pass."""
    passes = islice(random_passes(len(training.X), seed), choice.n_passes)
    most_right = -1
    for hypothesis in method.run(training, budget, passes, **choice.setting):
        by_kind = {"last": hypothesis.last, "mean": hypothesis.mean}
        if "best" in kinds:
            n_right = np.count_nonzero(training.signs * hypothesis.values() > 0)
            if n_right > most_right:
                most_right, best = n_right, hypothesis.last
            by_kind["best"] = best
        yield [by_kind[kind] for kind in kinds]


def choose(title: str, training: Training, budget: int) -> Choice:
    """What has the best mean accuracy on inner folds of the training rows."""
    method = METHODS[title]
    accuracy: dict[tuple[int, int, str], float] = defaultdict(float)
    folds = StratifiedKFold(N_INNER_FOLDS, shuffle=True, random_state=0)
    n_folds = method.n_folds_of_many if len(training.X) > MANY_ROWS else N_INNER_FOLDS
    splits = islice(folds.split(training.X, training.signs), n_folds)
    for seed, (train_rows, held_out) in enumerate(splits):
        inner, rest = training.subset(train_rows), training.subset(held_out)
        for i, setting in enumerate(method.settings):
            longest = Choice(setting, N_PASSES[-1], "")
            by_pass = machines(method, inner, budget, longest, method.kinds, seed)
            for n_passes, hypotheses in enumerate(by_pass, 1):
                if n_passes in N_PASSES:
                    for kind, machine in zip(method.kinds, hypotheses, strict=True):
                        accuracy[i, n_passes, kind] += rest.accuracy(machine)
    i, n_passes, kind = max(accuracy, key=accuracy.__getitem__)
    return Choice(method.settings[i], n_passes, kind)


def train(title: str, training: Training, budget: int, choice: Choice) -> KernelExpansion:
    """The machine of a method with a choice made."""
    by_pass = machines(METHODS[title], training, budget, choice, (choice.kind,), seed=0)
    return list(by_pass)[-1][0]
