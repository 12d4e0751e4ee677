"""Compare implied volatilities of a chain with its deltas and mark prices by Black (1976)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from derivdata.client.reading import HOUR_US, CheckedAnswer
from derivdata.support.arrays import Array

_YEAR_US = 365 * 24 * HOUR_US
_LEAST_US = 12 * HOUR_US
_LEAST_OPTIONS = 8
_LONGEST_ON_INDEX = 90 / 365
"""Longest time to expiry [years] if one price represents all expiries: forwards differ from an index by the
basis, which at 20 % a year and 50 % of volatility moves a volatility by a quarter after half a year."""
_NEAR_MONEY = 1.0
"""Standard deviations from the forward within which options have enough vega."""
_NEAREST = 12
"""Options of an expiry that are compared also if a wrong volatility makes their strikes far."""
_DELTA_APART = 0.12
_IV_APART = 0.25
"""Share of the implied volatility by which the mark price may imply another one at the median option."""


def unlike_black(e: CheckedAnswer) -> Iterator[str]:
    """Find expiries whose volatilities, deltas and marks are not those of one model.

    Venues use forwards, rates and times of their own, so only large differences of the median option count.
    """
    if e.table is None or e.table.name != "options_snapshot" or not e.size or e.time_us is None:
        return
    expiry = e.micros("expiry")
    iv, strike, forward = (e.numbers(name) for name in ("iv", "strike", "underlying_price"))
    if expiry is None or iv is None or strike is None or forward is None:
        return
    # 1. Options near the money, with enough time.
    years = (expiry - e.time_us) / _YEAR_US
    with np.errstate(invalid="ignore", divide="ignore"):
        deviation = iv * np.sqrt(years)
        moneyness = np.log(strike / forward)
        is_near = (np.abs(moneyness) < _NEAR_MONEY * deviation) | _nearest(expiry, np.abs(moneyness))
        is_near &= (years * _YEAR_US > _LEAST_US) & (iv > 0.0)
        if np.unique(forward).size == 1 and np.unique(expiry).size > 1:
            is_near &= years <= _LONGEST_ON_INDEX
        upper = -moneyness / deviation + 0.5 * deviation
    is_call = np.asarray(e.columns["side"] == "call")
    # 2. Deltas, N(d1) for calls, of some venues less the value in coins (premium-adjusted).
    sign = np.where(is_call, 1.0, -1.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = sign * (forward * _normal(sign * upper) - strike * _normal(sign * (upper - deviation)))
    delta = e.numbers("delta") if "delta" in e.columns else None
    if delta is not None:
        apart = delta - sign * _normal(sign * upper)
        apart = np.minimum(np.abs(apart), np.abs(apart + value / forward))
        yield from _apart(e, expiry, is_near, apart, _DELTA_APART, "delta", "the volatility")
    # 3. Marks: the error of the value over the vega is the error of the volatility.
    mark = _marks(e, forward)
    if mark is None:
        return
    with np.errstate(invalid="ignore", divide="ignore"):
        vega = forward * np.exp(-0.5 * upper**2) / math.sqrt(2.0 * math.pi) * np.sqrt(years)
        error = (mark - value) / vega / iv
    yield from _apart(e, expiry, is_near & (mark > 0.0), error, _IV_APART, "iv", "the mark price")


def _nearest(expiry: Array, distance: Array) -> Array:
    """Return a mask of the options of each expiry with the strikes nearest to the forward."""
    order = np.lexsort((distance, expiry))
    starts = np.flatnonzero(np.append(True, np.diff(expiry[order]) != 0))
    place = np.arange(order.size) - np.repeat(starts, np.diff(np.append(starts, order.size)))
    is_near = np.zeros(order.size, dtype=bool)
    is_near[order] = place < _NEAREST
    return is_near


def _marks(e: CheckedAnswer, forward: Array) -> Array | None:
    """Return mark prices [USD] from coins or USD; None if the response has neither."""
    coins = e.numbers("mark_coin") if "mark_coin" in e.columns else None
    dollars = e.numbers("mark_usd") if "mark_usd" in e.columns else None
    if dollars is None:
        return None if coins is None else coins * forward
    return dollars if coins is None else np.where(np.isnan(dollars), coins * forward, dollars)


def _normal(values: Array) -> Array:
    """Return the standard normal distribution function."""
    scaled = (values / math.sqrt(2.0)).tolist()
    return np.array([0.5 + 0.5 * math.erf(value) for value in scaled])


def _apart(
    e: CheckedAnswer, expiry: Array, is_near: Array, error: Array, most: float, name: str, other: str
) -> Iterator[str]:
    """Yield the expiry with the largest median error if it is above `most`."""
    worst = 0.0
    stamp = 0
    number = 0
    for day in np.unique(expiry[is_near]).tolist():
        own = error[is_near & (expiry == day)]
        own = np.abs(own[np.isfinite(own)])
        if own.size >= _LEAST_OPTIONS and float(np.median(own)) > worst:
            worst = float(np.median(own))
            stamp = day
            number = int(own.size)
    if worst > most:
        shown = np.datetime64(stamp, "us").astype("datetime64[D]")
        yield (
            f"{name} of the options of {shown} differs from {other} by {100 * worst:.3g} % at the median of "
            f"{number} options near the money (Black 1976): one of the two is in another unit or of other "
            "options"
        )
