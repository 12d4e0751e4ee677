"""Figures of open interest, liquidations and order books."""

from __future__ import annotations

import matplotlib
import matplotlib.dates as mdates
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex

import derivdata as dd
from derivdata import plot
from derivdata.analysis import exposure, oi
from derivdata.analysis.oi import TrendStatus
from derivdata.plot import backtests, orders, positions, style
from derivdata.plot.positions import share_change
from derivdata.plot.style import LONG, SHORT
from tests.plot import made
from tests.plot.bars import bars_of


def test_smaller_venues_are_not_drawn_but_stated() -> None:
    """Shares end at 59, 21 and 20 %: alpha gained 39 points, as the line is from 20 to 59 %."""
    ax = plot.open_interest(made.holdings(), "share", top=2)
    labels = [
        text.get_text() for text in ax.texts if ")" in text.get_text() and "right" not in text.get_text()
    ]
    assert labels == ["beta 21.0 (-39.0)", "alpha 59.0 (+39.0)"]
    assert [line.get_ydata()[-1] for line in ax.lines] == pytest.approx([0.59, 0.21])
    assert [line.get_ydata()[0] for line in ax.lines] == pytest.approx([0.20, 0.60])
    assert any("1 other: 20 %" in " ".join(text.get_text().split()) for text in ax.texts)
    title = " ".join(ax.get_title(loc="left").split())
    words = "BTC: alpha has the largest share of open interest, 59.0 %; "
    assert title == words + "alpha gained 39.0 points, beta lost 39.0"


def test_title_names_all_venues_whose_share_is_the_largest_as_written() -> None:
    """Shares of 40.02, 39.98 and 20 %: the first two are written as 40.0 %, without a change."""
    held = made.holdings()
    value = held["exchange"].map({"alpha": 4.002e5, "beta": 3.998e5, "gamma": 2e5}).astype(float)
    ax = plot.open_interest(held.assign(oi_usd=value), "share")
    title = " ".join(ax.get_title(loc="left").split())
    assert title == "BTC: alpha and beta have the largest shares of open interest, 40.0 %"


def test_bars_by_expiry_have_the_sum_of_calls_and_puts() -> None:
    """Calls of 130 and puts of 65 coins at each of four expiries; 13 strikes with calls of 10, puts of 5."""
    ax = plot.strikes(made.chain(), by="expiry")
    sums = [text for text in ax.texts if text.get_text() == "195"]
    assert [text.get_position() for text in sums] == [(place, 0.99) for place in range(4)]
    top = ax.transLimits.transform((0.0, 130.0))[1]
    assert top < 0.95, "a row above all bars, so that a sum does not read as the value of calls"
    assert " ".join(ax.get_xlabel().split()) == "expiry [UTC]; top: calls + puts [BTC]"
    many = made.chain().assign(open_interest=lambda table: 100.0 * table["open_interest"])
    ax = plot.strikes(many, by="expiry")
    assert [text.get_text() for text in ax.texts].count("20") == 4
    assert " ".join(ax.get_xlabel().split()) == "expiry [UTC]; top: calls + puts [thousand BTC]"


def test_trends_have_one_point_per_day() -> None:
    share = oi.market_share(dd.panel(made.holdings(), "oi_usd").isel(symbol=0))
    again = plot.open_interest(oi.share_trend(share), "trend", top=1)
    assert len(again.get_yticklabels()) == 1
    label = " ".join(again.get_xlabel().split())
    assert label == "change of share [percentage points a day]; 1 of 3 venues"
    trend = oi.share_trend(share).assign(status=("exchange", [TrendStatus.CANNOT_TELL, 0, 0]))
    ax = plot.open_interest(trend, "trend")
    counts = {bars.get_label(): len(bars.get_paths()) for bars in ax.collections}
    assert counts == {"significant trend (95 %)": 1, "no significant trend": 2}
    hours = made.holdings().assign(time=lambda t: made.START + (t["time"] - made.START) / 24)
    hours.attrs = made.holdings().attrs
    ax = plot.open_interest(hours, "trend", window="1h")
    assert plot.data(ax)["trend_pp"].abs().max() == pytest.approx(1.0), "a point an hour"


def test_change_of_share_is_last_day_minus_first_day() -> None:
    """A point an hour, 0 to 71: the means of the first and of the last third are 11.5 and 59.5."""
    times = pd.date_range("2026-06-01", periods=72, freq="h")
    rising = xr.DataArray(
        0.01 * np.arange(72.0)[None], {"exchange": ["a"], "time": times}, ("exchange", "time")
    )
    assert share_change(rising).values == pytest.approx([0.48])


