"""Declarations of venues and endpoints, and paging through histories.

A walk never counts pages and never steps by an assumed interval. It ends when a page is empty or brings no
row beyond the last. Pages overlap by the row at their edge, which is written once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple
from urllib.parse import parse_qsl

import pandas as pd

from derivdata.errors import SchemaError
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Instrument, Records

RATE_TABLES = ("funding_history",)
PRICE_TABLES = ("markets_symbol_exchanges", "prices_history")
STATE_TABLES = (*RATE_TABLES, "oi_history", *PRICE_TABLES)
DATED = "futures_history"
BOOK_TABLES = ("orderbook_book", "orderbook_depth_history")
_TABLES: dict[str, tuple[str, ...]] = {
    "funding": STATE_TABLES,
    "funding_series": RATE_TABLES,
    "settlements": ("funding_settlements",),
    "oi": ("oi_history",),
    "oi_history": ("oi_history",),
    "tickers": PRICE_TABLES,
    "mark": PRICE_TABLES,
    "prices": ("prices_history",),
    "spot": ("prices_spot",),
    "positioning": ("positioning_history",),
    "taker": ("volume_taker",),
    "book": BOOK_TABLES,
    "chain": ("options_snapshot",),
    "option_trades": ("options_trades",),
    "deliveries": ("delivery_prices",),
    "volatility_index": ("volatility_index_published",),
    "liquidations": ("liquidations_fills",),
    "borrow_rates": ("borrow_rates",),
    "margin_tiers": ("margin_tiers",),
    "instruments": (),
    "intervals": (),
    "dexes": (),
}
"""Usual tables of a body by its content, next to ``instruments`` and ``intervals``."""


_BY_WHAT = ("",)


@dataclass(frozen=True)
class Paging:
    """Paging of a history."""

    # next page by time, by a cursor in the response, or by a page number
    by: Literal["time", "cursor", "page"] = "time"
    # whether the newest rows come first, or are returned if there are more than `limit`
    descending: bool = False
    start: str = "startTime"  # parameters of the window; empty if the venue has none
    end: str = "endTime"
    unit: Literal["ms", "s", "ns", "iso"] = "ms"
    limit: int = 0  # maximum rows of a page, and its parameter
    limit_name: str = "limit"
    cursor: str = ""  # parameter of the cursor or the page number
    span_hours: float | None = None  # longest window of one request
    reach_days: float | None = None  # available or requested length of the past in days; None is unlimited
    # Rows at the time `end` itself are excluded: the next page then starts one unit later, so that rows which
    # share a time are not lost at the end of a page
    exclusive: bool = False
    # Only the first page of each span is read, for a series with a row every second
    thinned: bool = False


@dataclass(frozen=True)
class VenueEndpoint:
    """One request without a key, or one channel."""

    exchange: str
    what: str  # content, a name in `_TABLES`
    # ``{name}`` is a part that the request fills in; for ``?name=value`` a request must have the same value,
    # for ``?name`` any
    path: str
    read: Callable[[Reading], Records] = field(compare=False)
    tables: tuple[str, ...] = _BY_WHAT
    method: Literal["GET", "POST", "WS"] = "GET"  # WS: the path is a channel
    params: Mapping[str, str] = field(default_factory=dict, compare=False)  # parameters that are always sent
    symbol: str = ""  # parameter with the contract; empty if one response has all contracts
    paging: Paging | None = None  # None if one response has all rows
    # format of `symbol`: the contract's name, or ``{symbol}``, ``{base}``, ``{quote}`` or ``{pair}``
    names: str = "{}"
    host: str = ""  # address that differs from the venue's
    weight: float = 1.0  # cost of a request in the units of `Venue.budget`
    pool: str = ""  # limit that counts it, a name in `Venue.pools`; "" is `Venue.budget`
    margin: Literal["any", "linear", "inverse"] = "any"  # margin of its contracts
    quote: str = ""  # quote currency of its contracts; "" is any
    lists: bool = False  # whether it lists the venue's contracts
    every: float | None = None  # seconds between polls; None if it is not polled
    symbol_values: tuple[str, ...] = ()  # values of `symbol` in one poll, one request each
    # Parameter with a dex: polls also request the listed dexes that are not venues, a fifth of them each
    # minute
    dex: str = ""
    batch: int = 0  # maximum number of contracts per request, joined by commas, if a poll requests all
    # Whether `symbol` is repeated for each contract of a batch instead of joined by commas.
    repeats: bool = False
    # For a state with one request per contract, the number of requested contracts, by volume of 24 hours; 0
    # is all
    largest: int = 0
    expiry: str = ""  # parameter that names an expiry as YYMMDD: one request for each of the chain
    # For a history in coins, the request for the marks of the same times, which give its value
    marks: VenueEndpoint | None = field(default=None, compare=False)
    confirmed: bool = True  # False: the specification could not confirm it; not collected until checked
    note: str = ""  # note for the table of endpoints

    def __post_init__(self) -> None:
        if self.tables is _BY_WHAT:
            object.__setattr__(self, "tables", _TABLES[self.what])

    @property
    def label(self) -> str:
        """Name of the endpoint in messages and ledgers."""
        return f"{self.path} {self.quote}".strip()

    @property
    def is_of_one(self) -> bool:
        """Whether a poll of the state needs a request for each contract."""
        if self.every is None or not self.symbol:
            return False
        return not (self.symbol_values or self.expiry or self.batch)

    def covers(self, item: Instrument) -> bool:
        """Return whether the endpoint covers contracts such as this one, by margin and quote currency."""
        return self.margin in ("any", item.margin) and self.quote in ("", item.quote)

    @property
    def where(self) -> str:
        """Venue and place, which errors name."""
        return f"{self.exchange} {self.place}"

    @cached_property
    def place(self) -> str:
        """The path or channel without its parameters."""
        return self.path.partition("?")[0]

    @cached_property
    def fixed(self) -> dict[str, str]:
        """Return the parameters that identify this endpoint among those of its path; "" is any value."""
        return dict(parse_qsl(self.path.partition("?")[2], keep_blank_values=True))

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches the place, its ``{name}`` parts as groups."""
        pieces = re.split(r"\{(\w+)\}", self.place)  # fixed texts alternating with names
        pieces[::2] = map(re.escape, pieces[::2])
        pieces[1::2] = map("(?P<{}>[^/?&]+?)".format, pieces[1::2])
        return re.compile("".join(pieces))


