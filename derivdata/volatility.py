"""Volatility indices that venues publish, such as DVOL of Deribit."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from derivdata.client import quantities
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.tables import endpoints

__all__ = ["index_published"]
__dir__ = __all__.copy


@typed
def index_published(
    symbols: str | Sequence[str],
    start: times.TimeLike,
    end: times.TimeLike | None = None,
    *,
    venues: str | Sequence[str] | None = None,
    resolution: times.Resolution | None = "1h",
) -> pd.DataFrame:
    """Return the volatility indices that venues publish over a window.

    Parameters
    ----------
    symbols, start, end, venues, resolution
        As in `derivdata.funding.history`.

    Returns
    -------
    DataFrame, table ``volatility_index_published``
        One row per symbol, venue and step; ``index_pct`` [%] is the newest value of the step that ends at
        ``time``, 50 for a volatility of 50 % per √year.

    Notes
    -----
    ``GET /local/volatility/index_published``, which is not part of the API document. Methods differ: DVOL
    cuts the strip of options at 5 % delta, `derivdata.analysis.variance.volatility_index` does not. Errors:
    see `derivdata.prices.history`.

    Examples
    --------
    >>> dd.volatility.index_published("BTC", "1d", venues=["deribit"]).shape
    (24, 5)
    """
    return quantities.table_rows(
        endpoints.VOLATILITY_INDEX_PUBLISHED, symbols, start, end, venues, resolution=resolution
    )
