"""One smile per expiry: fitted, evaluated, checked for butterfly arbitrage; `svi` has its parameters.

`evaluate` defines the format of a fit. Total variance is ``w = iv² T``, log-moneyness ``k = ln(K/F)``.
"""

from derivdata.analysis.smile import svi
from derivdata.analysis.smile.evaluate import butterfly_check, from_raw, iv, total_variance
from derivdata.analysis.smile.fitting import fit

__all__ = ["butterfly_check", "fit", "from_raw", "iv", "svi", "total_variance"]
__dir__ = __all__.copy
