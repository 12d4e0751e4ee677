"""Small hand-made data: every number can be checked on paper."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import backtest, position, surface
from derivdata.analysis import chain as options
from derivdata.analysis.funding import forecast_carry
from tests.support.rows import rows

START = pd.Timestamp("2026-01-05", tz="UTC")
SAID = {
    "source": "made by hand",
    "synthetic": True,
    "as_of": "2026-01-15T00:00:00Z",
    "requests": [],
    "notices": [],
    "attribution": "",
}
VENUES = {"alpha": 2.0, "beta": 1.0, "gamma": -1.0}
"""Venues and the level of their funding [bps/8h]."""

HOURS = 240


def funding() -> pd.DataFrame:
    """Hourly rates of BTC on three venues: a level, a daily swing, and a hole of 12 hours on beta."""
    hour = np.arange(HOURS)
    parts = []
    for venue, level in VENUES.items():
        rate = level + 0.5 * np.sin(2 * np.pi * hour / 24)
        kept = (hour < 100) | (hour >= 112) if venue == "beta" else hour >= 0
        parts.append(pd.DataFrame({"exchange": venue, "hour": hour[kept], "y": rate[kept]}))
    drawn = pd.concat(parts, ignore_index=True)
    stamps = START + pd.to_timedelta(drawn["hour"], unit="h")
    return _sampled(drawn["exchange"].tolist(), stamps, drawn["y"].to_numpy())


def _sampled(exchange: Any, timestamp: Any, y: Any) -> pd.DataFrame:
    kind = {"symbol": "BTC", "resolution": "1h", "kind": "sampled"}
    return stated(rows("funding_history", exchange=exchange, timestamp=timestamp, y=y, **kind))


def constant(rate: float, days: int) -> pd.DataFrame:
    """Hourly rates that never move, BTC on alpha."""
    return _sampled("alpha", pd.date_range(START, periods=24 * days, freq="h"), rate)


def payments(rate: float, days: int) -> pd.DataFrame:
    """Settlements every 8 hours that never move, BTC on alpha."""
    times = pd.date_range(START + pd.Timedelta(8, "h"), periods=3 * days, freq="8h")
    paid = {"y": rate, "interval_hours": 8.0, "kind": "settled"}
    return stated(rows("funding_settlements", symbol="BTC", exchange="alpha", timestamp=times, **paid))


@functools.cache
def noisy() -> xr.DataArray:
    """Ninety days of rates on three venues that wander, for forecasts of carry."""
    rng = np.random.default_rng(7)
    steps = np.zeros((3, 24 * 90))
    for t in range(1, steps.shape[1]):
        steps[:, t] = 0.95 * steps[:, t - 1] + rng.normal(0, 0.2, 3)
    times = pd.date_range(START.tz_localize(None), periods=steps.shape[1], freq="h").as_unit("us")
    return xr.DataArray(
        steps + np.array([0.0, 1.0, 4.0])[:, None],
        dims=("exchange", "time"),
        coords={"exchange": ["low", "middle", "high"], "time": times},
        name="rate_bps_8h",
        attrs={"units": "bps/8h", "kind": "sampled"},
    )


@functools.cache
def carry(long: str, short: str, hold: str, fee: float = 2.0, *, prices: bool = False) -> xr.Dataset:
    """Forecast of a pair of the wandering venues, each trade at `fee` bps."""
    marks = (100.0 + 0.01 * noisy()).rename("price_usd").assign_attrs(units="USD") if prices else None
    return forecast_carry(noisy(), [(long, short)], hold=hold, fee_bps=fee, prices=marks).isel(pair=0)


def holdings() -> pd.DataFrame:
    """Daily open interest of three venues: alpha gains a point of share a day from beta, gamma holds 20 %."""
    days = np.arange(40)
    share = {"alpha": 0.2 + 0.01 * days, "beta": 0.6 - 0.01 * days, "gamma": np.full(40, 0.2)}
    held = [(v, START + pd.Timedelta(int(d), "D"), 1e6 * s[d]) for v, s in share.items() for d in days]
    venues, times, values = zip(*held, strict=True)
    columns = {"exchange": venues, "timestamp": times, "open_interest_usd": values}
    return stated(rows("oi_history", symbol="BTC", resolution="1d", **columns))


def positioned() -> pd.DataFrame:
    """Daily ratios of two venues over twelve days: alpha's doubles each day from ¼, beta's is always 1."""
    days = np.arange(12)
    times = [START + pd.Timedelta(int(day), "D") for day in days]
    ratio = np.concatenate([2.0 ** (days - 2.0), np.ones(12)])
    told = {"exchange": ["alpha"] * 12 + ["beta"] * 12, "timestamp": times * 2, "long_short_ratio": ratio}
    fixed = {"symbol": "BTC", "kind": "accounts", "resolution": "1d"}
    return stated(rows("positioning_history", **told, **fixed))


def option_trades() -> pd.DataFrame:
    """Calls at 110 were bought for 6 and sold for 2 coins, puts at 90 sold for 3; a block of 50 puts."""
    told = {
        "timestamp": [START + pd.Timedelta(hour, "h") for hour in range(4)],
        "trade_id": list("1234"),
        "strike": [110.0, 110.0, 90.0, 90.0],
        "side": ["call", "call", "put", "put"],
        "taker_side": ["buy", "sell", "sell", "buy"],
        "execution": ["book", "book", "book", "block"],
        "size": [6.0, 2.0, 3.0, 50.0],
        "price_coin": [0.05, 0.04, 0.02, 0.02],
        "price_usd": [np.nan] * 4,
        "iv": [0.5, 0.4, 0.6, 0.6],
        "instrument_name": ["C", "C", "P", "P"],
    }
    fixed = {"symbol": "BTC", "exchange": "deribit", "expiry": START + pd.Timedelta("30D")}
    return stated(rows("options_trades", index_price_usd=100.0, underlying_price=101.0, **told, **fixed))


def delivery_prices() -> pd.DataFrame:
    times = [START + pd.Timedelta(hours, "h") for hours in (8, 32)]
    return stated(
        rows("delivery_prices", symbol="BTC", exchange="deribit", timestamp=times, price_usd=[99.0, 101.0])
    )


def delivered() -> xr.DataArray:
    """Return probabilities of twenty deliveries: two per decile, except the first, whose two are in the
    second.
    """
    places = np.repeat(np.arange(10) / 10, 2) + 0.05
    return xr.DataArray(np.where(places < 0.1, 0.15, places), dims="expiry")


def taken() -> pd.DataFrame:
    """Twelve days: takers bought 3 M USD and sold 1 M a day on alpha, from day 6 on the reverse on beta."""
    times = [START + pd.Timedelta(day, "D") for day in range(12)]
    told = {"exchange": ["alpha"] * 12 + ["beta"] * 6, "timestamp": times + times[6:]}
    told |= {"buy_usd": [3e6] * 12 + [1e6] * 6, "sell_usd": [1e6] * 12 + [3e6] * 6}
    return stated(rows("volume_taker", symbol="BTC", resolution="1d", **told))


def price() -> xr.DataArray:
    """Daily prices of BTC that double in 40 days: 1 M USD are 1 coin at the start and half at the end."""
    days = np.arange(40)
    times = pd.date_range(START.tz_localize(None), periods=40, freq="D").to_numpy()
    return xr.DataArray(1e6 * (1 + days / 39), {"time": times}, "time", "price_usd", {"units": "USD"})


def volatility(level: float) -> xr.DataArray:
    times = pd.date_range(START.tz_localize(None), periods=10, freq="D").to_numpy()
    return xr.DataArray(np.full(10, level), {"time": times}, "time", "volatility", {"units": "1/√year"})


def liquidated() -> pd.DataFrame:
    """Twelve orders on two venues over half a day: 3 M USD of longs, 1.5 M USD of shorts."""
    venues, sides = ["alpha"] * 8 + ["beta"] * 4, ["long"] * 10 + ["short"] * 2
    values = [250_000.0] * 8 + [500_000.0] * 2 + [750_000.0] * 2
    return stated(
        rows(
            "liquidations_events",
            oid=[f"order {i}" for i in range(12)],
            timestamp=pd.date_range(START, periods=12, freq="h"),
            symbol="BTC", exchange=venues, side=sides, usd_value=values, price=100.0, avg_price=100.0,
            quantity=1.0, filled_quantity=1.0, status="filled", fill_count=1,
        )
    )  # fmt: skip


def book() -> pd.DataFrame:
    """Three levels a side around a mid of 100: 1 M USD at the best price, then 2 and 3 M."""
    prices = {"bid": [99.9, 99.8, 99.5], "ask": [100.1, 100.2, 100.5]}
    offers = [(side, i + 1, p) for side, listed in prices.items() for i, p in enumerate(listed)]
    sides, levels, quoted = zip(*offers, strict=True)
    sizes = [level * 1e6 / price for _, level, price in offers]
    columns = {"side": sides, "level": levels, "price_usd": quoted, "size": sizes}
    return stated(rows("orderbook_book", symbol="BTC", exchange="alpha", timestamp=START, **columns))


def depths() -> pd.DataFrame:
    """Return depth within 10 and 50 bps over two days, asks twice the bids."""
    swing = 1e6 * (2 + np.sin(np.arange(48) / 6))[:, None]
    told = {"bid_depth_usd": (swing * [1.0, 3.0]).ravel(), "ask_depth_usd": (swing * [2.0, 6.0]).ravel()}
    told["timestamp"] = pd.date_range(START, periods=48, freq="h").repeat(2)
    fixed = {"symbol": "BTC", "exchange": "alpha", "depth_bps": [10.0, 50.0] * 48}
    return stated(rows("orderbook_depth_history", **fixed, **told))


QUOTED = START + pd.Timedelta(8, "h")
DAYS = (7, 30, 91, 182)
RHO, PSI = -0.3, (0.06, 0.12, 0.2, 0.27)


def chain(venue: str = "alpha", level: float = 0.5) -> pd.DataFrame:
    """Options on those slices, strikes within 1.8 deviations, forward 100 + days / 100, OI of 10 and 5."""
    listed = []
    for days, psi in zip(DAYS, PSI, strict=True):
        t = days / 365.0
        theta = level**2 * t
        phi = psi / theta
        for k in np.linspace(-1.8, 1.8, 13) * np.sqrt(theta):
            w = theta / 2 * (1 + RHO * phi * k + np.sqrt((phi * k + RHO) ** 2 + 1 - RHO**2))
            strike = (100 + days / 100) * np.exp(k)
            listed += [(days, side, strike, np.sqrt(w / t)) for side in ("call", "put")]
    lives, sides, strikes, vols = zip(*listed, strict=True)
    columns: dict[str, Any] = {
        "expiry": [QUOTED + pd.Timedelta(days, "D") for days in lives],
        "open_interest": [10.0 if side == "call" else 5.0 for side in sides],
        "volume": [3.0 if side == "call" else 1.0 for side in sides],
        "underlying_price": [100.0 + days / 100 for days in lives],
    }
    columns["instrument_name"] = option_names(columns["expiry"], strikes, sides)
    quotes = {"strike": strikes, "side": sides, "iv": vols}
    return stated(rows("options_snapshot", symbol="BTC", exchange=venue, time=QUOTED, **quotes, **columns))


def option_names(expiries: Iterable[Any], strikes: Iterable[Any], sides: Iterable[Any]) -> list[str]:
    """Deribit's names of options on BTC."""
    each = zip(expiries, strikes, sides, strict=True)
    return [f"BTC-{expiry:%d%b%y}-{float(strike)!r}-{side[0]}" for expiry, strike, side in each]


