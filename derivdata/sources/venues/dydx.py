"""dYdX v4, from its indexer: hourly rates as fractions, open interest in coins at the oracle price."""

from __future__ import annotations

from functools import partial
from typing import Any, Generic, TypeVar

import msgspec

from derivdata.sources.venues.endpoint import BOOK_TABLES, STATE_TABLES, Paging, Venue, VenueEndpoint
from derivdata.sources.venues.reading import Fault, Reading, refusal
from derivdata.sources.venues.record_types import Instrument, Liquidation, Payment, Records, State
from derivdata.sources.venues.wire import Result, Wire

T = TypeVar("T")


class _Reason(Wire):
    msg: str = ""
    code: str = ""


class _Fault(Wire):
    errors: list[_Reason] | None = None

    @property
    def fault(self) -> Fault:
        return (self.errors[0].code or "errors", self.errors[0].msg) if self.errors else None


class _Envelope(Wire):
    requestId: str | None = None


_WRAPPED: Any = Result


def _unwrapped(reading: Reading, kind: Any) -> Any:
    """Decode a body; some recordings wrap it in ``{"requestId", "status", "result"}``."""
    wrapped = reading.decode(_Envelope).requestId is not None
    return reading.decode(_WRAPPED[kind]).result if wrapped else reading.decode(kind)


def _named(name: str) -> Instrument:
    """Return the contract of BTC-USD; a permissionless PEPE,RAYDIUM,…-USD is PEPE."""
    base = name.removesuffix("-USD").partition(",")[0]
    return Instrument(name, base, "USD", 1.0, perpetual=name.endswith("-USD"))


class _Market(Wire):
    ticker: str | None = None
    status: str | None = None
    oraclePrice: str | None = None
    priceChange24H: str | None = None
    volume24H: str | None = None
    nextFundingRate: str | None = None
    openInterest: str | None = None


class _Markets(Wire):
    markets: dict[str, _Market]


def markets(reading: Reading) -> Records:
    """Read rates for the next hour, open interest, prices and volume of all contracts."""
    body: _Markets = _unwrapped(reading, _Markets)
    return _states(reading, body.markets)


class _Oracle(Wire):
    oraclePrice: str


class _Changes(Wire):
    """The markets that the stream begins with, and what changed of some: the figures that it tells."""

    markets: dict[str, _Market] = msgspec.field(default_factory=dict)
    trading: dict[str, _Market] = msgspec.field(default_factory=dict)
    oraclePrices: dict[str, _Oracle] = msgspec.field(default_factory=dict)


class _Frame(Wire, Generic[T]):
    contents: T | list[T]

    @property
    def parts(self) -> list[T]:
        """What it holds: the parts of a batch, or one."""
        return self.contents if isinstance(self.contents, list) else [self.contents]


def market_frames(reading: Reading) -> Records:
    """Read the stream; open interest needs the oracle price of the same frame."""
    records = Records()
    for part in (part for frame in reading.frames(_Frame[_Changes]) for part in frame.parts):
        rows = {**part.markets, **part.trading}
        for name, oracle in part.oraclePrices.items():
            rows[name] = msgspec.structs.replace(rows.get(name, _Market()), oraclePrice=oracle.oraclePrice)
        records.add(_states(reading, rows))
    return records


def _states(reading: Reading, markets: dict[str, _Market]) -> Records:
    records = Records()
    for name, row in markets.items():
        if row.ticker not in (None, name):
            reading.fail(f"{name} holds the row of {row.ticker}")
        active = row.status in (None, "ACTIVE")
        item = reading.instrument(name, _named)._replace(active=active)
        records.instruments.append(item)
        price = reading.number(row.oraclePrice)
        if not active:
            continue
        rate = reading.number(row.nextFundingRate)
        hours = None if rate is None else 1.0
        coins, moved = reading.number(row.openInterest), reading.number(row.priceChange24H)
        before = None if moved is None or price is None else price - moved
        records.states.append(
            State(
                item,
                None,
                rate,
                hours,
                hours,
                index_price=price,
                price=price,
                oi_usd=item.usd(coins, price),
                oi_coins=coins,
                volume_usd=reading.number(row.volume24H),
                change_pct=moved / before * 100 if before and moved is not None else None,
            )
        )
    return records


