import math
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from derivdata.analysis import black76, smile
from derivdata.analysis.status import Status
from tests.support.examples import examples
from tests.support.shared import known

EPS = 2.2e-16


def numbers(table: list[dict[str, str]], *names: str) -> list[np.ndarray[Any, Any]]:
    return [np.array([float(row[name]) for row in table]) for name in names]


def sides(table: list[dict[str, str]]) -> np.ndarray[Any, Any]:
    return np.array([row["side"] for row in table])


def kappa(value: Any, forward: Any, strike: Any, years: Any, iv: Any) -> Any:
    """Condition number of the volatility of an out-of-the-money value."""
    vega = black76.greeks(forward, strike, years, iv, "call", which=["vega"])["vega"]
    return value / (iv * vega)


def market(size: int, seed: int) -> tuple[np.ndarray[Any, Any], ...]:
    """Random options as venues list them: a day to a year, within five deviations of the forward."""
    rng = np.random.default_rng(seed)
    years = np.exp(rng.uniform(math.log(1 / 365), 0.0, size))
    iv = rng.uniform(0.2, 1.6, size)
    forward = np.exp(rng.uniform(-2, 11, size))
    strike = forward * np.exp(rng.uniform(-5, 5, size) * iv * np.sqrt(years))
    return forward, strike, years, iv, np.where(strike > forward, "call", "put")


class TestReferences:
    def test_price_and_greeks_equal_high_precision_reference(self):
        table = known("black76_reference_mp60")
        forward, strike, years, iv = numbers(table, "F", "K", "T", "sigma")
        price = black76.price(forward, strike, years, iv, sides(table))
        np.testing.assert_allclose(price, *numbers(table, "price"), rtol=1e-12, atol=1e-308)
        names = {"gamma": "gamma_fwd", "vega": "vega_per_1", "theta": "theta_per_year"}
        names |= {item: item for item in ("vanna", "volga", "d1", "d2")}
        actual = black76.greeks(forward, strike, years, iv, sides(table), which=tuple(names))
        for name, column in names.items():
            (expected,) = numbers(table, column)
            np.testing.assert_allclose(actual[name], expected, rtol=1e-11, atol=1e-305, err_msg=name)

    @pytest.mark.parametrize(("delta", "column"), [("forward", "delta_fwd"), ("pa", "delta_pa_fwd")])
    def test_delta_equals_high_precision_reference(self, delta: str, column: str):
        table = known("black76_reference_mp60")
        actual = black76.greeks(
            *numbers(table, "F", "K", "T", "sigma"), sides(table), which=["delta"], delta=delta
        )
        np.testing.assert_allclose(actual["delta"], *numbers(table, column), rtol=1e-11, atol=1e-305)

    def test_implied_volatility_has_documented_accuracy(self):
        table = [row for row in known("black76_implied_vol_mp60") if row["status"] == "ok"]
        price, forward, strike, years = numbers(table, "price_undiscounted", "F", "K", "T")
        actual = black76.implied_vol(price, forward, strike, years, sides(table))
        sigma, condition = numbers(table, "sigma", "condition_number")
        assert np.all(actual.status == 0)
        assert np.all(np.abs(actual.iv / sigma - 1) <= 64 * EPS * (1 + condition))

    def test_implied_volatility_states_the_reason_of_nan(self):
        names = {
            "below_intrinsic": Status.BELOW_INTRINSIC,
            "zero_time_value": Status.ZERO_TIME_VALUE,
            "at_or_above_upper_bound": Status.UPPER_BOUND,
            "expired": Status.EXPIRED,
            "nan_input": Status.BAD_INPUT,
            "nonpositive_forward_or_strike": Status.BAD_INPUT,
        }
        table = [row for row in known("black76_implied_vol_mp60") if row["status"] != "ok"]
        price, forward, strike, years = numbers(table, "price_undiscounted", "F", "K", "T")
        actual = black76.implied_vol(price, forward, strike, years, sides(table))
        assert np.all(np.isnan(actual.iv))
        assert actual.status.tolist() == [names[row["status"]] for row in table]

    def test_published_values(self):
        for row in known("black76_published"):
            inputs = [float(row[name]) for name in ("F", "K", "T", "sigma")]
            actual = self.published(row["quantity"], inputs, row["side"], float(row["r"]))
            assert actual == pytest.approx(float(row["published"]), abs=float(row["tolerance"])), row
            assert actual == pytest.approx(float(row["exact_mpmath"]), rel=1e-12), row

    @staticmethod
    def published(quantity: str, inputs: list[float], side: str, rate: float) -> Any:
        if quantity == "price":
            return black76.price(*inputs, side, interest_rate=rate)
        if quantity == "elasticity":
            delta = black76.greeks(*inputs, side, interest_rate=rate, which=["delta"], delta="spot")["delta"]
            return delta * inputs[0] / black76.price(*inputs, side, interest_rate=rate)
        name = quantity.removesuffix("_spot")
        value = black76.greeks(*inputs, side, interest_rate=rate, which=[name], delta="spot")[name]
        # Haug's gamma is to a spot of 55 that carries at the rate: (F/S)² times that to the forward
        return value * (inputs[0] / 55.0) ** 2 if quantity == "gamma_spot" else value

    def test_call_of_strike_zero_is_worth_one_coin(self):
        """Deribit: strike-0 call, delta 1, worth one coin, net transaction delta 0."""
        inputs = (60000.0, 0.0, 0.1, 0.5, "call")
        assert black76.price(*inputs, premium="inverse") == 1.0
        assert black76.greeks(*inputs)["delta"] == 1.0
        assert black76.greeks(*inputs, delta="pa")["delta"] == 0.0


