import numpy as np
import pandas as pd
import pytest
import xarray as xr

from derivdata.analysis import black76, risk_neutral, smile, surface
from derivdata.analysis.smile import svi
from derivdata.analysis.status import Status
from derivdata.analysis.surface import maturity
from derivdata.analysis.surface.maturity import free_between
from tests.analysis import mingone
from tests.support.shared import known, known_cases


def flat(vols, years):
    """Expiries without a smile."""
    return surface.from_essvi(np.square(vols) * years, np.zeros(len(vols)), np.zeros(len(vols)), years)


@pytest.fixture
def three():
    """Three expiries that keep every condition, from Mingone's map."""
    slices = mingone.mingone([-0.4, -0.2, -0.25], np.log(0.01), np.log([0.02, 0.05]), [0.5, 0.4, 0.7])
    return surface.from_essvi(*slices, [0.05, 0.2, 0.6])


@pytest.fixture
def crypto():
    """Return the slice `crypto30d` of the known results, at 30 days."""
    raw = {r["name"]: float(r["value"]) for r in known("svi_parameters") if r["set"] == "crypto30d"}
    parts = (xr.DataArray([raw[name]], dims="expiry") for name in svi.Raw._fields)
    return smile.from_raw(svi.Raw(*parts), xr.DataArray([30 / 365], dims="expiry"))


def test_total_and_forward_variance_equal_hand_calculation():
    fit = flat([0.6, 0.5], np.array([0.05, 0.15]))
    answers = {r["quantity"]: r["expected"] for r in known("term_structure_forward_expected")}
    vol = float(surface.iv(fit, 0.0, 30 / 365))
    assert vol**2 * 30 / 365 == pytest.approx(float(answers["cm_total_variance"]), abs=1e-12)
    assert vol == pytest.approx(float(answers["cm_vol"]), abs=1e-12)
    result = surface.forward_variance(fit, 0.05, 0.15)
    assert float(result["variance"]) == pytest.approx(float(answers["forward_variance"]), abs=1e-12)
    assert float(result["vol"]) == pytest.approx(float(answers["forward_vol"]), abs=1e-12)
    crossed = surface.forward_variance(flat([0.8, 0.7], np.array([0.05, 0.06])), 0.05, 0.06)
    assert np.isnan(crossed["variance"])
    assert np.isnan(crossed["vol"])
    assert int(crossed["status"]) == Status.CALENDAR
    with pytest.raises(ValueError, match="near must be before far: both are times to expiry in years"):
        surface.forward_variance(flat([0.6], np.array([0.05])), 0.1, 0.1)


def test_interpolated_slice_equals_the_slice_at_an_expiry_and_is_linear_between(three):
    k = xr.DataArray(np.linspace(-1, 1, 9), dims="k")
    vol = surface.iv(three, k, [0.05, 0.2, 0.6])
    np.testing.assert_allclose(vol.to_numpy(), smile.iv(three, k).to_numpy(), rtol=1e-14)
    # By hand: (1 − s) w₁ + s w₂ with s = (T − T₁)/(T₂ − T₁).
    k, w = 0.2, smile.total_variance(three, 0.2).to_numpy()
    for t in (0.06, 0.1, 0.19):
        s = (t - 0.05) / 0.15
        expected = (1 - s) * w[0] + s * w[1]
        assert float(surface.iv(three, k, t)) ** 2 * t == pytest.approx(expected, rel=1e-14)


def test_a_flat_surface_is_flat_at_every_time():
    """Volatility is 60 % between the expiries too, so all butterflies and risk reversals are 0.

    A mean of the prices of two expiries would give a 25-delta butterfly of 0.96 points at 45 days.
    """
    years = np.array([30, 90, 180, 360]) / 365
    k = np.linspace(-1.5, 1.5, 31) * np.sqrt(years)[:, None]
    fit = surface.fit(k, np.full(k.shape, 0.6), years)
    points = ("atm", "rr25", "bf25", "rr10", "bf10")
    tenors = [f"{day}d" for day in range(5, 361, 5)]
    result = surface.constant_maturity(fit, tenors=tenors, points=points)
    expected = dict.fromkeys(points, 0.0) | {"atm": 0.6}
    for name, value in expected.items():
        np.testing.assert_allclose(result[name], value, atol=1e-8)
    assert not (result["status"] & Status.PRICES_MIXED).any()
    local = surface.local_volatility(fit, [-0.3, 0.0, 0.3], np.array([45, 135, 270]) / 365)
    np.testing.assert_allclose(local["local_vol"], 0.6, atol=1e-6)


