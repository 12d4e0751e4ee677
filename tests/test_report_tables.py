"""Every cell of every table of the report, on an archive whose numbers can be worked out on paper."""

from __future__ import annotations

import re
from functools import cache
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import derivdata as dd
from derivdata.analysis import funding, smile, surface, variance
from derivdata.analysis.oi import TrendStatus
from derivdata.cli import main
from derivdata.errors import DataNotice
from derivdata.plot.funding import breakeven_days
from derivdata.reports import carry, positions
from derivdata.reports.page import Section
from tests.plot import made
from tests.support import known_archive
from tests.support.rows import rows
from tests.test_report import Page

POINTS = ("atm", "rr25", "bf25", "rr10", "bf10")
EXPIRIES = ["2026-01-23 23:00", "2026-02-15 23:00", "2026-04-17 23:00", "2026-07-17 23:00"]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("known")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DERIVDATA_CACHE_DIR", str(folder / "cache"))
        dd.connect(known_archive.write(folder / "archive"))
        with pytest.warns(DataNotice, match="unlikely hour of expiry"):  # the archive's end at 23:00
            out = dd.report(["BTC", "ETH"], out=folder / "r.html", window="15d", fee_bps=2.0)
        dd.disconnect()
    return out.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def tables(text: str) -> list[list[list[str]]]:
    return Page(text).tables


def find(tables: list[list[list[str]]], *columns: str, place: int = 0) -> list[list[str]]:
    """The rows of the n-th table with exactly these columns."""
    return [table[1:] for table in tables if tuple(table[0]) == columns][place]


def same(rows: list[list[str]], expected: list[list[str]]) -> None:
    """Compare cells; numbers with a decimal to 0.02, for the response is a minute younger than the quotes."""
    assert [[re.sub(r"[\d.]*\.\d+", "#", cell) for cell in row] for row in rows] == [
        [re.sub(r"[\d.]*\.\d+", "#", cell) for cell in row] for row in expected
    ]
    for row, other in zip(rows, expected, strict=True):
        for cell, value in zip(row, other, strict=True):
            if re.fullmatch(r"[+-]?\d*\.\d+", cell):
                assert float(cell) == pytest.approx(float(value), abs=0.0201), (row, other)


FUNDING = (
    "venue", "kind", "now [bps/8h]", "mean [bps/8h]", "mean as APR [%]", "last 24 h", "lowest", "highest",
    "points",
)  # fmt: skip


def test_funding_and_pairs(tables: list[list[list[str]]]) -> None:
    """1 bps/8h is three times a day 0.01 %, 10.95 % a year. ETH: 336 hours at 1 and 24 at 4 have mean 1.2."""
    assert find(tables, *FUNDING) == [
        ["zo", "dex", "8.000", "8.000", "87.6", "8.000", "8.000", "8.000", "360"],
        ["okx", "cex", "4.000", "4.000", "43.8", "4.000", "4.000", "4.000", "360"],
        ["bybit", "cex", "2.000", "2.000", "21.9", "2.000", "2.000", "2.000", "360"],
        ["binance", "cex", "1.000", "1.000", "10.9", "1.000", "1.000", "1.000", "360"],
        ["aster", "dex", "0.000", "0.000", "0.0", "0.000", "0.000", "0.000", "360"],
    ]
    assert find(tables, *FUNDING, place=1) == [
        ["binance", "cex", "4.000", "1.200", "13.1", "4.000", "1.000", "4.000", "360"]
    ]
    # The six widest of ten pairs; a window of 15 days has no forecast. Four trades of 2 bps cost 8.
    columns = (
        "symbol", "long", "short", "mean spread [bps/8h]", "hours in favour [%]", "gross APR [%]",
        "costs [bps]", "net APR [%]", "90 % interval [%]", "costs paid after",
    )  # fmt: skip
    assert find(tables, *columns) == [
        ["BTC", "aster", "zo", "8.000", "100", "", "8.0", "", "", ""],
        ["BTC", "binance", "zo", "7.000", "100", "", "8.0", "", "", ""],
        ["BTC", "bybit", "zo", "6.000", "100", "", "8.0", "", "", ""],
        ["BTC", "aster", "okx", "4.000", "100", "", "8.0", "", "", ""],
        ["BTC", "okx", "zo", "4.000", "100", "", "8.0", "", "", ""],
        ["BTC", "binance", "okx", "3.000", "100", "", "8.0", "", "", ""],
    ]


