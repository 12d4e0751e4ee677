"""KuCoin Futures: sizes are contracts of ``multiplier`` coins; a negative multiplier marks inverse ones.

``nextFundingRateTime`` is the remaining time, in milliseconds, not a timestamp; ``timePoint`` is a coming
payment.
"""

from __future__ import annotations

import re
from functools import partial
from typing import ClassVar

import msgspec

from derivdata.sources.venues.endpoint import RATE_TABLES, Paging, Venue, VenueEndpoint
from derivdata.sources.venues.readers import books, candles, kucoin_tiers, states
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Instrument, OiPoint, Records, State, StatedRate
from derivdata.sources.venues.wire import (
    Book,
    CodedBody,
    Figures,
    PaymentRow,
    Stamp,
    Wire,
    if_stated,
    many,
    refusal,
    spelled,
)
from derivdata.tables import contract

_HOUR_MS = 3_600_000
_ALIASES = {"XBT": "BTC"}


class _Coded(CodedBody):
    success: ClassVar[str] = "200000"


_REASONS = {"429000": "limit", "200002": "limit", "1015": "limit", "400303": "region", "500000": "busy"}
_RATE_SYMBOL = re.compile(r"\.(?P<name>\w+?)FPI(?P<hours>\d+)H")


def _named(name: str) -> Instrument:
    """Parse a contract name: XBTUSDTM (linear) or XBTUSDM (inverse, contracts of 1 USD)."""
    plain = contract(name)
    inverse = plain.quote == "USD"
    return Instrument(name, plain.symbol, plain.quote, 1.0 if inverse else None, inverse, name.endswith("M"))


class _Contract(Figures[float, int], kw_only=True):
    kind: str
    status: str
    base: str
    quote: str
    multiplier: float
    is_inverse: bool
    open_interest: str | None = None
    rate_symbol: str | None = None
    announced: int | None = None  # next and current interval [ms]
    current: int | None = None
    stage: str = ""
    listed: int | None = None
    tick: float | None = None
    lot: float | None = None


_CONTRACT = spelled(
    _Contract, name="symbol", kind="type", status="status", base="baseCurrency", quote="quoteCurrency",
    multiplier="multiplier", is_inverse="isInverse", rate="fundingFeeRate", open_interest="openInterest",
    volume_usd="turnoverOf24h", mark="markPrice", index_price="indexPrice", last="lastTradePrice",
    rate_symbol="fundingRateSymbol", announced="fundingRateGranularity", stage="marketStage",
    current="currentFundingRateGranularity", change="priceChgPct", expiry="expireDate",
    listed="firstOpenDate", tick="tickSize", lot="lotSize",
)  # fmt: skip


def contracts(reading: Reading) -> Records:
    """Read contracts, rates, intervals, open interest, prices and volume, of all contracts or one."""
    records = Records()
    for row in reading.rows(_CONTRACT, "data"):
        with reading.row():
            if row.is_inverse != (row.multiplier < 0):
                reading.fail(f"{row.name}: isInverse {row.is_inverse} with a multiplier of {row.multiplier}")
            item = Instrument(
                row.name,
                _ALIASES.get(row.base, row.base),
                row.quote,
                abs(row.multiplier),
                inverse=row.is_inverse,
                perpetual=row.kind == "FFWCSX",
                active=row.status == "Open" and row.stage != "PRE_MARKET",
                expiry=if_stated(reading.ms, row.expiry or None),
                listed=reading.day(row.listed),
                tick=row.tick,
                step=row.lot,
            )
            records.instruments.append(item)
            if not item.active:
                continue
            hours = _hours(row) or reading.interval(item)
            amount = reading.number(row.open_interest)
            usd = item.usd(amount, row.mark)
            coins = item.coins(amount, row.mark)
            records.states.append(reading.state(item, row, hours, oi_usd=usd, oi_coins=coins))
    return records


def _hours(row: _Contract) -> float | None:
    """Return the interval that a contract states, or else the one in the name of its rate."""
    interval_ms = row.current or row.announced
    if interval_ms:
        return interval_ms / _HOUR_MS
    match = _RATE_SYMBOL.fullmatch(row.rate_symbol or "")
    if match is None:
        return None
    return float(match["hours"])


class _Current(Wire):
    symbol: str
    granularity: int | None = None
    value: float | msgspec.UnsetType | None = msgspec.UNSET
    nextFundingRate: str | float | msgspec.UnsetType | None = msgspec.UNSET
    currentGranularity: int | None = None
    predictedValue: float | None = None
    fundingTime: Stamp | None = None


def current_rates(reading: Reading) -> Records:
    """Read running rates of one contract or all; the former interface has other field names."""
    records = Records()
    for row in reading.rows(_Current, "data"):
        with reading.row():
            match = _RATE_SYMBOL.fullmatch(row.symbol)
            item = reading.instrument(match["name"] if match else row.symbol, _named)
            # A contract without a rate has null in one of the fields, which tells it from other responses.
            stated = [rate for rate in (row.value, row.nextFundingRate) if rate is not msgspec.UNSET]
            if not stated:
                reading.fail(f"{row.symbol} has neither value nor nextFundingRate: expected a running rate")
            rate = next((reading.number(rate) for rate in stated if rate is not None), None)
            interval_ms = row.granularity
            if interval_ms is None:
                interval_ms = row.currentGranularity
            hours: float | None = None
            if interval_ms is not None:
                hours = interval_ms / _HOUR_MS
                if not 0 < hours <= 24:
                    reading.fail(f"{row.symbol}: expected an interval that venues use, got {hours:g} hours")
            records.states.append(State(item, None, rate, hours, hours))
            due = if_stated(reading.ms, row.fundingTime or None)
            if rate is not None:
                records.rates.append(StatedRate(item, "next", rate, due, None, hours, hours))
            if row.predictedValue is not None:
                # The body does not have the settlement of the prediction.
                records.rates.append(
                    StatedRate(item, "predicted", row.predictedValue, None, None, hours, hours)
                )
    return records


