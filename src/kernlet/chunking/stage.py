"""One stage of chunking with synthetic points."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from kernlet._typing import Floats, Indices
from kernlet.compression.synthetic import synthesize
from kernlet.expansion import KernelExpansion, distinct_rows
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import Gram, as_dense
from kernlet.lp.generation import ColumnGeneration
from kernlet.lp.problem import L1Margin
from kernlet.selection import one_standard_error
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
# Steps (b) and (d) are the 1-norm linear program, or the paper's closed form: rewarding rows
# beyond the margin exactly as rows short of it are fined leaves an unconstrained quadratic,
#
#     min over u, b of  sum_i nu_i v_i (1 - d_i (K_i u + b)) + u'u + b^2,
#     u = 1/2 K' (nu v d),  b = 1/2 sum_i nu_i v_i d_i.
#
# Model (6) has all v = 1, and is poor: rows far on the right side dominate. Model (7) weighs rows;
# the paper sets v to 1 for rows that earlier machines leave short of the margin and to 0 for the
# others. Done once, that turns the machine round: only the rows it had wrong are left. Repeating
# it with a step chosen for the dual problem is the Frank-Wolfe method, which converges to the
# machine the paper names as the aim, nu |E|_1 + u'u + b^2. Each pass is a closed form.

_N_PASSES = 300  # of Frank-Wolfe: its error falls as 1 / passes, and a pass is two products
_LP_TOL = 1e-6  # relative duality gap of the linear programs


@dataclass(frozen=True, eq=False)
class QuadraticMargin:
    """sum_i nu_i v_i (1 - d_i (K_i u + b)) + u'u + b^2, with error weights nu, row weights v."""

    gram: Gram
    signs: Floats
    error_weights: Floats
    row_weights: Floats

    def solve(self) -> tuple[Floats, float]:
        """The minimiser u, b."""
        duals = 0.5 * self.error_weights * self.row_weights * self.signs
        return self.gram.T.dot(duals), float(duals.sum())

    def objective(self, u: Floats, b: float) -> float:
        """Value of the objective."""
        values = self.gram.dot(u) + b
        rewards = self.error_weights * self.row_weights * (1.0 - self.signs * values)
        return float(rewards.sum() + u @ u + b**2)


def weigh_rows(problem: QuadraticMargin, *, n_passes: int = _N_PASSES) -> QuadraticMargin:
    """Model (7): row weights that agree with the errors of the machine they lead to."""
    features = problem.gram.block(slice(None), slice(None))
    cost, d = problem.error_weights, problem.signs

    def closed_form(v: Floats) -> tuple[Floats, float]:
        duals = 0.5 * cost * v * d
        return duals @ features, float(duals.sum())

    v = np.zeros(len(d))
    for _ in range(n_passes):
        u, b = closed_form(v)
        step = (d * (features @ u + b) < 1.0) - v
        # The dual, cost'v - u'u - b^2, is quadratic along the step: its maximum is known.
        du, db = closed_form(step)
        curvature = 2.0 * float(du @ du + db * db)
        slope = float(cost @ step) - 2.0 * float(u @ du + b * db)
        if curvature <= 0 or slope <= 0:
            break
        v = v + min(1.0, slope / curvature) * step
    return replace(problem, row_weights=v)


@dataclass(frozen=True)
class RunRecord:
    """What a run did and how well.

    Parameters
    ----------
    n_rows, n_candidates : int
        Rows drawn, and points that step (b) could choose from.
    C : float
        The one given, or the best on the validation part of several.
    scores : tuple of float
        Accuracy of step (b) on the validation part per C given; empty without such rows.
    n_centers_b, n_centers_d : int
        Centers that steps (b) and (d) use.
    n_support_b, n_support_d : int
        Rows with a positive dual in any output.
    train_b, train_c, train_d : float
        Accuracy of the three machines on the rows drawn.
    validation_b, validation_c, validation_d : float
        The same on the validation part; None in the last stage, which trains on these rows too.
    residual : float
        Relative residual of step (c) in feature space.
    gap : float
        Largest relative duality gap of the linear programs of steps (b) and (d); None for the
        quadratic solver.
    seconds : float
        CPU time.
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

    ``rule`` chooses among ``Cs``: "best", the one whose machine of step (b) validates best, or
    "smallest", the one with the fewest centers within one standard error of the best.
    """

    kernel: Kernel
    classes: Any
    Cs: tuple[float, ...]
    n_points: int
    two_sets: bool
    box: float | None
    solver: str
    rule: str = "best"

    def accuracy(self, expansion: KernelExpansion, sample: Sample) -> float:
        """Share of rows that are classified as labelled; NaN without rows."""
        if not len(sample.y):
            return float("nan")
        values = expansion.decision_values(sample.X)
        codes = (values[:, 0] > 0).astype(int) if values.shape[1] == 1 else values.argmax(axis=1)
        return float(np.mean(self.classes[codes] == sample.y))


