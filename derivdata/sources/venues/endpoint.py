"""Descriptions of venues as data: endpoints, their paging, the venue itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple
from urllib.parse import parse_qsl

from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Instrument, Records

STATE_TABLES = ("funding_history", "oi_history", "markets_symbol_exchanges", "prices_history")
"""Tables that a bulk answer with rate, open interest, prices and 24 hours fills."""
BOOK_TABLES = ("orderbook_book", "orderbook_depth_history")


@dataclass(frozen=True)
class Paging:
    """Paging of a history.

    Attributes
    ----------
    by
        Pages follow by ``"time"``, by a ``"cursor"`` that the answer gives, or by a ``"page"`` number.
    descending
        Whether the newest rows come first, or the newest are given where there are more than `limit`.
    start, end
        Parameters of the window; empty where the venue has none.
    unit
        How instants are written: milliseconds, seconds, or ISO text.
    limit, limit_name
        Rows of a page at most, and the parameter that asks for them ("" where there is none).
    cursor
        Parameter of the cursor or the page number.
    span_hours
        Longest window of one request.
    reach_days
        How far back the venue's history goes, or is walked; None is the listing.
    exclusive
        Whether rows of the instant `end` itself are left out: the next page then starts one unit later, so
        that rows which share an instant are not lost where a page ends.
    thinned
        Whether the first page of each span is all that is taken of it: of a series with a row every second.
    """

    by: Literal["time", "cursor", "page"] = "time"
    descending: bool = False
    start: str = "startTime"
    end: str = "endTime"
    unit: Literal["ms", "s", "iso"] = "ms"
    limit: int = 0
    limit_name: str = "limit"
    cursor: str = ""
    span_hours: float | None = None
    reach_days: float | None = None
    exclusive: bool = False
    thinned: bool = False


@dataclass(frozen=True)
class VenueEndpoint:
    """One request that a venue answers without a key, or one channel.

    Attributes
    ----------
    exchange, what
        The venue's slug, and what it tells: funding, settlements, oi, oi_history, tickers, mark, book, chain,
        instruments, intervals, liquidations, funding_series, prices.
    method, path
        GET or POST with a path, WS with a channel. ``{name}`` stands for a part that the request fills in;
        of ``?name=value`` a request must have the same value, of ``?name`` any.
    tables
        Tables that a body gives, beside ``instruments`` and ``intervals``.
    read
        Turns a body into records.
    params
        Parameters that are always sent.
    symbol
        Parameter that names the contract; empty where one answer has all.
    paging
        How a history is walked; None where one answer has all.
    names
        How `symbol` writes the name of a contract.
    host
        Address that differs from the venue's.
    weight
        Cost in the venue's own units, of which `Venue.budget` may be spent.
    pool
        Which limit of the venue counts it, a name in `Venue.pools`; "" is `Venue.budget`.
    margin
        The contracts that it is about: ``"linear"``, ``"inverse"``, or ``"any"``.
    quote
        Currency in which these contracts are quoted; "" is any.
    lists
        Whether it is where the venue's contracts are listed from.
    every
        Seconds between polls of the state; None where it is not polled.
    each
        Values of `symbol` that one poll asks for, one request each.
    batch
        How many contracts one request may name, joined by commas, where one poll asks for all of them; 0 is
        none.
    largest
        Of a state that takes a request for each contract, how many contracts are asked for, those with the
        most volume of 24 hours; 0 is all.
    expiry
        Parameter that names an expiry as YYMMDD: one request for each expiry of the chain.
    marks
        Of a history in coins, the request for the marks of the same instants, which value it.
    confirmed
        False for what the specification lists as unconfirmed: read, but not collected until checked.
    note
        What else a user should know of it, for the table of endpoints.
    """

    exchange: str
    what: str
    method: Literal["GET", "POST", "WS"]
    path: str
    tables: tuple[str, ...]
    read: Callable[[Reading], Records] = field(compare=False)
    params: Mapping[str, str] = field(default_factory=dict, compare=False)
    symbol: str = ""
    paging: Paging | None = None
    names: str = "{}"
    host: str = ""
    weight: float = 1.0
    pool: str = ""
    margin: Literal["any", "linear", "inverse"] = "any"
    quote: str = ""
    lists: bool = False
    every: float | None = None
    each: tuple[str, ...] = ()
    batch: int = 0
    largest: int = 0
    expiry: str = ""
    marks: VenueEndpoint | None = field(default=None, compare=False)
    confirmed: bool = True
    note: str = ""

    @property
    def label(self) -> str:
        """How messages and ledgers name it among the venue's requests."""
        return f"{self.path} {self.quote}".strip()

    @property
    def is_of_one(self) -> bool:
        """Whether a poll of the state takes a request for each contract."""
        return self.every is not None and bool(self.symbol) and not (self.each or self.expiry or self.batch)

    def covers(self, item: Instrument) -> bool:
        """Return whether it is about contracts such as this one, by margin and quote currency."""
        margin = "inverse" if item.inverse else "linear"
        return self.margin in ("any", margin) and self.quote in ("", item.quote)

    @cached_property
    def place(self) -> str:
        """The path or channel without its parameters."""
        return self.path.partition("?")[0]

    @cached_property
    def fixed(self) -> dict[str, str]:
        """Parameters that tell this endpoint from others of the same path; "" is any value."""
        return dict(parse_qsl(self.path.partition("?")[2], keep_blank_values=True))

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches the place, its ``{name}`` parts as groups."""
        parts = re.split(r"\{(\w+)\}", self.place)
        text = "".join(
            f"(?P<{part}>[^/?&]+?)" if odd else re.escape(part)
            for part, odd in zip(parts, [False, True] * len(parts), strict=False)
        )
        return re.compile(text)


class Socket(NamedTuple):
    """A WebSocket to open, and the messages that subscribe to some contracts."""

    address: str
    messages: list[str]


@dataclass(frozen=True)
class Stream:
    """A channel that pushes liquidations.

    Attributes
    ----------
    channel
        Its name, as in `VenueEndpoint.path`, to read frames by.
    connections
        Returns the connections that cover some contracts; it is given their names and the time [s], which
        some venues want in the message.
    marker
        What every frame with data holds; others answer a subscription or a ping.
    answer
        Returns what a frame without data must be answered with: None where the venue wants nothing.
    is_default
        Whether the collector listens to it unless told otherwise: a venue is collected by one path, its
        stream or its requests, since the two do not name the same row alike.
    """

    channel: str
    connections: Callable[[Sequence[str], int], list[Socket]]
    marker: bytes
    answer: Callable[[bytes], str | None] = lambda _: None
    is_default: bool = True


@dataclass(frozen=True)
class Venue:
    """A venue: where it answers, how often it may be asked, and what its errors look like.

    Attributes
    ----------
    exchange, endpoints
        Its slug, and what it can be asked.
    host, socket
        Base address of requests, and of the WebSocket ("" where none is used).
    budget
        Weight per second that is spent at most: a quarter of the published limit.
    pools
        The same of limits that the venue counts apart, by the name in `VenueEndpoint.pool`.
    refuse
        Raises a `VenueError` for a body that is an error; called before a body is read.
    ping
        Text to send over an idle WebSocket, and after how many seconds; "" is the protocol's own ping.
    stream
        The channel of liquidations, if the venue has one.
    hourly
        Whether it pays each hour: a payment that stands alone in its window is then of one hour.
    terms
        What is known of the venue's terms for its data, in a sentence.
    named_only
        Whether it is left out unless the user names it.
    """

    exchange: str
    host: str
    endpoints: tuple[VenueEndpoint, ...]
    refuse: Callable[[Reading], None] = field(compare=False)
    budget: float
    pools: Mapping[str, float] = field(default_factory=dict, compare=False)
    socket: str = ""
    ping: tuple[str, float] = ("", 20.0)
    stream: Stream | None = field(default=None, compare=False)
    terms: str = "No text on public data was found: for the user's own use."
    named_only: bool = False
    hourly: bool = False

    def seconds(self, endpoint: VenueEndpoint) -> float:
        """Return how long a request takes up its limit's budget."""
        return endpoint.weight / (self.pools[endpoint.pool] if endpoint.pool else self.budget)

    @property
    def lone_payment_hours(self) -> float:
        """The interval of a payment that stands alone in its window, so that no spacing tells it."""
        return 1.0 if self.hourly else 8.0
