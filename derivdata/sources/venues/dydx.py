"""dYdX v4, from its indexer: hourly rates as fractions, open interest in coins at the oracle price."""

from __future__ import annotations

from functools import partial
from typing import Any

from derivdata.sources.venues.endpoint import BOOK_TABLES, STATE_TABLES, Paging, Venue, VenueEndpoint
from derivdata.sources.venues.reading import Fault, Reading, refusal
from derivdata.sources.venues.record_types import Instrument, Liquidation, Payment, Records, State
from derivdata.sources.venues.wire import Result, Wire


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
    ticker: str
    status: str
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
    records = Records()
    for name, row in body.markets.items():
        if name != row.ticker:
            reading.fail(f"{name} holds the row of {row.ticker}")
        item = reading.instrument(name, _named)._replace(active=row.status == "ACTIVE")
        records.instruments.append(item)
        price = reading.number(row.oraclePrice)
        if row.status != "ACTIVE":
            continue
        coins, moved = reading.number(row.openInterest), reading.number(row.priceChange24H)
        before = None if moved is None or price is None else price - moved
        records.states.append(
            State(
                item,
                None,
                reading.number(row.nextFundingRate),
                1.0,
                1.0,
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
    item = reading.instrument(reading.asked("ticker"), _named)
    records = Records()
    for row in body.trades:
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
)  # fmt: skip

VENUE = Venue(
    "dydx",
    "https://indexer.dydx.trade/v4",
    ENDPOINTS,
    refusal(_Fault, lambda code: "region" if "GEO" in code.upper() else None),
    budget=2.5,
    hourly=True,
)
