"""Recorded Deribit chains as the table ``options_snapshot``, with their prices in coin."""

from pathlib import Path

import pandas as pd

from tests.support.shared import shared_path

STAMPS_2026 = (
    "20260105T041127Z",
    "20260106T153240Z",
    "20260108T092148Z",
    "20260113T092145Z",
    "20260116T092000Z",
    "20260120T092708Z",
    "20260122T092642Z",
    "20260124T211821Z",
)


def chain_2026(stamp: str) -> pd.DataFrame:
    return snapshot(shared_path(f"data/options_deribit_2026/deribit_options_snapshot_{stamp}.csv"))


def snapshot(path: Path) -> pd.DataFrame:
    """Read a file of BTC and ETH chains."""
    raw = pd.read_csv(path)
    return pd.DataFrame(
        {
            "symbol": pd.Categorical(raw["currency"]),
            "exchange": pd.Categorical(["deribit"] * len(raw)),
            "time": pd.to_datetime(raw["timestamp"], utc=True).dt.as_unit("us"),
            "instrument_name": raw["instrument_name"],
            "expiry": pd.to_datetime(raw["expiry_datetime"], utc=True).dt.as_unit("us"),
            "strike": raw["strike"],
            "side": pd.Categorical(raw["option_type"], categories=["call", "put"]),
            "iv": raw["implied_volatility"],
            "delta": raw["delta"],
            "vega": raw["vega"],
            "open_interest": raw["open_interest"],
            "underlying_price": raw["underlying"],
            "bid_coin": raw["bid_price"],
            "ask_coin": raw["ask_price"],
            "mark_coin": raw["mark_price"],
        }
    )


def chain_2025() -> pd.DataFrame:
    """BTC of about 2025-12-05 01:10 UTC; volatilities in percent, expiries as dates, no greeks."""
    raw = pd.read_csv(shared_path("data/options_deribit_2025/deribit_btc_options.csv"))
    return pd.DataFrame(
        {
            "symbol": pd.Categorical(["BTC"] * len(raw)),
            "exchange": pd.Categorical(["deribit"] * len(raw)),
            "instrument_name": raw["instrument_name"],
            "expiry": pd.to_datetime(raw["expiry_date"], format="%d%b%y"),
            "strike": raw["strike"],
            "side": pd.Categorical(raw["type"], categories=["call", "put"]),
            "iv": raw["mark_iv"],
            "open_interest": raw["open_interest"],
            "underlying_price": raw["S0"],
            "bid_coin": raw["bid_btc"],
            "ask_coin": raw["ask_btc"],
            "mark_coin": raw["market_price_btc"],
        }
    )
