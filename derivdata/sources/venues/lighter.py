"""Lighter: three units for one rate.

``/funding-rates`` gives a fraction per 8 hours (also of other venues); ``/fundings`` percent per hour without
sign, which stands in ``direction``; the stream percent per hour with a sign. Open interest is coins in REST
and USD in the stream.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import partial
from typing import Generic, TypeVar

import msgspec

from derivdata.sources.venues.endpoint import (
    PRICE_TABLES,
    RATE_TABLES,
    Paging,
    Socket,
    Stream,
    Venue,
    VenueEndpoint,
)
from derivdata.sources.venues.reading import Fault, Reading, Refused, refusal
from derivdata.sources.venues.record_types import Instrument, Liquidation, Payment, Records, State
from derivdata.sources.venues.wire import Wire

T = TypeVar("T")
_PERCENT = 100.0


class _Fault(Wire):
    code: int | None = None
    message: str = ""
    error: Refused | None = None

    @property
    def fault(self) -> Fault:
        """Of an answer its code, of a frame its error."""
        if self.code not in (None, 200):
            return self.code, self.message
        return None if self.error is None else (self.error.code, self.error.message)


def _named(symbol: str) -> Instrument:
    return Instrument(symbol, symbol, "USDC", 1.0)


def _of_market(reading: Reading, market: str) -> Instrument:
    """Return the contract of a market's number, which only the list of contracts tells."""
    for item in reading.context.instruments.values():
        if item.name.partition(":")[0] == market:
            return item
    if not market.isdecimal():
        return _named(market)
    return reading.fail(
        f"market {market} is not among the instruments of the context: give /orderBookDetails"
    )


def _listed(market_id: int, symbol: str) -> Instrument:
    return Instrument(f"{market_id}:{symbol}", symbol, "USDC", 1.0)


class _Rate(Wire):
    market_id: int
    exchange: str
    symbol: str
    rate: float


class _Rates(Wire):
    code: int
    funding_rates: list[_Rate]


def funding_rates(reading: Reading) -> Records:
    """Read running rates: a fraction per 8 hours, paid hourly; rows of other venues are ignored."""
    rows = reading.decode(_Rates).funding_rates
    return Records(
        states=[
            State(_listed(row.market_id, row.symbol), None, row.rate, 8.0, 1.0)
            for row in rows
            if row.exchange == "lighter"
        ]
    )


class _Detail(Wire):
    symbol: str
    market_id: int
    market_type: str | None = None
    status: str | None = None
    last_trade_price: float | None = None
    daily_base_token_volume: float | None = None
    daily_quote_token_volume: float | None = None
    daily_price_change: float | None = None
    open_interest: float | None = None


class _Details(Wire):
    code: int
    order_book_details: list[_Detail]


def details(reading: Reading) -> Records:
    """Read contracts, open interest in coins at the last price, and volume."""
    records, means = Records(), list[float]()  # of the day over the last price
    for row in reading.decode(_Details).order_book_details:
        item = _listed(row.market_id, row.symbol)._replace(
            perpetual=row.market_type in ("perp", None), active=row.status in ("active", None)
        )
        records.instruments.append(item)
        if not item.perpetual or not item.active:
            continue
        last, volume, traded = row.last_trade_price, row.daily_quote_token_volume, row.daily_base_token_volume
        if last and volume and traded:
            means.append(volume / traded / last)
        records.states.append(
            State(
                item,
                None,
                last=last,
                price=last,
                oi_usd=item.usd(row.open_interest, last),
                oi_coins=row.open_interest,
                volume_usd=volume,
                change_pct=row.daily_price_change,
            )
        )
    if means:  # a single coin may well lose nine tenths in a day
        reading.require_close(statistics.median(means), 1.0, 0.9, "mean over last price, median coin")
    return records


class _Paid(Wire):
    timestamp: int
    value: str
    rate: str
    direction: str


class _PaidBody(Wire):
    code: int
    fundings: list[_Paid]


def fundings(reading: Reading) -> Records:
    """Read payments: percent per hour, positive where longs pay."""
    item = _of_market(reading, reading.asked("market_id"))
    records = Records()
    for row in reading.decode(_PaidBody).fundings:
        time = reading.seconds(row.timestamp)
        sign = reading.word(row.direction, {"long": 1.0, "short": -1.0})
        rate = reading.required(row.rate)
        if rate < 0:
            reading.fail(f"a rate of {row.rate}, which is known to have no sign")
        records.add_past(Payment(item, time, sign * rate / _PERCENT, 1.0))
    return records


class _Stats(Wire):
    market_id: int
    current_funding_rate: str | None = None
    symbol: str | None = None
    index_price: str | None = None
    mark_price: str | None = None
    last_trade_price: str | None = None
    open_interest: str | None = None
    daily_quote_token_volume: float | None = None
    daily_price_change: float | None = None


class _StatsFrame(Wire, Generic[T]):
    market_stats: T
    timestamp: int | None = None


def market_stats(reading: Reading) -> Records:
    """Read the stream of one market: percent per hour, open interest in USD."""
    return _stats(reading, [(f.timestamp, f.market_stats) for f in reading.frames(_StatsFrame[_Stats])])


def all_market_stats(reading: Reading) -> Records:
    """Read the stream of all markets, by their numbers; a frame may have a few of them."""
    frames = reading.frames(_StatsFrame[dict[str, _Stats]])
    return _stats(reading, [(f.timestamp, row) for f in frames for row in f.market_stats.values()])


