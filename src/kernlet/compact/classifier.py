"""The compact kernel classifier."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from kernlet._typing import Floats, Indices
from kernlet.compact.base import COMPACT_CONSTRAINTS, CompactMachine
from kernlet.compact.initialise import Initial, initial_classifier
from kernlet.compact.network import CrossEntropy, SquaredHingeLoss, Task
from kernlet.devices import to_numpy
from kernlet.quantization import QuantizedExpansion
from kernlet.rows.source import RowReader, RowSource
from kernlet.sampling import hold_out
from kernlet.sklearn_base import ExpansionClassifier, TrainingData, error_weights

_FIRST_GAP = 5.0  # between the first outputs of the right class and of the others


class CompactKernelClassifier(CompactMachine, ExpansionClassifier):
    """A Gaussian kernel machine of few centers, trained as a whole and stored in few bytes.

    f_c(x) = sum_j W[c, j] exp(-gamma |P x - z_j|^2) + b_c. Centers z, coefficients W, intercepts b,
    width gamma and, where it pays, a projection P to few dimensions are trained together by
    Adam on mini-batches, from k-means centers; tables of few bits are rounded while they
    are trained. The numbers in X are shifted and scaled by one mean and one deviation, which the
    machine carries: features of unlike units want a StandardScaler in front.

    Parameters
    ----------
    n_centers : int, "auto" or None, default=None
        Centers. "auto" goes up a path of sizes and takes the smallest whose validated score is
        within one standard error of the best. None is 100, or with ``max_bytes`` as many as
        fit, or with ``init`` as many as are there. With ``max_bytes`` a number is the most to use.
        Never more than there are rows or points to start from.
    max_bytes : int, default=None
        Everything stored must fit in so many bytes; storage, rank of the projection and number of
        centers are chosen by validation. ``choice_`` says what was chosen and why.
    storage : {"auto", "float32", "float16", "int8", "int4"}, default="auto"
        How centers, coefficients and projection are stored. "auto" is float32 without
        ``max_bytes``; with it a mixture of 8, 6 and 4 bits and three values is chosen.
    projection : "auto", int or None, default="auto"
        The rank of the projection. "auto" is none without ``max_bytes``, and chosen by validation
        with it.
    width : {"shared", "per_center"}, default="shared"
        One gamma, or one for each center (4 bytes each).
    loss : {"cross_entropy", "squared_hinge"}, default="cross_entropy"
    smoothing : float, default=0.1
        Of the labels, with cross-entropy.
    noise : float, default=0.1
        Deviation of the noise on the inputs in training, in their own deviation.
    learning_rate : float, default=1.0
        Multiplies the learning rates (.1 for centers, .5 for coefficients).
    n_epochs : int, default=None
        Passes over the rows; 120 for few rows, 10 for many unless given. Rounded tables take half
        as many more, and a last training on all rows a quarter.
    batch_size : int, default=None
        Unless given 256, 512 from 50,000 rows, and an eighth of fewer than 2,048 rows.
    init : "kmeans", array-like or a fitted classifier, default="kmeans"
        What to start from: k-means in every class, given centers, or a machine to refine: a
        kernlet classifier, an SVC or another fitted classifier that :func:`kernlet.compress`
        takes. With a smaller ``n_centers``, clusters of its centers; a compact machine keeps its
        size, projection and widths. Inside a grid search wrap it in a ``FrozenEstimator``, since
        scikit-learn clones what it is given.
    class_weight : dict, "balanced" or None, default=None
    validation_fraction : float or None, default=0.2
        Share of the rows on which choices are made and probabilities calibrated. A last short
        training sees all rows. None trains on all rows from the beginning; nothing can be chosen
        then, and probabilities are not calibrated.
    early_stopping : bool, default=False
        Whether the first training ends where the validated score has not risen for
        ``n_iter_no_change`` epochs, with the best machine so far. Not in trials of a size.
    n_iter_no_change : int, default=10
    warm_start : bool, default=False
        Whether to go on from the last fit, with its size. That fit has seen all rows it was given:
        on the same rows again, scores and probabilities are validated on rows seen before.
    device : str, default=None
        "cuda" trains on a GPU, through torch; None and "cpu" with numpy.
    n_jobs : int, default=None
        Trials side by side, where a size is chosen.
    random_state : int, RandomState instance or None, default=None

    Attributes
    ----------
    expansion_ : QuantizedExpansion
        The machine.
    n_centers_ : int
    nbytes_ : int
        Bytes of everything stored; ``predict_proba`` needs the temperature besides.
    classes_ : ndarray of shape (n_classes,)
    choice_ : str
        What was chosen, and why.
    path_ : tuple of PathPoint
        Sizes that were tried: centers, bytes, validated score, its standard error and more.
    validation_score_ : float
        Of the machine before the last training; not a number without a validation part.
    temperature_ : float
        By which decision values are divided for probabilities.
    history_ : list of dict
        Loss and validated score of every epoch; where a size was chosen, of the last training,
        which sees all rows and has no validated score.
    n_iter_ : int
        Epochs.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    See Also
    --------
    CompactKernelRegressor : The same for numbers.
    kernlet.compress : Approximates a trained machine, without training it anew.

    Notes
    -----
    An epoch takes about 4 n_rows n_centers n_features multiplications and additions, with a
    projection of rank r instead 4 n_rows r (n_features + n_centers). Memory is that of X, a
    float32 copy where that takes at most 1 GiB, a few matrices of batch_size x n_centers, and
    the sample that the start looks at: 10,000 rows, or twenty a center if that is more.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from kernlet import CompactKernelClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> X, X_test, y, y_test = train_test_split(X, y, random_state=0)
    >>> machine = CompactKernelClassifier(40, storage="int4", n_epochs=40, random_state=0).fit(X, y)
    >>> machine.score(X_test, y_test) > 0.96, machine.nbytes_
    (True, 1540)
    """

    temperature_: float
    _takes_sources = True

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMPACT_CONSTRAINTS,
        "loss": [StrOptions({"cross_entropy", "squared_hinge"})],
        "smoothing": [Interval(Real, 0, 1, closed="left")],
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }

    def __init__(
        self,
        n_centers: Any = None,
        *,
        max_bytes: int | None = None,
        storage: str = "auto",
        projection: Any = "auto",
        width: str = "shared",
        loss: str = "cross_entropy",
        smoothing: float = 0.1,
        noise: float = 0.1,
        learning_rate: float = 1.0,
        n_epochs: int | None = None,
        batch_size: int | None = None,
        init: Any = "kmeans",
        class_weight: Any = None,
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
        self.smoothing = smoothing
        self.noise = noise
        self.learning_rate = learning_rate
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.init = init
        self.class_weight = class_weight
        self.validation_fraction = validation_fraction
        self.early_stopping = early_stopping
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> CompactKernelClassifier:
        """Fit the machine.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowSource, dask collection} of shape (n_samples, n_features)
            Rows from a source that take more than 1 GiB in float32 are gone through in
            shuffled blocks.
        y : array-like of shape (n_samples,) or str
            The name of a column, where X is a source of rows that has one.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self : object
        """
        before = self._machine_before()
        data = self._check_training_data(X, y, sample_weight)
        task = self._task(data)
        trial = self._fit_task(task, self._initial(before, data.X.shape[1]))
        self.validation_score_ = trial.score
        codes = task.targets[task.held_out]
        self.temperature_ = _temperature(trial.outputs, codes, task.weights[task.held_out])
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the classes.

        Decision values over ``temperature_``, through a softmax: the temperature at which the rows
        held out were likeliest.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
        """
        values = to_numpy(self.decision_function(X)) / self.temperature_
        if values.ndim == 1:
            return np.stack([expit(-values), expit(values)], axis=1)
        return softmax(values, axis=1)

    def predict_log_proba(self, X: Any) -> Floats:
        """Logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        logarithms : ndarray of shape (n_samples, n_classes)
        """
        values = to_numpy(self.decision_function(X)) / self.temperature_
        if values.ndim == 1:
            return np.stack([log_expit(-values), log_expit(values)], axis=1)
        return log_softmax(values, axis=1)

    def _machine_before(self) -> tuple[Any, QuantizedExpansion] | None:
        """Classes and machine of the last fit, to go on from."""
        if not self.warm_start or not hasattr(self, "expansion_"):
            return None
        check_is_fitted(self)
        return self.classes_, self.expansion_

    def _initial(
        self, before: tuple[Any, QuantizedExpansion] | None, n_features: int
    ) -> Initial | None:
        if before is not None:
            classes, machine = before
            if not np.array_equal(classes, self.classes_) or machine.n_features != n_features:
                raise ValueError(
                    "warm_start goes on from the last fit, which had other classes or features; "
                    "use a new estimator."
                )
            return Initial(None, machine)
        if isinstance(self.init, str):
            return None
        return initial_classifier(self.init, n_features, self.classes_)

    def _task(self, data: TrainingData) -> Task:
        weights = error_weights(1.0, data.y, self.classes_, self.class_weight, data.sample_weight)
        rows = np.flatnonzero(weights)
        X, y = data.X, data.y
        if len(rows) < len(y):
            X = X.subset(rows) if isinstance(X, RowSource) else X[rows]
            y, weights = y[rows], weights[rows]
        if isinstance(X, RowSource):
            X = RowReader(X)
        n_classes = len(self.classes_)
        codes = np.searchsorted(self.classes_, y)
        loss = CrossEntropy(self.smoothing) if self.loss == "cross_entropy" else SquaredHingeLoss()
        table = loss.target_table(n_classes)
        kept, held_out = self._split(codes)
        return Task(X, y, weights, codes, table, self._first_table(n_classes), loss, kept, held_out)

    def _split(self, codes: Indices) -> tuple[Indices, Indices]:
        everything = np.arange(len(codes))
        if self.validation_fraction is None:
            return everything, everything[:0]
        random = np.random.RandomState(check_random_state(self.random_state).randint(2**31 - 1))
        return hold_out(codes, self.validation_fraction, random)

    def _first_table(self, n_classes: int) -> Floats:
        if self.loss == "squared_hinge":
            return SquaredHingeLoss().target_table(n_classes)
        if n_classes == 2:
            return np.array([[-_FIRST_GAP], [_FIRST_GAP]])
        return _FIRST_GAP * (np.eye(n_classes) - 1 / n_classes)

    def _judge(self, task: Task) -> Callable[[Floats], tuple[float, float]]:
        return _Accuracy(task.targets[task.held_out], task.weights[task.held_out])

    def _reconstruction(self, expansion: QuantizedExpansion) -> dict[str, Any]:
        """What makes an estimator that predicts with a machine under way."""
        return {"expansion_": expansion, "classes_": self.classes_, "temperature_": 1.0}


