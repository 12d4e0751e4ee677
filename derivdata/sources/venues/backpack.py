"""Backpack: rates, marks, open interest (coins) and 24 hours come in bulk, each in an answer of its own."""

from __future__ import annotations

from functools import partial

from derivdata.sources.venues.endpoint import BOOK_TABLES, Paging, Venue, VenueEndpoint
from derivdata.sources.venues.reading import Fault, Reading, refusal
from derivdata.sources.venues.record_types import Instrument, Interval, Payment, Records, State
from derivdata.sources.venues.wire import Wire

_HOUR_MS = 3_600_000
_REASONS = {"TOO_MANY_REQUESTS": "limit", "SERVICE_UNAVAILABLE": "busy", "MAINTENANCE": "busy"}


class _Fault(Wire):
    code: str | None = None
    message: str = ""

    @property
    def fault(self) -> Fault:
        return None if self.code is None else (self.code, self.message)


def _named(name: str) -> Instrument:
    """Return the contract of BTC_USDC_PERP; a pair without the last part is spot."""
    base, _, rest = name.partition("_")
    return Instrument(name, base, rest.partition("_")[0], 1.0, perpetual=name.endswith("_PERP"))


class _Market(Wire):
    symbol: str
    baseSymbol: str
    quoteSymbol: str
    marketType: str = "PERP"
    orderBookState: str = "Open"
    visible: bool = True
    fundingInterval: int | None = None


def markets(reading: Reading) -> Records:
    """Read the list of contracts with their intervals."""
    records = Records()
    for row in reading.decode(list[_Market]):
        active = row.orderBookState != "Closed" and row.visible
        item = Instrument(
            row.symbol, row.baseSymbol, row.quoteSymbol, 1.0, perpetual=row.marketType == "PERP",
            active=active,
        )  # fmt: skip
        records.instruments.append(item)
        if item.perpetual and row.fundingInterval:
            records.intervals.append(Interval(item, row.fundingInterval / _HOUR_MS))
    return records


class _Mark(Wire):
    symbol: str
    markPrice: str | None = None
    indexPrice: str | None = None
    fundingRate: str | None = None
    nextFundingTimestamp: int | None = None


def mark_prices(reading: Reading) -> Records:
    """Read running rates, marks and indexes of all contracts."""
    states = []
    for row in reading.decode(list[_Mark]):
        item, next_payment = reading.instrument(row.symbol, _named), row.nextFundingTimestamp
        hours = reading.interval(item)
        if item.perpetual and item.active:
            states.append(
                State(
                    item,
                    None,
                    reading.number(row.fundingRate),
                    hours,
                    hours,
                    mark=reading.number(row.markPrice),
                    index_price=reading.number(row.indexPrice),
                    next_payment=reading.ms(next_payment) if next_payment else None,
                )
            )
    return Records(states=states)


class _Oi(Wire):
    symbol: str
    openInterest: str | None
    timestamp: int


def open_interest(reading: Reading) -> Records:
    """Read open interest of all contracts in coins, which the mark of the same minute values."""
    states = []
    for row in reading.decode(list[_Oi]):
        item, time = reading.instrument(row.symbol, _named), reading.ms(row.timestamp)
        coins = reading.number(row.openInterest)
        if item.perpetual and coins is not None:
            usd = item.usd(coins, reading.mark(item, time))
            states.append(State(item, time, oi_usd=usd, oi_coins=coins))
    return Records(states=states)


class _Ticker(Wire):
    symbol: str
    lastPrice: str | None = None
    quoteVolume: str | None = None
    priceChangePercent: str | None = None


def tickers(reading: Reading) -> Records:
    """Read 24 hours of all markets; the change is a fraction, or ``N/A``."""
    states = []
    for row in reading.decode(list[_Ticker]):
        item, change = reading.instrument(row.symbol, _named), row.priceChangePercent
        if item.perpetual and item.active:
            states.append(
                State(
                    item,
                    None,
                    last=reading.number(row.lastPrice),
                    volume_usd=reading.number(row.quoteVolume),
                    change_pct=reading.percent(None if change == "N/A" else change),
                )
            )
    return Records(states=states)


class _Paid(Wire):
    symbol: str
    fundingRate: str
    intervalEndTimestamp: str


def funding_rates(reading: Reading) -> Records:
    """Read payments, the newest first; the running interval, whose end is to come, is none."""
    records = Records()
    for row in reading.decode(list[_Paid]):
        time = reading.iso(f"{row.intervalEndTimestamp.removesuffix('Z')}Z")  # written without a zone
        records.times.append(time)
        if reading.at is None or time <= reading.at:
            rate = reading.required(row.fundingRate)
            records.payments.append(Payment(reading.instrument(row.symbol, _named), time, rate))
    return records


class _Book(Wire):
    bids: list[tuple[str, str]]
    asks: list[tuple[str, str]]
    timestamp: int | None = None


def book(reading: Reading) -> Records:
    """Read a book, whose best bid comes last; sizes are coins, the instant is in microseconds."""
    body = reading.decode(_Book)
    time = None if body.timestamp is None else reading.ms(body.timestamp // 1000)
    item = reading.instrument(reading.asked("symbol"), _named)
    return Records(books=[reading.book(item, time, body.bids, body.asks)])


_endpoint = partial(VenueEndpoint, "backpack")
_PRICES = ("markets_symbol_exchanges", "prices_history")

ENDPOINTS = (
    _endpoint(
        "instruments", "GET", "/markets", (), markets, params={"marketType": "PERP"}, lists=True
    ),
    _endpoint("funding", "GET", "/markPrices", ("funding_history", *_PRICES), mark_prices, every=60),
    _endpoint(
        "oi", "GET", "/openInterest", ("oi_history",), open_interest, every=60,
        note="coins, from the size of one recorded answer; which sides it counts is not known",
    ),
    _endpoint("tickers", "GET", "/tickers", _PRICES, tickers, every=60),
    _endpoint(
        "settlements", "GET", "/fundingRates", ("funding_settlements",), funding_rates, symbol="symbol",
        paging=Paging(descending=True, start="", end="", limit=10_000, reach_days=400),
    ),
    _endpoint(
        "book", "GET", "/depth", BOOK_TABLES, book, params={"limit": "1000"}, symbol="symbol"
    ),
)  # fmt: skip

VENUE = Venue(
    "backpack",
    "https://api.backpack.exchange/api/v1",
    ENDPOINTS,
    refusal(_Fault, _REASONS.get),
    budget=5.0,  # no limit is published; clients ask 20 times a second
    terms="Persons of the United States may not trade perpetuals; no text on public data was found.",
    hourly=True,
)
