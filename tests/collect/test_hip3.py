"""Dexes of Hyperliquid: their list is the venue's, and those without a slug are polled as ``dex:COIN``."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from derivdata.sources.archive import Archive
from derivdata.sources.collect.session import VenueSession
from derivdata.sources.collect.state import VenueState
from derivdata.sources.venues.registry import VENUES
from tests.collect.clocks import SimulatedClock
from tests.collect.fakes import Fakes
from tests.venues.test_hip3 import contexts

NOW = "2026-01-20T10:30:00"
DAY = ("2026-01-20", "2026-01-21")
COINS = {"flx": ["flx:GOLD", "flx:OIL"], "mkts": ["mkts:BTC"], "xyz": ["xyz:GOLD"]}
"""Contracts of two dexes without a slug, and of the dex that is the venue tradexyz."""


@pytest.fixture
def listed() -> list[Any]:
    """The venue's list of dexes, which a test may change."""
    return [None, *({"name": name, "fullName": name.upper()} for name in COINS)]


@pytest.fixture
def dexes(fakes: Fakes, listed: list[Any]) -> Fakes:
    def answer(params: dict[str, Any], body: Any) -> Any:
        dex = params.get("dex", "")
        if params["type"] == "perpDexs":
            return listed
        if not dex:
            return body
        universe, rows = contexts(*COINS[dex])
        return universe if params["type"] == "meta" else [universe, rows]

    fakes.altered["hyperliquid/info"] = answer
    return fakes


def _polls(collector: Any, clock: SimulatedClock, count: int) -> None:
    """Poll at the beginning of so many minutes."""
    for _ in range(count):
        collector.once()
        clock.wait(60 - clock.utc().second)


def _symbols(archive: Archive, table: str = "funding_history") -> dict[str, list[str]]:
    rows = archive.read(table, *DAY)
    return {
        str(name): sorted(set(part["symbol"].astype(str)))
        for name, part in rows.groupby("exchange", observed=True)
    }


def test_dexes_without_a_slug_are_polled_every_five_minutes(
    make_collector: Any, archive: Archive, dexes: Fakes, clock: SimulatedClock
) -> None:
    collector = make_collector("hyperliquid", names=["funding_history", "oi_history", "instruments"])
    _polls(collector, clock, 6)
    assert collector.failed == {}
    names = ["BTC", "ETH", "flx:GOLD", "flx:OIL", "mkts:BTC"]
    assert _symbols(archive) == {"hyperliquid": names}
    assert _symbols(archive, "instruments") == {"hyperliquid": names}
    rows = archive.read("funding_history", *DAY, symbols=["flx:GOLD", "BTC"])
    assert rows["symbol"].astype(str).value_counts().to_dict() == {"BTC": 6, "flx:GOLD": 2}
    assert set(rows[rows["symbol"] == "flx:GOLD"]["rate_bps_8h"]) == {1.0}  # 0.0000125 in an hour
    held = archive.read("oi_history", *DAY, symbols=["flx:GOLD"])
    assert set(held["oi_usd"]) == {1000.0}  # 10 coins at 100
    requests = [params.get("dex") for _, _, params, _ in dexes.log if params["type"] == "metaAndAssetCtxs"]
    assert (requests.count("flx"), requests.count("mkts")) == (2, 1), "at 10:30 and 10:35, and at 10:31"
    assert "xyz" not in requests, "it is the venue tradexyz"


def test_a_dex_that_the_venue_lists_later_is_polled_from_the_next_hour_on(
    make_collector: Any, archive: Archive, dexes: Fakes, clock: SimulatedClock, listed: list[Any]
) -> None:
    del listed[2:]  # flx is left, by its own name
    listed[1] = {"name": "flx", "fullName": "Felix Exchange"}
    collector = make_collector("hyperliquid", names=["funding_history"])
    collector.once()
    assert _symbols(archive) == {"hyperliquid": ["BTC", "ETH", "flx:GOLD", "flx:OIL"]}
    listed.append({"name": "mkts", "fullName": "Markets by Kinetiq"})
    clock.wait(1800)
    _polls(collector, clock, 5)
    assert "mkts:BTC" in _symbols(archive)["hyperliquid"]


def test_failed_dex_does_not_affect_the_others(
    make_collector: Any, archive: Archive, dexes: Fakes, clock: SimulatedClock
) -> None:
    answer = dexes.altered["hyperliquid/info"]

    def failing(params: dict[str, Any], body: Any) -> Any:
        return (500, {}) if params.get("dex") == "flx" else answer(params, body)

    dexes.altered["hyperliquid/info"] = failing
    collector = make_collector("hyperliquid", names=["funding_history"])
    collector.once()
    assert "1 of 2 requests failed" in collector.failed["hyperliquid /info metaAndAssetCtxs"]
    _polls(collector, clock, 2)
    assert _symbols(archive) == {"hyperliquid": ["BTC", "ETH", "mkts:BTC"]}


def test_a_body_of_another_dex_is_not_stored(make_collector: Any, archive: Archive, dexes: Fakes) -> None:
    answer = dexes.altered["hyperliquid/info"]

    def another(params: dict[str, Any], body: Any) -> Any:
        changed = {**params, "dex": "mkts"} if params.get("dex") == "flx" else params
        return answer(changed, body)

    dexes.altered["hyperliquid/info"] = another
    collector = make_collector("hyperliquid", names=["funding_history"])
    collector.once()
    assert _symbols(archive) == {"hyperliquid": ["BTC", "ETH"]}
    why = collector.failed["hyperliquid /info metaAndAssetCtxs"]
    assert "expected contracts of the dex flx, got mkts:BTC" in why


def test_address_without_a_dex_list_has_no_dexes(fakes: Fakes, archive: Archive, make_collector: Any) -> None:
    fakes.altered["hyperliquid/info"] = lambda params, body: (
        (404, {}) if params["type"] == "perpDexs" else body
    )
    collector = make_collector("hyperliquid", names=["funding_history"])
    collector.once()
    assert collector.failed == {}
    assert _symbols(archive) == {"hyperliquid": ["BTC", "ETH"]}


def test_dex_with_an_unexpected_full_name_is_rejected(
    fakes: Fakes, clock: SimulatedClock, dexes: Fakes, listed: list[Any]
) -> None:
    tradexyz = next(dex for dex in listed if dex is not None and dex["name"] == "xyz")
    tradexyz["fullName"] = "Another Exchange"
    session = VenueSession(VENUES["hyperliquid"], clock, address=fakes.addresses["hyperliquid"])
    poll = VenueState(session).poll()
    assert (
        "expected the dex xyz of the venue tradexyz, got 'Another Exchange'"
        in poll.problems["/info perpDexs"]
    )
    assert set(pd.unique(poll.frames["funding_history"]["symbol"])) == {"BTC", "ETH"}
