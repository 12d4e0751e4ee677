"""A small archive whose every number can be worked out on paper, for the report's tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

import derivdata as dd
from tests.plot import made
from tests.support.rows import rows

HOURS = 24 * 16
STAMPS = pd.date_range("2026-01-01", periods=HOURS, freq="h", tz="UTC")
"""Sixteen days of hourly rows; the report looks back 15 days from the minute after the last of them."""

WINDOW = STAMPS[-15 * 24 :]
RATES = {"aster": 0.0, "binance": 1.0, "bybit": 2.0, "okx": 4.0, "zo": 8.0}
"""Funding rates [bps/8h] of BTC, which never move."""

ETH_RATE = 1.0, 4.0
"""Funding rate [bps/8h] of ETH, on binance only, until and in the last 24 hours."""


def write(folder: Path) -> str:
    """Write the archive and return its path."""
    archive = dd.open_archive(folder)
    archive.append("funding_history", funding())
    archive.append("oi_history", open_interest())
    archive.append("liquidations_events", liquidations())
    archive.append("options_snapshot", options())
    return str(folder)


def funding() -> pd.DataFrame:
    results = [("BTC", venue, time, rate) for venue, rate in RATES.items() for time in STAMPS]
    results += [("ETH", "binance", time, ETH_RATE[place >= HOURS - 24]) for place, time in enumerate(STAMPS)]
    frame = pd.DataFrame(results, columns=["symbol", "exchange", "timestamp", "y"])
    return rows("funding_history", **frame, resolution="1h", kind="sampled")


def open_interest() -> pd.DataFrame:
    """10 M USD in all; binance has 60 % when the window starts and gains 2 points a day from okx."""
    days = (STAMPS - WINDOW[0]) / pd.Timedelta(1, "D")
    share = 0.6 + 0.02 * days.to_numpy()
    return rows(
        "oi_history",
        symbol="BTC",
        exchange=np.repeat(["binance", "okx"], HOURS),
        timestamp=STAMPS.append(STAMPS),
        open_interest_usd=1e7 * np.concatenate([share, 1.0 - share]),
        resolution="1h",
    )


def liquidations() -> pd.DataFrame:
    """Three orders on okx, two on binance, five of them a second apart: a cascade of 3.5 M USD."""
    orders = [
        ("okx", "long", 3 * 86400, 250_000.0, 100.0),
        ("okx", "long", 7200, 1_000_000.0, 100.0),
        ("okx", "long", 7199, 1_000_000.0, 99.0),
        ("binance", "long", 7198, 500_000.0, 98.0),
        ("binance", "short", 7197, 500_000.0, 98.0),
        ("binance", "long", 7196, 500_000.0, 98.0),
    ]
    frame = pd.DataFrame(orders, columns=["exchange", "side", "ago", "usd_value", "price"])
    coins = frame["usd_value"] / frame["price"]
    stamps = STAMPS[-1] - pd.to_timedelta(frame.pop("ago"), "s")
    frame = frame.assign(timestamp=stamps, oid=[f"order {i}" for i in range(6)], avg_price=frame["price"])
    frame = frame.assign(quantity=coins, filled_quantity=coins)
    return rows("liquidations_events", **frame, symbol="BTC", status="filled", fill_count=1)


def options() -> pd.DataFrame:
    """The figures' chain on deribit at the last hour; two options, at 80 USD, when the window starts."""
    chain = made.chain().assign(exchange="deribit")
    shift = STAMPS[-1] - made.QUOTED
    chain = chain.assign(time=chain["time"] + shift, expiry=chain["expiry"] + shift)
    names = made.option_names(chain["expiry"], chain["strike"], chain["side"])
    chain = chain.assign(instrument_name=names)
    first = chain.iloc[:2].assign(time=WINDOW[0], underlying_price=80.0)
    return dd.tables.TABLES["options_snapshot"].conform(pd.concat([first, chain], ignore_index=True))
