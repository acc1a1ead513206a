"""What a table needs to be measured, and how it is made of that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernlet.reproduce.cells import Cell, Cells
from kernlet.reproduce.figures import Table

NamedCells = dict[str, list[Cell]]


class Results:
    """Answers of named cells.

    Parameters
    ----------
    named : dict of name to list of Cell
    cells : Cells
        Where answers are kept.
    said : callable
        Called with a name before a cell that is not known yet is measured, and with its seconds
        after it.
    kept : bool, default=False
        Measure nothing.
    """

    def __init__(
        self,
        named: NamedCells,
        cells: Cells,
        said: Callable[[str, float | None], None],
        kept: bool = False,
    ) -> None:
        self.named, self.cells, self.said, self.kept = named, cells, said, kept

    def ask(self, name: str, cell: Cell) -> dict[str, Any] | None:
        """A cell's answer and seconds; None where nothing is to be measured and it is not known."""
        known = cell in self.cells
        if self.kept and not known:
            return None
        if not known:
            self.said(name, None)
        kept = self.cells.ask(cell)
        self.said(name, 0.0 if known else kept["seconds"])
        return kept

    def measure(self) -> None:
        """Measure all that is named."""
        for name, cells in self.named.items():
            for cell in cells:
                self.ask(name, cell)

    def have(self, *names: str) -> bool:
        """Whether all cells of these names are measured."""
        return all(
            name in self.named and all(cell in self.cells for cell in self.named[name])
            for name in names
        )

    def answers(self, name: str) -> list[Any]:
        """Of the cells of a name."""
        return [self.cells.ask(cell)["answer"] for cell in self.named[name]]

    def seconds(self, name: str) -> float:
        """CPU time of the cells of a name."""
        return sum(self.cells.ask(cell)["seconds"] for cell in self.named[name])


@dataclass(frozen=True)
class Recipe:
    """How a table is made.

    Parameters
    ----------
    cells : callable
        ``cells(quick)``: what is measured, by name.
    build : callable
        ``build(results, quick)``: the table.
    """

    cells: Callable[[bool], NamedCells]
    build: Callable[[Results, bool], Table]
