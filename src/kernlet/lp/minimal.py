"""The minimal kernel classifier."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import column_or_1d

from kernlet._typing import Floats, Indices
from kernlet.kernels.base import Kernel
from kernlet.lp.l1 import L1KernelClassifier
from kernlet.lp.linearization import LinearizationPath, linearize
from kernlet.lp.machine import warn_improving
from kernlet.lp.problem import PoundLoss
from kernlet.sampling import Candidates
from kernlet.sklearn_base import (
    TrainingData,
    check_training_data,
    fit_method,
    label_codes,
    warn_user,
)


@dataclass(frozen=True, eq=False)
class RetainedRows:
    """Rows that stand for all blocks seen so far, and how many they stand for.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (n_rows, n_features)
        Centers of the machine and rows with a positive dual.
    y, sample_weight : ndarray of shape (n_rows,)
        Their labels and weights.
    blocks : ndarray of shape (n_rows,)
        The block that each row came with, counted from 0.
    n_blocks : int
        Blocks seen.
    n_seen : int
        Rows seen, those of zero weight left out.
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

    def subset(self, numbers: Indices) -> RetainedRows:
        """Some of the rows, standing for all of them."""
        return replace(
            self,
            X=self.X[numbers],
            y=self.y[numbers],
            sample_weight=self.sample_weight[numbers],
            blocks=self.blocks[numbers],
        )

    def merged(self, data: TrainingData, max_age: int | None) -> RetainedRows:
        """These rows, less those more than ``max_age`` blocks old, with a new block."""
        oldest = 0 if max_age is None else self.n_blocks - max_age
        old, n_new = self.subset(np.flatnonzero(self.blocks >= oldest)), len(data.y)
        is_sparse = sparse.issparse(old.X) or sparse.issparse(data.X)
        stack = partial(sparse.vstack, format="csr") if is_sparse else np.concatenate
        return RetainedRows(
            stack([old.X, data.X]),
            np.concatenate([old.y, data.y]),
            np.concatenate([old.sample_weight, data.sample_weight]),
            np.concatenate([old.blocks, np.full(n_new, self.n_blocks)]),
            self.n_blocks + 1,
            self.n_seen + n_new,
            self.n_forgotten + len(self.y) - len(old.y),
        )


