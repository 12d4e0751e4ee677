"""Distribution of open interest over venues: shares, concentration, trends, and migration between two times.

Open interest must be in USD or in coins throughout; it is never added across units. Shares are over a
balanced set of venues, so that a venue that appears or fails does not look like migration.
"""

from __future__ import annotations

from enum import IntFlag
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import ndtri

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
    require_level,
    require_quantity,
    require_share,
    require_times,
    require_venues,
    row_by_row,
    unit_of,
    whole,
)
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.support.arrays import Array
from derivdata.tables.contracts import VENUES, VENUES_AS_OF
from derivdata.units import USD_UNIT

__all__ = ["by_kind", "hhi", "in_coins", "market_share", "migration", "oi_to_volume", "share_trend"]
__dir__ = __all__.copy


@typed
def in_coins(oi: Panel, price: Panel) -> xr.DataArray:
    """Convert open interest in USD to coins.

    Parameters
    ----------
    oi
        Open interest [USD] with dims ``symbol``, ``exchange`` and ``time``.
    price
        Mark prices [USD] with the same dims: a panel of ``dd.prices.history`` at the same resolution.

    Returns
    -------
    DataArray
        ``oi_coin`` [coin] in the dims and at the labels of `oi`. NaN if the venue has no price at the same
        time: another venue's price, or an older one, would look like a change of positions. Prices of a
        symbol such as ``1000PEPE`` are per 1000 coins, so its open interest is in thousands of coins.

    Raises
    ------
    ValueError, TypeError
        Dims are missing, or a unit is not USD.
    """
    oi = require(oi, "symbol", "exchange", "time", units="USD", name="oi")
    price = require(price, "symbol", "exchange", "time", units="USD", name="price")
    oi, price = xr.align(oi, price, join="left")
    coins = oi / price.where(price > 0.0)
    return coins.transpose(*oi.dims).rename("oi_coin").assign_attrs(units="coin")


@typed
def migration(
    oi: Panel,
    start: Any,
    end: Any,
    *,
    method: Literal["base", "midpoint", "lmdi"] = "midpoint",
    price: xr.DataArray | None = None,
) -> xr.Dataset:
    """Split the change of each venue's open interest into market growth and change of market share.

    Parameters
    ----------
    oi
        Open interest with dims ``exchange`` and ``time``.
    start, end
        Two labels of ``time``.
    method
        ``"midpoint"`` (exact), ``"base"`` (with an interaction term), or ``"lmdi"`` (logarithmic mean; as the
        midpoint if the value at either time is 0).
    price
        Price of the asset over ``time`` [USD]. With it, the change in USD is first split into a price part
        and a quantity part, and only the latter is split further. Without it, a rally appears as growth.

    Returns
    -------
    Dataset
        ``growth``, ``share``, ``interaction`` (method ``"base"``) and ``price`` (with `price`) per venue, in
        the unit of `oi`; they add up to ``change``. A venue without a value at either time is NaN and
        excluded from the total.

    Raises
    ------
    ValueError
        A dim or a label is missing, the unit is not stated, or the method is unknown.

    Examples
    --------
    >>> held = xr.DataArray(
    ...     [[100.0, 180.0], [100.0, 120.0]],
    ...     {"exchange": ["a", "b"], "time": pd.to_datetime(["2026-06-01", "2026-06-02"])},
    ...     ("exchange", "time"),
    ...     attrs={"units": "USD"},
    ... )
    >>> dd.analysis.oi.migration(held, "2026-06-01", "2026-06-02")[["growth", "share"]].to_dataframe()
              growth  share
    exchange
    a           55.0   25.0
    b           45.0  -25.0
    """
    oi = require_quantity(oi, "exchange", "time")
    refuse_negative(oi)
    # 1. Select the venues with a value at both times.
    first = _at(oi, start, "start", "oi")
    last = _at(oi, end, "end", "oi")
    there = first.notnull() & last.notnull()
    first = first.where(there)
    last = last.where(there)
    change = last - first

    # 2. Separate the effect of the price: the rest is the change in coins, valued at the mean price.
    components: dict[str, xr.DataArray] = {}
    scale: Any = 1.0
    if price is not None:
        require(price, "time", units=USD_UNIT if unit_of(price, "price") else None, name="price")
        p0 = _at(price, start, "start", "price")
        p1 = _at(price, end, "end", "price")
        first = first / p0
        last = last / p1
        scale = (p0 + p1) / 2
        components["price"] = (first + last) / 2 * (p1 - p0)

    # 3. Split the rest into growth of the market and change of shares.
    t0 = first.sum("exchange")
    t1 = last.sum("exchange")
    for name, component in _METHODS[method](first, last, t0, t1).items():
        components[name] = scale * component
    unit = unit_of(oi, "oi")
    result = xr.Dataset(components | {"change": change}).drop_attrs()
    for variable in result.data_vars.values():
        variable.attrs = {"units": unit}
    return result.assign_attrs(units=unit, method=method)