class _Paid(Wire):
    ticker: str
    rate: str
    effectiveAt: str


class _PaidBody(Wire):
    historicalFunding: list[_Paid]


def funding_history(reading: Reading) -> Records:
    """Read hourly payments, the newest first."""
    body: _PaidBody = _unwrapped(reading, _PaidBody)
    records = Records()
    for row in body.historicalFunding:
        time = reading.iso(row.effectiveAt)
        item = reading.instrument(row.ticker, _named)
        records.add_past(Payment(item, time, reading.required(row.rate), 1.0))
    return records


class _Trade(Wire):
    id: str
    side: str
    size: str
    price: str
    type: str
    createdAt: str


class _Trades(Wire):
    trades: list[_Trade]


def trades(reading: Reading) -> Records:
    """Read liquidations among trades: a taker that sold closed a long."""
    body: _Trades = _unwrapped(reading, _Trades)
    return _liquidated(reading, reading.asked("ticker"), body.trades)


class _TradesFrame(_Frame[_Trades]):
    id: str


def trade_frames(reading: Reading) -> Records:
    """Read liquidations among the trades of the stream."""
    records = Records()
    for frame in reading.frames(_TradesFrame):
        for part in frame.parts:
            records.add(_liquidated(reading, frame.id, part.trades))
    return records


def _liquidated(reading: Reading, name: str, rows: list[_Trade]) -> Records:
    item, records = reading.instrument(name, _named), Records()
    for row in rows:
        time = reading.iso(row.createdAt)
        records.times.append(time)
        if row.type != "LIQUIDATED":
            continue
        side = reading.word(row.side, {"SELL": "long", "BUY": "short"})
        coins, price = reading.required(row.size), reading.required(row.price)
        records.liquidations.append(
            Liquidation.of(item, time, side, coins, fill_price=price, order_id=row.id)
        )
    return records


class _Level(Wire):
    price: str
    size: str


class _Book(Wire):
    bids: list[_Level]
    asks: list[_Level]


def book(reading: Reading) -> Records:
    """Read a book; sizes are coins."""
    body: _Book = _unwrapped(reading, _Book)
    item = reading.instrument(reading.asked("ticker"), _named)
    bids, asks = ([(row.price, row.size) for row in side] for side in (body.bids, body.asks))
    return Records(books=[reading.book(item, None, bids, asks)])


_endpoint = partial(VenueEndpoint, "dydx")

ENDPOINTS = (
    _endpoint(
        "funding", "GET", "/perpetualMarkets",
        STATE_TABLES, markets,
        lists=True, every=60,
    ),
    _endpoint(
        "settlements", "GET", "/historicalFunding/{ticker}", ("funding_settlements",), funding_history,
        symbol="ticker",
        paging=Paging(descending=True, start="", end="effectiveBeforeOrAt", unit="iso", limit=1000),
    ),
    _endpoint(
        "liquidations", "GET", "/trades/perpetualMarket/{ticker}", ("liquidations_fills",), trades,
        symbol="ticker", every=60,
        paging=Paging(descending=True, start="", end="createdBeforeOrAt", unit="iso", limit=1000),
    ),
    _endpoint(
        "book", "GET", "/orderbooks/perpetualMarket/{ticker}", BOOK_TABLES,
        book, symbol="ticker",
    ),
    _endpoint("liquidations", "WS", "v4_trades", ("liquidations_fills",), trade_frames),
    _endpoint("funding", "WS", "v4_markets", STATE_TABLES, market_frames),
)  # fmt: skip

VENUE = Venue(
    "dydx",
    "https://indexer.dydx.trade/v4",
    ENDPOINTS,
    refusal(_Fault, lambda code: "region" if "GEO" in code.upper() else None),
    budget=2.5,
    hourly=True,
)
