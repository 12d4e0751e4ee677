"""What a surface model gives: all that differs between ``sample`` and ``sample@1``."""

from __future__ import annotations

from typing import Protocol

from derivdata.sources.sample.grid import Ints
from derivdata.sources.sample.noise import Floats

__all__ = ["SurfaceModel"]


class SurfaceModel(Protocol):
    """Volatilities of one version of the sample.

    Times to expiry `years` [years] have the shape ``(expiries, instants)``, `time` [µs] ``(instants,)``; a
    value at an instant depends on no other instant.
    """

    @property
    def quoted(self) -> bool:
        """Return whether chains have bids, asks and marks, on the venue's grid of prices and volatilities."""
        ...

    def parameters(self, symbol: str, exchange: str, years: Floats, time: Ints) -> dict[str, Floats]:
        """Return what the surface is made from, by name, each ``(expiries, instants)``."""
        ...

    def total_variance(
        self, symbol: str, exchange: str, years: Floats, time: Ints, k: Floats, place: Ints
    ) -> Floats:
        """Return total implied variance at ``k = ln(K/F)``, ``(options, instants)``.

        ``place`` is the row of `years` that each option belongs to.
        """
        ...

    def typical_variance(self, symbol: str, exchange: str, years: Floats, time: Ints) -> Floats:
        """Return the total variance that sets how far from the money open interest reaches."""
        ...
