"""Readers for bodies with a common form, and for margin tiers and borrow rates.

A `path` has names in the body, such as ``result.list``; `named` parses the venue's names of contracts; `by`
are parameters with the contract if the rows lack it; `unit` is the format of times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec

from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import (
    BorrowRate,
    Instrument,
    Interval,
    Liquidation,
    MarginTier,
    OptionTrade,
    Quotes,
    Records,
)
from derivdata.sources.venues.wire import (
    NUMBER,
    Book,
    ContractRow,
    Figures,
    Greeks,
    LiquidationRow,
    LongShortRow,
    PaymentRow,
    Stamp,
    TradeRow,
    Wire,
)
from derivdata.tables.contracts import base

Reader = Callable[[Reading], Records]
Named = Callable[[str], Instrument]
Unit = Literal["ms", "seconds", "iso"]


def _next_page(reading: Reading, cursor: str) -> str | None:
    """Return the cursor of the next page at a path of the body; None without a path or a next page."""
    if not cursor:
        return None
    return reading.value(str | None, cursor, None) or None


def _requested_contract(reading: Reading, by: str) -> str:
    """Return the contract that the request names in a parameter, empty without such a parameter."""
    if not by:
        return ""
    return reading.requested(by)


def states(
    shape: type[Figures[Any, Any]],
    path: str,
    named: Named,
    *,
    hours: float | None = None,
    per_hour: float = 1.0,
    stamp: str = "",
    unit: Unit = "ms",
    pushed: bool = False,
) -> Reader:
    """Return a reader of the state of active contracts, one row each.

    The interval is `hours`, else the row's own (divided by `per_hour`), else that of another response.
    `stamp` is the path of the response's time.
    """

    def read(reading: Reading) -> Records:
        to_us = getattr(reading, unit)
        time = to_us(reading.value(Stamp, stamp)) if stamp else None
        records = Records()
        for row in reading.rows_of(shape, path, is_pushed=pushed):
            with reading.row():
                item = reading.instrument(row.name, named)
                stated = row.plain_hours or reading.number(row.hours) or 0.0
                interval = hours or stated / per_hour or reading.interval(item)
                if item.active:
                    records.states.append(reading.state(item, row, interval, time=time, unit=unit))
        return records

    return read


def payments(
    shape: type[PaymentRow[Any, Any]],
    path: str,
    named: Named,
    *,
    by: str = "",
    unit: Unit = "ms",
    period_h: float | None = None,
    per_hour: float = 1.0,
    cursor: str = "",
    more: str = "",
) -> Reader:
    """Return a reader of payments in any order.

    Rates are for `period_h` hours, None for the interval. Intervals that rows state are divided by
    `per_hour`. `cursor` and `more` are the paths of the next page's cursor and of whether there is one.
    """

    def read(reading: Reading) -> Records:
        rows = reading.rows(shape, path, or_null=True)
        names = [row.name for row in rows]
        if not all(names):
            requested = reading.requested(by)
            names = [name or requested for name in names]
        times = [row.time for row in rows]
        rates = [row.rate for row in rows]
        hours = [row.hours for row in rows]
        records = reading.payment_columns(
            names, times, rates, hours, named, period_h, unit=unit, per_hour=per_hour
        )
        if more and reading.value(bool, more, False):
            records.cursor = reading.value(str | None, cursor, None)
        return records

    return read


def options(
    shape: type[Greeks[Any, Any]], path: str, *, is_in_coin: Callable[[str], bool] = lambda _: False
) -> Reader:
    """Return a reader of options, one row each; `is_in_coin` returns whether its prices are in coin."""

    def read(reading: Reading) -> Records:
        records = Records()
        for row in reading.rows(shape, path):
            with reading.row():
                records.options.append(reading.quoted(row, in_coin=is_in_coin(row.name)))
        return records

    return read


def option_trades(
    shape: type[TradeRow[Any, Any, Any]],
    path: str,
    *,
    is_in_coin: Callable[[str], bool] = lambda _: False,
    percent: float = 1.0,
    coins: Callable[[Reading, str], float] = lambda *_: 1.0,
    is_block: bool = False,
    more: str = "",
) -> Reader:
    """Return a reader of option trades; `coins` is the contract size, and `more` the path of the next page.

    Sides are ``buy`` and ``sell``, or 1 and -1. A volatility of 0 is missing.
    """

    def read(reading: Reading) -> Records:
        number = reading.number
        records = Records()
        records.cursor = "more" if more and reading.value(bool, more) else None
        for row in reading.rows(shape, path):
            with reading.row():
                time = reading.ms(row.time)
                records.times.append(time)
                quotes = Quotes(is_in_coin(row.name), index_price=number(row.index_price))
                iv = number(row.iv) or None
                underlying = number(row.underlying) or None
                option = reading.option(
                    row.name, time, iv=iv and iv / percent, underlying=underlying, quotes=quotes
                )
                execution = "book"
                if is_block or row.block:
                    execution = "block"
                elif row.combo:
                    execution = "combo"
                side = reading.word(str(row.side), {"buy": "buy", "sell": "sell", "1": "buy", "-1": "sell"})
                amount = reading.required(row.amount)
                if amount < 0 and side == "buy":
                    reading.fail(f"expected a size above 0 of a purchase, got {amount:g}")
                size = abs(amount) * coins(reading, row.name)
                price = reading.required(row.price)
                records.trades.append(OptionTrade(option, str(row.id), side, execution, price, size))
        return records

    return read


def positioning(
    shape: type[LongShortRow[Any, Any]],
    path: str,
    named: Named,
    kind: str,
    *,
    by: str = "",
    unit: Unit = "ms",
    step: str = "period",
    ends: bool = True,
    cursor: str = "",
) -> Reader:
    """Return a reader of long/short data.

    `step` names the period, and `ends` means that data is stamped at its end.
    """

    def read(reading: Reading) -> Records:
        records = Records(cursor=_next_page(reading, cursor))
        resolution = reading.resolution(step)
        requested = _requested_contract(reading, by)
        for row in reading.rows(shape, path):
            with reading.row():
                item = reading.instrument(row.name or requested, named)
                stamp = getattr(reading, unit)(row.time)
                records.times.append(stamp)
                records.positioning += reading.positioning(item, stamp, row, kind, resolution, ends=ends)
        return records

    return read


def taker_volumes(
    shape: type[LongShortRow[Any, Any]], path: str, named: Named, *, by: str = "", step: str = "period"
) -> Reader:
    """Return a reader of contracts bought (`long`) and sold (`short`) by takers in steps, by their start."""

    def read(reading: Reading) -> Records:
        records = Records()
        requested = _requested_contract(reading, by)
        resolution = reading.resolution(step)
        for row in reading.rows(shape, path):
            with reading.row():
                item = reading.instrument(row.name or requested, named)
                start = reading.ms(row.time)
                records.times.append(start)
                records.taker_volumes += reading.taker_volumes(item, start, row.long, row.short, resolution)
        return records

    return read


_CANDLE_COLUMNS = 5
"""Minimum columns of a candle: its time, open, high, low and close."""


def candles(
    path: str,
    named: Named,
    kind: str,
    *,
    by: str,
    step: str,
    number_unit: str = "m",
    unit: Unit = "ms",
    opened: int = 1,
) -> Reader:
    """Return a reader of candles with the price at their start, at index `opened`.

    A step that is a number counts `number_unit` (``m`` or ``s``). Spot prices are returned for the contract
    in the context, and are multiplied by 1000 if the contract is for 1000 coins.
    """
    row: Any = Annotated[list[Any], msgspec.Meta(min_length=_CANDLE_COLUMNS)]

    def read(reading: Reading) -> Records:
        rows = reading.value(list[row], path)
        contract = None
        multiplier = 1
        if kind == "spot":
            contract = reading.context.named
        item = reading.instrument(contract or reading.requested(by), named)
        if kind == "spot":
            multiplier = base(item.symbol)[1]
        ms_per_unit = 1000 if unit == "seconds" else 1
        low = 3 if opened == 1 else 1  # columns: open, high, low, close; or low, high, open, close
        prices = []
        for candle in rows:
            price = reading.opening(candle[opened], candle[2], candle[low])
            prices.append((ms_per_unit * reading.required(candle[0]), multiplier * price))
        return reading.prices(prices, item, kind, reading.resolution(step, number_unit))

    return read


def books(
    shape: type[Book[Any, Any]], path: str, named: Named, *, by: str = "", unit: Unit = "ms", per: int = 1
) -> Reader:
    """Return a reader of books; times of the venue, divided by `per`, are in `unit`."""

    def read(reading: Reading) -> Records:
        records = Records()
        for row in reading.rows(shape, path):
            item = reading.instrument(row.name or reading.requested(by), named)
            time = None
            if row.time is not None:
                stamp = row.time if per == 1 else int(row.time) // per
                time = getattr(reading, unit)(stamp)
            records.books.append(reading.book(item, time, row.bids, row.asks))
        return records

    return read


def closed(
    shape: type[LiquidationRow[Any, Any]],
    path: str,
    named: Named,
    longs: Mapping[str, str],
    *,
    by: str = "",
    unit: Unit = "ms",
    only: str = "",
    filled: bool = False,
    cursor: str = "",
    pushed: bool = False,
) -> Reader:
    """Return a reader of liquidations; `longs` maps the venue's words to the side of the position.

    `only` is the word of a trade that is a liquidation. The price is that of the order, or of the fill if
    `filled`.
    """

    def read(reading: Reading) -> Records:
        rows = reading.rows_of(shape, path, is_pushed=pushed)
        name = _requested_contract(reading, by)
        records = closed_rows(reading, rows, named, longs, name=name, unit=unit, only=only, filled=filled)
        records.cursor = _next_page(reading, cursor)
        return records

    return read


def closed_rows(
    reading: Reading,
    rows: Iterable[LiquidationRow[Any, Any]],
    named: Named,
    longs: Mapping[str, str],
    *,
    name: str = "",
    unit: Unit = "ms",
    only: str = "",
    filled: bool = False,
) -> Records:
    """Return the liquidations of rows; see `closed`."""
    records = Records()
    for row in rows:
        with reading.row():
            time = getattr(reading, unit)(row.time)
            records.times.append(time)
            if only and row.kind != only:
                continue
            item = reading.instrument(row.name or name, named)
            side = reading.word(row.side, longs)
            price = reading.required(row.price)
            order_id = row.id
            if not order_id and row.number is not None:
                order_id = f"{item.name}-{row.number}"
            records.liquidations.append(
                Liquidation.of(
                    item,
                    time,
                    side,
                    reading.required(row.amount),
                    order_price=None if filled else price,
                    fill_price=price if filled else None,
                    native=() if order_id else (row.price, row.amount),
                    order_id=order_id,
                )
            )
    return records


def contracts(
    shape: type[ContractRow[Any, Any, Any]],
    path: str,
    parse: Callable[[Reading, Any], Instrument | None],
    *,
    per_hour: float = 1.0,
    cursor: str = "",
) -> Reader:
    """Return a reader of contracts, with their intervals if rows state them (divided by `per_hour`).

    `parse` returns None for rows that are not contracts.
    """

    def read(reading: Reading) -> Records:
        records = Records(cursor=_next_page(reading, cursor))
        for row in reading.rows(shape, path):
            with reading.row():
                item = parse(reading, row)
                if item is None:
                    continue
                records.instruments.append(item)
                hours = reading.number(row.hours)
                if hours and (item.perpetual or item.expiry is None):
                    records.intervals.append(Interval(item, hours / per_hour))
        return records

    return read


_DAYS_PER_YEAR = 365.0
_HOURS_PER_YEAR = 8_760.0
_NO_TIER = "No VIP"  # Bybit's name for an account without a tier


class _OkxTier(Wire):
    tier: NUMBER
    instFamily: str
    maxSz: NUMBER
    imr: NUMBER
    mmr: NUMBER
    maxLever: NUMBER


class _GateTier(Wire):
    tier: NUMBER
    risk_limit: NUMBER
    initial_rate: NUMBER
    maintenance_rate: NUMBER
    leverage_max: NUMBER
    contract: str = ""


class _KucoinTier(Wire):
    symbol: str
    level: NUMBER
    maxRiskLimit: NUMBER
    initialMargin: NUMBER
    maintainMargin: NUMBER
    maxLeverage: NUMBER


class _BitgetTier(Wire):
    symbol: str
    level: NUMBER
    endUnit: NUMBER
    leverage: NUMBER
    keepMarginRate: NUMBER


_TIER_FIELDS: dict[type[Any], tuple[str, str, str, str, str]] = {
    _OkxTier: ("tier", "imr", "mmr", "maxLever", "maxSz"),
    _GateTier: ("tier", "initial_rate", "maintenance_rate", "leverage_max", "risk_limit"),
    _KucoinTier: ("level", "initialMargin", "maintainMargin", "maxLeverage", "maxRiskLimit"),
    _BitgetTier: ("level", "", "keepMarginRate", "leverage", "endUnit"),
}
"""Names of number, initial margin, maintenance margin, leverage and largest position of a tier."""


def okx_tiers(name_of: Named) -> Reader:
    """Return a reader of OKX's tiers, whose sizes are contracts of a family such as BTC-USDT.

    The size in coins needs the contract's size, from the list of contracts or as ``contract_size``.
    """

    def size(item: Instrument, contracts: float) -> tuple[float | None, float | None]:
        if item.size is None:
            return None, None
        if item.inverse:  # a contract is of USD
            return contracts * item.size, None
        return None, contracts * item.size

    return _tiers(_OkxTier, "data", lambda _, row: f"{row.instFamily}-SWAP", name_of, size)


def gate_tiers(name_of: Named) -> Reader:
    """Return a reader of Gate's tiers of contracts in USDT; a body of one contract does not name it."""

    def contract(reading: Reading, row: _GateTier) -> str:
        return row.contract or reading.requested("contract")

    return _tiers(_GateTier, "", contract, name_of, lambda _, limit: (limit, None))


