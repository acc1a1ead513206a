"""Tables of a paper with our figures beside them: verdicts, JSON, Markdown and counts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kernlet.atomic import atomic_write
from papers.cache import Experiment, ResultCache

Kind = Literal["accuracy", "size", "time", "other"]
#: Kinds that a verdict is given on.
JUDGED = ("accuracy", "size")
NOT_PUBLIC = "data not public"
NOT_YET = "not measured yet"


@dataclass(frozen=True)
class Ours:
    """What we measured for a figure.

    Parameters
    ----------
    values : sequence of float
        One a fold or seed.
    n_test : int or None
        Test rows where all values are shares of the same official test part, in %.
    seconds : float or None
        CPU time of the whole measurement: choosing, training and testing.
    parameters : str
        All of them.
    chosen : str
        How they were chosen.
    beside : str
        Other ways to the same figure.
    why : str
        Why the paper's figure is not reached.
    """

    values: Sequence[float]
    n_test: int | None = None
    seconds: float | None = None
    parameters: str = ""
    chosen: str = ""
    beside: str = ""
    why: str = ""

    @property
    def mean(self) -> float:
        """Over folds or seeds."""
        return float(np.mean(self.values))

    @property
    def deviation(self) -> float | None:
        """Between folds or seeds; None for a single value."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else None

    @property
    def standard_error(self) -> float:
        """Of the mean: that of folds or seeds, and on one test part its binomial error too.

        Examples
        --------
        >>> from papers.tables import Ours
        >>> round(Ours([90.0], n_test=900).standard_error, 6)
        1.0
        >>> round(Ours([8.0, 10.0]).standard_error, 6)
        1.0
        """
        error = 0.0 if self.deviation is None else self.deviation**2 / len(self.values)
        if self.n_test:
            share = min(max(self.mean / 100, 0.0), 1.0)
            error += 1e4 * share * (1 - share) / self.n_test
        return math.sqrt(error)


@dataclass(frozen=True)
class Figure:
    """One figure of a paper with ours.

    Parameters
    ----------
    row, what : str
        Where it stands in the paper, and what it counts.
    kind : {"accuracy", "size", "time", "other"}
        Verdicts are given on accuracies and sizes; times on machines of their day and other
        figures are shown.
    paper : float or None
        None where the paper has none.
    ours : Ours or str
        A sentence where there is nothing of ours, as for data that are not public.
    larger_is_better : bool, default=True
    """

    row: str
    what: str
    kind: Kind
    paper: float | None
    ours: Ours | str
    larger_is_better: bool = True

    @property
    def difference(self) -> float | None:
        """Ours less the paper's in standard errors, positive where ours is better."""
        if self.paper is None or isinstance(self.ours, str):
            return None
        ahead = self.ours.mean - self.paper
        ahead = ahead if self.larger_is_better else -ahead
        if abs(ahead) < 1e-9:
            return 0.0
        error = self.ours.standard_error
        return math.copysign(math.inf, ahead) if error == 0 else ahead / error

    @property
    def verdict(self) -> str:
        """Beaten, met (within one standard error), not met, or a dash where none is given.

        Examples
        --------
        >>> from papers.tables import Figure, Ours
        >>> [
        ...     Figure("usps", "test, %", "accuracy", paper, Ours([90.0], n_test=900)).verdict
        ...     for paper in (88.0, 90.5, 92.0)
        ... ]
        ['beaten', 'met', 'not met']
        """
        difference = self.difference
        if self.kind not in JUDGED or difference is None:
            return "-"
        return "met" if abs(difference) <= 1 else "beaten" if difference > 0 else "not met"

    def as_json(self) -> dict[str, Any]:
        """Everything, as JSON holds it."""
        facts: dict[str, Any] = {
            "row": self.row,
            "what": self.what,
            "kind": self.kind,
            "paper": self.paper,
            "larger_is_better": self.larger_is_better,
            "verdict": self.verdict,
        }
        if isinstance(self.ours, str):
            return facts | {"missing": self.ours}
        difference = self.difference
        exact = difference is not None and math.isinf(difference)
        return facts | {
            "ours": round(self.ours.mean, 4),
            "deviation": _rounded(self.ours.deviation),
            "runs": len(self.ours.values),
            "test_rows": self.ours.n_test,
            "standard_error": _rounded(self.ours.standard_error),
            "difference": None if exact else _rounded(difference),
            "seconds": _rounded(self.ours.seconds),
            "parameters": self.ours.parameters,
            "chosen": self.ours.chosen,
            "beside": self.ours.beside,
            "why": self.ours.why if self.verdict == "not met" else "",
        }


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 4)


