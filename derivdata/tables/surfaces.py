"""From a chain of options to a labelled surface."""

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
        Of one symbol on one venue: the table ``options_snapshot`` at one instant, or
        ``options_surface_history``, which has no greeks, at any number of instants.

    Returns
    -------
    Dataset, dims ``(expiry, strike, side)``, of a history ``(time, expiry, strike, side)``
        ``iv`` [1/√year], ``open_interest`` [contracts], ``underlying_price`` [USD] by expiry (median of its
        instruments), the boolean ``observed``, and of a chain the venue's ``delta``, ``gamma``, ``vega`` and
        ``theta``; NaN where nothing is listed. Coordinates ``year_fraction`` by expiry, in a history NaN from
        expiry on, and the scalars ``symbol``, ``exchange`` and, of a chain, ``as_of``; instants are naive
        UTC. Without rows there are no expiries and no strikes, and the scalars are missing: NaT, empty text.

    Raises
    ------
    ValueError
        There is more than one symbol or venue, or of a chain more than one instant; a column is absent, or
        holds something else than belongs there.

    Warns
    -----
    DataNotice
        Two instruments lie at one place. The quote of the one with the larger open interest is used, and
        ``open_interest`` is the sum of both.
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
    """Build a surface from columns, as a `Table` arranges them, of options that are all of one chain."""
    grid = _grid(columns, _DIMS)
    if grid.crowded:
        unique = one_per_place(pd.DataFrame({name: columns[name] for name in _CHAIN}))
        columns = {name: unique[name].array for name in _CHAIN}
        grid = _grid(columns, _DIMS)
    instant = times.naive_utc(as_of).to_datetime64()
    years = times.year_fraction(instant, grid.labels["expiry"])
    about = {"as_of": instant, "symbol": symbol, "exchange": exchange}
    coords = {"year_fraction": (("expiry",), years)} | {name: ((), value) for name, value in about.items()}
    return _dataset(columns, grid, _VALUES, coords, provenance)


def _over_time(rows: pd.DataFrame) -> xr.Dataset:
    _check(rows, _HISTORY)
    rows = rows.assign(expiry=expiries(rows["expiry"], "rows: its expiry")[0])
    rows = snapshots(rows)
    rows = one_per_place(rows, ("time", *_DIMS))
    columns = {name: rows[name].array for name in _HISTORY}
    about = {name: ((), str(_only(columns, name, ""))) for name in ("symbol", "exchange")}
    grid = _grid(columns, ("time", *_DIMS))
    years = times.year_fraction(grid.labels["time"][:, None], grid.labels["expiry"][None, :])
    coords = {"year_fraction": (("time", "expiry"), np.where(years > 0, years, np.nan))} | about
    return _dataset(columns, grid, ("iv", "open_interest"), coords, _provenance(rows))


def one_per_place(rows: pd.DataFrame, dims: Sequence[str] = _DIMS) -> pd.DataFrame:
    """Return one option per place: of several that of largest open interest, with the sum of all.

    The result is sorted by place.
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
    numbers = [name for name in names if name not in _KEYS]
    require_columns(rows, "rows", numbers, others=[name for name in names if name in _KEYS])
    require_instants(rows, "rows", ("time", "expiry"))
    if rows["strike"].isna().any():
        raise ValueError("rows has a row without 'strike'")
    if not rows["side"].isin(_SIDES).all():
        raise ValueError("rows has a 'side' that is neither 'call' nor 'put'")


class _Grid(NamedTuple):
    """Labels of every dim, in order, and the cell that each row has, counted along all dims."""

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
        """Return an array with each row's value in its cell, and one value in all others."""
        flat = np.full(math.prod(self.shape), elsewhere)
        flat[self.cells] = values
        return flat.reshape(self.shape)


def _grid(columns: Mapping[str, Any], dims: Sequence[str]) -> _Grid:
    """Return the grid of rows; both sides are in it whichever there are."""
    *others, _ = dims
    placed = [_places(columns[name]) for name in others]
    labels = dict(zip(others, (labels_there for labels_there, _ in placed), strict=True)) | {
        "side": np.array(["call", "put"])
    }
    puts = np.asarray(columns["side"] == "put").astype(np.intp)
    shape = tuple(label.size for label in labels.values())
    return _Grid(labels, np.ravel_multi_index((*(place for _, place in placed), puts), shape))


def _dataset(
    columns: Mapping[str, Any],
    grid: _Grid,
    names: Sequence[str],
    coords: Mapping[str, tuple[tuple[str, ...], Any]],
    provenance: Mapping[str, Any] | None,
) -> xr.Dataset:
    """Lay columns out on their grid; the price of the underlying is the median over strikes and sides."""
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
    """Build the coordinates that xarray makes of labels by itself, in less time."""
    import xarray as xr
    from xarray.indexes import PandasIndex

    indexes = {
        dim: PandasIndex(_SIDES.view() if dim == "side" else along_dim, dim, coord_dtype=along_dim.dtype)
        for dim, along_dim in labels.items()
    }
    variables = {dim: index.create_variables()[dim] for dim, index in indexes.items()}
    beside = {name: _variable(dims, values) for name, (dims, values) in others.items()}
    return xr.Coordinates(variables | beside, indexes=indexes)


def _variable(dims: Sequence[str], values: Any, name: str = "") -> xr.Variable:
    """Return numbers, instants or text as they are, with the unit of the column if one is named."""
    import xarray as xr

    # `fastpath`: xarray would take every array through pandas to find out that it needs no conversion.
    attrs = {"units": COLUMNS[name].unit} if name else None
    return xr.Variable(dims, np.asarray(values), attrs, fastpath=True)


def _places(values: Any) -> tuple[Array, Array]:
    """Return distinct values in order, and which of them each row has."""
    if times.has_zone(values):
        values = times.naive_utc(values)
    labels, places = np.unique(np.asarray(values), return_inverse=True)
    return labels, places


def _only(columns: Mapping[str, Any], name: str, none: Any) -> Any:
    """Return the one value of a column; `none` where there are no rows."""
    values = columns[name]
    if not len(values):
        return none
    distinct = values[:1] if (values == values[0]).all() else values.unique()
    if len(distinct) > 1:
        raise ValueError(f"a surface is of one {name}; rows holds {len(distinct)}")
    return distinct[0]


def _provenance(rows: pd.DataFrame) -> Mapping[str, Any] | None:
    provenance: Mapping[str, Any] | None = rows.attrs.get("provenance")
    return provenance
