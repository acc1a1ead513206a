"""Synthetic centers: the chunking-synthetic method and compressed machines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from benchmarks import tasks
from benchmarks.isolated import measure
from benchmarks.tables import Table
from benchmarks.tasks import Task
from kernlet import ChunkingSyntheticClassifier, compress
from kernlet.datasets import load, make_noisy_digits
from kernlet.estimators.adopt import adopt
from kernlet.estimators.stage import Plan, Rows, Run, run_stage, train
from kernlet.kernels import RBF
from kernlet.reduce import synthesize

SIZES = (500, 1000, 2000, 4000)
N_RUNS, N_POINTS = 10, 10
STAGE_HEADER = [
    "rows",
    "b",
    "centers b",
    "c",
    "d, 10 synthetic",
    "wanted",
    "paper",
    "10 training points",
    "s a run",
]
PAPER = {500: 96.04, 1000: 97.77, 2000: 97.77, 4000: 97.83}
WANTED = {500: 96.0, 1000: 97.6, 2000: 97.9, 4000: 98.2}
NOISY_PAPER = {500: 72.42, 1000: 77.13, 2000: 76.62, 4000: 75.89}


def stages(quick: bool) -> Iterator[Table]:
    """Table 1 of the paper: USPS 8 against the rest, stage by stage, without its leaks."""
    pool = _pool()
    plan = Plan(
        RBF(1 / 128), np.array([False, True]), (1.5, 5.0, 15.0), N_POINTS, False, None, "lp"
    )
    table = Table(
        "USPS 8 v rest by stages: test correctness in %, mean and deviation of 10 runs",
        STAGE_HEADER,
    )
    for line in _stage_lines(plan, pool, SIZES[: 3 if quick else 4], WANTED, PAPER):
        table.add(*line)
    yield table
    yield _final_table()


def _pool() -> Task:
    """All 9,298 digits, as the paper draws from."""
    task = tasks.usps_eight()
    return Task(
        np.vstack([task.X, task.X_test]), np.r_[task.y, task.y_test], None, None, 1 / 128, 0.0
    )


def _stage_lines(
    plan: Plan, pool: Task, sizes: Any, wanted: dict[int, float], paper: dict[int, float]
) -> Iterator[list[object]]:
    """One line a stage."""
    candidates = start = None
    for size in sizes:
        runs, tests, members = [], [], []
        compare = size < 4000  # the machine over all rows takes minutes on noisy ones
        for number in range(N_RUNS):
            rows, validation, test = _draw(pool, size, number)
            run = run_stage(plan, rows, validation, candidates, start, number)
            runs.append(run)
            tests.append(test)
            if compare:
                members.append(_largest_members(plan, rows, run, np.random.RandomState(number)))
        seconds = np.mean([run.record.seconds for run in runs])
        yield [
            size,
            _spread(plan, [run.b for run in runs], tests),
            f"{np.mean([run.record.n_centers_b for run in runs]):.1f}",
            _spread(plan, [run.c for run in runs], tests),
            _spread(plan, [run.d for run in runs], tests),
            f">= {wanted[size]}" if size in wanted else "-",
            paper.get(size, "-"),
            _spread(plan, members, tests) if compare else "-",
            f"{seconds:.2f}",
        ]
        candidates = np.vstack([run.points for run in runs])
        start = runs[int(np.argmax([run.record.validation_c or 0.0 for run in runs]))].c.centers


def _draw(pool: Task, size: int, number: int) -> tuple[Rows, Rows, Rows]:
    """Rows of a run to train on, to choose on and to test on, which never meet.

    Half of the pool is drawn from for training and validation, the other half for testing, so
    that no synthetic point of an earlier stage has seen a test row.
    """
    order = np.random.RandomState(5).permutation(len(pool.y))
    half = max(len(order) // 2, int(1.1 * max(SIZES)))
    random = np.random.RandomState([size, number])
    chosen, testing = random.permutation(order[:half]), random.permutation(order[half:])
    return (
        _rows(pool, chosen[:size]),
        _rows(pool, chosen[size:][:800]),
        _rows(pool, testing[:size]),
    )


def _rows(pool: Task, numbers: Any) -> Rows:
    return Rows(pool.X[numbers], pool.y[numbers], np.ones(len(numbers)))


def _spread(plan: Plan, machines: list[Any], tests: list[Rows]) -> str:
    scores = [100 * plan.correctness(m, rows) for m, rows in zip(machines, tests, strict=True)]
    return f"{np.mean(scores):.2f} +- {np.std(scores):.2f}"


def _largest_members(plan: Plan, rows: Rows, run: Run, random: np.random.RandomState) -> Any:
    """As many training rows, those of largest coefficients in the machine over all of them."""
    ((full, *_),) = train(plan, rows, None, (run.record.C,), random)
    heaviest = np.argsort(-np.abs(full.coef[0]))[:N_POINTS]
    ((machine, *_),) = train(plan, rows, full.centers[heaviest], (run.record.C,), random)
    return machine


def _final_table() -> Table:
    table = Table(
        "USPS 8 v rest, the whole method: official 7291 / 2007 split, 3 seeds",
        ["C", "ends with", "centers", "test %", "wanted", "paper", "CPU s"],
    )
    # every grid of C that was ever tried on this split, so that none can be picked by its result
    grids = ((1.5, 5.0, 15.0), (0.5, 1.5, 5.0, 15.0), (1.5, 5.0, 15.0, 50.0), (0.3, 1, 3, 10, 30))
    cases = [(12.0, "synthetic"), (12.0, "union"), *((grid, "synthetic") for grid in grids)]
    for C, how in cases:
        scores, centers, seconds = [], [], []
        task = tasks.usps_eight()
        for seed in range(3):
            machine = ChunkingSyntheticClassifier(
                C=C, final=how, gamma=task.gamma, random_state=seed
            )
            began = time.process_time()
            machine.fit(task.X, task.y)
            seconds.append(time.process_time() - began)
            scores.append(100 * machine.score(task.X_test, task.y_test))
            centers.append(machine.n_centers_)
        table.add(
            C,
            how,
            f"{np.mean(centers):.1f}",
            f"{np.mean(scores):.2f} +- {np.std(scores):.2f}",
            ">= 98.0",
            "98.28 (28 points, C=12)",
            f"{np.mean(seconds):.1f}",
        )
    return table


def noisy(quick: bool) -> Iterator[Table]:
    """Table 2 of the paper: the noisy digits."""
    data = make_noisy_digits(n_samples=8000, random_state=0)
    pool = Task(
        np.vstack([data.X, data.X_test]), np.r_[data.y, data.y_test] == 1, None, None, 1 / 128, 10.0
    )
    plan = Plan(RBF(1 / 128), np.array([False, True]), (10.0,), N_POINTS, False, None, "lp")
    table = Table(
        "Noisy digits by stages: test correctness in %, mean and deviation of 10 runs",
        STAGE_HEADER,
    )
    for line in _stage_lines(plan, pool, SIZES[: 2 if quick else 4], {}, NOISY_PAPER):
        table.add(*line)
    yield table
    yield _random_table(plan, pool)


def _random_table(plan: Plan, pool: Task) -> Table:
    """The rows of Table 2 that are not synthetic, on the samples and test rows of the stage."""
    table = Table(
        "Noisy digits, 2000 rows: other sources of classifier points, the same 10 runs",
        ["points", "test %", "paper"],
    )
    paper = {"all rows": 75.47, "100 random rows": 70.83, "10 random rows": 57.74}
    for name, count in (("all rows", None), ("100 random rows", 100), ("10 random rows", 10)):
        machines, tests = [], []
        for number in range(N_RUNS):
            rows, _, test = _draw(pool, 2000, number)
            points = None if count is None else rows.X[:count]
            ((machine, *_),) = train(plan, rows, points, plan.Cs, np.random.RandomState(number))
            machines.append(machine)
            tests.append(test)
        table.add(name, _spread(plan, machines, tests), paper[name])
    return table


def compression(quick: bool) -> Iterator[Table]:
    """Fitted SVMs made small: accuracy, bytes and the speed of predictions."""
    table = Table(
        "Compressed SVMs, official splits, mean and deviation of 3 seeds",
        [
            "data",
            "centers before",
            "after",
            "test % before",
            "after",
            "lost",
            "wanted",
            "coefficients",
            "bytes before",
            "after",
            "CPU s",
        ],
    )
    speed = Table(
        "Predictions at 100 centers, USPS ten classes",
        [
            "rows as",
            "SVC ms",
            "uncompressed ms",
            "compressed ms",
            "SVC / ours",
            "wanted",
            "uncompressed / ours",
            "wanted",
        ],
    )
    eight, ten, pen = tasks.usps_eight(), tasks.usps(), _pendigits()
    machines = {"USPS 8 v rest": (eight, _svc(eight, 10.0))}
    machines["USPS ten"] = (ten, _svc(ten, 10.0))
    machines["pendigits"] = (pen, _tuned_svc(pen))
    cases = [("USPS 8 v rest", 20, 0.3), ("USPS ten", 200, 0.5), ("USPS ten", 100, 0.9)]
    for name, n_centers, most in [*cases, ("pendigits", 100, 0.7)]:
        task, svc = machines[name]
        line, small = _compression_line(task, svc, n_centers, n_seeds=1 if quick else 3)
        table.add(name, *line[:5], f"<= {most}", *line[5:])
        if (name, n_centers) == ("USPS ten", 100):
            for speed_line in _speed_lines(svc, small, task.X_test):
                speed.add(*speed_line)
    yield table
    yield speed


def _compression_line(
    task: Task, svc: SVC, n_centers: int, n_seeds: int
) -> tuple[list[object], Any]:
    """Facts of a compression with several seeds, and the first of the machines."""
    before = 100 * svc.score(task.X_test, task.y_test)
    began = time.process_time()
    machines = [
        compress(svc, n_centers, task.X, task.y, random_state=seed) for seed in range(n_seeds)
    ]
    seconds = (time.process_time() - began) / n_seeds
    after = [100 * small.score(task.X_test, task.y_test) for small in machines]
    facts = machines[0].compression_
    kinds = sorted({small.compression_.coefficients for small in machines})
    return [
        facts.centers_before,
        facts.centers_after,
        f"{before:.2f}",
        f"{np.mean(after):.2f} +- {np.std(after):.2f}",
        f"{before - np.mean(after):.2f}",
        ", ".join(kinds),
        f"{facts.bytes_before:,}",
        f"{facts.bytes_after:,}",
        f"{seconds:.1f}",
    ], machines[0]


def _svc(task: Task, C: float) -> SVC:
    return SVC(C=C, gamma=task.gamma).fit(task.X, task.y)


def _tuned_svc(task: Task) -> SVC:
    grid = {"C": [3.0, 10.0, 30.0], "gamma": [1.0, 2.0, 4.0, 8.0]}
    return GridSearchCV(SVC(), grid, cv=3).fit(task.X, task.y).best_estimator_


def _pendigits() -> Task:
    digits = load("pendigits")
    return Task(digits.X / 100.0, digits.y, digits.X_test / 100.0, digits.y_test, 0.0, 0.0)


def _speed_lines(svc: SVC, small: Any, X: Any) -> Iterator[list[object]]:
    uncompressed = compress(svc, len(svc.support_))
    for dtype in (np.float64, np.float32):
        rows = X.astype(dtype)
        theirs = _milliseconds(lambda rows=rows: svc.predict(rows), 3)
        full = _milliseconds(lambda rows=rows: uncompressed.predict(rows), 7)
        ours = _milliseconds(lambda rows=rows: small.predict(rows), 25)
        yield [
            dtype.__name__,
            f"{theirs:.0f}",
            f"{full:.1f}",
            f"{ours:.2f}",
            f"{theirs / ours:.0f}x",
            ">= 150x",
            f"{full / ours:.1f}x",
            ">= 12x",
        ]


def _milliseconds(call: Callable[[], Any], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        began = time.process_time()
        call()
        times.append(time.process_time() - began)
    return 1000 * median(times)


def reduced_set(quick: bool) -> Iterator[Table]:
    """One approximation problem of 10 points on USPS."""
    table = Table(
        "Ten synthetic points for a machine on USPS 8 v rest",
        ["machine", "centers", "residual", "steps", "CPU s", "wanted", "paper, 2000"],
    )
    task = tasks.usps_eight()
    plan = Plan(RBF(task.gamma), np.array([False, True]), (1.4,), 10, False, None, "lp")
    random = np.random.RandomState(0)
    chosen = random.permutation(len(task.y))[:500]
    ((machine, *_),) = train(plan, _rows(task, chosen), None, (1.4,), random)
    svc = _svc(task, 10.0)
    for name, expansion in (
        ("1-norm, 500 rows", machine),
        ("SVC, 7291 rows", adopt(svc).expansion),
    ):
        began = time.process_time()
        reduction = synthesize(expansion, 10, random_state=0)
        seconds = time.process_time() - began
        table.add(
            name,
            expansion.n_centers,
            f"{reduction.residual:.3f}",
            len(reduction.residuals) - 2,
            f"{seconds:.2f}",
            "< 1",
            "4 to 9 min",
        )
    yield table


def fit_chunks(task: Task) -> dict[str, Any]:
    machine = ChunkingSyntheticClassifier(
        C=10.0,
        gamma=task.gamma,
        n_runs=4,
        stage_sizes=(500,),
        random_state=0,
    )
    machine.fit(task.X, task.y)
    return {"centers": machine.n_centers_, "score": machine.score(task.X_test, task.y_test)}


def chunking_growth(quick: bool) -> Iterator[Table]:
    """How the chunking-synthetic fit grows with the rows, all else fixed."""
    table = Table(
        "MNIST 8 v rest: 4 runs of 10 points on 500 rows, then all rows",
        ["rows", "CPU s", "ms a row", "centers", "test %", "peak MB"],
    )
    for m in (1000, 4000, 16_000) if quick else (1000, 2000, 4000, 8000, 16_000, 32_000, 60_000):
        run = measure(tasks.mnist_eight, fit_chunks, m)
        table.add(
            f"{m:,}",
            f"{run.seconds:.2f}",
            f"{1000 * run.seconds / m:.2f}",
            run.answer["centers"],
            f"{100 * run.answer['score']:.2f}",
            f"{run.peak:.0f}",
        )
    yield table


BENCHMARKS = {
    "reduced-set": reduced_set,
    "stages": stages,
    "noisy": noisy,
    "compression": compression,
    "chunking-growth": chunking_growth,
}
