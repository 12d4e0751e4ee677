"""Prices over time: mark, index and last price of every venue, and spot prices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pandas as pd

from derivdata.client import quantities
from derivdata.client.retrieval import By
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.tables import endpoints

__all__ = ["history", "spot"]
__dir__ = __all__.copy


@typed
def history(
    symbols: str | Sequence[str],
    start: times.Instant,
    end: times.Instant | None = None,
    *,
    venues: str | Sequence[str] | None = None,
    kind: Literal["mark", "index", "last"] = "mark",
    resolution: times.Resolution | None = "1h",
    by: By = "symbol",
) -> pd.DataFrame:
    """Return a price of every venue over a window.

    Parameters
    ----------
    symbols, start, end, venues, resolution, by
        As in `derivdata.funding.history`.
    kind
        ``"mark"``, the price that margins and liquidations go by; ``"index"``, the venue's own index of spot
        prices; ``"last"``, the last trade.

    Returns
    -------
    DataFrame, table ``prices_history``
        One row per symbol, venue and step. ``price_usd`` [USD] at ``time`` is the newest price of the step
        that ends there: a sample, not a mean, so that returns keep their variance. A step without a price is
        no row. A venue's contract of ``1000PEPE`` is priced per 1000 coins, and named so.

    Raises
    ------
    ValueError, TypeError
        `start` is not before `end`; a name, time, kind or resolution is not one.
    NotFound
        The source is the hosted service, which has no prices over time, or it holds none; a symbol has no
        rows and is not in the source's own list.
    TierError
        The key may not read history, or not that far back.
    FetchError, SchemaError
        No answer, or one that is not this table. A partial table is never returned.

    Notes
    -----
    ``GET /local/prices/history``, which is not part of the API document: the sample, an archive and the
    venues answer it.

    >>> dd.prices.history(["BTC", "ETH"], "7d", venues=["okx"]).shape
    (336, 6)
    """
    return quantities.table_rows(
        endpoints.PRICES_HISTORY, symbols, start, end, venues, by, kind=kind, resolution=resolution
    )


@typed
def spot(
    symbols: str | Sequence[str],
    start: times.Instant,
    end: times.Instant | None = None,
    *,
    venues: str | Sequence[str] | None = None,
    quote: Literal["USDT", "USD", "USDC"] = "USDT",
    resolution: times.Resolution | None = "1h",
) -> pd.DataFrame:
    """Return the spot price of every venue in one currency over a window.

    Parameters
    ----------
    symbols, start, end, venues, resolution
        As in `derivdata.funding.history`.
    quote
        Currency of the price. A price in USDT is not one in USD: the difference is that of the two
        currencies.

    Returns
    -------
    DataFrame, table ``prices_spot``
        One row per symbol, venue and step. ``price`` [`quote`] at ``time`` is the newest of the step that
        ends there, as in `history`; of 1000PEPE it is the price of 1000 coins.

    Notes
    -----
    ``GET /local/prices/spot``, which is not part of the API document. With mark prices,
    `derivdata.analysis.basis.against` gives the premium of perpetuals over spot. Errors are those of
    `history`.

    >>> dd.prices.spot("BTC", "7d", venues=["okx", "bybit"]).shape
    (336, 6)
    """
    return quantities.table_rows(
        endpoints.PRICES_SPOT, symbols, start, end, venues, quote=quote, resolution=resolution
    )
