"""Funding rates of a report: sampled, or settlements where the source has only those."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd
import xarray as xr

from derivdata.analysis import funding
from derivdata.reports.data import Data
from derivdata.tables.panels import panel
from derivdata.units import RATE_UNIT

__all__ = ["Rates", "rates_of"]

_KEY = ["symbol", "exchange", "time"]


class Rates(NamedTuple):
    """Rates as a panel [bps/8h], the table that they come from, and whether they are settlements."""

    panel: xr.DataArray
    table: pd.DataFrame
    settled: bool


def rates_of(data: Data) -> Rates | None:
    """Return sampled rates of two instants or more, else settlements summed over 8 hours, else None."""
    found: Rates | None = data.computed("rates", lambda: _rates(data))
    return found


def _rates(data: Data) -> Rates | None:
    sampled = data.funding()
    if sampled is not None and sampled["time"].nunique() > 1:  # one instant says nothing of time
        return Rates(panel(sampled), sampled, settled=False)
    paid = data.settlements()
    return None if paid is None else Rates(_summed(paid), paid, settled=True)


def _summed(paid: pd.DataFrame) -> xr.DataArray:
    """Sum settlements over 8 hours; a stamp a few milliseconds late counts for its minute."""
    minute = paid.assign(time=paid["time"].dt.round("min"))
    rows = paid if minute.duplicated(_KEY).any() else minute
    sums = funding.period_sums(rows)["funding_bps"].dropna("time", how="all")
    rates: xr.DataArray = sums.rename("rate_bps_8h").assign_coords(interval_hours=8.0)
    return rates.assign_attrs(units=RATE_UNIT, kind="settled")
