import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from derivdata.analysis import black76, chain, smile
from derivdata.analysis import surface as surfaces
from derivdata.analysis.chain.forward import forward_from_delta
from derivdata.analysis.status import Status
from derivdata.tables.chains import surface
from tests.analysis.deribit import STAMPS_2026, chain_2026
from tests.analysis.made_chains import MONTH, NOW, options
from tests.support.records import assert_identical
from tests.support.shared import known

SPRING = pd.Timestamp("2026-03-27T08:00", tz="UTC").as_unit("us")
REASONS = [
    "expired",
    "strike",
    "iv_missing",
    "iv_not_positive",
    "iv_too_high",
    "underlying",
    "duplicate",
    "crossed",
    "no_time_value",
    "outlier",
]


def expected(quantity: str) -> float:
    return float(
        {row["quantity"]: row["expected"] for row in known("term_structure_forward_expected")}[quantity]
    )


def pairs(strikes: list[float], **common: Any) -> list[dict[str, Any]]:
    return [{"strike": strike, "side": side} | common for strike in strikes for side in ("call", "put")]


def market(forwards: dict[pd.Timestamp, float], strikes: list[float], **common: Any) -> pd.DataFrame:
    """Calls and puts of one flat volatility, 0.6, on the forward of each expiry."""
    rows = [row | {"expiry": t, "underlying_price": f} for t, f in forwards.items() for row in pairs(strikes)]
    return options(*rows, **common)


