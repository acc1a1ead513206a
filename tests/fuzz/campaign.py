"""Run many cases of many targets in worker processes that may hang, crash or run out of memory."""

from __future__ import annotations

import importlib
import multiprocessing
import pkgutil
import resource
import tempfile
import time
import traceback
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from multiprocessing.connection import Connection, wait
from pathlib import Path

import numpy as np

import fuzz

#: A case that takes longer is a fault.
SECONDS_PER_CASE = 60.0
#: A worker that wants more gets a MemoryError, which is a fault.
BYTES_PER_WORKER = 6 * 2**30

# Raw messages of other libraries that do not say what is wrong with the input.
_UNCLEAR = (
    "array must not contain infs or NaNs",
    "operands could not be broadcast",
    "matmul: Input operand",
    "not supported between instances",
    "object is not subscriptable",
    "object has no attribute",
    "ufunc",
    "cannot reshape array",
    "index out of range",
    "out of bounds",
)


@dataclass(frozen=True)
class Target:
    """Something to search for faults.

    ``case(rng, folder)`` runs one case in an empty folder and returns a word for its outcome, such
    as "accepted" or "refused"; whatever it raises is a fault. It is a function of a module, not a
    lambda, because workers are sent it. The first ``quick`` cases are run by the test suite; in a
    campaign, a target with ``weight`` 2 gets twice as many cases as others of its family.
    """

    name: str
    family: str
    case: Callable[[np.random.Generator, Path], str]
    quick: int = 20
    weight: float = 1.0


@dataclass
class Tally:
    """What came of the cases of a target."""

    n_started: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[tuple[int, str]] = field(default_factory=list)
    seconds: float = 0.0
    slowest: float = 0.0

    @property
    def n_cases(self) -> int:
        """Cases that have ended."""
        return self.outcomes.total() + len(self.faults)


def all_targets() -> dict[str, Target]:
    """The targets of all modules of the package, by name."""
    modules = [
        importlib.import_module(f"fuzz.{module.name}")
        for module in pkgutil.iter_modules(fuzz.__path__)
        if not module.name.startswith(("test_", "__main__"))
    ]
    targets = [target for module in modules for target in getattr(module, "TARGETS", [])]
    by_name = {target.name: target for target in targets}
    assert len(by_name) == len(targets), "two targets have the same name"
    return by_name


def run_case(target: Target, seed: int, number: int) -> str:
    """The outcome of one case; it depends on the seed, the target's name and the number alone."""
    rng = np.random.default_rng([seed, zlib.crc32(target.name.encode()), number])
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return target.case(rng, Path(folder))


def check_sentence(error: BaseException | str) -> None:
    """Assert that a message is a sentence for people and not the remark of some other library."""
    message = str(error).strip()
    assert message, f"{type(error).__name__} without a message"
    assert len(message) <= 1000, f"a message of {len(message)} characters: {message[:200]}"
    for phrase in _UNCLEAR:
        assert phrase not in message, f"an unclear message: {message}"


def run_command(arguments: Sequence[str]) -> tuple[int, str]:
    """Exit code and output of the command line, run in this process."""
    from click.testing import CliRunner

    from kernlet.cli import main

    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    for trace in ("Traceback (most recent call last)", "nternal error"):
        assert trace not in result.output, result.output
    if result.exit_code:
        check_sentence(result.output)
    return result.exit_code, result.output


def goals(targets: Sequence[Target], n_cases: int) -> dict[str, int]:
    """Cases for each target, ``n_cases`` or a few more in all, by their weights."""
    total = sum(target.weight for target in targets)
    return {target.name: ceil(n_cases * target.weight / total) for target in targets}


