"""What a surface says of the price at expiry: density, distribution, quantiles and moments of ``ln(S/F)``.

The distribution is the risk-neutral one, which prices options: not a forecast. It is taken from the fitted
curve by derivatives in closed form (Breeden and Litzenberger 1978), wings included, at any time to expiry.
Results say whether it is a distribution: ``mass`` is what the density sums to, ``martingale`` its mean of
``S/F``; both are 1 of a surface without arbitrage.
"""

from derivdata.analysis.risk_neutral.probabilities import density, moments, quantile

__all__ = ["density", "moments", "quantile"]
__dir__ = __all__.copy
