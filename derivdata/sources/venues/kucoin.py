"""KuCoin Futures: sizes are contracts of ``multiplier`` coins; a negative multiplier marks inverse ones.

``nextFundingRateTime`` is what remains, in milliseconds, and no instant; ``timePoint`` is a coming payment.
"""

from __future__ import annotations

import re
from functools import partial
from typing import ClassVar

import msgspec

from derivdata.sources.venues.endpoint import BOOK_TABLES, STATE_TABLES, Paging, Venue, VenueEndpoint
from derivdata.sources.venues.reading import CodedBody, Reading, refusal
from derivdata.sources.venues.record_types import Instrument, Records, State
from derivdata.sources.venues.wire import Data, Wire
from derivdata.tables import contract

_HOUR_MS = 3_600_000


class _Coded(CodedBody):
    success: ClassVar[str] = "200000"


_REASONS = {"429000": "limit", "200002": "limit", "1015": "limit", "400303": "region", "500000": "busy"}
_RATE_SYMBOL = re.compile(r"\.(?P<name>\w+?)FPI(?P<hours>\d+)H")


def _named(name: str) -> Instrument:
    """Return the contract of XBTUSDTM (linear) or XBTUSDM (inverse, contracts of 1 USD)."""
    plain = contract(name)
    inverse = plain.quote == "USD"
    return Instrument(name, plain.symbol, plain.quote, 1.0 if inverse else None, inverse, name.endswith("M"))


class _Contract(Wire):
    symbol: str
    type: str
    status: str
    baseCurrency: str
    quoteCurrency: str
    multiplier: float
    isInverse: bool
    fundingFeeRate: float | None = None
    openInterest: str | None = None
    turnoverOf24h: float | None = None
    markPrice: float | None = None
    indexPrice: float | None = None
    lastTradePrice: float | None = None
    fundingRateSymbol: str | None = None
    fundingRateGranularity: int | None = None  # announced for the future
    currentFundingRateGranularity: int | None = None
    marketStage: str = ""
    priceChgPct: float | None = None


def contracts(reading: Reading) -> Records:
    """Read contracts, rates, intervals, open interest, prices and volume, of all contracts or one."""
    records, data = Records(), reading.decode(Data[list[_Contract] | _Contract]).data
    for row in data if isinstance(data, list) else [data]:
        with reading.row():
            if row.isInverse != (row.multiplier < 0):
                reading.fail(f"{row.symbol}: isInverse {row.isInverse} with a multiplier of {row.multiplier}")
            base = "BTC" if row.baseCurrency == "XBT" else row.baseCurrency
            item = Instrument(
                row.symbol,
                base,
                row.quoteCurrency,
                abs(row.multiplier),
                row.isInverse,
                row.type == "FFWCSX",
                row.status == "Open" and row.marketStage != "PRE_MARKET",
            )
            records.instruments.append(item)
            if not item.perpetual or not item.active:
                continue
            hours = _hours(reading, row) or reading.interval(item)
            amount, mark = reading.number(row.openInterest), row.markPrice
            records.states.append(
                State(
                    item,
                    None,
                    row.fundingFeeRate,
                    hours,
                    hours,
                    mark=mark,
                    index_price=row.indexPrice,
                    last=row.lastTradePrice,
                    oi_usd=item.usd(amount, mark),
                    oi_coins=item.coins(amount, mark),
                    volume_usd=row.turnoverOf24h,
                    change_pct=reading.percent(row.priceChgPct),
                )
            )
    return records


def _hours(reading: Reading, row: _Contract) -> float | None:
    granularity = row.currentFundingRateGranularity or row.fundingRateGranularity
    if granularity:
        return granularity / _HOUR_MS
    match = _RATE_SYMBOL.fullmatch(row.fundingRateSymbol or "")
    return float(match["hours"]) if match else None


class _Current(Wire):
    symbol: str
    granularity: int | None = None
    value: float | None = None
    nextFundingRate: str | float | None = None
    currentGranularity: int | None = None


def current_rates(reading: Reading) -> Records:
    """Read running rates, of one contract or all, under their old or their new names."""
    data = reading.decode(Data[_Current | list[_Current]]).data
    states = []
    for row in data if isinstance(data, list) else [data]:
        match = _RATE_SYMBOL.fullmatch(row.symbol)
        item = reading.instrument(match["name"] if match else row.symbol, _named)
        rate = row.value if row.value is not None else reading.number(row.nextFundingRate)
        step = row.granularity if row.granularity is not None else row.currentGranularity
        hours = None if step is None else step / _HOUR_MS
        if hours is not None and not 0 < hours <= 24:
            reading.fail(f"{row.symbol}: an interval of {hours:g} hours")
        states.append(State(item, None, rate, hours, hours))
    return Records(states=states)


class _Paid(Wire):
    symbol: str
    fundingRate: float
    timepoint: int


class _PaidNew(Wire):
    fundingRate: float | str
    ts: int


class _PaidList(Wire):
    symbol: str
    rows: list[_PaidNew] = msgspec.field(name="list")


def funding_history(reading: Reading) -> Records:
    """Read payments, the newest first, in their old or their new shape."""
    data = reading.decode(Data[list[_Paid] | _PaidList]).data
    if isinstance(data, list):
        return reading.payments(((row.symbol, row.timepoint, row.fundingRate) for row in data), _named)
    return reading.payments(((data.symbol, row.ts, row.fundingRate) for row in data.rows), _named)


class _Book(Wire):
    symbol: str
    bids: list[tuple[str | float, float]]
    asks: list[tuple[str | float, float]]
    ts: int


def book(reading: Reading) -> Records:
    """Read a book, whose sizes are contracts; `ts` is in nanoseconds."""
    body = reading.decode(Data[_Book]).data
    item = reading.instrument(body.symbol, _named)
    return Records(books=[reading.book(item, reading.ms(body.ts // 1_000_000), body.bids, body.asks)])


_endpoint = partial(VenueEndpoint, "kucoin")

ENDPOINTS = (
    _endpoint(
        "funding", "GET", "/api/v1/contracts/active", STATE_TABLES, contracts, weight=3, lists=True,
        every=60,
    ),
    _endpoint(
        "funding", "GET", "/api/v1/funding-rate/{symbol}/current", ("funding_history",), current_rates,
        symbol="symbol", weight=2,
    ),
    _endpoint("funding", "GET", "/api/v1/contracts/{symbol}", STATE_TABLES, contracts, symbol="symbol"),
    _endpoint("funding", "GET", "market/funding-rate", ("funding_history",), current_rates),
    _endpoint(
        "settlements", "GET", "market/funding-rate-history", ("funding_settlements",), funding_history,
        host="https://api.kucoin.com/api/ua/v1", symbol="symbol", confirmed=False,
        note="of the newer interface, as other clients name it",
        paging=Paging(
            descending=True, start="startAt", end="endAt", limit=100, limit_name="", span_hours=100
        ),
    ),
    _endpoint(
        "settlements", "GET", "/api/v1/contract/funding-rates", ("funding_settlements",), funding_history,
        symbol="symbol", weight=5,
        paging=Paging(descending=True, start="from", end="to", limit=100, limit_name=""),
    ),
    _endpoint("book", "GET", "/api/v1/level2/snapshot", BOOK_TABLES, book, symbol="symbol", weight=3),
    _endpoint("book", "GET", "/api/v1/level2/depth100", BOOK_TABLES, book, symbol="symbol", weight=5),
)  # fmt: skip

VENUE = Venue(
    "kucoin",
    "https://api-futures.kucoin.com",
    ENDPOINTS,
    refusal(_Coded, _REASONS.get),
    budget=16.0,
)