def random_slices(rng, count):
    """Steep and narrow slices, some with butterflies."""
    rho = rng.uniform(-0.99, 0.99, count)
    b = 2 / (1 + np.abs(rho)) * rng.uniform(0.1, 0.99, count)
    m, sigma = rng.normal(0, 0.5, count), np.exp(rng.uniform(-3, 0, count))
    return svi.Raw(np.exp(rng.uniform(-3, 0, count)) - b * sigma * np.sqrt(1 - rho**2), b, rho, m, sigma)


def test_a_certified_pair_has_no_butterfly_at_any_time_between():
    """Against g at 24,001 points of 33 times between expiries, for pairs of which most have a butterfly
    somewhere.
    """
    rng = np.random.default_rng(11)
    pairs = random_slices(rng, 150), random_slices(rng, 150)
    certified, ends = free_between(*pairs)
    k = np.linspace(-12, 12, 24_001)
    for i in range(150):
        jets = [
            [svi.total_variance(k, svi.Raw(*(part[i] for part in each)), derivative=d) for d in (0, 1, 2)]
            for each in pairs
        ]
        least = []
        for share in np.linspace(0, 1, 33):
            w, dw, d2w = ((1 - share) * item + share * two for item, two in zip(*jets, strict=True))
            g = (1 - k * dw / (2 * w)) ** 2 - dw**2 / 4 * (1 / w + 0.25) + d2w / 2
            least.append(g.min())
        assert min(least) >= -1e-9 or not certified[i]
        assert min(least) < 1e-3 or certified[i]
        assert (min(least[0], least[-1]) >= 0.0) == ends[i]
    assert 0.1 < certified.mean() < 0.9


def test_where_a_pair_is_not_certified_prices_are_mixed_as_in_lemma_5_1(monkeypatch):
    """C/K at equal k, mixed by √θ (Gatheral and Jacquier 2014); no known pair of SVI slices needs it."""
    monkeypatch.setattr(maturity, "free_between", lambda one, _: (one.a < 0.0, one.a > 0.0))
    fit = surface.from_essvi([0.02, 0.06], [-0.3, -0.3], [0.15, 0.3], [0.1, 0.3])
    k, t = 0.25, 0.2
    w1, w2 = smile.total_variance(fit, k).to_numpy()
    share = (np.sqrt(0.06) - np.sqrt(0.04)) / (np.sqrt(0.06) - np.sqrt(0.02))
    prices = [black76.price(1.0, np.exp(k), 1.0, np.sqrt(w), "call") for w in (w1, w2)]
    mixed = share * prices[0] + (1 - share) * prices[1]
    vol = black76.implied_vol(mixed, 1.0, np.exp(k), t, "call").iv
    assert float(surface.iv(fit, k, t)) == pytest.approx(float(vol), rel=1e-12)
    result = surface.constant_maturity(fit, tenors=["73d"], points=["atm", "bf25"])
    assert int(result["status"][0]) & Status.PRICES_MIXED
    # At the money a mixture is nearly linear: w is 0.04 at the middle of the way.
    assert float(result["atm"][0]) == pytest.approx(np.sqrt(0.04 / 0.2), abs=5e-4)
    density = risk_neutral.density(fit, 0.0, t)
    assert float(density["mass"]) == pytest.approx(1.0, abs=1e-9)
    assert float(density["martingale"]) == pytest.approx(1.0, abs=1e-9)


