"""Records become tables: units by the two hours, one contract a symbol, intervals from spacing, options."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import attrgetter
from typing import Any, Protocol, TypeVar

import numpy as np
import pandas as pd

from derivdata import tables, units
from derivdata.errors import SchemaError
from derivdata.sources.venues.record_types import (
    BorrowRate,
    Delivery,
    IndexPoint,
    Instrument,
    Liquidation,
    MarginTier,
    OiBar,
    OiPoint,
    Option,
    Payment,
    Positioning,
    Price,
    Quotes,
    Records,
    State,
    StatedRate,
    Taken,
    Traded,
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

_LISTED = tables.TABLES["instruments"]
INSTRUMENTS = replace(
    _LISTED,
    key=("exchange", "instrument_name"),
    columns={name: column for name, column in _LISTED.columns.items() if name != "time"}
    | {"position": Column(Kind.COUNT, "", "Place in the venue's list, from 0: some answers go by it.")},
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
_FIELDS = {"instrument_name": "name", "contract_size": "size", "symbol": "symbol", "strike": "strike"}
_FIELDS |= {f"is_{name}": name for name in ("inverse", "perpetual", "active")} | {
    "tick": "tick",
    "step": "step",
}

_MIN_VOLATILITIES = 5
_VOLATILITIES = 0.03, 10.0
"""Range of the median of several."""


def _check_volatilities(values: Iterable[float | None]) -> None:
    """Raise for volatilities whose median is in another unit."""
    volatilities = [value for value in values if value is not None]
    if len(volatilities) >= _MIN_VOLATILITIES:
        middle = float(np.median(volatilities))
        if not _VOLATILITIES[0] <= middle <= _VOLATILITIES[1]:
            unit = "not the unit that the venue is known to use"
            raise SchemaError(f"the median of {len(volatilities)} volatilities is {middle:g}: {unit}")


def _told(rows: Sequence[Any], fields: str) -> dict[str, Any]:
    """Return some fields of rows as columns of their names."""
    return {name: [*map(attrgetter(name), rows)] for name in fields.split()}


def _stated(stamps_us: Sequence[int | None]) -> pd.DatetimeIndex:
    """Return timestamps [µs] as a column, NaT if missing."""
    missing = np.iinfo(np.int64).min  # NaT
    filled = np.array([missing if stamp is None else stamp for stamp in stamps_us], dtype=np.int64)
    return pd.DatetimeIndex(filled.view("M8[us]"), tz="UTC")


def options(rows: list[Option], at: int | None) -> dict[str, Any]:
    """Return the columns of ``options_snapshot``; `at` [µs] is the time of rows that have none."""
    _check_volatilities(row.iv for row in rows)
    quotes = [row.quotes or Quotes(False) for row in rows]
    return {
        **_told(rows, "symbol strike side iv delta gamma vega theta rho open_interest interest_rate"),
        **_told(quotes, "volume"),
        **{
            f"{name}_{unit}": [getattr(q, name) if q.in_coin is (unit == "coin") else None for q in quotes]
            for unit in ("coin", "usd")
            for name in ("bid", "ask", "mark")
        },
        "time": stamps([row.time for row in rows], at),
        "quoted_at": _stated([row.quoted_at for row in rows]),
        "instrument_name": [row.name for row in rows],
        "expiry": stamps([row.expiry for row in rows], None),
        "underlying_price": [row.underlying for row in rows],
        "index_price_usd": [q.index_price for q in quotes],
    }


def trades(rows: list[Traded]) -> dict[str, Any]:
    """Return the columns of ``options_trades``."""
    chain = options([row.option for row in rows], None)
    names = "symbol time instrument_name expiry strike side iv index_price_usd underlying_price".split()
    in_coin = [row.option.quotes is not None and row.option.quotes.in_coin for row in rows]
    return {
        **{name: chain[name] for name in names},
        **_told(rows, "trade_id taker_side execution size"),
        "price_coin": [row.price if coin else None for row, coin in zip(rows, in_coin, strict=True)],
        "price_usd": [None if coin else row.price for row, coin in zip(rows, in_coin, strict=True)],
    }


def deliveries(rows: list[Delivery]) -> dict[str, Any]:
    """Return one price of each time and contract: all options of an expiry have the same."""
    prices: dict[tuple[str, str, int], float] = {}
    for row in rows:
        earlier = prices.setdefault((row.symbol, row.contract, row.time), row.price)
        if earlier != row.price:
            what = f"{row.symbol} {row.contract}"
            raise SchemaError(f"{what} has two delivery prices at one time: {earlier} and {row.price}")
    return {
        "symbol": [symbol for symbol, _, _ in prices],
        "contract": [contract for _, contract, _ in prices],
        "time": stamps([time for _, _, time in prices], None),
        "price_usd": [*prices.values()],
    }


def indices(rows: list[IndexPoint]) -> dict[str, Any]:
    """Return the columns of ``volatility_index_published``."""
    _check_volatilities(row.index_pct / 100 for row in rows)
    return _told(rows, "symbol index_pct resolution") | {"time": stamps([row.time for row in rows], None)}


def instruments(items: list[Instrument], exchange: str) -> dict[str, Any]:
    """Return the columns of `INSTRUMENTS`; a list of Hyperliquid may have contracts of its dexes."""
    return {
        "exchange": [hip3_contract(exchange, item.name)[0] for item in items],
        **{column: [getattr(item, name) for item in items] for column, name in _FIELDS.items()},
        "quote": [item.quote or None for item in items],
        "multiplier": [float(tables.base(item.symbol)[1]) for item in items],
        **{
            name: pd.to_datetime([getattr(item, name) for item in items], unit="us", utc=True).as_unit("us")
            for name in ("expiry", "listed", "delisted")
        },
        "position": range(len(items)),
    }


def intervals(records: Records) -> dict[str, Any]:
    """Return the columns of `INTERVALS`; a list takes precedence over a rate."""
    stated = {s.instrument.name: (s.instrument, s.settle_h) for s in records.states if s.settle_h is not None}
    stated |= {i.instrument.name: (i.instrument, i.hours) for i in records.intervals}
    return {
        "instrument_name": [*stated],
        "symbol": [item.symbol for item, _ in stated.values()],
        "interval_hours": [hours for _, hours in stated.values()],
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
    period = np.array([row.period_h for row in rows], dtype=np.float64)
    hours = np.array([row.settle_h for row in rows], dtype=np.float64)
    rates = np.array([row.rate for row in rows], dtype=np.float64)
    return {
        "exchange": [row.venue or exchange for row in rows],
        "instrument_name": [row.instrument.name for row in rows],
        "symbol": [row.instrument.symbol for row in rows],
        "rate_kind": [row.kind for row in rows],
        "time": _stated([at if row.time is None else row.time for row in rows]),
        "settlement_time": _stated([row.settlement for row in rows]),
        "rate_bps_8h": units.convert(rates, "native", "bps_8h", hours=period),
        "rate_native": rates * hours / period,
        "interval_hours": hours,
    }


def dexes(exchange: str, names: list[str]) -> dict[str, Any]:
    """Return the columns of `DEXES`."""
    return {"dex": names, "venue": [hip3_contract(exchange, f"{name}:")[0] for name in names]}


_MANY = 20  # minimum number of contracts for the median of a batch to determine a unit
_MEDIAN_BPS = 50.0
_MEDIAN_BPS_OF_FEW = 300.0
_IMPOSSIBLE = 1.0
_LONGEST_HOURS = 24.0
_SEVERAL, _NEAR = 5, 2.0  # contracts from which the median mark counts, and its factor to the index
_DEPTHS = (10.0, 25.0, 50.0, 100.0)  # bps from the mid price


ListedHours = Callable[[Instrument], float | None]


class _OfContract(Protocol):
    @property
    def instrument(self) -> Instrument: ...


T = TypeVar("T", bound=_OfContract)

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
    """Return the tables that records fill, empty ones too.

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
        "volume_taker": lambda: _taken(records.taken),
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
    """Return the rows of the one contract of each symbol that has priority; dated contracts have none."""
    rows = list(rows)
    items = _contracts(rows)
    ranks: dict[str, tuple[tuple[bool, int, bool], str]] = {}
    for item in items.values():
        rank = (item.rank, item.name)
        if item.perpetual and (item.symbol not in ranks or rank < ranks[item.symbol]):
            ranks[item.symbol] = rank
    names = {name for _, name in ranks.values()}
    chosen = {place for place, item in items.items() if item.perpetual and item.name in names}
    return rows if len(chosen) == len(items) else [row for row in rows if id(row.instrument) in chosen]


