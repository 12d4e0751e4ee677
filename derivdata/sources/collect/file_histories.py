"""Years of history from the venues' bulk files: list, fetch, verify, read, and enter them in the ledger.

`FILES` describes the files as data. `FileHost` lists and fetches them.
"""

from __future__ import annotations

import hashlib
import html
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from derivdata import tables
from derivdata.client.transport.adapter import LONGEST_WAIT, KeylessReply, KeylessSession, persist, refusal
from derivdata.errors import ArchiveError, DerivdataError, NetworkError, VenueError
from derivdata.sources.archive import Archive
from derivdata.sources.archive.audit import OtherContract, quoted_contracts
from derivdata.sources.archive.importing.importer import rows_of_file
from derivdata.sources.archive.ledger import LedgerEntry, LedgerFile
from derivdata.sources.collect.histories import Backfilled, listed_part, requested_window
from derivdata.sources.collect.history_rows import join_frames
from derivdata.sources.collect.session import Clock, MachineClock, Stopped
from derivdata.sources.venues import binance, reading
from derivdata.sources.venues.endpoint import DATED
from derivdata.sources.venues.record_types import Instrument
from derivdata.support import times
from derivdata.support.files import replace_file

_PACE_SECONDS = 0.05  # pause before each request
_TRIES = 5
_MAX_PAGES = 1_000
_FILE_ENTRY = re.compile(r"<Contents>(.*?)</Contents>", re.DOTALL)
_FOLDER_ENTRY = re.compile(r"<CommonPrefixes>.*?<Prefix>(.*?)</Prefix>", re.DOTALL)
_CHECKSUM = re.compile(r"\s*([0-9a-fA-F]{64}|[0-9a-fA-F]{32})\s+\*?(\S+)")


class FileKind(NamedTuple):
    """One kind of files of a venue."""

    exchange: str
    kind: str  # the venue's name of the files, which is the name of their form
    source: str  # source of the forms
    tables: Mapping[str, int]  # tables in the files, with the rows of a complete day
    host: str
    path: str  # path with ``{contract}`` and ``{period}``
    period: str  # format of the period in the path: ``%Y-%m-%d`` for a day, ``%Y-%m`` for a month
    listing: str = ""  # address of an object store's list of files; "" if files are not listed
    checksum: str = ""  # suffix of a file's address for its checksum; "" without checksums
    instrument: Callable[[str], Instrument] = reading.named  # contract of a name
    contract: str = ""  # format of names by symbol, if names are not listed
    offset: pd.Timedelta = pd.Timedelta(0)  # delay of a file's rows relative to its period in UTC
    fixed: Mapping[str, str] = {}  # values of all rows, such as the kind of a price
    dated: bool = False  # whether the files are of dated futures
    days: str = ""  # path of the same files by day, for months that are not over, missing or incomplete

    @property
    def label(self) -> str:
        """Name in messages and plans: with the kind of prices, and a mark for dated futures."""
        words = [self.kind, *self.fixed.values()]
        if self.dated:
            words.append("dated")
        return " ".join(words)

    @property
    def monthly(self) -> bool:
        """Whether a file is for a month, not for a day."""
        return "%d" not in self.period

    @property
    def daily(self) -> FileKind:
        """The same files by day."""
        return self._replace(path=self.days, period="%Y-%m-%d", days="")

    def of(self, file: ListedFile) -> FileKind:
        """Return the kind of a file: this one, or the same files by day for the file of a day."""
        if file.is_day and self.days:
            return self.daily
        return self

    def file(self, contract: str, start: pd.Timestamp) -> str:
        """Return the path of the file of a period."""
        return str(start.strftime(self.path.format(contract=contract, period=self.period)))

    def window(self, start: pd.Timestamp) -> times.Window:
        """Return the window of the rows of the file of a period."""
        end = start + pd.Timedelta(1, "D")
        if self.monthly:
            end = start + pd.offsets.MonthBegin(1)
        return times.Window(start + self.offset, end + self.offset)

    def periods(self, window: times.Window) -> list[pd.Timestamp]:
        """Return the starts of the periods with rows of a window."""
        first = (window.start - self.offset).floor("D")
        frequency = "D"
        if self.monthly:
            first = first.replace(day=1)
            frequency = "MS"
        starts = pd.date_range(first, window.end - self.offset, freq=frequency, inclusive="left")
        return list(starts.as_unit("us"))


