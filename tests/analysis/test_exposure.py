import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.optimize import brentq

from derivdata.analysis import black76, exposure
from derivdata.analysis.chain import clean
from derivdata.tables.chains import surface
from tests.analysis.deribit import chain_2026
from tests.analysis.made_chains import options
from tests.support.shared import known

NOW = pd.Timestamp("2026-01-02T08:00", tz="UTC").as_unit("us")
MONTH = NOW + pd.Timedelta(365 / 10, "D")
YEARS = 0.1


def expected(quantity: str) -> float:
    return float({row["quantity"]: row["value"] for row in known("exposure_expected")}[quantity])


DEALER = {"call": 1.0, "put": -1.0}


def gamma_of(chain: pd.DataFrame, **options: Any) -> xr.DataArray:
    return exposure.gamma_exposure(chain, **options)["gamma_exposure_usd"]


def table(rows: list[dict[str, Any]], **common: Any) -> pd.DataFrame:
    return options(*rows, **{"time": NOW, "expiry": MONTH, "iv": 0.5} | common)


def volatility_of_gamma(strike: float, gamma: float) -> float:
    """The lower volatility at which a tenth of a year on a forward of 100 has this gamma."""

    def miss(iv: float) -> float:
        return black76.greeks(100.0, strike, YEARS, iv, "call", which=["gamma"])["gamma"] - gamma

    return brentq(miss, 0.4, 6.0, xtol=1e-15, rtol=1e-15)


@pytest.fixture
def toy() -> pd.DataFrame:
    rows = [
        {
            "strike": float(row["strike"]),
            "side": row["side"],
            "open_interest": float(row["open_interest"]),
            "iv": volatility_of_gamma(float(row["strike"]), float(row["gamma"])),
        }
        for row in known("exposure_toy_chain")
    ]
    return table(rows)


VOLUME_RATIO = 1.5  # 3 coins of each put to 2 of each call, at the same strikes


def traded(chain: pd.DataFrame) -> pd.DataFrame:
    """Return a chain on OKX with a volume of 3 for each put and 2 for each call."""
    return chain.assign(volume=np.where(chain["side"] == "put", 3.0, 2.0), exchange="okx")


def without_lowest_volatility(chain: pd.DataFrame) -> pd.DataFrame:
    """Return a chain without the volatilities of the lowest strike."""
    return chain.assign(iv=chain["iv"].mask(chain["strike"] == chain["strike"].min()))


