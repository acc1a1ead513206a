"""The fewest centers that reach a value of the 1-norm margin objective, with a proof.

Of the candidates z_j, K_ij = k(x_i, z_j), find the smallest set S for which some (beta, b) with
beta zero outside S has::

    C sum_i max(0, 1 - d_i (sum_j K_ij beta_j + b)) + sum_j |beta_j| <= budget

How this works
--------------
By weak duality, any t with 0 <= t <= C and d't = 0 gives, with g_j = sum_i K_ij d_i t_i::

    objective(beta, b) >= sum_i t_i - sum_j (g_j beta_j - |beta_j|)

Hence if sum t > budget, a machine within the budget needs some beta_j > 0 where g_j > 1 or some
beta_j < 0 where g_j < -1: it must *hit* that set of signed candidates. The answer is therefore a
smallest hitting set of all such sets, of which few matter. They are generated in turn:

1. the *master*, a set-covering problem over the sets so far (HiGHS's branch and bound), gives a
   lower bound, whatever sets are still missing, and a signed selection z;
2. the *separation*, a linear program, finds t with sum t > budget and the least excess of |g_j|
   over 1, weighted by z. Weights divided by the excess, a few times, and single entries removed
   make the set small: small sets give strong bounds;
3. where no t exists that avoids the selection, the selection is within the budget and optimal.

No bound on |beta| ("big M") is needed, and a mixed-integer program that has one is weaker; see
``benchmarks/suites/fewest.py``. Every set is checked apart from HiGHS, by ``Program.must_hit`` in
float64, and so is the machine of the upper bound; what HiGHS alone says is that no smaller
selection hits all sets: a program of zeros and ones.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np

from kernlet._typing import Floats

_INF = highspy.kHighsInf
MAX_CANDIDATES = 100
#: Distance that a bound must keep from the budget, relative: above HiGHS's tolerances of 1e-9.
_MARGIN = 1e-6
_SEPARATION_ROUNDS = 6
_NARROW = 8  # centers of least |beta| that an elimination step tries to remove


@dataclass(frozen=True, eq=False)
class Machine:
    """Coefficients of all candidates, an intercept, and the value of the objective."""

    coef: Floats
    intercept: float
    value: float

    @property
    def n_centers(self) -> int:
        """Candidates with a nonzero coefficient."""
        return int(np.count_nonzero(self.coef))


@dataclass(frozen=True, eq=False)
class Program:
    """Kernel values of rows and candidates, signs of the rows, C, and the value to reach."""

    K: Floats
    signs: Floats
    C: float
    budget: float

    def __post_init__(self) -> None:
        if self.K.shape[1] > MAX_CANDIDATES:
            raise ValueError(
                f"{self.K.shape[1]} candidates are too many for a proof: give at most "
                f"{MAX_CANDIDATES}."
            )

    def value(self, coef: Floats, intercept: float) -> float:
        """The objective of a machine."""
        slacks = np.maximum(0.0, 1.0 - self.signs * (self.K @ coef + intercept))
        return float(self.C * slacks.sum() + np.abs(coef).sum())

    def must_hit(self, duals: Floats) -> Any:
        """The signed candidates that machines within the budget must hit, by weak duality.

        A mask of 2 n_candidates: beta_j > 0, then beta_j < 0. None where ``duals``, clipped and
        balanced, prove nothing.
        """
        t = np.clip(duals, 0.0, self.C)
        positive = self.signs > 0
        above, below = t[positive].sum(), t[~positive].sum()
        t[positive] *= min(1.0, below / above) if above else 0.0
        t[~positive] *= min(1.0, above / below) if below else 0.0
        g = (self.signs * t) @ self.K
        # |g| up to 1 + rounding counts as 1: shrinking t by as much leaves sum t above the budget.
        mask = np.concatenate([g > 1.0 + _MARGIN / 10, g < -1.0 - _MARGIN / 10])
        return mask if t.sum() / (1.0 + _MARGIN / 10) > self.budget else None


@dataclass(frozen=True, eq=False)
class Certificate:
    """What is proved: ``lower`` <= fewest centers <= ``machine.n_centers``.

    ``duals`` has one line per set, from which ``Program.must_hit`` gives the set again.
    """

    lower: int
    machine: Machine
    duals: Floats
    seconds: float

    @property
    def is_proved(self) -> bool:
        """Whether both bounds agree."""
        return self.lower == self.machine.n_centers


def _new_highs(**options: Any) -> Any:
    highs = highspy.Highs()
    for name, value in {"output_flag": False, "threads": 1, **options}.items():
        highs.setOptionValue(name, value)
    return highs


def _add_columns(highs: Any, costs: Floats, lower: Floats, upper: Floats) -> None:
    n = len(costs)
    none = np.zeros(0, dtype=np.int32)
    highs.addCols(n, costs, lower, upper, 0, np.zeros(n, dtype=np.int32), none, np.zeros(0))


class Dual:
    """The dual program: columns t, s+ and s-; rows -1 <= g_j - s+_j + s-_j <= 1, d't = 0, sum t."""

    def __init__(self, program: Program) -> None:
        self.program = program
        n, s = self.shape = program.K.shape
        self._highs = _new_highs(presolve="off", solver="simplex")
        upper = np.concatenate([np.full(n, program.C), np.full(2 * s, _INF)])
        _add_columns(self._highs, np.zeros(n + 2 * s), np.zeros(n + 2 * s), upper)
        rows = np.arange(n, dtype=np.int32)
        for j in range(s):
            columns = np.append(rows, [n + j, n + s + j]).astype(np.int32)
            entries = np.append(program.signs * program.K[:, j], [-1.0, 1.0])
            self._highs.addRow(-1.0, 1.0, n + 2, columns, entries)
        self._highs.addRow(0.0, 0.0, n, rows, program.signs)
        self._highs.addRow(-_INF, _INF, n, rows, np.ones(n))

    def _run(self, costs: Floats, slack_upper: Floats, least_sum: float) -> Any:
        n, s = self.shape
        columns = np.arange(n + 2 * s, dtype=np.int32)
        slacks = columns[n:]
        self._highs.changeColsCost(len(columns), columns, costs)
        self._highs.changeColsBounds(len(slacks), slacks, np.zeros(2 * s), slack_upper)
        self._highs.changeRowBounds(s + 1, least_sum, _INF)
        for tolerance in (1e-9, 1e-9, 1e-7):  # after trouble: without a basis, then more loosely
            self._highs.setOptionValue("primal_feasibility_tolerance", tolerance)
            self._highs.setOptionValue("dual_feasibility_tolerance", tolerance)
            self._highs.run()
            status = self._highs.getModelStatus()
            if status == highspy.HighsModelStatus.kOptimal:
                return self._highs.getSolution()
            if status == highspy.HighsModelStatus.kInfeasible:
                return None
            self._highs.clearSolver()
        return None

    def best_machine(self, subset: Any) -> Machine:
        """The machine of least value with centers in a subset of the candidates (a mask).

        Its value is infinite where HiGHS does not solve the linear program.
        """
        n, s = self.shape
        costs = np.concatenate([-np.ones(n), np.zeros(2 * s)])
        solution = self._run(costs, np.tile(np.where(subset, 0.0, _INF), 2), -_INF)
        if solution is None:  # HiGHS failed: a machine that nobody has is within no budget
            return Machine(np.zeros(s), 0.0, np.inf)
        coef = -np.array(solution.row_dual[:s])
        coef[~subset | (np.abs(coef) < 1e-9)] = 0.0
        intercept = -solution.row_dual[s]
        return Machine(coef, intercept, self.program.value(coef, intercept))

    def separate(self, weights: Floats, allowed: Any) -> tuple[Floats, Floats] | None:
        """Duals whose sum is above the budget, and the least weighted excess of |g_j|, if any."""
        costs = np.concatenate([np.zeros(self.shape[0]), weights])
        least_sum = self.program.budget * (1 + _MARGIN)
        solution = self._run(costs, np.where(allowed, _INF, 0.0), least_sum)
        if solution is None:
            return None
        values = np.array(solution.col_value)
        return values[: self.shape[0]], np.maximum(values[self.shape[0] :], 0.0)


