import csv
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.signal import lfilter

import derivdata as dd
from derivdata.analysis import funding
from derivdata.analysis.funding import forecast_errors
from derivdata.analysis.funding.accrual import summed_history
from derivdata.analysis.funding.carry_forecast import walks_of
from derivdata.analysis.status import FundingStatus
from derivdata.reports import carry as carry_section
from tests.analysis.funding_made import market, noisy
from tests.measured import carry_forecast as measured
from tests.support.recorded_funding import recorded_funding, recorded_marks
from tests.support.records import assert_identical

WEEK = "7d"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "methods" / "carry.md"


def _decaying(venues: int, rows: int, seed: int, *, half_life: float = 9.0) -> xr.DataArray:
    """Return settlements of venues whose rates are autoregressions around different levels."""
    rng = np.random.default_rng(seed)
    phi = 0.5 ** (1.0 / half_life)
    noise = rng.standard_normal((1, venues, rows))
    noise[..., 0] /= np.sqrt(1.0 - phi**2)
    return market(lfilter([1.0], [1.0, -phi], noise) + rng.standard_normal((1, venues, 1)))


def _pair(found: xr.Dataset, long: str, short: str) -> xr.Dataset:
    return found.isel(pair=int(np.flatnonzero((found["long"] == long) & (found["short"] == short))[0]))


def test_constant_spread_is_forecast_unchanged() -> None:
    """2 bps a period over 21 periods, times 5.05 / 5.1.

    All five means are equal, so the normal equations are n x² times a matrix of ones, with a penalty of a
    tenth of n x². Along (1, …, 1) this gives 5 b = 5 for the data and 0.1 b = 0.1 · ½ for the penalty, where
    b is the sum of the coefficients over the holding time: b = (5 + 0.05) / 5.1. The outcomes were above the
    forecast, so the slope shrinks nothing. The 150 known outcomes of 21 periods count as n = 150 / 21
    decisions, which shrinks by n / (n + 2), below eight. Decisions are known from period 29 to 178, of which
    every third counts; decisions before period 50 had no known outcome, a forecast of zero, and count half as
    a loss.
    """
    gross = 42.0 * 5.05 / 5.1 * (150 / 21) / (150 / 21 + 2.0)
    panel = market(np.broadcast_to(np.array([1.0, 3.0])[None, :, None], (1, 2, 200)))
    result = _pair(funding.forecast_carry(panel, hold=WEEK, fee_bps=2.0).isel(symbol=0), "v00", "v01")
    assert float(result["gross_bps"]) == pytest.approx(gross, rel=1e-9)
    assert float(result["net_bps"]) == pytest.approx(gross - 8.0, rel=1e-9)
    first = summed_history(panel, WEEK, "8h").first
    columns = np.arange(29 + (-29 - first) % 3, 179, 3)
    weight = 0.5 ** ((199 - columns) / 1095.0)
    lost = 0.5 * weight[columns < 50].sum() / weight.sum()
    assert float(result["probability_net_positive"]) == pytest.approx(1.0 - lost, abs=0.01)
    assert int(result["status"]) == FundingStatus.FEW_DECISIONS


def test_forecasts_of_opposite_directions_are_mirrored() -> None:
    paid, noise = _decaying(4, 300, 1), np.random.default_rng(6).standard_normal((1, 4, 300))
    marks = (100.0 + 0.1 * noise) * xr.ones_like(paid.drop_vars("interval_hours"))
    result = funding.forecast_carry(paid, hold=WEEK, fee_bps=0.0, prices=marks.assign_attrs(units="USD"))
    result = result.isel(symbol=0)
    assert result.sizes["pair"] == 12
    ends = [(f"{part}_low_bps", f"{part}_high_bps") for part in ("net", "funding", "price")]
    for long, short in (("v00", "v01"), ("v02", "v03")):
        there, back = _pair(result, long, short), _pair(result, short, long)
        for name, other in (("net_bps", "net_bps"), ("net_median_bps", "net_median_bps"), *ends):
            assert float(there[name]) == pytest.approx(-float(back[other]), rel=1e-12)
        both = float(there["probability_net_positive"] + back["probability_net_positive"])
        assert both == pytest.approx(1.0, abs=1e-12)
        assert there["net_low_bps"] < there["net_median_bps"] < there["net_high_bps"]