@dataclass(frozen=True)
class Table:
    """A table of a paper, measured.

    Parameters
    ----------
    paper, number : str
        As in the names of the files.
    title : str
    figures : list of Figure
    notes : list of str
        Sentences under the table.
    pictures : dict of name to matplotlib Figure
    """

    paper: str
    number: str
    title: str
    figures: list[Figure]
    notes: list[str] = field(default_factory=list)
    pictures: dict[str, Any] = field(default_factory=dict)


NamedExperiments = dict[str, list[Experiment]]


class Results:
    """Results of named experiments.

    Parameters
    ----------
    named : dict of name to list of Experiment
    cache : ResultCache
    report : callable
        Called with a name and None before an experiment runs, and with its seconds after it.
    cached_only : bool, default=False
        Run nothing.
    """

    def __init__(
        self,
        named: NamedExperiments,
        cache: ResultCache,
        report: Callable[[str, float | None], None],
        cached_only: bool = False,
    ) -> None:
        self.named, self.cache = named, cache
        self.report, self.cached_only = report, cached_only

    def get_or_run(self, name: str, experiment: Experiment) -> dict[str, Any] | None:
        """The result and seconds; None where nothing may run and it is not cached."""
        is_cached = experiment in self.cache
        if self.cached_only and not is_cached:
            return None
        if not is_cached:
            self.report(name, None)
        result = self.cache.get_or_run(experiment)
        self.report(name, 0.0 if is_cached else result["seconds"])
        return result

    def run_all(self) -> None:
        """Run every named experiment that is not cached."""
        for name, experiments in self.named.items():
            for experiment in experiments:
                self.get_or_run(name, experiment)

    def have(self, *names: str) -> bool:
        """Whether all experiments of these names are cached."""
        return all(
            name in self.named and all(e in self.cache for e in self.named[name]) for name in names
        )

    def answers(self, name: str) -> list[Any]:
        """What the experiments of a name returned."""
        return [self.cache.get_or_run(experiment)["answer"] for experiment in self.named[name]]

    def seconds(self, name: str) -> float:
        """CPU time of the experiments of a name."""
        return sum(self.cache.get_or_run(e)["seconds"] for e in self.named[name])


@dataclass(frozen=True)
class Recipe:
    """``experiments(quick)`` of a table by name, and ``build(results, quick)``, the table."""

    experiments: Callable[[bool], NamedExperiments]
    build: Callable[[Results, bool], Table]


_HEADER = [
    *("row", "figure", "paper", "ours", "runs", "difference", "verdict", "CPU s", "by"),
    "beside it",
]
EXPLAINED = (
    "Ours is the mean over runs (folds, seeds or samples) ± their deviation. The difference is in "
    "standard errors of our mean, positive where ours is better: the deviation over the root of "
    "the runs, joined on a single test part by its binomial error. Within one standard error a "
    "figure is met. Times and figures of kind other are shown, not judged."
)


def table_json(table: Table, quick: bool, command: str, setting: str) -> dict[str, Any]:
    """Everything about a measured table.

    Parameters
    ----------
    table : Table
    quick : bool
    command, setting : str
        What made it, and with which versions.

    Returns
    -------
    facts : dict
    """
    return {
        "paper": table.paper,
        "table": table.number,
        "title": table.title + (" (quick: fewer rows, folds and seeds)" if quick else ""),
        "quick": quick,
        "command": command,
        "setting": setting,
        "figures": [figure.as_json() for figure in table.figures],
        "notes": table.notes,
        "pictures": list(table.pictures),
    }


