"""One history of one contract: the requests that return it, and the rows of a window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from derivdata import tables
from derivdata.errors import SchemaError
from derivdata.sources.collect.contracts import contract_name, endpoints_for
from derivdata.sources.collect.session import VenueSession
from derivdata.sources.venues.endpoint import Venue, VenueEndpoint
from derivdata.sources.venues.paging import walk
from derivdata.sources.venues.record_types import Instrument, Records
from derivdata.sources.venues.registry import VENUES
from derivdata.sources.venues.tabulation import frames
from derivdata.support import times

TABLES = {
    "funding_settlements": ("settlements",),
    "oi_history": ("oi_history",),
    "prices_history": ("prices", "oi_history", "settlements"),
    "funding_history": ("funding_series",),
    "liquidations_fills": ("liquidations",),
}
"""Tables that venues' histories can refill, and the kinds of request that do it.

Some venues tell prices beside open interest or payments, and nowhere else without a doubt.
"""

_BEFORE = pd.Timedelta(9, "h")  # the row before the window tells the first row's interval
_MOST_PAGES = 20_000


def pages(
    session: VenueSession,
    endpoint: VenueEndpoint,
    first: int,
    last: int,
    given: Mapping[str, str],
    *,
    context: Mapping[str, Any] | None = None,
) -> Iterator[Records]:
    """Yield every page of a window [µs]; `given` are the parameters that do not change.

    Raises `VenueError`, `NetworkError` or `SchemaError`: a page did not come, or not as expected; or the
    walk does not end.
    """
    steps = walk(endpoint.paging, first, last)
    params = next(steps)
    for _ in range(_MOST_PAGES):
        page, _, _ = session.ask(endpoint, {**params, **given}, context=context)
        yield page
        try:
            params = steps.send(page)
        except StopIteration:
            return
    raise SchemaError(f"{endpoint.exchange} {endpoint.place}: the walk does not end")


def refilling(venue: Venue, table: str, *, unconfirmed: bool) -> list[VenueEndpoint]:
    """Return the requests that refill a table, in the order of preference."""
    return [
        endpoint
        for what in TABLES[table]
        for endpoint in endpoints_for(venue, what, unconfirmed=unconfirmed)
        if table in endpoint.tables
    ]


def history(
    session: VenueSession, endpoint: VenueEndpoint, item: Instrument, table: str, window: times.Window
) -> pd.DataFrame:
    """Walk one history of one contract and return the rows of the window, all or an error.

    Raises `VenueError`, `NetworkError` or `SchemaError`: a page did not come, or not as expected.
    """
    first = times.us(window.start - (_BEFORE if table == "funding_settlements" else pd.Timedelta(0)))
    last = times.us(window.end)
    records = Records()
    given = {endpoint.symbol: contract_name(endpoint, item)} if endpoint.symbol else {}
    context: dict[str, Any] = {"instrument": item.name}
    if endpoint.marks is not None and not item.inverse:
        prices = Records()
        for page in pages(session, endpoint.marks, first, last, given, context=context):
            prices.add(page)
        names = ["prices_history"]
        prices.prices = list({row.time: row for row in prices.prices}.values())  # pages overlap by a row
        context |= frames(endpoint.exchange, prices, names)
    for page in pages(session, endpoint, first, last, given, context=context):
        records.add(page)
    return _of_window(endpoint, records, item, table, window)


def _of_window(
    endpoint: VenueEndpoint, records: Records, item: Instrument, table: str, window: times.Window
) -> pd.DataFrame:
    hours = VENUES[endpoint.exchange].lone_payment_hours
    records.oi = list({row.time: row for row in records.oi}.values())  # pages overlap by a row
    records.prices = list({(row.time, row.kind): row for row in records.prices}.values())
    if table == "oi_history" and any(row.oi_usd is None for row in records.oi):
        raise SchemaError(
            f"{endpoint.exchange} {endpoint.place}: open interest of {item.name} is in coins, and no price "
            "of the same minutes is at hand"
        )
    frame = frames(endpoint.exchange, records, [table], default_hours=hours)[table]
    inside = (frame["time"] >= window.start) & (frame["time"] < window.end) & (frame["symbol"] == item.symbol)
    return tables.TABLES[table].conform(frame[inside])
