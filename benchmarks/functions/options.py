"""Questions to the analysis of options: one chain, its smiles and its surface."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from benchmarks.functions import inputs
from benchmarks.functions.inputs import K, cleaned, fitted, legs, quotes, raw, table, whole
from benchmarks.functions.question import Question
from derivdata.analysis import (
    black76,
    business_time,
    chain,
    delivery,
    exposure,
    flags,
    option_trades,
    position,
    risk_neutral,
    smile,
    surface,
    variance,
)
from derivdata.analysis.smile import svi

__all__ = ["QUESTIONS"]

_CHAIN = "the options of one asset on one venue"
_SMILES = "eleven smiles × 41 places"
_LEGS = "50 options of one chain"
_MANY = "100,000 options"
_PLACES = "one surface × 41 places × 4 times"


@functools.cache
def _options() -> tuple[Any, ...]:
    """Forward, strikes and years of many options."""
    rng = np.random.default_rng(1)
    return 100.0, rng.uniform(70, 140, 100_000), rng.uniform(0.02, 1.0, 100_000)


@functools.cache
def _paid() -> Any:
    return black76.price(*_options(), 0.5, "call")


def _snapshot() -> Any:
    return table("options.snapshot", "BTC", "deribit")


def _day() -> Any:
    return table("options.surface_history", "BTC", "deribit", "1d")


def _traded() -> Any:
    return table("options.trades", "BTC", "1d", venues="deribit")


@functools.cache
def _delivered() -> Any:
    """A price for each expiry of the surface, as if all were over."""
    expiries = whole()["expiry"].to_index().tz_localize("UTC")
    told = {"symbol": "BTC", "exchange": "deribit", "time": expiries, "price_usd": 100_000.0}
    return pd.DataFrame(told)


@functools.cache
def _slopes() -> xr.Dataset:
    return surface.from_chain(_snapshot(), method="essvi")


@functools.cache
def _later() -> xr.Dataset:
    """Return the same surface an hour later."""
    return whole().assign_coords(year_fraction=whole()["year_fraction"] - 1 / 365 / 24)


def _places(of: Callable[..., Any]) -> Any:
    times = xr.DataArray([0.02, 0.1, 0.25, 0.4], dims="maturity")
    return of(_slopes(), xr.DataArray(K, dims="place"), times)


@functools.cache
def _priced() -> xr.DataArray:
    """Prices of 200 strikes, by side."""
    strikes = np.linspace(40.0, 240.0, 200)
    strike = xr.DataArray(strikes, dims="strike", coords={"strike": strikes})
    side = xr.DataArray(["call", "put"], dims="side", coords={"side": ["call", "put"]})
    return black76.price(100.0, strike, 0.25, 0.5, side)


QUESTIONS = {
    "analysis.black76.price": Question(_MANY, lambda: black76.price(*_options(), 0.5, "call")),
    "analysis.black76.greeks": Question(_MANY, lambda: black76.greeks(*_options(), 0.5, "call")),
    "analysis.black76.implied_vol": Question(
        _MANY, lambda: black76.implied_vol(_paid(), *_options(), "call")
    ),
    "analysis.business_time.years": Question(
        "one window", lambda: business_time.years("2026-06-29", "2026-07-06", weekend_weight=0.5)
    ),
    "analysis.business_time.fit": Question(_CHAIN, lambda: business_time.fit(whole(), weekend_weight=0.5)),
    "analysis.chain.arbitrage": Question(_CHAIN, lambda: chain.arbitrage(quotes())),
    "analysis.chain.basis": Question(_CHAIN, lambda: chain.basis(inputs.forwards(), spot=100_000.0)),
    "analysis.chain.clean": Question(_CHAIN, lambda: chain.clean(_snapshot())),
    "analysis.chain.executable": Question(_CHAIN, lambda: chain.executable(_snapshot())),
    "analysis.chain.forwards": Question(_CHAIN, lambda: chain.forwards(cleaned())),
    "analysis.chain.greeks": Question(_CHAIN, lambda: chain.greeks(_snapshot())),
    "analysis.chain.smiles": Question(_CHAIN, lambda: chain.smiles(cleaned())),
    "analysis.exposure.gamma_exposure": Question(_CHAIN, lambda: exposure.gamma_exposure(_snapshot())),
    "analysis.exposure.history": Question(_CHAIN, lambda: exposure.history(_snapshot())),
    "analysis.exposure.max_pain": Question(_CHAIN, lambda: exposure.max_pain(_snapshot())),
    "analysis.exposure.open_interest": Question(_CHAIN, lambda: exposure.open_interest(_snapshot())),
    "analysis.exposure.put_call_ratio": Question(_CHAIN, lambda: exposure.put_call_ratio(_snapshot())),
    "analysis.exposure.zero_gamma": Question(
        _CHAIN, lambda: exposure.zero_gamma(_snapshot(), dealer={"call": 1.0, "put": -1.0})
    ),
    "analysis.position.attribution": Question(
        f"{_LEGS}, an hour", lambda: position.attribution(legs(), whole(), _later())
    ),
    "analysis.position.greeks": Question(_LEGS, lambda: position.greeks(legs(), whole())),
    "analysis.position.scenarios": Question(
        f"{_LEGS}, 9 moves of spot × 5 of volatility × 3 days",
        lambda: position.scenarios(
            legs(),
            whole(),
            spot_change=np.linspace(-0.2, 0.2, 9),
            vol_change=np.linspace(-0.1, 0.1, 5),
            elapsed=["0d", "1d", "3d"],
        ),
    ),
    "analysis.position.vega_buckets": Question(_LEGS, lambda: position.vega_buckets(legs(), whole())),
    "analysis.option_trades.flow": Question(
        "a day of one venue, by strike and side", lambda: option_trades.flow(_traded())
    ),
    "analysis.option_trades.chain": Question(
        "the last six hours of one venue", lambda: option_trades.chain(_traded())
    ),
    "analysis.delivery.probabilities": Question(
        "one surface, eleven expiries", lambda: delivery.probabilities(whole(), _delivered())
    ),
    "analysis.delivery.calibration": Question(
        "a thousand deliveries",
        lambda: delivery.calibration(xr.DataArray(np.linspace(0.001, 0.999, 1000), dims="expiry")),
    ),
    "analysis.risk_neutral.density": Question(
        "one surface × 41 places", lambda: risk_neutral.density(whole(), K)
    ),
    "analysis.risk_neutral.moments": Question("one surface", lambda: risk_neutral.moments(whole())),
    "analysis.risk_neutral.quantile": Question(
        "one surface, five probabilities",
        lambda: risk_neutral.quantile(whole(), [0.05, 0.25, 0.5, 0.75, 0.95]),
    ),
    "analysis.flags": Question("the status of a fit of eleven expiries", lambda: flags(fitted())),
    "analysis.smile.butterfly_check": Question("eleven smiles", lambda: smile.butterfly_check(fitted())),
    "analysis.smile.fit": Question(
        "the smiles of one chain",
        lambda: smile.fit(quotes()["log_moneyness"], quotes()["iv"], quotes()["year_fraction"]),
    ),
    "analysis.smile.from_raw": Question(
        "eleven smiles", lambda: smile.from_raw(raw(), quotes()["year_fraction"])
    ),
    "analysis.smile.iv": Question(_SMILES, lambda: smile.iv(fitted(), K)),
    "analysis.smile.svi.convert": Question(
        "eleven smiles to jump wings and back",
        lambda: svi.convert(svi.convert(raw(), quotes()["year_fraction"]), quotes()["year_fraction"]),
    ),
    "analysis.smile.total_variance": Question(_SMILES, lambda: smile.total_variance(fitted(), K)),
    "analysis.surface.calendar_check": Question("one surface", lambda: surface.calendar_check(whole())),
    "analysis.surface.constant_maturity": Question("one surface", lambda: surface.constant_maturity(whole())),
    "analysis.surface.at": Question("one surface", lambda: surface.at(whole(), 0.15, target_delta=0.25)),
    "analysis.surface.forward_variance": Question(
        "one surface", lambda: surface.forward_variance(whole(), 0.05, 0.2)
    ),
    "analysis.surface.from_chain": Question(_CHAIN, lambda: surface.from_chain(_snapshot())),
    "analysis.surface.from_essvi": Question(
        "one surface of three expiries",
        lambda: surface.from_essvi([0.02, 0.06, 0.1], [-0.3] * 3, [0.1, 0.2, 0.3], [0.1, 0.3, 0.5]),
    ),
    "analysis.surface.fit": Question(
        "the smiles of one chain",
        lambda: surface.fit(quotes()["log_moneyness"], quotes()["iv"], quotes()["year_fraction"]),
    ),
    "analysis.surface.history": Question(
        "one asset on one venue, four chains of a day",
        lambda: surface.history(_day().isel(time=slice(None, None, 6)), tenors=("7d", "30d", "90d")),
    ),
    "analysis.surface.iv": Question(_PLACES, lambda: _places(surface.iv)),
    "analysis.surface.local_volatility": Question(_PLACES, lambda: _places(surface.local_volatility)),
    "analysis.surface.term_structure": Question("one surface", lambda: surface.term_structure(whole())),
    "analysis.variance.cboe": Question(
        "200 strikes", lambda: variance.cboe(_priced() * 0.99, _priced() * 1.01, 0.25)
    ),
    "analysis.variance.model_free": Question("one surface", lambda: variance.model_free(whole())),
    "analysis.variance.volatility_index": Question(
        "one surface", lambda: variance.volatility_index(inputs.free())
    ),
}