class _Accuracy:
    """Accuracy of outputs and its standard error, weighted."""

    def __init__(self, codes: Indices, weights: Floats) -> None:
        self.codes, self.weights = codes, weights

    def __call__(self, outputs: Floats) -> tuple[float, float]:
        single = outputs.shape[1] == 1
        predicted = outputs[:, 0] > 0 if single else outputs.argmax(axis=1)
        shares = self.weights / self.weights.sum()
        correct = predicted == self.codes
        accuracy = float(shares @ correct)
        spread = float(np.sqrt(np.sum(shares**2 * (correct - accuracy) ** 2)))
        return accuracy, spread


def _temperature(outputs: Floats, codes: Indices, weights: Floats) -> float:
    """The temperature at which the classes are likeliest; 1 where there are no rows to tell."""
    if not len(outputs) or not np.isfinite(outputs).all():
        return 1.0
    logits = np.hstack([np.zeros_like(outputs), outputs]) if outputs.shape[1] == 1 else outputs
    logits = logits.astype(np.float64)
    n_rows, n_classes = logits.shape
    chances = np.full(logits.shape, 1 / (n_classes * (n_rows + 1)))  # one row more, of any class
    chances[np.arange(n_rows), codes] += n_rows / (n_rows + 1)

    def surprise(log_temperature: float) -> float:
        logs = log_softmax(logits / np.exp(log_temperature), axis=1)
        return -float(weights @ np.sum(chances * logs, axis=1))

    found = minimize_scalar(surprise, bounds=(-3.0, 3.0), method="bounded")
    return float(np.exp(found.x))
