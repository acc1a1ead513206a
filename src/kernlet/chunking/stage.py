"""One stage of chunking with synthetic points."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from kernlet._typing import Floats, Indices
from kernlet.compression.synthetic import synthesize
from kernlet.expansion import KernelExpansion, distinct_rows
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import Gram
from kernlet.lp.generation import Generation
from kernlet.lp.problem import L1Margin
from kernlet.selection import one_standard_error
from kernlet.sklearn_base import join_centers, one_vs_rest_signs


@dataclass(frozen=True, eq=False)
class QuadraticMargin:
    """An unconstrained machine that rewards rows beyond the margin as it fines those short of it.

    With rows x_i of sign d_i and weight v_i, candidates z_j and K_ij = k(x_i, z_j)::

        minimise over u, b  sum_i nu_i v_i (1 - d_i (K_i u + b)) + u'u + b^2

    Its answer is u = 1/2 K' (nu v d) and b = 1/2 sum_i nu_i v_i d_i. Model (6) has all v = 1;
    model (7) has row weights, see :func:`weigh_rows`.

    Parameters
    ----------
    gram : Gram
    signs : ndarray of shape (n_rows,)
    error_weights : ndarray of shape (n_rows,)
        nu.
    row_weights : ndarray of shape (n_rows,)
        v.
    """

    gram: Gram
    signs: Floats
    error_weights: Floats
    row_weights: Floats

    def solve(self) -> tuple[Floats, float]:
        """U and b."""
        pull = 0.5 * self.error_weights * self.row_weights * self.signs
        return self.gram.T.dot(pull), float(pull.sum())

    def objective(self, u: Floats, b: float) -> float:
        """Value of the objective."""
        values = self.gram.dot(u) + b
        rewards = self.error_weights * self.row_weights * (1.0 - self.signs * values)
        return float(rewards.sum() + u @ u + b**2)


def weigh_rows(problem: QuadraticMargin, *, n_passes: int = 300) -> QuadraticMargin:
    """Model (7): row weights that agree with the errors of the machine they lead to.

    The paper sets v to 1 for the rows that earlier machines leave short of the margin and to 0
    for the others. Done once, that turns the machine round: only the rows it had wrong are left.
    Here each machine's verdict is mixed with those before it by the share that is best for the
    dual problem (the Frank-Wolfe method), which leads to the machine with errors in place of
    rewards that the paper names as the aim: nu |E|_1 + u'u + b^2. Each pass is a closed form.

    Parameters
    ----------
    problem : QuadraticMargin
    n_passes : int, default=300

    Returns
    -------
    problem : QuadraticMargin
        With the row weights found.
    """
    features = problem.gram.block(slice(None), slice(None))
    cost, d = problem.error_weights, problem.signs

    def closed_form(v: Floats) -> tuple[Floats, float]:
        pull = 0.5 * cost * v * d
        return pull @ features, float(pull.sum())

    v = np.zeros(len(d))
    for _ in range(n_passes):
        u, b = closed_form(v)
        step = (d * (features @ u + b) < 1.0) - v
        du, db = closed_form(step)
        curvature = 2.0 * float(du @ du + db * db)
        if curvature <= 0:
            break
        gain = float(cost @ step) - 2.0 * float(u @ du + b * db)
        if gain <= 0:
            break
        v = v + min(1.0, gain / curvature) * step
    return replace(problem, row_weights=v)


@dataclass(frozen=True)
class RunRecord:
    """What happened in a run.

    Parameters
    ----------
    n_rows, n_candidates : int
        Rows drawn, and points that step (b) could choose from.
    C : float
        Chosen on the validation part where several were given.
    scores : tuple of float
        Correctness of step (b) on the validation part for each C given; none without such rows.
    n_centers_b, n_centers_d : int
        Centers that steps (b) and (d) use.
    n_support_b, n_support_d : int
        Rows with a positive dual in any output.
    train_b, train_c, train_d : float
        Correctness of the three machines on the rows drawn.
    validation_b, validation_c, validation_d : float
        The same on the validation part; None in the last stage, which trains on these rows too.
    residual : float
        Relative residual of step (c) in feature space.
    gap : float
        Largest relative duality gap of the linear programs of steps (b) and (d); None with the
        closed forms.
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
class Rows:
    """Rows, labels and the weights that multiply C."""

    X: Any
    y: Any
    weights: Floats

    def take(self, rows: Indices) -> Rows:
        """Some of the rows."""
        return Rows(self.X[rows], self.y[rows], self.weights[rows])


@dataclass(frozen=True, eq=False)
class Plan:
    """What all runs of a fit share.

    Parameters
    ----------
    kernel : Kernel
    classes : ndarray of shape (n_classes,)
    Cs : tuple of float
        Values of C to choose from.
    n_points : int
        Synthetic points of a run.
    two_sets : bool
        Whether step (d) chooses from two sets of synthetic points.
    box : float or None
    solver : {"lp", "quadratic"}
    rule : {"best", "smallest"}, default="best"
        Which C is chosen: that of the best machine of step (b) on the validation part, or of the
        one with the fewest points within one standard error of the best.
    """

    kernel: Kernel
    classes: Any
    Cs: tuple[float, ...]
    n_points: int
    two_sets: bool
    box: float | None
    solver: str
    rule: str = "best"

    def validated(self, machine: KernelExpansion, rows: Rows) -> float | None:
        """The same where there are rows to validate on, else None."""
        return self.correctness(machine, rows) if len(rows.y) else None

    def correctness(self, machine: KernelExpansion, rows: Rows) -> float:
        """Share of rows that a machine classifies as labelled."""
        if not len(rows.y):
            return float("nan")
        values = machine.decision_values(rows.X)
        codes = (values[:, 0] > 0).astype(int) if values.shape[1] == 1 else values.argmax(axis=1)
        return float(np.mean(self.classes[codes] == rows.y))


