"""The five papers, and running their tables."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

from kernlet.reproduce import cs, mkc, mmda, mpsvm, sk
from kernlet.reproduce.cells import Cells
from kernlet.reproduce.pages import table_json, write_table
from kernlet.reproduce.recipes import Results

PAPERS: dict[str, ModuleType] = {"mkc": mkc, "cs": cs, "sk": sk, "mpsvm": mpsvm, "mmda": mmda}
#: Told of each cell: its name, how many are done and how many there are, and its seconds; None
#: before it is measured, 0 where it was kept.
Watch = Callable[[str, int, int, float | None], None]


def tables_of(paper: str, number: str | None) -> list[str]:
    """The tables asked for.

    Parameters
    ----------
    paper : str
    number : str or None
        None for all.

    Returns
    -------
    numbers : list of str

    Examples
    --------
    >>> from kernlet.reproduce.papers import tables_of
    >>> tables_of("mpsvm", None)
    ['1', '2', '3']
    """
    known = list(PAPERS[paper].TABLES)
    if number is None:
        return known
    if number not in known:
        raise ValueError(f"{paper} has no table {number!r}; it has {', '.join(known)}.")
    return [number]


def reproduce(
    paper: str,
    numbers: list[str],
    folder: Path,
    *,
    quick: bool = False,
    fresh: bool = False,
    kept: bool = False,
    watch: Watch = lambda name, done, total, seconds: None,
) -> Iterator[str]:
    """Measure tables of a paper and write them; what is measured already is not measured again.

    Parameters
    ----------
    paper : str
    numbers : list of str
    folder : Path
        For ``<paper>-<number>.md`` and ``.json``, pictures, and the folder ``cells`` of what was
        measured.
    quick : bool, default=False
        Fewer rows, folds and seeds.
    fresh : bool, default=False
        Measure anew.
    kept : bool, default=False
        Measure nothing: rows of which not all is measured are listed as such.
    watch : callable

    Yields
    ------
    page : str
        The Markdown of a table, once it is written.
    """
    cells = Cells(folder / "cells" / f"{paper}.json", fresh=fresh)
    for number in numbers:
        recipe = PAPERS[paper].TABLES[number]
        named = recipe.cells(quick)
        total, done = sum(map(len, named.values())), 0

        def said(
            name: str, seconds: float | None, number: str = number, total: int = total
        ) -> None:
            nonlocal done
            done += seconds is not None
            watch(f"{paper} {number}: {name}", min(done, total), total, seconds)

        results = Results(named, cells, said, kept)
        if not kept:
            results.measure()
        table = recipe.build(results, quick)
        command = f"kernlet reproduce {paper} --table {number}" + (" --quick" if quick else "")
        yield write_table(table, table_json(table, quick, command, setting()), folder)


def setting() -> str:
    """The versions that figures depend on."""
    packages = ", ".join(f"{p} {version(p)}" for p in ("scikit-learn", "highspy", "numpy"))
    return f"CPU seconds, one thread; Python {platform.python_version()}, {packages}."
