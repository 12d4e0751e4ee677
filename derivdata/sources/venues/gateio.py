"""Gate v4: contracts settled in USDT and, inverse, in BTC.

``position_size`` of a contract is one side of the open interest; ``total_size`` of tickers and
``open_interest`` of statistics count both. A liquidation's ``size`` is the position, signed. Sizes are whole
numbers in old bodies and text with decimals in new ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

import msgspec

from derivdata.sources.venues.endpoint import PRICE_TABLES, Paging, Socket, Stream, Venue, VenueEndpoint
from derivdata.sources.venues.reading import Fault, Reading, Refused, refusal
from derivdata.sources.venues.record_types import (
    Instrument,
    Liquidation,
    OiPoint,
    Payment,
    Price,
    Records,
    State,
)
from derivdata.sources.venues.wire import Result, Wire

_SIZE = str | float
_REASONS = {"TOO_MANY_REQUESTS": "limit", "SERVER_ERROR": "busy", "TOO_BUSY": "busy"}


class _Fault(Wire):
    label: str | None = None
    message: str = ""
    error: Refused | None = None

    @property
    def fault(self) -> Fault:
        """Of an answer its label, of a frame its error."""
        if self.label is not None:
            return self.label, self.message
        return None if self.error is None else (self.error.code, self.error.message)


def _named(name: str) -> Instrument:
    """Return the contract of a name such as BTC_USDT, or BTC_USD, of which one contract is 1 USD."""
    base, _, quote = name.partition("_")
    inverse = quote == "USD"
    perpetual = quote in ("USDT", "USD")
    return Instrument(name, base, quote, 1.0 if inverse else None, inverse, perpetual)


class _Contract(Wire):
    name: str
    type: str
    funding_rate: str
    funding_interval: int
    quanto_multiplier: str
    in_delisting: bool = False
    is_pre_market: bool = False
    mark_price: str | None = None
    index_price: str | None = None
    last_price: str | None = None
    position_size: _SIZE | None = None
    status: str = "trading"


def contracts(reading: Reading) -> Records:
    """Read rates, intervals, open interest and prices of all contracts of a settle currency, or of one."""
    body: list[_Contract] | _Contract = reading.decode(list[_Contract] | _Contract)
    records = Records()
    for row in body if isinstance(body, list) else [body]:
        with reading.row():
            inverse = reading.word(row.type, {"inverse": True, "direct": False})
            size = 1.0 if inverse else reading.required(row.quanto_multiplier)
            active = not (row.in_delisting or row.is_pre_market) and row.status == "trading"
            item = _named(row.name)._replace(size=size, inverse=inverse, active=active)
            records.instruments.append(item)
            if not active or not item.perpetual:
                continue
            if size <= 0:
                reading.fail(f"{row.name} has contracts of {size} coins")
            mark, hours = reading.number(row.mark_price), row.funding_interval / 3600
            contracts = reading.number(row.position_size)
            records.states.append(
                State(
                    item,
                    None,
                    reading.required(row.funding_rate),
                    hours,
                    hours,
                    mark=mark,
                    index_price=reading.number(row.index_price),
                    last=reading.number(row.last_price),
                    oi_usd=item.usd(contracts, mark),
                    oi_coins=item.coins(contracts, mark),
                )
            )
    return records


class _Ticker(Wire):
    contract: str
    last: str | None = None
    total_size: str | None = None
    volume_24h_quote: str | None = None
    change_percentage: str | None = None
    mark_price: str | None = None
    index_price: str | None = None
    quanto_multiplier: str | None = None


def tickers(reading: Reading) -> Records:
    """Read 24 hours and open interest, which counts both sides here."""
    records = Records()
    for row in reading.decode(list[_Ticker]):
        item = reading.instrument(row.contract, _named)
        if item.size is None and row.quanto_multiplier is not None:
            item = item._replace(size=reading.number(row.quanto_multiplier) or None)
        mark, both = reading.number(row.mark_price), reading.number(row.total_size)
        one_side = None if both is None else both / 2
        records.states.append(
            State(
                item,
                None,
                mark=mark,
                index_price=reading.number(row.index_price),
                last=reading.number(row.last),
                oi_usd=item.usd(one_side, mark),
                oi_coins=item.coins(one_side, mark),
                volume_usd=reading.number(row.volume_24h_quote),
                change_pct=reading.number(row.change_percentage),
            )
        )
    return records


class _Paid(Wire):
    t: int
    r: str


def funding_rates(reading: Reading) -> Records:
    """Read payments, the newest first, in seconds."""
    item = reading.instrument(reading.asked("contract"), _named)
    records = Records()
    for row in reading.decode(list[_Paid]):
        time = reading.seconds(row.t)
        records.add_past(Payment(item, time, reading.required(row.r)))
    return records


class _Stats(Wire):
    time: int
    open_interest: _SIZE
    open_interest_usd: float
    mark_price: float


def contract_stats(reading: Reading) -> Records:
    """Read open interest of the past, which counts both sides, and the mark prices beside it."""
    item = reading.instrument(reading.asked("contract"), _named)
    resolution = reading.resolution("interval")
    records = Records()
    for row in reading.decode(list[_Stats]):
        time, one_side = reading.seconds(row.time), reading.required(row.open_interest) / 2
        reading.require_close(
            item.usd(one_side, row.mark_price),
            row.open_interest_usd / 2,
            0.05,
            "open interest in contracts and in USD",
        )
        coins = item.coins(one_side, row.mark_price)
        records.times.append(time)
        records.oi.append(OiPoint(item, time, row.open_interest_usd / 2, resolution, coins))
        records.prices.append(Price(item, time, "mark", row.mark_price, resolution))
    return records


class _Liquidated(Wire):
    contract: str
    time: int
    size: _SIZE
    left: _SIZE
    fill_price: str
    order_price: str
    order_size: _SIZE | None = None


class _Pushed(Wire):
    contract: str
    time: int
    time_ms: int
    size: _SIZE
    left: _SIZE
    fill_price: float
    order_price: float
    order_size: _SIZE | None = None


def liquidations(reading: Reading) -> Records:
    """Read liquidations of all contracts; several rows of one second and price are separate fills."""
    records = Records()
    for row in reading.decode(list[_Liquidated]):
        with reading.row():
            records.add_past(_fill(reading, row))
    return records


def liquidation_frames(reading: Reading) -> Records:
    """Read liquidations of the former stream."""
    frames = reading.frames(Result[list[_Pushed]])
    return Records(liquidations=[_fill(reading, row) for frame in frames for row in frame.result])


class _Public(Wire):
    contract: str
    time_ms: int
    size: _SIZE
    price: _SIZE


def public_liquidations(reading: Reading) -> Records:
    """Read liquidations of the public stream: the signed position, the order's price, and no fill."""
    records = Records()
    for row in (row for frame in reading.frames(Result[list[_Public]]) for row in frame.result):
        item = reading.instrument(row.contract, _named)
        position, price = reading.required(row.size), reading.required(row.price)
        if position == 0:
            reading.fail("a liquidated position of size 0 has no side")
        if isinstance(row.price, str) and not isinstance(row.size, str):
            reading.fail(f"a size that is a number beside a price that is text: {row.size}, {row.price!r}")
        side, size = "long" if position > 0 else "short", abs(position)
        time, native = reading.ms(row.time_ms), (row.price, row.size)
        records.liquidations.append(Liquidation.of(item, time, side, size, order_price=price, native=native))
    return records


