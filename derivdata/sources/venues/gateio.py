"""Gate v4: contracts settled in USDT and, inverse, in BTC.

``position_size`` of a contract is one side of the open interest; ``total_size`` of tickers and
``open_interest`` of statistics count both. A liquidation's ``size`` is the position, signed. Sizes are text
with decimals where the header ``X-Gate-Size-Decimal: 1`` is sent, by requests and by the handshake of a
WebSocket; without it they are numbers, rounded down to whole contracts (gate-api 7.2.161, api_client.py;
ccxt 4.5.90, pro/gate.py; 2026-10).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Generic, Literal

import msgspec

from derivdata.sources.venues.endpoint import PRICE_TABLES, Paging, Socket, Stream, Venue, VenueEndpoint
from derivdata.sources.venues.readers import books, gate_tiers, payments
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import (
    Instrument,
    Liquidation,
    OiPoint,
    Price,
    Records,
    TakerVolume,
)
from derivdata.sources.venues.wire import (
    Book,
    Fault,
    Figures,
    Level,
    LongShortRow,
    N,
    PaymentRow,
    RefusedBody,
    Stamp,
    Wire,
    if_stated,
    one_side,
    refusal,
    spelled,
)

_SIZE = str | float
_REASONS = {"TOO_MANY_REQUESTS": "limit", "SERVER_ERROR": "busy", "TOO_BUSY": "busy"}


class _Fault(RefusedBody):
    label: str | None = None
    message: str = ""

    @property
    def fault(self) -> Fault:
        """Return the fault of a body: the label of a response, the error of a frame."""
        if self.label is None:
            return super().fault
        return self.label, self.message


def _named(name: str) -> Instrument:
    """Parse a contract name such as BTC_USDT; one contract of BTC_USD is 1 USD."""
    base, _, quote = name.partition("_")
    inverse = quote == "USD"
    perpetual = quote in ("USDT", "USD", "USD1")
    return Instrument(name, base, quote, 1.0 if inverse else None, inverse, perpetual)


class _Contract(Figures[str, float], kw_only=True):
    kind: str
    size: str
    seconds: int  # seconds between payments
    open: _SIZE | None = None  # open interest of one side
    delisting: bool = False
    early: bool = False
    status: str = "trading"
    listed: float | None = None
    delisted: float | None = None
    tick: str | None = None
    step: _SIZE | None = None


_CONTRACT = spelled(
    _Contract, name="name", kind="type", rate="funding_rate", seconds="funding_interval",
    open="position_size", size="quanto_multiplier", delisting="in_delisting", early="is_pre_market",
    mark="mark_price", index_price="index_price", last="last_price", status="status", listed="launch_time",
    delisted="delisting_time", tick="order_price_round", step="order_size_min",
)  # fmt: skip


def contracts(reading: Reading) -> Records:
    """Read rates, intervals, open interest and prices of all contracts of a settle currency, or of one."""
    records = Records()
    for row in reading.rows(_CONTRACT):
        with reading.row():
            inverse = reading.word(row.kind, {"inverse": True, "direct": False})
            size = 1.0 if inverse else reading.required(row.size)
            item = _named(row.name)._replace(
                size=size,
                inverse=inverse,
                active=not (row.delisting or row.early) and row.status in ("trading", None),
                listed=reading.day(row.listed, "seconds"),
                delisted=reading.day(row.delisted, "seconds"),
                tick=reading.number(row.tick),
                step=reading.number(row.step),
            )
            records.instruments.append(item)
            if not item.active or not item.perpetual:
                continue
            if size <= 0:
                reading.fail(f"{row.name}: expected a contract size above 0 coins, got {size}")
            mark = reading.number(row.mark)
            amount = reading.number(row.open)
            value: dict[str, Any] = {"oi_usd": item.usd(amount, mark), "oi_coins": item.coins(amount, mark)}
            rate = reading.required(row.rate)
            records.states.append(reading.state(item, row, row.seconds / 3600, rate=rate, **value))
    return records


class _Ticker(Figures[str, int]):
    both: _SIZE | None = None  # open interest over both sides
    size: str | None = None
    seconds: int = 0  # seconds between payments, in frames


class _PushedTicker(_Ticker, kw_only=True):
    # missing in frames of 2020 to 2023 (tardis-node, test/mappers.test.ts)
    time: int | None = None  # type: ignore[assignment]


_SHOWN = {"name": "contract", "last": "last", "both": "total_size", "volume_usd": "volume_24h_quote"}
_SHOWN |= {"change_pct": "change_percentage", "mark": "mark_price", "index_price": "index_price"}
# Positions and statistics do not have a last price.
_TICKER = spelled(_Ticker, size="quanto_multiplier", required=("last",), **_SHOWN)
_PUSHED = spelled(_PushedTicker, time="t", rate="funding_rate", seconds="funding_interval", **_SHOWN)


class _Sent(Wire):
    time: Stamp | None = None
    time_ms: Stamp | None = None


def tickers(reading: Reading, *, pushed: bool = False) -> Records:
    """Read 24-hour figures, and open interest of both sides; frames also have rates."""
    records = Records()
    rows: Iterable[tuple[Any, int | None]] = _pushed_tickers(reading)
    if not pushed:
        rows = [(row, None) for row in reading.rows(_TICKER)]
    for row, time in rows:
        with reading.row():
            item = reading.instrument(row.name, _named)
            if item.size is None and row.size is not None:
                item = item._replace(size=reading.number(row.size) or None)
            mark = reading.number(row.mark)
            contracts = one_side(reading.number(row.both))
            usd = item.usd(contracts, mark)
            coins = item.coins(contracts, mark)
            hours = row.seconds / 3600 or reading.interval(item)
            records.states.append(reading.state(item, row, hours, time=time, oi_usd=usd, oi_coins=coins))
    if pushed:  # a frame of 2020 has a contract twice, with equal values
        records.states = list(dict.fromkeys(records.states))
    return records


def _pushed_tickers(reading: Reading) -> Iterator[tuple[Any, int | None]]:
    """Yield the rows of frames, each with the frame's time if the row has none.

    Frames have `time` in seconds, and since 2023 `time_ms` too.
    """
    frames = reading.pushed_each(_PUSHED, "result")
    if all(row.time is not None for rows in frames for row in rows):
        yield from ((row, None) for rows in frames for row in rows)
        return
    for rows, sent in zip(frames, reading.frames(_Sent), strict=True):
        stamp = sent.time_ms
        if stamp is None:
            stamp = sent.time
        time = if_stated(reading.seconds_or_ms, stamp)
        yield from ((row, time) for row in rows)


_PAID = spelled(PaymentRow[str, int], time="t", rate="r")


class _Stats(Wire):
    time: Stamp
    open_interest: _SIZE
    open_interest_usd: _SIZE
    mark_price: _SIZE  # a text on the venue's page of 2025-11
    lsr_account: _SIZE | None = None
    top_lsr_account: _SIZE | None = None
    top_lsr_size: _SIZE | None = None
    long_taker_size: _SIZE | None = None  # contracts, since 2026-04
    short_taker_size: _SIZE | None = None


_RATIOS = {"lsr_account": "accounts", "top_lsr_account": "top_accounts", "top_lsr_size": "top_positions"}


def contract_stats(reading: Reading) -> Records:
    """Read past open interest of both sides, marks, positioning and taker volume."""
    item = reading.instrument(reading.requested("contract"), _named)
    resolution = reading.resolution("interval")
    records = Records()
    for row in reading.rows(_Stats):
        with reading.row():
            _add_statistics(reading, records, row, item, resolution)
    return records


def _add_statistics(
    reading: Reading, records: Records, row: _Stats, item: Instrument, resolution: str
) -> None:
    """Add the values of a row to records; those of a period only once it has ended."""
    time = reading.seconds(row.time)
    mark = reading.required(row.mark_price)
    contracts = one_side(reading.required(row.open_interest))
    usd = one_side(reading.required(row.open_interest_usd))
    rounding_usd = 0.0
    if not isinstance(row.open_interest, str):  # without the header, sizes are rounded to whole contracts
        rounding_usd = item.usd(1.0, mark) or 0.0
    what = "open interest in contracts and in USD"
    reading.require_close(item.usd(contracts, mark), usd, 0.05, what, step=rounding_usd)
    records.times.append(time)
    records.oi.append(OiPoint(item, time, usd, resolution, item.coins(contracts, mark)))
    records.prices.append(Price(item, time, "mark", mark, resolution))
    if not reading.has_ended(time, resolution):
        return
    for name, kind in _RATIOS.items():
        ratio = reading.number(getattr(row, name))
        if ratio is not None:
            sides = LongShortRow(row.time, item.name, ratio=ratio)
            records.positioning += reading.positioning(item, time, sides, kind, resolution, ends=True)
    bought = item.usd(reading.number(row.long_taker_size), mark)
    sold = item.usd(reading.number(row.short_taker_size), mark)
    if bought is not None and sold is not None:
        records.taker_volumes.append(TakerVolume(item, time, bought, sold, resolution))


class _Liquidated(Wire, Generic[N]):
    contract: str
    time: Stamp
    size: _SIZE
    left: _SIZE
    fill_price: N
    order_price: N
    order_size: _SIZE | None = None


class _Pushed(_Liquidated[float], kw_only=True):
    time_ms: Stamp


def liquidations(reading: Reading) -> Records:
    """Read liquidations of all contracts; several rows of one second and price are separate fills."""
    records = Records()
    for row in reading.rows(_Liquidated[str]):
        with reading.row():
            records.add_past(_fill(reading, row))
    return records


def liquidation_frames(reading: Reading) -> Records:
    """Read liquidations of the former stream."""
    records = Records()
    for row in reading.pushed(_Pushed, "result"):
        with reading.row():
            records.liquidations.append(_fill(reading, row))
    return records


class _Public(Wire):
    contract: str
    size: _SIZE
    price: _SIZE
    time: Stamp | None = None  # milliseconds in a frame of 2026-08-10 (gateio/WebSocket-API, issue 132)
    time_ms: Stamp | None = None


def public_liquidations(reading: Reading) -> Records:
    """Read liquidations of the public stream: the signed position, the order's price, and no fill."""
    records = Records()
    for row in reading.pushed(_Public, "result"):
        with reading.row():
            item = reading.instrument(row.contract, _named)
            price = reading.required(row.price)
            side, size = _position(reading, row.size)
            stamp = row.time_ms
            if stamp is None:
                stamp = row.time
            if stamp is None:
                reading.fail("a liquidation has neither time nor time_ms")
            time = reading.seconds_or_ms(stamp)
            native = (row.price, row.size)
            records.liquidations.append(
                Liquidation.of(item, time, side, size, order_price=price, native=native)
            )
    return records


