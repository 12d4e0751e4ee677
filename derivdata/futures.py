"""Dated futures: price, index, expiry and open interest of every contract with an expiry."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from derivdata.client import quantities
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.tables import endpoints

__all__ = ["history"]
__dir__ = __all__.copy


@typed
def history(
    symbols: str | Sequence[str],
    start: times.Instant,
    end: times.Instant | None = None,
    *,
    venues: str | Sequence[str] | None = None,
    resolution: times.Resolution | None = "1h",
) -> pd.DataFrame:
    """Return the dated futures of every venue over a window.

    Parameters
    ----------
    symbols, start, end, venues, resolution
        As in `derivdata.funding.history`.

    Returns
    -------
    DataFrame, table ``futures_history``
        One row per contract and step, until its ``expiry``. ``price_usd`` [USD] at ``time`` is the newest
        mark of the step that ends there (the last trade where the venue has no mark), ``index_price_usd``
        [USD] the venue's index in the contract's quote currency, ``oi_usd`` [USD]; NaN where the venue does
        not say. Contracts of one expiry in several currencies differ by ``instrument_name``.

    Notes
    -----
    ``GET /local/futures/history``, which is not part of the API document. The basis of each contract is that
    of `derivdata.analysis.futures.term_structure`. Errors are those of `derivdata.prices.history`.

    >>> contracts = dd.futures.history("BTC", "1d", venues=["deribit"])
    >>> sorted(contracts["expiry"].dt.strftime("%d %b").unique())[:2]
    ['03 Jul', '10 Jul']
    """
    return quantities.table_rows(
        endpoints.FUTURES_HISTORY, symbols, start, end, venues, resolution=resolution
    )
