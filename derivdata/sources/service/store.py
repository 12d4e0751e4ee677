"""Interface of a source of data; archives and the sample implement it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import pandas as pd

__all__ = ["LedgerStore", "LiveStore", "Store", "SummedStore"]


class Store(Protocol):
    """A source of base tables: an archive or the sample."""

    @property
    def label(self) -> str:
        """Return the name shown to people: ``sample``, or the name of the archive's folder."""
        ...

    @property
    def id(self) -> str:
        """Return text that identifies the source permanently, however it grows."""
        ...

    @property
    def version(self) -> str:
        """Return text that changes with the data.

        The part before the first dot changes only with rows of the past, not when the end grows.
        """
        ...

    @property
    def identity(self) -> str:
        """Return text that changes whenever the data could: part of the cache key."""
        ...

    @property
    def synthetic(self) -> bool:
        """Return whether the data is synthetic."""
        ...

    @property
    def start(self) -> pd.Timestamp:
        """Return the first instant of the data."""
        ...

    @property
    def now(self) -> pd.Timestamp:
        """Return the clock's default."""
        ...

    def tables(self) -> frozenset[str]:
        """Names of the base tables that it holds."""
        ...

    def symbols(self, table: str) -> tuple[str, ...]:
        """Symbols of a base table, sorted."""
        ...

    def exchanges(self, table: str) -> tuple[str, ...]:
        """Venues of a base table, sorted."""
        ...

    def read(
        self,
        table: str,
        start: pd.Timestamp,
        end: pd.Timestamp,
        *,
        symbols: Sequence[str] | None = None,
        venues: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """Rows of a base table with ``start <= time < end``, as its table; empty where it has none.

        With `columns`, these alone and rows in any order: for sums, which need no more.
        """
        ...

    def latest(
        self,
        table: str,
        at: pd.Timestamp,
        *,
        within: pd.Timedelta,
        symbols: Sequence[str] | None = None,
        venues: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """Newest row at or before `at`, no older than `within`, per key without its time.

        For ``options_snapshot`` it is the newest whole chain of each (symbol, exchange).
        """
        ...


@runtime_checkable
class LedgerStore(Protocol):
    """Additional method of a store that was collected from venues."""

    def requests(self) -> pd.DataFrame:
        """Return which windows were asked of which venue: table, exchange, symbol, start, end, answered."""
        ...


@runtime_checkable
class SummedStore(Protocol):
    """Additional method of a store that keeps sums over the symbols of each venue."""

    def step_sums(
        self,
        table: str,
        start: pd.Timestamp,
        end: pd.Timestamp,
        *,
        venues: Sequence[str] | None = None,
    ) -> pd.DataFrame | None:
        """Return what `derivdata.sources.archive.Archive.step_sums` does, of the rows that `read` returns.

        None: only the rows can tell.
        """
        ...


@runtime_checkable
class LiveStore(Protocol):
    """Additional methods of a store that polls others; its `now` advances with each `refresh`.

    Everything of `Store` but `read` and `latest` waits for no `refresh` that is under way.
    """

    def is_stale(self) -> bool:
        """Return whether `refresh` would ask."""
        ...

    def refresh(self) -> None:
        """Ask for the state now, unless the last answer is young; may take long."""
        ...

    def take_notices(self) -> list[str]:
        """Return the notices since the last call."""
        ...
