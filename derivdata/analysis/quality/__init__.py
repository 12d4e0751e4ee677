"""Check a table for gaps, duplicates, frozen values, clamps, changes of scale and outliers."""

from derivdata.analysis.quality.report import quality

__all__ = ["quality"]
__dir__ = __all__.copy
