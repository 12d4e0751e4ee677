"""One valid call of every public function, small enough to be made thousands of times.

Arguments that stand at their default are left out.
"""

from __future__ import annotations

from functools import partial

from tests.reliability.calls import chains, fetchers, figures, panels
from tests.reliability.calls.walk import Calls, function, public

__all__ = ["CALLS", "LEFT_OUT", "MAIN", "function", "public"]

LEFT_OUT = {
    "asof": "takes nothing",
    "cache_info": "takes nothing",
    "catalog": "takes nothing",
    "oi.sparklines": "takes nothing",
    "oi.exchanges": "takes nothing",
    "funding.snapshot": "takes nothing",
    "funding.metadata": "takes nothing",
    "markets.exchanges": "takes nothing",
    "disconnect": "takes nothing",
    "venues.endpoints": "takes nothing",
    "liquidations.poll": "waits for ever",
    "serve": "serves for ever",
    "live": "asks venues: tests/collect/test_live.py",
    "analysis.liquidations.observed": "its arguments have no names",
    "report": "a quarter of a minute each",
    "archive.import_files": "reads files: tests/archive/test_import.py",
    "datasets.load": "fetches files: tests/test_datasets.py",
    "bundle.info": "reads a file: tests/bundle/test_hostile.py",
    "bundle.verify": "reads a file: tests/bundle/test_hostile.py",
    "collect.backfill": "asks venues: tests/collect/test_backfill.py",
    "sample.open": "opens the sample, as connect does",
    "sample.truth": "reads what the sample was made of: tests/sample",
}
"""Public functions that are not called with wrong arguments, and why."""

CALLS: Calls = {
    **{name: partial(dict, given) for name, given in fetchers.FETCHERS.items() if name not in LEFT_OUT},
    **fetchers.CALLS,
    **panels.CALLS,
    **chains.CALLS,
    **figures.CALLS,
}

MAIN = set(
    """
    panel plan provenance quality raw venues.read
    funding.history funding.settlements
    oi.history oi.exchange_totals
    volume.history
    liquidations.aggregates liquidations.events liquidations.history
    options.metrics options.snapshot options.surface options.surface_history
    orderbook.book orderbook.depth_history prices.history
    markets.symbol_stats
    hip3.candles hip4.outcome
    units.convert
    analysis.black76.greeks analysis.black76.implied_vol analysis.black76.price
    analysis.funding.breakeven analysis.funding.cumulative
    analysis.funding.spread analysis.funding.zscore
    analysis.oi.market_share analysis.oi.migration
    analysis.smile.fit analysis.surface.iv
    """.split()
)
"""What most people call: these get the most wrong arguments."""