def test_a_symbol_without_steady_venues_is_refused() -> None:
    table = made.holdings()
    sparse = table[table.groupby("exchange", observed=True).cumcount() % 7 == 0]
    parts = [part.iloc[i::3] for i, (_, part) in enumerate(sparse.groupby("exchange", observed=True))]
    with pytest.raises(ValueError, match="no venue has open interest of BTC over most of the window"):
        plot.open_interest(pd.concat(parts), "share")


@pytest.mark.parametrize(
    ("minutes", "label", "heights"), [(50, "minute", [-0.25] * 8), (120, "5 minutes", [-2.0])]
)
def test_a_short_window_has_bars_of_minutes(minutes: int, label: str, heights: list[float]) -> None:
    """Eight orders of 0.25 M USD: one a minute, or two a minute from 00:00 on, within one step of five."""
    events = made.liquidated().iloc[:8]
    step = 1.0 if minutes < 60 else 0.5
    events = events.assign(time=[made.START + pd.Timedelta(i * step, "min") for i in range(8)])
    ax = plot.liquidations(events, start=made.START, end=made.START + pd.Timedelta(minutes, "min"))
    assert ax.get_ylabel().startswith(f"per {label}\n")
    assert [bar.height for bar in bars_of(ax)] == pytest.approx(heights)


@pytest.mark.parametrize("engine", ["matplotlib", "plotly"])
def test_liquidations_outside_the_span_are_not_drawn(engine: str) -> None:
    """Of orders at 00:00 to 11:00, those at 08:00 and 09:00 are two longs of 0.5 M USD on beta."""
    events = made.liquidated()
    start = made.START + pd.Timedelta(8, "h")
    end = made.START + pd.Timedelta(10, "h")
    title = "BTC: longs were 100 % of the 1.0 million USD liquidated in 2 hours; coverage not stated"
    of_all = plot.liquidations(events, start=start, end=end, engine=engine)
    of_selected = plot.liquidations(events.iloc[8:10], start=start, end=end, engine=engine)
    assert plot.data(of_all)["value_usd"].tolist() == [500_000.0] * 2
    pd.testing.assert_frame_equal(plot.data(of_all), plot.data(of_selected))
    if engine == "plotly":
        assert of_all.to_json() == of_selected.to_json()
        return
    assert " ".join(of_all.get_title(loc="left").split()) == title
    assert of_all.get_ylim() == of_selected.get_ylim()
    assert of_all.get_legend_handles_labels()[1] == ["longs: 1.0 M USD", "shorts: 0 USD"]
    assert [t.get_text() for t in panels_of(of_all)[1].get_yticklabels()] == ["beta"]


def panels_of(ax: Axes) -> tuple[list[Axes], Axes]:
    """Return the axes over time, and the axes of the venues."""
    over_time, venues = ax.get_figure(root=True).axes[0].child_axes
    return over_time.child_axes, venues


def test_price_replaces_the_venues_and_small_venues_share_a_row() -> None:
    """The first of the largest orders is a short of 0.75 M USD at 10:00."""
    events = made.liquidated()
    ax = plot.liquidations(events, price=made.price())
    values, lowest = ax.get_figure(root=True).axes[0].child_axes
    assert values is ax
    assert lowest.get_ylabel() == "price\n[USD]"
    drawn = lowest.lines[0].get_ydata()
    assert drawn == pytest.approx([1e6, 1e6 * (1 + 1 / 39)]), "until the first price after the eleven hours"
    title = " ".join(ax.get_title(loc="left").split())
    assert title.endswith("; peak from 10:00 UTC: 0.8 million USD of shorts; coverage not stated")
    [shaded] = lowest.patches
    assert shaded.get_x() == mdates.date2num(made.START + pd.Timedelta(10, "h"))
    assert shaded.get_width() * 24.0 == pytest.approx(1.0)
    with pytest.raises(ValueError, match="price has several symbols"):
        plot.liquidations(made.liquidated(), price=made.price().expand_dims(symbol=["BTC", "ETH"]))
    _, venues = panels_of(plot.liquidations(made.liquidated(), top=1))
    assert [t.get_text() for t in venues.get_yticklabels()] == ["beta", "1 other"]
    none = made.liquidated().iloc[:0]
    with pytest.raises(ValueError, match="events is empty: pass start and end"):
        plot.liquidations(none)
    ax = plot.liquidations(none, start=made.START, end=made.START + pd.Timedelta(1, "D"))
    assert ax.get_title(loc="left") == "no liquidations in 24 hours; coverage not stated"


def test_a_span_without_events_needs_both_ends() -> None:
    """The orders are from 00:00 to 11:00."""
    late = made.START + pd.Timedelta(12, "h")
    with pytest.raises(
        ValueError, match=r"events has no event after start 2026-01-05 12:00:00.*: pass start and end"
    ):
        plot.liquidations(made.liquidated(), start=late)
    with pytest.raises(
        ValueError, match=r"events has no event before end 2026-01-04 23:00:00.*: pass start and end"
    ):
        plot.liquidations(made.liquidated(), end=made.START - pd.Timedelta(1, "h"))
    with pytest.raises(ValueError, match="start must not be after end"):
        plot.liquidations(made.liquidated(), start=late, end=made.START)


