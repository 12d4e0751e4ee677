"""Carry figures: gross next to net, break-even, and amounts of money next to other quantities."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from derivdata import plot
from tests.plot import made


def test_pairs_with_a_forecast_are_drawn() -> None:
    pairs = [made.carry("low", hold, "7d") for hold in ("high", "middle")]
    both = xr.concat(pairs, "pair", coords="different", compat="equals")
    assert len(plot.carry(both).get_yticklabels()) == 2
    known, unknown = made.carry("low", "high", "7d"), made.carry("middle", "high", "7d")
    unknown["net_bps"] = np.nan
    ax = plot.carry([known, unknown])
    assert len(ax.get_yticklabels()) == 1
    assert "90 % interval after costs" in [text.get_text() for text in ax.get_legend().get_texts()]
    net = 0.01 * float(known["net_bps"]) * 365.0 / 7.0
    chance = 100 * float(known["probability_net_positive"])
    assert ax.texts[0].get_text() == f"{net:+.1f} %, {chance:.0f} %"
    with pytest.raises(ValueError, match="no pair has a forecast"):
        plot.carry(unknown)


def test_carry_by_hold_shows_one_pair_at_several_holding_times() -> None:
    one, other = made.carry("low", "middle", "7d"), made.carry("low", "high", "1d")
    for wrong in ([one], [one, other]):
        with pytest.raises(ValueError, match="pass one pair at two or more holding times"):
            plot.carry(wrong, "hold")


def test_interval_beyond_the_axis_is_cut_and_labelled() -> None:
    curve = [made.carry("low", "middle", hold) for hold in ("1d", "7d")]
    curve[1] = curve[1].assign(net_high_bps=5000.0)
    ax = plot.carry(curve, "hold")
    assert ax.get_ylim()[1] < 1000.0
    assert "+5000" in [text.get_text() for text in ax.texts]


def test_a_forecast_without_an_interval_is_drawn_without_its_bar() -> None:
    curve = [made.carry("low", "middle", hold) for hold in ("1d", "7d")]
    for name in ("net_low_bps", "net_high_bps", "probability_net_positive", "low_apr", "high_apr"):
        if name in curve[0]:
            curve[0] = curve[0].assign({name: np.nan})
    bottom, top = plot.carry(curve, "hold").get_ylim()
    assert bottom < float(curve[0]["net_bps"]) < top
    assert any(text.get_text().endswith("%, no interval") for text in plot.carry(curve[0]).texts)


def test_labels_state_whether_outcomes_include_prices() -> None:
    for prices, of in ((False, "funding only"), (True, "funding and prices")):
        curve = [made.carry("low", "high", hold, prices=prices) for hold in ("1d", "7d")]
        figures = [plot.carry(curve), plot.carry(curve, "hold")]
        assert " ".join(figures[0].get_title(loc="left").split()).endswith(of)
        legend = {t.get_text() for t in figures[0].get_legend().get_texts()}
        assert legend >= {"90 % interval after costs", "before costs", "after costs"}
        words = {t.get_text() for t in figures[1].texts}
        assert {" ".join(word.split()[:2]) for word in words} >= {"before costs", "after costs"}
        assert any(word.startswith(f"{of}; grey: 90 % interval after costs") for word in words)
    mixed = [made.carry("low", "high", "1d"), made.carry("low", "high", "7d", prices=True)]
    with pytest.raises(ValueError, match="pass prices= to all of them, or to none"):
        plot.carry(mixed, "hold")


def test_cumulative_funding_uses_the_named_venue() -> None:
    ax = plot.cumulative_funding(made.constant(-1.0, 3), venue="alpha")
    assert ax.texts[0].get_text() == "samples × time -9.0 bps"
    with pytest.raises(ValueError, match="venue='beta' is not in the data, which has alpha"):
        plot.cumulative_funding(made.constant(1.0, 3), venue="beta")
    with pytest.raises(ValueError, match="settled has no payments of BTC on gamma"):
        plot.cumulative_funding(made.funding(), made.payments(1.0, 3), venue="gamma")


def test_cumulative_funding_ends_at_the_last_payment_with_a_sample() -> None:
    """Samples end at 71:00 and payments at 72:00; both have 64:00, with 65 hours and 8 payments."""
    ax = plot.cumulative_funding(made.constant(1.0, 3), made.payments(1.0, 3), venue="alpha", naive=True)
    labels = [t.get_text() for t in ax.texts if t.get_text()]
    assert labels == ["payments +8.0 bps", "naive sum +65.0 bps\n(8 × too much)"]
    assert (
        ax.get_title(loc="left")
        == "BTC on alpha: a long paid 8.0 bps in 2.67 days; samples give 0.1 bps more"
    )
    lower = ax.get_figure(root=True).axes[0].child_axes[1]
    assert lower.lines[0].get_ydata()[-1] == pytest.approx(0.125), "the difference of the two sums"
