"""A small archive whose every number can be worked out on paper, for the report's tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

import derivdata as dd
from tests.plot import made

START = pd.Timestamp("2026-01-01", tz="UTC")
HOURS = 24 * 16
"""Sixteen days of hourly rows; the report looks back 15 days from the minute after the last of them."""

RATES = {"aster": 0.0, "binance": 1.0, "bybit": 2.0, "okx": 4.0, "zo": 8.0}
"""Funding rates [bps/8h] of BTC, which never move."""

ETH_RATE = 1.0, 4.0
"""Funding rate [bps/8h] of ETH, which binance alone has, until and in the last 24 hours."""


def write(folder: Path) -> str:
    """Write the archive and return its path."""
    archive = dd.open_archive(folder)
    archive.append("funding_history", funding())
    archive.append("oi_history", open_interest())
    archive.append("liquidations_events", liquidations())
    archive.append("options_snapshot", options())
    return str(folder)


def hours() -> pd.DatetimeIndex:
    return pd.date_range(START, periods=HOURS, freq="h")


def window() -> pd.DatetimeIndex:
    """The hours that the report sees: 15 days."""
    return hours()[-15 * 24 :]


def funding() -> pd.DataFrame:
    rows = [("BTC", venue, time, rate) for venue, rate in RATES.items() for time in hours()]
    rows += [("ETH", "binance", time, ETH_RATE[place >= HOURS - 24]) for place, time in enumerate(hours())]
    return dd.tables.TABLES["funding_history"].build(
        {
            "symbol": [row[0] for row in rows],
            "exchange": [row[1] for row in rows],
            "timestamp": pd.DatetimeIndex([row[2] for row in rows]),
            "y": [row[3] for row in rows],
            "resolution": ["1h"] * len(rows),
            "kind": ["sampled"] * len(rows),
        }
    )


def open_interest() -> pd.DataFrame:
    """10 M USD in all; binance has 60 % when the window starts and gains 2 points a day from okx."""
    days = (hours() - window()[0]) / pd.Timedelta(1, "D")
    share = 0.6 + 0.02 * days.to_numpy()
    held = {"binance": 1e7 * share, "okx": 1e7 * (1.0 - share)}
    return dd.tables.TABLES["oi_history"].build(
        {
            "symbol": ["BTC"] * (2 * HOURS),
            "exchange": np.repeat(list(held), HOURS).tolist(),
            "timestamp": hours().append(hours()),
            "open_interest_usd": np.concatenate(list(held.values())),
            "resolution": ["1h"] * (2 * HOURS),
        }
    )


def liquidations() -> pd.DataFrame:
    """Three orders on okx, two on binance, five of them a second apart: a cascade of 3.5 M USD."""
    last = hours()[-1]
    rows = [
        ("okx", "long", last - pd.Timedelta(3, "D"), 250_000.0, 100.0),
        ("okx", "long", last - pd.Timedelta(7200, "s"), 1_000_000.0, 100.0),
        ("okx", "long", last - pd.Timedelta(7199, "s"), 1_000_000.0, 99.0),
        ("binance", "long", last - pd.Timedelta(7198, "s"), 500_000.0, 98.0),
        ("binance", "short", last - pd.Timedelta(7197, "s"), 500_000.0, 98.0),
        ("binance", "long", last - pd.Timedelta(7196, "s"), 500_000.0, 98.0),
    ]
    size = len(rows)
    return dd.tables.TABLES["liquidations_events"].build(
        {
            "exchange": [row[0] for row in rows],
            "oid": [f"order {i}" for i in range(size)],
            "timestamp": pd.DatetimeIndex([row[2] for row in rows]),
            "symbol": ["BTC"] * size,
            "side": [row[1] for row in rows],
            "price": [row[4] for row in rows],
            "avg_price": [row[4] for row in rows],
            "quantity": [row[3] / row[4] for row in rows],
            "filled_quantity": [row[3] / row[4] for row in rows],
            "usd_value": np.array([row[3] for row in rows]),
            "status": ["filled"] * size,
            "fill_count": [1] * size,
        }
    )


def options() -> pd.DataFrame:
    """The figures' chain on deribit at the last hour; two options, at 80 USD, when the window starts."""
    chain = made.chain().assign(exchange="deribit")
    shift = hours()[-1] - made.QUOTED
    chain = chain.assign(time=chain["time"] + shift, expiry=chain["expiry"] + shift)
    names = made.option_names(chain["expiry"], chain["strike"], chain["side"])
    chain = chain.assign(instrument_name=names)
    first = chain.iloc[:2].assign(time=window()[0], underlying_price=80.0)
    return dd.tables.TABLES["options_snapshot"].conform(pd.concat([first, chain], ignore_index=True))
