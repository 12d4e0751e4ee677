"""Convert records to tables: one contract per symbol, rates in bps per 8 hours, intervals from spacing."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise, repeat
from operator import attrgetter, itemgetter
from typing import Any, Protocol, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from derivdata import tables, units
from derivdata.errors import SchemaError
from derivdata.sources.venues.record_types import (
    BorrowRate,
    Delivery,
    IndexPoint,
    Instrument,
    Interval,
    Liquidation,
    MarginTier,
    OiBar,
    OiPoint,
    Option,
    OptionTrade,
    OrderBook,
    Payment,
    Positioning,
    Price,
    Quotes,
    Records,
    State,
    StatedRate,
    TakerVolume,
)
from derivdata.sources.venues.wire import stamps
from derivdata.tables.chains import snapshots
from derivdata.tables.contracts import hip3_contract
from derivdata.tables.payments import (
    HOUR_US,
    SOURCES,
    VALID_HOURS,
    assign_intervals,
    merge_payments,
    rates_of,
)
from derivdata.tables.schema import Column, Kind, Table, coded, repeated

_LISTED_INSTRUMENTS = tables.TABLES["instruments"]
INSTRUMENTS = replace(
    _LISTED_INSTRUMENTS,
    key=("exchange", "instrument_name"),
    columns={name: column for name, column in _LISTED_INSTRUMENTS.columns.items() if name != "time"}
    | {"position": Column(Kind.COUNT, "", "Place in the venue's list, from 0: some responses refer to it.")},
    order=("exchange", "position"),
)
"""The list of a venue in one body."""
INTERVALS = Table(
    name="intervals",
    key=("exchange", "instrument_name"),
    columns={
        name: tables.COLUMNS[name] for name in ("exchange", "instrument_name", "symbol", "interval_hours")
    },
    doc="Hours between the funding payments of a contract now.",
)
DEXES = Table(
    name="dexes",
    key=("exchange", "dex"),
    columns={
        "exchange": tables.COLUMNS["exchange"],
        "dex": Column(Kind.TEXT, "", "Name of a HIP-3 dex, which begins the names of its contracts."),
        "venue": Column(Kind.TEXT, "", "Slug under which its contracts are read: its own, or the venue's."),
    },
    doc="Dexes that others deploy on a venue.",
)
FUNDING_RATES = Table(
    name="funding_rates",
    key=("exchange", "instrument_name", "rate_kind"),
    columns={
        "exchange": tables.COLUMNS["exchange"],
        "instrument_name": tables.COLUMNS["instrument_name"],
        "rate_kind": tables.COLUMNS["rate_kind"],
        "symbol": tables.COLUMNS["symbol"],
        "time": tables.COLUMNS["time"],
        "settlement_time": tables.COLUMNS["settlement_time"],
        "rate_bps_8h": tables.COLUMNS["rate_bps_8h"],
        "rate_native": tables.COLUMNS["rate_native"],
        "interval_hours": tables.COLUMNS["interval_hours"],
    },
    doc="Funding rates by kind: settled, of the next settlement, and predicted.",
)
_INSTRUMENT_FIELDS = {
    "instrument_name": "name",
    "contract_size": "size",
    "symbol": "symbol",
    "strike": "strike",
    "is_inverse": "inverse",
    "is_perpetual": "perpetual",
    "is_active": "active",
    "tick": "tick",
    "step": "step",
}

_MIN_VOLATILITIES = 5
_VOLATILITY_RANGE = 0.03, 10.0
"""Allowed range of the median volatility."""


def _check_volatilities(values: Iterable[float | None]) -> None:
    """Raise for volatilities whose median is in another unit."""
    volatilities = [value for value in values if value is not None]
    if len(volatilities) >= _MIN_VOLATILITIES:
        middle = float(np.median(volatilities))
        if not _VOLATILITY_RANGE[0] <= middle <= _VOLATILITY_RANGE[1]:
            unit = "the venue may use another unit"
            raise SchemaError(f"the median of {len(volatilities)} volatilities is {middle:g}: {unit}")


def _field(rows: Iterable[Any], name: str) -> list[Any]:
    """Return a field of each row, such as ``rate`` or ``instrument.quote``."""
    return list(map(attrgetter(name), rows))


def _floats(rows: Iterable[Any], name: str) -> NDArray[np.float64]:
    """Return a field of each row as numbers; NaN if missing."""
    return np.array(_field(rows, name), dtype=np.float64)


def _same_fields(rows: Sequence[Any], names: str) -> dict[str, Any]:
    """Return some fields of rows as columns of the same names."""
    return {name: _field(rows, name) for name in names.split()}


def _optional_times(stamps_us: Sequence[int | None]) -> pd.DatetimeIndex:
    """Return timestamps [µs] as a column, NaT if missing."""
    missing = np.iinfo(np.int64).min  # NaT
    filled = np.array([missing if stamp is None else stamp for stamp in stamps_us], dtype=np.int64)
    return pd.DatetimeIndex(filled.view("M8[us]"), tz="UTC")


def options(rows: list[Option], at: int | None) -> dict[str, Any]:
    """Return the columns of ``options_snapshot``; `at` [µs] is the time of rows that have none."""
    _check_volatilities(row.iv for row in rows)
    quotes = [row.quotes or Quotes(False) for row in rows]
    return {
        **_same_fields(rows, "symbol strike side iv delta gamma vega theta rho open_interest interest_rate"),
        "volume": _field(quotes, "volume"),
        **_quoted_prices(quotes),
        "time": stamps(_field(rows, "time"), at),
        "quoted_at": _optional_times(_field(rows, "quoted_at")),
        "instrument_name": _field(rows, "name"),
        "expiry": stamps(_field(rows, "expiry"), None),
        "underlying_price": _field(rows, "underlying"),
        "index_price_usd": _field(quotes, "index_price"),
    }


def _quoted_prices(quotes: Sequence[Quotes]) -> dict[str, Any]:
    """Return bid, ask and mark in coin and in USD; each price is in one of the two columns."""
    is_in_coin = np.array(_field(quotes, "in_coin"), dtype=bool)
    columns = {}
    for name in ("bid", "ask", "mark"):
        prices = _floats(quotes, name)
        columns[f"{name}_coin"] = np.where(is_in_coin, prices, np.nan)
        columns[f"{name}_usd"] = np.where(is_in_coin, np.nan, prices)
    return columns


def trades(rows: list[OptionTrade]) -> dict[str, Any]:
    """Return the columns of ``options_trades``."""
    chain = options(_field(rows, "option"), None)
    names = "symbol time instrument_name expiry strike side iv index_price_usd underlying_price".split()
    is_in_coin = np.array([row.option.quotes is not None and row.option.quotes.in_coin for row in rows], bool)
    prices = _floats(rows, "price")
    return {
        **{name: chain[name] for name in names},
        **_same_fields(rows, "trade_id taker_side execution size"),
        "price_coin": np.where(is_in_coin, prices, np.nan),
        "price_usd": np.where(is_in_coin, np.nan, prices),
    }


def deliveries(rows: list[Delivery]) -> dict[str, Any]:
    """Return one price of each time and contract: all options of an expiry have the same."""
    first: dict[tuple[str, str, int], Delivery] = {}
    for row in rows:
        earlier = first.setdefault((row.symbol, row.contract, row.time), row)
        if earlier.price != row.price:
            what = f"{row.symbol} {row.contract}"
            raise SchemaError(
                f"{what} has two delivery prices at the same time: {earlier.price} and {row.price}"
            )
    prices = list(first.values())
    return {
        **_same_fields(prices, "symbol contract"),
        "time": stamps(_field(prices, "time"), None),
        "price_usd": _field(prices, "price"),
    }


def indices(rows: list[IndexPoint]) -> dict[str, Any]:
    """Return the columns of ``volatility_index_published``."""
    _check_volatilities(row.index_pct / 100 for row in rows)
    return {**_same_fields(rows, "symbol index_pct resolution"), "time": stamps(_field(rows, "time"), None)}


def instruments(items: list[Instrument], exchange: str) -> dict[str, Any]:
    """Return the columns of `INSTRUMENTS`; a list of Hyperliquid may have contracts of its dexes."""
    columns: dict[str, Any] = {
        "exchange": [hip3_contract(exchange, item.name)[0] for item in items],
        "quote": [item.quote or None for item in items],
        "multiplier": [float(tables.base(item.symbol)[1]) for item in items],
        "position": range(len(items)),
    }
    for column, name in _INSTRUMENT_FIELDS.items():
        columns[column] = _field(items, name)
    for name in ("expiry", "listed", "delisted"):
        columns[name] = _optional_times(_field(items, name))
    return columns


def intervals(records: Records) -> dict[str, Any]:
    """Return the columns of `INTERVALS`; a list takes precedence over a rate."""
    stated: dict[str, Interval] = {}
    for state in records.states:
        if state.settle_h is not None:
            stated[state.instrument.name] = Interval(state.instrument, state.settle_h)
    for interval in records.intervals:
        stated[interval.instrument.name] = interval
    return {
        "instrument_name": list(stated),
        "symbol": _field(stated.values(), "instrument.symbol"),
        "interval_hours": _field(stated.values(), "hours"),
    }


def funding_rates(exchange: str, records: Records, at: int | None) -> dict[str, Any]:
    """Return the columns of `FUNDING_RATES`: rates of a stated kind, and running ones with a settlement."""
    newest = {(row.venue, row.instrument.name, row.kind): row for row in records.rates}
    for state in records.states:
        key = (None, state.instrument.name, "next")
        if state.rate is not None and state.next_payment is not None and key not in newest:
            newest[key] = StatedRate(
                state.instrument,
                "next",
                state.rate,
                state.next_payment,
                state.time,
                state.period_h,
                state.settle_h,
            )
    rows = list(newest.values())
    period = _floats(rows, "period_h")
    hours = _floats(rows, "settle_h")
    rates = _floats(rows, "rate")
    return {
        "exchange": [row.venue or exchange for row in rows],
        "instrument_name": _field(rows, "instrument.name"),
        "symbol": _field(rows, "instrument.symbol"),
        "rate_kind": _field(rows, "kind"),
        "time": _optional_times([at if row.time is None else row.time for row in rows]),
        "settlement_time": _optional_times(_field(rows, "settlement")),
        "rate_bps_8h": units.convert(rates, "native", "bps_8h", hours=period),
        "rate_native": rates * hours / period,
        "interval_hours": hours,
    }


def dexes(exchange: str, names: list[str]) -> dict[str, Any]:
    """Return the columns of `DEXES`."""
    return {"dex": names, "venue": [hip3_contract(exchange, f"{name}:")[0] for name in names]}


# Maximum median of the rates of a body [bps/8h]: of 20 contracts or more, and of fewer.
_MIN_FOR_LOW_LIMIT = 20
_MAX_MEDIAN_BPS = 50.0
_MAX_MEDIAN_BPS_OF_FEW = 300.0
_MAX_RATE = 1.0  # of one payment, as a fraction
_LONGEST_HOURS = 24.0
# Minimum number of contracts to check the median mark, and its maximum ratio to the index.
_MIN_MARKS = 5
_MAX_MARK_RATIO = 2.0
_DEPTHS = (10.0, 25.0, 50.0, 100.0)  # distances from the mid price [bps]


ListedHours = Callable[[Instrument], float | None]


class _ContractRow(Protocol):
    @property
    def instrument(self) -> Instrument: ...


T = TypeVar("T", bound=_ContractRow)

LISTS = {table.name: table for table in (INSTRUMENTS, INTERVALS, DEXES, FUNDING_RATES)}
"""Tables with a row of each contract; an archive's `funding_rates` has one contract of each symbol."""