def test_forecasts_do_not_depend_on_venue_names() -> None:
    """The second names sort in the opposite order. Rates without memory forecast 0 for every pair."""
    rng = np.random.default_rng(4)
    without_memory = market(rng.standard_normal((1, 4, 300)) ** 3)
    for panel in (without_memory, _decaying(5, 200, 3)):
        names = panel["exchange"].values
        renamed = [f"x{9 - place}" for place in range(names.size)]
        options = {"hold": WEEK, "fee_bps": 0.0}
        before = funding.forecast_carry(panel, **options).isel(symbol=0)
        after = funding.forecast_carry(panel.assign_coords(exchange=renamed), **options).isel(symbol=0)
        for long, short in ((0, 1), (3, 2)):
            expected = _pair(before, names[long], names[short]).drop_vars(["pair", "long", "short"])
            actual = _pair(after, renamed[long], renamed[short]).drop_vars(["pair", "long", "short"])
            xr.testing.assert_allclose(actual, expected, rtol=1e-9)


@pytest.mark.parametrize("beyond", [0.0, 12.0])
def test_forecasts_stay_within_published_caps(beyond: float) -> None:
    """Bybit pays its cap of 50 bps, okx its floor of −37.5, now and then nothing: 21 times 87.5 at most.

    A payment beyond the cap shows that the fact is behind, and widens the bound.
    """
    rng, times = np.random.default_rng(2), pd.date_range("2026-09-12", periods=300, freq="8h")
    rates = np.array([[50.0], [-37.5]]) * (rng.random((2, 300)) > 0.2)
    rates[0, 20] += beyond
    panel = xr.DataArray(
        rates[None],
        {"symbol": ["BTC"], "exchange": ["bybit", "okx"], "time": times.to_numpy(), "interval_hours": 8.0},
        ("symbol", "exchange", "time"),
        attrs={"units": "bps/8h", "kind": "settled"},
    )
    free = panel.assign_coords(exchange=["x", "y"])
    known, unknown = (
        _pair(funding.forecast_carry(item, hold=WEEK, fee_bps=1.0, level=0.99).isel(symbol=0), long, short)
        for item, long, short in ((panel, "okx", "bybit"), (free, "y", "x"))
    )
    most = 21.0 * (max(50.0, rates[0].max()) + 37.5)
    assert float(unknown["net_high_bps"]) > most - 4.0
    assert float(known["net_high_bps"]) == pytest.approx(most - 4.0)
    assert float(known["gross_bps"]) == pytest.approx(min(float(unknown["gross_bps"]), most))
    assert float(known["net_low_bps"]) == pytest.approx(float(unknown["net_low_bps"]))


def test_costs_are_subtracted_from_the_outcome() -> None:
    panel = _decaying(3, 300, 2)
    keywords = {"hold": WEEK}
    free = funding.forecast_carry(panel, fee_bps=0.0, **keywords)
    paid = funding.forecast_carry(panel, fee_bps={"v00": 1.0, "v01": 2.0, "v02": 4.0}, **keywords)
    assert _pair(paid, "v01", "v02")["cost_bps"] == 2 * (2.0 + 4.0)
    for name in ("net_bps", "net_median_bps", "net_low_bps", "net_high_bps"):
        xr.testing.assert_allclose(free[name] - paid["cost_bps"], paid[name])
    assert (paid["probability_net_positive"] < free["probability_net_positive"]).all()
    assert_identical(free["gross_bps"], paid["gross_bps"])


def test_pairs_are_chosen_and_do_not_change_each_other() -> None:
    panel = _decaying(4, 200, 3)
    keywords = {"hold": "3d", "fee_bps": 0.25}
    every = funding.forecast_carry(panel, **keywords)
    some = funding.forecast_carry(panel, [("v03", "v01"), ("v00", "v02")], **keywords)
    assert some["long"].values.tolist() == ["v03", "v00"]
    assert some["short"].values.tolist() == ["v01", "v02"]
    assert_identical(some.isel(pair=0), _pair(every, "v03", "v01"))


