"""How a problem is solved: arrays in, a frozen solution with its certificate out."""

from kernlet.solvers.core_set import find_core_set
from kernlet.solvers.core_solution import CoreRule, CoreSolution
from kernlet.solvers.highs_generation import Generation, Progress
from kernlet.solvers.hull_solution import HullSolution
from kernlet.solvers.nearest_point import find_nearest_point
from kernlet.solvers.normal_equations import ProximalSolution, solve_proximal
from kernlet.solvers.solution import MarginSolution
from kernlet.solvers.successive_linearization import LinearizationPath, linearize_successively
from kernlet.solvers.tall_linearization import TallPath, linearize_tall
from kernlet.solvers.tall_lp import TallLP, TallProgress

__all__ = [
    "CoreRule",
    "CoreSolution",
    "Generation",
    "HullSolution",
    "LinearizationPath",
    "MarginSolution",
    "Progress",
    "ProximalSolution",
    "TallLP",
    "TallPath",
    "TallProgress",
    "find_core_set",
    "find_nearest_point",
    "linearize_successively",
    "linearize_tall",
    "solve_proximal",
]
