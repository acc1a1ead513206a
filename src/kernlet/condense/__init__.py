"""From training rows to fewer of them."""

from kernlet.condense.base import Condensation, Elimination
from kernlet.condense.boundary import eliminate_boundary
from kernlet.condense.centroids import Centroids, find_centroids
from kernlet.condense.typical import eliminate_typical

__all__ = [
    "Centroids",
    "Condensation",
    "Elimination",
    "eliminate_boundary",
    "eliminate_typical",
    "find_centroids",
]
