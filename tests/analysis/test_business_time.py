import numpy as np
import pandas as pd
import pytest
import xarray as xr

from derivdata.analysis import business_time, surface
from derivdata.analysis.status import Status

AS_OF = pd.Timestamp("2026-01-01T08:00")  # a Thursday
DAYS = np.array([1, 2, 3, 4, 8, 15, 22, 29, 57, 85, 176, 267])
EVENT = "2026-01-14T19:00Z"


def weekend_hours(start: pd.Timestamp, end: pd.Timestamp) -> float:
    """Hours of Saturdays and Sundays, counted one by one."""
    hours = pd.date_range(start, end, freq="h", inclusive="left")
    return float((hours.day_of_week >= 5).sum())


def term_structure(
    weight: float = 0.4,
    event: float = 0.0,
    noise: float = 0.0,
    days: np.ndarray = DAYS,
    flat: bool = False,
    seed: int = 3,
) -> xr.Dataset:
    """A surface whose total variance at the money is the model's: θ 0.25, v₀ 0.45, κ 8."""
    hours = days * 24.0
    weekend = np.array([weekend_hours(AS_OF, AS_OF + pd.Timedelta(days=int(d))) for d in days])
    tau = (hours - weekend + weight * weekend) * 7 / (5 + 2 * weight) / (365 * 24)
    w = 0.25 * tau if flat else 0.25 * tau + 0.20 * (1 - np.exp(-8 * tau)) / 8
    after = AS_OF + pd.to_timedelta(days, "D") >= pd.Timestamp(EVENT).tz_localize(None)
    w = w + event * after
    t = days / 365
    rng = np.random.default_rng(seed)
    w = (np.sqrt(w / t) + noise * rng.standard_normal(days.size)) ** 2 * t
    zero = np.zeros(days.size)
    fit = surface.from_essvi(w, zero, zero, t)
    expiry = (AS_OF + pd.to_timedelta(days, "D")).to_numpy().astype("datetime64[us]")
    return fit.assign_coords(expiry=expiry)


def test_business_hours_equal_hand_calculation_and_sum_to_a_week():
    hour = 365 * 24
    # Friday 12:00 to Sunday 06:00: 12 hours of a Friday, 30 of a weekend, at a quarter.
    actual = business_time.years("2026-01-02T12:00", "2026-01-04T06:00", weekend_weight=0.25)
    assert actual * hour == pytest.approx((12 + 7.5) * 7 / 5.5, rel=1e-12)
    for weight in (0.0, 0.5, 1.0, 2.0):
        week = business_time.years("2026-01-01T05:00", "2026-01-08T05:00", weekend_weight=weight)
        assert week * 365 == pytest.approx(7.0, rel=1e-12)
    ends = np.array(["2026-01-03T00:00", "2026-01-05T00:00", "NaT"], dtype="datetime64[us]")
    result = business_time.years("2026-01-02T00:00", ends, weekend_weight=0.0) * 365
    np.testing.assert_allclose(result, [1.4, 1.4, np.nan])
    labelled = business_time.years("2026-01-02", xr.DataArray(ends, dims="expiry"), weekend_weight=0.0)
    np.testing.assert_allclose(labelled * 365, result)
    for end in (np.array([None, "x"], dtype=object), xr.DataArray([1.0])):
        with pytest.raises(TypeError, match="end must have times as datetime64, got"):
            business_time.years("2026-01-02", end, weekend_weight=1.0)
    with pytest.raises(ValueError, match="weekend_weight"):
        business_time.years("2026-01-02", "2026-01-03", weekend_weight=-1.0)


def test_fit_recovers_simulated_weights_and_event():
    result = business_time.fit(term_structure(event=0.003), events=[EVENT])
    assert float(result["weekend_weight"]) == pytest.approx(0.4, abs=2e-3)
    assert float(result["long_variance"]) == pytest.approx(0.25, rel=5e-3)
    assert float(result["start_variance"]) == pytest.approx(0.45, rel=5e-3)
    assert float(result["event_variance"][0]) == pytest.approx(0.003, rel=5e-3)
    assert float(result["event_move"][0]) == pytest.approx(0.003**0.5, rel=5e-3)
    assert int(result["status"]) == 0
    assert float(result["rmse_vol"]) < 2e-4
    weekend = [weekend_hours(AS_OF, AS_OF + pd.Timedelta(days=int(d))) for d in DAYS]
    weight = float(result["weekend_weight"])
    tau = (DAYS * 24 + (weight - 1) * np.array(weekend)) * 7 / (5 + 2 * weight) / (365 * 24)
    np.testing.assert_allclose(result["business_years"], tau, rtol=1e-9)


