"""How many figures of the papers are reached, counted from the JSON of the tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kernlet.files import written_whole
from kernlet.reproduce.figures import JUDGED, NOT_YET

NAME = "summary.md"


def read_tables(folder: Path) -> list[dict[str, Any]]:
    """The tables in a folder, by paper and number."""
    tables = []
    for path in sorted(folder.glob("*.json")):
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
            tables.append({key: facts[key] for key in ("paper", "table", "title", "figures")})
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} holds no table of kernlet reproduce; remove it.") from error
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
        raise ValueError(f"There is no table in {folder}; run kernlet reproduce first.")
    text = summarize(tables)
    with written_whole(folder / NAME) as part:
        part.write_text(text, encoding="utf-8")
    return text