def test_open_interest(tables: list[list[list[str]]]) -> None:
    """binance gains 2 points of share a day from 60 % on: 89.92 % after 359 of the 360 hours.

    10 M USD are 99,930 coins at 100.07 USD, the underlying price of the expiry in 7 days.
    """
    columns = (
        "venue", "OI [M USD]", "OI [coins]", "share [%]", "share at start [%]", "trend [pp/day]",
        "from", "to",
    )  # fmt: skip
    assert find(tables, *columns) == [
        ["binance", "9.0", "89,854", "89.92", "60.00", "+2.0000", "+2.0000", "+2.0000"],
        ["okx", "1.0", "10,076", "10.08", "40.00", "-2.0000", "-2.0000", "-2.0000"],
    ]
    assert find(tables, "venue", "OI [M USD]", "share [%]", "symbols", "largest symbol") == [
        ["binance", "9.0", "89.92", "1", "BTC"],
        ["okx", "1.0", "10.08", "1", "BTC"],
    ]


@cache
def fitted() -> xr.Dataset:
    """The chain as the report fits it."""
    return surface.from_chain(made.chain())


def wings(dataset: xr.Dataset, *names: str) -> list[str]:
    """Risk reversals and butterflies as the report writes them."""
    return [f"{100 * float(dataset[name]):+.2f}" for name in names]


def test_expiries(tables: list[list[list[str]]]) -> None:
    """50 % at the forward; half of the 26 options are out of the money, 13 calls of 10 coins, 13 puts of 5.

    Max pain is the fifth strike: below it are 4 calls of 10, above it 8 puts of 5, 40 and 40.
    """
    columns = (
        "expiry", "days", "forward [USD]", "options", "quotes", "ATM [%]", "RR 25Δ", "BF 25Δ",
        "error [points]", "fit − quote ATM", "least g(k)", "remarks", "strip [%]",
        "with wings at most [%]", "forward vol [%]", "calls", "puts", "puts / calls", "max pain [USD]",
    )  # fmt: skip
    least = smile.butterfly_check(fitted())["min_g"].values
    free = variance.model_free(fitted(), method="strip")
    strip, highest = 100 * free["vol"].values, 100 * np.sqrt(free["upper"] / free["year_fraction"]).values
    skews = surface.constant_maturity(fitted(), tenors=[f"{days}d" for days in made.DAYS], points=POINTS)
    rows = []
    for place, (expiry, days) in enumerate(zip(EXPIRIES, made.DAYS, strict=True)):
        forward = 100 + days / 100
        fifth = forward * np.exp(-0.6 * 0.5 * np.sqrt(days / 365))
        row = [expiry, f"{days:.2f}", f"{forward:.2f}", "26", "13", "50.00"]
        row += [*wings(skews.isel(tenor=place), "rr25", "bf25"), "0.000", "+0.00", f"{least[place]:.3f}"]
        row += ["free of arbitrage", f"{strip[place]:.2f}", f"{highest[place]:.2f}"]
        rows.append([*row, "50.00", "130.0", "65.0", "0.50", f"{fifth:.2f}"])
    same(find(tables, *columns), rows)