def test_event_interval_has_its_nominal_coverage():
    """Sixty draws of 0.3 points of noise: 90 % within three standard deviations of a count, 0.04 each."""
    inside, width = [], []
    for seed in range(60):
        result = business_time.fit(term_structure(event=0.003, noise=0.003, seed=seed), events=[EVENT])
        low, high = (float(result[f"event_variance_{end}"][0]) for end in ("low", "high"))
        assert low < float(result["event_variance"][0]) < high
        inside.append(low <= 0.003 <= high)
        width.append(high - low)
    assert 0.78 <= np.mean(inside) < 1.0
    assert np.median(width) < 0.001
    plain = business_time.fit(term_structure(noise=0.004))
    assert float(plain["weekend_weight_low"]) < 0.4 < float(plain["weekend_weight_high"])
    exact = business_time.fit(term_structure(event=0.003), events=[EVENT])
    assert float((exact["event_variance_high"] - exact["event_variance_low"])[0]) < 1e-4
    none = business_time.fit(term_structure())
    assert none["event_variance_low"].size == 0


def test_weekend_weight_of_monthly_expiries_is_undetermined():
    months = term_structure(noise=0.01, days=np.array([29, 57, 85, 113, 176, 267]))
    result = business_time.fit(months)
    assert int(result["status"]) & Status.UNDETERMINED
    assert float(result["weekend_weight_high"]) - float(result["weekend_weight_low"]) == 2.0


def test_four_expiries_determine_no_weekend_weight():
    result = business_time.fit(term_structure(days=DAYS[:4]))
    assert int(result["status"]) == Status.UNDETERMINED
    assert np.isnan(result["weekend_weight"])


def test_events_between_the_same_expiries_are_undetermined():
    """Only the sum of two events between the same two expiries is determined."""
    both = business_time.fit(term_structure(event=0.003), events=["2026-01-14T17:00Z", EVENT])
    assert int(both["status"]) == Status.UNDETERMINED
    assert np.isnan(both["event_variance"]).all()
    apart = business_time.fit(term_structure(event=0.003), events=["2026-01-20T17:00Z", EVENT])
    assert int(apart["status"]) & Status.UNDETERMINED == 0
    np.testing.assert_allclose(apart["event_variance"], [0.0, 0.003], atol=2e-5)


def test_event_of_negative_variance_is_zero_and_flagged():
    with_event = business_time.fit(term_structure(event=-0.002), events=[EVENT])
    assert int(with_event["status"]) & Status.CALENDAR
    assert float(with_event["event_variance"][0]) == float(with_event["event_move"][0]) == 0.0
    assert float(with_event["event_variance_low"][0]) == 0.0
    without_event = business_time.fit(term_structure(event=-0.002))
    assert float(with_event["rmse_vol"]) == float(without_event["rmse_vol"])


def test_event_that_has_no_place_in_the_surface_raises():
    with pytest.raises(ValueError, match="the event at 2027"):
        business_time.fit(term_structure(), events=["2027-06-01"])
    with pytest.raises(ValueError, match="surface must have times along expiry to place a date"):
        business_time.fit(term_structure().drop_vars("expiry"))


def test_event_after_the_last_expiry_has_no_effect():
    """The last two expiries are 26 June and 25 September, so only the last one includes an event of 15
    August.
    """
    quoted = term_structure()
    seen = business_time.fit(quoted, events=["2026-08-15T12:00Z"])
    assert int(seen["status"]) & Status.UNDETERMINED == 0
    np.testing.assert_allclose(seen["event_variance"], [0.0], atol=1e-4)
    last = quoted["expiry"].values[-1]
    there, figures = quoted["expiry"] < last, [name for name in quoted if quoted[name].dtype.kind == "f"]
    lost = quoted.assign({name: quoted[name].where(there) for name in figures})
    unseen = business_time.fit(lost, events=["2026-08-15T12:00Z"])
    assert int(unseen["status"]) == Status.UNDETERMINED
    assert np.isnan(unseen["event_variance"]).all()
    assert np.isnan(unseen["event_move"]).all()
    after = pd.Timestamp(last, tz="UTC") + pd.Timedelta("1us")
    for outside in (after, pd.Timestamp(AS_OF, tz="UTC") - pd.Timedelta("1us")):
        with pytest.raises(ValueError, match="must be between the time of the surface and its last expiry"):
            business_time.fit(quoted, events=[outside])


def test_a_surface_with_a_hole_and_a_history_are_fitted():
    two = xr.concat([term_structure(weight) for weight in (0.2, 0.8)], "time")
    two = two.assign_coords(year_fraction=term_structure()["year_fraction"])
    np.testing.assert_allclose(business_time.fit(two)["weekend_weight"], [0.2, 0.8], atol=3e-3)
    holed = term_structure().where(xr.DataArray(np.arange(DAYS.size) != 3, dims="expiry"))
    holed = holed.assign(method=holed["method"].fillna(0).astype(np.int8), status=term_structure()["status"])
    result = business_time.fit(holed)
    assert int(result["n"]) == DAYS.size - 1
    assert np.isnan(result["error_vol"][3])
    assert float(result["weekend_weight"]) == pytest.approx(0.4, abs=3e-3)
