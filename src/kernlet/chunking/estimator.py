"""The chunking-synthetic classifier."""

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
from kernlet.atomic import Checkpoint
from kernlet.chunking.stage import Plan, Run, RunRecord, Sample, run_stage
from kernlet.expansion import distinct_rows
from kernlet.kernels.base import Kernel, require_mercer
from kernlet.rows.source import RowReader, RowSource
from kernlet.sampling import derive_seed, hold_out, stratified_sample, subsample
from kernlet.sklearn_base import (
    KERNEL_CONSTRAINTS,
    ExpansionClassifier,
    Progress,
    TrainingData,
    error_weights,
    fit_method,
    single_thread,
)

_STAGE_SIZES = (500, 1000, 2000, 4000)  # the paper's

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
    def load(cls, checkpoint: Checkpoint) -> StagesDone:
        """Read the stages from a checkpoint; none where there is no file."""
        return checkpoint.load(_decode) or cls()

    def save(self, checkpoint: Checkpoint) -> None:
        """Write the stages to a checkpoint."""
        records = [[asdict(record) for record in stage] for stage in self.records]
        checkpoint.save({"records": records}, candidates=self.candidates, start=self.start)


def _decode(header: dict[str, Any], arrays: Any) -> StagesDone:
    records = tuple(
        tuple(RunRecord(**{**record, "scores": tuple(record["scores"])}) for record in stage)
        for stage in header["records"]
    )
    return StagesDone(records, arrays["candidates"], arrays["start"])


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
    n_iter_ : int
        Stages.
    n_features_in_, feature_names_in_ : see L1KernelClassifier

    Notes
    -----
    Time for a stage grows with the size of its samples and with n_runs * n_points candidates,
    not with their squares; memory is one sample's kernel block over the candidates per parallel
    run. More than two classes share one set of synthetic points.

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
        plan, sample = self._plan(data), self._weighted(data)
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        kept, held_out = hold_out(data.y, self.validation_fraction, np.random.RandomState(seed))
        if isinstance(data.X, RowSource):
            held_out = subsample(data.y, held_out, _MAX_VALIDATION_ROWS, seed)
        sizes = self._sizes(len(kept))
        checkpoint = self._checkpoint(data)
        done = StagesDone.load(checkpoint) if checkpoint else StagesDone()
        with Progress.start(self, data, n_tasks=len(sizes) + 1) as progress:
            for stage in range(len(done.records), len(sizes)):
                drawn = self._draw(data.y, kept, sizes[stage], [seed, stage])
                done = done.and_then(
                    self._run_all(plan, sample, drawn, held_out, done, [seed, stage], progress)
                )
                if checkpoint:
                    done.save(checkpoint)
            last = self._last_stage(plan, sample, held_out, done, [seed, len(sizes)], progress)
            self.expansion_ = last.d if self.final == "synthetic" else last.b
            self.stages_ = [*done.records, (last.record,)]
            self.n_iter_ = len(self.stages_)
        return self

    def _plan(self, data: TrainingData) -> Plan:
        kernel = self._make_kernel(data)
        require_mercer(kernel, "The chunking-synthetic method")
        Cs = tuple(float(C) for C in np.atleast_1d(self.C))
        if not Cs or not all(np.isfinite(C) and C > 0 for C in Cs):
            raise ValueError(f"C={self.C!r} must be positive, or several positive numbers.")
        return Plan(kernel, self.classes_, Cs, self.n_points, self.two_sets, self.box, self.solver)

    def _weighted(self, data: TrainingData) -> Sample:
        """All rows, with the weights that multiply C; those of a source are read when taken."""
        weights = error_weights(1.0, data.y, self.classes_, self.class_weight, data.sample_weight)
        X = RowReader(data.X) if isinstance(data.X, RowSource) else data.X
        return Sample(X, data.y, weights)

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
        sample: Sample,
        drawn: list[Indices],
        held_out: Indices,
        done: StagesDone,
        seeds: list[int],
        progress: Progress,
    ) -> list[Run]:
        """All runs of a stage, in parallel."""
        with progress.task("stage", n_tasks=len(drawn), sequential=False) as stage:
            # All tasks first: joblib may read the generator below in threads of its own.
            tasks = [stage.task("run", number, n_tasks=0) for number in range(len(drawn))]
            runs: list[Run] = Parallel(n_jobs=self.n_jobs)(
                delayed(_run)(
                    tasks[number],
                    plan,
                    sample.take(rows),
                    sample.take(held_out),
                    done.candidates,
                    done.start,
                    derive_seed(*seeds, number),
                )
                for number, rows in enumerate(drawn)
            )
        return runs

    def _draw(self, y: Any, kept: Indices, size: int, seeds: list[int]) -> list[Indices]:
        """Random rows for each run, the classes in proportion and none missing."""
        return [
            stratified_sample(y, kept, size, np.random.RandomState(derive_seed(*seeds, run, 1)))
            for run in range(self.n_runs)
        ]

    def _last_stage(
        self,
        plan: Plan,
        sample: Sample,
        held_out: Indices,
        done: StagesDone,
        seeds: list[int],
        progress: Progress,
    ) -> Run:
        """One run on all rows, with the C that validated best over all runs of the stage before."""
        scores = np.array([record.scores for record in done.records[-1]])
        best = int(scores.mean(axis=0).argmax()) if scores.size else 0
        plan = replace(plan, Cs=(plan.Cs[best],))
        rows = np.arange(len(sample.y))
        if isinstance(sample.X, RowReader):
            rows = subsample(sample.y, rows, _MAX_LAST_SAMPLE, derive_seed(*seeds))
        (run,) = self._run_all(plan, sample, [rows], held_out[:0], done, seeds, progress)
        return run


@single_thread()
def _run(progress: Progress, *arguments: Any) -> Run:
    """A run in any process; one BLAS thread, so that all round alike."""
    with progress:
        return run_stage(*arguments)
