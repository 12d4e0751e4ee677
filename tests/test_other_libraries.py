"""Tables and panels in the hands of other libraries, as docs/panels-and-surfaces.md shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import derivdata as dd


@pytest.fixture
def rates() -> pd.DataFrame:
    dd.connect("sample")
    return dd.funding.history(["BTC", "ETH"], "2026-06-01", "2026-06-08", venues=["binance", "hyperliquid"])


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_a_panel_of_another_librarys_table_is_the_same(library: str, rates: pd.DataFrame) -> None:
    """Only the provenance is lost, which a table of another library cannot carry."""
    if library == "polars":
        table: Any = pytest.importorskip("polars").from_pandas(rates)
    else:
        table = pa.Table.from_pandas(rates, preserve_index=False)
    expected = dd.panel(rates)
    panel = dd.panel(table)
    np.testing.assert_array_equal(panel.values, expected.values)
    for name in expected.dims:
        np.testing.assert_array_equal(panel[name].values, expected[name].values)
    assert panel.attrs["units"] == "bps/8h"
    assert panel.attrs["kind"] == "sampled"


def test_analysis_and_figures_take_them_too(rates: pd.DataFrame) -> None:
    polars = pytest.importorskip("polars")
    one, other = dd.quality(rates), dd.quality(polars.from_pandas(rates))
    assert other["present"].tolist() == one["present"].tolist() == [168] * 4
    ax = dd.plot.funding_history(polars.from_pandas(rates), symbol="BTC", source=rates, step="1h")
    assert len(ax.lines[0].get_xdata()) == 168
