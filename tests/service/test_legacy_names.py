"""Legacy parameters and paths: accepted until 21 July 2026 with deprecation headers, rejected afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest

import derivdata as dd
from derivdata.errors import DeprecationNotice
from tests.service import market
from tests.service.conftest import Caller, serving
from tests.service.memory_store import MemoryStore

SUNSET = "Tue, 21 Jul 2026 00:00:00 GMT"
PAIR = {"symbol": "BTC", "exchange": "deribit"}

PARAMETERS: list[tuple[str, dict[str, str], dict[str, str], str]] = [
    ("/oi/BTC/timeseries", {"period": "7d"}, {"range": "7d"}, "use range instead of period"),
    ("/liquidations/aggregates", {"period": "4h"}, {"range": "4h"}, "use range instead of period"),
    ("/options/atm-history", {"days": "3", **PAIR}, {"range": "3d", **PAIR}, "use range instead of days"),
    (
        "/oi/BTC/timeseries",
        {"start_time": "2026-06-29", "end_time": "2026-06-30"},
        {"start": "2026-06-29", "end": "2026-06-30"},
        "use start instead of start_time; use end instead of end_time",
    ),
    (
        "/hip4-analytics/oi-eod",
        {"min_day": "2026-06-29"},
        {"start": "2026-06-29"},
        "use start instead of min_day",
    ),
]


@pytest.fixture(scope="module")
def late() -> Iterator[Caller]:
    """The same market behind a service whose clock shows the day of the retirement."""
    store = MemoryStore(market.frames(), now=market.NOW)
    with serving(store, now=pd.Timestamp("2026-07-21", tz="UTC")) as caller:
        yield caller


@pytest.mark.parametrize(("path", "old", "new", "advice"), PARAMETERS)
def test_legacy_parameters_are_read_as_their_successors(
    ask: Caller, path: str, old: dict[str, Any], new: dict[str, Any], advice: str
) -> None:
    response = ask(path, **old)
    assert response.status_code == 200, response.text
    assert response.json() == ask.body(path, **new)
    stated = {name: response.headers[name] for name in ("Deprecation", "Sunset", "Link", "Warning")}
    assert stated == {
        "Deprecation": "true",
        "Sunset": SUNSET,
        "Link": '</docs>; rel="deprecation"',
        "Warning": f'299 - "{advice}"',
    }
    assert not {"Deprecation", "Sunset", "Warning"} & set(ask(path, **new).headers)


@pytest.mark.parametrize("family", ["oi", "volume"])
def test_legacy_paths_serve_their_successors(ask: Caller, family: str) -> None:
    response = ask(f"/{family}/coin", coin="BTC", range="1d")
    assert response.json() == ask.body(f"/{family}/BTC/timeseries", range="1d")
    assert (response.headers["Deprecation"], response.headers["Sunset"]) == ("true", SUNSET)
    assert response.headers["Link"] == f'</{family}/BTC/timeseries>; rel="successor-version"'
    assert "coin must be passed once" in ask.error(f"/{family}/coin", 400)["error"]
    assert "unknown symbol 'NOPE'" in ask.error(f"/{family}/coin", 404, coin="NOPE")["error"]
    assert ask.error(f"/{family}/coin", 403, tier="free", coin="BTC")["required_tier"] == "dev"


def test_one_parameter_under_both_names_is_rejected(ask: Caller) -> None:
    both = ask.error("/liquidations/aggregates", 400, period="4h", range="4h")["error"]
    assert both == "range (also as period) was sent 2 times: pass range once"
    mixed = ask.error("/oi/BTC/timeseries", 400, period="7d", start="2026-06-20")["error"]
    assert "range cannot be combined with start" in mixed


@pytest.mark.parametrize(("path", "old", "new", "advice"), PARAMETERS)
def test_legacy_paths_are_rejected_after_their_sunset(
    late: Caller, path: str, old: dict[str, Any], new: dict[str, Any], advice: str
) -> None:
    name, successor = next((o, n) for o, n in zip(old, new, strict=True) if o != n)
    assert late.error(path, 400, **old)["error"] == f"{name} was retired: use {successor}"
    gone = late.error("/oi/coin", 410, tier=None, coin="BTC")["error"]
    assert gone == "/oi/coin was retired: use /oi/{symbol}/timeseries"


def test_the_library_reports_a_deprecated_path_of_the_service() -> None:
    """The sample's clock is before the retirement, so that the client's notice can be seen on it."""
    dd.connect("sample")
    with pytest.warns(DeprecationNotice, match=r"/oi/coin: .*Sunset: Tue, 21 Jul 2026.*/oi/BTC/timeseries"):
        body = dd.raw("/oi/coin", coin="BTC", range="1d")
    assert body["symbol"] == "BTC"
