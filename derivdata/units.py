"""Conversion of funding rates and volatilities; the constants 8, 365 and 1e4 are only here.

Three units of one funding rate:

- ``bps_8h``: basis points of notional per 8 hours for every venue's interval (the API's unit)
- ``native``: decimal fraction of notional per the venue's own interval of `interval_hours`
- ``apr``, ``apy``: decimal fraction per 365 days, simple or compounded at every native payment

The payment of a position over some hours is ``bps`` of its notional, the only figure here that may be added
over time. `convert` converts between all of them.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np

from derivdata.support.arguments import Numbers, typed

__all__ = ["convert"]
__dir__ = __all__.copy

BPS = 1e4
REFERENCE_HOURS = 8.0
HOURS_PER_YEAR = 8760.0

RATE_UNIT = "bps/8h"
NATIVE_UNIT = "fraction per interval"
BPS_UNIT = "bps"
HOUR_UNIT = "h"
USD_UNIT = "USD"
APR_UNIT = "1/year"
APY_UNIT = "1/year compounded"
VOLATILITY_UNIT = "1/√year"
PERCENT_UNIT = "%"
VOLATILITY_SPELLINGS = (VOLATILITY_UNIT, "1/sqrt(year)")
"""Labels of a decimal volatility; files written before version 0.2 have the second."""

Unit: TypeAlias = Literal[
    "bps_8h",
    "native",
    "bps",
    "apr",
    "apy",
    "bps/8h",
    "fraction per interval",
    "1/year",
    "1/year compounded",
    "1/√year",
    "1/sqrt(year)",
    "%",
]

# Name of a result in each unit, and the label of the unit.
_LABELS = {
    "bps_8h": ("rate_bps_8h", RATE_UNIT),
    "native": ("rate_native", NATIVE_UNIT),
    "bps": ("amount_bps", BPS_UNIT),
    "apr": ("apr", APR_UNIT),
    "apy": ("apy", APY_UNIT),
    "volatility": ("volatility", VOLATILITY_UNIT),
    "percent": ("volatility_pct", PERCENT_UNIT),
}
_NAMES = {label: unit for unit, (_, label) in _LABELS.items()} | dict.fromkeys(
    VOLATILITY_SPELLINGS, "volatility"
)
_NEED_HOURS = ("native", "bps", "apy")
_VOLATILITIES = ("volatility", "percent")
_PERCENT = {"volatility": 1.0, "percent": 100.0}


@typed
def convert(values: Numbers, old: Unit, new: Unit, *, hours: Numbers | None = None) -> Any:
    """Return funding in another unit: a rate as an annual rate, a payment as a rate, a rate as an amount.

    Parameters
    ----------
    values
        Numbers, arrays, pandas or xarray objects.
    old, new
        ``"bps_8h"`` [bps of notional per 8 hours], ``"native"`` [fraction of notional per payment],
        ``"bps"`` [bps of notional, accrued over `hours`], ``"apr"`` [fraction per 365 days, simple] or
        ``"apy"`` [the same, compounded at every payment]; or the label in the ``units`` of a result:
        ``"bps/8h"``, ``"fraction per interval"``, ``"1/year"``, ``"1/year compounded"``. Volatilities are
        ``"1/√year"``, also written ``"1/sqrt(year)"``, or ``"%"``, as indices are published.
    hours
        Hours for ``"native"``, ``"bps"`` and ``"apy"``: between payments, or over which the amount accrues.
        Numbers that broadcast with `values`.

    Returns
    -------
    same type as `values`
        NaN remains NaN. A DataArray keeps its attributes and gets the name and ``units`` of the new unit.

    Raises
    ------
    ValueError
        `hours` is missing for a unit that needs it, or given without one; the ``units`` of `values` differ
        from `old`, since they may be converted already; or one unit is of volatilities, the other of rates.

    Examples
    --------
    >>> dd.units.convert(0.0000125, "native", "bps_8h", hours=1)
    1.0
    >>> round(dd.units.convert(1.0, "bps_8h", "apr"), 6)
    0.1095
    >>> dd.units.convert(1.0, "bps_8h", "bps", hours=30 * 24)
    90.0
    >>> dd.units.convert(45.0, "%", "1/√year")
    0.45
    """
    from_unit = _NAMES.get(old, old)
    to_unit = _NAMES.get(new, new)
    if (from_unit in _VOLATILITIES) != (to_unit in _VOLATILITIES):
        raise ValueError(
            f"{old!r} and {new!r} must be units of one quantity: one is a unit of volatility, the other of a "
            "funding rate"
        )
    with_length = [unit for unit in (from_unit, to_unit) if unit in _NEED_HOURS]
    if with_length and hours is None:
        raise ValueError(
            f"hours is missing: {with_length[0]!r} depends on a length of time, such as the hours between "
            "payments"
        )
    if hours is not None and not with_length:
        raise ValueError(f"hours has no effect between {old!r} and {new!r}: omit it")
    if from_unit in _VOLATILITIES:
        result = values * (_PERCENT[to_unit] / _PERCENT[from_unit])
    else:
        result = _from_rate(_rate(values, from_unit, hours), to_unit, hours)
    return _labelled(result, *_LABELS[to_unit], values, from_unit)


def _rate(values: Any, old: str, hours: Any) -> Any:
    """Return basis points per 8 hours."""
    if old == "native":
        return values * BPS * REFERENCE_HOURS / hours
    if old == "bps":
        return values * (REFERENCE_HOURS / hours)
    if old == "apr":
        return values * BPS / (HOURS_PER_YEAR / REFERENCE_HOURS)
    if old == "apy":
        # log1p and expm1: a payment is so small that 1 + payment would lose most of its digits.
        return np.expm1(np.log1p(values) * hours / HOURS_PER_YEAR) * BPS * REFERENCE_HOURS / hours
    return values


def _from_rate(rate: Any, new: str, hours: Any) -> Any:
    """Convert basis points per 8 hours to another unit, the inverse of `_rate`."""
    if new == "native":
        return rate / BPS * hours / REFERENCE_HOURS
    if new == "bps":
        return rate * (hours / REFERENCE_HOURS)
    if new == "apr":
        return rate / BPS * (HOURS_PER_YEAR / REFERENCE_HOURS)
    if new == "apy":
        return np.expm1(HOURS_PER_YEAR / hours * np.log1p(rate / BPS * hours / REFERENCE_HOURS))
    return rate


def _labelled(result: Any, name: str, unit: str, source: Any, from_unit: str) -> Any:
    """Label a result of `source`; numbers and arrays without labels stay as they are.

    xarray keeps attributes through arithmetic from version 2025.11 on, and drops them before. So without this
    an annual rate would be labelled basis points per 8 hours, or lack a unit.

    Raises
    ------
    ValueError
        The ``units`` of `source` differ from `from_unit`.
    """
    attrs = dict(source.attrs) if hasattr(source, "assign_attrs") else {}
    needed = _LABELS[from_unit][1]
    stated = attrs.get("units", needed)
    if _NAMES.get(stated, stated) != from_unit:
        raise ValueError(
            f"values must be in {needed!r}, got {attrs['units']!r}: check whether they are already converted"
        )
    if hasattr(result, "data_vars"):
        return result
    if hasattr(result, "assign_attrs"):
        result = result.rename(name)
        result.attrs = attrs | {"units": unit}
        return result
    if hasattr(result, "index") and hasattr(result, "array"):  # a Series
        return result.rename(name)
    return result
