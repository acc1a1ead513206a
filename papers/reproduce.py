"""Running the experiments of a paper and writing its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

from papers import fung2002, garcia2006, gonzalez2000, tsang2006, vishwanathan2002
from papers.cache import ResultCache
from papers.tables import Results, environment, table_json, write_table

PAPERS: dict[str, ModuleType] = {
    "fung2002": fung2002,
    "gonzalez2000": gonzalez2000,
    "garcia2006": garcia2006,
    "vishwanathan2002": vishwanathan2002,
    "tsang2006": tsang2006,
}
#: Called with the name of an experiment, how many are done, how many there are, and its seconds:
#: None before it runs, 0 where its result was cached.
Progress = Callable[[str, int, int, float | None], None]


def tables_of(paper: str, number: str | None) -> list[str]:
    """All tables of a paper, or the one asked for.

    >>> tables_of("vishwanathan2002", None)
    ['1', '2', '3', 'atypical', 'bootstrap']
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
    cached_only: bool = False,
    progress: Progress = lambda name, done, total, seconds: None,
) -> Iterator[str]:
    """Run the missing experiments of a paper's tables, write the tables and yield their Markdown.

    Parameters
    ----------
    paper : str
    numbers : list of str
        The tables.
    folder : Path
        For ``<paper>-<number>.md`` and ``.json``, pictures, and the folder ``cache``.
    quick : bool, default=False
        Fewer rows, folds and seeds.
    fresh : bool, default=False
        Run every experiment again.
    cached_only : bool, default=False
        Run nothing: rows without all their results are listed as not measured yet.
    progress : callable
    """
    cache = ResultCache(folder / "cache" / f"{paper}.json", fresh=fresh)
    for number in numbers:
        recipe = PAPERS[paper].TABLES[number]
        named = recipe.experiments(quick)
        total, done = sum(map(len, named.values())), 0

        def report(
            name: str, seconds: float | None, number: str = number, total: int = total
        ) -> None:
            nonlocal done
            done += seconds is not None
            progress(f"{paper} {number}: {name}", min(done, total), total, seconds)

        results = Results(named, cache, report, cached_only)
        if not cached_only:
            results.run_all()
        table = recipe.build(results, quick)
        arguments = f"{paper} --table {number}" + (" --quick" if quick else "")
        command = f'make reproduce ARGS="{arguments}"'
        yield write_table(table, table_json(table, quick, command, environment()), folder)
