"""What every function of open interest asks of its input."""

from __future__ import annotations

import xarray as xr

from derivdata.analysis.inputs import require_numbers


def has(data: xr.DataArray, *dims: str, name: str = "share") -> None:
    absent = [dim for dim in dims if dim not in data.dims]
    if absent:
        raise ValueError(f"{name} has no dim {absent[0]!r}, but {', '.join(map(str, data.dims))}")
    require_numbers(data, name)


def wants(oi: xr.DataArray, *dims: str) -> None:
    has(oi, *dims, name="oi")
    if not oi.attrs.get("units"):
        raise ValueError("open interest must say its unit: oi.attrs['units'] = 'USD', or 'coin'")
