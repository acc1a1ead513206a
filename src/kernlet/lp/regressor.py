"""The 1-norm kernel regressor and the minimal kernel regressor."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import column_or_1d

from kernlet._typing import Floats, Indices
from kernlet.expansion import KernelExpansion
from kernlet.kernels.base import Kernel
from kernlet.lp.linearization import LinearizationPath, linearize, solve_once
from kernlet.lp.machine import L1Machine, Method, join_duals, warn_improving
from kernlet.lp.problem import L1Margin, PoundLoss, Solution
from kernlet.model.scoring import QuantileScoreMixin
from kernlet.sklearn_base import (
    ExpansionRegressor,
    TrainingData,
    check_training_data,
    error_weights,
    fit_method,
)

# How this works
# --------------
# f(x) = scale * g(x) + shift, and g solves the linear program for the targets (y - shift) / scale
# with the tube epsilon / scale. Every term of the objective is multiplied by the scale: both
# programs have the same solutions, C means the same, and the tolerances of the solvers are relative
# to the spread of the targets. The intercept has no cost, so neither has the shift.


def scaled_targets(
    y: Floats, epsilon: float, weights: Floats
) -> tuple[Floats, float, float, float]:
    """Targets of mean 0 and mean absolute deviation 1, their tube, the shift and the scale.

    Targets that a constant can leave within the tube become 0: that constant is the answer.
    """
    low, high = float(y.min()), float(y.max())
    if not high - low > 2 * epsilon:
        return np.zeros_like(y), 0.0, low + 0.5 * (high - low), 1.0
    shares = weights / weights.sum()
    shift = float(np.clip(shares @ y, low, high))
    scale = float(shares @ np.abs(y - shift))
    if not np.isfinite(high - low) or not scale >= np.finfo(float).tiny:
        raise ValueError(
            f"The numbers in y, from {low:.3g} to {high:.3g}, are too large or too small for "
            "double precision; multiply them by a common factor."
        )
    return (y - shift) / scale, epsilon / scale, shift, scale


def regression_problem(
    X: Any,
    kernel: Kernel,
    points: Any,
    targets: Floats,
    epsilons: Floats,
    costs_below: Floats,
    costs_above: Floats,
) -> L1Margin:
    """One linear program per column of ``targets``, with two constraints per row.

    ``costs_below`` and ``costs_above`` (n_rows,) are the costs of a unit by which a value is more
    than its column's epsilon too low and too high.
    """
    n_rows, n_outputs = targets.shape
    shape = (2 * n_rows, n_outputs)
    signs = np.tile(np.array([1, -1], dtype=np.int8), n_rows)
    costs = np.stack([costs_below, costs_above], axis=1).reshape(-1)
    if (costs == costs[0]).all():
        costs = np.broadcast_to(costs[0], costs.shape)  # one number in place of a column
    margins = np.stack([targets - epsilons, -targets - epsilons], axis=1).reshape(shape)
    n_candidates = (X if points is None else points).shape[0]
    return L1Margin(
        X,
        kernel,
        points,
        np.broadcast_to(signs[:, None], shape),
        np.broadcast_to(costs[:, None], shape),
        np.ones((n_candidates, n_outputs)),
        margins,
    )


class LPRegressor(L1Machine, ExpansionRegressor):
    """What both regressors share: targets in units of their deviation, and back."""

    shift_: Floats
    scale_: Floats

    def _costs(self, weights: Floats) -> tuple[Floats, Floats]:
        """The costs of values too low and too high."""
        return weights, weights

    def _tube(self) -> float:
        """Half the width of the tube, in the units of y."""
        raise NotImplementedError

    def _fit(self, X: Any, y: Any, sample_weight: Any, method: Method) -> list[LinearizationPath]:
        """Solve the linear programs of all targets by ``method``."""
        data = check_training_data(
            self, X, y, sample_weight, takes_sources=True, is_regression=True, order="C"
        )
        data = self._checked_targets(data)
        _, _, self.shift_, self.scale_ = self._scaled_targets(data)
        self._is_flat = data.y.ndim == 1
        paths, _ = self._train(data, self._make_kernel(data), self.candidates, method)
        return paths

    def _checked_targets(self, data: TrainingData) -> TrainingData:
        """The data, refused where the loss cannot take its targets."""
        return data

    def _scaled_targets(self, data: TrainingData) -> tuple[Floats, Floats, Floats, Floats]:
        """The targets (n_rows, n_outputs), and the tube, shift and scale of each output."""
        columns = np.asarray(data.y, dtype=np.float64).reshape(len(data.y), -1)
        scaled = [scaled_targets(c, self._tube(), data.sample_weight) for c in columns.T]
        targets, epsilons, shift, scale = map(np.array, zip(*scaled, strict=True))
        return targets.T, epsilons, shift, scale

    def _problem(self, data: TrainingData, kernel: Kernel, points: Any) -> L1Margin:
        costs = self._costs(error_weights(self.C, None, None, None, data.sample_weight))
        targets, epsilons, _, _ = self._scaled_targets(data)
        return regression_problem(data.X, kernel, points, targets, epsilons, *costs)

    def _count_outputs(self, data: TrainingData) -> int:
        return 1 if data.y.ndim == 1 else int(data.y.shape[1])

    def _attributes(self, expansion: KernelExpansion) -> dict[str, Any]:
        coef = self.scale_[:, None] * expansion.coef
        intercept = self.scale_ * expansion.intercept + self.shift_
        return {
            "expansion_": replace(expansion, coef=coef, intercept=intercept),
            "_is_flat": self._is_flat,
        }

    def _set_attributes(
        self,
        problem: L1Margin,
        rows: Indices,
        candidate_rows: Indices | None,
        solutions: list[Solution],
    ) -> None:
        super()._set_attributes(problem, rows, candidate_rows, solutions)
        self.objective_ = self.scale_ * self.objective_
        constraints, duals = join_duals(solutions)
        margin_rows, place = np.unique(constraints // 2, return_inverse=True)
        signed = np.zeros((len(solutions), len(margin_rows)))
        np.add.at(signed.T, place, (duals * np.where(constraints % 2 == 0, 1.0, -1.0)).T)
        is_active = (signed != 0).any(axis=0)
        self.margin_indices_ = rows[margin_rows[is_active]]
        self.duals_ = signed[:, is_active]


class L1KernelRegressor(QuantileScoreMixin, LPRegressor):
    """Kernel regressor with a 1-norm penalty on its coefficients: few centers by design.

    f(x) = sum_j beta_j k(x, z_j) + intercept over candidate centers z_j is the solution of the
    linear program::

        minimise  sum_j |beta_j| + C sum_i loss(y_i - f(x_i))

    with the loss max(0, abs(r) - epsilon) of a support vector regressor, or the pinball loss
    q max(0, r) + (1 - q) max(0, -r). It is solved exactly, as by :class:`L1KernelClassifier`
    ([1]_, [2]_): the answer is a vertex with a duality gap of about 1e-12. The 1-norm makes most
    beta_j zero. The kernel need not be positive definite: the sigmoid kernel is allowed.

    Parameters
    ----------
    C : float, default=3.0
        Weight of the errors. The solution for a y, and an epsilon, in other units is the same in
        these units: C needs no change.
    loss : {"epsilon_insensitive", "pinball"}, default="epsilon_insensitive"
        ``"epsilon_insensitive"`` is the loss of a support vector regressor: no error within
        ``epsilon``, linear beyond. ``"pinball"`` is the loss whose minimum is a quantile of one
        target; for the quantile 0.5 it is half the absolute error.
    epsilon : float, default=0.1
        Half the width of the tube within which errors cost nothing, in the units of y, as in
        scikit-learn's SVR; of no effect for the pinball loss.
    quantile : float, default=0.5
        The quantile q of y given x that is estimated, between 0 and 1; of no effect for the
        other loss.
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
    candidates : "auto", None, int, float or array-like, default="auto"
        Points that may become centers. None takes all rows; a number or a fraction draws rows at
        random; an array of shape (n_candidates, n_features) holds the points themselves. ``"auto"``
        takes all rows where that is quick, and otherwise 100 to 500 rows that cover the data.
    solver : {"auto", "generation", "streaming"}, default="auto"
        Column and row ``"generation"``, or ``"streaming"`` for many more rows than candidates:
        ten to twenty passes over all rows. ``"auto"`` takes the latter with at least 5,000 rows
        and at least 20 rows per candidate, and for rows that are not in memory. Both end at the
        same optimum with the same certificate.
    tol : float, default=1e-9
        Relative duality gap to reach.
    max_iter : int, default=-1
        Simplex iterations allowed for each linear program; -1 for no limit. A fit that stops
        at the limit warns with the gap that it reached.
    cache_size : float, default=2000
        Memory in MB for kernel columns, or for kernel blocks with streaming.
    checkpoint : str, Path or None, default=None
        Folder to which streaming writes its machine after every pass over all rows. A fit
        with the same parameters and data starts from it; ``random_state`` must be a number.
        Generation writes nothing.
    verbose : int, default=0
        Print progress: 1 for each task of the fit, 2 for the steps below them.
    n_jobs : int or None, default=None
        Outputs solved at the same time; with streaming they share their passes instead.
    random_state : int, RandomState instance or None, default=None
        Draws random candidates and the solver's first working set. The optimum does not
        depend on the latter.

    Attributes
    ----------
    expansion_ : KernelExpansion
        The fitted decision function: kernel, centers, coefficients and intercepts.
    n_centers_ : int
        Number of centers: kernel evaluations per prediction.
    n_candidates_ : int
        Points that could become centers.
    nbytes_ : int
        Bytes of everything that a prediction needs.
    center_indices_ : ndarray of shape (n_centers,)
        Training rows that are the centers; with given points as candidates, the numbers of those
        points.
    margin_indices_ : ndarray of shape (n_margin_rows,)
        Training rows with a nonzero dual in at least one output: those on the tube or outside of
        it, of the pinball loss nearly all.
    duals_ : ndarray of shape (n_outputs, n_margin_rows)
        The duals of these rows, positive where y is above f. Of the pinball loss they are C q
        above and -C (1 - q) below.
    objective_ : ndarray of shape (n_outputs,)
        Value of the linear program of each output, in the units of y.
    duality_gap_ : ndarray of shape (n_outputs,)
        Relative duality gap of each output's linear program, all rows and all candidates
        priced in float64: the certificate.
    shift_, scale_ : ndarray of shape (n_outputs,)
        Mean and mean absolute deviation of the targets, which are the zero and the unit of the
        linear programs.
    quantiles_ : tuple of float or None
        The quantile that is predicted, with ``loss="pinball"``; else None.
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
    MinimalKernelRegressor : Fewer centers still, by a concave penalty.
    L1KernelClassifier : The same linear program with labels.

    Notes
    -----
    Several targets make one linear program each, and share one set of centers.

    A share of at most q of the rows lies strictly below the quantile machine, and of at most
    1 - q strictly above it, weights counted: a property of the optimum, by the intercept.

    Time and memory grow as in :class:`L1KernelClassifier`, with twice as many constraints as
    rows: with the number of rows on the tube or outside of it, and with its cube where these grow
    with the rows. For the pinball loss that is every row; prefer few candidates to all rows
    there. With s candidates and many more rows, streaming takes ten to twenty passes of n_rows * s
    kernel values, and about 150 bytes per row and output.

    With kernel="linear" and the unit vectors as candidates, the quantile machine is
    scikit-learn's QuantileRegressor of alpha = 1 / (C n_rows).

    References
    ----------
    .. [1] G. M. Fung, O. L. Mangasarian and A. J. Smola, "Minimal kernel classifiers",
       Journal of Machine Learning Research 3, 303-321, 2002.
    .. [2] A. J. Smola, B. Schoelkopf and G. Raetsch, "Linear programs for automatic accuracy
       control in regression", Ninth International Conference on Artificial Neural Networks, 1999.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet import L1KernelRegressor
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> machine = L1KernelRegressor(C=10.0, epsilon=0.05).fit(X, np.sin(X[:, 0]))
    >>> machine.n_centers_ < 20
    True
    >>> bool(np.abs(machine.predict(X) - np.sin(X[:, 0])).max() < 0.06)
    True
    >>> bool(machine.duality_gap_.max() < 1e-9)
    True
    """

    quantiles_: tuple[float, ...] | None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **L1Machine._parameter_constraints,
        "loss": [StrOptions({"epsilon_insensitive", "pinball"})],
        "epsilon": [Interval(Real, 0, None, closed="left")],
        "quantile": [Interval(Real, 0, 1, closed="neither")],
    }

    def __init__(
        self,
        C: float = 3.0,
        *,
        loss: str = "epsilon_insensitive",
        epsilon: float = 0.1,
        quantile: float = 0.5,
        kernel: str | Kernel = "rbf",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        candidates: Any = "auto",
        solver: str = "auto",
        tol: float = 1e-9,
        max_iter: int = -1,
        cache_size: float = 2000,
        checkpoint: Any = None,
        verbose: int = 0,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.loss = loss
        self.epsilon = epsilon
        self.quantile = quantile
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.candidates = candidates
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.checkpoint = checkpoint
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.random_state = random_state

    @fit_method
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the machine.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowSource, dask collection} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), or str
            The name of a column of X, where X is a source of rows that has one; a source has one
            target.
        sample_weight : array-like of shape (n_samples,), default=None
            Multiplies C for each row: a weight of 2 is the row given twice.

        Returns
        -------
        self : object
        """
        self._fit(X, y, sample_weight, solve_once)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self.loss != "pinball"
        return tags

    def _checked_targets(self, data: TrainingData) -> TrainingData:
        self.quantiles_ = None
        if self.loss != "pinball":
            return data
        if data.y.ndim > 1 and data.y.shape[1] > 1:
            raise ValueError(
                f'loss="pinball" predicts a quantile of one target, but y has {data.y.shape[1]} '
                "columns; fit a machine for each."
            )
        self.quantiles_ = (float(self.quantile),)
        return replace(data, y=column_or_1d(data.y, warn=True))

    def _attributes(self, expansion: KernelExpansion) -> dict[str, Any]:
        return {**super()._attributes(expansion), "quantiles_": self.quantiles_}

    def _tube(self) -> float:
        return 0.0 if self.loss == "pinball" else self.epsilon

    def _costs(self, weights: Floats) -> tuple[Floats, Floats]:
        if self.loss == "pinball":
            return self.quantile * weights, (1.0 - self.quantile) * weights
        return weights, weights


