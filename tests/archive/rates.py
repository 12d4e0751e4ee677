"""Small funding histories whose values state their position."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from derivdata import tables
from derivdata.sources.archive import manifest

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


def interest(
    symbol: str, exchange: str, first: int, values: Any, resolution: str = "1h", start: pd.Timestamp = START
) -> pd.DataFrame:
    """Return hourly open interest from a given hour on."""
    times = start + pd.to_timedelta(np.arange(first, first + len(values)), "h")
    held = np.asarray(values, dtype=float)
    fixed = {"symbol": symbol, "exchange": exchange, "resolution": resolution}
    return pd.DataFrame({"time": times.as_unit("us"), "oi_usd": held, **fixed})


def conformed(frame: pd.DataFrame) -> pd.DataFrame:
    """Rates as the archive gives them."""
    return tables.TABLES["funding_history"].conform(frame)


def said(folder: Path) -> dict[str, Any]:
    """The manifest in a folder, without its seal."""
    text: dict[str, Any] = json.loads((folder / "archive.json").read_bytes())
    del text["seal"]
    return text


def say(folder: Path, text: dict[str, Any]) -> None:
    """Write a manifest with its seal."""
    plain = json.dumps(text, separators=(",", ":")).encode()
    (folder / "archive.json").write_bytes(manifest.sealed(plain))
