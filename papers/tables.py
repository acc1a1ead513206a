"""Tables of a paper with our figures beside them: verdicts, JSON and Markdown."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kernlet.atomic import atomic_write
from papers.cache import Experiment, ResultCache

Kind = Literal["accuracy", "size", "time", "other"]
#: What a figure should be, compared with the paper's.
Target = Literal["larger", "smaller", "equal"]
#: A method that the paper proposes, or one that it compares with.
Role = Literal["own", "baseline"]
#: Kinds that get a verdict; times and other figures are only shown.
JUDGED = ("accuracy", "size")
#: Standard errors within which a figure is met. 84 % of exact repetitions would stay within either
#: limit: P(Z >= -1) = P(|Z| <= 1.405) = 0.84 for a normal variable Z.
ONE_SIDED, TWO_SIDED = 1.0, 1.405
NOT_PUBLIC = "data not public"
NOT_YET = "not measured yet"
#: Verdicts of the JSON files in the words of the pages.
SHOWN_VERDICTS = {"beaten": "beaten", "met": "matched", "not met": "missed"}
#: Fewer rows, folds and seeds than a figure of the paper can be compared with.
NOT_JUDGED = "quick: not judged"


# Figures -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measurement:
    """Our value of a figure.

    Parameters
    ----------
    values : sequence of float
        One per fold or seed.
    n_test : int or None
        Test rows, if all values are percentages of the same official test set.
    seconds : float or None
        CPU time of the whole measurement: parameter selection, training and testing.
    parameters : str
        All of them.
    selection : str
        How they were selected.
    alternative : str
        The figure by other methods.
    reason : str
        Why the figure of the paper is not met.
    test_error : float or None
        Standard error that comes from the test rows, in percentage points, where these are not
        ``n_test`` independent ones: clusters, or a pool that several runs draw from.
    """

    values: Sequence[float]
    n_test: int | None = None
    seconds: float | None = None
    parameters: str = ""
    selection: str = ""
    alternative: str = ""
    reason: str = ""
    test_error: float | None = None

    @property
    def mean(self) -> float:
        """Mean over folds or seeds."""
        return float(np.mean(self.values))

    @property
    def deviation(self) -> float | None:
        """Standard deviation over folds or seeds; None for a single value."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else None

    @property
    def standard_error(self) -> float:
        """sqrt(deviation^2 / n + p (1 - p) / n_test), the second term on one test set only.

        ``test_error``, where it is given, is the root of the second term.

        >>> round(Measurement([90.0], n_test=900).standard_error, 6)
        1.0
        >>> round(Measurement([8.0, 10.0]).standard_error, 6)
        1.0
        """
        variance = 0.0 if self.deviation is None else self.deviation**2 / len(self.values)
        if self.test_error is not None:
            variance += self.test_error**2
        elif self.n_test:
            p = min(max(self.mean / 100, 0.0), 1.0)
            variance += 1e4 * p * (1 - p) / self.n_test  # in squared percentage points
        return math.sqrt(variance)


