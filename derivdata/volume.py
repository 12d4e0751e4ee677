"""Volume of symbols and venues over time, volume of takers, and volume over open interest.

Windows are half-open ``[start, end)``. A naive time is UTC; a `start` such as ``"30d"`` looks back from
`end`; without `end` the window ends at `derivdata.asof`. Volume is of the bucket that starts at ``time``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pandas as pd

from derivdata import tables
from derivdata.client import quantities
from derivdata.client.quantities import quantity
from derivdata.client.reading import Envelope, timestamps
from derivdata.client.retrieval import By, get_windows, pieces, tabulate, venue_names
from derivdata.client.transport import DecodedResponse
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.tables import endpoints

__all__ = ["exchange_totals", "history", "oi_ratio", "taker", "top_symbols"]
__dir__ = __all__.copy


class _Ratio(msgspec.Struct):
    ratio: float | None
    volume: float | None
    open_interest: float | None
    timestamp: str = ""
    t: str = ""


class _Ratios(Envelope):
    data: dict[str, list[_Ratio]]


_HISTORY = quantity(endpoints.VOLUME_TIMESERIES, "volume_usd")
_TOTALS = quantity(endpoints.VOLUME_EXCHANGE_TOTALS, "total_volume_usd")
_TOP = quantity(endpoints.VOLUME_TOP_SYMBOLS, "volume_usd")


@typed
def history(
    symbols: str | Sequence[str],
    start: times.TimeLike,
    end: times.TimeLike | None = None,
    *,
    venues: str | Sequence[str] | None = None,
    resolution: times.Resolution | None = "1h",
    by: By = "symbol",
) -> pd.DataFrame:
    """Return the volume of symbols on each venue over a window.

    Parameters
    ----------
    symbols, start, end, venues, resolution, by
        As in `derivdata.funding.history`.

    Returns
    -------
    DataFrame, table ``volume_history``
        One row per symbol, venue and step; ``volume_usd`` [USD]. Rows with null are dropped.

    Notes
    -----
    ``GET /volume/{symbol}/timeseries``, Dev and above. Errors: see `derivdata.funding.history`.

    Examples
    --------
    >>> bool((dd.volume.history("BTC", "1d", venues=["binance", "okx"])["volume_usd"] > 0).all())
    True
    """
    return quantities.over_time(_HISTORY, symbols, start, end, venues, resolution, by)


@typed
def exchange_totals(
    start: times.TimeLike,
    end: times.TimeLike | None = None,
    *,
    venues: str | Sequence[str] | None = None,
    resolution: times.Resolution | None = "1h",
) -> pd.DataFrame:
    """Return the total volume of each venue over a window.

    Parameters
    ----------
    start, end, venues, resolution
        As in `history`.

    Returns
    -------
    DataFrame, table ``volume_exchange_totals``
        One row per venue and step; ``total_volume_usd`` [USD], over all symbols. Rows with null are dropped.

    Notes
    -----
    ``GET /volume/exchange-totals``, Dev and above. Errors: see `history`.
    """
    return quantities.over_time(_TOTALS, None, start, end, venues, resolution)


@typed
def taker(
    symbols: str | Sequence[str],
    start: times.TimeLike,
    end: times.TimeLike | None = None,
    *,
    venues: str | Sequence[str] | None = None,
    resolution: times.Resolution | None = "1h",
) -> pd.DataFrame:
    """Return the value that takers bought and sold on each venue over a window.

    Parameters
    ----------
    symbols, start, end, venues, resolution
        As in `derivdata.funding.history`.

    Returns
    -------
    DataFrame, table ``volume_taker``
        One row per symbol, venue and step; ``buy_usd`` and ``sell_usd`` [USD] were traded in the step that
        begins at ``time``. The newest step is omitted until it is complete.

    Notes
    -----
    ``GET /local/volume/taker``, which is not part of the API document. Errors: see
    `derivdata.prices.history`.

    Examples
    --------
    >>> dd.volume.taker("BTC", "7d", venues=["okx", "bybit"]).shape
    (336, 6)
    """
    return quantities.table_rows(endpoints.VOLUME_TAKER, symbols, start, end, venues, resolution=resolution)


@typed
def top_symbols(
    venue: str, start: times.TimeLike, end: times.TimeLike | None = None, *, limit: int | None = None
) -> pd.DataFrame:
    """Return the volume of a venue's largest symbols over a window.

    Parameters
    ----------
    venue, start, end, limit
        As in `derivdata.oi.top_symbols`.

    Returns
    -------
    DataFrame, table ``volume_top_symbols``
        One row per symbol and time; ``volume_usd`` [USD]. Rows with null are dropped.

    Notes
    -----
    ``GET /volume/exchange-top-symbols-timeseries``, Dev and above. The symbols are the largest ones today: a
    study of the past with them has look-ahead bias. Errors: see `history`.
    """
    return quantities.top_symbols(_TOP, venue, start, end, limit)


@typed
def oi_ratio(
    start: times.TimeLike,
    end: times.TimeLike | None = None,
    *,
    window_days: int | None = None,
    venues: str | Sequence[str] | None = None,
    resolution: times.Resolution | None = "1d",
) -> pd.DataFrame:
    """Return the ratio of volume to open interest of each venue over a window.

    Parameters
    ----------
    start, end, venues, resolution
        As in `history`.
    window_days
        Days over which volume is summed, 1 to 365 (at most 7 for Dev); None uses the service's default.

    Returns
    -------
    DataFrame, table ``volume_oi_ratio``
        One row per venue and step: ``volume_oi_ratio``, ``volume_usd`` and ``oi_usd`` [USD]. Rows with a null
        ratio are dropped.

    Notes
    -----
    ``GET /volume-oi-ratio``, Dev and above. Errors: see `history`.
    """
    slugs = venue_names(venues)
    spans = pieces(endpoints.VOLUME_OI_RATIO, times.window(start, end), resolution, slugs)
    queries = [{"window_days": window_days, "exchanges": slugs, "resolution": resolution}]
    responses = get_windows(endpoints.VOLUME_OI_RATIO, queries, spans, _Ratios)
    return tabulate(tables.TABLES["volume_oi_ratio"], responses, _ratio_columns)


def _ratio_columns(response: DecodedResponse[_Ratios]) -> dict[str, Any]:
    venues: list[str] = []
    rows: list[_Ratio] = []
    for venue, points in response.body.data.items():
        valid = [row for row in points if row.ratio is not None]
        venues += [venue] * len(valid)
        rows += valid
    columns = tables.TABLES["volume_oi_ratio"].rows(rows, resolution=response.body.resolution)
    stamps = timestamps(response, [row.timestamp or row.t for row in rows])
    return columns | {"exchange": venues, "timestamp": stamps}
