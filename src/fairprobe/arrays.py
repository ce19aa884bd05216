"""The array types that every room shares. `N` rows, `A` attributes, `V` combinations of sensitive
values, `C` classes.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Rows: TypeAlias = npt.NDArray[
    np.float32
]  # (N, A) coded rows, or anything real-valued derived from them
Mask: TypeAlias = npt.NDArray[np.bool_]
Ints: TypeAlias = npt.NDArray[np.int64]
Keys: TypeAlias = npt.NDArray[np.uint64]
Floats: TypeAlias = npt.NDArray[np.float64]