def _contracts(rows: Iterable[_OfContract]) -> dict[int, Instrument]:
    """Return the instruments of rows by identity: histories have many rows of few objects."""
    items = [row.instrument for row in rows]
    return dict(zip(map(id, items), items, strict=True))


def _funding(states: list[State], at: int | None) -> dict[str, Any]:
    """Return sampled rates; a rate with a still unknown period is omitted."""
    rows = preferred(filter(_has_rate, states))
    rates = np.array([row.rate for row in rows], dtype=np.float64)
    period = np.array([row.period_h for row in rows], dtype=np.float64)
    bps = units.convert(rates, "native", "bps_8h", hours=period)
    _check_rates(rates, bps, len(rows))
    words = {"resolution": repeated("raw", len(rows)), "kind": repeated("sampled", len(rows))}
    return _columns(rows, at) | {"rate_bps_8h": bps, **words}


def _has_rate(state: State) -> bool:
    """Return whether a rate has a known period of at most a day; a longer one has another unit."""
    return state.rate is not None and state.period_h is not None and 0 < state.period_h <= _LONGEST_HOURS


def _check_marks(states: list[State]) -> None:
    """Raise for prices whose median mark is not near the index or the last trade, as in another unit."""
    pairs = ((s.mark, s.index_price or s.last) for s in states)
    ratios = [mark / beside for mark, beside in pairs if mark and beside]
    if len(ratios) >= _SEVERAL and not 1 / _NEAR < np.median(ratios) < _NEAR:
        raise SchemaError(
            f"the mark is {np.median(ratios):.4g} times the index or last price, of the median "
            f"of {len(ratios)} contracts: not the unit that the venue is known to use"
        )