class TestToyChain:
    def test_exposure_unsigned_and_signed_by_strike_and_in_total(self, toy: pd.DataFrame):
        total = gamma_of(toy, by=[])
        assert total.item() == pytest.approx(expected("gex_gross_usd_per_1pct"), rel=1e-11)
        assert total.attrs["dealer"] == "unsigned"
        assert total.attrs["units"] == "USD per 1 %"
        values = gamma_of(toy, dealer=DEALER, by=["strike"])
        for strike in (90, 100, 110):
            by_hand = expected(f"gex_by_strike_{strike}")
            assert values.sel(strike=strike).item() == pytest.approx(by_hand, abs=1e-9)
        total = gamma_of(toy, dealer=DEALER, by=[])
        assert total.item() == pytest.approx(expected("gex_usd_per_1pct = net*S^2*0.01"), abs=1e-9)
        net = expected("net_gamma_coin_per_usd (calls +, puts -)")
        assert total.item() == pytest.approx(net * 100**2 * 0.01, abs=1e-9)

    def test_pain_and_max_pain_in_usd_and_in_coin(self, toy: pd.DataFrame):
        for settle in ("usd", "coin"):
            curve = exposure.max_pain(toy, settle=settle)["pain"]
            assert curve.dims == ("expiry", "strike")
            for strike in (90, 100, 110):
                actual = curve.sel(strike=strike).item()
                assert actual == pytest.approx(expected(f"pain_{settle}_at_{strike}"), rel=1e-15)
        result = exposure.max_pain(toy)
        assert result["max_pain"].item() == expected("max_pain_strike_usd")
        assert result["lower"].item() == result["upper"].item() == 100.0
        assert result["max_pain"].attrs["units"] == "USD"
        rows = [
            {"strike": k, "side": s, "open_interest": 10.0} for k in (90.0, 110.0) for s in ("call", "put")
        ]
        result = exposure.max_pain(table(rows))
        assert [result[name].item() for name in ("lower", "upper", "max_pain")] == [90.0, 110.0, 100.0]

    def test_history_has_gamma_vanna_and_charm_in_documented_units(self, toy: pd.DataFrame):
        """Each option alone at two times; a fall of spot per day is a second, higher chain."""
        later = toy.assign(time=NOW + pd.Timedelta("1D"), underlying_price=104.0)
        result = exposure.history(pd.concat([toy, later]), by=["strike", "side"])
        assert result.sizes["time"] == 2
        for at, (chain, years) in enumerate(((toy, YEARS), (later, YEARS - 1 / 365))):
            for row in chain.itertuples():
                f, here = row.underlying_price, result.isel(time=at).sel(strike=row.strike, side=row.side)
                greeks = black76.greeks(
                    f, row.strike, years, row.iv, row.side, which=["gamma", "vanna", "charm"]
                )
                for name, unit in (("gamma", f * f * 0.01), ("vanna", f * 0.01), ("charm", f / 365)):
                    expected_usd = greeks[name] * unit * row.open_interest
                    assert here[f"{name}_usd"].item() == pytest.approx(expected_usd, rel=1e-9)
        assert result["vanna_usd"].attrs["units"] == "USD per point of volatility"

    def test_put_call_ratios(self, toy: pd.DataFrame):
        ratio = exposure.put_call_ratio(toy)["put_call_ratio"]
        assert ratio.item() == pytest.approx(expected("put_call_oi_ratio"), rel=1e-15)
        notional = exposure.put_call_ratio(toy, weight="notional")["put_call_ratio"]
        assert notional.item() == pytest.approx(
            expected("put_call_notional_ratio (strike-weighted)"), rel=1e-15
        )
        value = {"call": 0.0, "put": 0.0}
        for row in toy.itertuples():
            value[row.side] += row.open_interest * black76.price(100.0, row.strike, YEARS, row.iv, row.side)
        premium = exposure.put_call_ratio(toy, weight="premium")["put_call_ratio"]
        assert premium.item() == pytest.approx(value["put"] / value["call"], rel=1e-13)

    def test_put_call_ratio_by_volume(self, toy: pd.DataFrame):
        result = exposure.put_call_ratio(traded(toy), weight="volume", contract_size={"okx": 0.01})
        assert result["put_call_ratio"].item() == pytest.approx(VOLUME_RATIO)

    def test_clean_keeps_open_interest_of_options_without_volatility(self, toy: pd.DataFrame):
        chain = without_lowest_volatility(traded(toy)).drop(columns="volume")
        of_rows = exposure.open_interest(chain)["open_interest"]
        of_cleaned = exposure.open_interest(clean(chain))["open_interest"]
        xr.testing.assert_equal(of_rows, of_cleaned)

    def test_clean_keeps_traded_puts_without_volatility_and_open_interest(self, toy: pd.DataFrame):
        chain = without_lowest_volatility(traded(toy))
        chain["open_interest"] = chain["open_interest"].where(chain["side"] == "call", 0.0)
        result = exposure.put_call_ratio(clean(chain), weight="volume")
        assert result["put_call_ratio"].item() == VOLUME_RATIO
        assert result["missing"].item() == 0
        omitted = clean(chain.assign(volume=0.0)).attrs["omitted"]
        assert omitted["side"] == ["call"], "the put without volume and open interest is not kept"

    def test_put_call_ratio_by_volume_needs_the_column(self, toy: pd.DataFrame):
        with pytest.raises(ValueError, match="weight='volume' needs the column 'volume'"):
            exposure.put_call_ratio(toy, weight="volume")

    def test_okx_contracts_are_converted_to_coins_by_default(self, toy: pd.DataFrame):
        contracts = toy["open_interest"].sum()
        for symbol, coins in (("BTC", 0.01), ("ETH", 0.1)):
            options = toy.assign(exchange="okx", symbol=symbol)
            for options_or_cleaned in (options, clean(options)):
                open_interest = exposure.open_interest(options_or_cleaned, by=[])["open_interest"]
                assert open_interest.item() == pytest.approx(coins * contracts)
                assert open_interest.attrs["units"] == "coin"
            stated = options.assign(contract_size=0.5)
            assert exposure.open_interest(stated, by=[])["open_interest"].item() == pytest.approx(
                0.5 * contracts
            )
        other = toy.assign(exchange="okx", symbol="SOL")
        with pytest.raises(ValueError, match="the contract size of options of okx SOL is unknown"):
            exposure.open_interest(other)
        open_interest = exposure.open_interest(other, by=[], contract_size={"okx": 2.0})["open_interest"]
        assert open_interest.item() == pytest.approx(2.0 * contracts)
        both = pd.concat([toy.assign(exchange=venue, symbol="BTC") for venue in ("okx", "deribit")])
        open_interest = exposure.open_interest(both, by=[])["open_interest"].squeeze()
        assert open_interest.sel(exchange=["deribit", "okx"]).values == pytest.approx(
            [contracts, 0.01 * contracts]
        )

    def test_contract_size_scales_all_but_ratios(self, toy: pd.DataFrame):
        size = {"deribit": 0.1, "okx": 0.01}
        assert gamma_of(toy, by=[], contract_size=size).item() == pytest.approx(26.0, rel=1e-11)
        open_interest = exposure.open_interest(toy, by=["side"], contract_size=0.1)["open_interest"]
        assert open_interest.to_numpy() == pytest.approx([9.0, 8.0])
        assert exposure.max_pain(toy, contract_size=size)["pain"].max().item() == pytest.approx(50.0)
        ratio = exposure.put_call_ratio(toy, contract_size=size)["put_call_ratio"]
        assert ratio.item() == pytest.approx(8 / 9)


