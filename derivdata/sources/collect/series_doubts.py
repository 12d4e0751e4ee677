"""Notices about histories that are rarely right: they stand still, are 0, or are unlike other venues.

`derivdata.sources.collect.questions` refuses rows that cannot be right. These are stored, and named.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from derivdata import tables
from derivdata.sources.archive import Archive
from derivdata.sources.collect.questions import LEVELS
from derivdata.support import times

_PAYMENTS = "funding_settlements"
_RATE = "rate_bps_8h"
_STILL_ROWS = 12
_ZERO_ROWS = 6
_DIGITS_OF_FLOOR = 3
"""A rate that repeats is the interest of a venue's formula, such as 0.125 bps, which has few digits."""
_COMPARED_ROWS = 12
_LASTING_FACTOR = 6.0
_ROW_FACTOR = 5.0
_LEAST_BPS = 0.3
_LARGE_BPS = 2.0
_LEAST_ROWS = 6
_LEAST_SHARE = 0.1
_OPPOSITE_SHARE = 0.95
_MICROSECOND = pd.Timedelta(1, "us")


def doubts(
    archive: Archive, exchange: str, table: str, rows: pd.DataFrame, usual_hours: float | None
) -> list[str]:
    """Return a sentence for each doubt about the rows of one contract; the first row in doubt is named."""
    name = _RATE if table == _PAYMENTS else LEVELS.get(table)
    if name is None or rows.empty:
        return []
    keys = [key for key in tables.TABLES[table].key if key != "time"]
    found: list[str] = []
    for _, part in rows.groupby(keys, observed=True):
        ordered = part.sort_values("time")
        values = ordered[name].to_numpy(dtype=np.float64, na_value=np.nan)
        found += _runs(name, ordered, values)
    if table == _PAYMENTS:
        ordered = rows.sort_values("time")
        found += _other_interval(ordered, usual_hours)
        found += _unlike_peers(archive, exchange, ordered)
    return [f"{exchange} {table} {rows['symbol'].iloc[0]}: {text}" for text in found]


def _runs(name: str, rows: pd.DataFrame, values: NDArray[np.float64]) -> list[str]:
    """Return doubts about zeros, and about one figure that repeats, between other figures."""
    found = []
    for first, last in _equal_runs(values):
        value = values[first]
        count = last - first
        others = np.delete(values, np.s_[first:last])
        if np.unique(others[np.isfinite(others)]).size < _ZERO_ROWS:
            continue
        is_floor = name == _RATE and float(f"{value:.{_DIGITS_OF_FLOOR}g}") == float(f"{value:.9g}")
        is_still = count >= _STILL_ROWS and not is_floor and value != 0
        if is_still or (value == 0 and count >= _ZERO_ROWS):
            found.append(f"{name} is {value:g} in {count} rows in a row, first {_shown(rows, first)}")
    return found[:1]


def _equal_runs(values: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Return the first place and the place after the last one of each run of equal values."""
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    ends = np.append(starts[1:], values.size)
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def _other_interval(rows: pd.DataFrame, usual_hours: float | None) -> list[str]:
    """Return a doubt about payments that are further apart than all of the venue's contracts are paid."""
    if usual_hours is None:
        return []
    hours = rows["interval_hours"].to_numpy(dtype=np.float64, na_value=np.nan)
    is_longer = hours > usual_hours
    if is_longer.sum() < _LEAST_ROWS:
        return []
    first = int(np.argmax(is_longer))
    return [
        f"payments are {hours[first]:g} h apart from {_shown(rows, first)} on, and the venue usually pays "
        f"each {usual_hours:g} h"
    ]


def _unlike_peers(archive: Archive, exchange: str, rows: pd.DataFrame) -> list[str]:
    """Return a doubt about rates that are unlike those of other venues at the same times and intervals."""
    if not set(archive.exchanges(_PAYMENTS)) - {exchange}:
        return []
    start = rows["time"].iloc[0]
    end = rows["time"].iloc[-1] + _MICROSECOND
    stored = archive.read(_PAYMENTS, start, end, symbols=[str(rows["symbol"].iloc[0])])
    stored = stored[(stored["exchange"] != exchange).to_numpy()]
    keys: list[Any] = ["time", "interval_hours"]
    peers = stored.groupby(keys, observed=True)[_RATE].median().rename("peer").reset_index()
    both = rows.merge(peers, on=keys, how="inner").sort_values("time", ignore_index=True)
    if len(both) < _COMPARED_ROWS:
        return []
    own, peer = (both[column].to_numpy(dtype=np.float64) for column in (_RATE, "peer"))
    larger = np.fmax(np.abs(own), np.abs(peer))
    is_judged = (own != 0) & (peer != 0)
    ratio = np.where(is_judged, np.abs(own) / np.where(peer == 0, 1.0, np.abs(peer)), 1.0)
    of_runs = pd.DataFrame({"ratio": ratio, "larger": larger}).rolling(_COMPARED_ROWS).median()
    lasting = of_runs["ratio"].to_numpy()
    size = of_runs["larger"].to_numpy()
    with np.errstate(invalid="ignore"):
        is_off = ((lasting >= _LASTING_FACTOR) | (lasting <= 1 / _LASTING_FACTOR)) & (size >= _LEAST_BPS)
    if is_off.any():
        place = int(np.argmax(is_off))
        return [_sentence(both, place - _COMPARED_ROWS + 1, f"{lasting[place]:.3g} times")]
    is_other = ((ratio >= _ROW_FACTOR) | (ratio <= 1 / _ROW_FACTOR)) & (larger >= _LARGE_BPS)
    if is_other.sum() >= max(_LEAST_ROWS, _LEAST_SHARE * len(both)):
        place = int(np.argmax(is_other))
        return [_sentence(both, place, f"in {int(is_other.sum())} rows {ratio[place]:.3g} times")]
    is_opposite = pd.Series((np.sign(own) == -np.sign(peer)) & (larger >= _LEAST_BPS) & is_judged)
    share = is_opposite.rolling(_COMPARED_ROWS).mean().to_numpy()
    if (share[_COMPARED_ROWS - 1 :] >= _OPPOSITE_SHARE - 0.35).any() and is_opposite.sum() >= _COMPARED_ROWS:
        place = int(np.flatnonzero(is_opposite)[0])
        return [_sentence(both, place, "of the other sign than")]
    return []


def _sentence(rows: pd.DataFrame, place: int, what: str) -> str:
    return (
        f"{_RATE} is {what} the median of other venues from {_shown(rows, place)} on "
        f"({rows[_RATE].iloc[place]:g} against {rows['peer'].iloc[place]:g})"
    )


def _shown(rows: pd.DataFrame, place: int) -> str:
    return times.iso(rows["time"].iloc[place])