class TestClean:
    def test_rejected_rows_are_counted_by_reason_and_the_rest_is_unchanged(self):
        frame = options(
            {"strike": 90.0},
            {"expiry": NOW - pd.Timedelta(1, "h")},
            {"strike": 0.0},
            {"strike": math.nan},
            {"iv": math.nan},
            {"iv": 0.0},
            {"iv": -0.1},
            {"iv": 15.5},
            {"underlying_price": math.nan},
            {"underlying_price": 0.0},
            {"strike": 110.0},
            {"strike": 110.0, "open_interest": 5.0},
            {"strike": 110.0, "open_interest": math.nan},
            {"strike": 120.0, "bid_coin": 0.03, "ask_coin": 0.02},
            {"strike": 90.0, "side": "put", "mark_coin": 0.0},
        )
        cleaned = chain.clean(frame)
        assert cleaned.attrs["dropped"] == dict.fromkeys(REASONS, 0) | {
            "expired": 1,
            "strike": 2,
            "iv_missing": 1,
            "iv_not_positive": 2,
            "iv_too_high": 1,
            "underlying": 1,
            "duplicate": 2,
            "crossed": 1,
            "no_time_value": 1,
        }
        assert list(cleaned.attrs["dropped"]) == REASONS
        assert cleaned[["strike", "open_interest"]].to_numpy().tolist() == [
            [90.0, 1.0],
            [100.0, 1.0],  # without an underlying price: its forward may come from parity or delta
            [110.0, 5.0],
        ]
        assert cleaned["status"].tolist() == [0, 0, Status.DUPLICATE]

    def test_time_to_expiry_is_actual_over_365(self):
        """2026-01-02T00:00Z to 2026-01-30T08:00Z; a chain without a time takes it as argument."""
        cleaned = chain.clean(options({}))
        assert cleaned["year_fraction"].item() == pytest.approx(expected("year_fraction_act365"), abs=1e-15)
        cleaned = chain.clean(options({}).drop(columns="time"), at="2026-01-02")
        assert cleaned["year_fraction"].item() == pytest.approx(28 / 365 + 8 / 8760, abs=1e-15)

    def test_date_expires_at_eight_and_is_flagged(self):
        dated = chain.clean(options({"expiry": pd.Timestamp("2026-01-30")}))
        assert dated["expiry"].item() == MONTH
        assert dated["status"].item() == Status.EXPIRY_TIME_ASSUMED
        assert dated["year_fraction"].item() == chain.clean(options({}))["year_fraction"].item()

    def test_options_in_their_last_hour_are_flagged(self):
        near = options({"time": MONTH - pd.Timedelta(3599, "s")}, {"time": MONTH - pd.Timedelta(1, "h")})
        assert chain.clean(near)["status"].tolist() == [Status.NEAR_EXPIRY, 0]
        assert chain.clean(near, min_time="2h")["status"].tolist() == [Status.NEAR_EXPIRY] * 2

    def test_ask_without_a_bid_is_flagged_and_a_missing_quote_is_not(self):
        frame = options(
            {"strike": 100.0, "bid_coin": 0.0, "ask_coin": 0.1},
            {"strike": 110.0, "bid_coin": math.nan, "ask_coin": 0.1},
            {"strike": 120.0, "bid_coin": math.nan, "ask_coin": math.nan},
            {"strike": 130.0, "bid_coin": 0.001, "ask_coin": 0.1},
        )
        assert chain.clean(frame)["status"].tolist() == [Status.ONE_SIDED, Status.ONE_SIDED, 0, 0]

    @pytest.mark.parametrize(
        ("side", "strike", "mark", "stays"),
        [
            ("call", 80.0, 0.2, False),  # 1 - 80/100
            ("call", 80.0, 0.2001, True),
            ("call", 80.0, 1.0, False),
            ("put", 125.0, 0.25, False),  # 125/100 - 1
            ("put", 125.0, 0.2501, True),
            ("put", 125.0, 1.25, False),
            ("put", 125.0, 1.2499, True),
            ("call", 125.0, 0.0, False),
        ],
    )
    def test_a_price_is_between_intrinsic_and_bound(self, side: str, strike: float, mark: float, stays: bool):
        coin = options({"side": side, "strike": strike, "mark_coin": mark})
        assert len(chain.clean(coin)) == stays
        usd = coin.drop(columns="mark_coin").assign(mark_usd=100 * mark)
        assert len(chain.clean(usd)) == stays

    def test_percent_volatility_is_rejected_unless_stated(self):
        frame = options({"iv": 60.0}, {"strike": 110.0, "iv": 55.0})
        with pytest.raises(ValueError, match="percent"):
            chain.clean(frame)
        with pytest.raises(ValueError, match="percent"):
            chain.forwards(frame)
        assert chain.clean(frame, iv_unit="percent")["iv"].tolist() == pytest.approx([0.6, 0.55])
        wild = options(*({"strike": 90.0 + 5 * i, "iv": 6.0} for i in range(5)))
        stated = chain.clean(wild, iv_unit="decimal", iv_max=20.0)  # a unit that is stated is accepted
        assert float(surfaces.from_chain(stated)["n"].sum()) > 0
        frame = options({}, {"strike": 90.0}, {"strike": 110.0}, {"exchange": "okx", "iv": 60.0})
        with pytest.raises(ValueError, match="percent"):
            chain.clean(frame)

    def test_outliers_are_removed_only_on_request(self):
        iv = [0.70, 0.65, 0.62, 0.90, 0.60, 0.61, 0.64]
        frame = options(*({"strike": 80.0 + 10 * i, "iv": item} for i, item in enumerate(iv)))
        assert len(chain.clean(frame)) == 7
        screened = chain.clean(frame, mad=3)  # 3 × 1.4826 × 0.04, the median step
        assert screened.attrs["dropped"]["outlier"] == 1
        assert screened["iv"].tolist() == [0.70, 0.65, 0.62, 0.60, 0.61, 0.64]

    def test_empty_chain_gives_an_empty_result(self):
        empty = chain.clean(options({}).iloc[:0])
        assert len(empty) == 0
        assert empty.attrs["dropped"] == dict.fromkeys(REASONS, 0)

    @pytest.mark.parametrize(
        ("frame", "message"),
        [
            (options({}).drop(columns="iv"), "iv"),
            (options({}).drop(columns="time"), "chain does not have a time"),
            (options({"bid": 0.1}), "bid_coin"),
            (options({"mark_price": 0.1}), "mark_coin"),
            (options({"bid_coin": 0.1, "ask_usd": 10.0}), "coin and in USD"),
        ],
    )
    def test_invalid_arguments_raise(self, frame: pd.DataFrame, message: str):
        with pytest.raises(ValueError, match=message):
            chain.clean(frame)

    def test_surface_converts_back_to_its_rows(self):
        greeks = dict.fromkeys(("delta", "gamma", "vega", "theta"), math.nan)
        frame = market({MONTH: 100.0, SPRING: 102.0}, [90.0, 100.0, 115.0], **greeks)
        frame = frame.iloc[:-1]  # ragged
        names = ["expiry", "strike", "side", "iv", "underlying_price", "year_fraction", "time", "symbol"]
        actual = chain.clean(surface(frame))[names].sort_values(names[:3], ignore_index=True)
        expected_rows = chain.clean(frame)[names].sort_values(names[:3], ignore_index=True)
        pd.testing.assert_frame_equal(actual, expected_rows, check_dtype=False)

    def test_surfaces_with_the_dim_exchange_or_time_convert_to_all_rows(self):
        greeks = dict.fromkeys(("delta", "gamma", "vega", "theta"), math.nan)
        frame = market({MONTH: 100.0, SPRING: 102.0}, [90.0, 100.0, 115.0], **greeks)
        one = surface(frame).drop_vars("exchange")
        venues = one.expand_dims(exchange=["derive", "okx"])
        assert len(chain.clean(venues)) == 2 * len(frame)
        assert chain.smiles(chain.clean(venues))["iv"].dims == ("exchange", "expiry", "strike")
        times = [np.datetime64(t, "us") for t in ("2026-01-02", "2026-01-03")]
        history = one.drop_vars("as_of").expand_dims(time=times)
        later = chain.clean(history).groupby("time")["year_fraction"].min()
        # From midnight to 08:00 UTC on the first expiry, 28 and 27 days later.
        assert later.tolist() == pytest.approx([28 / 365 + 8 / 8760, 27 / 365 + 8 / 8760])

    def test_surface_without_the_dim_side_raises(self):
        with pytest.raises(ValueError, match="side"):
            chain.clean(xr.Dataset({"iv": (("expiry", "strike"), [[0.5]])}))

    def test_a_surface_of_prices_needs_no_volatilities(self):
        price = black76.price(100.0, [90.0, 110.0], 58 / 365, 0.6, ["put", "call"])
        frame = options(
            {"strike": 90.0, "side": "put", "mark_usd": price[0]},
            {"strike": 110.0, "side": "call", "mark_usd": price[1]},
            underlying_price=100.0,
        )
        labels = {"expiry": [np.datetime64(MONTH.tz_localize(None), "us")], "as_of": NOW.to_datetime64()}
        places = ("expiry", "strike", "side")
        prices = xr.Dataset(
            {
                "mark_usd": (places, [[[np.nan, price[0]], [price[1], np.nan]]]),
                "observed": (places, [[[False, True], [True, False]]]),
                "underlying_price": ("expiry", [100.0]),
            },
            labels | {"strike": [90.0, 110.0], "side": ["call", "put"]},
        )
        with pytest.warns(UserWarning, match="2 of 2 options lack a volatility; computed 2 from their mark"):
            actual = chain.clean(prices)
        with pytest.warns(UserWarning, match="computed 2 from their mark"):
            by_rows = chain.clean(frame.assign(iv=np.nan))
        assert actual["strike"].tolist() == [90.0, 110.0]
        assert actual["iv"].tolist() == pytest.approx(by_rows["iv"].tolist())