def _at(data: xr.DataArray, when: Any, name: str, of: str) -> xr.DataArray:
    """Return the values of a panel at a timestamp that it has."""
    timestamp = times.naive_utc(times.timestamp(when, name))
    if "time" not in data.indexes:
        raise ValueError(f"{of} must have at least one timestamp")
    try:
        return data.sel(time=timestamp, drop=True)
    except (KeyError, TypeError):
        raise ValueError(f"{name} must be a timestamp of the panel {of}, got {when!r}") from None


# The methods get a venue's values x and the totals t of all venues, each at the start (0) and the end (1).
def _base(x0: Any, x1: Any, t0: Any, t1: Any) -> dict[str, Any]:
    """Return growth at the initial share, the change of share at the initial total, and their product."""
    s0 = x0 / t0
    s1 = x1 / t1
    return {"growth": s0 * (t1 - t0), "share": t0 * (s1 - s0), "interaction": (s1 - s0) * (t1 - t0)}


def _midpoint(x0: Any, x1: Any, t0: Any, t1: Any) -> dict[str, Any]:
    """Return growth at the mean share, and the change of share at the mean total."""
    s0 = x0 / t0
    s1 = x1 / t1
    return {"growth": (s0 + s1) / 2 * (t1 - t0), "share": (t0 + t1) / 2 * (s1 - s0)}


def _lmdi(x0: Any, x1: Any, t0: Any, t1: Any) -> dict[str, Any]:
    """Split the change of a venue's `x` of the total `t` by the logarithmic mean Divisia index.

    A venue that appears or disappears has no logarithm, and gets the parts of `_midpoint`.
    """
    defined = (x0 > 0) & (x1 > 0)
    ratio = (x1 / x0).where(defined, 1.0)
    flat = np.abs(ratio - 1.0) < 1e-12
    mean = ((x0 + x1) / 2).where(flat, (x1 - x0) / np.log(ratio.where(~flat, 2.0)))
    other = _midpoint(x0, x1, t0, t1)
    growth = (mean * np.log(t1 / t0)).where(defined, other["growth"])
    return {"growth": growth, "share": x1 - x0 - growth}


