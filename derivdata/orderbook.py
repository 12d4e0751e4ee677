"""Order books: the book at a time, and depth near the mid price over time.

The API document does not describe these responses. The library expects the format of the local service: the
book as pairs of price and size, depth as a row per time with a field per side and distance. Other responses
raise a `SchemaError`; `derivdata.raw` returns them undecoded.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pandas as pd

from derivdata import tables
from derivdata.client import transport
from derivdata.client.reading import Envelope, response_time, timestamps
from derivdata.client.retrieval import get_windows, names, pieces, tabulate
from derivdata.client.transport import DecodedResponse
from derivdata.errors import SchemaError
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.tables import endpoints
from derivdata.tables.contracts import symbol_of, venue_of

__all__ = ["book", "depth_history"]
__dir__ = __all__.copy

_DISTANCES = (10, 25, 50, 100)
_HOLD = pd.Timedelta(1, "h")


class _Book(Envelope):
    symbol: str
    exchange: str
    timestamp: str
    bids: list[tuple[float, float]]
    asks: list[tuple[float, float]]


class _Depth(msgspec.Struct, kw_only=True):
    timestamp: str = ""
    t: str = ""
    bid_depth_10bps_usd: float | None
    ask_depth_10bps_usd: float | None
    bid_depth_25bps_usd: float | None
    ask_depth_25bps_usd: float | None
    bid_depth_50bps_usd: float | None
    ask_depth_50bps_usd: float | None
    bid_depth_100bps_usd: float | None
    ask_depth_100bps_usd: float | None


class _Depths(Envelope):
    symbol: str
    exchange: str
    data: list[_Depth]


@typed
def book(
    symbol: str, venue: str, *, at: times.TimeLike | None = None, limit: int | None = None
) -> pd.DataFrame:
    """Return the order book of one symbol on one venue, now or at a time.

    Parameters
    ----------
    symbol, venue
        ``"BTC"``, ``"binance"``.
    at
        Time of the book, or a lookback such as ``"2h"``: returns the newest book of the hour before. None is
        now. Past books need a source that stores them, such as an archive.
    limit
        Maximum number of levels per side; None uses the service's default.

    Returns
    -------
    DataFrame, table ``orderbook_book``
        One row per side (``bid``, ``ask``) and ``level`` from the best price; ``price_usd`` [USD], ``size``
        [asset].

    Raises
    ------
    NotFound
        The symbol or the venue is unknown, or there is no book for that time.
    FetchError, SchemaError
        The request failed; the response has another format, or a book of another time than `at`.

    Notes
    -----
    ``GET /orderbook/book``, Dev (30 days) and above; `at` is sent as ``end``. The API document does not have
    a parameter for the time, so a service may ignore it. A book that is not of the hour before `at` raises.

    Examples
    --------
    >>> book = dd.orderbook.book("BTC", "binance", limit=3)
    >>> best = book[book["level"] == 1].set_index("side")["price_usd"]
    >>> bool(best["bid"] < best["ask"])
    True
    """
    end = None if at is None else times.since(at, "at")
    query = {"symbol": symbol_of(symbol), "exchange": venue_of(venue), "limit": limit, "end": end}
    response = transport.get(endpoints.ORDERBOOK_BOOK, query, into=_Book)
    if end is not None:
        _require_time(response, end)
    return tabulate(tables.TABLES["orderbook_book"], [response], _book_columns)


@typed
def depth_history(
    symbol: str,
    venue: str,
    start: times.TimeLike,
    end: times.TimeLike | None = None,
    *,
    resolution: times.Resolution | None = "1h",
) -> pd.DataFrame:
    """Return bid and ask depth within 10, 25, 50 and 100 bps of the mid price over a window.

    Parameters
    ----------
    symbol, venue
        As in `book`.
    start, end, resolution
        As in `derivdata.funding.history`.

    Returns
    -------
    DataFrame, table ``orderbook_depth_history``
        One row per time and distance ``depth_bps``; ``bid_depth_usd`` and ``ask_depth_usd`` [USD], NaN for
        null.

    Raises
    ------
    ValueError, TypeError
        `start` is not before `end`; a name, time or resolution is not valid.
    NotFound
        The symbol or the venue is unknown.
    FetchError, SchemaError
        A request failed, or a response has another format.

    Notes
    -----
    ``GET /orderbook/depth-history``, Dev (30 days) and above.
    """
    slug = venue_of(venue)
    window = times.window(start, end)
    spans = pieces(endpoints.ORDERBOOK_DEPTH_HISTORY, window, resolution, names(slug, "venue"))
    queries = [{"symbol": symbol_of(symbol), "exchange": slug, "resolution": resolution}]
    responses = get_windows(endpoints.ORDERBOOK_DEPTH_HISTORY, queries, spans, _Depths)
    return tabulate(tables.TABLES["orderbook_depth_history"], responses, _depth_columns)


def _require_time(response: DecodedResponse[_Book], at: pd.Timestamp) -> None:
    """Raise unless the book is from the hour before `at`."""
    stamp = response_time(response)
    if not at - _HOLD <= stamp <= at:
        path = endpoints.ORDERBOOK_BOOK.path
        expected = f"a book of the hour before {times.iso(at)}"
        raise SchemaError(
            f"{path}: expected {expected}, got a book of {times.iso(stamp)}: the service ignores `at`, or "
            "the time is after its newest book"
        )


def _book_columns(response: DecodedResponse[_Book]) -> dict[str, Any]:
    bids = response.body.bids
    asks = response.body.asks
    levels = [*bids, *asks]
    return {
        "symbol": [response.body.symbol] * len(levels),
        "exchange": [response.body.exchange] * len(levels),
        "timestamp": pd.DatetimeIndex([response_time(response)]).repeat(len(levels)),
        "side": ["bid"] * len(bids) + ["ask"] * len(asks),
        "level": [*range(1, len(bids) + 1), *range(1, len(asks) + 1)],
        "price_usd": [price for price, _ in levels],
        "size": [size for _, size in levels],
    }


def _depth_columns(response: DecodedResponse[_Depths]) -> dict[str, Any]:
    rows = response.body.data
    stamps = timestamps(response, [row.timestamp or row.t for row in rows])
    size = len(rows) * len(_DISTANCES)
    return {
        "symbol": [response.body.symbol] * size,
        "exchange": [response.body.exchange] * size,
        "timestamp": stamps.repeat(len(_DISTANCES)),
        "depth_bps": list(_DISTANCES) * len(rows),
        "bid_depth_usd": [getattr(row, f"bid_depth_{d}bps_usd") for row in rows for d in _DISTANCES],
        "ask_depth_usd": [getattr(row, f"ask_depth_{d}bps_usd") for row in rows for d in _DISTANCES],
        "resolution": [response.body.resolution] * size,
    }
