"""Rate conversions against the arithmetic of the definitions, written out."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from derivdata import units
from tests.support.records import attrs_of

RATES = st.floats(-500.0, 500.0, allow_nan=False)
HOURS = st.sampled_from([0.5, 1.0, 2.0, 4.0, 8.0, 24.0])


def test_one_basis_point_every_eight_hours_in_every_unit():
    assert units.convert(0.0001, "native", "bps_8h", hours=8.0) == 1.0
    assert units.convert(0.0000125, "native", "bps_8h", hours=1.0) == 1.0
    assert units.convert(1.0, "bps_8h", "apr") == 0.1095  # 1e-4 × 3 × 365
    assert units.convert(1.0, "bps_8h", "apy", hours=8.0) == pytest.approx(1.0001**1095 - 1.0, rel=1e-12)
    assert units.convert(1.0, "bps_8h", "apy", hours=1.0) == pytest.approx(1.0000125**8760 - 1.0, rel=1e-10)
    assert units.convert(1.0, "bps_8h", "bps", hours=720.0) == 90.0
    assert units.convert(90.0, "bps", "apr", hours=720.0) == pytest.approx(0.1095, rel=1e-15)


@given(RATES, HOURS)
def test_each_conversion_undoes_its_inverse(rate, interval):
    for unit, value, rel in (
        ("native", rate, 1e-13),
        ("bps", rate, 1e-13),
        ("apr", rate, 1e-13),
        ("apy", rate / 500.0, 1e-9),
    ):
        hours = {} if unit == "apr" else {"hours": interval}
        there = units.convert(value, "bps_8h", unit, **hours)
        assert units.convert(there, unit, "bps_8h", **hours) == pytest.approx(value, rel=rel, abs=1e-12)


@pytest.mark.parametrize("make", [np.array, pd.Series, xr.DataArray], ids=["numpy", "pandas", "xarray"])
def test_array_type_and_nan_are_preserved(make):
    result = units.convert(make([0.0001, np.nan]), "native", "bps_8h", hours=4.0)
    assert type(result) is type(make([0.0]))
    np.testing.assert_allclose(np.asarray(result), [2.0, np.nan])


LABELS = {
    "bps_8h": ("rate_bps_8h", "bps/8h"),
    "native": ("rate_native", "fraction per interval"),
    "bps": ("amount_bps", "bps"),
    "apr": ("apr", "1/year"),
    "apy": ("apy", "1/year compounded"),
}


def _panel(unit: str) -> xr.DataArray:
    name, units_ = LABELS[unit]
    attrs = {"units": units_, "kind": "settled", "provenance": "{}"}
    return xr.DataArray([1.0, 2.0], dims="time", name=name, attrs=attrs)


@pytest.mark.parametrize("keep", [True, False], ids=["keep_attrs", "drop_attrs"])
@pytest.mark.parametrize(("old", "new"), [*permutations(LABELS, 2)])
def test_converted_array_states_its_new_unit(old, new, keep):
    needs_no_interval = {old, new} == {"bps_8h", "apr"}
    hours = {} if needs_no_interval else {"hours": 8.0}
    with xr.set_options(keep_attrs=keep):
        result = units.convert(_panel(old), old, new, **hours)
    assert (result.name, attrs_of(result)) == (_panel(new).name, _panel(new).attrs)


@pytest.mark.parametrize("keep", [True, False], ids=["keep_attrs", "drop_attrs"])
def test_converted_array_cannot_be_converted_again(keep):
    with xr.set_options(keep_attrs=keep):
        apr = units.convert(_panel("bps_8h"), "bps_8h", "apr")
        with pytest.raises(ValueError, match="values must be in 'bps/8h', got '1/year'"):
            units.convert(apr, "bps_8h", "apr")
        with pytest.raises(ValueError, match="values must be in '1/year', got 'bps/8h'"):
            units.convert(_panel("bps_8h"), "apr", "bps_8h")


def test_interval_is_required_only_by_units_that_depend_on_it():
    for old, new in [("native", "bps_8h"), ("bps_8h", "bps"), ("bps_8h", "apy"), ("bps", "apr")]:
        with pytest.raises(ValueError, match=r"hours is missing: '(native|bps|apy)' depends on a length"):
            units.convert(1.0, old, new)
    with pytest.raises(ValueError, match="hours has no effect between 'bps_8h' and 'apr'"):
        units.convert(1.0, "bps_8h", "apr", hours=8.0)
    assert units.convert(0.0001, "native", "bps", hours=8.0) == 1.0
    assert units.convert(0.0001, "native", "apy", hours=8.0) == pytest.approx(1.0001**1095 - 1.0, rel=1e-12)


def test_converted_series_is_renamed_and_the_frame_is_unchanged():
    assert units.convert(pd.Series([1.0], name="rate_bps_8h"), "bps_8h", "apr").name == "apr"
    assert units.convert(pd.DataFrame({"a": [1.0]}), "bps_8h", "apr").columns.tolist() == ["a"]


@pytest.mark.parametrize("label", ["1/√year", "1/sqrt(year)"])
def test_volatilities_are_converted_by_either_spelling(label: str) -> None:
    assert units.convert(0.45, label, "%") == 45.0
    index = xr.DataArray([45.0, np.nan], dims="time", attrs={"units": "%"})
    decimal = units.convert(index, "%", label)
    np.testing.assert_array_equal(decimal.values, [0.45, np.nan])
    assert decimal.attrs["units"] == "1/√year"
    stored = xr.DataArray([0.45], dims="time", attrs={"units": label})
    assert units.convert(stored, "1/√year", "%").item() == 45.0


def test_a_unit_is_named_by_the_label_that_results_have() -> None:
    rate = xr.DataArray([1.0], dims="time", attrs={"units": "bps/8h"})
    assert units.convert(rate, "bps/8h", "1/year").item() == units.convert(1.0, "bps_8h", "apr")
    yearly = units.convert(1.0, "bps/8h", "1/year compounded", hours=8)
    assert yearly == units.convert(1.0, "bps_8h", "apy", hours=8)
    assert units.convert(0.0001, "fraction per interval", "bps/8h", hours=1) == units.convert(
        0.0001, "native", "bps_8h", hours=1
    )


def test_a_volatility_is_not_converted_to_a_rate() -> None:
    with pytest.raises(ValueError, match="'1/√year' and 'apr' must be units of one quantity"):
        units.convert(0.5, "1/√year", "apr")
    with pytest.raises(ValueError, match="values must be in '1/√year', got '%'"):
        units.convert(xr.DataArray([45.0], dims="time", attrs={"units": "%"}), "1/√year", "%")


def test_the_package_spells_each_unit_of_volatility_once() -> None:
    package = Path(str(units.__file__)).parent
    spelled = [
        path.name
        for path in sorted(package.rglob("*.py"))
        if "sqrt(year)" in path.read_text(encoding="utf-8")
    ]
    assert spelled == ["units.py"]
