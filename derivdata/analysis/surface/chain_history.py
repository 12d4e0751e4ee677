"""From a history of chains to the few series that a desk watches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.status import flag_attrs
from derivdata.analysis.surface.chain_surface import from_chain
from derivdata.analysis.surface.fitting import SurfaceMethod
from derivdata.analysis.surface.points import DeltaKind, constant_maturity
from derivdata.support.arguments import typed

__all__ = ["history"]


@typed
def history(
    chains: pd.DataFrame | xr.Dataset,
    *,
    days: Sequence[float] = (7, 30, 90),
    points: Sequence[str] = ("atm", "rr25", "bf25"),
    index_days: float = 30.0,
    delta: DeltaKind = "forward",
    method: SurfaceMethod = "svi",
    weights: Any = "vega",
) -> xr.Dataset:
    """Compute a volatility index and points at constant maturity of every instant of a history.

    Parameters
    ----------
    chains
        What ``dd.options.surface_history`` returned, or a table ``options_snapshot`` of many instants.
    days, points, delta
        As in `constant_maturity`.
    index_days
        Time that the index looks ahead [days].
    method, weights
        As in `from_chain`; ``method="essvi", weights="price"`` is some twenty times faster.

    Returns
    -------
    Dataset over the dims of the chains without expiry, strike and side
        What `constant_maturity` gives, over ``tenor`` [days]: ``atmf``, ``rr25_forward`` … [1/√year];
        ``index_pct`` [percent/√year] as `derivdata.analysis.variance.volatility_index` computes it from the
        fitted smiles, with ``index_status``.

    Raises
    ------
    ValueError
        What `from_chain`, `constant_maturity` and `derivdata.analysis.variance.volatility_index` raise.

    Examples
    --------
    >>> chains = dd.options.surface_history("BTC", "deribit", "6h")
    >>> seen = dd.analysis.surface.history(chains, days=[30], method="essvi", weights="price")
    >>> seen["atmf"].dims, sorted(map(str, seen.data_vars))[:3]
    (('time', 'tenor'), ['atmf', 'bf25_forward', 'index_pct'])
    """
    # Variance is above surfaces: it integrates them.
    from derivdata.analysis import variance

    surface = from_chain(chains, method=method, weights=weights)
    fixed = constant_maturity(surface, days=days, points=points, delta=delta)
    index = variance.volatility_index(variance.model_free(surface), days=index_days)
    fixed["index_pct"] = index["index_pct"]
    fixed["index_status"] = index["status"].astype(np.int32).assign_attrs(flag_attrs())
    return fixed.assign_attrs(surface.attrs | {"index_days": index_days})
