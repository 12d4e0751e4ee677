import numpy as np
import pandas as pd
import pytest
import QuantLib as ql
import xarray as xr

import derivdata as dd
from derivdata.analysis import black76, business_time, position, risk_neutral, smile, surface
from derivdata.analysis.status import Status

AS_OF = np.datetime64("2026-01-01T08:00", "us")
DAYS = np.array([10, 40, 160])
EXPIRIES = AS_OF + DAYS * np.timedelta64(1, "D")
FORWARDS = np.array([100_000.0, 101_000.0, 104_000.0])


def made(*, level: float = 1.0, passed: float = 0.0, move: float = 0.0) -> xr.Dataset:
    """Return three hand-made smiles with dated expiries: volatility times `level`, `passed` days later."""
    years = (DAYS - passed) / 365
    iv = np.array([0.55, 0.5, 0.48]) * level
    w = iv**2 * years
    parts = surface.from_essvi(
        w, np.array([-0.3, -0.25, -0.2]), 0.5 * np.sqrt(np.abs(w)), years, forward=FORWARDS * (1 + move)
    )
    return parts.assign_coords(expiry=EXPIRIES).assign(
        k_min=("expiry", [-2.0] * 3), k_max=("expiry", [2.0] * 3)
    )


def legs(*rows: tuple[int, float, str, float]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["expiry", "strike", "side", "quantity"])
    return table.assign(expiry=[pd.Timestamp(EXPIRIES[i], tz="UTC") for i in table["expiry"]])


BOOK = legs((0, 95_000, "put", 2.0), (1, 110_000, "call", -1.0), (2, 104_000, "call", 0.5))


def test_values_and_greeks_equal_quantlib():
    result = position.greeks(BOOK, made()).sel(currency="usd")
    for i, leg in enumerate(BOOK.itertuples()):
        iv = float(smile.iv(made().isel(expiry=i), np.log(leg.strike / FORWARDS[i])))
        assert float(result["iv"][i]) == pytest.approx(iv, rel=1e-9)
        t = DAYS[i] / 365
        kind = ql.Option.Call if leg.side == "call" else ql.Option.Put
        black = ql.BlackCalculator(ql.PlainVanillaPayoff(kind, leg.strike), FORWARDS[i], iv * t**0.5, 1.0)
        expected = {
            "value": black.value(),
            "delta": black.deltaForward(),
            "gamma": black.gammaForward(),
            "vega": black.vega(t),
        }
        for name, value in expected.items():
            assert float(result[name][i]) == pytest.approx(leg.quantity * value, rel=1e-9), name
    assert result["delta"].attrs["units"] == "currency/USD"
    assert result["forward"].to_numpy().tolist() == pytest.approx(FORWARDS.tolist())


def test_greeks_in_coin_are_differences_of_the_coin_value():
    now = position.greeks(BOOK, made()).sel(currency="coin")
    f, iv, t = (now[name].to_numpy() for name in ("forward", "iv", "year_fraction"))

    def value(up: float, vol: float) -> np.ndarray:
        each = black76.price(f + up, BOOK["strike"].to_numpy(), t, iv + vol, BOOK["side"], premium="inverse")
        return each * BOOK["quantity"].to_numpy()

    np.testing.assert_allclose(now["value"], value(0, 0), rtol=1e-9)
    np.testing.assert_allclose(now["delta"], (value(10, 0) - value(-10, 0)) / 20, rtol=1e-5)
    second = (value(50, 0) - 2 * value(0, 0) + value(-50, 0)) / 2500
    np.testing.assert_allclose(now["gamma"], second, rtol=1e-4)
    np.testing.assert_allclose(now["vega"], (value(0, 1e-4) - value(0, -1e-4)) / 2e-4, rtol=1e-5)


