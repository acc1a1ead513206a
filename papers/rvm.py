"""The relevance vector machine, a baseline of the tables and of the frontier.

How it works: f(x) = w_0 + sum_j w_j k(x, x_j) has the prior w_j ~ N(0, 1 / alpha_j) and a logistic
likelihood. For given alphas the posterior mode of w comes from Newton's method, and Laplace's
approximation gives the evidence, the log marginal likelihood of the labels. As a function of one
alpha the evidence has a closed form in two numbers of the column, its sparsity and its quality
(Tipping and Faul 2003), so the best alpha of every column and its gain are cheap. The algorithm
starts with the constant alone and repeats: add the column with the largest gain, then re-estimate
or delete columns of the model. The closed form assumes that the mode stays where it is, which for
labels is only approximately true; a change is therefore kept only if the evidence really grows,
with smaller steps where necessary. At the end the largest remaining gain is the certificate.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.special import expit
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from kernlet._typing import Floats
from kernlet.expansion import KernelExpansion
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import kernel_matrix
from kernlet.sampling import spread_candidates
from kernlet.sklearn_base import KERNEL_CONSTRAINTS, ExpansionClassifier, one_vs_rest_signs


class RelevanceVectorClassifier(ExpansionClassifier):
    """Relevance vector machine by the fast sequential algorithm, one class against the rest.

    Each output has the prior w_j ~ N(0, 1 / alpha_j) on the weights of its kernel functions (and
    of a constant), and the alphas that maximise the marginal likelihood of the labels in
    Laplace's approximation ([1]_, [2]_). Most alphas are infinite: their functions are not used.

    Parameters
    ----------
    kernel, gamma, degree, coef0 : see L1KernelClassifier
    n_candidates : int or None, default=None
        Rows that may become centers; None for all.
    spread : bool, default=False
        Take the rows nearest to the means of k-means as candidates, not random rows.
    tol : float, default=1e-3
        Stop when no single change gains more log marginal likelihood (in nats).
    max_iter : int, default=10000
        Maximum number of added functions per output.
    random_state : int, RandomState instance or None, default=None

    Attributes
    ----------
    expansion_ : KernelExpansion
    n_centers_ : int
        Distinct relevance vectors of all outputs.
    classes_ : ndarray of shape (n_classes,)
    n_relevant_ : ndarray of shape (n_outputs,)
        Relevance vectors of each output.
    gain_ : float
        The certificate: the largest predicted gain of log marginal likelihood by a single change
        of any output, over all candidates; changes that were tried without success are excluded.
    n_iter_ : int
        Additions of all outputs.

    Notes
    -----
    The kernel block of n_rows * n_candidates is in memory, in float32; ``n_candidates`` limits
    it. Each addition is one pass over it.

    References
    ----------
    .. [1] M. E. Tipping, "Sparse Bayesian learning and the relevance vector machine", JMLR 1
       (2001), 211-244.
    .. [2] M. E. Tipping and A. C. Faul, "Fast marginal likelihood maximisation for sparse
       Bayesian models", AISTATS 2003.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from papers.rvm import RelevanceVectorClassifier
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> machine = RelevanceVectorClassifier(gamma=1.0).fit(X, y)
    >>> machine.n_centers_ < 15, machine.score(X, y) > 0.93, machine.gain_ <= 1e-3
    (True, True, True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **KERNEL_CONSTRAINTS,
        "n_candidates": [Interval(Integral, 1, None, closed="left"), None],
        "spread": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        *,
        kernel: str | Kernel = "rbf",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        n_candidates: int | None = None,
        spread: bool = False,
        tol: float = 1e-3,
        max_iter: int = 10_000,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_candidates = n_candidates
        self.spread = spread
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> RelevanceVectorClassifier:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        self : object
        """
        data = self._check_training_data(X, y, None)
        kernel = self._make_kernel(data)
        rows = _candidates(data.X, self.n_candidates, self.spread, self.random_state)
        design = Design(kernel_matrix(kernel, data.X, data.X[rows], dtype=np.float32))
        signs = one_vs_rest_signs(data.y, self.classes_)
        solutions = [find_relevance(design, sign > 0, self.tol, self.max_iter) for sign in signs]
        self.gain_ = max(solution.gain for solution in solutions)
        self.n_iter_ = sum(solution.n_iter for solution in solutions)
        self.n_relevant_ = np.array([np.count_nonzero(s.columns) for s in solutions])
        if not self.gain_ <= self.tol:  # also for NaN
            warnings.warn(
                f"A change would still increase the log marginal likelihood by {self.gain_:.2g}; "
                "raise max_iter.",
                ConvergenceWarning,
                stacklevel=2,
            )
        used = np.unique(np.concatenate([s.columns[s.columns > 0] for s in solutions]))
        weights = np.array([solution.dense(design.n_columns) for solution in solutions])
        self.expansion_ = KernelExpansion(
            kernel, data.X[rows[used - 1]], weights[:, used], weights[:, 0]
        )
        return self


def _candidates(X: Any, count: int | None, spread: bool, random_state: Any) -> Any:
    """Rows that may become centers."""
    n_rows, random = X.shape[0], check_random_state(random_state)
    if count is None or count >= n_rows:
        return np.arange(n_rows)
    if spread:
        return spread_candidates(X, count, random).rows
    return np.sort(random.permutation(n_rows)[:count])


class Design:
    """Values of the functions at the rows: a constant (column 0), then those of the candidates."""

    def __init__(self, values: Floats) -> None:
        self.values = values
        self.n_rows, self.n_columns = values.shape[0], values.shape[1] + 1

    def take(self, columns: Any) -> Floats:
        """A subset of the columns, in float64."""
        taken = np.ones((self.n_rows, len(columns)))
        for position, column in enumerate(columns):
            if column:
                taken[:, position] = self.values[:, column - 1]
        return taken

    def dot(self, V: Floats) -> Floats:
        """All columns times the columns of V."""
        product = self.values.T @ V.astype(self.values.dtype)
        return np.vstack([V.sum(axis=0), product.astype(float)])

    def squares(self, weights: Floats) -> Floats:
        """The weighted sum of squares of each column."""
        total = np.zeros(self.n_columns - 1)
        for start in range(0, self.n_rows, 256):
            block = self.values[start : start + 256]  # a copy of it fits the cache
            total += weights[start : start + 256].astype(block.dtype) @ (block * block)
        return np.concatenate([[weights.sum()], total])


@dataclass(frozen=True, eq=False)
class RelevanceSolution:
    """Columns of an output (0 is the constant) with alphas and weights.

    ``evidence`` is the log marginal likelihood, ``gain`` the largest gain of a single change.
    """

    columns: Any
    alpha: Floats
    weights: Floats
    gain: float
    n_iter: int
    evidence: float

    def dense(self, n_columns: int) -> Floats:
        """Weights of all columns."""
        weights = np.zeros(n_columns)
        weights[self.columns] = self.weights
        return weights


def find_relevance(design: Design, targets: Any, tol: float, max_iter: int) -> RelevanceSolution:
    """Add, re-estimate and delete functions until no change gains more than ``tol``.

    An addition looks at all columns; after it, the n columns of the model are changed n times.
    """
    model = _Model(design, np.asarray(targets, dtype=float))
    n_iter = 0
    while True:
        gains, alphas = model.proposals()
        best = int(np.argmax(gains))
        if gains[best] <= tol or n_iter == max_iter:
            break
        model.change(best, float(alphas[best]))
        model.reestimate(tol, len(model.columns))
        n_iter += 1
    return RelevanceSolution(
        np.array(model.columns),
        model.alpha,
        model.weights,
        float(gains[best]),
        n_iter,
        model.evidence,
    )


class _Model:
    """The columns of the model, and the mode of their weights."""

    def __init__(self, design: Design, targets: Floats) -> None:
        self.design, self.targets = design, targets
        self.columns: list[int] = [0]
        self.alpha, self.weights = np.array([1e-2]), np.zeros(1)  # a wide prior
        self.futile: set[int] = set()
        self.Phi = design.take([0])
        self.find_mode()

    def change(self, column: int, alpha: float) -> None:
        """Give a column another alpha; infinity deletes it.

        Gains are computed at the present mode, which moves with the change: full changes may
        cycle. So a change is made only if the evidence grows, if necessary with a smaller step; a
        column without such a step is excluded until another one has changed.
        """
        if any(self._improves_with(column, value) for value in self._steps(column, alpha)):
            self.futile.clear()
        else:
            self.futile.add(column)

    def _steps(self, column: int, alpha: float) -> list[float]:
        """The new alpha, and others between the present one and it."""
        if np.isinf(alpha):
            return [alpha]
        shares = np.array([1, 1 / 2, 1 / 4, 1 / 8, 1 / 32])
        if column not in self.columns:
            return list(alpha / shares**2)
        now = self.alpha[self.columns.index(column)]
        return list(now * (alpha / now) ** shares)

    def _improves_with(self, column: int, alpha: float) -> bool:
        """Make a change, and undo it unless the evidence grows."""
        before = dict(self.__dict__)
        if column not in self.columns:
            self.columns = [*self.columns, column]
            self.alpha, self.weights = np.append(self.alpha, alpha), np.append(self.weights, 0.0)
            self.Phi = np.column_stack([self.Phi, self.design.take([column])])
        elif np.isinf(alpha):
            i = self.columns.index(column)
            self.columns = self.columns[:i] + self.columns[i + 1 :]
            self.alpha, self.weights = np.delete(self.alpha, i), np.delete(self.weights, i)
            self.Phi = np.delete(self.Phi, i, axis=1)
        else:
            self.alpha = self.alpha.copy()
            self.alpha[self.columns.index(column)] = alpha
        self.find_mode()
        # More than round-off, or two changes could undo each other forever.
        if self.evidence > before["evidence"] + 1e-12 * abs(before["evidence"]):
            return True
        self.__dict__.update(before)
        return False

    def find_mode(self) -> None:
        """Newton's method for the mode of the weights, steps halved if they overshoot."""
        objective = self._objective(self.weights)
        for _ in range(100):
            p = expit(self.Phi @ self.weights)
            self.errors, self.spread = self.targets - p, p * (1 - p)
            self.M = (self.Phi * self.spread[:, None]).T @ self.Phi
            self.factor = cholesky(self.M + np.diag(self.alpha), lower=True)
            gradient = self.Phi.T @ self.errors - self.alpha * self.weights
            step = cho_solve((self.factor, True), gradient)
            if gradient @ step < 1e-12 * max(1.0, abs(objective)):
                break
            length, new = 1.0, self._objective(self.weights + step)
            while new < objective and length > 1e-6:
                length /= 2
                new = self._objective(self.weights + length * step)
            self.weights, objective = self.weights + length * step, new
        self.evidence = (
            objective + 0.5 * np.log(self.alpha).sum() - np.log(np.diag(self.factor)).sum()
        )

    def _objective(self, weights: Floats) -> float:
        values = np.where(self.targets > 0, 1.0, -1.0) * (self.Phi @ weights)
        return float(-np.logaddexp(0.0, -values).sum() - 0.5 * self.alpha @ weights**2)

    def reestimate(self, tol: float, max_changes: int) -> None:
        """Change the columns of the model, the largest gain first."""
        for _ in range(max_changes):
            M = self.M
            S = np.diag(M) - (solve_triangular(self.factor, M, lower=True) ** 2).sum(axis=0)
            gains, alphas = self._inside_gains(S, self.Phi.T @ self.errors, self.alpha)
            best = int(np.argmax(self._without_futile(gains, self.columns)))
            if gains[best] <= tol:
                return
            self.change(self.columns[best], float(alphas[best]))

    def proposals(self) -> tuple[Floats, Floats]:
        """The best alpha of every column, and its gain."""
        # With B = diag(p (1 - p)) and Sigma the posterior covariance of the weights, every column
        # phi has the sparsity S = phi' B phi - phi' B Phi Sigma Phi' B phi and the quality
        # Q = phi' (t - p); Sigma comes from the Cholesky factor of its inverse.
        V = self.design.dot(np.column_stack([self.Phi * self.spread[:, None], self.errors]))
        U = solve_triangular(self.factor, V[:, :-1].T, lower=True)
        S, Q = self.design.squares(self.spread) - (U**2).sum(axis=0), V[:, -1]
        S = np.maximum(S, 1e-10)  # positive but for round-off
        gains, alphas = _outside_gains(S, Q)
        at = np.array(self.columns)
        gains[at], alphas[at] = self._inside_gains(S[at], Q[at], self.alpha)
        gains[list(self.futile)] = 0.0
        return gains, alphas

    def _inside_gains(self, S: Floats, Q: Floats, alpha: Floats) -> tuple[Floats, Floats]:
        """Re-estimate, or delete if no finite alpha is best; the last column stays."""
        # s and q are S and Q without the column itself. The evidence as a function of its alpha
        # has its maximum at s^2 / (q^2 - s) if q^2 > s, else at infinity. S < alpha but for
        # round-off.
        S = np.clip(S, 1e-12 * alpha, (1 - 1e-12) * alpha)
        s, q = alpha * S / (alpha - S), alpha * Q / (alpha - S)
        relevant = q**2 > s
        new = np.where(relevant, s**2 / np.where(relevant, q**2 - s, 1.0), np.inf)
        new = np.minimum(new, 1e12) if len(alpha) == 1 else new  # the last column stays
        change = 1 / new - 1 / alpha
        with np.errstate(divide="ignore", invalid="ignore"):
            gains = 0.5 * (Q**2 * change / (1 + S * change) - np.log1p(S * change))
        return np.where(np.isfinite(gains), gains, 0.0), new

    def _without_futile(self, gains: Floats, columns: Any) -> Floats:
        futile = [i for i, column in enumerate(columns) if column in self.futile]
        gains[futile] = 0.0
        return gains


def _outside_gains(S: Floats, Q: Floats) -> tuple[Floats, Floats]:
    """Addition: the gain if a finite alpha is best, else 0."""
    # For columns outside the model s = S and q = Q; the gain is that of alpha = S^2 / (Q^2 - S).
    ratio = np.maximum(Q**2 / S, 1.0)
    gains = 0.5 * (ratio - 1 - np.log(ratio))
    return gains, S / np.maximum(ratio - 1, 1e-300)
