"""One smile per expiry: fitted, evaluated, converted, checked for butterfly arbitrage and repaired.

`contract` says what a fit is. Total variance is ``w = iv² T``, log-moneyness ``k = ln(K/F)``.
"""

from __future__ import annotations

from derivdata.analysis.smile.contract import Method, from_raw, raw_parameters
from derivdata.analysis.smile.evaluate import butterfly_check, durrleman, extrapolated, iv, total_variance
from derivdata.analysis.smile.forms import (
    JumpWings,
    Natural,
    Raw,
    jump_wings_to_raw,
    svi_natural_to_raw,
    svi_raw_to_jump_wings,
    svi_raw_to_natural,
)
from derivdata.analysis.smile.raw import density_factor, raw_total_variance

__all__ = [
    "JumpWings",
    "Method",
    "Natural",
    "Raw",
    "butterfly_check",
    "density_factor",
    "durrleman",
    "extrapolated",
    "from_raw",
    "iv",
    "jump_wings_to_raw",
    "raw_parameters",
    "raw_total_variance",
    "svi_natural_to_raw",
    "svi_raw_to_jump_wings",
    "svi_raw_to_natural",
    "total_variance",
]
