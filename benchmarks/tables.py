"""Tables that print themselves as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np


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
        lines = [f"**{self.title}**", "", "| " + " | ".join(self.header) + " |"]
        lines.append("|" + "---|" * len(self.header))
        lines += ["| " + " | ".join(row) + " |" for row in self.rows]
        return "\n".join(lines)


def spread(scores: Sequence[float]) -> str:
    """Mean and deviation of several runs."""
    return f"{np.mean(scores):.2f} ± {np.std(scores, ddof=1):.2f}"