_METHODS = {"base": _base, "midpoint": _midpoint, "lmdi": _lmdi}


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
    """Compute each venue's share of the open interest, over a balanced set of venues.

    Parameters
    ----------
    oi
        Open interest with dims ``exchange`` and ``time`` [USD or coins], in memory or dask-backed.
    min_cover
        Minimum fraction of the window in which a venue must have values, per symbol.
    tolerance
        Maximum time for which a venue's last value replaces a missing one.
    venues
        The set of venues, instead of the one derived with `min_cover`. A derived set looks ahead, because it
        depends on later data: pass a set known in advance if the shares are used for past decisions.

    Returns
    -------
    DataArray
        Fractions that add to 1 over ``exchange``, in the dims of `oi`. NaN for venues outside the set, and
        for all venues at a time at which a venue of the set has no value. ``attrs["dropped"]`` lists the
        excluded venues, separated by spaces (in memory only).

    Raises
    ------
    ValueError
        Dims are missing, the unit is missing or neither USD nor coin, times do not ascend strictly, a venue
        of `venues` is not in the panel, or open interest is negative (for a lazy panel, when computed).

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
        oldest=round(hours_of(tolerance, "tolerance", minimum=0.0) * _HOUR_US),
        chosen=chosen,
    )
    ordered: xr.DataArray = share.transpose(*oi.dims).rename("market_share")
    ordered = ordered.assign_attrs(units="fraction", weights=unit_of(oi, "oi"))
    if ordered.chunks is None:
        stacked = gone.transpose(*(dim for dim in oi.dims if dim != "time")).to_series()
        labels = stacked[stacked].index.to_frame(index=False).astype(str)
        ordered.attrs["dropped"] = " ".join(labels.agg("/".join, axis=1)) if len(labels) else ""
    return ordered


@typed
def hhi(share: xr.DataArray, *, dim: str = "exchange") -> xr.Dataset:
    """Compute the Herfindahl–Hirschman concentration of shares.

    Parameters
    ----------
    share
        Fractions that add up to 1 over `dim`; NaN is not counted as a participant.

    Returns
    -------
    Dataset
        ``hhi`` (0 to 1), ``hhi_10000`` (the same on the scale of regulators, 0 to 10,000), ``effective_n`` =
        1/hhi, ``normalised`` = (hhi − 1/n)/(1 − 1/n) and ``n``. NaN without shares; ``normalised`` also if n
        is 1.

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
    """Return open interest divided by 24-hour volume [days of trading].

    Both panels must be in USD, else a ValueError is raised. The result has the labels that both have. NaN if
    a value is missing or the volume is not positive.
    """
    oi = require(oi, name="oi")
    volume_24h = require(volume_24h, name="volume_24h")
    units = {str(oi.attrs.get("units")), str(volume_24h.attrs.get("units"))}
    if units != {"USD"}:
        raise ValueError(
            f"oi and volume_24h must both have units='USD' in attrs, got {', '.join(sorted(units))}"
        )
    try:
        oi, volume_24h = xr.align(oi, volume_24h, join="inner", copy=False)
    except (ValueError, TypeError):
        raise ValueError("oi and volume_24h must have labels of one type along each dim") from None
    ratio = oi / volume_24h.where(volume_24h > 0)
    return ratio.rename("oi_to_volume").assign_attrs(units="days")


@typed
def by_kind(oi: Panel) -> xr.DataArray:
    """Return the sum of open interest by kind of venue: ``cex``, ``dex``, ``other`` or ``unknown``.

    The dim ``kind`` replaces ``exchange``, and the unit is that of `oi`. Venues that the library does not
    list are ``unknown``; the attribute ``venues_as_of`` is the date of the list. NaN if no venue of the kind
    has a value.
    """
    oi = require_quantity(oi, "exchange")
    refuse_negative(oi)
    if not oi.sizes["exchange"]:
        raise ValueError("oi must have at least one venue along exchange")
    kind_of = {name: venue.kind for name, venue in VENUES.items()}
    kinds = [kind_of.get(name, "unknown") for name in oi["exchange"].values.tolist()]
    grouped = oi.assign_coords(kind=("exchange", kinds)).groupby("kind").sum(min_count=1)
    return grouped.assign_attrs(oi.attrs, venues_as_of=VENUES_AS_OF)


