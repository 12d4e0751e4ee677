import numpy as np
import pandas as pd
import pytest

from derivdata.analysis import black76, chain, surface
from derivdata.analysis.status import Status
from derivdata.errors import DataNotice
from tests.analysis.made_chains import MONTH, options
from tests.analysis.made_chains import NOW as AT

COIN, USD = "bid_coin ask_coin mark_coin".split(), "bid_usd ask_usd mark_usd".split()


def quotes(exchange: str, unit: str, gaps: dict[float, float], base: float, **more: object) -> pd.DataFrame:
    """A call and a put per strike whose mid prices differ by the gap, quoted one per cent on either side."""
    rows = [
        {"instrument_name": f"{exchange}-{strike}-{side}-{unit}", "strike": strike, "side": side}
        | {f"bid_{unit}": 0.99 * price, f"ask_{unit}": 1.01 * price}
        for strike, gap in gaps.items()
        for side, price in (("call", base + gap), ("put", base))
    ]
    return options(*rows, exchange=exchange, underlying_price=62000.0).assign(**more)


STRIKES = (58000.0, 60000.0, 62000.0, 64000.0, 66000.0)
INVERSE = quotes("deribit", "coin", {k: 1 - k / 62500 for k in STRIKES}, 0.07)  # c - p = 1 - K/62500
LINEAR = quotes("bybit", "usd", {k: 62400 - k for k in STRIKES}, 4400.0)  # C - P = 62400 - K
BOTH = pd.concat([INVERSE, LINEAR], ignore_index=True)


@pytest.mark.parametrize("discount", [1.0, "fit"])
def test_each_venue_has_the_forward_of_its_own_unit(discount):
    result = chain.forwards(BOTH, discount=discount)
    assert result["exchange"].to_numpy().tolist() == ["bybit", "deribit"]
    np.testing.assert_allclose(result["forward"].squeeze(), [62400.0, 62500.0], rtol=1e-12)
    assert (result["forward_source"] == "parity").all()
    np.testing.assert_allclose(result["discount"].squeeze(), [1.0, 1.0], rtol=1e-12)


def test_one_venue_with_both_kinds_pairs_coin_with_coin():
    """Deribit lists options paid in coin and in USDC under one symbol: 62500 by three strikes in coin, and
    62400 by two in USDC. Calls in coin are never paired with puts in USDC, and the median is that of the coin
    pairs.
    """
    linear = quotes("deribit", "usd", {k: 62400 - k for k in (59000.0, 61000.0)}, 4400.0)
    coin = INVERSE[INVERSE["strike"].isin((60000.0, 62000.0, 64000.0))]
    crossed = pd.concat([coin, linear], ignore_index=True)
    assert chain.forwards(crossed)["forward"].item() == pytest.approx(62500.0, rel=1e-12)
    halves = pd.concat(
        [coin[coin["side"] == "call"], LINEAR[LINEAR["side"] == "put"].assign(exchange="deribit")]
    )
    assert chain.forwards(halves)["forward_source"].item() == "spot", "no pair is left"


def test_bounds_and_volatilities_use_the_unit_of_the_quotes():
    """A put struck at 66000 on a forward of 62000: intrinsic 4000 USD, or 4000/62000 = 0.0645 coin."""
    rows = [
        quotes("deribit", "coin", {66000.0: 0.0}, 0.0640, side="put").iloc[:1],
        quotes("okx", "coin", {66000.0: 0.0}, 0.0650, side="put").iloc[:1],
        quotes("bybit", "usd", {66000.0: 0.0}, 3999.0, side="put").iloc[:1],
        quotes("derive", "usd", {66000.0: 0.0}, 4001.0, side="put").iloc[:1],
    ]
    cleaned = chain.clean(pd.concat(rows, ignore_index=True))
    assert cleaned["exchange"].tolist() == ["okx", "derive"]
    assert cleaned.attrs["dropped"]["no_time_value"] == 2
    smile = chain.smiles(chain.clean(BOTH))
    for venue, unit, premium in (("deribit", "coin", "inverse"), ("bybit", "usd", "linear")):
        one = smile.sel(exchange=venue).isel(expiry=0)
        row = BOTH.query("exchange == @venue and strike == 66000 and side == 'call'")
        expected = black76.implied_vol(
            row[f"ask_{unit}"].item(),
            float(one["forward"]),
            66000.0,
            float(one["year_fraction"]),
            "call",
            premium=premium,
        )
        assert one["iv_ask"].sel(strike=66000.0).item() == pytest.approx(expected.iv.item(), rel=1e-12)