def test_vega_buckets_add_up_and_are_bumps_of_the_smile():
    """A bump of one expiry by the share of one delta, revalued leg by leg."""
    result = position.vega_buckets(BOOK, made()).sel(currency="usd")
    assert float(result["vega"].sum()) == pytest.approx(float(result["total"]), rel=1e-9)
    greeks = position.greeks(BOOK, made()).sel(currency="usd")
    call = black76.greeks(
        greeks["forward"],
        xr.DataArray(BOOK["strike"], dims="leg"),
        greeks["year_fraction"],
        greeks["iv"],
        "call",
    )["delta"].to_numpy()
    nodes = [0.1, 0.25, 0.5, 0.75, 0.9]
    bump = 1e-4 * np.interp(call, nodes, [0, 0, 1, 0, 0])
    f, iv, t = (greeks[name].to_numpy() for name in ("forward", "iv", "year_fraction"))
    k, quantity = BOOK["strike"].to_numpy(), BOOK["quantity"].to_numpy()
    moved = [black76.price(f, k, t, iv + s * bump, BOOK["side"]) * quantity for s in (1, -1)]
    expected = (moved[0] - moved[1]) / 2e-4
    np.testing.assert_allclose(result["vega"].sel(call_delta=0.5), expected, rtol=1e-5, atol=1e-6)


def test_a_leg_between_expiries_belongs_to_both():
    between = pd.DataFrame(
        {"expiry": ["2026-01-26T08:00Z"], "strike": [100_500.0], "side": ["call"], "quantity": [1.0]}
    )
    result = position.vega_buckets(between, made()).sel(currency="usd")
    by_expiry = result["vega"].sum("call_delta").to_numpy()
    f = position.greeks(between, made()).sel(currency="usd").isel(leg=0)
    # The forward's logarithm is linear in time: half-way from day 10 to day 40.
    assert float(f["forward"]) == pytest.approx(np.sqrt(FORWARDS[0] * FORWARDS[1]), rel=1e-12)
    k = np.log(100_500.0 / float(f["forward"]))
    for i in (0, 1):
        w = [smile.total_variance(made(), k)[j].item() for j in (0, 1)]
        w[i] = (np.sqrt(w[i] / (DAYS[i] / 365)) + 1e-5) ** 2 * DAYS[i] / 365
        vol = np.sqrt((w[0] + w[1]) / 2 / (25 / 365))
        change = (vol - float(f["iv"])) / 1e-5
        assert by_expiry[i] == pytest.approx(float(f["vega"]) * change, rel=1e-4)
    assert by_expiry[2] == 0.0


def test_scenario_volatility_with_sticky_strike_and_sticky_delta():
    one = legs((1, 110_000, "call", 1.0))
    smiles = made()
    k, t = np.log(110_000 / 101_000), 40 / 365
    iv = smile.iv(smiles.isel(expiry=1), [k, k - np.log(0.9)]).to_numpy()
    expected = {
        "strike": black76.price(90_900.0, 110_000.0, t, iv[0] + 0.05, "call"),
        "delta": black76.price(90_900.0, 110_000.0, t, iv[1] + 0.05, "call"),
    }
    for sticky, value in expected.items():
        result = position.scenarios(one, smiles, spot_change=-0.1, vol_change=0.05, sticky=sticky)
        actual = result["value"].squeeze().to_numpy()
        np.testing.assert_allclose(actual, [value, value / 90_900.0], rtol=1e-9)
        start = black76.price(101_000.0, 110_000.0, t, iv[0], "call")
        assert float(result["pnl"].squeeze()[0]) == pytest.approx(value - start, rel=1e-9)
    result = position.scenarios(one, made(), spot_change=0.05, elapsed="20d", sticky="delta")
    f, t = 101_000 * 1.05, 20 / 365
    value = float(result["value"].squeeze()[0])
    iv = black76.implied_vol(value, f, 110_000.0, t, "call").iv
    delta = black76.greeks(f, 110_000.0, t, iv, "call", which=["delta"])["delta"]
    k = float(surface.at(made(), EXPIRIES[1], target_delta=float(delta))["log_moneyness"])
    assert float(iv) == pytest.approx(float(smile.iv(made().isel(expiry=1), k)), rel=1e-8)


