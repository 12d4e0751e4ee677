from collections.abc import Callable

import numpy as np
import pytest
import xarray as xr

from derivdata.analysis import business_time, position, risk_neutral, surface, variance
from tests.analysis import test_position

K = np.linspace(-0.5, 0.5, 5)
LAZY_K = xr.DataArray(K, {"log_moneyness": K}, "log_moneyness").chunk(2)
READ: dict[str, Callable[[xr.Dataset], xr.Dataset]] = {
    "density": lambda fit: risk_neutral.density(fit, K),
    "density_between": lambda fit: risk_neutral.density(fit, LAZY_K, [0.11, 0.3]),
    "quantile": lambda fit: risk_neutral.quantile(fit, [0.1, 0.5]),
    "moments": risk_neutral.moments,
    "local_volatility": lambda fit: surface.local_volatility(fit, K, [0.1, 0.3]),
    "iv": lambda fit: surface.iv(fit, [0.0, 0.1], [0.1, 0.3]).to_dataset(name="iv"),
    "calendar_check": surface.calendar_check,
    "constant_maturity": lambda fit: surface.constant_maturity(
        fit, tenors=["30d", "60d"], points=["atm", "rr25"]
    ),
    "term_structure": surface.term_structure,
    "forward_variance": lambda fit: surface.forward_variance(fit, 0.1, 0.3),
    "model_free": lambda fit: variance.model_free(fit, method="smile"),
    "fukasawa": lambda fit: variance.model_free(fit, method="fukasawa"),
    "volatility_index": lambda fit: variance.volatility_index(variance.model_free(fit)),
    "clock": lambda fit: surface.iv(fit, 0.1, [0.1, 0.3], clock=0.5).to_dataset(name="iv"),
    "greeks": lambda fit: position.greeks(test_position.BOOK, fit),
    "vega_buckets": lambda fit: position.vega_buckets(test_position.BOOK, fit),
    "scenarios": lambda fit: position.scenarios(
        test_position.BOOK, fit, spot_change=[-0.1, 0.1], elapsed=["0d", "3d"]
    ),
    "business_time": business_time.fit,
}


@pytest.mark.parametrize("name", READ)
def test_several_surfaces_equal_single_ones_and_stay_lazy(name: str) -> None:
    read, one, other = READ[name], test_position.made(), test_position.made(level=1.2)
    both = xr.concat([one, other], "symbol", data_vars="all").assign_attrs(one.attrs)
    together = read(both)
    for place, alone in enumerate([one, other]):
        xr.testing.assert_allclose(together.isel(symbol=place, drop=True), read(alone), rtol=1e-12)
    lazy = read(both.chunk({"symbol": 1, "expiry": 2}))
    assert lazy.chunks
    xr.testing.assert_allclose(lazy.compute(), together, rtol=1e-12)
