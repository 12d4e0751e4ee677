"""The pair of venues that pays most at each symbol and time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from derivdata.analysis.funding.pairs import pair_costs
from derivdata.analysis.panels import (
    Panel,
    beside,
    by_chunk,
    figures_of,
    hours_of,
    labels_of,
    require,
    require_rate,
    require_venues,
    row_by_row,
    whole,
)
from derivdata.analysis.price_agreement import apart_by_5_percent
from derivdata.analysis.settlements import held_settlements, newest_at
from derivdata.support.arguments import typed
from derivdata.support.arrays import Floats
from derivdata.units import HOUR_UNIT, RATE_UNIT, USD_UNIT

_BLOCK = 16_384  # elements of one block: the running figures stay in the second-level cache


class Extremes(NamedTuple):
    """Spread between the highest and the lowest rate, and where they are."""

    spread: Floats
    lowest: NDArray[np.int16]
    highest: NDArray[np.int16]
    venues: NDArray[np.int16]


@typed
def best_pair(
    panel: Panel,
    *,
    oi_usd: Panel | None = None,
    min_oi_usd: float | None = None,
    age_hours: xr.DataArray | None = None,
    max_age: str | pd.Timedelta | None = None,
    tradable: xr.DataArray | Sequence[str] | None = None,
    prices: Panel | None = None,
    fee_bps: float | Mapping[str, float] | None = None,
    hold: str | pd.Timedelta = "7d",
) -> xr.Dataset:
    """Find the pair with the largest spread: long where the rate is lowest, short where it is highest.

    Parameters
    ----------
    panel
        Funding rates [bps/8h] with dim ``exchange``, in memory or lazy (venues are put into one chunk). A
        settlement with ``interval_hours`` in the panel holds until the next one of its series is due, so
        that venues that pay every hour meet those that pay every eight; the filters look at each of these
        times, not only at that of the payment.
    oi_usd, min_oi_usd
        Open interest [USD] over the panel's labels as it was known at each time, and the least of it that a
        venue needs; unknown open interest is not enough.
    age_hours, max_age
        Age of each rate [h], as `derivdata.analysis.align` returns it, and the oldest that counts.
    tradable
        Venues, or a boolean DataArray over dims of the panel: where a position can be opened.
    prices
        Mark prices [USD] over the panel's labels. A venue whose price is another than the median of its
        symbol's by a factor over 1.05 is left out at that time: another coin under the same ticker, or a
        squeeze in which the spread cannot be relied on. Of two venues, both are.
    fee_bps, hold
        Fee of one trade [bps of the notional traded], one number or a mapping by venue, and the holding time
        over which the four trades of a pair are spread. With a fee the pair is the one with the largest
        spread after fees. `hold` is used only with `fee_bps`.

    Returns
    -------
    Dataset, the panel's dims without ``exchange``
        Settlements stamped up to a minute past a whole hour count at that hour, where venues meet.
        ``long`` and ``short`` (venue, empty text where there is no pair), ``spread_bps_8h``, ``venues``
        (how many were left by NaN and the filters). With `fee_bps` also ``net_bps_8h``, the spread less the
        fees per 8 hours of the holding time, negative where the spread does not pay them. Below two venues
        there is no pair and no spread; where all rates are equal there is no pair, the spread is 0 and the
        net is NaN. Ties are broken alphabetically.

    Raises
    ------
    TypeError, ValueError
        `panel` is not a funding panel in bps/8h; a filter lacks its limit or its labels differ; a venue has
        no fee.

    Notes
    -----
    The pair at each time is chosen with that time's rates. What a pair earns after it was chosen is
    `realised_carry` or `pick_record`, never the sum of these spreads: they belong to ever changing pairs.

    Examples
    --------
    >>> rates = xr.DataArray(
    ...     [[1.0, -0.5, 2.0]], {"exchange": ["a", "b", "c"]}, ("time", "exchange"), attrs={"units": "bps/8h"}
    ... )
    >>> best = dd.analysis.funding.best_pair(rates).isel(time=0)
    >>> best["long"].item(), best["short"].item(), best["spread_bps_8h"].item()
    ('b', 'c', 2.5)
    >>> dd.analysis.funding.best_pair(rates, fee_bps=5, hold="16d")["net_bps_8h"].round(3).item()
    2.083
    """
    panel = require_rate(panel, "exchange")
    fees_8h = None if fee_bps is None else _fees_8h(panel, fee_bps, hold)
    if (oi_usd is None) != (min_oi_usd is None):
        raise ValueError("oi_usd and min_oi_usd go together: pass both or neither")
    if (age_hours is None) != (max_age is None):
        raise ValueError("age_hours and max_age go together: pass both or neither")
    rates = held_settlements(panel)

    def known(other: Any, units: str | None, name: str) -> xr.DataArray:
        return newest_at(beside(panel, other, units=units, name=name), rates)

    if oi_usd is not None and min_oi_usd is not None:
        amounts = require(oi_usd, units=USD_UNIT, name="oi_usd")
        rates = rates.where(known(amounts, USD_UNIT, "oi_usd") >= min_oi_usd)
    if age_hours is not None and max_age is not None:
        age = known(age_hours, HOUR_UNIT, "age_hours")
        rates = rates.where(age <= hours_of(max_age, "max_age", least=0.0))
    if tradable is not None:
        rates = rates.where(known(_mask(panel, tradable).astype(np.float64), None, "tradable") > 0.0)
    if prices is not None:
        marks = require(prices, "exchange", units=USD_UNIT, name="prices")
        rates = rates.where(~apart_by_5_percent(known(marks, USD_UNIT, "prices")))
    return by_chunk(partial(_best_pairs, fees_8h=fees_8h), whole(rates, "exchange"))


def _best_pairs(panel: xr.DataArray, fees_8h: Floats | None) -> xr.Dataset:
    names = labels_of(panel, "exchange")
    text = names.dtype
    units = {"long": text, "short": text, "spread_bps_8h": RATE_UNIT, "venues": np.int16}
    if fees_8h is None:
        result = figures_of(_best, panel, units=units, over=["exchange"], names=names)
    else:
        units["net_bps_8h"] = RATE_UNIT
        best_net = partial(_best_net, fees_8h=fees_8h)
        result = figures_of(best_net, panel, units=units, over=["exchange"], names=names)
    for name in ("spread_bps_8h", "net_bps_8h"):
        if name in result:
            result[name].attrs |= {k: v for k, v in panel.attrs.items() if k == "kind"}
    return result


def _fees_8h(panel: xr.DataArray, fee_bps: float | Mapping[str, float], hold: str | pd.Timedelta) -> Floats:
    """Return the fees of each venue's two trades per 8 hours of the holding time [bps/8h]."""
    pairs = pair_costs(fee_bps, labels_of(panel, "exchange").tolist())
    return np.diag(pairs) / 2.0 / (hours_of(hold, "hold") / 8.0)


