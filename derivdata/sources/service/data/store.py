"""Interface of a data source, its opening and clock; refusals, corrections and cancellation of a response.

One thread makes a response from many reads, some of them cached from earlier responses. So each correction is
recorded where it happens. Long loops call `check` between their steps; it raises once all clients have left.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import accumulate
from typing import Protocol, runtime_checkable
from urllib.parse import quote

import pandas as pd

from derivdata.sources import Query
from derivdata.support import times
from derivdata.support.text import did_you_mean, nearest_symbols

VENUES = "venues"
"""Name of the source that requests data from the venues."""


class Store(Protocol):
    """A source of base tables: an archive or the sample."""

    @property
    def label(self) -> str:
        """Return the name shown to people: ``sample``, or the name of the archive's folder."""

    @property
    def id(self) -> str:
        """Return a text that identifies the source permanently, even when rows are added."""

    @property
    def version(self) -> str:
        """Return a text that changes with the data; before the first dot only with changes of past data."""

    @property
    def identity(self) -> str:
        """Return a text for cache keys that changes whenever the data may have changed."""

    @property
    def synthetic(self) -> bool:
        """Return whether the data is synthetic."""

    @property
    def start(self) -> pd.Timestamp:
        """Return the first time of the data."""

    @property
    def now(self) -> pd.Timestamp:
        """Return the default time of the clock."""

    def tables(self) -> frozenset[str]:
        """Return the names of the base tables in the source."""

    def symbols(self, table: str) -> tuple[str, ...]:
        """Return the symbols of a base table, sorted."""

    def exchanges(self, table: str) -> tuple[str, ...]:
        """Return the venues of a base table, sorted."""

    def extents(self, table: str, until: pd.Timestamp) -> pd.DataFrame:
        """Return ``exchange``, ``first``, ``last``, ``row_count`` and one ``symbol`` per venue of a table.

        Venue and symbol are missing if the table has no such column, the count if rows are made on request.
        """

    def rows(self, query: Query) -> pd.DataFrame:
        """Return the rows of a query in the form of their table, or only the query's columns in any order."""

    def newest(self, query: Query) -> pd.DataFrame:
        """Return each series' newest row in the query's window; for options the newest complete chain."""

    def sums(self, query: Query, value: str) -> pd.DataFrame:
        """Add up a column over the symbols of each venue, by resolution and time.

        Columns: exchange, resolution, time; ``value``, the sum without missing values; ``symbols``, the
        number of summed symbols; ``symbol_hash``, the exclusive or of the hashes of their names.
        """


@runtime_checkable
class LedgerStore(Protocol):
    """Additional method of a store that was collected from venues."""

    def requests(self) -> pd.DataFrame:
        """Return the requested windows: table, exchange, symbol, start, end, answered."""


@runtime_checkable
class ClassifiedStore(Protocol):
    """Additional method of a store that knows the classes of assets."""

    def asset_classes(self) -> dict[str, str]:
        """Return the class of each symbol: ``crypto``, ``equity``, ``index`` or ``commodity``."""


@runtime_checkable
class LiveStore(Protocol):
    """Additional methods of a store that polls venues; only `rows` and `newest` wait for a `refresh`."""

    def is_stale(self) -> bool:
        """Return whether `refresh` would send requests."""

    def refresh(self) -> None:
        """Request the current state unless the last response is recent; may take long."""

    def take_notices(self) -> list[str]:
        """Return the notices since the last call."""


