"""Figures that add up over symbols and venues."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["OI", "VOLUME", "Quantity"]


class Quantity(NamedTuple):
    """One figure.

    Attributes
    ----------
    table, column
        Where it is held.
    one, total
        Its name on the wire, of one symbol and of a venue.
    added
        Whether the steps of a bucket add up, as volume does; else they are averaged over time.
    """

    table: str
    column: str
    one: str
    total: str
    added: bool


OI = Quantity("oi_history", "oi_usd", "open_interest_usd", "total_open_interest_usd", added=False)
VOLUME = Quantity("volume_history", "volume_usd", "volume_usd", "total_volume_usd", added=True)
