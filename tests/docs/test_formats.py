"""The table of formats is computed from runs and compared with values read by eye."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
KINDS = ["table", "panel", "surface", "fit", "backtest", "forecast"]

SURFACE = "coordinates as_of, exchange, symbol, year_fraction, dims of variables, attributes"
FIT = "coordinates as_of, exchange, forward, spot, symbol, year_fraction, dims of variables, "
FORECAST = "coordinates hold_hours, long, short, dims of variables, "
LONG = ["attributes", SURFACE, FIT + "attributes", "dims of variables, attributes"]
LEGS = "the index of the legs"
LONG_FORECAST = f"{FORECAST}attributes, {LEGS}"
OTHER_TYPES = "types (`conform` restores them), provenance"
FILE = ["–", "equal", "equal", "equal", "equal", LEGS]

EXPECTED = {
    "Parquet": ["equal", *LONG, LONG_FORECAST],
    "Feather": ["equal", *LONG, LONG_FORECAST],
    "CSV": [OTHER_TYPES, *LONG, LONG_FORECAST],
    "Excel": [
        OTHER_TYPES,
        *LONG[:2],
        FIT + "the last digits, attributes",
        LONG[3],
        f"{FORECAST}the last digits, attributes, {LEGS}",
    ],
    "DuckDB": [OTHER_TYPES, *LONG, LONG_FORECAST],
    "polars": ["provenance", *LONG, LONG_FORECAST],
    "ibis": [OTHER_TYPES, *LONG, LONG_FORECAST],
    "netCDF": FILE,
    "zarr": FILE,
    "zarr, appended": FILE,
    "zarr, by region": FILE,
    "pickle": ["equal"] * 6,
    "joblib": ["equal"] * 6,
    "dask": ["equal"] * 6,
}


@pytest.mark.slow
def test_each_format_loses_what_the_table_states(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    page = importlib.import_module("formats_page")
    try:
        result = page.losses()
    finally:
        sys.modules.pop("formats_page", None)
    expected = pd.DataFrame.from_dict(EXPECTED, orient="index", columns=KINDS)
    pd.testing.assert_frame_equal(result, expected)
