"""One rate for a market, and which markets there were: figures weighted and ranked by open interest."""

from __future__ import annotations

import numpy as np
import xarray as xr

from derivdata.analysis.panels import (
    Panel,
    figures_of,
    hours,
    labels_of,
    refuse_negative,
    require,
    require_rate,
)
from derivdata.analysis.settlements import held_settlements, newest_at
from derivdata.support.arguments import typed
from derivdata.support.arrays import Bools, Floats, Indices
from derivdata.units import RATE_UNIT, USD_UNIT


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
        Least share of the open interest that must have a rate.

    Returns
    -------
    Dataset, the panel's dims without ``exchange``
        ``rate_bps_8h``, ``Σ OI·rate / ΣOI`` over venues that have both; ``covered``, the share of all known
        open interest that these hold. The rate is NaN where `covered` is below `min_cover` or there is no
        open interest. A venue whose open interest is missing has no weight, and its size is not known to
        `covered`.

    Raises
    ------
    TypeError, ValueError
        A unit is another one or not stated; times or symbols differ; `min_cover` is no share.
    """
    panel = require_rate(panel, "exchange")
    oi_usd = require(oi_usd, "exchange", units=USD_UNIT, name="oi_usd")
    refuse_negative(oi_usd, "oi_usd")
    if not 0.0 <= min_cover <= 1.0:
        raise ValueError(f"{min_cover=} is a share of open interest, from 0 to 1")
    if set(oi_usd.dims) != set(panel.dims):
        raise ValueError(f"oi_usd has dims {tuple(oi_usd.dims)} and the panel {tuple(panel.dims)}")
    try:
        panel, weights = xr.align(panel, oi_usd, join="exact", exclude=["exchange"])
    except ValueError:
        raise ValueError("oi_usd has other times or symbols than the panel: align it first") from None
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
    result["rate_bps_8h"].attrs |= {k: v for k, v in panel.attrs.items() if k == "kind"}
    return result


@typed
def universe(oi_usd: Panel, top: int, *, lag_rows: int = 1) -> xr.DataArray:
    """Choose the symbols with the largest open interest, as it was known at each time.

    Parameters
    ----------
    oi_usd
        Open interest [USD], dims ``symbol``, ``time`` and perhaps ``exchange`` (which is added up, without
        what is missing), in memory or lazy (symbols and time are put into one chunk).
    top
        How many symbols.
    lag_rows
        Rows by which open interest is known later than its stamp. 0 uses the row itself.

    Returns
    -------
    DataArray of bool, the dims of `oi_usd` without ``exchange``
        Membership. A symbol without open interest at that time is no member. Of equal ones the first in
        the alphabet wins. In the first `lag_rows` rows there are none.

    Raises
    ------
    TypeError, ValueError
        `oi_usd` is not in USD or lacks a dim; `top` or `lag_rows` make no sense.

    Notes
    -----
    Choosing by today's list puts only survivors into the past. Give every symbol that was ever listed.
    """
    oi_usd = require(oi_usd, "symbol", "time", units=USD_UNIT, name="oi_usd")
    hours(oi_usd, name="oi_usd")
    refuse_negative(oi_usd, "oi_usd")
    if top < 1 or lag_rows < 0:
        raise ValueError(f"{top=}, {lag_rows=}: need at least one symbol and no look ahead")
    total = oi_usd.sum("exchange", min_count=1) if "exchange" in oi_usd.dims else oi_usd
    order = np.argsort(labels_of(oi_usd, "symbol"), kind="stable")
    shape = {"symbol": None}
    before = total.shift(time=lag_rows)
    units = {"member": np.bool_}
    found = figures_of(_members, before, units=units, over=["symbol"], into=shape, top=top, order=order)
    return found["member"].drop_attrs()


def _weighted(rates: Floats, weights: Floats, *, min_cover: float) -> tuple[Floats, Floats]:
    # Contiguous, so that sums do not depend on how the panel lies in memory.
    rates = np.ascontiguousarray(rates)
    weights = np.ascontiguousarray(weights)
    sized = np.where(weights > 0.0, weights, 0.0)
    both = np.isfinite(rates) & (sized > 0.0)
    total = sized.sum(axis=-1)
    rated = np.where(both, sized, 0.0).sum(axis=-1)
    some = rated > 0.0
    earned = np.where(both, rates * sized, 0.0).sum(axis=-1)
    covered = np.where(total > 0.0, rated / np.where(total > 0.0, total, 1.0), np.nan)
    rate = np.where(some & (covered >= min_cover), earned / np.where(some, rated, 1.0), np.nan)
    return rate, covered


def _members(total: Floats, *, top: int, order: Indices) -> Bools:
    sized = np.where(np.isfinite(total), -total, np.inf)[..., order]
    rank = np.argsort(sized, axis=-1, kind="stable")
    member = np.zeros(total.shape, dtype=np.bool_)
    np.put_along_axis(member, order[rank[..., :top]], True, axis=-1)
    return member & (total > 0.0)