def _position(reading: Reading, size: _SIZE) -> tuple[str, float]:
    """Return the side of a signed position and its contracts."""
    position = reading.required(size)
    if position == 0:
        reading.fail("a liquidated position of size 0 has no side")
    return "long" if position > 0 else "short", abs(position)


def _fill(reading: Reading, row: _Liquidated[Any]) -> Liquidation:
    """Return a liquidation from a position, the order that closes it, and the rest that was not filled."""
    item = reading.instrument(row.contract, _named)
    sizes = [value for value in (row.size, row.left, row.order_size) if value is not None]
    if len({isinstance(value, str) for value in sizes}) > 1:
        reading.fail(f"the sizes of a row have different units: {sizes}")
    side, position = _position(reading, row.size)
    ordered = position
    if row.order_size is not None:
        ordering, ordered = _position(reading, row.order_size)
        if ordering == side or ordered > position:
            reading.fail(f"an order of {row.order_size} does not close a position of {row.size}")
    filled = ordered - abs(reading.required(row.left))
    if filled < 0:
        reading.fail(f"a rest of {row.left} is more than the order of {ordered}")
    fill = reading.required(row.fill_price)
    price = reading.required(row.order_price)
    time = reading.seconds(row.time)
    if isinstance(row, _Pushed):
        if not -1_000_000 < reading.ms(row.time_ms) - time < 1_000_000:  # seconds may be truncated or rounded
            reading.fail(f"{row.time} seconds and {row.time_ms} milliseconds are different times")
        time = reading.ms(row.time_ms)
    return Liquidation.of(
        item,
        time,
        side,
        filled,
        order_price=price,
        fill_price=fill,
        ordered=ordered,
        native=(row.fill_price, row.order_price, row.size, row.order_size),
    )