def frames(
    exchange: str,
    records: Records,
    names: Iterable[str],
    *,
    at: int | None = None,
    listed: ListedHours = lambda _: None,
    by_coin: bool = False,
) -> dict[str, pd.DataFrame]:
    """Return the tables of some records, including empty ones.

    `at` [µs] is the time of rows whose body has none; `listed` returns the interval [h] that the venue's list
    states for the newest payments of a contract.
    """
    makers: dict[str, Callable[[], dict[str, Any]]] = {
        "instruments": lambda: instruments(records.instruments, exchange),
        "intervals": lambda: intervals(records),
        "dexes": lambda: dexes(exchange, records.dexes),
        "funding_rates": lambda: funding_rates(exchange, records, at),
        "funding_history": lambda: _funding(records.states, at),
        "funding_settlements": lambda: _settlements(records.payments, listed),
        "oi_history": lambda: _oi(records, at, by_coin=by_coin),
        "markets_symbol_exchanges": lambda: _market(records.states, at),
        "oi_bars": lambda: _oi_bars(records.oi_bars),
        "borrow_rates": lambda: _borrow_rates(records.borrow_rates, at),
        "margin_tiers": lambda: _margin_tiers(records.margin_tiers, at),
        "prices_history": lambda: _prices(records, at),
        "futures_history": lambda: _futures(records, at),
        "prices_spot": lambda: _spot(records.prices),
        "positioning_history": lambda: _positioning(records.positioning),
        "volume_taker": lambda: _taker_volumes(records.taker_volumes),
        "liquidations_fills": lambda: _liquidations(exchange, records.liquidations),
        "orderbook_book": lambda: _books(records, at),
        "orderbook_depth_history": lambda: _depths(records, at),
        "options_snapshot": lambda: options(records.options, at),
        "options_trades": lambda: trades(records.trades),
        "delivery_prices": lambda: deliveries(records.deliveries),
        "volatility_index_published": lambda: indices(records.indices),
    }
    result = {}
    for name in names:
        table = LISTS.get(name) or tables.TABLES[name]
        try:
            columns = makers[name]()
        except SchemaError as problem:
            raise SchemaError(f"{exchange} {name}: {problem}") from None
        size = len(next(iter(columns.values())))
        columns.setdefault("exchange", repeated(exchange, size))
        result[name] = table.build({table.wire.get(column, column): v for column, v in columns.items()})
        if name == "options_snapshot":
            result[name] = _one_chain(exchange, result[name])
    return result


