"""Prices and greeks of arrays of any kind, without a check of how large volatilities are.

The wings of a smile may have volatilities of any size, which the public functions would take for percent.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import xarray as xr

from derivdata.analysis.black76 import kernels
from derivdata.analysis.black76.kernels import DeltaKind, Greek
from derivdata.analysis.black76.labelled import apply, sign
from derivdata.analysis.inputs import require_together

Premium = Literal["linear", "inverse"]
_UNITS: dict[Premium, str] = {"linear": "currency of the strike", "inverse": "coin"}


def price(
    forward: Any,
    strike: Any,
    year_fraction: Any,
    iv: Any,
    side: Any,
    *,
    interest_rate: Any = 0.0,
    premium: Premium = "linear",
) -> Any:
    """Return the value of each option; see `derivdata.analysis.black76.price`."""
    kernel = partial(kernels.price, inverse=premium == "inverse")
    arrays = fitting(forward, strike, year_fraction, iv, side, interest_rate)
    (value,) = apply(lambda *block: (kernel(*block),), arrays, [np.float64])
    return named(value, "price", units=_UNITS[premium], premium=premium)


def greeks(
    forward: Any,
    strike: Any,
    year_fraction: Any,
    iv: Any,
    side: Any,
    *,
    which: Sequence[Greek],
    delta: DeltaKind = "forward",
    interest_rate: Any = 0.0,
    premium: Premium = "linear",
) -> Any:
    """Return sensitivities of `price`; see `derivdata.analysis.black76.greeks`."""

    def kernel(*block: Any) -> tuple[Any, ...]:
        at = kernels.terms(*block, inverse=premium == "inverse")
        return tuple(kernels.greek(name, delta, at) for name in which)

    arrays = fitting(forward, strike, year_fraction, iv, side, interest_rate)
    values = dict(zip(which, apply(kernel, arrays, [np.float64] * len(which)), strict=True))
    if not any(isinstance(value, xr.DataArray) for value in values.values()):
        return values
    return xr.Dataset(values, attrs={"delta": delta, "premium": premium, "units": _UNITS[premium]})


def fitting(*values: Any, names: tuple[str, ...] = ("forward", "strike", "year_fraction", "iv")) -> list[Any]:
    """Return the numbers, the side as a sign and the rate, checked to fit each other."""
    *numbers, side, rate = values
    arrays = dict(zip(names, numbers, strict=True)) | {"side": sign(side), "interest_rate": rate}
    require_together(**arrays)
    return list(arrays.values())


def named(array: Any, name: str, **attrs: Any) -> Any:
    """Return a DataArray with a name and attributes; another array as it is."""
    return array.rename(name).assign_attrs(attrs) if isinstance(array, xr.DataArray) else array
