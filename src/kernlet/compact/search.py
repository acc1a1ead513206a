"""Choosing among candidates: successive halving over folds, or stages on held-out rows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np

from kernlet._typing import Floats, Indices
from kernlet.compact.folds import Split
from kernlet.compact.path import PathPoint
from kernlet.compact.scoring import Validation
from kernlet.compact.space import Space, Stage
from kernlet.compact.trainer import Candidate, Trial
from kernlet.model.scoring import Quality
from kernlet.progress import Progress
from kernlet.sklearn_base import warn_user

# How this works
# --------------
# Fewer than 2,000 rows. More centers than the data support overfit, so that a large budget must not
# be filled up: the number of centers doubles from one per class to what fits, without a projection
# and behind one of rank 8 and 16, with little and with more noise. All candidates see the same five
# folds, and the log loss of the held-out rows is compared (scoring.py). Successive halving
# (Jamieson and Talwalkar, 2016) makes this affordable, and stacked training (folds.py) quick:
#   1. plain machines, a quarter of the epochs on two folds     -> the best third
#   2. the same on all folds                                    -> the best three
#   3. other shapes (step maps, kernels, ...) of about the size of the best, like 2 -> the best one
#   4. all epochs on all folds for these                        -> the best
# With few rows another shape is often better by chance only: it replaces the plain machine where
# its log loss is lower by more than a standard error of the difference. The winner is then trained
# on all rows; its outputs for the held-out rows give the score and the temperature.
#
# 2,000 rows and more. The data support the machines that a budget of some kilobytes holds, so that
# plans fill the budget, and what is open is how to divide the bytes. Trials take a fraction of the
# epochs, on one half of the rows and compared on the other, and the other way round; of more than
# 6,000 rows on half of them or 6,000, and compared on up to 10,000 others. The fraction is such
# that all of it stays within the number of fits that ``effort`` allows:
#   1. shapes: plain machines without a projection and of three ranks, and step maps
#   2. around the best so far, one factor after the other (space.py): kernel and widths, classes
#      per center, format of the projection, smoothing, noise, and fewer centers in eight bits
#      for budgets that are larger than the data need
#   3. for more epochs, on all rows that are not held out: the best, the best with the second best
#      rank (short trials on few rows say little about ranks, and whether a projection pays), and
#      the best of another shape unless it is clearly behind. The outputs for held-out rows give
#      the score and the temperature
#   4. the best of these is trained on all rows.
# A variation replaces the best so far if it is better by more than half a standard error of the
# difference: of a dozen that are equally good, the best by chance is rarely the best.
# Without a budget the number of centers doubles until the score stops rising, without a projection
# and behind one of rank 16, on at most 10,000 rows, and the chosen size is trained on all.
#
# Best or smallest? Whoever gives a number of bytes can spend them, and gets the best machine.
# Without a budget the smallest is taken that is within one standard error of the best: of the
# difference between the two on the same rows, which is much smaller than that of either score.

#: Trains candidates for a share of the epochs on some folds; returns the outputs for each of these.
RunFolds = Callable[[Sequence[Candidate], Sequence[int], float], list[list[Floats]]]
#: Trains candidates for a share of the epochs; their outputs are those for the held-out rows.
RunTrials = Callable[[Sequence[Candidate], float], list[Trial]]
#: Called when a stage begins: its name, number of candidates, and how many full fits they cost.
Report = Callable[[str, int, float], None]


def _silent(stage: str, n_candidates: int, n_fits: float) -> None:
    """Report nothing."""


_FOLD_EPOCHS, _FIRST_FOLDS = 1 / 4, 2
_MIN_KEPT, _KEPT_SHARE, _N_FOLD_FINALISTS = 4, 1 / 3, 3
_N_SHAPES = 7  # that few rows may have
_SHORT_TRIAL = 1 / 3  # of the epochs, for a number of centers
_MAX_CENTERS_IN_PATH = 256  # without a budget
_MIN_CENTERS_TO_STOP = 64  # below, two sizes without a gain may be chance
#: Standard errors by which a shape must be better than a plain machine, with few rows; by which a
#: variation must be better than the best so far; and within which another shape is tried in full.
_SHAPE_GAIN, _VARIATION_GAIN, _FINALIST_LOSS = 1.0, 0.5, 1.0


@dataclass(frozen=True)
class Effort:
    """How much may be spent: full fits in total, and shares of their epochs.

    The last training has ``last_epochs``, each of the finalists before it ``finalist_epochs``, and
    short trials at most ``trial_epochs``.
    """

    n_fits: float
    n_finalists: int
    finalist_epochs: float
    last_epochs: float
    trial_epochs: float

    def short(
        self, n_trials: int, trial_fits: float, finalist_fits: float, n_splits: int = 2
    ) -> float:
        """The share of the epochs of a trial, if with all of them it costs ``trial_fits``."""
        left = self.n_fits - self.last_epochs
        left -= self.n_finalists * self.finalist_epochs * finalist_fits
        # Those of one split have more rows, so that fewer epochs make as many steps.
        most = self.trial_epochs * (1.0 if n_splits > 1 else 0.75)
        return float(np.clip(left / (n_trials * trial_fits), 0.0, most))


EFFORTS = {
    "quick": Effort(2, 1, 1 / 4, 1, 1 / 12),
    "default": Effort(5, 3, 1 / 2, 1, 1 / 6),
    "thorough": Effort(15, 5, 3 / 4, 2, 1 / 3),
}
#: Rows that trials are trained on, and compared on, at most.
TRIAL_ROWS, TRIAL_HELD_OUT_ROWS = 6000, 10_000
#: Up to this many rows, both halves are trained on in turn.
MAX_ROWS_IN_HALVES = 6000


# -- Choices ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Choice:
    """The chosen candidate with its score on ``rows`` that it was not trained on, and why."""

    candidate: Candidate
    outputs: Floats
    rows: Indices
    score: Quality
    path: list[PathPoint]
    sentence: str
    n_fits: float = math.nan


@dataclass(frozen=True, eq=False)
class Tried:
    """A candidate with its outputs for held-out rows, and what it is compared by."""

    candidate: Candidate
    outputs: Floats
    rows: Indices
    quality: Quality
    score: Quality
    is_full: bool

    @property
    def point(self) -> PathPoint:
        """What users see of it."""
        return point_of(self.candidate, self.score, self.is_full)

    def is_better(self, other: Tried, n_errors: float) -> bool:
        """Whether it is better than another by a number of standard errors of the difference."""
        error = self.quality.error_of_difference(other.quality)
        return self.quality.value - other.quality.value > n_errors * error


def point_of(candidate: Candidate, score: Quality, is_full: bool) -> PathPoint:
    """The point of a candidate and its score."""
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
        candidate.smoothing,
        plan.kernel,
        plan.width,
        None if plan.keeps_all else plan.n_entries,
        plan.n_steps,
        plan.is_asinh,
        plan.block,
        plan.missing,
    )


def shape_of(candidate: Candidate) -> Any:
    """What distinguishes shapes: all but noise, smoothing and formats."""
    return replace(candidate.plan, formats=candidate.plan.formats[:1] * 3)


# -- Few rows --------------------------------------------------------------------------------


def choose_by_folds(
    run: RunFolds,
    candidates: Sequence[Candidate],
    validation: Validation,
    splits: Sequence[Split],
    max_bytes: int | None,
    shapes: Callable[[Candidate], list[Candidate]] = lambda best: [],
    report: Report = _silent,
) -> Choice:
    """Successive halving over folds; the best within a budget, else the smallest near it."""
    every = range(len(splits))
    judge = _FoldJudge(validation, splits)
    on_all_folds: list[Tried] = []
    finalists = list(candidates)
    if len(candidates) > _N_FOLD_FINALISTS:
        kept = _halved(run, candidates, judge, report)
        on_all_folds += kept
        best = _best(kept, _N_FOLD_FINALISTS)
        smallest = _smallest(kept)
        if max_bytes is None and smallest not in best:  # but it may be as good
            best[-1] = smallest
        finalists = [t.candidate for t in best]
    others = [c for c in shapes(finalists[0]) if c not in candidates]
    if others:
        report("shapes", len(others), len(others) * len(splits) * _FOLD_EPOCHS)
        outputs = run(others, every, _FOLD_EPOCHS)
        judged = [judge(c, o, every, False) for c, o in zip(others, outputs, strict=True)]
        on_all_folds += judged
        finalists.append(_best(judged, 1)[0].candidate)
    report("finalists", len(finalists), len(finalists) * len(splits))
    outputs = run(finalists, every, 1.0)
    full = [judge(c, o, every, True) for c, o in zip(finalists, outputs, strict=True)]
    plain = [t for t in full if t.candidate not in others]
    chosen = _smallest(plain) if max_bytes is None else _best(plain, 1)[0]
    for other in full[len(plain) :]:
        chosen = other if other.is_better(chosen, _SHAPE_GAIN) else chosen
    tried = {t.candidate: t for t in on_all_folds + full}
    by = validation.criterion(with_score=False)
    n_candidates = len(candidates) + len(others)
    how = f"of {n_candidates} candidates in cross-validation with {len(splits)} folds"
    return _choice(chosen, list(tried.values()), validation, max_bytes, by, how)


@dataclass(frozen=True)
class _FoldJudge:
    """Scores the outputs of a candidate for the held-out rows of folds."""

    validation: Validation
    splits: Sequence[Split]
    with_score: bool = False

    def __call__(
        self, candidate: Candidate, outputs: list[Floats], folds: range, is_full: bool
    ) -> Tried:
        joined = np.concatenate(outputs)
        rows = np.concatenate([self.splits[fold][1] for fold in folds])
        with_error = len(folds) == len(self.splits)
        quality = self.validation.quality(
            joined, rows, with_score=self.with_score, with_error=with_error
        )
        score = self.validation.score(joined, rows, with_error=is_full)
        return Tried(candidate, joined, rows, quality, score, is_full)


def _halved(
    run: RunFolds, candidates: Sequence[Candidate], judge: _FoldJudge, report: Report
) -> list[Tried]:
    """The best third of the candidates in short trials on two folds, tried on all folds."""
    every = range(len(judge.splits))
    first, rest = every[:_FIRST_FOLDS], every[_FIRST_FOLDS:]
    report("plain machines", len(candidates), len(candidates) * len(first) * _FOLD_EPOCHS)
    outputs = dict(zip(candidates, run(candidates, first, _FOLD_EPOCHS), strict=True))
    tried = [judge(c, outputs[c], first, False) for c in candidates]
    kept = _best(tried, max(_MIN_KEPT, round(_KEPT_SHARE * len(candidates))))
    if not rest:
        return kept
    report("the best of them", len(kept), len(kept) * len(rest) * _FOLD_EPOCHS)
    more = run([t.candidate for t in kept], rest, _FOLD_EPOCHS)
    return [
        judge(t.candidate, outputs[t.candidate] + of, every, False)
        for t, of in zip(kept, more, strict=True)
    ]


def most_fold_fits(n_candidates: int, n_folds: int) -> float:
    """About how many fits of a fold the search takes, for estimates of its time."""
    first = n_candidates * (_FIRST_FOLDS + _KEPT_SHARE * (n_folds - _FIRST_FOLDS))
    return _FOLD_EPOCHS * (first + _N_SHAPES * n_folds) + (_N_FOLD_FINALISTS + 1) * n_folds


# -- Many rows -------------------------------------------------------------------------------


def choose_held_out(
    run: RunFolds,
    splits: Sequence[Split],
    run_full: RunTrials,
    stages: Sequence[Stage],
    validation: Validation,
    max_bytes: int,
    *,
    epochs: tuple[float, float],
    fits: tuple[float, float],
    n_finalists: int = 2,
    other_ranks: Callable[[Candidate], list[Candidate]] = lambda best: [],
    report: Report = _silent,
) -> Choice | None:
    """Short trials in stages, each around the best so far; the best of the finalists.

    ``run`` trains short trials on the ``splits``, ``run_full`` finalists on all rows that are not
    held out: for the shares ``epochs``, at the cost of ``fits`` full fits each. ``other_ranks``
    has the best with other projections. None where the first stage has no candidates.
    """
    first = stages[0].candidates(None)
    if not first:
        return None
    tried: list[Tried] = []
    finalists = list(first)
    if len(first) > 1 or any(_others(stage, first[0]) for stage in stages[1:]):
        judge = _FoldJudge(validation, splits, with_score=True)
        short = _ShortTrials(run, judge, epochs[0], fits[0], report)
        tried = _in_stages(short, first, stages)
        finalists = _finalists(tried, n_finalists, other_ranks)
    report("finalists", len(finalists), len(finalists) * fits[1])
    full = _judged(run_full(finalists, epochs[1]), validation)
    chosen = _best(full, 1)[0]
    by = validation.criterion(with_score=True)
    n_candidates = len({*finalists, *(t.candidate for t in tried)})
    how = f"of {n_candidates} candidates on {len(chosen.rows):,} held-out rows"
    choice = _choice(chosen, tried + full, validation, max_bytes, by, how)
    return replace(choice, n_fits=len(tried) * fits[0] + len(full) * fits[1])


def _others(stage: Stage, best: Candidate) -> list[Candidate]:
    return [candidate for candidate in stage.candidates(best) if candidate != best]


@dataclass(frozen=True)
class _ShortTrials:
    """Trains and scores the candidates of a stage."""

    run: RunFolds
    judge: _FoldJudge
    epochs: float
    n_fits: float
    report: Report

    def __call__(self, stage: str, candidates: list[Candidate]) -> list[Tried]:
        self.report(stage, len(candidates), len(candidates) * self.n_fits)
        folds = range(len(self.judge.splits))
        outputs = self.run(candidates, folds, self.epochs)
        return [self.judge(c, o, folds, False) for c, o in zip(candidates, outputs, strict=True)]


def _in_stages(short: _ShortTrials, first: list[Candidate], stages: Sequence[Stage]) -> list[Tried]:
    """All that is tried, the best of the stages in front."""
    best: Tried | None = None
    tried: list[Tried] = []
    seen: set[Candidate] = set()
    for stage in stages:
        candidates = first if best is None else _others(stage, best.candidate)
        candidates = [candidate for candidate in candidates if candidate not in seen]
        if candidates:
            judged = short(stage.name, candidates)
            best = _challenged(best, judged)
            tried += judged
            seen.update(candidates)
    return sorted(tried, key=lambda t: t is not best)


def _challenged(best: Tried | None, judged: list[Tried]) -> Tried:
    """The best so far, or the best of its variations if that is better by more than chance."""
    other = _best(judged, 1)[0]
    if best is None:
        plain = [t for t in judged if not t.candidate.plan.n_steps] or judged
        best = _best(plain, 1)[0]
    return other if other.is_better(best, _VARIATION_GAIN) else best


def _finalists(
    tried: list[Tried], n_finalists: int, other_ranks: Callable[[Candidate], list[Candidate]]
) -> list[Candidate]:
    """The first one, it with the second best rank, and the best of other shapes."""
    best = tried[0]
    finalists = [best.candidate]
    if n_finalists > 2:
        finalists += _with_second_rank(best, tried, other_ranks)
    shapes = {shape_of(candidate) for candidate in finalists}
    for other in _best(tried, len(tried)):
        if len(finalists) == n_finalists or best.is_better(other, _FINALIST_LOSS):
            break
        if shape_of(other.candidate) not in shapes:
            finalists.append(other.candidate)
            shapes.add(shape_of(other.candidate))
    return finalists


def _with_second_rank(
    best: Tried, tried: list[Tried], other_ranks: Callable[[Candidate], list[Candidate]]
) -> list[Candidate]:
    """The best with the rank whose best trial is next to it."""
    candidates = {c.plan.rank: c for c in other_ranks(best.candidate)}
    candidates.pop(best.candidate.plan.rank, None)
    others = [t for t in tried if t.candidate.plan.rank in candidates]
    return [candidates[t.candidate.plan.rank] for t in _best(others, 1)]


def choose_size(run: RunTrials, space: Space, validation: Validation) -> Choice:
    """Double the centers, with and without a projection; the smallest near the best.

    Near is within one standard error. Beyond 64 centers it ends where two sizes in a row are no
    better than the best before.
    """
    largest = min(space.max_centers, _MAX_CENTERS_IN_PATH, max(1, space.n_rows // 2))
    ranks = space.small_ranks
    plans = [replace(space.plain, rank=rank) for rank in ranks[:1] + ranks[1:][-1:]]
    if space.missing == "auto":
        plans.append(space.over_present(plans[0]))
    sizes = space.sizes(largest)
    tried: list[Tried] = []
    for start in range(0, len(sizes), 2):
        pair = sizes[start : start + 2]
        filled = [replace(plan, n_centers=size) for size in pair for plan in plans]
        filled = [plan for plan in filled if space.fits(plan)]
        if not filled:
            break
        best_before = max((t.quality.value for t in tried), default=-np.inf)
        candidates = [space.candidate(plan) for plan in filled]
        judged = _judged(run(candidates, _SHORT_TRIAL), validation)
        tried += judged
        may_stop = pair[-1] >= _MIN_CENTERS_TO_STOP
        if may_stop and max(t.quality.value for t in judged) <= best_before:
            break
    if not tried:
        raise space.refusal()
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


def choose_treatment(
    run: RunTrials, candidates: Sequence[Candidate], validation: Validation
) -> Choice:
    """The best of machines of one size that treat missing values differently."""
    tried = _judged(run(candidates, 1.0), validation)
    chosen, by = _best(tried, 1)[0], validation.criterion(with_score=True)
    how = f"of {len(tried)} treatments of missing values on {len(chosen.rows):,} held-out rows"
    max_bytes = chosen.candidate.plan.nbytes  # the size is given: the best, not the smallest
    return _choice(chosen, tried, validation, max_bytes, by, how)


def _judged(trials: list[Trial], validation: Validation) -> list[Tried]:
    return [
        Tried(
            trial.candidate,
            trial.outputs,
            trial.rows,
            validation.quality(trial.outputs, trial.rows, with_score=True),
            validation.score(trial.outputs, trial.rows),
            True,
        )
        for trial in trials
    ]


def _best(tried: Any, n_best: int) -> list[Tried]:
    """The best candidates first; of equal ones the smaller."""
    return sorted(tried, key=lambda t: (-t.quality.value, t.candidate.plan.nbytes))[:n_best]


def _smallest(tried: list[Tried]) -> Tried:
    """The smallest whose difference to the best is within one standard error of it."""
    best = _best(tried, 1)[0]
    near = [t for t in tried if not best.is_better(t, 1.0)]
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
    candidate, plan, score = chosen.candidate, chosen.candidate.plan, chosen.score
    if max_bytes is None:
        size, rule = f"{plan.nbytes} bytes", f"the smallest within one standard error of the {by}"
    else:
        size, rule = f"{plan.nbytes} of {max_bytes} bytes", f"the {by}"
    smoothing = "" if candidate.smoothing is None else f", smoothing {candidate.smoothing:g}"
    sentence = (
        f"{plan.describe()}, noise {candidate.noise:g}{smoothing}, {size}: {rule} {how} "
        f"({validation.score_name} {score.value:.4f}, standard error {score.standard_error:.4f})."
    )
    path = [t.point for t in tried]
    return Choice(chosen.candidate, chosen.outputs, chosen.rows, score, path, sentence)


# -- Progress --------------------------------------------------------------------------------


class SearchWatch:
    """Reports the stages of a search of some ``n_fits``, with an estimate of the time left."""

    def __init__(self, search: Progress, n_fits: float = 0.0) -> None:
        self._search, self._n_left, self._n_done = search, n_fits, 0.0
        self._stage, self._numbers, self._began = "trial", count(), time.monotonic()

    def begin(self, stage: str, n_candidates: int, n_fits: float) -> None:
        """A stage that costs some fits begins; the one before has ended."""
        self._stage = stage
        line = f"{stage}, {n_candidates} candidate{'s' if n_candidates > 1 else ''}"
        if self._n_done:
            seconds = (time.monotonic() - self._began) / self._n_done * max(self._n_left, n_fits)
            line += f" (about {seconds:.0f} s left)"
        self._search.note(line)
        self._n_done += n_fits
        self._n_left -= n_fits

    def task(self) -> Progress:
        """A task of the stage, for callbacks."""
        return self._search.task(self._stage, next(self._numbers), n_tasks=0)
