"""Markets of the sample: order books, state and histories of every pair; dexes, outcomes and builders.

A matrix has a row per pair and a column per step. The table omits cells whose first value is NaN.

HIP-3 dexes list stocks, metals and indices; HIP-4 outcomes are questions, traded on two venues; builders
route orders and charge their own fee. Their trading is one draw per (actor, market, day), within one quarter
of an hour.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from derivdata.sources.sample import noise, perpetuals, universe
from derivdata.sources.sample.noise import DAY_US, START_DAY, STEP_US, STEPS, timestamps
from derivdata.sources.sample.universe import (
    Pairs,
    exchange_names,
    joined,
    labelled,
    pairs,
    select,
    symbols,
    take_rows,
    text,
    with_words,
)
from derivdata.support.arrays import Floats, Ints

DEPTHS = (10, 25, 50, 100)
"""Distances from the mid price over which depth is added up [bps]."""

LEVELS = 120
"""Levels per side of a book, 1 bps apart."""
_BOOK_STREAM = noise.key("order book")


def newest(
    first: int, last: int, names: Sequence[str] | None, venues: Sequence[str] | None
) -> dict[str, Any]:
    """Return the columns of every pair's newest book with ``first <= time <= last`` [µs]."""
    step = last // STEP_US
    if step * STEP_US < first:
        return {}
    selection = _trading(select(names, venues), np.array([step]))
    if not len(selection):
        return {}
    price, size = _levels(selection, np.array([step]))
    row, side, level = np.indices(price.shape[:1] + price.shape[2:]).reshape(3, -1)
    return labelled(
        {
            "symbol": selection.symbol[row],
            "exchange": selection.exchange[row],
            "time": np.full(row.size, step * STEP_US),
            "side": text(1 - side, ("ask", "bid")),
            "level": level + 1,
            "price_usd": price[:, 0].ravel(),
            "size": size[:, 0].ravel(),
        }
    )


