"""Results of long benchmarks, kept one by one.

``KERNLET_BENCH_JOBS`` says how many run side by side.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

from kernlet.files import written_whole

JOBS = int(os.environ.get("KERNLET_BENCH_JOBS", "1"))


class Cells:
    """Results by name and arguments, written after every one: a run goes on where it stopped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cells: dict[str, Any] = {}
        if path.exists():
            self.cells = json.loads(path.read_text(encoding="utf-8"))

    def get(self, name: str, *arguments: Any) -> Any:
        """The result of a name and its arguments."""
        return self.cells[key_of(name, arguments)]

    def fill(
        self,
        name: str,
        work: Callable[..., Any],
        calls: list[tuple[Any, ...]],
        n_keys: int | None = None,
    ) -> None:
        """Do what is missing, several at a time; only the first arguments name a result."""
        missing = {key_of(name, call[:n_keys]): call for call in calls}
        missing = {key: call for key, call in missing.items() if key not in self.cells}
        run = Parallel(n_jobs=JOBS, return_as="generator_unordered", verbose=5)
        for key, result in run(delayed(_keyed)(key, work, call) for key, call in missing.items()):
            self.cells[key] = result
            self._write()

    def put(self, result: Any, name: str, *arguments: Any) -> None:
        """Keep a result."""
        self.cells[key_of(name, arguments)] = result
        self._write()

    def _write(self) -> None:
        with written_whole(self.path) as part:
            part.write_text(json.dumps(self.cells, indent=1, sort_keys=True) + "\n")


def _keyed(key: str, work: Callable[..., Any], call: tuple[Any, ...]) -> tuple[str, Any]:
    return key, work(*call)


def key_of(name: str, arguments: tuple[Any, ...]) -> str:
    """What a result is kept under."""
    return " ".join(str(part) for part in (name, *arguments))
