"""Builders: front ends that route orders and charge a fee of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from derivdata.sources.sample import noise
from derivdata.sources.sample.grid import instants
from derivdata.sources.sample.histories import text
from derivdata.sources.sample.onchain.activity import trades

__all__ = ["BUILDERS", "builders_history"]

BUILDERS = tuple(sorted("axiom basedapp dexari hyperdash insilico okto phantom pvp rabby supurr".split()))
"""Names of the builders."""

_COINS = tuple("BTC ETH HYPE SOL XRP".split())


def builders_history(first: int, last: int, *_: object) -> dict[str, Any]:
    """Return the columns of ``builders_history`` with ``first <= time < last`` [µs]."""
    scale = 400_000.0 * (0.3 + noise.uniform(noise.keys("builder coin", _COINS), 0))
    activity = trades(BUILDERS, _COINS, scale, first, last, chance=(0.6, 0.4))
    fee = 2e-4 + 5e-4 * noise.uniform(noise.keys("builder fee", BUILDERS), 0)
    return {
        "builder": text(activity.actor, BUILDERS),
        "symbol": text(activity.market, _COINS),
        "time": instants(activity.time),
        "volume_usd": activity.volume,
        "trade_count": activity.number * 40,
        "fees_usd": np.round(activity.volume * fee[activity.actor], 2),
    }