def _mask(panel: xr.DataArray, tradable: xr.DataArray | Sequence[str]) -> xr.DataArray:
    """Return whether a position can be opened, over the panel's dims."""
    if isinstance(tradable, xr.DataArray):
        if tradable.dtype != bool:
            raise TypeError(f"tradable must be boolean, not {tradable.dtype}")
        return beside(panel, tradable, units=None, name="tradable")
    require_venues(panel, tradable=tradable)
    return panel["exchange"].isin(list(tradable)).broadcast_like(panel).transpose(*panel.dims)


def extremes(rates: Floats, order: Sequence[int] | NDArray[Any]) -> Extremes:
    """Return the largest difference along the last axis and where its ends are; NaN is left out.

    `order` are the venues in order of preference among equal rates. Places are indices into the last axis, −1
    where there is no pair: fewer than two rates (the spread is NaN), or all equal.
    """
    shape = (math.prod(rates.shape[:-2]), math.prod(rates.shape[-2:-1]))
    grid = np.moveaxis(rates, -1, 0).reshape(rates.shape[-1], *shape)
    result = Extremes(np.empty(shape), *(np.empty(shape, np.int16) for _ in range(3)))
    for block in _blocks(*shape):
        _scan(row_by_row(grid[:, *block]), order, Extremes._make(part[block] for part in result))
    return Extremes._make(part.reshape(rates.shape[:-1]) for part in result)


