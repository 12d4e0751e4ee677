import itertools
import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import integrate, special

from derivdata.analysis import black76, smile, surface, variance
from derivdata.analysis.smile import svi
from derivdata.analysis.status import Status
from tests.support.shared import known, known_path, shared_path


def slice_of(case, years=1.0, **ends):
    """Return a raw SVI slice of the known results; `flat_w0.04` has the same total variance everywhere."""
    raw = {
        r["name"]: float(r["value"])
        for r in known("svi_parameters")
        if r["set"] == case and r["family"] == "raw"
    }
    if case == "flat_w0.04":
        raw = {"a": 0.04, "b": 0.0, "rho": 0.0, "m": 0.0, "sigma": 1.0}
    return smile.from_raw(svi.Raw(**raw), years, **ends)


def listed(frame, columns):
    values = frame[list(columns)].to_numpy(dtype=float)
    coords = {"strike": frame["strike"].to_numpy(dtype=float), "side": ["call", "put"]}
    return xr.DataArray(values, coords, ["strike", "side"])


@pytest.fixture
def vix_2009():
    """Both terms of the white paper's appendix, over dim expiry."""
    quotes = pd.read_csv(known_path("vix_2009_quotes"))
    terms = [quotes[quotes["term"] == term] for term in ("near", "next")]
    bid, ask = (
        xr.concat([listed(t, (f"call_{kind}", f"put_{kind}")) for t in terms], "expiry", join="outer")
        for kind in ("bid", "ask")
    )
    years = xr.DataArray([t["days"].iloc[0] / 365 for t in terms], dims="expiry")
    return variance.cboe(bid, ask, years, interest_rate=0.0038), years


def test_vix_equals_the_2009_white_paper(vix_2009):
    result, years = vix_2009
    index = variance.volatility_index(result)
    actual = {"VIX": 100 * float(index["index"])}
    for i, name in enumerate(("1", "2")):
        actual |= {
            f"T{name}": float(years[i]),
            f"F{name}": float(result["forward"][i]),
            f"K0_{name}": float(result["strike_0"][i]),
            f"sigma2_{name}": float(result["variance"][i]),
        }
    rows = {r["quantity"]: r for r in known("vix_expected") if r["edition"] == "2009"}
    assert set(rows) == set(actual)
    for name, row in rows.items():
        assert actual[name] == pytest.approx(float(row["published"]), abs=float(row["tolerance"])), name
        if not name.startswith("T"):
            assert actual[name] == pytest.approx(float(row["recomputed"].split()[0]), rel=1e-10), name
    assert (result["status"] == 0).all()
    # Read by eye in the appendix: near puts 375 and 350 have no bid, nor have calls 1225 and 1230.
    near = result["strike"].where(result["used"].isel(expiry=0), drop=True)
    assert (float(near.min()), float(near.max())) == (400, 1220)
    assert 1250 in result["strike"]  # it has a bid, beyond the end


def quote(bids, asks, strikes, years=0.1):
    frame = pd.DataFrame(bids, columns=["call", "put"]).assign(strike=strikes)
    frame[["call_ask", "put_ask"]] = asks
    return variance.cboe(listed(frame, ("call", "put")), listed(frame, ("call_ask", "put_ask")), years)


def test_vix_rules_on_a_chain_summed_by_hand():
    """Call and put differ least at 100: F = 100 + 5 − 4 = 101, so K₀ = 100.

    Two strikes in a row without a bid or an ask end the strip: the puts of 90 and 85 have no bid, the call of
    115 no ask and the call of 120 no bid. So neither the put of 80 nor the call of 125 is used.
    """
    strikes = [80, 85, 90, 95, 100, 105, 110, 115, 120, 125]
    calls = [21, 16, 11, 8, 5, 3, 2, 1, 0, 1]
    puts = [1, 0, 0, 2, 4, 7, 11, 16, 21, 26]
    bids = np.array([calls, puts], dtype=float).T
    asks = bids.copy()
    asks[7, 0] = np.nan
    asks[8, 0] = 0.5
    result = quote(bids, asks, strikes)
    used = result["strike"].to_numpy()[result["used"].to_numpy()]
    assert used.tolist() == [95, 100, 105, 110]
    assert (float(result["forward"]), float(result["strike_0"])) == (101.0, 100.0)
    by_hand = 5 / 95**2 * 2 + 5 / 100**2 * 4.5 + 5 / 105**2 * 3 + 5 / 110**2 * 2
    assert float(result["contribution"].sum()) == pytest.approx(by_hand, rel=1e-14)
    assert float(result["total_variance"]) == pytest.approx(2 * by_hand - 0.01**2, rel=1e-13)
    assert float(result["variance"]) == pytest.approx(10 * (2 * by_hand - 0.01**2), rel=1e-13)


