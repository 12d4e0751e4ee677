"""Every parameter, its default, and rejected values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.service.conftest import Caller

HISTORY = "/funding/historical"
OPTIONS = "/options/snapshot"
MOVERS = "/markets/price-movers"

REFUSED = json.loads(Path(__file__).with_name("refused_parameters.json").read_text(encoding="utf-8"))
"""Path, query and the expected message."""


@pytest.mark.parametrize(("path", "query", "message"), REFUSED)
def test_unreadable_parameters_return_400_with_the_reason(
    ask: Caller, path: str, query: str, message: str
) -> None:
    body = ask.error(f"{path}?{query}", 400)
    assert set(body) == {"error"}
    assert message in body["error"]


def test_unknown_parameter_names_are_ignored(ask: Caller) -> None:
    assert ask.body("/markets/symbols", period="7d") == ask.body("/markets/symbols")


def test_unknown_parameters_symbols_and_pairs(ask: Caller) -> None:
    assert ask.body("/funding", colour="red") == ask.body("/funding")
    assert ask.body(MOVERS, start="x", colour=["a", "b"]) == ask.body(MOVERS)
    body = ask.body(HISTORY, symbol="NOPE")
    assert body["series"] == {}
    assert body["notices"][0].endswith(
        "has no rows of NOPE in this window; "
        "historical funding starts in September 2025 (2025-09-01 00:00:00 UTC)"
    )
    body = ask.body(HISTORY, symbol="BTC", exchanges="okx,aster")
    assert "has no rows of BTC on okx, aster in this window" in body["notices"][0]
    assert "unknown symbol 'NOPE'" in ask.error("/oi/NOPE/timeseries", 404)["error"]
    assert "unknown symbol 'btc'" in ask.error("/oi/btc/timeseries", 404)["error"]
    # Pairs of the matrix are answered, empty where the store has none; so are others that it holds.
    assert options(ask, exchange="deribit")["symbol"] == "BTC"
    assert options(ask, exchange="derive", symbol="ZEC") == {
        "symbol": "ZEC",
        "exchange": "derive",
        "count": 0,
        "instruments": [],
    }
    assert options(ask, exchange="bybit", symbol="XAU", tier="free")["count"] == 1


@pytest.mark.parametrize(
    "start",
    ["2026-06-29T10:00:00Z", "2026-06-29T10:00", "2026-06-29 10:00:00.000", "2026-06-29T12:00:00+02:00"],
)
def test_times_are_read_with_and_without_a_zone(ask: Caller, start: str) -> None:
    body = ask.body(HISTORY, symbol="BTC", start=start, end="2026-06-29T10:01Z", exchanges="hyperliquid")
    expected = {"t": "2026-06-29T10:00:00Z", "timestamp": "2026-06-29T10:00:00Z", "y": 2.0}
    assert body["series"] == {"hyperliquid": [expected]}


def options(ask: Caller, **params: Any) -> Any:
    return ask.body(OPTIONS, **params)
