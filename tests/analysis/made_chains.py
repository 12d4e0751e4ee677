"""Hand-made chains: rows based on a plain call, and one chain a day at noon with Deribit's listing."""

from typing import Any

import numpy as np
import pandas as pd

__all__ = ["MONTH", "NOW", "daily_chains", "hourly_chains", "options"]

_STEPS = ((0.03, 500.0), (0.1, 1_000.0), (0.3, 2_000.0), (np.inf, 5_000.0))
"""Distance between strikes [USD] up to so many years to expiry."""


NOW = pd.Timestamp("2026-01-02T00:00", tz="UTC").as_unit("us")
MONTH = pd.Timestamp("2026-01-30T08:00", tz="UTC").as_unit("us")


def options(*rows: dict[str, Any], **common: Any) -> pd.DataFrame:
    """Rows of the table, each on top of a plain call a month before expiry."""
    plain = {
        "symbol": "BTC",
        "exchange": "deribit",
        "time": NOW,
        "expiry": MONTH,
        "strike": 100.0,
        "side": "call",
        "iv": 0.6,
        "open_interest": 1.0,
        "underlying_price": 100.0,
    }
    return pd.DataFrame([plain | common | row for row in rows])


def daily_chains(days: int, *, seed: int = 1) -> pd.DataFrame:
    """Calls and puts of some 40 strikes an expiry, around an underlying that moves by 2.5 % a day."""
    walk = np.random.default_rng(seed).standard_normal(days).cumsum()
    frames = [
        _chain(pd.Timestamp("2025-01-01T12:00Z") + pd.Timedelta(i, "D"), 9e4 * np.exp(0.025 * x))
        for i, x in enumerate(walk)
    ]
    return pd.concat(frames, ignore_index=True)


def hourly_chains(hours: int, *, seed: int = 1) -> pd.DataFrame:
    """Chains an hour apart: the underlying moves by 0.5 % an hour, the volatility by 1 % of itself."""
    random = np.random.default_rng(seed)
    walk, level = random.standard_normal((2, hours)).cumsum(axis=1)
    frames = []
    for i in range(hours):
        made = _chain(pd.Timestamp("2025-01-01T12:00Z") + pd.Timedelta(i, "h"), 9e4 * np.exp(0.005 * walk[i]))
        noise = 1.0 + 0.001 * random.standard_normal(len(made))
        frames.append(made.assign(iv=made["iv"] * np.exp(0.01 * level[i]) * noise))
    return pd.concat(frames, ignore_index=True)


def _chain(at: pd.Timestamp, spot: float) -> pd.DataFrame:
    slices = []
    for expiry in _expiries(at):
        years = (expiry - at) / pd.Timedelta(365, "D")
        step = next(step for longest, step in _STEPS if years < longest)
        strikes = (
            np.unique(np.round(spot * np.exp(np.linspace(-1.8, 1.8, 41) * np.sqrt(years)) / step)) * step
        )
        k = np.log(strikes / spot)
        iv = 0.5 - 0.05 * k + 0.03 * k * k / years
        slices.append(pd.DataFrame({"expiry": expiry, "strike": strikes, "iv": iv}))
    one_side = pd.concat(slices, ignore_index=True)
    chain = pd.concat([one_side.assign(side=side) for side in ("call", "put")], ignore_index=True)
    constants = {
        "symbol": "BTC",
        "exchange": "deribit",
        "time": at,
        "open_interest": 1.0,
        "underlying_price": spot,
    }
    return chain.assign(**constants)


def _expiries(at: pd.Timestamp) -> list[pd.Timestamp]:
    morning = at.normalize() + pd.Timedelta(8, "h")
    days = [morning + pd.Timedelta(i, "D") for i in (1, 2, 3)]
    fridays = [morning + pd.Timedelta((3 - at.weekday()) % 7 + 1 + 7 * i, "D") for i in range(4)]
    ends = [at.normalize() + pd.offsets.MonthEnd(n) + pd.Timedelta(8, "h") for n in (2, 3, 6, 9)]
    return sorted({*days, *fridays, *ends})
