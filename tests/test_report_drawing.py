"""Panels of a report: labels inside, unique ids, reproducible bytes, and the footer removed."""

from __future__ import annotations

import re
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
import pytest
import xarray as xr

from derivdata import plot
from derivdata.reports import about, positions
from derivdata.reports.data import Data
from derivdata.reports.page import Figure, Panel, Section, draw_panels
from tests.plot import made


def line(*, ax: Any, label: str = "label [1]") -> None:
    ax.plot([0.0, 1.0], [0.0, 123_456.0], color="black")
    ax.set_ylabel(label)
    ax.set_xlabel("time [UTC]")


def panels(*sizes: tuple[float, float]) -> list[Panel]:
    return [Panel(line, "A <line>", size) for size in sizes]


def test_the_style_of_the_user_does_not_reach_a_report() -> None:
    [plain] = draw_panels(panels((3.0, 2.0)))
    with mpl.rc_context({"lines.linewidth": 7.5, "axes.grid": True, "timezone": "Asia/Tokyo"}):
        assert draw_panels(panels((3.0, 2.0))) == [plain]


def test_panels_of_a_page_share_no_ids_and_take_the_colours_of_the_page() -> None:
    drawn = draw_panels(panels((3.0, 2.0), (3.0, 2.0)))
    ids = [name for panel in drawn for name in re.findall(r'\bid="([^"]*)"', panel.svg)]
    assert len(ids) == len(set(ids)) > 10
    for panel in drawn:
        assert 'role="img" aria-label="A &lt;line&gt;"' in panel.svg
        assert not re.search(r"(fill|stroke): ?#(000000|ffffff)", panel.svg)
        targets = re.findall(r'xlink:href="#([^"]*)"', panel.svg)
        assert set(targets) <= set(re.findall(r'\bid="([^"]*)"', panel.svg))


@pytest.mark.parametrize("size", [(2.0, 1.6), (4.5, 3.0), (9.0, 3.0)])
def test_all_labels_are_inside_a_panel(size: tuple[float, float]) -> None:
    """The left end of the text at the y axis, and the lower end at the x axis, in points."""
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.figure import Figure

    from derivdata.reports import page

    figure = Figure(figsize=size, dpi=72)
    renderer = RendererAgg(72 * size[0], 72 * size[1], 72)
    ax = figure.add_subplot()
    line(ax=ax)
    page._fit(figure, ax, renderer)
    box = ax.get_tightbbox(renderer)
    assert box is not None
    assert min(box.x0, box.y0) > -0.5
    assert box.x1 < 72 * size[0] + 0.5
    assert box.y1 < 72 * size[1] + 0.5
    assert ax.get_position().width > 0.3


def test_the_footer_of_a_figure_leaves_its_panel() -> None:
    table = made.funding()
    table.attrs["provenance"] = made.SAID | {"attribution": "Rates by https://data.example.org"}
    draw = partial(plot.funding_history, table, highlight=1)
    [panel] = draw_panels([Panel(draw, "Funding", (4.5, 3.0))])
    assert panel.source.startswith("source: made by hand · as of 2026-01-15 00:00 UTC")
    assert panel.url == "https://data.example.org"
    assert "made by hand" not in panel.svg


def test_findings_count_series_of_a_table_symbol_and_venue() -> None:
    """BTC alpha has two findings in one table and one in another: two series of three, three findings."""
    rows = [
        ("points missing", "BTC alpha", "rates"),
        ("outliers", "BTC alpha", "rates"),
        ("outliers", "BTC alpha", "payments"),
    ]
    findings = pd.DataFrame(rows, columns=["issue", "series", "table"])
    examined = {"funding rates": pd.DataFrame(index=range(2)), "payments": pd.DataFrame(index=range(1))}
    for shown, title in (
        (findings, "2 of 3 series have missing points or suspicious values; some have several"),
        (findings.iloc[:1], "1 of 3 series has missing points or suspicious values"),
    ):
        figure, ax = plt.subplots()
        about._draw_issues(shown, examined=examined, ax=ax, source="hand")
        assert " ".join(ax.get_title(loc="left").split()) == title
        last = [text.get_text() for text in ax.texts if "e.g." in text.get_text()][-1]
        assert last == "1, e.g. BTC alpha"
        plt.close(figure)


