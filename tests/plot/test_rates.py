"""Funding figures: highlighted venues, positions of marks, and invalid arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.colors import to_rgb
from matplotlib.text import Annotation

import derivdata as dd
from derivdata import plot
from derivdata.plot.frames import draw_lanes
from tests.plot import made


def lanes(ax: Any) -> list[Any]:
    """The lines of the lanes, the first at the top."""
    return [line for line in ax.lines if line.get_label() == "_lanes"]


def test_missing_rates_are_gaps_and_steps_are_means() -> None:
    """240 hours in steps of two: a mean of two samples; beta's hole of 12 hours is six steps."""
    [beta] = lanes(plot.funding_history(made.funding(), venues=["beta"]))
    assert np.flatnonzero(np.isnan(beta.get_ydata())).tolist() == list(range(50, 56)), "a hole is a gap"
    assert len(lanes(plot.funding_history(made.funding(), step="1D"))[0].get_xdata()) == 10


@pytest.mark.parametrize(("spike", "is_cut"), [(4.0, False), (100.0, True)])
def test_a_lane_is_cut_only_at_a_rate_that_would_flatten_the_others(spike: float, *, is_cut: bool) -> None:
    """A step with 4 bps makes its lane taller; a step with 100 bps would leave no height for the others."""
    table = made.funding()
    table["rate_bps_8h"] = table["rate_bps_8h"].where(~table.index.isin([4, 5]), spike)
    ax = plot.funding_history(table)
    first, second = lanes(ax)[:2]
    assert (np.nanmax(first.get_ydata()) - ax.get_yticks()[0] > 0.9 * spike) != is_cut
    assert any(line.get_marker() == "^" for line in ax.lines) == is_cut
    assert np.nanmax(second.get_ydata()) < ax.get_yticks()[0], "lanes do not overlap"


def test_a_lane_far_taller_than_the_next_is_cut_at_its_furthest_rate() -> None:
    """Rates of beta are 1 bps per 8 h. Alpha has -20 in a tenth of the hours, and is cut at -1 and 1."""
    hours = pd.date_range("2026-06-01", periods=40, freq="h")
    rates = np.array([[2.0] * 40, [1.0] * 40])
    rates[0, 10:14] = -20.0
    labels = {"exchange": ["alpha", "beta"], "time": hours}
    panel = xr.DataArray(rates, labels, ("exchange", "time"), attrs={"units": "bps/8h", "kind": "sampled"})
    ax = plot.funding_history(panel, step="1h", source="by hand")
    _upper, lower = lanes(ax)
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == ["beta +1.00", "alpha -0.20"]
    alpha = np.asarray(lower.get_ydata()) - ax.get_yticks()[1]
    assert [alpha.min(), alpha.max()] == pytest.approx([-1.0, 1.0])
    assert "-20" in [text.get_text() for text in ax.texts]


def test_rate_outside_its_lane_is_an_arrowhead() -> None:
    """One step among 360 is far above the others: the mean of 2 and 200 bps."""
    table = made.funding()
    table["rate_bps_8h"] = table["rate_bps_8h"].where(table.index != 5, 200.0)
    ax = plot.funding_history(table)
    words = [text.get_text().replace("\n", " ") for text in ax.texts]
    key = "orange: longs pay, purple: shorts pay; means over 2 h; ▲▼: cut"
    assert key in words
    [mark] = [line for line in ax.lines if line.get_marker() == "^"]
    first = lanes(ax)[0]
    assert list(mark.get_xdata(orig=False)) == [first.get_xdata(orig=False)[2]]
    assert "+101" in words


@pytest.mark.parametrize(("last", "side"), [(50, "left"), (95, "right")])
def test_value_of_an_arrowhead_is_drawn_outside_the_lane(last: int, side: str) -> None:
    """A run of two values: its value is next to the arrowhead, at the left of it near the right end."""
    figure, ax = plt.subplots()
    rates = np.zeros(100)
    rates[[last - 1, last]] = [-20.0, -30.0]
    lines = pd.DataFrame({"alpha": rates}, index=pd.date_range("2026-01-01", periods=100, freq="h"))
    assert draw_lanes(ax, lines, ["alpha"], [(-5.0, 5.0)], base=0.0, marks={}) == 2
    [label] = [text for text in ax.texts if text.get_text() == "-30"]
    assert label.xy == (lines.index[last - 1], 0.0), "the lower edge, where the run begins"
    assert label.get_position()[1] < 0.0
    assert label.get_ha() == side
    plt.close(figure)


