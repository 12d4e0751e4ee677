"""Bybit v5: linear, inverse and option markets.

``openInterest`` counts both sides of each contract; ``singleOpenInterest`` (since 2026-06-11) counts one.
A liquidation names the side of the position: ``Buy`` is a long that was liquidated.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

import msgspec

from derivdata.sources.venues.bybit_options import option_instruments, option_tickers
from derivdata.sources.venues.endpoint import Paging, Socket, Stream, Venue, VenueEndpoint
from derivdata.sources.venues.reading import Fault, Reading, refusal
from derivdata.sources.venues.record_types import Instrument, Interval, Liquidation, OiPoint, Records, State
from derivdata.sources.venues.wire import Data, Page, Result, Wire
from derivdata.tables import contract

_REASONS = {10006: "limit", 10016: "busy", 10009: "region", 10018: "limit", 10000: "busy"}
_PERPETUAL = ("LinearPerpetual", "InversePerpetual")


class _Fault(Wire):
    retCode: int | None = None
    retMsg: str = ""
    success: bool | None = None
    ret_msg: str = ""

    @property
    def fault(self) -> Fault:
        """An error comes with HTTP 200; that of a subscription has another shape."""
        if self.success is False:
            return "subscription", self.ret_msg
        return None if self.retCode in (None, 0) else (self.retCode, self.retMsg)


def _named(name: str) -> Instrument:
    if name.endswith("PERP"):
        return Instrument(name, name.removesuffix("PERP"), "USDC", 1.0)
    plain = contract(name)
    return Instrument(name, plain.symbol, plain.quote, 1.0, plain.quote == "USD", bool(plain.quote))


class _Ticker(Wire):
    symbol: str
    fundingRate: str | None = None
    nextFundingTime: str | None = None
    markPrice: str | None = None
    indexPrice: str | None = None
    lastPrice: str | None = None
    openInterest: str | None = None
    turnover24h: str | None = None
    volume24h: str | None = None
    price24hPcnt: str | None = None
    fundingIntervalHour: str | None = None
    openInterestValue: str | None = None
    singleOpenInterest: str | None = None
    singleOpenInterestValue: str | None = None
    curPreListingPhase: str = ""


class _TickersBody(Wire):
    retCode: int
    result: Page[_Ticker]
    time: int


def tickers(reading: Reading) -> Records:
    """Read rate, open interest, prices and volume of all contracts of a category."""
    body, records = reading.decode(_TickersBody), Records()
    for row in body.result.rows:
        with reading.row():
            records.states += _state(reading, row, reading.ms(body.time))
    return records


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
    for head in reading.frames(_DeltaHead):
        reading.require_snapshot(head.type)
    return Records(
        states=[s for f in reading.frames(_Delta) for s in _state(reading, f.data, reading.ms(f.ts))]
    )


def _state(reading: Reading, row: _Ticker, time: int) -> list[State]:
    item = reading.instrument(row.symbol, _named)
    dated = row.fundingRate in ("", None) or row.nextFundingTime in ("", "0", None) or not item.perpetual
    if dated or row.curPreListingPhase:
        return []
    hours = reading.number(row.fundingIntervalHour) or reading.interval(item)
    mark, volume = reading.number(row.markPrice), row.volume24h if item.inverse else row.turnover24h
    amount = _one_side(reading, row.openInterest, row.singleOpenInterest)
    value = amount if item.inverse else reading.number(row.singleOpenInterestValue)
    if value is None and not item.inverse:
        doubled = reading.number(row.openInterestValue)
        value = item.usd(amount, mark) if doubled is None else doubled / 2
    if not item.inverse:
        reading.require_close(value, item.usd(amount, mark), 0.2, "open interest in USD and in coins")
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
            oi_coins=item.coins(amount, mark),
            volume_usd=reading.number(volume),
            change_pct=reading.percent(row.price24hPcnt),
        )
    ]


def _one_side(reading: Reading, both: str | None, one: str | None) -> float | None:
    """Return what `singleOpenInterest` says, else half of both sides; they differ by a rounding at most."""
    whole, single = reading.number(both), reading.number(one)
    if whole is None:
        return single
    step = 10.0 ** -len((one or both or "").partition(".")[2])  # the venue rounds to the steps that it shows
    if single is not None and abs(whole / 2 - single) > max(step, 1e-3 * single):
        reading.fail(f"half of openInterest and singleOpenInterest: {whole / 2!r} and {single!r}")
    return whole / 2 if single is None else single


class _Paid(Wire):
    symbol: str
    fundingRate: str
    fundingRateTimestamp: str


def funding_history(reading: Reading) -> Records:
    """Read payments, the newest first."""
    rows = reading.decode(Result[Page[_Paid]]).result.rows
    paid = ((row.symbol, row.fundingRateTimestamp, row.fundingRate) for row in rows)
    return reading.payments(paid, _named)


class _Oi(Wire):
    openInterest: str
    timestamp: str
    singleOpenInterest: str | None = None


class _OiList(Wire):
    symbol: str
    category: str
    rows: list[_Oi] = msgspec.field(name="list")
    nextPageCursor: str | None = None


def open_interest(reading: Reading) -> Records:
    """Read open interest of the past: coins of linear contracts, which need a price, USD of inverse ones."""
    result = reading.decode(Result[_OiList]).result
    item = reading.instrument(result.symbol, _named)
    if (result.category == "inverse") != item.inverse:
        reading.fail(f"{result.symbol}: the body states category {result.category}")
    resolution = reading.resolution("intervalTime")
    records = Records(cursor=result.nextPageCursor or None)
    for row in result.rows:
        amount, time = _one_side(reading, row.openInterest, row.singleOpenInterest), reading.ms(row.timestamp)
        if amount is None:
            reading.fail("a row of open interest has no figure of it")
        usd = item.usd(amount, reading.context.mark(item.symbol, time))
        records.add_past(OiPoint(item, time, usd, resolution, None if item.inverse else amount))
    return records


class _Book(Wire):
    s: str
    b: list[tuple[str, str]]
    a: list[tuple[str, str]]
    ts: int


def order_book(reading: Reading) -> Records:
    """Read a book: coins, or USD where it is inverse."""
    body = reading.decode(Result[_Book]).result
    item = reading.instrument(body.s, _named)
    return Records(books=[reading.book(item, reading.ms(body.ts), body.b, body.a)])


class _Listed(Wire):
    symbol: str
    status: str
    baseCoin: str
    quoteCoin: str
    contractType: str
    fundingInterval: int | None = None


def instruments(reading: Reading) -> Records:
    """Read the list of contracts; `fundingInterval` is in minutes."""
    result = reading.decode(Result[Page[_Listed]]).result
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


def liquidations(reading: Reading) -> Records:
    """Read liquidations; `S` is the side of the position and `p` its bankruptcy price."""
    records = Records()
    for frame in reading.frames(Data[list[_Liquidated]]):
        for row in frame.data:
            item = reading.instrument(row.s, _named)
            side = reading.word(row.S, {"Buy": "long", "Sell": "short"})
            price, amount = reading.required(row.p), reading.required(row.v)
            records.liquidations.append(
                Liquidation.of(
                    item, reading.ms(row.T), side, amount, order_price=price, native=(row.p, row.v)
                )
            )
    return records


class _Bars(Wire):
    symbol: str
    rows: list[tuple[str, str, str, str, str]] = msgspec.field(name="list")


def mark_klines(reading: Reading) -> Records:
    """Read mark prices at the start of each bar, the newest first."""
    result = reading.decode(Result[_Bars]).result
    item = reading.instrument(result.symbol, _named)
    minutes = reading.params.get("interval", "60")
    resolution = {"1": "1m", "5": "5m", "60": "1h", "240": "4h", "D": "1d"}.get(minutes, "unstated")
    return reading.prices(((row[0], row[1]) for row in result.rows), item, "mark", resolution)


_endpoint = partial(VenueEndpoint, "bybit")
_LIST = {"limit": "1000"}
_WALK = Paging(descending=True, limit=200)
_CURSOR = Paging("cursor", cursor="cursor", limit=1000, start="", end="")
_SOCKET = "wss://stream.bybit.com/v5/public"
_TOPICS = 200
_CONNECTION_TOPICS = 400  # the topics of one connection may have 21,000 characters together
_BASES = ("BTC", "ETH", "SOL", "XRP", "DOGE")


def _of_category(category: Literal["linear", "inverse"]) -> tuple[VenueEndpoint, ...]:
    always = {"category": category}
    of = partial(_endpoint, margin=category)
    klines = partial(
        of, "prices", "/v5/market/mark-price-kline", mark_klines, symbol="symbol",
        paging=Paging(descending=True, limit=1000, start="start", end="end"),
    )  # fmt: skip
    return (
        of(
            "instruments", f"/v5/market/instruments-info?category={category}", instruments, params=_LIST,
            paging=_CURSOR, lists=True,
        ),
        of("funding", f"/v5/market/tickers?category={category}", tickers, every=60),
        of(
            "settlements", "/v5/market/funding/history", funding_history, params=always, symbol="symbol",
            paging=_WALK,
        ),
        of(
            "oi_history", "/v5/market/open-interest", open_interest,
            params={**always, "intervalTime": "5min"}, symbol="symbol",
            paging=Paging(descending=True, limit=200), marks=klines(params={**always, "interval": "5"}),
        ),
        of("book", "/v5/market/orderbook", order_book, params={**always, "limit": "500"}, symbol="symbol"),
        klines(params={**always, "interval": "60"}, confirmed=False),
    )  # fmt: skip


ENDPOINTS = (
    *_of_category("linear"),
    *_of_category("inverse"),
    _endpoint(
        "chain", "/v5/market/tickers?category=option", option_tickers, symbol="baseCoin", every=300,
        each=_BASES, note="one request for each of BTC, ETH, SOL, XRP and DOGE",
    ),
    _endpoint("instruments", "/v5/market/instruments-info?category=option", option_instruments),
    _endpoint("funding", "tickers.{symbol}", ticker_frames, method="WS"),
    _endpoint("liquidations", "allLiquidation.{symbol}", liquidations, method="WS"),
)  # fmt: skip


def _connections(names: Sequence[str], _: int) -> list[Socket]:
    """Return connections for the linear and the inverse contracts, a few hundred topics each."""
    connections = []
    for category, inverse in (("linear", False), ("inverse", True)):
        topics = [f"allLiquidation.{name}" for name in names if name.endswith("USD") == inverse]
        for i in range(0, len(topics), _CONNECTION_TOPICS):
            mine = topics[i : i + _CONNECTION_TOPICS]
            parts = [mine[j : j + _TOPICS] for j in range(0, len(mine), _TOPICS)]
            messages = [msgspec.json.encode({"op": "subscribe", "args": part}).decode() for part in parts]
            connections.append(Socket(f"{_SOCKET}/{category}", messages))
    return connections


VENUE = Venue(
    "bybit",
    "https://api.bybit.com",
    ENDPOINTS,
    refusal(_Fault, _REASONS.get),
    budget=5.0,
    socket=f"{_SOCKET}/linear",
    ping=('{"op":"ping"}', 20.0),
    stream=Stream("allLiquidation.{symbol}", _connections, b'"topic"'),
    terms="No text on public data was found: for the user's own use. Refuses some countries.",
)