def test_leg_that_expires_within_the_scenario_is_its_payoff():
    """The first leg is 2 puts of 95,000. The forward of 100,000 moves to 90,000 or 110,000 in 10 days."""
    result = position.scenarios(
        BOOK, made(), spot_change=[-0.1, 0.1], vol_change=[0.0], elapsed=["0d", "10d"]
    )
    later = result.sel(days=10, vol_change=0.0)
    in_usd = later["value_by_leg"].sel(currency="usd").isel(leg=0)
    assert in_usd.to_numpy().tolist() == pytest.approx([10_000.0, 0.0])
    in_coins = later["value_by_leg"].sel(currency="coin").isel(leg=0, spot_change=0)
    assert float(in_coins) == pytest.approx(10_000 / 90_000)
    assert (later["status"].isel(leg=0) & Status.EXPIRED).astype(bool).all()
    assert not (later["status"].isel(leg=[1, 2]) & Status.EXPIRED).any()


def test_negative_volatility_gives_nan():
    result = position.scenarios(BOOK, made(), spot_change=[-0.1, 0.1], vol_change=[-0.6, 0.0])
    impossible = result.sel(vol_change=-0.6)
    assert np.isnan(impossible["pnl"]).all()
    assert (impossible["status"] & Status.BAD_INPUT).astype(bool).all()
    assert not np.isnan(result["pnl"].sel(vol_change=0.0)).any()


def test_scenario_without_a_change_has_no_profit():
    unmoved = position.scenarios(BOOK, made())
    assert unmoved["pnl"].squeeze().to_numpy().tolist() == [0.0, 0.0]


def test_leg_that_expired_before_the_surface_is_nan():
    expiry = BOOK["expiry"].mask(BOOK.index == 0, pd.Timestamp("2025-12-31T08:00Z"))
    result = position.scenarios(BOOK.assign(expiry=expiry), made(), spot_change=[-0.1, 0.0, 0.1])
    assert np.isnan(result["value_by_leg"].isel(leg=0)).all()
    assert np.isnan(result["pnl_by_leg"].isel(leg=0)).all()
    assert (result["status"].isel(leg=0) & Status.EXPIRED).astype(bool).all()
    assert not np.isnan(result["pnl_by_leg"].isel(leg=[1, 2])).any()
    assert np.isnan(result["pnl"]).all()


def test_attribution_adds_up_and_the_residual_is_of_third_order():
    """Half of the moves leave an eighth of the residual; revaluation by the scenario function."""
    residual = []
    for part in (1.0, 0.5):
        after = made(level=1 + 0.1 * part, passed=1.0, move=-0.04 * part)
        result = position.attribution(BOOK, made(), after)
        total = result["contribution"].sum("term") + result["residual"]
        np.testing.assert_allclose(total, result["pnl"], rtol=1e-12)
        values = [position.greeks(BOOK, item)["value"].sum("leg") for item in (after, made())]
        np.testing.assert_allclose(result["pnl"], values[0] - values[1], rtol=1e-9)
        residual.append(result["residual"].to_numpy())
        assert (result["residual_share"] < 0.02).all()
    np.testing.assert_allclose(residual[0] / residual[1], 8.0, rtol=0.25)


