"""Variance that options price without a model: strips, integrals over a smile, and a volatility index."""

from derivdata.analysis.variance.index import volatility_index
from derivdata.analysis.variance.integration import model_free
from derivdata.analysis.variance.listed_options import cboe

__all__ = ["cboe", "model_free", "volatility_index"]
__dir__ = __all__.copy
