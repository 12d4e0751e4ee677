"""Mark, index and last price of every pair, on every five-minute step.

The mark is the price of ``markets_symbol_exchanges``. The index lies below it by the premium that the pair's
funding is made from: a rate of 8 hours is the mean of that premium, so ``mark / index − 1`` is the premium
[bps per 8 h] in basis points. The last price is at one of the two best levels of the book.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from derivdata.sources.sample import books, funding, market, noise
from derivdata.sources.sample.grid import DAY_US, STEP_US, STEPS, instants
from derivdata.sources.sample.histories import text
from derivdata.sources.sample.noise import Floats
from derivdata.sources.sample.universe import exchange_names, select, symbols

__all__ = ["KINDS", "newest", "quotes"]

KINDS = ("index", "last", "mark")
_TAKER = noise.key("side of the last trade")
_Names = Sequence[str] | None


def quotes(first: int, last: int, names: _Names, venues: _Names) -> dict[str, Any]:
    """Return the columns of the prices with ``first <= time < last`` [µs]."""
    every = select(names, venues)
    parts = []
    for day in range(first // DAY_US, (last - 1) // DAY_US + 1):
        chosen = every.trading(day, day + 1)
        step = np.arange(max(first - day * DAY_US, 0) + STEP_US - 1, DAY_US + STEP_US - 1, STEP_US) // STEP_US
        step = step[step * STEP_US + day * DAY_US < last]
        if not len(chosen) or not step.size:
            continue
        mark = market.price(chosen, day, step)
        premium = funding.premium(chosen, day, 1)[:, step]
        kinds = np.stack([mark / (1.0 + premium / 1e4), mark * _trade(chosen, day, step), mark], axis=-1)
        row, place, kind = np.indices(kinds.shape).reshape(3, -1)
        parts.append(
            {
                "symbol": chosen.symbol[row],
                "exchange": chosen.exchange[row],
                "time": day * DAY_US + step[place] * STEP_US,
                "kind": kind,
                "price_usd": np.round(kinds, 8).ravel(),
            }
        )
    if not parts:
        return {}
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return joined | {
        "symbol": text(joined["symbol"], symbols().name),
        "exchange": text(joined["exchange"], exchange_names()),
        "time": instants(joined["time"]),
        "kind": text(joined["kind"], KINDS),
        "resolution": text(np.zeros(len(joined["kind"]), dtype=np.int8), ("raw",)),
    }


def newest(first: int, last: int, names: _Names, venues: _Names) -> dict[str, Any]:
    """Return the columns of the newest prices of each pair with ``first <= time <= last`` [µs]."""
    step = last // STEP_US * STEP_US
    return quotes(step, step + 1, names, venues) if step >= first else {}


def _trade(chosen: Any, day: int, step: Any) -> Floats:
    """Return the last price over the mid price: the best bid's or the best ask's distance from it."""
    side = noise.uniform((chosen.streams ^ _TAKER)[:, None], day * STEPS + step)
    return np.asarray(1.0 + np.where(side < 0.5, -1e-4, 1e-4) * books.half_spread(chosen)[:, None])