CALLS = {"strike": 110.0, "side": "call", "open_interest": 10.0}
PUTS = {"strike": 90.0, "side": "put", "open_interest": 10.0}


class TestZeroGamma:
    def test_zero_gamma_is_where_the_gammas_of_calls_and_puts_are_equal(self):
        """Equal densities at d1 of opposite sign: ln(F² / (90 · 110)) = -σ²T."""
        result = exposure.zero_gamma(table([CALLS, PUTS]), dealer=DEALER)
        level = result["price_usd"].item()
        assert level == pytest.approx(math.sqrt(9900.0) * math.exp(-0.5 * 0.25 * YEARS), rel=1e-10)
        of_puts = black76.greeks(level, 90.0, YEARS, 0.5, "put", which=["gamma"])["gamma"]
        of_calls = black76.greeks(level, 110.0, YEARS, 0.5, "call", which=["gamma"])["gamma"]
        assert of_puts == pytest.approx(of_calls, rel=1e-9)
        assert result["ratio"].item() == pytest.approx(level / 100.0, rel=1e-12)

    def test_zero_gamma_of_each_venue_is_higher_with_more_puts(self):
        more_puts = PUTS | {"open_interest": 20.0}
        okx = table([CALLS, PUTS], exchange="okx")
        derive = table([CALLS, more_puts], exchange="derive")
        result = exposure.zero_gamma(pd.concat([okx, derive]), dealer=DEALER)["ratio"]
        assert result.dims == ("exchange",)
        alone = exposure.zero_gamma(table([CALLS, PUTS]), dealer=DEALER)["ratio"]
        # numpy computes one value and several by different instructions on some processors
        assert result.sel(exchange="okx").item() == pytest.approx(alone.item(), rel=1e-14)
        assert result.sel(exchange="derive").item() > result.sel(exchange="okx").item()

    @pytest.mark.parametrize("expiry", [MONTH, NOW + pd.Timedelta("3h")])
    def test_zero_gamma_of_calls_alone_is_nan(self, expiry: pd.Timestamp):
        result = exposure.zero_gamma(table([CALLS], expiry=expiry), dealer=DEALER)
        assert math.isnan(result["ratio"].item())
        assert math.isnan(result["price_usd"].item())


