"""The chunking-synthetic classifier: its stages, and what is kept between them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.parallel import Parallel, delayed

from kernlet._typing import Floats, Indices
from kernlet.atomic import Checkpoint, stored_numbers
from kernlet.chunking.stage import GAP_TOL, PAPER_BOX, Plan, Run, RunRecord, Sample, run_stage
from kernlet.expansion import distinct_rows
from kernlet.kernels.base import Kernel, require_mercer
from kernlet.progress import Progress
from kernlet.rows.source import RowReader, RowSource
from kernlet.sampling import derive_seed, hold_out, stratified_sample, subsample
from kernlet.sklearn_base import (
    KERNEL_CONSTRAINTS,
    ExpansionClassifier,
    TrainingData,
    error_weights,
    fit_method,
    fit_task,
    warn_user,
)

_STAGE_SIZES = (500, 1000, 2000, 4000)  # the paper's
_SOLVERS = {"lp", "quadratic", "one-step", "unconstrained", "smooth"}

# Of rows that are not in memory: enough to tell accuracies half a percent apart, and the most that
# one run should hold.
_MAX_VALIDATION_ROWS, _MAX_LAST_SAMPLE = 10_000, 50_000

# Rows of a source that the fingerprint of a checkpoint sees: reading all would be a pass.
_FINGERPRINT_ROWS = 1000


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
    kernel : {"rbf", "laplacian", "poly", "linear"} or Kernel, default="rbf"
        Kernel function: a name, or an object of a class derived from
        :class:`kernlet.kernels.Kernel`. It must be positive semi-definite and have derivatives.
    gamma : {"scale", "auto", "mean_distance"} or float, default="scale"
        Width of all kernels but "linear". ``"scale"`` is 1 / (n_features X.var()) and ``"auto"``
        1 / n_features, as in scikit-learn; ``"mean_distance"`` is one over the mean squared
        distance between two rows. For "laplacian", a rule is the square root of its value divided
        by n_features.
    degree : int, default=3
        Degree of the "poly" kernel.
    coef0 : float, default=0.0
        Constant of the "poly" kernel.
    two_sets : bool, default=False
        Let step (d) choose from two sets of synthetic points, searched for from two starts:
        the paper's alternate algorithm.
    box : float, "all" or None, default=None
        Limit on the coefficients in step (c) of every stage, as a multiple of those of step (b).
        ``"all"`` is the paper's, 1.25 in all stages. A limit leaves a larger residual in step (c)
        and hardly changes step (d).
    solver : {"lp", "quadratic", "one-step", "unconstrained", "smooth"}, default="lp"
        Problem of steps (b) and (d). ``"lp"`` is the linear program. ``"unconstrained"`` is
        model (6) of the paper, which rewards rows beyond the margin and has a closed form;
        ``"one-step"`` is model (7) as printed, trained on the rows that model (6) leaves short of
        the margin only, which with the usual C can invert the classes; ``"quadratic"`` repeats
        this until weights and machine agree, which minimises ``C * errors + |u|^2 + b^2``.
        ``"smooth"`` is the smooth SVM [2]_, squared errors by Newton's method. Only the linear
        program selects among its candidates: the others make every candidate a center.
    class_weight : dict, "balanced" or None, default=None
        Multiplies C for the rows of a class. ``"balanced"`` weighs classes inversely to their
        numbers of rows.
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
        Draws the samples, the validation part and the starts of the searches.

    Attributes
    ----------
    expansion_ : KernelExpansion
        The fitted decision function: kernel, centers, coefficients and intercepts.
    n_centers_ : int
        Number of centers: kernel evaluations per prediction.
    nbytes_ : int
        Bytes of everything that a prediction needs.
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    stages_ : list of tuples of RunRecord
        One tuple per stage, the last stage being the single run on all rows.
    gap_ : float or None
        Bound on the relative distance of the last stage from its optimum: the duality gap of
        the linear programs, half the squared gradient of the smooth SVM, None for closed forms.
        A gap above 1e-6, in any stage, is warned of.
    n_iter_ : int
        Stages.
    n_features_in_ : int
        Number of features seen by ``fit``.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if all columns of X have names that are strings.

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
    .. [2] Y.-J. Lee and O. L. Mangasarian, "SSVM: a smooth support vector machine for
       classification", Computational Optimization and Applications 20, 2001.

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

    The other problems, the paper's box, and the time of step (c):

    >>> boxed = ChunkingSyntheticClassifier(5, n_runs=3, box="all", random_state=0).fit(X, y)
    >>> all(0 < run.seconds_c < run.seconds for stage in boxed.stages_ for run in stage)
    True
    >>> smooth = ChunkingSyntheticClassifier(5, n_runs=3, solver="smooth", random_state=0)
    >>> smooth.fit(X, y).gap_ < 1e-6
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
        "box": [Interval(Real, 0, None, closed="neither"), StrOptions({"all"}), None],
        "solver": [StrOptions(_SOLVERS)],
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
        box: float | str | None = None,
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
            self._warn_of_chance(last.record, data.y, weights)
        return self

    def _warn_of_chance(self, record: RunRecord, y: Any, weights: Floats) -> None:
        """Warn of row weights that have turned the machine round, or left nothing of it."""
        right = record.train_d if self.final == "synthetic" else record.train_b
        # With unequal weights a good machine may be right for fewer rows than the larger class has.
        is_plain = weights.min() == weights.max()
        chance = (
            np.unique(y, return_counts=True)[1].max() / len(y)
            if is_plain
            else 1.0 / len(self.classes_)
        )
        if record.gap is None and (right <= chance or not self.n_centers_):
            warn_user(
                f"The machine of solver={self.solver!r} is right for {right:.0%} of its training "
                'rows, no more than a constant one. Use solver="lp" or "smooth".',
                UserWarning,
            )

    def _plan(self, data: TrainingData) -> Plan:
        kernel = self._make_kernel(data)
        require_mercer(kernel, "The chunking-synthetic method")
        Cs = tuple(float(C) for C in np.atleast_1d(self.C))
        if not Cs or not all(np.isfinite(C) and C > 0 for C in Cs):
            raise ValueError(f"C={self.C!r} must be positive, or several positive numbers.")
        box: Any = PAPER_BOX if self.box == "all" else self.box
        return Plan(kernel, self.classes_, Cs, self.n_points, self.two_sets, box, self.solver)

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
    """Warn of problems that were not solved to their optimum."""
    gaps = [record.gap for record in records if record.gap is not None]
    missed = [gap for gap in gaps if not gap <= GAP_TOL]
    if missed:
        warn_user(
            f"Steps (b) or (d) of {len(missed)} of {len(gaps)} runs ended at a relative gap of up "
            f"to {np.max(missed):.1e} (tol={GAP_TOL:.1e}): kernel values times C leave no more "
            "digits. Scale the features, or lower C."
        )


@fit_task
def _run(progress: Progress, *arguments: Any) -> Run:
    """A run in any process; one BLAS thread, so that all round alike."""
    with progress:
        return run_stage(*arguments)