@dataclass(frozen=True, eq=False)
class Run:
    """The answer of a run: the machines of its steps, its synthetic points and the record."""

    b: KernelExpansion
    c: KernelExpansion
    d: KernelExpansion
    points: Floats
    record: RunRecord


#: A machine, the number of rows it rests on, and its relative duality gap where it has one.
Trained = tuple[KernelExpansion, int, float | None]


def run_stage(
    plan: Plan, rows: Rows, validation: Rows, candidates: Any, start: Any, seed: int
) -> Run:
    """Train on some rows, rebuild the machine from few synthetic points, train again on these.

    Parameters
    ----------
    plan : Plan
    rows, validation : Rows
    candidates : ndarray of shape (n_candidates, n_features) or None
        Points that step (b) may choose from; None for the rows themselves.
    start : ndarray of shape (n_points, n_features) or None
        Where the search for synthetic points starts; None for k-means.
    seed : int

    Returns
    -------
    run : Run
    """
    began = time.thread_time()
    random = np.random.RandomState(seed)
    machines = train(plan, rows, candidates, plan.Cs, random)
    scores = tuple(plan.correctness(machine, validation) for machine, *_ in machines)
    best = chosen(scores, [machine.n_centers for machine, *_ in machines], len(validation.y), plan)
    C, (b, support_b, gap_b) = plan.Cs[best], machines[best]
    init = start if start is not None and len(start) == plan.n_points else "kmeans"
    first = synthesize(b, plan.n_points, init=init, box=plan.box, random_state=random)
    points = first.expansion.centers
    if plan.two_sets:
        second = synthesize(b, plan.n_points, init="members", box=plan.box, random_state=random)
        points = np.vstack([_dense(points), _dense(second.expansion.centers)])
    points = _dense(points)
    points = points[distinct_rows(points)[1]]
    ((d, support_d, gap_d),) = train(plan, rows, points, (C,), random)
    record = RunRecord(
        n_rows=len(rows.y),
        n_candidates=len(rows.y) if candidates is None else len(candidates),
        C=C,
        scores=scores if len(validation.y) else (),
        n_centers_b=b.n_centers,
        n_centers_d=d.n_centers,
        n_support_b=support_b,
        n_support_d=support_d,
        train_b=plan.correctness(b, rows),
        train_c=plan.correctness(first.expansion, rows),
        train_d=plan.correctness(d, rows),
        validation_b=plan.validated(b, validation),
        validation_c=plan.validated(first.expansion, validation),
        validation_d=plan.validated(d, validation),
        residual=first.residual,
        gap=None if gap_b is None or gap_d is None else max(gap_b, gap_d),
        seconds=time.thread_time() - began,
    )
    return Run(b, first.expansion, d, points, record)


def chosen(scores: tuple[float, ...], sizes: list[int], n_rows: int, plan: Plan) -> int:
    """Which machine to go on with, by correctness on so many rows and by size."""
    best = int(np.argmax(scores))
    if plan.rule == "best" or not n_rows:
        return best
    standard_error = np.sqrt(scores[best] * (1 - scores[best]) / n_rows)
    return one_standard_error(
        scores, standard_error, [(size, -score) for size, score in zip(sizes, scores, strict=True)]
    )


def _dense(points: Any) -> Floats:
    return points.toarray() if sparse.issparse(points) else points


def train(
    plan: Plan, rows: Rows, candidates: Any, Cs: tuple[float, ...], random: np.random.RandomState
) -> list[Trained]:
    """For each C a machine over the candidates, the rows it rests on, and its duality gap."""
    gram = Gram(plan.kernel, rows.X, candidates)
    signs = one_vs_rest_signs(rows.y, plan.classes)
    fit = _linear_programs if plan.solver == "lp" else _closed_forms
    return fit(gram, signs, rows.weights, Cs, random)


def _linear_programs(
    gram: Gram, signs: Floats, weights: Floats, Cs: tuple[float, ...], random: np.random.RandomState
) -> list[Trained]:
    """The 1-norm machine for each C, each linear program started from the last."""
    generations = []
    for output in signs:
        problem = L1Margin(gram, output, Cs[0] * weights, np.ones(gram.shape[1]))
        generations.append(Generation(problem, random))
    answers: list[Trained] = []
    for C in Cs:
        solutions = []
        for output, generation in zip(signs, generations, strict=True):
            generation.reweight(L1Margin(gram, output, C * weights, np.ones(gram.shape[1])))
            solutions.append(generation.solve(tol=1e-6))
        machine, _ = join_centers(gram, solutions)
        support = len(np.unique(np.concatenate([s.rows for s in solutions])))
        answers.append((machine, support, max(solution.gap for solution in solutions)))
    return answers


def _closed_forms(
    gram: Gram, signs: Floats, weights: Floats, Cs: tuple[float, ...], random: np.random.RandomState
) -> list[Trained]:
    """Model (7) with the row weights that agree with their machine, for each C."""
    answers: list[Trained] = []
    for C in Cs:
        coef, intercept, support = [], [], np.zeros(gram.shape[0], dtype=bool)
        for output in signs:
            problem = weigh_rows(QuadraticMargin(gram, output, C * weights, np.ones(len(output))))
            u, b = problem.solve()
            coef.append(u)
            intercept.append(b)
            support |= problem.row_weights > 0
        machine = KernelExpansion(gram.kernel, gram.z.X, np.array(coef), np.array(intercept))
        answers.append((machine, int(support.sum()), None))
    return answers