def _check_rates(rates: Any, bps: Any, contracts: int, whose: str = "") -> None:
    """Raise for a batch in another unit: no venue's median contract pays 50 bps in 8 hours, or a few 300."""
    most = _MEDIAN_BPS if contracts >= _MANY else _MEDIAN_BPS_OF_FEW
    if contracts > 1 and np.median(np.abs(bps)) > most:
        raise SchemaError(
            f"the median funding rate of {contracts} contracts is "
            f"{np.median(np.abs(bps)):.4g} bps per 8 hours: not the unit that the venue is known to use"
        )
    largest = np.abs(rates).max(initial=0.0)
    if largest > _IMPOSSIBLE:
        raise SchemaError(f"a funding rate{whose}, {largest:.4g}, is above 100 %: not a fraction")


def _check_payments(symbol: str, times: Any) -> None:
    """Raise for a payment off the time of payments, by the middle of those before and after.

    Times are ascending [µs], without duplicates.
    """
    hours = np.rint(np.diff(times) / HOUR_US)
    before = hours[:-1]
    after = hours[1:]
    usual = np.median(hours) if hours.size else 0.0
    is_aside = (before + after == 2 * usual) & ~np.isin([before, after], [0, *VALID_HOURS]).any(axis=0)
    places = np.flatnonzero(is_aside) + 1
    if places.size:
        time = np.datetime64(int(times[places[0]]), "us")
        raise SchemaError(
            f"the payment of {symbol} on {time} is {before[places[0] - 1]:g} h after the one before and "
            f"{after[places[0] - 1]:g} h before the next, where payments are {usual:g} h apart"
        )


