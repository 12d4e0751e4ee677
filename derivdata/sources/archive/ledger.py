"""Ledger of requests: requested windows and their results, so that "no rows" and "not requested" differ.

It is one JSON file that the manifest names, and changes in the same step as the rows of a response. Windows
of one (table, venue, symbol) are stored as a union of intervals, so a collector that polls every minute for a
year has one interval instead of half a million. A poll's window lasts until the next poll is due, which works
for any cadence. A venue's bulk file is entered under its name, with data that shows whether it was corrected.

A window with missing rows at the step of its series stays incomplete and is requested again. If a second
response lacks the same rows, it is a confirmed gap, which is not requested again for `CONFIRMED_FOR`.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec
import pandas as pd

from derivdata.errors import ArchiveError
from derivdata.sources.archive.queries import EVER, micros, stamp
from derivdata.sources.archive.storage import Storage
from derivdata.support import times
from derivdata.support.text import escape_controls

CONFIRMED_FOR = pd.Timedelta(30, "D")
"""Time after which a confirmed gap is requested again."""

CONFIRMED_GAP = "confirmed_gap"
"""The `source` of a confirmed gap in `requests_frame`."""

_ALL_SYMBOLS = "*"
_DIGITS = re.compile(r"\d+")
_COLUMNS = ("table", "exchange", "symbol", "start", "end", "answered", "error", "source")


class LedgerFile(NamedTuple):
    """A venue's file that was read: its name, SHA-256, size [bytes] and time of last change."""

    name: str
    sha256: str
    size: int
    modified: str


class LedgerEntry(NamedTuple):
    """One request: its venue, symbol (None for all) and window.

    `error` is the reason of a failure, `file` the bulk file of the rows, None for a request. `incomplete_at`
    is the time of a response that lacks rows of the window. With `is_open` there is no later row yet: the
    missing rows may only be late, so they are not a confirmed gap.
    """

    exchange: str
    symbol: str | None
    start: times.TimeLike
    end: times.TimeLike
    error: str = ""
    file: LedgerFile | None = None
    incomplete_at: times.TimeLike | None = None
    is_open: bool = False


RequestEntry: TypeAlias = LedgerEntry | tuple[str, str | None, times.TimeLike, times.TimeLike]
"""An entry, or its first four fields as a plain tuple."""


class _Windows(msgspec.Struct, omit_defaults=True):
    """Half-open windows [µs] of one table, venue and symbol, and the files that were read."""

    answered: list[tuple[int, int]] = []
    failed: list[tuple[int, int, str]] = []
    files: dict[str, tuple[int, int, LedgerFile]] = {}
    incomplete: list[tuple[int, int, str]] = []
    confirmed: list[tuple[int, int, str, int]] = []  # gaps, and when they were confirmed

    @property
    def covered(self) -> list[tuple[int, int]]:
        """Return the intervals of successful requests and files."""
        return _union([*self.answered, *self.covered_by_files])

    @property
    def covered_by_files(self) -> list[tuple[int, int]]:
        """Return the intervals of files."""
        return _union((first, end) for first, end, _ in self.files.values())

    def enter_incomplete(self, start: int, end: int, error: str, at: int, *, is_open: bool) -> None:
        """Enter a window with missing rows in place of all other entries for its time.

        It is confirmed if the previous response lacked the same rows and later rows exist (not `is_open`).
        """

        def is_elsewhere(first: int, last: int) -> bool:
            return last <= start or first >= end

        earlier_gaps = [(first, last) for first, last, *_ in (*self.incomplete, *self.confirmed)]
        self.answered = _without(self.answered, [(start, end)])
        self.failed = _outside(self.failed, [(start, end)])
        self.incomplete = [gap for gap in self.incomplete if is_elsewhere(gap[0], gap[1])]
        self.confirmed = [gap for gap in self.confirmed if is_elsewhere(gap[0], gap[1])]
        if (start, end) in earlier_gaps and not is_open:
            self.confirmed = sorted([*self.confirmed, (start, end, error, at)])
        else:
            self.incomplete = sorted([*self.incomplete, (start, end, error)])

    def forget_before(self, cut: int) -> None:
        """Remove the time before `cut` from all windows."""
        self.answered = [(max(a, cut), b) for a, b in self.answered if b > cut]
        self.failed = [(max(a, cut), b, why) for a, b, why in self.failed if b > cut]
        self.incomplete = [(max(a, cut), b, why) for a, b, why in self.incomplete if b > cut]
        self.confirmed = [(max(a, cut), b, why, at) for a, b, why, at in self.confirmed if b > cut]
        self.files = {name: (max(a, cut), b, file) for name, (a, b, file) in self.files.items() if b > cut}

    def spans(self) -> Iterator[tuple[str, bool, list[tuple[int, int, str]]]]:
        """Yield source, success and windows with their errors, as `requests_frame` lists them."""
        yield "request", True, [(a, b, "") for a, b in self.answered]
        yield "request", False, sorted([*self.failed, *self.incomplete])
        yield CONFIRMED_GAP, True, [gap[:3] for gap in self.confirmed]
        yield "file", True, [(a, b, "") for a, b in self.covered_by_files]


