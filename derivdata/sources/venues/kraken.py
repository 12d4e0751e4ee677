"""Kraken Futures: linear PF_ and inverse PI_ perpetuals.

``fundingRate`` of tickers is money: USD per coin (PF_: divide by the price) or coin per USD (PI_: multiply
by it), good to half a percent. ``relativeFundingRate`` is a fraction per hour, also where payments were 4
hours apart.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from derivdata.sources.venues.endpoint import BOOK_TABLES, STATE_TABLES, Paging, Venue, VenueEndpoint
from derivdata.sources.venues.reading import Fault, Reading, refusal
from derivdata.sources.venues.record_types import Instrument, Liquidation, Payment, Records, State
from derivdata.sources.venues.wire import Wire

_ALIASES = {"XBT": "BTC", "XDG": "DOGE"}
_REASONS = {"apiLimitExceeded": "limit", "Server Error": "busy", "Unavailable": "busy"}
_TYPES = {"flexible_futures": False, "futures_inverse": True}


class _Fault(Wire):
    result: str | None = None
    error: str = ""

    @property
    def fault(self) -> Fault:
        """An error comes with HTTP 200."""
        return (self.error, self.error) if self.result == "error" else None


def _named(name: str) -> Instrument:
    """Return the contract of PF_XBTUSD (linear, coins) or PI_XBTUSD (inverse, USD); others are dated."""
    kind, _, pair = name.partition("_")
    base = pair.removesuffix("USD")
    perpetual = kind in ("PF", "PI") and pair.endswith("USD")
    return Instrument(name, _ALIASES.get(base, base), "USD", 1.0, kind in ("PI", "FI"), perpetual)


class _Ticker(Wire):
    symbol: str
    last: float | None = None
    markPrice: float | None = None
    indexPrice: float | None = None
    openInterest: float | None = None
    vol24h: float | None = None
    volumeQuote: float | None = None
    fundingRate: float | None = None
    change24h: float | None = None
    suspended: bool = False


class _Tickers(Wire):
    result: str
    tickers: list[_Ticker]
    serverTime: str | None = None


def tickers(reading: Reading) -> Records:
    """Read rates, open interest, prices and volume of all contracts."""
    body = reading.decode(_Tickers)
    time = None if body.serverTime is None else reading.iso(body.serverTime)
    states = [_state(reading, row, time) for row in body.tickers]
    return Records(states=[state for state in states if state is not None])


def ticker(reading: Reading) -> Records:
    """Read the same of one contract."""
    state = _state(reading, reading.decode(_Ticker), None)
    return Records(states=[] if state is None else [state])


def _state(reading: Reading, row: _Ticker, time: int | None) -> State | None:
    item = reading.instrument(row.symbol, _named)
    if not item.perpetual or row.suspended:
        return None
    rate = None
    price = row.indexPrice or row.markPrice  # a thin contract's mark may be 7 % off
    if row.fundingRate is not None and price:
        rate = row.fundingRate * price if item.inverse else row.fundingRate / price
    return State(
        item,
        time,
        rate,
        None if rate is None else 1.0,
        None if rate is None else 1.0,
        mark=row.markPrice,
        index_price=row.indexPrice,
        last=row.last,
        oi_usd=item.usd(row.openInterest, row.markPrice),
        oi_coins=item.coins(row.openInterest, row.markPrice),
        volume_usd=row.vol24h if item.inverse else row.volumeQuote,
        change_pct=row.change24h,
    )


class _Frame(Wire):
    feed: str
    product_id: str
    time: int
    relative_funding_rate: float
    funding_rate: float
    index: float
    last: float
    markPrice: float
    openInterest: float
    volume: float
    volumeQuote: float
    change: float


def ticker_frames(reading: Reading) -> Records:
    """Read the stream, which has the relative rate itself."""
    records = Records()
    for row in reading.frames(_Frame):
        item = reading.instrument(row.product_id, _named)
        relative = row.funding_rate * row.index if item.inverse else row.funding_rate / row.index
        reading.require_close(relative, row.relative_funding_rate, 0.05, "relative and absolute funding rate")
        records.states.append(
            State(
                item,
                reading.ms(row.time),
                row.relative_funding_rate,
                1.0,
                1.0,
                mark=row.markPrice,
                index_price=row.index,
                last=row.last,
                oi_usd=item.usd(row.openInterest, row.markPrice),
                oi_coins=item.coins(row.openInterest, row.markPrice),
                volume_usd=row.volume if item.inverse else row.volumeQuote,
                change_pct=row.change,
            )
        )
    return records


class _Paid(Wire):
    timestamp: str
    relativeFundingRate: float


class _PaidBody(Wire):
    result: str
    rates: list[_Paid]


def funding_history(reading: Reading) -> Records:
    """Read a year of payments or all: the rate is per hour whatever their spacing."""
    item = reading.instrument(reading.asked("symbol"), _named)
    records = Records()
    for row in reading.decode(_PaidBody).rates:
        time = reading.iso(row.timestamp)
        records.add_past(Payment(item, time, row.relativeFundingRate, 1.0))
    return records


class _Levels(Wire):
    bids: list[tuple[float, float]]
    asks: list[tuple[float, float]]


class _BookBody(Wire):
    result: str
    orderBook: _Levels
    serverTime: str


def book(reading: Reading) -> Records:
    """Read a book: coins of PF_, USD of PI_."""
    body = reading.decode(_BookBody)
    item = reading.instrument(reading.asked("symbol"), _named)
    time = reading.iso(body.serverTime)
    return Records(books=[reading.book(item, time, body.orderBook.bids, body.orderBook.asks)])


class _Listed(Wire):
    symbol: str
    type: str
    tradeable: bool
    base: str = ""
    quote: str = "USD"
    contractSize: float = 1.0
    category: str = ""


class _ListedBody(Wire):
    result: str
    instruments: list[_Listed]


def instruments(reading: Reading) -> Records:
    """Read the list of contracts; FI_ and FF_ are dated."""
    items = []
    for row in reading.decode(_ListedBody).instruments:
        with reading.row():
            if row.type not in _TYPES:
                continue
            item = _named(row.symbol)
            if item.inverse != _TYPES[row.type]:
                reading.fail(f"{row.symbol}: the body states type {row.type}")
            symbol = _ALIASES.get(row.base, row.base) or item.symbol
            items.append(
                item._replace(
                    symbol=symbol, size=row.contractSize, active=row.tradeable and row.category != "Pre-IPO"
                )
            )
    return Records(instruments=items)


class _Trade(Wire):
    time: str
    trade_id: int
    price: float
    size: float
    side: str
    type: str
    uid: str = ""


class _Trades(Wire):
    result: str
    history: list[_Trade]


def trades(reading: Reading) -> Records:
    """Read liquidations among trades: a taker that sold closed a long."""
    item = reading.instrument(reading.asked("symbol"), _named)
    rows = reading.decode(_Trades).history
    return _liquidated(reading, item, [(reading.iso(row.time), row) for row in rows])


class _Pushed(Wire):
    product_id: str
    uid: str
    side: str
    type: str
    time: int
    qty: float
    price: float


class _One(_Pushed, tag_field="feed", tag="trade"):
    """A trade."""


class _Newest(Wire, tag_field="feed", tag="trade_snapshot"):
    """The newest trades, which the stream begins with."""

    trades: list[_Pushed]


_TRADE_FRAME: Any = _One | _Newest


def trade_frames(reading: Reading) -> Records:
    """Read liquidations among the trades of the stream, and the newest that it begins with."""
    records = Records()
    for frame in reading.frames(_TRADE_FRAME):
        for row in frame.trades if isinstance(frame, _Newest) else [frame]:
            item, time = reading.instrument(row.product_id, _named), reading.ms(row.time)
            told = _Trade("", 0, row.price, row.qty, row.side, row.type, row.uid)
            records.add(_liquidated(reading, item, [(time, told)]))
    return records


def _liquidated(reading: Reading, item: Instrument, rows: list[tuple[int, _Trade]]) -> Records:
    records = Records()
    for time, row in rows:
        records.times.append(time)
        if row.type != "liquidation":
            continue
        side = reading.word(row.side, {"sell": "long", "buy": "short"})
        records.liquidations.append(
            Liquidation.of(
                item,
                time,
                side,
                row.size,
                fill_price=row.price,
                order_id=row.uid or f"{item.name}-{row.trade_id}",
            )
        )
    return records


_endpoint = partial(VenueEndpoint, "kraken")
_V3 = "/derivatives/api/v3"

ENDPOINTS = (
    _endpoint("instruments", "GET", f"{_V3}/instruments", (), instruments, lists=True),
    _endpoint("funding", "GET", f"{_V3}/tickers", STATE_TABLES, tickers, every=60),
    _endpoint("funding", "GET", f"{_V3}/tickers/{{symbol}}", STATE_TABLES, ticker),
    _endpoint(
        "settlements", "GET", "/derivatives/api/v4/historicalfundingrates", ("funding_settlements",),
        funding_history, symbol="symbol", confirmed=False,
        note="a year in one answer; whether a stamp is the hour's start or end is unconfirmed",
    ),
    _endpoint(
        "book", "GET", f"{_V3}/orderbook", BOOK_TABLES, book,
        symbol="symbol",
    ),
    _endpoint(
        "liquidations", "GET", f"{_V3}/history", ("liquidations_fills",), trades, symbol="symbol", every=60,
        note="100 trades a page, as other clients page it",
        paging=Paging(
            descending=True, start="", end="lastTime", unit="iso", limit=100, limit_name="", exclusive=True
        ),
    ),
    _endpoint("funding", "WS", "ticker", STATE_TABLES, ticker_frames),
    _endpoint("liquidations", "WS", "trade", ("liquidations_fills",), trade_frames),
)  # fmt: skip

VENUE = Venue(
    "kraken",
    "https://futures.kraken.com",
    ENDPOINTS,
    refusal(_Fault, _REASONS.get),
    budget=1.0,
    socket="wss://futures.kraken.com/ws/v1",
    hourly=True,
)
