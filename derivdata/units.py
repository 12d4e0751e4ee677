"""Rate conversions: the only place that knows 8, 365 and 1e4.

Three ways to state one funding rate:

- ``bps_8h``: basis points of notional per 8 hours, whatever the venue's interval (the API's unit)
- ``native``: decimal fraction of notional per the venue's own interval of `interval_hours`
- ``apr``, ``apy``: decimal fraction per 365 days, simple or compounded at every native payment

What a position pays or earns over some hours is in bps of its notional (`bps_from_bps_8h`): the only one of
these figures that may be added over time.

Every function works on floats, numpy arrays, pandas and xarray objects alike; NaN stays NaN. A DataArray
comes back with its own attributes, the name and the ``units`` of what it now is; one that says another unit
than the function converts from is refused, so that nothing is converted twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from derivdata.support.arguments import Numbers, typed

__all__ = [
    "apr_from_bps",
    "apr_from_bps_8h",
    "apy_from_bps_8h",
    "bps_8h_from_apr",
    "bps_8h_from_apy",
    "bps_8h_from_bps",
    "bps_8h_from_native",
    "bps_from_bps_8h",
    "native_from_bps_8h",
]


def __dir__() -> list[str]:
    return __all__


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


def _labelled(result: Any, name: str, unit: str, source: Any, argument: str, needed: str) -> Any:
    """Label what was computed from `source`; numbers and arrays without labels stay as they are.

    xarray keeps attributes through arithmetic since its version 2025.11, and did not before: without this an
    annual rate would go on calling itself basis points per 8 hours, or have no unit.

    Raises
    ------
    ValueError
        `source` says another unit than `needed`; the message names the argument.
    """
    attrs = dict(source.attrs) if hasattr(source, "assign_attrs") else {}
    if attrs.get("units", needed) != needed:
        raise ValueError(
            f"{argument} is in {attrs['units']!r} and this converts from {needed!r}: is it converted already?"
        )
    if hasattr(result, "data_vars"):
        return result
    if hasattr(result, "assign_attrs"):
        result = result.rename(name)
        result.attrs = attrs | {"units": unit}
        return result
    return result.rename(name) if hasattr(result, "index") and hasattr(result, "array") else result


@typed
def bps_8h_from_native(rate: Numbers, interval_hours: Numbers) -> Any:
    """Return basis points per 8 hours of a decimal rate per native interval.

    ``rate × 10,000 × 8 / interval_hours``: 0.0000125 an hour is 1 bps/8h.

    Examples
    --------
    >>> dd.units.bps_8h_from_native(0.0000125, interval_hours=1)
    1.0
    """
    result = rate * BPS * REFERENCE_HOURS / interval_hours
    return _labelled(result, "rate_bps_8h", RATE_UNIT, rate, "rate", NATIVE_UNIT)


@typed
def native_from_bps_8h(rate_bps_8h: Numbers, interval_hours: Numbers) -> Any:
    """Return the decimal rate per native interval of basis points per 8 hours."""
    result = rate_bps_8h / BPS * interval_hours / REFERENCE_HOURS
    return _labelled(result, "rate_native", NATIVE_UNIT, rate_bps_8h, "rate_bps_8h", RATE_UNIT)


@typed
def apr_from_bps_8h(rate_bps_8h: Numbers) -> Any:
    """Return the simple annual rate (decimal, 365 days): 1 bps/8h is 0.1095.

    Examples
    --------
    >>> round(dd.units.apr_from_bps_8h(1.0), 6)
    0.1095
    """
    result = rate_bps_8h / BPS * (HOURS_PER_YEAR / REFERENCE_HOURS)
    return _labelled(result, "apr", APR_UNIT, rate_bps_8h, "rate_bps_8h", RATE_UNIT)


@typed
def bps_8h_from_apr(apr: Numbers) -> Any:
    """Return basis points per 8 hours of a simple annual rate (decimal)."""
    result = apr * BPS / (HOURS_PER_YEAR / REFERENCE_HOURS)
    return _labelled(result, "rate_bps_8h", RATE_UNIT, apr, "apr", APR_UNIT)


@typed
def apy_from_bps_8h(rate_bps_8h: Numbers, interval_hours: Numbers) -> Any:
    """Return the annual rate (decimal) of basis points per 8 hours, compounded every `interval_hours`.

    Examples
    --------
    >>> round(float(dd.units.apy_from_bps_8h(1.0, interval_hours=8)), 5)
    0.11571
    """
    payment = rate_bps_8h / BPS * interval_hours / REFERENCE_HOURS
    result = np.expm1(HOURS_PER_YEAR / interval_hours * np.log1p(payment))
    return _labelled(result, "apy", APY_UNIT, rate_bps_8h, "rate_bps_8h", RATE_UNIT)


@typed
def bps_8h_from_apy(apy: Numbers, interval_hours: Numbers) -> Any:
    """Return basis points per 8 hours whose compounding every `interval_hours` gives `apy` (decimal)."""
    payment = np.expm1(np.log1p(apy) * interval_hours / HOURS_PER_YEAR)
    result = payment * BPS * REFERENCE_HOURS / interval_hours
    return _labelled(result, "rate_bps_8h", RATE_UNIT, apy, "apy", APY_UNIT)


@typed
def bps_from_bps_8h(rate_bps_8h: Numbers, hours: Numbers) -> Any:
    """Return the basis points of notional that a rate accrues over `hours`: 1 bps/8h over 30 days is 90 bps.

    Examples
    --------
    >>> dd.units.bps_from_bps_8h(1.0, hours=30 * 24)
    90.0
    """
    result = rate_bps_8h * (hours / REFERENCE_HOURS)
    return _labelled(result, "amount_bps", BPS_UNIT, rate_bps_8h, "rate_bps_8h", RATE_UNIT)


@typed
def bps_8h_from_bps(amount_bps: Numbers, hours: Numbers) -> Any:
    """Return the mean rate [bps/8h] of an amount [bps of notional] that accrued over `hours`."""
    result = amount_bps * (REFERENCE_HOURS / hours)
    return _labelled(result, "rate_bps_8h", RATE_UNIT, amount_bps, "amount_bps", BPS_UNIT)


@typed
def apr_from_bps(amount_bps: Numbers, hours: Numbers) -> Any:
    """Return the simple annual rate (decimal) of an amount [bps of notional] that accrued over `hours`."""
    result = amount_bps / BPS * (HOURS_PER_YEAR / hours)
    return _labelled(result, "apr", APR_UNIT, amount_bps, "amount_bps", BPS_UNIT)
