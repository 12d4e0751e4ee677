import numpy as np
import pandas as pd
import pytest
import xarray as xr

from derivdata.analysis import black76, chain, smile, surface
from derivdata.analysis.status import Status
from tests.analysis import made_chains

START = pd.Timestamp("2026-03-01T00:00", tz="UTC")


def options(at=START, days=(1.25, 8.25, 30.25), iv=0.6, symbol="BTC", spread=None):
    """A market of one volatility at one time; forwards rise from 100 by 0.01 a day."""
    rows = []
    for length in days:
        years, forward = max(length, 0.01) / 365, 100 + 0.01 * length
        for strike in np.round(100 * np.exp(np.linspace(-2, 2, 9) * iv * np.sqrt(years)), 2):
            for side in ("call", "put"):
                row = {"expiry": at + pd.Timedelta(length, "D"), "strike": strike, "side": side}
                row |= {"instrument_name": f"{symbol}-{length}-{strike}-{side}", "underlying_price": forward}
                if spread is not None:
                    mark = float(black76.price(forward, strike, years, iv, side, premium="inverse"))
                    row |= {
                        "bid_coin": mark * (1 - spread),
                        "ask_coin": mark * (1 + spread),
                        "mark_coin": mark,
                    }
                rows.append(row)
    return made_chains.options(*rows, symbol=symbol, time=at, iv=iv)


def test_every_listed_expiry_is_present_with_status_and_flags():
    table = options(days=(-1.25, 0.5 / 24, 1.25, 8.25))
    table.loc[table["expiry"] == table["expiry"].max(), "iv"] = np.nan
    fitted = surface.from_chain(table)
    assert fitted["status"].to_numpy().tolist() == [Status.EXPIRED, Status.NEAR_EXPIRY, 0, Status.BAD_INPUT]
    assert np.isfinite(fitted["a"]).to_numpy().tolist() == [False, False, True, False]
    np.testing.assert_allclose(fitted["year_fraction"] * 365, [-1.25, 0.5 / 24, 1.25, 8.25], rtol=1e-6)
    for method in ("svi", "essvi", "slices"):
        past = surface.from_chain(table, method=method, at="9999-12-31")
        assert past["status"].to_numpy().tolist() == [Status.EXPIRED] * 4
        assert past["largest_error_vol"].isnull().all()
    crossed = pd.concat([options(days=(1.25,), spread=0.05), options(days=(8.25,), spread=-0.05)])
    assert surface.from_chain(crossed)["status"].to_numpy().tolist() == [0, Status.CROSSED]
    # All expiries are dates, so 08:00 is assumed; one option of the second comes twice.
    table = options(days=(2.0, 8.0))
    table = pd.concat([table, table.iloc[[19]].assign(open_interest=0.5)], ignore_index=True)
    status = surface.from_chain(table)["status"].to_numpy()
    assert [bool(s & Status.EXPIRY_TIME_ASSUMED) for s in status] == [True, True]
    assert [bool(s & Status.DUPLICATE) for s in status] == [False, True]


def test_fits_of_many_times_equal_single_fits():
    """Eleven days of two symbols go in several passes."""
    tables = [
        options(START + pd.Timedelta(day, "D"), iv=0.5 + 0.01 * day, symbol=symbol)
        for day in range(11)
        for symbol in (("BTC", "ETH") if day < 6 else ("BTC",))
    ]
    fitted = surface.from_chain(pd.concat(tables, ignore_index=True))
    assert fitted.sizes["time"] == 11
    assert fitted.sizes["symbol"] == 2
    assert fitted["time"].to_index().is_monotonic_increasing
    for table in (tables[0], tables[7], tables[-1]):
        alone = surface.from_chain(table)
        here = fitted.sel(symbol=table["symbol"][0], time=table["time"][0].tz_localize(None))
        here = here.sel(expiry=alone["expiry"])
        np.testing.assert_allclose(smile.iv(here, 0.0), smile.iv(alone, 0.0), rtol=1e-9)
        np.testing.assert_array_equal(here["status"], alone["status"])
    absent = fitted.sel(symbol="ETH").isel(time=-1)
    assert not (absent["method"] > 0).any()
    assert (absent["status"] == Status.BAD_INPUT).all()