def _settlements(payments: list[Payment], listed: ListedHours) -> dict[str, Any]:
    rows = preferred(payments)
    items = _contracts(rows)
    contracts = {item.symbol: item for item in items.values()}
    names = list(contracts)
    symbols = {name: number for number, name in enumerate(names)}
    numbers = {place: symbols[item.symbol] for place, item in items.items()}
    series = np.array([numbers[id(row.instrument)] for row in rows], dtype=np.int64)
    merged = merge_payments(
        series,
        np.array([row.time for row in rows], dtype=np.int64),
        np.array([row.rate for row in rows], dtype=np.float64),
        np.ones(len(rows), dtype=np.int64),
        names,
    )
    series = series[merged.rows]
    period = np.array([row.period_h for row in rows], dtype=np.float64)[merged.rows]
    stated = np.array([row.stated_h for row in rows], dtype=np.float64)[merged.rows]
    now = np.array([listed(contracts[name]) for name in names], dtype=np.float64)
    of_list = now[series]
    is_first = np.append(True, series[1:] != series[:-1])[: len(series)]
    bounds = [*pairwise([*np.flatnonzero(is_first).tolist(), len(series)])]
    for first, end in bounds:
        _check_payments(names[series[first]], merged.times[first:end])
    assigned = assign_intervals(series, merged.times, stated, of_list)
    # A rate that is quoted for another time than the interval is paid in proportion.
    native = np.where(np.isnan(period), merged.native, merged.native * assigned.hours / period)
    hours = assigned.hours * merged.counts
    bps = rates_of(native, hours)
    for first, end in bounds:
        own = bps[first:end]
        _check_rates(merged.native[first:end], own[np.isfinite(own)], 1, f" of {names[series[first]]}")
    source = np.where(np.isfinite(stated), SOURCES.index("row"), SOURCES.index("spacing"))
    source = np.where(~assigned.is_confirmed & (assigned.hours == of_list), SOURCES.index("list"), source)
    return {
        "symbol": coded(symbols, series.astype(np.int32)),
        "time": pd.DatetimeIndex(merged.times.astype("datetime64[us]"), tz="UTC"),
        "rate_bps_8h": bps,
        "interval_hours": hours,
        "kind": repeated("settled", len(series)),
        "rate_native": native,
        "payment_count": merged.counts,
        "interval_source": coded(SOURCES, np.where(np.isfinite(hours), source, -1).astype(np.int32)),
    }


def _oi(records: Records, at: int | None, *, by_coin: bool = False) -> dict[str, Any]:
    _check_marks(records.states)
    if by_coin:
        now: list[State] = _of_coins(records.states)
        past: list[OiPoint] = _of_coins(records.oi)
    else:
        now = preferred(s for s in records.states if s.oi_usd is not None)
        past = preferred(p for p in records.oi if p.oi_usd is not None)
    rows: list[State | OiPoint] = [*now, *past]
    stated = ["raw"] * len(now) + [row.resolution for row in past]
    return _columns(rows, at, oi_usd="oi_usd", oi_all_contracts_usd="oi_all_usd") | {"resolution": stated}


def _oi_bars(bars: list[OiBar]) -> dict[str, Any]:
    rows = preferred(bars)
    fields = {"open": "opened", "high": "highest", "low": "lowest", "close": "closed"}
    columns: dict[str, Any] = {"resolution": [row.resolution for row in rows]}
    for name, field in fields.items():
        values = [getattr(row, field) for row in rows]
        is_inverse = [row.instrument.inverse for row in rows]
        columns[f"oi_{name}_coins"] = np.where(is_inverse, np.nan, values)
        columns[f"oi_{name}_usd"] = np.where(is_inverse, values, np.nan)
    return _columns(rows) | columns


def _borrow_rates(rows: list[BorrowRate], at: int | None) -> dict[str, Any]:
    return {
        "symbol": [row.symbol for row in rows],
        "time": stamps([row.time for row in rows], at),
        "borrow_apr": [row.rate_apr for row in rows],
        "max_borrow": [row.most for row in rows],
    }