def elimination_path(dual: Dual, subset: Any) -> Iterator[Machine]:
    """The best machine over a subset, then machines with ever fewer centers within the budget.

    A step removes the center whose loss costs least, of the ``_NARROW`` with the least |beta|: it
    solves the linear program without each of them.
    """
    machine: Machine | None = dual.best_machine(subset)
    while machine is not None:
        yield machine
        best = None
        centers = np.flatnonzero(machine.coef)
        for j in centers[np.argsort(np.abs(machine.coef[centers]), kind="stable")][:_NARROW]:
            fewer = machine.coef != 0
            fewer[j] = False
            other = dual.best_machine(fewer)
            is_within = np.isfinite(other.value) and other.value <= dual.program.budget
            if is_within and (best is None or other.value < best.value):
                best = other
        machine = best


def eliminate(dual: Dual, subset: Any) -> Machine:
    """The last machine of the path: no center that it tries to remove can be spared."""
    *_, machine = elimination_path(dual, subset)
    return machine


def exchange(dual: Dual, machine: Machine, until: float) -> Machine:
    """Add a candidate and eliminate again, until no candidate saves a center or time is up."""
    order = np.random.RandomState(0).permutation(dual.shape[1])
    last_gain = -1
    position = 0
    while position - last_gain <= len(order) and time.process_time() < until:
        j = order[position % len(order)]
        position += 1
        if machine.coef[j] != 0:
            continue
        more = machine.coef != 0
        more[j] = True
        other = eliminate(dual, more)
        if other.n_centers < machine.n_centers:
            machine, last_gain = other, position
    return machine


