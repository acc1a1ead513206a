"""What the tables of all papers say together: figures beaten, matched and missed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from kernlet.atomic import atomic_write
from papers.tables import (
    JUDGED,
    NOT_JUDGED,
    NOT_YET,
    SHOWN_VERDICTS,
    by_reason,
    markdown_table,
)

SUMMARY = "summary.md"
VERDICTS = tuple(SHOWN_VERDICTS)
#: Pages include what is above and below it in different places.
MISSED_MARK = "<!-- missed figures -->"
TableFields = dict[str, Any]
FigureFields = dict[str, Any]
REPETITION = (
    "A figure is matched within one standard error of ours. An exact repetition of a paper's "
    "experiment would match or beat 84 % of its figures, or 76 % if the paper's own error is as "
    'large as ours. A share near these says "equal", not "better".'
)


def _is(role: str, kind: str, is_free: bool = True) -> Callable[[FigureFields], bool]:
    def belongs(figure: FigureFields) -> bool:
        same = figure["role"] == role and figure["kind"] == kind and figure["target"] != "equal"
        return same and (kind != "size" or figure["is_free"] == is_free)

    return belongs


#: Every judged figure belongs to one of these.
GROUPS: dict[str, Callable[[FigureFields], bool]] = {
    "the paper's method: accuracy": _is("own", "accuracy"),
    "the paper's method: size": _is("own", "size"),
    "the paper's method: size fixed by construction": _is("own", "size", False),
    "what it compares with: accuracy": _is("baseline", "accuracy"),
    "what it compares with: size": _is("baseline", "size"),
    "what it compares with: size fixed by construction": _is("baseline", "size", False),
    "descriptive counts, two-sided": lambda figure: figure["target"] == "equal",
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
    """Figures beaten, matched and missed by group, as Markdown, and what the shares mean."""
    figures = _all_figures(tables)
    rows = []
    for name, belongs in GROUPS.items():
        counts = _verdicts(figures, belongs)
        rows.append([name, *(str(counts[verdict]) for verdict in VERDICTS), _share(counts)])
    header = ["figures of five papers", *SHOWN_VERDICTS.values(), "matched or beaten"]
    return f"{markdown_table(header, rows)}\n\n{REPETITION}"


def _verdicts(figures: list[FigureFields], belongs: Callable[[FigureFields], bool]) -> Counter[str]:
    return Counter(f["verdict"] for f in figures if f["verdict"] in VERDICTS and belongs(f))


def _share(counts: Counter[str]) -> str:
    total = counts.total()
    return f"{100 * (total - counts['not met']) / total:.0f} % of {total}" if total else "-"


def by_paper(tables: list[TableFields]) -> str:
    """Shares matched or beaten by paper, and figures without a verdict, as Markdown."""
    rows = []
    for paper in _papers(tables):
        figures = _all_figures(table for table in tables if table["paper"] == paper)
        missing = [figure["missing"] for figure in figures if "missing" in figure]
        n_waiting = missing.count(NOT_YET)
        cells = [_share(_verdicts(figures, GROUPS[name])) for name in COLUMNS]
        rows.append([paper, *cells, str(len(missing) - n_waiting), str(n_waiting)])
    header = ["matched or beaten", *COLUMNS, "no data, or too slow", NOT_YET]
    return markdown_table(header, rows)


def summarize(tables: list[TableFields]) -> str:
    """Markdown of the counts, of what is not judged, and of every figure that is missed."""
    blocks = [headline(tables), by_paper(tables)]
    unjudged = _unjudged(tables)
    if unjudged:
        counts = ", ".join(f"{text} ({n})" for text, n in unjudged.most_common())
        blocks.append(f"Shown, not judged: {counts}.")
    blocks.append(MISSED_MARK)
    for paper in _papers(tables):
        missed = [
            (
                f"{_table_name(table)}: {figure['row']}, {figure['quantity']} "
                f"({_short(figure['ours'])} against {_short(figure['paper'])})",
                figure["reason"],
            )
            for table in tables
            if table["paper"] == paper
            for figure in table["figures"]
            if figure["verdict"] == "not met"
        ]
        if missed:
            blocks.append(f"Missed in {paper}, and why:\n\n" + by_reason(missed))
    if any(figure["verdict"] == NOT_JUDGED for figure in _all_figures(tables)):
        blocks.append("Quick tables are not judged: they have fewer rows, folds and seeds.")
    return "\n\n".join(blocks) + "\n"


def _unjudged(tables: list[TableFields]) -> Counter[str]:
    """How often each reason not to judge an accuracy or a size is given."""
    verdicts = (f["verdict"] for f in _all_figures(tables) if f["kind"] in JUDGED)
    return Counter(v for v in verdicts if v not in (*VERDICTS, "-", NOT_JUDGED))


def _papers(tables: list[TableFields]) -> list[str]:
    return list(dict.fromkeys(table["paper"] for table in tables))


def _table_name(table: TableFields) -> str:
    number = str(table["table"])
    return f"table {number}" if number.isdigit() else number


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
