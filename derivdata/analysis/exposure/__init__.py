"""Sums over open options: gamma, vanna and charm exposure, max pain, put-call ratios.

All functions take the table ``options_snapshot``, a surface, or what `chain.clean` gave, of one chain or of
many: symbols, venues and instants that differ become dims of the result. Open interest counts contracts, and
sums are in coins: `contract_size` says how many coins a contract is of. An option whose open interest is
missing is left out of every sum and counted in ``missing``: it is never taken for zero.
"""

from derivdata.analysis.exposure.gamma import gamma_exposure, history, zero_gamma
from derivdata.analysis.exposure.sums import max_pain, open_interest, put_call_ratio

__all__ = ["gamma_exposure", "history", "max_pain", "open_interest", "put_call_ratio", "zero_gamma"]
__dir__ = __all__.copy
