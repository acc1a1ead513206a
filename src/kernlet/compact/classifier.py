"""The compact kernel classifier."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from kernlet._typing import Floats
from kernlet.compact.batches import TrainingSet
from kernlet.compact.initialise import InitialModel, initial_classifier
from kernlet.compact.machine import CompactMachine
from kernlet.compact.network import CrossEntropy, SquaredHingeLoss
from kernlet.compact.scoring import ClassValidation
from kernlet.compact.space import MANY_ROWS, SMOOTHINGS
from kernlet.devices import to_numpy
from kernlet.model.calibration import best_temperature
from kernlet.model.model import link
from kernlet.quantization import QuantizedExpansion
from kernlet.rows.source import RowReader, RowSource
from kernlet.sklearn_base import ExpansionClassifier, TrainingData, error_weights, fit_method

# Difference between the initial outputs of the right class and of the others. Ridge regression
# reaches about half of it, which is where cross-entropy neither saturates nor starts from nothing.
_INITIAL_OUTPUT_GAP = 5.0


class CompactKernelClassifier(CompactMachine, ExpansionClassifier):
    """A kernel machine of few centers, trained as a whole and stored in few bytes.

    f_c(x) = sum_j W[c, j] k(P x, z_j) + b_c with, unless another ``kernel`` is given or chosen, the
    Gaussian k(u, z) = exp(-gamma |u - z|^2). Centers z, coefficients W, intercepts b, width gamma
    and, where it pays, a projection P to few dimensions are trained together by Adam on
    mini-batches, from k-means centers; tables of few bits are rounded during training. The
    numbers in X are standardised, together or (see ``scale``) by columns; the machine carries the
    means and deviations.

    ``kernel``, ``width``, ``classes_per_center``, ``n_steps`` and ``block_means`` are its shape.
    Where one of them is "auto", it is chosen with ``max_bytes``, and otherwise plain: a Gaussian
    kernel of one width, with all coefficients and no steps.

    Parameters
    ----------
    n_centers : int or "auto", default="auto"
        Number of centers. "auto" is chosen by validation: the smallest machine within one standard
        error of the best or, with ``max_bytes``, the best one within the budget; with ``init`` it
        is the size of that. Never more than there are rows or points to start from.
    max_bytes : int or str, default=None
        Budget for everything stored, such as 2000, "2k" or "16Ki". Shape, number of centers,
        storage, rank of the projection, smoothing and noise are chosen by validation; a budget that
        is larger than the data support is not filled up. ``choice_`` has the choice and its reason.
    effort : {"quick", "default", "thorough"}, default="default"
        How long ``max_bytes`` searches: with at least 2,000 rows, for at most about 2, 5 or 15
        times a full fit of one machine. With fewer, "quick" leaves out some candidates, and
        "thorough" is the same as "default".
    max_centers : int or callable, default=None
        The largest number of centers that may be chosen: the kernel evaluations per prediction. A
        callable is given a :class:`~kernlet.compact.plan.StoragePlan` and returns the number for
        machines of its shape, such as :meth:`kernlet.export.DeviceLimits.max_centers`.
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
        The Gaussian, or (1 + gamma |u - z|^2 / alpha)^-alpha with a trained alpha, whose tails are
        longer.
    width : {"auto", "shared", "per_center", "per_feature"}, default="auto"
        One gamma, one per center (a byte each), or a trained scale of each feature.
    classes_per_center : "auto", int or None, default="auto"
        Coefficients that a center keeps, those of the classes it says most about; None for all.
        Fewer of them leave room for more centers.
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
    loss : {"cross_entropy", "squared_hinge"}, default="cross_entropy"
    smoothing : float or "auto", default="auto"
        Label smoothing, with cross-entropy. "auto" is 0.1 for fewer than 2,000 rows, else 0.03;
        with ``max_bytes``, 0, 0.03 and 0.1 are tried or, with at least 2,000 rows and fewer than 64
        bytes per class, 0 alone.
    noise : float, default=0.1
        Deviation of the noise on the inputs in training, relative to that of the inputs. Where a
        machine is chosen, multiples of it are tried too: three times as much for fewer than 2,000
        rows, else 0 to 4 times.
    learning_rate : float, default=1.0
        Multiplies the learning rates (.1 for centers, .5 for coefficients).
    n_epochs : int, default=None
        Passes over the rows; by default clip(2.16e6 / n_rows, 10, 120). Training with rounding
        takes as many again, and fine-tuning on all rows a quarter.
    batch_size : int, default=None
        By default 256, 512 with at least 50,000 rows, and an eighth of fewer than 2,048 rows.
    init : "kmeans", array-like or a fitted classifier, default="kmeans"
        The start: k-means in every class, given centers, or a model to refine: a kernlet
        classifier, an SVC or another fitted classifier that :func:`kernlet.compress` takes. With a
        smaller ``n_centers``, clusters of its centers; a compact machine keeps its size, projection
        and widths. Inside a grid search wrap it in a ``FrozenEstimator``, since scikit-learn clones
        parameters.
    class_weight : dict, "balanced" or None, default=None
    scoring : str, callable or None, default=None
        What is chosen by: "accuracy", "balanced_accuracy", "f1_macro" or another scorer of
        scikit-learn. A callable ``(estimator, X, y)`` is given row numbers as X. None is the log
        loss of fewer than 2,000 rows, and accuracy minus log loss of more.
    validation_fraction : float or None, default=0.2
        Share of the rows that is held out for choices and to calibrate probabilities; fine-tuning
        sees all rows. Where a machine is chosen for fewer than 2,000 rows, it is the share of a
        fold: 0.2 is cross-validation with five folds. What is chosen so, or within ``max_bytes``,
        is trained on all rows from the beginning; score and temperature are those before. None
        trains on all rows from the beginning; nothing can be chosen then, and probabilities are
        not calibrated.
    early_stopping : bool, default=False
        Whether the first stage ends when the validated score has not risen for
        ``n_iter_no_change`` epochs, with the best network so far. Not in a search.
    n_iter_no_change : int, default=10
    warm_start : bool, default=False
        Whether to continue the last fit, with its size. That fit has seen all its rows: on the
        same rows again, scores and probabilities are validated on rows seen before.
    keep_history : bool, default=False
        Whether to keep ``history_``, which makes a pickled machine larger.
    device : str, default=None
        "cuda" trains on a GPU, through torch; None and "cpu" with numpy.
    n_jobs : int, default=None
        Trials in parallel, where a size is chosen.
    verbose : int, default=0
        Print progress: 1 for each task of the fit, 2 for the steps below them.
    random_state : int, RandomState instance or None, default=None

    Attributes
    ----------
    expansion_ : QuantizedExpansion
    n_centers_ : int
    nbytes_ : int
        Bytes of everything stored; ``predict_proba`` needs the temperature in addition.
    classes_ : ndarray of shape (n_classes,)
    choice_ : str
        What was chosen, and why.
    path_ : tuple of PathPoint
        What was tried: centers, bytes, validated score, its standard error and more. In
        cross-validation, what all folds have seen.
    validation_score_ : float
        Accuracy, or the score of ``scoring``, on rows not trained on; NaN without any.
    temperature_ : float
        By which decision values are divided for probabilities.
    history_ : list of dict
        With ``keep_history``: loss and validated score of every epoch; after a search those of the
        last training, which sees all rows and has no validated score.
    n_iter_ : int
        Epochs.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    See Also
    --------
    CompactKernelRegressor : The same for regression.
    kernlet.compress : Approximates a trained model, without training.

    Notes
    -----
    An epoch takes about 4 n_rows n_centers n_features multiplications and additions, with a
    projection of rank r instead 4 n_rows r (n_features + n_centers). Memory is that of X, a
    float32 copy where that takes at most 1 GiB, a few matrices of batch_size x n_centers, and
    the sample that the initial network is computed from: 10,000 rows, or twenty per center if
    that is more. Choosing takes some 30 to 50 short trainings for fewer than 2,000 rows (of not too
    many features and classes); otherwise ``effort`` limits it.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from kernlet import CompactKernelClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> X, X_test, y, y_test = train_test_split(X, y, random_state=0)
    >>> machine = CompactKernelClassifier(40, storage="int4", n_epochs=40, random_state=0).fit(X, y)
    >>> machine.score(X_test, y_test) > 0.96, machine.nbytes_
    (True, 1520)
    """

    temperature_: float
    _takes_sources = True

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CompactMachine._parameter_constraints,
        "loss": [StrOptions({"cross_entropy", "squared_hinge"})],
        "smoothing": [StrOptions({"auto"}), Interval(Real, 0, 1, closed="left")],
        "classes_per_center": [
            StrOptions({"auto"}),
            Interval(Integral, 1, None, closed="left"),
            None,
        ],
        "class_weight": [StrOptions({"balanced"}), dict, None],
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
        classes_per_center: Any = "auto",
        n_steps: Any = "auto",
        block_means: Any = "auto",
        augment: str | None = None,
        missing: str = "error",
        loss: str = "cross_entropy",
        smoothing: Any = "auto",
        noise: float = 0.1,
        learning_rate: float = 1.0,
        n_epochs: int | None = None,
        batch_size: int | None = None,
        init: Any = "kmeans",
        class_weight: Any = None,
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
        self.classes_per_center = classes_per_center
        self.n_steps = n_steps
        self.block_means = block_means
        self.augment = augment
        self.missing = missing
        self.loss = loss
        self.smoothing = smoothing
        self.noise = noise
        self.learning_rate = learning_rate
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.init = init
        self.class_weight = class_weight
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
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> CompactKernelClassifier:
        """Fit the machine.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowSource, dask collection} of shape (n_samples, n_features)
            Rows from a source that take more than 1 GiB in float32 are read in shuffled blocks.
        y : array-like of shape (n_samples,) or str
            The name of a column, where X is a source of rows that has one.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self : object
        """
        is_warm = self.warm_start and hasattr(self, "expansion_")
        previous = (self.classes_, self.expansion_) if is_warm else None
        data = self._check_training_data(X, y, sample_weight)
        weights = error_weights(1.0, data.y, self.classes_, self.class_weight, data.sample_weight)
        data, weights = data.subset(weights > 0), weights[weights > 0]
        training = self._training_set(data, weights)
        initial = self._initial_model(previous, data.X.shape[1])
        attributes = {"classes_": self.classes_, "temperature_": 1.0}
        trial = self._train(
            data, training, initial, lambda expansion: {"expansion_": expansion, **attributes}
        )
        codes, weights = training.targets[trial.rows], weights[trial.rows]
        self.temperature_ = best_temperature(trial.outputs, codes, weights)
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Class probabilities: the softmax of the decision values over ``temperature_``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
        """
        return self._probabilities(X, log=False)

    def predict_log_proba(self, X: Any) -> Floats:
        """Logarithms of the class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        logarithms : ndarray of shape (n_samples, n_classes)
        """
        return self._probabilities(X, log=True)

    def _probabilities(self, X: Any, *, log: bool) -> Floats:
        return link(to_numpy(self.decision_function(X)), self.temperature_, 0.0, log=log)

    def _initial_model(
        self, previous: tuple[Any, QuantizedExpansion] | None, n_features: int
    ) -> InitialModel | None:
        if previous is not None:
            classes, expansion = previous
            if not np.array_equal(classes, self.classes_) or expansion.n_features != n_features:
                raise ValueError(
                    "warm_start continues the last fit, which had other classes or features; "
                    "use a new estimator."
                )
            return expansion
        if isinstance(self.init, str):
            return None
        return initial_classifier(self.init, n_features, self.classes_)

    def _smoothing(self, n_rows: int) -> float:
        """Label smoothing; with many rows less is better."""
        if self.smoothing != "auto":
            return float(self.smoothing)
        return SMOOTHINGS[2] if n_rows < MANY_ROWS else SMOOTHINGS[1]

    @property
    def _may_smooth(self) -> bool:
        return self.smoothing == "auto" and self.loss == "cross_entropy"

    def _training_set(self, data: TrainingData, weights: Floats) -> TrainingSet:
        n_classes = len(self.classes_)
        codes = np.searchsorted(self.classes_, data.y)
        train, held_out = self._split(codes)
        is_hinge = self.loss == "squared_hinge"
        loss = SquaredHingeLoss() if is_hinge else CrossEntropy(self._smoothing(len(codes)))
        table = initial_table = loss.target_table(n_classes)
        if not is_hinge:
            gap = _INITIAL_OUTPUT_GAP
            several = gap * (np.eye(n_classes) - 1 / n_classes)
            initial_table = np.array([[-gap], [gap]]) if n_classes == 2 else several
        return TrainingSet(
            RowReader(data.X) if isinstance(data.X, RowSource) else data.X,
            weights,
            codes,
            loss,
            ClassValidation(codes, weights, data.y, data.sample_weight, self.scoring),
            train,
            held_out,
            table,
            initial_table,
        )
