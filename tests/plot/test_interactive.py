"""Plotly figures have the numbers of their table, and the text and limits of matplotlib's figures."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from derivdata import plot
from tests.plot import made
from tests.plot.cases import CASES, WATCHED

FIGURES = (
    "funding_history",
    "funding_heatmap",
    "surface",
    "term_structure_volatility",
    "term_structure_basis",
    "liquidations",
)


@pytest.fixture(autouse=True)
def plotly() -> Any:
    return pytest.importorskip("plotly", reason="the extra derivdata[plotly] is not installed")


def unfolded(text: str) -> str:
    return " ".join(re.sub("<br>|\n", " ", text).split())


def traces(figure: Any) -> dict[str, Any]:
    return {trace.name: trace for trace in figure.data}


@pytest.mark.parametrize("name", FIGURES)
def test_interactive_figures_have_the_text_and_data_of_matplotlib(name: str) -> None:
    figure, ax = CASES[name](engine="plotly"), CASES[name]()
    pd.testing.assert_frame_equal(plot.data(figure), plot.data(ax))
    assert unfolded(figure.layout.title.text) == unfolded(ax.get_title(loc="left"))
    if name != "funding_history":  # lanes have the names of venues at their axis
        assert unfolded(figure.layout.yaxis.title.text) == unfolded(ax.get_ylabel())
    said = "source: made by hand · as of 2026-01-15 00:00 UTC · synthetic data"
    assert unfolded(figure.layout.title.subtitle.text) == said
    for trace in figure.data:
        unit = r"bps per 8 h|no rate|annualised|a year|USD|UTC<extra>(watched|not stated)"
        assert re.search(unit, trace.hovertemplate), trace.hovertemplate


def test_funding_lines_are_means_of_the_table() -> None:
    table = made.funding()
    figure = plot.funding_history(table, highlight=1, step="8h", engine="plotly")
    rates = plot.data(figure).pivot(index="time", columns="exchange", values="rate_bps_8h").tz_localize(None)
    expected = rates.resample("8h").mean()
    for venue in (expected.mean().idxmax(), expected.mean().idxmin()):
        line = next(trace for name, trace in traces(figure).items() if name.startswith(f"{venue} "))
        np.testing.assert_allclose(line.y, expected[venue])
        assert (pd.DatetimeIndex(line.x) == expected.index).all()
    low, high = figure.layout.yaxis.range
    inside = expected[[expected.mean().idxmax(), expected.mean().idxmin()]].stack().between(low, high)
    assert inside.mean() >= 0.97
    low, high = (trace.y for trace in figure.data[:2])
    np.testing.assert_allclose([low, high], expected.quantile([0.1, 0.9], axis=1))


def test_heat_map_cells_equal_the_table() -> None:
    table = made.funding().iloc[1:]
    table["exchange"] = table["exchange"].astype(str).replace({"alpha": "binance", "beta": "dydx"})
    figure = plot.funding_heatmap(table, by_kind=True, step="8h", engine="plotly")
    bare, cells = figure.data
    found = pd.DataFrame(cells.z, cells.y, pd.DatetimeIndex(cells.x)).stack(future_stack=True).dropna()
    expected = (
        plot.data(figure).set_index(["exchange", "time"])["rate_bps_8h"].tz_localize(None, level="time")
    )
    pd.testing.assert_series_equal(found.sort_index(), expected.sort_index(), check_names=False)
    is_heading = np.array([row.isupper() for row in cells.y])
    assert is_heading.any()
    assert np.isnan(np.array(bare.z)[is_heading]).all()
    assert (np.isnan(np.array(bare.z)) != np.isnan(np.array(cells.z)))[~is_heading].all()
    assert (cells.xperiod, cells.zmin) == (8 * 3.6e6, -cells.zmax)
    assert figure.layout.yaxis.ticktext[0] == "gamma -1.00"
    assert figure.layout.yaxis.ticktext[-2:] == ("binance +2.00", "CEX")
    assert {trace.xperiod0 for trace in figure.data} == {expected.index.get_level_values("time").min()}


def test_volatilities_equal_the_table_in_percent() -> None:
    figure = plot.surface(made.chain(), engine="plotly")
    [cells] = figure.data
    expected = plot.data(figure).pivot(index="deviations", columns="expiry", values="iv")
    np.testing.assert_allclose(np.array(cells.z)[np.isin(cells.y, expected.index)], 100 * expected)
    figure = plot.term_structure(made.chain(), before=made.earlier(), engine="plotly")
    table, drawn = plot.data(figure), traces(figure)
    np.testing.assert_allclose(drawn["at the money"].y, table["atm"])
    np.testing.assert_allclose(drawn["at the money"].x, table["days"])
    earlier = next(trace for name, trace in drawn.items() if re.fullmatch(r"\d+ \w+ \d\d:\d\d", name))
    np.testing.assert_allclose(earlier.y, table["atm_before"].dropna())
    level = plot.term_structure(made.chain(), engine="plotly")
    assert level.layout.yaxis.range == pytest.approx((0.49, 0.51), abs=1e-4), "no step of rounding is steep"
    figure = plot.term_structure(made.basis(), "basis", engine="plotly")
    table, drawn = plot.data(figure), traces(figure)
    np.testing.assert_allclose(drawn["forward over spot"].y, table["basis_apr"])


@pytest.mark.parametrize("coverage", [WATCHED, None])
def test_orders_and_sums_equal_the_table(coverage: pd.DataFrame | None) -> None:
    events = made.liquidated()
    events.attrs["provenance"].pop("coverage", None)
    figure = plot.liquidations(events, coverage=coverage, price=made.price(), engine="plotly")
    drawn, table = traces(figure), plot.data(figure)
    for side, sign in (("long", -1), ("short", 1)):
        mine = table[table["side"] == side]
        assert sorted(value for _, value in drawn[side].customdata) == sorted(mine["value_usd"])
        assert set(pd.DatetimeIndex(drawn[side].x)) == set(mine["time"].dt.tz_localize(None))
        bars = next(trace for name, trace in drawn.items() if name.startswith(f"{side}s: "))
        hours = mine.groupby(mine["time"].dt.floor("h"))["value_usd"].sum()
        np.testing.assert_allclose(bars.y, sign * hours / 1e6)
    watched = drawn["not stated" if coverage is None else "watched"].x[1::3]
    if coverage is not None:
        assert [pd.Timestamp(end, tz="UTC") for end in watched] == list(coverage["end"])
    np.testing.assert_array_equal(drawn["price"].y, made.price().sel(time=drawn["price"].x))


def test_text_is_escaped() -> None:
    table = made.funding().assign(symbol="<b>$A$")
    figure = plot.funding_history(table, highlight=1, engine="plotly")
    assert figure.layout.title.text.startswith("&lt;b&gt;&#36;A&#36; funding")


def test_engine_is_matplotlib_or_plotly_and_plotly_rejects_axes() -> None:
    with pytest.raises(
        ValueError, match="engine must be one of matplotlib, plotly, got 'plotli'; did you mean"
    ):
        plot.surface(made.chain(), engine="plotli")  # type: ignore[arg-type]
    ax = plot.surface(made.chain())
    with pytest.raises(ValueError, match="ax is only for matplotlib; engine='plotly' makes a new figure"):
        plot.surface(made.chain(), ax=ax, engine="plotly")