def test_lanes_share_one_scale() -> None:
    """Values are distances from the baseline of their lane, on the scale of the distance between lanes."""
    ax = plot.funding_history(made.funding(), step="1D")
    alpha, beta, gamma = lanes(ax)
    cells = made.funding().pivot_table(index="time", columns="exchange", values="rate_bps_8h", observed=True)
    means = cells.resample("1D").mean()
    bases = [
        line.get_ydata() - means[name].to_numpy()
        for line, name in zip((alpha, beta, gamma), means, strict=True)
    ]
    for base, place in zip(bases, ax.get_yticks(), strict=True):
        assert base[np.isfinite(base)] == pytest.approx(place), "names are at the base"


def test_only_named_venues_are_drawn_and_a_panel_draws_like_its_table() -> None:
    """The hole of 12 hours takes more of the upper than of the lower half of the swing."""
    ax = plot.funding_history(made.funding(), venues=["beta"])
    assert [t.get_text() for t in ax.get_yticklabels()] == ["beta +0.99"]
    assert len(plot.data(ax)) == len(made.funding()), "the data is of all venues, and not averaged"
    with pytest.raises(ValueError, match="data has no rate of 'delta'; it has alpha, beta, gamma"):
        plot.funding_history(made.funding(), venues=["delta"])
    table = made.funding()
    one, two = (plot.funding_history(data, highlight=1) for data in (table, dd.panel(table)))
    for a, b in zip(one.lines, two.lines, strict=True):
        assert np.array_equal(a.get_ydata(), b.get_ydata(), equal_nan=True)


@pytest.mark.parametrize("draw", [plot.funding_history, plot.funding_heatmap])
def test_rate_column_and_one_symbol_are_required(draw: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="no venue has a rate"):
        draw(made.funding().assign(rate_bps_8h=np.nan))
    both = dd.panel(made.funding()).reindex(symbol=["BTC", "ETH"])
    for symbol, told in ((None, "symbol must be one of BTC, ETH, got None"), ("SOL", "got 'SOL'")):
        with pytest.raises(ValueError, match=told):
            draw(both, symbol=symbol)


def test_the_heat_map_averages_wider_columns() -> None:
    mesh = plot.funding_heatmap(made.funding(), centre=0.0).collections[0]
    cells = np.ma.filled(mesh.get_array(), np.nan)
    assert round(np.nanpercentile(np.abs(cells), 98), 2) == 2.48
    assert mesh.get_clim() == (-3.0, 3.0), "rounded up, so that both ends of the scale have a tick"
    usual = plot.funding_heatmap(made.constant(1.02, 10))
    [mesh] = usual.collections
    assert mesh.get_clim() == (-1.5, 1.5), "0 is in the middle also if rates are at the usual 1 bp"
    title = " ".join(usual.get_title(loc="left").split())
    assert title == "BTC funding: longs on alpha paid most, 1 bps per 8 h on average"
    ax = plot.funding_heatmap(made.funding(), step="1D", reach=3.0, centre=0.0)
    title = " ".join(ax.get_title(loc="left").split())
    assert title == "BTC funding: longs paid in 67 % of cells, shorts paid in 33 %"
    mesh = ax.collections[0]
    cells = np.ma.filled(mesh.get_array(), np.nan)
    assert cells.shape == (3, 10)
    assert cells[2] == pytest.approx(np.full(10, 2.0))
    assert mesh.get_clim() == (-3.0, 3.0)
    [mesh] = plot.funding_heatmap(made.constant(1.0, 40)).collections
    assert mesh.get_array().shape == (1, 240), "40 days in steps of 4 hours; 2 hours would make 480"


def test_venue_kinds_have_headings_and_colours_use_centre_and_reach() -> None:
    table = made.funding()
    names = {"alpha": "binance", "beta": "hyperliquid", "gamma": "okx"}
    renamed = table.assign(exchange=table["exchange"].astype(str).map(names).astype("category"))
    renamed.attrs = table.attrs
    ax = plot.funding_heatmap(renamed, by_kind=True, centre=1.0, reach=2.0)
    assert [t.get_text() for t in ax.get_yticklabels()] == [
        "hyperliquid +0.99",
        "okx -1.00",
        "binance +2.00",
    ], "from below"
    headings = {t.get_text(): t.get_position()[1] for t in ax.texts if "venues (" in t.get_text()}
    assert headings == pytest.approx({"Decentralised venues (1)": 1.42, "Centralised venues (2)": 4.42})
    [mesh] = [c for c in ax.collections if c.get_array() is not None]
    assert mesh.get_clim() == (-1.0, 3.0)
    assert ax.get_title(loc="left").startswith("BTC funding: above 1 bps in ")
    assert set(plot.data(ax)["exchange"]) == set(names.values())


