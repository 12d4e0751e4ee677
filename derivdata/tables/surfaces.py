"""Convert a chain of options to a labelled surface."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.support.arrays import Array
from derivdata.support.text import warn_caller
from derivdata.tables.chain_snapshots import snapshots
from derivdata.tables.columns import COLUMNS
from derivdata.tables.expiries import expiries
from derivdata.tables.frames import require_columns, require_instants

if TYPE_CHECKING:
    import xarray as xr

_DIMS = ("expiry", "strike", "side")
_SIDES = pd.Index(["call", "put"], dtype="str")
_KEYS = ("symbol", "exchange", "time", "expiry", "side")
_VALUES = ("iv", "delta", "gamma", "vega", "theta", "open_interest")
_CHAIN = ("symbol", "exchange", "time", *_DIMS, *_VALUES, "underlying_price")
_HISTORY = ("symbol", "exchange", "time", *_DIMS, "iv", "open_interest", "underlying_price")


@typed
def surface(rows: pd.DataFrame) -> xr.Dataset:
    """Return options by expiry, strike and side: one chain, or the surfaces of a history.

    Parameters
    ----------
    rows
        One symbol on one venue: the table ``options_snapshot`` at one time, or ``options_surface_history``,
        which lacks greeks, at any number of times.

    Returns
    -------
    Dataset, dims ``(expiry, strike, side)``, of a history ``(time, expiry, strike, side)``
        ``iv`` [1/√year], ``open_interest`` [contracts], ``underlying_price`` [USD] by expiry (median of its
        instruments), the boolean ``observed``, and for a chain the venue's ``delta``, ``gamma``, ``vega`` and
        ``theta``; NaN where nothing is listed. Coordinates: ``year_fraction`` by expiry, in a history NaN
        from expiry on, and the scalars ``symbol``, ``exchange`` and, for a chain, ``as_of``. Times are naive
        UTC. For empty `rows`, expiries and strikes are empty, and the scalars are NaT or empty text.

    Raises
    ------
    ValueError
        The rows have several symbols or venues, or a chain has several times; a column is absent or of
        another kind.

    Warns
    -----
    DataNotice
        Two instruments have the same expiry, strike and side. The quote with the larger open interest is
        used, and ``open_interest`` is the sum of both.
    """
    if "delta" not in rows.columns:
        return _over_time(rows)
    _check(rows, _CHAIN)
    rows = rows.assign(expiry=expiries(rows["expiry"], "rows: its expiry")[0])
    rows = snapshots(rows)
    columns = {name: rows[name].array for name in _CHAIN}
    return surface_of(
        columns,
        symbol=str(_only(columns, "symbol", "")),
        exchange=str(_only(columns, "exchange", "")),
        as_of=_only(columns, "time", pd.NaT),
        provenance=_provenance(rows),
    )


def surface_of(
    columns: Mapping[str, Any],
    *,
    symbol: str,
    exchange: str,
    as_of: pd.Timestamp,
    provenance: Mapping[str, Any] | None,
) -> xr.Dataset:
    """Build a surface from the columns of one chain, sorted as in a `Table`."""
    grid = _grid(columns, _DIMS)
    if grid.crowded:
        unique = one_per_place(pd.DataFrame({name: columns[name] for name in _CHAIN}))
        columns = {name: unique[name].array for name in _CHAIN}
        grid = _grid(columns, _DIMS)
    time = times.naive_utc(as_of).to_datetime64()
    years = times.year_fraction(time, grid.labels["expiry"])
    coords = {
        "year_fraction": (("expiry",), years),
        "as_of": ((), time),
        "symbol": ((), symbol),
        "exchange": ((), exchange),
    }
    return _dataset(columns, grid, _VALUES, coords, provenance)


def _over_time(rows: pd.DataFrame) -> xr.Dataset:
    """Return the surfaces of a history, with the dim ``time``."""
    _check(rows, _HISTORY)
    rows = rows.assign(expiry=expiries(rows["expiry"], "rows: its expiry")[0])
    rows = snapshots(rows)
    rows = one_per_place(rows, ("time", *_DIMS))
    columns = {name: rows[name].array for name in _HISTORY}
    scalars = {name: ((), str(_only(columns, name, ""))) for name in ("symbol", "exchange")}
    grid = _grid(columns, ("time", *_DIMS))
    years = times.year_fraction(grid.labels["time"][:, None], grid.labels["expiry"][None, :])
    coords = {"year_fraction": (("time", "expiry"), np.where(years > 0, years, np.nan))} | scalars
    return _dataset(columns, grid, ("iv", "open_interest"), coords, _provenance(rows))


def one_per_place(rows: pd.DataFrame, dims: Sequence[str] = _DIMS) -> pd.DataFrame:
    """Return one option per position along `dims`, sorted by position.

    Of several options the one with the largest open interest is used, with the sum of open interest.
    """
    if not rows.duplicated(list(dims)).any():
        return rows
    groups = rows.groupby(list(dims), observed=True, dropna=False)["open_interest"]
    rows = rows.assign(own=rows["open_interest"], open_interest=groups.transform("sum", min_count=1))
    ordered = rows.sort_values("own", ascending=False, na_position="last", kind="stable")
    unique = ordered.drop_duplicates(list(dims)).sort_values(list(dims)).drop(columns="own")
    warn_caller(
        f"{len(rows) - len(unique)} instruments share expiry, strike and side with another; "
        "the quotes with the larger open interest are used, open interest is the sum"
    )
    return unique


def _check(rows: pd.DataFrame, names: Sequence[str]) -> None:
    """Raise `ValueError` unless rows have these columns, with valid times, strikes and sides."""
    numbers = [name for name in names if name not in _KEYS]
    require_columns(rows, "rows", numbers, others=[name for name in names if name in _KEYS])
    require_instants(rows, "rows", ("time", "expiry"))
    if rows["strike"].isna().any():
        raise ValueError("rows has a row without 'strike'")
    if not rows["side"].isin(_SIDES).all():
        raise ValueError("rows has a 'side' that is neither 'call' nor 'put'")


class _Grid(NamedTuple):
    """Labels of every dim, in order, and the flat index of each row's cell."""

    labels: dict[str, Array]
    cells: Array

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(label.size for label in self.labels.values())

    @property
    def crowded(self) -> bool:
        """Return whether several rows share a cell."""
        return bool(self.cells.size and int(np.max(np.bincount(self.cells))) > 1)

    def scattered(self, values: Any, elsewhere: float | bool) -> Array:
        """Return an array with each row's value in its cell, and the value `elsewhere` in other cells."""
        flat = np.full(math.prod(self.shape), elsewhere)
        flat[self.cells] = values
        return flat.reshape(self.shape)


