"""Tables of benchmarks, printed as Markdown."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from papers.tables import markdown_table


@dataclass
class Table:
    """A title, a header and rows."""

    title: str
    header: list[str]
    rows: list[list[str]] = field(default_factory=list)

    def add(self, *cells: object) -> None:
        """Append a row."""
        self.rows.append([str(cell) for cell in cells])

    def markdown(self) -> str:
        """The table as Markdown, its title in bold above it."""
        return f"**{self.title}**\n\n{markdown_table(self.header, self.rows)}"


def record_lines(document: dict[str, Any]) -> str:
    """JSON with one line per record."""
    lines = [
        f" {json.dumps(name)}: {json.dumps(value)},"
        for name, value in document.items()
        if name != "records"
    ]
    records = ",\n".join(f"  {json.dumps(record)}" for record in document["records"])
    return "\n".join(["{", *lines, ' "records": [', records, " ]", "}"]) + "\n"