@dataclass(frozen=True)
class Figure:
    """One figure of a paper and ours.

    Parameters
    ----------
    row, quantity : str
        Where it is in the paper, and what it is.
    kind : {"accuracy", "size", "time", "other"}
    paper : float or None
        None if the paper has no figure.
    ours : Measurement or str
        A string explains why there is no measurement.
    target : {"larger", "smaller", "equal"}, default="larger"
        What is better; "equal" is for counts that describe and are no achievement.
    role : {"own", "baseline"}, default="own"
        A method that the paper proposes, or one that it compares with.
    is_free : bool, default=True
        False for a size that is fixed by construction or by the rule of selection.
    unjudged : str, default=""
        Why a figure has no verdict although the paper prints it, such as "judged in table 1".
    """

    row: str
    quantity: str
    kind: Kind
    paper: float | None
    ours: Measurement | str
    target: Target = "larger"
    role: Role = "own"
    is_free: bool = True
    unjudged: str = ""

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's in standard errors; positive if ours is better, or larger."""
        if self.paper is None or isinstance(self.ours, str):
            return None
        gain = self.ours.mean - self.paper
        gain = -gain if self.target == "smaller" else gain
        if abs(gain) < 1e-9:  # equal up to round-off
            return 0.0
        error = self.ours.standard_error
        return math.copysign(math.inf, gain) if error == 0 else gain / error

    @property
    def verdict(self) -> str:
        """Beaten, met, not met, why it is not judged, or "-" if there is nothing to judge.

        >>> ours = Measurement([90.0], n_test=900)
        >>> [Figure("", "", "accuracy", paper, ours).verdict for paper in (88.0, 90.5, 92.0)]
        ['beaten', 'met', 'not met']
        >>> [Figure("", "", "size", paper, ours, "equal").verdict for paper in (88.0, 91.3, 92.0)]
        ['not met', 'met', 'not met']
        """
        difference = self.difference
        if self.kind not in JUDGED or difference is None:
            return "-"
        if self.unjudged:
            return self.unjudged
        if self.target == "equal":
            return "met" if abs(difference) <= TWO_SIDED else "not met"
        if abs(difference) <= ONE_SIDED:
            return "met"
        return "beaten" if difference > 0 else "not met"

    def to_json(self) -> dict[str, Any]:
        """All fields as JSON values."""
        fields: dict[str, Any] = {
            "row": self.row,
            "quantity": self.quantity,
            "kind": self.kind,
            "paper": self.paper,
            "target": self.target,
            "role": self.role,
            "is_free": self.is_free,
            "verdict": self.verdict,
        }
        if isinstance(self.ours, str):
            return fields | {"missing": self.ours}
        difference = self.difference
        is_infinite = difference is not None and math.isinf(difference)  # not a JSON number
        return fields | {
            "ours": round(self.ours.mean, 4),
            "deviation": _rounded(self.ours.deviation),
            "runs": len(self.ours.values),
            "test_rows": self.ours.n_test,
            "standard_error": _rounded(self.ours.standard_error),
            "difference": None if is_infinite else _rounded(difference),
            "seconds": _rounded(self.ours.seconds),
            "parameters": self.ours.parameters,
            "selection": self.ours.selection,
            "alternative": self.ours.alternative,
            "reason": self.ours.reason if self.verdict == "not met" else "",
        }


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 4)


@dataclass(frozen=True)
class PaperTable:
    """A table of a paper, measured; ``pictures`` are matplotlib figures by file name."""

    paper: str
    number: str
    title: str
    figures: list[Figure]
    notes: list[str] = field(default_factory=list)
    pictures: dict[str, Any] = field(default_factory=dict)


# Experiments of a table --------------------------------------------------------------------------

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
        """The result and its seconds; None if it is not cached and nothing may run."""
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
        """Return values of the experiments of a name."""
        return [self.cache.get_or_run(experiment)["answer"] for experiment in self.named[name]]

    def seconds(self, name: str) -> float:
        """CPU time of the experiments of a name."""
        return sum(self.cache.get_or_run(e)["seconds"] for e in self.named[name])


@dataclass(frozen=True)
class Recipe:
    """``experiments(quick)`` of a table by name, and ``build(results, quick)``, the table."""

    experiments: Callable[[bool], NamedExperiments]
    build: Callable[[Results, bool], PaperTable]


# JSON and Markdown -------------------------------------------------------------------------------

