"""Calls of the analysis of panels and events."""

from __future__ import annotations

from derivdata.analysis import backtest, funding, futures, liquidations
from tests.reliability.calls.made import (
    HOURS,
    VENUES,
    amounts,
    backtested,
    bars,
    basis_curve,
    counts,
    dated,
    depth,
    events,
    forecasts,
    history,
    picks,
    rates,
    settled,
    settlements,
    share,
    volatilities,
)
from tests.reliability.calls.walk import Calls

__all__ = ["CALLS"]

CALLS: Calls = {
    "analysis.align.align": lambda: {
        "panel": rates(), "grid": "4h", "tolerance": "4h", "delay": "0h",
    },
    "analysis.align.asof_join": lambda: {
        "left": history(), "right": history().rename(columns={"rate_bps_8h": "other"}), "tolerance": "2h",
        "by": ("symbol", "exchange"), "delay": "0h",
    },
    "analysis.basis.against": lambda: {
        "price": amounts("price_usd"), "reference": amounts("price_usd"),
    },
    "analysis.futures.cash_and_carry": lambda: {"curve": basis_curve(), "costs_bps": 1.0, "borrow_apr": 0.05},
    "analysis.futures.constant_maturity": lambda: {"curve": basis_curve(), "tenor": "45d"},
    "analysis.futures.roll": lambda: {"futures": dated(), "before": "1d"},
    "analysis.futures.term_structure": lambda: {"futures": dated(), "least": "1h"},
    "analysis.futures.with_leg": lambda: {
        "rates": rates(), "prices": amounts("price_usd"), "held": futures.roll(dated()),
    },
    "analysis.taker.imbalance": lambda: {"buy": amounts("volume_usd"), "sell": amounts("volume_usd")},
    "analysis.taker.cumulative_delta": lambda: {"buy": amounts("volume_usd"), "sell": amounts("volume_usd")},
    "analysis.carry_table": lambda: {
        "forecast": funding.forecast_carry(settled(), hold="1d", fee_bps=0.25),
    },
    "analysis.percentile": lambda: {"panel": rates(), "window": "12h", "rows": None, "min_rows": 2},
    "analysis.rank": lambda: {"panel": rates(), "dim": "exchange"},
    "analysis.funding.best_pair": lambda: {
        "panel": rates(), "oi_usd": amounts(), "min_oi_usd": 1.0, "age_hours": None, "max_age": None,
        "tradable": VENUES, "prices": None,
    },
    "analysis.funding.breakeven": lambda: {
        "panel": settled(), "long": "binance", "short": "okx", "fee_bps": 1.0, "period": "8h",
        "depth_usd": depth(), "size_usd": 1000.0, "overlap": "raise",
    },
    "analysis.funding.comovement": lambda: {
        "panel": rates(), "period": "8h", "method": "pearson", "max_lag": 1,
        "min_periods": 3, "age_hours": None, "max_filled": 0.2, "overlap": "raise",
    },
    "analysis.funding.cumulative": lambda: {
        "panel": rates(), "compound": False, "gaps": "nan", "max_gap": "2h", "step": "1h",
        "overlap": "raise",
    },
    "analysis.funding.with_spot": lambda: {"panel": rates(), "borrow_apr": 0.1},
    "analysis.funding.dispersion": lambda: {"panel": rates()},
    "analysis.funding.forecast_carry": lambda: {
        "panel": settled(), "pairs": [("binance", "okx")], "hold": "1d", "fee_bps": 0.25,
        "period": "8h", "level": 0.9, "overlap": "raise",
    },
    "analysis.funding.forecast_history": lambda: {
        "panel": settled(), "pairs": [("binance", "okx")], "hold": "1d", "fee_bps": 0.25, "every": "1d",
        "period": "8h", "level": 0.9, "overlap": "raise",
    },
    "analysis.funding.half_life": lambda: {
        "panel": settled(), "period": "8h", "method": "ols", "level": 0.9, "resamples": 99, "rng": 0,
    },
    "analysis.funding.infer_interval": lambda: {
        "panel": settled(), "candidates": ("1h", "8h"), "confirm": 3, "backdate": True,
    },
    "analysis.funding.oi_weighted": lambda: {"panel": rates(), "oi_usd": amounts(), "min_cover": 0.5},
    "analysis.funding.period_sums": lambda: {
        "panel": settled(), "period": "8h", "min_cover": 0.9, "overlap": "raise",
    },
    "analysis.funding.pick_record": lambda: {
        "panel": settled(), "hold": "1d", "fee_bps": 0.25, "rule": "forecast", "period": "8h", "level": 0.9,
        "overlap": "raise",
    },
    "analysis.funding.pick_summary": lambda: {
        "record": picks(), "least_predicted_bps": 0.0, "level": 0.95, "resamples": 99, "rng": 0,
    },
    "analysis.funding.portfolio": lambda: {
        "forecasts": forecasts(), "prices": amounts("price_usd"), "capital": 1e6, "max_venue_share": 0.5,
        "max_liquidation": 0.01, "transfer_every": "8h", "maintenance": 0.01, "haircut": 0.0,
        "max_leverage": 10.0, "max_leg_usd": 1e5, "risk_aversion": 1.0, "start": "2026-06-20",
    },
    "analysis.funding.realised_carry": lambda: {
        "panel": settled(), "long": "binance", "short": "okx", "start": "2026-06-15", "end": "2026-06-20",
        "fee_bps": 1.0, "min_cover": 0.9, "overlap": "raise",
    },
    "analysis.funding.slippage_bps": lambda: {"depth_usd": depth(), "size_usd": 1000.0, "dim": "depth_bps"},
    "analysis.funding.spread": lambda: {"panel": rates(), "long": "binance", "short": "okx"},
    "analysis.funding.universe": lambda: {"oi_usd": amounts(), "top": 1, "lag_rows": 1},
    "analysis.funding.zscore": lambda: {
        "panel": rates(), "window": "8h", "rows": None, "lag_rows": 1, "robust": False, "min_rows": 4,
    },
    "analysis.backtest.carry": lambda: {
        "panel": rates(), "rule": backtest.SpreadThreshold(0.5, 0.1), "costs": backtest.Costs(1.0),
        "prices": amounts("price_usd"), "depth": depth(), "capital": 1e6,
        "leg_usd": 1e4, "leverage": 3.0, "maintenance": 0.01, "transfer_every": "8h", "delay": "0h",
        "max_mark_age": "24h",
    },
    "analysis.backtest.capacity": lambda: {
        "result": backtested(), "depth": depth(), "sizes_usd": [1e4, 1e5],
    },
    "analysis.backtest.sweep": lambda: {
        "panel": rates(), "rules": {"wide": backtest.SpreadThreshold(0.5, 0.1)}, "costs": backtest.Costs(1.0),
    },
    "analysis.backtest.trades": lambda: {"result": backtested()},
    "analysis.funding.next_settlements": lambda: {
        "settlements": settlements(), "at": "2026-06-30 12:00", "symbols": ["BTC"], "venues": ["okx"],
    },
    "venues.facts": lambda: {"venues": ["okx"], "day": "2026-06-30"},
    "analysis.oi.by_kind": lambda: {"oi": amounts()},
    "analysis.oi.hhi": lambda: {"share": share(), "dim": "exchange"},
    "analysis.oi.market_share": lambda: {
        "oi": amounts(), "min_cover": 0.95, "tolerance": "4h", "venues": VENUES,
    },
    "analysis.oi.migration": lambda: {
        "oi": amounts(), "start": HOURS[0], "end": HOURS[40], "method": "midpoint", "price": None,
    },
    "analysis.oi.in_coins": lambda: {"oi": amounts(), "price": amounts("price_usd")},
    "analysis.oi.oi_to_volume": lambda: {"oi": amounts(), "volume_24h": amounts("volume_24h_usd")},
    "analysis.oi.share_trend": lambda: {"share": share(), "ci": "ar1", "level": 0.95},
    "analysis.liquidations.branching_ratio": lambda: {"counts": counts(), "dim": "time"},
    "analysis.liquidations.bucket": lambda: {
        "events": events(), "freq": "5min", "by": ("symbol",), "start": "2026-06-30 11:00",
        "end": "2026-06-30 12:00", "coverage": None,
    },
    "analysis.liquidations.cascades": lambda: {
        "found": liquidations.clusters(events()), "min_count": 2, "min_usd": 1000.0, "quantile": 0.5,
        "history": 1,
    },
    "analysis.liquidations.clusters": lambda: {"events": events(), "gap": "60s", "by": ("symbol",)},
    "analysis.liquidations.imbalance": lambda: {"long_usd": 3.0, "short_usd": 1.0},
    "analysis.volatility.bars": lambda: {"price": amounts("price_usd"), "step": "4h"},
    "analysis.volatility.bipower": lambda: {"price": amounts("price_usd"), "window": "6h"},
    "analysis.volatility.cone": lambda: {
        "data": bars(), "windows": ["8h", "16h"], "method": "parkinson", "quantiles": [0.1, 0.9],
    },
    "analysis.volatility.implied_minus_realised": lambda: {
        "implied": volatilities(), "realised": volatilities(), "window": "8h", "ahead": True,
    },
    "analysis.volatility.realised": lambda: {"data": bars(), "window": "12h", "method": "yang_zhang"},
}  # fmt: skip
