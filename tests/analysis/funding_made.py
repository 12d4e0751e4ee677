"""Hand-made funding panels for tests of the funding analysis."""

from typing import Any

import numpy as np
import xarray as xr

START = np.datetime64("2026-01-01T00:00", "us")


def times(hours: Any) -> np.ndarray:
    """Times some hours after `START`."""
    return START + np.round(np.asarray(hours, dtype=float) * 3.6e9).astype("timedelta64[us]")


def series(values: Any, *, step: float = 8.0, hours: Any = None, kind: str = "settled") -> xr.DataArray:
    """One series over time; the first row is one step after `START` if settled, at `START` if sampled.

    Settlements pay for `step` hours each.
    """
    values = np.asarray(values, dtype=float)
    if hours is None:
        hours = (np.arange(values.size) + (kind == "settled")) * step
    coords = {"time": times(hours)} | ({"interval_hours": step} if kind == "settled" else {})
    return xr.DataArray(values, dims="time", coords=coords, attrs={"units": "bps/8h", "kind": kind})


def market(values: Any, *, step: float = 8.0, kind: str = "settled", venues: Any = None) -> xr.DataArray:
    """A panel ``(symbol, exchange, time)`` of an array of that shape."""
    values = np.asarray(values, dtype=float)
    venues = [f"v{i:02d}" for i in range(values.shape[1])] if venues is None else venues
    own = {"interval_hours": step} if kind == "settled" else {}
    return xr.DataArray(
        values,
        dims=("symbol", "exchange", "time"),
        coords=own
        | {
            "symbol": [f"S{i}" for i in range(values.shape[0])],
            "exchange": venues,
            "time": times((np.arange(values.shape[2]) + (kind == "settled")) * step),
        },
        attrs={"units": "bps/8h", "kind": kind},
    )


def noisy(
    *,
    symbols: int = 2,
    venues: int = 4,
    rows: int = 80,
    kind: str = "settled",
    gaps: float = 0.1,
    seed: int = 1,
) -> xr.DataArray:
    """Persistent random rates with missing values."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(symbols, venues, rows)).cumsum(axis=-1) * 0.3 + rng.normal(
        size=(symbols, venues, 1)
    )
    values[rng.random(values.shape) < gaps] = np.nan
    return market(values, kind=kind)


def dollars(panel: xr.DataArray, *, seed: int = 2, gaps: float = 0.1) -> xr.DataArray:
    rng = np.random.default_rng(seed)
    values = rng.lognormal(15.0, 1.0, panel.shape)
    values[rng.random(panel.shape) < gaps] = np.nan
    return (
        panel.copy(data=values)
        .drop_vars("interval_hours", errors="ignore")
        .drop_attrs()
        .assign_attrs(units="USD")
        .rename("oi_usd")
    )