class TestForwardOfOneOption:
    def test_delta(self):
        # N(d1) of the strike 110 on a forward of 100.
        call_delta = 0.3418349277207635
        option = {"strike": 110.0, "years": 0.1, "iv": 0.6}
        by_call = forward_from_delta(**option, side="call", delta=call_delta)
        by_put = forward_from_delta(**option, side="put", delta=call_delta - 1.0)
        assert by_call == pytest.approx(100.0, abs=1e-9)
        assert by_put == pytest.approx(100.0, abs=1e-9)

    @pytest.mark.parametrize(("side", "delta"), [("call", -0.2), ("call", 1.0), ("put", 0.3), ("put", -1.0)])
    def test_impossible_delta_gives_nan(self, side: str, delta: float):
        option = {"strike": 110.0, "iv": 0.6}
        assert math.isnan(forward_from_delta(**option, years=0.1, side=side, delta=delta))
        assert math.isnan(forward_from_delta(**option, years=-0.1, side="call", delta=0.3))


class TestForwards:
    def quoted(self, unit: str, prices: dict[float, tuple[float, float]]) -> pd.DataFrame:
        """Mid prices of call and put by strike, quoted two wide."""
        rows = [
            {"strike": k, "side": side, f"bid_{unit}": 0.99 * price, f"ask_{unit}": 1.01 * price}
            for k, both in prices.items()
            for side, price in zip(("call", "put"), both, strict=True)
        ]
        return options(*rows, underlying_price=101.0)

    def test_parity_forward_is_preferred(self):
        """C - P of 12, 2 and -8 at 90, 100 and 110: the forward is 102."""
        result = chain.forwards(
            self.quoted("usd", {90.0: (14.0, 2.0), 100.0: (7.0, 5.0), 110.0: (3.0, 11.0)})
        )
        assert result["forward"].item() == pytest.approx(expected("forward_parity_linear"), abs=1e-12)
        assert result["forward_source"].item() == "parity"
        assert result["forward_status"].item() == 0
        assert result["discount"].item() == 1.0

    STRIKES_OF_PARITY = (80.0, 90.0, 100.0, 110.0, 120.0)

    def test_discount_is_fitted_with_the_forward(self):
        """C - P = 0.98 (102 - K) in USD, or 0.98 (1 - K / 102) in coins."""
        in_usd = {k: (30.0 + 0.98 * (102.0 - k), 30.0) for k in self.STRIKES_OF_PARITY}
        in_coins = {k: (0.3 + 0.98 * (1 - k / 102.0), 0.3) for k in self.STRIKES_OF_PARITY}
        for unit, prices, tolerance in (("usd", in_usd, 1e-12), ("coin", in_coins, 1e-10)):
            result = chain.forwards(self.quoted(unit, prices), discount="fit")
            assert result["forward"].item() == pytest.approx(102.0, abs=tolerance)
            assert result["discount"].item() == pytest.approx(0.98, abs=1e-12)

    @pytest.mark.parametrize(("discount", "is_suspect"), [(0.98, True), (0.995, False)])
    def test_discount_of_more_than_a_tenth_a_year_is_suspect(self, discount: float, is_suspect: bool):
        """The expiry is a month ahead: 0.98 is 24 % a year, 0.995 is 6 %."""
        prices = {k: (30.0 + discount * (102.0 - k), 30.0) for k in self.STRIKES_OF_PARITY}
        result = chain.forwards(self.quoted("usd", prices), discount="fit")
        assert result["discount"].item() == pytest.approx(discount, abs=1e-12)
        assert bool(result["forward_status"].item() & Status.DISCOUNT_SUSPECT) is is_suspect

    def test_impossible_discount_or_three_strikes_give_the_spot_price(self):
        impossible = {k: (60.0 + 0.4 * (102.0 - k), 60.0) for k in self.STRIKES_OF_PARITY}
        three = {k: (30.0 + 0.98 * (102.0 - k), 30.0) for k in (90.0, 100.0, 110.0)}
        for prices in (impossible, three):
            result = chain.forwards(self.quoted("usd", prices), discount="fit")
            assert result["forward_source"] == "spot"
            assert result["forward_status"].item() & Status.DISCOUNT_SUSPECT

    def test_failed_parity_in_one_unit_does_not_hide_the_other_unit(self):
        """C - P = 0.4 (102 - K) in USD, an impossible discount; 0.98 (1 - K / 102) in coins."""
        strikes = (80.0, 90.0, 100.0, 110.0, 120.0)
        in_usd = self.quoted("usd", {k: (60.0 + 0.4 * (102.0 - k), 60.0) for k in (*strikes, 130.0)})
        in_coins = self.quoted("coin", {k: (0.3 + 0.98 * (1 - k / 102.0), 0.3) for k in strikes})
        table = pd.concat([in_usd, in_coins], ignore_index=True).drop(columns="exchange")
        result = chain.forwards(table, discount="fit")
        assert result["forward_source"].item() == "parity"
        assert result["forward"].item() == pytest.approx(102.0, abs=1e-10)
        assert result["discount"].item() == pytest.approx(0.98, abs=1e-12)

    def test_parity_needs_three_strikes_that_agree(self):
        """K + C - P is 102 at both strikes, or 102, 102, 105 and 106 at four."""
        two = {90.0: (14.0, 2.0), 100.0: (7.0, 5.0)}
        disagreeing = {90.0: (14.0, 2.0), 100.0: (7.0, 5.0), 110.0: (6.0, 11.0), 95.0: (14.0, 3.0)}
        for prices in (two, disagreeing):
            assert chain.forwards(self.quoted("usd", prices))["forward_source"].item() == "spot"

    def test_volatilities_without_prices_give_no_parity(self):
        frame = market({MONTH: 100.0, SPRING: 102.0}, [90.0, 95.0, 100.0, 105.0])
        frame.loc[frame["side"] == "put", "iv"] += 1e-4
        assert set(chain.forwards(frame)["forward_source"].to_numpy()) == {"underlying"}

    def test_marks_give_the_forward_if_quotes_disagree(self):
        """Mids imply forwards of 102, 102, 105 and 106; marks have C - P = 102 - K at every strike."""
        torn = {90.0: (14.0, 2.0), 100.0: (7.0, 5.0), 110.0: (6.0, 11.0), 95.0: (14.0, 3.0)}
        table = self.quoted("usd", torn)
        marks = np.where(table["side"] == "call", 102.0 - table["strike"] + 20.0, 20.0)
        result = chain.forwards(table.assign(mark_usd=marks))
        assert result["forward_source"].item() == "parity"
        assert result["forward"].item() == pytest.approx(102.0, abs=1e-12)
        # Another expiry, whose quotes agree on 104, keeps what they imply.
        near = self.quoted("usd", {90.0: (16.0, 2.0), 100.0: (9.0, 5.0), 110.0: (5.0, 11.0)})
        both = pd.concat([table.assign(mark_usd=marks), near.assign(expiry=SPRING, mark_usd=30.0)])
        np.testing.assert_allclose(chain.forwards(both)["forward"], [102.0, 104.0], rtol=1e-14)

    def test_parity_of_volatilities_that_differ(self):
        """Calls are quoted on 101 as if the forward were 103, so the rebuilt prices differ."""
        strikes = [95.0, 100.0, 105.0]
        frame = options(*pairs(strikes), underlying_price=101.0)
        years = chain.clean(frame)["year_fraction"]
        true = black76.price(103.0, frame["strike"], years, 0.6, frame["side"])
        iv = black76.implied_vol(true, 101.0, frame["strike"], years, frame["side"])
        assert not iv.status.any()
        result = chain.forwards(frame.assign(iv=iv.iv))
        assert result["forward_source"].item() == "parity"
        assert result["forward"].item() == pytest.approx(103.0, abs=1e-9)

    def test_underlying_price_of_each_expiry_is_its_forward(self):
        frame = market({MONTH: 100.0, SPRING: 102.0}, [90.0, 100.0])
        frame.loc[0, "underlying_price"] = 100.001  # one row differs, the median does not
        result = chain.forwards(frame)
        assert result["forward"].to_numpy().tolist() == [100.0, 102.0]
        years = [28 / 365 + 8 / 8760, 84 / 365 + 8 / 8760]
        assert result["year_fraction"].to_numpy() == pytest.approx(years)

    def test_equal_underlying_price_of_all_expiries_is_a_spot_price(self):
        frame = market({MONTH: 100.0, SPRING: 100.0}, [90.0, 110.0])
        result = chain.forwards(frame)
        assert np.all(result["forward"] == 100.0)
        assert np.all(result["forward_status"] == Status.FORWARD_IS_SPOT)
        result = chain.forwards(frame, spot=99.0)
        assert np.all(result["forward"] == 99.0)
        assert np.all(result["forward_status"] == Status.FORWARD_IS_SPOT)

    def test_underlying_price_that_moves_from_row_to_row_is_a_spot_price(self):
        frame = market({MONTH: 100.0, SPRING: 100.0}, [90.0, 100.0, 110.0])
        frame["underlying_price"] += 0.002 * np.arange(len(frame))
        result = chain.forwards(frame)
        assert set(result["forward_source"].to_numpy()) == {"spot"}
        assert np.all(result["forward_status"] == Status.FORWARD_IS_SPOT)

    def test_forward_from_deltas_if_the_underlying_is_an_index(self):
        forwards = {MONTH: 101.5, SPRING: 104.0}
        frame = market(forwards, [80.0, 90.0, 100.0, 110.0, 120.0])
        years = chain.clean(frame)["year_fraction"]
        greeks = black76.greeks(
            frame["underlying_price"], frame["strike"], years, 0.6, frame["side"], which=["delta"]
        )
        frame = frame.assign(delta=greeks["delta"], underlying_price=100.0)
        result = chain.forwards(frame)
        assert set(result["forward_source"].to_numpy()) == {"delta"}
        assert result["forward"].to_numpy() == pytest.approx([101.5, 104.0], abs=1e-10)
        noisy = frame.assign(delta=frame["delta"] + 0.1 * np.resize([1, 1, -1, -1], len(frame)))
        assert set(chain.forwards(noisy)["forward_source"].to_numpy()) == {"spot"}

    def test_given_forward_curve_is_used_and_an_unlikely_one_flagged(self):
        frame = market({MONTH: 100.0, SPRING: 102.0}, [90.0, 110.0])
        result = chain.forwards(frame, given={"2026-01-30T08:00": 101.0, SPRING: 108.0})
        assert result["forward"].to_numpy().tolist() == [101.0, 108.0]
        assert result["forward_status"].to_numpy().tolist() == [0, Status.FORWARD_SUSPECT]

    def test_expiry_without_a_given_forward_uses_the_next_method(self):
        frame = market({MONTH: 100.0, SPRING: 102.0}, [90.0, 110.0])
        result = chain.forwards(frame, given={MONTH: 101.0})
        assert result["forward_source"].to_numpy().tolist() == ["given", "underlying"]

    def test_given_forward_by_venue_holds_for_all_its_expiries(self):
        chains = [market({MONTH: 100.0, SPRING: 102.0}, [90.0, 110.0], exchange=n) for n in ("okx", "derive")]
        curve = xr.DataArray([100.5, 101.5], dims="exchange", coords={"exchange": ["okx", "derive"]})
        result = chain.forwards(pd.concat(chains), given=curve)
        assert result["forward"].dims == ("exchange", "expiry")
        assert result["forward"].sel(exchange="okx").to_numpy().tolist() == [100.5, 100.5]
        assert result["forward"].sel(exchange="derive").to_numpy().tolist() == [101.5, 101.5]

    def test_method_given_without_a_forward_gives_nan(self):
        frame = market({MONTH: 100.0, SPRING: 102.0}, [90.0, 110.0])
        result = chain.forwards(frame, methods=["given"])
        assert result["forward"].isnull().all()
        assert result["forward_source"].to_numpy().tolist() == ["", ""]
        assert np.all(result["forward_status"] == Status.BAD_INPUT)

    def test_columns_that_vary_become_dims_and_constant_ones_scalars(self):
        early = market({MONTH: 100.0, SPRING: 102.0}, [90.0, 110.0])
        late = market({SPRING: 103.0}, [90.0, 110.0], time=NOW + pd.Timedelta(1, "h"))
        one, two = chain.forwards(early), chain.forwards(pd.concat([early, late]))
        assert one["forward"].dims == ("expiry",)
        assert one["as_of"].to_numpy() == np.datetime64("2026-01-02T00:00")
        assert two["forward"].dims == ("time", "expiry")
        assert two["forward"].to_numpy()[0].tolist() == [100.0, 102.0]
        assert np.isnan(two["forward"].to_numpy()[1, 0])
        assert two["symbol"].item() == "BTC"

    def test_invalid_arguments_raise(self):
        with pytest.raises(ValueError, match="methods"):
            chain.forwards(options({}), methods=["futures"])
        with pytest.raises(ValueError, match="labels"):
            chain.forwards(options({}), given=pd.Series([1.0], index=pd.Index(["okx"], name="venue")))


