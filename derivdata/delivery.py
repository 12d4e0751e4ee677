"""Delivery: the prices at which options and dated futures are settled when they expire."""

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
    start: times.Instant,
    end: times.Instant | None = None,
    *,
    venues: str | Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return the delivery prices of every venue over a window.

    Parameters
    ----------
    symbols, start, end, venues
        As in `derivdata.funding.history`.

    Returns
    -------
    DataFrame, table ``delivery_prices``
        One row per symbol, venue, contract and time of delivery; ``price_usd`` [USD], a mean of the
        venue's index over the half hour before. ``contract`` says what was settled: ``"option:USDT"``,
        ``"future:USD"``, ``"index:USD"`` for all that expires on an index (Deribit), ``"unstated"`` for rows
        that an earlier version stored. A day on which nothing expired may have a row too, as Deribit's have.

    Notes
    -----
    ``GET /local/delivery/prices``, which is not part of the API document. Deribit has one price of each
    index, OKX those of futures and of options, Binance those of quarterly futures and of options, which
    differ. An index in USDT is not one in USD. Errors are those of `derivdata.prices.history`.

    >>> dd.delivery.prices("BTC", "7d", venues=["deribit"]).shape
    (7, 5)
    """
    return quantities.table_rows(endpoints.DELIVERY_PRICES, symbols, start, end, venues)
