"""Figures of open interest, liquidations and order books."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest

import derivdata as dd
from derivdata import plot
from derivdata.analysis import exposure, oi
from derivdata.analysis.oi.trend import TrendStatus
from derivdata.plot.style import LONG, SHORT
from tests.plot import made

matplotlib.use("Agg")


def test_bands_are_the_shares_and_the_line_their_concentration() -> None:
    """At the end alpha holds 59 %, beta 21 %, gamma 20 %: 0.3481 + 0.0441 + 0.04 = 0.4322."""
    ax = plot.open_interest(made.holdings(), "share", top=2)
    assert [t.get_text() for t in ax.texts[1::2]] == ["alpha 59 %", "beta 21 %", "others 20 %"]
    places = [t.get_position()[1] for t in ax.texts[1::2]]
    assert places == pytest.approx([0.295, 0.695, 0.90]), "in the middle of each band"
    top = ax.collections[-1].get_paths()[0].vertices[:, 1].max()
    assert top == pytest.approx(1.0)
    below = ax.get_figure(root=True).axes[0].child_axes[1]
    assert below.lines[0].get_ydata()[-1] == pytest.approx(4322.0)
    assert below.lines[0].get_ydata()[0] == pytest.approx(1e4 * (0.04 + 0.36 + 0.04))


def test_trends_are_a_point_a_day_over_the_window() -> None:
    ax = plot.open_interest(made.holdings(), "trend")
    assert [t.get_text() for t in ax.get_yticklabels()] == ["alpha", "gamma", "beta"]
    sure, unsure = (line for line in ax.lines if line.get_marker() == "o")
    assert sure.get_xdata() == pytest.approx([39.0, -39.0]), "39 days from the first to the last"
    assert "the largest alpha (+39 points)" in " ".join(ax.get_title(loc="left").split())
    assert unsure.get_xdata() == pytest.approx([0.0], abs=1e-9)
    share = oi.market_share(dd.panel(made.holdings(), "oi_usd").isel(symbol=0))
    again = plot.open_interest(oi.share_trend(share), "trend", top=1)
    assert len(again.get_yticklabels()) == 1
    label = " ".join(again.get_xlabel().split())
    assert label == "change of share by its trend [percentage points a day], with 95 % interval"
    trend = oi.share_trend(share).assign(status=("exchange", [TrendStatus.CANNOT_TELL, 0, 0]))
    ax = plot.open_interest(trend, "trend")
    counts = {line.get_label(): len(line.get_xdata()) for line in ax.lines if line.get_marker() == "o"}
    assert counts == {"trend": 1, "interval includes zero": 1, "no interval: too little data": 1}
    assert len(ax.collections[0].get_segments()) == 2, "no interval for what cannot be told"
    hours = made.holdings().assign(time=lambda t: made.START + (t["time"] - made.START) / 24)
    hours.attrs = made.holdings().attrs
    ax = plot.open_interest(hours, "trend")
    [sure, _] = (line for line in ax.lines if line.get_marker() == "o")
    assert sure.get_xdata() == pytest.approx([39.0, -39.0]), "40 hours are too few for steps of 2 hours"


def test_a_symbol_without_steady_venues_is_refused() -> None:
    table = made.holdings()
    sparse = table[table.groupby("exchange", observed=True).cumcount() % 7 == 0]
    parts = [part.iloc[i::3] for i, (_, part) in enumerate(sparse.groupby("exchange", observed=True))]
    with pytest.raises(ValueError, match="no venue has open interest of BTC over most of the window"):
        plot.open_interest(pd.concat(parts), "share")


def test_dots_lie_on_their_venues_and_bars_add_them_up_by_the_hour() -> None:
    ax = plot.liquidations(made.liquidated())
    assert [t.get_text() for t in ax.get_yticklabels()] == ["beta", "alpha"], "3 M USD before 2 M"
    drawn = {tuple(c.get_facecolor()[0][:3]): c for c in ax.collections if len(c.get_offsets())}
    longs, shorts = (drawn[matplotlib.colors.to_rgb(color)] for color in (LONG, SHORT))
    assert (len(longs.get_offsets()), len(shorts.get_offsets())) == (10, 2)
    areas = longs.get_sizes()
    assert areas.max() / areas.min() == pytest.approx(np.sqrt(2)), "twice the value, √2 the area"
    sums = ax.get_figure(root=True).axes[0].child_axes[1]
    assert [t.get_text() for t in sums.get_legend().get_texts()] == ["longs: 3.0 M USD", "shorts: 1.5 M USD"]
    heights = [bar.get_height() for bar in sums.patches]
    assert heights == pytest.approx([-0.25] * 8 + [-0.5] * 2 + [0.75] * 2), "an order an hour"


@pytest.mark.parametrize(
    ("minutes", "label", "heights"), [(50, "minute", [-0.25] * 8), (120, "5 minutes", [-2.0])]
)
def test_a_short_window_has_bars_of_minutes(minutes: int, label: str, heights: list[float]) -> None:
    """Eight orders of 0.25 M USD: one a minute, or two a minute from 00:00 on, within one step of five."""
    events = made.liquidated().iloc[:8]
    step = 1.0 if minutes < 60 else 0.5
    events = events.assign(time=[made.START + pd.Timedelta(i * step, "min") for i in range(8)])
    ax = plot.liquidations(events, start=made.START, end=made.START + pd.Timedelta(minutes, "min"))
    sums = ax.get_figure(root=True).axes[0].child_axes[1]
    assert sums.get_ylabel().startswith(f"per {label}\n")
    assert [bar.get_height() for bar in sums.patches] == pytest.approx(heights)


def test_the_price_stands_above_the_dots_and_venues_beyond_the_first_share_a_row() -> None:
    ax = plot.liquidations(made.liquidated(), price=made.price())
    top, raster, *_ = ax.get_figure(root=True).axes[0].child_axes
    assert raster is ax
    assert top.get_ylabel() == "price\n[USD]"
    assert top.lines[0].get_ydata() == pytest.approx([1e6]), "one day begins in the eleven hours drawn"
    with pytest.raises(ValueError, match="price holds several symbols"):
        plot.liquidations(made.liquidated(), price=made.price().expand_dims(symbol=["BTC", "ETH"]))
    ax = plot.liquidations(made.liquidated(), top=1)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["beta", "1 others"]
    rows = np.concatenate([c.get_offsets()[:, 1].round() for c in ax.collections if len(c.get_offsets())])
    assert (rows == 1).sum() == 8
    none = made.liquidated().iloc[:0]
    with pytest.raises(ValueError, match="no events: give start and end"):
        plot.liquidations(none)
    ax = plot.liquidations(none, start=made.START, end=made.START + pd.Timedelta(1, "D"))
    assert ax.get_title(loc="left") == "no order: no liquidation"


def test_what_nobody_watched_is_blank_and_a_feed_brings_its_own_coverage() -> None:
    spans = pd.DataFrame({"start": [made.START], "end": [made.START + pd.Timedelta(3, "h")]})
    seen = plot.liquidations(made.liquidated(), coverage=spans).get_figure(root=True).axes[0].child_axes[2]
    [patch] = seen.patches
    hours = matplotlib.dates.num2date(patch.get_x() + patch.get_width()) - matplotlib.dates.num2date(
        patch.get_x()
    )
    assert hours == pd.Timedelta(3, "h")
    unknown = plot.liquidations(made.liquidated()).get_figure(root=True).axes[0].child_axes[2]
    assert [t.get_text() for t in unknown.texts if "source" not in t.get_text()] == ["not stated"]
    events = made.liquidated()
    watched = [["2026-01-05T00:00:00Z", "2026-01-05T06:00:00Z"]]
    events.attrs["provenance"] = made.SAID | {"coverage": {"observed": watched, "missed": []}}
    seen = plot.liquidations(events).get_figure(root=True).axes[0].child_axes[2]
    [patch] = seen.patches
    assert patch.get_width() == pytest.approx(0.25)


def test_depth_adds_up_from_the_middle_with_bids_below_and_asks_above() -> None:
    """1, 3 and 6 M USD at 10, 20 and 50 bps on both sides."""
    ax = plot.orderbook_depth(made.book())
    for line, sign in zip(ax.lines[:2], (-1, 1), strict=True):
        assert sign * line.get_xdata()[1:] == pytest.approx([10.0, 20.0, 50.0])
        assert line.get_ydata() == pytest.approx([0.0, 1.0, 3.0, 6.0])
    assert "spread 20 bps" in ax.get_title(loc="left")
    ax = plot.orderbook_depth(made.depths())
    asks, bids = ax.lines[0].get_ydata(), ax.lines[1].get_ydata()
    assert asks[0] == pytest.approx(4.0)
    assert bids[0] == pytest.approx(-2.0)
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["50 bps", "10 bps"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (made.book().iloc[:0], "the table is empty"),
        (pd.concat([made.book(), made.book().assign(exchange="beta")]), "several books: choose one symbol"),
        (
            pd.concat([made.book(), made.book().assign(time=made.START + pd.Timedelta(1, "h"))]),
            "several books: choose one instant",
        ),
        (made.book().query("side == 'bid'"), "a book has bids and asks; this one has bid"),
        (made.liquidated().query("exchange == 'alpha'"), "give the table of dd.orderbook.book"),
    ],
)
def test_what_is_no_book(data: pd.DataFrame, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plot.orderbook_depth(data)


def test_open_interest_falls_in_coins_while_the_price_doubles() -> None:
    """The three venues always hold 1 M USD; at twice the price that is half as many coins."""
    ax = plot.open_interest(made.holdings(), price=made.price())
    words = " ".join(ax.get_title(loc="left").split())
    assert words == "BTC: open interest of 3 venues: in USD +0.0 %, in coins -50.0 %, price +100.0 %"
    usd, coins, price = (one.lines[0].get_ydata() for one in strips_of(ax))
    assert usd == pytest.approx(np.full(40, 0.001))
    assert coins[[0, -1]] == pytest.approx([1.0, 0.5])
    assert price[[0, -1]] == pytest.approx([1e6, 2e6])


def strips_of(ax: Any) -> list[Any]:
    """The strips of a figure, from the top."""
    strips: list[Any] = ax.get_figure(root=True).axes[0].child_axes
    return strips


def test_gamma_by_strike_is_that_of_the_analysis() -> None:
    """Bars add up to the analysis' sum, calls twice the puts: they have twice the open interest."""
    whole = exposure.gamma_exposure(made.chain(), by=())["gamma_exposure_usd"].item() / 1e6
    ax = plot.strikes(made.chain(), "gamma")
    table = plot.data(ax)
    assert table["gamma_musd"].sum() == pytest.approx(whole)
    assert table["calls_musd"].to_numpy() == pytest.approx(2 * table["puts_musd"].to_numpy())
    assert max(bar.get_y() + bar.get_height() for bar in ax.patches) == table["gamma_musd"].max()
    assert ax.texts[0].get_text() == "100", "the strike with most"
    signed = plot.strikes(made.chain(), "gamma", dealer={"call": 1.0, "put": -1.0})
    [net] = [line for line in signed.lines if line.get_label() == "net"]
    assert net.get_ydata() == pytest.approx(table["gamma_musd"].to_numpy() / 3)
    assert min(bar.get_height() for bar in signed.patches) == pytest.approx(-table["puts_musd"].max())
    with pytest.raises(ValueError, match="a dim 'exchange'"):
        plot.strikes(made.chains(), "gamma")


