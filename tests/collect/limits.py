"""What venues publish as allowed, and how much of it a run used: in weight where a venue counts weight."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any

import pandas as pd

from derivdata.sources.venues.hyperliquid import DEXES
from derivdata.sources.venues.registry import VENUES
from tests.venues.test_budgets import LIMITS, POOLS, Limit

Params = dict[str, Any]

_OF_AN_ENDPOINT = ("gateio", "bingx", "cryptocom", "bitget", "okx")
_USUAL = {"hyperliquid": 20, "kucoin": 3}
_WEIGHTS = {
    "binance": {
        "premiumIndex": 10, "24hr": 40, "mark": 5, "ticker": 40, "klines": 10, "depth": 10, "fundingInfo": 0,
    },
    "aster": {"24hr": 40, "depth": 10},
    "okx": dict.fromkeys("funding-rate funding-rate-history open-interest-history mark-price".split(), 2),
    "hyperliquid": {"l2Book": 2, "allMids": 2},
    "bitget": {"liquidations": 4},
    "kucoin": {"funding-rates": 5},
}  # fmt: skip
"""What a request weighs where it is not the usual, by venue and the end of its path or its type."""


def _spent(venue: str, place: str, params: Params) -> Iterator[tuple[str, Limit, float]]:
    """Yield the name and the size of each limit that counts a request, and its weight there.

    A venue that names no limit is held to four times what its adapter says it spends.
    """
    name = params["type"] if venue == "hyperliquid" else place.rpartition("/")[2]
    if venue == "binance" and place.startswith("/futures/data/"):
        yield "data", POOLS[venue, "data"], 1
        return
    if venue == "binance" and name in ("fundingInfo", "fundingRate"):
        yield "funding", POOLS[venue, "funding"], 1
    if place == "/fundingRates":
        yield "history", POOLS["backpack", "history"], 1
    pool = place if venue in _OF_AN_ENDPOINT else place[:5] if place.startswith("/dapi") else ""
    if name == "funding-rate-history":
        pool += params.get("instId", "")
    limit = LIMITS[venue] or Limit(4 * VENUES[venue].budget, 1, "none is named")
    weight = _WEIGHTS.get(venue, {}).get(name, _USUAL.get(venue, 1))
    if name == "fundingHistory":  # and 1 for each 20 of 500 rows
        hours = (params.get("endTime", 9e15) - params["startTime"]) / 3_600_000
        weight += min(hours + 1, 500) / 20
    yield pool, limit, weight


def used(log: Iterable[tuple[str, str, Params, pd.Timestamp]]) -> dict[str, float]:
    """Return the largest part of a limit that each venue's requests used, in any window of its length.

    The requests of all dexes of Hyperliquid come from one address and are counted together.
    """
    spent: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    limits: dict[tuple[str, str], Limit] = {}
    for exchange, place, params, at in log:
        venue = "hyperliquid" if exchange in DEXES else exchange
        for pool, limit, weight in _spent(venue, place, params):
            spent[venue, pool].append((at.timestamp(), weight))
            limits[venue, pool] = limit
    most: dict[str, float] = defaultdict(float)
    for (venue, pool), rows in spent.items():
        rows.sort()
        stamps, sums = [at for at, _ in rows], [0.0, *accumulate(weight for _, weight in rows)]
        allowed, seconds, _ = limits[venue, pool]
        for number, at in enumerate(stamps):
            first = bisect_right(stamps, at - seconds + 1e-3)
            most[venue] = max(most[venue], (sums[number + 1] - sums[first]) / allowed)
    return dict(most)