def kucoin_tiers(name_of: Named) -> Reader:
    """Return a reader of KuCoin's tiers: limits are USDT, or coins of contracts that settle in coin."""

    def size(item: Instrument, limit: float) -> tuple[float | None, float | None]:
        if item.inverse:
            return None, limit
        return limit, None

    return _tiers(_KucoinTier, "data", lambda _, row: row.symbol, name_of, size)


def bitget_tiers(name_of: Named) -> Reader:
    """Return a reader of Bitget's tiers of contracts in USDT, which lack the initial margin."""
    return _tiers(_BitgetTier, "data", lambda _, row: row.symbol, name_of, lambda _, limit: (limit, None))


def _tiers(
    shape: type[Any],
    path: str,
    contract: Callable[[Reading, Any], str],
    name_of: Named,
    size: Callable[[Instrument, float], tuple[float | None, float | None]],
) -> Reader:
    """Return a reader of tiers.

    `contract` returns the name of a row's contract, and `size` its largest position in USD and in coins.
    """

    def read(reading: Reading) -> Records:
        records = Records()
        for row in reading.rows(shape, path):
            with reading.row():
                item = reading.instrument(contract(reading, row), name_of)
                limit = reading.required(getattr(row, _TIER_FIELDS[shape][4]))
                records.margin_tiers.append(_tier(reading, item, row, size(item, limit)))
        return records

    return read


