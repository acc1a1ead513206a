"""The chunking-synthetic method stage by stage, on rows drawn from a pool."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernlet.datasets import load, make_noisy_digits
from kernlet.estimators import ChunkingSyntheticClassifier
from kernlet.estimators.stage import Plan, Rows, chosen, run_stage, train
from kernlet.expansion import KernelExpansion
from kernlet.kernels import RBF

GAMMA = 1 / 128
N_RUNS, N_POINTS = 10, 10
SIZES = (500, 1000, 2000, 4000)
N_VALIDATION = 800
Numbers = dict[str, list[float]]


@dataclass(frozen=True, eq=False)
class Pool:
    """All rows that a run may draw from."""

    X: Any
    y: Any

    def take(self, numbers: Any) -> Rows:
        """Some of them."""
        return Rows(self.X[numbers], self.y[numbers], np.ones(len(numbers)))

    def draw(self, size: int, number: int) -> tuple[Rows, Rows, Rows]:
        """Rows of a run to train on, to choose on and to test on, which never meet.

        Half of the pool is drawn from for training and validation, the other half for testing, so
        that no synthetic point of an earlier stage has seen a test row.
        """
        order = np.random.RandomState(5).permutation(len(self.y))
        half = max(len(order) // 2, int(1.1 * max(SIZES)))
        random = np.random.RandomState([size, number])
        chosen, testing = random.permutation(order[:half]), random.permutation(order[half:])
        return (
            self.take(chosen[:size]),
            self.take(chosen[size:][:N_VALIDATION]),
            self.take(testing[:size]),
        )


def pool_of(data: str) -> Pool:
    """All 9,298 digits, 8 or not, pixels in [-1, 1]; or 8,000 noisy ones."""
    if data == "noisy":
        noisy = make_noisy_digits(n_samples=8000, random_state=0)
        parts = [noisy.X] if noisy.X_test is None else [noisy.X, noisy.X_test]
        labels = [noisy.y] if noisy.y_test is None else [noisy.y, noisy.y_test]
        return Pool(np.vstack(parts), np.concatenate(labels) == 1)
    X, y, X_test, y_test = eights()
    return Pool(np.vstack([X, X_test]), np.concatenate([y, y_test]))


def eights() -> tuple[Any, Any, Any, Any]:
    """USPS, 8 against the rest, pixels in [-1, 1], official split."""
    digits = load("usps")
    X, X_test = (2.0 * np.asarray(A, dtype=float) - 1.0 for A in (digits.X, digits.X_test))
    return X, digits.y == 8, X_test, digits.y_test == 8


def run_stages(
    data: str, Cs: list[list[float]], sizes: list[int], n_runs: int
) -> dict[str, Numbers]:
    """All stages with what the paper compares them with, one number a run.

    Parameters
    ----------
    data : {"usps", "noisy"}
    Cs : list of lists of float
        For each stage, values of C to choose from on validation rows, for every machine by itself:
        that of the fewest points within one standard error of the best.
    sizes : list of int
        Rows of the stages.
    n_runs : int

    Returns
    -------
    numbers : dict
        By stage and step, such as ``"500 d"``: train, test, points and support.
    """
    pool = pool_of(data)
    numbers: dict[str, Numbers] = {}
    candidates = start = None
    for size, values in zip(sizes, Cs, strict=True):
        plan = Plan(
            RBF(GAMMA),
            np.array([False, True]),
            tuple(values),
            N_POINTS,
            two_sets=False,
            box=None,
            solver="lp",
            rule="smallest",
        )
        runs = []
        for number in range(n_runs):
            rows, validation, test = pool.draw(size, number)
            run = run_stage(plan, rows, validation, candidates, start, number)
            runs.append(run)
            record = run.record
            note = _Notes(numbers, size, plan, rows, test)
            note("b", run.b, record.n_support_b, record.C)
            note("c", run.c, 0, record.C)
            note("d", run.d, record.n_support_d, record.C)
            _compare(note, size, plan, (rows, validation), candidates, start, number)
        candidates = np.vstack([run.points for run in runs])
        start = runs[int(np.argmax([run.record.validation_c or 0.0 for run in runs]))].c.centers
    return numbers


@dataclass(frozen=True, eq=False)
class _Notes:
    """Writes down what a machine does."""

    numbers: dict[str, Numbers]
    size: int
    plan: Plan
    rows: Rows
    test: Rows

    def __call__(self, step: str, machine: Any, support: int, C: float) -> None:
        kept = self.numbers.setdefault(f"{self.size} {step}", {})
        found = {
            "train": 100 * self.plan.correctness(machine, self.rows),
            "test": 100 * self.plan.correctness(machine, self.test),
            "points": machine.n_centers,
            "support": support,
            "C": C,
        }
        for name, number in found.items():
            kept.setdefault(name, []).append(float(number))


def _compare(
    note: _Notes,
    size: int,
    plan: Plan,
    drawn: tuple[Rows, Rows],
    candidates: Any,
    start: Any,
    number: int,
) -> None:
    """All rows as candidates, ten of them, random ones, two sets, and the box."""
    rows, validation = drawn
    random = np.random.RandomState(number)

    def machine(points: Any) -> tuple[KernelExpansion, int, float]:
        machines = train(plan, rows, points, plan.Cs, random)
        scores = tuple(plan.correctness(of, validation) for of, *_ in machines)
        sizes = [of.n_centers for of, *_ in machines]
        best = chosen(scores, sizes, len(validation.y), plan)
        found, support, _ = machines[best]
        return found, support, plan.Cs[best]

    if size < max(SIZES):  # over all rows the program of noisy ones takes minutes from there on
        full, support, C = machine(None)
        note("full", full, support, C)
        heaviest = np.argsort(-np.abs(full.coef[0]))[:N_POINTS]
        note("10 largest", *machine(full.centers[heaviest]))
    for count in (10, 100):
        note(f"{count} random", *machine(rows.X[:count]))
    if size >= 2000:
        two = run_stage(replace(plan, two_sets=True), rows, validation, candidates, start, number)
        note("two sets", two.d, two.record.n_support_d, two.record.C)
    if size == min(SIZES):
        box = run_stage(replace(plan, box=1.25), rows, validation, candidates, start, number)
        note("c in a box", box.c, 0, box.record.C)


def fit_whole(C: Any, final: str, seed: int) -> dict[str, float]:
    """The whole method on the official split of USPS, 8 against the rest."""
    X, y, X_test, y_test = eights()
    machine = ChunkingSyntheticClassifier(C=C, final=final, gamma=GAMMA, random_state=seed).fit(
        X, y
    )
    return {
        "train": 100 * machine.score(X, y),
        "test": 100 * machine.score(X_test, y_test),
        "points": machine.n_centers_,
        "C": float(machine.stages_[-1][0].C),
        "support": machine.stages_[-1][0].n_support_b,
    }
