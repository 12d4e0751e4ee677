"""Calls of the analysis of panels and events."""

from __future__ import annotations

from derivdata.analysis import backtest, funding, futures, liquidations
from tests.plot import made as figures_made
from tests.reliability.calls import made
from tests.reliability.calls.made import Calls

__all__ = ["CALLS"]

CALLS: Calls = {
    "analysis.align.align": lambda: {"panel": made.rates(), "grid": "4h", "tolerance": "4h"},
    "analysis.align.asof_join": lambda: {
        "left": made.history(), "right": made.history().rename(columns={"rate_bps_8h": "other"}),
        "tolerance": "2h",
    },
    "analysis.basis.against": lambda: {
        "price": made.amounts("price_usd"), "reference": made.amounts("price_usd"),
    },
    "analysis.futures.cash_and_carry": lambda: {
        "curve": made.basis_curve(), "costs_bps": 1.0, "borrow_apr": 0.05,
    },
    "analysis.futures.constant_maturity": lambda: {"curve": made.basis_curve(), "tenor": "45d"},
    "analysis.futures.roll": lambda: {"futures": made.dated()},
    "analysis.futures.term_structure": lambda: {"futures": made.dated()},
    "analysis.futures.with_leg": lambda: {
        "rates": made.rates(), "prices": made.amounts("price_usd"), "held": futures.roll(made.dated()),
    },
    "analysis.depth.by_band": lambda: {"books": made.books(), "bands": [10.0, 50.0]},
    "analysis.depth.market_order_cost": lambda: {"books": made.books(), "size_usd": [50.0, 150.0]},
    "analysis.sessions.calendar": lambda: {
        "market": "XNYS", "start": "2025-12-01", "end": "2026-03-01", "extended": ("04:00", "20:00"),
    },
    "analysis.sessions.by_session": lambda: {
        "sessions": made.session_spans(), "mark": made.amounts("price_usd"),
        "index": made.amounts("price_usd"), "funding": made.settled(), "oi": made.amounts(),
    },
    "analysis.sessions.closures": lambda: {
        "sessions": made.session_spans(), "mark": made.amounts("price_usd"),
        "index": made.amounts("price_usd"), "funding": made.settled(), "oi": made.amounts(), "after": "5m",
    },
    "analysis.taker.imbalance": lambda: {
        "buy": made.amounts("volume_usd"), "sell": made.amounts("volume_usd"),
    },
    "analysis.taker.cumulative_delta": lambda: {
        "buy": made.amounts("volume_usd"), "sell": made.amounts("volume_usd"),
    },
    "analysis.carry_table": lambda: {
        "forecast": funding.forecast_carry(made.settled(), hold="1d", fee_bps=0.25),
    },
    "analysis.percentile": lambda: {"panel": made.rates(), "window": "12h", "min_rows": 2},
    "analysis.rank": lambda: {"panel": made.rates()},
    "analysis.funding.best_pair": lambda: {
        "panel": made.rates(), "oi_usd": made.amounts(), "min_oi_usd": 1.0, "tradable": made.VENUES,
    },
    "analysis.funding.breakeven": lambda: {
        "panel": made.settled(), "long": "binance", "short": "okx", "fee_bps": 1.0, "depth_usd": made.depth(),
        "size_usd": 1000.0,
    },
    "analysis.funding.comovement": lambda: {"panel": made.rates(), "max_lag": 1, "min_periods": 3},
    "analysis.funding.cumulative": lambda: {"panel": made.rates(), "max_gap": "2h", "step": "1h"},
    "analysis.funding.with_spot": lambda: {"panel": made.rates(), "borrow_apr": 0.1},
    "analysis.funding.dispersion": lambda: {"panel": made.rates()},
    "analysis.funding.forecast_carry": lambda: {
        "panel": made.settled(), "pairs": [("binance", "okx")], "hold": "1d", "fee_bps": 0.25,
    },
    "analysis.funding.forecast_history": lambda: {
        "panel": made.settled(), "pairs": [("binance", "okx")], "hold": "1d", "fee_bps": 0.25,
    },
    "analysis.funding.half_life": lambda: {
        "panel": made.settled(), "period": "8h", "method": "ols", "resamples": 99,
    },
    "analysis.funding.infer_interval": lambda: {"panel": made.settled(), "candidates": ("1h", "8h")},
    "analysis.funding.oi_weighted": lambda: {"panel": made.rates(), "oi_usd": made.amounts()},
    "analysis.funding.period_sums": lambda: {"panel": made.settled(), "min_cover": 0.9},
    "analysis.funding.pick_record": lambda: {"panel": made.settled(), "hold": "1d", "fee_bps": 0.25},
    "analysis.funding.pick_summary": lambda: {"record": made.picks(), "resamples": 99},
    "analysis.funding.portfolio": lambda: {
        "forecasts": made.forecasts(), "prices": made.amounts("price_usd"), "capital": 1e6,
        "max_venue_share": 0.5, "transfer_every": "8h", "max_leg_usd": 1e5, "start": "2026-06-20",
    },
    "analysis.funding.realised_carry": lambda: {
        "panel": made.settled(), "long": "binance", "short": "okx", "start": "2026-06-15",
        "end": "2026-06-20", "fee_bps": 1.0,
    },
    "analysis.funding.slippage_bps": lambda: {"depth_usd": made.depth(), "size_usd": 1000.0},
    "analysis.funding.spread": lambda: {"panel": made.rates(), "long": "binance", "short": "okx"},
    "analysis.funding.universe": lambda: {"oi_usd": made.amounts(), "top": 1},
    "analysis.funding.zscore": lambda: {"panel": made.rates(), "window": "8h", "min_rows": 4},
    "analysis.backtest.carry": lambda: {
        "panel": made.rates(), "rule": backtest.SpreadThreshold(0.5, 0.1), "costs": backtest.Costs(1.0),
        "prices": made.amounts("price_usd"), "depth": made.depth(), "leg_usd": 1e4, "transfer_every": "8h",
    },
    "analysis.backtest.capacity": lambda: {
        "result": made.backtested(), "depth": made.depth(), "sizes_usd": [1e4, 1e5],
    },
    "analysis.backtest.sweep": lambda: {
        "panel": made.rates(), "rules": {"wide": backtest.SpreadThreshold(0.5, 0.1)},
        "costs": backtest.Costs(1.0),
    },
    "analysis.backtest.trades": lambda: {"result": made.backtested()},
    "analysis.funding.next_settlements": lambda: {
        "settlements": made.settlements(), "at": "2026-06-30 12:00", "symbols": ["BTC"], "venues": ["okx"],
    },
    "venues.facts": lambda: {"venues": ["okx"], "day": "2026-06-30"},
    "venues.margin_tiers": lambda: {"venues": ["gateio"], "day": "2026-06-30"},
    "analysis.oi.by_kind": lambda: {"oi": made.amounts()},
    "analysis.oi.hhi": lambda: {"share": made.share()},
    "analysis.oi.market_share": lambda: {"oi": made.amounts(), "venues": made.VENUES},
    "analysis.oi.migration": lambda: {"oi": made.amounts(), "start": made.HOURS[0], "end": made.HOURS[40]},
    "analysis.oi.in_coins": lambda: {"oi": made.amounts(), "price": made.amounts("price_usd")},
    "analysis.oi.oi_to_volume": lambda: {"oi": made.amounts(), "volume_24h": made.amounts("volume_24h_usd")},
    "analysis.oi.share_trend": lambda: {"share": made.share()},
    "analysis.liquidations.branching_ratio": lambda: {"counts": made.counts()},
    "analysis.liquidations.bucket": lambda: {
        "events": figures_made.liquidated(), "freq": "1h", "by": ("symbol",),
    },
    "analysis.liquidations.cascades": lambda: {
        "runs": liquidations.clusters(figures_made.liquidated()), "min_count": 2, "min_usd": 1000.0,
        "quantile": 0.5, "history": 1,
    },
    "analysis.liquidations.clusters": lambda: {"events": figures_made.liquidated(), "by": ("symbol",)},
    "analysis.liquidations.imbalance": lambda: {"long_usd": 3.0, "short_usd": 1.0},
    "analysis.volatility.bars": lambda: {"price": made.amounts("price_usd"), "step": "4h"},
    "analysis.volatility.bipower": lambda: {"price": made.amounts("price_usd"), "window": "6h"},
    "analysis.volatility.cone": lambda: {
        "data": made.bars(), "windows": ["8h", "16h"], "method": "parkinson", "quantiles": [0.1, 0.9],
    },
    "analysis.volatility.implied_minus_realised": lambda: {
        "implied": made.volatilities(), "realised": made.volatilities(), "window": "8h",
    },
    "analysis.volatility.realised": lambda: {"data": made.bars(), "window": "12h"},
}  # fmt: skip