_LEVEL = spelled(Level[_SIZE], price="p", size="s")
# Sizes are contracts; the time is in seconds with a fraction.
_BOOK = spelled(
    Book[_LEVEL, float], bids="bids", asks="asks", time="update",  # type: ignore[valid-type]
)  # fmt: skip
book = books(_BOOK, "", _named, by="contract", unit="seconds")


_endpoint = partial(VenueEndpoint, "gateio")
_STATS = ("oi_history", "prices_history", "positioning_history", "volume_taker")
_SECONDS = Paging(descending=True, start="from", end="to", unit="s", limit=1000)


def _of_currency(
    settle: str, margin: Literal["linear", "inverse"], quote: str, **more: Any
) -> tuple[VenueEndpoint, ...]:
    """Return the requests about contracts that settle in a currency."""
    base = f"/futures/{settle}"
    of = partial(_endpoint, margin=margin, quote=quote, **more)
    return (
        of("funding", f"{base}/contracts", contracts, lists=settle != "usd1", every=60),
        of("funding", f"{base}/contracts/{{contract}}", contracts),
        of("tickers", f"{base}/tickers", tickers, tables=("oi_history", *PRICE_TABLES), every=60),
        of(
            "settlements", f"{base}/funding_rate", payments(_PAID, "", _named, by="contract", unit="seconds"),
            symbol="contract", paging=_SECONDS,
        ),
        of(
            "oi_history", f"{base}/contract_stats", contract_stats, tables=_STATS, params={"interval": "5m"},
            symbol="contract", paging=Paging(start="from", end="", unit="s", limit=1000),
        ),
        of(
            "liquidations", f"{base}/liq_orders", liquidations,
            paging=Paging(descending=True, start="from", end="to", unit="s", limit=1000, span_hours=1),
            every=60,
        ),
        of("book", f"{base}/order_book", book, params={"limit": "300", "with_id": "true"}, symbol="contract"),
    )  # fmt: skip


ENDPOINTS = (
    *_of_currency("usdt", "linear", "USDT"),
    *_of_currency("btc", "inverse", "USD"),
    # Settle currencies "usdt, btc, usd1": gate-api 7.2.161 (2026-10); no recorded body is known
    *_of_currency("usd1", "linear", "USD1", confirmed=False, note="no recorded body is known"),
    _endpoint(
        "margin_tiers", "/futures/usdt/risk_limit_tiers", gate_tiers(_named), symbol="contract",
        margin="linear",
    ),
    _endpoint("funding", "futures.tickers", partial(tickers, pushed=True), method="WS"),
    _endpoint("liquidations", "futures.liquidates", liquidation_frames, method="WS"),
    _endpoint("liquidations", "futures.public_liquidates", public_liquidations, method="WS"),
)  # fmt: skip


def _connections(_: Sequence[str], now: int) -> list[Socket]:
    """Return a connection for each settle currency, with all its contracts."""
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
    headers={"X-Gate-Size-Decimal": "1"},
    stream=Stream("futures.public_liquidates", _connections, b'"event":"update"', is_default=False),
    terms="API terms of 2025-10 are written for key holders; a clause on public data was not seen.",
    channel_at="channel",
)
