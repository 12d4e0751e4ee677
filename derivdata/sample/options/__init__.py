"""Options: what is listed when, quoted around a surface model whose parameters are public."""

from __future__ import annotations

from derivdata.sample.options.bates_surface import BatesSurface
from derivdata.sample.options.chains import EXCHANGES, GREEKS, SYMBOLS, chain, markets
from derivdata.sample.options.essvi import EssviSurface
from derivdata.sample.options.forward_curves import forwards
from derivdata.sample.options.listings import EXPIRY_US, Listing, expiries, listing, session
from derivdata.sample.options.surface_model import SurfaceModel

__all__ = [
    "EXCHANGES",
    "EXPIRY_US",
    "GREEKS",
    "SYMBOLS",
    "BatesSurface",
    "EssviSurface",
    "Listing",
    "SurfaceModel",
    "chain",
    "expiries",
    "forwards",
    "listing",
    "markets",
    "session",
]


def __dir__() -> list[str]:
    return __all__
