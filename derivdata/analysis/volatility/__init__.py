"""Realised volatility from prices: estimators, cones, and implied minus realised.

Volatilities are decimal per √year of 365 days, as implied ones are: 0.55 is 55 %. A window is a whole number
of bars and ends with the bar at its label; a bar stands at its start and is known when it has ended, one step
later. Markets that never close have no overnight gap; the estimators that allow for one then find it to be
small.

References
----------
Parkinson (1980), J. Business 53; Garman and Klass (1980), J. Business 53; Rogers and Satchell (1991), Ann.
Appl. Probab. 1; Yang and Zhang (2000), J. Business 73; Barndorff-Nielsen and Shephard (2004), J. Fin.
Econometrics 2.
"""

from derivdata.analysis.volatility.comparisons import cone, implied_minus_realised
from derivdata.analysis.volatility.estimators import bars, bipower, realised

__all__ = ["bars", "bipower", "cone", "implied_minus_realised", "realised"]
__dir__ = __all__.copy
