"""The compact novelty detector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_array, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import validate_data

from kernlet._typing import Floats, Indices
from kernlet.affine import ColumnRanges
from kernlet.compact.images import are_images, image_side
from kernlet.compact.inputs import (
    Inputs,
    block_inputs,
    column_scaling,
    have_one_unit,
    mean_and_deviation,
)
from kernlet.compact.machine import require_float32
from kernlet.compact.mixture import Mixture, Rounding, pack, rounded, start, temperature
from kernlet.compact.path import PathMixin, PathPoint, pack_path
from kernlet.compact.plan import STORAGE, StoragePlan
from kernlet.compact.space import largest_within
from kernlet.kernels.gram import as_dense
from kernlet.progress import Progress
from kernlet.quantization import QuantizedExpansion
from kernlet.sampling import derive_seed
from kernlet.sklearn_base import (
    ExpansionDetector,
    check_unlabelled_data,
    fit_method,
    require_memory,
)
from kernlet.units import parse_bytes

# Rows beyond these change a mixture of few components no more.
_MOST_ROWS = 100_000
_TRIAL_ROWS = 6_000  # of a trial, a fifth of them held out
_ROWS_PER_CENTER = 8
_MOST_CENTERS = 256  # that n_centers="auto" tries without max_bytes
# Rows whose held-out scores set the threshold: with 5 % of 5,000 rows, the rate of false alarms is
# known to 6 % of itself.
_THRESHOLD_ROWS = 5_000
_N_FOLDS = 5
#: h of the variances: none, factors of 2 and of 4.
_SPREADS = (0.0, float(np.log(2)), float(np.log(4)))
_CENTER_FORMATS = ("int8", "int6", "int4")
_FEW_CENTERS = 32  # fewer than these, and images are averaged in blocks
_MOST_BELOW = 2.0  # the logarithm of a normal row's score, where anomalies score far lower
_INTERCEPT_BYTES = 4
_ROUNDING = 1e-5  # of scores that are computed in float32


@dataclass(frozen=True)
class _Layout:
    """What is stored of each center."""

    plan: StoragePlan
    rounding: Rounding


class CompactNoveltyDetector(PathMixin, ExpansionDetector):
    """Novelty detector with few centers, stored in few bytes.

    Trained on normal rows, it scores how much a row is like them by
    ``f(x) = sum_j a_j exp(-gamma_j sum_c w_jc (u_c - z_jc)^2)`` of the scaled features u. This is
    a mixture of Gaussians with diagonal covariances, each to the power 1/T so that the scores
    stay within a few powers of 10. It is trained by EM (expectation maximisation), with the
    rounding of what is stored; its size is chosen by the likelihood of held-out rows.

    Parameters
    ----------
    n_centers : int or "auto", default="auto"
        Centers, or the most that may be chosen within ``max_bytes``.
    max_bytes : int or str, default=None
        Bytes that the machine may take, such as 1024 or "1k". Formats and the number of centers
        are then chosen.
    max_centers : int or callable, default=None
        The largest number of centers that may be chosen: the kernel evaluations per prediction. A
        callable such as :meth:`kernlet.export.DeviceLimits.max_centers` is given a storage plan and
        returns the number for machines of its shape.
    contamination : float, default=0.05
        The share of new normal rows that is taken for novelties: the rate of false alarms. It sets
        ``offset_``, by held-out scores.
    storage : {"auto", "float32", "float16", "int8", "int6", "int4"}, default="auto"
        Format of the centers. "auto" is float32 without ``max_bytes``; with it 8, 6 or 4 bits.
    width : {"auto", "per_center", "diagonal"}, default="auto"
        One width per center, or one for each of its features too (1.6 bits each). "auto" chooses.
    scale : {"auto", True, False}, default="auto"
        Whether each column is standardised by itself or all together. "auto" does so unless most
        columns have ranges of about the same size, as pixels do.
    block_means : "auto" or bool, default="auto"
        Whether the means of 2 x 2 or 4 x 4 pixels replace the pixels of square images. "auto" does
        so where else fewer than 32 centers fit in ``max_bytes``.
    verbose : int, default=0
        Print progress: 1 for each task of the fit, 2 for the steps below them.
    random_state : int, RandomState instance or None, default=None
        Draws the held-out rows and the initial centers.

    Attributes
    ----------
    expansion_ : QuantizedExpansion
        The fitted machine in its packed tables.
    offset_ : float
        Rows that score below it are novelties.
    n_centers_ : int
        Number of centers: kernel evaluations per prediction.
    nbytes_ : int
        Bytes of everything stored.
    choice_ : str
        What was chosen, and why.
    path_ : tuple of PathPoint
        What was tried: centers, bytes and the mean log-likelihood of held-out rows.
    validation_score_ : float
        The mean log-likelihood of held-out rows, but for a constant, of the chosen layout.
    n_features_in_ : int
        Number of features seen by ``fit``.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if all columns of X have names that are strings.

    See Also
    --------
    CoreVectorNovelty : The exact ball around the rows, with a certificate.

    Notes
    -----
    A round of EM takes about 4 n_rows n_centers n_features multiplications and additions, and there
    are 12 for each of some ten trials (of 6,000 rows) and for the threshold; memory is that of a
    copy of the rows. Of more than 100,000 rows, as many are drawn at random.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.metrics import roc_auc_score
    >>> from kernlet import CompactNoveltyDetector
    >>> X, y = load_digits(return_X_y=True)
    >>> normal = X[y != 8]
    >>> detector = CompactNoveltyDetector(max_bytes="2k", random_state=0).fit(normal[:1200])
    >>> test = np.vstack([normal[1200:], X[y == 8]])
    >>> is_normal = np.arange(len(test)) < len(normal) - 1200
    >>> bool(roc_auc_score(is_normal, detector.score_samples(test)) > 0.85)
    True
    >>> detector.nbytes_ <= 2000
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_centers": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "max_bytes": [Interval(Integral, 1, None, closed="left"), str, None],
        "max_centers": [Interval(Integral, 1, None, closed="left"), callable, None],
        "contamination": [Interval(Real, 0, 0.5, closed="right")],
        "storage": [StrOptions({*STORAGE, "int6", "auto"})],
        "width": [StrOptions({"auto", "per_center", "diagonal"})],
        "scale": [StrOptions({"auto"}), "boolean"],
        "block_means": [StrOptions({"auto"}), "boolean"],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }
    scoring: ClassVar[str] = "log-likelihood"

    def __init__(
        self,
        n_centers: Any = "auto",
        *,
        max_bytes: int | str | None = None,
        max_centers: Any = None,
        contamination: float = 0.05,
        storage: str = "auto",
        width: str = "auto",
        scale: Any = "auto",
        block_means: Any = "auto",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_centers = n_centers
        self.max_bytes = max_bytes
        self.max_centers = max_centers
        self.contamination = contamination
        self.storage = storage
        self.width = width
        self.scale = scale
        self.block_means = block_means
        self.verbose = verbose
        self.random_state = random_state

    @fit_method
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, anomalies: Any = None
    ) -> CompactNoveltyDetector:
        """Fit the detector to normal rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Normal rows; a few others among them do little harm, unless they are larger by orders
            of magnitude. With fewer than ten rows the threshold is that of the rows themselves.
        y : Ignored
        sample_weight : array-like of shape (n_samples,), default=None
        anomalies : {array-like, sparse matrix} of shape (n_anomalies, n_features), default=None
            Known anomalies. They set the threshold, instead of ``contamination``: where the mean of
            the rates of false alarms and of missed anomalies is least.

        Returns
        -------
        self : object
        """
        data = check_unlabelled_data(self, X, sample_weight, order="C")
        anomalies = None if anomalies is None else self._checked_anomalies(anomalies)
        max_bytes = None if self.max_bytes is None else parse_bytes(self.max_bytes)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        rows = np.random.RandomState(seed).permutation(len(data.sample_weight))[:_MOST_ROWS]
        X, weights = as_dense(data.X[rows]), data.sample_weight[rows]
        weights = weights / weights.mean()
        inputs = self._inputs(X, weights, max_bytes)
        trainer = _Trainer(X, weights, inputs, self.contamination, seed)
        layouts = self._layouts(inputs, trainer.most_centers, max_bytes)
        with Progress.start(self, data) as progress:
            with progress.task("search") as search:
                is_open = self.n_centers == "auto"
                tried = _tried(trainer, layouts, is_open, lambda: search.step("trial"))
                layout, self.validation_score_ = _best(tried)
            with progress.task("training"):
                expansion, scores = trainer.train(layout, np.arange(len(X)))
            with progress.task("threshold"):
                fall = trainer.fall(layout)
                if anomalies is None:
                    threshold = _quantile(scores, weights, self.contamination) + fall
                else:
                    found = np.log(expansion.decision_values(anomalies)[:, 0])
                    threshold = _best_split(scores + fall, weights, found)
        # A little lower, so that rounding does not make novelties of rows that score the threshold.
        offset = np.array([np.exp(threshold) * (1 - _ROUNDING)], dtype=np.float32)
        self.expansion_, self.offset_ = expansion.replaced(intercept=-offset), float(offset[0])
        self._path = pack_path([_point(each.plan, score) for each, score in tried])
        why = "by the likelihood of held-out rows" if len(tried) > 1 else "as the parameters say"
        self.choice_ = f"{layout.plan.describe()}: chosen {why}"
        return self

    def _checked_anomalies(self, anomalies: Any) -> Any:
        """Rows with the columns of the training rows."""
        require_memory(self, anomalies)
        rows = check_array(
            anomalies, accept_sparse="csr", dtype=[np.float64, np.float32], input_name="anomalies"
        )
        if rows.shape[1] != self.n_features_in_:
            raise ValueError(
                f"anomalies has {rows.shape[1]} features, but X has {self.n_features_in_}."
            )
        validate_data(self, anomalies, reset=False, skip_check_array=True)  # names of columns
        return rows

    def _inputs(self, X: Floats, weights: Floats, max_bytes: int | None) -> Inputs:
        """Scaled columns, or means of blocks of pixels."""
        ranges = ColumnRanges.of(X)
        require_float32(max(ranges.largest, 1.0), "go up to")
        if self.block_means is True and image_side(X.shape[1]) % 2:
            raise ValueError(
                f"block_means=True averages 2 x 2 pixels, but images of {X.shape[1]} pixels have "
                "an odd side; leave it out."
            )
        is_open = self.block_means == "auto" and max_bytes is not None and self.scale is not True
        if self.block_means is True or (is_open and are_images(X)):
            side = image_side(X.shape[1])
            blocks = [b for b in (1, 2, 4) if side % b == 0]
            for block in blocks[1:] if self.block_means is True else blocks:
                inputs = block_inputs(X, weights, block)
                plan = replace(self._plan(inputs, "int6", _SPREADS[1]), n_centers=_FEW_CENTERS)
                if max_bytes is None or plan.nbytes <= max_bytes:
                    break
            return inputs
        if self.scale is True or (self.scale == "auto" and not have_one_unit(X, ranges)):
            scaling = column_scaling(X, ranges, weights, always=True)
            assert scaling is not None
            return Inputs(*scaling)
        mean, deviation = mean_and_deviation(X, weights, ranges.largest)
        require_float32(deviation, "have a deviation of")
        return Inputs(float(np.float32(mean)), float(np.float32(deviation)))

    def _layouts(self, inputs: Inputs, most_centers: int, max_bytes: int | None) -> list[_Layout]:
        """Each combination of formats with as many centers as it can have."""
        formats: tuple[str, ...] = (self.storage,)
        if self.storage == "auto":
            formats = ("float32",) if max_bytes is None else _CENTER_FORMATS
        spreads = {"per_center": _SPREADS[:1], "diagonal": _SPREADS[1:], "auto": _SPREADS}
        layouts = []
        for format, spread in product(formats, spreads[self.width]):
            plan = self._plan(inputs, format, spread)
            most = self._most_centers(plan, most_centers, max_bytes)
            largest = replace(plan, n_centers=most) if most > 0 else None
            if max_bytes is not None:
                largest = largest_within(plan, max_bytes, most)
            if largest is not None:
                layouts.append(_Layout(largest, Rounding(format, spread)))
        if not layouts and max_bytes is None:
            raise ValueError("max_centers allows no center: raise the limits of the processor.")
        if not layouts:
            least = self._plan(inputs, "int4", 0.0).nbytes
            raise ValueError(
                f"No detector fits in {max_bytes} bytes: one center takes {least}. Raise "
                "max_bytes, or leave out columns."
            )
        return layouts

    def _most_centers(self, plan: StoragePlan, most_centers: int, max_bytes: int | None) -> int:
        """Centers that the parameters and the rows allow, whatever their bytes."""
        if self.n_centers != "auto":
            most_centers = int(self.n_centers)
        elif max_bytes is None:
            most_centers = min(most_centers, _MOST_CENTERS)
        if isinstance(self.max_centers, Integral):
            return min(most_centers, int(self.max_centers))
        if self.max_centers is None:
            return most_centers
        return min(most_centers, int(self.max_centers(plan)))

    def _plan(self, inputs: Inputs, format: str, spread: float) -> StoragePlan:
        """The storage of one center."""
        coef = format if format.startswith("float") else "int8"
        return StoragePlan(
            self.n_features_in_,
            1,
            1,
            formats=(format, coef, coef),
            width="per_center",
            kernel="diagonal_rbf" if spread else "rbf",
            intercept_bytes=_INTERCEPT_BYTES,
            scaling_bytes=inputs.scaling_bytes,
            block=inputs.block,
        )


