"""The 1-norm machine on many more rows than candidate centers, to the exact optimum."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from kernlet._typing import Floats
from kernlet.lp.crossover import Finish
from kernlet.lp.problem import MarginSolution, TallMargin
from kernlet.lp.smoothed import NewtonDescent
from kernlet.rows.source import BlockCache

_FIRST_SAMPLE, _SAMPLE_GROWTH = 20, 6  # rows a candidate
_SAMPLE_BYTES = 256 * 2**20
_WIDEST = 4.0  # of the smoothed hinge: at beta = 0 all residuals are 1
_WARM, _LAST = 0.5, 0.01  # from a machine that is nearly right; before the linear program
_MOST_STEPS = 20


@dataclass(frozen=True, eq=False)
class TallProgress:
    """Where the method stands after a pass over rows.

    Parameters
    ----------
    passes : float
        So far; a pass over a sample counts as its share of the rows.
    gap : float
        The largest relative duality gap of the outputs; infinite before the finish.
    rows_per_second : float
        Of the last pass.
    coef : ndarray of shape (s + 1, n_outputs)
        beta and, last, the intercept.
    is_sample : bool
        Whether the pass went over a sample of the rows.
    """

    passes: float
    gap: float
    rows_per_second: float
    coef: Floats
    is_sample: bool


TallReport = Callable[[TallProgress], bool]


class _StopError(Exception):
    """The caller asked to stop."""


class TallLP:
    """Solves a :class:`TallMargin` exactly, in a few passes over its rows.

    1. Samples of 20, 120, ... rows a candidate give a start.
    2. Proximal Newton steps on all rows, the hinge smoothed less and less, see
       :class:`~kernlet.lp.smoothed.NewtonDescent`: one pass a step.
    3. A linear program over the rows near the margin, all others summed up, see
       :class:`~kernlet.lp.crossover.NearProgram`. Its optimum is a bound on the optimum
       of the problem; a float64 pass over all rows gives the objective, and the rows that
       changed sides for another round, if one is needed.

    All outputs go through the same passes and share the kernel blocks.

    Time is about n_rows * s kernel values a pass, fewer where blocks are kept; 10 to 20
    passes are usual. Memory is about 60 bytes a row and output, the near rows' kernel values (at
    most 512 MB), a sample (at most 256 MB) and the kept blocks.

    Parameters
    ----------
    problem : TallMargin
    seed : int
        Draws the samples.
    max_bytes : int
        Memory for kernel blocks in float32; what does not fit is computed at each pass.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.kernels.rbf import RBF
    >>> from kernlet.lp.problem import TallMargin
    >>> from kernlet.rows.source import ArrayRows
    >>> from kernlet.lp.streaming import TallLP
    >>> X = np.random.RandomState(0).randn(5000, 2)
    >>> signs = np.where(X[:, :1] * X[:, 1:] > 0, 1, -1)
    >>> weights = np.full((5000, 1), 0.1)
    >>> problem = TallMargin(ArrayRows(X), RBF(1.0), X[:50], signs, weights, np.ones((50, 1)))
    >>> (solution,) = TallLP(problem, seed=0).solve()
    >>> solution.gap < 1e-9
    True
    """

    def __init__(self, problem: TallMargin, seed: int, *, max_bytes: int = 2 * 2**30) -> None:
        self.problem, self.seed = problem, seed
        self._store = BlockCache(max_bytes)
        self.passes = 0.0
        self._report: TallReport | None = None
        self._clock = 0.0

    def reweight(self, problem: TallMargin) -> None:
        """Take on the same rows and candidates with other costs, keeping the kernel blocks."""
        self.problem = problem

    def close(self) -> None:
        """Let go of kernel blocks that workers of a cluster keep."""
        self.problem.rows.release(self._store)

    def solve(
        self,
        *,
        tol: float = 1e-9,
        max_iter: int | None = None,
        start: Floats | None = None,
        report: TallReport | None = None,
    ) -> list[MarginSolution]:
        """Solve all outputs to a relative duality gap of ``tol``.

        Parameters
        ----------
        tol : float
        max_iter : int or None
            Simplex iterations allowed for each output.
        start : ndarray of shape (s + 1, n_outputs), optional
            A machine that is nearly right, such as that of other costs: no samples are drawn.
        report : callable, optional
            Told of each pass; a true answer stops the method there.
        """
        self._report, self._clock = report, time.perf_counter()
        n_rows, s, n_outputs = self.problem.shape
        self._coef = np.zeros((s + 1, n_outputs)) if start is None else start.copy()
        self._widths = np.full(n_outputs, _WIDEST if start is None else _WARM)
        values: Floats = np.zeros((n_rows, n_outputs))
        stopped = False
        try:
            samples = self._samples()
            metric = self._metric_of(samples[0])
            if start is None and samples[0] is not self.problem:
                for sample in samples:
                    self._descend(sample, metric, BlockCache(_SAMPLE_BYTES))
            values = self._descend(self.problem, metric, self._store)
        except _StopError:
            stopped = True
        finish = Finish(self.problem, self._coef, values, _LAST, partial(self._tell, 1.0))
        return finish.run(tol, max_iter, stopped=stopped)

    def _samples(self) -> list[TallMargin]:
        """Larger and larger samples of the rows; all rows where there are few."""
        n_rows, s, _ = self.problem.shape
        row_bytes = 4 * s + 8 * self.problem.rows.shape[1]
        most = min(n_rows // 3, _SAMPLE_BYTES // row_bytes)
        sizes, size = [], _FIRST_SAMPLE * (s + 1)
        while size <= most:
            sizes.append(size)
            size *= _SAMPLE_GROWTH
        if not sizes:
            return [self.problem]
        numbers = np.random.default_rng(self.seed).choice(n_rows, sizes[-1], replace=False)
        X = self.problem.rows.take(numbers)
        return [self.problem.sample(X[:size], numbers[:size]) for size in sizes]

    def _on_pass(self, problem: TallMargin) -> Callable[[Floats], None]:
        share = len(problem.rows) / len(self.problem.rows)

        def on_pass(coef: Floats) -> None:
            self._coef = coef
            if self._tell(share, np.inf, coef):
                raise _StopError

        return on_pass

    def _metric_of(self, sample: TallMargin) -> Floats:
        coef = self._coef
        descent = NewtonDescent(sample, BlockCache(0), np.zeros_like(coef), self._on_pass(sample))
        try:
            return descent.metric()
        finally:
            self._coef = coef

    def _descend(self, problem: TallMargin, metric: Floats, store: BlockCache) -> Floats:
        descent = NewtonDescent(problem, store, self._coef, self._on_pass(problem))
        descent.descend(self._widths, _LAST, metric, most=_MOST_STEPS)
        self._coef, self._widths = descent.coef, descent.widths_with_band(_WARM)
        return descent.values

    def _tell(self, share: float, gap: float, coef: Floats) -> bool:
        """Count a pass and report it; whether to stop."""
        self.passes += share
        now = time.perf_counter()
        speed = share * len(self.problem.rows) / max(1e-9, now - self._clock)
        self._clock = now
        if self._report is None:
            return False
        return bool(self._report(TallProgress(self.passes, gap, speed, coef, share < 1)))
