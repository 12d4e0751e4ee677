"""Chains: every listed option with its volatility, greeks and open interest at each hour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import ndtr

from derivdata.analysis.black76 import normalised as black
from derivdata.sources.sample import noise
from derivdata.sources.sample.grid import DAY_US, HOUR_US, Ints
from derivdata.sources.sample.noise import Floats
from derivdata.sources.sample.options.forward_curves import Forwards, forwards
from derivdata.sources.sample.options.listings import EXPIRY_US, Listing, instrument_names, listing
from derivdata.sources.sample.options.quotes import is_inverse, quotes
from derivdata.sources.sample.options.surface_model import SurfaceModel
from derivdata.sources.sample.universe import symbols
from derivdata.tables.endpoints import OPTIONS_MATRIX

__all__ = ["EXCHANGES", "GREEKS", "SYMBOLS", "chain", "markets", "open_interest"]

SYMBOLS = tuple(sorted(OPTIONS_MATRIX))
EXCHANGES = tuple(sorted({venue for venues in OPTIONS_MATRIX.values() for venue in venues}))

GREEKS: dict[str, tuple[float, float] | None] = {
    "deribit": (0.01, 1.0 / 365.0),
    "bybit": (0.01, 1.0 / 365.0),
    "binance": (1.0, 1.0 / 365.0),
    "derive": (1.0, 1.0),
    "okx": None,
}
"""Units of vega [per 1.00 of volatility] and theta [per year] on each venue; None gives no greeks."""

_QUOTES = "bid_coin ask_coin mark_coin bid_usd ask_usd mark_usd index_price_usd".split()
_WEIGHT = {"deribit": 1.0, "okx": 0.25, "binance": 0.3, "bybit": 0.3, "derive": 0.08}
_SPREADS = noise.key("options spreads")


def markets(names: Sequence[str] | None, venues: Sequence[str] | None) -> list[tuple[str, str]]:
    """Return symbol and venue of every chain that is requested, sorted; None is all of them."""
    return [
        (symbol, exchange)
        for symbol in SYMBOLS
        if names is None or symbol in names
        for exchange in sorted(OPTIONS_MATRIX[symbol])
        if venues is None or exchange in venues
    ]


def chain(
    surface: SurfaceModel,
    symbol: str,
    exchange: str,
    trading_day: int,
    time: Ints,
    names: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return the columns of the options snapshot at instants [µs] of one trading day, instant by instant.

    ``symbol`` and ``exchange`` are positions in `SYMBOLS` and `EXCHANGES`; ``side`` is 0 for a call, 1 for
    a put.

    Every value is rounded once: volatility to 6 digits, or to 4 where the venue quotes prices, which have
    its ticks; other prices and greeks to 6 digits but gamma to 10. Where columns are named, others that take
    long are left out.
    """

    def wanted(*columns: str) -> bool:
        return names is None or not set(columns).isdisjoint(names)

    listed = listing(symbol, exchange, trading_day)
    f = forwards(symbol, exchange, listed.expiry, time)
    forward = f.underlying_price[listed.place]
    k = np.log(listed.strike[:, None] / forward)
    w = surface.total_variance(symbol, exchange, f.year_fraction, time, k, listed.place)
    iv = np.sqrt(w / f.year_fraction[listed.place])
    columns: dict[str, Floats] = {
        "iv": np.asarray(np.round(iv, 4 if surface.quoted else 6)),
        "underlying_price": np.round(forward, 6),
    }
    if wanted("open_interest"):
        columns["open_interest"] = open_interest(surface, symbol, exchange, trading_day, time)
    if wanted("delta", "gamma", "vega", "theta"):
        columns |= _greeks(exchange, listed, f, k, w)
    if surface.quoted and wanted(*_QUOTES):
        columns |= _quotes(symbol, exchange, listed, f, time, k, w)
    labels = instrument_names(symbol, exchange, listed) if wanted("instrument_name") else None
    count = len(time)
    rows = {name: np.ascontiguousarray(values.T).ravel() + 0.0 for name, values in columns.items()}
    return {
        "symbol": np.full(count * len(listed.strike), SYMBOLS.index(symbol), dtype=np.int8),
        "exchange": np.full(count * len(listed.strike), EXCHANGES.index(exchange), dtype=np.int8),
        "time": np.repeat(time, len(listed.strike)),
        "expiry": np.tile(listed.expiry[listed.place] * DAY_US + EXPIRY_US, count),
        "strike": np.tile(listed.strike, count),
        "side": np.tile((~listed.call).astype(np.int8), count),
        **({} if labels is None else {"instrument_name": np.tile(labels, count)}),
        **rows,
    }


