"""The minimal kernel classifier."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval

from kernlet.estimators.l1_kernel import L1KernelClassifier
from kernlet.estimators.rounds import Outcome
from kernlet.kernels import Kernel
from kernlet.kernels.columns import Indices
from kernlet.kernels.gram import Gram
from kernlet.kernels.kernel import Floats
from kernlet.problems.pound import PoundLoss
from kernlet.solvers import Generation, TallLP, linearize_successively, linearize_tall
from kernlet.solvers.highs_generation import Report
from kernlet.solvers.tall_lp import TallReport


class MinimalKernelClassifier(L1KernelClassifier):
    """Kernel classifier that pays for every center and every error it has, however small.

    Replaces each |x| in the objective of :class:`L1KernelClassifier` by the pound loss
    |x| + mu (1 - exp(-alpha |x|)) and goes to a stationary vertex by a few linear programs,
    each started warm from the last (Algorithm 4.2 of [1]_). It uses a fraction of the centers
    of the 1-norm machine and fewer rows with a positive dual.

    Parameters
    ----------
    C : float, default=3.0
        Weight of the errors; the paper's nu.
    mu : float, default=10.0
        Price of being nonzero; 0 gives the 1-norm machine.
    alpha : float, default=5.0
        Steepness of that step.
    max_lps : int, default=50
        Linear programs allowed for each output; about ten is usual.
    kernel, gamma, degree, coef0, candidates, class_weight, solver : see L1KernelClassifier
    tol : float, default=1e-9
        Relative duality gap of the last linear program.
    max_iter, cache_size, checkpoint, n_jobs, random_state : see L1KernelClassifier

    Attributes
    ----------
    n_lps_ : ndarray of shape (n_outputs,)
        Linear programs solved for each output.
    expansion_, n_centers_, classes_ : see L1KernelClassifier
    center_indices_, margin_indices_, duals_ : see L1KernelClassifier
    objective_, duality_gap_ : ndarray of shape (n_outputs,)
        Of the last linear program of each output, with its costs.
    loo_error_bound_ : float
        The bound of :class:`L1KernelClassifier` for the last linear programs with their
        costs held fixed. It is no bound for leaving a row out of the whole procedure.
    n_iter_, n_passes_, n_features_in_, feature_names_in_ : see L1KernelClassifier

    See Also
    --------
    L1KernelClassifier : The linear program alone, with a leave-one-out bound.

    Notes
    -----
    Solving the last linear program again on its rows with a positive dual and on its centers
    alone gives the same machine (remark 4.4). The concave problem has many stationary
    points: the answer is one of them, reached from the 1-norm machine.

    References
    ----------
    .. [1] G. M. Fung, O. L. Mangasarian and A. J. Smola, "Minimal kernel classifiers",
       Journal of Machine Learning Research 3, 303-321, 2002.

    Examples
    --------
    >>> from kernlet import MinimalKernelClassifier
    >>> from kernlet.datasets import make_checkerboard
    >>> board = make_checkerboard(random_state=0)
    >>> machine = MinimalKernelClassifier(C=100.0, gamma=4.0, random_state=0)
    >>> machine.fit(board.X, board.y).n_centers_ < 35
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **L1KernelClassifier._parameter_constraints,
        "mu": [Interval(Real, 0, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "max_lps": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        C: float = 3.0,
        *,
        mu: float = 10.0,
        alpha: float = 5.0,
        max_lps: int = 50,
        kernel: str | Kernel = "rbf",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        candidates: Any = None,
        class_weight: Any = None,
        solver: str = "auto",
        tol: float = 1e-9,
        max_iter: int = -1,
        cache_size: float = 2000,
        checkpoint: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            C,
            kernel=kernel,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            candidates=candidates,
            class_weight=class_weight,
            solver=solver,
            tol=tol,
            max_iter=max_iter,
            cache_size=cache_size,
            checkpoint=checkpoint,
            n_jobs=n_jobs,
            random_state=random_state,
        )
        self.mu = mu
        self.alpha = alpha
        self.max_lps = max_lps

    def _solve(self, generation: Generation, report: Report) -> Outcome:
        path = linearize_successively(
            generation,
            PoundLoss(self.mu, self.alpha),
            max_lps=self.max_lps,
            tol=self.tol,
            max_iter=self._max_iter,
            report=report,
        )
        return Outcome(path.solution, path.n_lps, path.is_stationary)

    def _solve_lock_step(
        self, lp: TallLP, start: Floats | None, report: TallReport
    ) -> list[Outcome]:
        paths = linearize_tall(
            lp,
            PoundLoss(self.mu, self.alpha),
            max_lps=self.max_lps,
            tol=self.tol,
            max_iter=self._max_iter,
            start=start,
            report=report,
        )
        return [Outcome(p.solution, len(p.objectives), p.is_stationary) for p in paths]

    def _warn_if_unfinished(self, outcomes: list[Outcome]) -> None:
        super()._warn_if_unfinished(outcomes)
        moving = sum(o.n_lps == self.max_lps and not o.is_stationary for o in outcomes)
        if moving:
            warnings.warn(
                f"{moving} of {len(outcomes)} outputs were still improving after "
                f"max_lps={self.max_lps} linear programs. Raise max_lps for fewer centers.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _set_machine(
        self,
        gram: Gram,
        rows: Indices,
        candidate_rows: Indices | None,
        outcomes: list[Outcome],
    ) -> None:
        super()._set_machine(gram, rows, candidate_rows, outcomes)
        self.n_lps_ = np.array([outcome.n_lps for outcome in outcomes])
