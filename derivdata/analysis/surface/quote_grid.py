"""Quotes of many surfaces made ready: usable expiries first and in order, strikes without gaps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from derivdata.analysis.inputs import require_decimal_volatility
from derivdata.analysis.smile.quotes import SurfaceQuotes
from derivdata.analysis.status import Status
from derivdata.support.arrays import Floats, Indices

_MINIMUM = 3  # distinct strikes that an expiry needs to have a slice of its own
_BATCH = 64
_EDGE = 0.1  # share of a spread at either end that a fit to bid and ask leaves free


class QuoteGrid(NamedTuple):
    """Quotes of many surfaces, expiries in order of time with the usable ones first.

    ``k``, ``iv``, ``weight``, ``bid``, ``ask`` are ``(surfaces, expiries, strikes)`` with NaN (weight 0)
    where there is no quote; bid and ask are volatilities, NaN where they are not known. ``t``, ``n`` and
    ``status`` are ``(surfaces, expiries)``; ``usable`` counts the expiries of each surface that have a
    slice, and ``order`` says where each expiry came from.
    """

    k: Floats
    iv: Floats
    weight: Floats
    bid: Floats
    ask: Floats
    t: Floats
    n: NDArray[np.int32]
    status: NDArray[np.int32]
    usable: Indices
    order: Indices


def arrange(k: Floats, iv: Floats, t: Floats, weight: Floats, bid: Floats, ask: Floats) -> QuoteGrid:
    """Order the quotes of surfaces ``(surfaces, expiries, strikes)`` with times ``(surfaces, expiries)``."""
    live = (
        np.isfinite(k) & np.isfinite(iv) & (iv > 0.0) & (weight > 0.0) & ((t > 0.0) & (t < np.inf))[..., None]
    )
    require_decimal_volatility(iv[live])
    k, iv, weight, bid, ask = _packed(live, k, iv, weight, bid, ask)
    with np.errstate(invalid="ignore"):
        distinct = (np.diff(np.sort(k, axis=-1), axis=-1) > 0.0).sum(axis=-1) + 1
    n = live.sum(axis=-1).astype(np.int32)
    good = (n > 0) & (distinct >= _MINIMUM)
    status = np.select(
        [np.isnan(t) | (t == np.inf), t <= 0.0, ~good],
        [np.int32(Status.BAD_INPUT), np.int32(Status.EXPIRED), np.int32(Status.TOO_FEW_STRIKES)],
        np.int32(0),
    )
    order = np.argsort(np.where(status == 0, t, np.inf), axis=-1, kind="stable")
    k, iv, weight, bid, ask = (
        np.take_along_axis(part, order[..., None], 1) for part in (k, iv, weight, bid, ask)
    )
    t, n = np.take_along_axis(t, order, 1), np.take_along_axis(n, order, 1)
    status = np.take_along_axis(status, order, 1)
    return QuoteGrid(k, iv, weight, bid, ask, t, n, status, (status == 0).sum(axis=1), order)


def batches(ordered: QuoteGrid) -> Iterator[tuple[Indices, int, SurfaceQuotes]]:
    """Surfaces of equally many usable expiries, a few at a time: rows, that number, quotes."""
    for count in np.unique(ordered.usable[ordered.usable > 0]):
        alike = np.flatnonzero(ordered.usable == count)
        for first in range(0, alike.size, _BATCH):
            rows = alike[first : first + _BATCH]
            yield rows, int(count), quotes_of(ordered, rows, int(count))


def quotes_of(ordered: QuoteGrid, rows: Indices, count: int) -> SurfaceQuotes:
    """Return quotes of the first `count` expiries of some surfaces; expiries that are not usable have none.

    Residuals are in volatility: ``(w_model − w)/(2 √(w T))``, times the root of the weight. With bid and ask
    w is halfway between them in volatility, half the ask where there is no bid, and they begin a tenth of the
    spread inside: least squares end at the edge of what costs nothing, and for many quotes just beyond.
    """
    usable = np.arange(count) < ordered.usable[rows, None]
    k, iv, weight = (part[rows, :count] for part in (ordered.k, ordered.iv, ordered.weight))
    weight = np.where(usable[..., None], weight, 0.0)
    strikes = max(int((weight > 0.0).any(axis=(0, 1)).sum()), 1)
    k, iv, weight = (part[..., :strikes] for part in (k, iv, weight))
    t = ordered.t[rows, :count, None]
    here = weight > 0.0
    bid, ask = (part[rows, :count, :strikes] for part in (ordered.bid, ordered.ask))
    # Of one side only, the other is open; of neither, or where they cross, the quote itself is both.
    crossed = bid > ask
    has_bid, has_ask = here & np.isfinite(bid) & ~crossed, here & np.isfinite(ask) & ~crossed
    least = np.where(has_bid, bid, 0.0)
    middle = np.where(has_ask, (least + ask) / 2.0, np.where(has_bid, bid, iv))
    room = np.where(has_ask, _EDGE * (ask - least), 0.0)
    floor, ceiling = np.where(has_bid, bid + room, 0.0), ask - room
    w = np.where(here, middle * middle * t, 1.0)
    scale = np.where(here, np.sqrt(weight / np.where(here, 4.0 * w * t, 1.0)), 0.0)
    k = np.where(here, k, 0.0)
    low = np.where(has_bid | has_ask, floor * floor * t, w)
    high = np.where(has_ask, ceiling * ceiling * t, np.where(has_bid, np.inf, w))
    return SurfaceQuotes(k, w, scale, low, high)


def _packed(live: NDArray[np.bool_], *quotes: Floats) -> list[Floats]:
    """Move the quotes of every slice to the front and cut off what no slice uses; the third is the weight."""
    most = max(int(np.max(live.sum(axis=-1), initial=0)), 1)
    front = np.argsort(~live, axis=-1, kind="stable")[..., :most]
    here = np.take_along_axis(live, front, -1)
    moved = (np.take_along_axis(part, front, -1) for part in quotes)
    return [np.where(here, part, 0.0 if i == 2 else np.nan) for i, part in enumerate(moved)]


def ends_of(k: Floats) -> tuple[Floats, Floats]:
    """Return the least and greatest log-moneyness of every slice, NaN without quotes."""
    ends = []
    for outside, pick in ((np.inf, np.min), (-np.inf, np.max)):
        end = pick(np.where(np.isnan(k), outside, k), axis=-1, initial=outside)
        ends.append(np.where(np.isinf(end), np.nan, end))
    return ends[0], ends[1]