def test_one_wrong_mark_does_not_move_the_fit_and_is_named():
    """A mark of 1.2 among marks of 0.6 is removed. With ``mad=inf`` it stays, with the largest error."""
    table = options()
    middle = sorted(table.loc[table["expiry"] == table["expiry"].max(), "strike"].unique())[5]
    table.loc[(table["strike"] == middle) & (table["side"] == "call"), "iv"] = 1.2
    cleaned = chain.clean(table)
    assert cleaned.attrs["dropped"]["outlier"] == 1
    assert cleaned.copy().attrs["omitted"] is cleaned.attrs["omitted"], "no operation copies what was dropped"
    fitted = surface.from_chain(table)
    with_outlier = surface.from_chain(chain.clean(table, mad=np.inf))
    np.testing.assert_allclose(smile.iv(fitted, 0.0), 0.6, atol=1e-6)
    np.testing.assert_allclose(fitted["largest_error_vol"], 0.0, atol=1e-6)
    off = abs(float(smile.iv(with_outlier, np.log(middle / 100.3025))[-1]) - 1.2)
    assert float(with_outlier["largest_error_vol"][-1]) == pytest.approx(off, rel=1e-6)
    assert off > 0.1
    # Bid and ask 1 % of the price off: at the money 1.2 points apart, so that a point is about one spread.
    quoted = options(spread=0.01)
    moved = quoted.assign(iv=quoted["iv"] + np.where(quoted["strike"].between(99, 101), 0.01, 0.0))
    spreads = surface.from_chain(chain.clean(moved, mad=np.inf))["largest_error_spreads"]
    assert ((spreads > 0.5) & (spreads < 2.0)).all()
    assert (surface.from_chain(quoted)["largest_error_spreads"] < 1e-6).all()


def test_a_fit_beyond_half_the_spread_at_the_money_is_flagged():
    """Marks two points above the middle of a narrow spread: a fit of the marks is off, of the quotes not."""
    table = options(spread=0.002)
    near = table["strike"].between(95, 105)
    flagged = {}
    for shift in (0.0, 0.03):
        moved = table.assign(iv=table["iv"] + np.where(near, 0.0, shift))
        result = surface.from_chain(moved, method="essvi", weights="equal")
        assert (result["atm_half_spread_vol"] > 0).all()
        # The middle of bid and ask at the money is 0.6 throughout.
        over = abs(smile.iv(result, 0.0) - 0.6) > result["atm_half_spread_vol"]
        flagged[shift] = ((result["status"] & np.int32(Status.OFF_AT_THE_MONEY)) != 0).to_numpy()
        np.testing.assert_array_equal(flagged[shift], over)
    assert not flagged[0.0].any()
    assert flagged[0.03].any()


@pytest.mark.parametrize("loss", ["quote", "bid_ask"])
def test_bid_and_ask_need_prices(loss):
    assert (surface.from_chain(options(spread=0.01), loss=loss)["breach_vol"] < 1e-3).all()
    if loss == "bid_ask":
        with pytest.raises(ValueError, match="needs a chain with bid and ask"):
            surface.from_chain(options(), loss=loss)


def test_weights_with_a_dim_that_chains_lack_are_rejected():
    with pytest.raises(ValueError, match=r"weights must have dims of the chain .*, got the dim 'other'"):
        surface.from_chain(options(), weights=xr.DataArray([1.0, 1.0], dims="other"))


def test_points_of_a_history_equal_those_of_single_chains():
    """Its search does not start from the chain before, whose minimum may be another one."""
    chains = made_chains.hourly_chains(3)
    together = surface.history(chains, tenors=["7d", "30d"])
    for time in together["time"]:
        own = chains[chains["time"] == pd.Timestamp(time.item(), tz="UTC")]
        alone = surface.history(own, tenors=["7d", "30d"])
        for name in ("atm", "rr25", "bf25", "forward", "strip_index"):
            assert bool(np.isfinite(alone[name]).all())
            np.testing.assert_allclose(together[name].sel(time=time), alone[name], rtol=1e-9, err_msg=name)


