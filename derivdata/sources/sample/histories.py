"""Tables with one row per pair and step: their days as matrices, and columns made from them.

A matrix has a row per pair and a column per step; where its first values are NaN, the table has no row.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from derivdata.sources.sample import funding, market, oi_volume
from derivdata.sources.sample.noise import DAY_US, STEP_US, STEPS, instants
from derivdata.sources.sample.universe import Pairs, exchange_names, joined, labelled, symbols, text
from derivdata.support.arrays import Floats, Ints

_BLOCK_US = 16 * DAY_US
_STATE = "markets_symbol_exchanges"


class Matrix(NamedTuple):
    """Values of whole days: instants [µs] of the steps, and ``(pairs, steps)`` per column."""

    time: Ints
    values: Mapping[str, Floats]

    def within(self, first: int, last: int) -> Matrix:
        """Return the steps with ``first <= time < last`` [µs]."""
        inside = slice(*np.searchsorted(self.time, [first, last]))
        return Matrix(self.time[inside], {name: v[:, inside] for name, v in self.values.items()})


class HistoryRecipe(NamedTuple):
    """Recipe of a table: the matrix of some pairs on some days, and columns that are always the same."""

    days: Callable[[Pairs, int, int], Matrix]
    constants: Mapping[str, str]


def read(table: str, first: int, last: int, chosen: Pairs) -> dict[str, Any]:
    """Return the rows with ``first <= time < last`` [µs], by pair and time; none without rows."""
    begin, stop = _days_that_hold(first, last)
    chosen = chosen.trading(begin, stop)
    if not len(chosen):
        return {}
    matrix = HISTORIES[table].days(chosen, begin, stop - begin).within(first, last)
    row, step = np.nonzero(~np.isnan(next(iter(matrix.values.values()))))
    keys = {"symbol": chosen.symbol[row], "exchange": chosen.exchange[row], "time": matrix.time[step]}
    return _columns(table, keys | {name: v[row, step] for name, v in matrix.values.items()})


def latest(table: str, first: int, last: int, chosen: Pairs) -> dict[str, Any]:
    """Return the columns of each pair's newest row with ``first <= time <= last`` [µs]; none without rows."""
    parts: list[dict[str, Any]] = []
    begin, stop = _days_that_hold(first, last + 1)
    for day in range(stop - 1, begin - 1, -1):
        today = chosen.trading(day, day + 1)
        if not len(today):
            continue
        if table == _STATE:  # a pair that trades on a day has a row at every step of it: the last is enough
            step = np.array([min((last - day * DAY_US) // STEP_US, STEPS - 1)])
            matrix = Matrix(_steps(day, 1)[step], market.state(today, day, step))
        else:
            matrix = HISTORIES[table].days(today, day, 1)
        matrix = matrix.within(first, last + 1)
        present = ~np.isnan(next(iter(matrix.values.values())))
        rows = np.flatnonzero(present.any(axis=1))
        if rows.size:
            step = present.shape[1] - 1 - np.argmax(present[rows, ::-1], axis=1)
            own = today.take(rows)
            keys = {"row": own.row, "symbol": own.symbol, "exchange": own.exchange, "time": matrix.time[step]}
            parts.append(keys | {name: v[rows, step] for name, v in matrix.values.items()})
            chosen = chosen.take(np.flatnonzero(~np.isin(chosen.row, today.row[rows])))
        if not len(chosen.trading(begin, day)):
            break
    if not parts:
        return {}
    columns = joined(parts)
    order = np.argsort(columns.pop("row"))
    return _columns(table, {name: values[order] for name, values in columns.items()})


def sums(table: str, value: str, first: int, last: int, chosen: Pairs) -> pd.DataFrame:
    """Return sums over the symbols of each venue and step in ``[first, last)`` [µs]."""
    # Matrices of all pairs over many days would need gigabytes.
    edges = [first, *range((first // _BLOCK_US + 1) * _BLOCK_US, last, _BLOCK_US), last]
    parts = [_sums(table, value, *block, chosen) for block in itertools.pairwise(edges)]
    columns = joined(parts)
    constant = text(np.zeros(len(columns["time"]), np.int8), (HISTORIES[table].constants["resolution"],))
    named = {"exchange": text(columns.pop("exchange"), exchange_names()), "resolution": constant}
    return pd.DataFrame(named | {"time": instants(columns.pop("time"))} | columns, copy=False)


def _sums(table: str, value: str, first: int, last: int, chosen: Pairs) -> dict[str, Any]:
    begin, stop = _days_that_hold(first, last)
    chosen = chosen.trading(begin, stop)
    if first >= last or not len(chosen):
        none = dict.fromkeys(("exchange", "time", "symbols"), np.zeros(0, np.int64))
        return none | {"value": np.zeros(0), "symbol_hash": np.zeros(0, np.uint64)}
    chosen = chosen.take(np.argsort(chosen.exchange, kind="stable"))
    opens = np.flatnonzero(np.append(True, np.diff(chosen.exchange) != 0))
    matrix = HISTORIES[table].days(chosen, begin, stop - begin).within(first, last)
    values = matrix.values[value]
    present = ~np.isnan(values)
    streams = symbols().streams[chosen.symbol][:, None]
    cells = {
        "value": np.add.reduceat(np.where(present, values, 0.0), opens, axis=0),
        "symbols": np.add.reduceat(present.astype(np.int64), opens, axis=0),
        "symbol_hash": np.bitwise_xor.reduceat(np.where(present, streams, np.uint64(0)), opens, axis=0),
    }
    row, step = np.nonzero(cells["symbols"])
    keys = {"exchange": chosen.exchange[opens][row], "time": matrix.time[step]}
    return keys | {name: part[row, step] for name, part in cells.items()}


def _days_that_hold(first: int, last: int) -> tuple[int, int]:
    """Return the days whose matrices hold ``[first, last)``; midnight is of the day that ends then."""
    return (first - 1) // DAY_US, (last - 1) // DAY_US + 1


def _columns(table: str, columns: Mapping[str, Any]) -> dict[str, Any]:
    zeros = np.zeros(len(columns["time"]), dtype=np.int8)
    constants = HISTORIES[table].constants.items()
    return labelled(columns) | {name: text(zeros, (value,)) for name, value in constants}


def _steps(day: int, days: int) -> Ints:
    return np.asarray(day * DAY_US + np.arange(days * STEPS) * STEP_US)


def _funding(chosen: Pairs, day: int, days: int) -> Matrix:
    return Matrix(_steps(day, days), {"rate_bps_8h": funding.recorded(chosen, day, days)})


def _settlements(chosen: Pairs, day: int, days: int) -> Matrix:
    time, rate, interval = funding.settled(chosen, day, days)
    return Matrix(time, {"rate_bps_8h": rate, "interval_hours": interval})


def _by_hour(columns: Callable[[Pairs, int, int], dict[str, Any]]) -> Callable[[Pairs, int, int], Matrix]:
    return lambda *which: Matrix(oi_volume.hours(*which[1:]), columns(*which))


def _market(chosen: Pairs, day: int, days: int) -> Matrix:
    parts = [market.state(chosen, d, np.arange(STEPS)) for d in range(day, day + days)]
    return Matrix(_steps(day, days), {n: np.concatenate([p[n] for p in parts], axis=1) for n in parts[0]})


HISTORIES: dict[str, HistoryRecipe] = {
    "funding_history": HistoryRecipe(_funding, {"resolution": "raw", "kind": "sampled"}),
    "funding_settlements": HistoryRecipe(_settlements, {"kind": "settled"}),
    "oi_history": HistoryRecipe(
        _by_hour(lambda *which: {"oi_usd": oi_volume.oi(*which)}), {"resolution": "1h"}
    ),
    "volume_history": HistoryRecipe(
        _by_hour(lambda *which: {"volume_usd": oi_volume.volume(*which)}), {"resolution": "1h"}
    ),
    "volume_taker": HistoryRecipe(_by_hour(oi_volume.taken), {"resolution": "1h"}),
    _STATE: HistoryRecipe(_market, {}),
}