def depths(
    first: int, last: int, names: Sequence[str] | None, venues: Sequence[str] | None
) -> dict[str, Any]:
    """Return the depth of every book with ``first <= time < last`` [µs], summed from its levels."""
    steps = np.arange(-(-first // STEP_US), -(-last // STEP_US))
    selection = select(names, venues)
    if not steps.size or not len(selection):
        return {}
    days = np.unique(steps // STEPS).tolist()
    return labelled(joined([_depths(selection, steps[steps // STEPS == day]) for day in days]))


def half_spread(selection: Pairs) -> Floats:
    """Return the distance of the best levels from the mid price [bps]."""
    return np.asarray(0.3 + 4.0 * noise.uniform(selection.streams ^ _BOOK_STREAM, 0))


def _trading(selection: Pairs, steps: Ints) -> Pairs:
    """Return the pairs that trade on the day of some steps since 1970."""
    day = int(steps[0] // STEPS)
    return selection.trading(day, day + 1)


def _levels(selection: Pairs, steps: Ints) -> tuple[Floats, Floats]:
    """Return price and size of every level, rounded, shape ``(pairs, steps, side, level)``.

    `steps` are those of one day, counted from 1970. The bid is side 0. Sizes are in proportion to open
    interest, increase with the distance from the mid price, and are random.
    """
    day = int(steps[0] // STEPS)
    step_of_day = steps - day * STEPS
    symbol_codes, row_of_pair = np.unique(selection.symbol, return_inverse=True)
    path = universe.price(symbol_codes, day, 1)[:, step_of_day][row_of_pair]
    middle = path * universe.premium(selection)[:, None]
    distance = half_spread(selection)[:, None] + np.arange(LEVELS)
    sign = np.array([-1.0, 1.0])[:, None]
    price = middle[..., None, None] * (1.0 + sign * distance[:, None, None, :] / 1e4)
    oi = np.nan_to_num(perpetuals.oi(selection, day, 1)[:, step_of_day * 24 // STEPS])
    index = (steps[:, None, None] * 2 + np.arange(2)[:, None]) * LEVELS + np.arange(LEVELS)
    shock = noise.normal((selection.streams ^ _BOOK_STREAM)[:, None, None, None], index)
    shape = (1.0 + np.arange(LEVELS) / 12.0) * np.exp(0.5 * shock)
    size = 2e-5 * oi[..., None, None] * shape / price
    return np.round(price, 8), np.round(size, 8)


def _depths(selected: Pairs, steps: Ints) -> dict[str, Any]:
    """Return the columns of the depths of one day."""
    selection = _trading(selected, steps)
    price, size = _levels(selection, steps)
    cumulative = np.cumsum(price * size, axis=-1)
    middle = 0.5 * (price[:, :, 0, 0] + price[:, :, 1, 0])
    distance_bps = np.abs(price / middle[..., None, None] - 1.0) * 1e4
    level_count = np.stack([(distance_bps <= depth).sum(axis=-1) for depth in DEPTHS], axis=-1)
    # The depth is the cumulative value after the counted levels, 0 without any.
    padded = np.concatenate([np.zeros((*cumulative.shape[:-1], 1)), cumulative], axis=-1)
    depths = np.round(np.take_along_axis(padded, level_count, axis=-1), 2)
    row, step, depth = np.indices((len(selection), steps.size, len(DEPTHS))).reshape(3, -1)
    return {
        "symbol": selection.symbol[row],
        "exchange": selection.exchange[row],
        "time": steps[step] * STEP_US,
        "depth_bps": np.array(DEPTHS, dtype=np.float64)[depth],
        "bid_depth_usd": depths[:, :, 0].ravel(),
        "ask_depth_usd": depths[:, :, 1].ravel(),
    }


_STEPS_PER_HOUR = STEPS // 24
_PRICE_KINDS = ("index", "last", "mark")
_TAKER_STREAM = noise.key("side of the last trade")
_SPOT_STREAM = noise.key("spot")
_USDT_STREAM = noise.key("price of USDT")
SPOT_QUOTES = {"binance": "USDT", "bybit": "USDT", "coinbase": "USD", "okx": "USDT"}
"""Venues with spot prices, and their quote currency."""
SPOT_DEVIATION_BPS = 1.0
USDT_DEVIATION_BPS = 5.0
USDT_HALF_LIFE_HOURS = 48.0
_Names = Sequence[str] | None


def state(selection: Pairs, day: int, steps: Ints) -> dict[str, Floats]:
    """Return columns of ``markets_symbol_exchanges`` at five-minute steps of a day, ``(pairs, steps)``."""
    yesterday, today = selection.is_traded(np.array([day - 1, day])).T
    now = _price(selection, day, steps)
    before = _price(selection, day - 1, steps)
    has_change = (yesterday & today)[:, None]
    change = np.where(has_change, np.round(100.0 * (now / before - 1.0), 6), np.nan)
    return {
        "price_usd": np.where(today[:, None], now, np.nan),
        "price_24h_change_pct": change + 0.0,
        "volume_24h_usd": _volume(selection, day, steps),
        "oi_usd": perpetuals.oi(selection, day, 1)[:, steps // _STEPS_PER_HOUR],
        "funding_current_bps_8h": _newest_rates(selection, day, steps),
        "funding_avg_7d_bps_8h": _mean_rates(selection, day, steps),
        "liquidation_24h_usd": _liquidated_values(selection, day, steps),
    }


def quotes(first: int, last: int, names: _Names, venues: _Names) -> dict[str, Any]:
    """Return the columns of the prices with ``first <= time < last`` [µs]."""
    selected = select(names, venues)
    by_day = []
    for day in range(first // DAY_US, (last - 1) // DAY_US + 1):
        selection = selected.trading(day, day + 1)
        times = noise.grid(max(first, day * DAY_US), min(last, (day + 1) * DAY_US), STEP_US)
        if not len(selection) or not times.size:
            continue
        step = times // STEP_US - day * STEPS
        mark = _price(selection, day, step)
        premium = perpetuals.premium(selection, day, 1)[:, step]
        buys = noise.uniform((selection.streams ^ _TAKER_STREAM)[:, None], day * STEPS + step) >= 0.5
        traded = mark * (1.0 + np.where(buys, 1e-4, -1e-4) * half_spread(selection)[:, None])
        prices = np.stack([mark / (1.0 + premium / 1e4), traded, mark], axis=-1)  # as in _PRICE_KINDS
        row, place, kind = np.indices(prices.shape).reshape(3, -1)
        by_day.append(
            {
                "symbol": selection.symbol[row],
                "exchange": selection.exchange[row],
                "time": times[place],
                "kind": kind,
                "price_usd": np.round(prices, 8).ravel(),
            }
        )
    return with_words(by_day, "kind", _PRICE_KINDS, "5m")


def spot(first: int, last: int, names: _Names, venues: _Names) -> dict[str, Any]:
    """Return the columns of the hourly spot prices with ``first <= time < last`` [µs].

    A spot price is the venue's index plus a random distance. A price in USD is the price in USDT times the
    price of USDT, an Ornstein–Uhlenbeck path about 1.
    """
    selected = select(names, venues)
    by_day = []
    spot_venues = [exchange_names().index(name) for name in SPOT_QUOTES]
    selected = selected.take(np.flatnonzero(np.isin(selected.exchange, spot_venues)))
    step = np.arange(0, STEPS, _STEPS_PER_HOUR)
    for day in range(first // DAY_US, (last - 1) // DAY_US + 1):
        selection = selected.trading(day, day + 1)
        if not len(selection):
            continue
        premium = perpetuals.premium(selection, day, 1)[:, step]
        index = _price(selection, day, step) / (1.0 + premium / 1e4)
        drawn = noise.normal((selection.streams ^ _SPOT_STREAM)[:, None], day * 24 + np.arange(24))
        price = index * (1.0 + SPOT_DEVIATION_BPS / 1e4 * drawn)
        is_usd = np.array([SPOT_QUOTES.get(name) == "USD" for name in exchange_names()])[selection.exchange]
        path = noise.ou(np.array([_USDT_STREAM]), USDT_HALF_LIFE_HOURS, day, 1, 24)[0, 0]
        usdt_price = 1.0 + USDT_DEVIATION_BPS / 1e4 * path
        price *= np.where(is_usd[:, None], usdt_price, 1.0)
        row, hour = np.indices(price.shape).reshape(2, -1)
        time = day * DAY_US + step[hour] * STEP_US
        inside = (time >= first) & (time < last)
        keys = {"symbol": selection.symbol[row], "exchange": selection.exchange[row], "time": time}
        quote = np.where(is_usd[row], 0, 1)  # code of USD or USDT
        table = {**keys, "quote": quote, "price": np.round(price, 8).ravel()}
        by_day.append(take_rows(table, inside))
    return with_words(by_day, "quote", ("USD", "USDT"), "1h")


def newest_quotes(first: int, last: int, names: _Names, venues: _Names) -> dict[str, Any]:
    """Return the columns of the newest prices of each pair with ``first <= time <= last`` [µs]."""
    step = last // STEP_US * STEP_US
    if step < first:
        return {}
    return quotes(step, step + 1, names, venues)


def _price(selection: Pairs, day: int, steps: Ints) -> Floats:
    """Return the mark price [USD] at five-minute steps of a day, rounded, ``(pairs, steps)``."""
    symbol_codes, row_of_pair = np.unique(selection.symbol, return_inverse=True)
    path = universe.price(symbol_codes, day, 1)[:, steps]
    return np.round(path[row_of_pair] * universe.premium(selection)[:, None], 6)


def _volume(selection: Pairs, day: int, steps: Ints) -> Floats:
    """Return the volume [USD] of the 24 full hours before each step, NaN without an hour of trading."""
    hourly = perpetuals.volume(selection, day - 1, 2)
    zero = np.zeros((len(selection), 1))
    sums = np.concatenate([zero, np.nancumsum(hourly, axis=1)], axis=1)  # before each hour
    counts = np.cumsum(np.concatenate([zero, ~np.isnan(hourly)], axis=1), axis=1)
    hour = 24 + steps // _STEPS_PER_HOUR
    total = np.round(sums[:, hour] - sums[:, hour - 24], 6)
    return np.where(counts[:, hour] > counts[:, hour - 24], total, np.nan)


def _newest_rates(selection: Pairs, day: int, steps: Ints) -> Floats:
    """Return the newest rate recorded in the 24 hours up to each step, ends included; NaN without one."""
    # In arrays of both days, step s of the day is at index STEPS + s, and s is the index 24 hours earlier.
    yesterday = perpetuals.recorded(selection, day - 1, 1)
    rates = np.concatenate([yesterday, perpetuals.recorded(selection, day, 1)], axis=1)
    recorded_at = np.where(np.isnan(rates), -1, np.arange(2 * STEPS))
    newest = np.maximum.accumulate(recorded_at, axis=1)[:, STEPS + steps]
    newest_rates = np.take_along_axis(rates, np.maximum(newest, 0), axis=1)
    return np.where(newest >= steps, newest_rates, np.nan)


def _mean_rates(selection: Pairs, day: int, steps: Ints) -> Floats:
    """Return the mean recorded rate of the 7 days before each step, from sums of full days."""
    # The sum of the seven days before, plus today until the step, minus the first day until the same step.
    today = perpetuals.recorded(selection, day, 1)
    week_ago = perpetuals.recorded(selection, day - 7, 1)
    full_days = [perpetuals.totals(selection, d) for d in range(day - 7, day)]
    totals, counts = zip(*full_days, strict=True)
    total = np.nancumsum(today, axis=1)[:, steps] - np.nancumsum(week_ago, axis=1)[:, steps]
    total += np.sum(totals, axis=0)[:, None]
    count = (np.cumsum(~np.isnan(today), axis=1) - np.cumsum(~np.isnan(week_ago), axis=1))[:, steps]
    count += np.sum(counts, axis=0)[:, None]
    return np.where(count > 0, np.round(total / np.maximum(count, 1), 6) + 0.0, np.nan)


def _liquidated_values(selection: Pairs, day: int, steps: Ints) -> Floats:
    """Return the value of liquidations [USD] in the 24 hours before each step."""
    row_of_pair = np.full(len(pairs()), -1)
    row_of_pair[selection.row] = np.arange(len(selection))
    sums = np.zeros((len(selection), 2 * STEPS + 1))
    for start in (day - 2, day - 1, day):  # a cluster may last beyond midnight
        orders = perpetuals.orders(start)
        fills = perpetuals.fills(orders)
        step = fills.time // STEP_US - (day - 1) * STEPS
        row = row_of_pair[orders.pair[fills.order]]
        inside = (step >= 0) & (step < 2 * STEPS) & (row >= 0)
        value = np.round(fills.price * fills.quantity, 6)
        np.add.at(sums, (row[inside], step[inside] + 1), value[inside])
    sums = np.cumsum(sums, axis=1)
    return np.round(sums[:, STEPS + steps] - sums[:, steps], 6)


_SUM_BLOCK_US = 16 * DAY_US
_STATE = "markets_symbol_exchanges"


class Matrix(NamedTuple):
    """Values of full days: times [µs] of the steps, and ``(pairs, steps)`` per column."""

    time: Ints
    values: Mapping[str, Floats]

    def within(self, first: int, last: int) -> Matrix:
        """Return the steps with ``first <= time < last`` [µs]."""
        inside = slice(*np.searchsorted(self.time, [first, last]))
        return Matrix(self.time[inside], {name: v[:, inside] for name, v in self.values.items()})

    def cells(self, row: Ints, step: Ints) -> dict[str, Any]:
        """Return the times and values of some cells as columns."""
        return {"time": self.time[step]} | {name: v[row, step] for name, v in self.values.items()}


class HistoryRecipe(NamedTuple):
    """Recipe of a table: function for the matrix of pairs on some days, and constant columns."""

    days: Callable[[Pairs, int, int], Matrix]
    constants: Mapping[str, str]


def read_history(table: str, first: int, last: int, selection: Pairs) -> dict[str, Any]:
    """Return the columns with ``first <= time < last`` [µs], by pair and time; empty without rows."""
    begin, stop = _matrix_days(first, last)
    selection = selection.trading(begin, stop)
    if not len(selection):
        return {}
    matrix = HISTORIES[table].days(selection, begin, stop - begin).within(first, last)
    row, step = np.nonzero(~np.isnan(next(iter(matrix.values.values()))))
    keys = {"symbol": selection.symbol[row], "exchange": selection.exchange[row]}
    return _columns(table, keys | matrix.cells(row, step))


def latest_history(table: str, first: int, last: int, selection: Pairs) -> dict[str, Any]:
    """Return the columns of each pair's newest row with ``first <= time <= last`` [µs], or an empty dict."""
    by_day: list[dict[str, Any]] = []
    begin, stop = _matrix_days(first, last + 1)
    for day in range(stop - 1, begin - 1, -1):
        today = selection.trading(day, day + 1)
        if not len(today):
            continue
        if table == _STATE:  # the last step is enough, because a traded pair has a row at every step
            step = np.array([min((last - day * DAY_US) // STEP_US, STEPS - 1)])
            matrix = Matrix(_steps(day, 1)[step], state(today, day, step))
        else:
            matrix = HISTORIES[table].days(today, day, 1)
        matrix = matrix.within(first, last + 1)
        present = ~np.isnan(next(iter(matrix.values.values())))
        rows = np.flatnonzero(present.any(axis=1))
        if rows.size:
            step = present.shape[1] - 1 - np.argmax(present[rows, ::-1], axis=1)
            with_rows = today.take(rows)
            keys = {"row": with_rows.row, "symbol": with_rows.symbol, "exchange": with_rows.exchange}
            by_day.append(keys | matrix.cells(rows, step))
            selection = selection.take(np.flatnonzero(~np.isin(selection.row, with_rows.row)))
        if not len(selection.trading(begin, day)):
            break
    if not by_day:
        return {}
    columns = joined(by_day)
    order = np.argsort(columns.pop("row"))
    return _columns(table, take_rows(columns, order))


def history_sums(table: str, value: str, first: int, last: int, selection: Pairs) -> pd.DataFrame:
    """Return sums over the symbols of each venue and step in ``[first, last)`` [µs]."""
    # Matrices of all pairs over many days would need gigabytes.
    edges = [first, *range((first // _SUM_BLOCK_US + 1) * _SUM_BLOCK_US, last, _SUM_BLOCK_US), last]
    columns = joined([_sums(table, value, *block, selection) for block in itertools.pairwise(edges)])
    constant = text(np.zeros(len(columns["time"]), np.int8), (HISTORIES[table].constants["resolution"],))
    named = {"exchange": text(columns.pop("exchange"), exchange_names()), "resolution": constant}
    return pd.DataFrame(named | {"time": timestamps(columns.pop("time"))} | columns, copy=False)


def _sums(table: str, value: str, first: int, last: int, selection: Pairs) -> dict[str, Any]:
    """Return sum, number and hash of the symbols of each venue and step, as `history_sums` has them."""
    begin, stop = _matrix_days(first, last)
    selection = selection.trading(begin, stop)
    if first >= last or not len(selection):
        empty = dict.fromkeys(("exchange", "time", "symbols"), np.zeros(0, np.int64))
        return empty | {"value": np.zeros(0), "symbol_hash": np.zeros(0, np.uint64)}
    selection = selection.take(np.argsort(selection.exchange, kind="stable"))
    opens = np.flatnonzero(np.append(True, np.diff(selection.exchange) != 0))  # first row of each venue
    matrix = HISTORIES[table].days(selection, begin, stop - begin).within(first, last)
    values = matrix.values[value]
    present = ~np.isnan(values)
    streams = symbols().streams[selection.symbol][:, None]
    sums = {
        "value": np.add.reduceat(np.where(present, values, 0.0), opens, axis=0),
        "symbols": np.add.reduceat(present.astype(np.int64), opens, axis=0),
        "symbol_hash": np.bitwise_xor.reduceat(np.where(present, streams, np.uint64(0)), opens, axis=0),
    }
    row, step = np.nonzero(sums["symbols"])
    return {"exchange": selection.exchange[opens][row]} | Matrix(matrix.time, sums).cells(row, step)


def _matrix_days(first: int, last: int) -> tuple[int, int]:
    """Return the first day whose matrix has rows of ``[first, last)`` [µs], and the day after the last.

    The payment at midnight is in the matrix of the day that ends.
    """
    return (first - 1) // DAY_US, (last - 1) // DAY_US + 1


def _columns(table: str, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return labelled columns together with the table's constant columns."""
    zeros = np.zeros(len(columns["time"]), dtype=np.int8)
    constants = HISTORIES[table].constants.items()
    return labelled(columns) | {name: text(zeros, (value,)) for name, value in constants}


def _steps(day: int, days: int) -> Ints:
    """Return the times [µs] of the five-minute steps of some days."""
    return np.asarray(day * DAY_US + np.arange(days * STEPS) * STEP_US)


def _funding(selection: Pairs, day: int, days: int) -> Matrix:
    return Matrix(_steps(day, days), {"rate_bps_8h": perpetuals.recorded(selection, day, days)})


def _settlements(selection: Pairs, day: int, days: int) -> Matrix:
    time, rate, interval = perpetuals.settled(selection, day, days)
    return Matrix(time, {"rate_bps_8h": rate, "interval_hours": interval})


def _open_interest(selection: Pairs, day: int, days: int) -> Matrix:
    return Matrix(perpetuals.hours(day, days), {"oi_usd": perpetuals.oi(selection, day, days)})


def _hourly_volume(selection: Pairs, day: int, days: int) -> Matrix:
    return Matrix(perpetuals.hours(day, days), {"volume_usd": perpetuals.volume(selection, day, days)})


def _taker_volume(selection: Pairs, day: int, days: int) -> Matrix:
    return Matrix(perpetuals.hours(day, days), perpetuals.taken(selection, day, days))


def _market(selection: Pairs, day: int, days: int) -> Matrix:
    states = [state(selection, d, np.arange(STEPS)) for d in range(day, day + days)]
    values = {name: np.concatenate([columns[name] for columns in states], axis=1) for name in states[0]}
    return Matrix(_steps(day, days), values)


HISTORIES: dict[str, HistoryRecipe] = {
    "funding_history": HistoryRecipe(_funding, {"resolution": "raw", "kind": "sampled"}),
    "funding_settlements": HistoryRecipe(_settlements, {"kind": "settled"}),
    "oi_history": HistoryRecipe(_open_interest, {"resolution": "1h"}),
    "volume_history": HistoryRecipe(_hourly_volume, {"resolution": "1h"}),
    "volume_taker": HistoryRecipe(_taker_volume, {"resolution": "1h"}),
    _STATE: HistoryRecipe(_market, {}),
}


DEXES = {
    "flx": tuple("COIN CRCL TSLA XAG XAU".split()),
    "vntl": tuple("NVDA SPX TSLA XAU".split()),
    "xyz": tuple("AAPL AMZN COIN GOOGL HOOD META MSFT MSTR NDX NVDA PLTR TSLA XAG XAU".split()),
}
"""Symbols of each dex."""

OUTCOMES = tuple(str(number) for number in range(101, 113))
"""Numbers of the outcomes."""

BUILDERS = tuple(sorted("axiom basedapp dexari hyperdash insilico okto phantom pvp rabby supurr".split()))
"""Names of the builders."""

_SLOTS = 96
_SLOT_US = DAY_US // _SLOTS
_STEPS_PER_SLOT = STEPS // _SLOTS
_ADDRESS_COUNT = 250
_HIP3_FEE = 0.00045  # share of a trade's value; the deployer gets half of the fee
_HIP4_FEE = 0.0007
_ACTIVE_STREAM = noise.key("onchain", "active")
_TIME_STREAM = noise.key("onchain", "when")
_SIZE_STREAM = noise.key("onchain", "size")
_COUNT_STREAM = noise.key("onchain", "count")
_LIQUIDATED_STREAM = noise.key("onchain", "liquidated")
_OI_STREAM = noise.key("onchain", "open interest")


class _Markets(NamedTuple):
    """Markets of a family: key columns with one value per market, and names for their random streams."""

    columns: Mapping[str, Sequence[str]]
    names: tuple[str, ...]

    def labels(self, place: Ints) -> dict[str, Any]:
        """Return the key columns of rows, from the positions of their markets."""
        result = {}
        for column, values in self.columns.items():
            distinct, codes = np.unique(list(values), return_inverse=True)
            result[column] = text(codes[place], tuple(distinct.tolist()))
        return result


def _paired(first: str, second: str, pairs: Sequence[tuple[str, str]], separator: str) -> _Markets:
    """Return markets with the key columns `first` and `second`, and their joined values as names."""
    firsts, seconds = zip(*pairs, strict=True)
    return _Markets({first: firsts, second: seconds}, tuple(map(separator.join, pairs)))


_HIP3_PAIRS = [(dex, symbol) for dex in DEXES for symbol in DEXES[dex]]
_HIP3_MARKETS = _paired("dex", "symbol", _HIP3_PAIRS, ":")
_DEX_TRADES = {"flx": 2_500.0, "vntl": 1_800.0, "xyz": 9_000.0}  # typical value of a trade [USD]
_DEX_SCALE = np.array([_DEX_TRADES[dex] for dex, _ in _HIP3_PAIRS])
_HIP4_PAIRS = [(venue, outcome) for venue in ("out", "skew") for outcome in OUTCOMES]
_HIP4_MARKETS = _paired("venue", "outcome_id", _HIP4_PAIRS, "|")
_VENUE_SCALE = np.repeat([900.0, 350.0], len(OUTCOMES))  # typical value of a trade [USD]
_BUILDER_MARKETS = _Markets({"symbol": "BTC ETH HYPE SOL XRP".split()}, tuple("BTC ETH HYPE SOL XRP".split()))


def hip3_traders(first: int, last: int, *_: object) -> dict[str, Any]:
    """Return the columns of ``hip3_traders`` with ``first <= time < last`` [µs]."""
    drawn = [noise.uniform(noise.key("coin", dex, symbol), 0)[0] for dex, symbol in _HIP3_PAIRS]
    people = _addresses()
    activity = _trades(people, _HIP3_MARKETS.names, _DEX_SCALE * (0.4 + 1.2 * np.array(drawn)), first, last)
    fees = np.round(activity.volume * _HIP3_FEE, 4)
    streams = noise.keys("liquidated", _HIP3_MARKETS.names)[activity.market] ^ _LIQUIDATED_STREAM
    liquidated = noise.uniform(streams, activity.actor + activity.time) < 0.02
    return _HIP3_MARKETS.labels(activity.market) | {
        "address": text(activity.actor, people),
        "time": timestamps(activity.time),
        "volume_usd": activity.volume,
        "trade_count": activity.number,
        "fees_usd": fees,
        "deployer_fees_usd": np.round(fees / 2.0, 4),
        "liquidation_value_usd": np.where(liquidated, np.round(activity.volume * 0.6, 2), 0.0),
        "liquidation_count": liquidated.astype(np.int64),
    }


def hip3_candles(first: int, last: int, *_: object) -> dict[str, Any]:
    """Return the columns of ``hip3_candles`` with ``first <= time < last`` [µs]."""
    days = np.arange(max(first // DAY_US, START_DAY), -(-last // DAY_US))
    if not days.size:
        return {}
    symbol_codes = np.array([symbols().name.index(symbol) for _, symbol in _HIP3_PAIRS])
    premium = 1.0 + 4e-4 * (noise.uniform(noise.keys("coin premium", _HIP3_MARKETS.names), 0) - 0.5)
    path = universe.price(symbol_codes, int(days[0]), days.size + 1) * premium[:, None]
    time = days[0] * DAY_US + np.arange(days.size * _SLOTS) * _SLOT_US
    inside = np.flatnonzero((time >= first) & (time < last))
    # 1. Compute the candles of every quarter of an hour. It closes at the first step of the next one.
    close = path[:, _STEPS_PER_SLOT : days.size * STEPS + 1 : _STEPS_PER_SLOT]
    steps = path[:, : days.size * STEPS].reshape(len(path), -1, _STEPS_PER_SLOT)
    high = np.maximum(steps.max(axis=2), close)
    low = np.minimum(steps.min(axis=2), close)
    candles = {"open_usd": steps[..., 0], "high_usd": high, "low_usd": low, "close_usd": close}
    # 2. Compute open interest [contracts], with a half-life of 120 h.
    streams = noise.keys("coin", _HIP3_MARKETS.names) ^ _OI_STREAM
    x = noise.ou(streams, 120.0, int(days[0]), days.size, _SLOTS)
    level = _DEX_SCALE * 400.0 / symbols().price[symbol_codes]
    oi = level[:, None] * np.exp(0.3 * x.reshape(len(_HIP3_PAIRS), -1))
    # 3. Return one row for each market and quarter of an hour.
    market, place = np.indices((len(_HIP3_PAIRS), inside.size)).reshape(2, -1)
    values = {name: np.round(v[:, inside], 6).ravel() for name, v in candles.items()}
    contracts = np.round(oi[:, inside], 4).ravel()
    return _HIP3_MARKETS.labels(market) | {
        "time": timestamps(time[inside][place]),
        **values,
        "open_interest": contracts,
        "oi_usd": np.round(contracts * values["close_usd"], 2),
    }


def hip4_traders(first: int, last: int, *_: object) -> dict[str, Any]:
    """Return the columns of ``hip4_traders`` with ``first <= time < last`` [µs]."""
    drawn = [noise.uniform(noise.key("outcome", outcome), 0)[0] for _, outcome in _HIP4_PAIRS]
    people = _addresses()
    activity = _trades(people, _HIP4_MARKETS.names, _VENUE_SCALE * (0.2 + 2.0 * np.array(drawn)), first, last)
    return _HIP4_MARKETS.labels(activity.market) | {
        "address": text(activity.actor, people),
        "time": timestamps(activity.time),
        "volume_usd": activity.volume,
        "trade_count": activity.number,
        "fill_count": activity.number + activity.number // 3,
        "fees_usd": np.round(activity.volume * _HIP4_FEE, 4),
    }


def hip4_oi(first: int, last: int, *_: object) -> dict[str, Any]:
    """Return the columns of ``hip4_oi`` with ``first <= time < last`` [µs]: the end of every day."""
    days = np.arange(max(-(-first // DAY_US), START_DAY), -(-last // DAY_US))
    if not days.size:
        return {}
    level = noise.midnights(noise.keys("outcome held", _HIP4_MARKETS.names), 200.0, int(days[0]), days.size).T
    price = noise.midnights(noise.keys("outcome price", OUTCOMES), 300.0, int(days[0]), days.size).T
    contracts = np.round((60.0 * _VENUE_SCALE)[:, None] * np.exp(0.4 * level), 0)
    # Both venues have the same price, the probability of the outcome.
    probability = np.tile(1.0 / (1.0 + np.exp(-price)), (len(_HIP4_PAIRS) // len(OUTCOMES), 1))
    market, place = np.indices(contracts.shape).reshape(2, -1)
    return _HIP4_MARKETS.labels(market) | {
        "time": timestamps(days[place] * DAY_US),
        "open_interest": contracts.ravel(),
        "oi_usd": np.round(contracts * probability, 2).ravel(),
    }


def builders_history(first: int, last: int, *_: object) -> dict[str, Any]:
    """Return the columns of ``builders_history`` with ``first <= time < last`` [µs].

    A builder's fee is 2 to 7 bps. One drawn trade represents 40 trades of its users.
    """
    scale = 400_000.0 * (0.3 + noise.uniform(noise.keys("builder coin", _BUILDER_MARKETS.names), 0))
    activity = _trades(BUILDERS, _BUILDER_MARKETS.names, scale, first, last, chance=(0.6, 0.4))
    fee = 2e-4 + 5e-4 * noise.uniform(noise.keys("builder fee", BUILDERS), 0)
    return _BUILDER_MARKETS.labels(activity.market) | {
        "builder": text(activity.actor, BUILDERS),
        "time": timestamps(activity.time),
        "volume_usd": activity.volume,
        "trade_count": activity.number * 40,
        "fees_usd": np.round(activity.volume * fee[activity.actor], 2),
    }


class _Trades(NamedTuple):
    """Trading of an actor on a market (both positions) in the quarter of an hour from `time` [µs] on."""

    actor: Ints
    market: Ints
    time: Ints
    volume: Floats
    number: Ints


@lru_cache(maxsize=1)
def _addresses() -> tuple[str, ...]:
    return tuple(sorted(map(_address, range(_ADDRESS_COUNT))))


def _address(number: int) -> str:
    """Return an address of 20 bytes: two words of 8 bytes, and the upper half of a third."""
    first, second, third = (int(noise.key("address", number, word)) for word in range(3))
    return f"0x{first:016x}{second:016x}{third >> 32:08x}"


def _trades(
    names: tuple[str, ...],
    markets: tuple[str, ...],
    scale: Floats,
    first: int,
    last: int,
    *,
    chance: tuple[float, float] = (0.01, 0.25),
) -> _Trades:
    """Return trades of the actors `names` on `markets`, by time, in ``[first, last)`` [µs].

    `scale` is the typical value of a trade on each market [USD]. `chance` is the probability of trading on a
    day: a base for every actor, and an addition for the busiest.
    """
    streams = _streams(names, markets)
    days = np.arange(max(first // DAY_US, START_DAY), -(-last // DAY_US))
    # The fourth power makes a few actors trade large sizes on most days, and most actors rarely.
    weight = noise.uniform(noise.keys("actor", names), 1)[:, None, None] ** 4
    active = noise.uniform((streams ^ _ACTIVE_STREAM)[..., None], days) < chance[0] + chance[1] * weight
    actor, market, place = np.nonzero(active)
    stream = streams[actor, market]
    day = days[place]
    slot = np.floor(noise.uniform(stream ^ _TIME_STREAM, day) * _SLOTS).astype(np.int64)
    time = day * DAY_US + slot * _SLOT_US
    lognormal = np.exp(1.1 * noise.normal(stream ^ _SIZE_STREAM, day))
    size = scale[market] * (1.0 + 20.0 * weight[actor, 0, 0]) * lognormal
    number = 1 + np.floor(9.0 * noise.uniform(stream ^ _COUNT_STREAM, day)).astype(np.int64)
    order = np.lexsort((actor, market, time))
    order = order[(time[order] >= first) & (time[order] < last)]
    return _Trades(actor[order], market[order], time[order], np.round(size, 2)[order], number[order])


@lru_cache(maxsize=8)
def _streams(names: tuple[str, ...], markets: tuple[str, ...]) -> noise.Keys:
    """Return the stream of each actor on each market, shape ``(actors, markets)``."""
    of_actors = noise.keys("onchain actor", names)[:, None]
    return np.asarray(noise.bits(of_actors, np.arange(len(markets))) ^ noise.keys("onchain market", markets))
