"""The compact kernel regressor."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import column_or_1d

from kernlet._typing import Floats
from kernlet.compact.batches import TrainingSet
from kernlet.compact.initialise import InitialModel, initial_regressor
from kernlet.compact.machine import CompactMachine
from kernlet.compact.network import Huber, Loss, Pinball, SquaredError
from kernlet.compact.scoring import NumberValidation, QuantileValidation
from kernlet.compact.train import RATES
from kernlet.model.scoring import QuantileScoreMixin, check_quantile_scoring
from kernlet.quantization import QuantizedExpansion, encode
from kernlet.sklearn_base import TrainingData, check_training_data, expansion_values, fit_method

_MIN_ROWS_TO_HOLD_OUT = 8
_LARGEST_TARGET = 1e30  # its square overflows in float32
# Deviations of constant targets: round-off over their mean, and of targets that were scaled.
_CONSTANT_TARGETS, _CONSTANT_SCALED_TARGETS = 1e-12, 1e-9
_CONSTANT_UNIT = 1e-6


class CompactKernelRegressor(QuantileScoreMixin, RegressorMixin, CompactMachine):
    """Kernel regressor with few centers, trained as a whole and stored in few bytes.

    ``f(x) = sum_j w_j k(P x, z_j) + b``, with everything trained together as in
    :class:`CompactKernelClassifier`. Targets are shifted
    and scaled inside, several by one scale: bring targets of different units to like ones before
    the fit and undo it after ``predict``, or train with ``kernlet fit``, which does so.

    With ``loss="pinball"`` the machine predicts quantiles of y instead of its mean: one output
    per quantile, over the same centers. ``(0.05, 0.95)`` gives an interval that holds about 90 %
    of the targets of new rows.

    Parameters
    ----------
    n_centers : int or "auto", default="auto"
        Number of centers. "auto" is chosen by validation: the smallest machine within one standard
        error of the best or, with ``max_bytes``, the best one within the budget; with ``init`` it
        is the size of that. Never more than there are rows or points to start from.
    max_bytes : int or str, default=None
        Budget for everything stored, such as 2000, "2k" or "16Ki". Shape, number of centers,
        storage, rank of the projection and noise are chosen by validation; a budget that is larger
        than the data support is not filled up. ``choice_`` has the choice and its reason.
    max_centers : int or callable, default=None
        The largest number of centers that may be chosen: the kernel evaluations per prediction. A
        callable such as :meth:`kernlet.export.DeviceLimits.max_centers` is given a storage plan and
        returns the number for machines of its shape.
    effort : {"quick", "default", "thorough"}, default="default"
        How long ``max_bytes`` searches: with at least 2,000 rows, for at most about 2, 5 or 15
        times a full fit of one machine. With fewer, "quick" leaves out some candidates, and
        "thorough" is the same as "default".
    storage : {"auto", "float32", "float16", "int8", "int4"}, default="auto"
        Format of centers, coefficients and projection. "auto" is float32 without ``max_bytes``;
        with it 8 or 4 bits are chosen, and for a projection 8, 6 or 4 bits or ternary numbers.
    projection : "auto", int or None, default="auto"
        Rank of the projection. "auto" is chosen by validation where a size is chosen; otherwise
        there is none.
    scale : {"auto", True, False}, default="auto"
        Whether each column is standardised by itself (4 to 8 bytes per column) or all together.
        "auto" does so where their ranges and deviations, or their means, are unlike, unless
        ``init`` is an expansion in the raw columns.
    kernel : {"auto", "rbf", "rational_quadratic"}, default="auto"
        The Gaussian, or ``(1 + gamma |u - z|^2 / alpha)^-alpha`` with a trained alpha, whose tails
        are longer.
    width : {"auto", "shared", "per_center", "per_feature"}, default="auto"
        One gamma, one per center (a byte each), or a trained scale of each feature.
    n_steps : "auto" or int, default="auto"
        Steps in front of the kernel: u + v where u exceeds a threshold t. Thresholds come from a
        decision tree, jumps v are trained; about 4 bytes each.
    block_means : "auto" or bool, default="auto"
        Whether the means of 2 x 2 pixels replace the pixels of square images. "auto" tries it with
        ``max_bytes`` and at least 2,000 rows of at least 14 x 14 pixels.
    augment : {"shift", "affine"} or None, default=None
        Train square images with random shifts, or with small rotations and scalings too.
    missing : {"error", "median", "distance", "auto"}, default="error"
        What becomes of missing values (NaN) in dense rows. "median" stores the median of each
        column (2 or 4 bytes) and fills it in. "distance" leaves missing features out: a squared
        distance is the sum over the present features, times the number of features over that of
        the present ones; nothing is stored, but there can be no projection and no block means. A
        row without any present feature then counts as one of the features' shifts (their means,
        where ``scale`` standardises them). "auto" chooses between the two by validation, and is
        "error" where no training row has a missing value.
    loss : {"squared_error", "huber", "pinball"}, default="squared_error"
        What training minimises. ``"huber"`` is the squared error up to ``delta`` and linear beyond,
        so that outliers in y count less. ``"pinball"`` is the loss whose minimum is a quantile; it
        takes one target.
    delta : float, default=1.0
        Where the Huber loss becomes linear, in standard deviations of y.
    quantile : float or sequence of float, default=0.5
        What ``loss="pinball"`` predicts: numbers between 0 and 1, several in ascending order.
    noise : float, default=0.02
        Deviation of the noise on the inputs in training, relative to that of the inputs. Where a
        machine is chosen, multiples of it are tried too.
    learning_rate : float, default=1.0
        Multiplies the learning rates (.1 for centers, .2 for coefficients, .01 for log gamma).
    n_epochs : int, default=None
        Passes over the rows; by default clip(2.16e6 / n_rows, 10, 120). Training with rounding
        takes as many again, and fine-tuning on all rows a quarter.
    batch_size : int, default=None
        Rows of a mini-batch; by default 256, 512 with at least 50,000 rows, and an eighth of fewer
        than 2,048 rows.
    init : "kmeans", array-like or a fitted regressor, default="kmeans"
        The start: k-means, given centers, or a model to refine: a kernlet regressor, or a fitted
        SVR or NuSVR, whose support vectors become centers. Inside a grid search wrap it in a
        ``FrozenEstimator``, since scikit-learn clones parameters.
    scoring : str, callable or None, default=None
        What is chosen by: a scorer of scikit-learn, or a callable ``(estimator, X, y)`` that is
        given row numbers as X. None is R2 over all outputs, or D2 of the pinball loss.
    validation_fraction : float or None, default=0.2
        Share of the rows that is held out for choices; fine-tuning sees all rows. Where a machine
        is chosen for fewer than 2,000 rows, it is the share of a fold: 0.2 is cross-validation with
        five folds. None trains on all rows from the beginning; nothing can be chosen then.
    early_stopping : bool, default=False
        Whether the first stage ends when the validated score has not risen for
        ``n_iter_no_change`` epochs, with the best network so far. Not in a search.
    n_iter_no_change : int, default=10
        Epochs without improvement after which ``early_stopping`` ends the first stage.
    warm_start : bool, default=False
        Whether to continue the last fit, with its size. That fit has seen all its rows: on the
        same rows again, the score is validated on rows seen before.
    keep_history : bool, default=False
        Whether to keep ``history_``, which makes a pickled machine larger.
    device : str, default=None
        "cuda" trains on a GPU, through torch; None and "cpu" with numpy.
    n_jobs : int, default=None
        Trials in parallel, where a size is chosen.
    verbose : int, default=0
        Print progress: 1 for each task of the fit, 2 for the steps below them.
    random_state : int, RandomState instance or None, default=None
        Draws the held-out rows, the initial centers, the mini-batches and the noise.

    Attributes
    ----------
    expansion_ : QuantizedExpansion
        The fitted machine in its packed tables.
    n_centers_ : int
        Number of centers: kernel evaluations per prediction.
    nbytes_ : int
        Bytes of everything stored.
    choice_ : str
        What was chosen, and why.
    path_ : tuple of PathPoint
        What was tried: centers, bytes, validated R2, its standard error and more.
    validation_score_ : float
        R2 or D2, or the score of ``scoring``, on rows not trained on.
    quantiles_ : tuple of float or None
        The quantiles that are predicted, with ``loss="pinball"``; else None.
    history_ : list of dict
        With ``keep_history``: loss and validated score of every epoch.
    n_iter_ : int
        Epochs.
    n_features_in_ : int
        Number of features seen by ``fit``.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if all columns of X have names that are strings.

    Notes
    -----
    Quantiles do not cross: of the outputs for a row, ``predict`` and every export return the
    smallest as the lowest quantile, and so on. This holds for all rows, and after rounding too.
    Sorting never increases the pinball loss (Chernozhukov, Fernandez-Val and Galichon, "Quantile
    and probability curves without crossing", Econometrica 2010). The alternative, increments with
    coefficients that cannot be negative, needs no rule, but can only widen intervals near centers.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet import CompactKernelRegressor
    >>> X = np.linspace(0, 6, 400)[:, None]
    >>> machine = CompactKernelRegressor(10, random_state=0).fit(X, np.sin(X[:, 0]))
    >>> machine.score(X, np.sin(X[:, 0])) > 0.99, machine.nbytes_
    (True, 100)

    An interval for 90 % of the targets, beside their median:

    >>> noisy = np.sin(X[:, 0]) + 0.3 * np.random.RandomState(0).randn(400)
    >>> levels = (0.05, 0.5, 0.95)
    >>> machine = CompactKernelRegressor(5, loss="pinball", quantile=levels, random_state=0)
    >>> low, median, high = machine.fit(X, noisy).predict(X).T
    >>> bool((low <= median).all() and (median <= high).all())
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CompactMachine._parameter_constraints,
        "loss": [StrOptions({"squared_error", "huber", "pinball"})],
        "delta": [Interval(Real, 0, None, closed="neither")],
        "quantile": [Interval(Real, 0, 1, closed="neither"), "array-like"],
    }
    _intercept_bytes: ClassVar[int] = 8
    # Slower than for classes: a width that shrinks too fast fits the noise of single rows.
    _rates: ClassVar[dict[str, float]] = {
        **RATES,
        "weights": 0.2,
        "intercept": 0.2,
        "log_gamma": 0.01,
        "projection": 0.003,
    }

    def __init__(
        self,
        n_centers: Any = "auto",
        *,
        max_bytes: int | str | None = None,
        max_centers: Any = None,
        effort: str = "default",
        storage: str = "auto",
        projection: Any = "auto",
        scale: Any = "auto",
        kernel: str = "auto",
        width: str = "auto",
        n_steps: Any = "auto",
        block_means: Any = "auto",
        augment: str | None = None,
        missing: str = "error",
        loss: str = "squared_error",
        delta: float = 1.0,
        quantile: Any = 0.5,
        noise: float = 0.02,
        learning_rate: float = 1.0,
        n_epochs: int | None = None,
        batch_size: int | None = None,
        init: Any = "kmeans",
        scoring: Any = None,
        validation_fraction: float | None = 0.2,
        early_stopping: bool = False,
        n_iter_no_change: int = 10,
        warm_start: bool = False,
        keep_history: bool = False,
        device: str | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_centers = n_centers
        self.max_bytes = max_bytes
        self.max_centers = max_centers
        self.effort = effort
        self.storage = storage
        self.projection = projection
        self.scale = scale
        self.kernel = kernel
        self.width = width
        self.n_steps = n_steps
        self.block_means = block_means
        self.augment = augment
        self.missing = missing
        self.loss = loss
        self.delta = delta
        self.quantile = quantile
        self.noise = noise
        self.learning_rate = learning_rate
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.init = init
        self.scoring = scoring
        self.validation_fraction = validation_fraction
        self.early_stopping = early_stopping
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.keep_history = keep_history
        self.device = device
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    @fit_method
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> CompactKernelRegressor:
        """Fit the machine.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self : object
        """
        previous = self.expansion_ if self.warm_start and hasattr(self, "expansion_") else None
        levels = self._levels()
        check_quantile_scoring(self.scoring, len(levels or ()))
        data = check_training_data(self, X, y, sample_weight, is_regression=True, order="C")
        if levels is not None and data.y.ndim > 1 and data.y.shape[1] > 1:
            raise ValueError(
                f'loss="pinball" predicts quantiles of one target, but y has {data.y.shape[1]} '
                "columns; fit a machine for each."
            )
        if levels is not None:
            data = replace(data, y=column_or_1d(data.y, warn=True))
        mean, scale = mean_and_scale(data.y, data.sample_weight)
        if levels is not None:
            if np.abs(data.y - mean).max() < _CONSTANT_SCALED_TARGETS * scale:
                # The steps of this loss do not shrink with the errors, but with the unit.
                scale = _CONSTANT_UNIT * max(1.0, float(np.abs(mean[0])))
            mean = np.repeat(mean, len(levels))
        training = self._training_set(data, mean, scale, levels)
        initial = self._initial_model(previous, data.X.shape[1], mean, scale)
        is_flat = data.y.ndim == 1 if levels is None else isinstance(self.quantile, Real)
        fitted = {"_is_flat": is_flat, "quantiles_": levels}
        self._train(
            data,
            training,
            initial,
            lambda expansion: {"expansion_": rescaled(expansion, mean, scale), **fitted},
        )
        return self

    def predict(self, X: Any) -> Floats:
        """Predict the targets of the rows of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            A source of rows (:mod:`kernlet.rows`) or a Dask collection is read block by block.

        Returns
        -------
        values : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            With several quantiles a column for each, in ascending order in each row.
        """
        values = expansion_values(self, X)
        if self.quantiles_ is not None:
            values = np.sort(values, axis=1)
        return values[:, 0] if self._is_flat else values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = self.loss != "pinball"
        return tags

    def _initial_model(
        self, previous: QuantizedExpansion | None, n_features: int, mean: Floats, scale: float
    ) -> InitialModel | None:
        if previous is None and isinstance(self.init, str):
            return None
        if previous is None:
            source = "quantile asks for" if self.loss == "pinball" else "y holds"
            initial = initial_regressor(self.init, n_features, len(mean), source)
        elif (previous.n_features, previous.n_outputs) == (n_features, len(mean)):
            initial = previous
        else:
            raise ValueError(
                "warm_start continues the last fit, which had other features or outputs; "
                "use a new estimator."
            )
        if isinstance(initial, QuantizedExpansion):
            return rescaled(initial, -mean / scale, 1 / scale)
        return initial

    def _levels(self) -> tuple[float, ...] | None:
        """The quantiles to predict, checked; None for other losses."""
        if self.loss != "pinball":
            return None
        try:
            given = np.atleast_1d(np.asarray(self.quantile, dtype=float))
            is_good = given.ndim == 1 and given.size > 0
            is_good = is_good and bool((np.diff(given, prepend=0, append=1) > 0).all())
        except (TypeError, ValueError):  # not numbers, or lists of different lengths
            is_good = False
        if not is_good:
            raise ValueError(
                f"quantile={self.quantile!r} must hold numbers between 0 and 1 in ascending order, "
                "such as (0.05, 0.5, 0.95)."
            )
        return tuple(given.tolist())

    def _training_set(
        self, data: TrainingData, mean: Floats, scale: float, levels: tuple[float, ...] | None
    ) -> TrainingSet:
        n_rows = len(data.y)
        targets = (data.y.reshape(n_rows, -1) - mean) / scale
        if np.abs(targets).max() < _CONSTANT_SCALED_TARGETS:
            targets = np.zeros_like(targets)
        train, held_out = np.arange(n_rows), np.arange(0)
        if n_rows >= _MIN_ROWS_TO_HOLD_OUT:
            train, held_out = self._split(np.zeros(n_rows, dtype=np.intp))
        loss: Loss = SquaredError() if self.loss == "squared_error" else Huber(self.delta)
        weights = data.sample_weight
        rows = (targets, weights, data.y, weights, self.scoring, mean, scale)
        validation = NumberValidation(*rows)
        if levels is not None:
            loss, validation = Pinball(levels), QuantileValidation(*rows, levels)
        return TrainingSet(data.X, data.sample_weight, targets, loss, validation, train, held_out)


def mean_and_scale(y: Any, weights: Floats) -> tuple[Floats, float]:
    """The mean of each target and one deviation of all; 1 where they are constant."""
    columns = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
    mean = np.average(columns, axis=0, weights=weights)
    if np.abs(columns).max() > _LARGEST_TARGET:
        raise ValueError("The numbers in y are too large; divide them by a common factor.")
    scale = float(np.sqrt(np.average(((columns - mean) ** 2).mean(axis=1), weights=weights)))
    is_constant = scale <= _CONSTANT_TARGETS * np.abs(mean).max()
    return mean, 1.0 if is_constant else scale or 1.0


def rescaled(expansion: QuantizedExpansion, mean: Floats, scale: float) -> QuantizedExpansion:
    """The expansion with outputs scale * f(x) + mean, by the step of its coefficients if any."""
    coef = expansion.packed["coef"]
    assert coef is not None
    if coef.format.has_step:
        coef = replace(coef, step=float(np.float32(coef.step * scale)))
    else:
        coef = encode(scale * coef.decoded().astype(np.float64), coef.format)
    intercept = expansion.intercept.astype(np.float64) * scale + mean
    return expansion.replaced(coef=coef, intercept=intercept)
