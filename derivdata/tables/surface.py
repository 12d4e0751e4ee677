"""From a chain of options to a labelled surface."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from derivdata import times
from derivdata.errors import DataNotice
from derivdata.tables.columns import COLUMNS

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["surface", "surface_history"]

_DIMS = ("expiry", "strike", "side")
_VALUES = ("iv", "delta", "gamma", "vega", "theta", "open_interest")


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
        scalars ``as_of``, ``symbol``, ``exchange``; instants are naive UTC.

    Raises
    ------
    ValueError
        The chain is empty, or holds more than one symbol, venue or instant.

    Warns
    -----
    DataNotice
        Two instruments stand at one place; the one with the larger open interest was kept.
    """
    import xarray as xr

    constants = {name: _only(chain, name) for name in ("symbol", "exchange", "time")}
    kept = _one_per_place(chain)
    expiry = kept["expiry"].dt.tz_convert("UTC").dt.tz_localize(None)
    labels = [np.unique(expiry.to_numpy()), np.unique(kept["strike"].to_numpy()), np.array(["call", "put"])]
    places = (
        np.searchsorted(labels[0], expiry.to_numpy()),
        np.searchsorted(labels[1], kept["strike"].to_numpy()),
        (kept["side"] == "put").to_numpy().astype(np.intp),
    )
    shape = tuple(len(label) for label in labels)
    as_of = constants["time"].tz_convert("UTC").tz_localize(None)
    data = {name: (_DIMS, _scattered(kept[name], places, shape), _units(name)) for name in _VALUES}
    observed = np.zeros(shape, dtype=bool)
    observed[places] = True
    forward = kept.groupby("expiry", observed=True)["underlying_price"].median().to_numpy(dtype=np.float64)
    return xr.Dataset(
        data
        | {
            "underlying_price": ("expiry", forward, _units("underlying_price")),
            "observed": (_DIMS, observed),
        },
        coords={
            **dict(zip(_DIMS, labels, strict=True)),
            "year_fraction": ("expiry", times.year_fraction(as_of.to_datetime64(), labels[0])),
            "as_of": as_of.to_datetime64(),
            "symbol": str(constants["symbol"]),
            "exchange": str(constants["exchange"]),
        },
        attrs={k: json.dumps(v, sort_keys=True) for k, v in chain.attrs.items() if k == "provenance"},
    )


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
        from expiry on, and the scalars ``symbol`` and ``exchange``.

    Raises
    ------
    ValueError
        There are no rows, or more than one symbol or venue.
    """
    import xarray as xr

    constants = {name: str(_only(rows, name)) for name in ("symbol", "exchange")}
    dims = ("time", *_DIMS)
    codes, labels = zip(*(_places(rows[name]) for name in ("time", "expiry", "strike")), strict=True)
    at = (*codes, (rows["side"] == "put").to_numpy().astype(np.intp))
    shape = (*(len(label) for label in labels), 2)
    observed = np.zeros(shape, dtype=bool)
    observed[at] = True
    forward = np.full(shape[:2], np.nan)
    forward[at[0], at[1]] = rows["underlying_price"].to_numpy(dtype=np.float64)
    years = times.year_fraction(labels[0][:, None], labels[1][None, :])
    data = {n: (dims, _scattered(rows[n], at, shape), _units(n)) for n in ("iv", "open_interest")}
    return xr.Dataset(
        data
        | {
            "underlying_price": (("time", "expiry"), forward, _units("underlying_price")),
            "observed": (dims, observed),
        },
        coords={
            **dict(zip(dims, (*labels, np.array(["call", "put"])), strict=True)),
            "year_fraction": (("time", "expiry"), np.where(years > 0, years, np.nan)),
            **constants,
        },
        attrs={k: json.dumps(v, sort_keys=True) for k, v in rows.attrs.items() if k == "provenance"},
    )


def _places(values: pd.Series) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    if isinstance(values.dtype, pd.DatetimeTZDtype):
        values = values.dt.tz_convert("UTC").dt.tz_localize(None)
    codes, labels = pd.factorize(values.to_numpy(), sort=True)
    return codes, labels


def _only(chain: pd.DataFrame, name: str) -> Any:
    found = chain[name].unique()
    if len(found) != 1:
        raise ValueError(f"a surface is of one {name}; the chain holds {len(found)}")
    return found[0]


def _one_per_place(chain: pd.DataFrame) -> pd.DataFrame:
    """Keep the instrument with the larger open interest where two share expiry, strike and side."""
    if not chain.duplicated(list(_DIMS)).any():
        return chain
    ordered = chain.sort_values("open_interest", ascending=False, na_position="last", kind="stable")
    kept = ordered.drop_duplicates(list(_DIMS)).sort_values(list(_DIMS))
    warnings.warn(
        f"{len(chain) - len(kept)} instruments share expiry, strike and side with another; "
        "those with the larger open interest were kept",
        DataNotice,
        stacklevel=4,
    )
    return kept


def _scattered(
    values: pd.Series, places: tuple[np.ndarray[Any, Any], ...], shape: tuple[int, ...]
) -> np.ndarray[Any, Any]:
    grid = np.full(shape, np.nan)
    grid[places] = values.to_numpy(dtype=np.float64)
    return grid


def _units(name: str) -> dict[str, str]:
    return {"units": COLUMNS[name].unit}
