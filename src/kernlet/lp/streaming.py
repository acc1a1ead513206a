"""1-norm machines on many more rows than candidate centers, exactly, in passes over the rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from kernlet._typing import Floats
from kernlet.lp.crossover import Crossover
from kernlet.lp.problem import L1Margin, Solution
from kernlet.lp.smoothed import FIRST_WIDTH, NewtonDescent
from kernlet.rows.source import BlockCache

# How this works
# --------------
# Generation keeps kernel columns of n_rows numbers for every point in use and a simplex basis of
# the margin rows. With millions of rows and a few hundred candidates neither fits, but the
# unknowns of all outputs are a small matrix of (s + 1) x n_outputs numbers, and all that the method
# needs of the rows are sums over them. Rows are read in passes, block by block and in the same
# order: the answer does not depend on where they lie, nor on the number of workers.
#
# 1. Samples of 20, 120, 720, ... rows per candidate, drawn once, give a start. Each has the total
#    nu of all rows, so that its optimum is an estimate of theirs, and passes over it are cheap.
# 2. Proximal Newton steps on all rows while the hinge becomes sharper (smoothed.py): one pass per
#    step. From a sample's optimum, a handful of steps remain.
# 3. Crossover (crossover.py): a linear program over the rows near the margin, all others summed
#    up, solved by the dual simplex method, and a float64 pass over all rows. The first gives a
#    lower bound on the optimum, the second the objective. Usually one round closes the gap.
#
# All outputs go through the same passes and share kernel values. About n_rows * s kernel values
# are computed per pass, fewer where blocks fit into the cache; 10 to 20 passes are usual. Memory is
# about 60 bytes per row and output, the margin rows' kernel values (at most 512 MB), a sample
# (at most 256 MB) and the cache.
#
# Other costs (successive linearisation) keep the cache and start from the last machine, without
# samples.

_FIRST_SAMPLE, _SAMPLE_GROWTH = 20, 6  # rows per candidate, and the factor from one to the next
_SAMPLE_BYTES = 256 * 2**20
# Widths of the smoothed hinge: from a machine that is nearly right, and before the crossover, where
# a parabola of 0.01 puts the margin rows in the right order.
_WARM_WIDTH, _LAST_WIDTH = 0.5, 0.01
_MAX_STEPS = 20  # per sample, and on all rows; more are left to the crossover


# Streaming pays where rows far outnumber candidates: below these figures generation needs
# fewer kernel values.
_MIN_ROWS, _MIN_ROWS_PER_CANDIDATE = 5000, 20


def is_tall(n_rows: int, n_candidates: int) -> bool:
    """Whether streaming is faster than generation."""
    return n_rows >= max(_MIN_ROWS, _MIN_ROWS_PER_CANDIDATE * n_candidates)


@dataclass(frozen=True, eq=False)
class StreamingPass:
    """What :class:`StreamingL1Solver` reports after a pass over rows.

    ``passes`` so far, one over a sample (``is_sample``) counted as its share of the rows; the
    largest relative duality ``gap`` of the outputs, infinite before the crossover; the rows per
    second of this pass; ``coef`` (s + 1, n_outputs), beta and, last, the intercept.
    """

    passes: float
    gap: float
    rows_per_second: float
    coef: Floats
    is_sample: bool


Report = Callable[[StreamingPass], bool]


class _StopError(Exception):
    """The caller asked to stop."""


class StreamingL1Solver:
    """Solves all outputs of an :class:`L1Margin` exactly, in a few passes over its rows.

    See the top of this file. ``seed`` draws the samples; kernel blocks are cached in float32 in
    ``max_bytes``, and what does not fit is computed at each pass.
    """

    def __init__(self, problem: L1Margin, seed: int, *, max_bytes: int = 2 * 2**30) -> None:
        self.problem, self.seed = problem, seed
        self.passes = 0.0
        self._cache = BlockCache(max_bytes)
        self._report: Report | None = None
        self._clock = 0.0

    def reweight(self, problem: L1Margin) -> None:
        """Take other costs for the same rows and candidates, keeping the kernel blocks."""
        self.problem = problem

    def close(self) -> None:
        """Release the kernel blocks that workers of a cluster keep."""
        self.problem.rows.release(self._cache)

    def solve(
        self,
        *,
        tol: float = 1e-9,
        max_iter: int | None = None,
        start: Floats | None = None,
        certify: bool = True,
        report: Report | None = None,
    ) -> list[Solution]:
        """The solutions of all outputs to a relative duality gap of ``tol``.

        ``max_iter`` limits the simplex iterations of each output. ``start`` (s + 1, n_outputs) is
        a machine that is nearly right, such as that of other costs: no samples are drawn.
        ``report`` hears of each pass and stops the method by a true answer. Solutions are
        certified whatever ``certify`` says, which is for generation.
        """
        self._report, self._clock = report, time.perf_counter()
        n_rows, s = self.problem.shape
        n_outputs = self.problem.n_outputs
        self._coef: Floats = np.zeros((s + 1, n_outputs)) if start is None else start.copy()
        self._widths: Floats = np.full(n_outputs, FIRST_WIDTH if start is None else _WARM_WIDTH)
        values: Floats = np.zeros((n_rows, n_outputs))
        stopped = False
        try:
            samples = self._samples()
            at_zero = self._newton(samples[0], BlockCache(0), np.zeros_like(self._coef))
            full_hessian = at_zero.full_hessian()
            if start is None and samples[0] is not self.problem:
                for sample in samples:
                    self._descend(sample, full_hessian, BlockCache(_SAMPLE_BYTES))
            values = self._descend(self.problem, full_hessian, self._cache)
        except _StopError:
            stopped = True
        on_pass = partial(self._count_pass, 1.0)
        crossover = Crossover(self.problem, self._coef, values, _LAST_WIDTH, on_pass)
        return crossover.run(tol, max_iter, stopped=stopped)

    def certified(self, solution: Solution, tol: float, max_iter: int | None) -> Solution:
        """The solution itself: this solver returns no other."""
        return solution

    def _samples(self) -> list[L1Margin]:
        """Larger and larger samples of the rows; all rows where there are few."""
        n_rows, s = self.problem.shape
        row_bytes = 4 * s + 8 * self.problem.rows.shape[1]
        largest = min(n_rows // 3, _SAMPLE_BYTES // row_bytes)
        sizes, size = [], _FIRST_SAMPLE * (s + 1)
        while size <= largest:
            sizes.append(size)
            size *= _SAMPLE_GROWTH
        if not sizes:
            return [self.problem]
        numbers = np.random.default_rng(self.seed).choice(n_rows, sizes[-1], replace=False)
        X = self.problem.rows.take(numbers)
        return [self.problem.sample(X[:size], numbers[:size]) for size in sizes]

    def _newton(self, problem: L1Margin, cache: BlockCache, coef: Floats) -> NewtonDescent:
        share = len(problem.rows) / len(self.problem.rows)

        def on_pass(coef: Floats) -> None:
            if self._count_pass(share, np.inf, coef):
                raise _StopError

        return NewtonDescent(problem, cache, coef, on_pass)

    def _descend(self, problem: L1Margin, full_hessian: Floats, cache: BlockCache) -> Floats:
        """Take Newton steps from the machine so far to a better one; its decision values."""
        descent = self._newton(problem, cache, self._coef)
        try:
            descent.descend(self._widths, _LAST_WIDTH, full_hessian, _MAX_STEPS)
        finally:
            self._coef = descent.coef  # as far as it came, if it was stopped
        self._widths = descent.widths_with_band(_WARM_WIDTH)
        return descent.values

    def _count_pass(self, share: float, gap: float, coef: Floats) -> bool:
        """Count a pass and report it; whether to stop."""
        self.passes += share
        now = time.perf_counter()
        speed = share * len(self.problem.rows) / max(1e-9, now - self._clock)
        self._clock = now
        if self._report is None:
            return False
        return bool(self._report(StreamingPass(self.passes, gap, speed, coef, share < 1)))