def _grid(columns: Mapping[str, Any], dims: Sequence[str]) -> _Grid:
    """Return the grid of rows, always with both sides."""
    labels: dict[str, Array] = {}
    places = []
    for name in dims[:-1]:
        labels[name], place = _places(columns[name])
        places.append(place)
    labels["side"] = np.array(["call", "put"])
    places.append(np.asarray(columns["side"] == "put").astype(np.intp))
    shape = tuple(label.size for label in labels.values())
    return _Grid(labels, np.ravel_multi_index(tuple(places), shape))


def _dataset(
    columns: Mapping[str, Any],
    grid: _Grid,
    names: Sequence[str],
    coords: Mapping[str, tuple[tuple[str, ...], Any]],
    provenance: Mapping[str, Any] | None,
) -> xr.Dataset:
    """Build a dataset of columns on their grid, with the median underlying price over strikes and sides."""
    import xarray as xr

    dims = tuple(grid.labels)
    data = {
        name: _variable(dims, grid.scattered(np.asarray(columns[name], dtype=np.float64), np.nan), name)
        for name in names
    }
    *around, strikes, sides = grid.shape
    underlying = pd.Series(np.asarray(columns["underlying_price"], dtype=np.float64))
    medians = underlying.groupby(grid.cells // (strikes * sides)).median()
    medians = medians.reindex(range(math.prod(around))).to_numpy().reshape(around)
    data["underlying_price"] = _variable(dims[:-2], medians, "underlying_price")
    return xr.Dataset(
        data | {"observed": _variable(dims, grid.scattered(True, False))},
        coords=_coordinates(grid.labels, coords),
        attrs={} if provenance is None else {"provenance": json.dumps(provenance, sort_keys=True)},
    )


def _coordinates(
    labels: Mapping[str, Array], others: Mapping[str, tuple[tuple[str, ...], Any]]
) -> xr.Coordinates:
    """Build the coordinates that xarray would make from the labels, in less time."""
    import xarray as xr
    from xarray.indexes import PandasIndex

    indexes = {
        dim: PandasIndex(_SIDES.view() if dim == "side" else along_dim, dim, coord_dtype=along_dim.dtype)
        for dim, along_dim in labels.items()
    }
    variables = {dim: index.create_variables()[dim] for dim, index in indexes.items()}
    unindexed = {name: _variable(dims, values) for name, (dims, values) in others.items()}
    return xr.Coordinates(variables | unindexed, indexes=indexes)


def _variable(dims: Sequence[str], values: Any, name: str = "") -> xr.Variable:
    """Wrap an array in a variable, with the unit of the column `name` if one is given."""
    import xarray as xr

    # `fastpath`: otherwise xarray passes every array through pandas to see whether it needs a conversion.
    attrs = {"units": COLUMNS[name].unit} if name else None
    return xr.Variable(dims, np.asarray(values), attrs, fastpath=True)


def _places(values: Any) -> tuple[Array, Array]:
    """Return the sorted distinct values, and the position of each row's value among them."""
    if times.has_zone(values):
        values = times.naive_utc(values)
    labels, places = np.unique(np.asarray(values), return_inverse=True)
    return labels, places


def _only(columns: Mapping[str, Any], name: str, default: Any) -> Any:
    """Return the only value of a column, `default` for an empty one; raise for several values."""
    values = columns[name]
    if not len(values):
        return default
    if (values == values[0]).all():  # faster than unique
        return values[0]
    raise ValueError(f"a surface is of one {name}, got {len(values.unique())} in rows")


def _provenance(rows: pd.DataFrame) -> Mapping[str, Any] | None:
    provenance: Mapping[str, Any] | None = rows.attrs.get("provenance")
    return provenance