def test_orders_without_a_value_have_no_dots() -> None:
    events = made.liquidated()
    figure = plot.liquidations(events.assign(value_usd=0.0), engine="plotly")
    words = "no liquidations in 11 hours; coverage not stated"
    assert figure.layout.title.text.replace("<br>", " ").strip() == f"BTC: {words}"
    events["value_usd"] = events["value_usd"].astype(float).where(events.index != 0)
    figure = plot.liquidations(events, engine="plotly")
    dots = [trace for trace in figure.data if trace.name in {"long", "short"}]
    assert sum(len(trace.x) for trace in dots) == 11


def test_values_of_venues_are_longs_at_the_left_and_shorts_at_the_right() -> None:
    """Alpha: eight longs of 250,000; beta: two longs of 500,000 and two shorts of 750,000 USD."""
    ax = plot.liquidations(made.liquidated())
    _, venues = panels_of(ax)
    assert [t.get_text() for t in venues.get_yticklabels()] == ["beta", "alpha"]
    widths = [[path.vertices[2, 0] for path in bars.get_paths()] for bars in venues.collections]
    assert widths == [[-1.0, -2.0], [1.5, 0.0]]
    assert [t.get_text() for t in venues.texts[:2]] == ["56 %", "44 %"]
    labels = [t.get_text() for t in ax.get_legend().get_texts()]
    assert labels == ["longs: 3.0 M USD", "shorts: 1.5 M USD"]
    heights = [bar.height for bar in bars_of(ax)]
    assert min(heights) < 0.0 < max(heights)


def test_title_of_depth_describes_the_widest_band() -> None:
    """Bids of 3 and asks of 6 million times 2 + sin(i / 6), which is 2.9999 at the end."""
    ax = plot.orderbook_depth(made.depths())
    title = " ".join(ax.get_title(loc="left").split())
    assert title == "BTC on alpha: depth within 50 bps was between 4.5 and 13.5 million USD a side"
    assert ax.get_yscale() == "log", "equal heights are equal ratios at all distances"
    assert {"4.5", "13.5"} <= {text.get_text() for text in ax.texts}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bid_depth_usd": 300.0, "ask_depth_usd": 100.0}, "was 200 USD a side"),
        ({"bid_depth_usd": np.nan}, "of one side only"),
    ],
)
def test_title_of_small_or_missing_depth_has_no_zeros(change: dict[str, float], words: str) -> None:
    title = " ".join(plot.orderbook_depth(made.depths().assign(**change)).get_title(loc="left").split())
    assert title == f"BTC on alpha: depth within 50 bps {words}"


@pytest.mark.parametrize(
    ("venues", "value", "words"),
    [
        (["a", "a", "b"], 1e3, "of the 3,000 USD liquidated in 2 hours; 67 % of the total was on a"),
        (["a", "b", "c"], 1e6, "of the 3.0 million USD liquidated in 2 hours; 33 % of the total was on a"),
    ],
)
def test_title_of_liquidations_states_the_largest_venue(venues: list[str], value: float, words: str) -> None:
    orders = made.liquidated().head(3).assign(exchange=venues, value_usd=value)
    title = " ".join(plot.liquidations(orders, coverage=None).get_title(loc="left").split())
    assert words in title


def test_numbers_of_small_liquidations_are_in_dollars() -> None:
    """An order of 3,000 USD, and one of 200 USD an hour later, which is less than a third."""
    small = (
        made.liquidated()
        .iloc[:2]
        .assign(
            time=[made.START, made.START + pd.Timedelta(1, "h")],
            side=["long", "short"],
            value_usd=[3000.0, 200.0],
        )
    )
    ax = plot.liquidations(small)
    assert [text.get_text() for text in ax.texts] == ["3,000 USD"]
    assert ax.get_legend_handles_labels()[1] == ["longs: 3,000 USD", "shorts: 200 USD"]
    assert not plot.liquidations(small.assign(value_usd=0.0)).texts


def test_costs_of_an_order_have_no_exponent() -> None:
    """Bids of 99 and asks of 101 USD are 100 bps from the mid price; a coin of each is an order of 10 USD."""
    sides = {"side": ["bid", "ask"], "level": 0, "price_usd": [99.0, 101.0], "size": 1.0}
    book = pd.DataFrame(sides).assign(symbol="BTC", exchange="alpha", time=made.START)
    ax = plot.orderbook_depth(book, source="by hand")
    title = " ".join(ax.get_title(loc="left").split())
    assert title == "BTC on alpha: an order of 10 USD costs 100 bps to buy and 100 to sell"


