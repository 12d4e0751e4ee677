"""History responses in a simple implementation with frames: oracles of the faster ones."""

from __future__ import annotations

import pandas as pd

from derivdata.sources.service.data import windows

_KEYS = ["time", "expiry"]


def at_hours(frame: pd.DataFrame, hours: pd.DatetimeIndex) -> pd.DataFrame:
    """Return each hour's newest valid chain, stamped with the hour."""
    stamps = pd.DatetimeIndex(frame["time"].drop_duplicates().sort_values())
    place = stamps.searchsorted(hours, side="right") - 1
    hours, place = hours[place >= 0], place[place >= 0]
    fresh = hours - stamps[place] <= windows.HOLD
    chosen = pd.DataFrame({"time": stamps[place[fresh]], "hour": hours[fresh]})
    stamped = frame.merge(chosen, on="time").drop(columns="time").rename(columns={"hour": "time"})
    return stamped[stamped["expiry"] > stamped["time"]]


def at_the_money(chains: pd.DataFrame) -> pd.DataFrame:
    """Strike nearest the underlying (the lower of two) and the mean volatility there, by time and expiry."""
    quoted = chains[(chains["iv"] > 0) & (chains["underlying_price"] > 0)]
    distance = (quoted["strike"] - quoted["underlying_price"]).abs()
    nearest = quoted.assign(distance=distance).sort_values([*_KEYS, "distance", "strike"])
    nearest = nearest.drop_duplicates(_KEYS)[[*_KEYS, "strike"]]
    there = quoted.merge(nearest, on=[*_KEYS, "strike"])
    means = there.groupby([*_KEYS, "strike"])[["iv", "underlying_price"]].mean().reset_index()
    return means.round({"iv": 6})


def liquidated(orders: pd.DataFrame, length: pd.Timedelta) -> pd.DataFrame:
    value, side = orders["value_usd"], orders["side"]
    parts = {
        "long_usd": value.where(side == "long", 0.0),
        "short_usd": value.where(side == "short", 0.0),
        "unknown_usd": value.where(~side.isin(["long", "short"]), 0.0),
    }
    split = orders[["exchange"]].assign(time=orders["time"].dt.floor(length), **parts)
    sums = split.groupby(["time", "exchange"], observed=True)[[*parts]].sum().round(2)
    return sums.reset_index().astype({"exchange": object})
