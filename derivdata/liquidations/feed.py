"""A live feed of liquidation orders."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import pandas as pd

from derivdata import tables
from derivdata.client.retrieval import symbol_filter, venue_names
from derivdata.liquidations.orders import LIMIT, Cut, coverage, just_before_last, next_page, within_asked
from derivdata.support import times
from derivdata.support.arguments import typed

_LATE = pd.Timedelta(30, "s")


@typed
def poll(
    since: times.Instant = "5m",
    *,
    every: float = 10.0,
    limit: int = LIMIT,
    min_usd: float | None = None,
    venues: str | Sequence[str] | None = None,
    symbols: str | Sequence[str] | None = None,
    exclude_symbols: str | Sequence[str] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[pd.DataFrame]:
    """Yield liquidation orders as they arrive, indefinitely.

    Parameters
    ----------
    since
        Where to start: an instant, or a lookback.
    every
        Seconds between two questions, once the feed has caught up.
    limit
        Most orders in one answer, no more than the service allows.
    min_usd, venues, symbols, exclude_symbols
        As in `events`.
    sleep
        What waits; a test gives its own.

    Yields
    ------
    DataFrame, table ``liquidations_events``
        The orders of one answer that were not yielded before, perhaps none. ``provenance["coverage"]``
        holds the spans that the answer covers (``observed``) and those of which it may have lost orders
        because it was full (``missed``); `derivdata.analysis.liquidations.observed` makes a frame of them.

    Notes
    -----
    ``GET /liquidations/events`` with ``since``. Each question reaches back half a minute before the last
    answer, for orders that reached the store late; venue and order id tell what was seen. Errors are those of
    `events`. A feed that failed is taken up again with `since` at the end of its last span.

    A full answer lacks the newest orders or the oldest, which no document says: a question for a single order
    tells. Where it lacks the newest the next question goes on from its last order, at once, and nothing is
    missed. Where it lacks the oldest the span before its first order is ``missed``: raise `limit`.
    """
    query = {
        "exchange": venue_names(venues),
        "symbol": symbol_filter(symbols),
        "exclude_symbol": symbol_filter(exclude_symbols, "exclude_symbols"),
    }
    reached = times.since(since)
    after = reached - _LATE
    cut = None
    seen: dict[tuple[str, str], pd.Timestamp] = {}
    while True:
        frame, lacks = next_page({**query, "since": after, "limit": limit}, cut)
        cut = lacks or cut
        observed, missed = _covered_span(frame, reached, lacks)
        new = _unseen(frame, seen, reached - _LATE)
        if min_usd is not None:
            new = new[new["value_usd"] >= min_usd]
        new = tables.TABLES["liquidations_events"].conform(new)
        provenance = frame.attrs["provenance"]
        spans = within_asked(coverage([observed], [missed]), provenance)
        new.attrs["provenance"] = provenance | {"coverage": spans}
        yield new
        reached = observed.end
        after = observed.end - _LATE
        if lacks == "newest":
            after = just_before_last(frame)
        else:
            sleep(every)


def _covered_span(
    frame: pd.DataFrame, reached: pd.Timestamp, lacks: Cut | None
) -> tuple[times.Window, times.Window]:
    """Return the span that an answer covers, and the one before it of which it may have lost orders."""
    now = times.instant(frame.attrs["provenance"]["as_of"])
    start = max(reached, frame["time"].iloc[0]) if lacks == "oldest" else reached
    end = frame["time"].iloc[-1] if lacks == "newest" else now
    return times.Window(start, max(start, end)), times.Window(reached, start)


def _unseen(
    frame: pd.DataFrame, seen: dict[tuple[str, str], pd.Timestamp], horizon: pd.Timestamp
) -> pd.DataFrame:
    """Return the rows with new orders; `seen` forgets those that can no longer come again."""
    keys = list(zip(frame["exchange"].astype("str"), frame["order_id"], strict=True))
    fresh = [key not in seen for key in keys]
    for key in [key for key, stamp in seen.items() if stamp < horizon]:
        del seen[key]
    seen.update(zip(keys, frame["time"], strict=True))
    return frame[fresh]