def test_skew_stickiness_of_a_history():
    """Straight smiles whose level moves by 1.4 times the skew: beta is 1.4 × −0.3."""
    skew, ratio, days = -0.3, 1.4, 40
    moves = 0.02 * np.random.default_rng(5).standard_normal(days)
    moves[0] = 0.0
    spots, levels = 1e5 * np.exp(moves.cumsum()), 0.6 + ratio * skew * moves.cumsum()
    parts = []
    for day, (spot, level) in enumerate(zip(spots, levels, strict=True)):
        at = pd.Timestamp("2026-01-01T08:00Z") + pd.Timedelta(day, "D")
        for length in (20, 30, 50):
            k = np.linspace(-1.5, 1.5, 15) * 0.6 * np.sqrt(length / 365)
            made = {"strike": spot * np.exp(k), "iv": level + skew * k, "underlying_price": spot}
            sides = [
                {"side": side, "time": at, "expiry": at + pd.Timedelta(length, "D")}
                for side in ("call", "put")
            ]
            parts += [pd.DataFrame(made | side) for side in sides]
    chains = pd.concat(parts, ignore_index=True).assign(open_interest=1.0, symbol="BTC", exchange="deribit")
    result = surface.history(chains, tenors=["30d"], points=["rr25"]).isel(tenor=0)
    np.testing.assert_allclose(result["skew"], skew, rtol=0.02)
    np.testing.assert_allclose(result["forward"], spots, rtol=1e-9)
    assert float(result["spot_beta"]) == pytest.approx(ratio * skew, rel=0.01)
    assert float(result["skew_stickiness"]) == pytest.approx(ratio, rel=0.02)
    assert 0.0 < float(result["skew_stickiness_error"]) < 0.02
    fell, slow = moves[1:] - moves[1:].mean(), np.diff(levels) - np.diff(levels).mean()
    assert float(result["spot_beta"]) == pytest.approx((fell @ slow) / (fell @ fell), rel=0.01)


def carried(names: list[str], rate: float, basis: float = 0.0) -> pd.DataFrame:
    """Chains at 07:15 UTC with one expiry in 45 minutes; forwards have a carry and a constant basis."""
    now = pd.Timestamp("2026-03-06T07:15Z")
    rows = []
    for symbol in names:
        for day in ("2026-03-06", "2026-03-27", "2026-06-26"):
            expiry = pd.Timestamp(f"{day}T08:00Z")
            forward = 1e5 * np.exp(rate * (expiry - now) / pd.Timedelta(365, "D")) + basis
            for strike in np.arange(80_000.0, 121_000.0, 5_000.0):
                side = "call" if strike > forward else "put"
                rows.append({"symbol": symbol, "expiry": expiry, "strike": strike, "side": side,
                             "underlying_price": forward})  # fmt: skip
    return made_chains.options(*rows, time=now).assign(index_price_usd=1e5)


@pytest.mark.parametrize("names", [["BTC"], ["BTC", "ETH"]])
def test_forwards_beyond_the_fits_use_quotes_or_the_outer_carry(names):
    """By hand: the quoted forward of the expiry without a fit, and the carry of the outer expiries."""
    chain_of_both = carried(names, 0.1)
    chain_of_both.loc[chain_of_both["expiry"] == "2026-03-06T08:00Z", "underlying_price"] = 100_050.0
    fitted = surface.from_chain(chain_of_both)
    assert (fitted["status"].isel(expiry=0) == Status.NEAR_EXPIRY).all()
    np.testing.assert_allclose(fitted["forward"].isel(expiry=0), 100_050.0)
    assert float(fitted["spot"].max()) == float(fitted["spot"].min()) == 1e5
    result = surface.at(fitted, ["2026-03-06T08:00Z", "2026-12-25T08:00Z"])["forward"]
    days = (pd.Timestamp("2026-12-25T08:00Z") - pd.Timestamp("2026-03-06T07:15Z")) / pd.Timedelta(365, "D")
    np.testing.assert_allclose(result.isel(expiry=0), 100_050.0)
    np.testing.assert_allclose(result.isel(expiry=1), 1e5 * np.exp(0.1 * days), rtol=1e-9)
    early = surface.at(fitted, "2026-03-06T07:30Z")["forward"]
    np.testing.assert_allclose(early, 1e5 * (1.0005 ** (1 / 3)), rtol=1e-9)


def test_given_spot_price_replaces_the_index():
    fitted = surface.from_chain(carried(["BTC"], 0.1), spot=99_000.0)
    assert float(fitted["spot"]) == 99_000.0
    bare = carried(["BTC"], 0.1).drop(columns="index_price_usd")
    assert "spot" not in surface.from_chain(bare).coords