class TestDerivatives:
    @pytest.mark.parametrize("premium", ["linear", "inverse"])
    @pytest.mark.parametrize("side", ["call", "put"])
    @pytest.mark.parametrize("rate", [0.0, 0.07])
    def test_greeks_are_derivatives_of_the_price(self, premium: str, side: str, rate: float):
        how = {"premium": premium, "side": side}
        f, k, t, v, h, d = 100.0, 108.0, 0.4, 0.7, 1e-3, 1e-2

        def value(df: float = 0.0, dt: float = 0.0, dv: float = 0.0) -> float:
            return float(black76.price(f + df, k, t + dt, v + dv, interest_rate=rate, **how))

        def greek(name: str, df: float) -> float:
            return float(black76.greeks(f + df, k, t, v, interest_rate=rate, which=[name], **how)[name])

        def at_rate(r: float) -> float:
            """The forward moves with the rate, from a spot that stays."""
            return float(black76.price(f * math.exp((r - rate) * t), k, t, v, interest_rate=r, **how))

        expected = {
            "gamma": (value(h) - 2 * value() + value(-h)) / h**2,
            "vega": (value(dv=h) - value(dv=-h)) / (2 * h),
            "theta": (value(dt=-h) - value(dt=h)) / (2 * h),
            "volga": (value(dv=h) - 2 * value() + value(dv=-h)) / h**2,
            "vanna": (greek("vega", h) - greek("vega", -h)) / (2 * h),
            "speed": (greek("gamma", h) - greek("gamma", -h)) / (2 * h),
            "rho": (at_rate(rate + h) - at_rate(rate - h)) / (2 * h),
            "charm": (value(d, -h) - value(-d, -h) - value(d, h) + value(-d, h)) / (4 * d * h),
        }
        actual = black76.greeks(f, k, t, v, interest_rate=rate, which=list(expected), **how)
        for name, by_differences in expected.items():
            assert actual[name] == pytest.approx(by_differences, rel=2e-4), name

    def test_delta_is_discounted_by_spot_and_less_the_premium_in_coin(self):
        forward, strike, years, iv, side = market(500, seed=4)
        coin = black76.price(forward, strike, years, iv, side, premium="inverse")
        delta = black76.greeks(forward, strike, years, iv, side, which=["delta"])["delta"]
        adjusted = black76.greeks(forward, strike, years, iv, side, which=["delta"], delta="pa")["delta"]
        np.testing.assert_allclose(adjusted, delta - coin, atol=1e-13)
        inputs = (100.0, 105.0, 0.5, 0.36, "call")
        plain = black76.greeks(*inputs, interest_rate=0.1)["delta"]
        assert plain == black76.greeks(*inputs)["delta"]
        discounted = black76.greeks(*inputs, interest_rate=0.1, delta="spot")["delta"]
        assert discounted == pytest.approx(plain * math.exp(-0.05), rel=1e-15)


