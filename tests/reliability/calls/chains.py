"""Calls of the analysis of options."""

from __future__ import annotations

from derivdata.analysis import backtest
from derivdata.analysis.smile import svi
from tests.plot import made as figures_made
from tests.reliability.calls import made
from tests.reliability.calls.made import Calls

__all__ = ["CALLS"]

CALLS: Calls = {
    "analysis.black76.price": lambda: {**made.PRICE, "iv": 0.5},
    "analysis.black76.greeks": lambda: {**made.PRICE, "iv": 0.5, "which": ("delta", "vega")},
    "analysis.black76.implied_vol": lambda: {**made.PRICE, "price": 10.0},
    "analysis.chain.clean": lambda: {
        "chain": made.options(), "at": made.AS_OF, "min_time": "1h", "iv_max": 10.0, "iv_unit": "decimal",
        "mad": 5.0,
    },
    "analysis.chain.forwards": lambda: {
        "chain": made.cleaned(), "spot": 100.0, "methods": ("parity", "underlying"), "at": made.AS_OF,
    },
    "analysis.chain.basis": lambda: {"forward": made.forwards(), "spot": 100.0},
    "analysis.chain.smiles": lambda: {"options": made.cleaned(), "methods": ("underlying",)},
    "analysis.chain.arbitrage": lambda: {"quotes": made.quotes()},
    "analysis.chain.greeks": lambda: {
        "chain": made.options(), "at": made.AS_OF, "interest_rate": 0.04,
    },
    "analysis.chain.executable": lambda: {
        "options": made.quoted_options(), "fee_rate": 0.0003, "fee_cap": 0.125, "future_fee_rate": 0.0005,
        "at": made.AS_OF,
    },
    "analysis.business_time.years": lambda: {
        "start": "2026-06-29", "end": "2026-07-06", "weekend_weight": 0.5,
    },
    "analysis.business_time.fit": lambda: {"surface": made.whole(), "weekend_weight": 0.5, "measure": "atm"},
    "analysis.position.greeks": lambda: {
        "legs": made.legs(), "surface": made.slopes(), "which": ("delta", "vega"), "clock": 0.5,
    },
    "analysis.position.vega_buckets": lambda: {
        "legs": made.legs(), "surface": made.slopes(), "deltas": (0.25, 0.5, 0.75), "clock": 0.5,
    },
    "analysis.position.scenarios": lambda: {
        "legs": made.legs(), "surface": made.slopes(), "spot_change": [-0.1, 0.1], "vol_change": 0.05,
        "elapsed": "1d", "clock": 0.5,
    },
    "analysis.position.attribution": lambda: {
        "legs": made.legs(), "before": made.slopes(), "after": made.later_surface(), "spot": (100.0, 101.0),
        "method": "revaluation", "clock": 0.5,
    },
    "analysis.backtest.options": lambda: {
        "chains": made.option_chains(), "rule": made.STRANGLE,
        "costs": backtest.OptionCosts(3.0, 0.125, 1.5, 5.0), "hedge": backtest.DeltaHedge(every="8h"),
        "method": "essvi", "capital": 1e5, "currency": "usd",
    },
    "analysis.option_trades.flow": lambda: {
        "trades": figures_made.option_trades(), "by": ["strike"], "every": "1d",
    },
    "analysis.option_trades.chain": lambda: {
        "trades": figures_made.option_trades(), "at": "2026-01-05T04:00:00Z",
    },
    "analysis.delivery.probabilities": lambda: {
        "surface": made.whole(), "prices": figures_made.delivery_prices(),
    },
    "analysis.delivery.calibration": lambda: {
        "probability": figures_made.delivered(), "intervals": [0.5, 0.9],
    },
    "analysis.risk_neutral.density": lambda: {
        "surface": made.slopes(), "log_moneyness": made.LOCAL, "year_fraction": 0.15, "clock": 0.5,
    },
    "analysis.risk_neutral.quantile": lambda: {
        "surface": made.slopes(), "probability": 0.5, "year_fraction": 0.15, "clock": 0.5,
    },
    "analysis.risk_neutral.moments": lambda: {"surface": made.slopes(), "year_fraction": 0.15, "clock": 0.5},
    "analysis.exposure.gamma_exposure": lambda: {
        "chain": made.options(), "dealer": {"call": 1.0, "put": -1.0}, "by": ("strike",), "at": made.AS_OF,
    },
    "analysis.exposure.history": lambda: {
        "chains": made.options(), "which": ("gamma", "vanna"), "dealer": {"call": 1.0, "put": -1.0},
        "by": ("strike",), "at": made.AS_OF,
    },
    "analysis.exposure.max_pain": lambda: {"chain": made.options(), "at": made.AS_OF},
    "analysis.exposure.open_interest": lambda: {"chain": made.options(), "by": ("strike",), "at": made.AS_OF},
    "analysis.exposure.put_call_ratio": lambda: {
        "chain": made.options(), "by": ("expiry",), "at": made.AS_OF,
    },
    "analysis.exposure.zero_gamma": lambda: {
        "chain": made.options(), "dealer": {"call": 1.0, "put": -1.0}, "at": made.AS_OF,
    },
    "analysis.smile.fit": lambda: {
        "log_moneyness": made.quotes()["log_moneyness"], "iv": made.quotes()["iv"],
        "year_fraction": made.quotes()["year_fraction"], "weights": "equal",
    },
    "analysis.smile.iv": lambda: {"fit": made.fitted(), "log_moneyness": made.LOCAL},
    "analysis.smile.total_variance": lambda: {"fit": made.fitted(), "log_moneyness": made.LOCAL},
    "analysis.flags": lambda: {"data": made.fitted()},
    "analysis.smile.butterfly_check": lambda: {"fit": made.fitted()},
    "analysis.smile.from_raw": lambda: {
        "raw": made.VOGT, "year_fraction": 0.5, "k_min": -1.0, "k_max": 1.0, "forward": 100.0,
    },
    "analysis.smile.svi.convert": lambda: {"parameters": svi.convert(made.VOGT, 0.5), "year_fraction": 0.5},
    "analysis.surface.fit": lambda: {
        "log_moneyness": made.quotes()["log_moneyness"], "iv": made.quotes()["iv"],
        "year_fraction": made.quotes()["year_fraction"], "method": "essvi", "weights": "equal",
    },
    "analysis.surface.from_chain": lambda: {
        "chain": made.options(), "method": "essvi", "weights": "equal", "at": made.AS_OF,
    },
    "analysis.surface.from_essvi": lambda: {
        "theta": [0.02, 0.06], "rho": [-0.3, -0.3], "psi": [0.1, 0.2], "year_fraction": [0.1, 0.3],
        "k_min": -1.0, "k_max": 1.0, "forward": [100.0, 101.0],
    },
    "analysis.surface.calendar_check": lambda: {"surface": made.whole()},
    "analysis.surface.constant_maturity": lambda: {
        "surface": made.whole(), "tenors": ("40d", "60d"), "points": ("atm", "rr25"), "clock": 0.5,
    },
    "analysis.surface.at": lambda: {
        "surface": made.whole(), "expiry": 0.15, "strike": 110_000.0, "clock": 0.5,
    },
    "analysis.surface.forward_variance": lambda: {
        "surface": made.whole(), "near": 0.1, "far": 0.2, "clock": 0.5,
    },
    "analysis.surface.history": lambda: {
        "chains": made.options(), "tenors": ("40d", "60d"), "points": ("atm",), "horizon": "40d",
        "method": "essvi", "weights": "price", "clock": 0.5,
    },
    "analysis.surface.local_volatility": lambda: {
        "surface": made.slopes(), "log_moneyness": made.LOCAL, "year_fraction": 0.15, "clock": 0.5,
    },
    "analysis.surface.iv": lambda: {
        "surface": made.whole(), "log_moneyness": made.LOCAL, "year_fraction": 0.15, "clock": 0.5,
    },
    "analysis.surface.term_structure": lambda: {"surface": made.whole(), "clock": 0.5},
    "analysis.variance.cboe": lambda: {
        "bid": made.priced() * 0.99, "ask": made.priced() * 1.01, "year_fraction": 0.25,
    },
    "analysis.variance.model_free": lambda: {
        "source": made.whole(), "method": "fukasawa", "k_range": (-1.0, 1.0),
    },
    "analysis.variance.volatility_index": lambda: {"variance": made.free(), "clock": 0.5},
}  # fmt: skip