def test_tenors_and_venues_of_options(tables: list[list[list[str]]]) -> None:
    days = (7, 14, 30, 60, 90, 180)
    skews = surface.constant_maturity(fitted(), tenors=[f"{n}d" for n in days], points=POINTS)
    rows = [[str(n), "50.00", *wings(skews.isel(tenor=place), *POINTS[1:])] for place, n in enumerate(days)]
    same(find(tables, "tenor [days]", "ATM [%]", "RR 25Δ", "BF 25Δ", "RR 10Δ", "BF 10Δ"), rows)
    columns = (
        "venue", "options", "used", "expiries", "30-day ATM [%]", "RR 25Δ", "30-day strip index [%]",
        "error [points]",
    )  # fmt: skip
    index = 100 * float(variance.volatility_index(variance.model_free(fitted()))["index"])
    row = ["deribit", "104", "52", "4", "50.00", *wings(skews.isel(tenor=2), "rr25"), f"{index:.2f}", "0.000"]
    same(find(tables, *columns), [row])


def test_liquidations_quality_and_requests(text: str, tables: list[list[list[str]]]) -> None:
    """okx: 2.25 M of longs; binance: 1 M of longs, 0.5 M of shorts. Five orders in 4 seconds: 100 to 98."""
    assert find(tables, "venue", "longs [M USD]", "shorts [M USD]", "orders") == [
        ["okx", "2.25", "0.00", "3"],
        ["binance", "1.00", "0.50", "3"],
    ]
    columns = (
        "start [UTC]", "symbol", "seconds", "orders", "value [M USD]", "in 10 s [M USD]", "venues",
        "imbalance", "price move [%]",
    )  # fmt: skip
    assert find(tables, *columns) == [
        ["2026-01-16 21:00", "BTC", "4", "5", "3.50", "3.50", "2", "+0.71", "-2.00"]
    ]
    # 360 hours of five venues and of one; of two venues. A minute after it began, the last hour is open.
    assert "funding rates: 6 series, 2,160 points, 100.00% of those expected; 6 open last buckets" in text
    assert "open interest of BTC: 2 series, 720 points, 100.00% of those expected; 2 open last" in text
    columns = (
        "symbol", "venue", "options", "used", "forward from", "without open interest", "arbitrages",
        "dropped",
    )  # fmt: skip
    assert find(tables, *columns) == [["BTC", "deribit", "104", "52", "underlying", "0", "0", "none"]]
    rows = find(tables, "what", "request", "answered [UTC]", "sha256")
    assert {row[2] for row in rows} == {"2026-01-16T23:01:00Z"}
    assert all(re.fullmatch("[0-9a-f]{16}", row[3]) for row in rows)
    venues = ("deribit", "binance", "bybit", "okx", "derive")
    assert [row[0] for row in rows] == [
        "funding rates",
        "funding rates",
        "funding rates now",
        "open interest of BTC",
        "funding rates of the last year",
        "funding rates of the last year",
        "prices of BTC, deribit",
        "open interest by venue",
        *(f"options on BTC, {venue}" for venue in venues),
        *(f"options on ETH, {venue}" for venue in venues),
        "options a day ago on BTC, deribit",
        "option surfaces over time on BTC, deribit",
        "liquidations",
    ]