def _balanced(
    oi: Array, *, stamps: Array, cover: float, oldest: int, chosen: Array | None
) -> tuple[Array, Array]:
    """Return shares, and a mask of venues with values but no share."""
    share = np.empty(oi.shape)
    gone = np.empty(oi.shape[:-1], dtype=np.bool_)
    for place in np.ndindex(oi.shape[:-2]):
        # 1. Without missing values, all venues are in the set.
        amounts = oi[place]
        shares = share[place]  # a view, which is written in place
        total = _fractions(amounts, shares)
        if chosen is None and not np.isnan(total).any():
            gone[place] = total.size > 0 and not (total > 0).any()
            continue

        # 2. Select the venues of the set.
        has_value = ~np.isnan(amounts)
        is_member = has_value.mean(axis=-1) >= cover if chosen is None else chosen & has_value.any(axis=-1)

        # 3. Replace missing values by the last ones that are not too old.
        members = amounts[is_member]
        values = members
        if not has_value[is_member].all():
            last = last_valid(~np.isnan(members))
            is_fresh = (last >= 0) & (stamps - stamps[np.maximum(last, 0)] <= oldest)
            values = np.where(is_fresh, np.take_along_axis(members, np.maximum(last, 0), axis=-1), np.nan)

        # 4. Compute the shares; `members` is a copy, whose memory is used again.
        _fractions(values, members)
        shares[...] = np.nan
        shares[is_member] = members
        gone[place] = has_value.any(axis=-1) & np.isnan(shares).all(axis=-1)
    return share, gone


def _fractions(values: Array, out: Array) -> Array:
    """Return fractions of the total over the first axis, and the total; in blocks that fit into the cache."""
    totals = np.empty(values.shape[-1])
    for start in range(0, values.shape[-1], _BLOCK):
        block = values[:, start : start + _BLOCK]
        if (block < 0.0).any():
            raise ValueError("oi must be 0 or more, got a negative value: check the table with dd.quality")
        total = block.sum(axis=0, out=totals[start : start + _BLOCK])
        np.divide(block, np.where(total > 0, total, np.nan), out=out[:, start : start + _BLOCK])
    return totals


def _concentration(share: Array) -> tuple[Array, ...]:
    """Return the measures over the last axis, in blocks that fit into the cache."""
    rows = np.atleast_2d(share)
    figures = [np.empty(rows.shape[:-1]) for _ in _FIGURES]
    for place in np.ndindex(rows.shape[:-2]):
        for start in range(0, rows.shape[-2], _BLOCK):
            at = (*place, slice(start, start + _BLOCK))
            for into, figure in zip(figures, _figures(row_by_row(rows[at].T)), strict=True):
                into[at] = figure
    return tuple(figure.reshape(share.shape[:-1]) for figure in figures)


def _figures(block: Array) -> tuple[Any, ...]:
    """Return the measures of `hhi` over the first axis."""
    squares = _squares(block)
    count = np.full(block.shape[1], float(len(block)))
    if np.isnan(squares).any() or not len(block):  # without venues all measures are NaN
        has_share = ~np.isnan(block)
        has_any = has_share.any(axis=0)
        squares = np.where(has_any, _squares(np.where(has_share, block, 0.0)), np.nan)
        count = np.where(has_any, has_share.sum(axis=0), np.nan)
    floor = 1.0 / count
    with np.errstate(divide="ignore"):
        effective = 1.0 / squares
    normalised = (squares - floor) / np.where(count > 1, 1.0 - floor, np.nan)
    return squares, 1e4 * squares, effective, normalised, count


def _squares(block: Array) -> Array:
    """Return the sum of squares over the first axis, in its order for any memory layout."""
    if (block < 0.0).any():
        raise ValueError("share must be from 0 to 1, got a negative value")
    total = np.zeros(block.shape[1])
    square = np.empty(block.shape[1])
    for row in block:
        total += np.multiply(row, row, out=square)
    return total