def chains() -> pd.DataFrame:
    """The same smile on two venues, beta two points above alpha, and with its strikes."""
    frames = [chain("alpha", 0.5), chain("beta", 0.52)]
    both = pd.concat(frames, ignore_index=True)
    both.attrs = frames[0].attrs
    return both


def stated(frame: pd.DataFrame) -> pd.DataFrame:
    frame.attrs["provenance"] = SAID
    return frame


@functools.cache
def fit() -> xr.Dataset:
    return surface.from_chain(chain(), method="essvi", weights="equal")


@functools.cache
def earlier() -> xr.Dataset:
    """The surface of a day before, two points lower."""
    table = chain(level=0.48).assign(time=QUOTED - pd.Timedelta(1, "D"))
    return surface.from_chain(table, method="essvi", weights="equal")


def basis() -> xr.Dataset:
    """The basis of the made forwards over a spot of 100."""
    return options.basis(options.forwards(chain()), spot=100.0).assign_attrs(provenance=json.dumps(SAID))


@functools.cache
def attribution() -> xr.Dataset:
    """A call and a put of the second expiry over a day: forward up 2 %, volatility up from 50 to 55 %."""
    later = chain().assign(time=QUOTED + pd.Timedelta(1, "D"))
    later = later.assign(iv=later["iv"] * 1.1, underlying_price=later["underlying_price"] * 1.02)
    later.attrs = chain().attrs
    fits = [surface.from_chain(each, method="essvi", weights="equal") for each in (chain(), later)]
    expiry = QUOTED + pd.Timedelta(DAYS[1], "D")
    legs = pd.DataFrame(
        {"expiry": [expiry] * 2, "strike": [100.0, 95.0], "side": ["call", "put"], "quantity": [10.0, -4.0]}
    )
    found = position.attribution(legs, *fits)
    return found.assign_attrs(provenance=json.dumps(SAID))


