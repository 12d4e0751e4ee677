"""Losses of each kind of object in files and other libraries, by writing and reading it."""

from __future__ import annotations

import pickle  # noqa: TID251  # reads bytes that this module wrote
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import ibis
import joblib  # noqa: TID251  # reads a file that this module wrote
import numpy as np
import pandas as pd
import polars
import xarray as xr

import derivdata as dd

__all__ = ["losses", "objects"]

WINDOW = ("2026-06-20", "2026-06-27")
VENUES = ["binance", "bybit", "okx"]


@cache
def objects() -> dict[str, Any]:
    """One object of each kind, of the sample."""
    dd.connect("sample", cache="off")
    rates = dd.funding.history("BTC", *WINDOW, venues=VENUES)
    paid = dd.panel(dd.funding.settlements("BTC", "2026-05-01", "2026-06-27", venues=VENUES))
    rule = dd.analysis.backtest.HoldPair("BTC", "binance", "okx")
    return {
        "table": rates,
        "panel": dd.panel(rates),
        "surface": dd.options.surface("BTC", "deribit"),
        "fit": dd.analysis.surface.from_chain(dd.options.snapshot("BTC", "deribit")),
        "backtest": dd.analysis.backtest.carry(paid, rule, dd.analysis.backtest.Costs(fee_bps=2.0)),
        "forecast": dd.analysis.funding.forecast_history(paid, hold="3d", fee_bps=2.0),
    }


def losses() -> pd.DataFrame:
    """Return a row for each format and a column for each kind of object: ``equal``, or the loss."""
    rows = {}
    for name, trip in _TRIPS.items():
        rows[name] = {kind: _outcome(trip, value) for kind, value in objects().items()}
    return pd.DataFrame.from_dict(rows, orient="index")


def _outcome(trip: Callable[[Any, Path], Any], value: Any) -> str:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(value, pd.DataFrame) and trip in _OF_ARRAYS:
            return "–"
        return _lost(value, trip(value, Path(folder)))


def _lost(value: Any, read: Any) -> str:
    """Return what the object lacks after it was read, as text."""
    if isinstance(value, pd.DataFrame):
        restored = dd.tables.TABLES["funding_history"].conform(read)
        pd.testing.assert_frame_equal(restored, value, check_exact=True)
        types = "" if list(read.dtypes) == list(value.dtypes) else "types (`conform` restores them)"
        attrs = "" if restored.attrs.get("provenance") == value.attrs["provenance"] else "provenance"
        return ", ".join(word for word in (types, attrs) if word) or "equal"
    if read.identical(value):
        return "equal"
    before = _dataset(value)
    after = _dataset(read)
    gone = sorted(str(name) for name in before.coords if name not in after.coords)
    lost = [f"coordinates {', '.join(gone)}"] if gone else []
    shared = [name for name in before.variables if name in after.variables]
    wider = [name for name in shared if set(after[name].dims) > set(before[name].dims)]
    if wider:
        lost.append("dims of variables")
    same_dims = [name for name in shared if name not in wider]
    if any(after[name].dims != before[name].dims for name in same_dims):
        lost.append("order of dims")
    turned = {name: after[name].variable.transpose(*before[name].dims) for name in same_dims}
    changed = [str(name) for name in same_dims if not turned[name].equals(before[name].variable)]
    if changed:
        digits = all(_is_close(turned[name], before[name].variable) for name in changed)
        lost.append("the last digits" if digits else f"values of {', '.join(changed)}")
    pairs = [(before, after), *((before[name], turned[name]) for name in same_dims)]
    if not all(_equal_attrs(written.attrs, stored.attrs) for written, stored in pairs):
        lost.append("attributes")
    if set(before.xindexes) > set(after.xindexes):
        lost.append("the index of the legs")
    return ", ".join(lost)


def _equal_attrs(before: dict[str, Any], after: dict[str, Any]) -> bool:
    return before.keys() == after.keys() and all(np.array_equal(before[n], after[n]) for n in before)


def _is_close(read: xr.Variable, value: xr.Variable) -> bool:
    return value.dtype.kind == "f" and np.allclose(read, value, rtol=1e-14, atol=0.0, equal_nan=True)


def _dataset(value: Any) -> xr.Dataset:
    return value.to_dataset(name="value") if isinstance(value, xr.DataArray) else value


def _frame(value: Any) -> pd.DataFrame:
    """A table as it is, or an array in long form."""
    if isinstance(value, pd.DataFrame):
        return value
    return _dataset(value).to_dataframe().reset_index()


def _again(value: Any, frame: pd.DataFrame) -> Any:
    """A table as it is, or the array of a long form."""
    if isinstance(value, pd.DataFrame):
        return frame
    dims = [str(dim) for dim in value.dims]
    for dim in dims:
        if value[dim].dtype.kind == "M":
            frame[dim] = pd.to_datetime(frame[dim])
    stored = frame.set_index(dims).to_xarray()
    return stored["value"] if isinstance(value, xr.DataArray) else stored


