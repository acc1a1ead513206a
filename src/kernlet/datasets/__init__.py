"""Data sets: loaders and generators."""

from kernlet.datasets.catalog import names
from kernlet.datasets.checkerboard import make_checkerboard
from kernlet.datasets.dataset import Dataset
from kernlet.datasets.loaders import load
from kernlet.datasets.ndc import make_ndc
from kernlet.datasets.noisy_digits import make_noisy_digits
from kernlet.datasets.shifted_digits import make_shifted_digits

__all__ = [
    "Dataset",
    "load",
    "make_checkerboard",
    "make_ndc",
    "make_noisy_digits",
    "make_shifted_digits",
    "names",
]
