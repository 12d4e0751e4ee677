import numpy as np
import pandas as pd
import pytest
import xarray as xr

from derivdata.analysis import black76, business_time, position, surface, variance
from derivdata.analysis.status import Status
from derivdata.analysis.surface.maturity import clock_of

FRIDAY = pd.Timestamp("2026-01-02T08:00")
HOUR = 1 / (365 * 24)
WEEKEND = {"weekend_weight": 0.5}


def flat(
    days: tuple[float, ...], total: tuple[float, ...], at: pd.Timestamp = FRIDAY, forward: float = 100.0
) -> xr.Dataset:
    """Smiles without slope or bend of these total variances, so many days after a time."""
    zero = np.zeros(len(days))
    years = np.array(days) / 365
    fit = surface.from_essvi(total, zero, zero, years, forward=forward + zero)
    expiry = (at + pd.to_timedelta(days, "D")).to_numpy().astype("datetime64[us]")
    return fit.assign_coords(expiry=expiry)


THREE = flat((1, 4, 11), (0.002, 0.006, 0.02), FRIDAY - pd.Timedelta(1, "D"))
"""Quoted on a Thursday; expiries on Friday, Monday and the Monday after, all at 08:00."""
SUNDAY = 3 / 365


def total(made: xr.Dataset, years: float, clock: object) -> float:
    return float(surface.iv(made, 0.0, years, clock=clock)) ** 2 * years


def test_a_weekend_counts_for_its_weight() -> None:
    """Friday to Sunday are 16 hours and 32 of a weekend, to Monday 24 and 48: 32 of 48 at a half."""
    assert total(THREE, SUNDAY, 0.5) == pytest.approx(0.002 + 0.004 * 32 / 48, rel=1e-12)
    assert total(THREE, SUNDAY, WEEKEND) == pytest.approx(0.002 + 0.004 * 32 / 48, rel=1e-12)
    assert total(THREE, SUNDAY, 1.0) == pytest.approx(total(THREE, SUNDAY, None), rel=1e-12)
    # A whole week lasts a week: Monday to Monday is even again from Monday on.
    assert total(THREE, 11 / 365, 0.5) == pytest.approx(0.02, rel=1e-12)
    # Before the first expiry: Thursday 08:00 to 20:00 is half of the day.
    assert total(THREE, 0.5 / 365, 0.5) == pytest.approx(0.001, rel=1e-12)
    # A weekend that does not count at all: between two of its hours nothing grows.
    still = flat((2, 2.5), (0.003, 0.0031))
    assert total(still, 2.25 / 365, 0.0) == pytest.approx(0.00305, rel=1e-12)


def test_an_event_adds_its_variance_at_its_instant() -> None:
    """0.001 of the 0.004 between Friday and Monday come at noon on Saturday, the rest hour by hour."""
    clock = {"events": {"2026-01-03T12:00Z": 0.001}}
    for years, expected in ((2 / 365, 0.002 + 0.003 / 3), (SUNDAY, 0.002 + 0.003 * 2 / 3 + 0.001)):
        assert total(THREE, years, clock) == pytest.approx(expected, rel=1e-12)
    # Of a first expiry: half of what is no event by Thursday 20:00.
    early = {"events": {"2026-01-02T04:00Z": 0.0015}}
    assert total(THREE, 0.5 / 365, early) == pytest.approx(0.00025, rel=1e-12)
    # An event that is over, and one after the last expiry, move nothing.
    over = {"events": {"2025-12-31T00:00Z": 0.01, "2026-06-01T00:00Z": 0.01}}
    assert total(THREE, SUNDAY, over) == pytest.approx(total(THREE, SUNDAY, None), rel=1e-12)
    # More than there is is all that there is, and said.
    great = {"events": {"2026-01-03T12:00Z": 0.01}}
    result = surface.constant_maturity(THREE, tenors=["2d", "3d"], points=["atm"], clock=great)
    np.testing.assert_allclose(result["atm"] ** 2 * result["tenor"] / 365, [0.002, 0.006], rtol=1e-12)
    assert (result["status"] & Status.CALENDAR).astype(bool).all()


def test_local_and_forward_variance_follow_the_clock() -> None:
    """Sunday at half a weight: 0.004 over 48 weighted hours, half of it an hour."""
    per_year = 0.004 / 48 * 0.5 / HOUR
    result = surface.local_volatility(THREE, [-0.02, 0.0, 0.01], SUNDAY, clock=0.5)
    np.testing.assert_allclose(result["local_variance"], per_year, rtol=1e-6)
    step = surface.forward_variance(THREE, SUNDAY, SUNDAY + HOUR, clock=0.5)
    assert float(step["variance"]) == pytest.approx(per_year, rel=1e-9)


