"""Convert tidy tables to labelled arrays, and read the provenance of either."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from derivdata.support.arguments import typed
from derivdata.support.arrays import Array, Indices
from derivdata.support.times import has_zone
from derivdata.tables.coins import by_coin
from derivdata.tables.columns import COLUMNS
from derivdata.tables.required import require_columns, require_zone
from derivdata.units import BPS, BPS_UNIT

if TYPE_CHECKING:
    import xarray as xr

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
        A numeric column of it; by default what the table is about: ``rate_bps_8h``, ``oi_usd``,
        ``volume_usd``, ``price_usd``, or its only column of numbers; of depth, both sides.
    by
        ``"coin"`` joins contracts of one coin, such as ``1000PEPE``, ``kPEPE`` and ``PEPE``, or ``MATIC`` and
        ``POL`` (`derivdata.tables.RENAMED_TICKERS`): rates stay as they are, prices become those of one coin,
        and a venue's values in USD are added up. Where a venue has a renamed contract and the old one at one
        time, rates and prices are those of the renamed one, with a notice. A ticker that another coin uses
        later is two series.
    prices
        Table ``prices_history``, by which ``by="coin"`` checks that contracts of one name are of one coin;
        prices check themselves. Without it the names alone are read.

    Returns
    -------
    DataArray, dims ``(symbol, exchange, time)``
        Labels sorted, time naive UTC in microseconds; NaN where the table has no row. ``attrs`` hold
        ``units``, ``kind`` of a funding rate, ``resolution`` where the table says it, and ``provenance``. The
        rates of settlements have the coordinate ``interval_hours`` [h] over the same dims: what each of them
        pays for. Payments whose interval is not known are in the coordinate ``payment_bps`` [bps]; functions
        that add up payments count them. Depth has the further dims ``side``, ``bid`` or ``ask``, and
        ``depth_bps``: value [USD] within each distance [bps] of the mid price, cumulative, which
        ``slippage_bps`` and ``breakeven``
        of `derivdata.analysis.funding` take at one instant.

    Raises
    ------
    ValueError
        A key column or `column` is absent, a key is missing in a row, times have no zone, `column` is no
        number or not given where a table has several, rows repeat a key, or funding kinds or resolutions are
        mixed. By coin: prices of two contracts differ by a factor over 1.25 in the median of the instants
        that both have (over 5 % apart they are joined with a notice), or a venue has two rates or
        prices of a coin at one instant; both contracts are named.

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
        _attrs(table, column)  # rows of two resolutions are refused before they are added up
        table = by_coin(table, column, prices)
    elif prices is not None:
        raise ValueError("prices= is for by='coin': it tells whether contracts are of one coin")
    cells, labels = _cells(table)
    shape = [len(along_dim) for along_dim in labels]
    filled = np.zeros(shape, dtype=bool).reshape(-1)
    filled[cells] = True
    if np.count_nonzero(filled) != len(table):
        several = "instrument_name" in table.columns
        todo = "choose one instrument_name" if several else "run dd.quality(table) to see which"
        raise ValueError(f"rows repeat a (symbol, exchange, time): {todo}")
    attrs = _attrs(table, column)
    coords: dict[str, Any] = dict(zip(_DIMS, labels, strict=True))
    if attrs.get("kind") == "settled" and "interval_hours" in table.columns:
        coords["interval_hours"] = (_DIMS, _placed(table["interval_hours"], cells, shape), {"units": "h"})
        coords |= _payments_without_interval(table, cells, shape)
    return xr.DataArray(_placed(table[column], cells, shape), coords, _DIMS, column, attrs)


def _payments_without_interval(table: pd.DataFrame, cells: Indices, shape: list[int]) -> dict[str, Any]:
    """Return the coordinate of what payments pay whose interval is not known, if there are any."""
    if "rate_native" not in table.columns:
        return {}
    unknown = table["interval_hours"].isna() & table["rate_native"].notna()
    if not unknown.any():
        return {}
    paid = table["rate_native"].where(unknown) * BPS
    return {"payment_bps": (_DIMS, _placed(paid, cells, shape), {"units": BPS_UNIT})}


def value_column(table: pd.DataFrame) -> str:
    """Return the column that a table is about: the first of the usual ones, or its only column of numbers."""
    usual = [name for name in _VALUES if name in table.columns]
    numbers = [str(n) for n in table.columns if pd.api.types.is_float_dtype(table[n].dtype)]
    if not usual and len(numbers) != 1:
        raise ValueError(
            f"which column is the value? give column=; numbers are {', '.join(numbers) or 'none'}"
        )
    return (usual or numbers)[0]


def _placed(values: pd.Series, cells: Indices, shape: list[int]) -> Array:
    placed = np.full(shape, np.nan)
    placed.reshape(-1)[cells] = values.to_numpy(dtype=np.float64, na_value=np.nan)
    return placed


def _depth(table: pd.DataFrame) -> xr.DataArray:
    """Return both sides of an order book's depth, at every distance from the mid price."""
    import xarray as xr

    sides = ("bid", "ask")
    require_columns(table, "table", ("depth_bps", *(f"{side}_depth_usd" for side in sides)), others=_DIMS)
    if table["depth_bps"].isna().any():
        raise ValueError("table has a row without 'depth_bps'")
    if table.empty:
        raise ValueError("table has no rows")
    keyed = table.rename(columns={f"{side}_depth_usd": side for side in sides})
    parts = [
        xr.concat(
            [panel(keyed[keyed["depth_bps"] == distance], side) for side in sides],
            pd.Index(sides, name="side"),
            coords="minimal",
            join="outer",
        )
        for distance in sorted(keyed["depth_bps"].unique())
    ]
    distances = pd.Index(sorted(keyed["depth_bps"].unique()), name="depth_bps", dtype="float64")
    joined = xr.concat(parts, distances, coords="minimal", join="outer")
    attrs = _attrs(table, "bid_depth_usd")
    return joined.transpose(*_DIMS, "side", "depth_bps").rename("depth_usd").assign_attrs(attrs)


