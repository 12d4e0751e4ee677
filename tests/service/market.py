"""The hand-written market of the service's tests: three venues, four symbols, a clock at noon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from tests.support.timestamps import at

NOW = "2026-06-30 12:00"
DAY = pd.Timedelta(1, "D")
HOUR = pd.Timedelta(1, "h")


def frames() -> dict[str, pd.DataFrame]:
    return {
        "funding_history": funding(),
        "funding_settlements": settlements(),
        "oi_history": open_interest(),
        "volume_history": volume(),
        "liquidations_fills": fills(),
        "options_snapshot": options(),
        "markets_symbol_exchanges": prices(),
    }


def every(step: str, start: str, end: str) -> pd.DatetimeIndex:
    return pd.date_range(at(start), at(end), freq=step, unit="us")


def series(symbol: str, exchange: str, time: Any, **columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"symbol": symbol, "exchange": exchange, "time": time, **columns})


def funding() -> pd.DataFrame:
    """BTC on binance is 1.0 throughout, every half hour; on hyperliquid it steps; others have one value.

    hyperliquid, 29 June: 2.0 at 10:00, 4.0 at 10:15, then nothing until 14:00 (6.0).
    """
    times = every("30min", "2026-05-20 00:00", NOW)
    steps = [at("2026-06-29 10:00"), at("2026-06-29 10:15"), at("2026-06-29 14:00"), at("2026-06-30 11:30")]
    parts = [
        series("BTC", "binance", times, rate_bps_8h=1.0),
        series("BTC", "hyperliquid", steps, rate_bps_8h=[2.0, 4.0, 6.0, 0.1]),
        series("ETH", "binance", [at(NOW)], rate_bps_8h=-0.5),
        series("SOL", "hyperliquid", [at("2026-06-30 11:10")], rate_bps_8h=12.0),
        series("XAU", "aster", [at("2026-06-30 10:00")], rate_bps_8h=99.0),
    ]
    return pd.concat(parts, ignore_index=True).assign(resolution="raw", kind="sampled")


def settlements() -> pd.DataFrame:
    eights, hours = every("8h", "2026-06-28", NOW), every("1h", "2026-06-29", NOW)
    parts = [
        series("BTC", "binance", eights, rate_bps_8h=1.0, interval_hours=8.0),
        series("ETH", "binance", eights, rate_bps_8h=-0.5, interval_hours=8.0),
        series("BTC", "hyperliquid", hours, rate_bps_8h=0.2, interval_hours=1.0),
        series("SOL", "hyperliquid", hours, rate_bps_8h=12.5, interval_hours=1.0),
    ]
    return pd.concat(parts, ignore_index=True).assign(kind="settled")


def open_interest() -> pd.DataFrame:
    """Return hourly USD over eight days: each series is a constant plus a fixed step per day."""
    times = every("1h", "2026-06-22 12:00", NOW)
    days = (times - times[-1]) / DAY
    amounts = {
        ("BTC", "binance"): 1000 + 10 * days,
        ("BTC", "hyperliquid"): 500 + 0 * days,
        ("ETH", "binance"): 300 + 0 * days,
        ("SOL", "hyperliquid"): 700 - 50 * days,
    }
    parts = [series(s, e, times, oi_usd=amount) for (s, e), amount in amounts.items()]
    return pd.concat(parts, ignore_index=True).assign(resolution="1h")


def volume() -> pd.DataFrame:
    """A steady volume per hour; BTC on binance trades twice as much on the last day."""
    times = every("1h", "2026-06-28 12:00", "2026-06-30 11:00")
    late = times >= at(NOW) - DAY
    parts = [
        series("BTC", "binance", times, volume_usd=1e6 * (1 + late)),
        series("ETH", "binance", times, volume_usd=5e5),
        series("SOL", "hyperliquid", times, volume_usd=1e5),
    ]
    return pd.concat(parts, ignore_index=True).assign(resolution="1h")


def prices() -> pd.DataFrame:
    rows = [
        ("BTC", "binance", 60000.0, 2.0),
        ("BTC", "hyperliquid", 60010.0, 2.5),
        ("ETH", "binance", 3000.0, -1.5),
        ("SOL", "hyperliquid", 150.0, 7.0),
    ]
    frame = pd.DataFrame(rows, columns=["symbol", "exchange", "price_usd", "price_24h_change_pct"])
    return frame.assign(time=at(NOW))


FILLS: Sequence[tuple[Any, ...]] = [
    # exchange, order, fill, time, symbol, side, order price, fill price, quantity, filled, value
    ("binance", "a1", "1", "2026-06-30 09:00:00.5", "BTC", "long", 59000.0, 59100.0, 3.0, 1.0, 59100.0),
    ("binance", "a1", "2", "2026-06-30 09:00:02", "BTC", "long", 59000.0, 59000.0, 3.0, 2.0, 118000.0),
    ("hyperliquid", "a1", "1", "2026-06-30 10:00", "ETH", "short", 3050.0, 3040.0, 1.0, 1.0, 3040.0),
    ("hyperliquid", "b7", "1", "2026-06-30 11:00", "SOL", "short", 151.0, 151.0, 10.0, 10.0, 1510.0),
    ("binance", "old", "1", "2026-06-28 11:00", "BTC", "long", 58000.0, 58000.0, 1.0, 1.0, 58000.0),
]


def fills() -> pd.DataFrame:
    names = (
        "exchange order_id fill_id time symbol side order_price_usd fill_price_usd quantity "
        "filled_quantity value_usd"
    )
    frame = pd.DataFrame(FILLS, columns=names.split())
    return frame.assign(time=[at(t) for t in frame["time"]], status="filled")


def fill(
    order: str, time: Any, value: float, side: str | None = "long", exchange: str = "binance"
) -> dict[str, Any]:
    """The one fill of an order of BTC at the time."""
    prices = dict.fromkeys(("order_price_usd", "fill_price_usd"), 1.0)
    sizes = {"quantity": 110.0, "filled_quantity": value, "value_usd": value}
    names = {"exchange": exchange, "order_id": order, "fill_id": f"{order} {time}", "symbol": "BTC"}
    told = {"time": pd.to_datetime(time, utc=True).as_unit("us"), "side": side, "status": "filled"}
    return names | told | prices | sizes


def options() -> pd.DataFrame:
    """Return two live BTC options on deribit and an expired one; okx has no greeks; one pair is outside the
    matrix.
    """
    rows = [
        ("BTC", "deribit", "BTC-31JUL26-60000-C", "2026-07-31 08:00", 60000.0, "call", 0.55, 0.52),
        ("BTC", "deribit", "BTC-31JUL26-60000-P", "2026-07-31 08:00", 60000.0, "put", 0.56, -0.48),
        ("BTC", "deribit", "BTC-30JUN26-60000-P", "2026-06-30 08:00", 60000.0, "put", 0.9, -0.9),
        ("ETH", "okx", "ETH-USD-260731-3000-C", "2026-07-31 08:00", 3000.0, "call", 0.7, None),
        ("XAU", "bybit", "XAU-31JUL26-2000-C", "2026-07-31 08:00", 2000.0, "call", 0.2, None),
    ]
    names = "symbol exchange instrument_name expiry strike side iv delta".split()
    frame = pd.DataFrame(rows, columns=names)
    frame["delta"] = frame["delta"].astype("float64")
    return frame.assign(
        expiry=[at(t) for t in frame["expiry"]],
        time=at("2026-06-30 11:55"),
        gamma=float("nan"),
        vega=float("nan"),
        theta=float("nan"),
        open_interest=12.5,
        underlying_price=60100.0,
    )
