"""Type aliases."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: An array of floating-point numbers.
Floats = NDArray[np.floating[Any]]
#: An array of row, column or center numbers.
Indices = NDArray[np.intp]
#: A dense array or a scipy.sparse matrix of numbers.
Matrix = Any
#: An array of any library that follows the array API standard: NumPy, torch and others.
Array = Any
