"""One smile per expiry: fitted, evaluated, checked for butterfly arbitrage; `svi` has its parameters.

`evaluate` says what a fit is. Total variance is ``w = iv² T``, log-moneyness ``k = ln(K/F)``.
"""

from __future__ import annotations

from derivdata.analysis.smile import svi
from derivdata.analysis.smile.evaluate import (
    Method,
    butterfly_check,
    durrleman,
    from_raw,
    iv,
    raw_parameters,
    total_variance,
)
from derivdata.analysis.smile.fitting import fit

__all__ = [
    "Method",
    "butterfly_check",
    "durrleman",
    "fit",
    "from_raw",
    "iv",
    "raw_parameters",
    "svi",
    "total_variance",
]


def __dir__() -> list[str]:
    return __all__