class ListedFile(NamedTuple):
    """A listed file: path, start of its period, size [bytes] and time of writing."""

    path: str
    start: pd.Timestamp
    is_day: bool
    size: int | None = None
    modified: str = ""

    @property
    def name(self) -> str:
        """Name in the ledger: the path, since files of several kinds have equal names."""
        return self.path.lstrip("/")

    def is_read(self, marks: Mapping[str, LedgerFile]) -> bool:
        """Return whether the ledger has the listed version of the file."""
        mark = marks.get(self.name)
        if mark is None:
            return False
        return self.size is None or (mark.size, mark.modified) == (self.size, self.modified)


class Mismatch(NetworkError):
    """A file does not have its stated checksum or size."""


TERMS = {
    "binance": "Binance Vision Dataset Terms of 2026-08-26: CC BY-NC-SA 4.0, name the source, share alike; "
    "commercial use needs a licence of the venue",
    **dict.fromkeys(("okx", "gateio", "kucoin"), "terms of the files were not checked: personal use only"),
}
NOT_IN_FILES = {
    "bybit": "its files have only trades: requests return payments and open interest since the listing",
    "hyperliquid": "downloads of its files are charged to the user's account at the store: download them "
    "with its tools, then run derivdata import --from hyperliquid",
    "deribit": "it does not publish files: requests return rows since the listing",
    "kraken": "it does not publish files of futures: one request returns all payments of a contract",
    "dydx": "it does not publish files: requests return rows since the start of a market",
    "bitget": "its files have only trades and candles: payments are available by request",
}


def _binance(kind: str, market: str, tables: Mapping[str, int], *, step: str = "", **more: Any) -> FileKind:
    """Return files of binance, of the linear market ``um`` or the coin-margined market ``cm``.

    Candles have a `step`, and files by month and by day. Metrics have files by day only.
    """
    folder = f"/data/futures/{market}/monthly/{kind}/{{contract}}"
    files = FileKind(
        "binance",
        kind,
        "binance",
        tables,
        "https://data.binance.vision",
        f"{folder}/{{contract}}-{kind}-{{period}}.zip",
        "%Y-%m",
        "https://s3-ap-northeast-1.amazonaws.com/data.binance.vision",
        ".CHECKSUM",
        binance.named,
        **more,
    )
    if step:
        path = f"{folder}/{step}/{{contract}}-{step}-{{period}}.zip"
        return files._replace(kind="klines", path=path, days=path.replace("/monthly/", "/daily/"))
    if kind == "metrics":
        return files._replace(path=files.path.replace("/monthly/", "/daily/"), period="%Y-%m-%d")
    return files


_METRICS = {"oi_history": 288, "positioning_history": 864}
FILES: tuple[FileKind, ...] = (
    _binance("fundingRate", "um", {"funding_settlements": 3}),
    _binance("fundingRate", "cm", {"funding_settlements": 3}),
    _binance("metrics", "um", _METRICS, offset=pd.Timedelta(5, "min")),
    _binance("metrics", "cm", _METRICS, offset=pd.Timedelta(5, "min")),
    _binance("markPriceKlines", "um", {"prices_history": 24}, step="1h", fixed={"kind": "mark"}),
    _binance("indexPriceKlines", "um", {"prices_history": 24}, step="1h", fixed={"kind": "index"}),
    _binance("klines", "um", {"prices_history": 24, "volume_taker": 24}, step="1h", fixed={"kind": "last"}),
    _binance("klines", "um", {DATED: 24}, step="1h", dated=True),
    _binance("BVOLIndex", "um", {"volatility_index_published": 24}, offset=pd.Timedelta(1, "h"))._replace(
        path="/data/option/daily/BVOLIndex/{contract}BVOLUSDT/{contract}BVOLUSDT-BVOLIndex-{period}.zip",
        period="%Y-%m-%d",
        instrument=lambda name: Instrument(coin := name.removesuffix("BVOLUSDT"), coin, "USDT"),
    ),
    _binance("markPriceKlines", "cm", {"prices_history": 24}, step="1h", fixed={"kind": "mark"}),
    FileKind(
        "okx",
        "fundingrates",
        "okx",
        {"funding_settlements": 3},
        "https://static.okx.com",
        "/cdn/okex/traderecords/swaprates/monthly/%Y%m/{contract}-fundingrates-{period}.zip",
        "%Y-%m",
        contract="{}-USDT-SWAP",
        offset=pd.Timedelta(-8, "h"),
    ),
    FileKind(
        "gateio",
        "funding_applies",
        "gate",
        {"funding_settlements": 3},
        "https://download.gatedata.org",
        "/futures_usdt/funding_applies/{period}/{contract}-{period}.csv.gz",
        "%Y%m",
        contract="{}_USDT",
    ),
    FileKind(
        "kucoin",
        "fundingRates",
        "kucoin",
        {"funding_settlements": 3},
        "https://historical-data.kucoin.com",
        "/data/futures/daily/fundingRates/{contract}/{contract}-fundingRates-{period}.zip",
        "%Y-%m-%d",
        "https://historical-data.kucoin.com/",
        ".CHECKSUM",
    ),
)
"""Files to read, in order of preference if a symbol has contracts in several."""


