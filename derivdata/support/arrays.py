"""Types of arrays, and the precision of their floats."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
"""An array of any type."""
Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Indices: TypeAlias = NDArray[np.intp]
Ints: TypeAlias = NDArray[np.int64]

_DOUBLE, _SINGLE, _HALF = (float(np.finfo(kind).eps) for kind in ("f8", "f4", "f2"))
_BY_NAME = {
    "float16": _HALF, "halffloat[pyarrow]": _HALF, "float32": _SINGLE, "float[pyarrow]": _SINGLE,
}  # fmt: skip


def epsilon_of(*arrays: Any) -> float:
    """Return the machine epsilon of the lowest precision among the dtypes of some arrays."""
    precision = _DOUBLE
    for array in arrays:
        name = str(getattr(array, "dtype", "")).lower()
        precision = max(precision, _BY_NAME.get(name, _DOUBLE))
    return precision


def epsilon_in(values: Any) -> float:
    """Return the machine epsilon of the precision that values were rounded to, single or double.

    Tables are converted to float64 when they are read. Values that are all exact in single precision were
    single before, or have few digits.
    """
    array = np.asarray(values, dtype=np.float64)
    array = array[np.isfinite(array)]
    if array.size and (array == array.astype(np.float32)).all():
        return _SINGLE
    return _DOUBLE
