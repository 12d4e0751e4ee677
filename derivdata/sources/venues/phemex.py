"""Phemex: perpetuals in USDT and USDC; ``openInterestRv`` is coins, though ``Rv`` marks values elsewhere.

Coin-margined contracts come in scaled numbers from other requests, and are not read.
"""

from __future__ import annotations

from functools import partial

from derivdata.sources.venues.endpoint import BOOK_TABLES, STATE_TABLES, Paging, Venue, VenueEndpoint
from derivdata.sources.venues.reading import NumberedBody, Reading, refusal
from derivdata.sources.venues.record_types import Instrument, Interval, Payment, Records, State
from derivdata.sources.venues.wire import Data, Result, Wire
from derivdata.tables import contract

_HOUR_SECONDS = 3600
_QUOTES = ("USDT", "USDC")


def _named(name: str) -> Instrument:
    """Return the contract of BTCUSDT or u1000PEPEUSDT; a coin-margined one, such as BTCUSD, is not read."""
    plain = contract(name)
    return Instrument(name, plain.symbol.removeprefix("u"), plain.quote, 1.0, active=plain.quote in _QUOTES)


class _Product(Wire):
    symbol: str
    baseCurrency: str
    quoteCurrency: str
    status: str
    fundingInterval: int | None = None
    perpProductSubType: str = "Normal"


class _Products(Wire):
    perpProductsV2: list[_Product]


def products(reading: Reading) -> Records:
    """Read the list of contracts with their intervals; a base is written with a space, as in 1000 PEPE."""
    records = Records()
    for row in reading.decode(Data[_Products]).data.perpProductsV2:
        active = row.status == "Listed" and row.perpProductSubType != "PreMarket"
        base = row.baseCurrency.replace(" ", "")
        item = Instrument(row.symbol, base, row.quoteCurrency, 1.0, active=active)
        records.instruments.append(item)
        if row.fundingInterval:
            records.intervals.append(Interval(item, row.fundingInterval / _HOUR_SECONDS))
    return records


class _Ticker(Wire):
    symbol: str
    markRp: str | None = None
    markPriceRp: str | None = None
    indexRp: str | None = None
    indexPriceRp: str | None = None
    lastRp: str | None = None
    closeRp: str | None = None
    openRp: str | None = None
    fundingRateRr: str | None = None
    openInterestRv: str | None = None
    turnoverRv: str | None = None


def tickers(reading: Reading) -> Records:
    """Read rates, open interest, prices and volume of all contracts, by their names of v3 or v2.

    ``timestamp`` is when a row last changed, and not that of the answer.
    """
    states = []
    for row in reading.decode(Result[list[_Ticker]]).result:
        item = reading.instrument(row.symbol, _named)
        if not item.active:
            continue
        mark = reading.number(row.markRp if row.markRp is not None else row.markPriceRp)
        last = reading.number(row.lastRp if row.lastRp is not None else row.closeRp)
        coins, first = reading.number(row.openInterestRv), reading.number(row.openRp)
        hours = reading.interval(item)
        states.append(
            State(
                item,
                None,
                reading.number(row.fundingRateRr),
                hours,
                hours,
                mark=mark,
                index_price=reading.number(row.indexRp if row.indexRp is not None else row.indexPriceRp),
                last=last,
                oi_usd=item.usd(coins, mark),
                oi_coins=coins,
                volume_usd=reading.number(row.turnoverRv),
                change_pct=(last / first - 1) * 100 if last and first else None,
            )
        )
    return Records(states=states)


class _Rate(Wire):
    symbol: str
    fundingRate: str | float
    fundingInterval: int


class _Rows(Wire):
    rows: list[_Rate]


def real_funding_rates(reading: Reading) -> Records:
    """Read running rates with their intervals, of all contracts or one."""
    states = []
    for row in reading.decode(Data[_Rows]).data.rows:
        item, hours = reading.instrument(row.symbol, _named), row.fundingInterval / _HOUR_SECONDS
        if item.active:
            states.append(State(item, None, reading.number(row.fundingRate), hours, hours))
    return Records(states=states)


class _Paid(Wire):
    fundingRate: str | float
    fundingTime: int | str
    symbol: str | None = None


class _PaidRows(Wire):
    rows: list[_Paid]


def funding_history(reading: Reading) -> Records:
    """Read payments; the request names the rate's own symbol, .BTCUSDTFR8H of BTCUSDT."""
    records = Records()
    for row in reading.decode(Data[_PaidRows]).data.rows:
        name = (row.symbol or reading.asked("symbol")).removeprefix(".").removesuffix("FR8H")
        rate, time = reading.required(row.fundingRate), reading.ms(row.fundingTime)
        records.add_past(Payment(reading.instrument(name, _named), time, rate))
    return records


class _Sides(Wire):
    bids: list[tuple[str, str]]
    asks: list[tuple[str, str]]


class _Book(Wire):
    symbol: str
    orderbook_p: _Sides
    timestamp: int


def book(reading: Reading) -> Records:
    """Read a book of 30 levels a side; sizes are coins, and the instant is in nanoseconds."""
    body = reading.decode(Result[_Book]).result
    item, sides = reading.instrument(body.symbol, _named), body.orderbook_p
    time = reading.ms(body.timestamp // 1_000_000)
    return Records(books=[reading.book(item, time, sides.bids, sides.asks)])


_endpoint = partial(VenueEndpoint, "phemex")

ENDPOINTS = (
    _endpoint("instruments", "GET", "/public/products", (), products, lists=True),
    _endpoint(
        "funding", "GET", "/contract-biz/public/real-funding-rates", ("funding_history",),
        real_funding_rates, params={"pageSize": "200"}, every=60,
        note="the newest 200 contracts; of others the rate of the tickers and the list's interval",
    ),
    _endpoint(
        "tickers", "GET", "/md/v3/ticker/24hr/all", STATE_TABLES, tickers, every=60,
        note="open interest is coins, as other clients take it; which sides it counts is not known",
    ),
    _endpoint("tickers", "GET", "/md/v2/ticker/24hr/all", STATE_TABLES, tickers, note="will be removed"),
    _endpoint(
        "settlements", "GET", "/api-data/public/data/funding-rate-history", ("funding_settlements",),
        funding_history, symbol="symbol", names=".{}FR8H",
        # A page has 100 rows, and which come first is not known: 100 hours have no more
        paging=Paging(start="start", end="end", limit=100, span_hours=100),
    ),
    _endpoint("book", "GET", "/md/v2/orderbook", BOOK_TABLES, book, symbol="symbol"),
)  # fmt: skip

VENUE = Venue(
    "phemex",
    "https://api.phemex.com",
    ENDPOINTS,
    refusal(NumberedBody, {10500: "busy", 11115: "limit"}.get),
    budget=1.25,  # 300 a minute where the venue says it
    terms="Excludes 45 places, among them the United States and the United Kingdom.",
)
