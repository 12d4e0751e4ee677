"""An array in another unit than the function needs is refused, and the message names the argument."""

from __future__ import annotations

import re
from typing import Any

import pytest
import xarray as xr

import derivdata as dd
from tests.reliability.calls import CALLS, function

pytestmark = pytest.mark.filterwarnings("ignore")

OF_ANY_UNIT = {
    "analysis.align.align": "moves series to other times",
    "analysis.funding.zscore": "a ratio of the series to its own deviation",
    "analysis.percentile": "a rank among values of the same series",
    "analysis.rank": "a rank among values of the same time",
}
"""Functions whose result does not depend on the unit, and why."""


def with_units() -> list[tuple[str, str]]:
    """Return each function of analysis and plot with each of its arguments that states a unit."""
    dd.connect("sample", cache="off")
    pairs = [
        (name, argument)
        for name in sorted(CALLS)
        if name.startswith(("analysis.", "plot."))
        for argument, value in CALLS[name]().items()
        if isinstance(value, xr.DataArray) and "units" in value.attrs
    ]
    dd.disconnect()
    return pairs


PAIRS = with_units()


@pytest.fixture(autouse=True)
def _sample() -> None:
    dd.connect("sample", cache="off")


def in_furlongs(name: str, argument: str) -> dict[str, Any]:
    """Return the arguments of a valid call, one of them in a unit that no argument has."""
    given = CALLS[name]()
    return given | {argument: given[argument].assign_attrs(units="furlong")}


@pytest.mark.parametrize(("name", "argument"), [pair for pair in PAIRS if pair[0] not in OF_ANY_UNIT])
def test_another_unit_is_rejected_with_the_name_of_the_argument(name: str, argument: str) -> None:
    with pytest.raises((ValueError, TypeError), match="furlong") as raised:
        function(name)(**in_furlongs(name, argument))
    assert re.search(rf"\b{argument}\b", str(raised.value))


@pytest.mark.parametrize(("name", "argument"), [pair for pair in PAIRS if pair[0] in OF_ANY_UNIT])
def test_unitless_result_does_not_depend_on_the_unit(name: str, argument: str) -> None:
    expected = function(name)(**CALLS[name]())
    result = function(name)(**in_furlongs(name, argument))
    xr.testing.assert_equal(result, expected)
    assert bool(expected.notnull().any())


def test_the_functions_of_any_unit_are_among_those_with_units() -> None:
    assert {name for name, _ in PAIRS} >= set(OF_ANY_UNIT)


def test_probabilities_and_quotes_of_another_unit_are_rejected() -> None:
    probability = xr.DataArray([0.1, 0.4, 0.6, 0.97], dims="expiry")
    assert dd.analysis.delivery.calibration(probability.assign_attrs(units="1"))["count"].item() == 4
    with pytest.raises(ValueError, match="probability must be in '1', got '%'"):
        dd.analysis.delivery.calibration(probability.assign_attrs(units="%"))
    quotes = CALLS["analysis.variance.cboe"]()
    with pytest.raises(
        ValueError, match="bid must be prices in the currency of the strikes, got '1/√year': pass premiums"
    ):
        dd.analysis.variance.cboe(
            **quotes | {side: quotes[side].assign_attrs(units="1/√year") for side in ("bid", "ask")}
        )