def test_an_index_between_two_expiries_follows_the_clock() -> None:
    quoted = xr.Dataset(
        {"total_variance": ("expiry", [0.002, 0.006])},
        {"expiry": THREE["expiry"][:2], "year_fraction": ("expiry", np.array([1, 4]) / 365)},
    )
    result = variance.volatility_index(quoted, horizon="3d", clock=0.5)
    assert float(result["index"]) ** 2 * SUNDAY == pytest.approx(0.002 + 0.004 * 32 / 48, rel=1e-12)
    assert float(result["near_share"]) == pytest.approx(16 / 48, rel=1e-12)


def test_result_of_the_fit_is_usable_as_a_clock() -> None:
    """Variance of 0.3 a business year and an event of 0.002, fitted, give back an expiry omitted."""
    days = np.array([1, 2, 3, 4, 5, 8, 15, 22, 29, 57])
    at = pd.Timestamp("2026-01-01T08:00")
    ends = (at + pd.to_timedelta(days, "D")).to_numpy().astype("datetime64[us]")
    w = 0.3 * business_time.years(str(at), ends, weekend_weight=0.4) + 0.002 * (days > 4)
    fit = flat(tuple(days), tuple(w), at)
    fitted = business_time.fit(fit, events=["2026-01-05T18:00Z"], measure="atm")
    less = fit.isel(expiry=[0, 1, 2, 3, 5, 6, 7, 8, 9])  # without the expiry just after the event
    actual = total(less, days[4] / 365, fitted)
    assert actual == pytest.approx(w[4], rel=5e-3)
    assert abs(total(less, days[4] / 365, None) / w[4] - 1) > 0.15
    falls = business_time.fit(fit, events=["2026-01-03T18:00Z"], measure="atm")
    assert float(falls["event_variance"][0]) >= 0.0
    assert total(less, days[4] / 365, falls) > 0.0
    lost = xr.concat([fitted, fitted.where(False)], "time")
    both = xr.concat([less, less], "time")
    cut = surface.constant_maturity(both, tenors=["5d"], points=["atm"], clock=lost)
    assert float(cut["atm"][0, 0]) ** 2 * days[4] / 365 == pytest.approx(actual, rel=1e-12)
    assert np.isnan(cut["atm"][1, 0])
    assert int(cut["status"][1, 0]) == Status.UNDETERMINED


@pytest.mark.parametrize("end", ["2026-01-03T03:00", "2026-01-05T02:30", "2026-01-05T09:00"])
def test_averaging_weights_each_hour_by_the_clock(end: str) -> None:
    """Over a weekend's ends, by a sum over ten seconds each."""
    rules = clock_of({"weekend_weight": 0.25, "averaging": "6h"})
    start, end_of = pd.Timestamp("2026-01-02"), pd.Timestamp(end)
    steps = pd.date_range(start, end_of, freq="10s", inclusive="left")
    left = (end_of - steps - pd.Timedelta("5s")) / pd.Timedelta("6h")
    weights = np.where(steps.day_of_week >= 5, 0.25, 1.0) * 7 / 5.5
    expected = (left.to_numpy().clip(0.0, 1.0) ** 2 @ weights) * 10 / (365 * 86400)
    years = xr.DataArray((end_of - start) / pd.Timedelta("365D"))
    result = rules.read(xr.DataArray(start.value / 1e3), years).business
    assert float(result) == pytest.approx(expected, rel=1e-6)


BOOK = pd.DataFrame(
    {
        "expiry": pd.to_datetime(["2026-01-05T08:00Z", "2026-01-05T08:00Z"]),
        "strike": [100.0, 104.0],
        "side": ["put", "call"],
        "quantity": [1.0, -2.0],
    }
)


