"""The status page of the service, in a browser, on an archive that is being collected."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import derivdata as dd
from derivdata.sources import service
from derivdata.sources.service.data.view import View
from derivdata.sources.service.http import pages
from tests.browser import checks
from tests.support import known_archive


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the status page of the archive with known numbers, three hours after its last funding row."""
    folder: Path = tmp_path_factory.mktemp("status")
    path = known_archive.write(folder / "archive")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DERIVDATA_CACHE_DIR", str(folder / "cache"))
        local = service.start(path, now=known_archive.STAMPS[-1] + pd.Timedelta(3, "h"), page=True)
        yield f"{local.url}/status"
        local.close()


def cells(page: Any, heading: str) -> list[list[str]]:
    """The rows of the table below a heading."""
    table = page.locator(f"h2:has-text('{heading}') ~ div table").first
    return [row.locator("td").all_text_contents() for row in table.locator("tbody tr").all()]


def test_status_page_states_the_age_of_each_venue(address: str, open_page: Callable[..., Any]) -> None:
    page = open_page(address)
    names = page.locator("table").first.locator("th").all_text_contents()
    rows = {row[0]: dict(zip(names, row, strict=True)) for row in cells(page, "Freshness")}
    assert rows["okx"]["funding_history"] == "3.0 h"
    assert rows["okx"]["oi_history"] == "3.0 h"
    assert rows["zo"]["oi_history"] == "–"
    assert page.locator("td.late").first.text_content() == "3.0 h"
    assert "Data since 2026-01-01 00:00 UTC" in page.locator("body").text_content()
    assert "Gaps are listed only for an archive" in page.locator("body").text_content()


def test_venue_silent_for_two_days_is_late_not_removed(tmp_path: Path) -> None:
    """Its payment of this morning is not a sample of its rate."""
    now = pd.Timestamp("2026-06-10 12:00", tz="UTC")
    times = now - pd.to_timedelta([180, 0, 49 * 60], "min")
    last = pd.DataFrame({"exchange": ["kraken", "okx", "bybit"], "time": times})
    last = last.assign(symbol="BTC", rate_bps_8h=1.0)
    archive = dd.open_archive(tmp_path)
    archive.append("funding_history", last.assign(resolution="raw", kind="sampled"))
    paid = last.assign(time=now - pd.Timedelta("4h"), interval_hours=8.0, kind="settled")
    archive.append("funding_settlements", paid)
    text = pages._freshness(View(archive, now))
    assert '<p class="late">2 of 3 venues late: no row for two hours.</p>' in text
    assert re.findall("<tr><td>(.*?)</td><td.*?>(.*?)</td>", text) == [
        ("bybit", "49.0 h"),
        ("kraken", "3.0 h"),
        ("okx", "0 min"),
    ]


def test_widest_spread_is_highest_minus_lowest_rate(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    """BTC: 0 on aster, 8 on zo. ETH is on one venue only and has no spread."""
    local = service.start(known_archive.write(tmp_path / "a"), page=True)
    try:
        page = open_page(f"{local.url}/status")
        assert cells(page, "Widest funding") == [["BTC", "8.00", "aster (+0.00)", "zo (+8.00)"]]
        assert page.locator("meta[http-equiv=refresh]").get_attribute("content") == "30"
    finally:
        local.close()


@pytest.mark.parametrize("dark", [False, True])
def test_status_page_is_readable_on_every_screen(
    address: str, dark: bool, open_page: Callable[..., Any]
) -> None:
    page = open_page(address, dark=dark)
    assert checks.overflow(page) == {}
    assert page.locator("script").count() == 0
    assert checks.violations(page, allowed=("meta-refresh",)) == [], "to refresh itself is what it is for"


SIX = {
    "funding_history": "aster",
    "funding_settlements": "hyperliquid",
    "oi_history": "zo",
    "prices_history": "binance",
    "options_snapshot": "deribit",
    "liquidations_events": "okx",
}
"""Tables of which the page shows ages, the longest names; one venue has each."""


@pytest.mark.parametrize("dark", [False, True])
def test_status_page_does_not_scroll_sideways_or_break_names(
    dark: bool, open_page: Callable[..., Any]
) -> None:
    """Six columns fit a tablet; on a phone a row is a block of named cells that have a value."""
    rows = [[venue, *("0 min" if venue == SIX[table] else "–" for table in SIX)] for venue in SIX.values()]
    page = open_page("about:blank", dark=dark)
    style = Path(pages.__file__).with_name("status.css").read_text(encoding="utf-8")
    page.set_content(
        f"<!doctype html><html lang=en><style>{style}</style><body>"
        + pages._table(["venue", *SIX], rows, [[1], *[[]] * 5])
        + pages._table(["exchange", "table", "last_error"], [["okx", "oi_history", "no-answer/" * 40]])
    )
    assert {
        width: result for width in (390, 701, 1200) if (result := checks.inner_overflow(page, width=width))
    } == {}
    assert len({row.bounding_box()["height"] for row in page.locator("tbody").first.locator("tr").all()}) == 1
    assert checks.inner_overflow(page, width=390) == []
    assert checks.violations(page, allowed=("document-title",)) == []
    assert not page.locator("thead").first.is_visible()
    shown = page.locator("tbody").first.locator("tr").nth(1).locator("td:visible")
    assert shown.all_text_contents() == ["hyperliquid", "0 min"]
    label = "node => getComputedStyle(node, '::before').content"
    assert shown.nth(1).evaluate(label) == '"funding_settlements"'