def open_store(source: str, *, archive: str | None = None, venues: Sequence[str] | None = None) -> Store:
    """Open the sample for ``"sample"``, the venues for ``"venues"``, else the archive at that path.

    For ``"venues"``, `archive` is the folder that stores their rows, and `venues` are the venues to request.
    Raises `ArchiveError` if the archive cannot be read, and `ValueError` for a misspelled source.
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


def clock_of(store: Store, now: times.TimeLike | None, *, live: bool) -> Callable[[], pd.Timestamp]:
    """Return the service's clock: fixed at `now` or the store's time, the machine's, or a live store's."""
    if now is None and isinstance(store, LiveStore):
        return lambda: store.now
    if now is None and live:
        from derivdata.sources.collect.session import MachineClock

        machine = MachineClock()
        return lambda: machine.utc().floor("s")
    fixed = store.now
    if now is not None:
        fixed = times.timestamp(now, "now")
    return lambda: fixed


HEADER = "X-Derivdata-Corrections"
"""Response header: percent-encoded corrections, one per line. Clients add them to the provenance."""

_MAX_LINES = 20
_MAX_HEADER_BYTES = 2000
"""Maximum bytes of the header: proxies reject responses whose headers exceed 4 to 8 kB."""
_MAX_LINE_BYTES = 280
"""Maximum bytes of one correction, so that one long text does not replace all others."""
_NEWLINE = "%0A"
_UNQUOTED = " ,;:=()/.-_|"

_event: ContextVar[threading.Event | None] = ContextVar("derivdata_cancelled", default=None)
_collected: ContextVar[list[str] | None] = ContextVar("corrections", default=None)


@contextmanager
def noted() -> Iterator[list[str]]:
    """Collect corrections noted in this block; an enclosing block collects them too."""
    outer = _collected.get()
    corrections = list[str]()
    token = _collected.set(corrections)
    try:
        yield corrections
    finally:
        _collected.reset(token)
        if outer is not None:
            outer.extend(corrections)


def note(corrections: list[str]) -> None:
    """Add corrections of rows that the current response uses to the open `noted` blocks."""
    collected = _collected.get()
    if collected is not None:
        collected.extend(corrections)


def note_read(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a store's rows, and add the notices in their provenance to the open `noted` blocks."""
    note(frame.attrs.get("provenance", {}).get("notices", []))
    return frame


class Cancelled(Exception):
    """All clients that waited for the work of this thread have left."""


def cancelled_by(event: threading.Event) -> None:
    """Let `check` raise in this context once the event is set."""
    _event.set(event)


def check() -> None:
    """Raise `Cancelled` if all clients that waited for the work of this context have left."""
    event = _event.get()
    if event is not None and event.is_set():
        raise Cancelled


def header_value(corrections: list[str]) -> str:
    """Return distinct corrections as the header's value, in numeric order, cut to the size of a header."""
    # A correction starts with its number. Sorting by the number's length first puts 9 before 10.
    distinct = sorted(set(corrections), key=lambda text: (len(text.partition(":")[0]), text))
    lines = [_encode_line(text) for text in distinct]
    ends = accumulate(len(line) + len(_NEWLINE) for line in lines[:_MAX_LINES])
    fitting = bisect_right(list(ends), _MAX_HEADER_BYTES)  # number of lines that fit
    shown = lines[:fitting]
    if fitting < len(lines):
        shown.append(f"and {len(lines) - fitting} more corrections")
    return _NEWLINE.join(shown)


def _encode_line(text: str) -> str:
    """Percent-encode a text, cut after the last complete character that fits."""
    ends = accumulate(len(quote(character, safe=_UNQUOTED)) for character in text)
    fitting = bisect_right(list(ends), _MAX_LINE_BYTES)
    shown = quote(text[:fitting], safe=_UNQUOTED)
    if fitting < len(text):
        shown += "..."
    return shown


DOCS = "/docs"


class Refusal(Exception):
    """Error response to a request: HTTP status, JSON object with ``error``, and additional headers."""

    def __init__(
        self, status: int, error: str, *, headers: Mapping[str, str] | None = None, **fields: object
    ) -> None:
        super().__init__(error)
        self.status = status
        self.body = {"error": error, **fields}
        self.headers = dict(headers or {})


def bad_request(error: str) -> Refusal:
    """Return the error for a parameter that cannot be read or conflicts with another one (400)."""
    return Refusal(400, error)


def unknown_symbol(symbol: str, listed: Iterable[str]) -> Refusal:
    """Return the error for an unknown symbol, with the most similar symbols (404)."""
    text = f"unknown symbol {symbol!r}"
    near = nearest_symbols(symbol, listed)
    if near:
        text = f"{text}; did you mean {', '.join(near)}?"
    return not_found(text)


def not_found(error: str) -> Refusal:
    """Return the error for an unknown symbol, venue or path, or for data that the source lacks (404)."""
    return Refusal(404, error)
