"""The minimal kernel classifier."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import column_or_1d

from kernlet._typing import Floats, Indices
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import Gram
from kernlet.lp.generation import Generation, Report
from kernlet.lp.l1 import L1KernelClassifier, Outcome
from kernlet.lp.linearization import linearize_successively, linearize_tall
from kernlet.lp.problem import PoundLoss
from kernlet.lp.streaming import TallLP, TallReport
from kernlet.sklearn_base import TrainingData, check_training_data, label_codes

_OF_FIRST_BLOCK = ("classes_", "n_features_in_", "feature_names_in_")


def checked_block(
    estimator: Any, X: Any, y: Any, classes: Any, sample_weight: Any, *, is_first: bool
) -> TrainingData:
    """Check a block of rows, all of whose labels must be known; a fault leaves no trace.

    Parameters
    ----------
    estimator : estimator
        Learns classes and features from the first block, and is asked for them later.
    X, y, sample_weight : array-like
    classes : array-like of shape (n_classes,) or None
        All labels that may come.
    is_first : bool

    Returns
    -------
    data : TrainingData
        Without the rows of no weight.
    """
    known = {name: getattr(estimator, name) for name in _OF_FIRST_BLOCK if hasattr(estimator, name)}
    try:
        return _checked(estimator, X, y, classes, sample_weight, is_first)
    except Exception:
        for name in _OF_FIRST_BLOCK:
            vars(estimator).pop(name, None)
        vars(estimator).update(known)
        raise


def _checked(
    estimator: Any, X: Any, y: Any, classes: Any, sample_weight: Any, is_first: bool
) -> TrainingData:
    data = check_training_data(
        estimator, X, y, sample_weight, order="C", reset=is_first, allow_no_weight=not is_first
    )
    y = column_or_1d(y)
    if is_first:
        estimator.classes_ = np.unique(y if classes is None else classes)
    elif classes is not None and not np.array_equal(np.unique(classes), estimator.classes_):
        raise ValueError(
            f"classes={classes!r} differ from those of the first call to partial_fit, "
            f"{estimator.classes_.tolist()}."
        )
    if len(estimator.classes_) < 2:
        raise ValueError(
            f"The first block holds one class only ({estimator.classes_[0]!r}); give all labels "
            "that may come as classes=[...]."
        )
    label_codes(estimator.classes_, y)
    return data


@dataclass(frozen=True, eq=False)
class RetainedRows:
    """Rows that stand for all blocks seen so far, and how many they stand for.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (n_rows, n_features)
        Centers of the machine and rows with a positive dual.
    y, sample_weight : ndarray of shape (n_rows,)
    blocks : ndarray of shape (n_rows,)
        The block that each row came with, counted from 0.
    n_blocks : int
        Blocks seen.
    n_seen : int
        Rows seen, those of no weight left out.
    n_forgotten : int
        Rows that were dropped because of their age.
    """

    X: Any
    y: Any
    sample_weight: Floats
    blocks: Indices
    n_blocks: int
    n_seen: int
    n_forgotten: int

    def __repr__(self) -> str:
        return (
            f"RetainedRows({len(self.y)} of {self.n_seen} rows of {self.n_blocks} blocks, "
            f"{self.n_forgotten} forgotten)"
        )

    @property
    def by_block(self) -> Indices:
        """How many rows of each block are left."""
        return np.bincount(self.blocks, minlength=self.n_blocks)


def merge(old: RetainedRows | None, new: TrainingData, max_age: int | None) -> RetainedRows:
    """The rows kept so far, less those too old, with a new block.

    Parameters
    ----------
    old : RetainedRows or None
    new : TrainingData
    max_age : int or None
        Blocks that a row may be behind the newest.

    Returns
    -------
    rows : RetainedRows
    """
    n_new = len(new.y)
    if old is None:
        numbers = np.zeros(n_new, dtype=np.intp)
        return RetainedRows(new.X, new.y, new.sample_weight, numbers, 1, n_new, 0)
    oldest = 0 if max_age is None else old.n_blocks - max_age
    stays = np.flatnonzero(old.blocks >= oldest)
    parts = [old.X[stays], new.X]
    is_sparse = any(map(sparse.issparse, parts))
    return RetainedRows(
        sparse.vstack(parts, format="csr") if is_sparse else np.concatenate(parts),
        np.concatenate([old.y[stays], new.y]),
        np.concatenate([old.sample_weight[stays], new.sample_weight]),
        np.concatenate([old.blocks[stays], np.full(n_new, old.n_blocks)]),
        old.n_blocks + 1,
        old.n_seen + n_new,
        old.n_forgotten + len(old.y) - len(stays),
    )


def keep(rows: RetainedRows, numbers: Indices) -> RetainedRows:
    """Some of the rows, standing for all of them."""
    return RetainedRows(
        rows.X[numbers],
        rows.y[numbers],
        rows.sample_weight[numbers],
        rows.blocks[numbers],
        rows.n_blocks,
        rows.n_seen,
        rows.n_forgotten,
    )


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
        Linear programs allowed for each output; about ten is usual. With the tall method each
        takes passes of its own.
    retain : {"both", "last"}, default="both"
        What :meth:`partial_fit` keeps of a block: the rows with a positive dual and the centers
        of the ``"last"`` linear program, as [1]_ proposes, or those of the first one as well,
        the 1-norm machine. The last one rests on so few rows that later blocks undo what it
        knew: see the page on many rows for figures.
    max_age : int or None, default=None
        With :meth:`partial_fit`, blocks that a kept row may be behind the newest one before
        it is forgotten. None forgets no row for its age.
    kernel, gamma, degree, coef0, candidates, class_weight, solver : see L1KernelClassifier
    tol : float, default=1e-9
        Relative duality gap of the last linear program.
    max_iter, cache_size, n_jobs, random_state : see L1KernelClassifier
    checkpoint : str, Path or None, default=None
        As for :class:`L1KernelClassifier`, of the first linear program: a later fit starts from
        the 1-norm machine and goes through the other programs again.

    Attributes
    ----------
    n_lps_ : ndarray of shape (n_outputs,)
        Linear programs solved for each output.
    retained_ : RetainedRows
        After :meth:`partial_fit`: the rows that are kept, the block each came with, and how
        many rows were seen and forgotten.
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

    retained_: RetainedRows
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **L1KernelClassifier._parameter_constraints,
        "mu": [Interval(Real, 0, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "max_lps": [Interval(Integral, 1, None, closed="left")],
        "retain": [StrOptions({"both", "last"})],
        "max_age": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self,
        C: float = 3.0,
        *,
        mu: float = 10.0,
        alpha: float = 5.0,
        max_lps: int = 50,
        retain: str = "both",
        max_age: int | None = None,
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
        self.retain = retain
        self.max_age = max_age

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Fit the machine to a new block of rows and the few that stand for those before.

        Only centers and rows with a positive dual are kept from a block, see ``retain``; the
        next block is merged with them and the machine made anew ([1]_, section 6). That is the
        answer for the rows at hand, not for all rows ever seen. The kernel stays that of the
        first block. A call after ``fit`` starts anew.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), default=None
            All labels that may ever come; needed in the first call where its block lacks some.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self : object
        """
        before: RetainedRows | None = getattr(self, "retained_", None)
        self._require_same_kernel(before)
        data = checked_block(self, X, y, classes, sample_weight, is_first=before is None)
        kernel = self._make_kernel(data) if before is None else self.expansion_.kernel
        rows = merge(before, data, self.max_age)
        numbers, wanted = np.arange(len(rows.y)), self.candidates
        if isinstance(wanted, Integral) and int(wanted) > len(numbers):
            wanted = len(numbers)  # small blocks leave few rows
        self._fit(TrainingData(rows.X, rows.y, rows.sample_weight, numbers), kernel, wanted)
        needed = self.margin_indices_
        if self._centers_are_rows:
            needed = np.union1d(needed, self.center_indices_)
        if self.retain == "both":
            needed = np.union1d(needed, self._first_rows)
        self.retained_ = keep(rows, needed)
        self._kernel_of_blocks = self._kernel_parameters()
        if not len(needed):
            warnings.warn(
                "No row is kept: the machine of these rows is constant. Give larger blocks that "
                "hold all classes, or a larger C or max_age.",
                stacklevel=3,
            )
        return self

    def _kernel_parameters(self) -> tuple[Any, ...]:
        return (self.kernel, self.gamma, self.degree, self.coef0)

    def _require_same_kernel(self, before: RetainedRows | None) -> None:
        """Refuse parameters that partial_fit cannot follow."""
        if self.checkpoint is not None:
            raise ValueError("partial_fit keeps no checkpoint: set checkpoint=None.")
        if before is not None and self._kernel_of_blocks != self._kernel_parameters():
            raise ValueError(
                "kernel, gamma, degree and coef0 stay those of the first call to partial_fit. Call "
                "fit, or partial_fit of a clone, to start anew."
            )

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the machine; see :meth:`L1KernelClassifier.fit`.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowSource, dask collection} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or str
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self : object
        """
        if hasattr(self, "retained_"):
            del self.retained_
        return super().fit(X, y, sample_weight)

    @property
    def _centers_are_rows(self) -> bool:
        return self.candidates is None or isinstance(self.candidates, Real | str)

    def _solve(self, generation: Generation, report: Report) -> Outcome:
        path = linearize_successively(
            generation,
            PoundLoss(self.mu, self.alpha),
            max_lps=self.max_lps,
            tol=self.tol,
            max_iter=self._max_iter,
            report=report,
        )
        return Outcome(path.solution, path.n_lps, path.is_stationary, path.first)

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
        return [Outcome(p.solution, len(p.objectives), p.is_stationary, p.first) for p in paths]

    def _warn_if_unfinished(self, outcomes: list[Outcome]) -> None:
        super()._warn_if_unfinished(outcomes)
        moving = sum(o.n_lps == self.max_lps and not o.is_stationary for o in outcomes)
        if moving:
            warnings.warn(
                f"{moving} of {len(outcomes)} outputs were still improving after "
                f"max_lps={self.max_lps} linear programs. Raise max_lps for fewer centers.",
                ConvergenceWarning,
                stacklevel=5,
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
        self._first_rows = _rows_of_first(outcomes, candidate_rows)


def _rows_of_first(outcomes: list[Outcome], candidate_rows: Indices | None) -> Indices:
    """Rows that the 1-norm machines of all outputs rest on: centers and positive duals."""
    firsts = [outcome.first for outcome in outcomes if outcome.first is not None]
    parts = [first.rows for first in firsts]
    if candidate_rows is not None:
        parts += [candidate_rows[first.centers] for first in firsts]
    return np.unique(np.concatenate(parts)) if parts else np.arange(0)
