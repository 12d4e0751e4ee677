"""Names that are retired on 21 July 2026."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.service.conftest import Caller, serving
from tests.service.memory_store import MemoryStore

SUNSET = "Tue, 21 Jul 2026 00:00:00 GMT"
OLD = [
    ("/oi/BTC/timeseries", {"period": "7d"}, {"range": "7d"}),
    ("/oi/BTC/timeseries", {"start_time": "2026-06-29", "end_time": "2026-06-30"},
     {"start": "2026-06-29", "end": "2026-06-30"}),
    ("/options/atm-history", {"exchange": "deribit", "days": "3"}, {"exchange": "deribit", "range": "3d"}),
    ("/liquidations/aggregates", {"period": "4h"}, {"range": "4h"}),
]  # fmt: skip


@pytest.fixture(scope="module")
def later(store: MemoryStore) -> Iterator[Caller]:
    """The same market on the day after which the old names are gone."""
    with serving(store, now="2026-07-21") as caller:
        yield caller


@pytest.mark.parametrize(("path", "old", "new"), OLD)
def test_old_parameters_work_and_warn(
    ask: Caller, path: str, old: dict[str, str], new: dict[str, str]
) -> None:
    answer = ask(path, **old)
    assert answer.json() == ask.body(path, **new)
    assert answer.headers["Deprecation"] == "true"
    assert answer.headers["Sunset"] == SUNSET
    assert answer.headers["Link"] == '</docs>; rel="deprecation"'
    renamed = next(name for name in old if name not in new)
    assert f"{renamed} is deprecated: use" in answer.headers["Warning"]
    assert "Deprecation" not in ask(path, **new).headers


@pytest.mark.parametrize(("path", "old", "new"), OLD)
def test_old_parameters_are_refused_from_that_day(
    later: Caller, path: str, old: dict[str, str], new: dict[str, str]
) -> None:
    name = next(name for name in old if name not in new)
    canonical = {"period": "range", "days": "range", "start_time": "start"}[name]
    assert f"{name} was retired on 2026-07-21: use {canonical}" in later.error(path, 400, **old)["error"]


def test_old_names_beside_new_ones_and_without_a_coin(ask: Caller) -> None:
    error = ask.error("/oi/BTC/timeseries", 400, period="7d", range="7d")["error"]
    assert error == "period is the old name of range: give that one alone"
    answer = ask("/markets/symbols", period="7d")
    assert answer.status_code == 200
    assert "Deprecation" not in answer.headers
    assert ask.error("/oi/coin", 400)["error"] == "coin is required, once"
    ask.error("/oi/coin", 404, coin="NOPE")
    ask.error("/oi/coin", 401, tier=None, coin="BTC")
    ask.error("/oi/coin", 403, tier="free", coin="BTC")


@pytest.mark.parametrize("quantity", ["oi", "volume"])
def test_old_paths(ask: Caller, later: Caller, quantity: str) -> None:
    answer = ask(f"/{quantity}/coin", coin="BTC", range="1d")
    assert answer.json() == ask.body(f"/{quantity}/BTC/timeseries", range="1d")
    assert answer.headers["Deprecation"] == "true"
    assert answer.headers["Sunset"] == SUNSET
    assert answer.headers["Link"] == f'</{quantity}/BTC/timeseries>; rel="successor-version"'
    gone = later.error(f"/{quantity}/coin", 410, coin="BTC")
    assert gone["error"] == f"/{quantity}/coin was retired on 2026-07-21: use /{quantity}/BTC/timeseries"


@pytest.mark.parametrize("coin", [" BTC", "BTC ", " ", "", "BTC\x00"])
def test_a_coin_that_cannot_be_a_symbol_is_refused(ask: Caller, coin: str) -> None:
    assert "is not a symbol" in ask.error("/oi/coin", 400, coin=coin)["error"]


def test_a_path_that_is_gone_is_gone_whatever_the_coin(later: Caller) -> None:
    for coin in ({}, {"coin": " BTC"}, {"coin": ["BTC", "ETH"]}):
        gone = later.error("/oi/coin", 410, **coin)["error"]
        assert gone == "/oi/coin was retired on 2026-07-21: use /oi/{symbol}/timeseries"
