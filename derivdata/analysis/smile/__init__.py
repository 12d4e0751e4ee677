"""One smile per expiry: fitted, evaluated, converted, checked for butterfly arbitrage and repaired.

`contract` says what a fit is. Total variance is ``w = iv² T``, log-moneyness ``k = ln(K/F)``.
"""

from __future__ import annotations

from derivdata.analysis.smile.evaluate import butterfly_check, durrleman, extrapolated, iv, total_variance
from derivdata.analysis.smile.fit_dataset import Method, from_raw, raw_parameters
from derivdata.analysis.smile.fitting import fit
from derivdata.analysis.smile.parameters import (
    JumpWings,
    Natural,
    Raw,
    jump_wings_to_raw,
    svi_natural_to_raw,
    svi_raw_to_jump_wings,
    svi_raw_to_natural,
)
from derivdata.analysis.smile.repair import GjRepair, gj_repair
from derivdata.analysis.smile.sabr import Sabr, sabr_iv
from derivdata.analysis.smile.ssvi_slice import SsviConditions, ssvi_conditions, ssvi_to_raw
from derivdata.analysis.smile.svi_curve import density_factor, raw_total_variance

__all__ = [
    "GjRepair",
    "JumpWings",
    "Method",
    "Natural",
    "Raw",
    "Sabr",
    "SsviConditions",
    "butterfly_check",
    "density_factor",
    "durrleman",
    "extrapolated",
    "fit",
    "from_raw",
    "gj_repair",
    "iv",
    "jump_wings_to_raw",
    "raw_parameters",
    "raw_total_variance",
    "sabr_iv",
    "ssvi_conditions",
    "ssvi_to_raw",
    "svi_natural_to_raw",
    "svi_raw_to_jump_wings",
    "svi_raw_to_natural",
    "total_variance",
]


def __dir__() -> list[str]:
    return __all__
