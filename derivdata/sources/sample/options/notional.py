"""Notional open interest and volume of every chain by the hour: sums over the chains themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from derivdata.sources.sample import noise
from derivdata.sources.sample.grid import HOUR_US, instants
from derivdata.sources.sample.options.chains import EXCHANGES, SYMBOLS, markets, open_interest
from derivdata.sources.sample.options.forward_curves import forwards
from derivdata.sources.sample.options.listings import listing, session
from derivdata.sources.sample.universe import text
from derivdata.support.arrays import Floats, Ints

TURNOVER = 0.02
"""Volume of a typical hour as a part of open interest."""

_VOLUME = noise.key("options volume")
_DAY = 24


def overview(
    first: int,
    last: int,
    names: Sequence[str] | None,
    venues: Sequence[str] | None,
) -> dict[str, Any]:
    """Return the columns of the hourly overview with ``first <= time < last`` [µs].

    Open interest is that of the chain of the hour times its underlying; volume is the sum of 24 hours, the
    last of which ends then.
    """
    hours = np.arange(-(-first // HOUR_US), -(-last // HOUR_US))
    chosen = markets(names, venues)
    if not hours.size or not chosen:
        return {}
    longer = np.arange(hours[0] - _DAY, hours[-1] + 1)
    parts = [_market(symbol, exchange, longer) for symbol, exchange in chosen]
    count = np.full(len(chosen), hours.size)
    return {
        "symbol": text(np.repeat([SYMBOLS.index(s) for s, _ in chosen], count), SYMBOLS),
        "exchange": text(np.repeat([EXCHANGES.index(e) for _, e in chosen], count), EXCHANGES),
        "time": instants(np.tile(hours * HOUR_US, len(chosen))),
        "notional_oi_usd": np.concatenate([oi for oi, _ in parts]),
        "notional_volume_24h_usd": np.concatenate([volume for _, volume in parts]),
    }


def _market(symbol: str, exchange: str, hours: Ints) -> tuple[Floats, Floats]:
    """Return open interest per hour after the first 24, and volume of the 24 hours before it [USD]."""
    days = session(hours * HOUR_US)
    oi = np.concatenate(
        [_open_interest_usd(symbol, exchange, d, hours[days == d]) for d in np.unique(days).tolist()]
    )
    shock = noise.normal(noise.key("options", symbol, exchange) ^ _VOLUME, hours)
    running = np.concatenate([[0.0], np.cumsum(TURNOVER * oi * np.exp(0.5 * shock))])
    volume = running[_DAY:-1] - running[: -_DAY - 1]
    return oi[_DAY:], np.round(volume, 2)


def _open_interest_usd(symbol: str, exchange: str, trading_day: int, hours: Ints) -> Floats:
    listed = listing(symbol, exchange, trading_day)
    forward = forwards(symbol, exchange, listed.expiry, hours * HOUR_US).underlying_price[listed.place]
    contracts = open_interest(symbol, exchange, trading_day, hours * HOUR_US)
    return np.asarray(np.round((contracts * np.round(forward, 6)).sum(axis=0), 2))