class _PaidNew(Wire):
    fundingRate: float | str
    ts: Stamp


class _PaidList(Wire):
    symbol: str
    rows: list[_PaidNew] = msgspec.field(name="list")


_PAID = spelled(PaymentRow[float, int], name="symbol", rate="fundingRate", time="timepoint")


def funding_history(reading: Reading) -> Records:
    """Read payments, the newest first, in their old or their new shape."""
    data = reading.value(many(_PAID) | _PaidList | None, "data") or []
    if isinstance(data, _PaidList):
        return reading.payments(((data.symbol, row.ts, row.fundingRate, None) for row in data.rows), _named)
    return reading.payments(((row.name, row.time, row.rate, row.hours) for row in data), _named)


_OI = spelled(Figures[str | float, int], name="symbol", time="ts", contracts="openInterest")


def open_interest(reading: Reading) -> Records:
    """Read open interest in contracts: current values of all contracts, or with a step past values of one."""
    resolution = reading.resolution("interval")
    if resolution == "unstated":
        return states(_OI, "data", _named)(reading)
    records = Records()
    requested = reading.requested("symbol")
    for row in reading.rows(_OI, "data", or_null=True):
        with reading.row():
            item = reading.instrument(row.name or requested, _named)
            time = reading.ms(row.time)
            amount = reading.required(row.contracts)
            mark = reading.mark(item, time)
            usd = item.usd(amount, mark)
            coins = item.coins(amount, mark)
            records.add_past(OiPoint(item, time, usd, resolution, coins))
    return records


def _of_prices(name: str) -> Instrument:
    return _named(name.removesuffix(_MARK))


_LEVEL = tuple[str | float, float]
_BOOK = spelled(Book[_LEVEL, int], name="symbol", bids="bids", asks="asks", time="ts")
book = books(_BOOK, "data", _named, per=1_000_000)  # with times in nanoseconds

_UA = "https://api.kucoin.com/api/ua/v1"
_MARK = "-mark-price"
_MARKS = VenueEndpoint(
    "kucoin", "prices", "market/kline",
    candles("data.list", _of_prices, "mark", by="symbol", step="interval", unit="seconds"), host=_UA,
    params={"tradeType": "FUTURES", "interval": "5min"}, symbol="symbol", names="{}" + _MARK,
    confirmed=False, note="as perp-md 0.5.3 requests it",
    paging=Paging(descending=True, start="startAt", end="endAt", unit="s", limit=200, limit_name=""),
)  # fmt: skip
_HUNDRED_HOURS = Paging(
    descending=True, start="startAt", end="endAt", limit=100, limit_name="", span_hours=100
)
_endpoint = partial(VenueEndpoint, "kucoin")

ENDPOINTS = (
    _endpoint("funding", "/api/v1/contracts/active", contracts, weight=3, lists=True, every=60),
    _endpoint(
        "funding", "/api/v1/funding-rate/{symbol}/current", current_rates, tables=RATE_TABLES,
        symbol="symbol", weight=2,
    ),
    _endpoint("funding", "/api/v1/contracts/{symbol}", contracts, symbol="symbol"),
    _endpoint(
        "margin_tiers", "/api/v1/contracts/risk-limit/{symbol}", kucoin_tiers(_named), symbol="symbol",
        confirmed=False, note="KuCoin's documentation asks for a key",
    ),
    _endpoint("funding", "market/funding-rate", current_rates, tables=RATE_TABLES),
    _endpoint(
        "settlements", "market/funding-rate-history", funding_history,
        host=_UA, symbol="symbol", confirmed=False,
        note="of the newer interface, as other clients name it", paging=_HUNDRED_HOURS,
    ),
    _endpoint(
        "settlements", "/api/v1/contract/funding-rates", funding_history, symbol="symbol", weight=5,
        paging=Paging(descending=True, start="from", end="to", limit=100, limit_name=""),
    ),
    _endpoint(
        "oi_history", "market/open-interest", open_interest, host=_UA, symbol="symbol",
        params={"interval": "5min"}, marks=_MARKS, confirmed=False, tables=("oi_history",),
        note="7 days at 5 minutes, as ccxt 4.5.90 and perp-md 0.5.3 request it; no recorded body is known",
        paging=Paging(
            descending=True, start="startAt", end="endAt", limit=200, limit_name="pageSize", reach_days=7
        ),
    ),
    _MARKS,
    _endpoint("book", "/api/v1/level2/snapshot", book, symbol="symbol", weight=3),
    _endpoint("book", "/api/v1/level2/depth100", book, symbol="symbol", weight=5),
)  # fmt: skip

VENUE = Venue(
    "kucoin",
    "https://api-futures.kucoin.com",
    ENDPOINTS,
    refusal(_Coded, _REASONS.get),
    budget=16.0,
)