def test_missing_history_gives_no_forecast() -> None:
    panel = _decaying(4, 200, 5)
    panel[0, 1, -4:] = np.nan  # over a day
    panel[0, 2, :-29] = np.nan
    result = funding.forecast_carry(panel, hold="3d", fee_bps=0.0).isel(symbol=0)
    for leg, reason in (("v01", FundingStatus.GAP), ("v02", FundingStatus.TOO_FEW)):
        pair = _pair(result, "v00", leg)
        assert int(pair["status"]) == reason
        assert np.isnan(pair["net_bps"])
        assert np.isnan(pair["probability_net_positive"])
    assert int(_pair(result, "v00", "v03")["status"]) == 0
    result = funding.forecast_carry(_decaying(3, 45, 6), hold=WEEK, fee_bps=0.0)
    assert (result["status"] == FundingStatus.TOO_FEW).all()
    assert result["net_bps"].isnull().all()
    # decisions at the periods 30 to 43 have 30 periods before them; of 45, those up to 24 are over
    assert (result["decisions"] == 0).all()


@pytest.mark.parametrize("venues", [2, 3, 7, 40])
@pytest.mark.parametrize("days", [20, 30, 60, 400])
def test_interval_is_not_wider_than_past_errors(venues: int, days: int) -> None:
    """An autoregression under noise as large as itself: sizes that rest on few errors must not explode."""
    values = _decaying(venues, 3 * days, 1).values
    values += np.random.default_rng(100 * venues).standard_normal(values.shape)
    result = funding.forecast_carry(market(values), hold=WEEK, fee_bps=0.0).isel(symbol=0)
    width = (result["net_high_bps"] - result["net_low_bps"]).values
    assert ((result["status"] & FundingStatus.TOO_FEW) > 0).all() == np.isnan(width).all() == (days == 20)
    weeks = np.lib.stride_tricks.sliding_window_view(values[0], 21, axis=-1).sum(axis=-1)
    assert days == 20 or width.max() <= 20.0 * (weeks[:, None] - weeks[None]).std()


@pytest.mark.parametrize("days", [30, 60])
@pytest.mark.parametrize("venues", [4, 7])
def test_interval_is_not_wider_than_past_errors_of_the_pair(venues: int, days: int) -> None:
    """Two venues move a hundredth as much as the others: the others' errors do not widen their interval."""
    values = _decaying(venues, 3 * days, 5).values
    values[0, :2] = 1.0 + 0.01 * values[0, :2]
    result = funding.forecast_carry(market(values), hold=WEEK, fee_bps=0.0).isel(symbol=0)
    width = (result["net_high_bps"] - result["net_low_bps"]).values
    weeks = np.lib.stride_tricks.sliding_window_view(values[0], 21, axis=-1)[:, 1:].sum(axis=-1)
    names = [f"v{place:02d}" for place in range(venues)]
    long, short = (np.array([names.index(name) for name in result[leg].values]) for leg in ("long", "short"))
    own = (weeks[short] - weeks[long]).std(axis=1)
    assert (width <= 20.0 * own * (1.0 + 1e-9)).all()
    assert own.max() > 50.0 * own.min()


def test_interval_is_not_wider_for_a_pair_of_zero_expected_carry() -> None:
    """Weeks alternate in sign, so nothing is expected; rare jumps make errors skewed in one direction.

    Without a direction, the errors count in both, and 90 % of them span more than in one.
    """
    rng = np.random.default_rng(13)
    periods = np.arange(180)
    alternating = -np.sign(np.sin(2.0 * np.pi * periods / 42.0 + 13.0)) * rng.exponential(1.0, 180)
    jumps = (rng.random(180) < 0.01) * rng.exponential(60.0, 180) * np.sign(rng.random() - 0.5)
    values = np.stack([np.zeros(180), alternating + jumps])[None]
    result = funding.forecast_carry(market(values), hold=WEEK, fee_bps=0.0).isel(symbol=0)
    own = np.lib.stride_tricks.sliding_window_view(values[0, 1], 21)[1:].sum(axis=-1).std()
    assert (result["net_bps"] == 0.0).all()
    width = (result["net_high_bps"] - result["net_low_bps"]).values
    assert (width <= 20.0 * own * (1.0 + 1e-9)).all()


