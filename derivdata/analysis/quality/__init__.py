"""Find what is wrong with a table: gaps, duplicates, frozen values, clamps, changes of scale, outliers."""

from derivdata.analysis.quality.report import quality

__all__ = ["quality"]


def __dir__() -> list[str]:
    return __all__
