"""Panels of a report: labels inside, unique ids, reproducible bytes, and the footer removed."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
import pytest
import xarray as xr

from derivdata import plot
from derivdata.reports import about, positions
from derivdata.reports.page import Panel, draw_panels
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
        (findings, "2 of 3 series have a finding, some several"),
        (findings.iloc[:1], "1 of 3 series have a finding"),
    ):
        figure, ax = plt.subplots()
        about._draw_issues(shown, examined=examined, ax=ax, source="hand")
        assert " ".join(ax.get_title(loc="left").split()) == title
        last = [text.get_text() for text in ax.texts if "e.g." in text.get_text()][-1]
        assert last == "1, e.g. BTC alpha"
        plt.close(figure)


@pytest.mark.parametrize(("sure", "key"), [(True, "solid: significant"), (False, "none is significant")])
def test_the_title_of_changes_of_share_explains_only_bars_that_are_drawn(sure: bool, key: str) -> None:
    changes = pd.DataFrame({"symbol": "BTC", "venue": ["alpha", "beta"], "change": [1.0, -1.0]})
    times = pd.to_datetime(["2026-01-01", "2026-01-08"])
    share = xr.DataArray([[0.4, 0.6], [0.41, 0.59]], {"time": times, "exchange": ["alpha", "beta"]})
    holdings = positions.Holdings("BTC", pd.DataFrame(), 1e6 * share, share, xr.Dataset())
    figure, ax = plt.subplots()
    positions._draw_gains(changes.assign(sure=[sure, False]), all_holdings=[holdings], ax=ax, source="hand")
    assert ax.get_xlabel() == "change of share in 7 days [percentage points]"
    assert " ".join(ax.get_title(loc="left").split()) == (
        f"Share of open interest: BTC on alpha +1.00, on beta -1.00 points ({key})"
    )
    plt.close(figure)
