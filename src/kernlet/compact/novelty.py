"""The compact novelty detector."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_array, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import validate_data

from kernlet._typing import Floats, Indices
from kernlet.affine import ColumnRanges
from kernlet.compact.images import are_images, image_side
from kernlet.compact.inputs import Inputs, block_inputs, column_scaling, mean_and_deviation
from kernlet.compact.machine import require_float32
from kernlet.compact.mixture import Mixture, Rounding, pack, rounded, start, temperature
from kernlet.compact.path import CompactPathDisplay, PathPoint, pack_path, unpack_path
from kernlet.compact.plan import STORAGE, StoragePlan
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
_SHARE_ALIKE = 0.75
_FAR_APART = 4.0  # the range of all numbers over that of a column
_MOST_BELOW = 2.0  # the logarithm of a normal row's score, where anomalies score far lower
_INTERCEPT_BYTES = 4
_ROUNDING = 1e-5  # of scores that are computed in float32


@dataclass(frozen=True)
class _Layout:
    """What is stored of each center."""

    plan: StoragePlan
    rounding: Rounding


class CompactNoveltyDetector(ExpansionDetector):
    """A detector of novelties with few centers, stored in few bytes.

    Trained on normal rows, it scores how much a row is like them:
    f(x) = sum_j a_j exp(-gamma_j sum_c w_jc (u_c - z_jc)^2), where u are the scaled features. This
    is a mixture of Gaussians with diagonal covariances, each to the power 1/T so that the scores
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
        The largest number of centers that may be chosen: see :class:`CompactKernelClassifier`.
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

    Attributes
    ----------
    expansion_ : QuantizedExpansion
    offset_ : float
        Rows that score below it are novelties.
    n_centers_ : int
    nbytes_ : int
        Bytes of everything stored.
    choice_ : str
        What was chosen, and why.
    path_ : tuple of PathPoint
        What was tried: centers, bytes and the mean log-likelihood of held-out rows.
    validation_score_ : float
        The mean log-likelihood of held-out rows, but for a constant, of the chosen layout.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

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
        if anomalies is not None:
            require_memory(self, anomalies)
            given, anomalies = (
                anomalies,
                check_array(
                    anomalies,
                    accept_sparse="csr",
                    dtype=[np.float64, np.float32],
                    input_name="anomalies",
                ),
            )
            if anomalies.shape[1] != self.n_features_in_:
                raise ValueError(
                    f"anomalies has {anomalies.shape[1]} features, but X has {self.n_features_in_}."
                )
            validate_data(self, given, reset=False, skip_check_array=True)  # names of columns
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        random = np.random.RandomState(seed)
        rows = random.permutation(len(data.sample_weight))[:_MOST_ROWS]
        X, weights = as_dense(data.X[rows]), data.sample_weight[rows]
        trainer = _Trainer(X, weights / weights.mean(), self.contamination, seed)
        with Progress.start(self, data) as progress:
            with progress.task("search") as search:
                layout, path = self._choose(trainer, search)
            with progress.task("training"):
                expansion, scores = trainer.train(layout, np.arange(len(X)))
            with progress.task("threshold"):
                self.offset_ = self._threshold(trainer, layout, scores, expansion, anomalies)
        # A little lower, so that rounding does not make novelties of rows that score the threshold.
        threshold = np.array([self.offset_ * (1 - _ROUNDING)], dtype=np.float32)
        self.expansion_ = expansion.replaced(intercept=-threshold)
        self.offset_ = float(threshold[0])
        self._path = pack_path(path)
        best = max(path, key=lambda point: point.score)
        self.validation_score_ = best.score
        why = "by the likelihood of held-out rows" if len(path) > 1 else "as the parameters say"
        self.choice_ = f"{layout.plan.describe()}: chosen {why}"
        return self

    @property
    def path_(self) -> tuple[PathPoint, ...]:
        """What was tried."""
        return unpack_path(self._path)

    def plot_path(self, *, ax: Any = None, by: str = "n_centers", **line: Any) -> Any:
        """Draw the held-out log-likelihood of what was tried.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            To draw into; new ones unless given.
        by : {"n_centers", "nbytes"}, default="n_centers"
            The horizontal axis.
        **line : dict
            Passed on to matplotlib's ``errorbar``.

        Returns
        -------
        display : CompactPathDisplay
        """
        return CompactPathDisplay.from_estimator(self, ax=ax, by=by, **line)

    # -- The choice of a layout --------------------------------------------------------------

    def _choose(self, trainer: _Trainer, progress: Progress) -> tuple[_Layout, list[PathPoint]]:
        """The layout of the largest held-out likelihood."""
        max_bytes = None if self.max_bytes is None else parse_bytes(self.max_bytes)
        trainer.inputs = self._inputs(trainer, max_bytes)
        candidates = list(self._largest(trainer, max_bytes))
        if not candidates and max_bytes is None:
            raise ValueError("max_centers allows no center: raise the limits of the processor.")
        if not candidates:
            plan = self._plan(trainer, "int4", 0.0)
            raise ValueError(
                f"No detector fits in {max_bytes} bytes: one center takes {plan.nbytes}. Raise "
                "max_bytes, or leave out columns."
            )
        path: list[PathPoint] = []

        def score(layout: _Layout) -> float:
            value = trainer.held_out_likelihood(layout)
            path.append(_point(layout.plan, value))
            progress.step("trial")
            return value

        is_open = self.n_centers == "auto" or len(candidates) > 1
        if not is_open or len(trainer.held_out) < 2:
            score(candidates[0])
            return candidates[0], path
        scores = [score(layout) for layout in candidates]
        best, value = candidates[int(np.argmax(scores))], max(scores)
        if self.n_centers != "auto":
            return best, path
        # Fewer centers, where more do not help.
        smaller = best
        while smaller.plan.n_centers > 1:
            smaller = _with_centers(smaller, smaller.plan.n_centers // 2)
            found = score(smaller)
            if found >= value:
                best, value = smaller, found
        return best, path

    def _largest(self, trainer: _Trainer, max_bytes: int | None) -> Iterator[_Layout]:
        """Each combination of formats with as many centers as it can have."""
        formats: tuple[str, ...] = (self.storage,)
        if self.storage == "auto":
            formats = ("float32",) if max_bytes is None else _CENTER_FORMATS
        spreads = {"per_center": _SPREADS[:1], "diagonal": _SPREADS[1:], "auto": _SPREADS}
        for format in formats:
            for spread in spreads[self.width]:
                plan = self._plan(trainer, format, spread)
                n_centers = max(1, min(trainer.n_rows // _ROWS_PER_CENTER, trainer.n_distinct))
                if self.n_centers != "auto":
                    n_centers = min(int(self.n_centers), trainer.n_distinct)
                elif max_bytes is None:
                    n_centers = min(n_centers, _MOST_CENTERS)
                if isinstance(self.max_centers, Integral):
                    n_centers = min(n_centers, int(self.max_centers))
                elif self.max_centers is not None:
                    n_centers = min(n_centers, int(self.max_centers(plan)))
                if max_bytes is not None:
                    n_centers = min(n_centers, _most_centers(plan, max_bytes))
                if n_centers >= 1:
                    plan = replace(plan, n_centers=n_centers)
                    yield _Layout(plan, Rounding(format, spread))

    def _plan(self, trainer: _Trainer, format: str, spread: float) -> StoragePlan:
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
            scaling_bytes=trainer.inputs.scaling_bytes,
            block=trainer.inputs.block,
        )

    def _inputs(self, trainer: _Trainer, max_bytes: int | None) -> Inputs:
        """Scaled columns, or means of blocks of pixels."""
        X, weights = trainer.X, trainer.weights
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
                trainer.inputs = inputs
                plan = self._plan(trainer, "int6", _SPREADS[1])
                if max_bytes is None or _most_centers(plan, max_bytes) >= _FEW_CENTERS:
                    break
            return inputs
        if self.scale is True or (self.scale == "auto" and not have_one_unit(X, ranges)):
            scaling = column_scaling(X, ranges, weights, always=True)
            assert scaling is not None
            return Inputs(*scaling)
        mean, deviation = mean_and_deviation(X, weights, ranges.largest)
        require_float32(deviation, "have a deviation of")
        return Inputs(float(np.float32(mean)), float(np.float32(deviation)))

    # -- The threshold -----------------------------------------------------------------------

    def _threshold(
        self,
        trainer: _Trainer,
        layout: _Layout,
        scores: Floats,
        expansion: QuantizedExpansion,
        anomalies: Any,
    ) -> float:
        """The score below which rows are novelties.

        Training rows score higher than new ones. How much higher, at the quantile that matters,
        is measured by machines that have not seen some of the rows.
        """
        falls = []
        share = self.contamination
        for train, held_out in trainer.folds():
            _, fold_scores = trainer.train(layout, train)
            low, high = (
                _quantile(fold_scores[part], trainer.weights[part], share)
                for part in (held_out, train)
            )
            falls.append((low - high) * len(train) / trainer.n_rows)
        fall = float(np.mean(falls)) if falls else 0.0
        if anomalies is None:
            return float(np.exp(_quantile(scores, trainer.weights, share) + fall))
        found = np.log(expansion.decision_values(anomalies)[:, 0])
        return float(np.exp(_best_split(scores + fall, trainer.weights, found)))


class _Trainer:
    """Trains layouts on rows; ``inputs`` map them."""

    def __init__(self, X: Floats, weights: Floats, contamination: float, seed: int) -> None:
        self.X, self.weights, self.contamination, self.seed = X, weights, contamination, seed
        self.inputs = Inputs()
        trial = min(len(X), _TRIAL_ROWS)  # rows are in random order
        n_held_out = trial // 5
        self.held_out, self.trial = np.arange(n_held_out), np.arange(n_held_out, trial)
        self.n_distinct = len(np.unique(X[: len(X)], axis=0)) if len(X) <= _TRIAL_ROWS else len(X)

    @property
    def n_rows(self) -> int:
        """Rows to train on."""
        return len(self.X)

    def mapped(self, rows: Indices) -> Floats:
        """What the kernel sees of rows."""
        return self.inputs(self.X[rows]).astype(np.float64)

    def mixture(self, layout: _Layout, rows: Indices) -> Mixture:
        """The rounded mixture of some of the rows."""
        U, weights = self.mapped(rows), self.weights[rows]
        n_centers = min(layout.plan.n_centers, len(rows))
        seed = derive_seed(self.seed, len(rows))
        mixture = start(U, weights, n_centers, seed)
        return rounded(mixture, U, weights, layout.rounding)

    def held_out_likelihood(self, layout: _Layout) -> float:
        """The mean log-likelihood of held-out rows; NaN without any."""
        if not len(self.held_out):
            return float("nan")
        densities = self.mixture(layout, self.trial).log_density(self.mapped(self.held_out))
        return float(np.average(densities, weights=self.weights[self.held_out]))

    def train(self, layout: _Layout, rows: Indices) -> tuple[QuantizedExpansion, Floats]:
        """The expansion trained on some rows, and the logarithm of its scores of all."""
        mixture = self.mixture(layout, rows)
        T = temperature(mixture, self.mapped(rows), self.contamination)
        expansion = pack(mixture, layout.rounding, layout.plan, self.inputs, T)
        return expansion, np.log(expansion.decision_values(self.X)[:, 0])

    def folds(self) -> Iterator[tuple[Indices, Indices]]:
        """Rows to train on and held-out rows: all in turn, or enough of them."""
        if self.n_rows < 2 * _N_FOLDS:
            return
        everything = np.arange(self.n_rows)
        n_folds = 1 if self.n_rows >= _N_FOLDS * _THRESHOLD_ROWS else _N_FOLDS
        for fold in range(n_folds):
            yield everything[everything % _N_FOLDS != fold], everything[fold::_N_FOLDS]


def have_one_unit(X: Floats, ranges: ColumnRanges) -> bool:
    """Whether most columns, those of two values left out, have ranges of about the same size.

    No column, a constant one for example, may lie far from the others.
    """
    is_binary = ((ranges.low == X) | (ranges.high == X)).all(axis=0)
    sizes = ranges.sizes[~is_binary]
    if not len(sizes) or ranges.high.max() - ranges.low.min() > _FAR_APART * sizes.max():
        return False
    return bool((sizes >= sizes.max() / 2).mean() >= _SHARE_ALIKE)


def _with_centers(layout: _Layout, n_centers: int) -> _Layout:
    return replace(layout, plan=replace(layout.plan, n_centers=n_centers))


def _most_centers(plan: StoragePlan, max_bytes: int) -> int:
    """Centers that fit, of a plan for one."""
    low, high = 0, max(1, max_bytes)
    while high - low > 1:
        middle = (low + high) // 2
        fits = replace(plan, n_centers=middle).nbytes <= max_bytes
        low, high = (middle, high) if fits else (low, middle)
    return low


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