def test_summary(text: str) -> None:
    """Quartiles of 0, 1, 2, 4, 8 are 1 and 4. Open interest that stays at 10 M USD while the price rises from
    80 to 100.07 falls by 20.1 % in coins. binance gains 2 points on each of 359/24 days."""
    summary = text[text.index('<section id="summary">') : text.index('<section id="funding">')]
    weighted = (1.0 * 0.8892 + 4.0 * 0.1108, 1.0 * 0.7492 + 4.0 * 0.2508)
    """binance's and okx's mean shares over the last 24 hours and over the window."""
    numbers = Page(text).table("number", "BTC", "window").set_index("number")
    assert numbers.loc["funding, weighted by open interest", "BTC"].startswith(f"{weighted[0]:+.2f} bps/8h")
    assert numbers.loc["funding, median of venues", "ETH"].startswith("+4.00 bps/8h")
    assert numbers.loc["open interest, 2 venues", "BTC"] == "10 M USD (99,930 BTC)"
    assert numbers.loc["open interest, 2 venues", "window"] == "at 2026-01-16 23:00 UTC"
    assert numbers.loc["30-day ATM volatility, deribit", "BTC"] == "50.0 %"
    assert numbers.loc["30-day strip index, deribit", "BTC"] == "52.1 %"
    assert "Liquidated, BTC and ETH: 3.75 M USD (87 % of it longs) (last 7 days)." in summary
    answers = dict(re.findall(r"<h3><a[^>]*>(.*?)</a></h3><p>(.*?)</p>", summary))
    assert list(answers) == [
        "Which spreads survive costs?",
        "Which venues gained open interest?",
        "What is wrong with the data?",
    ]
    assert answers["Which spreads survive costs?"].startswith("Unknown: carry cannot be forecast.")
    # The first and the last day hold 24 shares each, 359 − 23.5 hours apart at 2 points a day.
    assert answers["Which venues gained open interest?"].startswith("BTC: binance +27.92*, okx -27.92*")
    items = [unescape(item) for item in re.findall("<li>(.*?)</li>", summary)]
    for sentence in (
        "BTC funding: mean rates range from +0.00 bps/8h on aster to +8.00 bps/8h on zo; the interquartile "
        "range of 5 venues is +1.00 to +4.00.",
        "ETH funding: mean rate +1.20 bps/8h on binance, the only venue.",
        f"BTC funding, weighted by open interest: {weighted[0]:+.2f} bps/8h over the last 24 hours against "
        f"{weighted[1]:+.2f} bps/8h over the window.",
        "Widest spread: BTC, long aster, short zo, +8.00 bps/8h on average, in favour 100 % of the time.",
        "BTC open interest on 2 venues: binance has 90 %, okx 10 %; HHI 8,187.",
        "BTC open interest over the window: -20.1 % in coins (+0.0 % in USD, price +25.1 %); gaining: "
        "binance (+29.9 points); losing: okx (-29.9 points).",
        "Largest cascade: 3.5 M USD of BTC on 2026-01-16 at 21:00 UTC, 5 orders on 2 venues.",
        "Liquidations: 3.5 M USD over the last 24 hours against 536 k USD a day over 7 days.",
    ):
        assert sentence in items, sentence