def _blocks(rows: int, columns: int) -> Iterator[tuple[slice, slice]]:
    wide = min(columns, _BLOCK)
    tall = max(1, _BLOCK // max(wide, 1))
    for row in range(0, rows, tall):
        for column in range(0, columns, _BLOCK):
            yield slice(row, row + tall), slice(column, column + _BLOCK)


def _scan(block: Floats, order: Any, into: Extremes) -> None:
    """Find the extremes over the first axis (venues), all of a block at once.

    One pass over the venues in order of preference keeps the highest and lowest rate so far and the rank of
    the venue that has it. Only a rate that is strictly beyond the one so far takes its place, so that of
    equal extremes the preferred venue stays; a comparison with NaN is false, and fmax and fmin pass over it.
    """
    shape = block.shape[1:]
    high = np.full(shape, -np.inf)
    low = np.full(shape, np.inf)
    ranks = np.zeros((3, *shape), dtype=np.uint8 if len(order) <= 255 else np.uint16)
    lowest, highest, count = ranks
    scratch = np.empty_like(lowest)
    beyond = np.empty(shape, dtype=bool)
    # The booleans seen as bytes 0 and 1: a product with a rank is then one pass without a branch.
    mask = beyond.view(np.uint8)
    for rank, venue in enumerate(order):
        rate = block[venue]
        step = ranks.dtype.type(rank)
        # Ranks only grow, so the maximum of rank × mask is the last venue that beat the ones before it. The
        # first known rate beats −inf; if it is of rank 0, 0 stays, which is right as well.
        np.greater(rate, high, out=beyond)
        np.maximum(highest, np.multiply(mask, step, out=scratch), out=highest)
        np.fmax(high, rate, out=high)
        np.less(rate, low, out=beyond)
        np.maximum(lowest, np.multiply(mask, step, out=scratch), out=lowest)
        np.fmin(low, rate, out=low)
        np.equal(rate, rate, out=beyond)
        np.add(count, mask, out=count)
    places = np.append(np.asarray(order, dtype=np.int16), np.int16(-1))
    none = count < 2
    into.spread[...] = np.where(none, np.nan, high - low)
    none |= high == low
    into.lowest[...] = places[np.where(none, len(order), lowest)]
    into.highest[...] = places[np.where(none, len(order), highest)]
    into.venues[...] = count


def _best(rates: Floats, names: NDArray[Any]) -> tuple[Any, ...]:
    pair = extremes(rates, np.argsort(names, kind="stable"))
    labels = np.append(names, "")
    return labels[pair.lowest], labels[pair.highest], pair.spread, pair.venues


def _best_net(rates: Floats, names: NDArray[Any], fees_8h: Floats) -> tuple[Any, ...]:
    """Return the pair with the largest spread after the fees of its two venues.

    The short leg earns its rate less its fee, and the long leg pays its rate plus its fee. The best short and
    the best long are found apart. Where one venue is both, one leg takes its second best.
    """
    order = np.argsort(names, kind="stable")
    ranked = rates[..., order]
    fees = fees_8h[order]
    labels = np.append(names[order], "")
    known = np.isfinite(ranked)
    earned = np.where(known, ranked - fees, -np.inf)
    paid = np.where(known, ranked + fees, np.inf)
    short = earned.argmax(axis=-1)
    long = paid.argmin(axis=-1)
    second_short = _without(earned, short, -np.inf).argmax(-1)
    second_long = _without(paid, long, np.inf).argmin(-1)
    clash = short == long
    change_long = _at(earned, short) - _at(paid, second_long) >= _at(earned, second_short) - _at(paid, long)
    long = np.where(clash & change_long, second_long, long)
    short = np.where(clash & ~change_long, second_short, short)
    count = known.sum(axis=-1)
    spread = _at(ranked, short) - _at(ranked, long)
    no_pair = (count < 2) | ~(spread > 0.0)
    net = np.where(no_pair, np.nan, _at(earned, short) - _at(paid, long))
    spread = np.where(count < 2, np.nan, np.maximum(spread, 0.0))
    none = len(names)
    places = (np.where(no_pair, none, long), np.where(no_pair, none, short))
    return labels[places[0]], labels[places[1]], spread, count.astype(np.int16), net


def _at(values: Floats, place: NDArray[Any]) -> Floats:
    """Return the value at a place of the last axis."""
    return np.take_along_axis(values, place[..., None], axis=-1)[..., 0]


def _without(values: Floats, place: NDArray[Any], filler: float) -> Floats:
    """Return a copy with another value at a place of the last axis."""
    others = values.copy()
    np.put_along_axis(others, place[..., None], filler, axis=-1)
    return others
