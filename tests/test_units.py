"""Rate conversions against the arithmetic of the definitions, written out."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from derivdata import units
from derivdata.tables import COLUMNS

RATES = st.floats(-500.0, 500.0, allow_nan=False)
HOURS = st.sampled_from([0.5, 1.0, 2.0, 4.0, 8.0, 24.0])


def test_one_basis_point_every_eight_hours_in_every_unit():
    assert units.bps_8h_from_native(0.0001, 8.0) == 1.0
    assert units.bps_8h_from_native(0.0000125, 1.0) == 1.0
    assert units.apr_from_bps_8h(1.0) == 0.1095  # 1e-4 × 3 × 365
    assert units.apy_from_bps_8h(1.0, 8.0) == pytest.approx(1.0001**1095 - 1.0, rel=1e-12)
    assert units.apy_from_bps_8h(1.0, 1.0) == pytest.approx(1.0000125**8760 - 1.0, rel=1e-10)
    assert units.bps_from_bps_8h(1.0, 720.0) == 90.0
    assert units.apr_from_bps(90.0, 720.0) == pytest.approx(0.1095, rel=1e-15)


@given(RATES, HOURS)
def test_each_conversion_undoes_its_inverse(rate, interval):
    native = units.native_from_bps_8h(rate, interval)
    assert units.bps_8h_from_native(native, interval) == pytest.approx(rate, rel=1e-13, abs=1e-13)
    assert units.bps_8h_from_apr(units.apr_from_bps_8h(rate)) == pytest.approx(rate, rel=1e-13)
    apy = units.apy_from_bps_8h(rate / 500.0, interval)
    assert units.bps_8h_from_apy(apy, interval) == pytest.approx(rate / 500.0, rel=1e-9, abs=1e-12)
    amount = units.bps_from_bps_8h(rate, interval)
    assert units.bps_8h_from_bps(amount, interval) == pytest.approx(rate, rel=1e-13)


def test_a_compounded_rate_is_above_the_simple_one():
    assert units.apy_from_bps_8h(1.0, 8.0) - units.apr_from_bps_8h(1.0) == pytest.approx(0.00621396, abs=1e-8)


@pytest.mark.parametrize("make", [np.array, pd.Series, xr.DataArray], ids=["numpy", "pandas", "xarray"])
def test_arrays_come_back_as_they_are_and_nan_stays(make):
    result = units.bps_8h_from_native(make([0.0001, np.nan]), 4.0)
    assert type(result) is type(make([0.0]))
    np.testing.assert_allclose(np.asarray(result), [2.0, np.nan])


def test_every_conversion_names_both_units():
    """A name such as ``apr`` alone could be taken for the simple or the compounded rate."""
    conversions = [name for name in units.__all__ if inspect.isfunction(getattr(units, name))]
    assert conversions
    for name in conversions:
        into, _, source = name.partition("_from_")
        assert {into, source} <= {"bps_8h", "native", "apr", "apy", "bps"}, name


def test_the_labels_are_those_of_the_tables():
    assert COLUMNS["rate_bps_8h"].unit == units.RATE_UNIT
    assert COLUMNS["rate_native"].unit == units.NATIVE_UNIT
    assert COLUMNS["interval_hours"].unit == units.HOUR_UNIT
    assert COLUMNS["oi_usd"].unit == units.USD_UNIT


def _panel(unit: str, name: str) -> xr.DataArray:
    return xr.DataArray(
        [1.0, 2.0], dims="time", name=name, attrs={"units": unit, "kind": "settled", "provenance": "{}"}
    )


NATIVE = "fraction per interval"
LABELS = [
    (lambda: units.apr_from_bps_8h(_panel("bps/8h", "rate_bps_8h")), "apr", "1/year"),
    (lambda: units.apy_from_bps_8h(_panel("bps/8h", "rate_bps_8h"), 8.0), "apy", "1/year compounded"),
    (lambda: units.native_from_bps_8h(_panel("bps/8h", "x"), 8.0), "rate_native", NATIVE),
    (
        lambda: units.bps_8h_from_native(_panel(NATIVE, "rate_native"), 8.0),
        "rate_bps_8h",
        "bps/8h",
    ),
    (lambda: units.bps_from_bps_8h(_panel("bps/8h", "rate_bps_8h"), 24.0), "amount_bps", "bps"),
    (lambda: units.apr_from_bps(_panel("bps", "amount_bps"), 24.0), "apr", "1/year"),
    (lambda: units.bps_8h_from_bps(_panel("bps", "amount_bps"), 24.0), "rate_bps_8h", "bps/8h"),
    (lambda: units.bps_8h_from_apr(_panel("1/year", "apr")), "rate_bps_8h", "bps/8h"),
    (lambda: units.bps_8h_from_apy(_panel("1/year compounded", "apy"), 8.0), "rate_bps_8h", "bps/8h"),
]


@pytest.mark.parametrize("keep", [True, False], ids=["keep_attrs", "drop_attrs"])
@pytest.mark.parametrize(("convert", "name", "unit"), LABELS)
def test_a_labelled_array_says_what_it_has_become(convert, name, unit, keep):
    with xr.set_options(keep_attrs=keep):
        found = convert()
    assert found.name == name
    assert found.attrs == {"units": unit, "kind": "settled", "provenance": "{}"}


@pytest.mark.parametrize("keep", [True, False], ids=["keep_attrs", "drop_attrs"])
def test_what_is_converted_already_is_refused(keep):
    with xr.set_options(keep_attrs=keep):
        apr = units.apr_from_bps_8h(_panel("bps/8h", "rate_bps_8h"))
        with pytest.raises(ValueError, match=r"rate_bps_8h is in '1/year'.*converts from 'bps/8h'"):
            units.apr_from_bps_8h(apr)
        with pytest.raises(ValueError, match="apr is in 'bps/8h'"):
            units.bps_8h_from_apr(_panel("bps/8h", "rate_bps_8h"))


def test_a_series_is_renamed_and_a_frame_left_as_it_is():
    assert units.apr_from_bps_8h(pd.Series([1.0], name="rate_bps_8h")).name == "apr"
    assert units.apr_from_bps_8h(pd.DataFrame({"a": [1.0]})).columns.tolist() == ["a"]
