"""Bumps on an SVI slice: what five parameters cannot follow, within the quotes and nowhere else.

A slice with bumps is ``w(k) = SVI(k) + Σ hᵢ φ(k/u − cᵢ)``. The unit u is the root of the SVI slice's total
variance at the money, and ``φ(z) = (1 − (z/R)²)⁶`` for ``|z| < R`` and 0 beyond: nearly a normal density of
deviation 0.8, with five continuous derivatives. Beyond 6.77 units the slice is exactly its SVI slice, so that
everything proved of the wings of SVI holds for it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from derivdata.support.arrays import Floats

CENTRES = (-4.0, -2.25, -1.0, 0.0, 1.0, 2.25, 4.0)
"""Middles of the bumps, in units of the root of total variance at the money."""

_POWER = 6
_RADIUS = 0.8 * float(np.sqrt(2.0 * _POWER))
REACH = CENTRES[-1] + _RADIUS
"""Distance from the money beyond which there are no bumps, in the same unit."""


class Bumped(NamedTuple):
    """A slice of raw SVI with bumps: `bump_1` and so on are their heights in total variance."""

    a: Any
    b: Any
    rho: Any
    m: Any
    sigma: Any
    bump_unit: Any
    bump_1: Any
    bump_2: Any
    bump_3: Any
    bump_4: Any
    bump_5: Any
    bump_6: Any
    bump_7: Any


RAW_SIZE = 5
BUMP_NAMES = Bumped._fields[RAW_SIZE:]


def parameter_names(fit: xr.Dataset) -> tuple[str, ...]:
    """List the variables of a fit that hold the parameters of its slices."""
    return Bumped._fields if BUMP_NAMES[0] in fit.variables else Bumped._fields[:RAW_SIZE]


def filled_bumps(fit: xr.Dataset) -> xr.Dataset:
    """Return a fit where slices without bumps have heights of 0, after labels were added to it."""
    if BUMP_NAMES[0] not in fit.variables:
        return fit
    empty = {name: fit[name].fillna(0.0 if name != BUMP_NAMES[0] else 1.0) for name in BUMP_NAMES}
    return fit.assign({name: part.assign_attrs(fit[name].attrs) for name, part in empty.items()})


def shape(z: Floats, *, derivative: int = 0) -> Floats:
    """Return φ or a derivative of it."""
    x = np.clip(z / _RADIUS, -1.0, 1.0)
    inside = 1.0 - x * x
    if derivative == 0:
        return np.asarray(inside**_POWER)
    if derivative == 1:
        return np.asarray(-2.0 * _POWER / _RADIUS * x * inside ** (_POWER - 1))
    bend = (2.0 * _POWER - 1.0) * x * x - 1.0
    return np.asarray(2.0 * _POWER / _RADIUS**2 * bend * inside ** (_POWER - 2))


def bump_variance(k: Any, slices: Bumped, *, derivative: int = 0) -> Floats:
    """Return the total variance of the bumps alone, or a derivative of it in k."""
    total = np.zeros(np.broadcast_shapes(np.shape(k), np.shape(slices.bump_unit)))
    z = k / slices.bump_unit
    for centre, height in zip(CENTRES, slices[RAW_SIZE + 1 :], strict=True):
        if np.any(height):
            total = total + height * shape(z - centre, derivative=derivative)
    return np.asarray(total / slices.bump_unit**derivative)