@typed
def provenance(data: Any) -> dict[str, Any]:
    """Return where a frame, panel or surface came from, and what the answers noted.

    Parameters
    ----------
    data
        A frame that a fetcher returned, or a DataArray or Dataset made from one.

    Returns
    -------
    dict
        ``source``, ``synthetic``, ``as_of``, ``requests`` (with the hash of each answer), ``notices``.

    Raises
    ------
    ValueError
        `data` carries none: it was not fetched, or an operation let its ``attrs`` go.

    Examples
    --------
    >>> about = dd.provenance(dd.funding.snapshot())
    >>> about["source"], about["synthetic"], about["requests"][0]["path"]
    ('sample', True, '/funding')
    """
    attached = getattr(data, "attrs", {}).get("provenance")
    if attached is None:
        raise ValueError("data has no provenance: it was not fetched, or an operation let its attrs go")
    return dict(json.loads(attached) if isinstance(attached, str) else attached)


def _check(table: pd.DataFrame, column: str) -> None:
    require_columns(table, "table", others=(*_DIMS, column))
    if not pd.api.types.is_numeric_dtype(table[column].dtype):
        raise ValueError(f"column {column!r} is {table[column].dtype}, not a number")
    for dim in _DIMS:
        if missing := int(table[dim].isna().sum()):
            raise ValueError(f"{dim} is missing in {missing} rows: it is a part of the key")
    require_zone(table, "table")


def _cells(table: pd.DataFrame) -> tuple[Indices, list[Array]]:
    """Return the place of each row in the panel, flattened with time innermost, and each dim's labels."""
    cells = np.zeros(len(table), dtype=np.intp)
    labels = []
    for dim in _DIMS:
        codes, along_dim = _labels(table[dim])
        cells *= len(along_dim)
        cells += codes
        labels.append(along_dim)
        del codes  # as large as the result
    return cells, labels


def _labels(values: pd.Series) -> tuple[Array, Array]:
    """Return the place of each value among the labels, and the labels, sorted.

    The codes of a categorical are those of its categories: put into the order of the labels in use they need
    no look at the rows' text, which is most of the time that a panel of many rows takes otherwise.
    """
    if isinstance(values.dtype, pd.CategoricalDtype):
        codes = values.cat.codes.to_numpy()
        categories = np.asarray(values.cat.categories)
        used = np.flatnonzero(np.bincount(codes, minlength=len(categories)))
        order = used[np.argsort(categories[used])]
        place = np.zeros(len(categories), dtype=np.intp)
        place[order] = np.arange(len(order))
        return place[codes], categories[order]
    naive_utc = "datetime64[us]" if has_zone(values) else None
    codes, labels = pd.factorize(values.to_numpy(dtype=naive_utc))
    if (labels[:-1] < labels[1:]).all():
        return codes, labels
    order = np.argsort(labels)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return place[codes], labels[order]


def _attrs(table: pd.DataFrame, column: str) -> dict[str, Any]:
    attrs: dict[str, Any] = {"units": COLUMNS[column].unit} if column in COLUMNS else {}
    if column.startswith("rate_"):
        attrs |= _single_word(table, "kind")
    attrs |= _single_word(table, "resolution") | _single_word(table, "quote")
    if "provenance" in table.attrs:
        attrs["provenance"] = json.dumps(table.attrs["provenance"], sort_keys=True)
    return attrs


def _single_word(table: pd.DataFrame, name: str) -> dict[str, str]:
    """Return the one word of a text column; nothing where the table has none."""
    words = sorted(table[name].dropna().unique()) if name in table.columns else []
    if len(words) > 1:
        raise ValueError(f"the table mixes {' and '.join(words)}: keep the rows of one {name}")
    return {name: str(words[0])} if words else {}
