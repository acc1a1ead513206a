"""Choosing a compact machine: what may be chosen, how it is validated, and its picture."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kernlet._typing import Floats, Indices
from kernlet.compact.folds import Split
from kernlet.compact.plan import STORAGE, StoragePlan
from kernlet.compact.scoring import Validation
from kernlet.compact.trainer import Candidate, PathPoint, Trial
from kernlet.extras import require
from kernlet.model.scoring import Quality, scorer_name
from kernlet.quantization import FORMATS
from kernlet.sklearn_base import warn_user

# How this works
# --------------
# A candidate is a storage plan (number of centers, rank of the projection, formats) and the noise
# on the inputs. Whatever can be chosen is a candidate: another kernel or another shape would be one
# more in the lists that `small_candidates` and `layouts` return.
#
# Fewer than 2,000 rows. More centers than the data support overfit, so that a large budget must not
# be filled up: the number of centers doubles from one per class to what fits, without a projection
# and behind one of rank 8 and 16, with little and with more noise. Tables have 8 bits where the
# size fits in 8 bits, else 4. All candidates see the same five folds, and the log loss of the
# held-out rows is compared (scoring.py). Successive halving (Jamieson and Talwalkar, 2016) makes
# this affordable:
#   1. a quarter of the epochs on two folds      -> the best third
#   2. a quarter of the epochs on all folds      -> the best three
#   3. all epochs on all folds                   -> the best
# and stacked training (folds.py) makes it quick. The winner is then trained on all rows; its
# outputs for the held-out rows give the score and the temperature.
#
# 2,000 rows and more. The data support the machines that a budget of some kilobytes holds, and one
# held-out fifth is enough to compare them: plans fill the budget, and what is open is how to divide
# the bytes. No trial is longer than needed to rank it:
#   1. a third of the epochs: no projection, and the smallest, the middle and the largest fair rank
#   2. a third of the epochs: the best of them with more noise, and with a half, a quarter, ... of
#      the centers in eight bits, for budgets that are larger than the data need. These are cheap,
#      and make a budget at least as good as a smaller one
#   3. all epochs for the best two; the better one is chosen, and fine-tuned on all rows.
# Without a budget the number of centers doubles until the score rises no more, without a projection
# and behind one of rank 16, on at most 10,000 rows, and the chosen size is trained on all.
#
# Best or smallest? Who gives a number of bytes has paid for them, and gets the best machine.
# Without a budget the smallest is taken that is within one standard error of the best: of the
# difference between the two on the same rows, which is much smaller than that of either score.

#: Trains candidates for a share of the epochs on some folds; returns the outputs for each of these.
RunFolds = Callable[[Sequence[Candidate], Sequence[int], float], list[list[Floats]]]
#: Trains candidates for a share of the epochs; their outputs are those for the held-out rows.
RunTrials = Callable[[Sequence[Candidate], float], list[Trial]]

#: From this number of rows on, one held-out part replaces the folds.
MANY_ROWS = 2000
_MORE_NOISE = 3  # times the usual noise
_SMALL_RANKS = (8, 16)
_ROWS_PER_CENTER = 4
_FOLD_EPOCHS, _FIRST_FOLDS = 1 / 4, 2
_MIN_KEPT, _KEPT_SHARE, _N_FOLD_FINALISTS = 4, 1 / 3, 3
_SHORT_TRIAL, _N_FINALISTS = 1 / 3, 2
_FEWER_CENTERS = (1 / 2, 1 / 4, 1 / 8, 1 / 16)
_MAX_CENTERS_IN_BUDGET = 4096  # more train slowly and gain little
_MAX_CENTERS_IN_PATH, _MAX_CENTERS_BY_FOLDS = 256, 128  # without a budget
_MIN_CENTERS_TO_STOP = 64  # below, two sizes without a gain may be chance
_RANKS = (8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128)
# With few features a square matrix, which is a learned metric, costs little and often pays.
_MAX_METRIC_FEATURES = 32
# Share of the budget that a projection may take. With less its rank is too low to carry the
# classes; with more too few bytes are left for centers.
_PROJECTION_SHARE = (0.03, 0.65)


# -- Candidates ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Space:
    """What the parameters say and leave open; ``plan`` has what all candidates share.

    ``n_centers`` is None where it is open; ``max_centers`` follows from rows, points to start
    from and the parameter.
    """

    plan: StoragePlan
    noise: float
    n_rows: int
    max_centers: int
    max_bytes: int | None = None
    n_centers: int | None = None
    storage: str = "auto"
    projection: Any = "auto"

    @property
    def first_size(self) -> int:
        """One center per class, or two."""
        return min(self.max_centers, max(2, self.plan.n_outputs))

    @property
    def small_ranks(self) -> list[Any]:
        """No projection and few ranks, or what is given."""
        if self.projection != "auto":
            return [self.projection]
        return [None, *(rank for rank in _SMALL_RANKS if rank <= self.plan.n_features)]

    def sizes(self, largest: int) -> list[int]:
        """Doubled from the first size up to the largest, without one just below that.

        Or the given one, if that fits.
        """
        if self.n_centers is not None:
            return [self.n_centers] if self.n_centers <= largest else []
        sizes = [min(self.first_size, largest)] if largest else []
        while sizes and sizes[-1] < largest:
            sizes.append(2 * sizes[-1] if 3 * sizes[-1] <= largest else largest)
        return sizes

    def refusal(self) -> ValueError:
        """That the budget is too small for any candidate."""
        plan, storage = self.plan, "int4" if self.storage == "auto" else self.storage
        n_centers = self.n_centers or 1
        least = replace(plan, n_centers=n_centers, rank=None, formats=STORAGE[storage]).nbytes
        advice = ["more bytes", "fewer features"]
        advice += ["fewer centers"] if n_centers > 1 else []
        advice += ['storage="auto"'] if self.storage != "auto" else []
        advice += ['projection="auto"'] if self.projection != "auto" else []
        what = "a single center takes" if n_centers == 1 else f"{n_centers} centers take"
        return ValueError(
            f"max_bytes={self.max_bytes} is too little for {plan.n_features} features and "
            f"{plan.n_outputs} outputs: {what} {least} bytes. "
            f"Give {', '.join(advice[:-1])} or {advice[-1]}."
        )


def small_candidates(space: Space) -> list[Candidate]:
    """For few rows: every rank, size and noise, in the widest format in which it fits."""
    limit = space.max_centers
    if space.n_centers is None:
        limit = min(limit, max(space.first_size, space.n_rows // _ROWS_PER_CENTER))
    if space.max_bytes is None and space.n_centers is None:
        limit = min(limit, max(space.first_size, _MAX_CENTERS_BY_FOLDS))
    candidates = []
    for rank in space.small_ranks:
        plans = [replace(space.plan, rank=rank, formats=f) for f in _small_formats(space, rank)]
        filled = [plan for plan in (_filled(space, plan, limit) for plan in plans) if plan]
        for size in space.sizes(max((plan.n_centers for plan in filled), default=0)):
            widest = next(plan for plan in filled if plan.n_centers >= size)
            plan = replace(widest, n_centers=size)
            candidates += [Candidate(plan, noise) for noise in _noises(space)]
    return candidates


def _small_formats(space: Space, rank: int | None) -> list[tuple[str, str, str]]:
    """Formats from many bits to few."""
    if space.storage != "auto":
        return [STORAGE[space.storage]]
    if space.max_bytes is None:
        return [STORAGE["float32"]]
    narrowest = [] if rank is None else [("int4", "int4", "ternary")]
    return [STORAGE["int8"], STORAGE["int4"], *narrowest]


def _noises(space: Space) -> list[float]:
    return [space.noise, _MORE_NOISE * space.noise] if space.noise else [0.0]


def _filled(space: Space, plan: StoragePlan, limit: int) -> StoragePlan | None:
    """The plan with as many centers as fit and are allowed; None where not even one fits."""
    if space.max_bytes is None:
        return replace(plan, n_centers=limit)
    return largest_within(plan, space.max_bytes, limit)


def largest_within(plan: StoragePlan, max_bytes: int, max_centers: int) -> StoragePlan | None:
    """The plan with as many centers as fit in the bytes; None where not even one fits."""
    sizes = range(1, max_centers + 1)
    fits = bisect_right(sizes, max_bytes, key=lambda size: replace(plan, n_centers=size).nbytes)
    return replace(plan, n_centers=fits) if fits else None


def layouts(space: Space) -> list[Candidate]:
    """For many rows: plans that fill the budget, without a projection and of three ranks."""
    assert space.max_bytes is not None
    limit = min(space.max_centers, max(1, space.n_rows // 2), _MAX_CENTERS_IN_BUDGET)
    ranks: list[Any] = [space.projection]
    if space.projection == "auto":
        fair = fair_ranks(space.plan.n_features, space.max_bytes)
        ranks = [None, *sorted({fair[i] for i in (0, len(fair) // 2, -1)} if fair else ())]
    candidates = []
    for rank in ranks:
        formats = usual_formats(rank, space.plan.n_features)
        formats = formats if space.storage == "auto" else STORAGE[space.storage]
        plan = replace(space.plan, rank=rank, formats=formats)
        largest = largest_within(plan, space.max_bytes, limit)
        for size in space.sizes(largest.n_centers)[-1:] if largest else []:
            candidates.append(Candidate(replace(plan, n_centers=size), space.noise))
    return candidates


def fair_ranks(n_features: int, max_bytes: int) -> list[int]:
    """Ranks whose matrix takes a reasonable share of the bytes."""
    format = FORMATS[usual_formats(1, n_features)[2]]
    low, high = (share * max_bytes for share in _PROJECTION_SHARE)
    ranks = [r for r in _RANKS if r < n_features and format.n_bytes(r * n_features) <= high]
    if n_features <= _MAX_METRIC_FEATURES and format.n_bytes(n_features**2) <= high:
        ranks.append(n_features)
    return [r for r in ranks if format.n_bytes(r * n_features) >= low] or ranks


def usual_formats(rank: int | None, n_features: int) -> tuple[str, str, str]:
    """Four bits; a large projection in ternary numbers, a small one in eight bits."""
    if rank is None:
        return STORAGE["int4"]
    return ("int4", "int4", "int8" if n_features <= _MAX_METRIC_FEATURES else "ternary")


def _variations(space: Space, best: Candidate) -> list[Candidate]:
    """More noise, and fewer centers, in eight bits where the formats are open."""
    variations = [replace(best, noise=noise) for noise in _noises(space)[1:]]
    plan = best.plan
    if space.storage == "auto":
        plan = replace(plan, formats=("int8", "int8", plan.formats[2]))
    for share in _FEWER_CENTERS if space.n_centers is None else ():
        fewer = replace(plan, n_centers=int(share * plan.n_centers))
        if fewer.n_centers >= space.first_size and fewer.nbytes <= (space.max_bytes or 0):
            variations.append(replace(best, plan=fewer))
    return variations


# -- Choices ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Choice:
    """The chosen candidate with its score on ``rows`` that it was not trained on, and why.

    ``trial`` is the trained candidate where it can be used as it is.
    """

    candidate: Candidate
    outputs: Floats
    rows: Indices
    score: Quality
    path: list[PathPoint]
    sentence: str
    trial: Trial | None = None


@dataclass(frozen=True, eq=False)
class Tried:
    """A candidate with its outputs for held-out rows, and what it is compared by."""

    candidate: Candidate
    outputs: Floats
    rows: Indices
    quality: Quality
    score: Quality
    is_full: bool
    trial: Trial | None = None

    @property
    def point(self) -> PathPoint:
        """What users see of it."""
        return point_of(self.candidate, self.score, self.is_full)


def point_of(candidate: Candidate, score: Quality, is_full: bool) -> PathPoint:
    """What users see of a candidate that was tried."""
    plan = candidate.plan
    return PathPoint(
        plan.n_centers,
        plan.nbytes,
        score.value,
        score.standard_error,
        plan.rank,
        plan.formats[: 2 if plan.rank is None else 3],
        is_full,
        candidate.noise,
    )


# A path of a dozen points would take as many bytes in a pickle as the machine: it is kept as one
# array of float32.
_PATH_DIGITS = 6


def pack_path(path: Sequence[PathPoint]) -> Floats:
    """A path as an array with a row per point."""
    formats = list(FORMATS)
    rows = []
    for point in path:
        *numbers, rank, storage, is_full, noise = astuple(point)
        codes = [formats.index(name) for name in storage]
        rows.append([*numbers, rank or 0, *codes, *[-1] * (3 - len(codes)), is_full, noise])
    return np.array(rows, dtype=np.float32)


def unpack_path(packed: Floats) -> tuple[PathPoint, ...]:
    """The path of a packed array."""
    formats = list(FORMATS)
    path = []
    for n_centers, nbytes, score, error, rank, *codes, is_full, noise in packed.tolist():
        storage = tuple(formats[int(code)] for code in codes if code >= 0)
        score, error, noise = (round(number, _PATH_DIGITS) for number in (score, error, noise))
        numbers = (int(n_centers), int(nbytes), score, error, int(rank) or None)
        path.append(PathPoint(*numbers, storage, bool(is_full), noise))
    return tuple(path)


def choose_by_folds(
    run: RunFolds,
    candidates: Sequence[Candidate],
    validation: Validation,
    splits: Sequence[Split],
    max_bytes: int | None,
) -> Choice:
    """Successive halving over folds; the best within a budget, else the smallest near it."""
    first, rest = range(min(_FIRST_FOLDS, len(splits))), range(_FIRST_FOLDS, len(splits))
    every = range(len(splits))

    def judge(candidate: Candidate, outputs: list[Floats], folds: range, is_full: bool) -> Tried:
        joined = np.concatenate(outputs)
        rows = np.concatenate([splits[fold][1] for fold in folds])
        quality = validation.quality(joined, rows, with_score=False, with_error=folds == every)
        score = validation.score(joined, rows, with_error=is_full)
        return Tried(candidate, joined, rows, quality, score, is_full)

    on_all_folds: dict[Candidate, Tried] = {}
    finalists = list(candidates)
    if len(candidates) > _N_FOLD_FINALISTS:
        short = run(candidates, first, _FOLD_EPOCHS)
        outputs = dict(zip(candidates, short, strict=True))
        tried = [judge(c, outputs[c], first, False) for c in candidates]
        kept = _best(tried, max(_MIN_KEPT, round(_KEPT_SHARE * len(candidates))))
        if rest:
            more = run([t.candidate for t in kept], rest, _FOLD_EPOCHS)
            kept = [
                judge(t.candidate, outputs[t.candidate] + of, every, False)
                for t, of in zip(kept, more, strict=True)
            ]
        on_all_folds = {t.candidate: t for t in kept}
        best = _best(kept, _N_FOLD_FINALISTS)
        smallest = _smallest(kept)
        if max_bytes is None and smallest not in best:  # but it may be as good
            best[-1] = smallest
        finalists = [t.candidate for t in best]
    full = [
        judge(candidate, outputs, every, True)
        for candidate, outputs in zip(finalists, run(finalists, every, 1.0), strict=True)
    ]
    on_all_folds |= {t.candidate: t for t in full}
    chosen = _smallest(full) if max_bytes is None else _best(full, 1)[0]
    by = validation.criterion(with_score=False)
    how = f"of {len(candidates)} candidates in cross-validation with {len(splits)} folds"
    return _choice(chosen, list(on_all_folds.values()), validation, max_bytes, by, how)


def choose_held_out(run: RunTrials, space: Space, validation: Validation) -> Choice:
    """Short trials of plans that fill the budget; the best of two in full."""
    first = layouts(space)
    if not first:
        raise space.refusal()
    finalists, tried = first, []
    if len(first) > 1 or _variations(space, first[0]):
        tried = _judged(run(first, _SHORT_TRIAL), validation, is_full=False)
        more = _variations(space, _best(tried, 1)[0].candidate)
        tried += _judged(run(more, _SHORT_TRIAL), validation, is_full=False)
        finalists = [t.candidate for t in _best(tried, _N_FINALISTS)]
    full = _judged(run(finalists, 1.0), validation, is_full=True)
    chosen = _best(full, 1)[0]
    by = validation.criterion(with_score=True)
    how = f"of {len(tried) or 1} candidates on {len(chosen.rows):,} held-out rows"
    return _choice(chosen, tried + full, validation, space.max_bytes, by, how)


def choose_size(run: RunTrials, space: Space, validation: Validation) -> Choice:
    """Double the centers, with and without a projection; the smallest near the best.

    Near is within one standard error. Beyond 64 centers it ends where two sizes in a row are no
    better than the best before.
    """
    largest = min(space.max_centers, _MAX_CENTERS_IN_PATH, max(1, space.n_rows // 2))
    ranks = space.small_ranks
    plans = [replace(space.plan, rank=rank) for rank in ranks[:1] + ranks[1:][-1:]]
    sizes = space.sizes(largest)
    tried: list[Tried] = []
    for start in range(0, len(sizes), 2):
        pair = sizes[start : start + 2]
        filled = [replace(plan, n_centers=size) for size in pair for plan in plans]
        best_before = max((t.quality.value for t in tried), default=-np.inf)
        trials = run([Candidate(plan, space.noise) for plan in filled], _SHORT_TRIAL)
        judged = _judged(trials, validation, is_full=True)
        tried += judged
        may_stop = pair[-1] >= _MIN_CENTERS_TO_STOP
        if may_stop and max(t.quality.value for t in judged) <= best_before:
            break
    chosen = _smallest(tried)
    n_centers = chosen.candidate.plan.n_centers
    if n_centers == _MAX_CENTERS_IN_PATH and len(sizes) > 1:
        warn_user(
            "This data does not compress: the validated score still rises at "
            f"{n_centers} centers, the largest number tried. Give n_centers or max_bytes for a "
            "larger machine.",
            UserWarning,
        )
    by = validation.criterion(with_score=True)
    how = f"of {len(tried)} candidates on {len(chosen.rows):,} held-out rows"
    return _choice(chosen, tried, validation, None, by, how)


def _judged(trials: list[Trial], validation: Validation, *, is_full: bool) -> list[Tried]:
    return [
        Tried(
            trial.candidate,
            trial.outputs,
            trial.rows,
            validation.quality(trial.outputs, trial.rows, with_score=True, with_error=is_full),
            validation.score(trial.outputs, trial.rows, with_error=is_full),
            is_full,
            trial,
        )
        for trial in trials
    ]


def _best(tried: Any, n_best: int) -> list[Tried]:
    """The best candidates first; of equal ones the smaller."""
    return sorted(tried, key=lambda t: (-t.quality.value, t.candidate.plan.nbytes))[:n_best]


def _smallest(tried: list[Tried]) -> Tried:
    """The smallest whose difference to the best is within one standard error of it."""
    best = _best(tried, 1)[0]
    near = [
        t
        for t in tried
        if best.quality.value - t.quality.value <= best.quality.error_of_difference(t.quality)
    ]
    return min(near, key=lambda t: (t.candidate.plan.nbytes, -t.quality.value), default=best)


def _choice(
    chosen: Tried,
    tried: list[Tried],
    validation: Validation,
    max_bytes: int | None,
    by: str,
    how: str,
) -> Choice:
    """The choice and its reason in a sentence."""
    plan, score = chosen.candidate.plan, chosen.score
    if max_bytes is None:
        size, rule = f"{plan.nbytes} bytes", f"the smallest within one standard error of the {by}"
    else:
        size, rule = f"{plan.nbytes} of {max_bytes} bytes", f"the {by}"
    sentence = (
        f"{plan.describe()}, {size}: {rule} {how} ({validation.score_name} {score.value:.4f}, "
        f"standard error {score.standard_error:.4f})."
    )
    path = [t.point for t in tried]
    return Choice(
        chosen.candidate, chosen.outputs, chosen.rows, score, path, sentence, chosen.trial
    )


# -- The picture -----------------------------------------------------------------------------


class CompactPathDisplay:
    """Validated score against size, with standard errors and the size that was chosen.

    Use :meth:`from_estimator`, or ``plot_path`` of a fitted compact machine.

    Parameters
    ----------
    sizes, scores, standard_errors : ndarray of shape (n_sizes,)
    chosen : float
        The size of the fitted machine.
    size_name, score_name : str
        Labels of the axes.

    Attributes
    ----------
    ax_ : matplotlib axes
    figure_ : matplotlib figure
    errorbar_ : matplotlib container
    line_ : matplotlib artist
        The line at the chosen size.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kernlet import CompactKernelClassifier
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> machine = CompactKernelClassifier("auto", n_epochs=5, random_state=0).fit(X, y)
    >>> display = machine.plot_path()
    >>> display.ax_.get_xlabel()
    'Centers'
    """

    def __init__(
        self,
        *,
        sizes: Any,
        scores: Any,
        standard_errors: Any,
        chosen: float,
        size_name: str = "Centers",
        score_name: str = "Score",
    ) -> None:
        self.sizes, self.scores, self.standard_errors = sizes, scores, standard_errors
        self.chosen, self.size_name, self.score_name = chosen, size_name, score_name

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, ax: Any = None, by: str = "n_centers", **line: Any
    ) -> CompactPathDisplay:
        """Draw the path of a fitted compact machine, by "n_centers" or "nbytes"."""
        check_is_fitted(estimator)
        if by not in ("n_centers", "nbytes"):
            raise ValueError(f'by={by!r} must be "n_centers" or "nbytes".')
        path = [point for point in estimator.path_ if point.is_full]
        path = sorted(path, key=lambda point: getattr(point, by))
        is_classifier = estimator.__sklearn_tags__().estimator_type == "classifier"
        score = "accuracy" if is_classifier else "R²"
        if estimator.scoring is not None:
            score = scorer_name(estimator.scoring)
        return cls(
            sizes=np.array([getattr(point, by) for point in path]),
            scores=np.array([point.score for point in path]),
            standard_errors=np.array([point.standard_error for point in path]),
            chosen=getattr(estimator, f"{by}_"),
            size_name="Centers" if by == "n_centers" else "Bytes",
            score_name=f"Validated {score}",
        ).plot(ax=ax, **line)

    def plot(self, *, ax: Any = None, **line: Any) -> CompactPathDisplay:
        """Draw into axes; ``line`` is passed on to matplotlib's ``errorbar``."""
        plt = require("matplotlib.pyplot", f"{type(self).__name__}.plot", "plot")

        if ax is None:
            _, ax = plt.subplots()
        options = {"marker": "o", "capsize": 3, **line}
        self.errorbar_ = ax.errorbar(self.sizes, self.scores, self.standard_errors, **options)
        self.line_ = ax.axvline(
            self.chosen, color="gray", linestyle=":", label=f"chosen: {self.chosen:,}"
        )
        ax.set_xscale("log", base=2)
        ax.set(xlabel=self.size_name, ylabel=self.score_name)
        ax.legend(loc="lower right")
        self.ax_, self.figure_ = ax, ax.figure
        return self
