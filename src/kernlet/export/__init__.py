"""From a trained machine to a file, a graph or a few kilobytes of C."""

from kernlet.export.fields import ModelFileError
from kernlet.export.model_file import save
from kernlet.export.model_reading import load
from kernlet.export.predictors import ShippedClassifier, ShippedRegressor
from kernlet.export.shipped import ShippedModel, ship

__all__ = [
    "ModelFileError",
    "ShippedClassifier",
    "ShippedModel",
    "ShippedRegressor",
    "load",
    "save",
    "ship",
]
