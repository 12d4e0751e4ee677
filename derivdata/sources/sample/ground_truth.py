"""The parameters behind the sample, so that analysis can be tested against them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from derivdata.sources.sample import liquidations as process
from derivdata.sources.sample import oi_volume, paths, realisations
from derivdata.sources.sample.facts import MODELS
from derivdata.sources.sample.grid import DAY_US, NOW, instants
from derivdata.sources.sample.universe import FOREVER, Pairs, exchange_names, select, symbols, venue_values
from derivdata.support import times


def truth(
    topic: str,
    *,
    symbols: Sequence[str] | None = None,
    venues: Sequence[str] | None = None,
    start: times.Instant | None = None,
    end: times.Instant | None = None,
) -> pd.DataFrame:
    """Return what the sample was made from.

    Parameters
    ----------
    topic
        ``"funding"``
            Per pair, its spread over the symbol's base rate, an OU process: mean and standard deviation
            [bps/8h], half-life [h]. A venue whose style is not ``free`` shows ``p + clamp(1 − p, ±band)`` of
            the sum p. `start` and `end` of trading; no end is missing.
        ``"funding_base"``
            Per symbol, the base rate ``mean + deviation (x + tail x³)`` [bps/8h] of a unit OU process x;
            `squeezed` says that jumps which fade within a day are added.
        ``"spreads"``
            Pairs of free venues with one half-life: the rate on `exchange` less that on `other_exchange` is
            an OU process with this mean, standard deviation and half-life.
        ``"intervals"``
            Native intervals, one row per pair and instant from which one holds.
        ``"oi"``
            Per pair, ``oi_usd = level_usd × e^(growth t) × price/centre × e^z``: t in years of 365 days from
            the sample's start, z an OU process.
        ``"prices"``
            Per symbol, centre, volatility [1/√year] and half-life of the log price.
        ``"liquidations"``
            Per symbol, clusters a day, branching ratio, mean delay to a child [s], Pareto law of the values.
        ``"shocks"``
            Instants of the market-wide shocks.
        ``"clusters"``
            Clusters of liquidations that begin in the window.
        ``"premium"``
            Per pair and five minutes of the window, the mark over the index less one [bps]: the premium from
            which the funding rate is formed, before its clamp.
        ``"surface"``
            Parameters of the options' model, forward and spot of every expiry open at each full hour of the
            window: those of `derivdata.sources.sample.options.bates.Bates`, the
            same for all expiries of an instant; ``expected_variance``, the expected quadratic variation;
            ``atm_iv``, the volatility at the forward.
        ``"volatilities"``
            Volatility and log-moneyness of every strike, expiry and full hour of the window.
    symbols, venues
        What to keep; None is everything.
    start, end
        Half-open window, for the last four topics alone; unless given, the last hour up to the sample's
        clock and that instant itself.

    Returns
    -------
    DataFrame
        Rows sorted by symbol, exchange and time, as far as the topic has them. Numbers are not rounded.

    Raises
    ------
    ValueError
        The topic is unknown, or the topic has no time and a window was given.
    """
    if topic in _TIMELESS:
        if start is not None or end is not None:
            raise ValueError(f"topic {topic!r} has no time: leave out start and end")
        return _TIMELESS[topic](select(symbols, venues))
    if topic not in TOPICS:
        raise ValueError(f"topic={topic!r} is not one of {', '.join(TOPICS)}")
    window = times.window(
        NOW - pd.Timedelta(1, "h") if start is None else start,
        NOW + pd.Timedelta(1, "us") if end is None else end,
    )
    first, last = times.us(window.start), times.us(window.end)
    return _TIMED[topic](first, last, symbols, venues)


def _named(chosen: Pairs) -> dict[str, Any]:
    return {
        "symbol": np.array(symbols().name, dtype=object)[chosen.symbol],
        "exchange": np.array(exchange_names(), dtype=object)[chosen.exchange],
    }


def _funding(chosen: Pairs) -> pd.DataFrame:
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


def _per_symbol(chosen: Pairs, **values: Any) -> pd.DataFrame:
    """Return values of every symbol for those of the pairs; a single value is that of all."""
    own = np.unique(chosen.symbol)
    columns = {name: v[own] if isinstance(v, np.ndarray) else v for name, v in values.items()}
    return pd.DataFrame({"symbol": np.array(symbols().name, dtype=object)[own], **columns})


def _funding_base(chosen: Pairs) -> pd.DataFrame:
    s = symbols()
    return _per_symbol(
        chosen,
        mean_bps_8h=s.base,
        deviation_bps_8h=s.base_deviation,
        tail=s.base_tail,
        half_life_hours=s.base_half_life,
        squeezed=s.squeezed,
    )


def _spreads(chosen: Pairs) -> pd.DataFrame:
    table = _funding(chosen).query("style == 'free'")
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


def _intervals(chosen: Pairs) -> pd.DataFrame:
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


def _oi(chosen: Pairs) -> pd.DataFrame:
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


def _prices(chosen: Pairs) -> pd.DataFrame:
    s, half_life = symbols(), paths.PRICE_HALF_LIFE_HOURS
    return _per_symbol(chosen, centre_usd=s.price, volatility=s.volatility, half_life_hours=half_life)


def _liquidations(chosen: Pairs) -> pd.DataFrame:
    return _per_symbol(
        chosen,
        clusters_per_day=process.starts_per_day(),
        branching=process.BRANCHING,
        delay_seconds=process.DELAY_SECONDS,
        smallest_usd=process.smallest_usd(),
        largest_usd=process.LARGEST_USD,
        tail=process.TAIL,
    )


def _shocks(_: Pairs) -> pd.DataFrame:
    return pd.DataFrame({"time": times.parse(process.SHOCKS)})


_TIMELESS: dict[str, Callable[[Pairs], pd.DataFrame]] = {
    "funding": _funding,
    "funding_base": _funding_base,
    "spreads": _spreads,
    "intervals": _intervals,
    "oi": _oi,
    "prices": _prices,
    "liquidations": _liquidations,
    "shocks": _shocks,
}
_TIMED = {
    "clusters": realisations.clusters,
    "premium": realisations.premium,
    "surface": realisations.surface,
    "volatilities": realisations.volatilities,
}
TOPICS = (*_TIMELESS, *_TIMED)
