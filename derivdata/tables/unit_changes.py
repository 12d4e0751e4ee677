"""Lasting changes of a series by the factor of a unit: from some row on, figures are in another unit.

Levels such as prices and open interest change little from row to row, so that a step by a unit's factor that
lasts shows. Rates cross zero: a change shows in the rate that a venue repeats most (the interest rate of its
formula), or where rates stay far above all that came before.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["UnitChange", "level_changes", "rate_changes"]

_Array = NDArray[Any]

_FACTORS = np.array([8.0, 100.0, 1e3, 1e4, 1e6])
_LEVEL_TOLERANCE = 1.2
_LEAST_BEFORE = 6  # rows: a new listing grows fast
_LEAST_AFTER = 3
_COMPARED = 6
_REPEATED_TOLERANCE = 1.001
_LEAST_REPEATED = 4
_REPEATED_SHARE = 0.2
_RATE_ROWS = 50
_RATE_LASTS = 12
_ABOVE_LARGEST = 5.0  # a market moves so for some payments
_RATE_FACTORS = ((60.0, 170.0), (6e3, 1.7e4))
"""Between which a lasting change of the median rate is taken for a factor of 100 or 10,000."""
_LEAST_BPS = 5.0


class UnitChange(NamedTuple):
    """A run in another unit: its first row, the factor by which its figures are larger, and its length."""

    row: int
    factor: float
    rows: int


def level_changes(series: _Array, values: _Array) -> list[UnitChange]:
    """Return lasting steps of levels by 8, 100, 10³, 10⁴ or 10⁶, or the inverse, of each series the first.

    Parameters
    ----------
    series
        Number of each row's series; rows of a series are next to each other, in time order.
    values
        Prices or open interest; NaN and 0 are not compared.
    """
    if len(values) < _LEAST_BEFORE + _LEAST_AFTER:
        return []
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = values[1:] / values[:-1]
        is_step = np.append(False, _is_near(ratio, _LEVEL_TOLERANCE) & (series[1:] == series[:-1]))
    changes: dict[int, UnitChange] = {}
    for row in np.flatnonzero(is_step).tolist():
        code = int(series[row])
        first, last = _bounds(series, row)
        if code in changes or row - first < _LEAST_BEFORE or last - row < _LEAST_AFTER:
            continue
        before = values[max(first, row - _COMPARED) : row]
        after = values[row : min(last, row + _COMPARED)]
        factor = float(np.nanmedian(after) / np.nanmedian(before))
        # Later rows of the run stay near its first ones, and rows before near each other.
        is_lasting = _spread(before) < 2.0 and _spread(after) < 2.0
        if is_lasting and bool(_is_near(np.array([factor]), _LEVEL_TOLERANCE)[0]):
            changes[code] = UnitChange(row, factor, last - row)
    return [*changes.values()]


def rate_changes(series: _Array, rates: _Array) -> list[UnitChange]:
    """Return lasting changes of funding rates by the factor of a unit, of each series the first.

    Parameters
    ----------
    series
        As in `level_changes`.
    rates
        Rates [bps/8h].
    """
    changes: list[UnitChange] = []
    if not len(rates):
        return changes
    bounds = np.flatnonzero(np.append(True, series[1:] != series[:-1]))
    for first, last in zip(bounds.tolist(), np.append(bounds[1:], len(rates)).tolist(), strict=True):
        magnitudes = np.abs(rates[first:last])
        change = _repeated_change(magnitudes) or _far_change(magnitudes)
        if change is not None:
            changes.append(change._replace(row=first + change.row))
    return changes


def _repeated_change(rates: _Array) -> UnitChange | None:
    """Return where the rate that is repeated most becomes a multiple of it and stays so."""
    values, counts = np.unique(np.round(rates[rates > 0], 6), return_counts=True)
    is_common = (counts >= _LEAST_REPEATED) & (counts >= _REPEATED_SHARE / 2 * rates.size)
    common = values[is_common]
    for low in common.tolist():
        ratios = common / low
        for high in common[_is_near(ratios, _REPEATED_TOLERANCE) & (ratios > 1)].tolist():
            of_low = np.flatnonzero(np.abs(rates - low) <= 1e-6 * low + 5e-7)
            of_high = np.flatnonzero(np.abs(rates - high) <= 1e-6 * high + 5e-7)
            for before, after in ((of_low, of_high), (of_high, of_low)):
                if before[-1] >= after[0]:
                    continue
                earlier, later = rates[: after[0]], rates[after[0] :]
                is_usual = before.size >= _REPEATED_SHARE * earlier.size
                if is_usual and after.size >= _REPEATED_SHARE * later.size:
                    factor = high / low if after is of_high else low / high
                    return UnitChange(int(before[-1]) + 1, factor, int(rates.size - before[-1] - 1))
    return None


def _far_change(rates: _Array) -> UnitChange | None:
    """Return where rates become 100 or 10,000 times as large, far above the largest one before."""
    known = np.flatnonzero(np.isfinite(rates))
    values = rates[known]
    if values.size < 2 * _RATE_LASTS:
        return None
    largest = np.maximum.accumulate(values)
    candidates = np.flatnonzero(values[1:] > np.fmax(largest[:-1], _LEAST_BPS)) + 1
    for row in candidates[candidates >= _RATE_LASTS].tolist():
        after = values[row : row + _RATE_ROWS]
        before = float(np.median(values[max(0, row - _RATE_ROWS) : row]))
        usual = float(np.median(after))
        if after.size < _RATE_LASTS or before == 0 or usual < _ABOVE_LARGEST * largest[row - 1]:
            continue
        if any(low < usual / before < high for low, high in _RATE_FACTORS):
            return UnitChange(int(known[row]), usual / before, int(rates.size - known[row]))
    return None


def _is_near(ratios: _Array, tolerance: float) -> NDArray[np.bool_]:
    """Return which ratios are a unit's factor, or its inverse, within a factor of `tolerance`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.abs(np.log(ratios))[:, None]
    return np.asarray((np.abs(size - np.log(_FACTORS)) <= np.log(tolerance)).any(axis=1))


def _bounds(series: _Array, row: int) -> tuple[int, int]:
    """Return the first row of a row's series, and the row after its last one."""
    same = np.flatnonzero(series == series[row])
    return int(same[0]), int(same[-1]) + 1


def _spread(values: _Array) -> float:
    known = values[np.isfinite(values) & (values > 0)]
    return float(known.max() / known.min()) if known.size else np.inf
