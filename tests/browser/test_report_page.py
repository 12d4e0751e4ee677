"""The report in a browser, on a screen and on a phone, in light and in dark mode."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import derivdata as dd
from tests.browser import checks
from tests.support import known_archive


@pytest.fixture(scope="module")
def address(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Serve a small report: funding and positions of an archive with known numbers."""
    folder: Path = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DERIVDATA_CACHE_DIR", str(folder / "cache"))
        dd.connect(known_archive.write(folder / "archive"))
        out = dd.report(["BTC"], out=folder / "r.html", window="15d", sections=["funding", "oi", "quality"])
        dd.disconnect()
    return out.as_uri()


A4 = {"width": 688, "height": 1016}
"""Printable area of an A4 page, in pixels of 1/96 inch."""

PRINTED = """() => [...document.querySelectorAll("figure, .answer, tr, thead")].map((node) => ({
  kind: node.localName,
  height: node.getBoundingClientRect().height,
  whole: getComputedStyle(node).breakInside,
}))"""
"""What must not be divided between two pages, and how high it is."""


def column(page: Any, place: int) -> list[str]:
    """The cells of the n-th column of the first table."""
    cells: list[str] = (
        page.locator("#funding table >> nth=0").locator(f"tbody td:nth-child({place})").all_text_contents()
    )
    return cells


def test_tables_sort_by_number_and_by_name(address: str, open_page: Callable[..., Any]) -> None:
    page = open_page(address)
    rate, venue = (
        page.locator("#funding").get_by_role("button", name=name, exact=True).first
        for name in ("mean [bps/8h]", "venue")
    )
    rate.click()
    assert column(page, 4) == ["8.000", "4.000", "2.000", "1.000", "0.000"]
    rate.click()
    assert column(page, 4) == ["0.000", "1.000", "2.000", "4.000", "8.000"]
    assert page.locator("th[aria-sort]").all_text_contents() == ["mean [bps/8h]"]
    venue.click()
    assert column(page, 1) == ["zo", "okx", "bybit", "binance", "aster"]


def test_a_table_is_copied_as_csv(address: str, open_page: Callable[..., Any]) -> None:
    page = open_page(address)
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    page.locator("#funding").get_by_role("button", name="Copy as CSV").first.click()
    page.get_by_role("button", name="Copied").wait_for()
    rows = list(csv.reader(io.StringIO(page.evaluate("window.copied"))))
    assert rows[0][:4] == ["venue", "kind", "now [bps/8h]", "mean [bps/8h]"]
    assert rows[1][:4] == ["zo", "dex", "8.000", "8.000"]
    assert len(rows) == 6


def test_links_lead_to_sections_and_no_file_is_loaded(address: str, open_page: Callable[..., Any]) -> None:
    page = open_page("about:blank")
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(address)
    for link in page.locator("nav a").all():
        link.click()
        target = link.get_attribute("href")
        assert page.locator(f"section{target} h2").is_visible()
    assert {url.partition("#")[0] for url in requests if not url.startswith("data:")} == {address}


@pytest.mark.parametrize("dark", [False, True])
def test_page_with_open_details_has_no_accessibility_violation(
    address: str, dark: bool, open_page: Callable[..., Any]
) -> None:
    page = open_page(address, dark=dark)
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(18, 22, 28)") is dark
    assert page.evaluate("document.documentElement.lang") == "en"
    page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    assert checks.violations(page) == []


def test_text_of_figures_is_legible_on_a_phone(address: str, open_page: Callable[..., Any]) -> None:
    page = open_page(address, width=390)
    assert page.locator("figure svg text").count() > 20
    assert page.evaluate(checks.SMALL, checks.LEGIBLE) == []


def test_page_does_not_scroll_sideways(address: str, open_page: Callable[..., Any]) -> None:
    page = open_page(address)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert checks.overflow(page) == {}
    assert checks.inner_overflow(page) == []
    assert column(page, 1)[0] == "zo"
    label = page.evaluate("getComputedStyle(document.querySelector('#funding td'), '::before').content")
    assert label == '"venue"', "on a phone each cell names its column"


def test_printed_pages_do_not_cut_figures(address: str, open_page: Callable[..., Any]) -> None:
    page = open_page(address, width=A4["width"], dark=True)
    page.emulate_media(media="print")
    assert (
        page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--paper')") == "#ffffff"
    )
    parts = page.evaluate(PRINTED)
    assert {part["kind"] for part in parts} >= {"figure", "tr", "thead"}
    assert [part for part in parts if part["whole"] != "avoid" or part["height"] > A4["height"]] == []
    # Chromium repeats a head on the next page without its buttons, so that they must be plain text.
    assert page.evaluate("getComputedStyle(document.querySelector('thead')).display") == "table-header-group"
    assert page.evaluate("getComputedStyle(document.querySelector('th button')).display") == "contents"
    hidden = page.evaluate(
        "[...document.querySelectorAll('details td')].filter((cell) => !cell.checkVisibility()).length"
    )
    assert hidden == 0, "tables that are folded on a screen are printed"
    assert page.evaluate("document.documentElement.scrollWidth") <= A4["width"], "else all is printed smaller"
    printed = page.pdf(prefer_css_page_size=True)
    pages = len(re.findall(rb"/Type\s*/Page\b(?!s)", printed))
    height = page.evaluate("document.documentElement.scrollHeight")
    assert height / A4["height"] <= pages <= 2.0 * height / A4["height"] + 1.0, "no page is blank"