def cone() -> xr.Dataset:
    """Return hand-made quantiles: wider for short windows, the latest in the middle."""
    quantiles = [0.05, 0.25, 0.5, 0.75, 0.95]
    spread = np.array([0.12, 0.08, 0.05])[:, None] * np.array([-1.5, -0.7, 0.0, 0.8, 2.0])
    return xr.Dataset(
        {
            "volatility": (("window", "quantile"), 0.45 + spread),
            "latest": ("window", [0.45, 0.46, 0.44]),
            "count": ("window", [60, 50, 40]),
        },
        {"window": [7, 14, 30], "quantile": quantiles},
        attrs={"provenance": json.dumps(SAID)},
    )


def index_history() -> xr.Dataset:
    """An index that rises from 50 to 59 % in nine days, at the money a point below, puts 3 points richer."""
    times = pd.date_range(START.tz_localize(None), periods=10, freq="D").to_numpy()
    index = 50.0 + np.arange(10.0)
    tenors = np.array([7.0, 30.0])
    level = np.stack([index / 100 - 0.01] * 2, axis=1)
    return xr.Dataset(
        {
            "strip_index": ("time", index / 100),
            "atm": (("time", "tenor"), level),
            "rr25": (("time", "tenor"), np.full((10, 2), -0.03)),
        },
        {"time": times, "tenor": tenors},
        attrs={"index_days": 30.0, "provenance": json.dumps(SAID)},
    )