_HEADER = [
    *("row", "figure", "paper", "ours", "runs", "difference", "verdict", "CPU s", "settings"),
    "alternatives",
]


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown.

    >>> print(markdown_table(["a", "b"], [["1", "2"]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = ["| " + " | ".join(cells) + " |" for cells in (header, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(header), *lines[1:]])


def mean_and_deviation(values: Sequence[float]) -> str:
    """Mean and standard deviation of several runs; the mean alone of one.

    >>> mean_and_deviation([1.0, 3.0])
    '2.00 ± 1.41'
    """
    mean = f"{np.mean(values):.2f}"
    return f"{mean} ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else mean


def environment() -> str:
    """The versions that figures depend on."""
    packages = ", ".join(f"{p} {version(p)}" for p in ("scikit-learn", "highspy", "numpy"))
    return f"CPU seconds, one thread; Python {platform.python_version()}, {packages}."


def table_json(table: PaperTable, quick: bool, command: str, setting: str) -> dict[str, Any]:
    """A measured table as JSON values, with the command and the versions that made it."""
    return {
        "paper": table.paper,
        "table": table.number,
        "title": table.title + (" (quick: fewer rows, folds and seeds)" if quick else ""),
        "quick": quick,
        "command": command,
        "setting": setting,
        "figures": [_unjudged(f.to_json()) if quick else f.to_json() for f in table.figures],
        "notes": table.notes,
        "pictures": list(table.pictures),
    }


def _unjudged(figure: dict[str, Any]) -> dict[str, Any]:
    """A figure of a quick run, without verdict and reason."""
    if figure["verdict"] == "-":
        return figure
    return figure | {"verdict": NOT_JUDGED, "reason": "", "difference": None}


def write_table(table: PaperTable, fields: dict[str, Any], folder: Path) -> str:
    """Write JSON, Markdown and pictures; return the Markdown."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{table.paper}-{table.number}"
    for name, picture in table.pictures.items():
        from kernlet.report.draw import save_picture  # tables without pictures need no matplotlib

        save_picture(picture, folder / name)
    text = table_markdown(fields)
    for ending, content in (("json", json.dumps(fields, indent=1) + "\n"), ("md", text)):
        with atomic_write(folder / f"{stem}.{ending}") as temporary:
            temporary.write_text(content, encoding="utf-8")
    return text


def table_markdown(fields: dict[str, Any]) -> str:
    """The page of a table, from its JSON."""
    settings: list[str] = []
    rows = [_figure_row(figure, settings) for figure in fields["figures"]]
    blocks = [f"**{fields['title']}**", markdown_table(_HEADER, rows)]
    if settings:
        blocks.append("\n".join(f"({n}) {text}.\n" for n, text in enumerate(settings, 1)))
    missed = [f for f in fields["figures"] if f["verdict"] == "not met"]
    if missed:
        lines = [(f"{figure['row']}, {figure['quantity']}", figure["reason"]) for figure in missed]
        blocks.append("Missed, and why:\n\n" + by_reason(lines))
    blocks += fields["notes"]
    blocks.append(f"`{fields['command']}`: {fields['setting']}")
    return "\n\n".join(blocks) + "\n"


def _figure_row(figure: dict[str, Any], settings: list[str]) -> list[str]:
    """The cells of a figure; its parameters go to the list of settings, unless they are there."""
    start = [figure["row"], figure["quantity"], _number(figure["paper"])]
    if "missing" in figure:
        return [*start, figure["missing"], *["-"] * 6]
    ours = _number(figure["ours"])
    if figure["deviation"] is not None:
        ours += f" ± {_number(figure['deviation'])}"
    difference = figure["difference"]
    if difference is None:
        is_compared = figure["paper"] is not None and figure["verdict"] != NOT_JUDGED
        difference_text = "no spread" if is_compared else "-"
    else:
        difference_text = "-" if figure["kind"] not in JUDGED else f"{difference:+.1f}"
    setting = "; ".join(filter(None, (figure["parameters"], figure["selection"])))
    setting = setting or "see the notes"
    if setting not in settings:
        settings.append(setting)
    seconds = figure["seconds"]
    return [
        *start,
        ours,
        str(figure["runs"]),
        difference_text,
        SHOWN_VERDICTS.get(figure["verdict"], figure["verdict"]),
        "-" if seconds is None else f"{seconds:.1f}",
        f"({settings.index(setting) + 1})",
        figure["alternative"] or "-",
    ]


def by_reason(lines: Iterable[tuple[str, str]]) -> str:
    """A list of reasons why figures are missed, each with the figures that it explains.

    >>> print(by_reason([("row 1", "noise"), ("row 2", "few rows"), ("row 3", "noise")]))
    - **Noise.** row 1; row 3.
    - **Few rows.** row 2.
    """
    figures: dict[str, list[str]] = {}
    for figure, reason in lines:
        figures.setdefault(reason or "no reason was found", []).append(figure)
    return "\n".join(
        f"- **{reason[0].upper()}{reason[1:]}.** {'; '.join(same)}."
        for reason, same in figures.items()
    )


def _number(number: float | None) -> str:
    """A number with about three significant digits; integers in full."""
    if number is None:
        return "-"
    if float(number).is_integer() and abs(number) >= 1:
        return f"{int(number):,}"
    if abs(number) >= 100:
        return f"{number:,.1f}"
    return f"{number:.2f}" if abs(number) >= 1 else f"{number:.3f}"
