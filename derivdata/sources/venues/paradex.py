"""Paradex: rates for a period of the market's own (8 hours nearly always), accrued continuously.

``/funding/data`` has a row every few seconds, each a rate for the whole period: samples, never added up.
"""

from __future__ import annotations

from functools import partial
from typing import Generic, TypeVar

from derivdata.sources.venues.endpoint import BOOK_TABLES, STATE_TABLES, Paging, Venue, VenueEndpoint
from derivdata.sources.venues.reading import Fault, Reading, refusal
from derivdata.sources.venues.record_types import Instrument, Interval, Liquidation, Records, State
from derivdata.sources.venues.wire import Data, Wire

T = TypeVar("T")
_OLD_HOURS = 8.0


class _Fault(Wire):
    error: str | None = None
    message: str = ""

    @property
    def fault(self) -> Fault:
        return None if self.error is None else (self.error, self.message)


def _named(name: str) -> Instrument:
    """Return the contract of BTC-USD-PERP; options have more parts."""
    parts = name.split("-")
    perpetual = len(parts) == 3 and parts[2] == "PERP"
    return Instrument(name, parts[0], parts[1] if len(parts) > 1 else "", 1.0, perpetual=perpetual)


class _Frame(Wire, Generic[T]):
    """A frame of the stream."""

    params: Data[T]


class _Summary(Wire):
    symbol: str
    created_at: int
    mark_price: str | None = None
    last_traded_price: str | None = None
    underlying_price: str | None = None
    open_interest: str | None = None
    volume_24h: str | None = None
    funding_rate: str | None = None
    price_change_rate_24h: str | None = None


class _Summaries(Wire):
    results: list[_Summary]


def summaries(reading: Reading) -> Records:
    """Read rates, open interest, prices and volume of all perpetuals; options are ignored."""
    return _states(reading, reading.decode(_Summaries).results)


def summary_frames(reading: Reading) -> Records:
    """Read the same of the stream, a row a frame."""
    return _states(reading, [frame.params.data for frame in reading.frames(_Frame[_Summary])])


def _states(reading: Reading, rows: list[_Summary]) -> Records:
    states = []
    for row in rows:
        item = reading.instrument(row.symbol, _named)
        if not item.perpetual:
            continue
        period = reading.interval(item)
        mark, coins = reading.number(row.mark_price), reading.number(row.open_interest)
        states.append(
            State(
                item,
                reading.ms(row.created_at),
                reading.number(row.funding_rate),
                period,
                None,
                mark=mark,
                index_price=reading.number(row.underlying_price),
                last=reading.number(row.last_traded_price),
                oi_usd=item.usd(coins, mark),
                oi_coins=coins,
                volume_usd=reading.number(row.volume_24h),
                change_pct=reading.percent(row.price_change_rate_24h),
            )
        )
    return Records(states=states)


class _Market(Wire):
    symbol: str
    base_currency: str
    quote_currency: str
    asset_kind: str
    funding_period_hours: float | None = None


class _Markets(Wire):
    results: list[_Market]


def markets(reading: Reading) -> Records:
    """Read the list of contracts; the interval is the period that rates are quoted for."""
    records = Records()
    for row in reading.decode(_Markets).results:
        item = Instrument(
            row.symbol, row.base_currency, row.quote_currency, 1.0, perpetual=row.asset_kind == "PERP"
        )
        records.instruments.append(item)
        if item.perpetual and row.funding_period_hours:
            records.intervals.append(Interval(item, row.funding_period_hours))
    return records


class _Sample(Wire):
    market: str
    funding_rate: str
    created_at: int
    funding_rate_8h: str = ""
    funding_period_hours: float | None = None


class _Samples(Wire):
    results: list[_Sample]
    next: str | None = None


def funding_data(reading: Reading) -> Records:
    """Read samples of the rate, the newest first; old rows say a period of 0 and are of 8 hours."""
    body = reading.decode(_Samples)
    records = _sampled(reading, body.results)
    records.cursor = body.next or None
    return records


def funding_frames(reading: Reading) -> Records:
    """Read samples of the rate of the stream, a row a frame."""
    return _sampled(reading, [frame.params.data for frame in reading.frames(_Frame[_Sample])])


