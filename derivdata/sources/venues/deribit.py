"""Deribit v2: perpetuals and options.

Open interest and sizes of inverse futures are USD, of linear futures and options coins. ``interest_1h`` is
what was paid in an hour; ``interest_8h`` overlaps eightfold. Volatilities are in percent.
"""

from __future__ import annotations

import statistics
from functools import partial
from typing import Generic, TypeVar

import msgspec

from derivdata.sources.venues.endpoint import STATE_TABLES, Paging, Venue, VenueEndpoint
from derivdata.sources.venues.reading import Reading, RefusedBody, refusal
from derivdata.sources.venues.record_types import (
    Instrument,
    Liquidation,
    Option,
    Payment,
    Price,
    Quotes,
    Records,
    State,
)
from derivdata.sources.venues.wire import Data, Result, Wire

T = TypeVar("T")
_REASONS = {10028: "limit", 11051: "busy", 10040: "busy", 10041: "busy", 10047: "limit", 13028: "busy"}


def _named(name: str) -> Instrument:
    """Return the contract of a name: BTC-PERPETUAL (inverse, USD) or SOL_USDC-PERPETUAL (linear, coins)."""
    base, _, rest = name.partition("-")
    coin, _, quote = base.partition("_")
    return Instrument(name, coin, quote or "USD", 1.0, quote == "", rest == "PERPETUAL")


def _item(reading: Reading, name: str) -> Instrument:
    """Return a contract for amounts that the venue states in USD or coins, never in contracts.

    ``contract_size`` of the instrument list is a step of orders (10 USD of BTC-PERPETUAL) and no factor here.
    """
    return reading.instrument(name, _named)._replace(size=1.0)


class _Summary(Wire):
    instrument_name: str
    creation_timestamp: int
    open_interest: float | None = None
    mark_price: float | None = None
    volume_usd: float | None = None
    funding_8h: float | None = None
    current_funding: float | None = None
    estimated_delivery_price: float | None = None
    last: float | None = None
    price_change: float | None = None


def future_summaries(reading: Reading) -> Records:
    """Read rates of the last 8 hours, open interest, prices and volume of a currency's perpetuals."""
    states = []
    for row in reading.decode(Result[list[_Summary]]).result:
        item = _item(reading, row.instrument_name)
        if not item.perpetual or row.funding_8h is None:
            continue
        states.append(
            State(
                item,
                reading.ms(row.creation_timestamp),
                row.funding_8h,
                8.0,
                1.0,
                mark=row.mark_price,
                index_price=row.estimated_delivery_price,
                last=row.last,
                oi_usd=item.usd(row.open_interest, row.mark_price),
                oi_coins=item.coins(row.open_interest, row.mark_price),
                volume_usd=row.volume_usd,
                change_pct=row.price_change,
            )
        )
    return Records(states=states)


class _OptionSummary(Wire):
    instrument_name: str
    creation_timestamp: int
    open_interest: float | None = None
    underlying_price: float | None = None
    bid_price: float | None = None
    ask_price: float | None = None
    mark_price: float | None = None
    volume: float | None = None
    estimated_delivery_price: float | None = None
    mark_iv: float | None = None


def option_summaries(reading: Reading) -> Records:
    """Read the chain of a currency, which has no greeks; the volatility is in percent."""
    records = Records()
    for row in reading.decode(Result[list[_OptionSummary]]).result:
        quotes = Quotes(
            "_" not in row.instrument_name,
            row.bid_price or None,
            row.ask_price or None,
            row.mark_price,
            row.estimated_delivery_price,
            row.volume,
        )
        option = reading.option(
            row.instrument_name,
            reading.ms(row.creation_timestamp),
            iv=row.mark_iv / 100 if row.mark_iv else None,
            open_interest=row.open_interest,
            underlying=row.underlying_price or None,
            quotes=quotes,
        )
        records.options.append(option)
    _check_percent(reading, [option.iv for option in records.options if option.iv])
    return records


def _check_percent(reading: Reading, volatilities: list[float]) -> None:
    """Refuse a chain whose median is below 3 % or above 1,000 %: it is not in percent."""
    if volatilities and not 0.03 <= statistics.median(volatilities) <= 10:
        reading.fail(f"a volatility of {statistics.median(volatilities):g} times 100 is not in percent")


class _Frame(Wire, Generic[T]):
    """A frame of the stream."""

    params: Data[T]


class _Stats(Wire):
    price_change: float | None = None
    volume_usd: float | None = None
    volume: float | None = None


class _Ticker(Wire):
    instrument_name: str
    timestamp: int
    open_interest: float
    mark_price: float
    index_price: float
    last_price: float | None
    funding_8h: float
    current_funding: float
    stats: _Stats


class _Greeks(Wire):
    delta: float
    gamma: float
    vega: float
    theta: float
    rho: float | None = None


