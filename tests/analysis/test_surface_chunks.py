"""Fits that are treated a few slices at a time."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from derivdata.analysis.surface.chunks import in_chunks


@pytest.mark.parametrize(
    ("most", "whole", "sizes"),
    [
        (6, (), [6]),
        (3, (), [2, 2, 2]),
        (1, (), [1, 1, 1, 1, 1, 1]),
        (1, ("expiry",), [3, 3]),
        (1, ("expiry", "symbol"), [6]),
    ],
)
def test_no_call_gets_more_slices_than_it_may_have(
    most: int, whole: tuple[str, ...], sizes: list[int]
) -> None:
    """Two symbols of three expiries; what must stay whole is not cut."""
    method = (("symbol", "expiry"), np.arange(6.0).reshape(2, 3))
    fit = xr.Dataset({"method": method}, {"symbol": ["BTC", "ETH"], "expiry": [1, 2, 3]})
    seen: list[int] = []

    def doubled(part: xr.Dataset) -> xr.Dataset:
        seen.append(part["method"].size)
        return part * 2

    found = in_chunks(doubled, fit, most=most, whole=whole)
    assert seen == sizes
    xr.testing.assert_identical(found, fit * 2)
