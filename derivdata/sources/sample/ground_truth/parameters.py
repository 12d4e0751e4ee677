"""Parameters of the processes behind the sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from derivdata.sources.sample import liquidations as process
from derivdata.sources.sample import oi_volume
from derivdata.sources.sample import prices as price_paths
from derivdata.sources.sample.grid import DAY_US, Ints, instants
from derivdata.sources.sample.universe import FOREVER, Pairs, exchange_names, symbols, venue_values
from derivdata.sources.sample.venue_models import MODELS
from derivdata.support import times

__all__ = [
    "funding",
    "funding_base",
    "intervals",
    "liquidations",
    "oi",
    "prices",
    "shocks",
    "spreads",
]


def _named(chosen: Pairs) -> dict[str, Any]:
    return {
        "symbol": np.array(symbols().name, dtype=object)[chosen.symbol],
        "exchange": np.array(exchange_names(), dtype=object)[chosen.exchange],
    }


def _own(chosen: Pairs) -> Ints:
    return np.unique(chosen.symbol)


def funding(chosen: Pairs) -> pd.DataFrame:
    """Return, per pair, the unclamped spread over the base rate, the clamp, and the span of trading."""
    scale = symbols().scale[chosen.symbol]
    style = np.array([MODELS[v].style for v in exchange_names()], dtype=object)[chosen.exchange]
    until = np.where(chosen.until == FOREVER, np.iinfo(np.int64).min, chosen.until * DAY_US)
    return pd.DataFrame(
        {
            **_named(chosen),
            "style": style,
            "mean_bps_8h": scale * venue_values("offset")[chosen.exchange],
            "deviation_bps_8h": scale * venue_values("deviation")[chosen.exchange],
            "half_life_hours": venue_values("half_life")[chosen.exchange],
            "band_bps_8h": np.where(style == "free", np.nan, venue_values("band")[chosen.exchange]),
            "start": instants(chosen.since * DAY_US),
            "end": instants(until),
        }
    )


def funding_base(chosen: Pairs) -> pd.DataFrame:
    """Return the base rate per symbol."""
    s, own = symbols(), _own(chosen)
    return pd.DataFrame(
        {
            "symbol": np.array(s.name, dtype=object)[own],
            "mean_bps_8h": s.base[own],
            "deviation_bps_8h": s.base_deviation[own],
            "tail": s.base_tail[own],
            "half_life_hours": s.base_half_life[own],
            "squeezed": s.squeezed[own],
        }
    )


def spreads(chosen: Pairs) -> pd.DataFrame:
    """Return pairs of free venues whose spreads have one half-life."""
    table = funding(chosen).query("style == 'free'")
    both = table.merge(table, on=["symbol", "half_life_hours"], suffixes=("", "_other"))
    both = both.query("exchange < exchange_other").reset_index(drop=True)
    return pd.DataFrame(
        {
            "symbol": both["symbol"],
            "exchange": both["exchange"],
            "other_exchange": both["exchange_other"],
            "mean_bps_8h": both["mean_bps_8h"] - both["mean_bps_8h_other"],
            "deviation_bps_8h": np.hypot(both["deviation_bps_8h"], both["deviation_bps_8h_other"]),
            "half_life_hours": both["half_life_hours"],
        }
    )


def intervals(chosen: Pairs) -> pd.DataFrame:
    """Return native intervals, one row per pair and instant from which one holds."""
    changed = chosen.take(np.flatnonzero((chosen.change > chosen.since) & (chosen.change < chosen.until)))
    first = np.where(chosen.since < chosen.change, chosen.interval, chosen.later_interval)
    parts = [
        pd.DataFrame({**_named(p), "time": instants(day * DAY_US), "interval_hours": hours.astype(float)})
        for p, day, hours in (
            (chosen, chosen.since, first),
            (changed, changed.change, changed.later_interval),
        )
    ]
    return pd.concat(parts).sort_values(["symbol", "exchange", "time"], ignore_index=True)


def oi(chosen: Pairs) -> pd.DataFrame:
    """Return level, growth and noise of open interest, and turnover, per pair."""
    s = symbols()
    return pd.DataFrame(
        {
            **_named(chosen),
            "level_usd": s.oi[chosen.symbol] * chosen.share,
            "growth_per_year": s.trend[chosen.symbol] + venue_values("growth")[chosen.exchange],
            "deviation": oi_volume.OI_DEVIATION,
            "half_life_hours": oi_volume.OI_HALF_LIFE_HOURS,
            "turnover_per_day": venue_values("turnover")[chosen.exchange],
        }
    )


def prices(chosen: Pairs) -> pd.DataFrame:
    """Return the law of the price path per symbol."""
    s, own = symbols(), _own(chosen)
    return pd.DataFrame(
        {
            "symbol": np.array(s.name, dtype=object)[own],
            "centre_usd": s.price[own],
            "volatility": s.volatility[own],
            "half_life_hours": price_paths.HALF_LIFE_HOURS,
        }
    )


def liquidations(chosen: Pairs) -> pd.DataFrame:
    """Return the law of the clusters and of the orders per symbol."""
    own = _own(chosen)
    return pd.DataFrame(
        {
            "symbol": np.array(symbols().name, dtype=object)[own],
            "clusters_per_day": process.starts_per_day()[own],
            "branching": process.BRANCHING,
            "delay_seconds": process.DELAY_SECONDS,
            "smallest_usd": process.smallest_usd()[own],
            "largest_usd": process.LARGEST_USD,
            "tail": process.TAIL,
        }
    )


def shocks(chosen: Pairs) -> pd.DataFrame:
    """Return instants of the market-wide shocks."""
    return pd.DataFrame({"time": times.parse(process.SHOCKS)})
