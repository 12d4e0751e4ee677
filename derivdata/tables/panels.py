"""Convert tidy tables to labelled arrays, and read the provenance of tables and arrays."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from derivdata.support.arguments import typed
from derivdata.support.arrays import Array, Indices
from derivdata.support.times import has_zone, stamps_of
from derivdata.tables.definitions import COLUMNS
from derivdata.tables.frames import by_coin, require_columns, require_zone
from derivdata.units import BPS, BPS_UNIT

if TYPE_CHECKING:
    import xarray as xr

_CHUNK = 1 << 20
_DIMS = ("symbol", "exchange", "time")
_VALUES = ("rate_bps_8h", "oi_usd", "volume_usd", "value_usd", "iv", "price_usd", "long_short_ratio")


@typed
def panel(
    table: pd.DataFrame,
    column: str | None = None,
    *,
    by: Literal["symbol", "coin"] = "symbol",
    prices: pd.DataFrame | None = None,
) -> xr.DataArray:
    """Return one column of a table as a panel.

    Parameters
    ----------
    table
        A table keyed by ``symbol``, ``exchange`` and ``time``: a history of funding, open interest, volume or
        prices, or settlements; or ``orderbook_depth_history``.
    column
        A numeric column; by default the table's main column: ``rate_bps_8h``, ``oi_usd``, ``volume_usd``,
        ``price_usd``, or its only column of numbers; for depth, both sides.
    by
        ``"coin"`` joins contracts of one coin, such as ``1000PEPE``, ``kPEPE`` and ``PEPE``, or ``MATIC`` and
        ``POL`` (`derivdata.tables.RENAMED_TICKERS`): rates do not change, prices are converted to one coin,
        and a venue's values in USD are added up. If a venue has a renamed contract and the old one at the
        same time, the renamed one's rates and prices are used, with a notice. A ticker that another coin uses
        later is two series.
    prices
        Table ``prices_history``, with which ``by="coin"`` checks that contracts with one name are of one
        coin. A table of prices needs no other one. Without prices, only names are compared.

    Returns
    -------
    DataArray, dims ``(symbol, exchange, time)``
        Labels are sorted, times are naive UTC in microseconds; NaN where the table lacks a row. ``attrs`` has
        ``units``, the ``kind`` of a funding rate, the ``resolution`` if the table has it, and
        ``provenance``. Rates of settlements have the coordinate ``interval_hours`` [h] over the same dims:
        the hours that each payment covers. Payments with an unknown interval are in the coordinate
        ``payment_bps`` [bps]; functions that add up payments count them. Depth has two more dims, ``side``
        (``bid`` or ``ask``) and ``depth_bps``: cumulative value [USD] within each distance [bps] of the mid
        price, which ``slippage_bps`` and ``breakeven`` of `derivdata.analysis.funding` take at one time.

    Raises
    ------
    ValueError
        A key column or `column` is absent, a key is missing in a row, times are without a zone, `column` is
        not numeric or not given for a table with several, rows repeat a key, or funding kinds or resolutions
        are mixed. By coin: prices of two contracts differ by a factor over 1.25 in the median over their
        common times (over 5 % apart they are joined with a notice), or a venue has two rates or prices of a
        coin at one time; the message names both contracts.

    Examples
    --------
    >>> oi = dd.panel(dd.oi.history("BTC", "1d", venues=["binance", "okx"]))
    >>> oi.dims, oi.shape, oi.attrs["units"]
    (('symbol', 'exchange', 'time'), (1, 2, 24), 'USD')
    """
    import xarray as xr

    if column is None and by == "symbol" and "depth_bps" in table.columns:
        return _depth(table)
    column = value_column(table) if column is None else column
    _check(table, column)
    if by == "coin":
        _attrs(table, column)  # raises for rows of two resolutions before they are added up
        table = by_coin(table, column, prices)
    elif prices is not None:
        raise ValueError("prices= is for by='coin': it checks that contracts are of one coin")
    attrs = _attrs(table, column)
    units: dict[str, str] = {}
    columns = {column: table[column]}
    if attrs.get("kind") == "settled" and "interval_hours" in table.columns:
        units["interval_hours"] = "h"
        columns["interval_hours"] = table["interval_hours"]
        if (payments := _payments_without_interval(table)) is not None:
            units["payment_bps"] = BPS_UNIT
            columns["payment_bps"] = payments
    placed, labels = _placed(table, columns)
    coords: dict[str, Any] = dict(zip(_DIMS, labels, strict=True))
    coords |= {name: (_DIMS, placed[name], {"units": unit}) for name, unit in units.items()}
    return xr.DataArray(placed[column], coords, _DIMS, column, attrs)


def _payments_without_interval(table: pd.DataFrame) -> pd.Series | None:
    """Return the payments with an unknown interval [bps], or None if all intervals are known."""
    if "rate_native" not in table.columns:
        return None
    unknown = table["interval_hours"].isna() & table["rate_native"].notna()
    if not unknown.any():
        return None
    return table["rate_native"].where(unknown) * BPS


def value_column(table: pd.DataFrame) -> str:
    """Return a table's main column: the first of `_VALUES`, or its only column of floats or of numbers."""
    usual = [name for name in _VALUES if name in table.columns]
    if usual:
        return usual[0]
    numbers = [str(name) for name in table.columns if pd.api.types.is_float_dtype(table[name].dtype)]
    if not numbers:  # whole numbers, as files and Arrow have them
        dtypes = table.dtypes.items()
        numbers = [str(name) for name, dtype in dtypes if pd.api.types.is_integer_dtype(dtype)]
    if len(numbers) != 1:
        listed = ", ".join(numbers) or "none"
        raise ValueError(f"column is required: pass one of the columns of numbers ({listed})")
    return numbers[0]


