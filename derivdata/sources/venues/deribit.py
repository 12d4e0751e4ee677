"""Deribit v2: perpetuals and options.

Open interest and sizes of inverse futures are in USD, of linear futures and options in coins. ``interest_1h``
is the payment of an hour; ``interest_8h`` is the sum of the last eight. Volatilities are in percent.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from itertools import accumulate, repeat
from typing import Any

from derivdata.sources.venues.endpoint import DATED, STATE_TABLES, Paging, Venue, VenueEndpoint
from derivdata.sources.venues.readers import contracts, option_trades
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import (
    Delivery,
    IndexPoint,
    Instrument,
    Liquidation,
    Payment,
    Price,
    Records,
    from_columns,
)
from derivdata.sources.venues.wire import (
    Book,
    ContractRow,
    Figures,
    Greeks,
    RefusedBody,
    Stamp,
    TradeRow,
    Wire,
    expiry_in,
    refusal,
    spelled,
)
from derivdata.support import times

_REASONS = {10028: "limit", 11051: "busy", 10040: "busy", 10041: "busy", 10047: "limit", 13028: "busy"}


def _named(name: str) -> Instrument:
    """Parse a contract name: BTC-27DEC24 (inverse, USD) or SOL_USDC-PERPETUAL (linear, coins)."""
    base, _, rest = name.partition("-")
    coin, _, quote = base.partition("_")
    plain = Instrument(name, coin, quote or "USD", 1.0, inverse=quote == "", perpetual=rest == "PERPETUAL")
    return plain._replace(expiry=expiry_in(rest))


def _item(reading: Reading, name: str) -> Instrument:
    """Return a contract for amounts in USD or coins, which the venue never has in contracts.

    ``contract_size`` of the instrument list is a step of orders (10 USD of BTC-PERPETUAL), not a factor.
    """
    return reading.instrument(name, _named)._replace(size=1.0)


_SUMMARY = spelled(
    Figures[float, int], name="instrument_name", time="creation_timestamp", contracts="open_interest",
    mark="mark_price", volume_usd="volume_usd", rate="funding_8h", index_price="estimated_delivery_price",
    last="last", change_pct="price_change",
)  # fmt: skip
_OPTION_SUMMARY = spelled(
    Greeks[float, int], name="instrument_name", time="creation_timestamp", open_interest="open_interest",
    underlying="underlying_price", bid="bid_price", ask="ask_price", mark="mark_price", volume="volume",
    index_price="estimated_delivery_price", iv="mark_iv", interest_rate="interest_rate",
)  # fmt: skip


def future_summaries(reading: Reading) -> Records:
    """Read rates of the last 8 hours, open interest, prices and volume of a currency's futures."""
    return _futures(reading, reading.rows(_SUMMARY, "result"))


def _futures(reading: Reading, rows: list[Figures[float, int]]) -> Records:
    """Return the states of futures; a rate of 8 hours is realised in each hour."""
    records = Records()
    for row in rows:
        with reading.row():
            item = _item(reading, row.name)
            records.states.append(reading.state(item, row, 8.0, settle_h=1.0 if item.perpetual else None))
    return records


def option_summaries(reading: Reading) -> Records:
    """Read the chain of a currency, without greeks."""
    return _options(reading, reading.rows(_OPTION_SUMMARY, "result"))


def _options(reading: Reading, rows: list[Greeks[float, int]]) -> Records:
    """Return options; raise if their median volatility is below 3 % or above 1,000 %."""
    options = []
    for row in rows:
        with reading.row():
            options.append(reading.quoted(row, in_coin="_" not in row.name, percent=100))
    volatilities = [option.iv for option in options if option.iv]
    if volatilities and not 0.03 <= statistics.median(volatilities) <= 10:
        reading.fail(f"a volatility of {statistics.median(volatilities):g} times 100 is not in percent")
    return Records(options=options)


_TICKER = spelled(
    Figures[float, int], name="instrument_name", time="timestamp", contracts="open_interest",
    mark="mark_price", index_price="index_price", last="last_price", rate="funding_8h",
    volume_usd="stats.volume_usd", change_pct="stats.price_change", required=("contracts",),
)  # fmt: skip
_OPTION_TICKER = spelled(
    Greeks[float, int], name="instrument_name", time="timestamp", open_interest="open_interest", iv="mark_iv",
    delta="greeks.delta", gamma="greeks.gamma", vega="greeks.vega", theta="greeks.theta", rho="greeks.rho",
    underlying="underlying_price", bid="best_bid_price", ask="best_ask_price", mark="mark_price",
    index_price="index_price", volume="stats.volume", interest_rate="interest_rate",
)  # fmt: skip