class Socket(NamedTuple):
    """A WebSocket to open, and the messages that subscribe to some contracts."""

    address: str
    messages: list[str]


@dataclass(frozen=True)
class Stream:
    """A channel that pushes liquidations, or the state of contracts."""

    channel: str  # path that identifies its frames, as in `VenueEndpoint.path`
    # Returns the connections that cover some contracts, given their names and the time [s], which some venues
    # want in the message
    connections: Callable[[Sequence[str], int], list[Socket]]
    marker: bytes  # content of every frame with data; other frames reply to subscriptions or pings
    # Returns the required reply to a frame without data
    reply: Callable[[bytes], str | None] = lambda _: None
    # Whether the venue is collected by this stream. Only one path is used, because stream and requests
    # identify rows differently.
    is_default: bool = True


@dataclass(frozen=True)
class Venue:
    """A venue: its addresses, rate limits and errors."""

    exchange: str
    host: str
    endpoints: tuple[VenueEndpoint, ...]
    # Raises a `VenueError` for a body that is an error; called before a body is read
    refuse: Callable[[Reading], None] = field(compare=False)
    budget: float  # maximum weight per second, a quarter of the published limit
    # the same for separate limits, by the name in `VenueEndpoint.pool`
    pools: Mapping[str, float] = field(default_factory=dict, compare=False)
    socket: str = ""
    # Path of the field with a frame's channel; empty if frames have none. With "method", each response has
    # its request
    channel_at: str = ""
    # text to send over an idle WebSocket, and the idle time [s]; "" is the protocol's ping
    ping: tuple[str, float] = ("", 20.0)
    stream: Stream | None = field(default=None, compare=False)
    terms: str = "No text on public data was found: for the user's own use."
    named_only: bool = False  # requested only if the user names it
    closed_on: str = ""  # closing date; requested only if the user names it
    # Sent with each request, and with the handshake of each WebSocket
    headers: Mapping[str, str] = field(default_factory=dict, compare=False)
    hourly: bool = False  # whether it pays hourly, unless the spacing of payments confirms another interval
    is_inverse_hourly: bool = True  # whether coin-margined contracts also pay hourly

    @property
    def is_default(self) -> bool:
        """Whether the venue is requested if the user does not name venues."""
        return not self.named_only and not self.closed_on

    def seconds(self, endpoint: VenueEndpoint) -> float:
        """Return the seconds of the limit's budget that a request uses."""
        budget = self.pools[endpoint.pool] if endpoint.pool else self.budget
        return endpoint.weight / budget

    def usual_hours(self, item: Instrument) -> float | None:
        """Return the interval of all contracts like this one, None where contracts differ."""
        if self.hourly and (self.is_inverse_hourly or not item.inverse):
            return 1.0
        return None


