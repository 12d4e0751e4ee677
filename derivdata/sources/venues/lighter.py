"""Lighter uses three units for rates.

``/funding-rates`` gives a fraction per 8 hours (also of other venues); ``/fundings`` gives percent per hour
without a sign, which is in ``direction``, and the stream percent per hour with a sign. Open interest is coins
in REST and USD in the stream.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from derivdata.errors import SchemaError
from derivdata.sources.venues.endpoint import (
    PRICE_TABLES,
    RATE_TABLES,
    Paging,
    Socket,
    Stream,
    Venue,
    VenueEndpoint,
)
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Instrument, Liquidation, Records, State
from derivdata.sources.venues.wire import (
    Figures,
    Level,
    NumberedBody,
    Stamp,
    Wire,
    if_stated,
    keyed,
    refusal,
    spelled,
    step_of,
)
from derivdata.support.forking import DECODERS

_PERCENT = 100.0
_CENT = 0.01  # rounding of trade values [USD]


class _Fault(NumberedBody):
    success: ClassVar[int] = 200


def _of_market(reading: Reading, market: str) -> Instrument:
    """Return the contract of a market's number, which is only in the list of contracts."""
    for item in reading.context.instruments.values():
        if item.name.partition(":")[0] == market:
            return item
    if not market.isdecimal():
        return Instrument(market, market, "USDC", 1.0)
    return reading.fail(
        f"market {market} is not in context['instruments']: pass the list of /orderBookDetails"
    )


def _listed(market_id: int, symbol: str) -> Instrument:
    return Instrument(f"{market_id}:{symbol}", symbol, "USDC", 1.0)


class _Rate(Wire):
    market_id: int
    exchange: str
    symbol: str
    rate: float


def funding_rates(reading: Reading) -> Records:
    """Read running rates: a fraction per 8 hours, paid hourly; rows of other venues are ignored."""
    records = Records()
    for row in reading.rows(_Rate, "funding_rates"):
        if row.exchange == "lighter":
            records.states.append(State(_listed(row.market_id, row.symbol), None, row.rate, 8.0, 1.0))
    return records


class _Detail(Figures[float, int], kw_only=True):
    mark: str | float | None = None  # type: ignore[assignment]  # text among numbers
    index_price: str | float | None = None  # type: ignore[assignment]
    market_id: int
    kind: str | None = None
    status: str | None = None
    traded: float | None = None  # 24-hour volume in coins
    tick: int | None = None  # number of decimals
    step: int | None = None


_DETAIL = spelled(
    _Detail, name="symbol", market_id="market_id", kind="market_type", status="status", mark="mark_price",
    index_price="index_price", last="last_trade_price", price="last_trade_price",
    traded="daily_base_token_volume", volume_usd="daily_quote_token_volume", change_pct="daily_price_change",
    contracts="open_interest", tick="price_decimals", step="size_decimals",
)  # fmt: skip


def details(reading: Reading) -> Records:
    """Read contracts, marks, open interest in coins, and volume.

    Old bodies have no mark: there the last price values open interest. `mark_price` and `index_price` are in
    typed-lighter 0.3.0 (2026-10) and perp-md 0.5.3.
    """
    records = Records()
    means = list[float]()  # ratios of the day's mean price to the last price
    for row in reading.rows(_DETAIL, "order_book_details", or_null=True):
        with reading.row():
            item = _listed(row.market_id, row.name)._replace(
                perpetual=row.kind in ("perp", None),
                active=row.status in ("active", None),
                tick=step_of(row.tick),
                step=step_of(row.step),
            )
            records.instruments.append(item)
            if not item.perpetual or not item.active:
                continue
            if row.last and row.volume_usd and row.traded:
                means.append(row.volume_usd / row.traded / row.last)
            records.states.append(reading.state(item, row))
    if means:  # the median is used, because a single coin may lose nine tenths in a day
        reading.require_close(statistics.median(means), 1.0, 0.9, "mean over last price, median coin")
    return records