def _stats(reading: Reading, rows: list[tuple[int | None, _Stats]]) -> Records:
    records = Records()
    for stamp, row in rows:
        item = (
            _of_market(reading, str(row.market_id))
            if row.symbol is None
            else _listed(row.market_id, row.symbol)
        )
        rate = reading.number(row.current_funding_rate)
        hours = None if rate is None else 1.0
        records.states.append(
            State(
                item,
                None if stamp is None else reading.ms(stamp),
                None if rate is None else rate / _PERCENT,
                hours,
                hours,
                mark=reading.number(row.mark_price),
                index_price=reading.number(row.index_price),
                last=reading.number(row.last_trade_price),
                oi_usd=reading.number(row.open_interest),
                volume_usd=row.daily_quote_token_volume,
                change_pct=row.daily_price_change,
            )
        )
    return records


class _Trade(Wire):
    trade_id: int
    type: str
    market_id: int
    size: str
    price: str
    usd_amount: str
    is_maker_ask: bool
    timestamp: int


class _TradeFrame(Wire):
    liquidation_trades: list[_Trade] | None


def trades(reading: Reading) -> Records:
    """Read liquidations of the stream, frames or single trades: a taker that sold closed a long."""
    rows: list[_Trade] = []
    if b'"liquidation_trades"' in reading.body:
        for frame in reading.frames(_TradeFrame):
            rows += frame.liquidation_trades or []
    else:
        rows = reading.frames(_Trade)
    return _liquidated(reading, rows)


class _RecentTrades(Wire):
    code: int
    trades: list[_Trade]


def recent_trades(reading: Reading) -> Records:
    """Read liquidations among the newest trades of a market."""
    return _liquidated(reading, reading.decode(_RecentTrades).trades)


def _liquidated(reading: Reading, rows: list[_Trade]) -> Records:
    records = Records()
    for row in rows:
        records.times.append(reading.ms(row.timestamp))
        if row.type != "liquidation":
            continue
        coins, price = reading.required(row.size), reading.required(row.price)
        usd = reading.required(row.usd_amount)
        reading.require_close(coins * price, usd, 0.01, "size × price and usd_amount")
        side = "short" if row.is_maker_ask else "long"
        records.liquidations.append(
            Liquidation.of(
                _of_market(reading, str(row.market_id)),
                reading.ms(row.timestamp),
                side,
                coins,
                fill_price=price,
                value_usd=usd,
                order_id=str(row.trade_id),
            )
        )
    return records


class _Order(Wire):
    remaining_base_amount: str
    price: str


class _Orders(Wire):
    code: int
    bids: list[_Order]
    asks: list[_Order]


def orders(reading: Reading) -> Records:
    """Read a book of single orders, added up by price; sizes are coins."""
    body = reading.decode(_Orders)
    item = _of_market(reading, reading.asked("market_id"))
    bids, asks = ([(row.price, row.remaining_base_amount) for row in side] for side in (body.bids, body.asks))
    return Records(books=[reading.book(item, None, bids, asks)])


_endpoint = partial(VenueEndpoint, "lighter")
_PAGES = Paging(
    descending=True,
    start="start_timestamp",
    end="end_timestamp",
    unit="s",
    limit=500,
    limit_name="count_back",
)

ENDPOINTS = (
    _endpoint("funding", "/funding-rates", funding_rates, tables=RATE_TABLES, every=60),
    _endpoint("oi", "/orderBookDetails", details, tables=("oi_history", *PRICE_TABLES), lists=True, every=60),
    _endpoint(
        "settlements", "/fundings", fundings, params={"resolution": "1h"}, symbol="market_id", paging=_PAGES,
    ),
    _endpoint("book", "/orderBookOrders", orders, params={"limit": "250"}, symbol="market_id"),
    _endpoint("funding", "market_stats/{market_id}", market_stats, method="WS"),
    _endpoint("funding", "market_stats/all", all_market_stats, method="WS"),
    _endpoint(
        "liquidations", "/recentTrades", recent_trades, symbol="market_id", confirmed=False,
        note="the newest 100 trades of a market, no window",
        paging=Paging(descending=True, start="", end="", limit=100),
    ),
    _endpoint("liquidations", "trade/{market_id}", trades, method="WS"),
)  # fmt: skip

_SOCKET = "wss://mainnet.zklighter.elliot.ai/stream"
_CHANNELS = 100  # of one connection, at most


class _Ping(Wire):
    type: str = ""


_PINGS = msgspec.json.Decoder(_Ping)


def _answer(frame: bytes) -> str | None:
    """Return the pong to a ping."""
    return '{"type":"pong"}' if _PINGS.decode(frame).type == "ping" else None


def _connections(names: Sequence[str], _: int) -> list[Socket]:
    """Return connections with a channel for each market."""
    messages = [f'{{"type":"subscribe","channel":"trade/{name.partition(":")[0]}"}}' for name in names]
    parts = [messages[i : i + _CHANNELS] for i in range(0, len(messages), _CHANNELS)]
    return [Socket(_SOCKET, part) for part in parts]


VENUE = Venue(
    "lighter",
    "https://mainnet.zklighter.elliot.ai/api/v1",
    ENDPOINTS,
    refusal(_Fault, {429: "limit", 23000: "limit"}.get),
    budget=0.25,
    socket=_SOCKET,
    stream=Stream("trade/{market_id}", _connections, b'"liquidation_trades"', _answer),
    hourly=True,
)