class TestBasis:
    def test_basis_of_two_expiries(self):
        """F/S of 1.02 after a quarter and 1.05 after a half."""
        quarter, half = (NOW + pd.Timedelta(365 / 4 * n, "D") for n in (1, 2))
        forwards = chain.forwards(market({quarter: 102.0, half: 105.0}, [90.0, 110.0]))
        curve = chain.basis(forwards, spot=100.0)
        assert curve["basis"].to_numpy() == pytest.approx([0.02, 0.05])
        assert curve["basis_apr"].to_numpy() == pytest.approx([0.08, 0.10])
        assert curve["carry"].to_numpy() == pytest.approx([4 * math.log(1.02), 2 * math.log(1.05)])
        growth = [4 * math.log(1.02), 4 * math.log(105 / 102)]
        assert curve["forward_carry"].to_numpy() == pytest.approx(growth)

    def test_basis_without_a_spot_price_is_nan(self):
        """The carry between the two expiries needs no spot price."""
        quarter, half = (NOW + pd.Timedelta(365 / 4 * n, "D") for n in (1, 2))
        curve = chain.basis(chain.forwards(market({quarter: 102.0, half: 105.0}, [90.0, 110.0])))
        assert curve["basis"].isnull().all()
        growth = [math.nan, 4 * math.log(105 / 102)]
        assert curve["forward_carry"].to_numpy() == pytest.approx(growth, nan_ok=True)

    def test_basis_of_a_forward_that_is_the_spot_price_is_nan(self):
        forwards = chain.forwards(market({MONTH: 100.0, SPRING: 100.0}, [90.0, 110.0]))
        assert chain.basis(forwards, spot=99.0)["basis"].isnull().all()

    def test_forward_carry_skips_an_expiry_that_a_venue_lacks(self):
        """Derive lists the first and the third quarter only: its second carry covers half a year."""
        first, second, third = (NOW + pd.Timedelta(365 / 4 * n, "D") for n in (1, 2, 3))
        okx = market({first: 101.0, second: 102.0, third: 103.0}, [90.0, 110.0], exchange="okx")
        derive = market({first: 101.0, third: 104.0}, [90.0, 110.0], exchange="derive")
        spot = xr.DataArray([100.0, 100.0], dims="exchange", coords={"exchange": ["derive", "okx"]})
        curve = chain.basis(chain.forwards(pd.concat([okx, derive])), spot=spot)
        carry = curve["forward_carry"].sel(exchange="derive").to_numpy()
        assert carry == pytest.approx([4 * math.log(1.01), math.nan, 2 * math.log(104 / 101)], nan_ok=True)


