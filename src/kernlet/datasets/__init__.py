"""Data sets: loaders and generators."""

from kernlet.datasets.catalog import names
from kernlet.datasets.checkerboard import make_checkerboard
from kernlet.datasets.dataset import Dataset
from kernlet.datasets.loaders import load

__all__ = ["Dataset", "load", "make_checkerboard", "names"]
