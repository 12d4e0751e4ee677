"""Small funding histories whose every value says where it stands."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

START = pd.Timestamp("2026-01-30", tz="UTC")
EVER = (pd.Timestamp("2000-01-01", tz="UTC"), pd.Timestamp("2100-01-01", tz="UTC"))


def rates(
    symbols: Sequence[str] = ("BTC", "ETH"),
    venues: Sequence[str] = ("binance", "okx"),
    *,
    hours: int = 96,
    start: pd.Timestamp = START,
    plus: float = 0.0,
) -> pd.DataFrame:
    """Hourly rates: the hour's number, and `plus`."""
    times = pd.date_range(start, periods=hours, freq="h").as_unit("us")
    return pd.concat(
        [
            pd.DataFrame(
                {
                    "symbol": symbol,
                    "exchange": exchange,
                    "time": times,
                    "rate_bps_8h": [plus + i for i in range(hours)],
                    "resolution": "raw",
                    "kind": "sampled",
                }
            )
            for symbol in symbols
            for exchange in venues
        ],
        ignore_index=True,
    )
