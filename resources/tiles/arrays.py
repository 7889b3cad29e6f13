"""The arrays of numbers that the rooms hand each other, by what the numbers mean. PURE."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
"""Coordinates and measures."""

Indexes: TypeAlias = NDArray[np.int64]
"""Numbers of rows of another array."""

Places: TypeAlias = NDArray[np.int64]
"""Whole pixels, of a lattice or a canvas."""

Samples: TypeAlias = NDArray[np.uint8]
"""Index colours, 0 for nothing, in rows of a window."""