def test_payments_of_venues_that_pay_at_different_hours_are_all_lines() -> None:
    """Venue b pays every eight hours, venue a every hour; the payment of b at hour 40 is missing."""
    hours = pd.date_range("2026-06-01", periods=96, freq="1h")
    rates = xr.DataArray(
        np.vstack([np.ones(96), np.where(np.arange(96) % 8 == 0, 2.0, np.nan)]),
        {"exchange": ["a", "b"], "time": hours},
        ("exchange", "time"),
        attrs={"units": "bps/8h", "kind": "settled"},
    )
    rates[1, 40] = np.nan
    a, b = (
        np.asarray(line.get_ydata(), dtype=float) for line in reversed(lanes(plot.funding_history(rates)))
    )
    assert np.flatnonzero(np.isnan(b)).tolist() == [5], "a step is as long as the slowest interval"
    assert b.size == 12
    assert np.isfinite(a).all()


def test_single_venue_has_a_singular_title() -> None:
    hours = pd.date_range("2026-06-01", periods=3, freq="1h")
    held = xr.DataArray([[1e9, 2e9, 3e9]], {"exchange": ["a"], "time": hours}, ("exchange", "time"))
    ax = plot.open_interest(held.assign_attrs(units="USD"), symbol="BTC", source=held)
    assert ax.get_title(loc="left") == "BTC open interest rises 200.0 % in USD"
    assert ax.texts[0].get_text() == "1 venue"


def test_equal_rates_of_venues_have_one_mean_in_the_title() -> None:
    title = plot.funding_history(made.funding().assign(rate_bps_8h=1.0)).get_title(loc="left")
    assert (
        " ".join(title.split()) == "BTC funding: longs on all 3 venues paid the same (mean +1.00 bps per 8 h)"
    )


def test_funding_that_is_missing_is_not_summed() -> None:
    with pytest.raises(ValueError, match="BTC on alpha, got only missing ones"):
        plot.cumulative_funding(made.constant(1.0, 3).assign(rate_bps_8h=np.nan), venue="alpha")


def test_lanes_use_the_given_limits() -> None:
    """The step between lanes is the range of the limits and a gap for a label."""
    ax = plot.funding_history(made.funding(), limits=(-4.0, 6.0))
    steps = -np.diff(ax.get_yticks())
    assert steps[0] == pytest.approx(steps[1])
    assert 11.0 < steps[0] < 16.0
    with pytest.raises(ValueError, match=r"limits must be rates below and above 0 \[bps/8h\], got"):
        plot.funding_history(made.funding(), limits=(1.0, 2.0))


def test_a_heat_map_of_many_venues_has_the_highest_and_the_lowest() -> None:
    """Venue v00 has a rate of 3 bps per 8 h, each next one 0.1 more; v19 has no rate at hour 5."""
    hours = pd.date_range("2026-06-01", periods=50, freq="h")
    rates = np.repeat(3.0 + 0.1 * np.arange(20), 50).reshape(20, 50)
    rates[19, 5] = np.nan
    labels = {"exchange": [f"v{place:02}" for place in range(20)], "time": hours}
    panel = xr.DataArray(rates, labels, ("exchange", "time"), attrs={"units": "bps/8h", "kind": "sampled"})
    ax = plot.funding_heatmap(panel, step="1h", source="by hand")
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names[0] == "v00 +3.00"
    assert names[5:7] == ["v05 +3.50", "v14 +4.40"]
    assert len(names) == 12
    assert names[11] == "v19 +4.90"
    assert ax.get_ylabel() == "12 of 20 venues, mean [bps per 8 h]"
    assert plot.data(ax)["exchange"].nunique() == 20
    _, boxes = ax.collections
    left, right = boxes.get_paths()[0].get_extents().intervalx
    assert right - left == pytest.approx(1.0 / 24.0)