def _wandering() -> tuple[xr.DataArray, xr.DataArray]:
    """Settlements every 8 hours of 40 days and marks of two symbols on three venues."""
    rng = np.random.default_rng(3)
    shape = (2, 3, 120)
    steps = rng.normal(0, 0.3, shape)
    for t in range(1, shape[-1]):
        steps[..., t] += 0.97 * steps[..., t - 1]
    walk = np.exp(np.cumsum(rng.normal(0, 0.02, (2, 1, 120)), axis=-1))
    marks = 100.0 * walk * np.exp(rng.normal(0, 0.0004, shape))
    times = pd.date_range(START.tz_localize(None), periods=120, freq="8h").as_unit("us").to_numpy()
    labels = {"symbol": ["BTC", "ETH"], "exchange": ["alpha", "beta", "gamma"], "time": times}
    told = {"provenance": json.dumps(SAID)}
    rates = xr.DataArray(steps, labels, tuple(labels), "rate_bps_8h")
    prices = xr.DataArray(marks, labels, tuple(labels), "price_usd", {"units": "USD"} | told)
    return rates.assign_coords(interval_hours=8.0).assign_attrs(
        units="bps/8h", kind="settled", **told
    ), prices


@functools.cache
def backtested() -> xr.Dataset:
    """Result of a rule with thresholds on rates that wander; at leverage 5 without transfers."""
    rates, prices = _wandering()
    costs = backtest.Costs(6.0, slippage_bps=0.5, liquidation_bps=20.0)
    rule = backtest.SpreadThreshold(1.0, 0.3, 2.0)
    return backtest.carry(rates, rule, costs, prices=prices, leverage=5.0)


@functools.cache
def capacity_curve() -> xr.Dataset:
    """Trades at other sizes, in books of 300,000 USD within 1 bps and ten times as much within 10."""
    depth = xr.DataArray(
        [3e5, 3e6],
        {"depth_bps": [1.0, 10.0]},
        attrs={"units": "USD", "provenance": json.dumps(SAID)},
    ).expand_dims(symbol=["BTC", "ETH"], exchange=["alpha", "beta", "gamma"], side=["bid", "ask"])
    rates, prices = _wandering()
    result = backtest.carry(rates, backtest.SpreadThreshold(1.5, 0.3), backtest.Costs(0.5), prices=prices)
    return backtest.capacity(result, depth)


@functools.cache
def swept() -> pd.DataFrame:
    rates, prices = _wandering()
    levels = (0.5, 1.0, 1.5, 2.0, 2.5, 9.0)
    rules = {f"from {level:g} bps/8h": backtest.SpreadThreshold(level, 0.3) for level in levels}
    return backtest.sweep(rates, rules, backtest.Costs(6.0), prices=prices)
