"""Tables and panels in the hands of other libraries, as docs/panels-and-surfaces.md shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xarray as xr

import derivdata as dd
from derivdata.analysis import funding


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


def test_what_is_no_table_is_still_refused() -> None:
    with pytest.raises(TypeError, match=r"table must be a pandas\.DataFrame, not list"):
        dd.panel([1, 2])  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of statsmodels, about its own names
def test_statsmodels_takes_a_spread(rates: pd.DataFrame) -> None:
    """Without lags the statistic is the t value of the slope of changes on levels, by least squares."""
    stattools = pytest.importorskip("statsmodels.tsa.stattools")
    panel = dd.panel(rates).sel(symbol="ETH")
    level = funding.spread(panel, "binance", "hyperliquid").dropna("time").values
    statistic, *_ = stattools.adfuller(level, regression="c", autolag=None, maxlag=0)
    x = np.column_stack([np.ones(level.size - 1), level[:-1]])
    y = np.diff(level)
    slope, *_ = np.linalg.lstsq(x, y, rcond=None)
    residual = y - x @ slope
    error = np.sqrt(residual @ residual / (y.size - 2) * np.linalg.inv(x.T @ x)[1, 1])
    assert statistic == pytest.approx(slope[1] / error)


def mean_rate(symbol: str) -> tuple[str, float]:
    """What docs/panels-and-surfaces.md runs in a worker: threads share the connection."""
    frame = dd.funding.history(symbol, "2026-06-01", "2026-06-02", venues=["okx"])
    return symbol, float(frame["rate_bps_8h"].mean())


def test_joblib_runs_fetches_in_threads() -> None:
    joblib = pytest.importorskip("joblib")
    dd.connect("sample")
    found = dict(
        joblib.Parallel(n_jobs=2, prefer="threads")(joblib.delayed(mean_rate)(s) for s in ("BTC", "ETH"))
    )
    assert found == dict(map(mean_rate, ("BTC", "ETH")))


def test_vectorbt_takes_prices_and_scores(rates: pd.DataFrame) -> None:
    """Bought at the first price and held to the last one: the return is that of the price."""
    vbt = pytest.importorskip("vectorbt", reason="vectorbt is no development dependency")
    price = dd.prices.history("BTC", "2026-06-01", "2026-06-08", venues=["okx"]).set_index("time")[
        "price_usd"
    ]
    entries = pd.Series(np.arange(len(price)) == 0, index=price.index)
    held = vbt.Portfolio.from_signals(price, entries=entries, exits=~entries & False, freq="1h")
    assert held.total_return() == pytest.approx(price.iloc[-1] / price.iloc[0] - 1.0)


def test_zarr_keeps_a_panel(rates: pd.DataFrame, tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    panel = dd.panel(rates)
    panel.attrs.pop("provenance")
    panel.to_dataset(name="rate_bps_8h").to_zarr(tmp_path / "rates.zarr", consolidated=False)
    again = xr.open_zarr(tmp_path / "rates.zarr", consolidated=False)["rate_bps_8h"].load()
    np.testing.assert_array_equal(again.values, panel.values)
    assert again.attrs["units"] == "bps/8h"
