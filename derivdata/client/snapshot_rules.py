"""Rules about snapshots: rates of many symbols or venues, and chains by Black (1976)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator

import numpy as np

from derivdata.client.reading import HOUR_US, CheckedAnswer
from derivdata.support.arrays import Array
from derivdata.tables.series_faults import mirrored_rates
from derivdata.tables.series_patterns import (
    OF_EIGHT_HOURS,
    UNITS,
    other_interest,
    rank_correlation,
    tiny_rates,
)
from derivdata.tables.venue_facts import fact_value

_FEW_VENUES = 3
_SNAPSHOT_RATES = ("rate_bps_8h", "funding_current_bps_8h")
_LEAST_OF_VENUE = 30
_LEAST_OF_SHIFT = 50
_SHIFTED = 0.35
_NOT_SHIFTED = 0.4
"""Share of the correlation with the shifted rows that the rows as they are have."""
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


def unlikely_snapshots(e: CheckedAnswer) -> Iterator[str]:
    """Find snapshots of rates in another unit, mirrored, constant, or of other symbols."""
    if e.table is None or not e.size:
        return
    is_history = e.window_us is not None
    for name in _SNAPSHOT_RATES:
        rates = e.numbers(name) if name in e.columns and not is_history else None
        if rates is None:
            continue
        values = rates[has_interest(e)]
        size = tiny_rates(values)
        if size is not None:
            yield tiny_text(name, size, values.size)
            return
        group = "exchange" if len(e.words.get("exchange", ())) > 1 or "symbol" in e.words else ""
        if len(e.words.get("symbol", ())) <= 1:
            group = ""  # one symbol on several venues
        codes = np.zeros(e.size, dtype=np.int64)
        if group:
            codes = np.unique(np.asarray(e.columns[group]), return_inverse=True)[1]
        yield from _rates_of_groups(e, name, rates, codes, group)
    if "interval_hours" in e.columns and not is_history:
        yield from _known_intervals(e)


def _rates_of_groups(e: CheckedAnswer, name: str, rates: Array, codes: Array, group: str) -> Iterator[str]:
    """Find the faults of all rates of one venue, or of one symbol on all venues."""
    order = np.argsort(codes, kind="stable")
    hours = e.numbers("interval_hours") if "interval_hours" in e.columns else None
    for code in np.unique(codes).tolist():
        rows = order[codes[order] == code]
        own = rates[rows]
        where = str(e.columns[group][rows[0]]) if group else "all venues"
        own = own[np.isfinite(own)]
        if own.size < _LEAST_OF_VENUE:
            continue
        if np.unique(own).size == 1 and own[0] != 0.0:
            yield f"{name} of {where} is {own[0]:g} bps for all {own.size} symbols: rows may be missing"
            return
        factor = other_interest(own, UNITS)
        if factor is None and hours is not None:
            factor = other_interest(rates[rows[hours[rows] == 8.0]], OF_EIGHT_HOURS)
        if factor is not None:
            yield interest_text(name, where, factor)
            return
        if mirrored_rates(np.zeros(own.size, dtype=np.int64), own):
            yield (
                f"{name} of {where} repeats -1 bps: the interest of the venues' formula is +1, so the sign "
                "may be mirrored"
            )
            return
    if group:
        yield from _shifted_symbols(e, name, rates, codes)


def _shifted_symbols(e: CheckedAnswer, name: str, rates: Array, codes: Array) -> Iterator[str]:
    """Find a venue whose rates are those of the next symbol, by the median of the other venues."""
    symbols, column = np.unique(np.asarray(e.columns["symbol"]), return_inverse=True)
    count = int(codes.max()) + 1
    if count <= _FEW_VENUES or symbols.size < _LEAST_OF_SHIFT:
        return
    table = np.full((count, symbols.size), np.nan)
    table[codes, column] = rates
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # symbols of one venue
        middle = np.nanmedian(table, axis=0)
    for code, own in enumerate(table):
        listed = np.flatnonzero(np.isfinite(own) & np.isfinite(middle))
        if listed.size < _LEAST_OF_SHIFT:
            continue
        values, others = own[listed], middle[listed]
        shifts = [rank_correlation(values[:-1], others[1:]), rank_correlation(values[1:], others[:-1])]
        if max(shifts) > _SHIFTED and rank_correlation(values, others) < _NOT_SHIFTED * max(shifts):
            first = np.flatnonzero(codes == code)[0]
            yield (
                f"{name} of {e.columns['exchange'][first]} has the rates of the next symbols of the list, by "
                f"the other venues (correlation {max(shifts):.2f}): rows may be shifted"
            )
            return


def _known_intervals(e: CheckedAnswer) -> Iterator[str]:
    """Compare the intervals of venues that pay each hour with the response."""
    hours = e.numbers("interval_hours")
    venues = np.asarray(e.columns["exchange"])
    for venue in e.words.get("exchange", ()):
        if hours is None or fact_value(venue, "interval_hours", "") != 1.0:
            continue
        own = hours[venues == venue]
        own = own[np.isfinite(own)]
        if own.size and float(np.median(own)) != 1.0:
            yield (
                f"interval_hours of {venue} is {np.median(own):g} for the median of {own.size} symbols, and "
                "the venue pays each hour: rows may be of another venue"
            )
            return


def has_interest(e: CheckedAnswer) -> Array:
    """Return a mask of the rows of venues whose formula has an interest.

    Deribit's has none, so all its rates of quiet days may be small. ``funding_8h`` of 2.55e-06 and 2.14e-06
    are in bodies of 2022-06-02 and 2024-07-13 (tests of crypto-msg-parser), and 2.6e-06 in ccxt 4.5.90.
    """
    if "exchange" not in e.columns:
        return np.ones(e.size, dtype=bool)
    is_other: Array = np.asarray(e.columns["exchange"]) != "deribit"
    return is_other


def tiny_text(name: str, size: float, count: int) -> str:
    """Return the sentence about rates that are too small."""
    return f"{name} is at most {size:.2g} bps in 95 % of {count} rows: the rates may be fractions or percent"


def interest_text(name: str, where: str, factor: float) -> str:
    """Return the sentence about a repeated rate that is the interest in another unit."""
    return (
        f"{name} of {where} repeats {factor:g} bps: the interest of the venues' formula is 1 bps per 8 "
        "hours, so the rates may be in another unit"
    )


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
