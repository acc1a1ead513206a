"""Where rows come from: blocks of them, samples of them, and sums over all of them."""

from kernlet.rows.arrays import ArrayRows
from kernlet.rows.source import BlockStore, Rows

__all__ = ["ArrayRows", "BlockStore", "Rows"]