class _Paid(Wire):
    timestamp: Stamp
    value: str
    rate: str
    direction: str


def fundings(reading: Reading) -> Records:
    """Read payments: percent per hour, positive where longs pay."""
    item = _of_market(reading, reading.requested("market_id"))
    rows = reading.rows(_Paid, "fundings")
    times = [row.timestamp for row in rows]
    try:
        rates = _signed(reading, rows)
    except SchemaError:  # some rows have another shape: read them one by one
        times = []
        rates = []
        for row in rows:
            with reading.row():
                rates += _signed(reading, [row])
                times.append(row.timestamp)
    names = [item.name] * len(times)
    hours = [None] * len(times)
    return reading.payment_columns(names, times, rates, hours, lambda _: item, 1.0, unit="seconds_or_ms")


_SIGNS = {"long": 1.0 / _PERCENT, "short": -1.0 / _PERCENT}


def _signed(reading: Reading, rows: list[_Paid]) -> list[float]:
    """Return rates as fractions, positive if longs pay."""
    rates = reading.numbers([row.rate for row in rows])
    if min(rates, default=0.0) < 0:
        reading.fail(f"expected rates without a sign, got {min(rates):g}")
    return [reading.word(row.direction, _SIGNS) * rate for row, rate in zip(rows, rates, strict=True)]


class _Stats(Figures[str, int], kw_only=True):
    market_id: int
    title: str | None = None
    traded: float | None = None
    moved: float | None = None


_STATS = spelled(
    _Stats, market_id="market_id", rate="current_funding_rate", index_price="index_price", mark="mark_price",
    last="last_trade_price", oi_usd="open_interest", traded="daily_quote_token_volume",
    moved="daily_price_change", title="symbol",
)  # fmt: skip


def market_stats(reading: Reading) -> Records:
    """Read pushed rates [percent per hour] and open interest [USD] of one market, or of several by number."""
    records = Records()
    if reading.place.endswith("/all"):
        frames = [[*rows.values()] for rows in reading.pushed(keyed(_STATS), "market_stats")]
    else:
        frames = [[row] for row in reading.pushed(_STATS, "market_stats")]
    stamps = reading.pushed(Stamp | None, "timestamp", None)
    for stamp, rows in zip(stamps, frames, strict=True):
        time = if_stated(reading.ms, stamp)
        for row in rows:
            with reading.row():
                records.states.append(_pushed_state(reading, row, time))
    return records


def _pushed_market(reading: Reading, row: _Stats) -> Instrument:
    """Return the contract of a frame by its symbol, or by the market's number alone."""
    if not row.title:
        return _of_market(reading, str(row.market_id))
    return _listed(row.market_id, row.title)


def _pushed_state(reading: Reading, row: _Stats, time: int | None) -> State:
    item = _pushed_market(reading, row)
    rate = reading.number(row.rate)
    hours = None
    if rate is not None:
        rate /= _PERCENT
        hours = 1.0
    return reading.state(item, row, hours, time=time, rate=rate, volume_usd=row.traded, change_pct=row.moved)


class _Trade(Wire):
    trade_id: int
    type: str
    market_id: int
    size: str
    price: str
    usd_amount: str
    is_maker_ask: bool
    timestamp: Stamp


_CLOSED_BY = {True: "short", False: "long"}
"""Side of the closed position, by whether the maker sold. A taker sell closed a long."""


class _TradeFrame(Wire):
    liquidation_trades: list[_Trade] | None


def trades(reading: Reading) -> Records:
    """Read liquidations of the stream, frames or single trades, or among the newest trades of a market."""
    rows: list[_Trade] = []
    if b'"liquidation_trades"' in reading.body:
        for frame in reading.frames(_TradeFrame):
            rows += frame.liquidation_trades or []
    elif reading.place == "/recentTrades":
        rows = reading.rows(_Trade, "trades")
    else:
        rows = reading.frames(_Trade)
    records = Records()
    for row in rows:
        with reading.row():
            records.times.append(reading.ms(row.timestamp))
            if row.type != "liquidation":
                continue
            coins = reading.required(row.size)
            price = reading.required(row.price)
            usd = reading.required(row.usd_amount)
            reading.require_close(coins * price, usd, 0.01, "size × price and usd_amount", step=_CENT)
            records.liquidations.append(
                Liquidation.of(
                    _of_market(reading, str(row.market_id)),
                    reading.ms(row.timestamp),
                    _CLOSED_BY[row.is_maker_ask],
                    coins,
                    fill_price=price,
                    value_usd=usd,
                    order_id=str(row.trade_id),
                )
            )
    return records