def test_venues_at_the_usual_rate_are_omitted_from_a_heat_map() -> None:
    """Alpha and beta are always at 1 and 0.5 bps per 8 h, gamma is at 3 bps in 30 of 100 hours."""
    hours = pd.date_range("2026-06-01", periods=100, freq="h")
    rates = np.vstack([np.full(100, 1.0), np.full(100, 0.5), np.where(np.arange(100) < 30, 3.0, 1.0)])
    labels = {"exchange": ["alpha", "beta", "gamma"], "time": hours}
    usual = xr.DataArray(rates, labels, ("exchange", "time"), attrs={"units": "bps/8h", "kind": "sampled"})
    ax = plot.funding_heatmap(usual, step="1h", source="by hand")
    assert [t.get_text() for t in ax.get_yticklabels()] == ["gamma +1.60"]
    title = " ".join(ax.get_title(loc="left").split())
    assert title == "funding: longs on gamma paid most, 1.6 bps per 8 h on average"
    assert set(plot.data(ax)["exchange"]) == {"alpha", "beta", "gamma"}
    notes = [" ".join(t.get_text().split()) for t in ax.texts]
    assert "orange: longs pay, purple: shorts pay; without 2 venues mostly at 0 to 1 bps" in notes
    [mesh] = ax.collections
    pale, strong = mesh.cmap(mesh.norm([0.1, -2.9]))
    assert pale == pytest.approx([*to_rgb("#c8640a"), 0.3]), "longs pay a little"
    assert strong == pytest.approx([*to_rgb("#7b5cc4"), 1.0])
    assert ax.get_ylabel() == "1 of 3 venues, mean [bps per 8 h]"


@pytest.mark.parametrize(
    ("highest", "names", "title"),
    [
        (1.0, ["beta -1.40"], "shorts on beta paid most, 1.4 bps"),
        (1.3, ["beta -1.40", "gamma +1.30"], "shorts on beta paid most, 1.4 bps"),
        (1.5, ["beta -1.40", "gamma +1.50"], "longs on gamma paid most, 1.5 bps"),
    ],
)
def test_title_of_a_heat_map_names_the_drawn_venue_that_paid_most(
    highest: float, names: list[str], title: str
) -> None:
    """Alpha is always at 1 bp per 8 h and omitted; on beta shorts paid 5 bps in 40 of 100 hours."""
    hours = pd.date_range("2026-06-01", periods=100, freq="h")
    beta = np.where(np.arange(100) < 40, -5.0, 1.0)
    rates = np.vstack([np.full(100, 1.0), np.full(100, 1.0), np.full(100, highest), beta])
    labels = {"exchange": ["alpha", "delta", "gamma", "beta"], "time": hours}
    panel = xr.DataArray(rates, labels, ("exchange", "time"), attrs={"units": "bps/8h", "kind": "sampled"})
    ax = plot.funding_heatmap(panel, step="1h", source="by hand")
    assert [t.get_text() for t in ax.get_yticklabels()] == names
    assert " ".join(ax.get_title(loc="left").split()) == f"funding: {title} per 8 h on average"


def test_highlight_of_no_venue_is_refused() -> None:
    with pytest.raises(ValueError, match="highlight must be at least 1 venue, got 0"):
        plot.funding_history(made.funding(), highlight=0)


@pytest.mark.parametrize("days_before", [0, 5])
def test_payments_before_the_samples_are_not_compared_with_them(days_before: int) -> None:
    """Both pay 1 bp in 8 hours for ten days; the payments begin up to five days earlier.

    The last sample counts until an hour after the last common payment: an eighth of a bp.
    """
    paid = made.payments(1.0, 10 + days_before)
    paid["time"] -= pd.Timedelta(days_before, "D")
    ax = plot.cumulative_funding(made.constant(1.0, 10), paid, venue="alpha")
    words = "BTC on alpha: a long paid 29.0 bps in 9.67 days; samples give 0.1 bps more"
    assert " ".join(ax.get_title(loc="left").split()) == words


def test_payments_after_the_samples_are_rejected() -> None:
    paid = made.payments(1.0, 3)
    paid["time"] -= pd.Timedelta(20, "D")
    with pytest.raises(
        ValueError, match="settled: expected a payment whose interval is within the window of sampled"
    ):
        plot.cumulative_funding(made.constant(1.0, 10), paid, venue="alpha")


def test_label_below_a_lane_is_between_its_line_and_the_axis() -> None:
    """Rates of a venue are -50 for ten steps; their label is below the lane, in a low figure too."""
    rates = dd.panel(made.funding(), "rate_bps_8h").isel(symbol=0).copy()
    rates[{"time": slice(10, 20), "exchange": -1}] = -50.0
    for size in ((12.0, 5.0), (3.9, 4.2)):
        ax = plot.funding_history(rates, limits=(-2.0, 3.0), figsize=size, source="hand")
        ax.get_figure(root=True).canvas.draw()
        written = [text for text in ax.texts if isinstance(text, Annotation)]
        labels = [text for text in written if text.get_text().startswith("-")]
        assert labels
        for label in labels:
            box = label.get_window_extent()
            assert box.y1 < ax.transData.transform((0.0, label.xy[1]))[1]
            assert box.y0 > ax.bbox.y0
