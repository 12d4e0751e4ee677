"""Bulk files of venues as data; listing, fetching and verifying them."""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from derivdata.client.transport.adapter import LONGEST_WAIT, KeylessReply, KeylessSession, persist, refusal
from derivdata.errors import NetworkError, VenueError
from derivdata.sources.archive.ledger import LedgerFile
from derivdata.sources.collect.session import Clock, Stopped
from derivdata.sources.venues import binance, reading
from derivdata.sources.venues.endpoint import DATED
from derivdata.sources.venues.record_types import Instrument
from derivdata.support import times
from derivdata.support.files import replace_file

_PACE_SECONDS = 0.05
_TRIES = 5
_MOST_PAGES = 1_000
_ENTRY = re.compile(r"<Contents>(.*?)</Contents>", re.DOTALL)
_FOLDER = re.compile(r"<CommonPrefixes>.*?<Prefix>(.*?)</Prefix>", re.DOTALL)
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
        return " ".join([self.kind, *self.fixed.values(), *(["dated"] if self.dated else [])])

    @property
    def monthly(self) -> bool:
        """Whether a file is for a month, not for a day."""
        return "%d" not in self.period

    @property
    def daily(self) -> FileKind:
        """The same files by day."""
        return self._replace(path=self.days, period="%Y-%m-%d", days="")

    def of(self, file: ListedFile) -> FileKind:
        """Return the kind of a file, which may be for a day."""
        return self.daily if file.is_day and self.days else self

    def file(self, contract: str, start: pd.Timestamp) -> str:
        """Return the path of the file of a period."""
        return str(start.strftime(self.path.format(contract=contract, period=self.period)))

    def window(self, start: pd.Timestamp) -> times.Window:
        """Return the window of the rows of the file of a period."""
        end = start + (pd.offsets.MonthBegin(1) if self.monthly else pd.Timedelta(1, "D"))
        return times.Window(start + self.offset, end + self.offset)

    def periods(self, window: times.Window) -> list[pd.Timestamp]:
        """Return the starts of the periods with rows of a window."""
        first = window.start - self.offset
        last = window.end - self.offset
        first = first.floor("D").replace(day=1) if self.monthly else first.floor("D")
        starts = pd.date_range(first, last, freq="MS" if self.monthly else "D", inclusive="left")
        return [start.as_unit("us") for start in starts]


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
        is_same = mark is not None and (mark.size, mark.modified) == (self.size, self.modified)
        return is_same or (mark is not None and self.size is None)


class Mismatch(NetworkError):
    """A file does not have its stated checksum or size."""


TERMS = {
    "binance": "Binance Vision Dataset Terms of 2026-08-26: CC BY-NC-SA 4.0, name the source, share alike; "
    "commercial use needs a licence of the venue",
    **dict.fromkeys(("okx", "gateio", "kucoin"), "terms of the files were not read: for the user's own use"),
}
NOT_IN_FILES = {
    "bybit": "its files have trades only: payments and open interest reach back to the listing by request",
    "hyperliquid": "its files are paid for by the reader, with an account of the store: fetch them with its "
    "tools, then derivdata import --from hyperliquid",
    "deribit": "it does not publish files: its requests reach back to the listing",
    "kraken": "it does not publish files of futures: one request returns all payments of a contract",
    "dydx": "it does not publish files: its requests reach back to a market's start",
    "bitget": "its files have trades and candles only: payments are available by request",
}


def _binance(kind: str, market: str, tables: Mapping[str, int], *, name: str = "", **more: Any) -> FileKind:
    """Return files of binance, of the linear market ``um`` or the coin-margined market ``cm``."""
    stem = "{contract}/" + (f"{name}/" if name else "") + "{contract}-" + (name or kind) + "-{period}.zip"
    monthly, daily = (f"/data/futures/{market}/{by}/{kind}/{stem}" for by in ("monthly", "daily"))
    is_daily = kind == "metrics"
    return FileKind(
        "binance",
        "klines" if name else kind,
        "binance",
        tables,
        "https://data.binance.vision",
        daily if is_daily else monthly,
        "%Y-%m-%d" if is_daily else "%Y-%m",
        "https://s3-ap-northeast-1.amazonaws.com/data.binance.vision",
        ".CHECKSUM",
        binance.named,
        days=daily if name else "",
        **more,
    )


