"""Coin-settled contracts and spot (with its borrow cost) as legs of a pair.

The formulas are those of `derivdata.analysis.backtest.coin_legs`: the coins of a leg are kept until the exit
and are worth their price then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from derivdata.analysis.align import align
from derivdata.analysis.inputs import require_labels, with_symbol
from derivdata.analysis.panels import Panel, hours, interval_of, require, require_rate, usual_step
from derivdata.analysis.settlements import merge_late_stamps
from derivdata.support.arguments import typed
from derivdata.support.arrays import Floats
from derivdata.units import BPS, REFERENCE_HOURS, USD_UNIT

_LINEAR = "linear"


class Leg(NamedTuple):
    """One leg of a pair."""

    name: str
    venue: str
    direction: float
    fee_bps: float
    kind: str
    settle: str
    """Symbol of the coin that a quanto contract is settled in."""


def kind_of_contract(contracts: Mapping[str, str], venue: str) -> tuple[str, str]:
    """Return the kind of a venue's contracts and, of quanto contracts, the settlement coin."""
    stated = contracts.get(venue, _LINEAR)
    kind, _, coin = stated.partition(":")
    if stated not in (_LINEAR, "inverse") and not (kind == "quanto" and coin):
        raise ValueError(
            f"contracts[{venue!r}]={stated!r} must be 'linear', 'inverse' or 'quanto:' and the coin in which "
            "it is settled, such as 'quanto:BTC'"
        )
    return kind, coin


def earned_by_legs(
    panel: xr.DataArray,
    prices: xr.DataArray,
    legs: tuple[Leg, Leg],
    start: np.datetime64,
    end: np.datetime64,
    leg_usd: float,
) -> xr.Dataset:
    """Return what each leg earned from start to end [coin, USD], by symbol; NaN where a mark is missing."""
    rates, interval = merge_late_stamps(panel.drop_vars("interval_hours"), interval_of(panel))
    rates = with_symbol(rates)
    interval = with_symbol(interval)
    marks = with_symbol(require(prices, "exchange", "time", units=USD_UNIT, name="prices"))
    step = np.timedelta64(round(usual_step(hours(marks, name="prices")) * 3600), "s")
    stamps = rates["time"].to_numpy()
    paid = (stamps > start) & (stamps <= end)
    times = np.unique(np.concatenate([np.array([start, end]), stamps[paid]]))
    marks = align(marks, pd.DatetimeIndex(times), tolerance=pd.Timedelta(step))["value"]
    symbols = [str(symbol) for symbol in rates["symbol"].to_numpy()]
    require_labels(marks, "prices", "symbol", [*symbols, *(leg.settle for leg in legs if leg.settle)])
    figures: dict[str, list[float]] = {f"{leg.name}_{unit}": [] for leg in legs for unit in ("coin", "usd")}
    for symbol in symbols:
        own = [marks.sel(symbol=symbol, exchange=leg.venue).transpose("time").to_numpy() for leg in legs]
        coins = leg_usd / (0.5 * (own[0][0] + own[1][0]))
        for leg, price in zip(legs, own, strict=True):
            settle = price if leg.kind == "inverse" else np.ones_like(price)
            if leg.settle:
                settle = marks.sel(symbol=leg.settle, exchange=leg.venue).transpose("time").to_numpy()
            series = rates.sel(symbol=symbol, exchange=leg.venue).transpose("time").to_numpy()[paid]
            lasts = interval.sel(symbol=symbol, exchange=leg.venue).transpose("time").to_numpy()[paid]
            at = np.searchsorted(times, stamps[paid])
            earned = _of_leg(leg, coins, series, lasts, at, price, settle)
            figures[f"{leg.name}_coin"].append(np.nan if leg.kind == _LINEAR else earned)
            figures[f"{leg.name}_usd"].append(earned * settle[-1])
    result = {
        name: ("symbol", np.array(values), {"units": USD_UNIT if name.endswith("usd") else "coin"})
        for name, values in figures.items()
    }
    return xr.Dataset(result, {"symbol": symbols})


def _of_leg(
    leg: Leg,
    coins: float,
    rates: Floats,
    lasts: Floats,
    at: NDArray[np.intp],
    price: Floats,
    settle: Floats,
) -> float:
    """Return what a leg earned in its settlement coin: payments and price P&L less the fees of two trades."""
    known = np.isfinite(rates) & (lasts > 0.0)
    rate = -leg.direction * rates[known] * lasts[known] / REFERENCE_HOURS / BPS
    at = at[known]
    fee = leg.fee_bps / BPS
    if leg.kind == "inverse":
        notional = coins * price[0]
        received = (rate * notional / price[at]).sum()
        gained = leg.direction * notional * (1.0 / price[0] - 1.0 / price[-1])
        return float(received + gained - fee * notional * (1.0 / price[0] + 1.0 / price[-1]))
    multiplier = coins / settle[0]
    received = (rate * multiplier * price[at]).sum()
    gained = leg.direction * multiplier * (price[-1] - price[0])
    return float(received + gained - fee * multiplier * (price[0] + price[-1]))


OWNED = "spot"
BORROWED = "borrowed"
"""Venues whose legs are coins: of the first they are bought, of the second they are borrowed and sold."""


@typed
def with_spot(panel: Panel, *, borrow_apr: float | None = None) -> xr.DataArray:
    """Add spot to a panel of funding rates, as venues whose legs are coins instead of contracts.

    Parameters
    ----------
    panel
        Funding rates [bps/8h], dims ``exchange`` and ``time``, others allowed.
    borrow_apr
        What borrowed coins cost [fraction per year].

    Returns
    -------
    DataArray, dims of the panel
        Its venues and ``"spot"``, at 0 where a symbol's venue with the most rates has one: to be long of.
        With `borrow_apr` also ``"borrowed"``, at minus its rate, which the short pays: to be short of. Pairs
        such as ``("spot", "binance")`` then go through ``forecast_carry`` and the other functions of pairs; a
        trade of spot has a fee of its own in ``fee_bps``, and its price is that of ``dd.prices.spot``.

    Raises
    ------
    ValueError, TypeError
        The panel is none of rates or has these venues already; `borrow_apr` is below 0 or not finite.
    """
    rates = require_rate(panel, "exchange", "time")
    if borrow_apr is not None and not 0.0 <= borrow_apr < np.inf:
        raise ValueError(f"{borrow_apr=} must be a fraction of 0 or more per year")
    legs = {OWNED: 0.0} | ({} if borrow_apr is None else {BORROWED: -1e4 * borrow_apr / (3 * 365)})
    if taken := [str(name) for name in rates["exchange"].values if name in legs]:
        raise ValueError(f"panel has the venue {taken[0]!r} already")
    model = free_leg(rates)
    added = [(model + rate).expand_dims(exchange=[name]) for name, rate in legs.items()]
    joined: xr.DataArray = xr.concat([rates, *added], "exchange", join="exact")
    return joined.rename(rates.name).assign_attrs(rates.attrs)


def free_leg(rates: xr.DataArray) -> xr.DataArray:
    """Return rates of 0 at the instants of the venue with the most rates of each symbol."""
    if not rates.sizes["exchange"]:
        raise ValueError("no venue of rates along exchange: a leg without funding takes the times of one")
    most = rates.count("time").argmax("exchange").compute()
    return 0.0 * rates.isel(exchange=most).drop_vars("exchange")
