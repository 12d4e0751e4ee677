"""Native contract names as base symbols, where an archive holds them as the venues write them.

Of several contracts of one symbol on one venue the first by quote is shown (`derivdata.tables.contract` has
their order); liquidations of all of them are shown.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pandas as pd

from derivdata import tables
from derivdata.sources.service.store import LedgerStore, Store, SummedStore

__all__ = ["BaseSymbols", "bases"]

_ALL_SHOWN = ("liquidations_fills", "liquidations_events")


def bases(names: Collection[str]) -> dict[str, tuple[str, int]]:
    """Map each name that is no base symbol itself to its base symbol and the rank of its quote."""
    contracts = {name: tables.contract(name) for name in names}
    return {name: (c.symbol, c.rank) for name, c in contracts.items() if c.symbol != name}


class BaseSymbols:
    """A store whose symbols are base symbols, over one that may hold native contract names.

    A store that holds base symbols is passed through as it is.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._memo: dict[tuple[str, str, str], Any] = {}

    @property
    def label(self) -> str:
        """Return the store's."""
        return self._store.label

    @property
    def id(self) -> str:
        """Return the store's."""
        return self._store.id

    @property
    def version(self) -> str:
        """Return the store's."""
        return self._store.version

    @property
    def identity(self) -> str:
        """Return the store's."""
        return self._store.identity

    @property
    def synthetic(self) -> bool:
        """Return the store's."""
        return self._store.synthetic

    @property
    def start(self) -> pd.Timestamp:
        """Return the store's."""
        return self._store.start

    @property
    def now(self) -> pd.Timestamp:
        """Return the store's."""
        return self._store.now

    @property
    def asks_by_symbol(self) -> bool:
        """Return whether a read of single symbols asks venues for what the store lacks of them."""
        return getattr(self._store, "asks_by_symbol", False)

    def tables(self) -> frozenset[str]:
        """Return the store's."""
        return self._store.tables()

    def exchanges(self, table: str) -> tuple[str, ...]:
        """Return the store's."""
        return self._store.exchanges(table)

    def symbols(self, table: str) -> tuple[str, ...]:
        """List the base symbols of a table, sorted."""
        renamed = self._bases(table)
        return tuple(sorted({renamed.get(n, (n, 0))[0] for n in self._store.symbols(table)}))

    def requests(self) -> pd.DataFrame:
        """Return the store's ledger, empty where it has none."""
        return self._store.requests() if isinstance(self._store, LedgerStore) else pd.DataFrame()

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
        """Read as the store does, by base symbol."""
        wanted = self._natives(table, symbols)
        # Which contract of a symbol is shown is decided by whole rows.
        some = None if self._bases(table) else columns
        frame = self._store.read(table, start, end, symbols=wanted, venues=venues, columns=some)
        named = self._named(table, frame)
        return named if columns is None else named[list(columns)]

    def step_sums(
        self,
        table: str,
        start: pd.Timestamp,
        end: pd.Timestamp,
        *,
        venues: Sequence[str] | None = None,
    ) -> pd.DataFrame | None:
        """Return the store's sums, if it keeps any and they are of what is shown."""
        if not isinstance(self._store, SummedStore) or self._bases(table):
            return None
        return self._store.step_sums(table, start, end, venues=venues)

    def latest(
        self,
        table: str,
        at: pd.Timestamp,
        *,
        within: pd.Timedelta,
        symbols: Sequence[str] | None = None,
        venues: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """Read as the store does, by base symbol."""
        wanted = self._natives(table, symbols)
        frame = self._store.latest(table, at, within=within, symbols=wanted, venues=venues)
        return self._named(table, frame)

    def _bases(self, table: str) -> dict[str, tuple[str, int]]:
        key = (self.identity, table, "")
        if key not in self._memo:
            self._memo[key] = bases(self._store.symbols(table))
        return self._memo[key]  # type: ignore[no-any-return]

    def _natives(self, table: str, symbols: Sequence[str] | None) -> Sequence[str] | None:
        """Names under which the store holds the symbols."""
        renamed = self._bases(table)
        if symbols is None or not renamed:
            return symbols
        plain = [s for s in symbols if s not in renamed]
        return plain + [name for name, (base, _) in renamed.items() if base in symbols]

    def _named(self, table: str, frame: pd.DataFrame) -> pd.DataFrame:
        renamed = self._bases(table)
        if not renamed or frame.empty:
            return frame
        native = frame["symbol"].astype(object)
        symbol = native.map(lambda name: renamed.get(name, (name, 0))[0])
        if table not in _ALL_SHOWN:
            keep = self._first_by_quote(table, native, frame["exchange"].astype(object))
            frame, symbol = frame[keep], symbol[keep]
        named = tables.TABLES[table].conform(frame.assign(symbol=symbol))
        named.attrs = dict(frame.attrs)  # the store's provenance, with corrections
        return named

    def _first_by_quote(self, table: str, native: pd.Series, exchange: pd.Series) -> pd.Series:
        """Return whether the venue has no contract of the symbol with a preferred quote currency."""
        pairs = pd.MultiIndex.from_arrays([native, exchange])
        beaten = [
            (name, venue)
            for name, venue in pairs.unique()
            if any(venue in self._venues(table, other) for other in self._better(table, name))
        ]
        return pd.Series(~pairs.isin(beaten) if beaten else True, index=native.index)

    def _better(self, table: str, name: str) -> list[str]:
        """Names in a table of the same symbol whose quote comes first."""
        renamed = self._bases(table)
        base, rank = renamed.get(name, (name, 0))
        others = [other for other, (its, place) in renamed.items() if its == base and place < rank]
        return [base, *others] if rank and base in self._store.symbols(table) else others

    def _venues(self, table: str, name: str) -> frozenset[str]:
        """Venues on which the store holds a name, whenever that was."""
        key = (self.identity, table, name)
        if key not in self._memo:
            end = self.now + pd.Timedelta(1, "us")
            rows = self._store.read(table, self.start, end, symbols=[name])
            self._memo[key] = frozenset(rows["exchange"].astype(str).unique())
        return self._memo[key]  # type: ignore[no-any-return]
