"""Comparisons of results without the record of the call, which differs for equal results of other inputs."""

from __future__ import annotations

from typing import Any

import xarray as xr

from derivdata.support.calls import ATTRIBUTE


def attrs_of(result: Any) -> dict[str, Any]:
    """Return the attributes without the record of the call."""
    return {name: value for name, value in result.attrs.items() if name != ATTRIBUTE}


def bare(result: Any) -> Any:
    """Return a result without the record of its call."""
    copied = result.copy(deep=False)
    copied.attrs = attrs_of(result)
    return copied


def assert_identical(one: Any, other: Any) -> None:
    """Require equal values, labels and attributes, except the record of the call."""
    xr.testing.assert_identical(bare(one), bare(other))
