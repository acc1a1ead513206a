"""A run of a stage: train over candidates, rebuild from synthetic points, train again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kernlet._typing import Floats, Indices
from kernlet.chunking.problem import QuadraticMargin, SmoothMargin, weigh_rows, weigh_rows_once
from kernlet.compression.synthetic import synthesize
from kernlet.expansion import KernelExpansion, distinct_rows
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import Gram, as_dense
from kernlet.lp.generation import ColumnGeneration
from kernlet.lp.problem import L1Margin
from kernlet.lp.streaming import StreamingL1Solver, is_tall
from kernlet.sklearn_base import join_centers, one_vs_rest_signs

# How this works
# --------------
# Gonzalez-Castano and Meyer (2000) train a kernel machine on more rows than a kernel matrix can
# hold. A stage draws several samples; a run on one of them has three steps:
#
#   (b) train a machine over the current candidates on the sample,
#   (c) rebuild it from n_points synthetic points in feature space (compression/synthetic),
#   (d) train on the sample again over these points.
#
# The points of all runs of a stage are the candidates of the next stage, on larger samples, and
# the best run's points are where its searches start. So the candidates stay few while the samples
# grow: a stage costs n_rows * n_candidates kernel values, never n_rows^2. The last stage is one
# run on all rows.
#
# Steps (b) and (d) are the 1-norm linear program, or one of the problems of problem.py.

GAP_TOL = 1e-6  # relative gap of the linear programs, and of the smooth problem
PAPER_BOX = 1.25  # the paper's limit on the coefficients of step (c)
_KEPT_SHARE = 0.85  # of the centers in each round of pruning


@dataclass(frozen=True)
class RunRecord:
    """What a run did and how well.

    Parameters
    ----------
    n_rows, n_candidates : int
        Rows drawn, and points that step (b) could choose from.
    C : float
        Weight of the errors: the one given or, of several, the best on the validation part.
    scores : tuple of float
        Accuracy of step (b) on the validation part per C given; empty without such rows.
    n_centers_b, n_centers_d : int
        Centers that steps (b) and (d) use.
    n_support_b, n_support_d : int
        Rows with a positive dual in any output; of the smooth problem, rows short of the margin.
    train_b, train_c, train_d : float
        Accuracy of the three machines on the rows drawn.
    validation_b, validation_c, validation_d : float
        The same on the validation part; None in the last stage, which trains on these rows too.
    residual : float
        Relative residual of step (c) in feature space.
    gap : float
        Largest relative gap of steps (b) and (d): the duality gap of the linear programs, or the
        bound ``|gradient|^2 / 2`` of the smooth problem; None for closed forms.
    seconds, seconds_c : float
        CPU time of the run, and of its step (c).
    """

    n_rows: int
    n_candidates: int
    C: float
    scores: tuple[float, ...]
    n_centers_b: int
    n_centers_d: int
    n_support_b: int
    n_support_d: int
    train_b: float
    train_c: float
    train_d: float
    validation_b: float | None
    validation_c: float | None
    validation_d: float | None
    residual: float
    gap: float | None
    seconds: float
    seconds_c: float


@dataclass(frozen=True, eq=False)
class Sample:
    """Labelled rows and the weights that multiply C."""

    X: Any
    y: Any
    weights: Floats

    def take(self, rows: Indices) -> Sample:
        """The rows of the given numbers."""
        return Sample(self.X[rows], self.y[rows], self.weights[rows])


@dataclass(frozen=True, eq=False)
class Plan:
    """What all runs of a fit share.

    ``rule`` chooses the machine of step (b): "best", the C that validates best, or "pruned", the
    fewest centers, over all C and smaller machines (:func:`pruned`), whose validation errors
    exceed those of the best by at most one standard error of the difference.
    """

    kernel: Kernel
    classes: Any
    Cs: tuple[float, ...]
    n_points: int
    two_sets: bool
    box: float | None
    solver: str
    rule: str = "best"

    def is_right(self, expansion: KernelExpansion, sample: Sample) -> Any:
        """Whether each row is classified as labelled."""
        values = expansion.decision_values(sample.X)
        codes = (values[:, 0] > 0).astype(int) if values.shape[1] == 1 else values.argmax(axis=1)
        return self.classes[codes] == sample.y

    def accuracy(self, expansion: KernelExpansion, sample: Sample) -> float:
        """Share of rows that are classified as labelled."""
        return float(np.mean(self.is_right(expansion, sample)))


@dataclass(frozen=True, eq=False)
class Run:
    """The machines of steps (b), (c) and (d), the synthetic points and the record."""

    b: KernelExpansion
    c: KernelExpansion
    d: KernelExpansion
    points: Floats
    record: RunRecord


class Solution(NamedTuple):
    """A machine, the number of its margin rows, and its relative gap where it has one."""

    expansion: KernelExpansion
    n_support: int
    gap: float | None


def run_stage(
    plan: Plan, sample: Sample, validation: Sample, candidates: Any, start: Any, seed: int
) -> Run:
    """Train on a sample, rebuild the machine from few synthetic points, train again on these.

    ``candidates`` are the points that step (b) may choose from (None for the rows), ``start``
    those that the search for synthetic points starts from (None for k-means).
    """
    began = time.thread_time()
    random = np.random.RandomState(seed)
    C, b, scores = choose_machine(plan, sample, validation, candidates, random)
    n_validation = len(validation.y)
    began_c = time.thread_time()
    has_start = start is not None and len(start) == plan.n_points
    inits = [start if has_start else "kmeans", *(["members"] if plan.two_sets else [])]
    first, *second = (
        synthesize(b.expansion, plan.n_points, init=init, box=plan.box, random_state=random)
        for init in inits
    )
    seconds_c = time.thread_time() - began_c
    points = np.vstack([as_dense(each.expansion.centers) for each in (first, *second)])
    points = points[distinct_rows(points)[1]]
    (d,) = train(plan, sample, points, (C,), random)
    accuracies: dict[str, Any] = {}
    for name, f in {"b": b.expansion, "c": first.expansion, "d": d.expansion}.items():
        accuracies[f"train_{name}"] = plan.accuracy(f, sample)
        accuracies[f"validation_{name}"] = plan.accuracy(f, validation) if n_validation else None
    record = RunRecord(
        n_rows=len(sample.y),
        n_candidates=len(sample.y) if candidates is None else len(candidates),
        C=C,
        scores=scores,
        n_centers_b=b.expansion.n_centers,
        n_centers_d=d.expansion.n_centers,
        n_support_b=b.n_support,
        n_support_d=d.n_support,
        residual=first.residual,
        gap=None if b.gap is None or d.gap is None else float(np.max([b.gap, d.gap])),
        seconds=time.thread_time() - began,
        seconds_c=seconds_c,
        **accuracies,
    )
    return Run(b.expansion, first.expansion, d.expansion, points, record)


def choose_machine(
    plan: Plan, sample: Sample, validation: Sample, candidates: Any, random: np.random.RandomState
) -> tuple[float, Solution, tuple[float, ...]]:
    """C and machine by the rule of the plan, and the validation accuracy per C given."""
    tried = list(zip(plan.Cs, train(plan, sample, candidates, plan.Cs, random), strict=True))
    if not len(validation.y):
        return *tried[0], ()
    if plan.rule == "pruned":
        for C, solution in list(tried):
            tried += [(C, smaller) for smaller in pruned(plan, sample, solution, C, random)]
    is_right = np.array([plan.is_right(solution.expansion, validation) for _, solution in tried])
    scores = is_right.mean(axis=1)
    sizes = [solution.expansion.n_centers for _, solution in tried]
    chosen = (
        smallest_within_error(is_right, sizes) if plan.rule == "pruned" else int(np.argmax(scores))
    )
    return *tried[chosen], tuple(map(float, scores[: len(plan.Cs)]))


def pruned(
    plan: Plan, sample: Sample, solution: Solution, C: float, random: np.random.RandomState
) -> Iterator[Solution]:
    """Machines over fewer and fewer centers: the smallest coefficients leave, the others train.

    The last one has just more centers than step (c) makes points.
    """
    expansion = solution.expansion
    least = plan.n_points + 1
    while expansion.n_centers > least:
        kept = max(least, int(_KEPT_SHARE * expansion.n_centers))
        order = np.argsort(-np.abs(expansion.coef).max(axis=0), kind="stable")[:kept]
        (solution,) = train(plan, sample, expansion.centers[np.sort(order)], (C,), random)
        expansion = solution.expansion
        yield solution


def smallest_within_error(is_right: Any, sizes: list[int]) -> int:
    """The smallest machine within one standard error of the best, on the same rows.

    ``is_right`` has a line per machine. The standard error is that of the difference in accuracy:
    machines that agree on most rows are told apart by fewer rows than their accuracies suggest.
    """
    scores = is_right.mean(axis=1)
    excess = is_right[int(np.argmax(scores))].astype(float) - is_right
    errors = excess.std(axis=1) / np.sqrt(is_right.shape[1])
    within = np.flatnonzero(excess.mean(axis=1) <= errors)
    return int(min(within, key=lambda k: (sizes[k], -scores[k])))


def train(
    plan: Plan,
    sample: Sample,
    candidates: Any,
    Cs: tuple[float, ...],
    random: np.random.RandomState,
) -> list[Solution]:
    """For each C a machine over the candidates."""
    gram = Gram(plan.kernel, sample.X, candidates)
    signs = one_vs_rest_signs(sample.y, plan.classes)
    if plan.solver == "lp":
        return _linear_programs(gram, signs, sample.weights, Cs, random)
    if plan.solver == "smooth":
        return _smooth(gram, signs, sample.weights, Cs)
    return [_closed_form(plan.solver, gram, signs, C * sample.weights) for C in Cs]


def _linear_programs(
    gram: Gram, signs: Floats, weights: Floats, Cs: tuple[float, ...], random: np.random.RandomState
) -> list[Solution]:
    """The 1-norm machine for each C, each linear program warm-started from the last."""
    solve = _by_streaming if is_tall(*gram.shape) else _by_generation
    answers: list[Solution] = []
    for solutions in solve(gram, signs, weights, Cs, random):
        expansion, _ = join_centers(gram, solutions)
        n_support = len(np.unique(np.concatenate([s.rows for s in solutions])))
        gap = float(np.max([s.gap for s in solutions]))
        answers.append(Solution(expansion, n_support, gap))
    return answers


def _problem(gram: Gram, signs: Floats, costs: Floats) -> L1Margin:
    """The 1-norm problem of outputs with the given signs."""
    centers = None if gram.is_square else gram.z.X
    return L1Margin.of_rows(gram.x.X, gram.kernel, centers, signs.T, costs)


def _by_generation(
    gram: Gram, signs: Floats, weights: Floats, Cs: tuple[float, ...], random: np.random.RandomState
) -> Iterator[list[Any]]:
    """The solutions of all outputs for each C, each output apart."""
    generations = [
        ColumnGeneration(_problem(gram, output, Cs[0] * weights), random) for output in signs
    ]
    for C in Cs:
        solutions = []
        for output, generation in zip(signs, generations, strict=True):
            generation.reweight(_problem(gram, output, C * weights))
            solutions += generation.solve(tol=GAP_TOL)
        yield solutions


def _by_streaming(
    gram: Gram, signs: Floats, weights: Floats, Cs: tuple[float, ...], random: np.random.RandomState
) -> Iterator[list[Any]]:
    """The same in passes over the rows: the last stage has many rows and few candidates."""
    seed = random.randint(2**31 - 1)
    for C in Cs:
        solver = StreamingL1Solver(_problem(gram, signs, C * weights), seed)
        solutions = solver.solve(tol=GAP_TOL)
        if not all(solution.gap <= GAP_TOL for solution in solutions):
            (solutions,) = _by_generation(gram, signs, weights, (C,), random)
        yield solutions


_ROW_WEIGHTS = {
    "unconstrained": lambda problem: problem,  # model (6): all 1
    "one-step": weigh_rows_once,
    "quadratic": weigh_rows,
}


def _closed_form(solver: str, gram: Gram, signs: Floats, costs: Floats) -> Solution:
    """Model (6), or model (7) with one of its two kinds of row weights."""
    weigh = _ROW_WEIGHTS[solver]
    problems = [
        weigh(QuadraticMargin(gram, output, costs, np.ones(len(output)))) for output in signs
    ]
    coef, intercept = zip(*(problem.solve() for problem in problems), strict=True)
    n_support = int(np.any([problem.row_weights > 0 for problem in problems], axis=0).sum())
    expansion = KernelExpansion(gram.kernel, gram.z.X, np.array(coef), np.array(intercept))
    return Solution(expansion, n_support, None)


def _smooth(gram: Gram, signs: Floats, weights: Floats, Cs: tuple[float, ...]) -> list[Solution]:
    """The smooth SVM for each C."""
    features = np.column_stack([gram.block(slice(None), slice(None)), np.ones(len(weights))])
    answers = []
    for C in Cs:
        problems = [SmoothMargin(features, output, C * weights) for output in signs]
        solved = [problem.solve(tol=1e-2 * GAP_TOL) for problem in problems]
        points = np.array([point for point, _ in solved])
        is_short = [p.errors(point) > 0.0 for p, point in zip(problems, points, strict=True)]
        expansion = KernelExpansion(gram.kernel, gram.z.X, points[:, :-1], points[:, -1])
        gap = float(np.max([gap for _, gap in solved]))
        answers.append(Solution(expansion, int(np.any(is_short, axis=0).sum()), gap))
    return answers
