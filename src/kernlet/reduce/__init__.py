"""From an expansion to a smaller one."""

from kernlet.reduce.refit import match, project, refit
from kernlet.reduce.synthetic import Reduction, synthesize

__all__ = ["Reduction", "match", "project", "refit", "synthesize"]