@pytest.mark.parametrize(
    ("sure", "key"),
    [
        (True, "solid: trend significant at 95 %; pale: not significant"),
        (False, "no trend is significant at 95 %"),
    ],
)
def test_changes_of_share_are_grouped_by_symbol_and_explain_pale_bars(sure: bool, key: str) -> None:
    """The largest change is a loss of ETH; bars of BTC are above those of ETH."""
    rows = [("ETH", "beta", -2.0), ("BTC", "beta", -1.0), ("BTC", "alpha", 1.0)]
    changes = pd.DataFrame(rows, columns=["symbol", "venue", "change"]).assign(sure=[sure, False, False])
    times = pd.to_datetime(["2026-01-01", "2026-01-08"])
    share = xr.DataArray([[0.4, 0.6], [0.41, 0.59]], {"time": times, "exchange": ["alpha", "beta"]})
    holdings = positions.Holdings("BTC", pd.DataFrame(), 1e6 * share, share, xr.Dataset())
    figure, ax = plt.subplots()
    positions._draw_gains(changes.iloc[[1, 2, 0]], all_holdings=[holdings], ax=ax, source="hand")
    assert [label.get_text() for label in ax.get_yticklabels()] == ["BTC alpha", "BTC beta", "ETH beta"]
    assert ax.get_xlabel() == "change of share in 7 days [percentage points]"
    assert " ".join(ax.get_title(loc="left").split()) == (
        "beta lost 2.00 points of ETH open interest in 7 days, the largest change of share"
    )
    assert key in [" ".join(text.get_text().split()) for text in ax.texts]
    plt.close(figure)


def orders() -> pd.DataFrame:
    """7 M USD, of which alpha liquidated 5 M (4 M shorts in one hour) and beta 2 M of longs."""
    rows = [
        ("2026-01-01 00:30", "alpha", "short", 3e6),
        ("2026-01-01 01:30", "alpha", "short", 1e6),
        ("2026-01-01 05:00", "alpha", "long", 1e6),
        ("2026-01-01 23:59", "beta", "long", 2e6),
    ]
    frame = pd.DataFrame(rows, columns=["time", "exchange", "side", "value_usd"]).assign(symbol="BTC")
    return frame.assign(time=pd.to_datetime(frame["time"], utc=True))


def test_liquidations_over_time_name_the_largest_step() -> None:
    """Two days have steps of two hours: the first has 4 of 7 million USD, 57 %."""
    figure, ax = plt.subplots()
    start = pd.Timestamp("2026-01-01", tz="UTC")
    positions._draw_liquidations(orders(), start, start + pd.Timedelta(2, "D"), ax=ax, source="hand")
    assert " ".join(ax.get_title(loc="left").split()) == (
        "4 M USD of BTC shorts were liquidated in 2 hours from 1 Jan 00:00 UTC, 57 % of all in 2 days"
    )
    assert ax.get_ylabel().endswith("[million USD in 2 h]")
    longs = [path.vertices[:, 1].min() for path in ax.collections[1].get_paths()]
    assert longs == [0.0, -1.0, -2.0], "downwards, in steps with an order"
    plt.close(figure)


def test_liquidations_of_a_day_have_steps_of_an_hour() -> None:
    figure, ax = plt.subplots()
    start = pd.Timestamp("2026-01-01", tz="UTC")
    positions._draw_liquidations(orders(), start, start + pd.Timedelta(1, "D"), ax=ax, source="hand")
    assert "were liquidated in an hour from 1 Jan 00:00 UTC" in " ".join(ax.get_title(loc="left").split())
    plt.close(figure)


def test_liquidations_without_a_value_are_reported_and_not_drawn() -> None:
    events = orders().assign(value_usd=0.0)
    events.attrs["provenance"] = {"coverage": {"missed": []}}
    data = SimpleNamespace(
        section=Section,
        liquidations=lambda: events,
        report_options=SimpleNamespace(symbols=["BTC"]),
    )
    section = positions.liquidations_section(cast(Data, data))
    assert section.blocks[-1] == (
        '<p class="lack">All orders have a value of 0 USD: the values may be missing at the source.</p>'
    )
    assert not any(isinstance(block, Figure) for block in section.blocks)
    assert section.numbers == []


def test_liquidations_by_venue_state_the_share_of_shorts() -> None:
    figure, ax = plt.subplots()
    positions._draw_venues(positions._by_side(orders()), orders(), ax=ax, source="hand")
    assert " ".join(ax.get_title(loc="left").split()) == (
        "alpha liquidated 5 M USD of BTC positions, 71 % of the total; 80 % were shorts"
    )
    assert [label.get_text() for label in ax.get_yticklabels()] == ["alpha", "beta"]
    assert [text.get_text() for text in ax.texts[:3]] == ["80 %", "0 %", "shorts"]
    plt.close(figure)
