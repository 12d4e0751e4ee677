"""Keys, tiers and rates."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
import requests

from derivdata.sources import service
from derivdata.sources.service.answers import ANSWERS
from derivdata.sources.service.data.store import Refusal
from derivdata.sources.service.http.access import Keys, RateLimit
from derivdata.tables import endpoints
from tests.service import market
from tests.service.conftest import KEYS, PATIENCE, Caller, serving
from tests.service.memory_store import MemoryStore
from tests.support.timestamps import at

PARAMS = {
    "/funding/historical": {"symbol": "BTC"},
    "/funding/settlement": {"symbol": "BTC"},
    **{e.path: {"symbol": "BTC"} for e in endpoints.ENDPOINTS if e.rows},
    "/options/snapshot": {"exchange": "deribit"},
    "/options/metrics": {"exchange": "deribit"},
    "/options/atm-history": {"exchange": "deribit"},
    "/options/surface-history": {"exchange": "deribit"},
    "/orderbook/book": {"symbol": "BTC", "exchange": "binance"},
    "/orderbook/depth-history": {"symbol": "BTC", "exchange": "binance"},
    "/oi/exchange-top-symbols-timeseries": {"exchange": "binance"},
    "/volume/exchange-top-symbols-timeseries": {"exchange": "binance"},
    "/hip3-analytics/dex-detail": {"dex": "xyz"},
    "/hip3-analytics/oi-trends/dex": {"dex": "xyz"},
    "/hip3-analytics/candles": {"coin": "xyz:TSLA"},
}
FREE = {"/funding", "/options/snapshot", "/markets/{symbol}/stats", "/local/catalog", "/local/instruments"}
PRO = {"/rwa/market-hours"}
TIERS = ["free", "dev", "pro", "team"]
SEGMENTS = {"symbol": "BTC", "exchange": "binance", "outcome_id": "101"}
ENDPOINTS = {e.path: e.path.format(**SEGMENTS) for e in endpoints.ENDPOINTS}


@pytest.fixture(scope="module")
def tiny(store: MemoryStore) -> Iterator[Caller]:
    """The last hours of the market: windows are cut to them, so that bodies are small."""
    recent = {
        name: frame[frame["time"] >= at("2026-06-30")].reset_index(drop=True)
        for name, frame in store.frames.items()
    }
    with serving(MemoryStore(recent, now=market.NOW, start="2026-06-30")) as caller:
        yield caller


def test_endpoints_above_a_tier_return_403_and_name_the_tier_they_need(tiny: Caller) -> None:
    failures = []
    for path, tier in product(ENDPOINTS, (None, "free", "dev", "pro", "team")):
        needed = "dev"
        if path in FREE:
            needed = "free"
        elif path in PRO:
            needed = "pro"
        response = tiny(ENDPOINTS[path], tier=tier, **PARAMS.get(path, {}))
        body = response.json()
        if tier is None:
            status = 401
            is_expected = set(body) == {"error", "docs"} and "X-Api-Key" in body["error"]
        elif TIERS.index(tier) < TIERS.index(needed):
            status = 403
            is_expected = set(body) == {"error", "required_tier", "docs"} and body["required_tier"] == needed
        else:
            status = 200
            is_expected = "error" not in body
        if response.status_code != status or not is_expected:
            failures.append(f"{tier} {path}: {response.status_code} {response.text[:200]}")
    assert failures == []


def test_unknown_key_returns_401_and_local_service_has_no_rate_limit(ask: Caller) -> None:
    answer = ask("/funding", tier="nobody")
    assert answer.status_code == 401
    assert "key-nobody" not in answer.text + str(answer.headers)
    assert set(ANSWERS) == {e.path for e in endpoints.ENDPOINTS}
    for _ in range(4):
        assert "X-RateLimit-Limit" not in ask("/funding/historical", symbol="BTC").headers


def test_rate_limit_admits_two_requests_per_second_and_key() -> None:
    """The requests at 0 and 0.5 s are admitted. The next one is at 1 s, and the one after it at 1.5 s."""
    clock = iter([0.0, 0.5, 0.75, 1.0, 1.25, 1.5])
    rate = RateLimit(2, clock=lambda: next(clock))
    assert rate.admit("k") == {"X-RateLimit-Limit": "2", "X-RateLimit-Remaining": "1"}
    assert rate.admit("k")["X-RateLimit-Remaining"] == "0"
    with pytest.raises(Refusal) as refused:  # at 0.75 s
        rate.admit("k")
    assert refused.value.status == 429
    assert refused.value.body["retry_after"] == 1
    assert "0.250 s" in str(refused.value.body["message"])
    assert refused.value.headers == {
        "Retry-After": "1",
        "X-RateLimit-Limit": "2",
        "X-RateLimit-Remaining": "0",
    }
    rate.admit("k")
    with pytest.raises(Refusal):  # at 1.25 s
        rate.admit("k")
    rate.admit("k")


def test_rate_limit_counts_each_caller_and_remembers_the_newest_ones() -> None:
    rate = RateLimit(1, clock=lambda: 0.0)
    rate.admit("one")
    rate.admit("other")
    with pytest.raises(Refusal):
        rate.admit("one")
    rate = RateLimit(1, clock=lambda: 0.0, most_callers=100)
    for number in range(10_000):
        rate.admit(number)
    assert len(rate) == 100
    with pytest.raises(Refusal):
        rate.admit(9_999)


def test_only_historical_funding_is_limited() -> None:
    store = MemoryStore({"funding_history": market.funding()}, now=market.NOW)
    local = service.start(store, keys=KEYS, limits=True)
    headers = {"X-Api-Key": "key-dev"}
    try:
        others = [requests.get(f"{local.url}/funding", headers=headers, timeout=PATIENCE) for _ in range(10)]
        url = f"{local.url}/funding/historical?symbol=BTC&resolution=1d"
        some = [requests.get(url, headers=headers, timeout=PATIENCE) for _ in range(10)]
    finally:
        local.close()
    assert {a.status_code for a in others} == {200}
    assert some[0].headers["X-RateLimit-Remaining"] == "1"
    refused = next(a for a in some if a.status_code == 429)
    assert set(refused.json()) == {"error", "message", "retry_after"}
    assert refused.headers["Retry-After"] == "1"


def test_keyless_requests_have_tier_team_and_are_limited_by_address() -> None:
    keys = Keys({"mine": "free"}, keyless=True)
    assert keys.caller(None).tier == keys.caller("whatever").tier == "team"
    assert keys.caller("mine").tier == "free"
    keys, rate = Keys({"mine": "free"}, keyless=True), RateLimit(2, clock=lambda: 0.0)
    for number in range(2):
        rate.admit(keys.caller(f"made up {number}", "10.0.0.1").name)
    for sent in (None, "made up 3", "made up 4"):
        with pytest.raises(Refusal, match="rate limit"):
            rate.admit(keys.caller(sent, "10.0.0.1").name)
    rate.admit(keys.caller("made up 0", "10.0.0.2").name)
    rate.admit(keys.caller("mine", "10.0.0.1").name)
    assert len(rate) == 3


@pytest.mark.parametrize("tiers", [{"k": "gold"}, {"": "free"}])
def test_invalid_keys_raise_at_start(tiers: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"key is empty|tier must be one of"):
        Keys(tiers)