class TestMissing:
    """Unknown values are omitted and counted, and an empty side is not zero."""

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"strike": 90.0, "side": "put", "open_interest": 5.0},
            {"strike": 100.0, "side": "call", "open_interest": math.nan},
            {"strike": 110.0, "side": "call", "open_interest": 4.0},
        ]

    def test_missing_open_interest_and_volatility_are_counted(self):
        frame = table(self.rows())
        open_interest = exposure.open_interest(frame, by=["side"])
        assert open_interest["open_interest"].to_numpy().tolist() == [4.0, 5.0]
        assert open_interest["missing"].to_numpy().tolist() == [1, 0]
        assert open_interest["listed"].to_numpy().tolist() == [2, 1]
        assert exposure.put_call_ratio(frame)["missing"].item() == 1
        assert exposure.put_call_ratio(frame)["put_call_ratio"].item() == 1.25
        assert exposure.max_pain(frame)["missing"].item() == 1
        gamma = exposure.gamma_exposure(frame)
        assert math.isnan(gamma["gamma_exposure_usd"].sel(strike=100.0).item())
        assert gamma["missing"].sel(strike=100.0).item() == 1
        frame = table(self.rows()).assign(iv=[0.5, 0.5, math.nan])
        gamma = exposure.gamma_exposure(frame, by=[])
        assert gamma["missing"].item() == 2
        put = black76.greeks(100.0, 90.0, YEARS, 0.5, "put", which=["gamma"])["gamma"]
        assert gamma["gamma_exposure_usd"].item() == pytest.approx(put * 5 * 100.0, rel=1e-12)

    @pytest.mark.parametrize("calls", [[], [0.0], [math.nan]])
    def test_one_sided_expiries_have_no_pain_and_no_ratio(self, calls: list[float]):
        put = {"strike": 90.0, "side": "put", "open_interest": 5.0}
        frame = table([put, *({"strike": 90.0, "side": "call", "open_interest": held} for held in calls)])
        assert exposure.max_pain(frame)["pain"].isnull().all()
        assert math.isnan(exposure.max_pain(frame)["max_pain"].item())
        assert math.isnan(exposure.put_call_ratio(frame)["put_call_ratio"].item())

    def test_pain_is_only_at_listed_strikes(self):
        later = table(self.rows(), expiry=MONTH + pd.Timedelta(30, "D")).assign(strike=[95.0, 100.0, 120.0])
        curve = exposure.max_pain(pd.concat([table(self.rows()), later]))["pain"]
        assert curve["strike"].to_numpy().tolist() == [90.0, 95.0, 100.0, 110.0, 120.0]
        known = curve.notnull().to_numpy().tolist()
        assert known == [[True, False, True, True, False], [False, True, True, False, True]]

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda o: exposure.open_interest(o, by=["symbol"]), "by"),
            (lambda o: exposure.put_call_ratio(o, by=["side"]), "side"),
            (lambda o: exposure.put_call_ratio(o, weight="vega"), "weight"),
            (lambda o: exposure.max_pain(o, settle="btc"), "settle"),
            (lambda o: exposure.gamma_exposure(o, dealer={"call": 1.0}), "dealer"),
            (lambda o: exposure.history(o, which=()), "which must name at least one of gamma, vanna, charm"),
            (lambda o: exposure.gamma_exposure(o, contract_size={"okx": 1.0}), "contract_size"),
            (lambda o: exposure.gamma_exposure(o.assign(iv=55.0)), "percent"),
        ],
    )
    def test_invalid_arguments_raise(self, call: Any, message: str):
        with pytest.raises(ValueError, match=message):
            call(table(self.rows()))


class TestRecorded:
    def test_exposure_of_a_surface_equals_that_of_its_table(self):
        frame = chain_2026("20260116T092000Z")
        frame = frame[frame["symbol"] == "BTC"].assign(gamma=np.nan, theta=np.nan)
        frame["underlying_price"] = frame.groupby("expiry")["underlying_price"].transform("median")
        labelled = surface(frame)
        for function in (exposure.gamma_exposure, exposure.max_pain, exposure.put_call_ratio):
            from_table, from_surface = function(frame), function(labelled)
            for name in from_table:
                np.testing.assert_allclose(from_surface[name], from_table[name], rtol=1e-12, err_msg=name)
