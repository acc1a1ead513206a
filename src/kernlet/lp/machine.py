"""What the 1-norm machines share: one linear program per output, by generation or streaming."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, Options, StrOptions
from sklearn.utils.parallel import Parallel, delayed

from kernlet._typing import Floats, Indices
from kernlet.atomic import Checkpoint, stored_numbers
from kernlet.expansion import KernelExpansion
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import Gram
from kernlet.lp.generation import ColumnGeneration
from kernlet.lp.linearization import LinearizationPath
from kernlet.lp.problem import L1Margin, PrimalDual, Solution
from kernlet.lp.streaming import StreamingL1Solver, StreamingPass, is_tall
from kernlet.progress import Progress
from kernlet.rows.source import RowSource
from kernlet.sampling import (
    Candidates,
    choose_candidates,
    spread_candidates,
    stratified_sample,
)
from kernlet.sklearn_base import (
    KERNEL_CONSTRAINTS,
    TrainingData,
    fit_task,
    is_unconverged,
    join_centers,
    warn_unconverged,
    warn_user,
)

#: ``method(solver, tol=..., start=..., report=...)`` solves the outputs of ``solver.problem``:
#: :func:`solve_once` or :func:`linearize` with its settings.
Method = Callable[..., list[LinearizationPath]]

#: Fitted attributes, by name, of the expansion that the linear programs found.
Attributes = Callable[[KernelExpansion], dict[str, Any]]

_MAX_FALLBACK_ROWS = 100_000  # that generation solves where streaming ends without a certificate
#: The file in the folder ``checkpoint``.
CHECKPOINT_NAME = "streaming.npz"
# Parameters that do not change the first linear program; candidates are compared as points.
_NOT_IN_CHECKPOINT = (
    *("candidates", "checkpoint", "n_jobs", "cache_size"),
    *("tol", "max_iter", "solver", "verbose"),
)
_REASONS = {
    "iteration limit": "the simplex method reached max_iter. Raise it.",
    "stalled": "programs over more rows near the margin came no closer. Lower C, or give fewer "
    "candidates.",
    "failed": "the simplex method failed. Scale the features, or lower C.",
    "optimal": "kernel values times C leave no more digits. Scale the features, or lower C.",
}


# -- Generation: one output per task ---------------------------------------------------------


def solve_by_generation(
    problem: L1Margin,
    method: Method,
    progress: Progress,
    attributes: Attributes,
    *,
    seed: int,
    max_bytes: int,
    n_jobs: int | None,
) -> list[LinearizationPath]:
    """Solve the linear programs of all outputs, each apart."""
    tasks = [progress.task("output", number) for number in range(problem.n_outputs)]
    # One output of several is not a machine that could predict.
    known = attributes if len(tasks) == 1 else None
    paths: list[LinearizationPath] = Parallel(n_jobs=n_jobs)(
        delayed(solve_output)(problem.outputs([number]), method, task, known, seed, max_bytes)
        for number, task in enumerate(tasks)
    )
    return paths


@fit_task
def solve_output(
    problem: L1Margin,
    method: Method,
    task: Progress,
    attributes: Attributes | None,
    seed: int,
    max_bytes: int,
) -> LinearizationPath:
    """Solve one of the outputs, in the process of a worker; each round is a step of the task."""

    def report(pair: PrimalDual) -> bool:
        if attributes is None:
            return task.step("round", None)
        arrays = pair.centers, pair.coef[None, :], np.array([pair.intercept])
        return task.step("round", partial(_attributes_of, attributes, problem, *arrays))

    with task:
        solver = ColumnGeneration(problem, np.random.RandomState(seed), max_bytes=max_bytes)
        (path,) = method(solver, report=report)
    return path


def _attributes_of(
    attributes: Attributes, problem: L1Margin, centers: Indices, coef: Floats, intercept: Floats
) -> dict[str, Any]:
    """What a copy of the estimator needs to predict with the machine so far."""
    return attributes(KernelExpansion(problem.kernel, problem.points[centers], coef, intercept))


# -- Streaming: all outputs in one task ------------------------------------------------------


def solve_by_streaming(
    problem: L1Margin,
    method: Method,
    progress: Progress,
    attributes: Attributes,
    *,
    seed: int,
    max_bytes: int,
    checkpoint: Checkpoint | None,
) -> tuple[list[LinearizationPath], float]:
    """Solve all outputs over shared passes, and count these; each pass is a step of the task.

    After every pass over all rows of the first linear program its machine is written to the
    checkpoint, and a later fit starts from it.
    """
    solver = StreamingL1Solver(problem, seed, max_bytes=max_bytes)

    def report(state: StreamingPass) -> bool:
        """Write the checkpoint and report the pass; true where a callback asks to stop."""
        is_first = solver.problem is problem  # later programs have other costs
        if checkpoint is not None and is_first and not state.is_sample:
            checkpoint.save({}, coef=state.coef)
        name = f"pass {state.passes:.1f}, gap {state.gap:.1e}, {state.rows_per_second:.2g} rows/s"
        used, coef = np.flatnonzero(state.coef[:-1].any(axis=1)), state.coef
        # Stationary outputs take no part in later programs.
        is_whole = coef.shape[1] == problem.n_outputs
        so_far = partial(_attributes_of, attributes, problem, used, coef[used].T, coef[-1])
        return progress.step(name, so_far if is_whole else None)

    start = None
    if checkpoint is not None:
        shape = (problem.shape[1] + 1, problem.n_outputs)
        start = checkpoint.load(lambda _, arrays: stored_numbers(arrays["coef"], *shape))
    try:
        return method(solver, start=start, report=report), solver.passes
    finally:
        solver.close()


# -- Whether all rows can be candidates ------------------------------------------------------

#: Tolerance and seed of machines on samples: what is read off them needs no exact optimum.
SAMPLE_TOL = 1e-3
SAMPLE_SEED = int(np.random.RandomState(0).randint(2**31 - 1))

_ALL_ROWS = 2000  # rows up to which all of them are automatic candidates
_LEAST_CANDIDATES, _MOST_CANDIDATES = 100, 500  # automatic ones, where there are more rows
_TRIAL_ROWS, _MAX_TRIALS = 500, 4  # rows of the larger sample, and outputs that are tried
_LEAST_GROWTH = 0.25  # exponent: two samples tell the growth of small numbers poorly
# Rows with a positive dual times centers, for one output: 20 s. The square of this number is
# proportional to time.
_MAX_ENTRIES = 5e5


@fit_task
def is_quick(problem: L1Margin, max_bytes: int) -> bool:
    """Whether all rows as candidates take seconds, judged by machines on 250 and 500 rows.

    The rows with a positive dual and the centers of each grow like a power of the rows: below 1
    on clean data, 1 on noisy data.
    """
    n_rows, n_outputs = problem.shape[0], problem.n_outputs
    largest = np.argsort(-(problem.signs > 0).sum(axis=0), kind="stable")[:_MAX_TRIALS]
    for output in largest:
        one = problem.outputs([output])
        labels = one.signs[:, 0] if one.n_sides == 1 else np.zeros(n_rows)
        sizes = []
        for size in (_TRIAL_ROWS // 2, _TRIAL_ROWS):
            random = np.random.RandomState(SAMPLE_SEED)
            rows = stratified_sample(labels, np.arange(n_rows), size, random)
            sample = one.subset(problem.X[rows], rows)
            sample = replace(sample, centers=None, coef_weights=np.ones((len(rows), 1)))
            (solution,) = ColumnGeneration(sample, random).solve(tol=SAMPLE_TOL)
            sizes.append([len(solution.rows) + 1, len(solution.centers) + 1])
        half, whole = np.array(sizes, dtype=float)
        growth = np.clip(np.log2(whole / half), _LEAST_GROWTH, 1.0)
        n_duals, n_centers = whole * (n_rows / _TRIAL_ROWS) ** growth
        # The largest outputs are tried: most others are smaller (letter: 26 outputs, 23 s).
        is_small = n_duals * n_centers <= _MAX_ENTRIES / n_outputs**0.25
        if not is_small or 4 * n_rows * (n_duals + n_centers) > max_bytes:
            return False
    return True


# -- All outputs together --------------------------------------------------------------------


def better_of(one: LinearizationPath, two: LinearizationPath) -> LinearizationPath:
    """Of two answers for an output the one with the smaller gap, with the iterations of both."""
    better = min(one, two, key=lambda path: path.solution.gap)
    n_iter = one.solution.n_iter + two.solution.n_iter
    return replace(better, solution=replace(better.solution, n_iter=n_iter))


def join_duals(solutions: Sequence[Solution]) -> tuple[Indices, Floats]:
    """The rows with a positive dual in any output, and the duals (n_outputs, n_rows) there."""
    rows = np.flatnonzero(is_any([s.rows for s in solutions]))
    duals = np.zeros((len(solutions), len(rows)))
    for output, solution in zip(duals, solutions, strict=True):
        output[np.searchsorted(rows, solution.rows)] = solution.duals
    return rows, duals


def is_any(arrays: Sequence[Indices]) -> Any:
    """Which row numbers are in any of the arrays; sorting them would take longer."""
    mask = np.zeros(1 + max(int(numbers.max(initial=-1)) for numbers in arrays), dtype=bool)
    for numbers in arrays:
        mask[numbers] = True
    return mask


def warn_improving(paths: Sequence[LinearizationPath], max_lps: int) -> None:
    """Warn of outputs that more linear programs would improve."""
    improving = sum(path.n_lps == max_lps and not path.is_stationary for path in paths)
    if improving:
        warn_user(
            f"{improving} of {len(paths)} outputs were still improving after "
            f"max_lps={max_lps} linear programs. Raise max_lps for fewer centers."
        )


class L1Machine:
    """Trains the linear programs of an estimator; a mix-in beside a base class of sklearn_base."""

    n_passes_: float
    _takes_sources = True
    # n_rows * n_outputs^power * s^2 for s automatic candidates: 500 for 50,000 rows, 10 to 15 s.
    # Outputs share kernel values, but each has its linear program.
    _auto_work, _auto_power = 1.25e10, 0.5
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": [Interval(Real, 0, None, closed="neither")],
        **KERNEL_CONSTRAINTS,
        "candidates": [StrOptions({"auto"}), None, Integral, Real, "array-like", "sparse matrix"],
        "solver": [StrOptions({"auto", "generation", "streaming", "tall"})],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 0, None, closed="left"), Options(Integral, {-1})],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
        "checkpoint": [str, Path, None],
        "verbose": ["verbose"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }
    C: float
    candidates: Any
    solver: str
    tol: float
    max_iter: int
    cache_size: float
    checkpoint: Any
    n_jobs: int | None
    random_state: Any

    def _problem(self, data: TrainingData, kernel: Kernel, points: Any) -> L1Margin:
        """The linear programs over candidate ``points``, None for the rows."""
        raise NotImplementedError

    def _count_outputs(self, data: TrainingData) -> int:
        """Linear programs of these data."""
        raise NotImplementedError

    def _attributes(self, expansion: KernelExpansion) -> dict[str, Any]:
        """What predictions need, from the expansion that the linear programs found."""
        return {"expansion_": expansion}

    def _train(
        self, data: TrainingData, kernel: Kernel, n_candidates: Any, method: Method
    ) -> tuple[list[LinearizationPath], Candidates]:
        """Choose candidates, solve all outputs by ``method`` and set the fitted attributes."""
        max_iter = None if self.max_iter == -1 else int(self.max_iter)
        method = partial(method, tol=self.tol, max_iter=max_iter)
        random_state = check_random_state(self.random_state)
        candidates = self._candidates(n_candidates, data, kernel, method, random_state)
        seed, max_bytes = random_state.randint(2**31 - 1), int(self.cache_size * 2**20)
        problem = self._problem(data, kernel, candidates.points)
        generate = partial(
            solve_by_generation,
            problem,
            method,
            attributes=self._attributes,
            seed=seed,
            max_bytes=max_bytes,
            n_jobs=self.n_jobs,
        )
        is_streaming = self._is_streaming(data, problem)
        checkpoint = self._open_checkpoint(problem, is_streaming)
        n_tasks = None if is_streaming else problem.n_outputs
        with Progress.start(self, data, n_tasks, sequential=is_streaming) as progress:
            if is_streaming:
                paths, self.n_passes_ = solve_by_streaming(
                    problem,
                    method,
                    progress,
                    self._attributes,
                    seed=seed,
                    max_bytes=max_bytes,
                    checkpoint=checkpoint,
                )
                if self._needs_generation(data, paths):
                    with progress.task(
                        "generation", n_tasks=problem.n_outputs, sequential=False
                    ) as task:
                        paths = list(map(better_of, paths, generate(task)))
            else:
                paths, self.n_passes_ = generate(progress), 0.0
            solutions = [path.solution for path in paths]
            warn_unconverged(solutions, self.tol, "linear programs", _REASONS)
            self._set_attributes(problem, data.rows, candidates.rows, solutions)
        return paths, candidates

    def _candidates(
        self,
        candidates: Any,
        data: TrainingData,
        kernel: Kernel,
        method: Method,
        random_state: np.random.RandomState,
    ) -> Candidates:
        """The points that the parameter ``candidates`` stands for."""
        if not isinstance(candidates, str):
            return choose_candidates(candidates, data.X, random_state)
        n_rows = len(data.y)
        if not isinstance(data.X, RowSource):
            max_bytes, takes_all = int(self.cache_size * 2**20), n_rows <= _ALL_ROWS
            if not takes_all and self.solver not in ("streaming", "tall"):
                takes_all = is_quick(self._problem(data, kernel, None), max_bytes)
            if takes_all:
                return choose_candidates(None, data.X, random_state)
        n_outputs = self._count_outputs(data)
        count = int(np.sqrt(self._auto_work / (n_rows * n_outputs**self._auto_power)))
        count = min(n_rows, max(_LEAST_CANDIDATES, min(count, _MOST_CANDIDATES)))
        return spread_candidates(data.X, count, random_state)

    def _is_streaming(self, data: TrainingData, problem: L1Margin) -> bool:
        is_source = isinstance(data.X, RowSource)
        if self.solver == "generation" and is_source:
            raise ValueError(
                'solver="generation" needs the rows in memory; they are read block by block here. '
                'Use solver="streaming" or "auto".'
            )
        if self.solver != "auto":
            return self.solver != "generation"
        return is_source or is_tall(*problem.shape)

    def _open_checkpoint(self, problem: L1Margin, is_streaming: bool) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        if not is_streaming:
            warn_user(
                "checkpoint has no effect: it is written by the streaming solver alone, and these "
                "rows are solved by generation.",
                UserWarning,
            )
            return None
        parameters = self.get_params(deep=False)  # type: ignore[attr-defined]
        settings = {k: value for k, value in parameters.items() if k not in _NOT_IN_CHECKPOINT}
        # A thousand rows tell one data set from another; hashing all would cost a pass.
        sample = np.unique(np.linspace(0, len(problem.rows) - 1, 1000).astype(np.intp))
        weights = problem.error_weights
        costs = np.concatenate([weights[sample], weights.sum(axis=0, keepdims=True)])
        arrays = problem.rows.take(sample), problem.points, problem.signs, problem.targets, costs
        return Checkpoint.of_fit(Path(self.checkpoint) / CHECKPOINT_NAME, settings, *arrays)

    def _needs_generation(self, data: TrainingData, paths: list[LinearizationPath]) -> bool:
        """Whether streaming has no certificate, and generation can be tried."""
        if self.solver != "auto" or isinstance(data.X, RowSource):
            return False
        if len(data.y) > _MAX_FALLBACK_ROWS:
            return False
        solutions = [p.solution for p in paths if p.solution.status != "iteration limit"]
        return any(is_unconverged(solution, self.tol) for solution in solutions)

    def _set_attributes(
        self,
        problem: L1Margin,
        rows: Indices,
        candidate_rows: Indices | None,
        solutions: list[Solution],
    ) -> None:
        """Set the fitted attributes; ``rows`` are those of the problem in the user's data."""
        gram = Gram(problem.kernel, problem.points[:0], problem.points)
        expansion, centers = join_centers(gram, solutions)
        vars(self).update(self._attributes(expansion))
        self.center_indices_ = centers if candidate_rows is None else rows[candidate_rows[centers]]
        self.n_candidates_ = problem.shape[1]
        self.objective_ = np.array([s.objective for s in solutions])
        self.duality_gap_ = np.array([s.gap for s in solutions])
        self.n_iter_ = sum(s.n_iter for s in solutions)
