"""Find what is wrong with a table: gaps, duplicates, frozen values, clamps, changes of scale, outliers."""

from derivdata.analysis.quality.report import quality

__all__ = ["quality"]
__dir__ = __all__.copy
