"""Positions in options on a fitted surface: greeks, vega buckets, scenarios, and where a P&L came from.

A position is a frame with a row per leg: ``expiry``, ``strike`` [USD], ``side`` (``"call"`` or ``"put"``) and
``quantity`` [coins of the underlying; negative is short]. The surface gives each leg its volatility and its
forward: at a listed expiry those of that expiry, between expiries total variance as
`derivdata.analysis.surface.iv` interpolates it and the logarithm of the forward linear in time.

Results have a dim ``currency``: ``"usd"`` is Black's value (what a coin premium is worth at the forward of
its expiry), ``"coin"`` that over the forward, the premium of coin-settled options. Greeks of ``"coin"`` are
derivatives of the coin value, so that a position without delta in coin still has one in USD.
"""

from derivdata.analysis.position.pnl_terms import attribution
from derivdata.analysis.position.revaluation import scenarios
from derivdata.analysis.position.sensitivities import greeks, vega_buckets

__all__ = ["attribution", "greeks", "scenarios", "vega_buckets"]
__dir__ = __all__.copy