_ORDER = spelled(Level[str], price="price", size="remaining_base_amount")


class _Book(Wire):
    bids: list[_ORDER]  # type: ignore[valid-type]
    asks: list[_ORDER]  # type: ignore[valid-type]
    total_bids: int | None = None
    total_asks: int | None = None


_PAGES = Paging(
    descending=True,
    start="start_timestamp",
    end="end_timestamp",
    unit="s",
    limit=749,
    limit_name="",
)
"""The newest 749 payments between the bounds; `count_back` 0 requests all (typed-lighter 0.3.0, 2026-10).

Seconds were accepted on 2026-07-06 (lighter-data 0.1.0); the SDKs send milliseconds.
"""


def orders(reading: Reading) -> Records:
    """Read a book of single orders, added up by price; sizes are coins."""
    item = _of_market(reading, reading.requested("market_id"))
    body = reading.decode(_Book)
    for side, total in ((body.bids, body.total_bids), (body.asks, body.total_asks)):
        if total is not None and len(side) > total:
            reading.fail(f"expected {total} orders of a side, got {len(side)}")
    return Records(books=[reading.book(item, None, body.bids, body.asks, of_orders=True)])


_endpoint = partial(VenueEndpoint, "lighter")
ENDPOINTS = (
    _endpoint("funding", "/funding-rates", funding_rates, tables=RATE_TABLES, every=60),
    _endpoint("oi", "/orderBookDetails", details, tables=("oi_history", *PRICE_TABLES), lists=True, every=60),
    _endpoint(
        "settlements", "/fundings", fundings, params={"resolution": "1h", "count_back": "0"},
        symbol="market_id", paging=_PAGES,
    ),
    _endpoint("book", "/orderBookOrders", orders, params={"limit": "250"}, symbol="market_id"),
    _endpoint("funding", "market_stats/{market_id}", market_stats, method="WS"),
    _endpoint("funding", "market_stats/all", market_stats, method="WS"),
    _endpoint(
        "liquidations", "/recentTrades", trades, symbol="market_id", confirmed=False,
        note="the newest 100 trades of a market, no window",
        paging=Paging(descending=True, start="", end="", limit=100),
    ),
    _endpoint("liquidations", "trade/{market_id}", trades, method="WS"),
)  # fmt: skip

SOCKET = "wss://mainnet.zklighter.elliot.ai/stream"
_CHANNELS = 100  # maximum number of channels per connection


class _Ping(Wire):
    type: str = ""


def answer(frame: bytes) -> str | None:
    """Return the pong to a ping."""
    if DECODERS[_Ping].decode(frame).type != "ping":
        return None
    return '{"type":"pong"}'


def _connections(names: Sequence[str], _: int) -> list[Socket]:
    """Return connections with a channel for each market."""
    messages = [f'{{"type":"subscribe","channel":"trade/{name.partition(":")[0]}"}}' for name in names]
    starts = range(0, len(messages), _CHANNELS)
    return [Socket(SOCKET, messages[start : start + _CHANNELS]) for start in starts]


VENUE = Venue(
    "lighter",
    "https://mainnet.zklighter.elliot.ai/api/v1",
    ENDPOINTS,
    refusal(_Fault, {429: "limit", 23000: "limit", 30009: "limit"}.get),
    budget=0.25,
    socket=SOCKET,
    stream=Stream("trade/{market_id}", _connections, b'"liquidation_trades"', answer),
    hourly=True,
    channel_at="channel",
)
