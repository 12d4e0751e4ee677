import copy
import inspect
from typing import Any

import dask
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import derivdata as dd
from tests.reliability.calls import CALLS, chains, function, made, panels
from tests.support.records import assert_identical

# Rows of one time and value are taken in the order in which they came, which shows what a page repeats;
# figures of a book stand leg by leg.
_KEEPS_ORDER = ("quality", "analysis.position.")


def _table(panel: xr.DataArray) -> pd.DataFrame:
    frame = panel.rename(str(panel.name)).to_dataframe().dropna(subset=str(panel.name)).reset_index()
    frame["time"] = frame["time"].dt.tz_localize("UTC")
    return frame.assign(kind=panel.attrs["kind"]) if "kind" in panel.attrs else frame


def _as_table(value: Any, annotation: str) -> Any:
    takes = "Panel" in annotation or "DataFrame" in annotation
    if takes and isinstance(value, xr.DataArray) and set(value.dims) == {"symbol", "exchange", "time"}:
        return _table(value)
    return value if takes and isinstance(value, pd.DataFrame) else None


def _tables(name: str) -> dict[str, pd.DataFrame]:
    """The arguments of a call that are tables, or panels that may be given as tables."""
    given, expected = CALLS[name](), inspect.signature(function(name)).parameters
    results = {
        key: _as_table(value, str(expected[key].annotation))
        for key, value in given.items()
        if key in expected
    }
    return {key: table for key, table in results.items() if table is not None}


_CALLS = sorted(
    name for name in panels.CALLS | chains.CALLS if not name.startswith(_KEEPS_ORDER) and _tables(name)
)


def _same(first: Any, second: Any) -> None:
    if isinstance(first, (xr.DataArray, xr.Dataset)):
        xr.testing.assert_allclose(first, second, rtol=1e-12, atol=1e-12)
    elif isinstance(first, pd.DataFrame):
        # A table made of a table's rows may keep their order: what is in a row is the same.
        keys = [
            name
            for name in ("symbol", "exchange", "time", "expiry", "strike", "side", "trade", "entry")
            if name in first
        ]
        first, second = (
            part.sort_values(keys, ignore_index=True) if keys else part for part in (first, second)
        )
        pd.testing.assert_frame_equal(first, second, rtol=1e-12)
    else:
        assert first == second


@pytest.mark.parametrize("name", _CALLS)
def test_shuffled_rows_give_the_same_result(name: str) -> None:
    given = CALLS[name]()
    results = [
        function(name)(
            **given | {key: table.sample(frac=share, random_state=4) for key, table in tables.items()}
        )
        if share
        else function(name)(**given | tables)
        for share, tables in ((0.0, _tables(name)), (1.0, _tables(name)))
    ]
    _same(*results)


@pytest.mark.parametrize("name", sorted(name for name in CALLS if name.startswith("analysis.")))
def test_arguments_are_unchanged_and_attributes_ignore_keep_attrs(name: str) -> None:
    given = CALLS[name]()
    before = copy.deepcopy(given)
    results = []
    for keep in (True, False):
        with xr.set_options(keep_attrs=keep):
            results.append(function(name)(**given))
    if isinstance(results[0], (xr.DataArray, xr.Dataset)):
        assert_identical(*results)
    for argument, value in given.items():
        np.testing.assert_equal(_plain(value), _plain(before[argument]), err_msg=argument)


_LABELLED = (xr.DataArray, xr.Dataset)
_COMPUTED = (
    "analysis.backtest.",
    "analysis.delivery.calibration",
    "analysis.volatility.bars",
    "analysis.funding.pick_summary",
    "analysis.funding.portfolio",
)
"""Functions that walk through time, or summarise, and therefore compute at once."""


@pytest.mark.parametrize(
    "name",
    sorted(
        n
        for n in CALLS
        if n.startswith("analysis.") and any(isinstance(v, _LABELLED) for v in CALLS[n]().values())
    ),
)
def test_lazy_arguments_give_the_same_result_and_stay_lazy(name: str) -> None:
    """Each dim has two chunks, except `expiry`, which has one."""
    arguments = CALLS[name]()
    lazy = dict(arguments)
    for argument, value in arguments.items():
        if isinstance(value, _LABELLED):
            chunks = {dim: -1 if dim == "expiry" else -(-n // 2) for dim, n in value.sizes.items()}
            lazy[argument] = value.chunk(chunks)
    expected, result = function(name)(**arguments), function(name)(**lazy)
    if isinstance(expected, _LABELLED):
        assert dask.is_dask_collection(result) != name.startswith(_COMPUTED)
        xr.testing.assert_allclose(result.compute(), expected, rtol=1e-12)
    else:
        _same(result, expected)


def _plain(value: Any) -> Any:
    if isinstance(value, (xr.DataArray, xr.Dataset)):
        return value.to_dict()
    if isinstance(value, pd.DataFrame):
        return value.astype(object).where(value.notna(), None).to_dict("list")  # NaT is not equal to itself
    return value


def test_most_functions_of_panels_take_tables() -> None:
    assert len(_CALLS) >= 40
    assert {"analysis.funding.forecast_carry", "analysis.backtest.carry"} < set(_CALLS)
    shuffled = _table(made.rates()).sample(frac=1.0, random_state=4)
    assert not shuffled["time"].is_monotonic_increasing
    xr.testing.assert_equal(dd.panel(shuffled).drop_attrs(), made.rates().drop_attrs())