def test_implied_against_realised_says_how_far_apart() -> None:
    past = made.volatility(0.4).assign_attrs(steps=7)
    ax = plot.volatility(made.volatility(0.5).assign_coords(tenor=30.0), "realised", realised=past)
    words = " ".join(ax.get_title(loc="left").split())
    assert words == "Volatility: implied (30 days) 10.0 points above realised (7 days) on average"
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["implied (30 days): 50.0 %", "realised (7 days): 40.0 %"]
    with pytest.raises(ValueError, match="realised must be an array with one dim, time"):
        plot.volatility(made.volatility(0.5), "realised", realised=made.volatility(np.nan))
    several = made.volatility(0.5).expand_dims(symbol=["BTC", "ETH"])
    with pytest.raises(ValueError, match=r"time, and a value: choose with data.sel\(symbol=...\)$"):
        plot.volatility(several, "published", own=made.volatility(0.5))


@pytest.mark.parametrize(
    ("latest", "words"), [(0.2, "below 95 % of its past"), (0.45, "above 50 % of its past")]
)
def test_volatility_below_the_lowest_quantile_is_not_above_it(latest: float, words: str) -> None:
    cone = made.cone()
    cone["latest"] = ("window", [latest] * 3)
    assert words in " ".join(plot.volatility(cone, "cone").get_title(loc="left").split())


