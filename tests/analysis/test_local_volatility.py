import numpy as np
import xarray as xr

from derivdata.analysis import black76, smile, surface
from derivdata.analysis.smile import svi
from derivdata.analysis.status import Status


def natural() -> xr.Dataset:
    return surface.from_essvi(
        [0.010, 0.028, 0.10], [-0.4, -0.3, -0.25], [0.08, 0.15, 0.34], [0.05, 0.15, 0.6]
    )


def test_local_volatility_of_flat_smiles_is_forward_volatility():
    """By hand: (0.05 − 0.02)/(0.2 − 0.1) = 0.3; before the first expiry 0.02/0.1 = 0.2."""
    flat = surface.from_essvi([0.02, 0.05], [0.0, 0.0], [0.0, 0.0], [0.1, 0.2])
    result = surface.local_volatility(flat, 0.0, [0.05, 0.1, 0.15, 0.2])
    np.testing.assert_allclose(result["local_variance"], [0.2, 0.2, 0.3, 0.3], rtol=1e-6)
    np.testing.assert_allclose(result["local_vol"] ** 2, result["local_variance"], rtol=1e-14)
    assert result["local_vol"].attrs["units"] == "1/√year"
    assert not np.isnan(surface.local_volatility(flat, 0.1, 0.3, extrapolate="flat_vol")["local_vol"])
    assert np.isnan(surface.local_volatility(flat, 0.1, 0.3)["local_vol"])


def test_local_volatility_equals_dupire_from_price_differences():
    """Central differences of the prices that the surface itself gives, 1e-3 in strike and time."""
    made, t, step = natural(), 0.3, 1e-3
    strike = np.array([0.75, 0.9, 1.0, 1.15, 1.5])
    times = xr.DataArray(t + step * np.array([-1.0, 0.0, 1.0]), dims="later")
    x = xr.DataArray(strike + step * np.arange(-1, 2)[:, None], dims=("shift", "x"))
    vol = surface.iv(made, np.log(x), times)
    calls = black76.price(1.0, x, times, vol, "call")
    in_time = (calls.isel(later=2, shift=1) - calls.isel(later=0, shift=1)) / (2 * step)
    now = calls.isel(later=1)
    curvature = (now.isel(shift=0) - 2 * now.isel(shift=1) + now.isel(shift=2)) / step**2
    expected = np.sqrt(2 * in_time / (strike**2 * curvature))
    result = surface.local_volatility(made, np.log(strike), t)
    np.testing.assert_allclose(result["local_vol"].to_numpy(), expected.to_numpy(), rtol=2e-4)
    assert (result["status"] == 0).all()


def test_local_variance_that_is_not_positive_has_a_status():
    crossed = surface.from_essvi([0.02, 0.018], [0.0, 0.0], [0.0, 0.0], [0.1, 0.2])
    result = surface.local_volatility(crossed, 0.0, [0.05, 0.15])
    assert np.isnan(result["local_vol"]).to_numpy().tolist() == [False, True]
    assert result["status"].to_numpy().tolist() == [Status.SHORT_EXTRAPOLATION, Status.CALENDAR]
    vogt = svi.Raw(*(xr.DataArray([x], dims="expiry") for x in (-0.0410, 0.1331, 0.3060, 0.3586, 0.4153)))
    fit = smile.from_raw(vogt, xr.DataArray([1.0], dims="expiry"))
    arbitrage = surface.local_volatility(fit, [0.0, 0.9], 1.0)
    assert np.isnan(arbitrage["local_vol"]).to_numpy().tolist() == [False, True]
    assert int(arbitrage["status"][1]) & Status.BUTTERFLY
