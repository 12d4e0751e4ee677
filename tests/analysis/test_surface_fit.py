import functools

import dask
import numpy as np
import pytest
import xarray as xr

from derivdata.analysis import smile, surface
from derivdata.analysis.labelling import in_chunks
from derivdata.analysis.status import Status
from tests.analysis import mingone
from tests.support.records import assert_identical

essvi = functools.partial(surface.fit, method="essvi", weights="equal")


@pytest.fixture
def rng():
    return np.random.default_rng(20260105)


@pytest.fixture
def noisy(rng):
    """Five expiries with errors of half a volatility point."""
    slices = mingone.draw(rng, 5)
    k, iv = mingone.quotes(*slices, mingone.YEARS[:5])
    return mingone.labelled(k, iv * np.exp(0.01 * rng.normal(size=iv.shape)), mingone.YEARS[:5])


def garbage(rng, surfaces, most, years, expiries=6, strikes=9):
    shape = (surfaces, expiries, strikes)
    k = np.sort(rng.normal(0, 0.3 * most, shape), axis=-1)
    return (
        k,
        rng.uniform(0.05 * most, most, shape),
        np.sort(rng.uniform(0.01 * years, years, shape[:2]), axis=-1),
    )


def assert_free(found):
    known = found["method"] > 0
    calendar, butterfly = surface.calendar_check(found), smile.butterfly_check(found)
    assert bool(known.any())
    assert bool((calendar["ok"] & butterfly["ok"] | ~known).all())


def test_mingone_surfaces_are_recovered_at_any_size(rng):
    truths = [mingone.draw(rng, count) for count in (1, 2, 3, 5, 8) for _ in range(8)]
    result = essvi(*mingone.ragged(truths))
    assert (result["status"].where(result["n"] > 0, 0) == 0).all()
    for i, truth in enumerate(truths):
        for name, value in zip(("theta", "rho", "psi"), truth, strict=True):
            actual = result[name].isel(time=i).to_numpy()
            np.testing.assert_allclose(
                actual[: len(value)], value, rtol=1e-6, atol=1e-7, err_msg=f"{name} {i}"
            )
            assert np.isnan(actual[len(value) :]).all()
    assert result["rmse_vol"].max() < 1e-8


@pytest.mark.parametrize(("most", "years"), [(1.0, 1.0), (4.0, 10.0), (0.02, 1e-4)])
def test_fitted_surface_is_arbitrage_free_for_any_quotes(rng, most, years):
    """Also where total variance is so large that the wings reach Lee's bound, or next to nothing."""
    assert_free(essvi(*garbage(rng, 20, most, years)))


def test_smiles_fitted_alone_are_flagged_where_they_cross():
    k = np.linspace(-0.3, 0.3, 9)
    total = np.array([[0.05], [0.03]]) * (1 + k**2)
    years = np.array([0.1, 0.2])
    result = surface.fit(
        np.tile(k, (2, 1)), np.sqrt(total / years[:, None]), years, method="slices", weights="equal"
    )
    assert (result["status"].to_numpy() & Status.CALENDAR).astype(bool).tolist() == [False, True]
    assert result.attrs["surface"] == "slices"


def test_missing_quotes_and_order_do_not_affect_the_fit(noisy, rng):
    k, iv, years = noisy
    result = essvi(k, iv, years)
    holes = rng.random(iv.shape) < 0.3
    masked = essvi(k, iv.where(~holes), years)
    dropped = surface.fit(k.where(~holes), iv, years, weights=np.where(holes, 0.0, 1.0), method="essvi")
    mixed = essvi(k[::-1, ::-1], iv[::-1, ::-1], years[::-1])
    for name in ("theta", "rho", "psi"):
        np.testing.assert_allclose(masked[name], dropped[name], rtol=1e-9)
        np.testing.assert_allclose(mixed[name][::-1], result[name], rtol=1e-6)
    assert (masked["n"] == (~holes).sum(axis=1)).all()