class MinimalKernelRegressor(LPRegressor):
    """Kernel regressor that pays a fixed price for each center: very few of them.

    Replaces each absolute value in the objective of :class:`L1KernelRegressor`, and the distance x
    of each row from the tube, by the pound loss::

        |x| + mu (1 - exp(-alpha |x|))

    and reaches a stationary vertex by a few linear programs, each started from the solution of the
    last (Algorithm 4.2 of [1]_). The step counts centers, and rows outside the tube however far
    they are: outliers hardly count.

    Parameters
    ----------
    C : float, default=3.0
        Weight of the errors.
    epsilon : float, default=0.1
        Half the width of the tube within which errors cost nothing, in the units of y.
    mu : float, default=10.0
        Price of being nonzero; 0 gives the 1-norm machine. The unit of errors and coefficients is
        the mean absolute deviation of y, ``scale_``.
    alpha : float, default=5.0
        Steepness of that step, in the same unit.
    max_lps : int, default=50
        Linear programs allowed for each output; about ten is usual.
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
    candidates : "auto", None, int, float or array-like, default="auto"
        Points that may become centers. None takes all rows; a number or a fraction draws rows at
        random; an array of shape (n_candidates, n_features) holds the points themselves. ``"auto"``
        takes all rows where that is quick, and otherwise 100 to 500 rows that cover the data.
    solver : {"auto", "generation", "streaming"}, default="auto"
        Column and row ``"generation"``, or ``"streaming"`` for many more rows than candidates:
        ten to twenty passes over all rows. ``"auto"`` takes the latter with at least 5,000 rows
        and at least 20 rows per candidate, and for rows that are not in memory. Both end at the
        same optimum with the same certificate.
    tol : float, default=1e-9
        Relative duality gap of the last linear program.
    max_iter : int, default=-1
        Simplex iterations allowed for each linear program; -1 for no limit. A fit that stops
        at the limit warns with the gap that it reached.
    cache_size : float, default=2000
        Memory in MB for kernel columns, or for kernel blocks with streaming.
    checkpoint : str, Path or None, default=None
        Folder to which streaming writes the machine of the first linear program after every pass
        over all rows. A fit with the same parameters and data starts from it;
        ``random_state`` must be a number. Generation writes nothing.
    verbose : int, default=0
        Print progress: 1 for each task of the fit, 2 for the steps below them.
    n_jobs : int or None, default=None
        Outputs solved at the same time; with streaming they share their passes instead.
    random_state : int, RandomState instance or None, default=None
        Draws random candidates and the solver's first working set. The optimum does not
        depend on the latter.

    Attributes
    ----------
    n_lps_ : ndarray of shape (n_outputs,)
        Linear programs solved for each output.
    pound_objective_ : ndarray of shape (n_outputs,)
        Value of the discontinuous problem for each output, errors x_i and coefficients in units of
        ``scale_``: ``C sum_i (x_i + mu [x_i > 0]) + sum_j (|beta_j| + mu [beta_j != 0])``, weights
        of rows included; a number to compare machines of the same rows, C and mu by.
    expansion_ : KernelExpansion
        The fitted decision function: kernel, centers, coefficients and intercepts.
    n_centers_ : int
        Number of centers: kernel evaluations per prediction.
    n_candidates_ : int
        Points that could become centers.
    nbytes_ : int
        Bytes of everything that a prediction needs.
    center_indices_ : ndarray of shape (n_centers,)
        Training rows that are the centers; with given points as candidates, the numbers of those
        points.
    margin_indices_ : ndarray of shape (n_margin_rows,)
        Training rows with a nonzero dual in at least one output: those on the tube or outside of
        it.
    duals_ : ndarray of shape (n_outputs, n_margin_rows)
        The duals of these rows, positive where y is above f.
    shift_, scale_ : ndarray of shape (n_outputs,)
        Mean and mean absolute deviation of the targets, which are the zero and the unit of the
        linear programs.
    objective_ : ndarray of shape (n_outputs,)
        Value of the last linear program of each output, with its costs.
    duality_gap_ : ndarray of shape (n_outputs,)
        Relative duality gap of that linear program, all rows and all candidates priced in
        float64: the certificate.
    quantiles_ : None
        This regressor does not predict quantiles.
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
    L1KernelRegressor : The linear program alone, with the pinball loss too.

    Notes
    -----
    The concave problem has many stationary points: the answer is one of them, reached from the
    1-norm machine. There is no pinball loss here: it has no tube whose rows could be counted.

    Time and memory are those of :class:`L1KernelRegressor` for the first linear program; the
    others start warm. ``candidates="auto"`` takes fewer points, at most 250 for 50,000 rows.

    References
    ----------
    .. [1] G. M. Fung, O. L. Mangasarian and A. J. Smola, "Minimal kernel classifiers",
       Journal of Machine Learning Research 3, 303-321, 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet import MinimalKernelRegressor
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> machine = MinimalKernelRegressor(C=10.0, epsilon=0.1).fit(X, np.sin(X[:, 0]))
    >>> machine.n_centers_ < 8
    True
    """

    # 250 candidates for 50,000 rows: up to 50 linear programs, the outputs one after the other.
    _auto_work, _auto_power = 3e9, 1.0
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **L1Machine._parameter_constraints,
        "epsilon": [Interval(Real, 0, None, closed="left")],
        "mu": [Interval(Real, 0, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "max_lps": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        C: float = 3.0,
        *,
        epsilon: float = 0.1,
        mu: float = 10.0,
        alpha: float = 5.0,
        max_lps: int = 50,
        kernel: str | Kernel = "rbf",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        candidates: Any = "auto",
        solver: str = "auto",
        tol: float = 1e-9,
        max_iter: int = -1,
        cache_size: float = 2000,
        checkpoint: Any = None,
        verbose: int = 0,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.epsilon = epsilon
        self.mu = mu
        self.alpha = alpha
        self.max_lps = max_lps
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.candidates = candidates
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.checkpoint = checkpoint
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.random_state = random_state

    @fit_method
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the machine; see :meth:`L1KernelRegressor.fit`.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowSource, dask collection} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), or str
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self : object
        """
        pound = PoundLoss(self.mu, self.alpha)
        method = partial(linearize, pound=pound, max_lps=self.max_lps)
        paths = self._fit(X, y, sample_weight, method)
        self.n_lps_ = np.array([path.n_lps for path in paths])
        self.pound_objective_ = np.array([path.step_objective for path in paths])
        warn_improving(paths, self.max_lps)
        return self

    def _tube(self) -> float:
        return self.epsilon
