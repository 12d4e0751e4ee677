"""Small valid inputs of every kind, made once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import xarray as xr

import derivdata as dd
from derivdata.analysis import backtest, black76, chain, smile, surface, variance
from derivdata.analysis.smile import svi
from tests.analysis import option_oracle

Calls: TypeAlias = dict[str, Callable[[], dict[str, Any]]]
"""The arguments of a valid call, by the function's dotted name."""

AS_OF = pd.Timestamp("2026-06-30 12:00", tz="UTC")
HOURS = pd.date_range("2026-06-28", periods=48, freq="h", unit="us")
RATE = {"units": "bps/8h", "kind": "sampled"}
DAY = {"start": "2026-06-29", "end": "2026-06-30"}
VENUES = ["binance", "bybit", "okx"]


def panel(name: str, values: Any, attrs: Mapping[str, Any], times: Any = HOURS) -> xr.DataArray:
    """Values of (venue, time) for one symbol."""
    coords = {"symbol": ["BTC"], "exchange": VENUES, "time": times}
    return xr.DataArray(np.asarray(values)[None], coords, tuple(coords), name, dict(attrs))


@functools.cache
def rates() -> xr.DataArray:
    wave = np.sin(np.arange(48) / 5)
    return panel("rate_bps_8h", [wave, 0.5 + wave**2, 1 - wave], RATE)


@functools.cache
def settled() -> xr.DataArray:
    values = np.random.default_rng(1).normal(size=(3, 48))
    times = pd.date_range("2026-06-14", periods=48, freq="8h", unit="us")
    result = panel("rate_bps_8h", values, {**RATE, "kind": "settled"}, times)
    return result.assign_coords(interval_hours=8.0)


@functools.cache
def forecasts() -> xr.Dataset:
    prices = amounts("price_usd")
    return dd.analysis.funding.forecast_history(settled(), hold="1d", fee_bps=0.25, prices=prices)


@functools.cache
def amounts(name: str = "oi_usd") -> xr.DataArray:
    values = [np.arange(1.0, 49.0), np.arange(49.0, 1.0, -1.0), np.full(48, 9.0)]
    if name == "price_usd":  # of one coin, so that venues lie close together
        values = [factor * np.arange(101.0, 149.0) for factor in (1.0, 1.001, 0.999)]
    return panel(name, values, {"units": "USD"})


@functools.cache
def dated() -> pd.DataFrame:
    """Two dated futures of each hour and venue."""
    marks = amounts("price_usd").to_series().rename("index_price_usd").reset_index()
    expiries = pd.DataFrame({"expiry": HOURS[-1] + pd.to_timedelta([30, 90], "D")})
    table = marks.merge(expiries, how="cross")
    table["time"], table["expiry"] = (table[name].dt.tz_localize("UTC") for name in ("time", "expiry"))
    return table.assign(
        instrument_name=table["expiry"].dt.strftime("BTC-%y%m%d"),
        price_usd=1.01 * table["index_price_usd"],
        oi_usd=1.0,
    )


@functools.cache
def backtested() -> xr.Dataset:
    return backtest.carry(rates(), backtest.SpreadThreshold(0.5, 0.1), backtest.Costs(1.0), leg_usd=1e4)


@functools.cache
def books() -> pd.DataFrame:
    """Books of two times."""
    levels = [("bid", 1, 99.9), ("bid", 2, 99.0), ("ask", 1, 100.1), ("ask", 2, 101.0)]
    rows = pd.DataFrame(levels, columns=["side", "level", "price_usd"])
    both = pd.concat([rows.assign(time=AS_OF), rows.assign(time=AS_OF - pd.Timedelta(1, "h"))])
    return both.assign(symbol="BTC", exchange="okx", size=1.0).reset_index(drop=True)


@functools.cache
def session_spans() -> pd.DataFrame:
    return dd.analysis.sessions.calendar("XNYS", "2026-06-13", "2026-07-02")


@functools.cache
def depth() -> xr.DataArray:
    coords = {"exchange": VENUES, "side": ["bid", "ask"], "depth_bps": [5.0, 10.0, 50.0]}
    return xr.DataArray(
        np.broadcast_to([1e4, 3e4, 2e5], (3, 2, 3)), coords, tuple(coords), attrs={"units": "USD"}
    )


@functools.cache
def settlements() -> pd.DataFrame:
    times = pd.date_range("2026-06-28", periods=6, freq="8h", tz="UTC")
    rows = {"symbol": "BTC", "exchange": "okx", "time": times, "interval_hours": 8.0, "kind": "settled"}
    rates = {"rate_native": 1e-4, "rate_bps_8h": 1.0}
    return dd.tables.TABLES["funding_settlements"].conform(pd.DataFrame({**rows, **rates}))


STRANGLE = backtest.Roll([backtest.OptionLeg(side, -1.0, "7d", delta=0.3) for side in ("call", "put")])


@functools.cache
def option_chains() -> pd.DataFrame:
    """Return three chains with bid and ask."""
    return option_oracle.made_chains([100_000.0, 101_000.0, 100_500.0], expiries=2)


