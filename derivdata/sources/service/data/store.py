"""Interface of a source of data, which archives and the sample implement; how to open one, and its clock."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import pandas as pd

from derivdata.sources.query import Query
from derivdata.support import times
from derivdata.support.text import did_you_mean

VENUES = "venues"
"""Name of the source that asks the venues."""


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

        Columns are exchange, resolution, time; ``value``, the sum without missing values; ``symbols``, of how
        many that is; ``symbol_hash``, the exclusive or of hashes of their names.
        """


@runtime_checkable
class LedgerStore(Protocol):
    """Additional method of a store that was collected from venues."""

    def requests(self) -> pd.DataFrame:
        """Return which windows were asked of which venue: table, exchange, symbol, start, end, answered."""


@runtime_checkable
class ClassifiedStore(Protocol):
    """Additional method of a store that knows the classes of assets."""

    def asset_classes(self) -> dict[str, str]:
        """Return the class of each symbol: ``crypto``, ``equity``, ``index`` or ``commodity``."""


@runtime_checkable
class LiveStore(Protocol):
    """Additional methods of a store that polls others: only `rows` and `newest` wait for a `refresh`."""

    def is_stale(self) -> bool:
        """Return whether `refresh` would ask."""

    def refresh(self) -> None:
        """Ask for the state now, unless the last answer is young; may take long."""

    def take_notices(self) -> list[str]:
        """Return the notices since the last call."""


def open_store(source: str, *, archive: str | None = None, venues: Sequence[str] | None = None) -> Store:
    """Open the sample for ``"sample"``, the venues for ``"venues"``, else the archive there.

    `archive` and `venues` are of ``"venues"``: the folder that keeps what they answered, and which to ask.
    Raises `ArchiveError` where no archive can be read, and `ValueError` for nearly the name of a source.
    """
    if source == "sample":
        from derivdata.sources import sample

        return sample.open()
    if source == VENUES:
        from derivdata.sources.collect.read_through import open_venues

        return open_venues(archive, venues)
    near = did_you_mean(source, ("sample", VENUES))
    if near and not os.path.exists(source):
        raise ValueError(f"source: expected sample, venues or the folder of an archive, got {source!r}{near}")
    from derivdata.sources.archive import open_archive

    return open_archive(source, create=False)


def clock_of(store: Store, now: times.Instant | None, *, live: bool) -> Callable[[], pd.Timestamp]:
    """Return the service's clock: one that stands still, the machine's, or that of a source that moves."""
    if now is None and isinstance(store, LiveStore):
        return lambda: store.now  # a source that asks the venues
    if now is None and live:
        from derivdata.sources.collect.session import MachineClock

        machine = MachineClock()
        return lambda: machine.utc().floor("s")
    moment = store.now if now is None else times.instant(now, "now")
    return lambda: moment