def test_the_largest_term_of_a_pnl_may_have_the_other_sign() -> None:
    """A part of the P&L it is not then: the title names it as the largest term."""
    ax = plot.pnl_attribution(made.attribution())
    terms = plot.data(ax).iloc[:-1].set_index("term")["amount_usd"]
    largest = terms.abs().idxmax()
    assert f"; the largest term is {largest} (" in " ".join(ax.get_title(loc="left").split())


def test_a_ratio_that_doubles_each_day_is_above_all_before_it() -> None:
    ax = plot.positioning(made.positioned(), funding=made.constant(1.0, 12))
    assert ax.get_title(loc="left") == "BTC: on alpha 512 longs stand against one short"
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        "alpha (512, percentile 100)",
        "beta (1, percentile 50)",
    ]
    drawn = plot.data(ax).set_index(["exchange", "time"]).sort_index()
    alpha = drawn.loc["alpha"]
    assert alpha["long_short_ratio"].tolist() == [2.0 ** (day - 2) for day in range(12)]
    np.testing.assert_array_equal(alpha["change"], [np.nan] + [1.0] * 11)
    assert alpha["rate_bps_8h"].tolist() == [1.0] * 12
    for change, reason in (("1h", "shorter than the step of the data, 1 days"), ("x", "change")):
        with pytest.raises(ValueError, match=reason):
            plot.positioning(made.positioned(), change=change)
    many = dd.panel(made.positioned(), "long_short_ratio").isel(exchange=[0] * 9)
    with pytest.raises(ValueError, match="data has 9 venues with a ratio: choose one to 8, by venues="):
        plot.positioning(many.assign_coords(exchange=list("abcdefghi")))


def test_takers_who_buy_three_of_four_add_up_to_two_millions_a_day() -> None:
    """Beta begins on day 6, so that before it no imbalance of all venues is known."""
    ax = plot.taker_volume(made.taken(), window="2d", price=made.price())
    assert ax.get_title(loc="left") == "BTC: takers bought 12 million USD more than they sold"
    drawn = plot.data(ax).set_index(["exchange", "time"]).sort_index()
    assert drawn.loc["alpha", "delta_usd"].tolist() == [2e6 * day for day in range(1, 13)]
    assert drawn.loc["beta", "delta_usd"].tolist() == [-2e6 * day for day in range(1, 7)]
    np.testing.assert_array_equal(drawn.loc["alpha", "imbalance"], [np.nan] * 7 + [0.0] * 5)
    one = made.taken().query("exchange == 'alpha'")
    drawn = plot.data(plot.taker_volume(one, window="2d"))
    np.testing.assert_array_equal(drawn["imbalance"], [np.nan] + [0.5] * 11)
    with pytest.raises(ValueError, match="shorter than the step of the data, 1 days"):
        plot.taker_volume(one, window="12h")
