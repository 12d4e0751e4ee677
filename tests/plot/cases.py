"""One call for every figure, from which none can be omitted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from derivdata import plot
from tests.plot import made

WATCHED = pd.DataFrame(
    {
        "start": [made.START, made.START + pd.Timedelta(8, "h")],
        "end": [made.START + pd.Timedelta(5, "h"), made.START + pd.Timedelta(12, "h")],
    }
)
CASES: dict[str, Callable[..., Any]] = {
    **{
        f"backtest_{kind}": lambda kind=kind, **k: plot.backtest(made.backtested(), kind, **k)
        for kind in ("equity", "positions", "trades", "attribution", "turnover")
    },
    "backtest_capacity": lambda **k: plot.backtest(made.capacity_curve(), "capacity", **k),
    "backtest_sweep": lambda **k: plot.backtest(made.swept(), "sweep", **k),
    "funding_history": lambda **k: plot.funding_history(made.funding(), highlight=1, **k),
    "funding_heatmap": lambda **k: plot.funding_heatmap(made.funding(), **k),
    "carry_pairs": lambda **k: plot.carry(
        [made.carry("low", "high", "7d"), made.carry("low", "middle", "7d")], source=made.funding(), **k
    ),
    "carry_hold": lambda **k: plot.carry(
        [made.carry("low", "middle", hold) for hold in ("1d", "2d", "4d", "7d", "14d")],
        "hold",
        source=made.funding(),
        **k,
    ),
    "cumulative_funding": lambda **k: plot.cumulative_funding(
        made.constant(1.0, 10), made.payments(1.0, 10), venue="alpha", naive=True, **k
    ),
    "open_interest_share": lambda **k: plot.open_interest(made.holdings(), "share", **k),
    "open_interest_trend": lambda **k: plot.open_interest(made.holdings(), "trend", **k),
    "smile": lambda **k: plot.smile(made.chain(), made.fit(), before=made.earlier(), **k),
    "surface": lambda **k: plot.surface(made.chain(), **k),
    "term_structure_volatility": lambda **k: plot.term_structure(made.chain(), **k),
    "venue_difference": lambda **k: plot.venue_difference(
        made.chains(), reference="alpha", tenors=("14d", "60d"), **k
    ),
    "strikes_open_interest": lambda **k: plot.strikes(made.chain(), expiry="2026-02-04", **k),
    "liquidations": lambda **k: plot.liquidations(made.liquidated(), coverage=WATCHED, **k),
    "implied_density": lambda **k: plot.implied_density(made.chain(), expiries="2026-02-04", **k),
    "volatility_history": lambda **k: plot.volatility(made.index_history(), symbol="BTC", **k),
    "pnl_attribution": lambda **k: plot.pnl_attribution(made.attribution(), **k),
    "volatility_cone": lambda **k: plot.volatility(made.cone(), "cone", implied={7.0: 0.52, 30.0: 0.48}, **k),
    "open_interest_level": lambda **k: plot.open_interest(made.holdings(), price=made.price(), **k),
    "volatility_realised": lambda **k: plot.volatility(
        made.volatility(0.5),
        "realised",
        realised=made.volatility(0.4),
        symbol="BTC",
        source=made.holdings(),
        **k,
    ),
    "term_structure_basis": lambda **k: plot.term_structure(made.basis(), "basis", **k),
    "strikes_volume": lambda **k: plot.strikes(made.chain(), "volume", by="expiry", **k),
    "strikes_gamma": lambda **k: plot.strikes(made.chain(), "gamma", **k),
    "option_flow": lambda **k: plot.option_flow(made.option_trades(), **k),
    "calibration": lambda **k: plot.calibration(made.delivered(), source=made.holdings(), **k),
    "volatility_published": lambda **k: plot.volatility(
        made.volatility(0.5), "published", computed=made.volatility(0.52), source=made.holdings(), **k
    ),
    "positioning": lambda **k: plot.positioning(made.positioned(), funding=made.constant(1.0, 12), **k),
    "taker_volume": lambda **k: plot.taker_volume(made.taken(), window="2d", price=made.price(), **k),
    "orderbook_depth": lambda **k: plot.orderbook_depth(made.book(), **k),
}
