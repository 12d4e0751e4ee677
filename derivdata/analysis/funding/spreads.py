"""Differences between venues: of one pair or every pair, and how far all of them lie apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from derivdata.analysis.panels import Panel, figures_of, require_rate, require_venues, row_quantiles
from derivdata.analysis.settlements import at_common_stamps, held_settlements
from derivdata.support.arguments import typed
from derivdata.support.arrays import Floats
from derivdata.units import RATE_UNIT


@typed
def spread(panel: Panel, long: str | None = None, short: str | None = None) -> xr.DataArray:
    """Return the rate that a position earns, long on one venue and short on another.

    Parameters
    ----------
    panel
        Funding rates [bps/8h] with dim ``exchange``, in memory or lazy.
    long, short
        Venues; without both, every ordered pair, as many times larger as there are venues.

    Returns
    -------
    DataArray, the panel's dims without ``exchange``, of all pairs with ``(long, short)`` in its place
        ``rate(short) − rate(long)`` [bps/8h of one leg's notional], positive where the position is paid.
        NaN where either venue is; antisymmetric in the pair.

    Raises
    ------
    TypeError, ValueError
        `panel` is no funding panel in bps/8h, a venue is not in it, or only one is given.

    Notes
    -----
    Two settled rates of unequal interval stand at the same instant for unequal spans, and where only one
    venue settles there is no difference: `realised_carry` and `forecast_carry` take such pairs. Settlements
    stamped up to a minute past a whole hour stand at that hour.

    Examples
    --------
    >>> rates = dd.funding.history("BTC", "1d", venues=["binance", "hyperliquid"])
    >>> dd.analysis.funding.spread(rates, "binance", "hyperliquid").dims
    ('symbol', 'time')
    """
    panel = require_rate(panel, "exchange")
    if (long is None) != (short is None):
        raise ValueError("long and short go together: give both venues, or neither for every pair")
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
    earned.attrs = {"units": RATE_UNIT} | {k: v for k, v in panel.attrs.items() if k == "kind"}
    return earned


@typed
def dispersion(panel: Panel) -> xr.Dataset:
    """Measure how far the venues' rates lie apart at each symbol and time.

    Parameters
    ----------
    panel
        Funding rates [bps/8h] with dim ``exchange``, in memory or lazy (venues are put into one chunk). A
        settlement whose ``interval_hours`` the panel has is carried until the next one of its series is due,
        as in `best_pair`, so that venues that pay at different hours are compared.

    Returns
    -------
    Dataset, the panel's dims without ``exchange``
        ``std_bps_8h`` (n − 1), ``iqr_bps_8h`` (linear quartiles), ``range_bps_8h``, ``median_bps_8h``,
        ``venues`` (how many have a rate). A venue that is NaN is left out; the spreads are NaN below two
        venues, the median below one.

    Raises
    ------
    TypeError, ValueError
        `panel` is no funding panel in bps/8h.
    """
    panel = held_settlements(require_rate(panel, "exchange"))
    names = ("std_bps_8h", "iqr_bps_8h", "range_bps_8h", "median_bps_8h")
    units = {**dict.fromkeys(names, RATE_UNIT), "venues": np.int16}
    result = figures_of(_dispersion, panel, units=units, over=["exchange"])
    for name in names:
        result[name].attrs |= {k: v for k, v in panel.attrs.items() if k == "kind"}
    return result


def _dispersion(rates: Floats) -> tuple[Any, ...]:
    if not rates.shape[-1]:
        rates = np.full((*rates.shape[:-1], 1), np.nan)
    # Sorted and contiguous: the order of venues and of memory decides nothing, not even the last bit.
    ordered = np.sort(np.ascontiguousarray(np.where(np.isfinite(rates), rates, np.nan)), axis=-1)
    finite = np.isfinite(ordered)
    count = finite.sum(axis=-1)
    quarter, half, three, highest = row_quantiles(ordered, 0.25, 0.5, 0.75, 1.0)
    width = highest - ordered[..., 0]
    mean = np.where(finite, ordered, 0.0).sum(axis=-1) / np.maximum(count, 1)
    squares = np.square(np.where(finite, ordered - mean[..., None], 0.0)).sum(axis=-1)
    std = np.sqrt(squares / np.maximum(count - 1, 1))
    blank = [np.where(count < 2, np.nan, figure) for figure in (std, three - quarter, width)]
    return *blank, half, count.astype(np.int16)