def test_depth_of_zero_has_no_label_on_a_logarithmic_axis() -> None:
    depths = made.depths()
    first = depths["time"] == depths["time"].iloc[0]
    empty = depths.assign(
        bid_depth_usd=depths["bid_depth_usd"].where(~first, 0.0),
        ask_depth_usd=depths["ask_depth_usd"].where(~first, 0.0),
    )
    assert "0.0" not in [text.get_text() for text in plot.orderbook_depth(empty).texts]
    small = depths.assign(bid_depth_usd=1e-4 * depths["bid_depth_usd"], ask_depth_usd=0.0)
    assert "0.0" not in [text.get_text() for text in plot.orderbook_depth(small).texts]


def test_equal_volumes_of_takers_are_stated_as_equal() -> None:
    hours = pd.date_range(made.START, periods=49, freq="h")
    volume = pd.DataFrame(
        {"time": hours, "symbol": "BTC", "exchange": "alpha", "buy_usd": 2e3, "sell_usd": 2e3}
    )
    ax = plot.taker_volume(volume, source="by hand")
    title = " ".join(ax.get_title(loc="left").split())
    assert title == "BTC: takers bought as much as they sold in 2 days"
    ax = plot.taker_volume(volume.assign(sell_usd=1e3), source="by hand")
    assert "alpha +0.049" in [text.get_text() for text in ax.texts]


@pytest.mark.parametrize("kind", ["share", "trend"])
@pytest.mark.parametrize("top", [0, -1])
def test_no_venue_to_draw_is_refused(kind: str, top: int) -> None:
    with pytest.raises(ValueError, match=f"top must be at least 1 venue, got {top}"):
        plot.open_interest(made.holdings(), kind, top=top)


def test_title_of_a_panel_without_a_symbol_begins_with_the_finding() -> None:
    held = dd.panel(made.holdings(), "oi_usd").isel(symbol=0, drop=True)
    title = plot.open_interest(held, "share", source="by hand").get_title(loc="left")
    assert title.startswith("alpha has the largest share")


def test_narrow_taker_volume_has_the_peaks_of_its_lines() -> None:
    """Takers buy 1 M USD net an hour, but 60 M in hour 301, and sell 60 M in the next hour."""
    hours = pd.date_range("2026-06-01", periods=600, freq="h", tz="UTC")
    buy = np.full(600, 1e6)
    buy[301] = 60e6
    sell = np.zeros(600)
    sell[302] = 60e6
    columns = {"time": hours, "symbol": "BTC", "exchange": "alpha", "buy_usd": buy, "sell_usd": sell}
    volume = made.taken().head(1).drop(columns=list(columns)).merge(pd.DataFrame(columns), how="cross")
    for width in (3.0, 12.0):
        ax = plot.taker_volume(volume, source="by hand", figsize=(width, 5.0))
        [line] = [line for line in ax.lines if line.get_label() == "alpha"]
        drawn = np.asarray(line.get_ydata())
        assert 361.0 in drawn.round(6), "301 hours of 1 M and one of 60 M"
        assert drawn[-1] == pytest.approx(599.0), "599 hours of 1 M; 60 M bought and sold"
        assert len(drawn) < 600, "not all points are drawn"


def test_taker_volume_without_values_or_with_one_time_is_refused() -> None:
    with pytest.raises(ValueError, match="got only missing values"):
        plot.taker_volume(made.taken().assign(buy_usd=np.nan), window="2d")
    with pytest.raises(ValueError, match="data has one time"):
        plot.taker_volume(made.taken().head(1), window="2d")


@pytest.mark.parametrize(
    ("low", "note"),
    [
        (0.001, "* solid: trend significant (95 %)"),
        (-0.01, "pale: trend not significant (95 %), or too little data"),
    ],
)
def test_the_note_explains_only_bars_that_are_drawn(low: float, note: str) -> None:
    share = oi.market_share(dd.panel(made.holdings(), "oi_usd").isel(symbol=0))
    trend = oi.share_trend(share)
    level = xr.full_like(trend["slope"], low)
    trend = trend.assign(slope=level + 0.001, low=level, high=level + 0.02, status=trend["status"] * 0)
    ax = plot.open_interest(trend, "trend")
    notes = {" ".join(t.get_text().split()) for t in ax.texts}
    assert {text for text in notes if "solid" in text or "pale" in text} == {note}