def test_volatility_outside_expiries_and_quotes_is_constant_or_nan(three):
    k = [-0.2, 0.0, 0.3]
    early = surface.iv(three, k, 0.01)
    np.testing.assert_allclose(early, smile.iv(three, k)[0], rtol=1e-12)
    assert np.isnan(surface.iv(three, k, 0.7)).all()
    late = surface.iv(three, k, 0.7, extrapolate="flat_vol")
    np.testing.assert_allclose(late, smile.iv(three, k)[2], rtol=1e-12)
    assert np.isnan(surface.iv(three, k, [0.0, -0.1, np.nan])).all()
    quoted = three.assign(k_min=("expiry", [-0.1, -0.2, -0.4]), k_max=("expiry", [0.1, 0.2, 0.4]))
    inside = surface.iv(quoted, [-0.31, -0.29, 0.29, 0.31], 0.4)
    assert np.isnan(inside).to_numpy().tolist() == [True, False, False, True]
    assert not np.isnan(surface.iv(quoted, [-0.31, 0.31], 0.4, wings=True)).any()


def test_expiries_without_a_slice_are_skipped(three):
    holed = three.where(xr.DataArray([True, False, True], dims="expiry"))
    holed = holed.assign(method=three["method"] * [1, 0, 1], status=three["status"])
    only = three.isel(expiry=[0, 2])
    vol = [surface.iv(item, 0.1, 0.3) for item in (holed, only)]
    assert float(vol[0]) == pytest.approx(float(vol[1]), rel=1e-14)


def test_invalid_arguments_are_rejected(three):
    with pytest.raises(ValueError, match="year_fraction must not have the dim expiry"):
        surface.iv(three, 0.0, three["year_fraction"])
    with pytest.raises(TypeError, match="2 dimensions"):
        surface.iv(three, 0.0, [[0.1]])
    for points in (["rr"], ["rr00"], ["skew25"], ["rr100"]):
        with pytest.raises(
            ValueError,
            match="call or put with a whole delta such as rr25, got",
        ):
            surface.constant_maturity(three, points=points)
    with pytest.raises(ValueError, match="did you mean 'rr25'"):
        surface.constant_maturity(three, points=["RR25"])


@pytest.mark.parametrize("row", known_cases("essvi_calendar_pairs", "case"))
def test_pairs_of_the_known_answers(row):
    names = ("theta", "rho", "psi")
    fit = surface.from_essvi(*([float(row[f"{name}{i}"]) for i in (1, 2)] for name in names), [0.1, 0.2])
    result = surface.calendar_check(fit).isel(expiry=1)
    assert bool(result["ok"]) == (row["numerically_free"] == "true")
    # The printed minimum is that of a grid: ours may only be lower, and by little.
    printed = float(row["min_w2_minus_w1"])
    assert printed - 2e-6 * abs(printed) <= float(result["min_gap"]) <= printed + 1e-6 * abs(printed)
    assert float(result["argmin_k"]) == pytest.approx(float(row["argmin_k"]), abs=5e-4)


def test_a_crossing_is_found_for_any_order_of_expiries():
    fit = surface.from_essvi([0.05, 0.04, 0.06], [-0.3] * 3, [0.2, 0.2, 0.3], [0.1, 0.2, 0.3])
    expected = [True, False, True]
    assert surface.calendar_check(fit)["ok"].to_numpy().tolist() == expected
    turned = fit.isel(expiry=[2, 0, 1])
    assert surface.calendar_check(turned)["ok"].to_numpy().tolist() == [True, True, False]
    assert np.isnan(surface.calendar_check(turned)["min_gap"][1])


def strike_of(made, target, years, **convention):
    return surface.at(made, years, target_delta=target, **convention)["log_moneyness"]