class TestLimits:
    @pytest.mark.parametrize(("years", "iv"), [(0.0, 0.5), (0.5, 0.0), (0.0, 0.0)])
    def test_without_time_or_volatility_an_option_is_its_payoff(self, years: float, iv: float):
        actual = black76.price([120.0, 80.0], 100.0, years, iv, [["call"], ["put"]])
        assert actual.tolist() == [[20.0, 0.0], [0.0, 20.0]]
        greeks = black76.greeks([120.0, 80.0], 100.0, years, iv, [["call"], ["put"]])
        assert greeks["delta"].tolist() == [[1.0, 0.0], [0.0, -1.0]]
        for name in ("gamma", "vega", "theta", "vanna", "volga"):
            assert not greeks[name].any(), name
        rest = black76.greeks([120.0, 80.0], 100.0, years, iv, "call", which=["rho", "charm", "speed"])
        assert not rest["charm"].any()
        assert not rest["speed"].any()
        assert rest["rho"].tolist() == [100.0 * years, 0.0]  # T K where it will be exercised

    def test_without_time_at_the_strike_no_greek_is_defined(self):
        greeks = black76.greeks(100.0, 100.0, 0.0, 0.5, "call")
        assert all(math.isnan(value) for value in greeks.values())
        assert black76.price(100.0, 100.0, 0.0, 0.5, "call") == 0.0

    def test_gamma_without_time_in_coin_is_that_of_the_payoff(self):
        """(S - K) / S has the second derivative -2 K / S³."""
        greeks = black76.greeks(120.0, 100.0, 0.0, 0.5, "call", premium="inverse")
        assert greeks["gamma"] == pytest.approx(-2 * 100.0 / 120.0**3, rel=1e-14)

    def test_call_of_infinite_volatility_is_worth_the_forward(self):
        volatility = xr.DataArray([30.0, 1e3, 1e100], dims="iv", attrs={"units": "1/√year"})
        strike = xr.DataArray([50.0, 200.0], dims="k")
        price = black76.price(100.0, strike, 1.0, volatility, "call")
        np.testing.assert_allclose(price, 100.0, rtol=1e-15)

    @pytest.mark.parametrize("at", range(4))
    @pytest.mark.parametrize("value", [math.nan, -1.0, math.inf])
    def test_invalid_input_gives_nan(self, at: int, value: float):
        inputs = [100.0, 110.0, 0.5, 0.4]
        inputs[at] = value
        if at < 2:
            assert black76.implied_vol(5.0, *inputs[:3], "call").status == Status.BAD_INPUT
        assert math.isnan(black76.price(*inputs, "call"))
        assert all(math.isnan(item) for item in black76.greeks(*inputs, "call").values())

    def test_missing_side_gives_nan(self):
        side = np.array(["call", None], dtype=object)
        assert np.isnan(black76.price(100.0, 110.0, 0.5, 0.4, side)).tolist() == [False, True]
        assert np.isnan(black76.greeks(100.0, 110.0, 0.5, 0.4, side)["delta"]).tolist() == [False, True]
        assert black76.implied_vol(5.0, 100.0, 110.0, 0.5, side).status.tolist() == [0, Status.BAD_INPUT]

    def test_intrinsic_up_to_rounding_is_zero_time_value(self):
        """1 - K/F and (F - K)/F differ in the last digit; neither implies a volatility."""
        forward, strike = np.float64(64231.57), np.array([30000.1, 41000.3, 52000.7, 60000.9])
        actual = black76.implied_vol(1 - strike / forward, forward, strike, 0.1, "call", premium="inverse")
        assert np.all(actual.status == Status.ZERO_TIME_VALUE)

    def test_invalid_arguments_raise(self):
        for call, message in (({"side": "Call"}, "side"), ({"side": "call", "which": ["zomma"]}, "which")):
            with pytest.raises(ValueError, match=message):
                black76.greeks(100.0, 110.0, 0.5, 0.4, **call)


