"""The arrays that all parts exchange."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Arrays = tuple[Array, ...]
Two = tuple[Array, Array]
Known = Array | None
"""An array that the caller has already, or None: then it is computed."""