class FileHost:
    """Host of a venue's files; `address` is used instead of its own hosts, for mirrors and tests."""

    def __init__(self, clock: Clock, address: str | None = None) -> None:
        self.requests = 0
        self._clock = clock
        self._address = address
        self._http = KeylessSession()
        self._folders: dict[str, list[str]] = {}  # names of contracts, by parent folder

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def contracts(self, kind: FileKind, symbol: str) -> list[Instrument]:
        """Return the perpetuals of a symbol with files, including delisted ones, the preferred one first.

        For files of dated futures, return these. `symbol` may also be the venue's name of a contract.
        """
        if not kind.listing:
            name = kind.contract.format(symbol)
            return [kind.instrument(name)._replace(symbol=symbol)]
        folder = kind.path.partition("{contract}")[0].lstrip("/")
        names = self._folders.get(folder)
        if names is None:
            pages = self._pages(kind, {"prefix": folder, "delimiter": "/"}, lambda _: True)
            names = []
            for prefix in chain.from_iterable(map(_FOLDER_ENTRY.findall, pages)):
                names.append(prefix.rstrip("/").rpartition("/")[2])
            self._folders[folder] = names
        if symbol in names:
            return [kind.instrument(symbol)]
        items = []
        for item in map(kind.instrument, names):
            is_of_kind = item.is_dated if kind.dated else item.perpetual
            if item.symbol == symbol and is_of_kind:
                items.append(item)
        return sorted(items, key=lambda item: (item.rank, item.name))

    def files(self, kind: FileKind, contract: str, window: times.Window) -> list[ListedFile]:
        """Return the files of a contract with rows of a window, by time.

        If the venue does not list its files, these are the files of all finished periods.
        """
        is_day = not kind.monthly
        start_of_path = {kind.file(contract, start): start for start in kind.periods(window)}
        files = []
        if not kind.listing or not start_of_path:
            now = self._clock.utc()
            for path, start in start_of_path.items():
                if kind.window(start).end <= now:
                    files.append(ListedFile(path, start, is_day))
            return files
        # A store lists the keys after the marker in alphabetical order, which is their order in time. The
        # marker is the first key without its suffix, so that the first key comes after it.
        marker = min(start_of_path).lstrip("/").removesuffix(".zip")
        last_key = max(start_of_path).lstrip("/")
        prefix = kind.path.partition("{period}")[0].format(contract=contract).lstrip("/")
        params = {"prefix": prefix, "marker": marker}
        for page in self._pages(kind, params, lambda keys: not keys or keys[-1] < last_key):
            for entry in _FILE_ENTRY.findall(page):
                path = f"/{_field(entry, 'Key')}"
                if path in start_of_path:
                    size = int(_field(entry, "Size"))
                    modified = _field(entry, "LastModified")
                    files.append(ListedFile(path, start_of_path[path], is_day, size, modified))
        return sorted(files, key=lambda file: file.start)

    def fetch(self, kind: FileKind, file: ListedFile, folder: Path) -> Path | None:
        """Fetch a file into a folder, under its path at the venue; return its path, or None if it is missing.

        A file with the right checksum is not fetched again. A file with another checksum is fetched twice and
        stored as ``.mismatch``. Raises `Mismatch` for it, and `VenueError` or `NetworkError`.
        """
        path = folder / file.path.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        checksum = self._stated_checksum(kind, file)
        if path.exists() and checksum is not None and _digest(path.read_bytes(), checksum) == checksum:
            return path
        for attempt in (1, 2):
            reply = self._get(kind.host, file.path, {})
            if reply is None:
                return None
            has_size = file.size is None or len(reply.body) == file.size
            if has_size and (checksum is None or _digest(reply.body, checksum) == checksum):
                replace_file(path, reply.body)
                return path
            if attempt == 2:
                replace_file(path.with_name(path.name + ".mismatch"), reply.body)
        expected = f"a size of {file.size} bytes"
        if checksum is not None and has_size:
            expected = f"the checksum {checksum}"
        raise Mismatch(
            file.path, f"the file differs from the list of files: expected {expected}; it was not read"
        )

    def _stated_checksum(self, kind: FileKind, file: ListedFile) -> str | None:
        """Return the venue's checksum of a file, or None."""
        if not kind.checksum:
            return None
        reply = self._get(kind.host, file.path + kind.checksum, {})
        if reply is None:
            return None
        match = _CHECKSUM.match(reply.body[:500].decode(errors="replace"))
        if match is None or match[2] != file.path.rpartition("/")[2]:
            return None
        return match[1].lower()

    def _pages(
        self, kind: FileKind, params: Mapping[str, str], needs_more: Callable[[list[str]], bool]
    ) -> Iterator[str]:
        """Yield the pages of a list, each with at most 1,000 files, until `needs_more(keys)` is false."""
        query = dict(params)
        for _ in range(_MAX_PAGES):
            reply = self._get(kind.listing, "", query)
            body = ""
            if reply is not None:
                body = reply.body.decode(errors="replace")
            if "<ListBucketResult" not in body:
                raise VenueError(f"{kind.exchange} {params['prefix']}", "expected a list of files, got none")
            yield body
            keys = [_field(entry, "Key") for entry in _FILE_ENTRY.findall(body)]
            # Stores omit NextMarker in lists without a delimiter; the marker is then the last key.
            marker = _field(body, "NextMarker") or "".join(keys[-1:])
            if _field(body, "IsTruncated") != "true" or not needs_more(keys):
                return
            if not marker or marker == query.get("marker"):
                break
            query["marker"] = marker
        raise VenueError(
            f"{kind.exchange} {params['prefix']}",
            f"the list of files has more than {_MAX_PAGES} pages, or repeats one",
        )

    def _get(self, host: str, path: str, params: Mapping[str, str]) -> KeylessReply | None:
        """Send a request with retries; return None only if the file does not exist."""
        url = f"{host}{path}"
        if self._address:
            url = f"{self._address}{path or '/'}"

        def send() -> KeylessReply | None:
            self._wait(_PACE_SECONDS)
            self.requests += 1
            reply = self._http.send("GET", url, params)
            if reply.status == 200:
                return reply
            if reply.status == 404:
                return None
            raise refusal(url.partition("://")[2], reply)

        def pause(problem: VenueError | NetworkError, usual_seconds: float) -> float | None:
            seconds = problem.retry_after or usual_seconds
            is_refused = isinstance(problem, VenueError) and problem.reason in ("refused", "region")
            if is_refused or seconds > LONGEST_WAIT:
                return None
            return seconds

        return persist(send, pause, self._wait, tries=_TRIES)

    def _wait(self, seconds: float) -> None:
        if self._clock.wait(seconds):
            raise Stopped("the backfill was stopped")