def test_an_expiry_that_cannot_be_fitted_is_skipped_with_its_reason(noisy):
    k, iv, years = noisy
    whole = essvi(k[1:4], iv[1:4], years[1:4])
    years = years.copy()
    years[0], years[4] = -0.01, np.nan
    few = iv.copy()
    result = essvi(k, few, years)
    assert result["status"].to_numpy()[[0, 4]].tolist() == [Status.EXPIRED, Status.BAD_INPUT]
    np.testing.assert_allclose(result["theta"][1:4], whole["theta"], rtol=1e-9)
    few[2, 2:] = np.nan
    result = essvi(k, few, years)
    assert result["status"].to_numpy()[2] == Status.TOO_FEW_STRIKES
    assert np.isnan(result["theta"][2])
    assert result["method"].to_numpy().tolist() == [0, 3, 0, 3, 0]
    empty = essvi(k, iv * np.nan, years)
    assert np.isnan(empty["a"]).all()
    assert (empty["status"] != 0).all()
    k, iv, years = noisy
    same = k.copy()
    same[1] = 0.1
    assert essvi(same, iv, years)["status"].to_numpy()[1] == Status.TOO_FEW_STRIKES


def test_quotes_chunked_along_their_expiries_stay_lazy(noisy):
    k, iv, years = noisy
    eager = essvi(k, iv, years)
    lazy = essvi(k.chunk(strike=4), iv.chunk(expiry=2), years)
    assert dask.is_dask_collection(lazy["theta"].data)
    xr.testing.assert_allclose(lazy.compute(), eager, rtol=1e-9)


@pytest.mark.parametrize("method", ["essvi", "slices"])
def test_flat_surface_is_fitted_and_the_search_terminates(method):
    level, k = 0.6, np.tile(np.linspace(-0.3, 0.3, 15), (4, 1))
    years = np.array([7, 30, 60, 90]) / 365
    result = surface.fit(k, np.full((4, 15), level), years, method=method, weights="equal")
    np.testing.assert_array_equal(result["status"], 0)
    np.testing.assert_allclose(smile.iv(result, 0.1), level, rtol=1e-7)


@pytest.mark.parametrize("method", ["essvi", "svi"])
@pytest.mark.parametrize("noise", [1e-6, 1e-4, 3e-3])
def test_nearly_flat_surface_converges_or_is_flagged_flat(method, noise):
    """Quotes are 60 % and noise: each slice has this level, and an undetermined surface is flagged."""
    k = np.tile(np.linspace(-0.3, 0.3, 15), (12, 4, 1))
    iv = 0.6 + noise * np.random.default_rng(7).normal(size=k.shape)
    fit = surface.fit(k, iv, np.array([7, 30, 60, 90]) / 365, method=method)
    assert set(np.unique(fit["status"])) <= {0, int(Status.FLAT)}
    level = smile.iv(fit, 0.0)
    # The level of a slice is the mean of about eight quotes, so its error is below twice the noise.
    assert float(np.abs(level - 0.6).max()) < 2.0 * noise
    if method == "essvi" and noise == 1e-6:
        assert (fit["status"] == int(Status.FLAT)).any()


def test_fit_states_quoted_range_error_and_forward(noisy):
    k, iv, years = noisy
    result = essvi(k, iv, years, forward=years * 0 + 100.0)
    np.testing.assert_allclose(result["k_min"], k.min("strike"))
    np.testing.assert_allclose(result["k_max"], k.max("strike"))
    model = smile.iv(result, k)
    np.testing.assert_allclose(result["rmse_vol"], np.sqrt(((model - iv) ** 2).mean("strike")), rtol=1e-9)
    assert (result["forward"] == 100.0).all()
    assert result["status"].attrs["flag_meanings"].split()[0] == "expired"
    assert not (result["status"] & np.int32(Status.FLAT)).any()