def _small_set(dual: Dual, z: Floats, allowed: Any) -> tuple[Any, Floats] | None:
    """A set of signed candidates to hit, light in z and small, with its duals; None if none is.

    Dividing weights by the excess is the successive linearization of the number of entries.
    """
    weights, best = z + 1e-3, None
    for _ in range(_SEPARATION_ROUNDS):
        answer = dual.separate(weights, allowed)
        mask = None if answer is None else dual.program.must_hit(answer[0])
        if answer is None or mask is None or (mask & ~allowed).any():
            break
        weight = float((z + 1e-3)[mask].sum())
        if best is None or weight < best[2]:
            best = (mask, answer[0], weight)
        excess = answer[1]
        weights = (z + 1e-2) / (excess + max(1e-3 * excess.max(), 1e-9))
        weights = np.maximum(weights / weights.max(), 1e-6)
    return None if best is None else _without_entries(dual, z, best[0], best[1])


def _without_entries(dual: Dual, z: Floats, mask: Any, duals: Floats) -> tuple[Any, Floats]:
    """The set with single entries removed while it remains a set to hit, the heaviest first."""
    entries = np.flatnonzero(mask)
    for j in entries[np.argsort(-z[entries], kind="stable")]:
        fewer = mask.copy()
        fewer[j] = False
        if not mask[j] or not fewer.any():
            continue
        answer = dual.separate(fewer.astype(float), fewer)
        smaller = None if answer is None else dual.program.must_hit(answer[0])
        if smaller is not None and not (smaller & ~fewer).any():
            mask, duals = smaller, answer[0]
    return mask, duals


