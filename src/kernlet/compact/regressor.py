"""The compact kernel regressor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from kernlet._typing import Floats, Indices
from kernlet.compact.base import COMPACT_CONSTRAINTS, CompactMachine
from kernlet.compact.initialise import Initial, initial_regressor
from kernlet.compact.network import Huber, SquaredError, Task
from kernlet.compact.train import RATES
from kernlet.quantization import QuantizedExpansion, encode
from kernlet.sklearn_base import check_training_data, expansion_values


class CompactKernelRegressor(RegressorMixin, CompactMachine):
    """A Gaussian kernel machine of few centers that predicts numbers, stored in few bytes.

    f(x) = sum_j w_j exp(-gamma |P x - z_j|^2) + b, with everything trained together as in
    :class:`CompactKernelClassifier`, whose parameters mean the same here. The numbers in y are
    shifted and scaled inside; outputs of unlike units want a TransformedTargetRegressor around.

    Parameters
    ----------
    n_centers : int, "auto" or None, default=None
    max_bytes : int, default=None
    storage : {"auto", "float32", "float16", "int8", "int4"}, default="auto"
    projection : "auto", int or None, default="auto"
    width : {"shared", "per_center"}, default="shared"
    loss : {"squared_error", "huber"}, default="squared_error"
        "huber" is the squared error of small errors and a line beyond ``delta``: rows with wild
        numbers in y count less.
    delta : float, default=1.0
        Where the line begins, in deviations of y.
    noise : float, default=0.02
    learning_rate : float, default=1.0
        Multiplies the learning rates (.1 for centers, .2 for coefficients, .01 for log gamma).
    n_epochs : int, default=None
    batch_size : int, default=None
    init : "kmeans", array-like or a fitted regressor, default="kmeans"
        Also a fitted SVR or NuSVR, of which the support vectors are taken.
    validation_fraction : float or None, default=0.2
    early_stopping : bool, default=False
    n_iter_no_change : int, default=10
    warm_start : bool, default=False
    device : str, default=None
    n_jobs : int, default=None
    random_state : int, RandomState instance or None, default=None

    Attributes
    ----------
    expansion_ : QuantizedExpansion
        The machine.
    n_centers_ : int
    nbytes_ : int
        Bytes of everything stored.
    choice_ : str
        What was chosen, and why.
    path_ : tuple of PathPoint
        Sizes that were tried: centers, bytes, validated R2, its standard error and more.
    validation_score_ : float
        R2 of the machine before the last training.
    history_ : list of dict
        Loss and validated score of every epoch.
    n_iter_ : int
        Epochs.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet import CompactKernelRegressor
    >>> X = np.linspace(0, 6, 400)[:, None]
    >>> machine = CompactKernelRegressor(10, random_state=0).fit(X, np.sin(X[:, 0]))
    >>> machine.score(X, np.sin(X[:, 0])) > 0.99, machine.nbytes_
    (True, 100)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMPACT_CONSTRAINTS,
        "loss": [StrOptions({"squared_error", "huber"})],
        "delta": [Interval(Real, 0, None, closed="neither")],
    }
    _intercept_bytes: ClassVar[int] = 8
    # Slower than for classes: a width that shrinks too fast fits the noise of single rows.
    _rates: ClassVar[dict[str, float]] = {
        **RATES,
        "weights": 0.2,
        "intercept": 0.2,
        "log_gamma": 0.01,
    }

    def __init__(
        self,
        n_centers: Any = None,
        *,
        max_bytes: int | None = None,
        storage: str = "auto",
        projection: Any = "auto",
        width: str = "shared",
        loss: str = "squared_error",
        delta: float = 1.0,
        noise: float = 0.02,
        learning_rate: float = 1.0,
        n_epochs: int | None = None,
        batch_size: int | None = None,
        init: Any = "kmeans",
        validation_fraction: float | None = 0.2,
        early_stopping: bool = False,
        n_iter_no_change: int = 10,
        warm_start: bool = False,
        device: str | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_centers = n_centers
        self.max_bytes = max_bytes
        self.storage = storage
        self.projection = projection
        self.width = width
        self.loss = loss
        self.delta = delta
        self.noise = noise
        self.learning_rate = learning_rate
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.init = init
        self.validation_fraction = validation_fraction
        self.early_stopping = early_stopping
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
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
        before = self.expansion_ if self.warm_start and hasattr(self, "expansion_") else None
        data = check_training_data(self, X, y, sample_weight, is_regression=True, order="C")
        X, y, weights = data.X, data.y, data.sample_weight
        self._is_flat = y.ndim == 1
        mean, scale = self._scale_targets(y, weights)
        targets = (y.reshape(len(y), -1) - mean) / scale
        if np.abs(targets).max() < 1e-9:  # a constant, up to rounding
            targets = np.zeros_like(targets)
        initial = self._initial(before, X.shape[1], targets.shape[1], mean, scale)
        trial = self._fit_task(self._task(X, y, targets, weights), initial)
        self.validation_score_ = trial.score
        self.expansion_ = _in_units(self.expansion_, mean, scale)
        return self

    def predict(self, X: Any) -> Floats:
        """Predict the numbers of the rows of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            A source of rows (:mod:`kernlet.rows`) or a Dask collection goes block by block.

        Returns
        -------
        values : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        """
        values = expansion_values(self, X)
        return values[:, 0] if self._is_flat else values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        return tags

    def _scale_targets(self, y: Any, weights: Floats) -> tuple[Floats, float]:
        columns = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        mean = np.average(columns, axis=0, weights=weights)
        if np.abs(columns).max() > 1e30:
            raise ValueError("The numbers in y are too large; divide them by a common factor.")
        scale = float(np.sqrt(np.average(((columns - mean) ** 2).mean(axis=1), weights=weights)))
        if scale <= 1e-12 * np.abs(mean).max():  # a constant, up to rounding
            scale = 0.0
        self._target_mean, self._target_scale = mean, scale or 1.0
        return mean, scale or 1.0

    def _initial(
        self,
        before: QuantizedExpansion | None,
        n_features: int,
        n_outputs: int,
        mean: Floats,
        scale: float,
    ) -> Initial | None:
        if before is not None:
            if (before.n_features, before.n_outputs) != (n_features, n_outputs):
                raise ValueError(
                    "warm_start goes on from the last fit, which had other features or outputs; "
                    "use a new estimator."
                )
            return Initial(None, _in_units(before, -mean / scale, 1 / scale))
        if isinstance(self.init, str):
            return None
        initial = initial_regressor(self.init, n_features, n_outputs)
        if isinstance(initial.machine, QuantizedExpansion):
            return Initial(None, _in_units(initial.machine, -mean / scale, 1 / scale))
        return initial

    def _task(self, X: Any, y: Any, targets: Floats, weights: Floats) -> Task:
        loss = SquaredError() if self.loss == "squared_error" else Huber(self.delta)
        kept, held_out = self._split(len(y))
        return Task(X, y, weights, targets, None, None, loss, kept, held_out)

    def _split(self, n_rows: int) -> tuple[Indices, Indices]:
        if self.validation_fraction is None or n_rows < 8:
            return np.arange(n_rows), np.arange(0)
        random = np.random.RandomState(check_random_state(self.random_state).randint(2**31 - 1))
        order = random.permutation(n_rows)
        count = min(max(1, int(self.validation_fraction * n_rows)), n_rows - 1)
        return np.sort(order[count:]), np.sort(order[:count])

    def _judge(self, task: Task) -> Callable[[Floats], tuple[float, float]]:
        return _R2(task.targets[task.held_out], task.weights[task.held_out])

    def _reconstruction(self, expansion: QuantizedExpansion) -> dict[str, Any]:
        """What makes an estimator that predicts with a machine under way."""
        units = _in_units(expansion, self._target_mean, self._target_scale)
        return {"expansion_": units, "_is_flat": self._is_flat}


class _R2:
    """R2 of outputs and its standard error, weighted."""

    def __init__(self, targets: Floats, weights: Floats) -> None:
        self.targets, self.weights = targets, weights

    def __call__(self, outputs: Floats) -> tuple[float, float]:
        shares = self.weights / self.weights.sum()
        errors = np.mean((outputs - self.targets) ** 2, axis=1)
        spread = np.mean((self.targets - shares @ self.targets) ** 2, axis=1)
        total = float(shares @ spread) or 1.0
        mean = float(shares @ errors)
        error = float(np.sqrt(np.sum(shares**2 * (errors - mean) ** 2))) / total
        return 1 - mean / total, error


def _in_units(expansion: QuantizedExpansion, mean: Floats, scale: float) -> QuantizedExpansion:
    """The machine whose outputs are times a scale, plus a mean."""
    coef = expansion.packed["coef"]
    assert coef is not None
    assert expansion.input_map is not None
    if coef.format.has_step:
        scaled = replace(coef, step=float(np.float32(coef.step * scale)))
    else:
        scaled = encode(scale * coef.decoded().astype(np.float64), coef.format)
    intercept = expansion.intercept.astype(np.float64) * scale + mean
    return QuantizedExpansion(
        expansion.gamma,
        expansion.packed["centers"],
        scaled,
        intercept,
        float(expansion.input_map.shift[0]),
        expansion.input_scale,
        expansion.packed["projection"],
    )
