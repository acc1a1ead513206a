"""Chunking with synthetic points: the runs of a stage, and the classifier made of stages."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.parallel import Parallel, delayed

from kernlet._typing import Floats, Indices
from kernlet.atomic import Checkpoint, stored_numbers
from kernlet.compression.synthetic import synthesize
from kernlet.expansion import KernelExpansion, distinct_rows
from kernlet.kernels.base import Kernel, require_mercer
from kernlet.kernels.gram import Gram, as_dense
from kernlet.lp.generation import ColumnGeneration
from kernlet.lp.problem import L1Margin
from kernlet.lp.streaming import StreamingL1Solver, is_tall
from kernlet.progress import Progress
from kernlet.rows.source import RowReader, RowSource
from kernlet.sampling import derive_seed, hold_out, stratified_sample, subsample
from kernlet.selection import one_standard_error
from kernlet.sklearn_base import (
    KERNEL_CONSTRAINTS,
    ExpansionClassifier,
    TrainingData,
    error_weights,
    fit_method,
    fit_task,
    join_centers,
    one_vs_rest_signs,
    warn_user,
)

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
_STAGE_SIZES = (500, 1000, 2000, 4000)  # the paper's

# Of rows that are not in memory: enough to tell accuracies half a percent apart, and the most that
# one run should hold.
_MAX_VALIDATION_ROWS, _MAX_LAST_SAMPLE = 10_000, 50_000

# Rows of a source that the fingerprint of a checkpoint sees: reading all would be a pass.
_FINGERPRINT_ROWS = 1000


# -- Model (7) ---------------------------------------------------------------------------------


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
        """Share of rows that are classified as labelled."""
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
    n_validation = len(validation.y)
    scored = solutions if n_validation else []
    scores = tuple(plan.accuracy(solution.expansion, validation) for solution in scored)
    best = choose_cost(scores, [s.expansion.n_centers for s in solutions], n_validation, plan)
    C, b = plan.Cs[best], solutions[best]
    has_start = start is not None and len(start) == plan.n_points
    inits = [start if has_start else "kmeans", *(["members"] if plan.two_sets else [])]
    first, *second = (
        synthesize(b.expansion, plan.n_points, init=init, box=plan.box, random_state=random)
        for init in inits
    )
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
        **accuracies,
    )
    return Run(b.expansion, first.expansion, d.expansion, points, record)


def choose_cost(scores: tuple[float, ...], sizes: list[int], n_rows: int, plan: Plan) -> int:
    """Number of the C to continue with, by accuracy on ``n_rows`` rows and by size."""
    best = int(np.argmax(scores)) if n_rows else 0
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
            solutions += generation.solve(tol=_LP_TOL)
        yield solutions


def _by_streaming(
    gram: Gram, signs: Floats, weights: Floats, Cs: tuple[float, ...], random: np.random.RandomState
) -> Iterator[list[Any]]:
    """The same in passes over the rows: the last stage has many rows and few candidates."""
    seed = random.randint(2**31 - 1)
    for C in Cs:
        solver = StreamingL1Solver(_problem(gram, signs, C * weights), seed)
        solutions = solver.solve(tol=_LP_TOL)
        if not all(solution.gap <= _LP_TOL for solution in solutions):
            (solutions,) = _by_generation(gram, signs, weights, (C,), random)
        yield solutions


def _closed_form(gram: Gram, signs: Floats, costs: Floats) -> Solution:
    """Model (7) with the row weights that agree with its machine."""
    problems = [
        weigh_rows(QuadraticMargin(gram, output, costs, np.ones(len(output)))) for output in signs
    ]
    coef, intercept = zip(*(problem.solve() for problem in problems), strict=True)
    n_support = int(np.any([problem.row_weights > 0 for problem in problems], axis=0).sum())
    expansion = KernelExpansion(gram.kernel, gram.z.X, np.array(coef), np.array(intercept))
    return Solution(expansion, n_support, None)


# -- The stages --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class StagesDone:
    """What a later stage needs of those before it.

    ``records`` has one tuple per finished stage, ``candidates`` the union of the synthetic
    points of the last one, ``start`` the points from which the next searches start.
    """

    records: tuple[tuple[RunRecord, ...], ...] = ()
    candidates: Floats | None = None
    start: Floats | None = None

    def and_then(self, runs: list[Run]) -> StagesDone:
        """After one more stage: all its synthetic points, and the best of them to start from."""
        points = np.vstack([run.points for run in runs])
        _, first = distinct_rows(points)
        best = runs[int(np.argmax([run.record.validation_c or 0.0 for run in runs]))]
        records = (*self.records, tuple(run.record for run in runs))
        # The first set only: with two_sets a run has twice as many points as a search.
        return StagesDone(records, points[first], best.points[: best.c.n_centers])

    @classmethod
    def load(cls, checkpoint: Checkpoint, n_features: int) -> StagesDone:
        """Read the stages from a checkpoint; none where there is no file."""

        def decode(header: dict[str, Any], arrays: Any) -> StagesDone:
            records = tuple(
                tuple(
                    RunRecord(**{**run, "scores": tuple(map(float, run["scores"]))})
                    for run in stage
                )
                for stage in header["records"]
            )
            if not records or len({len(run.scores) for stage in records for run in stage}) != 1:
                raise ValueError("records of stages or scores are missing")
            points = (arrays["candidates"], arrays["start"])
            return cls(records, *(stored_numbers(array, None, n_features) for array in points))

        return checkpoint.load(decode) or cls()

    def save(self, checkpoint: Checkpoint) -> None:
        """Write the stages to a checkpoint."""
        records = [[asdict(record) for record in stage] for stage in self.records]
        checkpoint.save({"records": records}, candidates=self.candidates, start=self.start)


class ChunkingSyntheticClassifier(ExpansionClassifier):
    """Kernel classifier made of a few synthetic points, found on growing samples of the rows.

    Each stage draws several samples. A run on a sample trains a 1-norm machine over the
    current candidates (step b), rebuilds it from ``n_points`` synthetic points in the
    kernel's feature space (step c), and trains on the sample again over these (step d). The
    synthetic points of all runs are the candidates of the next stage, on larger samples; the
    last stage has all rows. The method is that of [1]_, with its choices made on an internal
    validation part where the paper makes them on the test set.

    Parameters
    ----------
    n_points : int, default=10
        Synthetic points of a run: the centers of the machine.
    n_runs : int, default=10
        Runs of a stage.
    stage_sizes : "auto" or sequence of int, default="auto"
        Rows of the samples of each stage. ``"auto"`` is 500, 1000, 2000 and 4000 as far as
        there are more rows, and half of the rows where there are fewer.
    final : {"synthetic", "union"}, default="synthetic"
        What the last stage ends with: step (d), a machine of ``n_points`` centers, or step (b),
        which chooses its centers from all candidates.
    C : float or sequence of float, default=(1.5, 5.0, 15.0)
        Weight of the errors; of several, each run takes the one that validates best.
    kernel : {"rbf", "poly", "linear"} or Kernel, default="rbf"
        Positive semi-definite, with derivatives.
    gamma, degree, coef0 : see L1KernelClassifier
    two_sets : bool, default=False
        Let step (d) choose from two sets of synthetic points, searched for from two starts:
        the paper's alternate algorithm.
    box : float or None, default=None
        Limit on the coefficients in step (c), as a multiple of those of step (b); the paper
        has 1.25. It makes step (c) much worse.
    solver : {"lp", "quadratic"}, default="lp"
        Steps (b) and (d) by the linear program, or by the paper's closed forms (6) and (7).
    class_weight : dict, "balanced" or None, default=None
        Multiplies C for the rows of a class.
    validation_fraction : float, default=0.15
        Share of the rows on which choices are made; they join the last stage.
    checkpoint : str, Path or None, default=None
        Folder in which finished stages are kept. A fit with the same parameters and data resumes
        after the last of them. Needs a whole number as ``random_state``.
    verbose : int, default=0
        Print progress: 1 for each task of the fit, 2 for the steps below them.
    n_jobs : int or None, default=None
        Runs in parallel; the result does not depend on it. The backend is joblib's: loky unless
        ``parallel_config`` says otherwise.
    random_state : int, RandomState instance or None, default=None

    Attributes
    ----------
    expansion_ : KernelExpansion
    n_centers_ : int
    nbytes_ : int
        Bytes of everything that a prediction needs.
    classes_ : ndarray of shape (n_classes,)
    stages_ : list of tuples of RunRecord
        One tuple per stage, the last stage being the single run on all rows.
    gap_ : float or None
        Largest relative duality gap of the linear programs of the last stage; None for the
        quadratic solver. A gap above 1e-6, in any stage, is warned of.
    n_iter_ : int
        Stages.
    n_features_in_, feature_names_in_ : see L1KernelClassifier

    Notes
    -----
    Time for a stage grows with the size of its samples and with n_runs * n_points candidates,
    not with their squares; memory is one sample's kernel block over the candidates per parallel
    run. The last stage takes ten to twenty passes over all rows. 50,000 noisy rows of 50
    features take half a minute, most of it for the first stage, where every row of a sample is a
    candidate. More than two classes share one set of synthetic points.

    References
    ----------
    .. [1] F. J. Gonzalez-Castano and R. R. Meyer, "Chunking-synthetic approaches to
       large-scale kernel machines", Data Mining Institute, University of Wisconsin, 2000.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kernlet import ChunkingSyntheticClassifier
    >>> X, y = make_moons(600, noise=0.15, random_state=0)
    >>> machine = ChunkingSyntheticClassifier(n_points=5, n_runs=3, random_state=0).fit(X, y)
    >>> machine.n_centers_ <= 5
    True
    >>> machine.score(X, y) > 0.95
    True
    """

    _takes_sources = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_points": [Interval(Integral, 1, None, closed="left")],
        "n_runs": [Interval(Integral, 1, None, closed="left")],
        "stage_sizes": [StrOptions({"auto"}), "array-like"],
        "final": [StrOptions({"synthetic", "union"})],
        "C": [Interval(Real, 0, None, closed="neither"), "array-like"],
        **KERNEL_CONSTRAINTS,
        "two_sets": ["boolean"],
        "box": [Interval(Real, 0, None, closed="neither"), None],
        "solver": [StrOptions({"lp", "quadratic"})],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "checkpoint": [str, Path, None],
        "verbose": ["verbose"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_points: int = 10,
        *,
        n_runs: int = 10,
        stage_sizes: Any = "auto",
        final: str = "synthetic",
        C: Any = (1.5, 5.0, 15.0),
        kernel: str | Kernel = "rbf",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        two_sets: bool = False,
        box: float | None = None,
        solver: str = "lp",
        class_weight: Any = None,
        validation_fraction: float = 0.15,
        checkpoint: Any = None,
        verbose: int = 0,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_points = n_points
        self.n_runs = n_runs
        self.stage_sizes = stage_sizes
        self.final = final
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.two_sets = two_sets
        self.box = box
        self.solver = solver
        self.class_weight = class_weight
        self.validation_fraction = validation_fraction
        self.checkpoint = checkpoint
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.random_state = random_state

    @fit_method
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ChunkingSyntheticClassifier:
        """Fit the machine.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowSource, dask collection} of shape (n_samples, n_features)
            Of rows that are not in memory, the last stage has a sample of 50,000 at most, and
            choices are made on 10,000.
        y : array-like of shape (n_samples,) or str
            The name of a column, where X is a source of rows that has one.
        sample_weight : array-like of shape (n_samples,), default=None
            Multiplies C for each row.

        Returns
        -------
        self : object
        """
        data = self._check_training_data(X, y, sample_weight)
        is_source = isinstance(data.X, RowSource)
        plan = self._plan(data)
        weights = error_weights(1.0, data.y, self.classes_, self.class_weight, data.sample_weight)
        # The rows of a source are read when a sample takes them.
        rows = Sample(RowReader(data.X) if is_source else data.X, data.y, weights)
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        kept, held_out = hold_out(data.y, self.validation_fraction, np.random.RandomState(seed))
        if is_source:
            held_out = subsample(data.y, held_out, _MAX_VALIDATION_ROWS, seed)
        validation = rows.take(held_out)
        sizes = self._sizes(len(kept))
        checkpoint = self._checkpoint(data)
        done = StagesDone.load(checkpoint, data.X.shape[1]) if checkpoint else StagesDone()
        with Progress.start(self, data, n_tasks=len(sizes) + 1) as progress:
            for stage in range(len(done.records), len(sizes)):
                drawn = []
                for run in range(self.n_runs):
                    random = np.random.RandomState(derive_seed(seed, stage, run, 1))
                    drawn.append(stratified_sample(data.y, kept, sizes[stage], random))
                runs = self._run_all(plan, rows, drawn, validation, done, [seed, stage], progress)
                done = done.and_then(runs)
                if checkpoint:
                    done.save(checkpoint)
            # One run on all rows, with the C that validated best over all runs of the stage before.
            scores = np.array([record.scores for record in done.records[-1]])
            best = int(scores.mean(axis=0).argmax()) if scores.size else 0
            plan = replace(plan, Cs=(plan.Cs[best],))
            seeds, every = [seed, len(sizes)], np.arange(len(data.y))
            if is_source:
                every = subsample(data.y, every, _MAX_LAST_SAMPLE, derive_seed(*seeds))
            none = validation.take(every[:0])
            (last,) = self._run_all(plan, rows, [every], none, done, seeds, progress)
            self.expansion_ = last.d if self.final == "synthetic" else last.b
            self.stages_ = [*done.records, (last.record,)]
            self.gap_ = last.record.gap
            self.n_iter_ = len(self.stages_)
            _warn_of_gaps([record for stage in self.stages_ for record in stage])
        return self

    def _plan(self, data: TrainingData) -> Plan:
        kernel = self._make_kernel(data)
        require_mercer(kernel, "The chunking-synthetic method")
        Cs = tuple(float(C) for C in np.atleast_1d(self.C))
        if not Cs or not all(np.isfinite(C) and C > 0 for C in Cs):
            raise ValueError(f"C={self.C!r} must be positive, or several positive numbers.")
        return Plan(kernel, self.classes_, Cs, self.n_points, self.two_sets, self.box, self.solver)

    def _sizes(self, n_rows: int) -> list[int]:
        if isinstance(self.stage_sizes, str):
            return [size for size in _STAGE_SIZES if size < n_rows] or [max(1, n_rows // 2)]
        sizes = list(self.stage_sizes)
        in_range = all(
            isinstance(size, Integral) and len(self.classes_) <= int(size) <= n_rows
            for size in sizes
        )
        if not sizes or not in_range or sizes != sorted(sizes):
            raise ValueError(
                f"stage_sizes={self.stage_sizes!r} must be integers in ascending order, between "
                f"the number of classes, {len(self.classes_)}, and the {n_rows} rows that are left "
                "after the validation part."
            )
        return [int(size) for size in sizes]

    def _checkpoint(self, data: TrainingData) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        parameters = self.get_params(deep=False)
        for name in ("checkpoint", "n_jobs", "final", "verbose"):  # the stages are the same
            del parameters[name]
        X = data.X
        if isinstance(X, RowSource):
            numbers = np.linspace(0, len(X) - 1, _FINGERPRINT_ROWS).astype(np.intp)
            X = X.take(np.unique(numbers))
        weights = np.ascontiguousarray(data.sample_weight)
        path = Path(self.checkpoint) / "stages.npz"
        return Checkpoint.of_fit(path, parameters, X, data.y, weights)

    def _run_all(
        self,
        plan: Plan,
        rows: Sample,
        drawn: list[Indices],
        validation: Sample,
        done: StagesDone,
        seeds: list[int],
        progress: Progress,
    ) -> list[Run]:
        """All runs of a stage, in parallel, on the rows drawn for each."""
        with progress.task("stage", n_tasks=len(drawn), sequential=False) as stage:
            # All tasks first: joblib may read the generator below in other threads.
            tasks = [stage.task("run", number, n_tasks=0) for number in range(len(drawn))]
            runs: list[Run] = Parallel(n_jobs=self.n_jobs)(
                delayed(_run)(
                    tasks[number],
                    plan,
                    rows.take(numbers),
                    validation,
                    done.candidates,
                    done.start,
                    derive_seed(*seeds, number),
                )
                for number, numbers in enumerate(drawn)
            )
        return runs


def _warn_of_gaps(records: list[RunRecord]) -> None:
    """Warn of linear programs that were not solved to their optimum."""
    gaps = [record.gap for record in records if record.gap is not None]
    missed = [gap for gap in gaps if not gap <= _LP_TOL]
    if missed:
        warn_user(
            f"Linear programs of {len(missed)} of {len(gaps)} runs ended at a relative duality gap "
            f"of up to {np.max(missed):.1e} (tol={_LP_TOL:.1e}): kernel values times C leave no "
            "more digits. Scale the features, or lower C."
        )


@fit_task
def _run(progress: Progress, *arguments: Any) -> Run:
    """A run in any process; one BLAS thread, so that all round alike."""
    with progress:
        return run_stage(*arguments)
