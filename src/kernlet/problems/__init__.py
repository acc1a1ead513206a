"""What is optimised, as plain values; :mod:`kernlet.solvers` says how."""

from kernlet.problems.enclosing_ball import EnclosingBall
from kernlet.problems.hull import Hull
from kernlet.problems.l1_margin import L1Margin
from kernlet.problems.moments import Moments
from kernlet.problems.pound import PoundLoss
from kernlet.problems.proximal import Proximal
from kernlet.problems.tall_margin import TallMargin

__all__ = ["EnclosingBall", "Hull", "L1Margin", "Moments", "PoundLoss", "Proximal", "TallMargin"]
