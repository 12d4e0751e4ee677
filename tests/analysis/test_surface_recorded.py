import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from derivdata.analysis import chain, smile, surface, variance
from derivdata.analysis.status import Status
from tests.analysis.deribit import STAMPS_2026, chain_2025, chain_2026
from tests.measured import fits

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "methods" / "surface_fits.csv"


@pytest.fixture(scope="module")
def january():
    return chain.clean(pd.concat([chain_2026(stamp) for stamp in STAMPS_2026], ignore_index=True))


@pytest.fixture(scope="module")
def december():
    return chain.clean(chain_2025(), at="2025-12-05T01:10", iv_unit="percent")


@pytest.fixture(scope="module", params=["january", "december"])
def options(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def fitted(options):
    return surface.from_chain(options)


def test_every_recorded_expiry_is_arbitrage_free_or_has_a_status(options, fitted):
    quotes = chain.smiles(options)
    done = fitted["method"] > 0
    assert int(done.sum()) == int((quotes["iv"].count("strike") >= 3).sum())
    assert bool((done | (fitted["status"] != 0)).all())
    assert bool(np.isfinite(fitted["a"]).where(done, True).all())
    assert not bool(((fitted["status"] & np.int32(Status.FALLBACK_USED)) != 0).any())
    assert not bool(((fitted["status"] & np.int32(Status.NOT_CONVERGED)) != 0).any())
    calendar, butterfly = surface.calendar_check(fitted), smile.butterfly_check(fitted)
    assert int((done & ~calendar["ok"]).sum()) == 0
    assert int((done & ~butterfly["ok"]).sum()) == 0


def documented():
    """The table of docs/methods/surfaces.md: method and weights, then its figures."""
    with DOCUMENT.open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    return {name: [float(cell.rstrip(" %")) for cell in cells] for name, *cells in rows}


@pytest.fixture(scope="module")
def recorded_quotes(january, december):
    return [chain.smiles(january), chain.smiles(december)]


@pytest.mark.parametrize("name", [name for name in fits.METHODS if "equal" not in name])
def test_documented_table_of_fits_is_reproduced(recorded_quotes, name):
    *figures, _seconds = fits.row(fits.METHODS[name], recorded_quotes).values()
    *known, _ = documented()[name]
    np.testing.assert_allclose(figures[:4], known[:4], atol=0.011)
    np.testing.assert_allclose(figures[4:6], known[4:6], atol=1.01)
    np.testing.assert_allclose(figures[6:], known[6:], atol=0 if "slices" not in name else 2)


def test_an_index_of_the_chains_is_near_its_strip(january):
    quotes = chain.smiles(january)
    fit = surface.from_chain(january)
    complete = variance.volatility_index(variance.model_free(fit, method="fukasawa"))
    strip = variance.volatility_index(variance.model_free(quotes))
    carried = variance.model_free(fit)
    assert (carried.attrs["method"], strip.attrs["method"]) == ("strip", "strip")
    record = variance.volatility_index(carried)
    np.testing.assert_allclose(record["index"], strip["index"], rtol=1e-12)
    seen = surface.history(january, tenors=["30d"])
    np.testing.assert_allclose(seen["strip_index"], strip["index"].transpose(*seen["strip_index"].dims))
    # What the wings hold beyond the quotes: nothing is counted twice, and 2 points at most are omitted.
    assert bool((complete["index"] > strip["index"]).all())
    np.testing.assert_allclose(complete["index"], strip["index"], atol=0.02)


def test_spread_weights_need_quotes_and_breaches_are_reported(january):
    one = january[january["symbol"] == "BTC"].query("time == time.min()")
    weighted = surface.from_chain(one, weights="spread")
    quotes = chain.smiles(one)
    spread = (quotes["iv_ask"] - quotes["iv_bid"]).where(lambda width: width > 0)
    assert not bool((quotes["iv_bid"] > quotes["iv_ask"]).any())
    between = np.fmax(np.fmin(quotes["iv"], quotes["iv_ask"]), quotes["iv_bid"]).where(quotes["iv"].notnull())
    by_hand = surface.fit(quotes["log_moneyness"], between, quotes["year_fraction"], weights=1 / spread**2)
    np.testing.assert_array_equal(weighted["a"], by_hand["a"])
    assert bool((weighted["breach_vol"].where(weighted["method"] > 0, 0) >= 0).all())
    model = smile.iv(weighted, quotes["log_moneyness"], extrapolate=True)
    over = np.maximum((model - quotes["iv_ask"]).max(), (quotes["iv_bid"] - model).max())
    assert float(weighted["breach_vol"].max()) == pytest.approx(float(over))
    bare = one.drop(columns=["bid_coin", "ask_coin"])
    assert "breach_vol" not in surface.from_chain(bare)
    with pytest.raises(ValueError, match="needs a chain with bid and ask"):
        surface.from_chain(bare, weights="spread")


@pytest.mark.filterwarnings("ignore:.*options lack a volatility")
def test_a_fit_to_bid_and_ask_needs_no_marks(january):
    """The fit is inside of as many quotes as the marks are; other marks, or none, change nothing."""
    one = january[january["symbol"] == "BTC"].query("time == time.min()")
    quotes = chain.smiles(one)
    k, iv, t, bid, ask = (quotes[n] for n in ("log_moneyness", "iv", "year_fraction", "iv_bid", "iv_ask"))
    fitted = surface.from_chain(one, loss="bid_ask")

    def inside(model):
        return float(((model >= bid.fillna(0.0)) & (model <= ask)).where(ask.notnull()).mean())

    assert inside(smile.iv(fitted, k, extrapolate=True)) >= inside(iv) - 0.01
    moved = surface.fit(k, 1.05 * iv, t, iv_bid=bid, iv_ask=ask)
    np.testing.assert_array_equal(moved["a"], fitted["a"])
    stamp = chain_2026(STAMPS_2026[0]).query("symbol == 'BTC'").drop(columns=["iv", "mark_coin"])
    bare = surface.from_chain(stamp, loss="bid_ask")
    both = (bare["method"] > 0) & (fitted["method"] > 0)
    assert int(both.sum()) == int((fitted["method"] > 0).sum())
    off = abs(smile.iv(bare, 0.0) - smile.iv(fitted, 0.0)).where(both)
    assert float(off.median()) < 2e-3


def left_out(fitted: xr.Dataset) -> pd.DataFrame:
    """Return the error of each interior expiry when interpolated from its neighbours [volatility points]."""
    points = ("atm", "rr25", "bf25", "rr10", "bf10")
    live = fitted.isel(expiry=np.flatnonzero(fitted["method"] > 0)).sortby("year_fraction")
    years = live["year_fraction"].to_numpy()[1:-1]
    stays = xr.DataArray(np.eye(years.size + 2)[1:-1] == 0, dims=("out", "expiry"))
    rest = live.map(lambda each: each.where(stays, np.nan if each.dtype.kind == "f" else 0))
    own, result = (
        surface.constant_maturity(part, tenors=[pd.Timedelta(365 * t, "D") for t in years], points=points)
        for part in (live, rest)
    )
    diagonal = xr.DataArray(np.arange(years.size), dims="place")
    result = result.isel(out=diagonal, tenor=diagonal)
    errors = {name: 100 * (result[name].to_numpy() - own[name].to_numpy()) for name in points}
    return pd.DataFrame(errors | {"days": 365 * years, "status": result["status"].to_numpy()})


def test_omitted_expiry_is_interpolated_from_its_neighbours(january, december):
    """The curvature of every interior expiry; with mixed prices its errors were 1.0 and 3.3 points.

    Within two days of expiry weekends and events decide, which are not in the calendar's time.
    """
    parts = []
    for options in (january, december):
        fitted = surface.from_chain(options)
        lead = [dim for dim in fitted["a"].dims if dim != "expiry"]
        every = fitted.stack(surface=lead) if lead else fitted.expand_dims("surface")
        years = every["year_fraction"].broadcast_like(every["a"]).transpose("surface", "expiry").to_numpy()
        for place, t in enumerate(years):
            one = every.isel(surface=place).reset_coords(drop=True)
            parts.append(left_out(one.assign_coords(year_fraction=("expiry", t))))
    table = pd.concat(parts, ignore_index=True)
    assert len(table) > 150
    assert not (table["status"] & int(Status.PRICES_MIXED)).any()
    size = table.abs()
    assert size["bf25"].median() <= 0.1
    assert size["bf25"].quantile(0.9) <= 0.3
    assert size["bf10"].median() <= 0.21
    assert size["bf10"].quantile(0.9) <= 0.9
    assert size.loc[table["days"] > 2, "bf10"].median() <= 0.2