@pytest.mark.parametrize(
    "clock",
    [0.5, 0.0001, {"averaging": "30min"}, {"weekend_weight": 0.5, "events": {"2026-01-04T12:00Z": 0.0005}}],
    ids=["half", "hardly", "averaged", "with an event"],
)
@pytest.mark.parametrize("hours", [-20.0, 24.0, 71.0, 71.8])
def test_theta_and_charm_equal_finite_differences_in_time(clock: object, hours: float) -> None:
    """By revaluation a thousandth of an hour later, on a Thursday, in a weekend and near the expiry."""
    left = 3.0 - hours / 24
    fit = flat((left, left + 7), (0.004, 0.012), FRIDAY + pd.Timedelta(hours, "h"))
    now = position.greeks(BOOK, fit, clock=clock)
    step = "4ms" if hours > 70 else "4s"
    years = pd.Timedelta(step) / pd.Timedelta(365, "D")
    later = position.scenarios(BOOK, fit, elapsed=step, spot_change=[-1e-4, 0.0, 1e-4], clock=clock)
    moved = later["pnl_by_leg"].squeeze(["vol_change", "days"])
    slope = moved.sel(spot_change=0.0) / years
    np.testing.assert_allclose(slope, now["theta"], rtol=2e-3, atol=1e-6)
    if hours == 24.0:
        plain = position.greeks(BOOK, fit)["theta"]
        pace = float((now["theta"] / plain).isel(currency=0, leg=0))
        if clock == 0.5:  # 40 hours of the weekend are left, and 8 of Monday: 20 + 8 weighted hours
            assert pace == pytest.approx(0.5 * 48 / 28, rel=1e-9)
        elif clock == 0.0001:
            assert pace < 1e-3


def test_variance_left_of_an_average_falls_with_the_third_power() -> None:
    """An hour before expiry, 60 − 20 minutes count. 30 minutes later 10 of them remain, then 10 (1/3)³."""
    at = pd.Timestamp("2026-01-05T07:00")
    fit = flat((1 / 24, 7), (0.0004, 0.012), at)
    clock = {"averaging": "30min"}
    result = position.scenarios(BOOK[:1], fit, elapsed=["30min", "50min"], clock=clock)
    value = result["value"].sel(currency="usd").squeeze(["spot_change", "vol_change"])
    for i, share in enumerate((10 / 40, 10 / 27 / 40)):
        w = 0.0004 * share
        assert float(value[i]) == pytest.approx(black76.price(100.0, 100.0, 1.0, w**0.5, "put"), rel=1e-9)


def test_scenarios_and_attributions_age_by_the_clock() -> None:
    """From Saturday to Sunday 08:00 at half a weight 12 of 28 weighted hours pass, and the P&L is theta's."""
    saturday = FRIDAY + pd.Timedelta(1, "D")
    before = flat((2, 9), (0.0028, 0.01), saturday)
    after = flat((1, 8), (0.0016, 0.0088), saturday + pd.Timedelta(1, "D"))
    put = black76.price(100.0, 100.0, 1.0, 0.0016**0.5, "put")
    for sticky in ("strike", "delta", 0.0):
        result = position.scenarios(BOOK[:1], before, elapsed="1d", sticky=sticky, clock=0.5)
        assert float(result["value"].sel(currency="usd").squeeze()) == pytest.approx(put, rel=1e-9), sticky
    for method in ("greeks", "revaluation"):
        result = position.attribution(BOOK, before, after, method=method, clock=0.5).sel(currency="usd")
        terms = result["contribution"].to_series()
        assert terms["theta"] == pytest.approx(float(result["pnl"]), rel=1e-9)
        assert abs(terms.drop("theta")).max() < 1e-9 * abs(terms["theta"])
        without = position.attribution(BOOK, before, after, method=method).sel(currency="usd")
        assert abs(float(without["contribution"].sel(term="theta") / without["pnl"]) - 1) > 0.05


@pytest.mark.parametrize(
    ("clock", "message"),
    [
        ({"weekends": 0.5}, "clock must not have 'weekends'; did you mean 'weekend_weight'"),
        (-0.5, "must have values of 0 or more, got a weekend weight that is missing or negative"),
        (np.nan, "must have values of 0 or more, got a weekend weight that is missing or negative"),
        (
            {"events": {"2026-01-03T12:00Z": -0.1}},
            "have values of 0 or more, got an event's variance that is missing or negative",
        ),
        ({"events": {"soon": 0.1}}, "events of clock"),
        ({"averaging": "long"}, "averaging of clock"),
        (xr.Dataset({"weight": 0.5}), "clock must have the variable 'weekend_weight'"),
    ],
)
def test_invalid_clocks_are_rejected(clock: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        surface.iv(THREE, 0.0, SUNDAY, clock=clock)
    with pytest.raises(ValueError, match="surface must have times along expiry to place a date"):
        surface.iv(THREE.drop_vars("expiry"), 0.0, SUNDAY, clock=0.5)