@pytest.mark.parametrize(("periods", "has_interval"), [(38, False), (39, True)])
def test_pair_with_a_short_history_has_a_mean_without_interval(periods: int, has_interval: bool) -> None:
    """With a hold of 21 periods, 39 periods of a new venue have 21 outcomes, and 38 have 20.

    39 − 21 of them begin with a payment. Three more lack up to two periods, and nine tenths are enough.
    """
    panel = _decaying(4, 180, 5)
    panel[0, 3, :-periods] = np.nan
    result = funding.forecast_carry(panel, hold=WEEK, fee_bps=0.0).isel(symbol=0)
    new, old = _pair(result, "v00", "v03"), _pair(result, "v00", "v01")
    for pair, expected in ((new, has_interval), (old, True)):
        assert np.isfinite(pair["net_bps"])
        for name in ("net_low_bps", "net_median_bps", "net_high_bps", "probability_net_positive"):
            assert np.isfinite(pair[name]) == expected
        assert bool(int(pair["status"]) & FundingStatus.CANNOT_TELL) != expected


def test_decisions_are_counted_by_the_holding_time_they_span() -> None:
    """Of n periods, the 30th and later make decisions, until one hold of 21 before the end: (n − 29 − 21) /
    21.
    """
    for days, status in ((60, FundingStatus.FEW_DECISIONS), (120, FundingStatus(0))):
        result = funding.forecast_carry(_decaying(4, 3 * days, 2), hold=WEEK, fee_bps=0.0)
        assert result["decisions"].values == pytest.approx((3 * days - 29 - 21) / 21)
        assert (result["status"] == status).all()
        assert np.isfinite(result["net_bps"]).all()


def test_forecasts_and_picks_have_no_look_ahead() -> None:
    panel = noisy(symbols=2, venues=4, rows=400, gaps=0.02, seed=8)
    keywords = {"hold": "3d", "fee_bps": 0.5}
    record = funding.pick_record(panel, **keywords)
    at = record["time"].values[30]
    changed = panel.where(panel["time"] <= at, 1e3 * np.random.default_rng(0).standard_normal(panel.shape))
    again = funding.pick_record(changed, **keywords)
    forecast = ["long", "short", "predicted_net_bps", "predicted_low_bps", "predicted_high_bps", "cost_bps"]
    assert_identical(*(part[forecast].sel(time=slice(None, at)) for part in (record, again)))
    assert not record[forecast].equals(again[forecast])
    cut = funding.forecast_carry(panel.sel(time=slice(None, at)), **keywords)
    for number in range(2):
        pick, result = record.isel(symbol=number).sel(time=at), cut.isel(symbol=number)
        best = result.isel(pair=int(result["net_bps"].argmax("pair")))
        assert (best["long"].item(), best["short"].item()) == (pick["long"].item(), pick["short"].item())
        for of_record, of_forecast in (
            ("predicted_net_bps", "net_bps"),
            ("predicted_low_bps", "net_low_bps"),
        ):
            assert float(pick[of_record]) == pytest.approx(float(best[of_forecast]), rel=1e-9)


def test_marks_with_slightly_late_times_belong_to_the_hour() -> None:
    """a 5 ms, b 40 s and c 0 s past each hour: the same forecast as of punctual marks, for all pairs."""
    paid = _decaying(3, 160, 4)
    steps = 1e-3 * np.random.default_rng(5).standard_normal(paid.shape)
    marks = paid.copy(data=100.0 * np.exp(np.cumsum(steps, axis=-1))).drop_vars("interval_hours")
    marks = marks.drop_attrs().assign_attrs(units="USD")
    late = [
        marks.isel(exchange=[place]).assign_coords(time=marks["time"] + np.timedelta64(1000 * ms, "us"))
        for place, ms in enumerate((5, 40_000, 0))
    ]
    apart = xr.concat(late, "exchange", join="outer")
    punctual, result = (
        funding.forecast_carry(paid, hold="3d", fee_bps=0.0, prices=one) for one in (marks, apart)
    )
    assert punctual["price_bps"].notnull().all()
    xr.testing.assert_allclose(result, punctual, rtol=1e-12)
    one = paid.isel(symbol=0, drop=True)
    two = marks.isel(symbol=[0, 0]).assign_coords(symbol=["BTC", "ETH"])
    with pytest.raises(ValueError, match=r"several symbols.*assign_coords\(symbol='BTC'\)"):
        funding.forecast_carry(one, hold="3d", fee_bps=0.0, prices=two)
    with pytest.raises(ValueError, match="prices must have 'SOL' once along 'symbol', got it 0 times"):
        funding.forecast_carry(one.assign_coords(symbol="SOL"), hold="3d", fee_bps=0.0, prices=two)