def write_table(table: Table, facts: dict[str, Any], folder: Path) -> str:
    """Write JSON, Markdown and pictures; return the Markdown."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{table.paper}-{table.number}"
    for name, picture in table.pictures.items():
        with atomic_write(folder / name) as part:
            picture.savefig(part, format="png", dpi=110)
    text = table_markdown(facts)
    with atomic_write(folder / f"{stem}.json") as part:
        part.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    with atomic_write(folder / f"{stem}.md") as part:
        part.write_text(text, encoding="utf-8")
    return text


def table_markdown(facts: dict[str, Any]) -> str:
    """The page of a table, from its JSON."""
    ways: list[tuple[str, str]] = []
    lines = [_table_row(_HEADER), "|" + "---|" * len(_HEADER)]
    lines += [_table_row(_figure_row(figure, ways)) for figure in facts["figures"]]
    parts = [f"**{facts['title']}**", "\n".join(lines)]
    parts += ["\n".join(_way(number, way) for number, way in enumerate(ways, 1))] if ways else []
    failed = [f for f in facts["figures"] if f["verdict"] == "not met"]
    if failed:
        parts.append("Not met:\n\n" + "\n".join(_reason(figure) for figure in failed))
    parts += facts["notes"]
    parts.append(f"`{facts['command']}`: {facts['setting']}")
    return "\n\n".join(parts) + "\n"


def _table_row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _figure_row(figure: dict[str, Any], ways: list[tuple[str, str]]) -> list[str]:
    start = [figure["row"], figure["what"], _number(figure["paper"])]
    if "missing" in figure:
        return [*start, figure["missing"], *["-"] * 6]
    ours = _number(figure["ours"])
    if figure["deviation"] is not None:
        ours += f" ± {_number(figure['deviation'])}"
    difference = figure["difference"]
    if difference is None:
        said = "-" if figure["paper"] is None else "no spread"
    else:
        said = "-" if figure["kind"] in ("time", "other") else f"{difference:+.1f}"
    way = figure["parameters"], figure["chosen"]
    if way not in ways:
        ways.append(way)
    runs, seconds = str(figure["runs"]), figure["seconds"]
    return [
        *start,
        ours,
        runs,
        said,
        figure["verdict"],
        "-" if seconds is None else f"{seconds:.1f}",
        f"({ways.index(way) + 1})",
        figure["beside"] or "-",
    ]


def _way(number: int, way: tuple[str, str]) -> str:
    said = "; ".join(part for part in way if part) or "see the notes"
    return f"({number}) {said}.\n"


def _reason(figure: dict[str, Any]) -> str:
    why = figure["why"] or "no reason was found"
    return f"- {figure['row']}, {figure['what']}: {why}"


def _number(number: float | None) -> str:
    """As many digits as tell something."""
    if number is None:
        return "-"
    if float(number).is_integer() and abs(number) >= 1:
        return f"{int(number):,}"
    if abs(number) >= 100:
        return f"{number:,.1f}"
    return f"{number:.2f}" if abs(number) >= 1 else f"{number:.3f}"


NAME = "summary.md"


def read_tables(folder: Path) -> list[dict[str, Any]]:
    """The tables in a folder, by paper and number."""
    tables = []
    for path in sorted(folder.glob("*.json")):
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
            tables.append({key: facts[key] for key in ("paper", "table", "title", "figures")})
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} holds no table of a paper; remove it.") from error
    return tables


def counts_table(tables: list[dict[str, Any]]) -> str:
    """Figures beaten, met and not met, by paper and in all, as Markdown."""
    lines = [
        "| paper | accuracies beaten | met | not met | reached | sizes beaten | met | not met | "
        "reached | not to be had | not measured yet |",
        "|" + "---|" * 11,
    ]
    for paper in _papers(tables):
        figures = [f for t in tables if t["paper"] == paper for f in t["figures"]]
        lines.append(_counts(paper, figures))
    lines.append(_counts("**all**", [f for t in tables for f in t["figures"]]))
    return "\n".join(lines)


def summarize(tables: list[dict[str, Any]]) -> str:
    """Counts by paper and in all, then every figure that is not met with the reason.

    Parameters
    ----------
    tables : list of dict
        As :func:`read_tables` gives them.

    Returns
    -------
    text : str
        Markdown.
    """
    parts = [counts_table(tables)]
    for paper in _papers(tables):
        missed = [
            f"- {table['table']}: {figure['row']}, {figure['what']} "
            f"({_shown(figure['ours'])} against {_shown(figure['paper'])}): {figure['why']}"
            for table in tables
            if table["paper"] == paper
            for figure in table["figures"]
            if figure["verdict"] == "not met"
        ]
        if missed:
            parts.append(f"Not met in {paper}:\n\n" + "\n".join(missed))
    return "\n\n".join(parts) + "\n"


def _papers(tables: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(table["paper"] for table in tables))


def _counts(name: str, figures: list[dict[str, Any]]) -> str:
    cells = [name]
    for kind in JUDGED:
        verdicts = [f["verdict"] for f in figures if f["kind"] == kind]
        counts = [verdicts.count(verdict) for verdict in ("beaten", "met", "not met")]
        total = sum(counts)
        share = f"{100 * (counts[0] + counts[1]) / total:.0f} % of {total}" if total else "-"
        cells += [*map(str, counts), share]
    missing = [f["missing"] for f in figures if "missing" in f]
    waiting = missing.count(NOT_YET)
    cells += [str(len(missing) - waiting), str(waiting)]
    return "| " + " | ".join(cells) + " |"


def _shown(number: float) -> str:
    return f"{number:.4g}" if abs(number) < 1000 else f"{number:.0f}"


def write_summary(folder: Path) -> str:
    """Write ``summary.md`` from the JSON files of a folder, and return it."""
    tables = read_tables(folder)
    if not tables:
        raise ValueError(f"There is no table in {folder}; run make reproduce first.")
    text = summarize(tables)
    with atomic_write(folder / NAME) as part:
        part.write_text(text, encoding="utf-8")
    return text