def _field(text: str, name: str) -> str:
    """Return the text of an element of an object store's list; empty if it is missing."""
    match = re.search(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)
    if match is None:
        return ""
    return html.unescape(match[1])


def _digest(body: bytes, checksum: str) -> str:
    """Return the hash of a file by the algorithm of `checksum`: MD5 for 32 digits, else SHA-256."""
    algorithm = "md5" if len(checksum) == 32 else "sha256"
    return hashlib.new(algorithm, body, usedforsecurity=False).hexdigest()


TABLES = tuple(dict.fromkeys(table for kind in FILES for table in kind.tables))
"""Tables that are in files of venues."""

_BATCH_ROWS = 200_000
_BATCH_FILES = 100
_PERIOD_MARGIN = pd.Timedelta(1, "D")
"""Maximum distance of a file's rows from its period; a file with later rows is of another period."""
_MAX_SHOWN = 5
_PAYMENTS_PER_DAY = 3
"""Usual number of payments; the number depends on the interval, so fewer are not reported as missing."""
_PLAN_COLUMNS = "exchange kind contract first last files missing to_fetch megabytes rows".split()


@dataclass
class FileBackfill(Backfilled):
    """Result of a backfill from files; `plan` has a row per kind and contract, `terms` is by venue."""

    plan: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=_PLAN_COLUMNS))
    terms: dict[str, str] = field(default_factory=dict)


class _Series(NamedTuple):
    """The files of one kind and contract."""

    kind: FileKind
    item: Instrument
    listed: list[ListedFile]
    due: list[ListedFile]  # files to fetch
    missing: list[str]  # periods without a file
    ledger_files: Mapping[str, Mapping[str, LedgerFile]]  # files read before, by wanted table and path

    @property
    def label(self) -> str:
        """Name in messages."""
        return f"{self.kind.exchange} {self.kind.label} {self.item.name}"


