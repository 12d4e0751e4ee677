"""The sample as a source of base tables, and the contracts that it lists.

Perpetuals trade from their first to their last day. Futures are priced at the forwards of the options.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import feather

from derivdata.client.transport.cache import Head, ResponseFiles, cache_folder
from derivdata.sources import Query
from derivdata.sources.sample import market, noise, option_quotes, perpetuals, universe
from derivdata.sources.sample.noise import DAY_US, HOUR_US, NOW, SEED, START, START_DAY, timestamps
from derivdata.sources.sample.option_model import (
    EXPIRY_US,
    Expiry,
    Forwards,
    dated_name,
    expiries,
    forwards,
    session,
)
from derivdata.sources.sample.universe import (
    FOREVER,
    classes,
    exchange_names,
    joined,
    select,
    text,
)
from derivdata.sources.sample.universe import symbols as all_symbols
from derivdata.support import times
from derivdata.support.arrays import Floats, Ints
from derivdata.support.files import package_digest
from derivdata.tables import TABLES, base

SYMBOLS = ("BTC", "ETH")
_NAME_TEMPLATES = {
    "binance": "{symbol}USDT_{year}{number:02}{day:02}",
    "bitget": "{symbol}USD_{year}{number:02}{day:02}",
    "bybit": "{symbol}USDT-{day:02}{month}{year}",
    "deribit": "{symbol}-{day}{month}{year}",
    "kraken": "FI_{symbol}USD_{year}{number:02}{day:02}",
    "okx": "{symbol}-USD-{year}{number:02}{day:02}",
}
EXCHANGES = tuple(sorted(_NAME_TEMPLATES))
_KINDS = {
    **dict.fromkeys(("binance", "bitget"), ("quarterly",)),
    "kraken": ("monthly", "quarterly"),
    **dict.fromkeys(("bybit", "deribit", "okx"), ("weekly", "monthly", "quarterly")),
}
_OI_OF_DERIBIT = {"binance": 0.4, "bitget": 0.05, "bybit": 0.2, "deribit": 1.0, "kraken": 0.1, "okx": 0.5}
OI_SHARE = 0.02
"""Open interest of a contract at Deribit shortly before its expiry, as a share of that of all perpetuals."""
OI_DECAY = 2.0
"""Rate at which open interest decreases with the time to expiry [1/year]."""
TURNOVER = 0.5
"""Volume of 24 hours as a multiple of open interest."""


def future_markets(names: Sequence[str] | None, venues: Sequence[str] | None) -> list[tuple[str, str]]:
    """Return symbol and venue of the requested futures; None is all."""
    return [
        (symbol, exchange)
        for symbol in SYMBOLS
        for exchange in EXCHANGES
        if (names is None or symbol in names) and (venues is None or exchange in venues)
    ]


def future_listing(exchange: str, day: int) -> tuple[Expiry, ...]:
    """Return the expiries that a venue lists during a trading day."""
    return expiries(day, _KINDS[exchange])


def future_name(symbol: str, exchange: str, expiry: int) -> str:
    """Return the venue's name of the contract that expires on a day since 1970."""
    return dated_name(_NAME_TEMPLATES[exchange], symbol, expiry)


def future_sessions(
    hours: Ints, names: Sequence[str] | None, venues: Sequence[str] | None
) -> Iterator[tuple[str, str, Ints, Ints, Forwards]]:
    """Yield symbol, venue, expiries [days], times [µs] and forwards of each trading day of some hours."""
    days = session(hours)
    for symbol, exchange in future_markets(names, venues):
        for day in np.unique(days).tolist():
            expiry = np.array([e.day for e in future_listing(exchange, day)], dtype=np.int64)
            hours_of_day = hours[days == day]
            yield symbol, exchange, expiry, hours_of_day, forwards(symbol, exchange, expiry, hours_of_day)