def test_terms_are_greeks_times_moves():
    """One call, with QuantLib's greeks at the start; theta by hand as the value of a shorter life."""
    one = legs((1, 101_000, "call", 3.0))
    after = made(level=1.05, passed=2.0, move=0.01)
    result = position.attribution(one, made(), after).sel(currency="usd")
    term = result["contribution"].to_series()
    iv = float(smile.iv(made().isel(expiry=1), 0.0))
    t, left = 40 / 365, 38 / 365

    def black(years: float) -> ql.BlackCalculator:
        return ql.BlackCalculator(
            ql.PlainVanillaPayoff(ql.Option.Call, 101_000), 101_000, iv * years**0.5, 1.0
        )

    assert term["theta"] == pytest.approx(3 * (black(left).value() - black(t).value()), rel=1e-9)
    assert term["delta"] == pytest.approx(3 * black(t).deltaForward() * 1010, rel=1e-9)
    assert term["charm"] == pytest.approx(
        3 * (black(left).deltaForward() - black(t).deltaForward()) * 1010, rel=1e-6
    )
    assert term["gamma"] == pytest.approx(3 * black(left).gammaForward() * 1010**2 / 2, rel=1e-9)
    moved = float(smile.iv(after.isel(expiry=1), np.log(1 / 1.01))) - iv
    assert float(result["vol_change"][0]) == pytest.approx(moved, rel=1e-9)
    assert term["vega"] == pytest.approx(3 * black(t).vega(t) * moved, rel=1e-9)
    assert term["rho"] == 0.0
    assert float(result["forward_change"][0]) == pytest.approx(1010.0)
    assert float(result["days"][0]) == pytest.approx(2.0)
    shared = position.attribution(one, made(), after, spot=(100_000.0, 100_500.0)).sel(currency="usd")
    by_spot = shared["contribution"].to_series()
    assert by_spot["delta"] == pytest.approx(3 * black(t).deltaForward() * 505, rel=1e-9)
    assert by_spot["delta"] + by_spot["rho"] == pytest.approx(term["delta"], rel=1e-12)


def test_attribution_of_expired_legs_is_nan_and_swapped_surfaces_raise():
    after = made(passed=12.0).where(xr.DataArray([False, True, True], dims="expiry"))
    after = after.assign(method=made()["method"] * [0, 1, 1], status=made()["status"])
    result = position.attribution(BOOK, made(), after)
    assert np.isnan(result["pnl_by_leg"].sel(currency="usd")).to_numpy().tolist() == [True, False, False]
    assert np.isnan(result["pnl"]).all()
    assert int(result["status"][0]) & Status.EXPIRED
    with pytest.raises(ValueError, match="after must be later than before"):
        position.attribution(BOOK, after, made())


def test_invalid_legs_and_surfaces_are_rejected():
    for change, message in (
        (
            {"side": "straddle"},
            "side of a leg must be one of call, put, future, perpetual, spot, got 'straddle'",
        ),
        ({"strike": 0.0}, "strike above 0"),
        ({"quantity": np.nan}, "quantity in coins"),
    ):
        with pytest.raises(ValueError, match=message):
            position.greeks(BOOK.assign(**change), made())
    with pytest.raises(ValueError, match="has no variable 'forward'"):
        position.greeks(BOOK, made().drop_vars("forward"))
    with pytest.raises(ValueError, match="surface must have times along expiry to place a date"):
        position.greeks(BOOK, made().drop_vars("expiry"))
    with pytest.raises(ValueError, match=r"which must be greeks that add up over legs, got \['d1'\]"):
        position.greeks(BOOK, made(), which=["d1"])
    with pytest.raises(
        ValueError, match=r"be at least two numbers that ascend from above 0 to below 1, got \[0\.5, 0\.2\]"
    ):
        position.vega_buckets(BOOK, made(), deltas=[0.5, 0.2])
    with pytest.raises(ValueError, match="spot_change must be a fraction above -1"):
        position.scenarios(BOOK, made(), spot_change=-10)