def _quotes(
    symbol: str, exchange: str, listed: Listing, f: Forwards, time: Ints, k: Floats, w: Floats
) -> dict[str, Floats]:
    """Return bid, ask and mark in the venue's currency, and the index price."""
    forward = f.underlying_price[listed.place]
    unit = 1.0 if is_inverse(symbol, exchange) else forward
    sign = np.where(listed.call, -1.0, 1.0)[:, None]
    intrinsic = np.maximum(sign * np.expm1(k), 0.0)
    root = np.sqrt(w)
    time_value = black.time_value(np.abs(k).ravel(), root.ravel()).reshape(k.shape) * np.exp(0.5 * k)
    d1 = -k / root + 0.5 * root
    vega = np.exp(-0.5 * d1 * d1) * np.sqrt(f.year_fraction[listed.place] / (2.0 * np.pi))
    hours = time // HOUR_US
    width = 0.7 + 0.6 * noise.uniform((listed.streams ^ _SPREADS)[:, None], hours)
    prices = quotes(symbol, exchange, unit * (intrinsic + time_value), unit * vega, unit * intrinsic, width)
    return prices | {"index_price_usd": np.broadcast_to(np.round(f.spot, 6), k.shape)}


def _greeks(exchange: str, listed: Listing, f: Forwards, k: Floats, w: Floats) -> dict[str, Floats]:
    """Return the Black-76 greeks with r = 0 in the venue's units; NaN where the venue gives none."""
    units = GREEKS[exchange]
    if units is None:
        return {name: np.full(k.shape, np.nan) for name in ("delta", "gamma", "vega", "theta")}
    root, years, forward = np.sqrt(w), f.year_fraction[listed.place], f.underlying_price[listed.place]
    d1 = -k / root + 0.5 * root
    density = np.exp(-0.5 * d1 * d1) / np.sqrt(2.0 * np.pi)
    vega = forward * density * np.sqrt(years)
    return {
        "delta": np.round(ndtr(d1) - ~listed.call[:, None], 6),
        "gamma": np.round(density / (forward * root), 10),
        "vega": np.round(units[0] * vega, 6),
        "theta": np.round(-units[1] * vega * root / (2.0 * years * np.sqrt(years)), 6),
    }


def open_interest(surface: SurfaceModel, symbol: str, exchange: str, trading_day: int, time: Ints) -> Floats:
    """Return contracts: more near the money at the day's opening, growing since the listing."""
    own = symbols().name.index(symbol)
    size = 0.004 * symbols().oi[own] / symbols().price[own] * _WEIGHT[exchange]
    listed = listing(symbol, exchange, trading_day)
    at = np.array([trading_day * DAY_US + EXPIRY_US])
    opening = forwards(symbol, exchange, listed.expiry, at)
    variance = surface.typical_variance(symbol, exchange, opening.year_fraction, at)
    width = 0.9 * np.sqrt(variance[listed.place]) + 0.08
    k = np.log(listed.strike[:, None] / opening.underlying_price[listed.place])
    age = ((time - EXPIRY_US) / DAY_US - listed.listed[listed.place][:, None]) / 30.0
    day = time // DAY_US
    today, tomorrow = (noise.uniform(listed.streams[:, None], d) for d in (day, day + 1))
    drift = today + (tomorrow - today) * (time / DAY_US - day)
    own_size = (0.1 + 0.9 * noise.uniform(listed.streams, 0)[:, None]) ** 3
    contracts = size * own_size * age / (1.0 + age) * (0.8 + 0.4 * drift) * np.exp(-0.5 * (k / width) ** 2)
    return np.asarray(np.round(contracts, 1))
