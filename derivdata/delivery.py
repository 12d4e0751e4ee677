"""Delivery prices: the settlement prices of options and dated futures at expiry."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from derivdata.client import quantities
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.tables import endpoints

__all__ = ["prices"]
__dir__ = __all__.copy


@typed
def prices(
    symbols: str | Sequence[str],
    start: times.TimeLike,
    end: times.TimeLike | None = None,
    *,
    venues: str | Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return the delivery prices of each venue over a window.

    Parameters
    ----------
    symbols, start, end, venues
        As in `derivdata.funding.history`.

    Returns
    -------
    DataFrame, table ``delivery_prices``
        One row per symbol, venue, contract and time of delivery; ``price_usd`` [USD] is the mean of the
        venue's index over the last half hour. ``contract`` is the settled contract: ``"option:USDT"``,
        ``"future:USD"``, ``"index:USD"`` for all contracts on an index (Deribit), or ``"unstated"`` for rows
        that an earlier version stored. Days without an expiry may have rows too, as on Deribit.

    Notes
    -----
    ``GET /local/delivery/prices``, which is not part of the API document. Deribit has one price per index.
    OKX has separate prices of futures and options, and so has Binance, where the prices of quarterly futures
    and options differ. Prices in USDT and in USD are different contracts. Errors: see
    `derivdata.prices.history`.

    Examples
    --------
    >>> dd.delivery.prices("BTC", "7d", venues=["deribit"]).shape
    (7, 5)
    """
    return quantities.table_rows(endpoints.DELIVERY_PRICES, symbols, start, end, venues)
