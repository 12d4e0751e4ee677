"""Questions to the analysis of panels and events."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import xarray as xr

import derivdata as dd
from benchmarks.functions import inputs
from benchmarks.functions.inputs import SIZE, bars, events, prices, rates, runs, settled, share, usd
from benchmarks.functions.question import Question
from derivdata import analysis
from derivdata.analysis import (
    align,
    backtest,
    basis,
    depth,
    funding,
    futures,
    liquidations,
    oi,
    sessions,
    taker,
    volatility,
)

__all__ = ["QUESTIONS"]

_PAID = "43 venues × 30 symbols × 90 days of payments, every 8 h"
_EVENTS = "six hours of liquidations of all venues"
_BARS = "days of a year, 30 assets on one venue"
_DATED = "hours of one symbol on one venue, 30 days, nine expiries"
_PAIR = "venue00", "venue07"
_STOCKS = "43 venues × 10 symbols × 30 days of hours"


def _futures() -> pd.DataFrame:
    table: pd.DataFrame = inputs.table("futures.history", "BTC", "30d", venues="okx")
    return table


@functools.cache
def _curve() -> xr.Dataset:
    return futures.term_structure(_futures())


def _minutes() -> pd.DataFrame:
    return liquidations.bucket(events(), "5min")


@functools.cache
def _books() -> pd.DataFrame:
    levels = np.arange(1, 51)
    sides = [
        pd.DataFrame({"side": name, "level": levels, "price_usd": 100.0 + sign * 0.02 * levels, "size": 1.0})
        for name, sign in (("bid", -1.0), ("ask", 1.0))
    ]
    times = pd.date_range("2026-06-29", periods=24, freq="h", tz="UTC")
    books = pd.concat([side.assign(time=time) for time in times for side in sides], ignore_index=True)
    return books.assign(symbol="BTC", exchange="binance")


def _calendar() -> pd.DataFrame:
    return sessions.calendar("XNYS", "2025-07-01", "2026-07-01")


@functools.cache
def _spans() -> pd.DataFrame:
    times = rates()["time"].to_index()
    return sessions.calendar("XNYS", times[0], times[-1])


QUESTIONS = {
    "analysis.align.align": Question(f"{SIZE}, to steps of 4 h", lambda: align.align(rates(), "4h")),
    "analysis.align.asof_join": Question(
        "hours of one symbol on 43 venues, 30 days, beside another column of them",
        lambda: align.asof_join(
            inputs.one_symbol(), inputs.one_symbol().rename(columns={"rate_bps_8h": "other"}), tolerance="2h"
        ),
    ),
    "analysis.basis.against": Question(SIZE, lambda: basis.against(prices(), prices())),
    "analysis.futures.cash_and_carry": Question(_DATED, lambda: futures.cash_and_carry(_curve())),
    "analysis.futures.constant_maturity": Question(_DATED, lambda: futures.constant_maturity(_curve())),
    "analysis.futures.roll": Question(_DATED, lambda: futures.roll(_futures(), before="3d")),
    "analysis.futures.term_structure": Question(_DATED, lambda: futures.term_structure(_futures())),
    "analysis.futures.with_leg": Question(
        _DATED,
        lambda: futures.with_leg(
            dd.panel(inputs.table("funding.settlements", "BTC", "30d", venues="okx")),
            dd.panel(inputs.table("prices.history", "BTC", "30d", venues="okx")),
            futures.roll(_futures(), before="3d"),
        ),
    ),
    "analysis.funding.cumulative": Question(SIZE, lambda: funding.cumulative(rates())),
    "analysis.funding.with_spot": Question(SIZE, lambda: funding.with_spot(rates())),
    "analysis.funding.dispersion": Question(SIZE, lambda: funding.dispersion(rates())),
    "analysis.funding.infer_interval": Question(_PAID, lambda: funding.infer_interval(settled())),
    "analysis.funding.next_settlements": Question(
        "payments of one symbol on all venues, 30 days",
        lambda: funding.next_settlements(inputs.table("funding.settlements", "BTC", "30d"), dd.asof()),
    ),
    "analysis.funding.oi_weighted": Question(SIZE, lambda: funding.oi_weighted(rates(), usd())),
    "analysis.funding.realised_carry": Question(
        _PAID,
        lambda: funding.realised_carry(settled(), *_PAIR, "2026-02-01", "2026-03-01", fee_bps=1.0),
    ),
    "analysis.funding.slippage_bps": Question(
        "books of 43 venues", lambda: funding.slippage_bps(inputs.capped(), 1e5)
    ),
    "analysis.funding.spread": Question(SIZE, lambda: funding.spread(rates(), *_PAIR)),
    "analysis.funding.universe": Question(SIZE, lambda: funding.universe(usd(), 10)),
    "analysis.oi.by_kind": Question(SIZE, lambda: oi.by_kind(usd())),
    "analysis.oi.in_coins": Question(SIZE, lambda: oi.in_coins(usd(), prices())),
    "analysis.oi.migration": Question(
        SIZE, lambda: oi.migration(usd(), usd()["time"].values[0], usd()["time"].values[-1])
    ),
    "analysis.oi.oi_to_volume": Question(SIZE, lambda: oi.oi_to_volume(usd(), usd("volume_24h_usd"))),
    "analysis.oi.share_trend": Question(
        "one symbol on 43 venues, 30 days in steps of 4 h",
        lambda: oi.share_trend(share().isel(symbol=[0], time=slice(None, None, 4))),
    ),
    "analysis.liquidations.branching_ratio": Question(
        _EVENTS, lambda: liquidations.branching_ratio(_minutes()["count"])
    ),
    "analysis.liquidations.bucket": Question(_EVENTS, _minutes),
    "analysis.liquidations.cascades": Question(
        _EVENTS, lambda: liquidations.cascades(runs(), min_count=5, min_usd=1e5)
    ),
    "analysis.liquidations.imbalance": Question(
        SIZE, lambda: liquidations.imbalance(usd().to_numpy(), usd().to_numpy() + 1.0)
    ),
    "analysis.liquidations.observed": Question(_EVENTS, lambda: liquidations.observed(events())),
    "analysis.backtest.capacity": Question(
        f"a backtest of {SIZE}", lambda: backtest.capacity(inputs.backtested(), inputs.capped())
    ),
    "analysis.backtest.trades": Question(
        f"a backtest of {SIZE}", lambda: backtest.trades(inputs.backtested())
    ),
    "analysis.volatility.bars": Question(f"{SIZE}, to days", lambda: volatility.bars(prices(), step="1d")),
    "analysis.volatility.bipower": Question(SIZE, lambda: volatility.bipower(prices(), "1d")),
    "analysis.volatility.cone": Question(_BARS, lambda: volatility.cone(bars(), ["7d", "14d", "30d", "90d"])),
    "analysis.volatility.implied_minus_realised": Question(
        _BARS,
        lambda: volatility.implied_minus_realised(
            volatility.realised(bars(), "30d") * 1.1, volatility.realised(bars(), "30d"), window="30d"
        ),
    ),
    "analysis.volatility.realised": Question(_BARS, lambda: volatility.realised(bars(), "30d")),
    "analysis.funding.best_pair": Question(SIZE, lambda: funding.best_pair(rates())),
    "analysis.funding.comovement": Question(SIZE, lambda: funding.comovement(rates())),
    "analysis.funding.forecast_carry": Question(
        "hours of one symbol on 43 venues, 60 days",
        lambda: funding.forecast_carry(rates(1, 60), hold="7d", fee_bps=2.0),
    ),
    "analysis.funding.forecast_history": Question(
        "hours of one symbol on 43 venues, a year of daily decisions",
        lambda: funding.forecast_history(rates(1, 365), hold="7d", fee_bps=2.0),
    ),
    "analysis.funding.half_life": Question(
        _PAID, lambda: funding.half_life(settled(), method="ols", level=None)
    ),
    "analysis.funding.breakeven": Question(
        "payments of one symbol on 43 venues, 90 days",
        lambda: funding.breakeven(settled(1), *_PAIR, fee_bps=1.0),
    ),
    "analysis.funding.period_sums": Question(
        f"{_PAID}, to days", lambda: funding.period_sums(settled(), "1d")
    ),
    "analysis.funding.pick_record": Question(
        "payments of one symbol on 43 venues, 90 days",
        lambda: funding.pick_record(settled(1), hold="3d", fee_bps=2.0),
    ),
    "analysis.funding.pick_summary": Question(
        "picks of one symbol, 90 days", lambda: funding.pick_summary(inputs.picks())
    ),
    "analysis.carry_table": Question(
        "the forecast of one symbol on 43 venues",
        lambda: analysis.carry_table(inputs.forecast()),
    ),
    "analysis.percentile": Question(
        "one symbol on 43 venues, 30 days", lambda: analysis.percentile(rates(1), "7d")
    ),
    "analysis.depth.by_band": Question("24 books of 50 levels a side", lambda: depth.by_band(_books())),
    "analysis.depth.market_order_cost": Question(
        "24 books of 50 levels a side", lambda: depth.market_order_cost(_books(), 1_000.0)
    ),
    "analysis.sessions.calendar": Question("New York, a year", _calendar),
    "analysis.sessions.by_session": Question(
        _STOCKS, lambda: sessions.by_session(_spans(), funding=rates(10), oi=usd().isel(symbol=slice(10)))
    ),
    "analysis.sessions.closures": Question(
        _STOCKS,
        lambda: sessions.closures(
            _spans(),
            mark=prices().isel(symbol=slice(10)),
            index=prices().isel(symbol=slice(10)),
            funding=rates(10),
        ),
    ),
    "analysis.taker.imbalance": Question(SIZE, lambda: taker.imbalance(prices(), prices())),
    "analysis.taker.cumulative_delta": Question(SIZE, lambda: taker.cumulative_delta(prices(), prices())),
    "analysis.rank": Question(SIZE, lambda: analysis.rank(rates())),
    "analysis.funding.zscore": Question(SIZE, lambda: funding.zscore(rates(), "7d")),
    "analysis.oi.hhi": Question(SIZE, lambda: oi.hhi(share())),
    "analysis.oi.market_share": Question(SIZE, lambda: oi.market_share(usd())),
    "analysis.liquidations.clusters": Question(_EVENTS, lambda: liquidations.clusters(events(), gap="10s")),
    "analysis.backtest.carry": Question(
        SIZE,
        lambda: backtest.carry(
            rates(), backtest.SpreadThreshold(0.5, 0.1), backtest.Costs(1.0), prices=prices(), leg_usd=1e4
        ),
    ),
    "analysis.backtest.options": Question(
        "a hedged strangle on 31 days of chains every eight hours, fitted before", inputs.option_strategy
    ),
    "analysis.backtest.sweep": Question(
        "hours of one symbol on 43 venues, 30 days, six rules",
        lambda: backtest.sweep(
            rates(1),
            {str(n): backtest.SpreadThreshold(0.1 * n + 0.4, 0.1) for n in range(6)},
            backtest.Costs(1.0),
        ),
    ),
}
