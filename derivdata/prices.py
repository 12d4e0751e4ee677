"""Prices over time: mark, index and last price of each venue, and spot prices."""

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
    start: times.TimeLike,
    end: times.TimeLike | None = None,
    *,
    venues: str | Sequence[str] | None = None,
    kind: Literal["mark", "index", "last"] = "mark",
    resolution: times.Resolution | None = "1h",
    by: By = "symbol",
) -> pd.DataFrame:
    """Return mark, index or last prices of each venue over a window.

    Parameters
    ----------
    symbols, start, end, venues, resolution, by
        As in `derivdata.funding.history`.
    kind
        ``"mark"``, the price for margins and liquidations; ``"index"``, the venue's own index of spot prices;
        ``"last"``, the last trade.

    Returns
    -------
    DataFrame, table ``prices_history``
        One row per symbol, venue and step. ``price_usd`` [USD] is the newest price of the step that ends at
        ``time``. It is a sample, not a mean, so that returns keep their variance. Steps without a price are
        dropped. The price of a contract of ``1000PEPE`` is per 1000 coins.

    Raises
    ------
    ValueError, TypeError
        `start` is not before `end`; a name, time, kind or resolution is not valid.
    NotFound
        The source does not have past prices, like the hosted service; or a symbol does not have rows and is
        not in the source's own list.
    TierError
        The key may not read history, or not that far back.
    FetchError, SchemaError
        A request failed, or a response is not this table. A partial table is never returned.

    Notes
    -----
    ``GET /local/prices/history``, which is not part of the API document. The sample, archives and venues have
    it.

    Examples
    --------
    >>> dd.prices.history(["BTC", "ETH"], "7d", venues=["okx"]).shape
    (336, 6)
    """
    return quantities.table_rows(
        endpoints.PRICES_HISTORY, symbols, start, end, venues, by, kind=kind, resolution=resolution
    )


@typed
def spot(
    symbols: str | Sequence[str],
    start: times.TimeLike,
    end: times.TimeLike | None = None,
    *,
    venues: str | Sequence[str] | None = None,
    quote: Literal["USDT", "USD", "USDC"] = "USDT",
    resolution: times.Resolution | None = "1h",
) -> pd.DataFrame:
    """Return spot prices of each venue in one currency over a window.

    Parameters
    ----------
    symbols, start, end, venues, resolution
        As in `derivdata.funding.history`.
    quote
        Currency of the price. Prices in USDT and in USD differ by the price of USDT.

    Returns
    -------
    DataFrame, table ``prices_spot``
        One row per symbol, venue and step. ``price`` [`quote`] is the newest of the step that ends at
        ``time``, as in `history`; for 1000PEPE it is per 1000 coins.

    Notes
    -----
    ``GET /local/prices/spot``, which is not part of the API document. With mark prices,
    `derivdata.analysis.basis.against` gives the premium of perpetuals over spot. Errors: see `history`.

    Examples
    --------
    >>> dd.prices.spot("BTC", "7d", venues=["okx", "bybit"]).shape
    (336, 6)
    """
    return quantities.table_rows(
        endpoints.PRICES_SPOT, symbols, start, end, venues, quote=quote, resolution=resolution
    )