def test_past_errors_do_not_depend_on_requested_periods_or_empty_venues(monkeypatch) -> None:
    """The last 60 decisions of 3 pairs are used, with any other periods and venues present."""
    monkeypatch.setattr(forecast_errors, "_MAX_ERRORS", 180)
    panel = _decaying(3, 400, 6)
    plan = summed_history(panel, WEEK, "8h").plan
    empty = np.pad(panel.values[0], [(0, 1), (0, 0)], constant_values=np.nan)

    def errors_at_period_399(rates, periods):
        walk = walks_of(rates, None, plan, np.array(periods))[0]
        return forecast_errors.pair_distribution(walk, 399)

    of_one_period = errors_at_period_399(panel.values[0], [399])
    of_many_periods = errors_at_period_399(panel.values[0], [*range(200, 400)])
    of_empty_venue = errors_at_period_399(empty, [399])
    assert of_one_period[-1] == of_many_periods[-1] == of_empty_venue[-1] == 60
    for expected, actual in zip(of_one_period, of_many_periods, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-12)


def test_track_record_states_realised_carry_of_its_picks() -> None:
    """As `realised_carry` computes it if no payment is missing; the last position is still open."""
    panel = _decaying(5, 200, 9)
    record = funding.pick_record(panel, hold="3d", fee_bps=1.0).isel(symbol=0)
    known = record["realised_net_bps"].dropna("time")
    assert known.size > 10
    for at in known["time"].values:
        pick = record.sel(time=at)
        paid = funding.realised_carry(
            panel.isel(symbol=0),
            pick["long"].item(),
            pick["short"].item(),
            pd.Timestamp(at),
            pd.Timestamp(at) + pd.Timedelta(hours=72),
            fee_bps=1.0,
        )
        assert float(pick["realised_net_bps"]) == pytest.approx(float(paid["net_bps"]), abs=1e-9)
    assert int(record["status"][-1]) == FundingStatus.OPEN
    assert int(record["status"][0]) == FundingStatus.TOO_FEW
    assert record["long"].values[0] == ""


def test_benchmark_rules_pick_by_their_own_lookback() -> None:
    panel = _decaying(5, 200, 10)
    week, last = (
        funding.pick_record(panel, hold="3d", fee_bps=0.0, rule=rule).isel(symbol=0, time=-1)
        for rule in ("mean_7d", "last")
    )
    known = panel.isel(symbol=0).sel(time=slice(None, week["time"].values))
    mean = known.isel(time=slice(-21, None)).mean("time")
    assert week["short"].item() == mean.idxmax("exchange").item()
    assert week["long"].item() == mean.idxmin("exchange").item()
    assert float(week["predicted_net_bps"]) == pytest.approx(9 * float(mean.max() - mean.min()))
    assert last["short"].item() == known.isel(time=-1).idxmax("exchange").item()


def test_summary_equals_hand_calculation() -> None:
    record = xr.Dataset(
        {
            "predicted_net_bps": ("time", [3.0, 1.0, -1.0, 2.0, np.nan]),
            "predicted_low_bps": ("time", [0.0, 0.0, -2.0, 1.0, np.nan]),
            "predicted_high_bps": ("time", [5.0, 2.0, 0.0, 3.0, np.nan]),
            "realised_net_bps": ("time", [4.0, -3.0, -2.0, np.nan, np.nan]),
        }
    )
    assert int(funding.pick_summary(record)["picks"]) == 2, "the pick forecast to lose is nobody's"
    result = funding.pick_summary(record, min_predicted_bps=None)
    assert int(result["picks"]) == 3
    assert float(result["predicted_net_bps"]) == pytest.approx(1.0)
    assert float(result["realised_net_bps"]) == pytest.approx(-1.0 / 3.0)
    assert float(result["difference_bps"]) == pytest.approx(4.0 / 3.0)
    assert float(result["coverage"]) == pytest.approx(2.0 / 3.0)
    assert float(result["share_positive"]) == pytest.approx(1.0 / 3.0)
    above = funding.pick_summary(record, min_predicted_bps=2.0)
    assert (int(above["picks"]), float(above["realised_net_bps"])) == (1, 4.0)
    none = funding.pick_summary(record, min_predicted_bps=9.0)
    assert int(none["picks"]) == 0
    assert np.isnan(none["coverage"])
    assert int(result["decisions"]) == 3