def test_options_that_are_not_listed_do_not_end_the_strip():
    """The puts of 80 and 85 and the calls of 105 and 110 are not listed."""
    bids = np.array([[21, 16, 11, 8, 5, 3, 2, 1, 1], [np.nan, np.nan, 1, 2, 4, 7, 11, 16, 21]], dtype=float).T
    bids[5:7, 0] = np.nan
    result = quote(bids, bids, [80, 85, 90, 95, 100, 105, 110, 115, 120])
    assert result["strike"].to_numpy()[result["used"].to_numpy()].tolist() == [90, 95, 100, 115, 120]


def test_quotes_without_a_strip_give_nan_and_a_status():
    none = np.full((3, 2), np.nan)
    assert int(quote(none, none, [90, 100, 110])["status"]) == Status.TOO_FEW_STRIKES
    bids = np.array([[12.0, 1.0], [4.0, 4.0], [1.0, 12.0]])
    late = quote(bids, bids, [90, 100, 110], years=-0.1)
    assert int(late["status"]) == Status.EXPIRED
    assert np.isnan(late["total_variance"])
    side = xr.DataArray(bids, {"strike": [90, 100, 110], "side": ["C", "P"]}, ["strike", "side"])
    with pytest.raises(ValueError, match=r"side of bid must be call and put, got \['C', 'P'\]"):
        variance.cboe(side, side, 0.1)
    with pytest.raises(ValueError, match="bid must have the dim side, got dims"):
        variance.cboe(side[:, 0], side[:, 0], 0.1)


def test_index_equals_the_published_eth_value_of_2021():
    """Its intermediates, to the last digit that a double has (relative 1e-12)."""
    evidence = json.loads(shared_path("data/volindex_2021/eth-mfiv-14d-2021-10-01T07-02.json").read_text())
    context, parameters, result = evidence["context"], evidence["params"], evidence["result"]
    between = result["intermediates"]
    options = pd.DataFrame(parameters["options"])
    mid = (options["bestBidPrice"] + options["bestAskPrice"]) / 2
    fair = mid.where(mid < 1.5 * options["markPrice"], options["markPrice"])
    options["price"] = fair * parameters["underlyingPrice"]
    options["expiry"] = pd.to_datetime(options["expirationDate"]).dt.tz_localize(None)
    cube = options.set_index(["expiry", "strikePrice", "optionType"]).to_xarray()
    cube = cube.rename(strikePrice="strike", optionType="side")
    at = pd.Timestamp(parameters["at"]).floor("min").tz_localize(None)
    years = (cube["expiry"] - np.datetime64(at)) / np.timedelta64(365, "D")
    found = variance.cboe(
        cube["bestBidPrice"],
        cube["bestAskPrice"],
        years,
        interest_rate=context["risklessRate"],
        price=cube["price"],
    )
    index = variance.volatility_index(found, horizon="14d")
    for i, (term, forward) in enumerate((("near", "F1"), ("next", "F2"))):
        assert float(found["forward"][i]) == pytest.approx(between[forward], rel=1e-12)
        assert float(found["strike_0"][i]) == between[f"{term}ForwardStrike"]
        contribution = float(found["contribution"].sum("strike")[i])
        assert contribution == pytest.approx(between[f"{term}Contribution"], rel=1e-12)
        variance_of_term = float(found["total_variance"][i])
        assert variance_of_term == pytest.approx(between[f"{term}ModSigmaSquared"], rel=1e-12)
    assert float(index["near_share"]) == pytest.approx(between["A"], rel=1e-12)
    assert 100 * float(index["index"]) == pytest.approx(result["dVol"], rel=1e-12)
    for i, book in enumerate(("finalNearBook", "finalNextBook")):
        strikes = sorted(item["strikePrice"] for _, item in between[book])
        used = found["used"].isel(expiry=i).to_numpy()
        assert found["strike"].to_numpy()[used].tolist() == strikes


