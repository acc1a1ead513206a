"""Results of long measurements, kept one by one.

``KERNLET_BENCH_JOBS`` says how many run side by side in :meth:`Cells.fill`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

from kernlet.files import written_whole

JOBS = int(os.environ.get("KERNLET_BENCH_JOBS", "1"))


@dataclass(frozen=True)
class Cell:
    """A piece of work by name: a function and everything that determines its answer.

    Parameters
    ----------
    work : callable
        Takes the parameters by name; returns what JSON can hold.
    parameters : dict
        What JSON can hold.
    """

    work: Callable[..., Any]
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """What its answer is kept under."""
        where = f"{self.work.__module__.rpartition('.')[2]}.{self.work.__name__}"
        return f"{where} {json.dumps(self.parameters, sort_keys=True)}"

    def measure(self) -> dict[str, Any]:
        """The answer, and the CPU seconds it took."""
        began = time.process_time()
        answer = json.loads(json.dumps(self.work(**self.parameters)))  # as it will be read again
        return {"answer": answer, "seconds": round(time.process_time() - began, 2)}


class Cells:
    """Results by name and arguments, written after every one: a run goes on where it stopped.

    Parameters
    ----------
    path : Path
        A JSON file; its folder is made.
    fresh : bool, default=False
        Measure anew what is there; it is kept until then.
    """

    def __init__(self, path: Path, *, fresh: bool = False) -> None:
        self.path = path
        self.cells = _read(path, fresh) if path.exists() else {}
        self.stale = set(self.cells) if fresh else set()

    def __contains__(self, cell: Cell) -> bool:
        return cell.key in self.cells and cell.key not in self.stale

    def ask(self, cell: Cell) -> dict[str, Any]:
        """The answer of a cell and its seconds, measured and kept where it is not yet."""
        if cell not in self:
            self.cells[cell.key] = cell.measure()
            self.stale.discard(cell.key)
            self._write()
        return self.cells[cell.key]

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
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(self.path) as part:
            part.write_text(json.dumps(self.cells, indent=1, sort_keys=True) + "\n")


def _read(path: Path, fresh: bool) -> dict[str, Any]:
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        cells = None
    if not isinstance(cells, dict):
        if fresh:
            return {}
        raise ValueError(
            f"{path} is damaged: it holds no results. Remove it, or measure anew with --fresh."
        )
    return cells


def _keyed(key: str, work: Callable[..., Any], call: tuple[Any, ...]) -> tuple[str, Any]:
    return key, work(*call)


def key_of(name: str, arguments: tuple[Any, ...]) -> str:
    """What a result is kept under."""
    return " ".join(str(part) for part in (name, *arguments))
