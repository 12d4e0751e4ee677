"""From a chain of options to a labelled surface."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from derivdata import times
from derivdata.arguments import typed
from derivdata.notices import warn_caller
from derivdata.tables.columns import COLUMNS

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["one_per_place", "surface", "surface_history"]

Array = np.ndarray[Any, Any]
_DIMS = ("expiry", "strike", "side")
_VALUES = ("iv", "delta", "gamma", "vega", "theta", "open_interest")


@typed
def surface(chain: pd.DataFrame) -> xr.Dataset:
    """One chain of the table ``options_snapshot`` by expiry, strike and side.

    Parameters
    ----------
    chain
        Rows of one symbol, one venue and one instant.

    Returns
    -------
    Dataset, dims ``(expiry, strike, side)``
        ``iv`` [1/√year], the venue's ``delta``, ``gamma``, ``vega``, ``theta``, ``open_interest``
        [contracts], ``underlying_price(expiry)`` [USD] (median of the expiry's instruments) and the
        boolean ``observed``; NaN where nothing is listed. Coordinates ``year_fraction(expiry)`` and the
        scalars ``as_of``, ``symbol``, ``exchange``; instants are naive UTC. A chain without rows gives no
        expiries and no strikes, and scalars that are missing: NaT and empty text.

    Raises
    ------
    ValueError
        The chain holds more than one symbol, venue or instant.

    Warns
    -----
    DataNotice
        Two instruments stand at one place; the one with the larger open interest was kept.
    """
    import xarray as xr

    constants = {name: _only(chain, name, "") for name in ("symbol", "exchange")}
    as_of = _only(chain, "time", pd.NaT).tz_localize(None).to_datetime64()
    labels, places = _grid(chain)
    if _crowded(places, _shape(labels)):
        chain = one_per_place(chain)
        labels, places = _grid(chain)
    shape = _shape(labels)
    data = {name: (_DIMS, _scattered(chain[name], places, shape), _units(name)) for name in _VALUES}
    observed = np.zeros(shape, dtype=bool)
    observed[places] = True
    forward = _medians(_scattered(chain["underlying_price"], places, shape).reshape(shape[0], shape[1] * 2))
    return xr.Dataset(
        data
        | {
            "underlying_price": ("expiry", forward, _units("underlying_price")),
            "observed": (_DIMS, observed),
        },
        coords=xr.Coordinates(  # made beforehand, as Dataset itself takes longer for it
            {
                **dict(zip(_DIMS, labels, strict=True)),
                "year_fraction": ("expiry", times.year_fraction(as_of, labels[0])),
                "as_of": as_of,
                "symbol": str(constants["symbol"]),
                "exchange": str(constants["exchange"]),
            }
        ),
        attrs={k: json.dumps(v, sort_keys=True) for k, v in chain.attrs.items() if k == "provenance"},
    )


@typed
def surface_history(rows: pd.DataFrame) -> xr.Dataset:
    """Surfaces over time of the table ``options_surface_history``, of one symbol on one venue.

    Parameters
    ----------
    rows
        Rows of one symbol and one venue, at any number of instants.

    Returns
    -------
    Dataset, dims ``(time, expiry, strike, side)``
        ``iv`` [1/√year], ``open_interest`` [contracts], ``underlying_price(time, expiry)`` [USD] and the
        boolean ``observed``; NaN where nothing is listed. Coordinates ``year_fraction(time, expiry)``, NaN
        from expiry on, and the scalars ``symbol`` and ``exchange``, empty text where there are no rows.

    Raises
    ------
    ValueError
        There is more than one symbol or venue.

    Warns
    -----
    DataNotice
        As in `surface`.
    """
    import xarray as xr

    constants = {name: str(_only(rows, name, "")) for name in ("symbol", "exchange")}
    dims = ("time", *_DIMS)
    rows = one_per_place(rows, dims)
    labels, places = zip(*(_places(rows[name]) for name in ("time", "expiry", "strike")), strict=True)
    at = (*places, _puts(rows))
    shape = (*(len(label) for label in labels), 2)
    observed = np.zeros(shape, dtype=bool)
    observed[at] = True
    forward = _medians(
        _scattered(rows["underlying_price"], at, shape).reshape(shape[0] * shape[1], shape[2] * 2)
    )
    years = times.year_fraction(labels[0][:, None], labels[1][None, :])
    data = {n: (dims, _scattered(rows[n], at, shape), _units(n)) for n in ("iv", "open_interest")}
    return xr.Dataset(
        data
        | {
            "underlying_price": (("time", "expiry"), forward.reshape(shape[:2]), _units("underlying_price")),
            "observed": (dims, observed),
        },
        coords={
            **dict(zip(dims, (*labels, np.array(["call", "put"])), strict=True)),
            "year_fraction": (("time", "expiry"), np.where(years > 0, years, np.nan)),
            **constants,
        },
        attrs={k: json.dumps(v, sort_keys=True) for k, v in rows.attrs.items() if k == "provenance"},
    )


def one_per_place(rows: pd.DataFrame, dims: Sequence[str] = _DIMS) -> pd.DataFrame:
    """Options with the one of larger open interest where several share a place, in the order of places.

    Parameters
    ----------
    rows
        Options with ``open_interest`` and the columns of `dims`.
    dims
        Columns that name a place.

    Warns
    -----
    DataNotice
        Some share a place.
    """
    if not rows.duplicated(list(dims)).any():
        return rows
    ordered = rows.sort_values("open_interest", ascending=False, na_position="last", kind="stable")
    kept = ordered.drop_duplicates(list(dims)).sort_values(list(dims))
    warn_caller(
        f"{len(rows) - len(kept)} instruments share expiry, strike and side with another; "
        "those with the larger open interest were kept"
    )
    return kept


def _grid(chain: pd.DataFrame) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Labels of the three dims, and where each row stands along them."""
    expiries, expiry = _places(chain["expiry"])
    strikes, strike = _places(chain["strike"])
    return (expiries, strikes, np.array(["call", "put"])), (expiry, strike, _puts(chain))


def _crowded(places: tuple[Array, ...], shape: tuple[int, ...]) -> bool:
    """Whether several rows stand at one place."""
    return bool(places[0].size and np.bincount(np.ravel_multi_index(places, shape)).max() > 1)


def _puts(rows: pd.DataFrame) -> Array:
    return np.asarray(rows["side"] == "put").astype(np.intp)


def _places(values: pd.Series) -> tuple[Array, Array]:
    """Distinct values in order, and which of them each row has."""
    if isinstance(values.dtype, pd.DatetimeTZDtype):
        values = values.dt.tz_convert("UTC").dt.tz_localize(None)
    labels, places = np.unique(values.to_numpy(), return_inverse=True)
    return labels, places


def _shape(labels: tuple[Array, ...]) -> tuple[int, ...]:
    return tuple(label.size for label in labels)


def _medians(rows: Array) -> Array:
    """Median of each row's numbers; NaN where it has none."""
    if not rows.size:
        return np.full(len(rows), np.nan)
    ordered = np.sort(rows, axis=1)
    count = (~np.isnan(rows)).sum(axis=1)
    middle = np.stack([(count - 1) // 2, count // 2], axis=1)
    return np.asarray(np.take_along_axis(ordered, np.maximum(middle, 0), axis=1).mean(axis=1))


def _only(chain: pd.DataFrame, name: str, none: Any) -> Any:
    """The one value of a column; `none` where there are no rows."""
    found = chain[name].unique()
    if not len(found):
        return none
    if len(found) > 1:
        raise ValueError(f"a surface is of one {name}; the chain holds {len(found)}")
    return found[0]


def _scattered(values: pd.Series, places: tuple[Array, ...], shape: tuple[int, ...]) -> Array:
    grid = np.full(shape, np.nan)
    grid[places] = values.to_numpy(dtype=np.float64)
    return grid


def _units(name: str) -> dict[str, str]:
    return {"units": COLUMNS[name].unit}