@dataclass(frozen=True, eq=False)
class Run:
    """The machines of steps (b), (c) and (d), the synthetic points and the record."""

    b: KernelExpansion
    c: KernelExpansion
    d: KernelExpansion
    points: Floats
    record: RunRecord


class Solution(NamedTuple):
    """A machine, the number of its margin rows, and its relative duality gap where it has one."""

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
    solutions = train(plan, sample, candidates, plan.Cs, random)
    scores = tuple(plan.accuracy(solution.expansion, validation) for solution in solutions)
    sizes = [solution.expansion.n_centers for solution in solutions]
    best = choose_cost(scores, sizes, len(validation.y), plan)
    C, b = plan.Cs[best], solutions[best]
    init = start if start is not None and len(start) == plan.n_points else "kmeans"
    options: dict[str, Any] = {"box": plan.box, "random_state": random}
    first = synthesize(b.expansion, plan.n_points, init=init, **options)
    sets = [first.expansion.centers]
    if plan.two_sets:
        second = synthesize(b.expansion, plan.n_points, init="members", **options)
        sets.append(second.expansion.centers)
    points = np.vstack([as_dense(centers) for centers in sets])
    points = points[distinct_rows(points)[1]]
    (d,) = train(plan, sample, points, (C,), random)
    steps = {"b": b.expansion, "c": first.expansion, "d": d.expansion}
    accuracies: dict[str, Any] = {}
    for name, f in steps.items():
        accuracies[f"train_{name}"] = plan.accuracy(f, sample)
        accuracies[f"validation_{name}"] = (
            plan.accuracy(f, validation) if len(validation.y) else None
        )
    record = RunRecord(
        n_rows=len(sample.y),
        n_candidates=len(sample.y) if candidates is None else len(candidates),
        C=C,
        scores=scores if len(validation.y) else (),
        n_centers_b=b.expansion.n_centers,
        n_centers_d=d.expansion.n_centers,
        n_support_b=b.n_support,
        n_support_d=d.n_support,
        residual=first.residual,
        gap=None if b.gap is None or d.gap is None else max(b.gap, d.gap),
        seconds=time.thread_time() - began,
        **accuracies,
    )
    return Run(b.expansion, first.expansion, d.expansion, points, record)


def choose_cost(scores: tuple[float, ...], sizes: list[int], n_rows: int, plan: Plan) -> int:
    """Number of the C to continue with, by accuracy on ``n_rows`` rows and by size."""
    best = int(np.argmax(scores))
    if plan.rule == "best" or not n_rows:
        return best
    error = np.sqrt(scores[best] * (1 - scores[best]) / n_rows)
    return one_standard_error(scores, error, [(s, -a) for s, a in zip(sizes, scores, strict=True)])


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
    return [_closed_form(gram, signs, C * sample.weights) for C in Cs]


def _linear_programs(
    gram: Gram, signs: Floats, weights: Floats, Cs: tuple[float, ...], random: np.random.RandomState
) -> list[Solution]:
    """The 1-norm machine for each C, each linear program warm-started from the last."""
    generations, centers = [], None if gram.is_square else gram.z.X
    for output in signs:
        problem = L1Margin.of_rows(gram.x.X, gram.kernel, centers, output, Cs[0] * weights)
        generations.append(ColumnGeneration(problem, random))
    answers: list[Solution] = []
    for C in Cs:
        solutions = []
        for output, generation in zip(signs, generations, strict=True):
            problem = L1Margin.of_rows(gram.x.X, gram.kernel, centers, output, C * weights)
            generation.reweight(problem)
            solutions += generation.solve(tol=_LP_TOL)
        expansion, _ = join_centers(gram, solutions)
        n_support = len(np.unique(np.concatenate([s.rows for s in solutions])))
        answers.append(Solution(expansion, n_support, max(s.gap for s in solutions)))
    return answers


def _closed_form(gram: Gram, signs: Floats, costs: Floats) -> Solution:
    """Model (7) with the row weights that agree with its machine."""
    problems = [
        weigh_rows(QuadraticMargin(gram, output, costs, np.ones(len(output)))) for output in signs
    ]
    coef, intercept = zip(*(problem.solve() for problem in problems), strict=True)
    n_support = int(np.any([problem.row_weights > 0 for problem in problems], axis=0).sum())
    expansion = KernelExpansion(gram.kernel, gram.z.X, np.array(coef), np.array(intercept))
    return Solution(expansion, n_support, None)