_Ledger = dict[str, dict[str, dict[str, _Windows]]]
_LEDGERS = msgspec.json.Decoder(_Ledger)


def enter_requests(
    storage: Storage, name: str, table: str, requests: Sequence[RequestEntry]
) -> tuple[str, list[int]]:
    """Add requests for a table to the ledger in the file `name`, and write it to a new file.

    Returns the new name, and the starts [µs] of windows that are successful for the first time.
    """
    if not requests:
        return name, []
    ledger = _load(storage, name)
    new_starts = []
    entries = list(itertools.starmap(LedgerEntry, requests))
    # Before the successful windows are entered: a gap is confirmed only if none of its rows arrived since.
    entries.sort(key=lambda entry: entry.incomplete_at is None)
    for request in entries:
        start = micros(request.start)
        end = micros(request.end)
        if start >= end:
            raise ValueError(
                f"requests: the window of {request.exchange} {request.symbol} must have start before end"
            )
        symbols = ledger.setdefault(table, {}).setdefault(request.exchange, {})
        windows = symbols.setdefault(request.symbol or _ALL_SYMBOLS, _Windows())
        if request.incomplete_at is not None:
            at = micros(request.incomplete_at)
            windows.enter_incomplete(start, end, request.error, at, is_open=request.is_open)
        elif request.error:
            windows.failed.append((start, end, request.error))
        elif request.file is not None:
            windows.files[request.file.name] = (start, end, request.file)
        else:
            new_starts += [first for first, _ in _without([(start, end)], windows.answered)]
            windows.answered = _union([*windows.answered, (start, end)])
        # Failures and gaps end where a request was successful.
        covered = windows.covered
        windows.failed = _joined_failures(_outside(dict.fromkeys(windows.failed), covered))
        windows.incomplete = _outside(windows.incomplete, covered)
        confirmed = []
        for first, last, why, at in windows.confirmed:
            confirmed += [(a, b, why, at) for a, b in _without([(first, last)], covered)]
        windows.confirmed = confirmed
    return _write(storage, name, ledger), new_starts


def forget_requests(
    storage: Storage, name: str, cuts: Mapping[str, pd.Timestamp], otherwise: pd.Timestamp
) -> str:
    """Write the ledger without the time before the cut of each table, by default `otherwise`.

    Returns the new name. Dropped rows must not look like a successful window without rows.
    """
    ledger = _load(storage, name)
    if not ledger:
        return name
    for table, exchanges in ledger.items():
        cut = micros(cuts.get(table, otherwise))
        for symbols in exchanges.values():
            for windows in symbols.values():
                windows.forget_before(cut)
    return _write(storage, name, ledger)


def _write(storage: Storage, name: str, ledger: _Ledger) -> str:
    """Write the ledger next to the previous one, unless it is unchanged; return the name of its file."""
    text = msgspec.json.encode(ledger, order="sorted")
    digest = _digest(text)
    if _has_digest(name, digest):
        return name
    path = f"ledger-{storage.unique(digest)}.json"
    storage.write(path, text)
    return path


