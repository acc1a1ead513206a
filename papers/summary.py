"""What the tables of all papers say together: how many figures are reached, and which are not."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from kernlet.atomic import atomic_write
from papers.tables import JUDGED, NOT_JUDGED, NOT_YET, by_reason, markdown_table

SUMMARY = "summary.md"
VERDICTS = ("beaten", "met", "not met")
TableFields = dict[str, Any]
FigureFields = dict[str, Any]
REPETITION = (
    "A figure is met within one standard error of ours. An exact repetition of a paper's "
    "experiment would reach 84 %, and 76 % if the paper's own error is as large as ours: a share "
    'near these says "equal", not "better".'
)


def _is(role: str, kind: str, is_free: bool = True) -> Callable[[FigureFields], bool]:
    def belongs(figure: FigureFields) -> bool:
        same = figure["role"] == role and figure["kind"] == kind and figure["target"] != "equal"
        return same and (kind != "size" or figure["is_free"] == is_free)

    return belongs


#: Every judged figure belongs to one of these.
GROUPS: dict[str, Callable[[FigureFields], bool]] = {
    "own methods: accuracies": _is("own", "accuracy"),
    "own methods: free sizes": _is("own", "size"),
    "own methods: sizes fixed by construction": _is("own", "size", False),
    "baselines: accuracies": _is("baseline", "accuracy"),
    "baselines: free sizes": _is("baseline", "size"),
    "baselines: sizes fixed by construction": _is("baseline", "size", False),
    "descriptions, two-sided": lambda figure: figure["target"] == "equal",
}
#: Groups with a column of their own in the table by paper.
COLUMNS = [name for name in GROUPS if "fixed" not in name]


def read_tables(folder: Path) -> list[TableFields]:
    """The tables in a folder, by paper and number."""
    tables = []
    for path in sorted(folder.glob("*.json")):
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            tables.append({key: fields[key] for key in ("paper", "table", "title", "figures")})
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is not a table of a paper; remove it.") from error
    return tables


def _all_figures(tables: Iterable[TableFields]) -> list[FigureFields]:
    return [figure for table in tables for figure in table["figures"]]


def headline(tables: list[TableFields]) -> str:
    """Figures beaten, met and not met by group, as Markdown, and what the shares mean."""
    figures = _all_figures(tables)
    rows = []
    for name, belongs in GROUPS.items():
        counts = _verdicts(figures, belongs)
        rows.append([name, *(str(counts[verdict]) for verdict in VERDICTS), _share(counts)])
    header = ["figures of five papers", *VERDICTS, "reached"]
    return f"{markdown_table(header, rows)}\n\n{REPETITION}"


def _verdicts(figures: list[FigureFields], belongs: Callable[[FigureFields], bool]) -> Counter[str]:
    return Counter(f["verdict"] for f in figures if f["verdict"] in VERDICTS and belongs(f))


def _share(counts: Counter[str]) -> str:
    total = counts.total()
    return f"{100 * (total - counts['not met']) / total:.0f} % of {total}" if total else "-"


def by_paper(tables: list[TableFields]) -> str:
    """Shares reached by paper, and figures without a verdict, as Markdown."""
    rows = []
    for paper in _papers(tables):
        figures = _all_figures(table for table in tables if table["paper"] == paper)
        missing = [figure["missing"] for figure in figures if "missing" in figure]
        n_waiting = missing.count(NOT_YET)
        cells = [_share(_verdicts(figures, GROUPS[name])) for name in COLUMNS]
        rows.append([paper, *cells, str(len(missing) - n_waiting), str(n_waiting)])
    header = ["reached", *COLUMNS, "no data, or too long", NOT_YET]
    return markdown_table(header, rows)


def summarize(tables: list[TableFields]) -> str:
    """Markdown of the counts, of what is not judged, and of every figure that is not met."""
    blocks = [headline(tables), by_paper(tables)]
    unjudged = _unjudged(tables)
    if unjudged:
        counts = ", ".join(f"{text} ({n})" for text, n in unjudged.most_common())
        blocks.append(f"Shown, not judged: {counts}.")
    for paper in _papers(tables):
        missed = [
            (
                f"{table['table']}: {figure['row']}, {figure['quantity']} "
                f"({_short(figure['ours'])} against {_short(figure['paper'])})",
                figure["reason"],
            )
            for table in tables
            if table["paper"] == paper
            for figure in table["figures"]
            if figure["verdict"] == "not met"
        ]
        if missed:
            blocks.append(f"Not met in {paper}:\n\n" + by_reason(missed))
    if any(figure["verdict"] == NOT_JUDGED for figure in _all_figures(tables)):
        blocks.append("Quick tables are not judged: they have fewer rows, folds and seeds.")
    return "\n\n".join(blocks) + "\n"


def _unjudged(tables: list[TableFields]) -> Counter[str]:
    """How often each reason not to judge an accuracy or a size is given."""
    verdicts = (f["verdict"] for f in _all_figures(tables) if f["kind"] in JUDGED)
    return Counter(v for v in verdicts if v not in (*VERDICTS, "-", NOT_JUDGED))


def _papers(tables: list[TableFields]) -> list[str]:
    return list(dict.fromkeys(table["paper"] for table in tables))


def _short(number: float) -> str:
    return f"{number:.4g}" if abs(number) < 1000 else f"{number:.0f}"


def write_summary(folder: Path) -> str:
    """Write ``summary.md`` from the JSON files of a folder, and return it."""
    tables = read_tables(folder)
    if not tables:
        raise ValueError(f"There is no table in {folder}; run make reproduce first.")
    text = summarize(tables)
    with atomic_write(folder / SUMMARY) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return text
