"""Bybit v5: linear, inverse and option markets.

``openInterest`` counts both sides of each contract; ``singleOpenInterest`` (since 2026-06-11) counts one.
A liquidation names the side of the position: ``Buy`` is a long that was liquidated.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

import msgspec

from derivdata.errors import VenueError
from derivdata.sources.venues.bybit_options import option_instruments, option_tickers
from derivdata.sources.venues.endpoint import (
    BOOK_TABLES,
    STATE_TABLES,
    Connection,
    Endpoint,
    Paging,
    Stream,
    Venue,
)
from derivdata.sources.venues.past_rows import payments, prices
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import (
    Instrument,
    Interval,
    Liquidation,
    OiPoint,
    Records,
    State,
)
from derivdata.sources.venues.wire import Wire, require_close
from derivdata.tables import contract

_OK = 0
_REASONS = {10006: "limit", 10016: "busy", 10009: "region", 10018: "limit", 10000: "busy"}
_PERPETUAL = ("LinearPerpetual", "InversePerpetual")


class _Fault(Wire):
    retCode: int | None = None
    retMsg: str = ""
    success: bool | None = None
    ret_msg: str = ""


def refuse(reading: Reading) -> None:
    """Raise a `VenueError` for ``retCode`` other than 0, which comes with HTTP 200."""
    if reading.body.lstrip()[:1] != b"{":
        return
    fault = reading.decode(_Fault)
    if fault.success is False:
        raise VenueError(reading.where, fault.ret_msg, code="subscription")
    if fault.retCode not in (None, _OK):
        reason = _REASONS.get(fault.retCode, "refused")
        raise VenueError(reading.where, fault.retMsg, code=fault.retCode, reason=reason)


def _named(name: str) -> Instrument:
    if name.endswith("PERP"):
        return Instrument(name, name.removesuffix("PERP"), "USDC", 1.0)
    plain = contract(name)
    return Instrument(name, plain.symbol, plain.quote, 1.0, plain.quote == "USD", bool(plain.quote))


class _Ticker(Wire):
    symbol: str
    fundingRate: str
    nextFundingTime: str
    markPrice: str
    indexPrice: str
    lastPrice: str
    openInterest: str
    turnover24h: str
    volume24h: str
    price24hPcnt: str
    fundingIntervalHour: str | None = None
    openInterestValue: str | None = None
    singleOpenInterest: str | None = None
    singleOpenInterestValue: str | None = None


class _Tickers(Wire):
    rows: list[_Ticker] = msgspec.field(name="list")


class _TickersBody(Wire):
    retCode: int
    result: _Tickers
    time: int


def tickers(reading: Reading) -> Records:
    """Read rate, open interest, prices and volume of all contracts of a category."""
    body = reading.decode(_TickersBody)
    return Records(
        states=[s for row in body.result.rows for s in _state(reading, row, reading.ms(body.time))]
    )


class _Delta(Wire):
    topic: str
    type: str
    data: _Ticker
    ts: int


class _DeltaHead(Wire):
    topic: str
    type: str


def ticker_frames(reading: Reading) -> Records:
    """Read whole tickers of the stream; deltas, which name only what changed, are ignored."""
    if any(head.type == "delta" for head in reading.frames(_DeltaHead)):
        reading.fail("a delta says only what changed: only snapshots can be read alone")
    return Records(
        states=[s for f in reading.frames(_Delta) for s in _state(reading, f.data, reading.ms(f.ts))]
    )


def _state(reading: Reading, row: _Ticker, time: int) -> list[State]:
    item = reading.instrument(row.symbol, _named)
    if row.fundingRate == "" or row.nextFundingTime in ("", "0") or not item.perpetual:
        return []
    hours = reading.number(row.fundingIntervalHour) or reading.interval(item)
    mark = reading.required(row.markPrice)
    both, one = reading.required(row.openInterest), reading.number(row.singleOpenInterest)
    require_close(both / 2, one, 1e-3, "half of openInterest and singleOpenInterest", reading.where)
    amount = one if one is not None else both / 2
    turnover, volume = reading.required(row.turnover24h), reading.required(row.volume24h)
    change = reading.number(row.price24hPcnt)
    value = amount if item.inverse else reading.number(row.singleOpenInterestValue)
    if value is None:
        doubled = reading.number(row.openInterestValue)
        value = amount * mark if doubled is None else doubled / 2
    if not item.inverse:
        require_close(value, amount * mark, 0.2, "open interest in USD and in coins", reading.where)
    return [
        State(
            item,
            time,
            reading.required(row.fundingRate),
            hours,
            hours,
            mark=mark,
            index_price=reading.number(row.indexPrice),
            last=reading.number(row.lastPrice),
            oi_usd=value,
            oi_coins=amount / mark if item.inverse else amount,
            volume_usd=volume if item.inverse else turnover,
            change_pct=None if change is None else change * 100,
        )
    ]


class _Paid(Wire):
    symbol: str
    fundingRate: str
    fundingRateTimestamp: str


class _PaidList(Wire):
    rows: list[_Paid] = msgspec.field(name="list")


class _PaidBody(Wire):
    retCode: int
    result: _PaidList


def funding_history(reading: Reading) -> Records:
    """Read payments, the newest first."""
    rows = reading.decode(_PaidBody).result.rows
    paid = ((row.symbol, row.fundingRateTimestamp, row.fundingRate) for row in rows)
    return payments(reading, paid, _named)


class _Oi(Wire):
    openInterest: str
    timestamp: str
    singleOpenInterest: str | None = None


class _OiList(Wire):
    symbol: str
    category: str
    rows: list[_Oi] = msgspec.field(name="list")
    nextPageCursor: str | None = None


class _OiBody(Wire):
    retCode: int
    result: _OiList


def open_interest(reading: Reading) -> Records:
    """Read open interest of the past: coins of linear contracts, which need a price, USD of inverse ones."""
    result = reading.decode(_OiBody).result
    item = reading.instrument(result.symbol, _named)
    if (result.category == "inverse") != item.inverse:
        reading.fail(f"{result.symbol}: the body states category {result.category}")
    resolution = reading.resolution("intervalTime")
    records = Records(cursor=result.nextPageCursor or None)
    for row in result.rows:
        both, one = reading.required(row.openInterest), reading.number(row.singleOpenInterest)
        require_close(both / 2, one, 1e-3, "half of openInterest and singleOpenInterest", reading.where)
        amount, time = one if one is not None else both / 2, reading.ms(row.timestamp)
        usd = item.usd(amount, reading.mark_then(item, time))
        records.add_past(OiPoint(item, time, usd, resolution, None if item.inverse else amount))
    return records


class _Book(Wire):
    s: str
    b: list[tuple[str, str]]
    a: list[tuple[str, str]]
    ts: int


class _BookBody(Wire):
    retCode: int
    result: _Book


def order_book(reading: Reading) -> Records:
    """Read a book: coins, or USD where it is inverse."""
    body = reading.decode(_BookBody).result
    item = reading.instrument(body.s, _named)
    return Records(books=[reading.book(item, reading.ms(body.ts), body.b, body.a)])


class _Listed(Wire):
    symbol: str
    status: str
    baseCoin: str
    quoteCoin: str
    contractType: str
    fundingInterval: int | None = None


class _ListedList(Wire):
    rows: list[_Listed] = msgspec.field(name="list")
    nextPageCursor: str | None = None


class _ListedBody(Wire):
    retCode: int
    result: _ListedList


def instruments(reading: Reading) -> Records:
    """Read the list of contracts; `fundingInterval` is in minutes."""
    result = reading.decode(_ListedBody).result
    records = Records(cursor=result.nextPageCursor or None)
    for row in result.rows:
        item = Instrument(
            row.symbol,
            row.baseCoin,
            row.quoteCoin,
            1.0,
            row.contractType.startswith("Inverse"),
            row.contractType in _PERPETUAL,
            row.status == "Trading",
        )
        records.instruments.append(item)
        if item.perpetual and row.fundingInterval:
            records.intervals.append(Interval(item, row.fundingInterval / 60))
    return records


class _Liquidated(Wire):
    T: int
    s: str
    S: str
    v: str
    p: str


class _LiquidatedFrame(Wire):
    topic: str
    data: list[_Liquidated]


def liquidations(reading: Reading) -> Records:
    """Read liquidations; `S` is the side of the position and `p` its bankruptcy price."""
    records = Records()
    for frame in reading.frames(_LiquidatedFrame):
        for row in frame.data:
            item = reading.instrument(row.s, _named)
            side = reading.word(row.S, {"Buy": "long", "Sell": "short"})
            price, amount = reading.required(row.p), reading.required(row.v)
            coins, usd = item.coins(amount, price), item.usd(amount, price)
            records.liquidations.append(
                Liquidation(item, reading.ms(row.T), side, price, None, coins, coins, usd, (row.p, row.v))
            )
    return records


class _Bars(Wire):
    symbol: str
    rows: list[tuple[str, str, str, str, str]] = msgspec.field(name="list")


class _BarsBody(Wire):
    retCode: int
    result: _Bars


def mark_klines(reading: Reading) -> Records:
    """Read mark prices at the start of each bar, the newest first."""
    result = reading.decode(_BarsBody).result
    item = reading.instrument(result.symbol, _named)
    minutes = reading.request.params.get("interval", "60")
    resolution = {"1": "1m", "5": "5m", "60": "1h", "240": "4h", "D": "1d"}.get(minutes, "unstated")
    return prices(reading, ((row[0], row[1]) for row in result.rows), item, "mark", resolution)


_endpoint = partial(Endpoint, "bybit")
_LIST = {"limit": "1000"}
_WALK = Paging(descending=True, limit=200)
_CURSOR = Paging("cursor", cursor="cursor", limit=1000, start="", end="")
_SOCKET = "wss://stream.bybit.com/v5/public"
_TOPICS = 200
_CONNECTION_TOPICS = 400  # the topics of one connection may have 21,000 characters together
_BASES = ("BTC", "ETH", "SOL", "XRP", "DOGE")


def _of_category(category: Literal["linear", "inverse"]) -> tuple[Endpoint, ...]:
    always = {"category": category}
    of = partial(_endpoint, margin=category)
    return (
        of(
            "instruments", "GET", f"/v5/market/instruments-info?category={category}", (), instruments,
            params=_LIST, paging=_CURSOR, lists=True,
        ),
        of("funding", "GET", f"/v5/market/tickers?category={category}", STATE_TABLES, tickers, every=60),
        of(
            "settlements", "GET", "/v5/market/funding/history", ("funding_settlements",), funding_history,
            params=always, symbol="symbol", paging=_WALK,
        ),
        of(
            "oi_history", "GET", "/v5/market/open-interest", ("oi_history",), open_interest,
            params={**always, "intervalTime": "5min"}, symbol="symbol",
            paging=Paging(descending=True, limit=200),
        ),
        of(
            "book", "GET", "/v5/market/orderbook", BOOK_TABLES, order_book, params={**always, "limit": "500"},
            symbol="symbol",
        ),
        of(
            "prices", "GET", "/v5/market/mark-price-kline", ("prices_history",), mark_klines,
            params={**always, "interval": "60"}, symbol="symbol",
            paging=Paging(descending=True, limit=1000, start="start", end="end"), confirmed=False,
        ),
    )  # fmt: skip


ENDPOINTS = (
    *_of_category("linear"),
    *_of_category("inverse"),
    _endpoint(
        "chain", "GET", "/v5/market/tickers?category=option", ("options_snapshot",), option_tickers,
        symbol="baseCoin", every=300, each=_BASES, note="one request for each of BTC, ETH, SOL, XRP and DOGE",
    ),
    _endpoint("instruments", "GET", "/v5/market/instruments-info?category=option", (), option_instruments),
    _endpoint("funding", "WS", "tickers.{symbol}", STATE_TABLES, ticker_frames),
    _endpoint("liquidations", "WS", "allLiquidation.{symbol}", ("liquidations_fills",), liquidations),
)  # fmt: skip


def _connections(names: Sequence[str], _: int) -> list[Connection]:
    """Return connections for the linear and the inverse contracts, a few hundred topics each."""
    connections = []
    for category, inverse in (("linear", False), ("inverse", True)):
        topics = [f"allLiquidation.{name}" for name in names if name.endswith("USD") == inverse]
        for i in range(0, len(topics), _CONNECTION_TOPICS):
            mine = topics[i : i + _CONNECTION_TOPICS]
            parts = [mine[j : j + _TOPICS] for j in range(0, len(mine), _TOPICS)]
            messages = [msgspec.json.encode({"op": "subscribe", "args": part}).decode() for part in parts]
            connections.append(Connection(f"{_SOCKET}/{category}", messages))
    return connections


VENUE = Venue(
    "bybit",
    "https://api.bybit.com",
    ENDPOINTS,
    refuse,
    budget=5.0,
    socket=f"{_SOCKET}/linear",
    ping=('{"op":"ping"}', 20.0),
    stream=Stream("allLiquidation.{symbol}", _connections, b'"topic"'),
    terms="No text on public data was found: for the user's own use. Refuses some countries.",
)