def _one_chain(exchange: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the chain of rows with individual timestamps."""
    try:
        return snapshots(rows).reset_index(drop=True)
    except ValueError as problem:
        raise SchemaError(f"{exchange} options_snapshot: {problem}") from None


def preferred(rows: Iterable[T]) -> list[T]:
    """Return the rows of the preferred contract of each symbol; dated contracts are never preferred."""
    rows = list(rows)
    items = _contracts(rows)
    ranks: dict[str, tuple[tuple[bool, int, bool], str]] = {}
    for item in items.values():
        rank = (item.rank, item.name)
        if item.perpetual and (item.symbol not in ranks or rank < ranks[item.symbol]):
            ranks[item.symbol] = rank
    names = {name for _, name in ranks.values()}
    chosen = {identity for identity, item in items.items() if item.perpetual and item.name in names}
    if len(chosen) == len(items):
        return rows
    return [row for row in rows if id(row.instrument) in chosen]


def _contracts(rows: Iterable[_ContractRow]) -> dict[int, Instrument]:
    """Return the instruments of rows by identity: histories have many rows of few objects."""
    items = _field(rows, "instrument")
    return dict(zip(map(id, items), items, strict=True))


def _funding(states: list[State], at: int | None) -> dict[str, Any]:
    """Return sampled rates; a rate with a still unknown period is omitted."""
    rows = preferred(filter(_has_rate, states))
    rates = _floats(rows, "rate")
    period = _floats(rows, "period_h")
    bps = units.convert(rates, "native", "bps_8h", hours=period)
    _check_rates(rates, bps, len(rows))
    return _columns(rows, at) | {
        "rate_bps_8h": bps,
        "resolution": repeated("raw", len(rows)),
        "kind": repeated("sampled", len(rows)),
    }


def _has_rate(state: State) -> bool:
    """Return whether a rate has a known period of at most a day; a longer one has another unit."""
    return state.rate is not None and state.period_h is not None and 0 < state.period_h <= _LONGEST_HOURS


def _check_marks(states: list[State]) -> None:
    """Raise for prices whose median mark is not near the index or the last trade, as in another unit."""
    ratios = []
    for state in states:
        other = state.index_price or state.last
        if state.mark and other:
            ratios.append(state.mark / other)
    if len(ratios) >= _MIN_MARKS and not 1 / _MAX_MARK_RATIO < np.median(ratios) < _MAX_MARK_RATIO:
        raise SchemaError(
            f"the mark is {np.median(ratios):.4g} times the index or last price (median of {len(ratios)} "
            "contracts): the venue may use another unit"
        )


def _check_rates(rates: Any, bps: Any, contracts: int, whose: str = "") -> None:
    """Raise for rates in another unit: a median above 50 bps in 8 hours, of few contracts above 300."""
    maximum = _MAX_MEDIAN_BPS if contracts >= _MIN_FOR_LOW_LIMIT else _MAX_MEDIAN_BPS_OF_FEW
    if contracts > 1 and np.median(np.abs(bps)) > maximum:
        raise SchemaError(
            f"the median funding rate of {contracts} contracts is "
            f"{np.median(np.abs(bps)):.4g} bps per 8 hours: the venue may use another unit"
        )
    largest = np.abs(rates).max(initial=0.0)
    if largest > _MAX_RATE:
        raise SchemaError(f"a funding rate{whose}, {largest:.4g}, is above 100 %: expected a fraction")


def _check_payments(symbol: str, times: Any) -> None:
    """Raise for a payment at a wrong time between two payments that are two usual gaps apart.

    It is at a wrong time if neither of the gaps next to it is an interval that venues use. `times` are
    ascending [µs], without duplicates.
    """
    hours = np.rint(np.diff(times) / HOUR_US)
    before = hours[:-1]
    after = hours[1:]
    usual = np.median(hours) if hours.size else 0.0
    # A gap that is rounded to 0 hours is of a payment that was late by minutes, or was stated twice.
    has_valid_gap = np.isin([before, after], [0, *VALID_HOURS]).any(axis=0)
    is_misplaced = (before + after == 2 * usual) & ~has_valid_gap
    places = np.flatnonzero(is_misplaced) + 1
    if places.size:
        time = np.datetime64(int(times[places[0]]), "us")
        raise SchemaError(
            f"the payment of {symbol} on {time} is {before[places[0] - 1]:g} h after the previous one "
            f"and {after[places[0] - 1]:g} h before the next, but payments are {usual:g} h apart"
        )


def _settlements(payments: list[Payment], listed: ListedHours) -> dict[str, Any]:
    """Return the columns of ``funding_settlements``, with the interval of each payment."""
    # 1. Number the symbols, and join payments that are stated twice.
    rows = preferred(payments)
    items = _contracts(rows)
    contracts = {item.symbol: item for item in items.values()}
    names = list(contracts)
    numbers = {name: number for number, name in enumerate(names)}
    number_of_item = {identity: numbers[item.symbol] for identity, item in items.items()}
    series = np.array([number_of_item[id(row.instrument)] for row in rows], dtype=np.int64)
    merged = merge_payments(
        series,
        np.array(_field(rows, "time"), dtype=np.int64),
        _floats(rows, "rate"),
        np.ones(len(rows), dtype=np.int64),
        names,
    )
    # 2. Check the spacing of each series, and find the interval of each payment.
    series = series[merged.rows]
    period = _floats(rows, "period_h")[merged.rows]
    stated = _floats(rows, "stated_h")[merged.rows]
    listed_hours = np.array([listed(contracts[name]) for name in names], dtype=np.float64)[series]
    starts = np.flatnonzero(np.diff(series, prepend=-1))
    bounds = list(pairwise([*starts.tolist(), len(series)]))  # rows of each series
    for first, end in bounds:
        _check_payments(names[series[first]], merged.times[first:end])
    assigned = assign_intervals(series, merged.times, stated, listed_hours)
    # 3. Convert the rates. A rate that is quoted for another time than the interval is paid in proportion.
    native = np.where(np.isnan(period), merged.native, merged.native * assigned.hours / period)
    hours = assigned.hours * merged.counts
    bps = rates_of(native, hours)
    for first, end in bounds:
        of_series = bps[first:end]
        of_series = of_series[np.isfinite(of_series)]
        _check_rates(merged.native[first:end], of_series, 1, f" of {names[series[first]]}")
    # 4. State the source of each interval: its row, the spacing, or the venue's list.
    source = np.where(np.isfinite(stated), SOURCES.index("row"), SOURCES.index("spacing"))
    source = np.where(
        ~assigned.is_confirmed & (assigned.hours == listed_hours), SOURCES.index("list"), source
    )
    return {
        "symbol": coded(names, series.astype(np.int32)),
        "time": pd.DatetimeIndex(merged.times.astype("datetime64[us]"), tz="UTC"),
        "rate_bps_8h": bps,
        "interval_hours": hours,
        "kind": repeated("settled", len(series)),
        "rate_native": native,
        "payment_count": merged.counts,
        "interval_source": coded(SOURCES, np.where(np.isfinite(hours), source, -1).astype(np.int32)),
    }


def _oi(records: Records, at: int | None, *, by_coin: bool = False) -> dict[str, Any]:
    """Return the columns of ``oi_history``; with `by_coin` the sum over the perpetuals of each coin."""
    _check_marks(records.states)
    if by_coin:
        now: list[State] = _sum_by_coin(records.states)
        past: list[OiPoint] = _sum_by_coin(records.oi)
    else:
        now = preferred(s for s in records.states if s.oi_usd is not None)
        past = preferred(p for p in records.oi if p.oi_usd is not None)
    rows: list[State | OiPoint] = [*now, *past]
    stated = ["raw"] * len(now) + _field(past, "resolution")
    return _columns(rows, at, oi_usd="oi_usd", oi_all_contracts_usd="oi_all_usd") | {"resolution": stated}


def _oi_bars(bars: list[OiBar]) -> dict[str, Any]:
    """Return the columns of ``oi_bars``: USD of inverse contracts, coins of the others."""
    rows = preferred(bars)
    fields = {"open": "opened", "high": "highest", "low": "lowest", "close": "closed"}
    columns: dict[str, Any] = {"resolution": _field(rows, "resolution")}
    is_inverse = _field(rows, "instrument.inverse")
    for name, field in fields.items():
        values = _field(rows, field)
        columns[f"oi_{name}_coins"] = np.where(is_inverse, np.nan, values)
        columns[f"oi_{name}_usd"] = np.where(is_inverse, values, np.nan)
    return _columns(rows) | columns


def _borrow_rates(rows: list[BorrowRate], at: int | None) -> dict[str, Any]:
    return {
        "symbol": _field(rows, "symbol"),
        "time": stamps(_field(rows, "time"), at),
        "borrow_apr": _field(rows, "rate_apr"),
        "max_borrow": _field(rows, "most"),
    }


def _margin_tiers(tiers: list[MarginTier], at: int | None) -> dict[str, Any]:
    rows = preferred(tiers)
    return {
        "symbol": _field(rows, "instrument.symbol"),
        "time": stamps([None] * len(rows), at),
        "tier": _field(rows, "tier"),
        "max_notional_usd": _field(rows, "most_usd"),
        "max_size_coins": _field(rows, "most_coins"),
        "initial_margin": _field(rows, "initial"),
        "maintenance_margin": _field(rows, "maintenance"),
        "max_leverage": _field(rows, "leverage"),
    }


def _sum_by_coin(rows: Iterable[Any]) -> list[Any]:
    """Return the sum of open interest of all perpetuals of each coin at each time, over quotes and multiples.

    A coin with a contract without open interest has no sum.
    """
    groups: dict[tuple[str, int | None], list[Any]] = {}
    for row in rows:
        if row.instrument.perpetual and row.instrument.active:
            time = None if isinstance(row, State) else row.time  # states of one body have the same time
            groups.setdefault((tables.base(row.instrument.symbol)[0], time), []).append(row)
    sums = []
    for (coin, _), contracts in groups.items():
        amounts = _field(contracts, "oi_usd")
        if None not in amounts:
            item = contracts[0].instrument._replace(symbol=coin)
            time = max((row.time for row in contracts if row.time is not None), default=None)
            sums.append(contracts[0]._replace(instrument=item, oi_usd=sum(amounts), time=time))
    return sums


def _market(states: list[State], at: int | None) -> dict[str, Any]:
    """Return the columns of ``markets_symbol_exchanges``, of contracts with a price or a volume."""
    _check_marks(states)
    rows = preferred(s for s in states if _price(s) is not None or s.volume_usd is not None)
    with_rates = [row for row in rows if _has_rate(row)]
    native = _floats(with_rates, "rate")
    bps = units.convert(native, "native", "bps_8h", hours=_floats(with_rates, "period_h"))
    _check_rates(native, bps, len(with_rates))
    rate_of = dict(zip(map(id, with_rates), bps.tolist(), strict=True))
    fields = {"price_24h_change_pct": "change_pct", "volume_24h_usd": "volume_usd", "oi_usd": "oi_usd"}
    return _columns(rows, at, **fields) | {
        "price_usd": [_price(row) for row in rows],
        "funding_current_bps_8h": [rate_of.get(id(row)) for row in rows],
    }


def _price(state: State) -> float | None:
    return state.mark or state.price or None  # venues write 0 for a missing price


def _futures(records: Records, at: int | None) -> dict[str, Any]:
    """Return live dated futures; a missing index comes from another one of the same coin and quote.

    For past rows it uses the index at the mark's time.
    """
    states = records.states
    _check_marks(states)
    indices = {}
    for state in states:
        if state.index_price:
            indices[state.instrument.symbol, state.instrument.quote] = state.index_price
    rows = []
    steps = []
    for state, resolution in [*zip(states, repeat("raw")), *_past_marks(records.prices)]:
        item = state.instrument
        is_before_expiry = (state.time or at or 0) < (item.expiry or 0)
        if item.is_dated and is_before_expiry and (_price(state) or state.last):
            rows.append(state)
            steps.append(resolution)
    names = {"instrument_name": "instrument.name", "oi_usd": "oi_usd", "volume_24h_usd": "volume_usd"}
    return _columns(rows, at, **names) | {
        "expiry": stamps(_field(rows, "instrument.expiry"), None),
        "price_usd": [_price(row) or row.last for row in rows],
        "index_price_usd": [
            row.index_price or indices.get((row.instrument.symbol, row.instrument.quote)) for row in rows
        ],
        "resolution": steps,
    }


def _past_marks(prices: Sequence[Price]) -> list[tuple[State, str]]:
    """Return past marks as states with the index at their time, and their resolution."""
    indices = {}
    for price in prices:
        if price.kind == "index":
            indices[price.instrument.symbol, price.instrument.quote, price.time] = price.price
    marks = []
    for price in prices:
        if price.kind == "mark":
            item = price.instrument
            index = indices.get((item.symbol, item.quote, price.time))
            marks.append((State(item, price.time, mark=price.price, index_price=index), price.resolution))
    return marks


def _prices(records: Records, at: int | None) -> dict[str, Any]:
    """Return the columns of ``prices_history``, one row for each kind of price."""
    _check_marks(records.states)
    # Venues write 0 for a missing price, if an index does not exist or a contract never traded.
    rows = []
    for row in preferred(records.states):
        for kind, value in (("mark", row.mark), ("index", row.index_price), ("last", row.last)):
            if value is not None and value > 0.0:
                rows.append(Price(row.instrument, row.time or 0, kind, value, "raw"))
    rows += [row for row in preferred(records.prices) if row.kind != "spot" and row.price > 0.0]
    return _columns(rows, at, kind="kind", price_usd="price", resolution="resolution")


def _spot(prices: list[Price]) -> dict[str, Any]:
    rows = [row for row in preferred(prices) if row.kind == "spot"]
    return _columns(rows, quote="instrument.quote", price="price", resolution="resolution")


def _positioning(rows: list[Positioning]) -> dict[str, Any]:
    chosen = preferred(rows)
    fields = _same_fields(chosen, "kind long_share short_share resolution")
    return _columns(chosen, None, long_short_ratio="ratio") | fields


def _taker_volumes(rows: list[TakerVolume]) -> dict[str, Any]:
    return _columns(preferred(rows), buy_usd="buy_usd", sell_usd="sell_usd", resolution="resolution")


def _columns(rows: Sequence[Any], at: int | None = None, /, **fields: str) -> dict[str, Any]:
    """Return symbol and time of rows, and by column a field of each, such as ``instrument.quote``."""
    columns = {column: _field(rows, field) for column, field in fields.items()}
    symbols = _field(rows, "instrument.symbol")
    return {"symbol": symbols, "time": stamps([row.time or None for row in rows], at), **columns}


def _liquidations(exchange: str, rows: list[Liquidation]) -> dict[str, Any]:
    """Return the columns of ``liquidations_fills``.

    The ID of a row without one is the hash of its values and of its number among equal rows.
    """
    counts: Counter[tuple[object, ...]] = Counter()
    order_ids = []
    for row in rows:
        key = (exchange, row.instrument.name, row.time, row.side, *row.native)
        counts[key] += 1
        text = "|".join(map(str, (*key, counts[key])))
        order_ids.append(row.order_id or hashlib.blake2b(text.encode(), digest_size=12).hexdigest())
    fields = {"order_price_usd": "order_price", "fill_price_usd": "fill_price", "filled_quantity": "filled"}
    ids = {"order_id": order_ids, "fill_id": ["1"] * len(rows), "status": repeated("filled", len(rows))}
    return _columns(rows, None, **fields) | _same_fields(rows, "side quantity value_usd") | ids


def _books(records: Records, at: int | None) -> dict[str, Any]:
    """Return the levels of each side, the best first."""
    books: list[OrderBook] = []  # book of each level
    sides: list[str] = []
    numbers: list[int] = []
    levels: list[tuple[float, float | None]] = []
    for book in records.books:
        for side, of_side in (("bid", book.bids), ("ask", book.asks)):
            books += [book] * len(of_side)
            sides += [side] * len(of_side)
            numbers += range(1, len(of_side) + 1)
            levels += of_side
    return {
        **_columns(books, at),
        "side": sides,
        "level": numbers,
        "price_usd": list(map(itemgetter(0), levels)),
        "size": list(map(itemgetter(1), levels)),
    }


def _depths(records: Records, at: int | None) -> dict[str, Any]:
    """Return the value within some distances of the mid price; missing for a side that ends earlier."""
    books = []  # book of each distance
    bids = []
    asks = []
    for book in records.books:
        if book.bids and book.asks:
            mid = (book.bids[0][0] + book.asks[0][0]) / 2
            for depth in _DEPTHS:
                books.append(book)
                bids.append(_value_within(book.bids, mid, depth))
                asks.append(_value_within(book.asks, mid, depth))
    return {
        **_columns(books, at),
        "depth_bps": [*_DEPTHS] * (len(books) // len(_DEPTHS)),
        "bid_depth_usd": bids,
        "ask_depth_usd": asks,
        "resolution": repeated("raw", len(books)),
    }


def _value_within(levels: list[tuple[float, float | None]], mid: float, depth_bps: float) -> float | None:
    """Return the value of one side up to a distance; None if it ends earlier or a size is unknown."""
    if abs(levels[-1][0] / mid - 1) * units.BPS < depth_bps:
        return None
    value = 0.0
    for price, size in levels:
        if abs(price / mid - 1) * units.BPS <= depth_bps:
            if size is None:
                return None
            value += price * size
    return value
