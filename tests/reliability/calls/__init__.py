"""One valid call of every public function, small enough to be made thousands of times."""

from __future__ import annotations

from tests.reliability.calls import basics, chains, fetchers, figures, panels
from tests.reliability.calls.call import Calls
from tests.reliability.calls.walk import function, public

__all__ = ["CALLS", "HELD", "LEFT_OUT", "function", "public"]

CALLS: Calls = {**fetchers.CALLS, **basics.CALLS, **panels.CALLS, **chains.CALLS, **figures.CALLS}

LEFT_OUT = {
    "asof": "takes nothing",
    "cache_info": "takes nothing",
    "disconnect": "takes nothing",
    "liquidations.poll": "waits for ever",
    "serve": "serves for ever",
    "analysis.liquidations.observed": "its arguments have no names",
    "report": "a quarter of a minute each",
}
"""Public functions that are not called with wrong arguments, and why."""

_NOT_YET = """
    analysis.chain.forward_from_delta
    analysis.funding.breakeven_hours
    analysis.funding.comovement
    analysis.funding.cumulative
    analysis.funding.half_life
    analysis.funding.hit_rate
    analysis.funding.oi_weighted
    analysis.funding.spread
    analysis.funding.universe
    analysis.oi.market_share
    analysis.surface.fit
    analysis.variance.cboe
    analysis.variance.replication
    options.atm_history
    options.surface_history
    analysis.liquidations.cascades
    liquidations.events
    analysis.align.asof_join
    analysis.funding.best_pair
    analysis.funding.dispersion
    analysis.funding.pair_spreads
    analysis.funding.realised_carry
    analysis.liquidations.imbalance
    analysis.oi.by_kind
    analysis.surface.from_chain
    analysis.surface.from_essvi
    analysis.surface.heston_phi
    cache_clear
    connect
    funding.metadata
    funding.snapshot
    hip4.outcome
    markets.exchanges
    oi.exchanges
    oi.sparklines
    plot.cumulative_funding
    plot.funding_heatmap
    plot.funding_history
    plot.funding_spreads
    plot.liquidations
    plot.net_carry
    plot.oi_share
    plot.open_interest_by_strike
    plot.orderbook_depth
    plot.share_trend
    plot.smile
    plot.surface
    plot.term_structure
    plot.venue_difference
    provenance
    quality
    raw
    record
    replay
    rwa.market_hours
    tables.contract
    tables.depth
    tables.panel
    tables.provenance
    tables.surface
    tables.surface_history
    units.apr_from_bps
    units.apr_from_bps_8h
    units.apy_from_bps_8h
    units.apy_from_native
    units.bps_8h_from_apr
    units.bps_8h_from_apy
    units.bps_8h_from_bps
    units.bps_8h_from_native
    units.bps_from_bps_8h
    units.native_from_apy
    units.native_from_bps_8h
    volume.exchange_totals
    volume.history
    volume.oi_ratio
    volume.top_symbols
""".split()
"""Called validly, but not yet held to refusing every wrong argument by its name."""

HELD = CALLS.keys() - set(_NOT_YET)
"""Functions that are called with wrong arguments."""