def test_tighter_of_two_quotes_is_used_in_any_unit():
    """Spreads of 2 % in coin (0.0014) and of 0.2 % in USD (9): the narrower for its price is that in USD."""
    coin = quotes("deribit", "coin", {62000.0: 0.0}, 0.07, open_interest=0.0).iloc[:1]
    usd = quotes("deribit", "usd", {62000.0: 0.0}, 4500.0, open_interest=0.0).iloc[:1]
    usd = usd.assign(bid_usd=4495.5, ask_usd=4504.5)
    for rows in ([coin, usd], [usd, coin]):
        cleaned = chain.clean(pd.concat(rows, ignore_index=True))
        assert sorted(cleaned["ask_usd"].fillna(0.0)) == [0.0, 4504.5]
        both, alone = (chain.smiles(options) for options in (cleaned, chain.clean(usd)))
        np.testing.assert_allclose(both["iv_ask"], alone["iv_ask"], rtol=1e-12)
        assert cleaned["status"].tolist() == [Status.DUPLICATE] * 2


@pytest.mark.parametrize("rows", [INVERSE.assign(mark_usd=4400.0), BOTH.assign(mark_usd=4400.0)])
def test_a_row_in_both_units_is_rejected_with_its_venue(rows):
    with pytest.raises(ValueError, match=r"chain: 10 rows \(BTC, deribit\) have prices in coin and in USD"):
        chain.clean(rows)


@pytest.mark.parametrize("call", [chain.clean, chain.forwards, surface.from_chain])
@pytest.mark.parametrize(("venue", "wrong", "right"), [("deribit", "usd", "coin"), ("bybit", "coin", "usd")])
def test_prices_named_for_the_other_unit_are_rejected(call, venue, wrong, right):
    """One venue's columns are renamed; the other's stay, so only the venue itself distinguishes them."""
    own = BOTH["exchange"] == venue
    moved = BOTH.copy()
    for side in ("bid", "ask"):
        moved.loc[own, f"{side}_{wrong}"] = moved.loc[own, f"{side}_{right}"]
        moved.loc[own, f"{side}_{right}"] = np.nan
    with pytest.raises(ValueError, match=rf"\(BTC, {venue}\) have the suffix _{wrong}, but are in {right}"):
        call(moved)


def test_percent_volatility_of_one_venue_is_converted_separately():
    rows = BOTH.assign(iv=np.where(BOTH["exchange"] == "bybit", 60.0, 0.6))
    with pytest.raises(ValueError, match=r"iv_unit=\{'bybit': 'percent'\}"):
        chain.clean(rows)
    assert chain.clean(rows, iv_unit={"bybit": "percent"})["iv"].round(12).unique().tolist() == [0.6]
    with pytest.raises(ValueError, match="okx, which the chain does not have"):
        chain.clean(rows, iv_unit={"okx": "percent"})
    with pytest.raises(ValueError, match="must be 'decimal' or 'percent'"):
        chain.clean(rows, iv_unit={"bybit": "bps"})


def test_a_venue_without_quotes_next_to_one_that_has_them():
    """Deribit by marks, okx by volatilities only: both keep their parity forward, 62500 and 62400."""
    marks = INVERSE.assign(mark_coin=(INVERSE["bid_coin"] + INVERSE["ask_coin"]) / 2)
    marks = marks.drop(columns=["bid_coin", "ask_coin"])
    years = (MONTH - AT) / pd.Timedelta(365, "D")
    bare = LINEAR.drop(columns=["bid_usd", "ask_usd"]).assign(exchange="okx")
    true = black76.price(62400.0, bare["strike"], years, 0.6, bare["side"])
    bare["iv"] = black76.implied_vol(true, 62000.0, bare["strike"], years, bare["side"]).iv
    result = chain.forwards(pd.concat([marks, bare, LINEAR], ignore_index=True))
    assert (result["forward_source"] == "parity").all()
    np.testing.assert_allclose(result["forward"].squeeze(), [62400.0, 62500.0, 62400.0], rtol=1e-9)