# The interval of a trend. The variance of Kendall's S grows by the long-run variance of the residuals over
# their variance, 1 + 2 Σ ρ[k]. For an AR(1) that is (1 + φ)/(1 − φ), with φ the first autocorrelation. Two
# effects hide persistence from this figure. Each has its own estimate, and the largest of the three is used:
# - A daily cycle can make neighbours differ: φ is also estimated after removing the means by time of day.
# - Noise lowers all autocorrelations by one factor, but not the ratio of each to the one before. Where the
#   first two are significant, that ratio φ gives 1 + 2 ρ[1] / (1 − φ), as for an ARMA(1, 1).
_PAIRS = 1_000_000
_DAY_US = 86_400_000_000
_MIN_VALUES = 3
_ENOUGH = 8.0
"""Minimum number of independent values for an interval. With 6, one random walk in twelve would be reported
as a trend, with 8 one in twenty (table in docs/market-structure.md)."""
_RATIOS = 6  # ratios of autocorrelations that estimate φ
_LARGEST = 0.99  # maximum φ, so that the inflation is finite
_ROUNDING = 1e-12  # residuals up to this, relative to the largest share, are rounding


class TrendStatus(IntFlag):
    """Status bits of `share_trend`; 0 means that none applies."""

    TOO_FEW = 1 << 0
    """Fewer than three values: the slope is undefined."""
    CANNOT_TELL = 1 << 1
    """The values count as fewer than eight independent ones: they may be a random walk without a trend."""


@typed
def share_trend(share: xr.DataArray, *, ci: Literal["ar1", "iid"] = "ar1", level: float = 0.95) -> xr.Dataset:
    """Estimate the slope of shares per day (Theil–Sen), with an interval that allows for autocorrelation.

    Parameters
    ----------
    share
        Fractions with a ``time`` dim.
    ci
        ``"ar1"`` multiplies the variance of Kendall's S by (1 + φ)/(1 − φ), with φ of the detrended
        residuals, or by more if a daily cycle or noise hides φ. ``"iid"`` assumes independent values, which
        gives far too narrow intervals for persistent shares.
    level
        Nominal coverage of the interval.

    Returns
    -------
    Dataset
        ``slope``, ``low``, ``high`` [per day], ``phi``, ``n``, ``n_effective`` (number of independent values
        with the same information about a trend) and ``status`` (`TrendStatus`) over the other dims. NaN below
        three values. With the status ``cannot_tell``, ``n_effective`` is below 8, the values may be a random
        walk, and an interval without 0 may be chance. Above 3,000 values the slope is the median over a
        million pairs, drawn with a fixed seed.

    Raises
    ------
    ValueError
        No ``time`` dim, times that do not ascend without duplicates, or an unknown `ci`.

    Notes
    -----
    Sen (1968), JASA 63:1379. The interval's order statistics follow Kendall's S with ties corrected. Its
    coverage under persistence, cycles and noise is measured in docs/market-structure.md.
    """
    require_share(share, "time")
    require_level(level)
    if "time" in share.coords:
        require_times(share, "share")
        if share.sizes["time"]:
            hours(share, name="share")
    days = share["time"].values.astype("datetime64[us]").astype(np.int64) / _DAY_US
    # Steps per day, if a step divides the day and the data covers three days; used to remove daily cycles.
    slots = 1
    if days.size >= 3:
        step = float(np.median(np.diff(days)))
        steps_per_day = round(1.0 / step)
        if steps_per_day > 1 and abs(steps_per_day * step - 1.0) < 1e-6 and days.size >= 3 * steps_per_day:
            slots = steps_per_day
    per_day = dict.fromkeys(("slope", "low", "high"), "1/day")
    plain = ("phi", "n", "n_effective")
    result = figures_of(
        _theil_sen,
        share,
        units={**per_day, **dict.fromkeys(plain, "1"), "status": TrendStatus},
        vectorize=True,
        x=days - days[:1],
        slots=slots,
        inflate=ci == "ar1",
        z=float(ndtri(0.5 + level / 2)),
    )
    return result.assign_attrs(ci=ci, level=level)


