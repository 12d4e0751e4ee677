"""Compare each series with the other venues of its symbol: faults that no series shows by itself.

A rate in percent, or per hour where per eight hours is meant, has the gaps, the runs and the shape of a right
one. Against the median of its peers it is too large or too small throughout, or from an instant on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from derivdata.analysis.panels import row_quantiles
from derivdata.analysis.quality.series import row_quantile
from derivdata.support.arrays import Array, Bools, Floats

_LEAST = 20
"""Common steps on each side of an instant that a change takes."""
_PEERS = 2
_CHANGE = np.log(4.0)
_SIZE = np.log(5.0)
_PRICE = np.log(1.05)
_SPLITS = 16
_SPIKE = 12.0  # usual moves by which a single point leaves both of its neighbours
_SIGNS = 0.3  # of steps that agree in sign less those that do not: below minus this, the sign is another


_SURE_OF_SIGN = 6.0
"""Standard errors by which the sides of a change of sign differ: the best of many instants is looked at."""


class Comparison(NamedTuple):
    """Findings by series; NaN where there are too few peers or common steps."""

    spikes: Array
    scale_change: Floats
    at: Array
    """Place of the change, −1 for none."""
    sign_change: Bools
    peer_scale: Floats
    peer_sign: Floats


def compare(values: Floats, peers: Floats, *, prices: bool = False) -> Comparison:
    """Compare series (series, steps) with the `median_of_others` of each, NaN where there is no value.

    Prices of one coin lie within 5 % of each other; rates and amounts may differ by factors.
    """
    changes, sizes = (_PRICE, _PRICE) if prices else (_CHANGE, _SIZE)
    both_known = np.isfinite(values) & np.isfinite(peers)
    values, peers = np.where(both_known, values, np.nan), np.where(both_known, peers, np.nan)
    enough = both_known.sum(axis=1) >= 2 * _LEAST
    # Sizes as logarithms, with a floor so that a rate that passes through zero is no change of size.
    share = 0.0 if prices else 0.02
    floor = share * row_quantile(np.abs(peers), 0.5)[:, None] + 1e-300
    ratio = np.log(np.abs(values) + floor) - np.log(np.abs(peers) + floor)
    agreement = np.where(both_known, np.sign(values) * np.sign(peers), np.nan)
    change, at = _change(ratio)
    changed = enough & (np.abs(change) >= changes)
    size = row_quantile(ratio, 0.5)
    mean = np.nansum(agreement, axis=1) / np.maximum(both_known.sum(axis=1), 1)
    return Comparison(
        _spikes(values, values - peers),
        np.where(enough, np.where(changed, np.exp(change), 1.0), np.nan),
        np.where(changed, at, -1),
        enough & _changes_sign(agreement),
        np.where(enough, np.where(np.abs(size) >= sizes, np.exp(size), 1.0), np.nan),
        np.where(enough, np.where(mean < -_SIGNS, -1.0, 1.0), np.nan),
    )


def median_of_others(values: Floats) -> Floats:
    """Return at each step the median of the other series, NaN where fewer than two have a value.

    From one sort of each step: without the value of rank r, the k-th of the rest is the k-th of all below r
    and the one after it from r on.
    """
    order = np.argsort(values, axis=0, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(len(values))[:, None], order.shape), axis=0)
    ordered, here = np.take_along_axis(values, order, axis=0), np.isfinite(values)
    others = here.sum(axis=0) - here
    rank = np.where(here, rank, len(values))
    middle = [np.maximum(others - 1, 0) // 2, others // 2]
    lower, upper = (
        np.take_along_axis(ordered, np.minimum(place + (place >= rank), len(values) - 1), axis=0)
        for place in middle
    )
    return np.where(others >= _PEERS, 0.5 * (lower + upper), np.nan)


def _change(ratio: Floats) -> tuple[Floats, Array]:
    """Return the largest lasting change of the median of each row, and its place; 0 and −1 for none.

    Medians before and after are compared at fifteen places. A change lasts if the middle halves of before and
    after do not overlap.
    """
    rows, width = ratio.shape
    best, at = np.zeros(rows), np.full(rows, -1)
    for split in sorted({round(width * k / _SPLITS) for k in range(1, _SPLITS)}):
        before, after = ratio[:, :split], ratio[:, split:]
        enough = (np.isfinite(before).sum(axis=1) >= _LEAST) & (np.isfinite(after).sum(axis=1) >= _LEAST)
        if not enough.any():
            continue
        earlier, later = (row_quantiles(part, 0.25, 0.5, 0.75) for part in (before, after))
        apart = (later[0] > earlier[2]) | (earlier[0] > later[2])
        change = later[1] - earlier[1]
        better = enough & apart & (np.abs(change) > np.abs(best))
        best, at = np.where(better, change, best), np.where(better, split, at)
    return best, _refined(ratio, best, at)


def _refined(ratio: Floats, change: Floats, at: Array) -> Array:
    """Move each change to the instant that parts the values below its middle from those above it best."""
    refined = at.copy()
    for row in np.flatnonzero(at >= 0):
        middle = 0.5 * (np.nanmedian(ratio[row, : at[row]]) + np.nanmedian(ratio[row, at[row] :]))
        side = np.nan_to_num(np.sign(ratio[row] - middle)) * np.sign(change[row])
        refined[row] = int(np.argmin(np.cumsum(side))) + 1
    return refined


def _changes_sign(agreement: Floats) -> Bools:
    """Tell whether the sign agrees with the peers' on one side of an instant and disagrees on the other.

    At the instant where the two sides differ most, by more than the series' own noise bears out: their
    difference over its standard error, in which neighbouring steps say in part the same.
    """
    if agreement.shape[1] < 2 * _LEAST:  # no step at all where no series has a value
        return np.zeros(len(agreement), dtype=np.bool_)
    known = np.isfinite(agreement)
    total, number = np.nancumsum(agreement, axis=1), np.cumsum(known, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        before = total / number
        after = (total[:, -1:] - total) / (number[:, -1:] - number)
        share = np.sqrt(1.0 / number + 1.0 / (number[:, -1:] - number))
    enough = (number >= _LEAST) & (number[:, -1:] - number >= _LEAST)
    opposite = ((before > _SIGNS) & (after < -_SIGNS)) | ((before < -_SIGNS) & (after > _SIGNS))
    apart = np.where(enough & opposite, np.abs(before - after) / share, 0.0)
    at = apart.argmax(axis=1)
    rows = np.arange(len(at))
    sides = np.where(
        np.arange(agreement.shape[1]) <= at[:, None], before[rows, at][:, None], after[rows, at][:, None]
    )
    noise = np.where(known, agreement - sides, 0.0)
    variance = (noise**2).sum(axis=1) / np.maximum(number[:, -1], 1)
    together = (noise[:, 1:] * noise[:, :-1]).sum(axis=1) / np.maximum(number[:, -1], 1)
    slope = np.clip(together / np.maximum(variance, 1e-12), 0.0, 0.99)
    error = np.sqrt(variance * (1.0 + slope) / (1.0 - slope)) + 1e-12
    return np.asarray(apart[rows, at] / error > _SURE_OF_SIGN)


def _spikes(values: Floats, apart: Floats) -> Array:
    """Count single points that leave both neighbours, alone and against the peers."""
    if values.shape[1] < 3:
        return np.zeros(len(values), dtype=np.int64)
    lonely = np.ones((len(values), values.shape[1] - 2), dtype=bool)
    for series in (values, apart):
        up, down = series[:, 1:-1] - series[:, :-2], series[:, 1:-1] - series[:, 2:]
        least = np.where(np.sign(up) == np.sign(down), np.minimum(np.abs(up), np.abs(down)), 0.0)
        moves = np.abs(np.diff(series, axis=1))
        half, most = row_quantiles(moves, 0.5, 0.9)
        usual = np.maximum(half, most / 2.0)[:, None]
        lonely &= np.nan_to_num(least) > _SPIKE * usual
    return np.asarray(lonely.sum(axis=1))