class _OptionTicker(Wire):
    instrument_name: str
    timestamp: int
    open_interest: float | None
    mark_iv: float | None
    greeks: _Greeks
    underlying_price: float | None = None
    best_bid_price: float | None = None
    best_ask_price: float | None = None
    mark_price: float | None = None
    index_price: float | None = None
    stats: _Stats | None = None


class _Head(Wire):
    instrument_name: str


def ticker_frames(reading: Reading) -> Records:
    """Read tickers of the stream: of perpetuals, or of options with greeks."""
    names = [frame.params.data.instrument_name for frame in reading.frames(_Frame[_Head])]
    if all(name.endswith(("-C", "-P")) for name in names):
        frames = reading.frames(_Frame[_OptionTicker])
        return Records(options=[_option(reading, frame.params.data) for frame in frames])
    return Records(states=[_state(reading, f.params.data) for f in reading.frames(_Frame[_Ticker])])


def ticker(reading: Reading) -> Records:
    """Read the ticker of one perpetual, or of one option with its greeks."""
    name = reading.decode(Result[_Head]).result.instrument_name
    if name.endswith(("-C", "-P")):
        return Records(options=[_option(reading, reading.decode(Result[_OptionTicker]).result)])
    return Records(states=[_state(reading, reading.decode(Result[_Ticker]).result)])


def _state(reading: Reading, row: _Ticker) -> State:
    item = _item(reading, row.instrument_name)
    if not item.perpetual:
        reading.fail(f"{row.instrument_name} is no perpetual")
    return State(
        item,
        reading.ms(row.timestamp),
        row.funding_8h,
        8.0,
        1.0,
        mark=row.mark_price,
        index_price=row.index_price,
        last=row.last_price,
        oi_usd=item.usd(row.open_interest, row.mark_price),
        oi_coins=item.coins(row.open_interest, row.mark_price),
        volume_usd=row.stats.volume_usd,
        change_pct=row.stats.price_change,
    )


def _option(reading: Reading, row: _OptionTicker) -> Option:
    iv = row.mark_iv / 100 if row.mark_iv else None
    _check_percent(reading, [] if iv is None else [iv])
    return reading.option(
        row.instrument_name,
        reading.ms(row.timestamp),
        iv=iv,
        **msgspec.structs.asdict(row.greeks),
        open_interest=row.open_interest,
        underlying=row.underlying_price or None,
        quotes=Quotes(
            "_" not in row.instrument_name,
            row.best_bid_price or None,
            row.best_ask_price or None,
            row.mark_price,
            row.index_price,
            None if row.stats is None else row.stats.volume,
        ),
    )


class _Paid(Wire):
    timestamp: int
    interest_1h: float
    interest_8h: float
    index_price: float | None = None


def funding_history(reading: Reading) -> Records:
    """Read what was paid in each hour, and the index price at its end."""
    item = reading.instrument(reading.asked("instrument_name"), _named)
    records = Records()
    for row in reading.decode(Result[list[_Paid]]).result:
        time = reading.ms(row.timestamp)
        records.times.append(time)
        records.payments.append(Payment(item, time, row.interest_1h, 1.0))
        if row.index_price is not None:
            records.prices.append(Price(item, time, "index", row.index_price, "1h"))
    return records


class _Trade(Wire):
    trade_id: str
    instrument_name: str
    timestamp: int
    direction: str
    price: float
    amount: float
    liquidation: str | None = None


class _Trades(Wire):
    trades: list[_Trade]
    has_more: bool


def trades(reading: Reading) -> Records:
    """Read liquidations among trades: of the taker (T), the maker (M), or both (MT: two rows)."""
    body = reading.decode(Result[_Trades]).result
    records = _liquidated(reading, body.trades)
    records.cursor = "more" if body.has_more else None
    return records


def trade_frames(reading: Reading) -> Records:
    """Read liquidations among the trades of the stream, whose rows are those of the requests."""
    frames = reading.frames(_Frame[list[_Trade]])
    return _liquidated(reading, [row for frame in frames for row in frame.params.data])


def _liquidated(reading: Reading, rows: list[_Trade]) -> Records:
    records = Records()
    for row in rows:
        time = reading.ms(row.timestamp)
        records.times.append(time)
        taker = reading.word(row.direction, {"sell": "long", "buy": "short"})
        if row.liquidation is None:
            continue
        item = _item(reading, row.instrument_name)
        maker = "short" if taker == "long" else "long"
        sides = reading.word(row.liquidation, {"T": [taker], "M": [maker], "MT": [taker, maker]})
        records.liquidations += [
            Liquidation.of(
                item, time, side, row.amount, fill_price=row.price, order_id=f"{row.trade_id}-{side}"
            )
            for side in sides
        ]
    return records