def _sampled(reading: Reading, rows: list[_Sample]) -> Records:
    records = Records()
    for row in rows:
        time, rate = reading.ms(row.created_at), reading.required(row.funding_rate)
        hours = row.funding_period_hours or _OLD_HOURS
        eight = reading.number(row.funding_rate_8h)
        reading.require_close(rate * 8 / hours, eight, 1e-6, "funding_rate and funding_rate_8h")
        records.times.append(time)
        records.states.append(State(reading.instrument(row.market, _named), time, rate, hours, None))
    return records


class _Trade(Wire):
    id: str
    market: str
    side: str
    size: str
    price: str
    created_at: int
    trade_type: str


class _Trades(Wire):
    results: list[_Trade]
    next: str | None = None


def trades(reading: Reading) -> Records:
    """Read liquidations among trades: a taker that sold closed a long."""
    body: _Trades | list[_Trade] = reading.decode(_Trades | list[_Trade])
    rows, cursor = (body, None) if isinstance(body, list) else (body.results, body.next or None)
    records = _liquidated(reading, rows)
    records.cursor = cursor
    return records


def trade_frames(reading: Reading) -> Records:
    """Read liquidations among the trades of the stream, a trade a frame."""
    return _liquidated(reading, [frame.params.data for frame in reading.frames(_Frame[_Trade])])


def _liquidated(reading: Reading, rows: list[_Trade]) -> Records:
    records = Records()
    for row in rows:
        time = reading.ms(row.created_at)
        records.times.append(time)
        if row.trade_type != "LIQUIDATION":
            continue
        side = reading.word(row.side, {"SELL": "long", "BUY": "short"})
        coins, price = reading.required(row.size), reading.required(row.price)
        item = reading.instrument(row.market, _named)
        records.liquidations.append(
            Liquidation.of(item, time, side, coins, fill_price=price, order_id=row.id)
        )
    return records


class _Book(Wire):
    market: str
    last_updated_at: int
    bids: list[tuple[str, str]]
    asks: list[tuple[str, str]]


def book(reading: Reading) -> Records:
    """Read a book; sizes are coins."""
    body = reading.decode(_Book)
    item = reading.instrument(body.market, _named)
    return Records(books=[reading.book(item, reading.ms(body.last_updated_at), body.bids, body.asks)])


_endpoint = partial(VenueEndpoint, "paradex")
_WALK = Paging(
    "cursor",
    descending=True,
    start="start_at",
    end="end_at",
    cursor="cursor",
    limit=1000,
    limit_name="page_size",
)

_SERIES = Paging(
    descending=True,
    start="start_at",
    end="end_at",
    limit=1,
    limit_name="page_size",
    span_hours=1 / 60,
    thinned=True,
    reach_days=7,
)

ENDPOINTS = (
    _endpoint("instruments", "GET", "/markets", (), markets, lists=True),
    _endpoint(
        "funding", "GET", "/markets/summary",
        STATE_TABLES, summaries,
        params={"market": "ALL"}, every=60,
    ),
    _endpoint(
        "funding_series", "GET", "/funding/data", ("funding_history",), funding_data, symbol="market",
        paging=_SERIES, note="one row a minute, 1,440 requests a day; the newest week",
    ),
    _endpoint(
        "liquidations", "GET", "/trades", ("liquidations_fills",), trades, symbol="market", paging=_WALK,
        every=300,
    ),
    _endpoint(
        "book", "GET", "/orderbook/{market}", BOOK_TABLES, book,
        params={"depth": "100"}, symbol="market",
    ),
    _endpoint("funding", "WS", "funding_data.{market}", ("funding_history",), funding_frames),
    _endpoint("liquidations", "WS", "trades.{market}", ("liquidations_fills",), trade_frames),
    _endpoint("funding", "WS", "markets_summary", STATE_TABLES, summary_frames),
    _endpoint("funding", "WS", "markets_summary.{market}", STATE_TABLES, summary_frames),
)  # fmt: skip

VENUE = Venue(
    "paradex",
    "https://api.prod.paradex.trade/v1",
    ENDPOINTS,
    refusal(_Fault, lambda code: "limit" if "RATE_LIMIT" in code else None),
    budget=6.0,
)