class TestSmiles:
    def test_the_option_out_of_the_money_counts(self):
        rows = [
            {"strike": 90.0, "side": "put", "iv": 0.70, "open_interest": 3.0},
            {"strike": 90.0, "side": "call", "iv": 0.71},
            {"strike": 100.0, "side": "put", "iv": 0.60, "open_interest": 1.0},
            {"strike": 100.0, "side": "call", "iv": 0.62, "open_interest": 2.0},
            {"strike": 110.0, "side": "put", "iv": 0.66},
            {"strike": 110.0, "side": "call", "iv": 0.65},
            {"strike": 120.0, "side": "put", "iv": 0.69},
        ]
        smile = chain.smiles(chain.clean(options(*rows)), given={MONTH: 100.0})
        assert smile["iv"].dims == ("expiry", "strike")
        assert smile["strike"].to_numpy().tolist() == [90.0, 100.0, 110.0]
        assert smile["iv"].to_numpy()[0] == pytest.approx([0.70, 0.61, 0.65])
        assert smile["open_interest"].to_numpy()[0].tolist() == [3.0, 3.0, 1.0]
        assert smile["log_moneyness"].to_numpy()[0] == pytest.approx([math.log(0.9), 0.0, math.log(1.1)])
        assert smile["forward"].item() == 100.0
        assert smile["year_fraction"].item() == pytest.approx(28 / 365 + 8 / 8760)

    def test_rows_without_volatility_change_nothing(self):
        frame = market({MONTH: 100.0, SPRING: 102.0}, [80.0, 90.0, 110.0, 120.0])
        frame["iv"] += 1e-3 * np.arange(len(frame))
        holed = frame.assign(iv=frame["iv"].where(frame["strike"] != 90.0))
        dropped = frame[frame["strike"] != 90.0]
        with_holes, without = (chain.smiles(chain.clean(item)) for item in (holed, dropped))
        assert_identical(with_holes.drop_attrs(), without.drop_attrs())

    def test_unusable_rows_are_counted_and_flags_are_passed_on(self):
        frame = market({MONTH: 100.0, SPRING: 102.0}, [90.0, 110.0])
        cleaned = chain.clean(frame, min_time="30D")
        smile = chain.smiles(cleaned)
        assert smile.sizes["expiry"] == 1
        assert json.loads(smile.attrs["dropped"])["near_expiry"] == 4
        none = chain.smiles(chain.clean(frame), methods=["given"], given={SPRING: 102.0})
        assert json.loads(none.attrs["dropped"])["no_forward"] == 4
        frame = options({"strike": 90.0, "side": "put"}, {"strike": 90.0, "side": "put"}, {"strike": 110.0})
        smile = chain.smiles(chain.clean(frame))
        assert smile["status"].to_numpy()[0].tolist() == [Status.DUPLICATE, 0]
        assert "duplicate" in smile["status"].attrs["flag_meanings"].split()
        assert smile["forward_status"].item() == Status.FORWARD_IS_SPOT

    def test_missing_volatilities_are_implied_from_quotes(self):
        frame = options(*pairs([90.0, 110.0]))
        years = chain.clean(frame)["year_fraction"]
        for name, iv in (("bid_coin", 0.55), ("ask_coin", 0.65)):
            frame[name] = black76.price(100.0, frame["strike"], years, iv, frame["side"], premium="inverse")
        smile = chain.smiles(chain.clean(frame), given={MONTH: 100.0})
        assert smile["iv_bid"].to_numpy()[0] == pytest.approx([0.55, 0.55], abs=1e-12)
        assert smile["iv_ask"].to_numpy()[0] == pytest.approx([0.65, 0.65], abs=1e-12)

    def test_a_raw_chain_is_rejected(self):
        with pytest.raises(ValueError, match="clean"):
            chain.smiles(options({}))


