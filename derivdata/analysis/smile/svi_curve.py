"""Total variance of raw SVI smiles with its derivatives, and Durrleman's density factor.

Everything here is plain numpy and broadcasts: parameters of shape ``(slices, 1)`` against log-moneyness of
shape ``(slices, points)``. NaN in, NaN out.
"""

from __future__ import annotations

import numpy as np

from derivdata.analysis.inputs import require_together
from derivdata.analysis.smile.parameters import Floats, Raw
from derivdata.support.arguments import Numbers, typed

__all__ = ["density_factor", "raw_total_variance"]


@typed
def raw_total_variance(k: Numbers, raw: Raw, *, derivative: int = 0) -> Floats:
    """Return the total variance ``w(k)`` of raw SVI parameters, or its first or second derivative.

    Parameters
    ----------
    k
        Log-moneyness ``ln(K/F)``.
    raw
        Parameters, broadcast against `k`. ``sigma = 0`` is allowed: the vertex is then a kink, where the
        first derivative is that of the middle and the second is 0.
    derivative
        0, 1 or 2.

    Raises
    ------
    ValueError
        `derivative` is not 0, 1 or 2.
    """
    x = np.subtract(k, raw.m)
    radius = np.sqrt(x * x + np.square(raw.sigma))
    if derivative == 0:
        return np.asarray(raw.a + raw.b * (raw.rho * x + radius))
    inverse = np.divide(1.0, radius, out=np.zeros_like(radius), where=radius != 0.0)
    if derivative == 1:
        return np.asarray(raw.b * (raw.rho + x * inverse))
    if derivative == 2:
        return np.asarray(raw.b * np.square(raw.sigma * inverse) * inverse)
    raise ValueError(f"derivative is {derivative!r}; a smile has derivatives 0, 1 and 2")


@typed
def density_factor(k: Numbers, w: Numbers, dw: Numbers, d2w: Numbers) -> Floats:
    """Durrleman's ``g``: the risk-neutral density over that of a lognormal with the same local variance.

    ``g = (1 − k w'/(2w))² − (w'²/4)(1/w + 1/4) + w''/2``. A butterfly has negative value where ``g < 0``.
    NaN where ``w <= 0``, which is no variance.
    """
    require_together(k=k, w=np.asarray(w), dw=np.asarray(dw), d2w=np.asarray(d2w))
    w = np.where(np.asarray(w) > 0.0, w, np.nan)
    half = 0.5 * np.asarray(dw)
    return np.asarray(np.square(1.0 - k * half / w) - half * half * (1.0 / w + 0.25) + 0.5 * np.asarray(d2w))