class _Head(Wire):
    instrument_name: str


def _tickers(rows: Callable[..., Any], path: str, reading: Reading) -> Records:
    """Return the rows of tickers: of futures, or of options with greeks."""
    if all(row.instrument_name.endswith(("-C", "-P")) for row in rows(_Head, path)):
        return _options(reading, rows(_OPTION_TICKER, path))
    return _futures(reading, rows(_TICKER, path))


def ticker_frames(reading: Reading) -> Records:
    """Read tickers of the stream."""
    return _tickers(reading.pushed, "params.data", reading)


def ticker(reading: Reading) -> Records:
    """Read one ticker."""
    return _tickers(reading.rows, "result", reading)


_HOUR_MS = 3_600_000
_MIN_SUMS = 12
_MAX_SUMS = 48
_SUM_FACTOR = 4.0  # a wrong period gives 8


class _Paid(Wire):
    timestamp: Stamp
    interest_1h: float
    interest_8h: float
    index_price: float | None = None


def funding_history(reading: Reading) -> Records:
    """Read the payment of each hour, and the index price at its end."""
    item = reading.instrument(reading.requested("instrument_name"), _named)
    rows = reading.rows(_Paid, "result")
    stamps = reading.timestamps([row.timestamp for row in rows], "ms")
    rates = [row.interest_1h for row in rows]
    indices = [row.index_price for row in rows]
    payments = from_columns(Payment, repeat(item), stamps, rates, repeat(1.0), repeat(None))
    prices = from_columns(Price, repeat(item), stamps, repeat("index"), indices, repeat("1h"))
    if None in indices:
        prices = [row for row in prices if row.price is not None]
    _require_sums(reading, rows)
    return Records(payments=payments, prices=prices, times=stamps)


def _require_sums(reading: Reading, rows: list[_Paid]) -> None:
    """Raise if the median sum of 8 hourly payments differs by a factor from the median stated sum."""
    by_time = sorted(rows[:_MAX_SUMS], key=lambda row: row.timestamp)
    stamps = [int(row.timestamp) for row in by_time]
    cumulative = [0.0, *accumulate(row.interest_1h for row in by_time)]
    sums_of_eight = []
    stated_sums = []
    for last in range(7, len(by_time)):
        first = last - 7
        if stamps[last] - stamps[first] == 7 * _HOUR_MS:
            sums_of_eight.append(abs(cumulative[last + 1] - cumulative[first]))
            stated_sums.append(abs(by_time[last].interest_8h))
    if len(stated_sums) < _MIN_SUMS:
        return
    added = statistics.median(sums_of_eight)
    stated = statistics.median(stated_sums)
    if added > 0 and stated > 0 and not 1 / _SUM_FACTOR < added / stated < _SUM_FACTOR:
        reading.fail(
            f"the median sum of 8 interest_1h is {added:.3g}, but the median interest_8h is {stated:.3g}; "
            "expected sums of the same payments"
        )


class _Trade(Wire):
    trade_id: str
    instrument_name: str
    timestamp: Stamp
    direction: str
    price: float
    amount: float
    liquidation: str | None = None


def trades(reading: Reading) -> Records:
    """Read liquidations among trades: of the taker (T), the maker (M), or both (MT: two rows)."""
    records = _liquidated(reading, reading.rows(_Trade, "result.trades"))
    records.cursor = "more" if reading.value(bool, "result.has_more") else None
    return records


def trade_frames(reading: Reading) -> Records:
    """Read liquidations among pushed trades, whose rows have the form of requested trades."""
    return _liquidated(reading, reading.pushed(_Trade, "params.data"))


_OTHER_SIDE = {"long": "short", "short": "long"}