_METRICS = {"oi_history": 288, "positioning_history": 864}
FILES: tuple[FileKind, ...] = (
    *(_binance("fundingRate", market, {"funding_settlements": 3}) for market in ("um", "cm")),
    *(_binance("metrics", market, _METRICS, offset=pd.Timedelta(5, "min")) for market in ("um", "cm")),
    _binance("markPriceKlines", "um", {"prices_history": 24}, name="1h", fixed={"kind": "mark"}),
    _binance("indexPriceKlines", "um", {"prices_history": 24}, name="1h", fixed={"kind": "index"}),
    _binance("klines", "um", {"prices_history": 24, "volume_taker": 24}, name="1h", fixed={"kind": "last"}),
    _binance("klines", "um", {DATED: 24}, name="1h", dated=True),
    _binance("BVOLIndex", "um", {"volatility_index_published": 24}, offset=pd.Timedelta(1, "h"))._replace(
        path="/data/option/daily/BVOLIndex/{contract}BVOLUSDT/{contract}BVOLUSDT-BVOLIndex-{period}.zip",
        period="%Y-%m-%d",
        instrument=lambda name: Instrument(coin := name.removesuffix("BVOLUSDT"), coin, "USDT"),
    ),
    _binance("markPriceKlines", "cm", {"prices_history": 24}, name="1h", fixed={"kind": "mark"}),
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
            prefixes = [prefix for body in pages for prefix in _FOLDER.findall(body)]
            names = [prefix.rstrip("/").rpartition("/")[2] for prefix in prefixes]
            self._folders[folder] = names
        if symbol in names:
            return [kind.instrument(symbol)]
        items = [item for item in map(kind.instrument, names) if item.symbol == symbol]
        items = [item for item in items if (item.is_dated if kind.dated else item.perpetual)]
        return sorted(items, key=lambda item: (item.rank, item.name))

    def files(self, kind: FileKind, contract: str, window: times.Window) -> list[ListedFile]:
        """Return the files with rows of a window, by time; unlisted files by their finished periods."""
        periods = {kind.file(contract, start): start for start in kind.periods(window)}
        if not kind.listing or not periods:
            now = self._clock.utc()
            over = {path: start for path, start in periods.items() if kind.window(start).end <= now}
            return [ListedFile(path, start, not kind.monthly) for path, start in over.items()]
        last = max(periods).lstrip("/")
        before = min(periods).lstrip("/").removesuffix(".zip")  # a key before the first one
        prefix = kind.path.partition("{period}")[0].format(contract=contract).lstrip("/")
        listed = []
        for body in self._pages(
            kind, {"prefix": prefix, "marker": before}, lambda keys: not keys or keys[-1] < last
        ):
            for entry in _ENTRY.findall(body):
                path = f"/{_field(entry, 'Key')}"
                if path in periods:
                    size = int(_field(entry, "Size"))
                    modified = _field(entry, "LastModified")
                    listed.append(ListedFile(path, periods[path], not kind.monthly, size, modified))
        return sorted(listed, key=lambda file: file.start)

    def fetch(self, kind: FileKind, file: ListedFile, folder: Path) -> Path | None:
        """Fetch a file into a folder, under its path at the venue; return its path, or None if it is missing.

        A file with the right checksum is not fetched again. A file with another checksum is fetched twice and
        stored as ``.mismatch``. Raises `Mismatch` for it, and `VenueError` or `NetworkError`.
        """
        path = folder / file.path.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        stated = self._stated(kind, file)
        if path.exists() and stated is not None and _digest(path.read_bytes(), stated) == stated:
            return path
        for attempt in (1, 2):
            reply = self._get(kind.host, file.path, {})
            if reply is None:
                return None
            has_size = file.size is None or len(reply.body) == file.size
            if has_size and (stated is None or _digest(reply.body, stated) == stated):
                replace_file(path, reply.body)
                return path
            if attempt == 2:
                replace_file(path.with_name(path.name + ".mismatch"), reply.body)
        expected = f"checksum {stated}" if stated is not None and has_size else f"size of {file.size} bytes"
        raise Mismatch(
            file.path, f"it differs from the listed file: expected the {expected}; it was not read"
        )

    def _stated(self, kind: FileKind, file: ListedFile) -> str | None:
        """Return the venue's checksum of a file, or None."""
        reply = self._get(kind.host, file.path + kind.checksum, {}) if kind.checksum else None
        match = None if reply is None else _CHECKSUM.match(reply.body[:500].decode(errors="replace"))
        if match is None or match[2] != file.path.rpartition("/")[2]:
            return None
        return match[1].lower()

    def _pages(
        self, kind: FileKind, params: Mapping[str, str], goes_on: Callable[[list[str]], bool]
    ) -> Iterator[str]:
        """Yield every page of a list; each has at most 1,000 files."""
        query = dict(params)
        for _ in range(_MOST_PAGES):
            reply = self._get(kind.listing, "", query)
            body = "" if reply is None else reply.body.decode(errors="replace")
            if "<ListBucketResult" not in body:
                raise VenueError(f"{kind.exchange} {params['prefix']}", "the list of files is not a list")
            yield body
            keys = [_field(entry, "Key") for entry in _ENTRY.findall(body)]
            following = _field(body, "NextMarker") or (keys[-1] if keys else "")
            if _field(body, "IsTruncated") != "true" or not goes_on(keys):
                return
            if not following or following == query.get("marker"):
                break
            query["marker"] = following
        raise VenueError(f"{kind.exchange} {params['prefix']}", "the list of files does not end")

    def _get(self, host: str, path: str, params: Mapping[str, str]) -> KeylessReply | None:
        """Send a request with retries; return None only if the file does not exist."""
        url = (self._address or host) + (path if path else "/" if self._address else "")

        def ask() -> KeylessReply | None:
            self._wait(_PACE_SECONDS)
            self.requests += 1
            reply = self._http.send("GET", url, params)
            if reply.status in (200, 404):
                return reply if reply.status == 200 else None
            raise refusal(url.partition("://")[2], reply)

        def pause(problem: VenueError | NetworkError, usual: float) -> float | None:
            seconds = problem.retry_after or usual
            refused = isinstance(problem, VenueError) and problem.reason in ("refused", "region")
            return None if refused or seconds > LONGEST_WAIT else seconds

        return persist(ask, pause, self._wait, tries=_TRIES)

    def _wait(self, seconds: float) -> None:
        if self._clock.wait(seconds):
            raise Stopped("the backfill was stopped")


def _field(text: str, name: str) -> str:
    match = re.search(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)
    return html.unescape(match[1]) if match else ""


def _digest(body: bytes, like: str) -> str:
    """Return the checksum of a file of the same kind as `like`: MD5 for 32 digits, else SHA-256."""
    kind = "md5" if len(like) == 32 else "sha256"
    return hashlib.new(kind, body, usedforsecurity=False).hexdigest()