def _fill(reading: Reading, row: _Liquidated | _Pushed) -> Liquidation:
    item = reading.instrument(row.contract, _named)
    sizes = [value for value in (row.size, row.left, row.order_size) if value is not None]
    if len({isinstance(value, str) for value in sizes}) > 1:
        reading.fail(f"sizes of one row are of two kinds: {sizes}")
    position = reading.required(row.size)
    if position == 0:
        reading.fail("a liquidated position of size 0 has no side")
    ordered = abs(position if row.order_size is None else reading.required(row.order_size))
    filled = ordered - abs(reading.required(row.left))
    if filled < 0:
        reading.fail(f"{row.left} is left of an order of {ordered}")
    fill, price = reading.required(row.fill_price), reading.required(row.order_price)
    time = reading.seconds(row.time)
    if isinstance(row, _Pushed):
        if not 0 <= reading.ms(row.time_ms) - time < 1_000_000:
            reading.fail(f"{row.time} seconds and {row.time_ms} milliseconds are not one instant")
        time = reading.ms(row.time_ms)
    return Liquidation.of(
        item,
        time,
        "long" if position > 0 else "short",
        filled,
        order_price=price,
        fill_price=fill,
        ordered=ordered,
        native=(row.fill_price, row.order_price, row.size, row.order_size),
    )


