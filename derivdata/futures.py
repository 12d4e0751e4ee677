"""Dated futures: price, index price, expiry and open interest of each contract."""

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
    start: times.TimeLike,
    end: times.TimeLike | None = None,
    *,
    venues: str | Sequence[str] | None = None,
    resolution: times.Resolution | None = "1h",
) -> pd.DataFrame:
    """Return the dated futures of each venue over a window.

    Parameters
    ----------
    symbols, start, end, venues, resolution
        As in `derivdata.funding.history`.

    Returns
    -------
    DataFrame, table ``futures_history``
        One row per contract and step, until its ``expiry``. ``price_usd`` [USD] is the newest mark price of
        the step that ends at ``time`` (the last trade if the venue does not publish marks),
        ``index_price_usd`` [USD] is the venue's index in the contract's quote currency, and ``oi_usd`` [USD]
        the open interest; NaN if the venue does not publish them. Contracts with the same expiry in several
        currencies differ by ``instrument_name``.

    Notes
    -----
    ``GET /local/futures/history``, which is not part of the API document.
    `derivdata.analysis.futures.term_structure` computes the basis of each contract. Errors: see
    `derivdata.prices.history`.

    Examples
    --------
    >>> contracts = dd.futures.history("BTC", "1d", venues=["deribit"])
    >>> sorted(contracts["expiry"].dt.strftime("%d %b").unique())[:2]
    ['03 Jul', '10 Jul']
    """
    return quantities.table_rows(
        endpoints.FUTURES_HISTORY, symbols, start, end, venues, resolution=resolution
    )
