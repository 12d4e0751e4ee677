"""What every function of open interest asks of its input."""

from __future__ import annotations

import xarray as xr


def has(data: xr.DataArray, *dims: str) -> None:
    absent = [dim for dim in dims if dim not in data.dims]
    if absent:
        raise ValueError(f"no dim {absent[0]!r}; the array has {', '.join(map(str, data.dims))}")


def wants(oi: xr.DataArray, *dims: str) -> None:
    has(oi, *dims)
    if not oi.attrs.get("units"):
        raise ValueError("open interest must say its unit: oi.attrs['units'] = 'USD', or 'coin'")