def _liquidated(reading: Reading, rows: list[_Trade]) -> Records:
    """Return the liquidations among trades, and the times of all trades."""
    records = Records()
    for row in rows:
        with reading.row():
            time = reading.ms(row.timestamp)
            records.times.append(time)
            taker = reading.word(row.direction, {"sell": "long", "buy": "short"})
            if row.liquidation is None:
                continue
            item = _item(reading, row.instrument_name)
            maker = _OTHER_SIDE[taker]
            sides = reading.word(
                row.liquidation, {"T": [taker], "M": [maker], "MT": [taker, maker], "TM": [taker, maker]}
            )
            for side in sides:
                order_id = f"{row.trade_id}-{side}"
                records.liquidations.append(
                    Liquidation.of(item, time, side, row.amount, fill_price=row.price, order_id=order_id)
                )
    return records


_OPTION_TRADE = spelled(
    TradeRow[float, int, str | int], name="instrument_name", time="timestamp", id="trade_id",
    side="direction", price="price", amount="amount", iv="iv", index_price="index_price",
    block="block_trade_id", combo="combo_id",
)  # fmt: skip


class _Delivered(Wire):
    date: str
    delivery_price: float


def delivery_prices(reading: Reading) -> Records:
    """Read the prices of an index at 08:00 UTC, the newest first: its mean over the half hour before."""
    symbol, _, quote = reading.requested("index_name").upper().partition("_")
    rows = reading.rows(_Delivered, "result.data")
    times = [reading.iso(f"{row.date}T08:00:00Z") for row in rows]
    deliveries = [
        Delivery(symbol, time, row.delivery_price, f"index:{quote}")
        for time, row in zip(times, rows, strict=True)
    ]
    offset = int(reading.params.get("offset") or 0) + len(rows)
    has_more = rows and offset < reading.value(int, "result.records_total")
    return Records(deliveries=deliveries, times=times, cursor=str(offset) if has_more else None)


def volatility_index(reading: Reading) -> Records:
    """Read DVOL [%]: the last value of each completed candle, at the candle's end."""
    symbol = reading.requested("currency")
    resolution = reading.resolution("resolution", "s")
    if resolution not in times.RESOLUTIONS:
        reading.fail("the request lacks the step of candles: add ?resolution=3600")
    records = Records()
    for stamp, *_, last in reading.value(list[tuple[int, float, float, float, float]], "result.data"):
        start = reading.ms(stamp)
        records.times.append(start)
        if reading.has_ended(start, resolution):
            end = start + times.us(times.RESOLUTIONS[resolution])
            records.indices.append(IndexPoint(symbol, end, last, resolution))
    return records


class _Contract(ContractRow[float, int, bool]):
    type: str = ""
    former_type: str = ""  # former name of the field, until about 2022
    settles: str = ""
    strike: float | None = None


_CONTRACT = spelled(
    _Contract, name="instrument_name", kind="kind", symbol="base_currency", quote="quote_currency",
    status="is_active", size="contract_size", type="instrument_type", former_type="future_type",
    settles="settlement_period", stage="underlying_type", strike="strike", expiry="expiration_timestamp",
    listed="creation_timestamp", tick="tick_size", step="min_trade_amount",
)  # fmt: skip


def _contract(reading: Reading, row: _Contract) -> Instrument | None:
    """Return a future or an option; ``contract_size`` of a reversed future is in USD.

    Bodies before 2022 do not mark reversed futures: these settle in their own coin.
    """
    if row.kind not in ("future", "option"):
        return None
    type_of_future = row.type or row.former_type
    is_reversed = _named(row.name).inverse
    if type_of_future:
        is_reversed = type_of_future == "reversed"
    return reading.contract(
        row,
        inverse=row.kind == "future" and is_reversed,
        perpetual=row.kind == "future" and row.settles == "perpetual",
        active=row.status and row.stage != "preipo",
        strike=row.strike,
    )


class _Snapshot(Wire):
    type: str
    instrument_name: str
    timestamp: Stamp
    bids: list[tuple[str, float, float]]
    asks: list[tuple[str, float, float]]


def book_frames(reading: Reading) -> Records:
    """Read books of the stream: levels are an action, a price and a size."""
    records = Records()
    for body in reading.pushed(_Snapshot, "params.data"):
        reading.require_snapshot(body.type)
        item = _named(body.instrument_name)
        bids, asks = ([row[1:] for row in side] for side in (body.bids, body.asks))
        records.books.append(reading.book(item, reading.ms(body.timestamp), bids, asks))
    return records


