"""Surfaces of recorded Deribit chains: none arbitrageable, none invented, errors as documented."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from derivdata.analysis import black76, chain, smile, surface, variance
from derivdata.analysis.status import Status
from derivdata.tables.surfaces import surface as to_surface
from tests.analysis.deribit import HALF_EMPTY, STAMPS_2026, chain_2025, chain_2026

DAYS = {"under 2": (0, 2), "2 to 7": (2, 7), "7 to 30": (7, 30), "30 to 90": (30, 90), "over 90": (90, 999)}
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "options.md"


@pytest.fixture(scope="module")
def january():
    """Eight instants of BTC and ETH in one table."""
    return chain.clean(pd.concat([chain_2026(stamp) for stamp in STAMPS_2026], ignore_index=True))


@pytest.fixture(scope="module")
def december():
    return chain.clean(chain_2025(), as_of="2025-12-05T01:10", iv_unit="percent")


@pytest.fixture(scope="module", params=["january", "december"])
def options(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def fitted(options):
    return surface.from_chain(options)


def test_every_expiry_is_fitted_or_refused_with_a_reason(options, fitted):
    quotes = chain.smiles(options)
    listed = quotes["iv"].count("strike") > 0
    done = fitted["method"] > 0
    assert int(done.sum()) == int((quotes["iv"].count("strike") >= 3).sum())
    assert bool((done | (fitted["status"] != 0)).all())
    assert not bool((done & ~listed).any())
    assert bool(np.isfinite(fitted["theta"]).where(done, True).all())
    assert not bool(((fitted["status"] & np.int32(Status.NOT_CONVERGED)) != 0).any())


def test_no_butterfly_and_no_crossing_anywhere(fitted):
    done = fitted["method"] > 0
    calendar, butterfly = surface.calendar_check(fitted), smile.butterfly_check(fitted)
    assert int((done & ~(calendar["ok"] & calendar["s1"])).sum()) == 0
    assert int((done & ~butterfly["ok"]).sum()) == 0


def test_a_dense_grid_between_the_expiries_holds_no_arbitrage(fitted):
    last = fitted["year_fraction"].where(fitted["method"] > 0).max("expiry")
    t = last * xr.DataArray(np.linspace(0.001, 1.0, 120), dims="maturity")
    strike = np.linspace(0.3, 3.0, 271)
    w = surface.total_variance(fitted, np.log(strike), t, wings=True)
    assert float(w.diff("maturity").min()) > 0
    price = black76.price(1.0, xr.DataArray(strike, dims="log_moneyness"), 1.0, w**0.5, "call")
    assert float(price.diff("log_moneyness", 2).min()) > -1e-13


def test_the_half_empty_chain_loses_expiries_and_nothing_else():
    full, half = (
        surface.from_chain(chain_2026(stamp).query("symbol == 'BTC'"))
        for stamp in (STAMPS_2026[2], HALF_EMPTY)
    )
    done = half["method"] > 0
    assert 5 <= int(done.sum()) <= int((full["method"] > 0).sum())
    assert int(half["n"].sum()) < int(full["n"].sum())
    assert float(half["rmse_vol"].max()) < 0.05


def test_fitting_alone_crosses_where_fitting_together_does_not(january):
    """Why the default is what it is."""
    alone = surface.from_chain(january, method="slices")
    flagged = [
        int(((alone["status"] & np.int32(bit)) != 0).sum()) for bit in (Status.BUTTERFLY, Status.CALENDAR)
    ]
    text = DOCUMENT.read_text(encoding="utf-8")
    assert all(count > 0 for count in flagged)
    assert f"{flagged[0]} of 190 expiries have a butterfly and\n  {flagged[1]} cross" in text


def errors(quotes):
    """Median absolute error of each expiry by method [volatility points], price tick and half spread."""
    k, iv, t = quotes["log_moneyness"], quotes["iv"], quotes["year_fraction"]
    ways = ({}, {"weights": "price"}, {"method": "ssvi_power"}, {"method": "slices"})
    points = [abs(smile.iv(surface.fit(k, iv, t, **way), k) - iv) for way in ways]
    contract = (quotes["forward"], quotes["strike"], t, iv, xr.where(k > 0, "call", "put"))
    price = black76.price(*contract, premium="inverse")
    vega = black76.greeks(*contract, which=["vega"], premium="inverse")["vega"]
    points += [xr.where(price < 0.005, 0.0001, 0.0005) / vega, (quotes["iv_ask"] - quotes["iv_bid"]) / 2]
    columns = {f"{i}": 100 * part.median("strike") for i, part in enumerate(points)}
    frame = xr.Dataset(columns | {"days": 365 * t, "n": iv.count("strike")}).to_dataframe()
    return frame[frame["n"] >= 3].drop(columns="n")


@pytest.mark.parametrize("period", ["January 2026", "December 2025"])
def test_the_documented_errors_are_those_of_the_chains(request, period):
    found = errors(chain.smiles(request.getfixturevalue(period.split()[0].lower())))
    table = DOCUMENT.read_text(encoding="utf-8").split(f"| {period}")[1].split("\n\n")[0]
    rows = re.findall(r"^\| (under 2|\d+ to \d+|over 90|all) \|(.+)\|$", table, flags=re.MULTILINE)
    assert len(rows) == (6 if period == "January 2026" else 1)
    for name, cells in rows:
        low, high = DAYS.get(name, (0, 999))
        group = found[(found["days"] > low) & (found["days"] <= high)]
        count, *values = (float(cell) for cell in cells.split("|"))
        assert len(group) == count
        np.testing.assert_allclose(
            group[[str(i) for i in range(len(values))]].median().to_numpy(), values, atol=0.0051, err_msg=name
        )


def test_an_index_of_the_chains_lies_within_its_bounds_and_near_its_strip(january):
    quotes = chain.smiles(january)
    fit = surface.from_chain(january, weights="price")
    whole = variance.volatility_index(variance.model_free(fit))
    strip = variance.volatility_index(variance.model_free(quotes, method="strip"))
    assert bool((whole["lower_pct"] <= whole["index_pct"]).all())
    assert bool((whole["index_pct"] <= whole["upper_pct"]).all())
    assert bool((strip["index_pct"] <= strip["upper_pct"]).all())
    np.testing.assert_allclose(whole["index_pct"], strip["index_pct"], rtol=0.03)
    atm = surface.constant_maturity(fit, days=[30], points=["atm"])["atmf"].isel(tenor=0)
    assert bool((whole["index_pct"] > 100 * atm).all())


def test_a_surface_dataset_gives_what_its_table_gives():
    """The library's dims (expiry, strike, side), made from a table by the library itself."""
    table = chain_2026(STAMPS_2026[0]).query("symbol == 'ETH'")
    table = table.drop(columns=["bid_coin", "ask_coin", "mark_coin"])
    made = to_surface(table.assign(gamma=np.nan, theta=np.nan))
    assert set(made["iv"].dims) == {"expiry", "strike", "side"}
    from_table, from_dataset = surface.from_chain(table), surface.from_chain(made)
    np.testing.assert_allclose(
        from_dataset["theta"].to_numpy().ravel(), from_table["theta"].to_numpy().ravel(), rtol=1e-6
    )


def test_spread_weights_need_quotes_and_breaches_are_reported(january):
    one = january[january["symbol"] == "BTC"].query("time == time.min()")
    weighted = surface.from_chain(one, weights="spread")
    assert bool((weighted["breach_vol"].where(weighted["method"] > 0, 0) >= 0).all())
    quotes = chain.smiles(one)
    model = smile.iv(weighted, quotes["log_moneyness"])
    over = np.maximum((model - quotes["iv_ask"]).max(), (quotes["iv_bid"] - model).max())
    assert float(weighted["breach_vol"].max()) == pytest.approx(float(over))
    bare = one.drop(columns=["bid_coin", "ask_coin"])
    assert "breach_vol" not in surface.from_chain(bare)
    with pytest.raises(ValueError, match="needs a chain with bid and ask"):
        surface.from_chain(bare, weights="spread")