def _theil_sen(y: Array, *, x: Array, slots: int, inflate: bool, z: float) -> tuple[Any, ...]:
    """Return slope, interval, φ, values, effective values and status of one series; see `share_trend`."""
    # 1. Compute the median slope over all pairs.
    finite = np.isfinite(y)
    x = x[finite]
    y = y[finite]
    n = y.size
    slopes = np.sort(_pair_slopes(x, y)) if n >= _MIN_VALUES else np.empty(0)
    if not slopes.size:  # too few values, or all at the same time
        return np.nan, np.nan, np.nan, np.nan, float(n), np.nan, int(TrendStatus.TOO_FEW)
    slope = float(np.median(slopes))

    # 2. Compute the spread of Kendall's S, which is wider for autocorrelated values.
    phi, inflation = _persistence(y, y - slope * x, x, slots) if inflate else (0.0, 1.0)
    _, ties = np.unique(y, return_counts=True)
    variance = (n * (n - 1) * (2 * n + 5) - (ties * (ties - 1) * (2 * ties + 5)).sum()) / 18
    spread = z * np.sqrt(variance * inflation) * slopes.size / (n * (n - 1) / 2)

    # 3. Take the corresponding order statistics on both sides as the interval.
    low = slopes[max(round((slopes.size - spread) / 2) - 1, 0)]
    high = slopes[min(round((slopes.size + spread) / 2), slopes.size - 1)]
    n_effective = n / inflation
    status = TrendStatus.CANNOT_TELL if inflate and n_effective < _ENOUGH else TrendStatus(0)
    return slope, float(low), float(high), phi, float(n), n_effective, int(status)


def _pair_slopes(x: Array, y: Array) -> Array:
    """Return the slopes of all pairs of values, or of a random sample above 3,000 values."""
    n = y.size
    if n <= 3000:
        i, j = np.triu_indices(n, 1)
    else:
        draw = np.random.default_rng(1968).integers(0, n, size=(2, _PAIRS))
        i, j = draw[:, draw[0] != draw[1]]
    run = x[j] - x[i]
    return np.asarray((y[j] - y[i])[run != 0] / run[run != 0])


def _persistence(y: Array, residuals: Array, days: Array, slots: int) -> tuple[float, float]:
    """Return φ of the residuals, corrected for its bias in short series, and the inflation of var S."""
    n = residuals.size
    level = residuals - residuals.mean()
    if np.abs(level).max() <= _ROUNDING * np.abs(y).max():
        return 0.0, 1.0

    # 1. Estimate φ from the first autocorrelation, with and without the mean of each time of day.
    rho = _autocorrelations(level)
    phi = _corrected(rho[0], n, 2.0)
    if slots > 1:
        slot = np.rint(days * slots).astype(np.intp) % slots
        count = np.bincount(slot, minlength=slots)
        means = np.bincount(slot, weights=level, minlength=slots) / np.maximum(count, 1)
        phi = max(phi, _corrected(_autocorrelations(level - means[slot])[0], n, 2.0))

    # 2. Noise lowers the first autocorrelation, but not the ratios of later ones: estimate φ from them too.
    inflation = (1.0 + phi) / (1.0 - phi)
    if min(rho[0], rho[1]) > 2.0 / np.sqrt(n):
        ratio = float(rho[1:] @ rho[:-1] / (rho[:-1] @ rho[:-1]))
        # The bias of the ratio is larger than that of ρ[1]: its correction is fitted to the simulations.
        inflation = max(inflation, 1.0 + 2.0 * rho[0] / (1.0 - _corrected(ratio, n, 5.0)))
    return phi, inflation


def _autocorrelations(centred: Array) -> Array:
    """Return autocorrelations of lags 1 to 7, 0 for a constant or too short series."""
    power = float(centred @ centred)
    lags = range(1, _RATIOS + 2)
    if power == 0.0 or centred.size < 5:
        return np.zeros(len(lags))
    return np.array([float(centred[lag:] @ centred[:-lag]) / power for lag in lags])


def _corrected(phi: float, n: int, bias: float) -> float:
    """Return an autocorrelation of n values, corrected for its bias of about ``−(4 φ + bias)/n``."""
    if n < 5:
        return 0.0
    return float(np.clip((n * phi + bias) / (n - 4), 0.0, _LARGEST))
