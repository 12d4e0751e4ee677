"""Bulk files that venues publish, as data, and how they are listed, fetched and verified."""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from derivdata.client.transport.keyless import LONGEST_WAIT, KeylessReply, KeylessSession, persist, refusal
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
    kind: str  # what the venue calls the files, which is the name of their form
    source: str  # whose forms those are
    tables: Mapping[str, int]  # what they tell, with the rows that a whole day has
    host: str
    path: str  # names the ``{contract}`` and the ``{period}``
    period: str  # how the path writes it: ``%Y-%m-%d`` of a day, ``%Y-%m`` of a month
    listing: str = ""  # where a store of objects lists the files; "": nowhere
    checksum: str = ""  # added to a file's address for its checksum; "": there is none
    instrument: Callable[[str], Instrument] = reading.named  # the contract of a name
    contract: str = ""  # the name for a symbol, where nothing lists the names
    offset: pd.Timedelta = pd.Timedelta(0)  # how much later than the period in UTC a file's rows are
    fixed: Mapping[str, str] = {}  # what holds of all rows: the kind of a price
    dated: bool = False  # the files are those of dated futures
    days: str = ""  # the same files by day, for months that are not over, not there or not whole

    @property
    def label(self) -> str:
        """What messages and plans call it: of prices with their kind, or that they are dated futures'."""
        return " ".join([self.kind, *self.fixed.values(), *(["dated"] if self.dated else [])])

    @property
    def monthly(self) -> bool:
        """Whether a file is of a month, and not of a day."""
        return "%d" not in self.period

    @property
    def daily(self) -> FileKind:
        """The same files by day."""
        return self._replace(path=self.days, period="%Y-%m-%d", days="")

    def of(self, file: ListedFile) -> FileKind:
        """Return the kind of one of its files, which may be of a day."""
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
    """A file that a venue lists: path, start of its period, size [bytes] and when it was written."""

    path: str
    start: pd.Timestamp
    is_day: bool
    size: int | None = None
    modified: str = ""

    @property
    def name(self) -> str:
        """What the ledger calls it: its path, since files of several kinds have one name."""
        return self.path.lstrip("/")

    def is_read(self, marks: Mapping[str, LedgerFile]) -> bool:
        """Return whether the ledger has it as it is listed now."""
        mark = marks.get(self.name)
        is_same = mark is not None and (mark.size, mark.modified) == (self.size, self.modified)
        return is_same or (mark is not None and self.size is None)


class Mismatch(NetworkError):
    """A file is not the one that its checksum is of."""


TERMS = {
    "binance": "Binance Vision Dataset Terms of 2026-08-26: CC BY-NC-SA 4.0, name the source, share alike; "
    "commercial use needs a licence of the venue",
    **dict.fromkeys(("okx", "gateio", "kucoin"), "terms of the files were not read: for the user's own use"),
}
NOT_IN_FILES = {
    "bybit": "its files are of trades: payments and open interest reach back to the listing by request",
    "hyperliquid": "its files are paid for by the reader, with an account of the store: fetch them with its "
    "tools, then derivdata import --from hyperliquid",
    "deribit": "it publishes no files: its requests reach back to the listing",
    "kraken": "it publishes no files of futures: one request answers all payments of a contract",
    "dydx": "it publishes no files: its requests reach back to a market's start",
    "bitget": "its files are of trades and candles: payments are answered by request",
}


def _binance(kind: str, market: str, tables: Mapping[str, int], *, name: str = "", **more: Any) -> FileKind:
    """Return files of binance: of the linear market ``um`` or the coin-margined one, ``cm``."""
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
"""Files that are read, in the order of preference where a symbol has contracts in several."""


class FileHost:
    """Where a venue's files lie; an `address` answers instead of its own hosts, a mirror or a test."""

    def __init__(self, clock: Clock, address: str | None = None) -> None:
        self.requests = 0
        self._clock = clock
        self._address = address
        self._http = KeylessSession()
        self._folders: dict[str, list[str]] = {}  # of contracts, by what they lie in

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def contracts(self, kind: FileKind, symbol: str) -> list[Instrument]:
        """Return the perpetuals of a symbol that have files, delisted ones too, the preferred one first.

        Or its dated futures, where files are of these. `symbol` may also be the venue's name of a contract.
        """
        if not kind.listing:
            name = kind.contract.format(symbol)
            return [kind.instrument(name)._replace(symbol=symbol)]
        folder = kind.path.partition("{contract}")[0].lstrip("/")
        found = self._folders.get(folder)
        if found is None:
            pages = self._pages(kind, {"prefix": folder, "delimiter": "/"}, lambda _: True)
            prefixes = [prefix for body in pages for prefix in _FOLDER.findall(body)]
            found = self._folders[folder] = [name.rstrip("/").rpartition("/")[2] for name in prefixes]
        if symbol in found:
            return [kind.instrument(symbol)]
        items = [item for item in map(kind.instrument, found) if item.symbol == symbol]
        items = [item for item in items if (item.is_dated if kind.dated else item.perpetual)]
        return sorted(items, key=lambda item: (item.rank, item.name))

    def files(self, kind: FileKind, contract: str, window: times.Window) -> list[ListedFile]:
        """Return the files with rows of a window, by time; where nothing lists them, those that are due."""
        periods = {kind.file(contract, start): start for start in kind.periods(window)}
        if not kind.listing or not periods:
            now = self._clock.utc()
            over = {path: start for path, start in periods.items() if kind.window(start).end <= now}
            return [ListedFile(path, start, not kind.monthly) for path, start in over.items()]
        last = max(periods).lstrip("/")
        before = min(periods).lstrip("/").removesuffix(".zip")  # a key that is smaller than the first
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
        """Fetch a file into a folder, below its path at the venue, and return where; None: there is none.

        A file that is there with the right checksum is not fetched again; one of another checksum, fetched
        twice, stays as ``.mismatch``. Raises `Mismatch` for it, and `VenueError` or `NetworkError`.
        """
        path = folder / file.path.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        stated = self._stated(kind, file)
        if path.exists() and stated is not None and _digest(path.read_bytes(), stated) == stated:
            return path
        for tried in (1, 2):
            reply = self._get(kind.host, file.path, {})
            if reply is None:
                return None
            whole = file.size is None or len(reply.body) == file.size
            if whole and (stated is None or _digest(reply.body, stated) == stated):
                replace_file(path, reply.body)
                return path
            if tried == 2:
                replace_file(path.with_name(path.name + ".mismatch"), reply.body)
        what = f"checksum {stated}" if stated is not None and whole else f"size of {file.size} bytes"
        raise Mismatch(file.path, f"it is not the file that is listed: another {what}; it was not read")

    def _stated(self, kind: FileKind, file: ListedFile) -> str | None:
        """Return the checksum that the venue states of a file, None without one."""
        reply = self._get(kind.host, file.path + kind.checksum, {}) if kind.checksum else None
        match = None if reply is None else _CHECKSUM.match(reply.body[:500].decode(errors="replace"))
        if match is None or match[2] != file.path.rpartition("/")[2]:
            return None
        return match[1].lower()

    def _pages(
        self, kind: FileKind, params: Mapping[str, str], goes_on: Callable[[list[str]], bool]
    ) -> Iterator[str]:
        """Yield every page of a list, 1,000 files each; who asks for one page would believe that it ended."""
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
        """Ask until it answers; None is that there is no such file, and nothing else is."""
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
    """Return the checksum of a file in the kind of another: SHA-256, or MD5 of 32 digits."""
    kind = "md5" if len(like) == 32 else "sha256"
    return hashlib.new(kind, body, usedforsecurity=False).hexdigest()