def test_what_changed_since_an_earlier_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report of Jan 15, 12:01, and one of the end. binance's mean share of a day's last 24 hours is 0.6 and
    0.02 for each day since Jan 2: 13 days and half an hour then, 11 hours more than 14 days now."""
    monkeypatch.setenv("DERIVDATA_CACHE_DIR", str(tmp_path / "cache"))
    archive, out = known_archive.write(tmp_path / "archive"), tmp_path / "r.html"
    common = ["report", archive, "--symbols", "BTC", "ETH", "--window", "10d", "--out", str(out)]
    common += ["--sections", "funding", "oi", "liquidations"]
    recorded = str(tmp_path / "then.ddz")
    assert main([*common, "--now", "2026-01-15T12:01:00Z", "--bundle", recorded]) == 0
    assert main([*common, "--previous", recorded]) == 0
    page = out.read_text(encoding="utf-8")
    assert "Compared with the data of 2026-01-15 12:01 UTC." in page
    then, now = (share + 4.0 * (1.0 - share) for share in (0.6 + 0.02 * (13 + 0.5 / 24), 0.8892))
    assert find(Page(page).tables, "number", "then", "now", "change") == [
        [
            "BTC funding, weighted by open interest, last 24 h",
            f"{then:.2f} bps/8h",
            f"{now:.2f} bps/8h",
            f"{now - then:+.2f} bps/8h",
        ],
        ["ETH funding, median of venues, last 24 h", "1.00 bps/8h", "4.00 bps/8h", "+3.00 bps/8h"],
        ["BTC open interest", "10 M USD", "10 M USD", "+0.00 %"],
        ["liquidations of BTC and ETH, last 24 h", "0 USD", "3.5 M USD", ""],
    ]


def _spread_rates(values: np.ndarray) -> Any:
    """Return rates of two venues every eight hours with the given spread [bps/8h]."""
    times = pd.date_range("2026-01-01", periods=values.size, freq="8h").as_unit("us")
    labels = {"symbol": ["BTC"], "exchange": ["a", "b"], "time": times}
    panel = xr.DataArray(np.stack([0.0 * values, values])[None], labels, tuple(labels))
    panel = panel.assign_coords(interval_hours=8.0).assign_attrs(units="bps/8h", kind="settled")
    return SimpleNamespace(panel=panel, settled=True, table=None)


WIDEST = pd.DataFrame({"symbol": ["BTC"], "long": ["a"], "short": ["b"], "spread": [3.0], "favour": [1.0]})


def _pairs(rates: Any, marks: Any = None, fee: float = 2.0) -> tuple[list[carry.Pair], str]:
    data: Any = SimpleNamespace(past_marks=lambda *names: marks)
    return carry._forecast(data, rates, {"a": fee, "b": fee}, WIDEST)


@pytest.mark.parametrize("fee", [2.0, 40.0])
def test_costs_are_paid_where_the_drawn_curve_rises_above_them(fee: float) -> None:
    """Payments of about 3 bps: nine a week pay a quarter of 8 bps in a day, and never 160 bps in 14 days."""
    rates = _spread_rates(3.0 + 0.1 * np.random.default_rng(5).standard_normal(1_080))
    [pair], _ = _pairs(rates, fee=fee)
    days = [float(item["hold_hours"]) / 24 for item in pair.curve]
    assert days == [3.0, 7.0, 14.0]
    net = [float(item["net_bps"]) for item in pair.curve]
    row = carry._row(pair)
    if fee == 2.0:
        assert net[0] > 0.0
        assert row["costs paid after"] == "within 3 days"
    else:
        assert net[-1] < 0.0
        assert row["costs paid after"] == "not within 14 days"
    assert f"costs are covered after {row['costs paid after']}" in carry._earning(pair)


def test_the_curve_crosses_zero_between_two_holding_times() -> None:
    """−5 bps after 3 days and +5 after 7: zero after 5 days, in the figure and the table."""
    assert breakeven_days(np.array([3.0, 7.0, 14.0]), np.array([-5.0, 5.0, 20.0])) == pytest.approx(5.0)
    assert np.isnan(breakeven_days(np.array([3.0, 7.0]), np.array([-5.0, -1.0])))
    assert breakeven_days(np.array([3.0, 7.0]), np.array([1.0, 2.0])) == 3.0


@pytest.mark.parametrize("prices", [False, True])
def test_section_states_the_contents_of_its_forecasts(prices: bool) -> None:
    rates = _spread_rates(3.0 + np.random.default_rng(5).standard_normal(1_080))
    marks = (100.0 + 0.01 * rates.panel.drop_vars("interval_hours")).assign_attrs(units="USD")
    result = funding.forecast_carry(
        rates.panel, hold="7d", fee_bps=2.0, prices=marks if prices else None
    ).isel(symbol=0, pair=0)
    section = Section("Carry")
    carry._forecast_note(section, rates, [result], doubt="")
    of = (
        "funding and prices: the change of the price difference between the legs is included."
        if prices
        else "funding only: the change of the price difference between the legs is not included."
    )
    assert f" It is of {of}" in str(section.blocks[0])


@pytest.mark.parametrize(
    ("levels", "known"),
    [
        ({"a": 100.0, "b": 101.0}, True),
        ({"a": 100.0, "b": 0.91}, False),  # another coin
        ({"a": 100.0}, False),
        ({}, False),
    ],
)
def test_the_widest_pairs_are_forecast_with_prices_where_all_of_their_marks_are_known(
    levels: dict[str, float], known: bool
) -> None:
    rates = _spread_rates(3.0 + np.random.default_rng(5).standard_normal(1_080))
    times = rates.panel.indexes["time"].tz_localize("UTC")
    mark = {"symbol": "BTC", "timestamp": times, "kind": "mark", "resolution": "8h"}
    parts = [rows("prices_history", exchange=venue, y=level, **mark) for venue, level in levels.items()]
    asked: list[Any] = []
    table = pd.concat(parts) if parts else None
    data: Any = SimpleNamespace(past_marks=lambda *names: asked.append(names) or table)
    fees = {"a": 2.0, "b": 2.0}
    [pair], doubt = carry._forecast(data, rates, fees, WIDEST)
    assert ("Another coin or contract has the same ticker" in doubt) == (levels.get("b") == 0.91)
    assert asked == [(["BTC"], ["a", "b"])]
    assert all(("price_bps" in item) == known for item in pair.curve)
    assert len(pair.curve) == 3
    short = rates.panel.isel(time=slice(20))  # no forecast: no marks are requested
    [none], doubt = carry._forecast(
        data, SimpleNamespace(panel=short, settled=True, table=None), fees, WIDEST
    )
    assert (none.curve, none.paid_words, doubt) == ([], "", "")
    assert len(asked) == 1


def test_undetermined_trend_is_not_reported() -> None:
    trend = xr.Dataset(
        {
            name: ("exchange", [value] * 2)
            for name, value in (("slope", 0.01), ("low", 0.005), ("high", 0.02))
        },
        {"exchange": ["okx", "bybit"]},
    ).assign(status=("exchange", [0, int(TrendStatus.CANNOT_TELL)]))
    assert positions._trends(trend, 30.0) == "gaining: okx (+30.0 points)"
    assert positions._trends(trend.isel(exchange=[1]), 30.0).startswith("no venue's share has")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"venues": "okx", "window": "15d"}, "A spread needs two venues"),
        ({"window": "5h"}, "do not span a complete period of 8 hours"),
    ],
)
def test_carry_of_one_venue_or_of_hours_states_the_reason_of_nan(
    tmp_path: Path, given: dict[str, str], words: str
) -> None:
    dd.connect(known_archive.write(tmp_path / "archive"))
    out = dd.report("BTC", out=tmp_path / "r.html", sections=["carry"], **given)
    assert words in out.read_text(encoding="utf-8")


def test_venue_with_the_price_of_a_different_coin_is_named() -> None:
    """Of 100, 100 and 0.91 USD the last is named, with its factor; 100, 101 and 102 agree."""
    from derivdata.reports import about

    messages: list[str] = []
    section: Any = SimpleNamespace(
        text=lambda words, kind="": messages.append(words), finding=lambda kind, words: messages.append(words)
    )
    times = pd.date_range("2026-01-01", periods=3, freq="h", tz="UTC")
    for last in (0.91, 102.0):
        levels = {"binance": 100.0, "bybit": 101.0 if last > 1.0 else 100.0, "okx": last}
        table = rows(
            "prices_history", symbol="BTC", exchange=np.repeat(list(levels), 3),
            timestamp=times.append([times, times]), y=np.repeat(list(levels.values()), 3), kind="mark",
            resolution="1h",
        )  # fmt: skip
        options = SimpleNamespace(symbols=("BTC",))
        data: Any = SimpleNamespace(report_options=options, prices=lambda symbol, table=table: table)
        about._prices(section, data)
    assert "okx (× 0.0091)" in messages[0]
    assert "okx (× 0.0091)" in messages[1]
    assert messages[2:] == ["Marks of BTC on 3 venues agree within 5 %."]


@pytest.mark.parametrize(("count", "folded"), [(14, False), (15, True)])
def test_long_table_is_collapsed_but_complete(count: int, folded: bool) -> None:
    """Every row is in the page: only the style hides those after the twelfth, and only on a screen."""
    section = Section("Title")
    section.table(pd.DataFrame({"row": range(count)}), "Rows")
    [html] = section.blocks
    assert html.html().count("<tr>") == count + 1
    assert (f"all {count} rows" in html.html()) is folded


def test_only_one_of_several_venues_moved_most() -> None:
    """The rate of a rose by 1 bp over the last day; alone it cannot have moved more than others."""
    venues = pd.DataFrame({"venue": ["a", "b"], "mean [bps/8h]": [1.0, 1.0], "last 24 h": [2.0, 1.5]})
    assert carry._mover(venues) == "; a moved most, from a mean of +1.00 to +2.00"
    assert carry._mover(venues.head(1)) == ""