def test_results_have_the_provenance_of_their_surfaces():
    one = made().assign_attrs(provenance='{"source": "one", "synthetic": false}')
    two = made(passed=1.0).assign_attrs(provenance='{"source": "two", "synthetic": true}')
    for result in (
        position.greeks(BOOK, one),
        position.vega_buckets(BOOK, one),
        position.scenarios(BOOK, one),
        risk_neutral.quantile(one, 0.5),
        risk_neutral.moments(one),
        risk_neutral.density(one, [0.0]),
        surface.local_volatility(one, [0.0], 0.1),
        business_time.fit(one, weekend_weight=1.0),
    ):
        assert dd.provenance(result)["source"] == "one"
    both = dd.provenance(position.attribution(BOOK, one, two))
    assert (both["source"], both["synthetic"]) == ("one, two", True)
    assert "provenance" not in position.greeks(BOOK, made()).attrs


def test_waterfall_attribution_has_no_residual():
    """Each step by hand for one call of 40 days: spot +3 %, basis +1 %, and a move of the smile."""
    one = legs((1, 110_000, "call", 2.0))
    now, after = made(), made(level=1.1, passed=2.0, move=0.04)
    result = position.attribution(one, now, after, method="revaluation", spot=(100_000.0, 103_000.0)).sel(
        currency="usd"
    )
    term = result["contribution"].to_series()
    old, new = now.isel(expiry=1), after.isel(expiry=1)
    f0, f1, left = 101_000.0, 101_000.0 * 1.04, 38 / 365
    k0, k1 = np.log(110_000 / f0), np.log(110_000 / f1)
    before, then = (lambda k: float(smile.iv(old, k))), (lambda k: float(smile.iv(new, k)))
    level = then(0.0) - before(0.0)
    odd = ((then(k1) - before(k1)) - (then(-k1) - before(-k1))) / 2
    ladder = [
        (f0, 40 / 365, before(k0)),
        (f0, left, before(k0)),
        (f0 * 1.03, left, before(k0)),
        (f1, left, before(k0)),
        (f1, left, before(k1)),
        (f1, left, before(k1) + level),
        (f1, left, before(k1) + level + odd),
        (f1, left, then(k1)),
    ]
    values = np.array([2.0 * black76.price(f, 110_000.0, t, iv, "call") for f, t, iv in ladder])
    np.testing.assert_allclose(term, np.diff(values), rtol=1e-8, atol=1e-8)
    assert list(term.index) == ["theta", "spot", "basis", "slide", "level", "skew", "wings"]
    assert abs(float(result["residual"])) < 1e-9
    steps = result["vol_steps"].isel(leg=0).to_series()
    np.testing.assert_allclose(steps, np.diff([iv for *_, iv in ladder]), rtol=1e-8, atol=1e-12)
    complete = position.attribution(BOOK, now, after, method="revaluation")
    greeks = position.attribution(BOOK, now, after)
    np.testing.assert_allclose(complete["pnl"], greeks["pnl"], rtol=1e-12)
    np.testing.assert_allclose(complete["contribution"].sum("term"), complete["pnl"], rtol=1e-12)
    assert (complete["residual_share"] < 1e-12).all()


def test_a_skew_stickiness_ratio_moves_the_smile_between_delta_and_strike():
    """0 is the smile of the new moneyness; R adds R times the slope at the money times ln of the move."""
    one, smiles = legs((1, 104_000, "call", 1.0)), made()
    x, t = np.log(1.02), 40 / 365
    k = np.log(104_000 / 101_000) - x
    curve = smiles.isel(expiry=1)
    slope = float(smile.total_variance(curve, 0.0, derivative=1)) / (2 * float(smile.iv(curve, 0.0)) * t)
    for ratio in (0.0, 1.0, 1.6):
        vol = float(smile.iv(curve, k)) + ratio * slope * x
        result = position.scenarios(one, smiles, spot_change=0.02, sticky=ratio)["value"]
        expected = black76.price(101_000 * 1.02, 104_000.0, t, vol, "call")
        assert float(result.sel(currency="usd").squeeze()) == pytest.approx(expected, rel=1e-6)
    with pytest.raises(ValueError, match="sticky must be one of strike, delta, got 'money'"):
        position.scenarios(one, smiles, sticky="money")
