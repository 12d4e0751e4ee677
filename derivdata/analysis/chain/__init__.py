"""Prepare raw option chains for fitting smiles.

::

    options = chain.clean(snapshot)        usable options, others counted by reason
    quotes = chain.smiles(options)         one volatility per strike over log-moneyness, with forwards
    chain.arbitrage(quotes)                arbitrage between the quotes themselves
    chain.executable(snapshot)             what could be traded, at bid and ask and net of fees
    chain.basis(chain.forwards(options), spot=...)
    chain.greeks(snapshot)                 in one unit over venues, next to the venues' own

A chain is the table ``options_snapshot`` or a surface. Several symbols, venues and times may be in one table,
and become dims of the result.
"""

from derivdata.analysis.chain.cleaning import arbitrage, clean, smiles
from derivdata.analysis.chain.forward import basis, forwards
from derivdata.analysis.chain.static_arbitrage import executable
from derivdata.analysis.chain.venue_greeks import greeks

__all__ = ["arbitrage", "basis", "clean", "executable", "forwards", "greeks", "smiles"]
__dir__ = __all__.copy