def test_unobserved_time_is_blank() -> None:
    spans = pd.DataFrame({"start": [made.START], "end": [made.START + pd.Timedelta(3, "h")]})
    (_, seen), _ = panels_of(plot.liquidations(made.liquidated(), coverage=spans))
    [patch] = seen.patches
    hours = matplotlib.dates.num2date(patch.get_x() + patch.get_width()) - matplotlib.dates.num2date(
        patch.get_x()
    )
    assert hours == pd.Timedelta(3, "h")
    ax = plot.liquidations(made.liquidated())
    assert ax.get_title(loc="left").endswith("; coverage not stated")
    assert len(panels_of(ax)[0]) == 1
    whole = spans.assign(end=made.START + pd.Timedelta(2, "D"))
    ax = plot.liquidations(made.liquidated(), coverage=whole)
    assert "coverage" not in ax.get_title(loc="left")
    assert len(panels_of(ax)[0]) == 1
    events = made.liquidated()
    watched = [["2026-01-05T00:00:00Z", "2026-01-05T06:00:00Z"]]
    events.attrs["provenance"] = made.SAID | {"coverage": {"observed": watched, "missed": []}}
    (_, seen), _ = panels_of(plot.liquidations(events))
    [patch] = seen.patches
    assert patch.get_width() == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (made.book().iloc[:0], "data is empty: pass a table with rows"),
        (pd.concat([made.book(), made.book().assign(exchange="beta")]), "several books: select one symbol"),
        (pd.concat([made.book(), made.book().assign(time=made.QUOTED)]), "several books: select one time"),
        (made.book().query("side == 'bid'"), "data must have bids and asks, got only bid"),
        (made.liquidated().query("exchange == 'alpha'"), "data must be the table of dd.orderbook.book"),
    ],
)
def test_table_that_is_not_an_order_book_is_rejected(data: pd.DataFrame, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plot.orderbook_depth(data)


def test_gamma_by_strike_equals_the_analysis() -> None:
    """Bars add up to the analysis' sum, calls twice the puts: they have twice the open interest."""
    whole = exposure.gamma_exposure(made.chain(), by=())["gamma_exposure_usd"].item() / 1e6
    ax = plot.strikes(made.chain(), "gamma")
    table = plot.data(ax)
    assert table["gamma_musd"].sum() == pytest.approx(whole)
    assert table["calls_musd"].to_numpy() == pytest.approx(2 * table["puts_musd"].to_numpy())
    signed = plot.strikes(made.chain(), "gamma", dealer={"call": 1.0, "put": -1.0})
    [net] = [line for line in signed.lines if line.get_label() == "net"]
    assert net.get_ydata() == pytest.approx(table["gamma_musd"].to_numpy() / 3)
    assert min(bar.height for bar in bars_of(signed)) == pytest.approx(-table["puts_musd"].max())
    with pytest.raises(ValueError, match="the dim 'exchange'"):
        plot.strikes(made.chains(), "gamma")


def test_title_of_implied_and_realised_states_their_difference() -> None:
    past = made.volatility(0.4).assign_attrs(steps=7)
    ax = plot.volatility(made.volatility(0.5).assign_coords(tenor=30.0), "realised", realised=past)
    words = " ".join(ax.get_title(loc="left").split())
    assert words == "Volatility: implied (30 days) 10.0 points above realised (7 days) on average"
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["implied (30 days): 50.0 %", "realised (7 days): 40.0 %"]
    equal = plot.volatility(made.volatility(0.4004), "realised", realised=past)
    words = " ".join(equal.get_title(loc="left").split())
    assert words == "Volatility: implied and realised (7 days) are equal on average"
    with pytest.raises(ValueError, match="realised must be an array with one dim, time"):
        plot.volatility(made.volatility(0.5), "realised", realised=made.volatility(np.nan))
    several = made.volatility(0.5).expand_dims(symbol=["BTC", "ETH"])
    with pytest.raises(ValueError, match=r"time, and a value: select with data.sel\(symbol=...\)$"):
        plot.volatility(several, "published", computed=made.volatility(0.5))


def test_realised_volatility_is_drawn_at_the_end_of_its_window() -> None:
    """The bar that starts on a day ends a day later: at its start, its volatility is not known."""
    realised = made.volatility(0.4)
    ends = realised["time"].to_numpy() + np.timedelta64(1, "D")
    ax = plot.volatility(
        made.volatility(0.5), "realised", realised=realised.assign_coords(window_end=("time", ends))
    )
    drawn = plot.data(ax).set_index("time")
    assert drawn.index[drawn.iloc[:, 1].notna()].tz_localize(None).tolist() == pd.DatetimeIndex(ends).tolist()


def test_realised_volatility_of_the_following_window_is_drawn_at_its_start() -> None:
    """Of ten days, windows of three days that start on the first seven are over.

    Implied volatility is 50 % on all days. Realised volatility is 41 to 47 % in windows that end on the days
    4 to 10: the mean difference is 6 points.
    """
    past = made.volatility(0.4).assign_attrs(steps=3)
    past = past.copy(data=[np.nan] * 3 + [0.41, 0.42, 0.43, 0.44, 0.45, 0.46, 0.47])
    ax = plot.volatility(made.volatility(0.5), "realised", realised=past, ahead=True)
    words = " ".join(ax.get_title(loc="left").split())
    assert words == "Volatility: implied 6.0 points above realised over the next 3 days on average"
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["implied: 50.0 %", "realised over the next 3 days: 47.0 %"]
    days = plot.data(ax).set_index("time").loc[made.volatility(0.5)["time"].to_index().tz_localize("UTC")]
    assert days["realised"].to_numpy()[:7] == pytest.approx([0.41, 0.42, 0.43, 0.44, 0.45, 0.46, 0.47])
    assert days["realised"].isna().tolist() == [False] * 7 + [True] * 3
    with pytest.raises(ValueError, match=r"ahead=True needs the length of the windows in realised\.attrs"):
        plot.volatility(made.volatility(0.5), "realised", realised=made.volatility(0.4), ahead=True)
    with pytest.raises(ValueError, match="ahead is an option of kind='realised', got kind='published'"):
        plot.volatility(made.volatility(0.5), "published", computed=made.volatility(0.4), ahead=True)


def test_published_index_in_percent_is_drawn_like_a_decimal_one() -> None:
    """An index of 50 % is ten points above 40 %."""
    index = made.volatility(0.5).rename("index_pct").copy(data=np.full(10, 50.0)).assign_attrs(units="%")
    for kind, option in (("realised", "realised"), ("published", "computed")):
        ax = plot.volatility(index, kind, **{option: made.volatility(0.4)})
        assert "10.0 points above" in " ".join(ax.get_title(loc="left").split())
        assert ax.get_legend().get_texts()[0].get_text().endswith(": 50.0 %")
        assert ax.lines[0].get_ydata() == pytest.approx([0.5] * 10)
        assert plot.data(ax).iloc[0, 1:].tolist() == pytest.approx([0.5, 0.4])
    ax = plot.volatility(made.volatility(0.5), "published", computed=index)
    words = "Volatility: published index and index from chains are equal on average"
    assert " ".join(ax.get_title(loc="left").split()) == words
    with pytest.raises(ValueError, match="data must be a volatility in '1/√year' or '%', got 'USD'"):
        plot.volatility(index.rename("index").assign_attrs(units="USD"), "published", computed=index)
    with pytest.raises(ValueError, match=r"computed must be a volatility in .*, got '1/year'"):
        plot.volatility(index, "published", computed=made.volatility(0.5).assign_attrs(units="1/year"))


@pytest.mark.parametrize(
    ("latest", "words"), [(0.2, "below 95 % of past windows"), (0.45, "above 50 % of past windows")]
)
def test_title_places_volatility_below_the_lowest_quantile(latest: float, words: str) -> None:
    cone = made.cone()
    cone["latest"] = ("window", [latest] * 3)
    assert words in " ".join(plot.volatility(cone, "cone").get_title(loc="left").split())


def test_a_change_of_positioning_is_over_a_step_or_more() -> None:
    for change, reason in (("1h", "shorter than the step of the data, 1 days"), ("x", "change")):
        with pytest.raises(ValueError, match=reason):
            plot.positioning(made.positioned(), change=change)
    many = dd.panel(made.positioned(), "long_short_ratio").isel(exchange=[0] * 9)
    with pytest.raises(ValueError, match="data has 9 venues with a ratio: select 1 to 8 with venues="):
        plot.positioning(many.assign_coords(exchange=list("abcdefghi")))


def test_taker_imbalance_is_half_if_three_of_four_trades_buy() -> None:
    one = made.taken().query("exchange == 'alpha'")
    drawn = plot.data(plot.taker_volume(one, window="2d"))
    np.testing.assert_array_equal(drawn["imbalance"], [np.nan] + [0.5] * 11)
    with pytest.raises(ValueError, match="shorter than the step of the data, 1 days"):
        plot.taker_volume(one, window="12h")


def test_liquidation_sums_are_drawn_and_other_tables_rejected() -> None:
    """A venue's sum of a side is a row: 2 M of longs and 1 M of shorts, of which 2/3 are longs."""
    hours = pd.date_range("2026-06-01", periods=2, freq="h", tz="UTC")
    sums = pd.DataFrame({"symbol": "BTC", "exchange": "okx", "time": hours})
    sums = sums.assign(long_usd=[2e6, 0.0], short_usd=[np.nan, 1e6], resolution="1h")
    ax = dd.plot.liquidations(sums)
    assert (
        " ".join(ax.get_title(loc="left").split())
        == "BTC: longs were 67 % of the 3.0 million USD liquidated in 1 hour; coverage not stated"
    )
    drawn = dd.plot.data(ax)
    assert drawn[["side", "value_usd"]].to_numpy().tolist() == [["long", 2e6], ["short", 1e6]]
    with pytest.raises(ValueError, match="expected the table liquidations_events or liquidations_history"):
        dd.plot.liquidations(sums.drop(columns=["long_usd", "short_usd"]))
    with pytest.raises(ValueError, match="events must have the column 'symbol'"):
        dd.plot.liquidations(sums.drop(columns="symbol"))


def test_one_very_large_bar_has_its_value_next_to_it() -> None:
    """Every order of an hour is worth up to a million; one of the next hour is worth a hundred."""
    events = made.liquidated()
    huge = events.iloc[[-1]].assign(value_usd=1e8, time=events["time"].max() + pd.Timedelta(1, "h"))
    ax = plot.liquidations(pd.concat([events, huge], ignore_index=True), source=events)
    assert ax.get_yscale() == "linear"
    assert [t.get_text() for t in ax.texts if "USD" in t.get_text()] == ["100.0 M USD"]
    plain = plot.liquidations(events, source=events)
    assert not [t.get_text() for t in plain.texts if "M USD" in t.get_text()]


@pytest.mark.parametrize(
    ("newest", "words"),
    [
        ([2.0, 1.1], "more accounts are long than short on all 2 venues; a has 2.00 longs per short"),
        ([0.25, 1.1], "more accounts are long than short on 1 of 2 venues; a has 0.25 longs per short"),
        ([0.25, 0.9], "more accounts are long than short on no venue; a has 0.25 longs per short"),
        ([1.5], "1.50 accounts are long per short on a"),
    ],
)
def test_title_of_positioning_counts_venues_that_are_net_long(newest: list[float], words: str) -> None:
    assert positions._balance(pd.Series(newest, list("ab")[: len(newest)])) == words


def test_title_of_positioning_by_size_is_not_about_accounts() -> None:
    """The latest ratios of both venues of the table are above 1 after the change."""
    data = made.positioned().assign(kind="top_positions", long_short_ratio=2.0)
    title = " ".join(plot.positioning(data).get_title(loc="left").split())
    words = "long positions are larger than short ones on all 2 venues; alpha has 2.00 longs per short"
    assert title == f"BTC: {words} (latest)"


def test_many_orders_are_one_dot_per_time_step() -> None:
    """An order of 10,000 USD a minute over ten hours on one venue, all longs: 15 minutes hold 150,000 USD."""
    order = made.liquidated().iloc[[0] * 600].reset_index(drop=True)
    minutes = pd.to_timedelta(np.arange(600), unit="min")
    events = order.assign(time=made.START + minutes, value_usd=10_000.0)
    _, dots, step = orders._dots(events, 8, pd.Timedelta(10, "h"))
    assert step == "15 min", "as 30 minutes are too long"
    assert dots["value_usd"].tolist() == [150_000.0] * 40
    middle = made.START.tz_localize(None) + pd.Timedelta("7.5min")
    assert dots["time"].min() == middle
    _, dots, step = orders._dots(events.iloc[:499], 8, pd.Timedelta(10, "h"))
    assert (len(dots), step) == (499, ""), "a dot per order"


def test_turnover_shows_costs_and_names_the_largest_trades() -> None:
    result = made.backtested()
    table = plot.data(plot.backtest(result, "turnover"))
    costs = float(result["fees_usd"].sum() + result["slippage_usd"].sum())
    assert table["costs_usd"].sum() == pytest.approx(costs)
    upper = plot.backtest(result, "turnover")
    end = mdates.date2num(result["time"].to_numpy()[-1].astype("datetime64[D]"))
    assert upper.get_xlim()[1] > end + 0.5, "trades of the last day are drawn, also at midnight"
    ax = plot.backtest(result, "trades")
    table = plot.data(ax).sort_values("net_bps", ascending=False, kind="stable")
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names == [f"{r.symbol} {r.long} / {r.short}, {r.days:.3g} d" for r in table.itertuples()]
    [drawn] = [drawn for drawn in ax.collections if type(drawn) is PolyCollection]
    ends = [path.vertices[2, 0] for path in drawn.get_paths()]
    assert ends == pytest.approx(table["net_bps"].tolist())


def test_few_positions_have_a_row_each_and_many_have_a_row_per_symbol(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The made backtest has ten positions in two symbols."""
    ax = plot.backtest(made.backtested(), "positions")
    table = plot.data(ax)
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names == [f"{row.symbol} {row.long} / {row.short}" for row in table.itertuples()]
    starts = [mdates.num2date(bar.get_x()) for bar in sorted(ax.patches, key=lambda bar: bar.get_y())]
    assert starts == table["entry"].tolist(), "in the order of the rows"
    assert f"{table['net_usd'].iloc[0]:+,.0f}" in [text.get_text() for text in ax.texts]
    monkeypatch.setattr(backtests, "_FEW_TRADES", 9)
    ax = plot.backtest(made.backtested(), "positions")
    net = table.groupby("symbol")["net_usd"].sum()
    assert {text.get_text() for text in ax.get_yticklabels()} == {
        f"{symbol}\n{value:+,.0f} USD" for symbol, value in net.items()
    }
    assert len(ax.patches) == len(table)


def test_largest_of_many_trades_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backtests, "_FEW_TRADES", 3)
    ax = plot.backtest(made.backtested(), "trades", figsize=(8.0, 1.2))
    best = plot.data(ax).sort_values("net_bps").iloc[-1]
    names = [text.get_text() for text in ax.texts]
    assert f"{best['symbol']} {best['long']} / {best['short']}" in names
    low, high = ax.get_ylim()
    points = 72.0 / ax.figure.dpi * ax.get_window_extent().height / (high - low)
    heights = sorted(
        text.xy[1] * points + text.get_position()[1] for text in ax.texts if " / " in text.get_text()
    )
    assert len(heights) == 4
    assert np.diff(heights).min() > 9.0, "points between names"


def test_option_flow_has_one_strip_per_side_on_a_shared_scale() -> None:
    ax = plot.option_flow(made.option_trades())
    calls, puts = ax.get_figure(root=True).axes[0].child_axes
    assert ax is calls
    assert (
        " ".join(ax.get_title(loc="left").split())
        == "BTC on deribit: takers bought 4 BTC of calls more than they sold, "
        "and sold 3 BTC of puts more than they bought, in 3 hours"
    )
    assert [calls.get_ylabel(), puts.get_ylabel()] == [
        "calls, bought\n− sold [BTC]",
        "puts, bought\n− sold [BTC]",
    ]
    assert calls.get_ylim() == puts.get_ylim()
    for strip, color, net in ((calls, LONG, 4.0), (puts, SHORT, -3.0)):
        bars = bars_of(strip)
        assert sum(bar.height for bar in bars) == pytest.approx(net)
        assert {to_hex(c.get_facecolor()[0]) for c in strip.collections} == {color.lower()}


@pytest.mark.parametrize(
    ("fraction", "text"),
    [(0.00025, "0.025 %"), (0.094, "9.4 %"), (0.12, "12 %"), (0.996, "100 %"), (1.5, "150 %")],
)
def test_a_share_is_never_written_with_an_exponent(fraction: float, text: str) -> None:
    assert backtests._percent(fraction) == text


def test_steps_across_new_year_name_both_years() -> None:
    ax = plt.figure(figsize=(8, 4)).subplots()
    starts = pd.date_range("2025-12-22", periods=4, freq="7D")
    backtests._step_ticks(ax, starts, pd.Timedelta(7, "D"), "week")
    assert ax.get_xlabel() == "first day of the week, 2025–2026 [UTC]"


@pytest.mark.parametrize("size", [(12.0, 5.0), (3.9, 4.4)])
def test_labels_of_positions_are_inside_the_axes(size: tuple[float, float]) -> None:
    """Ten positions have ten labels, in short bars too, and none is over the axis at the left."""
    for kind in ("trades", "positions"):
        ax = plot.backtest(made.backtested(), kind, figsize=size)
        figure = ax.get_figure(root=True)
        figure.canvas.draw()
        labels = [text for text in ax.texts if text.get_text()[:1] in "+-"]
        assert len(labels) == 10
        for label in labels:
            box = label.get_window_extent()
            assert box.x0 > ax.bbox.x0, label.get_text()
            assert box.x1 < figure.bbox.x1, label.get_text()


def test_capacity_of_selected_sizes_names_the_best_of_them() -> None:
    curve = made.capacity_curve()
    sizes = curve["size_usd"].to_numpy()
    best = sizes[int(np.nanargmax(curve["net_usd"]))]
    smaller = curve.sel(size_usd=sizes[sizes < best])
    ax = plot.backtest(smaller, "capacity", source="hand")
    words = f"Legs of {style.number(sizes[sizes < best].max())} USD earn most"
    assert ax.get_title(loc="left").startswith(words)


@pytest.mark.parametrize(("days", "words"), [(1.0, "1 day"), (1.004, "1 day"), (9.67, "9.67 days")])
def test_one_day_is_singular(days: float, words: str) -> None:
    assert style.day_words(days) == words


@pytest.mark.parametrize(
    ("days", "words"), [(1 / 24, "1 hour"), (0.5, "12 hours"), (1.0, "24 hours"), (2.0, "2 days")]
)
def test_spans_below_two_days_are_hours(days: float, words: str) -> None:
    assert style.span_words(days) == words
