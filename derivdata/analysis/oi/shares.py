"""Shares of open interest over a balanced set of venues, and how concentrated they are."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.inputs import require_times
from derivdata.analysis.labelling import applied
from derivdata.analysis.panels import (
    Panel,
    by_chunk,
    figures_of,
    hours,
    hours_of,
    last_valid,
    refuse_negative,
    require,
    require_quantity,
    require_share,
    require_venues,
    row_by_row,
    unit_of,
    whole,
)
from derivdata.support.arguments import typed
from derivdata.support.arrays import Array
from derivdata.tables.contracts import VENUES, VENUES_AS_OF

_HOUR_US = 3_600_000_000
_BLOCK = 16_384
_FIGURES = ("hhi", "hhi_10000", "effective_n", "normalised", "n")


@typed
def market_share(
    oi: Panel,
    *,
    min_cover: float = 0.95,
    tolerance: str | pd.Timedelta = "4h",
    venues: list[str] | None = None,
) -> xr.DataArray:
    """Compute each venue's part of the open interest, over a balanced set of venues.

    Parameters
    ----------
    oi
        Open interest with dims ``exchange`` and ``time`` [USD or coins], in memory or dask-backed.
    min_cover
        Part of the window that a venue must be present in to belong to the set, per symbol.
    tolerance
        How long a venue's last figure stands in for a missing one.
    venues
        The set itself. A set found from the window looks ahead (it knows who stays): give one that was
        known beforehand wherever the shares decide something in the past.

    Returns
    -------
    DataArray
        Fractions that add to 1 over ``exchange``, in the dims of `oi`. NaN for venues outside the set, and
        for all venues at an instant at which one of the set has no figure. ``attrs["dropped"]`` names the
        venues that left (in memory only).

    Raises
    ------
    ValueError
        Dims are missing, the unit is unstated or neither USD nor coin, times do not ascend without repeats, a
        venue of `venues` is not in the panel, or open interest is negative (of a lazy panel, when computed).

    Examples
    --------
    >>> held = dd.oi.history("BTC", "2d", venues=["binance", "okx", "bybit"])
    >>> share = dd.analysis.oi.market_share(held)
    >>> share.sum("exchange").round(12).values.min().item()
    1.0
    """
    oi = require_quantity(oi, "exchange", "time")
    require_times(oi, "oi")
    if oi.sizes["time"]:
        hours(oi, name="oi")
    chosen = None
    if venues is not None:
        require_venues(oi, venues=venues)
        chosen = np.isin(oi["exchange"].values.tolist(), venues)
    share, gone = applied(
        _balanced,
        whole(oi, "exchange", "time"),
        core=[["exchange", "time"]],
        out=[["exchange", "time"], ["exchange"]],
        types=[np.float64, np.bool_],
        stamps=oi["time"].values.astype("datetime64[us]").astype(np.int64),
        cover=min_cover,
        oldest=round(hours_of(tolerance, "tolerance", least=0.0) * _HOUR_US),
        chosen=chosen,
    )
    ordered: xr.DataArray = share.transpose(*oi.dims).rename("market_share")
    ordered = ordered.assign_attrs(units="fraction", weights=unit_of(oi, "oi"))
    if ordered.chunks is None:
        stacked = gone.transpose(*(dim for dim in oi.dims if dim != "time")).to_series()
        keys = stacked[stacked].index
        ordered.attrs["dropped"] = [key if isinstance(key, str) else "/".join(map(str, key)) for key in keys]
    return ordered


@typed
def hhi(share: xr.DataArray, *, dim: str = "exchange") -> xr.Dataset:
    """Compute the Herfindahl–Hirschman concentration of shares.

    Parameters
    ----------
    share
        Fractions that add to 1 over `dim`; NaN is no participant.

    Returns
    -------
    Dataset
        ``hhi`` (0 to 1), ``hhi_10000`` (as regulators print it), ``effective_n`` = 1/hhi, ``normalised`` =
        (hhi − 1/n)/(1 − 1/n) and ``n``. NaN where no share is given; ``normalised`` also where n is 1.

    Raises
    ------
    ValueError
        `dim` is absent, or a share is negative (of lazy shares, when computed).

    Examples
    --------
    >>> concentration = dd.analysis.oi.hhi(xr.DataArray([0.5, 0.3, 0.2], dims="exchange"))
    >>> round(concentration["hhi"].item(), 4), round(concentration["effective_n"].item(), 2)
    (0.38, 2.63)
    """
    share = require_share(share, dim)
    measured = partial(figures_of, _concentration, units=dict.fromkeys(_FIGURES, "1"), over=[dim])
    return by_chunk(measured, whole(share, dim))


@typed
def oi_to_volume(oi: Panel, volume_24h: Panel) -> xr.DataArray:
    """Divide open interest by 24-hour volume, both in USD: the days of trading that it stands for.

    NaN where the volume is missing or not positive. Refuses units that differ.
    """
    oi, volume_24h = require(oi, name="oi"), require(volume_24h, name="volume_24h")
    units = {str(a.attrs.get("units")) for a in (oi, volume_24h)}
    if units != {"USD"}:
        raise ValueError(
            f"oi and volume_24h: both must say units='USD' in attrs; they say {', '.join(sorted(units))}"
        )
    try:
        oi, volume_24h = xr.align(oi, volume_24h, join="inner", copy=False)
    except (ValueError, TypeError):
        raise ValueError("oi and volume_24h have labels of two kinds along a dim") from None
    ratio = oi / volume_24h.where(volume_24h > 0)
    return ratio.rename("oi_to_volume").assign_attrs(units="days")


@typed
def by_kind(oi: Panel) -> xr.DataArray:
    """Sum open interest by kind of venue: ``cex``, ``dex``, ``other``, ``unknown``.

    The kinds are the library's own dated table; a venue that it does not hold is ``unknown``. NaN where no
    venue of the kind has a figure.
    """
    oi = require_quantity(oi, "exchange")
    refuse_negative(oi)
    if not oi.sizes["exchange"]:
        raise ValueError("oi has no venues along exchange")
    kinds = [VENUES[v].kind if v in VENUES else "unknown" for v in oi["exchange"].values.tolist()]
    grouped = oi.assign_coords(kind=("exchange", kinds)).groupby("kind").sum(min_count=1)
    return grouped.assign_attrs(oi.attrs, venues_as_of=VENUES_AS_OF)


def _balanced(
    oi: Array, *, stamps: Array, cover: float, oldest: int, chosen: Array | None
) -> tuple[Array, Array]:
    """Shares, and which venues have figures but no share."""
    share, gone = np.empty(oi.shape), np.empty(oi.shape[:-1], dtype=np.bool_)
    for place in np.ndindex(oi.shape[:-2]):
        block, into = oi[place], share[place]
        total = _fractions(block, into)
        if chosen is None and not np.isnan(total).any():  # nothing is missing: that was all
            gone[place] = total.size > 0 and not (total > 0).any()
            continue
        there = ~np.isnan(block)
        member = there.mean(axis=-1) >= cover if chosen is None else chosen & there.any(axis=-1)
        members = block[member]
        known = members
        if not there[member].all():  # filled with the last figure, unless that is too old
            last = last_valid(~np.isnan(members))
            fresh = (last >= 0) & (stamps - stamps[np.maximum(last, 0)] <= oldest)
            known = np.where(fresh, np.take_along_axis(members, np.maximum(last, 0), axis=-1), np.nan)
        _fractions(known, members)
        into[...] = np.nan
        into[member] = members
        gone[place] = there.any(axis=-1) & np.isnan(into).all(axis=-1)
    return share, gone


def _fractions(values: Array, out: Array) -> Array:
    """Parts of the total over the first axis, and that total; block by block, so that each stays in cache."""
    totals = np.empty(values.shape[-1])
    for start in range(0, values.shape[-1], _BLOCK):
        block = values[:, start : start + _BLOCK]
        if (block < 0.0).any():
            raise ValueError("oi is negative somewhere: open interest is 0 or more, see dd.quality")
        total = block.sum(axis=0, out=totals[start : start + _BLOCK])
        np.divide(block, np.where(total > 0, total, np.nan), out=out[:, start : start + _BLOCK])
    return totals


def _concentration(share: Array) -> tuple[Array, ...]:
    """Figures over the last axis, block by block so that each stays in cache."""
    rows = np.atleast_2d(share)
    figures = [np.empty(rows.shape[:-1]) for _ in _FIGURES]
    for place in np.ndindex(rows.shape[:-2]):
        for start in range(0, rows.shape[-2], _BLOCK):
            at = (*place, slice(start, start + _BLOCK))
            for into, figure in zip(figures, _figures(row_by_row(rows[at].T)), strict=True):
                into[at] = figure
    return tuple(figure.reshape(share.shape[:-1]) for figure in figures)


def _figures(block: Array) -> tuple[Any, ...]:
    squares, count = _squares(block), np.full(block.shape[1], float(len(block)))
    if np.isnan(squares).any() or not len(block):  # no venue at all: nothing is known, as where all are NaN
        there = ~np.isnan(block)
        some = there.any(axis=0)
        squares = np.where(some, _squares(np.where(there, block, 0.0)), np.nan)
        count = np.where(some, there.sum(axis=0), np.nan)
    floor = 1.0 / count
    with np.errstate(divide="ignore"):
        effective = 1.0 / squares
    normalised = (squares - floor) / np.where(count > 1, 1.0 - floor, np.nan)
    return squares, 1e4 * squares, effective, normalised, count


def _squares(block: Array) -> Array:
    """Sum of squares over the first axis, added in its order however the block lies in memory."""
    if (block < 0.0).any():
        raise ValueError("share is negative somewhere: a share is from 0 to 1")
    total, square = np.zeros(block.shape[1]), np.empty(block.shape[1])
    for row in block:
        total += np.multiply(row, row, out=square)
    return total