class MinimalKernelClassifier(L1KernelClassifier):
    """Kernel classifier that pays a fixed price for each center and each error: very few centers.

    Replaces each absolute value in the objective of :class:`L1KernelClassifier` by the pound
    loss::

        |x| + mu (1 - exp(-alpha |x|))

    and reaches a stationary vertex by a few linear programs, each started from the solution of
    the last (Algorithm 4.2 of [1]_). It uses a fraction of the centers
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
        Linear programs allowed for each output; about ten is usual. With streaming each takes
        several passes.
    retain : {"both", "last"}, default="both"
        What :meth:`partial_fit` keeps of a block: the rows with a positive dual and the centers
        of the ``"last"`` linear program, as [1]_ proposes, or those of the first one as well,
        the 1-norm machine. The last one depends on so few rows that later blocks undo what it
        learned: see the how-to guide on many rows for figures.
    max_age : int or None, default=None
        With :meth:`partial_fit`, blocks that a kept row may be behind the newest one before
        it is forgotten. None forgets no row for its age.
    kernel : {"rbf", "laplacian", "poly", "linear", "sigmoid"} or Kernel, default="rbf"
        Kernel function: a name, or an object of a class derived from
        :class:`kernlet.kernels.Kernel`.
    gamma : {"scale", "auto", "mean_distance"} or float, default="scale"
        Width of all kernels but "linear". ``"scale"`` is 1 / (n_features X.var()) and ``"auto"``
        1 / n_features, as in scikit-learn; ``"mean_distance"`` is one over the mean squared
        distance between two rows. For "laplacian", a rule is the square root of its value divided
        by n_features.
    degree : int, default=3
        Degree of the "poly" kernel.
    coef0 : float, default=0.0
        Constant of the "poly" and "sigmoid" kernels.
    candidates : "auto", "union", None, int, float or array-like, default="auto"
        Points that may become centers. None takes all rows; a number or a fraction draws rows at
        random (the reduced kernel); ``"union"`` takes the centers that machines on a sample of each
        tenth of the rows choose; an array of shape (n_candidates, n_features) holds the points
        themselves. ``"auto"`` takes all rows where that is quick, and otherwise 100 to 500 rows
        that cover the data.
    class_weight : dict, "balanced" or None, default=None
        Multiplies C for the rows of a class. ``"balanced"`` weighs classes inversely to their
        numbers of rows.
    solver : {"auto", "generation", "streaming"}, default="auto"
        Column and row ``"generation"``, or ``"streaming"`` for many more rows than candidates:
        ten to twenty passes over all rows. ``"auto"`` takes the latter with at least 5,000 rows
        and at least 20 rows per candidate, and for rows that are not in memory. Both end at the
        same optimum with the same certificate; where streaming ends without one (many rows that
        are nearly equal), ``"auto"`` continues by generation if at most 100,000 rows are in
        memory. ``"tall"`` is another name of ``"streaming"``.
    tol : float, default=1e-9
        Relative duality gap of the last linear program.
    max_iter : int, default=-1
        Simplex iterations allowed for each linear program; -1 for no limit. A fit that stops
        at the limit warns with the gap that it reached.
    cache_size : float, default=2000
        Memory in MB for kernel columns, for each linear program under way; for kernel blocks
        with streaming, shared by the workers of a cluster.
    checkpoint : str, Path or None, default=None
        Folder to which streaming writes the machine of the first linear program after every pass
        over all rows. A fit with the same parameters and data starts from it and solves the
        other programs again; ``random_state`` must be a number. Generation writes nothing.
    verbose : int, default=0
        Print progress: 1 for each task of the fit, 2 for the steps below them.
    n_jobs : int or None, default=None
        Classes solved at the same time; with streaming they share their passes instead.
    random_state : int, RandomState instance or None, default=None
        Draws random candidates and the solver's first working set. The optimum does not
        depend on the latter.

    Attributes
    ----------
    n_lps_ : ndarray of shape (n_outputs,)
        Linear programs solved for each output.
    pound_objective_ : ndarray of shape (n_outputs,)
        Value of the discontinuous problem (18) of [1]_ for each output,
        ``C sum_i (y_i + mu [y_i > 0]) + sum_j (|beta_j| + mu [beta_j != 0])``, weights of rows
        included: what the exponentials stand for, and a number to compare machines of the same
        rows, C and mu by. After :meth:`partial_fit` it is over the rows of that call and those
        kept before. Less ``mu`` times the weighted count of errors and centers it is the value
        of the 1-norm problem.
    retained_ : RetainedRows
        After :meth:`partial_fit`: the rows that are kept, the block each came with, and how
        many rows were seen and dropped.
    expansion_ : KernelExpansion
        The fitted decision function: kernel, centers, coefficients and intercepts.
    n_centers_ : int
        Number of centers: kernel evaluations per prediction.
    n_candidates_ : int
        Points that could become centers.
    nbytes_ : int
        Bytes of everything that a prediction needs.
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    center_indices_ : ndarray of shape (n_centers,)
        Training rows that are the centers (the paper's m2 rows); with given points as
        candidates, the numbers of those points.
    margin_indices_ : ndarray of shape (n_margin_rows,)
        Training rows with a positive dual in at least one output (the paper's m1 rows).
    duals_ : ndarray of shape (n_outputs, n_margin_rows)
        Dual variables of these rows.
    objective_ : ndarray of shape (n_outputs,)
        Value of the last linear program of each output, with its costs.
    duality_gap_ : ndarray of shape (n_outputs,)
        Relative duality gap of that linear program, all rows and all candidates priced in
        float64: the certificate.
    loo_error_bound_ : float
        The bound of :class:`L1KernelClassifier` for the last linear programs with their
        costs held fixed. It is not a bound for leaving a row out of the whole procedure.
    n_iter_ : int
        Simplex iterations, and steps of the interior point method that takes over where noisy
        rows need very many of these.
    n_passes_ : float
        Passes of streaming over the rows, those over samples counted as their share; 0 where
        generation alone was used.
    n_features_in_ : int
        Number of features seen by ``fit``.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if all columns of X have names that are strings.

    See Also
    --------
    L1KernelClassifier : The linear program alone, with a leave-one-out bound.

    Notes
    -----
    Solving the last linear program again on its rows with a positive dual and on its centers
    alone gives the same machine (remark 4.4). The concave problem has many stationary
    points: the answer is one of them, reached from the 1-norm machine. For small mu the global
    minimum of the discontinuous problem is the solution of the linear program with the smallest
    count of centers plus C times errors (Proposition 4.1); that count is what its proof is
    about. A stationary point need not be that solution: compare ``pound_objective_``.

    Time and memory are those of :class:`L1KernelClassifier` for the first linear program; the
    others start warm. ``candidates="auto"`` takes fewer points, at most 250 for 50,000 rows.

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
    # 250 candidates for 50,000 rows: up to 50 linear programs, the outputs one after the other.
    _auto_work, _auto_power = 3e9, 1.0
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
        candidates: Any = "auto",
        class_weight: Any = None,
        solver: str = "auto",
        tol: float = 1e-9,
        max_iter: int = -1,
        cache_size: float = 2000,
        checkpoint: Any = None,
        verbose: int = 0,
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
            verbose=verbose,
            n_jobs=n_jobs,
            random_state=random_state,
        )
        self.mu = mu
        self.alpha = alpha
        self.max_lps = max_lps
        self.retain = retain
        self.max_age = max_age

    @fit_method
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
        data = self._check_training_data(X, y, sample_weight)
        self._minimise_pound_loss(data, self._make_kernel(data), self.candidates)
        return self

    @fit_method
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Fit the machine to a new block of rows and the few that stand for those before.

        Only centers and rows with a positive dual are kept from a block, see ``retain``; the next
        block is merged with them and the machine is trained on both (section 6 of the paper). That
        is the answer for the rows at hand, not for all rows ever seen. The kernel stays that of the
        first block. A call after ``fit`` starts again.

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
        data = self._check_block(X, y, classes, sample_weight, is_first=before is None)
        if before is None:
            n_rows, blocks = len(data.y), np.zeros(len(data.y), dtype=np.intp)
            rows = RetainedRows(data.X, data.y, data.sample_weight, blocks, 1, n_rows, 0)
            kernel = self._make_kernel(data)
        else:
            rows, kernel = before.merged(data, self.max_age), self.expansion_.kernel
        n_candidates = self.candidates
        if isinstance(n_candidates, Integral):
            n_candidates = min(int(n_candidates), len(rows.y))  # small blocks leave few rows
        merged = TrainingData(rows.X, rows.y, rows.sample_weight, np.arange(len(rows.y)))
        paths, candidates = self._minimise_pound_loss(merged, kernel, n_candidates)
        self.retained_ = rows.subset(self._rows_to_retain(paths, candidates))
        self._kernel_of_blocks = self._kernel_parameters()
        if not len(self.retained_.y):
            warn_user(
                "No row is kept: the machine of these rows is constant. Give larger blocks that "
                "hold all classes, or a larger C or max_age.",
                UserWarning,
            )
        return self

    def _minimise_pound_loss(
        self, data: TrainingData, kernel: Kernel, n_candidates: Any
    ) -> tuple[list[LinearizationPath], Candidates]:
        """Fit by successive linear programs; warn of outputs that more of them would improve."""
        pound = PoundLoss(self.mu, self.alpha)
        method = partial(linearize, pound=pound, max_lps=self.max_lps)
        paths, candidates = self._train(data, kernel, n_candidates, method)
        self.n_lps_ = np.array([path.n_lps for path in paths])
        self.pound_objective_ = np.array([path.step_objective for path in paths])
        warn_improving(paths, self.max_lps)
        return paths, candidates

    def _rows_to_retain(self, paths: list[LinearizationPath], candidates: Candidates) -> Indices:
        """Centers and rows with a positive dual, of the 1-norm machines as well if ``retain``."""
        numbers = [self.margin_indices_]
        if candidates.rows is not None:
            numbers.append(self.center_indices_)
        if self.retain == "both":
            firsts = [path.first for path in paths]
            numbers += [first.rows for first in firsts]
            if candidates.rows is not None:
                numbers += [candidates.rows[first.centers] for first in firsts]
        return np.unique(np.concatenate(numbers))

    def _kernel_parameters(self) -> tuple[Any, ...]:
        return (self.kernel, self.gamma, self.degree, self.coef0)

    def _require_same_kernel(self, before: RetainedRows | None) -> None:
        """Refuse parameters that partial_fit cannot follow."""
        if self.checkpoint is not None:
            raise ValueError("partial_fit keeps no checkpoint: set checkpoint=None.")
        if before is not None and self._kernel_of_blocks != self._kernel_parameters():
            raise ValueError(
                "kernel, gamma, degree and coef0 stay those of the first call to partial_fit. Call "
                "fit, or partial_fit of a clone, to start again."
            )

    def _check_block(
        self, X: Any, y: Any, classes: Any, sample_weight: Any, *, is_first: bool
    ) -> TrainingData:
        """Validate a block, all of whose labels must be known; an error leaves no trace."""
        learned = ("classes_", "n_features_in_", "feature_names_in_")
        before = {name: vars(self)[name] for name in learned if name in vars(self)}
        try:
            data = check_training_data(
                self, X, y, sample_weight, order="C", reset=is_first, allow_no_weight=not is_first
            )
            labels = column_or_1d(y)
            self._learn_classes(labels, classes, is_first=is_first)
            label_codes(self.classes_, labels)
        except Exception:
            for name in set(learned) & set(vars(self)):
                delattr(self, name)
            self.__dict__.update(before)
            raise
        return data

    def _learn_classes(self, labels: Any, classes: Any, *, is_first: bool) -> None:
        if is_first:
            self.classes_ = np.unique(labels if classes is None else classes)
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"classes={classes!r} differ from those of the first call to partial_fit, "
                f"{self.classes_.tolist()}."
            )
        if len(self.classes_) < 2:
            raise ValueError(
                f"The first block holds one class only ({self.classes_[0]!r}); give all labels "
                "that may come as classes=[...]."
            )
