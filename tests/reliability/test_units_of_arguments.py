"""An array in another unit than the function needs is refused, and the message names the argument."""

from __future__ import annotations

import pytest
import xarray as xr

import derivdata as dd
from tests.reliability.calls import CALLS

pytestmark = pytest.mark.filterwarnings("ignore")

OF_ANY_UNIT = {
    "analysis.align.align": "moves series to other times",
    "analysis.funding.zscore": "a ratio of the series to its own deviation",
    "analysis.percentile": "a rank among values of the same series",
    "analysis.rank": "a rank among values of the same time",
}
"""Functions whose result does not depend on the unit, and why."""


@pytest.mark.parametrize("name", sorted(n for n in CALLS if n.startswith(("analysis.", "plot."))))
def test_another_unit_is_refused_with_the_name_of_an_argument(name: str) -> None:
    dd.connect("sample", cache="off")
    given = CALLS[name]()
    with_units = [
        argument
        for argument, value in given.items()
        if isinstance(value, xr.DataArray) and "units" in value.attrs
    ]
    function = dd
    for word in name.split("."):
        function = getattr(function, word)
    for argument in with_units:
        wrong = given | {argument: given[argument].assign_attrs(units="furlong")}
        if name in OF_ANY_UNIT:
            function(**wrong)
            continue
        with pytest.raises((ValueError, TypeError), match="furlong"):
            function(**wrong)


def test_densities_and_quotes_state_their_unit_or_none() -> None:
    probability = xr.DataArray([0.1, 0.4, 0.6, 0.97], dims="expiry")
    assert dd.analysis.delivery.calibration(probability.assign_attrs(units="1"))["count"].item() == 4
    with pytest.raises(ValueError, match="probability must be in '1', got '%'"):
        dd.analysis.delivery.calibration(probability.assign_attrs(units="%"))
    quotes = CALLS["analysis.variance.cboe"]()
    with pytest.raises(ValueError, match="bid must be prices in the currency of the strikes, got '1/√year'"):
        dd.analysis.variance.cboe(
            **quotes | {side: quotes[side].assign_attrs(units="1/√year") for side in ("bid", "ask")}
        )