@pytest.mark.parametrize(("decisions", "has_interval"), [(9, False), (10, True)])
def test_fewer_than_ten_decisions_give_no_interval(decisions: int, has_interval: bool) -> None:
    """Two symbols: eighteen positions at nine decisions count as nine decisions."""
    earned = 1.0 + np.random.default_rng(1).standard_normal((2, decisions))
    record = xr.Dataset(
        {
            "predicted_net_bps": (("symbol", "time"), np.ones((2, decisions))),
            "predicted_low_bps": (("symbol", "time"), -np.ones((2, decisions))),
            "predicted_high_bps": (("symbol", "time"), 3.0 * np.ones((2, decisions))),
            "realised_net_bps": (("symbol", "time"), earned),
        }
    )
    result = funding.pick_summary(record)
    assert (int(result["picks"]), int(result["decisions"])) == (2 * decisions, decisions)
    for name in ("difference", "realised", "coverage"):
        unit = "" if name == "coverage" else "_bps"
        assert np.isfinite(result[f"{name}_low{unit}"]) == has_interval
        assert np.isfinite(result[f"{name}_high{unit}"]) == has_interval
    assert np.isfinite(result["difference_bps"])
    words = carry_section._record_words(result, 2, 30.0)
    assert ("agree" in words, "confidence" in words) == (has_interval, has_interval)
    assert f"{2 * decisions} selections" in words
    assert "nan" not in words


def test_forecast_has_units_kind_and_provenance() -> None:
    panel = _decaying(3, 200, 11).assign_attrs(provenance='{"synthetic": true}')
    result = funding.forecast_carry(panel, hold="3d", fee_bps=0.0)
    assert result["net_low_bps"].attrs["units"] == "bps"
    record = funding.pick_record(panel, hold="3d", fee_bps=0.0)
    assert all(dd.provenance(item)["synthetic"] is True for item in (result, record))
    assert result.attrs["kind"] == funding.pick_summary(record).attrs["kind"] == "settled"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hold": "12h"}, "hold must be a whole number of periods of 8 h, got '12h'"),
        (
            {"period": "48h", "hold": "96h"},
            "period must be at most 1 day, because the forecast uses the last day, got '48h'",
        ),
        ({"fee_bps": {"v00": 1.0}}, "fee_bps does not have a fee for v01, v02"),
        ({"fee_bps": np.inf}, "finite"),
        ({"level": 90.0}, "probability"),
        ({"pairs": [("v00", "v09")]}, "'v09' is not a venue"),
        ({"pairs": [("v00", "v00")]}, "pairs must have two different venues, got 'v00'/'v00'"),
        ({"panel": _decaying(3, 60, 1).isel(exchange=[0])}, "two venues"),
        ({"panel": _decaying(3, 60, 1).isel(exchange=[0, 0])}, "panel must have each venue once"),
    ],
)
def test_invalid_arguments_are_rejected(options: dict[str, object], message: str) -> None:
    keywords = {"panel": _decaying(3, 60, 1), "hold": "3d", "fee_bps": 0.0} | options
    with pytest.raises(ValueError, match=message):
        funding.forecast_carry(**keywords)


@pytest.fixture(scope="module")
def recorded() -> xr.DataArray:
    return recorded_funding()


