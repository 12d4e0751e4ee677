"""Requests to each venue, against a quarter of its published limits, and the share that a run used."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate
from math import ceil
from typing import Any, NamedTuple

import pandas as pd
import pytest

from derivdata.sources.collect.session import shared_by_host
from derivdata.sources.venues.endpoint import Venue, VenueEndpoint
from derivdata.sources.venues.registry import STATE_STREAMS, VENUES
from derivdata.tables.contracts import HIP3_DEXES as DEXES

MINUTE = 60.0


class Limit(NamedTuple):
    """A published limit: so much weight in so many seconds, and where it is published."""

    weight: float
    seconds: float
    source: str = ""

    @property
    def quarter(self) -> float:
        """Weight per second that may be spent."""
        return self.weight / self.seconds / 4


# Typed again from the specification of the venues' APIs; None: it names no limit.
LIMITS: dict[str, Limit | None] = {
    "binance": Limit(2400, 60, "section 2: weight a minute and IP, on fapi and on dapi each"),
    "bybit": Limit(600, 5, "section 3: for all market calls and IP"),
    "okx": Limit(20, 2, "section 4: of most; 10 where a weight is 2.5: a second apart"),
    "hyperliquid": Limit(1200, 60, "section 6: weight a minute and IP, of the dexes too"),
    "gateio": Limit(200, 10, "section 7: of an endpoint and IP"),
    "bitget": Limit(20, 1, "section 8: of an endpoint and IP; 5 for liquidations"),
    "deribit": Limit(10_000 / 500, 1, "section 5: 10,000 credits a second, 500 a request"),
    "lighter": Limit(60, 60, "section 13: a minute and IP"),
    "paradex": Limit(1500, 60, "section 10: a minute and IP"),
    "aster": Limit(2400, 60, "section 12: weight a minute"),
    "kraken": None,
    "dydx": Limit(100, 10, "section 11: and IP"),
    "kucoin": Limit(2000, 30, "section 16: weight and IP"),
    "mexc": Limit(20, 2, "section 17"),
    "huobi": None,
    "derive": Limit(25, 5, "section 9: and IP"),
    "bingx": Limit(500, 10, "its page: of an endpoint and IP"),
    "phemex": Limit(300, 60, "its header: a minute and IP"),
    "bitmex": Limit(30, 60, "clients: a minute without a key"),
    "cryptocom": Limit(100, 1, "its page: of a method and IP"),
    "edgex": None,
    "backpack": Limit(2000, 60, "its support pages: a minute"),
    "coinbase": Limit(10, 1, "more-tables, section 2: and IP"),
    "variational": Limit(10, 10, "its page: and IP"),
    "extended": Limit(1000, 60, "its page: a minute and IP"),
    "grvt": None,
    "nado": Limit(2400, 60, "clients: weight a minute and IP"),
    "pacifica": Limit(100, 60, "clients: credits a minute without a key"),
    "woofipro": Limit(10, 1, "its page: of an endpoint and IP"),
    "ethereal": None,
    "apex": Limit(600, 60, "clients: a minute and IP"),
}
POOLS = {
    ("backpack", "history"): Limit(30, 60, "its support pages: of time ranges, a minute"),
    ("binance", "funding"): Limit(500, 300, "section 2: fundingInfo and fundingRate together"),
    ("binance", "data"): Limit(1000, 300, "section 2: /futures/data and IP"),
    ("binance", "spot"): Limit(6000, 60, "more-tables, section 2: weight a minute on the spot address"),
}
WEIGHTS = {
    "binance /fapi/v1/premiumIndex": 10,
    "binance /dapi/v1/premiumIndex": 10,
    "binance /fapi/v1/ticker/24hr": 40,
    "binance /dapi/v1/ticker/24hr": 40,
    "binance /fapi/v1/openInterest": 1,
    "binance /dapi/v1/openInterest": 1,
    "binance /fapi/v1/exchangeInfo": 1,
    "binance /fapi/v1/depth": 10,  # of 500 levels
    "binance /dapi/v1/depth": 10,
    "binance /eapi/v1/mark": 5,
    "binance /eapi/v1/ticker": 40,
    "binance /eapi/v1/blockTrades": 5,
    "binance /eapi/v1/exerciseHistory": 3,
    "okx /api/v5/public/funding-rate": 2.5,  # 10 in 2 s where most are 20
    "okx /api/v5/public/funding-rate-history": 2.5,
    "okx /api/v5/rubik/stat/contracts/open-interest-history": 2.5,
    "okx /api/v5/rubik/stat/taker-volume-contract": 4,  # 5 in 2 s
    "okx /api/v5/public/mark-price": 2.5,
    "okx /api/v5/public/mark-price?instType=OPTION": 2.5,
    "hyperliquid /info meta": 20,
    "hyperliquid /info metaAndAssetCtxs": 20,
    "hyperliquid /info predictedFundings": 20,
    "hyperliquid /info fundingHistory": 45,  # 20 and 1 for each 20 of 500 rows
    "hyperliquid /info l2Book": 2,
    "bitget /api/v3/market/liquidations": 4,  # 5 a second where the others are 20
    "bitget /api/v2/mix/market/account-long-short": 20,  # once a second
    "deribit /public/get_instruments": 10,  # 1 a second where the others are 20
    "aster /fapi/v1/ticker/24hr": 40,
    "aster /fapi/v1/depth": 10,
    "kucoin /api/v1/contracts/active": 3,
    "kucoin /api/v1/contract/funding-rates": 5,
    "nado /v1": 45,  # of 100 snapshots
}
CONTRACTS = {"grvt": 120, "ethereal": 50, "binance": 700, "bingx": 1100, "edgex": 300, "cryptocom": 400}
"""Contracts of venues with one request per contract."""
SYMBOLS = 10
"""Symbols whose liquidations are requested one by one."""
EXPIRIES = {"binance": 60, "derive": 40}
"""Requests of a chain that is requested by expiry."""


def _requests(endpoint: VenueEndpoint) -> float:
    """How many requests one poll of an endpoint takes."""
    if endpoint.expiry:
        return EXPIRIES[endpoint.exchange]
    if endpoint.symbol_values:
        return len(endpoint.symbol_values)
    if not endpoint.symbol:
        return 1
    if endpoint.batch:
        return ceil(CONTRACTS[endpoint.exchange] / endpoint.batch)
    return SYMBOLS if endpoint.what == "liquidations" else endpoint.largest or CONTRACTS[endpoint.exchange]


def _planned(venue: Venue, pool: str, *, busiest: bool) -> float:
    """Weight that polls take in a minute: on average, or in one in which all is due."""
    total = 0.0
    for endpoint in venue.endpoints:
        if endpoint.every is None or endpoint.pool != pool:
            continue
        share = MINUTE / endpoint.every
        evenly = endpoint.is_of_one and endpoint.what != "liquidations"
        total += endpoint.weight * _requests(endpoint) * (1.0 if busiest and not evenly else share)
    return total


def _limit_of(venue: Venue) -> Limit | None:
    name = "hyperliquid" if venue.host == VENUES["hyperliquid"].host else venue.exchange
    return LIMITS[name]


@pytest.mark.parametrize("name", VENUES)
def test_request_budget_is_at_most_a_quarter_of_the_venue_limit(name: str) -> None:
    venue = VENUES[name]
    limit = _limit_of(venue)
    if limit is not None:
        assert venue.budget <= limit.quarter * 1.0001, limit.source
    for pool, budget in venue.pools.items():
        assert budget <= POOLS[name, pool].quarter * 1.0001, POOLS[name, pool].source


@pytest.mark.parametrize("name", VENUES)
def test_every_pool_of_a_venue_is_used_by_its_endpoints(name: str) -> None:
    venue = VENUES[name]
    assert {endpoint.pool for endpoint in venue.endpoints} == {"", *venue.pools}


@pytest.mark.parametrize("name", VENUES)
def test_planned_requests_fit_into_each_minute(name: str) -> None:
    """Also into the minute in which chains, tickers of five minutes and all else are due together."""
    venue = VENUES[name]
    for pool, budget in {"": venue.budget, **venue.pools}.items():
        assert _planned(venue, pool, busiest=True) <= budget * MINUTE, pool
        assert _planned(venue, pool, busiest=False) <= budget * MINUTE, pool


def test_hyperliquid_dexes_share_its_rate_limit() -> None:
    host, now = VENUES["hyperliquid"].host, pd.Timestamp("2026-01-20", tz="UTC")
    shared = shared_by_host(venue for venue in VENUES.values() if venue.host == host)
    waits = [item.turn(now, 20 / VENUES[name].budget) for name, item in shared.items()]
    assert waits == [0.0, 4.0, 8.0, 12.0, 16.0], "a request of weight 20 takes 4 seconds of 5 a second"
    assert shared_by_host([VENUES["bybit"]])["bybit"].turn(now, 1.0) == 0.0


def test_requests_have_the_weight_that_the_venue_counts() -> None:
    weights = {f"{e.exchange} {e.path}": e.weight for venue in VENUES.values() for e in venue.endpoints}
    assert {name: weights[name] for name in WEIGHTS} == WEIGHTS
    listed = {name for name in weights if name.startswith("binance ") and "!" not in name}
    others = {name: weights[name] for name in listed - WEIGHTS.keys()}
    assert all(weight >= 1 for weight in others.values())


def test_subscriptions_of_a_connection_stay_below_its_length() -> None:
    """Bybit takes about 21,000 characters of arguments a connection (section 3)."""
    stream = VENUES["bybit"].stream
    assert stream is not None
    names = [f"1000000SYMBOL{number}USDT" for number in range(1000)]
    connections = stream.connections(names, 0)
    topics = [json.loads(message)["args"] for item in connections for message in item.messages]
    assert sorted(topic for part in topics for topic in part) == sorted(f"allLiquidation.{n}" for n in names)
    for item in connections:
        assert sum(len(topic) for m in item.messages for topic in json.loads(m)["args"]) <= 21_000


@pytest.mark.parametrize(
    ("venue", "channels", "of_channels", "of_message"),
    [  # the venue's limits: channels of a connection, bytes of their list, bytes of a message
        ("bitget", 49, None, 4096),
        ("okx", 480, 65_536, 65_536),
        ("deribit", None, None, 32_768),
    ],
)
def test_subscriptions_to_the_state_keep_to_the_limits_of_the_venue(
    venue: str, channels: int | None, of_channels: int | None, of_message: int
) -> None:
    names = [f"1000000SYMBOL{number}-USDT-SWAP" for number in range(2500)]
    for stream in STATE_STREAMS[venue]:
        subscribed = 0
        for connection in stream.connections(names, 0):
            lists = []
            for message in connection.messages:
                assert len(message.encode()) <= of_message
                body = json.loads(message)
                lists += body["args"] if "args" in body else body["params"]["channels"]
            assert channels is None or len(lists) <= channels
            assert of_channels is None or len(json.dumps(lists)) <= of_channels
            subscribed += len(lists)
        assert subscribed == len(names)


def _spent(venue: str, place: str, params: dict[str, Any]) -> Iterator[tuple[str, Limit, float]]:
    """Yield the name and the size of each limit that counts a request, and its weight there.

    A venue without a published limit is held to four times its adapter's estimate.
    """
    if venue == "binance" and place.startswith("/futures/data/"):
        yield "data", POOLS[venue, "data"], 1
        return
    if venue == "binance" and place.endswith(("fundingInfo", "fundingRate")):
        yield "funding", POOLS[venue, "funding"], 1
    if venue == "backpack" and place == "/fundingRates":
        yield "history", POOLS[venue, "history"], 1
    pool = place if venue in ("gateio", "bingx", "cryptocom", "bitget", "okx") else ""
    pool += place[:5] if place.startswith("/dapi") else ""
    pool += params.get("instId", "") if place.endswith("funding-rate-history") else ""
    limit = LIMITS[venue] or Limit(4 * VENUES[venue].budget, 1, "none is named")
    named = f"{venue} {place} {params['type']}" if venue == "hyperliquid" else f"{venue} {place}"
    weight = WEIGHTS.get(named, {"hyperliquid": 20, "kucoin": 3}.get(venue, 1))
    if params.get("type") == "fundingHistory":  # 20, and 1 for each 20 of 500 rows
        hours = (params.get("endTime", 9e15) - params["startTime"]) / 3_600_000
        weight = 20 + min(hours + 1, 500) / 20
    yield pool, limit, 1 if place.endswith("get_instruments") else weight  # it is one an hour


def used(log: Iterable[tuple[str, str, dict[str, Any], pd.Timestamp]]) -> dict[str, float]:
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
