"""Carry figures: gross beside net, break-even, and money beside what is not money."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest
import xarray as xr

from derivdata import plot
from tests.plot import made

matplotlib.use("Agg")


def test_rings_dots_and_bars_are_the_gross_the_net_and_its_interval() -> None:
    pairs = [made.carry("low", "high", "7d"), made.carry("low", "middle", "7d")]
    ax = plot.carry(pairs)
    assert [t.get_text() for t in ax.get_yticklabels()] == [
        "long low,\nshort high",
        "long low,\nshort middle",
    ]
    year = 1e-4 * 8760 / 168
    [rings] = [line for line in ax.lines if line.get_label() == "gross"]
    assert rings.get_xdata() == pytest.approx([year * float(p["gross_bps"]) for p in pairs])
    [dots] = [c for c in ax.collections if c.get_label() == "net of costs, funding only"]
    assert np.asarray(dots.get_offsets())[:, 0] == pytest.approx([year * float(p["net_bps"]) for p in pairs])
    assert np.asarray(dots.get_array()) == pytest.approx(
        [100 * float(p["probability_net_positive"]) for p in pairs]
    )
    bars = [s for c in ax.collections for s in getattr(c, "get_segments", list)()]
    first = next(s for s in bars if s[0, 0] == pytest.approx(year * float(pairs[0]["net_low_bps"])))
    assert first[1, 0] == pytest.approx(year * float(pairs[0]["net_high_bps"]))


def test_pairs_are_drawn_and_those_without_a_forecast_left_out() -> None:
    pairs = [made.carry("low", hold, "7d") for hold in ("high", "middle")]
    assert len(plot.carry(xr.concat(pairs, "pair")).get_yticklabels()) == 2
    known, unknown = made.carry("low", "high", "7d"), made.carry("middle", "high", "7d")
    unknown["net_bps"] = np.nan
    ax = plot.carry([known, unknown])
    assert len(ax.get_yticklabels()) == 1
    assert "90 % of outcomes" in ax.get_xlabel()
    with pytest.raises(ValueError, match="no pair has a forecast"):
        plot.carry(unknown)


def test_carry_by_hold_marks_where_costs_of_one_pair_are_paid() -> None:
    """The line through the means of two holding times crosses zero where the mark stands."""
    curve = [made.carry("low", "middle", hold) for hold in ("1d", "7d", "14d")]
    ax = plot.carry(curve, "hold")
    [net] = [line for line in ax.lines if "90 % of outcomes" in str(line.get_label())]
    means = [float(each["net_bps"]) for each in curve]
    assert net.get_xdata() == pytest.approx([1.0, 7.0, 14.0])
    assert net.get_ydata() == pytest.approx(means)
    assert means[0] < 0.0 < means[1]
    [even] = [line for line in ax.lines if line.get_label().startswith("costs are paid after")]
    assert even.get_xdata()[0] == pytest.approx(1.0 + 6.0 * -means[0] / (means[1] - means[0]))
    assert "costs of 8 bps" in " ".join(ax.get_title(loc="left").split())
    one, other = made.carry("low", "middle", "7d"), made.carry("low", "high", "1d")
    for wrong in ([one], [one, other]):
        with pytest.raises(ValueError, match="give one pair at two holding times or more"):
            plot.carry(wrong, "hold")


def test_labels_say_whether_prices_are_in_the_outcomes() -> None:
    for prices, of in ((False, "funding only"), (True, "funding and prices")):
        curve = [made.carry("low", "high", hold, prices=prices) for hold in ("1d", "7d")]
        figures = [plot.carry(curve), plot.carry(curve, "hold")]
        assert all(ax.get_title(loc="left").endswith(of) for ax in figures)
        legends = [{t.get_text() for t in ax.get_legend().get_texts()} for ax in figures]
        assert f"net of costs, {of}" in legends[0]
        assert f"net of costs, {of}; 90 % of outcomes" in legends[1]
        labels = [figures[0].get_xlabel(), figures[1].get_ylabel()]
        assert [" ".join(label.split()) for label in labels] == [
            f"simple APR of one leg's notional [% per year], {of}; bar: 90 % of outcomes",
            f"carry, {of} [bps of one leg's notional]",
        ]
    mixed = [made.carry("low", "high", "1d"), made.carry("low", "high", "7d", prices=True)]
    with pytest.raises(ValueError, match="give prices= to all of them, or to none"):
        plot.carry(mixed, "hold")


def test_ninety_points_of_funding_and_eight_times_as_many_that_are_none() -> None:
    """1 bps/8h for 30 days is 90 bps; its 720 hourly samples add up to 720."""
    ax = plot.cumulative_funding(made.constant(1.0, 30), made.payments(1.0, 30), venue="alpha", naive=True)
    last = {line.get_label(): line.get_ydata()[-1] for line in ax.lines if len(line.get_xdata()) > 2}
    assert last == {
        "integral of the samples: +90.0 bps": pytest.approx(90.0),
        "sum of the payments: +90.0 bps": pytest.approx(90.0),
        "naive sum of the samples, not money: +720.0, 8 × as much": pytest.approx(720.0),
    }
    ax = plot.cumulative_funding(made.constant(-1.0, 3), venue="alpha")
    labels = [t.get_text() for t in ax.get_legend().get_texts()]
    assert labels == ["integral of the samples: -9.0 bps"]
    with pytest.raises(ValueError, match="venue='beta': the data has alpha"):
        plot.cumulative_funding(made.constant(1.0, 3), venue="beta")
    with pytest.raises(ValueError, match="settled has no payments of BTC on gamma"):
        plot.cumulative_funding(made.funding(), made.payments(1.0, 3), venue="gamma")