@pytest.mark.parametrize(("dates", "hours"), [(None, 32.0), (True, 32.0), (False, 24.0)])
def test_midnight_expiries_are_dates_unless_stated_otherwise(dates, hours):
    """All expiries at midnight: taken for dates, which expire at 08:00, unless `dates` says otherwise."""
    rows = BOTH.assign(expiry=AT + pd.Timedelta(1, "D"))
    cleaned = chain.clean(rows.drop(columns=[*COIN[:2], *USD[:2]]), dates=dates)
    np.testing.assert_allclose(cleaned["year_fraction"] * 8760, hours)
    assert ((cleaned["status"] & np.int32(Status.EXPIRY_TIME_ASSUMED)) != 0).all() == (hours == 32.0)
    with pytest.raises(ValueError, match="was not cleaned"):
        chain.clean(cleaned, dates=False)


def priced(unit: str) -> pd.DataFrame:
    """Return calls and puts at 50 % volatility, a month from expiry, without volatilities."""
    strikes = 50_000.0 + 2000.0 * np.arange(13)
    sides = [options(*({"strike": k, "side": side} for k in strikes)) for side in ("call", "put")]
    rows = pd.concat(sides, ignore_index=True).assign(underlying_price=62_000.0, exchange="deribit")
    years = (rows["expiry"] - AT) / pd.Timedelta(365, "D")
    price = black76.price(62_000.0, rows["strike"], years, 0.5, rows["side"])
    return rows.drop(columns="iv").assign(**{f"mark_{unit}": price / (62_000.0 if unit == "coin" else 1.0)})


@pytest.mark.parametrize(("unit", "other"), [("coin", "usd"), ("usd", "coin")])
def test_prices_in_the_other_unit_are_rejected_without_volatilities(unit, other):
    """A call 12,000 in the money is worth 0.19 coin: as 0.19 USD it would be below its intrinsic value."""
    with pytest.warns(DataNotice, match="26 of 26 options lack a volatility; computed 26 from their mark"):
        cleaned = chain.clean(priced(unit))
    np.testing.assert_allclose(cleaned["iv"], 0.5, rtol=1e-6)
    wrong = priced(unit).rename(columns={f"mark_{unit}": f"mark_{other}"})
    with pytest.raises(
        ValueError, match=f"have the suffix _{other}, but are in {unit} .* rename .* to _{unit}"
    ):
        chain.clean(wrong)


def test_chain_without_volatilities_and_prices_is_empty_with_a_notice():
    with pytest.warns(DataNotice, match="all of 26 options lack a volatility and a price to compute it from"):
        cleaned = chain.clean(priced("coin").assign(iv=np.nan, mark_coin=np.nan))
    assert cleaned.attrs["dropped"]["iv_missing"] == 26


def test_rows_without_a_side_are_rejected():
    rows = priced("coin").assign(iv=0.5)
    rows["side"] = rows["side"].astype(object).where(rows["strike"] != 50_000.0)
    with pytest.raises(
        ValueError, match="chain: side must be 'call' or 'put', got nan first in 2 of 26 rows"
    ):
        chain.clean(rows)


def test_forward_must_be_positive():
    """Calls of 1 USD and puts of 99,000 USD imply a forward of −37,000 USD by parity, which is not used."""
    rows = priced("usd").assign(iv=0.5)
    rows["mark_usd"] = np.where(rows["side"] == "call", 1.0, 99_000.0)
    result = chain.forwards(rows)
    assert (result["forward"].item(), result["forward_source"].item()) == (62_000.0, "spot")
