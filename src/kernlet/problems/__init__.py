"""What is optimised, as plain values; :mod:`kernlet.solvers` says how."""

from kernlet.problems.hull import Hull
from kernlet.problems.l1_margin import L1Margin
from kernlet.problems.pound import PoundLoss
from kernlet.problems.tall_margin import TallMargin

__all__ = ["Hull", "L1Margin", "PoundLoss", "TallMargin"]