class _ReadFile(NamedTuple):
    """A file that was read: window, mark in the ledger, rows by table, and a text about missing rows."""

    window: times.Window
    mark: LedgerFile
    frames: dict[str, pd.DataFrame]
    incomplete: str


class _UnusableFile(DerivdataError):
    """A file was fetched, but cannot be used."""


def backfill_files(
    archive: Archive,
    symbols: Iterable[str],
    start: times.TimeLike,
    end: times.TimeLike | None = None,
    *,
    venues: Sequence[str] | None = None,
    names: Sequence[str] = ("funding_settlements", "oi_history", "positioning_history"),
    dry_run: bool = False,
    folder: Path | None = None,
    clock: Clock | None = None,
    addresses: Mapping[str, str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> FileBackfill:
    """Store all rows of the venues' bulk files with rows of a window in an archive.

    Symbols are assets, including delisted ones, or the venue's names of contracts. Files in the ledger are
    fetched again only if the venue has rewritten them; then their rows are corrected in the archive
    (`Archive.corrections`). A `dry_run` fetches only the lists. Files are kept in `folder` if one is given.
    Unreadable and missing files are in `failed` and `notices`. The other arguments are as in
    `histories.backfill`.
    """
    clock = clock or MachineClock()
    window = requested_window(names, TABLES, start, end, clock)
    done = FileBackfill()
    with_files = dict.fromkeys(kind.exchange for kind in FILES)
    exchanges = with_files
    if venues is not None:
        exchanges = dict.fromkeys(venues)
    for name in [name for name in exchanges if name not in with_files]:
        reason = NOT_IN_FILES.get(name, "no files with these tables are known")
        done.notices.append(f"{name}: {reason}")
    rows = []
    for exchange in exchanges:
        host = FileHost(clock, (addresses or {}).get(exchange))
        job = _Job(archive, exchange, host, done, progress or (lambda _: None), folder)
        try:
            for series in job.planned(list(dict.fromkeys(symbols)), names, window):
                rows.append(_plan_row(series))
                done.terms[exchange] = TERMS[exchange]
                if not dry_run:
                    job.fill(series)
        except ArchiveError:
            raise
        except DerivdataError as problem:
            done.failed.append(f"{exchange}: {str(problem).removeprefix(f'{exchange} ')}")
        finally:
            done.requests += host.requests
            host.close()
    done.plan = pd.DataFrame(rows, columns=_PLAN_COLUMNS)
    return done


def _plan_row(series: _Series) -> list[object]:
    """Return the row of a series in the plan."""
    kind = series.kind
    days = 0.0
    sizes = []
    for file in series.due:
        window = kind.of(file).window(file.start)
        days += (window.end - window.start) / pd.Timedelta(1, "D")
        if file.size is not None:
            sizes.append(file.size)
    megabytes = None  # the size of a file may be unknown
    if len(sizes) == len(series.due):
        megabytes = round(sum(sizes) / 1e6, 3)
    first = last = ""
    if series.listed:
        first = _period_text(kind, series.listed[0])
        last = _period_text(kind, series.listed[-1])
    rows = round(days * sum(kind.tables[table] for table in series.ledger_files))
    counts = [len(series.listed), len(series.missing), len(series.due), megabytes, rows]
    return [kind.exchange, kind.label, series.item.name, first, last, *counts]


def _period_text(kind: FileKind, file: ListedFile) -> str:
    """Return the period of a file as in its name."""
    return str(file.start.strftime(kind.of(file).period))


@dataclass
class _Batch:
    """Rows and ledger entries to be written together, by table."""

    frames: dict[str, list[pd.DataFrame]] = field(default_factory=dict)
    entries: dict[str, list[LedgerEntry]] = field(default_factory=dict)
    files: int = 0

    @property
    def is_full(self) -> bool:
        """Whether to write the batch, by its rows or files."""
        rows = sum(map(len, chain.from_iterable(self.frames.values())))
        return rows >= _BATCH_ROWS or self.files >= _BATCH_FILES


@dataclass
class _Job:
    """The files of one venue."""

    archive: Archive
    exchange: str
    host: FileHost
    done: FileBackfill
    progress: Callable[[str], None]
    folder: Path | None

    def planned(
        self, symbols: Sequence[str], names: Sequence[str], window: times.Window
    ) -> Iterator[_Series]:
        """Yield the series of every symbol with files; a notice names the labels without files of a symbol.

        Kinds of one label hold the same data, so only the first with files of the symbol is used. All dated
        contracts of a symbol have a series, but only the first of its perpetuals.
        """
        kinds = [kind for kind in FILES if kind.exchange == self.exchange and _tables_to_read(kind, names)]
        if not kinds:
            self.done.notices.append(f"{self.exchange}: the venue has no files with {', '.join(names)}")
        for symbol in symbols:
            found_labels: set[str] = set()
            for kind in kinds:
                if kind.label in found_labels:
                    continue
                items = self.host.contracts(kind, symbol)
                if items:
                    found_labels.add(kind.label)
                yield from self._series_of_contracts(kind, items, _tables_to_read(kind, names), window)
            for label in dict.fromkeys(kind.label for kind in kinds):
                if label not in found_labels:
                    self.done.notices.append(f"{self.exchange} {label}: no files for {symbol}")

    def _series_of_contracts(
        self, kind: FileKind, items: Sequence[Instrument], wanted: list[str], window: times.Window
    ) -> Iterator[_Series]:
        """Yield the series of the contracts that existed in a window; of perpetuals only the first."""
        for item in items if kind.dated else items[:1]:
            lifetime = listed_part(item, window)
            if lifetime is not None:
                yield self._series(kind, item, wanted, lifetime)

    def _series(self, kind: FileKind, item: Instrument, wanted: list[str], window: times.Window) -> _Series:
        """Return the files of a contract in a window; days replace the file of a month if it is missing."""
        listed = self.host.files(kind, item.name, window)
        absent = _without_file(kind.periods(window), listed)
        absent_format = kind.period
        if kind.days and absent:  # months that are missing or not over
            absent_format = kind.daily.period
            absent_months = absent
            absent = []
            for start in absent_months:
                month = kind.window(start)
                days = times.Window(max(month.start, window.start), min(month.end, window.end))
                daily = self.host.files(kind.daily, item.name, days)
                absent += _without_file(kind.daily.periods(days), daily)
                listed += daily
        listed.sort(key=lambda file: file.start)
        missing = []
        if kind.listing and listed:
            # The contract was not listed before the first file, and the newest files are not published yet.
            inside = [start for start in absent if listed[0].start < start < listed[-1].start]
            missing = [start.strftime(absent_format) for start in inside]
        ledger_files = {table: self.archive.files(table, self.exchange, item.symbol) for table in wanted}
        due = [file for file in listed if not all(map(file.is_read, ledger_files.values()))]
        return _Series(kind, item, listed, due, missing, ledger_files)

    def fill(self, series: _Series) -> None:
        """Fetch and read the due files of a series, and write their rows in batches.

        If the archive has another contract under the symbol, only this series fails.
        """
        if series.missing:
            self._note(series, f"the venue lists no file for {_shown(series.missing)}")
        batch = _Batch()
        incomplete = list[str]()
        try:
            try:
                for read in self._read_files(series):
                    if read.incomplete:
                        incomplete.append(read.incomplete)
                    self._add_to_batch(series, read, batch)
                    if batch.is_full:
                        self._write_batch(series, batch)
                        batch = _Batch()
            finally:  # also write the rows that were read before an error of the host
                self._write_batch(series, batch)
        except OtherContract as problem:
            self.done.failed.append(f"{series.label}: {problem}")
        if incomplete:
            self._note(series, f"rows are missing in {len(incomplete)} files: {_shown(incomplete)}")

    def _read_files(self, series: _Series) -> Iterator[_ReadFile]:
        """Yield each file that can be read, and report unreadable and missing files."""
        absent = []
        with ExitStack() as stack:
            folder = self.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            for file in series.due:
                try:
                    read = self._read_file(series, file, folder)
                except (Mismatch, _UnusableFile) as problem:
                    self.done.failed.append(f"{series.label}: {problem}")
                    continue
                if read is None:
                    absent.append(file.start.strftime(series.kind.period))
                else:
                    yield read
        if absent:
            self._note(series, f"the venue does not have the files for {_shown(absent)}")

    def _note(self, series: _Series, text: str) -> None:
        self.done.notices.append(f"{series.label}: {text}")

    def _read_file(self, series: _Series, file: ListedFile, folder: Path) -> _ReadFile | None:
        """Fetch and read a file; return None if the venue does not have it."""
        kind = series.kind.of(file)
        item = series.item
        path = self.host.fetch(kind, file, folder)
        if path is None:
            return None
        body = path.read_bytes()
        name = file.name
        mark = LedgerFile(name, hashlib.sha256(body).hexdigest(), len(body), file.modified)
        window = kind.window(file.start)
        days = (window.end - window.start) / pd.Timedelta(1, "D")
        frames = {}
        incomplete = []
        for table in series.ledger_files:
            rows_per_day = kind.tables[table]
            expected = round(days * rows_per_day)
            try:
                frame, why = self._rows_of_table(kind, item, table, path)
            except ArchiveError as problem:
                raise _UnusableFile(f"{name}: {problem}") from None
            is_near = frame["time"].between(window.start - _PERIOD_MARGIN, window.end + _PERIOD_MARGIN)
            if not is_near.all():
                first = times.iso(frame.loc[~is_near, "time"].iloc[0])
                raise _UnusableFile(f"{name}: a row at {first} is outside the period of the file")
            if len(frame) < expected and kind.days:
                frame = self._with_rows_of_days(series, table, frame, window, folder)
            frames[table] = frame
            # A dated future may be listed or expire within the period.
            has_fixed_step = rows_per_day > _PAYMENTS_PER_DAY and not kind.dated
            if why or (has_fixed_step and len(frame) < expected):
                period = file.start.strftime(kind.period)
                incomplete.append(f"{period} ({len(frame)} of {expected} rows of {table}{why})")
        if self.folder is None:
            path.unlink()
        return _ReadFile(window, mark, frames, "; ".join(incomplete))

    def _with_rows_of_days(
        self, series: _Series, table: str, frame: pd.DataFrame, month: times.Window, folder: Path
    ) -> pd.DataFrame:
        """Return the rows of a month's file with those of its days' files, for days with too few rows."""
        daily = series.kind.daily
        rows_per_day = daily.tables[table]
        counts = frame["time"].dt.floor("D").value_counts()
        frames = [frame]
        for start in daily.periods(month):
            if counts.get(start, 0) < rows_per_day:
                day = daily.window(start)
                for file in self.host.files(daily, series.item.name, day):
                    path = self.host.fetch(daily, file, folder)
                    if path is None:
                        continue
                    try:
                        rows, _ = self._rows_of_table(daily, series.item, table, path)
                    except ArchiveError as problem:
                        self._note(series, f"{file.name}: {problem}")
                    else:
                        frames.append(rows)
        rows = pd.concat(frames, ignore_index=True)
        return rows.drop_duplicates([*tables.TABLES[table].key], ignore_index=True)

    def _rows_of_table(
        self, kind: FileKind, item: Instrument, table: str, path: Path
    ) -> tuple[pd.DataFrame, str]:
        """Return the rows of a file for a table, and a text about omitted rows.

        Raises `ArchiveError` for a file that cannot be read, has another form or another contract.
        """
        if not path.stat().st_size:  # a month without a payment
            return tables.TABLES[table].empty(), ""
        frame, reason = rows_of_file(path, table, kind.source, kind.fixed)
        others = sorted(set(frame["contract_name"]) - {item.name})
        if others:
            raise ArchiveError(f"expected rows of {item.name}, got rows of {others[0]}")
        return frame, reason

    def _add_to_batch(self, series: _Series, read: _ReadFile, batch: _Batch) -> None:
        """Add a file's rows to the batch. If the archive has an older version of it, correct its rows."""
        batch.files += 1
        for table, frame in read.frames.items():
            symbol = series.item.symbol
            entry = LedgerEntry(self.exchange, symbol, read.window.start, read.window.end, file=read.mark)
            earlier = series.ledger_files[table].get(read.mark.name)
            if earlier is not None and earlier.sha256 != read.mark.sha256:
                frame = self._correct(series, table, frame, read)
            batch.frames.setdefault(table, []).append(frame)
            batch.entries.setdefault(table, []).append(entry)

    def _write_batch(self, series: _Series, batch: _Batch) -> None:
        """Write the rows and ledger entries of a batch to the archive, and report differing stored rows."""
        for table, frames in batch.frames.items():
            keyed = tables.TABLES[table]
            rows = join_frames(table, frames)
            if series.kind.dated and len(rows):
                rows = self._with_index_prices(series, rows)
            rows = keyed.conform(rows.drop_duplicates([*keyed.key], keep="last"))
            contracts = quoted_contracts([self.exchange], [series.item.symbol], [series.item.name])
            counts = self.archive.merge(table, rows, requests=batch.entries[table], contracts=contracts)
            self.done.count(self.exchange, table, counts.written)
            if counts.differing:
                text = (
                    f"{counts.differing} rows of {table} are already stored with other values, from requests"
                )
                self._note(series, f"{text}; the stored values are kept")
            self.progress(f"{series.label}: {table}: {batch.files} files, {counts.written} rows")

    def _with_index_prices(self, series: _Series, rows: pd.DataFrame) -> pd.DataFrame:
        """Add the index price at each row's time, from the archive."""
        window = rows["time"].min(), rows["time"].max() + pd.Timedelta(1, "us")
        prices = self.archive.read(
            "prices_history", *window, symbols=[series.item.symbol], venues=[self.exchange]
        )
        index = prices[prices["kind"] == "index"].drop_duplicates("time").set_index("time")["price_usd"]
        rows = rows.assign(index_price_usd=rows["time"].map(index))
        missing = int(rows["index_price_usd"].isna().sum())
        if missing:
            self._note(
                series,
                f"{missing} rows do not have an index price, because the archive has none at their time",
            )
        return rows

    def _correct(self, series: _Series, table: str, frame: pd.DataFrame, read: _ReadFile) -> pd.DataFrame:
        """Replace the stored rows of a file that was rewritten, and return its rows outside its period.

        Stored rows stay if they have another resolution, or a request returned them and the file lacks them.
        """
        # 1. Select the new rows of the file's period, and the stored rows of its series.
        keyed = tables.TABLES[table]
        symbol = series.item.symbol
        is_inside = frame["time"].between(*read.window, inclusive="left")
        new = keyed.conform(frame[is_inside])
        fixed = {name: value for name, value in series.kind.fixed.items() if name in keyed.columns}
        if series.kind.dated:
            fixed["instrument_name"] = series.item.name
        stored = self.archive.read(table, *read.window, symbols=[symbol], venues=[self.exchange])
        for name, value in fixed.items():
            stored = stored[stored[name] == value]
        # 2. Keep the stored rows that are not from the file.
        key = [*keyed.key]
        in_file = pd.MultiIndex.from_frame(stored[key]).isin(pd.MultiIndex.from_frame(new[key]))
        from_elsewhere = self._answered_by_request(table, symbol, stored["time"])
        if "resolution" in stored:
            from_elsewhere |= ~stored["resolution"].isin(new["resolution"])
        unchanged = stored[from_elsewhere & ~in_file]
        rows = new
        if len(unchanged):
            rows = keyed.conform(pd.concat([unchanged, new], ignore_index=True))
        # 3. Replace the stored rows.
        if len(rows) or len(stored):
            where = {"symbol": symbol, "exchange": self.exchange, **fixed}
            reason = f"{self.exchange} rewrote {read.mark.name}"
            start, end = read.window
            done = self.archive.replace(table, rows, where, start=start, end=end, reason=reason)
            self.done.count(self.exchange, table, len(new))
            self.done.notices.append(
                f"{reason}: {done.removed} rows of {table} were replaced by {done.added} (correction "
                f"{done.number})"
            )
        return frame[~is_inside]

    def _answered_by_request(self, table: str, symbol: str, stamps: pd.Series) -> pd.Series:
        """Return a mask of times in windows that a request about the symbol answered."""
        ledger = self.archive.requests()
        of_series = (ledger["table"] == table) & (ledger["exchange"] == self.exchange)
        of_series &= ledger["symbol"] == symbol
        windows = ledger[of_series & ledger["answered"] & (ledger["source"] == "request")]
        is_answered = pd.Series(False, stamps.index)
        for window in windows[["start", "end"]].itertuples(index=False):
            is_answered |= stamps.between(*window, inclusive="left")
        return is_answered


def _without_file(periods: Iterable[pd.Timestamp], files: Iterable[ListedFile]) -> list[pd.Timestamp]:
    """Return the periods without a file."""
    with_file = {file.start for file in files}
    return [start for start in periods if start not in with_file]


def _tables_to_read(kind: FileKind, names: Sequence[str]) -> list[str]:
    """Return the tables of `names` that a kind of files has; dated futures also need the index price."""
    wanted = list(names)
    if DATED in names and kind.fixed.get("kind") == "index":
        wanted.append("prices_history")
    return [table for table in kind.tables if table in wanted]


def _shown(words: Sequence[str]) -> str:
    """Return the first five words, and the number of the others."""
    shown = ", ".join(words[:_MAX_SHOWN])
    if len(words) > _MAX_SHOWN:
        return f"{shown} and {len(words) - _MAX_SHOWN} more"
    return shown
