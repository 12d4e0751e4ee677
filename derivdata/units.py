"""Rate conversions: the only place that knows 8, 365 and 1e4.

Three ways to state one funding rate:

- ``bps_8h``: basis points of notional per 8 hours, whatever the venue's interval (the API's unit)
- ``native``: decimal fraction of notional per the venue's own interval of `interval_hours`
- ``apr``, ``apy``: decimal fraction per 365 days, simple or compounded at every native payment

What a position pays or earns over some hours is ``bps`` of its notional: the only one of these figures that
may be added over time. `convert` goes from any of them to any other.
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

Unit: TypeAlias = Literal["bps_8h", "native", "bps", "apr", "apy"]

# What each unit names its result, and the label it bears.
_LABELS = {
    "bps_8h": ("rate_bps_8h", RATE_UNIT),
    "native": ("rate_native", NATIVE_UNIT),
    "bps": ("amount_bps", BPS_UNIT),
    "apr": ("apr", APR_UNIT),
    "apy": ("apy", APY_UNIT),
}
_OF_A_LENGTH = ("native", "bps", "apy")


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
        ``"apy"`` [the same, compounded at every payment].
    hours
        The length that ``"native"``, ``"bps"`` and ``"apy"`` rest on: the hours between payments, or those
        over which the amount accrues. Numbers that fit `values`.

    Returns
    -------
    what `values` is
        NaN stays NaN. A DataArray keeps its attributes and gets the name and the ``units`` of what it now is.

    Raises
    ------
    ValueError
        `hours` is missing where a unit rests on it, or given where none does; `values` says another unit
        than `old`, so that nothing is converted twice.

    Examples
    --------
    >>> dd.units.convert(0.0000125, "native", "bps_8h", hours=1)
    1.0
    >>> round(dd.units.convert(1.0, "bps_8h", "apr"), 6)
    0.1095
    >>> dd.units.convert(1.0, "bps_8h", "bps", hours=30 * 24)
    90.0
    """
    resting = [unit for unit in (old, new) if unit in _OF_A_LENGTH]
    if resting and hours is None:
        raise ValueError(
            f"hours is missing: {resting[0]!r} rests on a length of time, as the hours between payments"
        )
    if hours is not None and not resting:
        raise ValueError(f"hours says nothing between {old!r} and {new!r}: leave it out")
    name, unit = _LABELS[new]
    return _labelled(_from_rate(_rate(values, old, hours), new, hours), name, unit, values, _LABELS[old][1])


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
    """Return what `_rate` undoes."""
    if new == "native":
        return rate / BPS * hours / REFERENCE_HOURS
    if new == "bps":
        return rate * (hours / REFERENCE_HOURS)
    if new == "apr":
        return rate / BPS * (HOURS_PER_YEAR / REFERENCE_HOURS)
    if new == "apy":
        return np.expm1(HOURS_PER_YEAR / hours * np.log1p(rate / BPS * hours / REFERENCE_HOURS))
    return rate


def _labelled(result: Any, name: str, unit: str, source: Any, needed: str) -> Any:
    """Label what was computed from `source`; numbers and arrays without labels stay as they are.

    xarray keeps attributes through arithmetic since its version 2025.11, and did not before: without this an
    annual rate would go on calling itself basis points per 8 hours, or have no unit.

    Raises
    ------
    ValueError
        `source` says another unit than `needed`.
    """
    attrs = dict(source.attrs) if hasattr(source, "assign_attrs") else {}
    if attrs.get("units", needed) != needed:
        raise ValueError(
            f"values are in {attrs['units']!r} and this converts from {needed!r}: are they converted already?"
        )
    if hasattr(result, "data_vars"):
        return result
    if hasattr(result, "assign_attrs"):
        result = result.rename(name)
        result.attrs = attrs | {"units": unit}
        return result
    return result.rename(name) if hasattr(result, "index") and hasattr(result, "array") else result