def _tier(
    reading: Reading, item: Instrument, row: Any, size: tuple[float | None, float | None]
) -> MarginTier:
    """Return one tier; `size` is its largest position in USD and in coins."""
    number_name, initial_name, maintenance_name, leverage_name, _ = _TIER_FIELDS[type(row)]
    number = reading.required(getattr(row, number_name))
    leverage = reading.required(getattr(row, leverage_name))
    maintenance = reading.required(getattr(row, maintenance_name))
    initial = reading.required(getattr(row, initial_name)) if initial_name else None
    if not 0.0 < maintenance <= 1.0:
        reading.fail(f"{item.name}: expected a maintenance margin above 0 and up to 1, got {maintenance:g}")
    if initial is not None and initial < maintenance:
        reading.fail(
            f"{item.name}: the initial margin {initial:g} is below the maintenance margin {maintenance:g}"
        )
    return MarginTier(item, int(number), *size, initial, maintenance, leverage)


class _OkxLoan(Wire):
    ccy: str
    rate: NUMBER
    quota: NUMBER = None


class _OkxLoans(Wire):
    basic: list[_OkxLoan]


class _BybitLoan(Wire):
    currency: str
    hourlyBorrowRate: NUMBER
    borrowable: bool = True
    maxBorrowingAmount: NUMBER = None


class _BybitLevel(Wire):
    vipLevel: str
    loans: list[_BybitLoan] = msgspec.field(name="list")


def okx_loans(reading: Reading) -> Records:
    """Read OKX's basic rates, which are daily."""
    records = Records()
    for group in reading.value(list[_OkxLoans], "data"):
        for row in group.basic:
            with reading.row():
                rate = reading.required(row.rate) * _DAYS_PER_YEAR
                most = reading.number(row.quota)
                records.borrow_rates.append(BorrowRate(row.ccy, None, rate, most))
    return records


def bybit_loans(reading: Reading) -> Records:
    """Read Bybit's rates, which are hourly, for accounts without a tier and coins that it lends."""
    records = Records()
    for level in reading.value(list[_BybitLevel], "result.vipCoinList"):
        if level.vipLevel != _NO_TIER:
            continue
        for row in level.loans:
            if not row.borrowable or reading.number(row.hourlyBorrowRate) is None:
                continue
            with reading.row():
                rate = reading.required(row.hourlyBorrowRate) * _HOURS_PER_YEAR
                most = reading.number(row.maxBorrowingAmount)
                records.borrow_rates.append(BorrowRate(row.currency, None, rate, most))
    return records