def _margin_tiers(tiers: list[MarginTier], at: int | None) -> dict[str, Any]:
    rows = preferred(tiers)
    return {
        "symbol": [row.instrument.symbol for row in rows],
        "time": stamps([None] * len(rows), at),
        "tier": [row.tier for row in rows],
        "max_notional_usd": [row.most_usd for row in rows],
        "max_size_coins": [row.most_coins for row in rows],
        "initial_margin": [row.initial for row in rows],
        "maintenance_margin": [row.maintenance for row in rows],
        "max_leverage": [row.leverage for row in rows],
    }


def _of_coins(rows: Iterable[Any]) -> list[Any]:
    """Return the sum of open interest of all perpetuals of each coin at each time, over quotes and multiples.

    A coin with a contract without open interest has no sum.
    """
    groups: dict[tuple[str, int | None], list[Any]] = {}
    for row in rows:
        if row.instrument.perpetual and row.instrument.active:
            time = None if isinstance(row, State) else row.time  # states of one body are of one time
            groups.setdefault((tables.base(row.instrument.symbol)[0], time), []).append(row)
    sums = []
    for (coin, _), contracts in groups.items():
        amounts = [row.oi_usd for row in contracts]
        if None not in amounts:
            item = contracts[0].instrument._replace(symbol=coin)
            times = [row.time for row in contracts if row.time is not None]
            time = max(times) if times else None
            sums.append(contracts[0]._replace(instrument=item, oi_usd=sum(amounts), time=time))
    return sums


def _market(states: list[State], at: int | None) -> dict[str, Any]:
    _check_marks(states)
    rows = preferred(s for s in states if _price(s) is not None or s.volume_usd is not None)
    with_rates = [row for row in rows if _has_rate(row)]
    native = np.array([row.rate for row in with_rates])
    hours = np.array([row.period_h for row in with_rates])
    bps = units.convert(native, "native", "bps_8h", hours=hours) if with_rates else native
    _check_rates(native, bps, len(with_rates))
    checked = iter(bps.tolist())
    rates = [next(checked) if _has_rate(row) else None for row in rows]
    figures = {"price_24h_change_pct": "change_pct", "volume_24h_usd": "volume_usd", "oi_usd": "oi_usd"}
    made = {"price_usd": [_price(row) for row in rows], "funding_current_bps_8h": rates}
    return _columns(rows, at, **figures) | made


def _price(state: State) -> float | None:
    return state.mark or state.price or None  # venues write 0 where they have none


def _futures(records: Records, at: int | None) -> dict[str, Any]:
    """Return live dated futures; a missing index comes from another one of the same coin and quote.

    For past rows it uses the index at the mark's time.
    """
    states = records.states
    _check_marks(states)
    indices = {(s.instrument.symbol, s.instrument.quote): s.index_price for s in states if s.index_price}
    then = {
        (p.instrument.symbol, p.instrument.quote, p.time): p.price
        for p in records.prices
        if p.kind == "index"
    }
    past = [p for p in records.prices if p.kind == "mark"]
    stated = [(state, "raw") for state in states]
    for p in past:
        index = then.get((p.instrument.symbol, p.instrument.quote, p.time))
        stated.append((State(p.instrument, p.time, mark=p.price, index_price=index), p.resolution))
    stated = [
        (s, step)
        for s, step in stated
        if s.instrument.is_dated
        and (_price(s) or s.last)
        and ((s.time or at or 0) < (s.instrument.expiry or 0))
    ]
    rows = [state for state, _ in stated]
    names = {"instrument_name": "instrument.name", "oi_usd": "oi_usd", "volume_24h_usd": "volume_usd"}
    return _columns(rows, at, **names) | {
        "expiry": stamps([row.instrument.expiry for row in rows], None),
        "price_usd": [_price(row) or row.last for row in rows],
        "index_price_usd": [
            row.index_price or indices.get((row.instrument.symbol, row.instrument.quote)) for row in rows
        ],
        "resolution": [step for _, step in stated],
    }


