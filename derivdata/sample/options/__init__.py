"""Options: what is listed when, and an arbitrage-free surface with known parameters behind it."""

from __future__ import annotations

from derivdata.sample.options.chain import chain
from derivdata.sample.options.listing import Listing, expiries, listing, session
from derivdata.sample.options.surface import Slices, slices

__all__ = ["Listing", "Slices", "chain", "expiries", "listing", "session", "slices"]
