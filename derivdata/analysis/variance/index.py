"""One number for a market: the volatility of the next 30 days."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from derivdata.analysis.inputs import require_variables
from derivdata.analysis.labelling import applied, with_units
from derivdata.analysis.status import Status
from derivdata.analysis.surface.clock import Clock, read_times
from derivdata.analysis.surface.maturity import neighbours, take
from derivdata.support.arguments import typed
from derivdata.support.arrays import Floats
from derivdata.support.times import length
from derivdata.units import HOURS_PER_YEAR

_YEAR = HOURS_PER_YEAR / 24.0
_OUT = ("index", "lower", "upper", "near_days", "next_days", "near_share", "status")
_UNITS = (
    dict.fromkeys(("index", "lower", "upper"), "1/sqrt(year)")
    | dict.fromkeys(("near_days", "next_days"), "days")
    | {"near_share": "1"}
)


@typed
def volatility_index(
    variance: xr.Dataset, *, horizon: str | pd.Timedelta = "30d", clock: Clock | None = None
) -> xr.Dataset:
    """Compute a volatility index from the two expiries around a fixed number of days.

    Parameters
    ----------
    variance
        Result of `model_free` or `cboe` with dim ``expiry`` and ``year_fraction`` [years]; of its variables
        ``total_variance`` is needed, ``lower`` and ``upper`` are used.
    horizon
        Time that the index looks ahead, ``"30d"`` or a Timedelta.
    clock
        As in `derivdata.analysis.surface.iv`; published indices have none.

    Returns
    -------
    Dataset over the other dims
        ``index`` [per √year], ``√(w/T)`` of the total variance interpolated linearly in time, or as the clock
        has it; ``lower`` and ``upper``, the same of the bounds, where there are any; ``near_days`` and
        ``next_days``, the expiries used, and ``near_share``, the weight of the first. ``status``: all
        that the two expiries say; ``EXTRAPOLATED`` and NaN where no two expiries with a variance lie
        around `horizon`.

    Raises
    ------
    ValueError
        `horizon` is not a length of time above 0; the Dataset has no expiries or no total variance.

    Notes
    -----
    The interpolation is that of the Cboe's index. What goes into the variances differs from index to index
    (filters, prices, wings), so this is nobody's published index unless its inputs are.

    Examples
    --------
    >>> surface = dd.analysis.surface.from_chain(dd.options.snapshot("BTC", "deribit"))
    >>> index = dd.analysis.variance.volatility_index(dd.analysis.variance.model_free(surface))
    >>> round(index["index"].item(), 3)
    0.477
    """
    days = length(horizon, "horizon") / pd.Timedelta(1, "D")
    if days == 0.0:
        raise ValueError(f"horizon={horizon!r} is not a time ahead")
    require_variables(variance, "variance", ("total_variance", "year_fraction"))
    if not variance["total_variance"].sizes.get("expiry"):
        raise ValueError("variance has no total_variance over dim expiry: give model_free's result")
    absent = xr.full_like(variance["total_variance"], np.nan)
    bounds = [name for name in ("lower", "upper") if name in variance]
    parts = [variance.get(name, absent) for name in ("year_fraction", "total_variance", "lower", "upper")]
    status = variance.get("status", xr.zeros_like(absent, dtype=np.int32))
    years, ahead = parts[0].reset_coords(drop=True), xr.DataArray(days / _YEAR)
    at_expiries, at_horizon = read_times(variance, clock, years, ahead, argument="variance")
    outputs = applied(
        _index,
        *(part.chunk(expiry=-1) if part.chunks else part for part in (*parts, status, *at_expiries[:2])),
        *(ahead, *at_horizon),
        core=[["expiry"]] * 7 + [[]] * 4,
        out=[[]] * len(_OUT),
        types=[np.float64] * 6 + [np.int32],
    )
    index = xr.Dataset(dict(zip(_OUT, outputs, strict=True)), attrs=variance.attrs | {"days": days})
    index = index.drop_vars([name for name in ("lower", "upper") if name not in bounds])
    return with_units(index, _UNITS)


def _index(
    t: Floats, w: Floats, lower: Floats, upper: Floats, status: NDArray[np.int32], *clock: Floats
) -> tuple[Any, ...]:
    t, w = np.broadcast_arrays(t, w)
    usable = np.isfinite(w) & (t > 0.0)
    before, after, share, share_after, _, said = neighbours(t, usable, w, *clock, flat_beyond=False)
    horizon, lone = clock[2], Status.SHORT_EXTRAPOLATION | Status.EXTRAPOLATED | Status.BAD_INPUT
    around = (said[..., 0] & np.int32(lone)) == 0

    def at_both(values: NDArray[Any]) -> list[NDArray[Any]]:
        return [take(values, place[..., 0]) for place in (before, after)]

    shares = [np.where(around, part[..., 0], np.nan) for part in (share, share_after)]
    with np.errstate(invalid="ignore"):
        mixed = [
            sum(part * value for part, value in zip(shares, at_both(each), strict=True))
            for each in (w, lower, upper)
        ]
        volatilities = [np.sqrt(each / horizon) for each in mixed]
    days = [np.where(around, each * _YEAR, np.nan) for each in at_both(t)]
    one, other = at_both(status)
    return *volatilities, *days, shares[0], np.where(around, one | other, np.int32(Status.EXTRAPOLATED))