class _Level(Wire):
    p: str
    s: _SIZE


class _Book(Wire):
    update: float
    bids: list[_Level]
    asks: list[_Level]


def book(reading: Reading) -> Records:
    """Read a book, whose sizes are contracts; `update` is in seconds with a fraction."""
    body = reading.decode(_Book)
    item = reading.instrument(reading.asked("contract"), _named)
    bids, asks = ([(row.p, row.s) for row in side] for side in (body.bids, body.asks))
    return Records(books=[reading.book(item, reading.seconds(body.update), bids, asks)])


_endpoint = partial(VenueEndpoint, "gateio")
_TICKERS = ("oi_history", "markets_symbol_exchanges", "prices_history")
_SECONDS = Paging(descending=True, start="from", end="to", unit="s", limit=1000)


def _of_currency(settle: str, margin: Literal["linear", "inverse"]) -> tuple[VenueEndpoint, ...]:
    base = f"/futures/{settle}"
    of = partial(_endpoint, margin=margin)
    return (
        of("funding", f"{base}/contracts", contracts, lists=True, every=60),
        of("funding", f"{base}/contracts/{{contract}}", contracts),
        of("tickers", f"{base}/tickers", tickers, tables=("oi_history", *PRICE_TABLES), every=60),
        of("settlements", f"{base}/funding_rate", funding_rates, symbol="contract", paging=_SECONDS),
        of(
            "oi_history", f"{base}/contract_stats", contract_stats, tables=("oi_history", "prices_history"),
            params={"interval": "5m"}, symbol="contract",
            paging=Paging(start="from", end="", unit="s", limit=1000),
        ),
        of(
            "liquidations", f"{base}/liq_orders", liquidations,
            paging=Paging(descending=True, start="from", end="to", unit="s", limit=1000, span_hours=1),
            every=60,
        ),
        of("book", f"{base}/order_book", book, params={"limit": "300", "with_id": "true"}, symbol="contract"),
    )  # fmt: skip


ENDPOINTS = (
    *_of_currency("usdt", "linear"),
    *_of_currency("btc", "inverse"),
    _endpoint("liquidations", "futures.liquidates", liquidation_frames, method="WS"),
    _endpoint("liquidations", "futures.public_liquidates", public_liquidations, method="WS"),
)  # fmt: skip


def _connections(_: Sequence[str], now: int) -> list[Socket]:
    """Return a connection for each settle currency, of all its contracts."""
    subscription = {
        "time": now,
        "channel": "futures.public_liquidates",
        "event": "subscribe",
        "payload": ["!all"],
    }
    message = msgspec.json.encode(subscription).decode()
    return [Socket(f"wss://fx-ws.gateio.ws/v4/ws/{settle}", [message]) for settle in ("usdt", "btc")]


VENUE = Venue(
    "gateio",
    "https://api.gateio.ws/api/v4",
    ENDPOINTS,
    refusal(_Fault, _REASONS.get),
    budget=5.0,
    socket="wss://fx-ws.gateio.ws/v4/ws/usdt",
    stream=Stream("futures.public_liquidates", _connections, b'"event":"update"', is_default=False),
    terms="API terms of 2025-10 are written for key holders; a clause on public data was not seen.",
)
