"""What the legs of a held pair earned, payments and price, where contracts are settled in a coin.

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
from derivdata.analysis.panels import hours, interval_of, require, usual_step
from derivdata.analysis.settlements import merge_late_stamps
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
    rates, interval = with_symbol(rates), with_symbol(interval)
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
