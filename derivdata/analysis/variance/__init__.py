"""Variance that options price without a model: strips, integrals over a smile, and a volatility index."""

from __future__ import annotations

from derivdata.analysis.variance.index import volatility_index
from derivdata.analysis.variance.listed import cboe, replication
from derivdata.analysis.variance.model_free import model_free

__all__ = ["cboe", "model_free", "replication", "volatility_index"]