CASES = ("flat_w0.04", "vogt_guaranteed", "crypto30d", "raw_free")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("method", ["smile", "fukasawa"])
def test_integrals_of_the_known_answers(case, method):
    rows = {r["quantity"]: float(r["value"]) for r in known("varswap_expected") if r["case"] == case}
    result = variance.model_free(slice_of(case, k_min=-1.0, k_max=1.0), method=method)
    assert float(result["inside"]) == pytest.approx(rows["total_variance_k_in[-1,1]"], abs=1e-10)
    assert float(result["total_variance"]) == pytest.approx(rows["total_variance_full_line"], abs=1e-12)
    if case == "raw_free":
        cut = variance.model_free(slice_of(case), method=method, k_range=(-40.0, 40.0))
        assert float(cut["inside"]) == pytest.approx(rows["total_variance_k_in[-40,40]"], abs=1e-10)


def test_volatility_of_the_known_answers_and_wings_that_hold_much_of_it():
    row = next(
        r for r in known("term_structure_forward_expected") if r["quantity"] == "total_variance_to_vol"
    )
    result = variance.model_free(slice_of("crypto30d", 30 / 365))
    assert float(result["vol"]) == pytest.approx(float(row["expected"]), abs=1e-9)
    result = variance.model_free(slice_of("raw_free", k_min=-1.0, k_max=1.0))
    assert float(result["wing_share"]) == pytest.approx(0.59, abs=0.005)
    assert int(result["status"]) & Status.EXTRAPOLATED
    calm = variance.model_free(slice_of("crypto30d", 30 / 365, k_min=-1.0, k_max=1.0))
    assert int(calm["status"]) == 0


def test_an_arbitrageable_smile_has_no_transform():
    """A right wing so steep that d2 rises on it: the formula in volatilities does not hold."""
    raw = svi.Raw(a=0.001, b=0.5, rho=0.99, m=0.3, sigma=0.01)
    result = variance.model_free(smile.from_raw(raw, 1.0))
    assert np.isnan(result["total_variance"])
    assert int(result["status"]) & Status.BUTTERFLY


def strip_quotes(vol=0.5, years=0.1, low=-0.8, high=0.8, step=0.01):
    k = np.log(np.arange(np.exp(low), np.exp(high), step))
    return xr.Dataset(
        {"log_moneyness": ("strike", k), "iv": ("strike", np.full(k.size, vol))}, {"year_fraction": years}
    )


def test_missing_quotes_are_strikes_that_are_not_listed():
    quotes = strip_quotes()
    is_quoted = np.arange(quotes.sizes["strike"]) % 3 > 0
    with_missing = quotes.assign(iv=quotes["iv"].where(is_quoted))
    total_variances = [
        float(variance.model_free(item, method="strip")["total_variance"])
        for item in (
            quotes.isel(strike=is_quoted),
            with_missing,
            with_missing.isel(strike=slice(None, None, -1)),
        )
    ]
    assert total_variances == pytest.approx([total_variances[0]] * 3, rel=1e-14)


@pytest.mark.parametrize(("low", "high"), [(0.05, 0.8), (-0.8, -0.05)])
def test_strikes_of_one_side_give_no_variance(low, high):
    result = variance.model_free(strip_quotes(low=low, high=high), method="strip")
    assert np.isnan(result["total_variance"])
    assert np.isnan(result["k_low"])
    assert int(result["status"]) == Status.TOO_FEW_STRIKES


