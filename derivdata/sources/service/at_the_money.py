"""Volatility at the money of chains of options, and which chain holds at a full hour."""

from __future__ import annotations

import numpy as np
import pandas as pd

from derivdata.sources.service import buckets
from derivdata.support.arrays import Indices

__all__ = ["COLUMNS", "at_hours", "at_the_money"]

COLUMNS = ("time", "expiry", "strike", "iv", "underlying_price")
"""What both functions read of a chain, and return."""


def at_the_money(chains: pd.DataFrame) -> pd.DataFrame:
    """Return the strike nearest the underlying and the mean volatility there, by time and expiry.

    The lower of two strikes that are equally near. Rows may come in any order, and of any number of chains:
    each quantity is a minimum or sum over the cell (time, expiry) of a row, so that nothing is sorted.
    """
    strike, iv, underlying = (chains[name].to_numpy() for name in COLUMNS[2:])
    quoted = (iv > 0) & (underlying > 0)
    strike, iv, underlying = strike[quoted], iv[quoted], underlying[quoted]
    (time, stamps), (expiry, expiries) = (
        pd.factorize(chains[name].array.asi8[quoted], sort=True) for name in ("time", "expiry")
    )
    cell = time * len(expiries) + expiry
    cells = len(stamps) * len(expiries)
    distance = np.abs(strike - underlying)
    least = np.full(cells, np.inf)
    np.minimum.at(least, cell, distance)
    nearest = np.flatnonzero(distance == least[cell])
    lowest = np.full(cells, np.inf)
    np.minimum.at(lowest, cell[nearest], strike[nearest])
    there = np.flatnonzero(strike == lowest[cell])  # call and put, and whatever else has that strike
    count = np.bincount(cell[there], minlength=cells)
    seen = np.flatnonzero(count)
    means = [
        np.bincount(cell[there], values[there], minlength=cells)[seen] / count[seen]
        for values in (iv, underlying)
    ]
    place, which = np.divmod(seen, max(len(expiries), 1))
    instants = _instants(np.asarray(stamps)[place]), _instants(np.asarray(expiries)[which])
    columns = (*instants, lowest[seen], means[0].round(6), means[1])
    return pd.DataFrame(dict(zip(COLUMNS, columns, strict=True)), copy=False)


def at_hours(chains: pd.DataFrame, hours: pd.DatetimeIndex) -> pd.DataFrame:
    """Return the same for each hour: of the newest chain that still holds, stamped with the hour."""
    stamps = np.unique(chains["time"].array.asi8)
    full = hours.as_unit("us").asi8
    newest = np.searchsorted(stamps, full, side="right") - 1
    full, newest = full[newest >= 0], newest[newest >= 0]
    fresh = full - stamps[newest] <= buckets.micros_of(buckets.HOLD)
    full, stamp = full[fresh], stamps[newest[fresh]]
    rows = at_the_money(chains)
    first, last = (np.searchsorted(rows["time"].array.asi8, stamp, side=side) for side in ("left", "right"))
    count = last - first
    # Rows of all hours in turn: the j-th one, of hour i, is row j + last_i − (rows up to and with hour i).
    place = np.arange(count.sum()) + np.repeat(last - np.cumsum(count), count)
    hourly = rows.take(place).assign(time=_instants(np.repeat(full, count)))
    return hourly[hourly["expiry"] > hourly["time"]].reset_index(drop=True)


def _instants(micros: Indices) -> pd.DatetimeIndex:
    return pd.DatetimeIndex(micros.view("M8[us]")).tz_localize("UTC")