def run_campaign(
    targets: Sequence[Target],
    seed: int,
    *,
    n_cases: Mapping[str, int] | None = None,
    minutes: float = np.inf,
    n_jobs: int = 2,
    seconds_per_case: float = SECONDS_PER_CASE,
    report: Callable[[str], None] = print,
) -> dict[str, Tally]:
    """Run ``n_cases`` of each target, or equal times of all until ``minutes`` are over."""
    tallies = {target.name: Tally() for target in targets}
    workers = [_Worker(targets, seed, seconds_per_case) for _ in range(n_jobs)]
    began = next_report = time.monotonic()
    try:
        while True:
            for worker in workers:
                name = _next_target(tallies, n_cases)
                if worker.job is None and name and time.monotonic() < began + 60 * minutes:
                    worker.send(name, tallies[name].n_started)
                    tallies[name].n_started += 1
            busy = [worker for worker in workers if worker.job is not None]
            if not busy:
                return tallies
            wait([worker.connection for worker in busy], timeout=0.5)
            for worker in busy:
                _collect(worker, tallies, report)
            if time.monotonic() > next_report:
                next_report = time.monotonic() + 30
                done = sum(tally.n_cases for tally in tallies.values())
                faults = sum(len(tally.faults) for tally in tallies.values())
                report(f"{time.monotonic() - began:.0f} s: {done:,} cases, {faults} faults")
    finally:
        for worker in workers:
            worker.kill()


def _next_target(tallies: dict[str, Tally], n_cases: Mapping[str, int] | None) -> str | None:
    """The target that is furthest behind the others; None if all are done."""
    if n_cases is None:
        return min(tallies, key=lambda name: tallies[name].seconds)
    behind = min(tallies, key=lambda name: tallies[name].n_started / n_cases[name])
    return behind if tallies[behind].n_started < n_cases[behind] else None


def _collect(worker: _Worker, tallies: dict[str, Tally], report: Callable[[str], None]) -> None:
    """Count the outcome of a worker's case if it has ended, one way or another."""
    assert worker.job is not None
    name, number = worker.job
    outcome, fault = worker.result()
    if outcome is None and fault is None:
        return
    tally, seconds = tallies[name], time.monotonic() - worker.began
    tally.seconds += seconds
    tally.slowest = max(tally.slowest, seconds)
    worker.job = None
    if fault is None:
        tally.outcomes[str(outcome)] += 1
    else:
        tally.faults.append((number, fault))
        report(f"FAULT in case {number} of {name}: {fault}")


class _Worker:
    """A process that runs one case after another, and is replaced if it hangs or dies."""

    def __init__(self, targets: Sequence[Target], seed: int, limit: float) -> None:
        self.targets, self.seed, self.limit = targets, seed, limit
        self.job: tuple[str, int] | None = None
        self.began = 0.0
        self._start()

    def _start(self) -> None:
        # Not forked: the threads of BLAS and Arrow do not survive a fork.
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        arguments = (theirs, {target.name: target for target in self.targets}, self.seed)
        self.process = context.Process(target=_work, args=arguments, daemon=True)
        self.process.start()
        theirs.close()
        self.connection.recv()  # it is ready: imports are not part of the first case

    def send(self, name: str, number: int) -> None:
        self.job, self.began = (name, number), time.monotonic()
        self.connection.send(self.job)

    def result(self) -> tuple[str | None, str | None]:
        """The outcome, or the fault, or neither while the case runs."""
        try:
            if self.connection.poll():
                return self.connection.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            fault = f"the process died with exit code {self.process.exitcode}"
            self._start()
            return None, fault
        if time.monotonic() - self.began > self.limit:
            self.kill()
            self._start()
            return None, f"not done after {self.limit:.0f} s"
        return None, None

    def kill(self) -> None:
        self.process.kill()
        self.process.join()


def _work(connection: Connection, targets: dict[str, Target], seed: int) -> None:
    # The soft limit alone: a program under AddressSanitizer needs it raised again.
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (BYTES_PER_WORKER, hard))
    connection.send("ready")
    while True:
        name, number = connection.recv()
        try:
            connection.send((run_case(targets[name], seed, number), None))
        except BaseException as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            message = " ".join(str(error).split())[:300]
            where = f"{Path(last.filename).name}:{last.lineno}"
            connection.send((None, f"{type(error).__name__} at {where}: {message}"))