def test_delta_neutral_straddles_and_spot_deltas(crypto):
    rows = {r["point"]: float(r["iv_or_value"]) for r in known("delta_strikes_crypto30d")}
    for delta, name in (("forward", "dns_forward_delta (d1=0)"), ("pa", "dns_premium_adjusted (d2=0)")):
        result = surface.constant_maturity(crypto, tenors=["30d"], points=["atm"], delta=delta, atm="dns")
        assert float(result["atm"][0]) == pytest.approx(rows[name], abs=1e-10)
    rate, t = 0.08, 30 / 365
    spot = strike_of(crypto, [0.25, -0.25], t, delta="spot", interest_rate=rate)
    forward = strike_of(crypto, 0.25 * np.exp(rate * t) * np.array([1, -1]), t)
    np.testing.assert_allclose(spot.to_numpy(), forward.to_numpy(), atol=1e-12)


@pytest.mark.parametrize("delta", ["forward", "pa"])
def test_constant_maturity_points_of_the_known_answers(crypto, delta):
    rows = {r["point"]: float(r["iv_or_value"]) for r in known("delta_strikes_crypto30d")}
    names = ("atm", "rr25", "bf25", "rr10", "bf10", "call25", "put10")
    result = surface.constant_maturity(crypto, tenors=["30d"], points=names, delta=delta).isel(tenor=0)
    expected = {
        "atm": rows["atmf"],
        "rr25": rows[f"RR0.25_{delta}"],
        "bf25": rows[f"BF0.25_{delta}"],
        "rr10": rows[f"RR0.10_{delta}"],
        "bf10": rows[f"BF0.10_{delta}"],
        "call25": rows[f"0.25_call_{delta}"],
        "put10": rows[f"0.10_put_{delta}"],
    }
    assert set(result.data_vars) == {*expected, "status"}
    for name, value in expected.items():
        assert float(result[name]) == pytest.approx(value, abs=1e-10)
    assert int(result["status"]) == 0


@pytest.mark.parametrize("row", known_cases("delta_conventions", "stdev"))
def test_strikes_of_published_deltas(row):
    """QuantLib's values, from an independent implementation in R; the tolerance is one of delta."""
    fit = surface.from_essvi([float(row["stdev"]) ** 2], [0.0], [0.0], [1.0])
    kind = {"forward": "forward", "premium_adjusted_forward": "pa"}[row["convention"]]
    k = strike_of(fit, float(row["expected"]), 1.0, delta=kind)
    strike = float(row["strike"]) / float(row["forward"])
    back = black76.greeks(
        1.0,
        np.exp([float(k), np.log(strike)]),
        1.0,
        float(row["stdev"]),
        row["side"],
        which=["delta"],
        delta=kind,
    )["delta"]
    assert back[0] == pytest.approx(float(row["expected"]), abs=1e-12)
    assert back[1] == pytest.approx(float(row["expected"]), abs=float(row["tolerance"]))
    assert float(np.exp(k)) == pytest.approx(strike, rel=1e-5)


def test_unreachable_delta_is_nan_with_a_status():
    """At iv √T = 2 a premium-adjusted call is worth at most N(d2) K/F, well below 0.9."""
    fit = surface.from_essvi([4.0], [0.0], [0.0], [1.0])
    assert np.isnan(strike_of(fit, 0.9, 1.0, delta="pa"))
    result = surface.constant_maturity(fit, tenors=["365d"], points=["atm", "rr90"], delta="pa").isel(tenor=0)
    assert np.isnan(result["rr90"])
    assert float(result["atm"]) == pytest.approx(2.0)
    assert int(result["status"]) & Status.DELTA_UNREACHABLE


def test_constant_maturity_flags_extrapolation(three):
    quoted = three.assign(k_min=("expiry", [-0.1] * 3), k_max=("expiry", [0.1] * 3))
    result = surface.constant_maturity(quoted, tenors=["7d", "60d", "300d"], points=["atm", "rr10"])
    status = result["status"].to_numpy()
    assert status[0] & Status.SHORT_EXTRAPOLATION
    assert status[1] == Status.EXTRAPOLATED
    assert status[2] == Status.EXTRAPOLATED
    assert np.isfinite(result["atm"]).to_numpy().tolist() == [True, True, False]
    near = surface.constant_maturity(three, tenors=["60d"], points=["atm"])
    assert int(near["status"][0]) == 0


