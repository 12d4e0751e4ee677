"""Interface of a source of data; archives and the sample implement it."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import pandas as pd

from derivdata.sources.query import Query


class Store(Protocol):
    """A source of base tables: an archive or the sample."""

    @property
    def label(self) -> str:
        """Return the name shown to people: ``sample``, or the name of the archive's folder."""

    @property
    def id(self) -> str:
        """Return text that identifies the source permanently, however it grows."""

    @property
    def version(self) -> str:
        """Return text that changes with the data; before the first dot it changes with the past alone."""

    @property
    def identity(self) -> str:
        """Return text that changes whenever the data could: part of the cache key."""

    @property
    def synthetic(self) -> bool:
        """Return whether the data is synthetic."""

    @property
    def start(self) -> pd.Timestamp:
        """Return the first instant of the data."""

    @property
    def now(self) -> pd.Timestamp:
        """Return the clock's default."""

    def tables(self) -> frozenset[str]:
        """Names of the base tables that it holds."""

    def symbols(self, table: str) -> tuple[str, ...]:
        """Symbols of a base table, sorted."""

    def exchanges(self, table: str) -> tuple[str, ...]:
        """Venues of a base table, sorted."""

    def extents(self, table: str, until: pd.Timestamp) -> pd.DataFrame:
        """Of each venue of a table ``exchange``, ``first``, ``last``, ``row_count``, a ``symbol``.

        Venue and symbol are missing where it names none, the count where rows are made when asked for.
        """

    def rows(self, query: Query) -> pd.DataFrame:
        """Rows of a base table, as its table; with the query's columns these alone, in any order."""

    def newest(self, query: Query) -> pd.DataFrame:
        """Newest row in the query's window per key without its time; of options the newest whole chain."""

    def sums(self, query: Query, value: str) -> pd.DataFrame:
        """Add up a column over the symbols of each venue, by resolution and instant.

        Columns are exchange, resolution, time; ``value``, the sum of what is not missing; ``symbols``, of how
        many that is; ``symbol_hash``, the exclusive or of hashes of their names.
        """


@runtime_checkable
class LedgerStore(Protocol):
    """Additional method of a store that was collected from venues."""

    def requests(self) -> pd.DataFrame:
        """Return which windows were asked of which venue: table, exchange, symbol, start, end, answered."""


@runtime_checkable
class LiveStore(Protocol):
    """Additional methods of a store that polls others: only `rows` and `newest` wait for a `refresh`."""

    def is_stale(self) -> bool:
        """Return whether `refresh` would ask."""

    def refresh(self) -> None:
        """Ask for the state now, unless the last answer is young; may take long."""

    def take_notices(self) -> list[str]:
        """Return the notices since the last call."""
