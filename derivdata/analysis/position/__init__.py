"""Option positions on a fitted surface: greeks, vega buckets, scenarios, and P&L attribution.

A position is a table with a row per leg:

- ``side``: ``"call"``, ``"put"``, ``"future"``, ``"perpetual"`` or ``"spot"``
- ``quantity``: coins of the underlying, negative is short; of an inverse future or perpetual USD
- ``expiry``: of options and futures
- ``strike`` [USD]: of options
- ``price`` [USD], optional: the entry price of a future or perpetual; without it the price of the
  surface, so that its value is 0
- ``contract``, optional: ``"inverse"`` of a future or perpetual of a fixed number of USD that is
  settled in coin; ``"linear"`` otherwise

The surface gives each leg its volatility and its forward: from the expiry if it is listed; between expiries
total variance is interpolated as in `derivdata.analysis.surface.iv`, and the logarithm of the forward is
linear in time. Perpetuals and spot are valued at the surface's ``spot``: a premium of the perpetual over the
index is not included.

Results have a dim ``currency``: ``"usd"`` is Black's value (the value of a coin premium at the forward of its
expiry), ``"coin"`` that over the forward, the premium of coin-settled options. Greeks of ``"coin"`` are
derivatives of the coin value, so a position without delta in coin still has one in USD. Similarly a future of
q coins entered at P has the USD value ``q (F − P)`` and the coin value ``q (1 − P/F)``. The latter is an
inverse contract of Q = q P USD, ``Q (1/P − 1/F)``. Spot is worth ``q F`` USD and q coins.
"""

from derivdata.analysis.position.pnl_terms import attribution, scenarios
from derivdata.analysis.position.sensitivities import greeks, vega_buckets

__all__ = ["attribution", "greeks", "scenarios", "vega_buckets"]
__dir__ = __all__.copy