# A fortnight to ten years, ten to a thousand percent, strikes from a tenth to ten times the forward
options = st.tuples(
    st.floats(1e-3, 1e6),
    st.floats(-2.3, 2.3).map(math.exp),
    st.floats(1e-3, 10.0),
    st.floats(0.05, 10.0),
)


class TestProperties:
    @examples(25, 300)
    @given(options, st.sampled_from(["linear", "inverse"]))
    def test_round_trip(self, option: tuple[float, ...], premium: str):
        forward, ratio, years, iv = option
        strike = forward * ratio
        side = "call" if strike >= forward else "put"
        price = black76.price(forward, strike, years, iv, side, premium=premium)
        actual = black76.implied_vol(price, forward, strike, years, side, premium=premium)
        if actual.status == Status.UPPER_BOUND:
            assert price >= (1 - 2e-15) * min(forward, strike) / (forward if premium == "inverse" else 1.0)
            return
        if price < 1e-300:
            return
        value = price * forward if premium == "inverse" else price
        condition = kappa(value, forward, strike, years, iv)
        assert actual.iv == pytest.approx(iv, rel=64 * EPS * (1 + condition))


class TestManyOptions:
    def test_extreme_options_converge(self):
        """Deviations from 1e-5 to 16, strikes to 35 deviations away: beyond any listed option."""
        rng = np.random.default_rng(6)
        s = np.exp(rng.uniform(math.log(1e-5), math.log(16.0), 200_000))
        strike = np.exp(np.minimum(rng.uniform(0, 35, s.size) * s, 600.0))
        price = black76.price(1.0, strike, 1.0, s, "call")
        used = (price > 1e-300) & (price < 1 - 1e-13)
        actual = black76.implied_vol(price[used], 1.0, strike[used], 1.0, "call")
        assert not actual.status.any()
        condition = kappa(price, 1.0, strike, 1.0, s)[used]
        assert np.all(np.abs(actual.iv / s[used] - 1) <= 64 * EPS * (1 + condition))

    def test_results_do_not_depend_on_other_elements(self):
        forward, strike, years, iv, side = market(20_000, seed=7)
        strike[::7] *= 1e3
        iv[::11] *= 8
        years[::13] = 0.0
        forward[::17] = np.nan
        price = black76.price(forward, strike, years, iv, side)
        some = np.arange(0, 20_000, 97)
        alone = [black76.price(forward[i], strike[i], years[i], iv[i], side[i]) for i in some]
        np.testing.assert_allclose(price[some], alone, rtol=2e-15)


