"""Carry figures: gross next to net, break-even, and amounts of money next to other quantities."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from derivdata import plot
from tests.plot import made


def test_pairs_are_drawn_and_those_without_a_forecast_left_out() -> None:
    pairs = [made.carry("low", hold, "7d") for hold in ("high", "middle")]
    both = xr.concat(pairs, "pair", coords="different", compat="equals")
    assert len(plot.carry(both).get_yticklabels()) == 2
    known, unknown = made.carry("low", "high", "7d"), made.carry("middle", "high", "7d")
    unknown["net_bps"] = np.nan
    ax = plot.carry([known, unknown])
    assert len(ax.get_yticklabels()) == 1
    assert "90 % of outcomes" in ax.get_xlabel()
    with pytest.raises(ValueError, match="no pair has a forecast"):
        plot.carry(unknown)


def test_carry_by_hold_is_of_one_pair_at_several_holding_times() -> None:
    one, other = made.carry("low", "middle", "7d"), made.carry("low", "high", "1d")
    for wrong in ([one], [one, other]):
        with pytest.raises(ValueError, match="pass one pair at two or more holding times"):
            plot.carry(wrong, "hold")


def test_labels_say_whether_prices_are_in_the_outcomes() -> None:
    for prices, of in ((False, "funding only"), (True, "funding and prices")):
        curve = [made.carry("low", "high", hold, prices=prices) for hold in ("1d", "7d")]
        figures = [plot.carry(curve), plot.carry(curve, "hold")]
        assert all(" ".join(ax.get_title(loc="left").split()).endswith(of) for ax in figures)
        legends = [{t.get_text() for t in ax.get_legend().get_texts()} for ax in figures]
        assert f"net of costs, {of}" in legends[0]
        assert f"net of costs, {of}; bar: 90 % of outcomes" in legends[1]
        labels = [figures[0].get_xlabel(), figures[1].get_ylabel()]
        assert [" ".join(label.split()) for label in labels] == [
            f"simple APR of one leg's notional [% per year], {of}; bar: 90 % of outcomes",
            f"carry, {of} [bps of one leg's notional]",
        ]
    mixed = [made.carry("low", "high", "1d"), made.carry("low", "high", "7d", prices=True)]
    with pytest.raises(ValueError, match="pass prices= to all of them, or to none"):
        plot.carry(mixed, "hold")


def test_funding_adds_up_of_the_venue_that_is_named() -> None:
    ax = plot.cumulative_funding(made.constant(-1.0, 3), venue="alpha")
    labels = [t.get_text() for t in ax.get_legend().get_texts()]
    assert labels == ["integral of the samples: -9.0 bps"]
    with pytest.raises(ValueError, match="venue='beta': the data has alpha"):
        plot.cumulative_funding(made.constant(1.0, 3), venue="beta")
    with pytest.raises(ValueError, match="settled has no payments of BTC on gamma"):
        plot.cumulative_funding(made.funding(), made.payments(1.0, 3), venue="gamma")
