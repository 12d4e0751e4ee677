"""Options: what is listed when, and an arbitrage-free surface with known parameters behind it."""

from __future__ import annotations

from derivdata.sample.options.chains import EXCHANGES, GREEKS, SYMBOLS, chain, markets
from derivdata.sample.options.listings import EXPIRY_US, Listing, expiries, listing, session
from derivdata.sample.options.surfaces import Slices, parameters, slices

__all__ = [
    "EXCHANGES",
    "EXPIRY_US",
    "GREEKS",
    "SYMBOLS",
    "Listing",
    "Slices",
    "chain",
    "expiries",
    "listing",
    "markets",
    "parameters",
    "session",
    "slices",
]


def __dir__() -> list[str]:
    return __all__