class TestKindsOfArray:
    def surface(self) -> dict[str, Any]:
        strike = xr.DataArray([80.0, 100.0, 130.0], dims="strike", coords={"strike": [80.0, 100.0, 130.0]})
        years = xr.DataArray([0.1, 0.5], dims="expiry", coords={"expiry": [1, 2]})
        side = xr.DataArray(["call", "put"], dims="side", coords={"side": ["call", "put"]})
        iv = 0.5 + 0.1 * years + 0.001 * (strike - 100) + xr.zeros_like(side, dtype=float)
        return {
            "forward": 100.0 + years,
            "strike": strike,
            "year_fraction": years,
            "iv": iv.transpose("strike", "side", "expiry"),
            "side": side,
        }

    def test_labels_and_dims_of_the_largest_input_are_kept(self):
        price = black76.price(**self.surface())
        assert price.dims == ("strike", "side", "expiry")
        assert price.name == "price"
        assert price.attrs["premium"] == "linear"
        one = price.sel(strike=130.0, side="put", expiry=2)
        expected = black76.price(100.5, 130.0, 0.5, 0.5 + 0.05 + 0.03, "put")
        assert float(one) == pytest.approx(expected, rel=1e-14)

    def test_greeks_of_arrays_are_a_dataset(self):
        greeks = black76.greeks(**self.surface(), delta="pa")
        assert isinstance(greeks, xr.Dataset)
        assert list(greeks) == ["delta", "gamma", "vega", "theta", "vanna", "volga"]
        assert greeks.attrs["delta"] == "pa"
        assert greeks["gamma"].dims == ("strike", "side", "expiry")
        with pytest.raises(
            ValueError, match="which must name at least one of delta, gamma, vega, theta, vanna, volga, rho,"
        ):
            black76.greeks(**self.surface(), which=[])

    def test_inputs_with_different_labels_raise(self):
        forward = xr.DataArray([1.0, 2.0], dims="strike", coords={"strike": [1.0, 2.0]})
        years = xr.DataArray([0.1, 0.2], dims="strike", coords={"strike": [2.0, 3.0]})
        with pytest.raises(ValueError, match="strike"):
            black76.price(forward, 1.0, years, 0.5, "call")

    def test_status_has_a_meaning_for_each_flag(self):
        inputs = self.surface()
        del inputs["iv"]
        actual = black76.implied_vol(xr.full_like(inputs["forward"], 1e9), **inputs)
        assert actual.status.dtype == np.int32
        meanings = actual.status.attrs["flag_meanings"].split()
        masks = actual.status.attrs["flag_masks"].tolist()
        assert dict(zip(meanings, masks, strict=True))["upper_bound"] == Status.UPPER_BOUND
        assert np.all(actual.status == Status.UPPER_BOUND)

    def test_bare_dask_arrays_stay_lazy(self):
        forward, strike, years, iv, side = market(5000, seed=8)
        lazy = [da.from_array(item, chunks=999) for item in (forward, strike, years)]
        price = black76.price(*lazy, iv, da.from_array(side, chunks=1234))
        assert isinstance(price, da.Array)
        np.testing.assert_array_equal(price.compute(), black76.price(forward, strike, years, iv, side))
        greeks = black76.greeks(lazy[0], 100.0, years[:, None], 0.5, "call", which=["vega"])
        assert greeks["vega"].shape == (5000, 5000)

    def test_side_accepts_pandas_string_types(self):
        side = pd.Series(["call", "put"])
        kinds = [side.to_list(), side, side.values]
        kinds += [side.astype(kind).values for kind in ("string", "category", "object")]
        prices = [black76.price(100.0, 90.0, 0.5, 0.6, kind) for kind in kinds]
        for item in prices[1:]:
            np.testing.assert_array_equal(item, prices[0])
        assert prices[0][0] - prices[0][1] == pytest.approx(10.0, abs=1e-12)

    def test_columns_floats_and_empty_arrays(self):
        forward, strike, years, iv, side = market(50, seed=9)
        frame = pd.DataFrame({"F": forward, "K": strike, "T": years, "iv": iv})
        category = pd.Series(pd.Categorical(side, categories=["put", "call"]))
        actual = black76.price(frame["F"], frame["K"], frame["T"], frame["iv"], category)
        np.testing.assert_array_equal(actual, black76.price(forward, strike, years, iv, side))
        assert isinstance(black76.price(100.0, 110.0, 0.5, 0.4, "call"), float)
        assert black76.price(np.array([]), 110.0, 0.5, 0.4, "call").shape == (0,)
        assert black76.implied_vol(np.array([]), 100.0, 110.0, 0.5, "call").status.dtype == np.int32