def test_term_structure_of_flat_expiries():
    years = np.array([7, 30, 90]) / 365
    result = surface.term_structure(flat([0.8, 0.6, 0.5], years))
    np.testing.assert_allclose(result["atm"], [0.8, 0.6, 0.5], rtol=1e-12)
    w = np.square([0.8, 0.6, 0.5]) * years
    np.testing.assert_allclose(result["total_variance"], w, rtol=1e-12)
    np.testing.assert_allclose(result["forward_variance"], np.diff(w, prepend=0) / np.diff(years, prepend=0))
    np.testing.assert_allclose(result["forward_vol"], np.sqrt(result["forward_variance"]))
    assert float(result["slope_90d_30d"]) == pytest.approx(-0.1, abs=1e-12)
    assert float(result["ratio_7d_30d"]) == pytest.approx(0.8 / 0.6, rel=1e-12)


def test_term_structure_skips_an_expiry_that_could_not_be_fitted():
    years = np.array([0.05, 0.1, 0.2])
    fit = flat([0.8, 0.7, 0.9], years)
    holed = fit.where(xr.DataArray([True, False, True], dims="expiry"))
    holed = holed.assign(method=fit["method"] * [1, 0, 1], status=("expiry", [0, Status.TOO_FEW_STRIKES, 0]))
    result = surface.term_structure(holed, point="rr25")
    assert np.isfinite(result["rr25"]).to_numpy().tolist() == [True, False, True]
    assert result["status"].to_numpy().tolist() == [0, Status.TOO_FEW_STRIKES, 0]
    assert float(result["forward_variance"][2]) == pytest.approx((0.81 * 0.2 - 0.64 * 0.05) / 0.15)


def dated(three):
    """The three expiries as times, with forwards."""
    stamps = pd.Timestamp("2026-01-01T08:00") + pd.to_timedelta(three["year_fraction"].to_numpy() * 365, "D")
    return three.assign_coords(
        expiry=stamps.as_unit("us").to_numpy(), forward=("expiry", [100_000.0, 102_000.0, 105_000.0])
    )


def test_a_strike_and_a_date_have_volatility_delta_and_forward(three):
    """By hand: the logarithm of the forward is linear in time, iv at ln(K/F), delta from Black."""
    fit = dated(three)
    t0, t1 = three["year_fraction"].to_numpy()[:2]
    share = 0.4
    years = t0 + share * (t1 - t0)
    date = pd.Timestamp("2026-01-01T08:00Z") + pd.Timedelta(years * 365, "D")
    result = surface.at(fit, date, strike=[90_000.0, 120_000.0])
    forward = 100_000.0 ** (1 - share) * 102_000.0**share
    assert float(result["forward"]) == pytest.approx(forward, rel=1e-9)
    assert float(result["year_fraction"]) == pytest.approx(years, rel=1e-9)
    k = np.log(np.array([90_000.0, 120_000.0]) / forward)
    np.testing.assert_allclose(result["log_moneyness"], k, rtol=1e-8)
    np.testing.assert_allclose(result["iv"], surface.iv(three, k, years), rtol=1e-8)
    by_black = [
        black76.greeks(forward, strike, years, float(iv), side, which=["delta"])["delta"]
        for strike, iv, side in zip([90_000.0, 120_000.0], result["iv"], ["put", "call"], strict=True)
    ]
    np.testing.assert_allclose(result["delta"], by_black, rtol=1e-8)
    calls = surface.at(fit, date, strike=[90_000.0, 120_000.0], side="call")
    assert float(calls["delta"][0]) == pytest.approx(1 + by_black[0], rel=1e-8)
    back = surface.at(fit, date, target_delta=by_black)
    np.testing.assert_allclose(back["strike_usd"], [90_000.0, 120_000.0], rtol=1e-9)
    assert result["strike"].to_numpy().tolist() == [90_000.0, 120_000.0]


BEFORE_THE_FIRST, AFTER_THE_LAST = "2026-01-02T00:30Z", "2027-06-01"


