"""From an expansion to a smaller one."""

from kernlet.reduce.joint import Refinement, refine
from kernlet.reduce.refit import match, project, refit
from kernlet.reduce.removal import remove
from kernlet.reduce.synthetic import Reduction, synthesize

__all__ = ["Reduction", "Refinement", "match", "project", "refine", "refit", "remove", "synthesize"]
