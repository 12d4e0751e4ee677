"""Options figures against a known surface: 50 % at the forward of every expiry, ρ = −0.3."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.special import ndtr

import derivdata as dd
from derivdata import plot
from derivdata.analysis import smile, surface
from derivdata.analysis.smile import svi
from derivdata.analysis.status import Status
from derivdata.plot import surfaces
from tests.plot import made
from tests.plot.bars import bars_of

basis = partial(plot.term_structure, kind="basis")


def test_density_of_vogts_slice_is_negative_where_published() -> None:
    """Gatheral and Jacquier (2014), example 3.1: least g −0.0328636 at k = 0.87926."""
    vogt = smile.from_raw(svi.Raw(-0.0410, 0.1331, 0.3060, 0.3586, 0.4153), 1.0, k_min=-1.5, k_max=1.5)
    ax = plot.smile(vogt)
    table = plot.data(ax)
    low = table.loc[table["g"].idxmin()]
    assert low["g"] == pytest.approx(-0.03286, abs=1e-4)
    assert low["log_moneyness"] == pytest.approx(0.879, abs=0.01)
    [red] = [line for line in ax.lines if line.get_label() == "_arbitrage"]
    assert np.isfinite(red.get_ydata()).sum() == (table["g"] < 0.0).sum() > 0
    assert "red: butterfly arbitrage" in ax.get_title(loc="left").replace("\n", " ")


def test_a_smile_is_over_delta_with_strikes_on_top() -> None:
    """The put of 10 delta is where ln(K/F) = σ²T/2 − σ√T · 1.2816; the forward is 100.3."""
    ax = plot.smile(made.chain(), made.fit(), expiries="2026-02-04")
    table = plot.data(ax)
    fit = table[table["kind"] == "fit"].sort_values("delta")
    deviation = np.interp(0.1, fit["delta"], fit["iv"]) * np.sqrt(30 / 365)
    k = deviation**2 / 2 - deviation * 1.2815515655
    assert np.interp(0.1, fit["delta"], fit["log_moneyness"]) == pytest.approx(k, abs=2e-4)
    strikes = [t.get_text() for t in ax.texts if t.get_position() == (0.1, 1.0) or t.xy == (0.1, 1.0)]
    assert strikes == [f"{100.3 * np.exp(k):.1f}"]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["10P", "25P", "50", "25C", "10C"]


def test_expiries_are_chosen_by_day_or_spread() -> None:
    def labels(**options: Any) -> set[str]:
        return {t.get_text() for t in plot.smile(made.chain(), **options).texts if " 26" in t.get_text()}

    assert labels(expiries=["2026-02-04", "2026-07-06"]) == {"4 Feb 26", "6 Jul 26"}
    assert labels(limit=3) == {"12 Jan 26", "6 Apr 26", "6 Jul 26"}
    with pytest.raises(
        ValueError, match="expiries must match one expiry, got '2026-02-05', which matches 0 of"
    ):
        plot.smile(made.chain(), expiries="2026-02-05")


def test_bid_and_ask_are_bars_and_quotes_without_a_bid_are_faded() -> None:
    """At 50 % and 30 days a put of k = -0.3 has a delta of 1.7 %, one of k = -0.2 of 7 %."""
    quotes = xr.Dataset(
        {
            "iv": ("strike", [0.5, 0.5, 0.5, 0.9]),
            "iv_bid": ("strike", [0.49, np.nan, 0.49, np.nan]),
            "log_moneyness": ("strike", [-0.4, -0.3, -0.2, 0.8]),
        },
        coords={"expiry": np.datetime64("2026-02-04"), "year_fraction": 30 / 365},
    )
    ax = plot.smile(quotes)
    faded, bright = (line for line in ax.lines if line.get_marker() == ".")
    deviation = 0.5 * np.sqrt(30 / 365)
    deltas = ndtr(np.array([-0.4, -0.2]) / deviation - deviation / 2)
    assert bright.get_xdata() == pytest.approx(deltas), "the first has a bid, the third a delta"
    assert faded.get_xdata()[0] == pytest.approx(ndtr(-0.3 / deviation - deviation / 2))
    assert ax.get_xlim()[0] < deltas[1] < ax.get_xlim()[1]
    ax = plot.smile(quotes.assign(iv_ask=quotes["iv"] + 0.02).isel(strike=[0, 2]))
    [bars] = [c for c in ax.collections if len(c.get_segments()) == 2]
    assert [s[:, 1].tolist() for s in bars.get_segments()] == [[0.49, 0.52], [0.49, 0.52]]


def test_the_title_of_a_surface_compares_volatilities_that_are_drawn() -> None:
    ax = plot.surface(made.chain())
    drawn = plot.data(ax)
    amounts = []
    for days in (7.0, 182.0):
        column = drawn[np.isclose(drawn["days"], days)].set_index("deviations")["iv"]
        below, above = (column.iloc[np.abs(column.index - place).argmin()] for place in (-1.0, 1.0))
        amounts.append(f"{100 * (below - above):.0f} points in {days:.0f} days")
    words = (
        f"BTC on alpha: volatility 1 σ below the forward is higher than 1 σ above, by {' and '.join(amounts)}"
    )
    assert " ".join(ax.get_title(loc="left").split()) == words
    # Fitted strikes end at 1.8 deviations, so that volatilities of 2 deviations are unknown.
    iv = np.array([[0.6, 0.6], [0.5, 0.5], [0.4, np.nan]])
    found = surfaces._finding(iv, np.array([-1.0, 0.0, 1.0]), np.array([7.0, 30.0]))
    assert found == "volatility at the money is 50.0 % in 7 days and 50.0 % in 30 days"
    iv = np.array([[0.4, 0.45], [0.5, 0.5], [0.6, 0.5]])
    found = surfaces._finding(iv, np.array([-1.0, 0.0, 1.0]), np.array([7.0, 30.0]))
    assert found == (
        "volatility 1 σ below the forward is lower than 1 σ above, by 20 points in 7 days "
        "and 5 points in 30 days"
    )


def test_the_title_of_a_smile_says_whether_puts_or_calls_cost_more() -> None:
    ax = plot.smile(made.chain(), made.fit(), expiries="2026-02-04")
    words = "BTC on alpha: 25-delta puts cost 7.6 points more than calls on 4 Feb 2026"
    assert " ".join(ax.get_title(loc="left").split()) == words


def test_term_structure_has_quoted_bounds_within_its_axes() -> None:
    """Half spreads of 1, 2 and 1 points; one of 30 points would flatten the line, and is omitted."""
    half = ("expiry", [0.01, 0.02, 0.30, 0.01])
    ax = plot.term_structure(made.fit().assign(atm_half_spread_vol=half))
    [bars] = [drawn for drawn in ax.collections if drawn.get_label() == "bid to ask"]
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    np.testing.assert_allclose(ends, [[0.49, 0.51], [0.48, 0.52], [0.49, 0.51]], atol=1e-6)
    low, high = ax.get_ylim()
    assert low < 0.48 < 0.52 < high < 0.53
    bare = plot.term_structure(made.fit())
    assert not [drawn for drawn in bare.collections if drawn.get_label() == "bid to ask"]


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        ([0.50, 0.50, 0.50, 0.50], "at-the-money volatility is nearly flat at 50.0 %"),
        ([0.44, 0.45, 0.46, 0.47], "at-the-money volatility rises from 44.0 % in 7.0 d to 47.0 % in 182 d"),
        ([0.47, 0.46, 0.45, 0.44], "at-the-money volatility falls from 47.0 % in 7.0 d to 44.0 % in 182 d"),
        ([0.44, 0.48, 0.46, 0.45], "at-the-money volatility peaks at 48.0 % in 30 d and falls to 45.0 % in"),
        ([0.48, 0.44, 0.46, 0.49], "at-the-money volatility dips to 44.0 % in 30 d and rises to 49.0 % in"),
    ],
)
def test_title_of_a_term_structure_states_its_shape(levels: list[float], words: str) -> None:
    """All made expiries have 50 % at the forward; total variance is proportional to a and b."""
    fit = made.fit()
    ratio = np.square(np.array(levels) / 0.5)
    ax = plot.term_structure(fit.assign(a=fit["a"] * ratio, b=fit["b"] * ratio))
    assert " ".join(ax.get_title(loc="left").split()).startswith(f"BTC on alpha: {words}")


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        ([0.04, 0.05, 0.06, 0.05], "all forwards are above spot, by 4.0 to 6.0 % a year (contango)"),
        ([-0.04, -0.05, -0.06, -0.05], "all forwards are below spot, by 4.0 to 6.0 % a year (backwardation)"),
        ([-0.04, 0.0, 0.01, 0.02], "forwards over spot are -4.0 % a year in 7.0 d and +2.0 % in 182 d"),
    ],
)
def test_title_of_a_basis_states_its_sign(rates: list[float], words: str) -> None:
    curve = made.basis()
    ax = basis(curve.assign(basis_apr=("expiry", rates)))
    assert " ".join(ax.get_title(loc="left").split()).endswith(f": {words}")


def test_expiry_labels_that_do_not_fit_become_minor_ticks() -> None:
    """Expiries in 7, 30, 91 and 182 days: a figure 2 inches wide has space for three labels."""
    wide = plot.surface(made.chain(), figsize=(8.0, 4.0))
    labels = [t.get_text() for t in wide.get_xticklabels()]
    assert labels == ["7.0 d\n12 Jan\n2026", "30 d\n4 Feb", "91 d\n6 Apr", "182 d\n6 Jul"]
    narrow = plot.surface(made.chain(), figsize=(2.0, 4.0))
    labels = [t.get_text() for t in narrow.get_xticklabels()]
    assert labels == ["7.0 d\n12 Jan\n2026", "30 d\n4 Feb", "182 d\n6 Jul"]
    assert narrow.get_xticks(minor=True) == pytest.approx([91.0])


def test_narrow_surface_has_no_colour_bar() -> None:
    """Volatility at the forward is 50 % at each of four expiries."""
    for width, scales in ((8.0, 1), (3.0, 0)):
        ax = plot.surface(made.chain(), figsize=(width, 4.0))
        at_forward = [t.get_text() for t in ax.texts if t.get_position()[1] == 0.0 and t.get_text() == "50.0"]
        assert len(at_forward) == 4
        assert len(ax.child_axes) == scales
        notes = " ".join(" ".join(t.get_text() for t in ax.texts).split())
        assert ("implied volatility" in notes) is not bool(scales)


def test_first_index_and_its_extremes_are_labelled_beside_the_line() -> None:
    """The index rises from 50 to 70 % and falls to 40, then 45 %."""
    history = made.index_history()
    index = np.array([50.0, 51.0, 53.0, 58.0, 65.0, 70.0, 62.0, 40.0, 41.0, 45.0]) / 100.0
    history["strip_index"] = history["strip_index"].copy(data=index)
    ax = plot.volatility(history, symbol="BTC")
    title = " ".join(ax.get_title(loc="left").split())
    words = "BTC: 30-day strip index fell 5.0 points to 45.0 % in 9 days, after a peak of 70.0 %"
    assert title == f"{words}; 30-day 25Δ puts cost 3.0 points more than calls"
    labels = {t.get_text(): t for t in ax.texts if t.get_text()}
    assert list(labels) == ["45.0 %", "50.0", "40.0", "70.0"]
    assert [t.xy[1] for t in list(labels.values())[1:]] == pytest.approx([50.0, 40.0, 70.0])
    assert [labels[word].xyann[1] for word in ("50.0", "40.0", "70.0")] == [-5.0, -5.0, 5.0]


@pytest.mark.parametrize(
    ("index", "words"),
    [
        (
            [50.0, 52.0, 50.04],
            "BTC: 30-day strip index is unchanged at 50.0 % in 2 days, after a peak of 52.0 %",
        ),
        ([np.nan, 52.0, np.nan], "BTC: 30-day strip index is 52.0 %"),
        ([np.nan, np.nan, np.nan], "BTC: 30-day ATM volatility rose 2.0 points to 51.0 % in 2 days"),
    ],
)
def test_title_of_an_index_over_time(index: list[float], words: str) -> None:
    """Volatility at the money, which is drawn without an index, rises from 49 to 51 %."""
    history = made.index_history().isel(time=slice(3))
    history["strip_index"] = history["strip_index"].copy(data=np.array(index) / 100.0)
    ax = plot.volatility(history, symbol="BTC")
    assert " ".join(ax.get_title(loc="left").split()).startswith(words)


def test_skews_have_a_label_and_an_axis_of_their_own() -> None:
    history = made.index_history()
    ax = plot.volatility(history, symbol="BTC")
    figure = ax.get_figure(root=True)
    _, skews = figure.axes[0].child_axes
    assert skews.get_ylabel() == "25Δ calls − puts\n[points]"
    labels = [t for t in skews.texts if " d " in t.get_text()]
    assert {t.get_text() for t in labels} == {"7 d -3.00", "30 d -3.00"}
    height = 72.0 / figure.dpi * skews.get_window_extent().height
    assert abs(labels[1].xyann[1] - labels[0].xyann[1]) * height >= 8.0, "points"
    assert skews.get_ylim() == pytest.approx((-3.5, -2.5))
    flat = history.assign(strip_index=0.5 + history["strip_index"] / 100.0)
    low, high = plot.volatility(flat, symbol="BTC").get_ylim()
    assert high - low == pytest.approx(4.0), "a change of 0.09 points is not drawn as a move"


def test_title_of_a_cone_describes_a_window_with_implied_volatility() -> None:
    """Windows of 7, 14 and 30 days; implied volatility of 7, 30 and 90 days."""
    windows = {"window": [7.0, 14.0, 30.0], "quantile": [0.0, 1.0]}
    levels = xr.DataArray([[0.3, 0.5]] * 3, windows, ("window", "quantile"))
    latest = xr.DataArray([0.4, 0.4, 0.45], {"window": windows["window"]}, ("window",))
    cone = xr.Dataset({"volatility": levels, "latest": latest})
    ax = plot.volatility(cone, "cone", implied={7.0: 0.6, 30.0: 0.55, 90.0: 0.5}, source="hand")
    title = " ".join(ax.get_title(loc="left").split())
    words = "30-day implied volatility is above 100 % of past realised windows"
    assert title == words
    label = " ".join(ax.get_xlabel().split())
    assert label == "window, time to expiry [days], log scale; no windows beyond 30 days"
    ax = plot.volatility(cone, "cone", implied={14.0: 0.6}, source="hand")
    assert ax.get_title(loc="left").split()[0] == "14-day"
    assert ax.get_xlabel() == "window, time to expiry [days], log scale"


def test_earlier_term_structure_is_drawn_at_the_same_expiries() -> None:
    """Two expiries were at 48 and 52 % a day before; one that is no longer listed is omitted."""
    expiries = [made.QUOTED + pd.Timedelta(days, "D") for days in (7, 30, 5)]
    before = pd.DataFrame(
        {"time": made.QUOTED - pd.Timedelta(1, "D"), "expiry": expiries, "iv": [0.48, 0.52, 0.9]}
    )
    ax = plot.term_structure(made.fit(), before=before)
    [line] = [line for line in ax.lines if line.get_label() == "4 Jan 08:00"]
    assert line.get_xdata() == pytest.approx([7.0, 30.0])
    assert line.get_ydata() == pytest.approx([0.48, 0.52])
    words = "BTC on alpha: volatility is unchanged since 4 Jan 08:00; it is nearly flat at 50.0 %"
    assert " ".join(ax.get_title(loc="left").split()) == words
    with pytest.raises(
        ValueError, match="before must have each expiry once: select one symbol and one venue"
    ):
        plot.term_structure(made.fit(), before=pd.concat([before, before]))
    with pytest.raises(ValueError, match="before must have one time, got 2"):
        plot.term_structure(made.fit(), before=before.assign(time=expiries[:2] + expiries[:1]))


def test_a_density_states_its_forwards() -> None:
    # The forward of the made chain is 100 + days / 100.
    ax = plot.implied_density(made.fit(), expiries=["2026-01-12", "2026-04-06"])
    names = [text.get_text() for text in ax.texts]
    assert names[:2] == ["12 Jan 2026,\nforward 100.1", "6 Apr 2026,\nforward 100.9"]


def test_volatility_difference_is_interpolated_within_expiries_only() -> None:
    reverse = plot.venue_difference(made.chains(), reference="beta", tenors=["30d"])
    texts = {t.get_text(): t for t in reverse.texts}
    assert texts["-2.00"].xy[0] == 0.0, "at the forward"
    assert texts["beta"].xy[1] == pytest.approx(np.interp(0.0, reverse.get_ylim(), (0.0, 1.0)))
    words = "BTC: alpha differs most from beta: its volatility is 2.00 points lower at the forward"
    assert " ".join(reverse.get_title(loc="left").split()) == words
    ax = plot.venue_difference(made.chains(), reference="alpha", tenors=["30d", "365d"])
    table = plot.data(ax)
    assert table["days"].unique().tolist() == [30.0]
    assert table["deviations"].tolist() == [-1.5, 0.0, 1.5], "30 days, not 365"
    assert table["difference_points"].iloc[1] == pytest.approx(2.0, abs=1e-3)
    with pytest.raises(ValueError, match="data must have the reference 'deribit' and another venue"):
        plot.venue_difference(made.chains())
    with pytest.raises(ValueError, match="got one venue"):
        plot.venue_difference(made.chain(), reference="alpha")
    later = made.chains().assign(time=made.QUOTED + pd.Timedelta(1, "h"))
    with pytest.raises(ValueError, match="data must not have the dim 'time'"):
        plot.venue_difference(pd.concat([made.chains(), later]), reference="alpha")


def test_open_interest_bars_are_coins_by_strike() -> None:
    """13 calls of 10 and 13 puts of 5; each strike pays least where calls below outweigh puts above."""
    ax = plot.strikes(made.chain(), expiry="2026-02-04", contract_size=0.1)
    heights = [bar.height for bar in bars_of(ax)]
    assert heights == pytest.approx([1.0] * 13 + [-0.5] * 13)
    labels = [t.get_text() for t in ax.get_legend().get_texts()]
    assert {"calls: 13 BTC", "puts: 6.5 BTC", "underlying: 100.3 USD"} <= set(labels)
    fifth = 100.3 * np.exp((-1.8 + 4 * 0.3) * 0.5 * np.sqrt(30 / 365))
    assert f"max pain: {fifth:.4g} USD" in labels, "4 calls of 10 below, 8 puts of 5 above: 40 and 40"
    # One of 26 options states twice the price of 100.3, a vendor's slip: the label stays.
    table = made.chain()
    [first, *_] = table.index[table["expiry"] == sorted(table["expiry"].unique())[1]]
    table.loc[first, "underlying_price"] *= 2
    ax = plot.strikes(table, expiry="2026-02-04")
    labels = [t.get_text() for t in ax.get_legend().get_texts()]
    assert "underlying: 100.3 USD" in labels
    table = made.chain()
    table.loc[table["side"] == "put", "open_interest"] = np.nan
    ax = plot.strikes(table, expiry="2026-02-04")
    assert "(13 options without open interest)" in " ".join(ax.get_title(loc="left").split())
    table.loc[table["expiry"].dt.strftime("%F") == "2026-02-04", "open_interest"] = 0.0
    with pytest.raises(ValueError, match="no option has open interest at expiry 2026-02-04"):
        plot.strikes(table, expiry="2026-02-04")
    table["open_interest"] = np.nan
    with pytest.raises(ValueError, match="no option has open interest"):
        plot.strikes(table)
    with pytest.raises(ValueError, match="chain: no option has open interest, or the sum is infinite"):
        plot.strikes(made.chain().assign(open_interest=np.inf))
    with pytest.raises(ValueError, match="chain must not have the dim 'exchange'"):
        plot.strikes(made.chains())


@pytest.mark.parametrize(
    ("figure", "data", "message"),
    [
        (plot.smile, made.chains, "a figure of smiles needs one exchange, got 2"),
        pytest.param(
            plot.smile,
            lambda: made.chain().assign(iv=np.nan),
            "no option has an implied volatility",
            marks=pytest.mark.filterwarnings("ignore:all of 104 options lack a volatility and a price"),
        ),
        (plot.term_structure, made.chains, "a term structure needs one exchange, got 2"),
        (plot.surface, lambda: made.fit().isel(expiry=[0]), "data must have at least two expiries"),
        (plot.surface, lambda: 3, r"data must be a pandas\.DataFrame or an xarray\.Dataset, got int"),
        (basis, lambda: made.basis() * np.nan, "no expiry has a basis: pass spot="),
        (basis, made.chain, r"result of dd\.analysis\.chain\.basis"),
        (
            plot.volatility,
            lambda: made.index_history().expand_dims(symbol=["BTC", "ETH"]),
            "select one symbol",
        ),
    ],
)
def test_invalid_input_is_rejected(figure: Any, data: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        figure(data())


def test_bars_over_all_expiries_have_no_max_pain() -> None:
    """Each of four expiries holds 195 coins, the second a fifth more."""
    table = made.chain()
    second = table["expiry"] == made.QUOTED + pd.Timedelta(30, "D")
    table.loc[second, "open_interest"] *= 1.2
    ax = plot.strikes(dd.tables.surface(table))
    assert sum(bar.height for bar in bars_of(ax)) == pytest.approx(13 * 4.2 * (10.0 - 5.0))
    labels = [t.get_text() for t in ax.get_legend().get_texts()]
    assert {"calls: 546 BTC", "puts: 273 BTC"} <= set(labels)
    assert not any("max pain" in label for label in labels)
    assert "in 4 expiries" in " ".join(ax.get_title(loc="left").split())
    held = plot.data(ax).groupby("side")["open_interest"].sum()
    assert held["call"] == pytest.approx(4.2 * 130.0)


def test_bars_by_expiry_are_calls_and_puts_of_its_strikes() -> None:
    """13 calls of 10 coins and 13 puts of 5 of each of four expiries; volume is 3 and 1."""
    for kind, call, put in (("open_interest", 130.0, -65.0), ("volume", 39.0, -13.0)):
        ax = plot.strikes(made.chain(), kind, by="expiry")
        assert [bar.height for bar in bars_of(ax)] == pytest.approx([call] * 4 + [put] * 4)
    assert "208 BTC" in " ".join(ax.get_title(loc="left").split())
    assert plot.data(ax)["expiry"].dt.date.astype(str).tolist()[:2] == ["2026-01-12", "2026-02-04"]
    with pytest.raises(ValueError, match="no option has volume"):
        plot.strikes(made.chain().assign(volume=np.nan), "volume")
    with pytest.raises(ValueError, match="applies only to by='strike'"):
        plot.strikes(made.chain(), by="expiry", expiry="2026-02-04")


def test_largest_strike_in_the_title_is_a_listed_one() -> None:
    """Where bars are bins of several strikes, the title names a strike, not the middle of a bin."""
    one = made.chain()
    one = one[one["expiry"] == sorted(one["expiry"].unique())[1]]
    wide = pd.concat([one.assign(strike=one["strike"] * factor) for factor in (1.0, 1.003, 1.006, 1.009)])
    wide.loc[wide["strike"] == wide["strike"].max(), "open_interest"] = 50.0
    ax = plot.strikes(wide)
    assert len({bar.x for bar in bars_of(ax)}) < wide["strike"].nunique(), "they are binned"
    assert f"most at the strike {wide['strike'].max():.4g} USD" in " ".join(ax.get_title(loc="left").split())


def test_fit_card_states_share_of_quotes_between_bid_and_ask() -> None:
    """Of 10, 30 and 60 quotes 100, 90 and 95 % are inside, which is 94 % of 100; the fourth has no bids."""
    fit = made.fit().assign(
        two_sided=("expiry", [10, 30, 60, 0]),
        inside_share=("expiry", [1.0, 0.9, 0.95, np.nan]),
        breach_vol=("expiry", [0.0, 0.0088, 0.002, np.nan]),
    )
    second = made.DAYS[1]
    facts = plot.card(fit).facts
    name = "fit between bid and ask"
    assert facts[name] == f"94 % of 100 two-sided quotes, largest breach 0.88 points at {second} days"
    whole = fit.assign(inside_share=fit["inside_share"] * 0 + 1.0, breach_vol=fit["breach_vol"] * 0)
    assert plot.card(whole).facts[name] == "100 % of 100 two-sided quotes, no breach"
    unquoted = fit.assign(two_sided=fit["two_sided"] * 0)
    assert name not in plot.card(unquoted).facts


def test_fit_card_states_parameters_error_arbitrage_and_quote_count() -> None:
    card = plot.card(made.fit())
    assert card.facts["fit"] == "essvi"
    assert card.facts["expiries"] == "4 of 4 fitted"
    assert card.facts["arbitrage"] == "none"
    assert card.table["ATM [%]"].tolist() == [50.0] * 4
    missed = made.fit().assign(rmse_vol=("expiry", [0.106, 0.01, 0.01, 0.02]))
    assert plot.card(missed).facts["error of all quotes"] == "median 1.5, largest 10.6 points at 7 days"
    assert "fit between bid and ask" not in card.facts
    assert card.table["rho"].tolist() == [-0.3] * 4
    assert card.table["psi"].tolist() == [0.06, 0.12, 0.2, 0.27]
    html = card._repr_html_()
    assert '<img alt="BTC on alpha" src="data:image/png;base64,' in html
    assert "4 of 4 fitted" in repr(card)
    flat = made.chain().assign(underlying_price=100.0)
    offered = surface.from_chain(flat)
    offered["status"] |= Status.ONE_SIDED
    card = plot.card(offered)
    assert card.facts["arbitrage"] == "none"
    assert card.table["status"].tolist() == ["forward is spot, quotes without a bid"] * 4
    vogt = smile.from_raw(svi.Raw(-0.0410, 0.1331, 0.3060, 0.3586, 0.4153), 1.0, k_min=-1.5, k_max=1.5)
    card = plot.card(vogt)
    assert card.facts["arbitrage"] == "butterfly"
    assert card.table["status"].tolist() == ["butterfly"]
    card = plot.card(dd.tables.surface(made.chain()))
    assert card.facts == {
        "options": "104",
        "expiries": "4",
        "strikes": "52",
        "as of": "2026-01-05 08:00 UTC",
    }
    assert card.table["open interest"].tolist() == [195.0] * 4
    with pytest.raises(TypeError, match="must be a fit or a surface"):
        plot.card(xr.Dataset())


def test_many_strikes_are_summed_in_bins() -> None:
    """200 strikes from 100 to 299, a call of 1 coin each: bins of 5 around 100, 105 … 300."""
    [row] = made.chain().query("side == 'call'").head(1).to_dict("records")
    rows = [row | {"strike": 100.0 + i, "instrument_name": str(i), "open_interest": 1.0} for i in range(200)]
    table = dd.tables.TABLES["options_snapshot"].conform(pd.DataFrame(rows))
    ax = plot.strikes(table)
    calls = [bar.height for bar in bars_of(ax) if bar.height > 0]
    assert calls == [3.0] + [5.0] * 39 + [2.0], "100 to 102, 103 to 107 … 298 and 299"
    middles = [bar.x + bar.width / 2 for bar in bars_of(ax) if bar.height > 0]
    assert middles == pytest.approx(np.arange(100.0, 301.0, 5.0))
    assert ax.get_xlabel() == "strike [USD, bins of 5], 98 % shown"
    assert plot.strikes(made.chain(), "gamma").get_xlabel() == "strike [USD, bins of 2], 98 % shown"
    few = plot.strikes(made.chain(), expiry="2026-02-04")
    assert few.get_xlabel() == "strike [USD], 98 % shown"
    assert "calls: 200 BTC" in [t.get_text() for t in ax.get_legend().get_texts()]


def test_title_of_a_surface_has_both_directions_if_the_skew_changes_its_sign() -> None:
    iv = np.array([[0.52, 0.49], [0.5, 0.5], [0.5, 0.5]])
    words = surfaces._finding(iv, np.array([-1.0, 0.0, 1.0]), np.array([7.0, 180.0]))
    assert words == (
        "volatility 1 σ below the forward, compared with 1 σ above: 2.0 points higher in 7 days "
        "and 1.0 points lower in 180 days"
    )


def test_option_flow_of_calls_alone_has_no_puts_in_its_title() -> None:
    """Calls at 110, with the index at 100: the axis includes the price, or no layout would fit."""
    trades = made.option_trades().query("side == 'call'")
    ax = plot.option_flow(trades, source="hand")
    ax.get_figure(root=True).canvas.draw()
    title = " ".join(ax.get_title(loc="left").split())
    assert title == "BTC on deribit: takers bought 4 BTC of calls more than they sold in 1 hour"
    low, high = ax.get_xlim()
    assert low < 100.0
    assert high > 110.0