def test_invalid_arguments_are_rejected(noisy):
    k, iv, years = noisy
    with pytest.raises(ValueError, match="looks like percent, its median is"):
        essvi(k, 100 * iv, years)
    with pytest.raises(ValueError, match="iv must have the dim 'expiry', got dims"):
        essvi(k[0], iv[0], years)
    with pytest.raises(ValueError, match="iv must have the dim 'strike', got dims"):
        essvi(k.rename(strike="quote"), iv.rename(strike="quote"), years)
    with pytest.raises(
        ValueError, match=r"year_fraction must have the dim 'expiry', and not the dim 'strike', got dims \(\)"
    ):
        essvi(k, iv, 0.1)
    with pytest.raises(
        ValueError,
        match=r"must have only dims of the slices, and not the dim 'strike', got dims \('expiry', 'strike'\)",
    ):
        smile.fit(k, iv, iv, weights="equal")
    with pytest.raises(
        ValueError, match="be one of equal, vega, price, variance or an array over the quotes, got 'delta'"
    ):
        surface.fit(k, iv, years, weights="delta", method="essvi")


@pytest.mark.parametrize(
    ("most", "whole", "sizes"),
    [
        (6, (), [6]),
        (3, (), [2, 2, 2]),
        (1, (), [1, 1, 1, 1, 1, 1]),
        (1, ("expiry",), [3, 3]),
        (1, ("expiry", "symbol"), [6]),
    ],
)
def test_batches_never_exceed_the_maximum_number_of_slices(most, whole, sizes):
    """Two symbols of three expiries; chunks are not cut where they must stay whole."""
    method = (("symbol", "expiry"), np.arange(6.0).reshape(2, 3))
    fit = xr.Dataset({"method": method}, {"symbol": ["BTC", "ETH"], "expiry": [1, 2, 3]})
    seen: list[int] = []

    def doubled(part: xr.Dataset) -> xr.Dataset:
        seen.append(part["method"].size)
        return part * 2

    result = in_chunks(doubled, fit, most=most, whole=whole)
    assert seen == sizes
    assert_identical(result, fit * 2)


@pytest.mark.parametrize("method", ["svi", "essvi", "slices"])
def test_errors_of_points_are_the_scatter_of_fits_to_noisy_quotes(method):
    """Two hundred draws of noise that is twice as large in one wing as elsewhere."""
    rng = np.random.default_rng(8)
    true = surface.from_essvi([0.02, 0.045], [-0.3, -0.25], [0.12, 0.2], [0.1, 0.25])
    k = xr.DataArray(np.linspace(-2.5, 2.5, 25), dims="strike") * true["theta"] ** 0.5
    size = 0.002 * (1.0 + (k < 0.0)) / (1.0 + 0.0 * k)
    noise = xr.DataArray(rng.standard_normal((200, 2, 25)), dims=("draw", "expiry", "strike"))
    iv = smile.iv(true, k, extrapolate=True) + size * noise
    fit = surface.fit(k, iv, true["year_fraction"].drop_vars("expiry", errors="ignore"), method=method)
    points = ("atm", "rr25", "bf10")
    result = surface.constant_maturity(fit, tenors=["40d", "60d"], points=points, errors=True)
    for point in points:
        scatter, error = result[point].std("draw"), result[f"{point}_error"].median("draw")
        np.testing.assert_allclose(error, scatter, rtol=0.3, err_msg=point)
    spread = fit["covariance"].isel(parameter=1, other_parameter=1).median("draw") ** 0.5
    np.testing.assert_allclose(spread, fit["b"].std("draw"), rtol=0.3)
    first = iv.transpose("draw", "expiry", "strike")[0, :, :5]
    few = surface.fit(k[:5], first, true["year_fraction"], method=method)
    assert np.isnan(few["covariance"]).all() == (method != "essvi")
    with pytest.raises(ValueError, match="surface has no variable 'covariance'"):
        surface.constant_maturity(true, errors=True)
