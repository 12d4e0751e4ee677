"""The last value before each row: the one step that every carrying forward of values shares."""

from __future__ import annotations

import numpy as np

from derivdata.support.arrays import Bools, Indices

__all__ = ["last_valid"]


def __dir__() -> list[str]:
    return __all__


def last_valid(valid: Bools) -> Indices:
    """Return the index of the last valid row at or before each row of the last axis, −1 where there is none.

    The caller decides how old that row may be: only rows before it are ever looked at.
    """
    rows = np.where(valid, np.arange(valid.shape[-1]), -1)
    return np.maximum.accumulate(rows, axis=-1)