_BOOK = spelled(
    Book[tuple[float, float], int], name="instrument_name", time="timestamp", bids="bids", asks="asks"
)


def book(reading: Reading) -> Records:
    """Read a book: USD of inverse contracts, coins of linear ones."""
    (body,) = reading.rows(_BOOK, "result")
    item = _item(reading, body.name)
    return Records(books=[reading.book(item, reading.ms(body.time), body.bids, body.asks)])


_endpoint = partial(VenueEndpoint, "deribit")
_CURRENCIES = ("BTC", "ETH", "USDC", "USDT")
_SUMMARIES = "/public/get_book_summary_by_currency"

ENDPOINTS = (
    _endpoint(
        "instruments", "/public/get_instruments", contracts(_CONTRACT, "result", _contract),
        params={"currency": "any", "expired": "false"}, weight=10, lists=True,
    ),
    _endpoint(
        "funding", f"{_SUMMARIES}?kind=future", future_summaries,
        tables=(*STATE_TABLES, DATED), symbol="currency", every=60, symbol_values=_CURRENCIES,
    ),
    _endpoint(
        "chain", f"{_SUMMARIES}?kind=option", option_summaries, symbol="currency", every=300,
        symbol_values=_CURRENCIES[:3],
    ),
    _endpoint(
        "settlements", "/public/get_funding_rate_history", funding_history,
        tables=("funding_settlements", "prices_history"), symbol="instrument_name",
        paging=Paging(start="start_timestamp", end="end_timestamp", limit=744, limit_name="", span_hours=744),
    ),
    _endpoint("book", "/public/get_order_book", book, params={"depth": "1000"}, symbol="instrument_name"),
    _endpoint(
        "liquidations", "/public/get_last_trades_by_currency_and_time", trades,
        params={"kind": "future", "sorting": "asc"}, symbol="currency", every=60, symbol_values=_CURRENCIES,
        paging=Paging(start="start_timestamp", end="end_timestamp", limit=1000, limit_name="count"),
    ),
    _endpoint(
        "option_trades", "/public/get_last_trades_by_currency_and_time?kind=option",
        option_trades(
            _OPTION_TRADE, "result.trades", is_in_coin=lambda name: "_" not in name, percent=100,
            more="result.has_more",
        ),
        host="https://history.deribit.com/api/v2", params={"sorting": "asc"}, symbol="currency",
        paging=Paging(start="start_timestamp", end="end_timestamp", limit=10_000, limit_name="count"),
        note="all since 2016, seconds late; a response has up to 10,000 rows, although the page states 1,000",
    ),
    _endpoint(
        "deliveries", "/public/get_delivery_prices", delivery_prices, symbol="index_name",
        paging=Paging(
            by="cursor", descending=True, start="", end="", limit=1000, limit_name="count", cursor="offset"
        ),
    ),
    _endpoint(
        "volatility_index", "/public/get_volatility_index_data", volatility_index,
        params={"resolution": "3600"}, symbol="currency",
        paging=Paging(
            descending=True, start="start_timestamp", end="end_timestamp", limit=1000, limit_name=""
        ),
    ),
    _endpoint(
        "instruments", "/public/get_instrument", contracts(_CONTRACT, "result", _contract),
        symbol="instrument_name", note="one instrument",
    ),
    *(
        _endpoint(what, "/public/ticker", ticker, tables=tables, symbol="instrument_name")
        for what, tables in (("funding", (*STATE_TABLES, DATED)), ("chain", ("options_snapshot",)))
    ),
    *(
        _endpoint("liquidations", f"trades.{{instrument_name}}.{step}", trade_frames, method="WS")
        for step in ("100ms", "raw")
    ),
    _endpoint("book", "book.{instrument_name}.100ms", book_frames, method="WS"),
    _endpoint("funding", "ticker.{instrument_name}.agg2", ticker_frames, method="WS"),
    *(
        _endpoint(what, f"ticker.{{instrument_name}}.{step}", ticker_frames, tables=tables, method="WS")
        for step in ("100ms", "raw")
        for what, tables in (("funding", (*STATE_TABLES, DATED)), ("chain", ("options_snapshot",)))
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
    channel_at="params.channel",
)