def future_rows(
    first: int, last: int, names: Sequence[str] | None, venues: Sequence[str] | None
) -> dict[str, Any]:
    """Return the columns of the futures with ``first <= time < last`` [µs]."""
    by_session: list[dict[str, Any]] = []
    hours = noise.grid(first, last, HOUR_US)
    for symbol, exchange, expiry, hours_of_day, curve in future_sessions(hours, names, venues):
        instruments = [future_name(symbol, exchange, day) for day in expiry.tolist()]
        oi = np.round(future_oi(symbol, exchange, curve), 2)
        columns: dict[str, Any] = {
            "symbol": SYMBOLS.index(symbol),
            "exchange": EXCHANGES.index(exchange),
            "time": hours_of_day,
            "instrument_name": np.array(instruments, dtype=object)[:, None],
            "expiry": expiry[:, None] * DAY_US + EXPIRY_US,
            "price_usd": np.round(curve.underlying_price, 6),
            "index_price_usd": np.round(curve.spot, 6),
            "oi_usd": oi,
            "volume_24h_usd": np.round(TURNOVER * oi, 2),
        }
        shape = curve.year_fraction.shape
        by_session.append({n: np.broadcast_to(values, shape).ravel() for n, values in columns.items()})
    rows = joined(by_session)
    if not rows:
        return {}
    return rows | {
        "symbol": text(rows["symbol"], SYMBOLS),
        "exchange": text(rows["exchange"], EXCHANGES),
        "time": timestamps(rows["time"]),
        "expiry": timestamps(rows["expiry"]),
        "resolution": text(np.zeros(len(rows["time"]), dtype=np.int8), ("1h",)),
    }


def future_oi(symbol: str, exchange: str, curve: Forwards) -> Floats:
    """Return open interest [USD], unrounded, by expiry and time."""
    s = all_symbols()
    symbol_code = s.name.index(symbol)
    level = s.oi[symbol_code] * OI_SHARE * _OI_OF_DERIBIT[exchange]
    return np.asarray(level * np.exp(-OI_DECAY * curve.year_fraction) * curve.spot / s.price[symbol_code])


def listed_contracts(
    first: int, last: int, names: Sequence[str] | None, venues: Sequence[str] | None
) -> dict[str, Any]:
    """Return the columns of contracts listed or delisted at ``first <= time < last`` [µs].

    A contract has a row at its listing, and one at its delisting or expiry.
    """
    contracts = [*_perpetuals(names, venues), *_futures(first, last, names, venues)]
    columns = ["symbol", "exchange", "instrument_name", "since", "until", "perpetual"]
    frame = pd.DataFrame(contracts, columns=columns)
    frame = pd.concat([frame.assign(time=frame["since"]), frame.assign(time=frame["until"])])
    frame = frame[(frame["time"] >= first) & (frame["time"] < last)].reset_index(drop=True)
    if frame.empty:
        return {}
    perpetual = frame["perpetual"]
    is_over = frame["time"] == frame["until"]
    until = pd.Series(timestamps(frame["until"].where(frame["until"] < FOREVER * DAY_US, 0)))
    return dict(frame[columns[:3]]) | {
        "time": timestamps(frame["time"]),
        "quote": np.where(perpetual, "USDT", "USD"),
        "multiplier": [float(base(symbol)[1]) for symbol in frame["symbol"]],
        "is_inverse": np.zeros(len(frame), dtype=bool),
        "is_perpetual": perpetual,
        "is_active": ~is_over,
        "expiry": until.where(~perpetual),
        "listed": timestamps(frame["since"]),
        "delisted": until.where(perpetual & is_over),
    }


def _perpetuals(names: Sequence[str] | None, venues: Sequence[str] | None) -> Iterator[tuple[Any, ...]]:
    """Yield symbol, venue, name, first and last time [µs], and whether perpetual, which is true."""
    selection = select(names, venues)
    starts = np.maximum(selection.since, START_DAY).tolist()
    ends = selection.until.tolist()
    for symbol_code, venue, since, until in zip(
        selection.symbol, selection.exchange, starts, ends, strict=True
    ):
        symbol = all_symbols().name[symbol_code]
        if since < until:
            yield symbol, exchange_names()[venue], f"{symbol}USDT", since * DAY_US, until * DAY_US, True