_UNITS_US = {"ms": 1_000, "s": 1_000_000, "ns": 1, "iso": 1_000}
"""Microseconds between two pages; nanoseconds are requested in whole microseconds."""


def walk(paging: Paging | None, start: int, end: int) -> Generator[dict[str, str], Records, None]:
    """Yield the parameters of each page of a window [µs]; send the content of the page.

    Examples
    --------
    >>> steps = walk(Paging(limit=2), 0, 3_600_000_000)
    >>> next(steps)
    {'limit': '2', 'startTime': '0', 'endTime': '3600000'}
    """
    if paging is None:
        yield {}
    elif paging.by == "time":
        hours = paging.span_hours
        span = end - start if hours is None else int(hours * 3_600_000_000)
        walk_by_time = _backward if paging.descending else _forward
        yield from walk_by_time(paging, start, end, span)
    else:
        yield from _numbered(paging, start, end)


def _forward(paging: Paging, start: int, end: int, span: int) -> Generator[dict[str, str], Records, None]:
    """Request a window forwards in spans [µs]; each page begins at the newest row of the previous one."""
    while start < end:
        last = min(end, start + span)
        page = yield _params(paging, start, last)
        newest = max(page.times, default=start)
        if newest > start:
            start = newest
        elif paging.start and _is_full(paging, page):
            raise SchemaError("a full page has no newer row than the previous page")
        elif last < end:
            start = last  # the rest of this span is empty
        else:
            return


def _backward(paging: Paging, start: int, end: int, span: int) -> Generator[dict[str, str], Records, None]:
    """Request a window backwards in spans [µs]; each page ends at the oldest row of the previous one."""
    while start < end:
        first = max(start, end - span)
        last = end
        while True:
            page = yield _params(paging, first, last)
            oldest = min(page.times, default=last)
            if paging.exclusive:
                oldest += _UNITS_US[paging.unit]
            if oldest >= last and paging.end and not paging.thinned and _is_full(paging, page):
                raise SchemaError("a full page has no older row than the previous page")
            if paging.thinned or oldest >= last or oldest <= first:
                break
            last = oldest
        end = first


def _numbered(paging: Paging, start: int, end: int) -> Generator[dict[str, str], Records, None]:
    """Follow cursors or page numbers until a page is empty or begins before the window."""
    number = 1
    cursor = "1" if paging.by == "page" else ""
    seen: set[str] = set()
    before = Records()
    while True:
        params = _params(paging, start, end)
        if cursor:
            params[paging.cursor] = cursor
        page = yield params
        if page.times and page.times == before.times and _is_full(paging, page):
            raise SchemaError("a page repeats the rows of the previous page")
        before = page
        if not page.times and paging.descending:
            return
        if page.times and min(page.times) < start:
            return
        number += 1
        cursor = str(number) if paging.by == "page" else page.cursor or ""
        if not cursor or cursor in seen:
            return
        seen.add(cursor)


def _is_full(paging: Paging, page: Records) -> bool:
    """Return whether a page has the maximum number of rows and therefore may not be the last."""
    return 0 < paging.limit <= len(page.times)


def _params(paging: Paging, start: int, end: int) -> dict[str, str]:
    params = {}
    if paging.limit_name and paging.limit:
        params[paging.limit_name] = str(paging.limit)
    for name, timestamp in ((paging.start, start), (paging.end, end)):
        if name:
            params[name] = _written(paging, timestamp)
    return params


def _written(paging: Paging, timestamp: int) -> str:
    if paging.unit == "iso":
        stamp = pd.Timestamp(timestamp, unit="us", tz="UTC")
        return f"{stamp:%Y-%m-%dT%H:%M:%S}.{timestamp // 1000 % 1000:03}Z"
    if paging.unit == "ns":
        return str(timestamp * 1000)
    return str(timestamp // _UNITS_US[paging.unit])
