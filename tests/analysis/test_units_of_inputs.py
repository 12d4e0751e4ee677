"""Inputs in a wrong unit or of another kind are refused; units have one spelling."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import derivdata as dd
from derivdata import units
from derivdata.analysis import oi, volatility
from tests.reliability.calls import CALLS, function

ANY_UNIT = {
    "analysis.align.align": "places values of any unit on common times",
    "analysis.percentile": "compares values with their own past",
    "analysis.rank": "compares values with each other",
    "analysis.funding.zscore": "compares values with their own past",
    "analysis.delivery.calibration": "takes probabilities, which have no unit",
    "analysis.flags": "reads masks",
    "analysis.backtest.sweep": "the prices of a rule",
}
"""Functions that take numbers of any unit, and why."""


def arrays_of(arguments: dict[str, Any]) -> list[str]:
    """The arguments that are arrays with a unit."""
    return [
        name
        for name, value in arguments.items()
        if isinstance(value, xr.DataArray) and (value.attrs.get("units") or "_" in str(value.name))
    ]


WITH_UNITS = [
    (name, argument)
    for name, call in CALLS.items()
    if name.startswith("analysis.") and name not in ANY_UNIT
    for argument in arrays_of(call())
]


@pytest.mark.parametrize(("name", "argument"), WITH_UNITS)
def test_another_unit_is_refused(name: str, argument: str) -> None:
    arguments = CALLS[name]()
    wrong = arguments[argument].rename("value").assign_attrs(units="kg")
    with pytest.raises((ValueError, TypeError)):
        function(name)(**arguments | {argument: wrong})


def day(values: list[float], name: str, unit: str) -> xr.DataArray:
    time = np.datetime64("2026-01-01", "us") + np.arange(len(values)) * np.timedelta64(1, "D")
    return xr.DataArray(values, {"time": time}, "time", name, {"units": unit})


def test_a_published_index_in_percent_composes_with_realised_volatility() -> None:
    index = day([50.0, 60.0], "index_pct", "%")
    past = day([0.4, 0.3], "volatility", "1/√year")
    difference = volatility.implied_minus_realised(index, past, window="1d", ahead=False)
    np.testing.assert_allclose(difference["volatility"], [0.1, 0.3])
    assert difference["volatility"].attrs == {"units": "1/√year"}


@pytest.mark.parametrize(
    ("name", "unit"), [("rate_bps_8h", "bps/8h"), ("price_usd", "USD"), ("share", "fraction")]
)
def test_other_units_than_those_of_volatility_are_refused(name: str, unit: str) -> None:
    other = day([0.5, 0.6], name, unit)
    with pytest.raises(ValueError, match=f"implied: expected a volatility in '1/√year' or '%', got '{unit}'"):
        volatility.implied_minus_realised(other, other, window="1d")


def test_realised_values_are_used_from_the_end_of_their_last_bar_on() -> None:
    """Bars of a day: the value labelled 3 January is of the bar that ends on the 4th."""
    rng = np.random.default_rng(5)
    hours = np.datetime64("2026-01-01", "us") + np.arange(24 * 8 + 1) * np.timedelta64(1, "h")
    prices = 100.0 * np.exp(np.cumsum(rng.normal(0.0, 0.01, hours.size)))
    panel = xr.DataArray(prices, {"time": hours}, "time", "price_usd", {"units": "USD"})
    past = volatility.realised(volatility.bars(panel), "2d", method="parkinson")
    assert (past["known_at"] - past["time"] == np.timedelta64(1, "D")).all()
    implied = day([0.5] * 8, "iv", "1/√year")
    known = volatility.implied_minus_realised(implied, past, window="2d", ahead=False)["volatility"]
    fourth = np.datetime64("2026-01-04")
    assert float(known.sel(time=fourth)) == pytest.approx(0.5 - float(past.sel(time="2026-01-03")))
    ahead = volatility.implied_minus_realised(implied, past, window="2d")["volatility"]
    assert float(ahead.sel(time="2026-01-02")) == pytest.approx(0.5 - float(past.sel(time="2026-01-03")))
    by_hand = past.assign_coords(time=past["time"] + np.timedelta64(1, "D"))
    again = volatility.implied_minus_realised(implied, by_hand, window="2d", ahead=False)["volatility"]
    xr.testing.assert_identical(again, known)


def test_prices_and_amounts_are_not_confused() -> None:
    labels = {"symbol": ["BTC"], "exchange": ["a", "b"], "time": pd.to_datetime(["2026-01-01"]).as_unit("us")}
    shape = {"coords": labels, "dims": ("symbol", "exchange", "time"), "attrs": {"units": "USD"}}
    prices = xr.DataArray(np.full((1, 2, 1), 100.0), name="price_usd", **shape)
    amounts = xr.DataArray(np.full((1, 2, 1), 1e6), name="oi_usd", **shape)
    with pytest.raises(ValueError, match="oi: expected an amount in USD, got the price 'price_usd'"):
        oi.market_share(prices)
    with pytest.raises(ValueError, match="price: expected prices, got 'oi_usd'"):
        oi.in_coins(amounts, amounts)
    assert oi.in_coins(amounts, prices).values.ravel().tolist() == [1e4, 1e4]


@pytest.mark.parametrize(
    ("label", "unit"), [("bps/8h", "bps_8h"), ("1/year", "apr"), ("1/year compounded", "apy")]
)
def test_convert_knows_the_labels_of_panels(label: Any, unit: Any) -> None:
    assert units.convert(2.0, label, "bps", hours=8.0) == units.convert(2.0, unit, "bps", hours=8.0)
    amount = day([1.0], "amount_bps", "bps")
    assert units.convert(amount, "bps", label, hours=8.0).attrs["units"] == label


def test_every_unit_has_one_spelling() -> None:
    """The attribute is what a user compares: √year is written one way, and days, hours and counts too."""
    package = Path(dd.tables.__file__).parents[1]
    written = re.compile(r"""units(?:=|": |'\] = )"([^"]+)\"""")
    found = {
        unit
        for path in (package / "analysis").rglob("*.py")
        for unit in written.findall(path.read_text(encoding="utf-8"))
    }
    found |= {column.unit for table in dd.tables.TABLES.values() for column in table.columns.values()}
    other_spellings = {"1/sqrt(year)", "day", "d", "hours", "hour", "percent", "pct", "usd", "bp", "bps_8h"}
    assert found & other_spellings == set()
    assert {"1/√year", "USD", "bps/8h", "h", "days"} <= found