def _futures(
    first: int, last: int, names: Sequence[str] | None, venues: Sequence[str] | None
) -> Iterator[tuple[Any, ...]]:
    """Yield the contracts of dated futures, as `_perpetuals` does."""
    for symbol, exchange in future_markets(names, venues):
        listed: set[Expiry] = set()
        for day in range(first // DAY_US - 1, last // DAY_US + 1):
            listed.update(future_listing(exchange, day))
        for expiry in listed:
            name = future_name(symbol, exchange, expiry.day)
            start = max(expiry.listed, START_DAY) * DAY_US + EXPIRY_US
            yield symbol, exchange, name, start, expiry.day * DAY_US + EXPIRY_US, False


_VERSION = 7
"""Version of the sample. Every change of its values increases it."""

_MIN_SECONDS_TO_STORE = 0.2
"""Processor time [s] from which results are stored on disk."""

_Names = Sequence[str] | None
_ROWS_OF_TABLES: dict[str, Callable[..., dict[str, Any]]] = {
    "liquidations_fills": perpetuals.fill_rows,
    "orderbook_depth_history": market.depths,
    "prices_history": market.quotes,
    "futures_history": future_rows,
    "instruments": listed_contracts,
    "positioning_history": perpetuals.rows,
    "prices_spot": market.spot,
    "hip3_traders": market.hip3_traders,
    "hip3_hourly_candles": market.hip3_candles,
    "hip4_traders": market.hip4_traders,
    "hip4_oi": market.hip4_oi,
    "builders_history": market.builders_history,
    "orderbook_book": market.newest,
    "rwa_market_hours": universe.newest,
    "options_snapshot": option_quotes.chains,
    "options_overview_history": option_quotes.overview,
    "options_trades": option_quotes.trades,
    "delivery_prices": option_quotes.deliveries,
    "volatility_index_published": option_quotes.indices,
}
_NEWEST_ROWS_OF_TABLES: dict[str, Callable[[int, int, _Names, _Names], dict[str, Any]]] = {
    "orderbook_book": market.newest,
    "prices_history": market.newest_quotes,
    "rwa_market_hours": universe.newest,
    "options_snapshot": option_quotes.newest_chains,
}
_TABLES_WITH_SLOW_COLUMNS = ("liquidations_fills", "options_snapshot")
"""Tables with columns that take long to compute, and whose functions have the argument `columns`."""
_SYMBOLS_AND_VENUES = {
    **dict.fromkeys(
        ("options_snapshot", "options_overview_history", "options_trades", "delivery_prices"),
        (option_quotes.SYMBOLS, option_quotes.EXCHANGES),
    ),
    "volatility_index_published": (("BTC", "ETH"), tuple(option_quotes.INDICES)),
    "futures_history": (SYMBOLS, EXCHANGES),
}
"""Symbols and venues of tables that are not of the perpetuals."""
_TABLES_WITHOUT_PAIRS = frozenset(
    "hip3_traders hip3_hourly_candles hip4_traders hip4_oi builders_history rwa_market_hours".split()
)
"""Tables without symbol or venue."""

_TABLES = frozenset((*market.HISTORIES, *_ROWS_OF_TABLES))


class Sample:
    """A deterministic synthetic market; a store for the service."""

    synthetic = True
    start = START
    now = NOW
    label = "sample"
    version = str(_VERSION)
    id = identity = f"sample-{SEED}-{_VERSION}"

    def __repr__(self) -> str:
        return f"<synthetic market, {len(all_symbols().name)} symbols on {len(exchange_names())} venues>"

    def tables(self) -> frozenset[str]:
        """Return the names of the base tables."""
        return _TABLES

    def asset_classes(self) -> dict[str, str]:
        """Return the class of each symbol: ``crypto``, ``equity``, ``index`` or ``commodity``."""
        return dict(zip(all_symbols().name, classes(), strict=True))

    def symbols(self, table: str) -> tuple[str, ...]:
        """Return the symbols of a base table, sorted."""
        _require_table(table)
        if table in _TABLES_WITHOUT_PAIRS:
            return ()
        if table in _SYMBOLS_AND_VENUES:
            return _SYMBOLS_AND_VENUES[table][0]
        return all_symbols().name

    def exchanges(self, table: str) -> tuple[str, ...]:
        """Return the venues of a base table, sorted."""
        _require_table(table)
        if table in _TABLES_WITHOUT_PAIRS:
            return ()
        if table in _SYMBOLS_AND_VENUES:
            return _SYMBOLS_AND_VENUES[table][1]
        return exchange_names()

    def read(
        self,
        table: str,
        start: pd.Timestamp,
        end: pd.Timestamp,
        *,
        symbols: Sequence[str] | None = None,
        venues: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """Return the rows of a table with ``start <= time < end``."""
        return self.rows(Query(table, start, end, symbols, venues))

    def latest(
        self,
        table: str,
        at: pd.Timestamp,
        *,
        within: pd.Timedelta,
        symbols: Sequence[str] | None = None,
        venues: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """Return the newest rows up to and including `at`, no older than `within`."""
        return self.newest(Query(table, at - within, at + pd.Timedelta(1, "us"), symbols, venues))

    def extents(self, table: str, until: pd.Timestamp) -> pd.DataFrame:
        """Return, for each venue, the day of its first listing, its last time within a day, and a symbol.

        Rows are not counted, because they are made on request.
        """
        _require_table(table)
        names = [name for name in ("exchange", "symbol") if name in TABLES[table].columns]
        symbols: list[str] | None = None
        listed = pd.DataFrame({"exchange": [], "first": []}).astype("object")
        if table not in (*_TABLES_WITHOUT_PAIRS, *_SYMBOLS_AND_VENUES):
            # Of each venue, take the pair that began first, if possible one that still trades.
            pairs = select(None, None)
            is_over = pairs.until * DAY_US < times.us(until)
            order = np.lexsort((pairs.symbol, pairs.since, is_over))
            venue, place = np.unique(pairs.exchange[order], return_index=True)
            first_pairs = order[place]
            symbols = sorted({all_symbols().name[n] for n in pairs.symbol[first_pairs]})
            listed["exchange"] = [exchange_names()[n] for n in venue]
            listed["first"] = timestamps(np.maximum(pairs.since[first_pairs] * DAY_US, times.us(START)))
        start = max(until - pd.Timedelta(1, "D"), START)
        rows = self.rows(Query(table, start, until, symbols, columns=("time", *names)))
        rows = rows.astype(dict.fromkeys(names, "object")).reindex(columns=["exchange", "symbol", "time"])
        last = rows.groupby("exchange", dropna=False).agg(last=("time", "max"), symbol=("symbol", "min"))
        if len(listed):
            return listed.merge(last.reset_index(), on="exchange", how="outer").assign(row_count=None)
        extents = listed.merge(last.reset_index(), on="exchange", how="right").assign(row_count=None)
        return extents.assign(first=extents["first"].fillna(START))

    def rows(self, query: Query) -> pd.DataFrame:
        """Return the rows of a query as their table has them; with `columns` only these, unsorted."""
        _require_table(query.table)
        return _cached(("rows", query), lambda: _query_rows(query))

    def newest(self, query: Query) -> pd.DataFrame:
        """Return the newest row of each series in a query; for options the newest complete chains."""
        _require_table(query.table)
        return _cached(("newest", query), lambda: _newest_rows(query))

    def sums(self, query: Query, value: str) -> pd.DataFrame:
        """Add up a column over the symbols of each venue and time, as an archive does."""
        _require_table(query.table)
        first = max(times.us(query.start), times.us(START))
        last = max(times.us(query.end), times.us(START))
        selection = select(query.symbols, query.venues)
        return _cached(
            ("sums", query, value), lambda: market.history_sums(query.table, value, first, last, selection)
        )


def _cached(key: tuple[object, ...], make: Callable[[], pd.DataFrame]) -> pd.DataFrame:
    """Return a frame from the cache on disk, or make it; slow results are stored for all processes."""
    name = hashlib.blake2b(repr(key).encode()).hexdigest()
    files = ResponseFiles(cache_folder() / "sample", _code_version())
    record = files.record(name)
    if record is not None:
        return _read_frame(record.body)
    start = time.thread_time()
    frame = make()
    if time.thread_time() - start > _MIN_SECONDS_TO_STORE:
        sink = pa.BufferOutputStream()
        feather.write_feather(frame, sink, compression="uncompressed")
        body = sink.getvalue().to_pybytes()
        files.keep(Head(name, "", {}, NOW.to_pydatetime(), None, len(body)), body)
    return frame


def _read_frame(body: bytes) -> pd.DataFrame:
    """Return the frame of a cached body."""
    frame = feather.read_feather(pa.BufferReader(body))
    # Arrow does not store the type of the categories of a column without categories.
    empty = [n for n, kind in frame.dtypes.items() if kind == "category" and kind.categories.empty]
    return frame.astype(dict.fromkeys(empty, pd.CategoricalDtype(pd.Index([], dtype="str"))))


@lru_cache(maxsize=1)
def _code_version() -> str:
    """Return a text that changes with the code that computes the sample."""
    return f"{package_digest('sources/sample', 'analysis/black76', 'support', 'tables')}-{np.__version__}"


def _query_rows(query: Query) -> pd.DataFrame:
    """Compute the rows of a query, as `Sample.rows` returns them."""
    first = max(times.us(query.start), times.us(START))
    last = times.us(query.end)
    table = query.table
    columns = query.columns
    if first >= last:
        arrays = {}
    elif table in _TABLES_WITH_SLOW_COLUMNS:
        options = {}
        if query.near_money:
            options["near_money"] = True
        arrays = _ROWS_OF_TABLES[table](first, last, query.symbols, query.venues, columns, **options)
    elif table in _ROWS_OF_TABLES:
        arrays = _ROWS_OF_TABLES[table](first, last, query.symbols, query.venues)
    else:
        arrays = market.read_history(table, first, last, select(query.symbols, query.venues))
    if columns is None:
        return _build_table(table, arrays)
    if not arrays or not len(arrays["time"]):
        return TABLES[table].empty()[list(columns)]
    return TABLES[table].some(columns, arrays)


def _newest_rows(query: Query) -> pd.DataFrame:
    """Compute the newest rows of a query, as `Sample.newest` returns them."""
    table = query.table
    first = max(times.us(query.start), times.us(START))
    last = times.us(query.end) - 1
    if first > last:
        return TABLES[table].empty()
    if table in _NEWEST_ROWS_OF_TABLES:
        return _build_table(table, _NEWEST_ROWS_OF_TABLES[table](first, last, query.symbols, query.venues))
    if table in _ROWS_OF_TABLES:
        frame = _build_table(table, _ROWS_OF_TABLES[table](first, last + 1, query.symbols, query.venues))
        key = [column for column in TABLES[table].key if column != "time"]
        newest = frame.groupby(key, observed=True)["time"].transform("max")
        return TABLES[table].conform(frame[frame["time"] == newest])
    return _build_table(table, market.latest_history(table, first, last, select(query.symbols, query.venues)))


def _build_table(name: str, columns: dict[str, Any]) -> pd.DataFrame:
    """Return a table from its columns; an empty dict gives the empty table."""
    table = TABLES[name]
    if not columns or not len(columns["time"]):
        return table.empty()
    return table.build({table.wire.get(name, name): values for name, values in columns.items()})


def _require_table(table: str) -> None:
    if table not in _TABLES:
        raise ValueError(
            f"the sample does not have the table {table!r}; available: {', '.join(sorted(_TABLES))}"
        )
