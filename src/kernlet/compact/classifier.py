"""The compact kernel classifier."""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from kernlet._typing import Floats
from kernlet.compact.batches import BatchLoader, TrainingSet
from kernlet.compact.initialise import InitialModel, InitialPoints, initial_classifier
from kernlet.compact.inputs import Inputs, column_medians
from kernlet.compact.machine import CompactMachine, require_float32
from kernlet.compact.network import CrossEntropy, SquaredHingeLoss
from kernlet.compact.path import pack_path
from kernlet.compact.plan import STORAGE, StoragePlan
from kernlet.compact.scoring import ClassValidation
from kernlet.compact.space import MANY_ROWS, SMOOTHINGS, Space
from kernlet.compact.stream import (
    BATCH_SIZE,
    EPOCHS,
    LEAST_VALIDATION_ROWS,
    MOST_ROWS,
    VALIDATION_ROWS,
    Stream,
    StreamMachine,
)
from kernlet.compact.train import TrainingConfig
from kernlet.compact.trainer import Trainer
from kernlet.devices import to_numpy
from kernlet.kernels.gram import as_dense
from kernlet.model.calibration import best_temperature
from kernlet.model.model import link
from kernlet.quantization import QuantizedExpansion
from kernlet.rows.source import RowReader, RowSource
from kernlet.sklearn_base import (
    ExpansionClassifier,
    TrainingData,
    check_label_types,
    check_training_data,
    error_weights,
    fit_method,
    label_codes,
)

# Centers of a machine that learns from a stream, unless a number or a budget is given.
_STREAM_CENTERS = 50
# Difference between the initial outputs of the right class and of the others. Ridge regression
# reaches about half of it, which is where cross-entropy neither saturates nor starts from nothing.
_INITIAL_OUTPUT_GAP = 5.0


