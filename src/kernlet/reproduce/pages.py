"""Tables as JSON, and Markdown made of that JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kernlet.files import written_whole
from kernlet.reproduce.figures import Table

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
        with written_whole(folder / name) as part:
            picture.savefig(part, format="png", dpi=110)
    text = table_markdown(facts)
    with written_whole(folder / f"{stem}.json") as part:
        part.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    with written_whole(folder / f"{stem}.md") as part:
        part.write_text(text, encoding="utf-8")
    return text


def table_markdown(facts: dict[str, Any]) -> str:
    """The page of a table, from its JSON."""
    ways: list[tuple[str, str]] = []
    lines = [_cells(_HEADER), "|" + "---|" * len(_HEADER)]
    lines += [_cells(_line(figure, ways)) for figure in facts["figures"]]
    parts = [f"**{facts['title']}**", "\n".join(lines)]
    parts += ["\n".join(_way(number, way) for number, way in enumerate(ways, 1))] if ways else []
    failed = [f for f in facts["figures"] if f["verdict"] == "not met"]
    if failed:
        parts.append("Not met:\n\n" + "\n".join(_reason(figure) for figure in failed))
    parts += facts["notes"]
    parts.append(f"`{facts['command']}`: {facts['setting']}")
    return "\n\n".join(parts) + "\n"


def _cells(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _line(figure: dict[str, Any], ways: list[tuple[str, str]]) -> list[str]:
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
