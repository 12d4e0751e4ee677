"""What venues publish as allowed, and how much of it a run used: in weight where a venue counts weight."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Any, NamedTuple

import pandas as pd

from derivdata.sources.venues.hyperliquid import DEXES
from derivdata.sources.venues.registry import VENUES
from tests.venues.test_budgets import LIMITS as PUBLISHED
from tests.venues.test_budgets import Limit

Params = dict[str, Any]


class Spent(NamedTuple):
    """What a request costs: its weight, and the name and size of the limit that counts it."""

    pool: str
    limit: Limit
    weight: float


_MINUTE_OF_BINANCE = Limit(2400, 60)
_DEPTH = ((50, 2), (100, 5), (500, 10), (1000, 20))


def _depth(params: Params) -> float:
    return next(weight for levels, weight in _DEPTH if int(params.get("limit", 500)) <= levels)


def _binance(place: str, params: Params) -> list[Spent]:
    if place.startswith("/futures/data/"):
        return [Spent("data", Limit(1000, 300), 1)]
    name = place.rpartition("/")[2]
    per_minute = {"premiumIndex": 10, "ticker/24hr": 40, "24hr": 40, "mark": 5, "ticker": 40, "klines": 10}
    free = name == "fundingInfo" or place == "/eapi/v1/openInterest"
    weight = _depth(params) if name == "depth" else per_minute.get(name, 0 if free else 1)
    # No limit of the options' host is named: its weight is counted with that of USDT-M.
    spent = [Spent("dapi" if place.startswith("/dapi") else "fapi", _MINUTE_OF_BINANCE, weight)]
    if name in ("fundingInfo", "fundingRate"):
        spent.append(Spent("funding", Limit(500, 300), 1))
    return spent


def _aster(place: str, params: Params) -> list[Spent]:
    name = place.rpartition("/")[2]
    weight = _depth(params) if name == "depth" else 40 if name == "24hr" else 1
    return [Spent("", Limit(2400, 60), weight)]


_OKX = {
    "funding-rate": 10,
    "funding-rate-history": 10,
    "open-interest-history": 10,
    "mark-price": 10,
    "books": 40,
}


def _okx(place: str, params: Params) -> list[Spent]:
    name = place.rpartition("/")[2]
    each = params.get("instId", "") if name == "funding-rate-history" else ""
    return [Spent(f"{name} {each}", Limit(_OKX.get(name, 20), 2), 1)]


def _deribit(place: str, _: Params) -> list[Spent]:
    spent = [
        Spent("credits", Limit(10_000, 1), 500)
    ]  # the refill of a second; the pool of 50,000 is beside it
    if place.endswith("/get_instruments"):
        spent.append(Spent("instruments", Limit(1, 1), 0.25))  # one an hour is asked: of one a second
    return spent


def _hyperliquid(_: str, params: Params) -> list[Spent]:
    weight = 2.0 if params["type"] in ("l2Book", "allMids") else 20.0
    if params["type"] == "fundingHistory":
        hours = (params.get("endTime", 9e15) - params["startTime"]) / 3_600_000
        weight += min(hours + 1, 500) / 20
    return [Spent("", Limit(1200, 60), weight)]


def _bitget(place: str, _: Params) -> list[Spent]:
    return [Spent(place, Limit(5 if place.endswith("/liquidations") else 20, 1), 1)]


def _kucoin(place: str, _: Params) -> list[Spent]:
    return [Spent("", Limit(2000, 30), {"active": 3, "funding-rates": 5}.get(place.rpartition("/")[2], 3))]


def _backpack(place: str, _: Params) -> list[Spent]:
    spent = [Spent("", Limit(2000, 60), 1)]
    return [*spent, Spent("history", Limit(30, 60), 1)] if place == "/fundingRates" else spent


def _requests(exchange: str) -> Callable[[str, Params], list[Spent]]:
    """Hold a venue to its limit of requests, of each endpoint where it counts so.

    One that names no limit is held to four times what its adapter says it spends.
    """
    limit = PUBLISHED[exchange] or Limit(4 * VENUES[exchange].budget, 1, "none is named")
    return lambda place, _: [Spent(place if exchange in _OF_AN_ENDPOINT else "", limit, 1)]


_OF_AN_ENDPOINT = ("gateio", "bingx", "cryptocom")
LIMITS: dict[str, Callable[[str, Params], list[Spent]]] = {
    **{exchange: _requests(exchange) for exchange in PUBLISHED},
    "binance": _binance,
    "okx": _okx,
    "hyperliquid": _hyperliquid,
    "bitget": _bitget,
    "deribit": _deribit,
    "aster": _aster,
    "kucoin": _kucoin,
    "backpack": _backpack,
}


def used(log: Iterable[tuple[str, str, Params, pd.Timestamp]]) -> dict[str, float]:
    """Return the largest part of a limit that each venue's requests used, in any window of its length.

    The requests of all dexes of Hyperliquid come from one address and are counted together.
    """
    spent: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    limits: dict[tuple[str, str], Limit] = {}
    for exchange, place, params, at in log:
        venue = "hyperliquid" if exchange in DEXES else exchange
        for pool, limit, weight in LIMITS[venue](place, params):
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