def _tabular(trip: Callable[[pd.DataFrame, Path], pd.DataFrame]) -> Callable[[Any, Path], Any]:
    return lambda value, folder: _again(value, trip(_frame(value), folder))


def _parquet(frame: pd.DataFrame, folder: Path) -> pd.DataFrame:
    frame.to_parquet(folder / "x.parquet")
    return pd.read_parquet(folder / "x.parquet")


def _feather(frame: pd.DataFrame, folder: Path) -> pd.DataFrame:
    frame.to_feather(folder / "x.feather")
    return pd.read_feather(folder / "x.feather")


def _csv(frame: pd.DataFrame, folder: Path) -> pd.DataFrame:
    frame.to_csv(folder / "x.csv", index=False)
    return pd.read_csv(folder / "x.csv", float_precision="round_trip")


def _excel(frame: pd.DataFrame, folder: Path) -> pd.DataFrame:
    zoned = {
        n: frame[n].dt.tz_localize(None) for n in frame if isinstance(frame[n].dtype, pd.DatetimeTZDtype)
    }
    frame.assign(**zoned).to_excel(folder / "x.xlsx", index=False)
    read = pd.read_excel(folder / "x.xlsx")
    return read.assign(**{name: read[name].dt.tz_localize("UTC") for name in zoned})


def _duckdb(frame: pd.DataFrame, _: Path) -> pd.DataFrame:
    return duckdb.sql("select * from frame").df()


def _polars(frame: pd.DataFrame, _: Path) -> pd.DataFrame:
    return polars.from_pandas(frame).to_pandas()


def _ibis(frame: pd.DataFrame, _: Path) -> pd.DataFrame:
    return ibis.memtable(frame).to_pandas()


def _netcdf(value: Any, folder: Path) -> Any:
    _dataset(value).to_netcdf(folder / "x.nc", engine="h5netcdf")
    with xr.open_dataset(folder / "x.nc", engine="h5netcdf") as file:
        return _like(value, file.load())


def _like(value: Any, stored: xr.Dataset) -> Any:
    return stored["value"].rename(value.name) if isinstance(value, xr.DataArray) else stored


def _read_zarr(value: Any, store: Path) -> Any:
    return _like(value, xr.open_zarr(store, consolidated=False).load())


def _zarr(value: Any, folder: Path) -> Any:
    _dataset(value).to_zarr(folder / "x.zarr", consolidated=False)
    return _read_zarr(value, folder / "x.zarr")


def _zarr_append(value: Any, folder: Path) -> Any:
    dim, half = _dim_and_middle(value)
    _dataset(value).isel({dim: slice(None, half)}).to_zarr(folder / "x.zarr", consolidated=False)
    later = _dataset(value).isel({dim: slice(half, None)})
    later.to_zarr(folder / "x.zarr", append_dim=dim, consolidated=False)
    return _read_zarr(value, folder / "x.zarr")


def _zarr_region(value: Any, folder: Path) -> Any:
    """Write the values in reverse, then the right ones over them in two regions."""
    dim, half = _dim_and_middle(value)
    whole = _dataset(value)
    moving = [name for name in whole.data_vars if dim in whole[name].dims]
    other = {n: whole[n].copy(data=np.flip(whole[n].values, whole[n].dims.index(dim))) for n in moving}
    whole.assign(other).to_zarr(folder / "x.zarr", consolidated=False)
    values = whole[moving].reset_coords(drop=True).drop_vars(whole.xindexes, errors="ignore")
    for span in (slice(0, half), slice(half, whole.sizes[dim])):
        values.isel({dim: span}).to_zarr(folder / "x.zarr", region={dim: span}, consolidated=False)
    return _read_zarr(value, folder / "x.zarr")


def _dim_and_middle(value: Any) -> tuple[str, int]:
    """Return the dim along which an object grows, and where it is cut."""
    dim = "time" if "time" in value.dims else "expiry"
    return dim, value.sizes[dim] // 2


def _pickle(value: Any, _: Path) -> Any:
    return pickle.loads(pickle.dumps(value))


def _joblib(value: Any, folder: Path) -> Any:
    joblib.dump(value, folder / "x.joblib")
    return joblib.load(folder / "x.joblib")


def _dask(value: Any, _: Path) -> Any:
    if isinstance(value, pd.DataFrame):
        import dask.dataframe

        return dask.dataframe.from_pandas(value, npartitions=2).compute()
    return value.chunk().compute()


_OF_ARRAYS = {_netcdf, _zarr, _zarr_append, _zarr_region}

_TRIPS: dict[str, Callable[[Any, Path], Any]] = {
    "Parquet": _tabular(_parquet),
    "Feather": _tabular(_feather),
    "CSV": _tabular(_csv),
    "Excel": _tabular(_excel),
    "DuckDB": _tabular(_duckdb),
    "polars": _tabular(_polars),
    "ibis": _tabular(_ibis),
    "netCDF": _netcdf,
    "zarr": _zarr,
    "zarr, appended": _zarr_append,
    "zarr, by region": _zarr_region,
    "pickle": _pickle,
    "joblib": _joblib,
    "dask": _dask,
}