def test_forward_between_and_beyond_expiries_is_log_linear_in_time(three):
    """Dates beyond the expiries continue the line through the nearest two logarithms."""
    surface_of_three = dated(three)
    years = surface_of_three["year_fraction"].to_numpy()
    first, _, last = surface_of_three["expiry"].to_numpy()
    result = surface.at(surface_of_three, [BEFORE_THE_FIRST, first, last, AFTER_THE_LAST])
    early = 1e5 * 1.02 ** ((16.5 / 24 / 365 - years[0]) / (years[1] - years[0]))
    late = 1.05e5 * (1.05 / 1.02) ** ((516 - 365 * years[2]) / 365 / (years[2] - years[1]))
    np.testing.assert_allclose(result["forward"], [early, 1e5, 1.05e5, late], rtol=1e-9)
    alone = surface.at(surface_of_three.isel(expiry=[0]), [BEFORE_THE_FIRST, AFTER_THE_LAST])
    np.testing.assert_allclose(alone["forward"], 1e5, rtol=1e-12)


def test_forward_beyond_expiries_has_the_carry_of_the_nearest_expiry_if_spot_is_known(three):
    spot = 99_900.0
    surface_of_three = dated(three).assign_coords(spot=spot)
    years = surface_of_three["year_fraction"].to_numpy()
    first, _, last = surface_of_three["expiry"].to_numpy()
    result = surface.at(surface_of_three, [BEFORE_THE_FIRST, first, last, AFTER_THE_LAST])
    first_carry, last_carry = np.log(1e5 / spot) / years[0], np.log(1.05e5 / spot) / years[2]
    early = spot * np.exp(first_carry * 16.5 / 24 / 365)
    late = spot * np.exp(last_carry * 516 / 365)
    np.testing.assert_allclose(result["forward"], [early, 1e5, 1.05e5, late], rtol=1e-9)


def test_dates_without_an_option_have_a_volatility_and_a_status(three):
    surface_of_three = dated(three)
    first, _, last = surface_of_three["expiry"].to_numpy()
    result = surface.at(surface_of_three, [BEFORE_THE_FIRST, first, last, AFTER_THE_LAST])
    assert result["iv"].dims == ("expiry",)
    np.testing.assert_allclose(result["iv"][1:3], smile.iv(three, 0.0)[[0, 2]], rtol=1e-9)
    assert np.isnan(result["iv"][3])
    assert int(result["status"][0]) & Status.SHORT_EXTRAPOLATION
    assert int(result["status"][3]) & Status.EXTRAPOLATED


def test_strike_beyond_the_quotes_is_extrapolated(three):
    narrow = dated(three).assign(k_min=("expiry", [-0.1] * 3), k_max=("expiry", [0.1] * 3))
    first = narrow["expiry"].to_numpy()[0]
    result = surface.at(narrow, first, strike=130_000.0)  # log-moneyness 0.26
    assert int(result["status"]) == Status.EXTRAPOLATED
    assert np.isfinite(result["iv"])


def test_invalid_points_of_a_surface_are_rejected(three):
    with pytest.raises(ValueError, match="exclude each other"):
        surface.at(dated(three), "2026-02-01", strike=1e5, target_delta=0.25)
    with pytest.raises(ValueError, match="surface has no variable 'forward'"):
        surface.at(dated(three).drop_vars("forward"), "2026-02-01", strike=1e5)
    with pytest.raises(ValueError, match="surface must have times along expiry to place a date"):
        surface.at(three, "2026-02-01")
    with pytest.raises(ValueError, match="expiry"):
        surface.at(dated(three), "soon")
    for wrong in ([["2026-02-01"], [1.0, 2.0]], [[1.0, 2.0]], xr.Dataset()):
        with pytest.raises(TypeError, match="expiry must be ISO text"):
            surface.at(dated(three), wrong)
    unreachable = surface.at(dated(three), 0.1, target_delta=[0.25, np.nan])
    assert np.isnan(unreachable["iv"]).to_numpy().tolist() == [False, True]
    assert np.isnan(unreachable["forward"]).sum() == 0