class Master:
    """The smallest signed selection that hits all sets so far."""

    def __init__(self, n_candidates: int) -> None:
        n = self._n_columns = 2 * n_candidates
        self._highs = _new_highs(mip_rel_gap=0.0, mip_abs_gap=0.5)
        _add_columns(self._highs, np.ones(n), np.zeros(n), np.ones(n))
        for j in range(n_candidates):  # beta_j has one sign
            pair = np.array([j, n_candidates + j], dtype=np.int32)
            self._highs.addRow(-_INF, 1.0, 2, pair, np.ones(2))

    def add(self, mask: Any) -> None:
        """Require that a set is hit."""
        entries = np.flatnonzero(mask).astype(np.int32)
        self._highs.addRow(1.0, _INF, len(entries), entries, np.ones(len(entries)))

    def solve(self, *, is_integer: bool, seconds: float = _INF) -> tuple[int, Floats]:
        """A lower bound on the number of centers, and the selection, fractional or not."""
        kind = highspy.HighsVarType.kInteger if is_integer else highspy.HighsVarType.kContinuous
        columns = np.arange(self._n_columns, dtype=np.int32)
        self._highs.changeColsIntegrality(len(columns), columns, np.full(len(columns), kind))
        self._highs.setOptionValue("time_limit", self._highs.getRunTime() + seconds)
        self._highs.run()
        info = self._highs.getInfo()
        bound = info.mip_dual_bound if is_integer else info.objective_function_value
        # The number of centers is an integer; 1e-4 is above HiGHS's tolerances (1e-6).
        return int(np.ceil(max(0.0, bound) - 1e-4)), np.array(self._highs.getSolution().col_value)


def prove(program: Program, seconds: float, start: Machine | None = None) -> Certificate:
    """Bounds on the fewest centers within the budget, equal if CPU ``seconds`` suffice.

    ``start`` is a machine within the budget, if one is known, from which eliminations start too.
    """
    begin = time.process_time()
    dual, cuts = Dual(program), Dual(program)  # two programs: each keeps its basis
    n_candidates = program.K.shape[1]
    machine = dual.best_machine(np.ones(n_candidates, dtype=bool))
    if not machine.value <= program.budget:
        raise ValueError(
            f"No machine over these candidates reaches {program.budget:.6g}: the least value is "
            f"{machine.value:.6g}. Raise the budget."
        )
    machines = [eliminate(dual, np.ones(n_candidates, dtype=bool))]
    if start is not None:
        machines.append(eliminate(dual, start.coef != 0))
    machine = min(machines, key=lambda m: m.n_centers)
    machine = exchange(dual, machine, begin + 0.1 * seconds)
    lower, duals, machine = _raise_bound(program, cuts, machine, begin + seconds)
    taken = time.process_time() - begin
    return Certificate(lower, machine, np.array(duals).reshape(-1, len(program.signs)), taken)


def _raise_bound(
    program: Program, dual: Dual, machine: Machine, end: float
) -> tuple[int, list[Floats], Machine]:
    """Add sets to hit until the bound meets the machine, or the time is up.

    First against the fractional selections of the master's linear relaxation, which is quick;
    then against its integer selections, several disjoint sets at a time.
    """
    n = 2 * program.K.shape[1]
    master, duals, everything = Master(n // 2), [], np.ones(n, dtype=bool)
    lower, z = 0, np.full(n, 1e-2)
    while lower < machine.n_centers and time.process_time() < end:
        found = _small_set(dual, z, everything)
        if found is None or z[found[0]].sum() > 1 - 1e-3:
            break
        master.add(found[0])
        duals.append(found[1])
        lower, z = master.solve(is_integer=False)
    while lower < machine.n_centers and (left := end - time.process_time()) > 0:
        bound, z = master.solve(is_integer=True, seconds=left)
        lower = max(lower, bound)
        if len(z) != n:
            break  # time was up before HiGHS had a selection
        hit = np.round(z) > 0.5
        selected = hit[: n // 2] | hit[n // 2 :]
        other = dual.best_machine(selected)
        if other.value <= program.budget and other.n_centers < machine.n_centers:
            machine = other
        n_before = len(duals)
        while (found := _small_set(dual, np.zeros(n), ~hit)) and time.process_time() < end:
            master.add(found[0])
            duals.append(found[1])
            hit |= found[0]
        if len(duals) == n_before:
            break  # no set is left, up to tolerances: the selection is within the budget
    return lower, duals, machine