class TestArbitrage:
    def smile(self, iv: list[float], strikes: Any = (80.0, 90.0, 100.0, 110.0, 120.0)) -> xr.Dataset:
        rows = [
            {"strike": k, "side": "call" if k >= 100 else "put", "iv": v}
            for k, v in zip(strikes, iv, strict=True)
        ]
        return chain.smiles(chain.clean(options(*rows)), given={MONTH: 100.0})

    def test_smiles_whose_arbitrage_is_known(self):
        """None if clean; a spike is a butterfly for nothing and a rising call, a cheap put a steep one."""
        strikes = (80.0, 90.0, 100.0, 110.0, 125.0)
        assert chain.arbitrage(self.smile([0.62, 0.60, 0.59, 0.60, 0.62], strikes)).empty
        spike, cheap = [0.62, 0.60, 0.59, 1.20, 0.62], [1.60, 0.30, 0.59, 0.60, 0.62]
        years = self.smile(spike, strikes)["year_fraction"].item()
        result = chain.arbitrage(self.smile(spike, strikes))
        assert result["kind"].tolist() == ["rising", "concave"]
        assert result["strike"].tolist() == [110.0, 110.0]
        call = black76.price(100.0, np.array(strikes), years, np.array(spike), "call")
        expected_usd = [call[3] - call[2], call[3] - 0.6 * call[2] - 0.4 * call[4]]
        assert result["amount_usd"].tolist() == pytest.approx(expected_usd)
        steep = chain.arbitrage(self.smile(cheap, strikes)).iloc[0]
        assert (steep["kind"], steep["strike"]) == ("steep", 90.0)
        call = black76.price(100.0, np.array(strikes), years, np.array(cheap), "call")
        assert steep["amount_usd"] == pytest.approx(call[0] - call[1] - 10.0)

    @pytest.mark.parametrize(("place", "first", "kind"), [(1, 7450, "concave"), (2, 10700, "rising")])
    def test_violations_within_tick_rounding_are_not_arbitrage(self, place: int, first: int, kind: str):
        """Volatilities have four decimals: a price may be off by what half of the last one changes it."""
        strikes, steps = np.array([90.0, 100.0, 115.0]), np.arange(200)
        iv = np.full((200, 3), 0.6)
        iv[:, place] = (first + steps) / 1e4
        quotes = self.smile([0.6] * 3, strikes).expand_dims(exchange=steps)
        result = chain.arbitrage(quotes.assign(iv=(quotes["iv"].dims, iv[:, None])))
        years = quotes["year_fraction"].item()
        low, high = (black76.price(100.0, strikes, years, iv + half, "call") for half in (0.0, 0.5e-4))
        weights = {"concave": [-0.6, 1.0, -0.4], "rising": [0.0, -1.0, 1.0]}[kind]
        beyond = low @ weights > (high - low) @ np.abs(weights) + 1e-7
        assert result["exchange"][result["kind"] == kind].tolist() == steps[beyond].tolist()
        assert 0 < beyond.sum() < 200
        strikes = np.arange(80.0, 120.0, 0.25)
        for decimals, count in ((4, 0), (3, 1)):  # rounded, as marks are: what that does is no arbitrage
            iv = np.round(0.6 + 0.5 * np.log(strikes / 100.0) ** 2, decimals)
            result = chain.arbitrage(self.smile(iv.tolist(), strikes))
            assert (len(result) > 10) if count else result.empty
            assert count or chain.arbitrage(self.smile((iv + 1e-9 * strikes).tolist(), strikes)).size


