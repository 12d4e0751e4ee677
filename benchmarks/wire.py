"""Random responses in the API's format, which both sides read."""

from __future__ import annotations

import datetime as dt

import msgspec
import numpy as np

__all__ = ["EVENT_VENUES", "chain", "events", "history", "snapshot"]

EVENT_VENUES = ("binance", "bybit", "okx", "hyperliquid", "bitget", "gate")

_SYMBOLS = 1000
_START = np.datetime64("2026-01-01T00:00:00")


def history(venues: int, points: int, *, seed: int = 1) -> bytes:
    """``GET /funding/historical``: minutes of one symbol, all venues on one grid."""
    rng = np.random.default_rng(seed)
    stamps = [
        f"{t}Z" for t in np.datetime_as_string(_START + np.arange(points) * np.timedelta64(1, "m"), "s")
    ]
    series = {
        f"venue{v:02d}": [
            {"timestamp": t, "t": t, "y": y}
            for t, y in zip(stamps, rng.normal(1, 2, points).round(6).tolist(), strict=True)
        ]
        for v in range(venues)
    }
    body = {"symbol": "BTC", "unit": "bps_8h", "resolution": "1m", "series": series, "notices": []}
    return msgspec.json.encode(body)


def snapshot(venues: int, symbols: int, *, seed: int = 2) -> bytes:
    """``GET /funding``: every pair, with native rates, intervals and ranks."""
    rng = np.random.default_rng(seed)
    names = [f"SYM{i:04d}" for i in range(symbols)]
    rates, raws, hours = {}, {}, {}
    for venue in (f"venue{v:02d}" for v in range(venues)):
        each = rng.normal(1, 2, symbols).round(6).tolist()
        interval = rng.choice([1, 4, 8], symbols).tolist()
        native = [f"{y * h / 80_000:.12f}" for y, h in zip(each, interval, strict=True)]
        for found, values in ((rates, each), (raws, native), (hours, interval)):
            found[venue] = dict(zip(names, values, strict=True))
    body = {
        "symbols": names,
        "exchanges": {
            "exchange_names": [{"name": v, "display": v.title()} for v in rates],
            "exchanges": [*rates],
        },
        "funding_rates": rates,
        "funding_rates_raw": raws,
        "funding_intervals": hours,
        "oi_rankings": {n: i + 1 if i < 500 else "500+" for i, n in enumerate(names)},
        "default_oi_rank": "500+",
        "timestamp": "2026-06-30 12:00:00",
    }
    return msgspec.json.encode(body)


def events(count: int, *, seed: int = 3) -> bytes:
    """``GET /liquidations/events``: orders of a day in order of time, milliseconds in their stamps."""
    rng = np.random.default_rng(seed)
    gaps = rng.exponential(86_400_000 / count, count).astype("m8[ms]")
    columns = zip(
        np.datetime_as_string(_START + gaps.cumsum(), "ms").tolist(),
        rng.choice(EVENT_VENUES, count).tolist(),
        rng.choice([f"SYM{i:04d}" for i in range(_SYMBOLS)], count).tolist(),
        rng.choice(["long", "short"], count).tolist(),
        np.exp(rng.normal(7, 3, count)).round(4).tolist(),
        (np.exp(rng.normal(-3, 2, count)).round(6) + 1e-6).tolist(),
        rng.integers(1, 6, count).tolist(),
        strict=True,
    )
    rows = [_order(place, *values) for place, values in enumerate(columns)]
    return msgspec.json.encode({"events": rows})


def _order(
    place: int, stamp: str, venue: str, symbol: str, side: str, price: float, quantity: float, fills: int
) -> dict[str, object]:
    return {
        "timestamp": f"{stamp}Z",
        "exchange": venue,
        "symbol": symbol,
        "side": side,
        "oid": f"{venue}-{place}",
        "price": price,
        "avg_price": price,
        "quantity": quantity,
        "filled_quantity": quantity,
        "usd_value": round(price * quantity, 2),
        "status": "filled",
        "fill_count": fills,
    }


def chain(instruments: int, *, expiries: int = 15, seed: int = 4) -> bytes:
    """``GET /options/snapshot``: calls and puts of some expiries, strikes next to the forward."""
    rng = np.random.default_rng(seed)
    strikes = instruments // (2 * expiries)
    rows = [
        {
            "instrument_name": f"BTC-{_day_in_name(expiry)}-{strike:.0f}-{side[0].upper()}",
            "expiry": f"{expiry} 08:00:00",
            "strike": strike,
            "side": side,
            "iv": float(iv),
            "delta": float(delta),
            "gamma": 1.1e-5,
            "vega": float(vega),
            "theta": -31.25,
            "open_interest": float(held),
            "underlying_price": 67_890.5,
        }
        for expiry in np.datetime_as_string(_START.astype("M8[D]") + 200 + 7 * np.arange(expiries)).tolist()
        for strike in (40_000.0 + 500.0 * np.arange(strikes)).tolist()
        for side in ("call", "put")
        for iv, delta, vega, held in [rng.uniform([0.3, -1, 1, 0], [0.9, 1, 90, 500]).round(4)]
    ]
    return msgspec.json.encode({"symbol": "BTC", "exchange": "deribit", "instruments": rows})


def _day_in_name(day: str) -> str:
    """``2026-07-03`` as Deribit writes it in names: ``3JUL26``."""
    date = dt.date.fromisoformat(day)
    return f"{date.day}{date:%b%y}".upper()
