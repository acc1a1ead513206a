"""Tables in the README, each between two markers, made from JSON files alone."""

from __future__ import annotations

import re
from pathlib import Path

from papers.tables import counts_table, read_tables

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAPERS = ROOT / "docs" / "results" / "reproduce"


def between_markers(readme: str, name: str, text: str) -> str:
    """The README with what lies between the markers of a name replaced."""
    start, end = f"<!-- {name}: made by make results -->", f"<!-- end of {name} -->"
    pattern = re.compile(f"{re.escape(start)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(readme):
        raise ValueError(f"The README has no markers {start!r} and {end!r}.")
    return pattern.sub(lambda _: "\n".join([start, text, end]), readme)


def papers_table() -> str:
    """How many figures of the five papers are reached."""
    link = (
        "Figures of the five papers on the same data, by `make reproduce ARGS=all`; met is within "
        "one standard error. Every table, and every figure that is not met with the reason: "
        "[docs/reproduce.md](docs/reproduce.md)."
    )
    return "\n".join([counts_table(read_tables(PAPERS)), "", link])