class TestRecordedChains:
    @pytest.mark.parametrize("stamp", STAMPS_2026)
    def test_marks_and_forwards_equal_the_recorded_file(self, stamp: str):
        raw = chain_2026(stamp)
        cleaned = chain.clean(raw)
        names = ("underlying_price", "strike", "year_fraction", "iv", "side")
        price = black76.price(*(cleaned[name] for name in names), premium="inverse")
        assert (price - cleaned["mark_coin"]).abs().median() < 2e-5
        # The venue publishes mid prices, its future and its deltas some seconds apart.
        bare = raw.drop(columns=["bid_coin", "ask_coin", "mark_coin"])
        own = chain.forwards(bare)
        sources = own["forward_source"].to_numpy()
        assert set(sources.ravel()) == {"underlying"}
        delta = chain.forwards(bare, methods=["delta"])
        assert float(np.abs(delta["forward"] / own["forward"] - 1).median()) < 1e-3
        parity = chain.forwards(raw)
        assert float(np.abs(parity["forward"] / own["forward"] - 1).max()) < 1e-3
        assert not parity["forward_status"].any()


class TestAsTheyCome:
    """Chains in the format of recorders: a value is valid until the next update."""

    STRIKES = tuple(range(60, 145, 5))

    def chains(self, *, at: pd.Timestamp = NOW, **forwards: float) -> pd.DataFrame:
        """Flat chains of volatility 0.6, an expiry per keyword: ``h18=100.0`` 18 hours ahead at 100."""
        times = {at + pd.Timedelta(int(name[1:]), "h"): forward for name, forward in forwards.items()}
        frame = market(times, list(self.STRIKES), time=at)
        years = (frame["expiry"] - frame["time"]) / pd.Timedelta(365, "D")
        contract = (frame["underlying_price"], frame["strike"], years, frame["iv"], frame["side"])
        return frame.assign(delta=black76.greeks(*contract, which=["delta"])["delta"])

    def test_smiles_use_the_settings_of_the_cleaning(self):
        """The first expiry is half an hour ahead, at 1200 % volatility: the default settings omit it."""
        at = pd.Timestamp("2026-03-01T07:30Z")
        frame = self.chains(at=at, h24=100.0, h240=101.0)
        near = market({at + pd.Timedelta("30min"): 100.0}, list(self.STRIKES), time=at, iv=12.0)
        cleaned = chain.clean(pd.concat([near, frame], ignore_index=True), min_time="0s", iv_max=20.0)
        assert cleaned["expiry"].nunique() == 3
        pd.testing.assert_frame_equal(chain.clean(cleaned), cleaned)
        at_the_money = smile.iv(surfaces.from_chain(cleaned, method="slices"), 0.0)
        np.testing.assert_allclose(at_the_money, [12.0, 0.6, 0.6], rtol=1e-6)
        assert chain.clean(cleaned, iv_max=10.0)["expiry"].nunique() == 2

    def test_cleaned_chain_with_a_time_raises(self):
        cleaned = chain.clean(self.chains(h24=100.0, h240=101.0))
        with pytest.raises(ValueError, match="at= applies only to a chain that was not cleaned"):
            surfaces.from_chain(cleaned, at="2026-03-01")

    def test_midnight_next_to_other_times_of_day_is_a_date(self):
        """Quotes at 06:00 are 26 hours before 08:00 of the next day, and 50 hours before an explicit time."""
        at = pd.Timestamp("2026-03-01T06:00Z")
        options = chain.clean(self.chains(at=at, h18=100.0, h50=100.5))
        hours = options.groupby("expiry")["year_fraction"].first() * 8760
        np.testing.assert_allclose(hours, [26.0, 50.0])
        assumed = (options["status"] & np.int32(Status.EXPIRY_TIME_ASSUMED)) != 0
        assert assumed.groupby(options["expiry"]).all().tolist() == [True, False]

    def test_forwards_without_an_underlying_price(self):
        frame = self.chains(h200=100.0, h800=102.0)
        bare = frame.drop(columns="underlying_price")
        no_price = surfaces.from_chain(frame.assign(underlying_price=np.nan))
        xr.testing.assert_equal(no_price, surfaces.from_chain(bare))
        np.testing.assert_allclose(no_price["forward"], [100.0, 102.0], rtol=1e-6)
        given = dict(zip(sorted(frame["expiry"].unique()), (99.0, 103.0), strict=True))
        result = surfaces.from_chain(bare.drop(columns="delta"), given=given)
        np.testing.assert_array_equal(result["forward"], [99.0, 103.0])

    def test_choice_between_duplicates_does_not_depend_on_row_order(self):
        frame = self.chains(h800=100.0).assign(open_interest=0.0)
        both = pd.concat([frame.assign(iv=0.8), frame], ignore_index=True)
        one, other = (surfaces.from_chain(rows) for rows in (both, both.iloc[::-1]))
        assert_identical(one["status"], other["status"])
        assert (one["status"] & Status.DUPLICATE).all()
        assert chain.clean(both)["iv"].unique().tolist() == [0.6], (
            "of equal open interest the lower volatility"
        )
        assert chain.clean(both.iloc[::-1])["iv"].unique().tolist() == [0.6]


@pytest.mark.parametrize(("off", "dropped"), [(0.0009, 0), (0.0011, 1)])
def test_a_tenth_of_a_volatility_point_always_passes(off, dropped):
    """Among equal volatilities the usual step is 0: a value more than 0.1 points off is an outlier."""
    frame = options(*({"strike": strike} for strike in (70.0, 80.0, 90.0, 100.0, 110.0, 120.0, 130.0)))
    frame.loc[3, "iv"] += off
    assert chain.clean(frame, mad=5.0).attrs["dropped"]["outlier"] == dropped