@pytest.mark.parametrize("priced", [True, False])
def test_fit_far_from_its_quotes_is_flagged(priced):
    """The second of four expiries has stale marks from before a jump, so its variance is below the first
    one's.
    """
    levels = {1.25: 0.6, 4.25: 0.25, 30.25: 0.6, 90.25: 0.6}
    parts = [options(days=(days,), iv=iv, spread=0.002 if priced else None) for days, iv in levels.items()]
    fitted = surface.from_chain(pd.concat(parts, ignore_index=True))
    off = (fitted["status"] & np.int32(Status.OFF_QUOTES)) != 0
    # A calendar-free surface cannot meet both of the first two expiries. Without bid and ask both are missed;
    # with them the fit meets the quotes of the first one.
    assert off.to_numpy().tolist() == [not priced, True, False, False]
    assert (abs(fitted["atm_error_vol"]) > 0.01).to_numpy().tolist() == [not priced, True, False, False]


@pytest.mark.parametrize("stale", [0.22, 0.24, 0.26, 0.28, 0.3])
def test_search_is_repeated_with_larger_penalty_until_arbitrage_free(stale):
    """The chains with 26 and 28 % need the third penalty: with two of them the fit falls back to eSSVI."""
    levels = {1.25: 0.6, 4.25: stale, 30.25: 0.6, 90.25: 0.6}
    chains = [options(days=(days,), iv=iv, spread=0.002) for days, iv in levels.items()]
    fitted = surface.from_chain(pd.concat(chains, ignore_index=True))
    assert (fitted["status"].to_numpy() & Status.FALLBACK_USED == 0).all()
    errors = abs(fitted["atm_error_vol"]).to_numpy()
    assert errors[1] == errors.max() > 0.02
    assert errors[[2, 3]].max() < 0.002


def test_marks_outside_bid_and_ask_are_flagged_off_at_the_money():
    table = options(spread=0.002)
    late = table["expiry"] == table["expiry"].max()
    fitted = surface.from_chain(table.assign(iv=table["iv"] + 0.1 * late))
    flagged = (fitted["status"] & np.int32(Status.OFF_AT_THE_MONEY)) != 0
    assert flagged.to_numpy().tolist() == [False, False, True]
    # Marks are at 70 %, bid and ask at 60 %; the surface follows the tradable quotes.
    np.testing.assert_allclose(fitted["atm_error_vol"], [0.0, 0.0, -0.1], atol=2e-3)
    np.testing.assert_allclose(smile.iv(fitted, 0.0), 0.6, atol=2e-3)


def test_share_of_two_sided_quotes_whose_bid_and_ask_include_the_surface():
    """Nine strikes of volatility 0.6: the calls of two are quoted 9 to 11 % higher, one put has no bid.

    The put is below its ask, but does not count: the surface is inside six of eight quotes.
    """
    table = options(days=(30.25,), spread=0.01)
    strikes = np.sort(table["strike"].unique())
    dear = table["strike"].isin(strikes[6:8]) & (table["side"] == "call")
    table.loc[dear, ["bid_coin", "ask_coin"]] *= 1.1
    without_bid = (table["strike"] == strikes[1]) & (table["side"] == "put")
    table.loc[without_bid, "bid_coin"] = np.nan
    fitted = surface.from_chain(table, method="essvi")
    np.testing.assert_allclose(smile.iv(fitted, 0.0), 0.6, atol=1e-6)
    assert (fitted["two_sided"].item(), fitted["inside_share"].item()) == (8, 0.75)
    assert "inside_share" not in surface.from_chain(options())


def test_expiry_without_bids_has_no_share_of_two_sided_quotes():
    table = options(days=(30.25, 60.25), spread=0.01)
    table.loc[table["expiry"] == table["expiry"].max(), "bid_coin"] = np.nan
    fitted = surface.from_chain(table, method="essvi")
    assert fitted["two_sided"].to_numpy().tolist() == [9, 0]
    np.testing.assert_array_equal(fitted["inside_share"], [1.0, np.nan])
    np.testing.assert_array_equal(fitted["breach_vol"], [0.0, 0.0])  # below every ask
