"""Chains that others recorded and published: four kinds of files as tables ``options_snapshot``.

The files are not part of the project. Their sources are named in docs/methods/surfaces.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.analysis.deribit import snapshot


def chains(path: Path) -> dict[str, pd.DataFrame]:
    """Return the chains of a file, each under the name ``venue,coin,time``."""
    if path.suffix == ".xlsx":
        return _of_tickers(pd.read_excel(path, sheet_name="options_raw"))
    columns = pd.read_csv(path, nrows=0).columns
    if "snapshot_utc" in columns:
        return _of_a_day(pd.read_csv(path))
    if "asof_utc" in columns:
        return _of_okx_tickers(pd.read_csv(path))
    both = snapshot(path)
    return {
        _name("deribit", coin, rows["time"].max()): rows.reset_index(drop=True)
        for coin, rows in both.groupby("symbol", observed=True)
    }


def _name(venue: str, coin: str, time: pd.Timestamp) -> str:
    return f"{venue},{coin},{time:%Y-%m-%d %H:%M}"


def _prices(coin: Any, bid: Any, ask: Any) -> dict[str, Any]:
    """Return prices in coin; a price of 0 is a missing quote."""
    return {"symbol": coin, "bid_coin": bid.where(bid > 0.0), "ask_coin": ask.where(ask > 0.0)}


def _of_a_day(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Read a daily file of sukarenormous-ship-it/options-data: one venue, coins below each other.

    Deribit's volatilities are in percent, OKX's decimal. OKX's underlying price is its index.
    """
    venue = str(rows["exchange"].iloc[0])
    unit = 100.0 if venue == "deribit" else 1.0
    table = pd.DataFrame(
        {
            "exchange": venue,
            "time": pd.to_datetime(rows["snapshot_utc"], utc=True),
            "instrument_name": rows["instrument"],
            "expiry": rows["expiry"],
            "strike": rows["strike"].astype(np.float64),
            "side": rows["type"],
            "iv": (rows["mark_iv"] / unit).where(rows["mark_iv"] > 0.0),
            "open_interest": rows["open_interest"],
            "volume": rows["volume_24h"],
            "underlying_price": rows["underlying_price"],
            "mark_coin": rows["mark_price"],
        }
        | _prices(rows["underlying"], rows["bid"], rows["ask"])
    )
    groups = table.groupby("symbol")
    return {_name(venue, str(coin), own["time"].max()): own.reset_index(drop=True) for coin, own in groups}


def _of_okx_tickers(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Read a file of drewverzino/option-density-viz: one expiry of OKX, without volatilities and marks."""
    coin = str(rows["underlying"].iloc[0])
    table = pd.DataFrame(
        {
            "exchange": "okx",
            "time": pd.to_datetime(rows["asof_utc"], utc=True),
            "instrument_name": rows["symbol"],
            "expiry": rows["expiry"],
            "strike": rows["strike"],
            "side": rows["type"].map({"C": "call", "P": "put"}),
            "iv": np.nan,
            "volume": rows["volume"],
            "index_price_usd": rows["spot"],
        }
        | _prices(coin, rows["bid"], rows["ask"])
    )
    return {_name("okx", coin, table["time"].max()): table}


def _of_tickers(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Read a workbook of mikehyland-quant/crypto-options-relative-value: Deribit tickers one by one."""
    coin = str(rows["base_currency"].iloc[0])
    table = pd.DataFrame(
        {
            "exchange": "deribit",
            "time": pd.to_datetime(rows["timestamp"], unit="ms", utc=True),
            "instrument_name": rows["instrument_name"],
            "expiry": pd.to_datetime(rows["expiration_timestamp"], unit="ms", utc=True),
            "strike": rows["strike"].astype(np.float64),
            "side": rows["option_type"].str.lower(),
            "iv": rows["mark_iv"] / 100.0,
            "open_interest": rows["open_interest"],
            "underlying_price": rows["underlying_price"],
            "mark_coin": rows["mark_price"],
        }
        | _prices(coin, rows["best_bid_price"], rows["best_ask_price"])
    )
    return {_name("deribit", coin, table["time"].max()): table}