def _printed(name: str, columns: int) -> list[list[str]]:
    """The rows of a table that docs/methods/carry.md includes."""
    with (PAGE.parent / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    assert all(len(row) == columns for row in rows)
    return rows


def _number(text: str) -> float:
    return float(re.sub(r"[^0-9.+-]", "", text))


def test_recorded_forecasts_beat_the_others_in_every_period(recorded) -> None:
    """Over 9,770 pair-weeks that all four methods have, as the page prints them."""
    table = measured.scores(measured.forecasts(recorded))
    ours = table[table["method"] == "forecast_carry"].set_index("period")
    for method, theirs in table[table["method"] != "forecast_carry"].groupby("method"):
        theirs = theirs.set_index("period")
        for score in ("rmse", "winkler"):
            assert ours.loc["pooled", score] < theirs.loc["pooled", score], (method, score)
            assert (ours[score] <= 1.05 * theirs[score]).all(), (method, score)
    assert 0.85 <= ours.loc["pooled", "coverage"] <= 0.95
    printed = {(row[0], row[2]): row for row in _printed("carry_forecasts", 7)}
    for row in table.itertuples():
        line = printed[(row.period, row.method)]
        assert _number(line[1]) == row.rows
        assert _number(line[3]) == pytest.approx(row.rmse, abs=0.1)
        assert _number(line[4]) == pytest.approx(row.winkler, abs=0.2)
        assert _number(line[5]) == pytest.approx(100 * row.coverage, abs=0.2)


@pytest.fixture(scope="module")
def free(recorded) -> dict[str, xr.Dataset]:
    """Return records without cost; a cost that is equal for all pairs changes no selection."""
    return measured.picks(recorded, 0.0)


@pytest.mark.parametrize("cost", [8.0, 20.0])
def test_recorded_picks_earn_their_forecast(free, cost: float) -> None:
    records = {rule: measured.after(record, cost) for rule, record in free.items()}
    result = funding.pick_summary(records["forecast"], min_predicted_bps=0.0)
    assert result["difference_low_bps"] < 0.0 < result["difference_high_bps"]
    assert result["coverage_low"] < 0.9 < result["coverage_high"]
    assert result["realised_low_bps"] > 0.0
    (line,) = (row for row in _printed("carry_picks", 8) if row[:3] == [f"{cost:g}", "forecast", "pooled"])
    assert _number(line[3]) == int(result["picks"])
    assert _number(line[5]) == pytest.approx(float(result["realised_net_bps"]), abs=0.1)
    for rule, sure in (("last", True), ("mean_7d", False)):
        mean, low, _ = measured.advantage(records["forecast"], records[rule])
        assert mean > 0.0
        assert (low > 0.0) == sure
        other = funding.pick_summary(records[rule], min_predicted_bps=0.0)
        assert other["difference_low_bps"] > 5.0  # what such rules promise they do not earn


def test_notebook_shows_these_picks(free) -> None:
    stored = pd.read_csv(measured.STORED, parse_dates=["time"])
    made = measured.pick_table(free)
    names = ["rule", "symbol", "long", "short"]
    assert stored[names].astype(str).equals(made[names].astype(str))
    assert (stored["time"].to_numpy() == made["time"].to_numpy()).all()
    for name in ("predicted_bps", "low_bps", "high_bps", "realised_bps"):
        np.testing.assert_allclose(stored[name], made[name], atol=0.02)


@pytest.mark.parametrize(("hold", "funding_alone"), [("8h", 0.5), ("7d", 0.85)])
def test_intervals_of_funding_and_prices_cover_realised_carry(hold: str, funding_alone: float) -> None:
    """Four perpetuals of bybit and okx, BTC and ETH, 2023 to mid-2024, decided at 00:00 UTC."""
    marks = recorded_marks()
    paid = recorded_funding().sel(exchange=marks["exchange"].to_numpy(), time=slice("2023", None))
    every = "7d" if hold == "7d" else "3d"
    result = funding.forecast_history(paid, hold=hold, fee_bps=0.0, prices=marks, every=every)
    outcome = result["realised_net_bps"]
    there = np.isfinite(outcome + result["net_low_bps"]) & (result["long"] < result["short"])
    assert int(there.sum()) > 700
    inside = (result["net_low_bps"] <= outcome) & (outcome <= result["net_high_bps"])
    assert 0.85 <= float(inside.where(there).mean()) <= 0.95
    only = (result["funding_low_bps"] <= outcome) & (outcome <= result["funding_high_bps"])
    assert float(only.where(there).mean()) < funding_alone
    np.testing.assert_allclose(
        result["gross_bps"].where(there),
        (result["funding_bps"] + result["price_bps"]).where(there),
        atol=1e-9,
    )
    at = result["time"].to_numpy()[-5]
    alone = funding.forecast_carry(paid.sel(time=slice(None, at)), hold=hold, fee_bps=0.0, prices=marks)
    for name in ("net_bps", "net_low_bps", "net_high_bps", "price_high_bps"):
        np.testing.assert_allclose(alone[name], result[name].sel(time=at), rtol=1e-9, atol=1e-9)
    complete = funding.forecast_carry(
        paid.sel(time=slice(None, at)), hold=hold, fee_bps=0.0, prices=marks, component_intervals=False
    )
    ends = {f"{part}_{end}_bps" for part in ("funding", "price") for end in ("low", "high")}
    assert_identical(complete, alone.drop_vars(ends))
