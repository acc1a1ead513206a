"""A cache of experiment results: one JSON file, written after every experiment.

``KERNLET_BENCH_JOBS`` is the number of processes of :meth:`ResultCache.fill`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from joblib import Parallel, delayed

from kernlet.atomic import atomic_write

T = TypeVar("T")
JOBS = int(os.environ.get("KERNLET_BENCH_JOBS", "1"))


def timed(function: Callable[..., T], *arguments: Any, **options: Any) -> tuple[T, float]:
    """The result of a call and its CPU seconds."""
    start = time.process_time()
    result = function(*arguments, **options)
    return result, time.process_time() - start


@dataclass(frozen=True)
class Experiment:
    """A function with the parameters that determine its result, all of them JSON values."""

    function: Callable[..., Any]
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Where the cache stores the result: ``module.function {parameters}``."""
        module = self.function.__module__.rpartition(".")[2]
        parameters = json.dumps(self.parameters, sort_keys=True)
        return f"{module}.{self.function.__name__} {parameters}"

    def run(self) -> dict[str, Any]:
        """The result and its CPU seconds."""
        result, seconds = timed(self.function, **self.parameters)
        # Through JSON and back, so that a new result equals the same result read from the file.
        return {"answer": json.loads(json.dumps(result)), "seconds": round(seconds, 2)}


class ResultCache:
    """Results by key in a JSON file; an interrupted run resumes with the next experiment.

    Parameters
    ----------
    path : Path
        The file; its folder is made.
    fresh : bool, default=False
        Run every experiment again; old results stay in the file until they are replaced.
    """

    def __init__(self, path: Path, *, fresh: bool = False) -> None:
        self.path = path
        self.results = _read(path, fresh) if path.exists() else {}
        self.stale = set(self.results) if fresh else set()

    def __contains__(self, experiment: Experiment) -> bool:
        return experiment.key in self.results and experiment.key not in self.stale

    def get_or_run(self, experiment: Experiment) -> dict[str, Any]:
        """The cached result of an experiment and its seconds; a missing one is run first."""
        if experiment not in self:
            self.results[experiment.key] = experiment.run()
            self.stale.discard(experiment.key)
            self._write()
        return self.results[experiment.key]

    def get(self, name: str, *arguments: Any) -> Any:
        """The result of a name and its arguments."""
        return self.results[key_of(name, arguments)]

    def fill(
        self,
        name: str,
        function: Callable[..., Any],
        calls: list[tuple[Any, ...]],
        n_keys: int | None = None,
    ) -> None:
        """Run the missing calls in parallel; only the first ``n_keys`` arguments are in the key."""
        missing = {key_of(name, call[:n_keys]): call for call in calls}
        missing = {key: call for key, call in missing.items() if key not in self.results}
        run = Parallel(n_jobs=JOBS, return_as="generator_unordered", verbose=5)
        tasks = (delayed(_keyed)(key, function, call) for key, call in missing.items())
        for key, result in run(tasks):
            self.results[key] = result
            self._write()

    def put(self, result: Any, name: str, *arguments: Any) -> None:
        """Store a result under a name and its arguments."""
        self.results[key_of(name, arguments)] = result
        self._write()

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(self.path) as temporary:
            temporary.write_text(json.dumps(self.results, indent=1, sort_keys=True) + "\n")


def _read(path: Path, fresh: bool) -> dict[str, Any]:
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        results = None
    if not isinstance(results, dict):
        if fresh:
            return {}
        raise ValueError(
            f"{path} is corrupt: it holds no results. Remove it, or run again with --fresh."
        )
    return results


def _keyed(key: str, function: Callable[..., Any], call: tuple[Any, ...]) -> tuple[str, Any]:
    return key, function(*call)


def key_of(name: str, arguments: tuple[Any, ...]) -> str:
    """The key of a result stored by name and arguments."""
    return " ".join(map(str, (name, *arguments)))
