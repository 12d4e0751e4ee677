"""GRVT: one contract per request. Rates are in percent per interval, and times in nanoseconds.

The venue's page and three clients read rates as percent; one client divides them by a million. A body shows
that they are percent: BTC had ``0.0037`` on 2025-12-03, with its mark 3.3 bps below the index. That is
0.37 bps as percent, but 37 bps as a fraction and 0.00004 bps in millionths.
"""

from __future__ import annotations

from functools import partial

from derivdata.sources.venues.endpoint import STATE_TABLES, Paging, Venue, VenueEndpoint
from derivdata.sources.venues.readers import contracts
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Instrument, Payment, Records
from derivdata.sources.venues.wire import (
    ContractRow,
    Figures,
    Level,
    NumberedBody,
    Wire,
    if_stated,
    refusal,
    spelled,
)

_PERCENT = 100.0
_HOUR_US = 3_600_000_000
_MINUTE_US = 60_000_000
_NUMBER = str | float


def _named(name: str) -> Instrument:
    """Parse a contract name such as BTC_USDT_Perp."""
    pair, _, kind = name.rpartition("_")
    base, _, quote = pair.rpartition("_")
    return Instrument(name, base, quote, 1.0, perpetual=kind == "Perp")


_CONTRACT = spelled(
    ContractRow[_NUMBER, str, None], name="instrument", symbol="base", quote="quote", kind="kind",
    hours="funding_interval_hours", tick="tick_size", step="min_size", listed="create_time",
)  # fmt: skip


def _contract(reading: Reading, row: ContractRow[_NUMBER, str, None]) -> Instrument:
    listed = if_stated(reading.ns, row.listed)
    item = Instrument(row.name, row.symbol, row.quote, 1.0, perpetual=row.kind == "PERPETUAL", listed=listed)
    return item._replace(tick=reading.number(row.tick), step=reading.number(row.step))


class _Ticker(Figures[str, str], kw_only=True):
    stamp: str
    interval_h: _NUMBER | None = None
    bought: str | None = None  # taker buys and sells of 24 hours [USD]
    sold: str | None = None
    due: str | None = None


_TICKER = spelled(
    _Ticker, name="instrument", stamp="event_time", mark="mark_price", index_price="index_price",
    last="last_price", opened="open_price", contracts="open_interest", rate="funding_rate",
    interval_h="funding_interval_hours", bought="buy_volume_24h_q", sold="sell_volume_24h_q",
    due="next_funding_time",
)  # fmt: skip


def ticker(reading: Reading) -> Records:
    """Read the rate, open interest in coins at the mark, prices and volume of one contract."""
    records = Records()
    for row in reading.rows(_TICKER, "result"):
        item = reading.instrument(row.name, _named)
        hours = reading.number(row.interval_h) or reading.interval(item)
        rate = reading.number(row.rate)
        bought = reading.number(row.bought)
        sold = reading.number(row.sold)
        state = reading.state(
            item,
            row,
            hours,
            time=reading.ns(row.stamp),
            rate=None if rate is None else rate / _PERCENT,
            volume_usd=None if bought is None or sold is None else bought + sold,
            next_payment=None if not row.due or row.due == "0" else reading.ns(row.due),
        )
        records.states.append(state)
    return records


class _Paid(Wire):
    instrument: str
    funding_rate: str
    funding_time: str
    funding_interval_hours: _NUMBER | None = None


class _Page(Wire):
    result: list[_Paid]
    next: str | None = None


def funding_history(reading: Reading) -> Records:
    """Read payments, the newest first; rows between two hours are estimates."""
    page = reading.decode(_Page)
    records = Records(cursor=page.next or None)
    for row in page.result:
        time = reading.ns(row.funding_time)
        records.times.append(time)
        hours = reading.number(row.funding_interval_hours)
        if time % _HOUR_US >= _MINUTE_US:
            continue
        item = reading.instrument(row.instrument, _named)
        rate = reading.required(row.funding_rate) / _PERCENT
        records.payments.append(Payment(item, time, rate, hours or None, hours or None))
    return records


_LEVEL = spelled(Level[str], price="price", size="size")


class _Book(Wire):
    instrument: str
    event_time: str
    bids: list[_LEVEL]  # type: ignore[valid-type]
    asks: list[_LEVEL]  # type: ignore[valid-type]


def book(reading: Reading) -> Records:
    """Read a book; sizes are coins."""
    body = reading.value(_Book, "result")
    item = reading.instrument(body.instrument, _named)
    return Records(books=[reading.book(item, reading.ns(body.event_time), body.bids, body.asks)])


_endpoint = partial(VenueEndpoint, "grvt", method="POST")
_of_one = partial(_endpoint, symbol="instrument")

ENDPOINTS = (
    _endpoint(
        "instruments", "/full/v1/all_instruments", contracts(_CONTRACT, "result", _contract),
        params={"is_active": "true"}, lists=True,
    ),
    _of_one(
        "funding", "/full/v1/ticker", ticker, tables=STATE_TABLES, batch=1, every=300,
        note="percentage points of the interval; one contract a request; which sides open interest counts is "
        "not known",
    ),
    _of_one(
        "settlements", "/full/v1/funding", funding_history, params={"agg_type": "FUNDING_INTERVAL"},
        note="percentage points of the interval",
        paging=Paging("cursor", descending=True, start="start_time", end="end_time", unit="ns",
                      cursor="cursor", limit=1000),
    ),
    _of_one("book", "/full/v1/book", book, params={"depth": "500"}),
)  # fmt: skip

VENUE = Venue(
    "grvt",
    "https://market-data.grvt.io",
    ENDPOINTS,
    refusal(NumberedBody, {1006: "limit", 1002: "busy"}.get),
    budget=4.0,  # no published limit was found; ccxt sends 25 a second
)
