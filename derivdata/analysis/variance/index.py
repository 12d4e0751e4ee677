"""One number for a market: the volatility of the next 30 days."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from derivdata.analysis.inputs import require_variables
from derivdata.analysis.labelling import with_units
from derivdata.analysis.status import Status
from derivdata.analysis.surface.clock import Clock, Reading, clock_of, origin_us, share_of
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
    0.481
    """
    days = length(horizon, "horizon") / pd.Timedelta(1, "D")
    if days == 0.0:
        raise ValueError(f"horizon={horizon!r} is not a time ahead")
    missing = [name for name in ("total_variance", "year_fraction") if name not in variance]
    if missing or "expiry" not in variance["total_variance"].dims:
        raise ValueError(
            f"the variances have no {', '.join(missing) or 'dim expiry'}: give model_free's result"
        )
    require_variables(variance, "variance", ("total_variance", "year_fraction"))
    if not variance.sizes["expiry"]:
        raise ValueError("variance has no expiries")
    absent = xr.full_like(variance["total_variance"], np.nan)
    bounds = [name for name in ("lower", "upper") if name in variance]
    parts = [variance.get(name, absent) for name in ("year_fraction", "total_variance", "lower", "upper")]
    status = variance.get("status", xr.zeros_like(absent, dtype=np.int32))
    years = parts[0].reset_coords(drop=True)
    ahead = xr.DataArray(days / _YEAR)
    seen = [Reading(each, xr.zeros_like(each), each) for each in (years, ahead)]
    if clock is not None:
        rules, origin = clock_of(clock), origin_us(variance, "variance")
        seen = [rules.read(origin, each) for each in (years, ahead)]
    outputs = xr.apply_ufunc(
        _index,
        *(_whole(part) for part in (*parts, status, *seen[0][:2])),
        *seen[1][:2],
        kwargs={"days": days},
        input_core_dims=[["expiry"]] * 7 + [[]] * 2,
        output_core_dims=[[]] * len(_OUT),
        dask="parallelized",
        output_dtypes=[np.float64] * 6 + [np.int32],
    )
    index = xr.Dataset(dict(zip(_OUT, outputs, strict=True)), attrs=variance.attrs | {"days": days})
    index = index.drop_vars([name for name in ("lower", "upper") if name not in bounds])
    return with_units(index, _UNITS)


def _whole(part: xr.DataArray) -> xr.DataArray:
    return part.chunk(expiry=-1) if part.chunks else part


def _index(
    t: Floats,
    w: Floats,
    lower: Floats,
    upper: Floats,
    status: NDArray[np.int32],
    *seen: Floats,
    days: float,
) -> tuple[Any, ...]:
    t, w = np.broadcast_arrays(t, w)
    time, events, time_ahead, events_ahead = seen
    horizon = days / _YEAR
    usable = np.isfinite(w) & (t > 0.0)
    early = np.where(usable & (t <= horizon), t, -np.inf)
    late = np.where(usable & (t >= horizon), t, np.inf)
    near, next_ = early.argmax(axis=-1)[..., None], late.argmin(axis=-1)[..., None]
    t0, t1 = (np.take_along_axis(part, at, -1)[..., 0] for part, at in ((early, near), (late, next_)))
    around = np.isfinite(t0) & np.isfinite(t1)
    t0, t1 = np.where(around, t0, np.nan), np.where(around, t1, np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        (passed, whole), (happened, added) = (
            (ahead - _at(each, near), _at(each, next_) - _at(each, near))
            for each, ahead in ((time, time_ahead), (events, events_ahead))
        )
        even = np.where(whole > 0.0, passed / whole, (horizon - t0) / (t1 - t0))
        later, _ = share_of(_at(w, next_) - _at(w, near), even, added=added, happened=happened)
        share = np.where(t1 > t0, 1.0 - later, np.where(around, 1.0, np.nan))
        mixed = [share * _at(each, near) + (1.0 - share) * _at(each, next_) for each in (w, lower, upper)]
        volatilities = [np.sqrt(each / horizon) for each in mixed]
    flags = np.where(around, _at(status, near) | _at(status, next_), np.int32(Status.EXTRAPOLATED))
    return *volatilities, t0 * _YEAR, t1 * _YEAR, share, flags


def _at(values: NDArray[Any], at: NDArray[np.intp]) -> NDArray[Any]:
    shape = np.broadcast_shapes(values.shape[:-1], at.shape[:-1])
    full = np.broadcast_to(values, (*shape, values.shape[-1]))
    return np.take_along_axis(full, np.broadcast_to(at, (*shape, 1)), -1)[..., 0]