def test_strip_equals_integral_of_prices_at_any_strike_spacing():
    """The integral runs over the strikes 0.8 to 1.3 of a forward of 1.

    Two strikes of the first grid are left out: 0.1 has a delta below 0.001, and 1.2 has no volatility.
    """
    vol, years = 0.4, 0.25

    def otm(k):
        return float(black76.price(1.0, np.exp(k), years, vol, "put" if k < 0 else "call")) * np.exp(-k)

    k_low, k_high = np.log([0.8, 1.3])
    puts, _ = integrate.quad(otm, k_low, 0.0)
    calls, _ = integrate.quad(otm, 0.0, k_high)
    for strike in ([0.1, 0.8, 0.9, 1.05, 1.2, 1.3], [0.8, 0.95, 1.3], [0.8, 0.85, 0.9, 1.0, 1.1, 1.3]):
        iv = np.where(np.isclose(strike, 1.2), np.nan, vol)
        quotes = xr.Dataset(
            {"log_moneyness": ("strike", np.log(strike)), "iv": ("strike", iv)}, {"year_fraction": years}
        )
        result = variance.model_free(quotes, method="strip")
        assert float(result["total_variance"]) == pytest.approx(2 * (puts + calls), rel=1e-8)
        assert float(result["lower"]) < vol**2 * years < float(result["upper"])
        np.testing.assert_allclose([result["k_low"], result["k_high"]], [k_low, k_high])


def test_strip_of_volatilities_in_percent_raises():
    quotes = xr.Dataset(
        {"log_moneyness": ("strike", [-0.1, 0.0, 0.1]), "iv": ("strike", [40.0] * 3)}, {"year_fraction": 0.25}
    )
    with pytest.raises(ValueError, match="looks like percent"):
        variance.model_free(quotes, method="strip")


def test_flat_smile_is_within_its_bounds_at_any_quote_range():
    ends = np.linspace(0.05, 1.0, 12)
    fit = smile.from_raw(svi.Raw(0.04, 0.0, 0.0, 0.0, 1.0), 1.0)
    narrow = xr.DataArray(ends, dims="end")
    result = variance.model_free(fit, k_range=(-narrow, narrow))
    assert bool((result["lower"] < 0.04).all())
    assert bool((result["upper"] > 0.04).all())
    assert bool((result["upper"].diff("end") < 0).all())
    np.testing.assert_allclose(result["wing_share"], 1 - result["lower"] / 0.04, rtol=1e-9, atol=1e-14)


def test_stored_strip_of_a_surface_is_part_of_the_integral():
    """The strip has been summed over the quotes; values within ±0.1 of it are undetermined."""
    k = np.linspace(-0.4, 0.4, 17)
    fit = surface.fit(k[None], 0.2 + 0.0 * k[None], np.array([1.0]))
    assert variance.model_free(fit).attrs["method"] == "strip"
    result = variance.model_free(fit, k_range=(-0.1, 0.1)).isel(expiry=0)
    assert result.attrs["method"] == "fukasawa"
    alone = smile.from_raw(svi.Raw(0.04, 0.0, 0.0, 0.0, 1.0), 1.0)
    expected = variance.model_free(alone, k_range=(-0.1, 0.1))
    for name in ("total_variance", "inside", "lower", "upper"):
        assert float(result[name]) == pytest.approx(float(expected[name]), rel=1e-4), name
    with pytest.raises(ValueError, match="k_range of a strip needs the quotes"):
        variance.model_free(fit, method="strip", k_range=(-0.1, 0.1))


@pytest.fixture
def four_expiries():
    """Total variances with bounds of 0.9 and 1.1 of the volatility."""
    years = xr.DataArray(np.array([5, 20, 50, 80]) / 365, dims="expiry")
    w = xr.DataArray([0.001, 0.02, 0.05, 0.09], dims="expiry")
    return xr.Dataset({"total_variance": w, "lower": 0.81 * w, "upper": 1.21 * w}, {"year_fraction": years})