def _placed(table: pd.DataFrame, columns: dict[str, pd.Series]) -> tuple[dict[str, Array], list[Array]]:
    """Return columns as panels with time as the last dim, and the labels of each dim.

    Rows are placed in chunks: the cells of all rows would take as much memory as the result.
    """
    dims = [_labels(table[dim]) for dim in _DIMS]
    shape = [len(dim.labels) for dim in dims]
    filled = np.zeros(shape, dtype=bool).reshape(-1)
    values = {name: column.to_numpy(dtype=np.float64, na_value=np.nan) for name, column in columns.items()}
    placed = {name: np.full(shape, np.nan) for name in columns}
    for start in range(0, len(table), _CHUNK):
        rows = slice(start, start + _CHUNK)
        cells = np.zeros(min(_CHUNK, len(table) - start), dtype=np.intp)
        for dim in dims:
            cells *= len(dim.labels)
            cells += dim.places(rows)
        filled[cells] = True
        for name, panel_ in placed.items():
            panel_.reshape(-1)[cells] = values[name][rows]
    if np.count_nonzero(filled) != len(table):
        if "instrument_name" in table.columns:
            advice = "choose one instrument_name"
        else:
            advice = "run dd.quality(table) to see which"
        raise ValueError(f"rows repeat a (symbol, exchange, time): {advice}")
    return placed, [dim.labels for dim in dims]


def _depth(table: pd.DataFrame) -> xr.DataArray:
    """Return both sides of an order book's depth, at every distance from the mid price."""
    import xarray as xr

    sides = ("bid", "ask")
    require_columns(table, "table", ("depth_bps", *(f"{side}_depth_usd" for side in sides)), others=_DIMS)
    if table["depth_bps"].isna().any():
        raise ValueError("table has a row without 'depth_bps'")
    if table.empty:
        raise ValueError("table is empty: expected at least one row")
    keyed = table.rename(columns={f"{side}_depth_usd": side for side in sides})
    side_index = pd.Index(sides, name="side")
    distances = pd.Index(sorted(keyed["depth_bps"].unique()), name="depth_bps", dtype="float64")
    by_distance = []
    for distance in distances:
        rows = keyed[keyed["depth_bps"] == distance]
        both = [panel(rows, side) for side in sides]
        by_distance.append(xr.concat(both, side_index, coords="minimal", join="outer"))
    joined = xr.concat(by_distance, distances, coords="minimal", join="outer")
    attrs = _attrs(table, "bid_depth_usd")
    return joined.transpose(*_DIMS, "side", "depth_bps").rename("depth_usd").assign_attrs(attrs)


