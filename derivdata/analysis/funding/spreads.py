"""Statistics across venues: spreads, dispersion, correlation, and rates weighted by open interest."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.funding.accrual import prepare, sums_of
from derivdata.analysis.labelling import applied
from derivdata.analysis.panels import (
    Panel,
    broadcast_companion,
    figures_of,
    hours,
    hours_of,
    kind_attr,
    labels_of,
    refuse_negative,
    require,
    require_rate,
    require_venues,
    row_quantiles,
    whole,
)
from derivdata.analysis.settlements import at_common_stamps, held_settlements, newest_at
from derivdata.analysis.status import FundingStatus, flag_attrs
from derivdata.support.arguments import typed
from derivdata.support.arrays import Bools, Floats, Indices
from derivdata.units import HOUR_UNIT, RATE_UNIT, USD_UNIT


@typed
def spread(panel: Panel, long: str | None = None, short: str | None = None) -> xr.DataArray:
    """Compute the rate earned by a position that is long on one venue and short on another.

    Parameters
    ----------
    panel
        Funding rates [bps/8h] with dim ``exchange``, in memory or lazy.
    long, short
        Venues of the legs. Without both, the result has every ordered pair, and is larger than the panel by
        the number of venues.

    Returns
    -------
    DataArray, the panel's dims without ``exchange``, of all pairs with ``(long, short)`` in its place
        ``rate(short) − rate(long)`` [bps/8h of one leg's notional], positive where the position is paid. NaN
        where either rate is NaN; antisymmetric in the pair.

    Raises
    ------
    TypeError, ValueError
        `panel` is not a funding panel in bps/8h, a venue is not in it, or only one is given.

    Notes
    -----
    Two settled rates with different intervals cover different spans, and at a time when only one venue
    settles the spread is NaN. Use `realised_carry` and `forecast_carry` for such pairs. Settlements up to a
    minute after a whole hour count at that hour.

    Examples
    --------
    >>> rates = dd.funding.history("BTC", "1d", venues=["binance", "hyperliquid"])
    >>> dd.analysis.funding.spread(rates, "binance", "hyperliquid").dims
    ('symbol', 'time')
    """
    panel = require_rate(panel, "exchange")
    if (long is None) != (short is None):
        raise ValueError("long and short must be passed together: pass both venues, or neither for all pairs")
    panel = at_common_stamps(panel)
    if long is None or short is None:
        earned = panel.rename(exchange="short") - panel.rename(exchange="long")
        at = panel.dims.index("exchange")
        order = [*panel.dims[:at], "long", "short", *panel.dims[at + 1 :]]
        earned = earned.transpose(*order)
    else:
        require_venues(panel, long=long, short=short)
        earned = panel.sel(exchange=short, drop=True) - panel.sel(exchange=long, drop=True)
        earned = earned.assign_coords(long=long, short=short)
    earned.name = "spread_bps_8h"
    earned.attrs = {"units": RATE_UNIT} | kind_attr(panel)
    return earned


@typed
def dispersion(panel: Panel) -> xr.Dataset:
    """Compute the dispersion of the venues' rates at each symbol and time.

    Parameters
    ----------
    panel
        Funding rates [bps/8h] with dim ``exchange``, in memory or lazy (venues are put into one chunk). A
        settlement whose ``interval_hours`` the panel has is carried until the next one of its series is due,
        as in `best_pair`, so venues that pay at different hours can be compared.

    Returns
    -------
    Dataset, the panel's dims without ``exchange``
        ``std_bps_8h`` (n − 1), ``iqr_bps_8h`` (linear quartiles), ``range_bps_8h``, ``median_bps_8h``,
        ``venues`` (number with a rate). NaN venues are ignored; the spreads are NaN below two venues, the
        median below one.

    Raises
    ------
    TypeError, ValueError
        `panel` is not a funding panel in bps/8h.
    """
    panel = held_settlements(require_rate(panel, "exchange"))
    names = ("std_bps_8h", "iqr_bps_8h", "range_bps_8h", "median_bps_8h")
    units = {**dict.fromkeys(names, RATE_UNIT), "venues": np.int16}
    result = figures_of(_dispersion, panel, units=units, over=["exchange"])
    for name in names:
        result[name].attrs |= kind_attr(panel)
    return result


def _dispersion(rates: Floats) -> tuple[Any, ...]:
    """Return std, interquartile range, range, median and count over the last axis, the venues."""
    if not rates.shape[-1]:
        rates = np.full((*rates.shape[:-1], 1), np.nan)
    # Sorted and contiguous, so that the last bit does not depend on the order of venues or on the memory
    # layout.
    ordered = np.sort(np.ascontiguousarray(np.where(np.isfinite(rates), rates, np.nan)), axis=-1)
    finite = np.isfinite(ordered)
    count = finite.sum(axis=-1)
    first_quartile, median, third_quartile, highest = row_quantiles(ordered, 0.25, 0.5, 0.75, 1.0)
    mean = np.where(finite, ordered, 0.0).sum(axis=-1) / np.maximum(count, 1)
    squares = np.square(np.where(finite, ordered - mean[..., None], 0.0)).sum(axis=-1)
    std = np.sqrt(squares / np.maximum(count - 1, 1))
    is_single = count < 2
    std = np.where(is_single, np.nan, std)
    interquartile_range = np.where(is_single, np.nan, third_quartile - first_quartile)
    full_range = np.where(is_single, np.nan, highest - ordered[..., 0])
    return std, interquartile_range, full_range, median, count.astype(np.int16)


_MAX_LAGS = 10_000


@typed
def comovement(
    panel: Panel,
    *,
    period: str | pd.Timedelta = "8h",
    method: Literal["pearson", "spearman"] = "pearson",
    max_lag: int = 0,
    min_periods: int = 30,
    age_hours: xr.DataArray | None = None,
    max_filled: float = 0.2,
    overlap: Literal["raise", "nan"] = "raise",
) -> xr.Dataset:
    """Correlate the funding of venues, summed over periods that do not overlap.

    Parameters
    ----------
    panel
        Funding rates [bps/8h] with a ``kind``, dims ``exchange`` and ``time``, in memory or lazy (both are
        put into one chunk).
    period
        Length of the periods, counted from 00:00 UTC; at least every venue's interval.
    method
        ``"pearson"`` or ``"spearman"`` (ranks, ties averaged).
    max_lag
        Largest lead and lag, in whole periods.
    min_periods
        Periods that a pair must share.
    age_hours
        Samples only: age of each rate [h], as returned by `derivdata.analysis.align`. A rate older than one
        step counts as filled.
    max_filled
        Share of filled hours above which a venue is excluded, because carried rates correlate by
        construction.
    overlap
        As in `cumulative`.

    Returns
    -------
    Dataset, the panel's dims with ``(first, second)`` in place of ``exchange`` and ``time``
        ``correlation`` (first, second, lag): of `first` at a period with `second` `lag` periods later;
        ``periods``, their number; ``top_share``, share of the first eigenvalue of the matrix at lag 0, over
        the venues that correlate with all others; ``filled_share`` and ``status`` by ``exchange``. NaN if a
        pair shares too few periods, a venue is excluded (status ``filled``) or does not vary.

    Raises
    ------
    TypeError, ValueError
        As `cumulative`; an option is out of range.
    """
    panel = require_rate(panel, "exchange", "time")
    if not 0 <= max_lag <= _MAX_LAGS or min_periods < 3 or not 0.0 <= max_filled <= 1.0:
        raise ValueError(
            f"max_lag must be 0 to {_MAX_LAGS:,}, min_periods at least 3 and max_filled a share from 0 to "
            f"1, got {max_lag!r}, {min_periods!r} and {max_filled!r}"
        )

    # 1. Sum over periods, without venues whose rates are mostly carried forward.
    hours = hours_of(period, "period")
    prepared = prepare(panel, overlap=overlap)
    if age_hours is not None:
        if prepared.settled:
            raise ValueError(
                "age_hours= applies only to sampled rates; settlements are not carried forward: omit it"
            )
        age = whole(broadcast_companion(panel, age_hours, units=HOUR_UNIT, name="age_hours"), "time")
        fresh_rates = prepared.arrays[0].where(age < prepared.step)
        prepared = prepared._replace(arrays=(fresh_rates,))
    sums = sums_of(prepared, hours)
    filled_hours = sums["filled"].where(sums["amount"].notnull())
    filled = filled_hours.mean("time") / hours
    amounts = sums["amount"].where(filled <= max_filled).transpose(..., "exchange", "time")

    # 2. Correlate all pairs at all lags.
    names = labels_of(panel, "exchange")
    lags = np.arange(-max_lag, max_lag + 1)
    figures = applied(
        partial(_lagged_correlations, lags=lags, min_periods=min_periods, method=method),
        whole(amounts, "exchange", "time"),
        core=[["exchange", "time"]],
        out=[["first", "second", "lag"], ["first", "second", "lag"], []],
        types=[np.float64, np.int32, np.float64],
        sizes={"first": names.size, "second": names.size, "lag": lags.size},
    )
    variables = dict(zip(("correlation", "periods", "top_share"), figures, strict=True))
    status = (filled > max_filled) * FundingStatus.FILLED.value
    status = (status + filled.isnull() * FundingStatus.TOO_FEW.value).astype(np.int32)
    result = xr.Dataset({**variables, "filled_share": filled, "status": status}).drop_attrs()
    result["status"].attrs = flag_attrs(FundingStatus)
    return result.assign_coords(first=names, second=names, lag=lags)


def _lagged_correlations(sums: Floats, *, lags: Any, min_periods: int, method: str) -> tuple[Any, ...]:
    """Return correlation and shared periods (..., first, second, lag), and `_top_share` at lag 0.

    `sums` has the dims (..., venue, period); `lags` contains 0.
    """
    venues = sums.shape[-2]
    correlation = np.full((*sums.shape[:-2], venues, venues, lags.size), np.nan)
    periods = np.zeros(correlation.shape, dtype=np.int32)
    top = np.full(sums.shape[:-2], np.nan)
    for market in np.ndindex(sums.shape[:-2]):
        for place, lag in enumerate(map(int, lags)):
            # Compare the first venue at a period with the second `lag` periods later.
            overlap = max(sums.shape[-1] - abs(lag), 0)
            first = sums[market][:, max(-lag, 0) :][:, :overlap]
            second = sums[market][:, max(lag, 0) :][:, :overlap]
            # pandas correlates all columns with each other. Of the columns of both sides, the upper right
            # block has `first` against `second`; at lag 0 the sides are equal and one is enough.
            sides = [first, second] if lag else [first]
            correlations = pd.DataFrame(np.concatenate(sides).T).corr(method, min_periods=min_periods)
            correlation[(*market, ..., place)] = correlations.to_numpy()[:venues, -venues:]
            is_finite = np.isfinite(first).astype(np.float64)
            is_finite_later = np.isfinite(second).astype(np.float64)
            periods[(*market, ..., place)] = np.einsum("at,bt->ab", is_finite, is_finite_later)
        top[market] = _top_share(correlation[(*market, ..., int(np.flatnonzero(lags == 0)[0]))])
    return correlation, periods, top


def _top_share(matrix: Floats) -> float:
    """Return the largest eigenvalue of a correlation matrix divided by its size; NaN below two venues.

    Venues with missing correlations are left out: the one with the most first, until none is missing.
    """
    is_finite = np.isfinite(matrix)
    venues = np.flatnonzero(np.diag(is_finite))
    while venues.size:
        correlations_per_venue = is_finite[np.ix_(venues, venues)].sum(axis=1)
        if correlations_per_venue.min() == venues.size:
            break
        venues = np.delete(venues, np.argmin(correlations_per_venue))
    if venues.size < 2:
        return float("nan")
    return float(np.linalg.eigvalsh(matrix[np.ix_(venues, venues)])[-1] / venues.size)


@typed
def oi_weighted(panel: Panel, oi_usd: Panel, *, min_cover: float = 0.5) -> xr.Dataset:
    """Average the funding rates of a symbol over its venues, weighted by open interest.

    Parameters
    ----------
    panel
        Funding rates [bps/8h] with dim ``exchange``, in memory or lazy (venues are put into one chunk).
        Settlements are carried until the next one of their series is due, as in `best_pair`.
    oi_usd
        Open interest [USD] as it was known at each time, over the panel's dims and labels; it may have
        other venues.
    min_cover
        Minimum share of the open interest that must have a rate.

    Returns
    -------
    Dataset, the panel's dims without ``exchange``
        ``rate_bps_8h``, ``Σ OI·rate / ΣOI`` over venues that have both; ``covered``, their share of all known
        open interest. The rate is NaN if `covered` is below `min_cover` or without open interest. A venue
        with missing open interest has no weight, and `covered` does not include its size.

    Raises
    ------
    TypeError, ValueError
        A unit is different or missing; `oi_usd` has other dims, times or symbols than the panel; `min_cover`
        is not a fraction.
    """
    panel = require_rate(panel, "exchange")
    oi_usd = require(oi_usd, "exchange", units=USD_UNIT, name="oi_usd")
    refuse_negative(oi_usd, "oi_usd")
    if not 0.0 <= min_cover <= 1.0:
        raise ValueError(f"min_cover must be a share of open interest from 0 to 1, got {min_cover!r}")
    if set(oi_usd.dims) != set(panel.dims):
        raise ValueError(
            f"oi_usd must have the dims of the panel, {tuple(panel.dims)}, got {tuple(oi_usd.dims)}"
        )
    try:
        panel, weights = xr.align(panel, oi_usd, join="exact", exclude=["exchange"])
    except ValueError:
        raise ValueError("oi_usd must have the times and symbols of the panel: align it first") from None
    rates = held_settlements(panel)
    rates, weights = xr.align(rates, newest_at(weights, rates), join="outer")
    result = figures_of(
        _weighted,
        rates,
        weights,
        units={"rate_bps_8h": RATE_UNIT, "covered": "1"},
        over=["exchange"],
        min_cover=min_cover,
    )
    result["rate_bps_8h"].attrs |= kind_attr(panel)
    return result


@typed
def universe(oi_usd: Panel, top: int, *, lag_rows: int = 1) -> xr.DataArray:
    """Select the symbols with the largest open interest known at each time.

    Parameters
    ----------
    oi_usd
        Open interest [USD], dims ``symbol``, ``time`` and optionally ``exchange`` (which is added up,
        ignoring missing values), in memory or lazy (symbols and time are put into one chunk).
    top
        Number of symbols.
    lag_rows
        Number of rows after which open interest is known; 0 uses the row itself.

    Returns
    -------
    DataArray of bool, the dims of `oi_usd` without ``exchange``
        Membership. A symbol without open interest at that time is not a member. Ties are broken
        alphabetically. The first `lag_rows` rows have no members.

    Raises
    ------
    TypeError, ValueError
        `oi_usd` is not in USD or lacks a dim; `top` or `lag_rows` are out of range.

    Notes
    -----
    A list of today's symbols has survivorship bias: pass every symbol that was ever listed.
    """
    oi_usd = require(oi_usd, "symbol", "time", units=USD_UNIT, name="oi_usd")
    hours(oi_usd, name="oi_usd")
    refuse_negative(oi_usd, "oi_usd")
    if top < 1 or lag_rows < 0:
        raise ValueError(
            f"top must be at least 1 and lag_rows 0 or more (no look ahead), got {top!r} and {lag_rows!r}"
        )
    total = oi_usd.sum("exchange", min_count=1) if "exchange" in oi_usd.dims else oi_usd
    figures = figures_of(
        _members,
        total.shift(time=lag_rows),
        units={"member": np.bool_},
        over=["symbol"],
        into={"symbol": None},
        top=top,
        alphabetical=np.argsort(labels_of(oi_usd, "symbol"), kind="stable"),
    )
    return figures["member"].drop_attrs()


def _weighted(rates: Floats, weights: Floats, *, min_cover: float) -> tuple[Floats, Floats]:
    """Return the weighted mean rate over the last axis, and the share of the weights that have a rate."""
    # Contiguous, so that sums do not depend on the memory layout of the panel.
    rates = np.ascontiguousarray(rates)
    weights = np.ascontiguousarray(weights)
    weights = np.where(weights > 0.0, weights, 0.0)
    has_both = np.isfinite(rates) & (weights > 0.0)
    total = weights.sum(axis=-1)
    total_with_rate = np.where(has_both, weights, 0.0).sum(axis=-1)
    weighted_sum = np.where(has_both, rates * weights, 0.0).sum(axis=-1)
    # A divisor of 0 is replaced by NaN, which gives NaN without a warning.
    covered = total_with_rate / np.where(total > 0.0, total, np.nan)
    rate = weighted_sum / np.where(total_with_rate > 0.0, total_with_rate, np.nan)
    return np.where(covered >= min_cover, rate, np.nan), covered


def _members(total: Floats, *, top: int, alphabetical: Indices) -> Bools:
    """Mark the `top` largest positive values of the last axis; of ties, the first in `alphabetical` order."""
    # A stable sort keeps ties in their order, so the symbols are put in alphabetical order first.
    descending = np.where(np.isfinite(total), -total, np.inf)[..., alphabetical]
    largest = alphabetical[np.argsort(descending, axis=-1, kind="stable")[..., :top]]
    member = np.zeros(total.shape, dtype=np.bool_)
    np.put_along_axis(member, largest, True, axis=-1)
    return member & (total > 0.0)