@functools.cache
def options() -> pd.DataFrame:
    """Two expiries of seven strikes, calls and puts."""
    rows = [
        {"expiry": AS_OF + pd.Timedelta(days, "D"), "strike": strike, "side": side}
        for days in (30, 90)
        for strike in (70.0, 80.0, 90.0, 100.0, 110.0, 120.0, 130.0)
        for side in ("call", "put")
    ]
    frame = pd.DataFrame(rows).assign(symbol="BTC", exchange="deribit", time=AS_OF, underlying_price=100.0)
    years = (frame["expiry"] - AS_OF) / pd.Timedelta("365D")
    k = np.log(frame["strike"] / 100.0)
    frame = frame.assign(iv=0.5 + 0.2 * k**2 - 0.1 * k, open_interest=10.0)
    at = (100.0, frame["strike"], years, frame["iv"], frame["side"])
    greeks = black76.greeks(*at, which=("delta", "gamma"))
    stamps = frame["expiry"].dt.strftime("%d%b%y").str.upper()
    names = (
        "BTC-"
        + stamps
        + "-"
        + frame["strike"].astype(int).astype(str)
        + "-"
        + frame["side"].str[0].str.upper()
    )
    frame = frame.assign(instrument_name=names, delta=greeks["delta"], gamma=greeks["gamma"])
    return dd.tables.TABLES["options_snapshot"].conform(frame)


@functools.cache
def quoted_options() -> pd.DataFrame:
    """Return the same with bids and asks, one of them with a butterfly arbitrage."""
    frame = options()
    at = (frame[name] for name in ("underlying_price", "strike"))
    years = (frame["expiry"] - AS_OF) / pd.Timedelta("365D")
    usd = black76.price(*at, years, frame["iv"], frame["side"])
    bid = np.where((frame["strike"] == 100.0) & (frame["side"] == "call"), usd * 1.3, usd * 0.99)
    return dd.tables.TABLES["options_snapshot"].conform(
        frame.assign(bid_usd=bid, ask_usd=np.maximum(usd * 1.01, bid))
    )


@functools.cache
def legs() -> pd.DataFrame:
    """A risk reversal in the first expiry and a call in the second."""
    days = [30, 30, 90]
    return pd.DataFrame(
        {
            "expiry": [AS_OF + pd.Timedelta(day, "D") for day in days],
            "strike": [90.0, 110.0, 100.0],
            "side": ["put", "call", "call"],
            "quantity": [-1.0, 1.0, 2.0],
        }
    )


@functools.cache
def later_surface() -> xr.Dataset:
    """The surface of a day later, volatility up by a tenth."""
    frame = options()
    moved = frame.assign(time=frame["time"] + pd.Timedelta("1D"), iv=frame["iv"] * 1.1)
    return surface.from_chain(moved, method="essvi")


@functools.cache
def fitted() -> xr.Dataset:
    result = quotes()
    return smile.fit(result["log_moneyness"], result["iv"], result["year_fraction"])


@functools.cache
def slopes() -> xr.Dataset:
    """The parameters of SSVI slices, of two expiries."""
    return surface.from_chain(options(), method="essvi")


@functools.cache
def priced() -> xr.DataArray:
    """Prices of one expiry, by strike and side."""
    strikes = xr.DataArray(np.arange(70.0, 131.0, 10.0), dims="strike")
    strikes = strikes.assign_coords(strike=strikes.to_numpy())
    side = xr.DataArray(["call", "put"], dims="side", coords={"side": ["call", "put"]})
    return black76.price(100.0, strikes, 0.25, 0.5, side)


@functools.cache
def history() -> pd.DataFrame:
    frame = rates().to_series().reset_index().assign(resolution="1h", kind="sampled")
    return dd.tables.TABLES["funding_history"].conform(frame.assign(time=frame["time"].dt.tz_localize("UTC")))


@functools.cache
def venues() -> xr.Dataset:
    """Surfaces of two venues."""
    both = pd.concat([options(), options().assign(exchange="okx")], ignore_index=True)
    return surface.from_chain(both.astype({"exchange": "category"}))


@functools.cache
def counts() -> xr.DataArray:
    return xr.DataArray(np.random.default_rng(2).poisson(3.0, 100).astype(float), dims="time")


@functools.cache
def carry(hold: str = "8h") -> xr.Dataset:
    forecast = dd.analysis.funding.forecast_carry(settled(), [("binance", "okx")], hold=hold, fee_bps=1.0)
    return forecast.isel(pair=0)


# What one call makes of another.
picks = functools.cache(lambda: dd.analysis.funding.pick_record(settled(), hold="1d", fee_bps=0.25))
basis_curve = functools.cache(lambda: dd.analysis.futures.term_structure(dated()))
bars = functools.cache(lambda: dd.analysis.volatility.bars(amounts("price_usd"), step="4h"))
volatilities = functools.cache(lambda: dd.analysis.volatility.realised(bars(), "12h"))
one_volatility = functools.cache(lambda: volatilities().isel(symbol=0, exchange=0, drop=True))
share = functools.cache(lambda: dd.analysis.oi.market_share(amounts()))
attributed = functools.cache(lambda: dd.analysis.position.attribution(legs(), slopes(), later_surface()))
cleaned = functools.cache(lambda: chain.clean(options()))
forwards = functools.cache(lambda: chain.forwards(cleaned()))
quotes = functools.cache(lambda: chain.smiles(cleaned()))
whole = functools.cache(lambda: surface.from_chain(options()))
free = functools.cache(lambda: variance.model_free(whole()))
fetched = functools.cache(lambda: dd.oi.exchanges())

VOGT = svi.Raw(a=0.02, b=0.13, rho=-0.3, m=0.0, sigma=0.4)
LOCAL = [-0.2, -0.1, 0.0, 0.1, 0.2]
AT = {"forward": 100.0, "strike": 100.0, "year_fraction": 0.5, "side": "call"}
PRICE = {**AT, "interest_rate": 0.0, "premium": "linear"}
HISTORY = {**DAY, "venues": ["binance", "okx"], "resolution": "1h"}
