"""Sources of tables, and the query that they share: venues, archives, a synthetic market, the service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True)
class Query:
    """Rows of a table: a half-open window, and values to keep.

    Attributes
    ----------
    table
        Name of the table, such as ``"oi_history"``.
    start, end
        ``start <= time < end``; times with a zone.
    symbols, venues
        Values to keep; None keeps all.
    columns
        Columns to return, rows then in any order; None returns the whole table, sorted by its key.
    near_money
        Whether a store that creates options one by one may omit those away from the money.
    """

    table: str
    start: pd.Timestamp
    end: pd.Timestamp
    symbols: Sequence[str] | None = None
    venues: Sequence[str] | None = None
    columns: Sequence[str] | None = None
    near_money: bool = False

    def __post_init__(self) -> None:
        for name in ("symbols", "venues", "columns"):  # tuples, so that a query can be a key of a cache
            values = getattr(self, name)
            if values is not None:
                object.__setattr__(self, name, (values,) if isinstance(values, str) else tuple(values))
