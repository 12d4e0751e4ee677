"""An archive: a folder of tables that is appended to, corrected and read; faults of its stored rows.

Each check of stored rows is a function from an archive to findings, listed in `CHECKS`. A finding that can be
repaired has a function that does it, by `Archive.replace`, so that each repair is a correction that can be
undone.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from derivdata.errors import ArchiveError, SchemaError
from derivdata.sources.archive import manifest as manifests
from derivdata.sources.archive.audit import AUDITS, audit, normalise, refuse_impossible
from derivdata.sources.archive.ledger import RequestEntry
from derivdata.sources.archive.manifest import clean
from derivdata.sources.archive.payments import TABLE as PAYMENTS
from derivdata.sources.archive.payments import CompletedPayments, complete_payments, wrong_intervals
from derivdata.sources.archive.queries import TimeRange, correction_selection, time_range
from derivdata.sources.archive.reading import ArchiveReader
from derivdata.sources.archive.schemas import archive_table
from derivdata.sources.archive.storage import Storage, open_storage
from derivdata.sources.archive.writing import (
    COMPLETED,
    Appended,
    Corrected,
    Dropped,
    add_rows,
    drop_old_partitions,
    replace_keyed_rows,
    replace_rows,
    undo,
)
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.support.text import warn_caller
from derivdata.tables.chains import aligned, snapshots
from derivdata.tables.contracts import VENUES, expiries
from derivdata.tables.panels import provenance
from derivdata.tables.schema import Table

_LOCK_SECONDS = 60.0
_SHOWN_NOTICES = 3


@typed
def open_archive(
    path: str | os.PathLike[str], *, create: bool = True, lock_timeout: float = _LOCK_SECONDS
) -> Archive:
    """Open the archive in a folder, or on S3.

    Parameters
    ----------
    path
        The folder, or ``"s3://bucket/path"`` (extra ``derivdata[s3]``; the environment gives region,
        credentials and, where it is not Amazon's, the store's address: ``AWS_ENDPOINT_URL``). Nothing is
        written before the first `Archive.append`.
    create
        Whether a missing or empty place becomes a new archive; with False it is an error.
    lock_timeout
        Seconds that an append waits for other writers.

    Returns
    -------
    Archive

    Raises
    ------
    ValueError
        `path` cannot be a path.
    ArchiveError
        The archive does not exist, the place contains something else or cannot be reached, the manifest is
        damaged, a newer version wrote the archive, or addresses of this kind are not supported.
    ImportError
        The extra ``derivdata[s3]`` is not installed.

    Examples
    --------
    >>> archive = dd.open_archive("my-archive")
    >>> archive.append("oi_history", dd.oi.history("BTC", "1d", venues=["binance"]))
    24
    >>> archive.append("oi_history", dd.oi.history("BTC", "1d", venues=["binance"]))
    0
    """
    storage = open_storage(path)
    clean(storage)
    if manifests.load(storage) is None and not create:
        raise ArchiveError(
            f"{storage}: archive not found: create one with derivdata import or "
            f"dd.open_archive{_meant(str(path))}"
        )
    return Archive(storage, lock_timeout=lock_timeout)


def _meant(path: str) -> str:
    """Return a hint for a path that is the name of a venue or the address of a service; else empty text."""
    if path in VENUES:
        return f'; to request the venue itself, dd.connect("venues", venues=["{path}"])'
    if re.fullmatch(r"[\w-]+(\.[\w-]+)*\.[a-z]{2,}(:\d+)?(/.*)?", path):
        return f'; to connect to a service, use its https address: dd.connect("https://{path}")'
    return ""


class Archive(ArchiveReader):
    """Tables as partitioned Parquet, in a folder or on S3; see `open_archive`.

    Readers need no lock and see the state after the last finished append of any process. Each table has one
    row per key. Rows with a stored key are skipped, with a `DataNotice` if their values differ from the
    stored ones, so past backtests do not change.
    """

    def __init__(self, storage: Storage, *, lock_timeout: float = _LOCK_SECONDS) -> None:
        super().__init__(storage)
        self._lock_timeout = lock_timeout

    def append(
        self,
        table: str,
        frame: pd.DataFrame,
        *,
        requests: Sequence[RequestEntry] = (),
        accept: Collection[str] = (),
    ) -> int:
        """Add the rows of a table that are not stored yet.

        Names are normalised as in an import: ``BTC/USDT:USDT`` becomes ``BTC``, ``Binance`` ``binance``. Rows
        whose values suggest a wrong unit, interval or time raise an error with a question to resolve.

        Parameters
        ----------
        table
            Name of the table, such as ``"funding_history"``.
        frame
            Its rows, with the library's column names; see ``dd.tables.TABLES[table]``.
        requests
            The requests that returned these rows, each with venue, symbol (None: all), start and end. They
            are written to the ledger together with the rows (see `requests`).
        accept
            Checks to skip: ``"unit"`` (size of rates and open interest), ``"interval"`` (interval column
            against the spacing of rows), ``"venues"`` (rates against other venues), ``"schedule"`` (payments
            off the hours of their interval), ``"future"`` (times ahead of the machine's clock).

        Returns
        -------
        int
            Rows written. Appending the same rows again writes 0 rows.

        Raises
        ------
        ValueError
            The table does not exist.
        SchemaError
            The frame is not that table.
        ArchiveError
            The rows fail a check or belong to another contract than the stored rows of their series
            (``BTCUSDC`` after ``BTCUSDT``), another writer holds the lock for too long, or a disk operation
            fails. Nothing is appended in these cases.

        Warns
        -----
        DataNotice
            Some rows are already stored with other values, which are kept. Or rows were omitted because the
            symbol also has a contract in a quote currency of higher priority.
        """
        named = normalise(archive_table(table), frame)
        counts = self.merge(
            table,
            named.frame,
            requests=requests,
            accept=accept,
            contracts=named.contracts,
            refuse_conflicts=True,
            keeps_intervals=True,
        )
        if named.other_quotes:
            warn_caller(
                f"{table}: {named.other_quotes} rows of a quote currency of lower priority were omitted"
            )
        for notice in counts.notices[:_SHOWN_NOTICES]:
            warn_caller(notice)
        if counts.differing:
            warn_caller(
                f"{table}: {counts.differing} rows already exist with other values; the stored values are "
                "kept"
            )
        return counts.written

    def merge(
        self,
        table: str,
        frame: pd.DataFrame,
        *,
        requests: Sequence[RequestEntry] = (),
        unit: str | None = None,
        accept: Collection[str] = AUDITS,
        contracts: Mapping[str, str] | None = None,
        refuse_conflicts: bool = False,
        keeps_intervals: bool = False,
    ) -> Appended:
        """Append rows with the library's names and return the numbers of written, present and differing rows.

        This is for callers that have checked the rows: by default all checks of `append` are skipped, and
        `accept` names those to skip. `unit` is the original unit of converted rates; `contracts` are as in
        `derivdata.sources.archive.audit.Normalised`. A payment that contradicts another one is omitted and
        named in the result, or raises with `refuse_conflicts`. `keeps_intervals` is passed to
        `derivdata.sources.archive.payments.complete_payments`.
        """
        keyed = archive_table(table)
        rows = self._conformed(keyed, frame)
        synthetic = False
        if "provenance" in frame.attrs:
            synthetic = bool(provenance(frame).get("synthetic", False))

        def read(symbols: Collection[str], start: pd.Timestamp, end: pd.Timestamp) -> pd.DataFrame:
            return self.read(table, start, end + pd.Timedelta(1, "us"), symbols=list(symbols))

        timeout = self._lock_timeout
        audit(keyed, rows, self.exchanges(table), read, unit=unit, accept=accept, synthetic=synthetic)
        if table != PAYMENTS or rows.empty:
            return add_rows(
                self._storage, keyed, rows, requests, contracts, synthetic=synthetic, timeout=timeout
            )
        payments = complete_payments(rows, read, keeps_intervals=keeps_intervals)
        if payments.conflicts and refuse_conflicts:
            raise ArchiveError(f"{payments.conflicts[0]}; nothing was appended")
        fresh = keyed.conform(payments.fresh)
        counts = add_rows(
            self._storage, keyed, fresh, requests, contracts, synthetic=synthetic, timeout=timeout
        )
        self._correct_intervals(keyed, payments)
        present = counts.present + payments.present
        result = Appended(counts.written, present, counts.differing + len(payments.conflicts))
        result.conflicts = tuple(payments.conflicts)
        result.notices = tuple(payments.notices)
        return result

    def _correct_intervals(self, table: Table, payments: CompletedPayments) -> None:
        """Replace stored payments whose interval follows from later payments."""
        for rows, before, action, reason in (
            (payments.completed, None, COMPLETED, "the interval follows from later payments"),
            (payments.changed, None, "replace", "later payments have another interval"),
            (payments.added, payments.replaced, "replace", "later rows have more payments of a halt"),
        ):
            if len(rows):
                replace_keyed_rows(
                    self._storage,
                    table,
                    table.conform(rows),
                    before,
                    action=action,
                    reason=reason,
                    timeout=self._lock_timeout,
                )

    def replace(
        self,
        table: str,
        frame: pd.DataFrame,
        where: Mapping[str, str | Sequence[str]] | None = None,
        *,
        start: times.TimeLike | None = None,
        end: times.TimeLike | None = None,
        reason: str = "",
    ) -> Corrected:
        """Replace some rows of a table by others, to correct wrong data.

        Parameters
        ----------
        table
            Name of the table.
        frame
            The corrected rows. Each must satisfy `where`, `start` and `end`.
        where
            Rows to replace, as values of key columns: ``{"exchange": "lighter", "symbol": ["BTC", "ETH"]}``.
        start, end
            Half-open window of the rows to replace; None leaves it open.
        reason
            Reason of the correction, stored in its log (`corrections`).

        Returns
        -------
        Corrected
            The number of the correction, which `undo` accepts, and the numbers of removed and added rows.

        Raises
        ------
        ValueError
            No condition was given, or `frame` has rows outside it.
        SchemaError
            The frame is not that table.
        ArchiveError
            No rows are selected and none are to be added, rows of another contract remain in the frame's
            series, another writer holds the lock for too long, or a disk operation fails.
        """
        return self._correct(table, frame, where, time_range(start, end), reason)

    def delete(
        self,
        table: str,
        where: Mapping[str, str | Sequence[str]] | None = None,
        *,
        start: times.TimeLike | None = None,
        end: times.TimeLike | None = None,
        reason: str = "",
    ) -> Corrected:
        """Delete some rows of a table; parameters, result and errors are as in `replace`."""
        return self._correct(table, None, where, time_range(start, end), reason)

    def undo(self, number: int) -> Corrected:
        """Undo a correction: remove the rows that it added and restore the rows that it removed.

        Rows that were appended in the meantime are kept, even if they have the key of a row to restore.
        Undoing is a correction too, and can be undone.

        Raises
        ------
        ValueError
            The correction does not exist, was already undone, or a later one changes the same rows.
        ArchiveError
            Rows of another contract were appended since to a series that it would restore.
        """
        return undo(self._storage, archive_table, number, timeout=self._lock_timeout)

    def drop_before(self, timestamp: times.TimeLike) -> Dropped:
        """Remove, permanently, the months and days of all tables that end at or before a time.

        Only whole partitions are removed, so some older rows in the month or day of that time remain. The
        ledger removes their windows, so they count as not requested. Rows removed by corrections remain
        stored, and so do the names of symbols and venues.

        Returns
        -------
        Dropped
            Numbers of removed rows and files.

        Raises
        ------
        ArchiveError
            Another writer holds the lock for too long, or a disk operation fails. Nothing is removed in these
            cases.
        """
        before = times.timestamp(timestamp, "timestamp")
        return drop_old_partitions(self._storage, archive_table, before, timeout=self._lock_timeout)

    def _correct(
        self,
        table: str,
        frame: pd.DataFrame | None,
        where: Mapping[str, str | Sequence[str]] | None,
        window: TimeRange,
        reason: str,
    ) -> Corrected:
        """Replace the selected rows by the rows of `frame`, or delete them if `frame` is None."""
        keyed = archive_table(table)
        contracts = None
        chosen = correction_selection(keyed, where, window)
        if frame is not None:
            named = normalise(keyed, frame)
            frame = self._conformed(keyed, named.frame)
            contracts = named.contracts
            refuse_impossible(keyed, frame)
        timeout = self._lock_timeout
        return replace_rows(self._storage, keyed, frame, chosen, contracts, reason=reason, timeout=timeout)

    def _conformed(self, table: Table, frame: pd.DataFrame) -> pd.DataFrame:
        """Conform a frame; reword the error for an append, which has no server response.

        Expiries without a time get their hour, and rows of one chain its time.
        """
        try:
            rows = table.conform(frame)
        except SchemaError as problem:
            text = str(problem).replace("; see the response with dd.raw(path, ...)", "")
            raise SchemaError(
                f"{text}; nothing was appended (dd.tables.TABLES[{table.name!r}] lists the columns)"
            ) from None
        changed = rows
        if "expiry" in table.columns:
            expiry, dated = expiries(rows["expiry"], f"{table.name}.expiry")
            if dated.any():
                changed = rows.assign(expiry=expiry)
        if table.name == "options_snapshot":
            try:
                changed = snapshots(changed)
            except ValueError as problem:
                raise ArchiveError(f"{table.name}: {problem}; nothing was appended") from None
        if changed is rows:
            return rows
        return table.conform(changed)


_CHAINS = "options_snapshot"
_DAY = pd.Timedelta(1, "D")
_MICROSECOND = pd.Timedelta(1, "us")


class Finding(NamedTuple):
    """Rows of one series whose stored values are wrong, from `start` to before `end`."""

    check: str
    table: str
    symbol: str
    exchange: str
    start: pd.Timestamp
    end: pd.Timestamp
    rows: int
    text: str
    repair: Callable[[], None] | None


def _chains_row_by_row(archive: Archive) -> Iterator[Finding]:
    """Yield chains of options whose rows were stored with different timestamps, a day at a time."""
    if _CHAINS not in archive.tables():
        return
    days = archive.sql(
        f"SELECT symbol, exchange, date_trunc('day', time) AS day FROM {_CHAINS} GROUP BY ALL "
        "HAVING count(DISTINCT time) > 1 ORDER BY ALL"
    )
    for symbol, exchange, day in days.itertuples(index=False):
        start = pd.Timestamp(day)
        series = {"symbols": [symbol], "venues": [exchange]}
        rows = archive.read(_CHAINS, start, start + _DAY, **series)
        label = ("chains", _CHAINS, symbol, exchange, start, start + _DAY)
        try:
            whole, _ = aligned(rows)
        except ValueError as problem:
            yield Finding(*label, len(rows), str(problem), None)
            continue
        if whole is rows:
            continue
        reason = "rows of one chain have the time of the chain"
        repair = functools.partial(_replaced, archive, _CHAINS, whole, rows, reason)
        before = rows["time"].nunique()
        after = whole["time"].nunique()
        text = f"{before:,} timestamps of rows belong to {after:,} chains"
        if len(whole) < len(rows):
            text += f"; {len(rows) - len(whole):,} rows have a newer row of the instrument in their chain"
        yield Finding(*label, len(rows), text, repair)


def _payment_intervals(archive: Archive) -> Iterator[Finding]:
    """Yield payments whose interval contradicts the spacing of all payments of their series."""
    if PAYMENTS not in archive.tables():
        return
    series = archive.sql(f"SELECT DISTINCT symbol, exchange FROM {PAYMENTS} ORDER BY ALL")
    for symbol, exchange in series.itertuples(index=False):
        names = {"symbols": [symbol], "venues": [exchange]}
        stored, right = wrong_intervals(archive.read(PAYMENTS, **names))
        if stored.empty:
            continue
        start = stored["time"].min()
        end = stored["time"].max() + _MICROSECOND
        reason = "all payments of the series have another interval"
        repair = functools.partial(_replaced, archive, PAYMENTS, right, stored, reason)
        wrong = stored["interval_hours"].iloc[0]
        hours = right["interval_hours"].iloc[0]
        text = f"{len(stored):,} payments with a wrong interval"
        text += f"; the first has {wrong:g} h instead of {hours:g} h"
        yield Finding("intervals", PAYMENTS, symbol, exchange, start, end, len(stored), text, repair)


def _replaced(archive: Archive, name: str, right: pd.DataFrame, wrong: pd.DataFrame, reason: str) -> None:
    """Replace wrong rows by key, so that rows that another process appended since stay."""
    table = archive_table(name)
    timeout = archive._lock_timeout
    rows = table.conform(right)
    replace_keyed_rows(archive._storage, table, rows, wrong, action="replace", reason=reason, timeout=timeout)


CHECKS: tuple[Callable[[Archive], Iterator[Finding]], ...] = (_chains_row_by_row, _payment_intervals)
"""Every check of stored rows."""


def stored_faults(archive: Archive, *, repair: bool = False) -> pd.DataFrame:
    """Return the faults of stored rows, and repair unambiguous ones with `repair`.

    Parameters
    ----------
    archive
        The archive.
    repair
        Whether to correct them. Each correction is listed by `Archive.corrections` and can be undone.

    Returns
    -------
    DataFrame
        One row per finding: ``check``, ``table``, ``symbol``, ``exchange``, ``start``, ``end``, ``rows``,
        ``finding`` and ``repaired``.
    """
    columns = "check table symbol exchange start end rows finding repaired".split()
    faults = []
    for check in CHECKS:
        for finding in list(check(archive)):
            is_repaired = False
            if repair and finding.repair is not None:
                finding.repair()
                is_repaired = True
            faults.append((*finding[:-1], is_repaired))
    return pd.DataFrame(faults, columns=columns)