@typed
def provenance(data: Any) -> dict[str, Any]:
    """Return the sources and requests of a frame, panel or surface, and the notices of the responses.

    Parameters
    ----------
    data
        A frame that a fetcher returned, or a DataArray or Dataset made from one.

    Returns
    -------
    dict
        ``source``, ``synthetic``, ``as_of``, ``requests`` (with the hash of each response), ``notices``.

    Raises
    ------
    ValueError
        `data` was not fetched, or an operation dropped its ``attrs``.

    Examples
    --------
    >>> about = dd.provenance(dd.funding.snapshot())
    >>> about["source"], about["synthetic"], about["requests"][0]["path"]
    ('sample', True, '/funding')
    """
    attached = getattr(data, "attrs", {}).get("provenance")
    if attached is None:
        raise ValueError("data has no provenance: it was not fetched, or an operation dropped its attrs")
    return dict(json.loads(attached) if isinstance(attached, str) else attached)


def _check(table: pd.DataFrame, column: str) -> None:
    """Raise `ValueError` unless a table has complete keys and a numeric column."""
    require_columns(table, "table", others=(*_DIMS, column))
    if not pd.api.types.is_numeric_dtype(table[column].dtype):
        raise ValueError(f"column {column!r} must have numbers, got {table[column].dtype}")
    for dim in _DIMS:
        if missing := int(table[dim].isna().sum()):
            raise ValueError(f"{dim} is missing in {missing} rows: it is part of the key")
    require_zone(table, "table")


class _Dim(NamedTuple):
    """Sorted labels of a dim, and a function from a slice of rows to the positions of their labels."""

    labels: Array
    places: Callable[[slice], Indices]


def _labels(values: pd.Series) -> _Dim:
    """Return the sorted labels of a column, and the positions of its rows among them.

    For a categorical the positions come from its codes. Reading the text of each row instead would take most
    of the time of a panel of many rows.
    """
    if isinstance(values.dtype, pd.CategoricalDtype):
        codes = values.cat.codes.to_numpy()
        categories = np.asarray(values.cat.categories)
        count = np.zeros(len(categories), dtype=np.intp)
        for start in range(0, len(codes), _CHUNK):
            count += np.bincount(codes[start : start + _CHUNK], minlength=len(categories))
        used = np.flatnonzero(count)
        order = used[np.argsort(categories[used])]
        place = np.zeros(len(categories), dtype=np.intp)
        place[order] = np.arange(len(order))
        return _Dim(categories[order], lambda rows: place[codes[rows]])
    if has_zone(values):
        stamps = stamps_of(values).view("datetime64[us]")
        distinct = np.sort(pd.unique(stamps))
        return _Dim(distinct, lambda rows: np.searchsorted(distinct, stamps[rows]))
    codes, labels = pd.factorize(values.to_numpy())
    order = np.argsort(labels)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return _Dim(labels[order], lambda rows: place[codes[rows]])


def _attrs(table: pd.DataFrame, column: str) -> dict[str, Any]:
    """Return the attributes of a panel; raise `ValueError` for a table of several kinds or resolutions."""
    attrs: dict[str, Any] = {"units": COLUMNS[column].unit} if column in COLUMNS else {}
    if column.startswith("rate_"):
        attrs |= _single_word(table, "kind") | _single_word(table, "rate_kind")
    attrs |= _single_word(table, "resolution") | _single_word(table, "quote")
    if "provenance" in table.attrs:
        attrs["provenance"] = json.dumps(table.attrs["provenance"], sort_keys=True)
    return attrs


def _single_word(table: pd.DataFrame, name: str) -> dict[str, str]:
    """Return the only word of a text column, empty if the column is absent; raise for several words."""
    if name not in table.columns:
        return {}
    words = sorted(table[name].dropna().unique())
    if len(words) > 1:
        raise ValueError(f"the table mixes {' and '.join(words)}: keep the rows of one {name}")
    return {name: str(words[0])} if words else {}
