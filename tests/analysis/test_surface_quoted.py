"""Fits of the sample's quotes, whose model no fitted form contains, against that model's truth."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from derivdata.analysis import chain, smile, surface
from derivdata.analysis.status import Status
from derivdata.sources import sample

NOW = pd.Timestamp("2026-06-30 12:00", tz="UTC").as_unit("us")
MARKETS = [("BTC", "deribit"), ("ETH", "okx"), ("SOL", "bybit"), ("XRP", "deribit")]
each_market = pytest.mark.parametrize("market", MARKETS, ids="-".join)


@lru_cache(maxsize=8)
def snapshot(market: tuple[str, str]) -> pd.DataFrame:
    return sample.open().latest(
        "options_snapshot", NOW, within=pd.Timedelta("1h"), symbols=[market[0]], venues=[market[1]]
    )


@lru_cache(maxsize=32)
def fitted(market: tuple[str, str], **options: Any) -> xr.Dataset:
    return surface.from_chain(snapshot(market), **options)


def truth(market: tuple[str, str], topic: str = "surface") -> pd.DataFrame:
    pair = {"symbols": [market[0]], "venues": [market[1]]}
    table = sample.truth(topic, **pair, start=NOW, end=NOW + pd.Timedelta("1h"))
    return table.assign(expiry=table["expiry"].dt.tz_localize(None))


def off(fit: xr.Dataset) -> xr.DataArray:
    return (fit["status"] & np.int32(Status.OFF_AT_THE_MONEY)) != 0


@each_market
def test_the_default_goes_through_the_money_and_is_free_of_arbitrage(market: tuple[str, str]) -> None:
    """From four weeks on within half the spread there; before, where jumps bend the smile, within 2.5 points.

    On narrow spreads (XRP) that is more than half of one, and then the status says so.
    """
    fit = fitted(market)
    error = np.abs(smile.iv(fit, 0.0).to_numpy() - truth(market)["atm_iv"].to_numpy())
    half, late = fit["atm_half_spread_vol"].to_numpy(), fit["year_fraction"].to_numpy() > 28 / 365
    assert late.sum() == 5
    assert (error[late] <= half[late]).all()
    assert error.max() < 0.025
    assert off(fit).to_numpy()[error > 1.1 * half].all()
    assert not off(fit).to_numpy()[error < 0.7 * half].any()
    assert bool(surface.calendar_check(fit)["ok"].all())
    assert bool(smile.butterfly_check(fit)["ok"].all())


@each_market
def test_a_worse_method_is_flagged_at_the_money(market: tuple[str, str]) -> None:
    """Equal weights let the many far strikes, which jumps lift, pull the middle: the flag says where."""
    fit = fitted(market, method="essvi", weights="equal")
    error = smile.iv(fit, 0.0).to_numpy() - truth(market)["atm_iv"].to_numpy()
    far = np.abs(error) > 1.1 * fit["atm_half_spread_vol"].to_numpy()
    assert far.mean() > 0.4
    assert off(fit).to_numpy()[far].all()
    # What is printed, fit less quote, is fit less truth but for the quotes' linear middle and their rounding.
    np.testing.assert_allclose(fit["atm_error_vol"], error, rtol=0, atol=0.006)


@each_market
def test_a_fit_to_bid_and_ask_meets_what_a_fit_to_the_marks_meets(market: tuple[str, str]) -> None:
    """Of the quotes with both sides all but one in twenty lie inside, or nearly as many as by the marks.

    In the jumps of SOL, quoted narrowly, no slice of five parameters meets more than seven in ten.
    """
    shares = []
    for fit in (fitted(market), fitted(market, loss="bid_ask")):
        quotes = chain.smiles(chain.clean(snapshot(market)))
        model = smile.iv(fit, quotes["log_moneyness"], extrapolate=True)
        inside = (model >= quotes["iv_bid"]) & (model <= quotes["iv_ask"])
        shares.append(float(inside.where(quotes["iv_bid"].notnull()).mean()))
    assert shares[1] >= min(0.95, shares[0] - 0.06), shares


def test_a_surface_inside_all_spreads_has_no_loss() -> None:
    """Marks that zigzag by 0.4 points about 50 %, and spreads of ±1 point: no distance outside is left."""
    table = snapshot(("BTC", "deribit"))
    quotes = chain.smiles(chain.clean(table))
    iv = xr.full_like(quotes["iv"], 0.5).where(quotes["iv"].notnull())
    wavy = iv + 0.004 * (-1.0) ** np.arange(iv.sizes["strike"])
    k, t = quotes["log_moneyness"], quotes["year_fraction"]
    fit = surface.fit(k, wavy, t, iv_bid=iv - 0.01, iv_ask=iv + 0.01)
    model = smile.iv(fit, k)
    assert float(np.abs(model - iv).max()) < 0.01


@each_market
def test_slices_between_bid_and_ask_have_no_loss(market: tuple[str, str]) -> None:
    """Spreads so wide (±2 points about 50 %) that slices fit between them: no quote is outside."""
    quotes = chain.smiles(chain.clean(snapshot(market)))
    iv = xr.full_like(quotes["iv"], 0.5).where(quotes["iv"].notnull())
    bid, ask = iv - 0.02, iv + 0.02
    marks = iv + 0.01 * (-1.0) ** np.arange(iv.sizes["strike"])
    k, t = quotes["log_moneyness"], quotes["year_fraction"]
    fit = smile.fit(k, marks, t, weights="equal", iv_bid=bid, iv_ask=ask)
    model = smile.iv(fit, k)
    assert not ((model < bid - 1e-6) | (model > ask + 1e-6)).any()


K = np.linspace(-0.3, 0.3, 15)


def noisy(count: int) -> tuple[np.ndarray, ...]:
    """Smiles with five points of noise, bids and asks one to three points away from them, and their times."""
    iv, below, above = np.empty((3, count, K.size))
    for seed in range(count):
        random = np.random.default_rng(seed)
        iv[seed] = 0.5 - 0.1 * K + 0.4 * K**2 + 0.05 * random.standard_normal(K.size)
        below[seed], above[seed] = random.uniform(0.01, 0.03, (2, K.size))
    return iv, iv - below, iv + above, np.full(count, 0.25)


def test_bid_and_ask_never_make_a_fit_worse() -> None:
    """By the loss that they define, of twenty smiles that no form fits; most get better."""
    iv, bid, ask, t = noisy(20)
    losses = []
    for sides in ({}, {"iv_bid": bid, "iv_ask": ask}):
        model = smile.iv(smile.fit(K, iv, t, weights="equal", **sides), K).to_numpy()
        losses.append((np.maximum(bid - model, model - ask).clip(0.0) ** 2).sum(axis=1))
    plain, sided = losses
    assert (sided <= plain * (1 + 1e-12)).all()
    assert (sided < 0.99 * plain).sum() > 10


def test_a_quote_without_bid_and_ask_counts_as_the_widest_that_has_them() -> None:
    """Beside quotes with both sides it moves the smile a little, and belongs to the range of k."""
    k, t = np.linspace(-0.3, 0.3, 13), np.array([0.25])
    iv = (0.5 - 0.1 * k + 0.4 * k**2)[None]
    half = np.linspace(0.01, 0.03, 13)[None]
    bid, ask = iv - half, iv + half
    bid[:, [0, 5]], ask[:, [0, 5]] = np.nan, np.nan
    lone = iv.copy()
    lone[:, 5] += 0.05
    both = [
        (fit(k, lone, t, iv_bid=bid, iv_ask=ask), fit(k, iv, t, iv_bid=bid, iv_ask=ask))
        for fit in (smile.fit, lambda k, iv, t, **sides: surface.fit(k[None], iv, t, **sides))
    ]
    for moved, flat in both:
        assert moved["n"].to_numpy().tolist() == flat["n"].to_numpy().tolist() == [13]
        assert float(flat["k_min"].squeeze()) == -0.3
        rise = smile.iv(moved, k[5]) - smile.iv(flat, k[5])
        assert 1e-4 < float(rise.squeeze()) < 0.05
    width = 2 * half[0, -1]
    given = np.where(np.isnan(bid), 4 / width**2, 1 / half**2)
    same = smile.fit(k, lone, t, weights=given, iv_bid=bid, iv_ask=ask)
    np.testing.assert_allclose(smile.iv(same, k), smile.iv(both[0][0], k), rtol=1e-9)


def test_slices_without_sides_and_fits_inside_are_left_as_they_are() -> None:
    iv, bid, ask, t = noisy(3)
    bid[1], ask[1] = np.nan, np.nan
    plain, sided = smile.fit(K, iv, t), smile.fit(K, iv, t, iv_bid=bid, iv_ask=ask)
    xr.testing.assert_identical(sided.isel(slice=1), plain.isel(slice=1))
    assert (sided["nfev"] > plain["nfev"]).to_numpy().tolist() == [True, False, True]
    iv, _, _, t = noisy(1)
    # By vega both: of a fit with sides the default weight is of the spreads.
    plain = smile.fit(K, iv, t, weights="vega")
    sided = smile.fit(K, iv, t, weights="vega", iv_bid=iv - 0.3, iv_ask=iv + 0.3)
    xr.testing.assert_identical(sided, plain)
    assert int(plain["nfev"].sum()) > 0