class _Listed(Wire):
    instrument_name: str
    kind: str
    base_currency: str
    quote_currency: str
    is_active: bool
    contract_size: float = 1.0
    instrument_type: str = ""
    settlement_period: str = ""
    underlying_type: str = ""
    strike: float | None = None
    expiration_timestamp: int | None = None


def instruments(reading: Reading) -> Records:
    """Read the list of instruments, or one of them; ``contract_size`` of a reversed future is USD."""
    rows = reading.decode(Result[list[_Listed] | _Listed]).result
    items = [
        Instrument(
            row.instrument_name,
            row.base_currency,
            row.quote_currency,
            row.contract_size,
            row.instrument_type == "reversed" and row.kind == "future",
            row.kind == "future" and row.settlement_period == "perpetual",
            row.is_active and row.underlying_type != "preipo",
            row.strike,
            None
            if row.expiration_timestamp is None or row.settlement_period == "perpetual"
            else reading.ms(row.expiration_timestamp),
        )
        for row in (rows if isinstance(rows, list) else [rows])
        if row.kind in ("future", "option")
    ]
    return Records(instruments=items)


class _Snapshot(Wire):
    type: str
    instrument_name: str
    timestamp: int
    bids: list[tuple[str, float, float]]
    asks: list[tuple[str, float, float]]


def book_frames(reading: Reading) -> Records:
    """Read books of the stream: levels are an action, a price and a size."""
    records = Records()
    for frame in reading.frames(_Frame[_Snapshot]):
        body = frame.params.data
        reading.require_snapshot(body.type)
        item = _named(body.instrument_name)
        bids, asks = ([row[1:] for row in side] for side in (body.bids, body.asks))
        records.books.append(reading.book(item, reading.ms(body.timestamp), bids, asks))
    return records


class _Book(Wire):
    instrument_name: str
    timestamp: int
    bids: list[tuple[float, float]]
    asks: list[tuple[float, float]]


def book(reading: Reading) -> Records:
    """Read a book: USD of inverse contracts, coins of linear ones."""
    body = reading.decode(Result[_Book]).result
    item = _item(reading, body.instrument_name)
    return Records(books=[reading.book(item, reading.ms(body.timestamp), body.bids, body.asks)])


_endpoint = partial(VenueEndpoint, "deribit")
_CURRENCIES = ("BTC", "ETH", "USDC", "USDT")
_FILLS = ("liquidations_fills",)
_SUMMARY = "/public/get_book_summary_by_currency"

ENDPOINTS = (
    _endpoint(
        "instruments", "/public/get_instruments", instruments, params={"currency": "any", "expired": "false"},
        weight=10, lists=True,
    ),
    _endpoint(
        "funding", f"{_SUMMARY}?kind=future", future_summaries, symbol="currency", every=60, each=_CURRENCIES,
    ),
    _endpoint(
        "chain", f"{_SUMMARY}?kind=option", option_summaries, symbol="currency", every=300,
        each=_CURRENCIES[:3],
    ),
    _endpoint(
        "settlements", "/public/get_funding_rate_history", funding_history,
        tables=("funding_settlements", "prices_history"), symbol="instrument_name",
        paging=Paging(start="start_timestamp", end="end_timestamp", limit=744, limit_name="", span_hours=744),
    ),
    _endpoint("book", "/public/get_order_book", book, params={"depth": "1000"}, symbol="instrument_name"),
    _endpoint(
        "liquidations", "/public/get_last_trades_by_currency_and_time", trades,
        params={"kind": "future", "sorting": "asc"}, symbol="currency", every=60, each=_CURRENCIES,
        paging=Paging(start="start_timestamp", end="end_timestamp", limit=1000, limit_name="count"),
    ),
    _endpoint(
        "instruments", "/public/get_instrument", instruments, symbol="instrument_name", note="one instrument",
    ),
    *(
        _endpoint(what, "/public/ticker", ticker, tables=tables, symbol="instrument_name")
        for what, tables in (("funding", STATE_TABLES), ("chain", ("options_snapshot",)))
    ),
    *(
        _endpoint("liquidations", f"trades.{{instrument_name}}.{step}", trade_frames, method="WS")
        for step in ("100ms", "raw")
    ),
    _endpoint("book", "book.{instrument_name}.100ms", book_frames, method="WS"),
    *(
        _endpoint(what, f"ticker.{{instrument_name}}.{step}", ticker_frames, tables=tables, method="WS")
        for step in ("100ms", "raw")
        for what, tables in (("funding", STATE_TABLES), ("chain", ("options_snapshot",)))
    ),
)  # fmt: skip

VENUE = Venue(
    "deribit",
    "https://www.deribit.com/api/v2",
    ENDPOINTS,
    refusal(RefusedBody, _REASONS.get),
    budget=2.0,
    socket="wss://www.deribit.com/ws/api/v2",
    terms='Terms of service, article 4.6 (2021-01-29): market data "for personal use only", no forwarding.',
    hourly=True,
)
