"""A store of venues' bulk files without sockets, with the layouts that the venues' own files have."""

from __future__ import annotations

import gzip
import hashlib
import io
import zipfile
from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import escape

import pandas as pd
import pytest

from derivdata.client.transport.adapter import KeylessReply
from derivdata.errors import NetworkError

METRICS = (
    "create_time,symbol,sum_open_interest,sum_open_interest_value,count_toptrader_long_short_ratio,"
    "sum_toptrader_long_short_ratio,count_long_short_ratio,sum_taker_long_short_vol_ratio"
)
BARS = (
    "open_time,open,high,low,close,volume,close_time,quote_volume,count,taker_buy_volume,"
    "taker_buy_quote_volume,ignore"
)
_XML = (
    '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
)


def zipped(name: str, text: str) -> bytes:
    """A zip with one CSV file of the same stem."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name.removesuffix(".zip") + ".csv", text)
    return buffer.getvalue()


def metrics(symbol: str, day: str, *, first: str = "00:05", coins: float = 100.0, skip: int = 0) -> str:
    """A day of binance's metrics: of row i open interest is `coins` + i coins of 50,000 USD."""
    start = pd.Timestamp(f"{day} {first}")
    lines = [METRICS]
    for i in range(288 - skip):
        amount = coins + i
        stamp = f"{start + pd.Timedelta(5 * i, 'min'):%Y-%m-%d %H:%M:%S}"
        lines.append(f"{stamp},{symbol},{amount},{amount * 50_000},1.5,2.0,{1 + i / 1000},0.9")
    return "\n".join(lines) + "\n"


def bars(symbol: str, start: str, end: str, *, skip: tuple[str, ...] = ()) -> str:
    """Hourly bars: the open is 100 more each hour, takers bought 600 of 1,000 USD."""
    lines = [BARS]
    for i, time in enumerate(pd.date_range(start, end, freq="h", inclusive="left")):
        if f"{time:%Y-%m-%d}" not in skip:
            ms = int(time.timestamp() * 1000)
            lines.append(f"{ms},{1000 + 100 * i},0,0,0,2,{ms + 3_599_999},1000,7,1.2,600,0")
    return "\n".join(lines) + "\n"


class Bucket:
    """Files by path; `page` is how many keys one page of a list has, as 1,000 are in the venues' own.

    Attributes
    ----------
    asked
        The paths that were requested, without lists.
    broken
        Paths with an error status, and the number of requests after which the host stops responding.
    """

    def __init__(self, page: int = 7) -> None:
        self.files: dict[str, tuple[bytes, str]] = {}
        self.asked: list[str] = []
        self.broken: dict[str, int] = {}
        self.silent_after: int | None = None
        self._page = page

    def put(
        self, path: str, body: bytes, modified: str = "2026-01-01T08:30:00.000Z", **checksum: str
    ) -> None:
        """Put a file with its checksum, or with a `wrong` one; gz files of gate have none."""
        self.files[path] = (body, modified)
        if path.endswith(".zip") and "okex" not in path:
            digest = checksum.get("wrong") or hashlib.sha256(body).hexdigest()
            text = f"{digest}  {path.rpartition('/')[2]}\n"
            self.files[path + ".CHECKSUM"] = (text.encode(), modified)

    def put_zip(
        self, path: str, text: str, modified: str = "2026-01-01T08:30:00.000Z", **checksum: str
    ) -> None:
        self.put(path, zipped(path.rpartition("/")[2], text), modified, **checksum)

    def put_gz(self, path: str, text: str) -> None:
        self.put(path, gzip.compress(text.encode()) if text else b"")

    def answer(self, path: str, params: Mapping[str, str]) -> KeylessReply:
        if "prefix" in params:
            return KeylessReply(200, {}, self._listed(params).encode())
        self.asked.append(path)
        if self.silent_after is not None and len(self.asked) > self.silent_after:
            raise NetworkError(path, "no complete response: ConnectionError")
        if path in self.broken:
            return KeylessReply(self.broken[path], {}, b"<Error><Code>SlowDown</Code></Error>")
        if path not in self.files:
            return KeylessReply(404, {}, b"<Error><Code>NoSuchKey</Code></Error>")
        return KeylessReply(200, {}, self.files[path][0])

    def _listed(self, params: Mapping[str, str]) -> str:
        prefix, marker = params["prefix"], params.get("marker", "")
        keys = sorted(key.lstrip("/") for key in self.files)
        results: dict[str, str] = {}
        for key in keys:
            if key.startswith(prefix) and key > marker:
                rest = key[len(prefix) :]
                if params.get("delimiter") and "/" in rest:
                    folder = prefix + rest.partition("/")[0] + "/"
                    if folder > marker:
                        results[folder] = (
                            f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>"
                        )
                else:
                    body, modified = self.files[f"/{key}"]
                    results[key] = (
                        f"<Contents><Key>{escape(key)}</Key><LastModified>{modified}</LastModified>"
                        f"<ETag>&quot;x&quot;</ETag><Size>{len(body)}</Size></Contents>"
                    )
        names = sorted(results)[: self._page]
        more = len(results) > self._page
        following = f"<NextMarker>{names[-1]}</NextMarker>" if more and params.get("delimiter") else ""
        truncated = f"<IsTruncated>{'true' if more else 'false'}</IsTruncated>"
        return _XML + truncated + following + "".join(results[name] for name in names) + "</ListBucketResult>"


def connect(bucket: Bucket, patch: pytest.MonkeyPatch) -> dict[str, str]:
    """Route every file host to this bucket, and return the addresses."""

    class Session:
        def send(self, method: str, url: str, params: Mapping[str, str], **_: Any) -> KeylessReply:
            path = "/" + url.partition("://")[2].partition("/")[2]
            return bucket.answer(path, params)

        def close(self) -> None:
            """Do nothing; requests needs the method."""

    patch.setattr("os.fsync", lambda handle: None)
    patch.setattr("derivdata.sources.collect.file_histories.KeylessSession", Session)
    return dict.fromkeys(("binance", "okx", "gateio", "kucoin"), "http://files.test")