class CompactKernelClassifier(CompactMachine, ExpansionClassifier):
    """Kernel classifier with few centers, trained as a whole and stored in few bytes.

    ``f_c(x) = sum_j W[c, j] k(P x, z_j) + b_c`` with, unless another ``kernel`` is given or chosen,
    the Gaussian ``k(u, z) = exp(-gamma |u - z|^2)``. Centers z, coefficients W, intercepts b, width
    gamma and, where it pays, a projection P to few dimensions are trained together by Adam on
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
        What training minimises. ``"cross_entropy"`` is the log loss of the softmax of the outputs.
        ``"squared_hinge"`` is half the sum over outputs of max(0, 1 - t f)^2 with signs t, as in a
        one-vs-rest SVM with squared slacks.
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
        Rows of a mini-batch; by default 256, 512 with at least 50,000 rows, and an eighth of fewer
        than 2,048 rows.
    init : "kmeans", array-like or a fitted classifier, default="kmeans"
        The start: k-means in every class, given centers, or a model to refine: a kernlet
        classifier, an SVC or another fitted classifier that :func:`kernlet.compress` takes. With a
        smaller ``n_centers``, clusters of its centers; a compact machine keeps its size, projection
        and widths. Inside a grid search wrap it in a ``FrozenEstimator``, since scikit-learn clones
        parameters.
    class_weight : dict, "balanced" or None, default=None
        Multiplies the loss of the rows of a class. ``"balanced"`` weighs classes inversely to their
        numbers of rows.
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
        Epochs without improvement after which ``early_stopping`` ends the first stage.
    warm_start : bool, default=False
        Whether to continue the last fit, with its size. That fit has seen all its rows: on the
        same rows again, scores and probabilities are validated on rows seen before.
    memory_size : int, default=1000
        Rows that :meth:`partial_fit` keeps to learn again: their mean age, counted in rows. More
        of them are more accurate without drift, and slower to follow it.
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
        Bytes of everything stored; ``predict_proba`` needs the temperature in addition.
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
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
        Number of features seen by ``fit``.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if all columns of X have names that are strings.

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
    _stream: Stream | None = None
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
        "memory_size": [Interval(Integral, 1, None, closed="left")],
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
        memory_size: int = 1000,
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
        self.memory_size = memory_size
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
        self._stream = None
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

    @fit_method
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> CompactKernelClassifier:
        """Learn a block of a stream, with some of the rows before it.

        Each call makes ``n_epochs`` passes (10 unless given) over the block and three times as
        many rows of a memory, at constant rates, so that the machine follows drift. A new row
        takes the place of a random one of the ``memory_size`` in the memory; where the errors of
        the newest rows show abrupt drift, the older rows are forgotten. The memory is part of a
        pickle, and not of ``nbytes_``.

        After ``fit``, calls continue that machine. Otherwise the first block makes a machine of
        ``n_centers`` ("auto" is 50, or as many as fit in ``max_bytes`` with 8 bits), and the
        blocks that follow make it again until there are ten rows per center. Scaling, shape
        and storage are fixed from then on; rates, noise, smoothing, ``n_epochs`` and
        ``memory_size`` may be changed between calls. ``missing="auto"`` is "median" here; medians
        are those of the rows that the machine starts from, where each column needs a number.

        ``n_iter_`` counts the epochs of all calls. ``validation_score_`` and ``temperature_`` are
        those of the newest rows, at most 500, from the outputs they had before they were learned.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            A block becomes dense.
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), default=None
            All labels that may ever come. Needed at the first call, unless there was a ``fit``.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self : object

        Notes
        -----
        Time is 16 n_epochs n_samples n_centers n_features, or with a projection of rank r
        16 n_epochs n_samples r (n_features + n_centers), at least that of 64 rows; memory
        that of the block and of ``memory_size`` rows (fewer of more than 16,777 features: 2**24
        numbers at most). Training is on the CPU, whatever ``device`` is.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from kernlet import CompactKernelClassifier
        >>> X, y = load_digits(return_X_y=True)
        >>> machine = CompactKernelClassifier(40, storage="int8", random_state=0)
        >>> for first in range(0, 1500, 300):
        ...     rows = slice(first, first + 300)
        ...     machine = machine.partial_fit(X[rows], y[rows], classes=range(10))
        >>> machine.score(X[1500:], y[1500:]) > 0.9
        True
        """
        self._validate_params()  # scikit-learn does so at the first call only
        is_first = not hasattr(self, "expansion_")
        data = check_training_data(
            self, X, y, sample_weight, order="C", reset=is_first, allow_no_weight=not is_first
        )
        self._learn_classes(classes, is_first=is_first)
        codes = label_codes(self.classes_, data.y)
        if len(codes):
            self._learn_block(self._open_stream(data.X.shape[1]), data, codes)
        return self

    def _learn_classes(self, classes: Any, *, is_first: bool) -> None:
        """Take the classes of the first call, and refuse others later."""
        if is_first:
            if classes is None:
                raise ValueError(
                    "The first call of partial_fit needs classes, all labels that may come, since "
                    "the first block may lack some: give classes=[...]."
                )
            check_label_types(classes)
            self.classes_ = np.unique(classes)
            if len(self.classes_) < 2:
                raise ValueError(
                    f"classes={self.classes_.tolist()} holds fewer than two labels; give all that "
                    "may come."
                )
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"classes={np.unique(classes).tolist()} differ from those of the first call, "
                f"{self.classes_.tolist()}; leave them out, or use a new estimator."
            )

    def _open_stream(self, n_features: int) -> Stream:
        """The stream so far, or one that continues what was fitted or given."""
        if self._stream is not None:
            return self._stream
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        start: Any = getattr(self, "expansion_", None)
        if start is None:
            start = self._initial_model(None, n_features)
        if isinstance(start, QuantizedExpansion):
            machine = StreamMachine.of(start, self._plan_of(start))
            return Stream(seed, machine, n_started=None)
        return Stream(seed)

    def _learn_block(self, stream: Stream, data: TrainingData, codes: Any) -> None:
        """Learn a block, and set the fitted attributes."""
        X = as_dense(data.X)
        require_float32(float(np.fmax.reduce(abs(X), axis=None, initial=1.0)), "go up to")
        if np.isnan(X).any():
            self._check_missing(None if stream.known is None else stream.machine.expansion)
        n_outputs = len(self.classes_) if len(self.classes_) > 2 else 1
        block, random = stream.block(X, codes, data.sample_weight, n_outputs), stream.random
        stream = stream.received(block)
        rows = block.joined(stream.memory)
        labels = self.classes_[rows.codes]
        # Classes without rows have no weight in a balance.
        classes = np.unique(labels) if self.class_weight == "balanced" else self.classes_
        weights = error_weights(1.0, labels, classes, self.class_weight, rows.weights)
        kept = np.flatnonzero(weights > 0)
        n_new, rows, weights = int(np.sum(kept < len(block))), rows.subset(kept), weights[kept]
        if not len(rows):
            raise ValueError(
                "class_weight gives all rows of the block the weight 0; give one that does not."
            )
        everything = TrainingData(rows.X, labels[kept], rows.weights, np.arange(len(rows)))
        training = self._training_set(everything, weights, stream.n_seen)
        stream = self._trained_stream(stream, n_new, training, random)
        stream = stream.remembered(block, self.memory_size, random)
        self._set_stream(stream)

    def _trained_stream(
        self, stream: Stream, n_new: int, training: TrainingSet, random: np.random.RandomState
    ) -> Stream:
        """Train on the rows of a call, from the beginning where the stream has to start."""
        rate = self.learning_rate
        if stream.n_started is None:
            # The rows of the fit are not in the memory: slowly, until others have filled it.
            rate *= min(1.0, stream.n_seen / self.memory_size)
        batch_size = self.batch_size or BATCH_SIZE
        config = TrainingConfig(self.n_epochs or EPOCHS, batch_size, self.noise, rate, self._rates)
        if not stream.must_start:
            batches = self._batches(training, stream.machine.inputs)
            return stream.learned(n_new, training, batches, config, random)
        self._check_shape(training.X.shape[1], training.n_outputs)
        initial = self._initial_model(None, training.X.shape[1])
        assert not isinstance(initial, QuantizedExpansion)  # of which a stream continues
        inputs, has_missing = self._inputs(training, initial)
        if self.missing == "auto" and inputs.fill is None:  # for rows that are still to come
            inputs = replace(inputs, fill=column_medians(training.X, inputs.scale))
        batches = self._batches(training, inputs, has_missing=has_missing)
        space = self._space(Trainer(training, batches, initial, config, stream.seed), initial)
        plan = self._stream_plan(space, initial)
        return stream.started(plan, training, batches, initial, config, random)

    def _batches(
        self, training: TrainingSet, inputs: Inputs, *, has_missing: bool = False
    ) -> BatchLoader:
        """The rows of a call of partial_fit."""
        return BatchLoader(
            training.X,
            training.targets,
            training.weights / training.weights.mean(),
            table=training.target_table,
            inputs=inputs,
            augment=self.augment,
            has_missing=has_missing,
        )

    def _stream_plan(self, space: Space, initial: InitialPoints | None) -> StoragePlan:
        """The machine that a stream ends up with, when it has rows enough for its centers."""
        most = MOST_ROWS if initial is None else len(initial.points)
        if isinstance(self.max_centers, Integral):
            most = min(most, int(self.max_centers))
        n_centers = None if self.n_centers == "auto" else min(int(self.n_centers), most)
        if n_centers is None and self.max_bytes is None:
            n_centers = min(_STREAM_CENTERS if initial is None else most, most)
        plan = space.plain
        if self.max_bytes is not None and self.storage == "auto":
            plan = replace(plan, formats=STORAGE["int8"])
        space = replace(space, n_rows=MOST_ROWS, max_centers=most, n_centers=n_centers)
        filled = space.filled(plan, space.limit)
        if filled is None:
            raise space.refusal()
        return filled

    def _set_stream(self, stream: Stream) -> None:
        """The fitted attributes after a call."""
        newest, machine = stream.memory.newest(VALIDATION_ROWS), stream.machine
        labels = self.classes_[newest.codes]
        validation = ClassValidation(
            newest.codes, newest.weights, labels, newest.weights, self.scoring
        )
        score = validation.score(newest.outputs, np.arange(len(newest)), with_error=False)
        self._stream, self.expansion_ = stream, machine.expansion
        self.validation_score_ = score.value
        self.n_iter_ = getattr(self, "n_iter_", 0) + len(machine.losses)
        size = f"{machine.plan.describe()}, {machine.plan.nbytes} bytes"
        self.choice_ = f"{size}: learned from a stream of {stream.n_seen:,} rows."
        if len(newest) >= LEAST_VALIDATION_ROWS:
            self.temperature_ = best_temperature(newest.outputs, newest.codes, newest.weights)
        elif not hasattr(self, "temperature_"):
            self.temperature_ = 1.0
        if not hasattr(self, "_path"):
            self._path = pack_path([])
        if self.keep_history:
            epochs = [{"loss": loss, "score": math.nan} for loss in machine.losses]
            epochs[-1]["score"] = score.value
            self.history_ = [*getattr(self, "history_", []), *epochs]

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

    def _training_set(
        self, data: TrainingData, weights: Floats, n_seen: int | None = None
    ) -> TrainingSet:
        """What is learned; of a stream that has ``n_seen`` rows so far, no row is held out."""
        n_classes = len(self.classes_)
        codes = np.searchsorted(self.classes_, data.y)
        train, held_out = np.arange(len(codes)), np.arange(0)
        if n_seen is None:
            train, held_out = self._split(codes)
        is_hinge = self.loss == "squared_hinge"
        smoothing = self._smoothing(len(codes) if n_seen is None else n_seen)
        loss = SquaredHingeLoss() if is_hinge else CrossEntropy(smoothing)
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
