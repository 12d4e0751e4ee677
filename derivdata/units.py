"""Rate conversions: the only place that knows 8, 365 and 1e4.

Three ways to state one funding rate:

- ``bps_8h``: basis points of notional per 8 hours, whatever the venue's interval (the API's unit)
- ``native``: decimal fraction of notional per the venue's own interval of `interval_hours`
- ``apr``, ``apy``: decimal fraction per 365 days, simple or compounded at every native payment

What a position pays or earns over some hours is in bps of its notional (`bps_from_bps_8h`): the only one of
these figures that may be added over time. The labels `RATE_UNIT`, `NATIVE_UNIT`, `HOUR_UNIT`, `USD_UNIT` are
the ``units`` of columns and panels.

Every function works on floats, numpy arrays, pandas and xarray objects alike; NaN stays NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from derivdata.arguments import Numbers, typed

__all__ = [
    "BPS",
    "BPS_UNIT",
    "HOURS_PER_YEAR",
    "HOUR_UNIT",
    "NATIVE_UNIT",
    "RATE_UNIT",
    "REFERENCE_HOURS",
    "SECONDS_PER_YEAR",
    "USD_UNIT",
    "apr_from_bps",
    "apr_from_bps_8h",
    "apy_from_bps_8h",
    "apy_from_native",
    "bps_8h_from_apr",
    "bps_8h_from_apy",
    "bps_8h_from_bps",
    "bps_8h_from_native",
    "bps_from_bps_8h",
    "native_from_apy",
    "native_from_bps_8h",
]


def __dir__() -> list[str]:
    return __all__


BPS = 1e4
REFERENCE_HOURS = 8.0
HOURS_PER_YEAR = 8760.0
SECONDS_PER_YEAR = 31_536_000.0

RATE_UNIT = "bps/8h"
NATIVE_UNIT = "fraction per interval"
BPS_UNIT = "bps"
HOUR_UNIT = "h"
USD_UNIT = "USD"


@typed
def bps_8h_from_native(rate: Numbers, interval_hours: Numbers) -> Any:
    """Basis points per 8 hours from a decimal rate per native interval.

    ``rate × 10,000 × 8 / interval_hours``: 0.0000125 an hour is 1 bps/8h.

    Examples
    --------
    >>> dd.units.bps_8h_from_native(0.0000125, interval_hours=1)
    1.0
    """
    return rate * BPS * REFERENCE_HOURS / interval_hours


@typed
def native_from_bps_8h(rate_bps_8h: Numbers, interval_hours: Numbers) -> Any:
    """Decimal rate per native interval from basis points per 8 hours."""
    return rate_bps_8h / BPS * interval_hours / REFERENCE_HOURS


@typed
def apr_from_bps_8h(rate_bps_8h: Numbers) -> Any:
    """Simple annual rate (decimal, 365 days): 1 bps/8h is 0.1095.

    Examples
    --------
    >>> round(dd.units.apr_from_bps_8h(1.0), 6)
    0.1095
    """
    return rate_bps_8h / BPS * (HOURS_PER_YEAR / REFERENCE_HOURS)


@typed
def bps_8h_from_apr(apr: Numbers) -> Any:
    """Basis points per 8 hours from a simple annual rate (decimal)."""
    return apr * BPS / (HOURS_PER_YEAR / REFERENCE_HOURS)


@typed
def apy_from_native(rate: Numbers, interval_hours: Numbers) -> Any:
    """Annual rate (decimal) compounded at every native payment: 0.0001 per 8 h is 0.11571.

    Examples
    --------
    >>> round(float(dd.units.apy_from_native(0.0001, interval_hours=8)), 5)
    0.11571
    """
    return np.expm1(HOURS_PER_YEAR / interval_hours * np.log1p(rate))


@typed
def native_from_apy(apy: Numbers, interval_hours: Numbers) -> Any:
    """Decimal rate per native interval whose compounding gives `apy` (decimal)."""
    return np.expm1(np.log1p(apy) * interval_hours / HOURS_PER_YEAR)


@typed
def apy_from_bps_8h(rate_bps_8h: Numbers, interval_hours: Numbers) -> Any:
    """Annual rate (decimal) of basis points per 8 hours, compounded every `interval_hours`."""
    return apy_from_native(native_from_bps_8h(rate_bps_8h, interval_hours), interval_hours)


@typed
def bps_8h_from_apy(apy: Numbers, interval_hours: Numbers) -> Any:
    """Basis points per 8 hours whose compounding every `interval_hours` gives `apy` (decimal)."""
    return bps_8h_from_native(native_from_apy(apy, interval_hours), interval_hours)


@typed
def bps_from_bps_8h(rate_bps_8h: Numbers, hours: Numbers) -> Any:
    """Basis points of notional that a rate accrues over `hours`: 1 bps/8h over 30 days is 90 bps.

    Examples
    --------
    >>> dd.units.bps_from_bps_8h(1.0, hours=30 * 24)
    90.0
    """
    return rate_bps_8h * (hours / REFERENCE_HOURS)


@typed
def bps_8h_from_bps(amount_bps: Numbers, hours: Numbers) -> Any:
    """Mean rate [bps/8h] of an amount [bps of notional] that accrued over `hours`."""
    return amount_bps * (REFERENCE_HOURS / hours)


@typed
def apr_from_bps(amount_bps: Numbers, hours: Numbers) -> Any:
    """Simple annual rate (decimal) of an amount [bps of notional] that accrued over `hours`."""
    return amount_bps / BPS * (HOURS_PER_YEAR / hours)
