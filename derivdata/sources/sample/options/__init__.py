"""Options: what is listed when, quoted around a surface model whose parameters are public."""

from __future__ import annotations

from derivdata.sources.sample.options.bates_surface import BatesSurface
from derivdata.sources.sample.options.chains import EXCHANGES, GREEKS, SYMBOLS, chain, markets
from derivdata.sources.sample.options.essvi import EssviSurface
from derivdata.sources.sample.options.forward_curves import forwards
from derivdata.sources.sample.options.listings import EXPIRY_US, Listing, expiries, listing, session
from derivdata.sources.sample.options.surface_model import SurfaceModel

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