def _digest(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def content_of(name: str) -> str:
    """Return the part of a ledger's name that is its digest; in an object store the rest is random."""
    return name[: len("ledger-") + 16]


def _has_digest(name: str, digest: str) -> bool:
    return content_of(name) == f"ledger-{digest[:16]}"


def requests_frame(storage: Storage, name: str) -> pd.DataFrame:
    """Return the ledger as a table: one row per table, venue, symbol (missing: all) and window."""
    rows: list[tuple[Any, ...]] = []
    for table, exchanges in sorted(_load(storage, name).items()):
        for exchange, symbols in sorted(exchanges.items()):
            for symbol, windows in sorted(symbols.items()):
                series = (table, exchange, None if symbol == _ALL_SYMBOLS else symbol)
                for source, is_answered, spans in windows.spans():
                    for first, end, error in spans:
                        shown = escape_controls(error) or None
                        rows.append((*series, first, end, is_answered, shown, source))
    frame = pd.DataFrame(rows, columns=list(_COLUMNS))
    for column in ("start", "end"):
        frame[column] = pd.to_datetime(frame[column], unit="us", utc=True).dt.as_unit("us")
    return frame.astype({"answered": bool})


def ledger_files(
    storage: Storage, name: str, table: str, exchange: str, symbol: str
) -> dict[str, LedgerFile]:
    """Return the files that gave rows of a symbol, by their names."""
    windows = _load(storage, name).get(table, {}).get(exchange, {}).get(symbol, _Windows())
    return {file: mark for file, (_, _, mark) in windows.files.items()}


def unanswered_windows(
    storage: Storage,
    name: str,
    table: str,
    exchange: str,
    symbol: str | None,
    window: times.Window,
    now: pd.Timestamp | None = None,
) -> list[times.Window]:
    """Return the parts of a window without a successful request about the symbol or about all symbols.

    Confirmed gaps count as successful; with `now`, only those confirmed in the last `CONFIRMED_FOR`.
    """
    symbols = _load(storage, name).get(table, {}).get(exchange, {})
    confirmed_after = EVER.start
    if now is not None:
        confirmed_after = micros(now - CONFIRMED_FOR)
    answered: list[tuple[int, int]] = []
    for key in {_ALL_SYMBOLS, symbol or _ALL_SYMBOLS}:
        windows = symbols.get(key, _Windows())
        answered += windows.covered
        answered += [(a, b) for a, b, _, at in windows.confirmed if at > confirmed_after]
    wanted = [(micros(window.start), micros(window.end))]
    return [times.Window(stamp(a), stamp(b)) for a, b in _without(wanted, _union(answered))]


def _load(storage: Storage, name: str) -> _Ledger:
    """Return the ledger in a file, empty without a name; raise `ArchiveError` if it is damaged."""
    if not name:
        return {}
    try:
        text = storage.read(name)
        if not _has_digest(name, _digest(text)):  # the manifest with the name is sealed
            raise msgspec.DecodeError("the content does not match the digest in the file name")
        return _LEDGERS.decode(text)
    except (OSError, msgspec.DecodeError) as problem:
        raise ArchiveError(
            f"{storage.place(name)}: the ledger of requests cannot be read ({problem}): "
            "restore it from a copy"
        ) from None


def _union(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the sorted union of half-open intervals; touching intervals are joined."""
    result: list[tuple[int, int]] = []
    for first, end in sorted(intervals):
        if result and first <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((first, end))
    return result


def _joined_failures(failed: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Join adjacent failures whose texts differ only in numbers, so that an outage is one window."""
    result: list[tuple[int, int, str]] = []
    for first, end, why in failed:
        if result and first == result[-1][1] and _DIGITS.sub("", why) == _DIGITS.sub("", result[-1][2]):
            result[-1] = (result[-1][0], end, why)
        else:
            result.append((first, end, why))
    return result


def _outside(
    spans: Iterable[tuple[int, int, str]], union: list[tuple[int, int]]
) -> list[tuple[int, int, str]]:
    """Return the parts of windows, with their texts, that are outside the intervals of a union."""
    outside = []
    for first, last, why in spans:
        outside += [(a, b, why) for a, b in _without([(first, last)], union)]
    return outside


def _without(intervals: Iterable[tuple[int, int]], union: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the parts of intervals outside a union."""
    result = []
    for first, end in intervals:
        for a, b in union:
            if b <= first or a >= end:
                continue
            if a > first:
                result.append((first, a))
            first = max(first, b)
        if first < end:
            result.append((first, end))
    return result