def test_an_index_between_two_expiries_with_its_bounds(four_expiries):
    """By hand: w = 0.02 at 20 days and 0.05 at 50 days is 0.03 at 30 days."""
    result = variance.volatility_index(four_expiries)
    index = np.sqrt(0.03 * 365 / 30)
    assert float(result["index"]) == pytest.approx(index, rel=1e-12)
    assert float(result["lower"]) == pytest.approx(0.9 * index, rel=1e-12)
    assert float(result["upper"]) == pytest.approx(1.1 * index, rel=1e-12)
    assert (float(result["near_days"]), float(result["next_days"])) == pytest.approx((20, 50))
    assert float(result["near_share"]) == pytest.approx(2 / 3)
    without_bounds = variance.volatility_index(four_expiries[["total_variance"]])
    assert "lower" not in without_bounds


def test_index_skips_an_expiry_without_a_variance(four_expiries):
    w = four_expiries["total_variance"]
    result = variance.volatility_index(four_expiries.assign(total_variance=w.where(w != 0.02)))
    assert (float(result["near_days"]), float(result["next_days"])) == pytest.approx((5, 50))


def test_index_at_an_expiry_is_its_volatility(four_expiries):
    result = variance.volatility_index(four_expiries, horizon="50d")
    assert float(result["index"]) == pytest.approx(np.sqrt(0.05 * 365 / 50))


@pytest.mark.parametrize("horizon", ["3d", "90d"])
def test_index_beyond_all_expiries_is_nan(four_expiries, horizon):
    result = variance.volatility_index(four_expiries, horizon=horizon)
    assert np.isnan(result["index"])
    assert int(result["status"]) == Status.EXTRAPOLATED


def test_invalid_arguments_are_rejected():
    fit = slice_of("crypto30d")
    with pytest.raises(ValueError, match="source must have log_moneyness, iv"):
        variance.model_free(fit, method="strip")
    with pytest.raises(ValueError, match="source must have k_min, k_max, method, status"):
        variance.model_free(strip_quotes(), method="smile")
    with pytest.raises(ValueError, match="floor must be a share of the forward between 0 and 1, got 0"):
        variance.model_free(fit, floor=0)
    with pytest.raises(ValueError, match="dim expiry"):
        variance.volatility_index(variance.model_free(fit))
    with pytest.raises(ValueError, match="horizon must be a positive length of time, got '0d'"):
        variance.volatility_index(variance.model_free(fit), horizon="0d")


@pytest.mark.parametrize("bend", [1e-3, 3e-3, 0.03])
def test_a_narrow_vertex_is_integrated_too(bend):
    """Against scipy's adaptive quadrature of the option prices, in pieces about the vertex."""
    t, w = 30 / 365, 0.55**2 * 30 / 365
    b, s, m = 0.4 * w**0.5, bend * w**0.5, 0.4 * w**0.5
    raw = svi.Raw(w - b * (np.hypot(m, s) + 0.5 * m), b, -0.5, m, s)

    def priced(k):
        root = np.sqrt(float(svi.total_variance(k, raw)))
        d1 = -k / root + root / 2
        if k > 0:
            return 2 * (np.exp(-k + special.log_ndtr(d1)) - special.ndtr(d1 - root))
        return 2 * (special.ndtr(root - d1) - np.exp(-k + special.log_ndtr(-d1)))

    pieces = np.sort(
        [-20, -2, -0.5, 0, 0.5, 2, 20, *(m + s * np.array([-100, -10, -3, -1, 0, 1, 3, 10, 100]))]
    )
    expected = sum(
        integrate.quad(priced, *ends, epsabs=1e-14, epsrel=1e-12)[0] for ends in itertools.pairwise(pieces)
    )
    slices = svi.Raw(*(xr.DataArray([part], dims="expiry") for part in raw))
    fit = smile.from_raw(slices, xr.DataArray([t], dims="expiry"))
    for method in ("fukasawa", "smile"):
        result = variance.model_free(fit, method=method)["total_variance"]
        assert float(result[0]) == pytest.approx(expected, rel=1e-9)