class TestPrecision:
    """Prices in the money of a venue that stores float32: the excess over intrinsic is mostly rounding."""

    strike = np.arange(60_000.0, 97_000.0, 1_000.0)

    @pytest.mark.parametrize("premium", ["linear", "inverse"])
    @pytest.mark.parametrize("kind", ["numpy", "pandas", "labelled", "nullable", "arrow"])
    def test_float32_prices_give_a_volatility_or_a_status(self, premium: str, kind: str):
        price = black76.price(97_123.0, self.strike, 7 / 365, 0.6, "call", premium=premium)
        exact = black76.implied_vol(price, 97_123.0, self.strike, 7 / 365, "call", premium=premium)
        single = price.astype(np.float32)
        given = {
            "numpy": single,
            "pandas": pd.Series(single),
            "labelled": xr.DataArray(single, dims="strike"),
            "nullable": pd.Series(single, dtype="Float32"),
            "arrow": pa.array(single),
        }[kind]
        actual = black76.implied_vol(given, 97_123.0, self.strike, 7 / 365, "call", premium=premium)
        iv, status = np.asarray(actual.iv), np.asarray(actual.status)
        good = status == 0
        assert 5 < good.sum() < (exact.status == 0).sum()
        assert np.abs(iv[good] / 0.6 - 1.0).max() < 0.02
        assert set(status[~good]) <= {int(Status.ZERO_TIME_VALUE), int(Status.BELOW_INTRINSIC)}

    def test_rounding_of_float32_forwards_affects_only_itm_options(self):
        strike = np.array([60_000.0, 120_000.0])
        price = black76.price(97_123.4, strike, 7 / 365, 0.6, "call")
        actual = black76.implied_vol(price, np.float32(97_123.4), strike, 7 / 365, "call")
        assert actual.status.tolist() == [Status.ZERO_TIME_VALUE, 0]
        assert actual.iv[1] == pytest.approx(0.6, rel=1e-5)


class TestPercent:
    @pytest.mark.parametrize("iv", [60.0, [62.0, 58.0, 55.0], pd.Series([62.0, np.nan, 55.0])])
    @pytest.mark.parametrize("of", [black76.price, black76.greeks])
    def test_volatilities_that_look_like_percent_are_rejected(self, of: Any, iv: Any):
        with pytest.raises(ValueError, match=r"looks like percent, its median is (60|58)"):
            of(1e5, 1e5, 0.25, iv, "call")

    def test_volatility_of_1500_percent_is_accepted(self):
        price = black76.price(1e5, [9e4, 1e5, 1.1e5], 1 / 8760, 15.0, "call")
        np.testing.assert_allclose(
            black76.implied_vol(price, 1e5, [9e4, 1e5, 1.1e5], 1 / 8760, "call").iv, 15.0
        )


@pytest.mark.parametrize(
    "side",
    [
        pl.Series(["put", "call"]),
        pl.Series(["put", "call"], dtype=pl.Categorical),
        pa.array(["put", "call"]),
        pa.chunked_array([["put"], ["call"]]),
        pa.array(["put", "call"]).dictionary_encode(),
    ],
)
def test_side_accepts_columns_of_other_libraries(side: Any):
    expected = black76.price(1e5, [9e4, 1.1e5], 0.25, 0.6, ["put", "call"])
    np.testing.assert_array_equal(black76.price(1e5, [9e4, 1.1e5], 0.25, 0.6, side), expected)


class OnDevice:
    """An array that cannot be converted to numpy, like a CuPy or PyTorch array on a device."""

    ndim, shape, dtype = 1, (2,), np.dtype(np.float64)

    def __init__(self, fault: Exception):
        self.fault = fault

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise self.fault


@pytest.mark.parametrize("fault", [TypeError("can't convert cuda:0"), RuntimeError("requires grad")])
def test_an_array_that_cannot_be_converted_is_named(fault: Exception):
    with pytest.raises(TypeError, match=r"forward \(.*OnDevice.*\) cannot be converted to a NumPy array"):
        black76.price(OnDevice(fault), 1e5, 1.0, 0.5, "call")
    with pytest.raises(TypeError, match=r"iv \(.*OnDevice.*\) cannot be converted"):
        smile.fit([-0.1, 0.0], OnDevice(fault), 0.1)
