"""Fit one arbitrage-free volatility surface to the smiles of many expiries.

`fit` gives a Dataset over the dims of its quotes without the strikes; every other function takes such a
Dataset, or any fit of `derivdata.analysis.smile` with dim ``expiry``. Total variance is ``w = iv² T``,
log-moneyness ``k = ln(K/F)``, a time to expiry is in years of 365 days.
"""

from derivdata.analysis.smile.essvi import from_essvi
from derivdata.analysis.surface.chain_surface import from_chain, history
from derivdata.analysis.surface.evaluate import at, iv, local_volatility
from derivdata.analysis.surface.fitting import fit
from derivdata.analysis.surface.points import (
    calendar_check,
    constant_maturity,
    forward_variance,
    term_structure,
)

__all__ = [
    "at",
    "calendar_check",
    "constant_maturity",
    "fit",
    "forward_variance",
    "from_chain",
    "from_essvi",
    "history",
    "iv",
    "local_volatility",
    "term_structure",
]
__dir__ = __all__.copy