def _prices(records: Records, at: int | None) -> dict[str, Any]:
    _check_marks(records.states)
    now = [
        Price(row.instrument, row.time or 0, kind, value, "raw")
        for row in preferred(records.states)
        for kind, value in (("mark", row.mark), ("index", row.index_price), ("last", row.last))
        if value is not None
    ]
    # Venues write 0 where they have no price, of an index that is not made or a contract that never traded.
    past = [row for row in preferred(records.prices) if row.kind != "spot"]
    rows = [row for row in [*now, *past] if row.price > 0.0]
    return _columns(rows, at, kind="kind", price_usd="price", resolution="resolution")


def _spot(prices: list[Price]) -> dict[str, Any]:
    rows = [row for row in preferred(prices) if row.kind == "spot"]
    return _columns(rows, quote="instrument.quote", price="price", resolution="resolution")


def _positioning(rows: list[Positioning]) -> dict[str, Any]:
    fields = {name: name for name in ("kind", "long_share", "short_share", "resolution")}
    return _columns(preferred(rows), None, long_short_ratio="ratio", **fields)


def _taken(rows: list[Taken]) -> dict[str, Any]:
    return _columns(preferred(rows), buy_usd="buy_usd", sell_usd="sell_usd", resolution="resolution")


def _columns(rows: Sequence[Any], at: int | None = None, /, **fields: str) -> dict[str, Any]:
    """Return symbol and time of rows, and by column a field of each, such as ``instrument.quote``."""
    columns = {column: [*map(attrgetter(field), rows)] for column, field in fields.items()}
    symbols = [row.instrument.symbol for row in rows]
    return {"symbol": symbols, "time": stamps([row.time or None for row in rows], at), **columns}


def _liquidations(exchange: str, rows: list[Liquidation]) -> dict[str, Any]:
    seen: Counter[tuple[object, ...]] = Counter()
    orders = []
    for row in rows:
        key = (exchange, row.instrument.name, row.time, row.side, *row.native)
        seen[key] += 1
        text = "|".join(map(str, (*key, seen[key])))
        orders.append(row.order_id or hashlib.blake2b(text.encode(), digest_size=12).hexdigest())
    fields = {"order_price_usd": "order_price", "fill_price_usd": "fill_price", "filled_quantity": "filled"}
    fields |= {name: name for name in ("side", "quantity", "value_usd")}
    made = {"order_id": orders, "fill_id": ["1"] * len(rows), "status": repeated("filled", len(rows))}
    return _columns(rows, None, **fields) | made


def _books(records: Records, at: int | None) -> dict[str, Any]:
    """Return the levels of each side, the best first."""
    rows = [
        (book, side, level, price, size)
        for book in records.books
        for side, levels in (("bid", book.bids), ("ask", book.asks))
        for level, (price, size) in enumerate(levels, 1)
    ]
    return {
        **_columns([row[0] for row in rows], at),
        "side": [row[1] for row in rows],
        "level": [row[2] for row in rows],
        "price_usd": [row[3] for row in rows],
        "size": [row[4] for row in rows],
    }


def _depths(records: Records, at: int | None) -> dict[str, Any]:
    """Return the value within some distances of the mid price; missing for a side that ends earlier."""
    rows = []
    for book in records.books:
        if not book.bids or not book.asks:
            continue
        mid = (book.bids[0][0] + book.asks[0][0]) / 2
        for depth in _DEPTHS:
            bids, asks = (_within(levels, mid, depth) for levels in (book.bids, book.asks))
            rows.append((book, depth, bids, asks))
    return {
        **_columns([row[0] for row in rows], at),
        "depth_bps": [row[1] for row in rows],
        "bid_depth_usd": [row[2] for row in rows],
        "ask_depth_usd": [row[3] for row in rows],
        "resolution": repeated("raw", len(rows)),
    }


def _within(levels: list[tuple[float, float | None]], mid: float, depth_bps: float) -> float | None:
    if abs(levels[-1][0] / mid - 1) * units.BPS < depth_bps:
        return None
    near = [(price, size) for price, size in levels if abs(price / mid - 1) * units.BPS <= depth_bps]
    return None if any(size is None for _, size in near) else sum(p * s for p, s in near if s is not None)
