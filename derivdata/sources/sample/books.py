"""Order books: levels a basis point apart, thicker away from the middle, on every five-minute step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from derivdata.sources.sample import noise, oi_volume, paths
from derivdata.sources.sample.noise import DAY_US, STEP_US, STEPS
from derivdata.sources.sample.universe import Pairs, joined, labelled, select, text
from derivdata.support.arrays import Floats, Ints

DEPTHS = (10, 25, 50, 100)
"""Distances from the mid price over which depth is added up [bps]."""

LEVELS = 120
_BOOK = noise.key("order book")
_Names = Sequence[str] | None


def newest(first: int, last: int, names: _Names, venues: _Names) -> dict[str, Any]:
    """Return the columns of every pair's newest book with ``first <= time <= last`` [µs]."""
    step = last // STEP_US
    chosen = _trading(select(names, venues), np.array([step])) if step * STEP_US >= first else None
    if chosen is None or not len(chosen):
        return {}
    price, size = _sides(chosen, np.array([step]))
    row, side, level = np.indices(price.shape[:1] + price.shape[2:]).reshape(3, -1)
    return labelled(
        {
            "symbol": chosen.symbol[row],
            "exchange": chosen.exchange[row],
            "time": np.full(row.size, step * STEP_US),
            "side": text(1 - side, ("ask", "bid")),
            "level": level + 1,
            "price_usd": price[:, 0].ravel(),
            "size": size[:, 0].ravel(),
        }
    )


def depths(first: int, last: int, names: _Names, venues: _Names) -> dict[str, Any]:
    """Return the depth of every book with ``first <= time < last`` [µs], summed from its levels."""
    steps = np.arange(-(-first // STEP_US), -(-last // STEP_US))
    chosen = select(names, venues)
    if not steps.size or not len(chosen):
        return {}
    days = np.unique(steps // STEPS).tolist()
    return labelled(joined([_depths(chosen, steps[steps // STEPS == day]) for day in days]))


def half_spread(chosen: Pairs) -> Floats:
    """Return how far the best levels are from the mid price [bps]."""
    return np.asarray(0.3 + 4.0 * noise.uniform(chosen.streams ^ _BOOK, 0))


def _trading(chosen: Pairs, steps: Ints) -> Pairs:
    day = int(steps[0] * STEP_US // DAY_US)
    return chosen.trading(day, day + 1)


def _sides(chosen: Pairs, steps: Ints) -> tuple[Floats, Floats]:
    """Return price and size of every level, ``(pairs, steps of one day, side, level)``, rounded."""
    day = int(steps[0] // STEPS)
    own, place = np.unique(chosen.symbol, return_inverse=True)
    path = paths.price(own, day, 1)[:, steps - day * STEPS][place]
    middle = path * paths.premium(chosen)[:, None]
    distance = half_spread(chosen)[:, None] + np.arange(LEVELS)
    sign = np.array([-1.0, 1.0])[:, None]
    price = middle[..., None, None] * (1.0 + sign * distance[:, None, None, :] / 1e4)
    oi = np.nan_to_num(oi_volume.oi(chosen, day, 1)[:, (steps - day * STEPS) * 24 // STEPS])
    index = (steps[:, None, None] * 2 + np.arange(2)[:, None]) * LEVELS + np.arange(LEVELS)
    shock = noise.normal((chosen.streams ^ _BOOK)[:, None, None, None], index)
    shape = (1.0 + np.arange(LEVELS) / 12.0) * np.exp(0.5 * shock)
    size = 2e-5 * oi[..., None, None] * shape / price
    return np.round(price, 8), np.round(size, 8)


def _depths(every: Pairs, steps: Ints) -> dict[str, Any]:
    """Return the columns of the depths of one day."""
    chosen = _trading(every, steps)
    price, size = _sides(chosen, steps)
    value = np.cumsum(price * size, axis=-1)
    middle = 0.5 * (price[:, :, 0, 0] + price[:, :, 1, 0])
    away = np.abs(price / middle[..., None, None] - 1.0) * 1e4
    within = np.stack([(away <= depth).sum(axis=-1) for depth in DEPTHS], axis=-1)
    padded = np.concatenate([np.zeros((*value.shape[:-1], 1)), value], axis=-1)
    depths = np.round(np.take_along_axis(padded, within, axis=-1), 2)
    row, step, depth = np.indices((len(chosen), steps.size, len(DEPTHS))).reshape(3, -1)
    return {
        "symbol": chosen.symbol[row],
        "exchange": chosen.exchange[row],
        "time": steps[step] * STEP_US,
        "depth_bps": np.array(DEPTHS, dtype=np.float64)[depth],
        "bid_depth_usd": depths[:, :, 0].ravel(),
        "ask_depth_usd": depths[:, :, 1].ravel(),
    }