# -- Training ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Trainer:
    """Trains layouts on rows, which are in random order."""

    X: Floats
    weights: Floats
    inputs: Inputs
    contamination: float
    seed: int

    @property
    def most_centers(self) -> int:
        """Centers that the rows can tell apart, and of which each has some rows."""
        n_rows = len(self.X)
        n_distinct = len(np.unique(self.X, axis=0)) if n_rows <= _TRIAL_ROWS else n_rows
        return max(1, min(n_rows // _ROWS_PER_CENTER, n_distinct))

    def mapped(self, rows: Indices) -> Floats:
        """What the kernel sees of rows."""
        return self.inputs(self.X[rows]).astype(np.float64)

    def mixture(self, layout: _Layout, rows: Indices) -> Mixture:
        """The rounded mixture of some of the rows."""
        U, weights = self.mapped(rows), self.weights[rows]
        n_centers = min(layout.plan.n_centers, len(np.unique(U[:_TRIAL_ROWS], axis=0)))
        mixture = start(U, weights, n_centers, derive_seed(self.seed, len(rows)))
        return rounded(mixture, U, weights, layout.rounding)

    def held_out_likelihood(self, layout: _Layout) -> float:
        """The mean log-likelihood of a fifth of some rows; NaN of fewer than ten."""
        rows = np.arange(min(len(self.X), _TRIAL_ROWS))
        held_out, train = rows[: len(rows) // _N_FOLDS], rows[len(rows) // _N_FOLDS :]
        if len(held_out) < 2:
            return float("nan")
        densities = self.mixture(layout, train).log_density(self.mapped(held_out))
        return float(np.average(densities, weights=self.weights[held_out]))

    def train(self, layout: _Layout, rows: Indices) -> tuple[QuantizedExpansion, Floats]:
        """The expansion trained on some rows, and the logarithm of its scores of all."""
        mixture = self.mixture(layout, rows)
        T = temperature(mixture, self.mapped(rows), self.contamination)
        plan = replace(layout.plan, n_centers=len(mixture.centers))
        expansion = pack(mixture, layout.rounding, plan, self.inputs, T)
        return expansion, np.log(expansion.decision_values(self.X)[:, 0])

    def fall(self, layout: _Layout) -> float:
        """How much lower new rows score than training rows, at the quantile that matters.

        It is measured by machines that have not seen some of the rows: all in turn, or enough.
        """
        n_rows = len(self.X)
        if n_rows < 2 * _N_FOLDS:
            return 0.0
        rows = np.arange(n_rows)
        falls = []
        for fold in range(1 if n_rows >= _N_FOLDS * _THRESHOLD_ROWS else _N_FOLDS):
            is_held_out = rows % _N_FOLDS == fold
            _, scores = self.train(layout, rows[~is_held_out])
            low, high = (
                _quantile(scores[part], self.weights[part], self.contamination)
                for part in (is_held_out, ~is_held_out)
            )
            falls.append((low - high) * (1 - 1 / _N_FOLDS))
        return float(np.mean(falls))


def _tried(
    trainer: _Trainer, layouts: list[_Layout], is_open: bool, report: Callable[[], Any]
) -> list[tuple[_Layout, float]]:
    """Layouts with their likelihoods; of the best, if the number of centers is open, halves too."""

    def score(layout: _Layout) -> tuple[_Layout, float]:
        value = trainer.held_out_likelihood(layout)
        report()
        return layout, value

    tried = [score(layouts[0])]
    if np.isnan(tried[0][1]):
        return tried
    tried += map(score, layouts[1:])
    layout, _ = _best(tried)
    while is_open and layout.plan.n_centers > 1:
        half = replace(layout.plan, n_centers=layout.plan.n_centers // 2)
        layout = replace(layout, plan=half)
        tried.append(score(layout))
    return tried


def _best(tried: list[tuple[_Layout, float]]) -> tuple[_Layout, float]:
    """The layout of the largest likelihood; of equal ones the last, which is the smallest."""
    return max(reversed(tried), key=lambda each: each[1])


def _point(plan: StoragePlan, score: float) -> PathPoint:
    return PathPoint(
        plan.n_centers,
        plan.nbytes,
        score,
        0.0,
        None,
        plan.formats[:2],
        True,
        0.0,
        width="diagonal" if plan.kernel == "diagonal_rbf" else plan.width,
        block=plan.block,
    )


def _quantile(values: Floats, weights: Floats, share: float) -> float:
    return float(np.quantile(values, share, weights=weights, method="inverted_cdf"))


def _best_split(normal: Floats, weights: Floats, anomalous: Floats) -> float:
    """The threshold with the least mean of the rates of false alarms and missed anomalies."""
    values = np.concatenate([normal, anomalous])
    order = np.argsort(values, kind="stable")
    shares = np.concatenate([weights / weights.sum(), np.zeros(len(anomalous))])[order]
    missed = np.concatenate([np.zeros(len(normal)), np.full(len(anomalous), 1 / len(anomalous))])
    # below the threshold lie the first i values
    errors = np.concatenate([[0.0], np.cumsum(shares)]) + 1
    errors -= np.concatenate([[0.0], np.cumsum(missed[order])])
    best = int(np.argmin(errors))
    low, high = values[order][[max(best - 1, 0), min(best, len(values) - 1)]]
    return float(max((low + high) / 2, high - _MOST_BELOW))
