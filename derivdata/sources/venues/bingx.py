"""BingX: perpetual swaps in USDT and USDC, whose open interest is stated in USD, one contract a request.

``nextFundingTime`` is an instant and ``updateTime`` that of the last payment, whatever the venue's page says.
Coin-margined swaps have no request for their rates and are not read.
"""

from __future__ import annotations

from functools import partial

import msgspec

from derivdata.sources.venues.endpoint import BOOK_TABLES, Paging, Venue, VenueEndpoint
from derivdata.sources.venues.reading import NumberedBody, Reading, refusal
from derivdata.sources.venues.record_types import Instrument, Records, State
from derivdata.sources.venues.wire import Data, Wire

_REASONS = {100410: "limit", 109415: "busy", 109500: "busy"}
_NO_COINS = ("NCSK", "NCFX", "NCCO", "NCSI")  # stocks, currencies, commodities and indexes


def _named(name: str) -> Instrument:
    """Return the contract of a name such as BTC-USDT."""
    base, _, quote = name.partition("-")
    return Instrument(name, base, quote, 1.0, active=not base.startswith(_NO_COINS))


class _Listed(Wire):
    symbol: str
    asset: str
    currency: str
    status: int


def contracts(reading: Reading) -> Records:
    """Read the list of contracts; a status of 1 is online."""
    items = []
    for row in reading.decode(Data[list[_Listed]]).data:
        item = _named(row.symbol)
        items.append(
            item._replace(symbol=row.asset, quote=row.currency, active=item.active and row.status == 1)
        )
    return Records(instruments=items)


class _Premium(Wire):
    symbol: str
    markPrice: str | None = None
    indexPrice: str | None = None
    lastFundingRate: str | None = None
    nextFundingTime: int | None = None
    fundingIntervalHours: float | None = None


def premium_index(reading: Reading) -> Records:
    """Read running rates with their intervals, marks and indexes, of all contracts or one."""
    data = reading.decode(Data[list[_Premium] | _Premium]).data
    states = []
    for row in data if isinstance(data, list) else [data]:
        item = reading.instrument(row.symbol, _named)
        hours = row.fundingIntervalHours or reading.interval(item)
        if item.active:
            states.append(
                State(
                    item,
                    None,
                    reading.number(row.lastFundingRate),
                    hours,
                    hours,
                    mark=reading.number(row.markPrice),
                    index_price=reading.number(row.indexPrice),
                    next_payment=reading.ms(row.nextFundingTime) if row.nextFundingTime else None,
                )
            )
    return Records(states=states)


class _Paid(Wire):
    symbol: str
    fundingRate: str
    fundingTime: int


def funding_rates(reading: Reading) -> Records:
    """Read payments, the newest first."""
    rows = reading.decode(Data[list[_Paid]]).data
    return reading.payments(((row.symbol, row.fundingTime, row.fundingRate) for row in rows), _named)


class _Oi(Wire):
    symbol: str
    openInterest: str
    time: int


def open_interest(reading: Reading) -> Records:
    """Read the open interest of one contract, which is USD: 3.3e9 for BTC at 16,884 could be no coins."""
    row = reading.decode(Data[_Oi]).data
    item, usd = reading.instrument(row.symbol, _named), reading.required(row.openInterest)
    return Records(states=[State(item, reading.ms(row.time), oi_usd=usd)])


class _Ticker(Wire):
    symbol: str
    lastPrice: str | None = None
    quoteVolume: str | None = None
    priceChangePercent: str | None = None


def tickers(reading: Reading) -> Records:
    """Read 24 hours, of all contracts or one; the change ends with a percent sign."""
    data = reading.decode(Data[list[_Ticker] | _Ticker]).data
    states = []
    for row in data if isinstance(data, list) else [data]:
        item, change = reading.instrument(row.symbol, _named), row.priceChangePercent or None
        states.append(
            State(
                item,
                None,
                last=reading.number(row.lastPrice),
                volume_usd=reading.number(row.quoteVolume),
                change_pct=reading.number(None if change is None else change.removesuffix("%")),
            )
        )
    return Records(states=[state for state in states if state.instrument.active])


class _Book(Wire):
    bids: list[tuple[str, str]]
    asks: list[tuple[str, str]]
    time: int = msgspec.field(name="T")


def book(reading: Reading) -> Records:
    """Read a book; sizes are coins."""
    body = reading.decode(Data[_Book]).data
    item = reading.instrument(reading.asked("symbol"), _named)
    return Records(books=[reading.book(item, reading.ms(body.time), body.bids, body.asks)])


_endpoint = partial(VenueEndpoint, "bingx")
_BASE = "/openApi/swap/v2/quote"
_PRICES = ("markets_symbol_exchanges", "prices_history")

ENDPOINTS = (
    _endpoint("instruments", "GET", f"{_BASE}/contracts", (), contracts, lists=True),
    _endpoint(
        "funding", "GET", f"{_BASE}/premiumIndex", ("funding_history", *_PRICES), premium_index, every=60
    ),
    _endpoint("tickers", "GET", f"{_BASE}/ticker", _PRICES, tickers, every=60),
    _endpoint(
        "oi", "GET", f"{_BASE}/openInterest", ("oi_history",), open_interest, symbol="symbol", every=300,
        note="USD, from the size of one recorded answer; which sides it counts is not known",
    ),
    _endpoint(
        "settlements", "GET", f"{_BASE}/fundingRate", ("funding_settlements",), funding_rates,
        symbol="symbol", paging=Paging(descending=True, limit=1000),
    ),
    _endpoint(
        "book", "GET", f"{_BASE}/depth", BOOK_TABLES, book, params={"limit": "1000"}, symbol="symbol"
    ),
)  # fmt: skip

VENUE = Venue(
    "bingx",
    "https://open-api.bingx.com",
    ENDPOINTS,
    refusal(NumberedBody, _REASONS.get),
    budget=12.5,  # 500 in 10 seconds
    terms="Excludes the United States and Canada; no text on public data was found.",
)
