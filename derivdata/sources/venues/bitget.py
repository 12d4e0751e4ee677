"""Bitget: v2 and v3 ("UTA"). Sizes are coins; a liquidation names the side of the position."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import msgspec

from derivdata.sources.venues.endpoint import RATE_TABLES, Paging, Venue, VenueEndpoint
from derivdata.sources.venues.reading import CodedBody, Reading, refusal
from derivdata.sources.venues.record_types import Instrument, Interval, Liquidation, Records, State
from derivdata.sources.venues.wire import Data, Wire
from derivdata.tables import contract


class _Coded(CodedBody):
    success: ClassVar[str] = "00000"


_REASONS = {"429": "limit", "30007": "limit", "40725": "busy", "40015": "busy", "45001": "busy"}


def _named(name: str) -> Instrument:
    """Return the contract of a name: BTCUSDT, BTCPERP (USDC), BTCUSD (coin-margined), dated ones with _."""
    if name.endswith("PERP"):
        return Instrument(name, name.removesuffix("PERP"), "USDC", 1.0)
    plain = contract(name)
    return Instrument(name, plain.symbol, plain.quote, 1.0, perpetual=bool(plain.quote) and "_" not in name)


class _Ticker2(Wire):
    symbol: str
    ts: str
    lastPr: str | None = None
    indexPrice: str | None = None
    fundingRate: str | None = None
    holdingAmount: str | None = None
    quoteVolume: str | None = None
    change24h: str | None = None
    deliveryTime: str | None = None
    markPrice: str | None = None


def tickers_v2(reading: Reading) -> Records:
    """Read rates, open interest, prices and volume of all contracts of a product type."""
    return Records(
        states=[
            state
            for row in reading.decode(Data[list[_Ticker2]]).data
            if not row.deliveryTime
            for state in _state(
                reading, row.symbol, row.ts, row.fundingRate, row.holdingAmount, row.markPrice,
                row.indexPrice, row.lastPr, row.quoteVolume, row.change24h,
            )
        ]
    )  # fmt: skip


class _Ticker3(Wire):
    symbol: str
    ts: str
    lastPrice: str | None = None
    indexPrice: str | None = None
    markPrice: str | None = None
    fundingRate: str | None = None
    openInterest: str | None = None
    turnover24h: str | None = None
    price24hPcnt: str | None = None
    deliveryTime: str | None = None


def tickers_v3(reading: Reading) -> Records:
    """Read rates, open interest, prices and volume of all contracts of a category."""
    return Records(
        states=[
            state
            for row in reading.decode(Data[list[_Ticker3]]).data
            if not row.deliveryTime
            for state in _state(
                reading, row.symbol, row.ts, row.fundingRate, row.openInterest, row.markPrice,
                row.indexPrice, row.lastPrice, row.turnover24h, row.price24hPcnt,
            )
        ]
    )  # fmt: skip


def _state(
    reading: Reading,
    name: str,
    ts: str,
    rate: str | None,
    coins: str | None,
    mark: str | None,
    index: str | None,
    last: str | None,
    turnover: str | None,
    change: str | None,
) -> list[State]:
    item = reading.instrument(name, _named)
    if not item.perpetual or not item.active:
        return []
    price, amount, hours = reading.number(mark), reading.number(coins), reading.interval(item)
    return [
        State(
            item,
            reading.ms(ts),
            reading.number(rate),
            hours,
            hours,
            mark=price,
            index_price=reading.number(index),
            last=reading.number(last),
            oi_usd=item.usd(amount, price),
            oi_coins=amount,
            volume_usd=reading.number(turnover),
            change_pct=reading.percent(change),
        )
    ]


class _Current(Wire):
    symbol: str
    fundingRate: str
    fundingRateInterval: str
    nextUpdate: str | None = None
    maxFundingRate: str | msgspec.UnsetType | None = msgspec.UNSET


class _CurrentBody(Wire):
    code: str
    requestTime: int
    data: list[_Current]


def current_rates(reading: Reading) -> Records:
    """Read running rates with their intervals."""
    body = reading.decode(_CurrentBody)
    states = []
    for row in body.data:
        item, rate = reading.instrument(row.symbol, _named), reading.number(row.fundingRate)
        hours = reading.number(row.fundingRateInterval)
        is_test = row.maxFundingRate is None  # a test symbol has no limits
        if item.perpetual and not is_test and item.active:
            states.append(State(item, reading.ms(body.requestTime), rate, hours, hours))
    return Records(states=states)


class _Paid2(Wire):
    symbol: str
    fundingRate: str
    fundingTime: str


def funding_history_v2(reading: Reading) -> Records:
    """Read payments, the newest first, by page numbers."""
    rows = reading.decode(Data[list[_Paid2]]).data
    return reading.payments(((row.symbol, row.fundingTime, row.fundingRate) for row in rows), _named)


class _Paid3(Wire):
    symbol: str
    fundingRate: str
    fundingRateTimestamp: str


class _PaidList3(Wire):
    resultList: list[_Paid3]


def funding_history_v3(reading: Reading) -> Records:
    """Read payments, the newest first, by pages."""
    rows = reading.decode(Data[_PaidList3]).data.resultList
    paid = ((row.symbol, row.fundingRateTimestamp, row.fundingRate) for row in rows)
    return reading.payments(paid, _named)


class _Liquidated(Wire):
    symbol: str
    side: str
    price: str
    amount: str
    ts: str


class _LiquidatedList(Wire):
    rows: list[_Liquidated] = msgspec.field(name="list")
    cursor: str | None = None


def liquidations(reading: Reading) -> Records:
    """Read liquidations of the last 3 days; the price is about that of bankruptcy."""
    data = reading.decode(Data[_LiquidatedList]).data
    records = Records(cursor=data.cursor or None)
    for row in data.rows:
        item = reading.instrument(row.symbol, _named)
        side = reading.word(row.side, {"buy": "long", "sell": "short"})
        price, coins, time = reading.required(row.price), reading.required(row.amount), reading.ms(row.ts)
        native = (row.price, row.amount)
        records.add_past(Liquidation.of(item, time, side, coins, order_price=price, native=native))
    return records


class _Levels(Wire):
    bids: list[tuple[float | str, float | str]]
    asks: list[tuple[float | str, float | str]]
    ts: str


def book(reading: Reading) -> Records:
    """Read a book; sizes are coins."""
    body = reading.decode(Data[_Levels]).data
    item = reading.instrument(reading.asked("symbol"), _named)
    return Records(books=[reading.book(item, reading.ms(body.ts), body.bids, body.asks)])


class _Listed(Wire):
    symbol: str
    baseCoin: str
    quoteCoin: str
    symbolType: str
    symbolStatus: str
    fundInterval: str | None


def contracts(reading: Reading) -> Records:
    """Read the list of contracts; ``sizeMultiplier`` is a lot step, contracts are counted in coins."""
    records = Records()
    for row in reading.decode(Data[list[_Listed]]).data:
        quote = "USDC" if row.symbol.endswith("PERP") else row.quoteCoin
        perpetual = row.symbolType == "perpetual"
        item = Instrument(
            row.symbol, row.baseCoin, quote, 1.0, False, perpetual, row.symbolStatus == "normal"
        )
        records.instruments.append(item)
        hours = reading.number(row.fundInterval)
        if perpetual and hours:
            records.intervals.append(Interval(item, hours))
    return records


_endpoint = partial(VenueEndpoint, "bitget")
_CATEGORY = {"category": "USDT-FUTURES"}
_V2 = "/api/v2/mix/market"
_V3 = "/api/v3/market"

_PAGES = Paging("page", descending=True, start="", end="", cursor="pageNo", limit=100, limit_name="pageSize")


def _of_type(product: str, quote: str) -> tuple[VenueEndpoint, ...]:
    """Return the requests of v2 for one of the three product types."""
    of = partial(_endpoint, quote=quote)
    always = {"productType": product}
    return (
        of("instruments", f"{_V2}/contracts", contracts, params=always, lists=True),
        # First of the two that are polled: its rate stands beside its own interval, so none is ever stale.
        of("funding", f"{_V2}/current-fund-rate", current_rates, tables=RATE_TABLES, params=always, every=60),
        of("funding", f"{_V2}/tickers", tickers_v2, params=always, every=60),
        of(
            "settlements", f"{_V2}/history-fund-rate", funding_history_v2, params=always, symbol="symbol",
            paging=_PAGES,
        ),
        of("book", f"{_V2}/merge-depth", book, params={**always, "limit": "max"}, symbol="symbol"),
    )  # fmt: skip


ENDPOINTS = (
    *_of_type("USDT-FUTURES", "USDT"),
    *_of_type("COIN-FUTURES", "USD"),
    *_of_type("USDC-FUTURES", "USDC"),
    _endpoint("funding", f"{_V3}/tickers", tickers_v3, params=_CATEGORY, quote="USDT"),
    _endpoint(
        "settlements", f"{_V3}/history-fund-rate", funding_history_v3, params=_CATEGORY, symbol="symbol",
        quote="USDT", paging=Paging("page", descending=True, start="", end="", cursor="cursor", limit=200),
    ),
    _endpoint(
        "liquidations", f"{_V3}/liquidations", liquidations, params=_CATEGORY, confirmed=False,
        note="the unit of amount is unstated; the last 3 days", every=60, weight=4,
        paging=Paging("cursor", descending=True, start="", end="", cursor="cursor", limit=100, reach_days=3),
    ),
)  # fmt: skip

VENUE = Venue(
    "bitget",
    "https://api.bitget.com",
    ENDPOINTS,
    refusal(_Coded, _REASONS.get),
    budget=5.0,
    terms="API terms of 2023-09 are written for key holders; a clause on public data was not seen.",
)
