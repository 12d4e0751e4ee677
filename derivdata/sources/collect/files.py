"""Files of the collector: the user's data folder, confirmed endpoints, and the quarantine."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
import pandas as pd
from platformdirs import user_data_path

from derivdata.errors import ArchiveError, SchemaError
from derivdata.sources.venues.endpoint import VenueEndpoint
from derivdata.sources.venues.record_types import Records
from derivdata.sources.venues.tabulation import frames
from derivdata.support import times
from derivdata.support.files import TEMPORARY, csv_text, private_folder, replace_file
from derivdata.support.forking import DECODERS

QUARANTINE = "quarantine"
"""The folder's name within an archive."""
_FILES = 100
_LARGEST = 256 * 2**10  # bytes of a body; a longer one is cut, with a mark in the file
_CHECKS = "venues-checked.json"


def data_folder() -> Path:
    """Return ``DERIVDATA_DATA_DIR``, or the library's folder for data of this user."""
    configured = os.environ.get("DERIVDATA_DATA_DIR")
    try:
        folder = Path(configured) if configured else user_data_path("derivdata")
        return folder.expanduser()
    except RuntimeError:
        raise ArchiveError(
            "this user has no home folder to keep the venues' responses in: name a folder, "
            'dd.connect("venues", archive=...), or set DERIVDATA_DATA_DIR'
        ) from None


def checked_on() -> dict[str, str]:
    """Return the day on which each endpoint was last confirmed, by "exchange path"."""
    try:
        days: dict[str, str] = DECODERS[dict[str, str]].decode((data_folder() / _CHECKS).read_bytes())
    except (OSError, ArchiveError, msgspec.DecodeError):
        return {}  # the file is missing or damaged, or the user has no home folder
    return days


def is_collected(endpoint: VenueEndpoint, *, unconfirmed: bool) -> bool:
    """Return whether to use an endpoint: confirmed by the specification or a check, or any if allowed."""
    return endpoint.confirmed or unconfirmed or f"{endpoint.exchange} {endpoint.path}" in checked_on()


def keep_checks(confirmed: Mapping[str, str], contradicted: list[str]) -> None:
    """Store confirmed endpoints, and remove contradicted ones."""
    days = {**checked_on(), **confirmed}
    days = {name: day for name, day in days.items() if name not in contradicted}
    path = data_folder() / _CHECKS
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, msgspec.json.encode(days, order="sorted"))


def write_checks(path: Path, checks: pd.DataFrame, day: str) -> None:
    """Write the results of a check, one line of JSON per request, without addresses and keys."""
    rows = checks[["exchange", "path_or_channel", "mark", "verdict", "rows"]].assign(verified_on=day)
    replace_file(path, rows.to_json(orient="records", lines=True).encode())


class Quarantine:
    """A folder of unreadable bodies, the newest for each error of each request, and of doubtful rows.

    At most 100 bodies are stored. Doubtful rows are not limited, since they may be right. Their files have
    complete rows of a table, which ``derivdata import`` can read. Requests have no key, so the files have
    none. Without a folder nothing is stored.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder

    def keep(self, exchange: str, request: str, body: bytes, error: str, at: pd.Timestamp) -> str:
        """Store a body; return its error with the file's name, or with the reason it could not be stored."""
        if self.folder is None:
            return error
        endpoint = request.partition("?")[0]
        kind = hashlib.blake2b(f"{exchange} {endpoint} {error}".encode(), digest_size=6).hexdigest()
        description = {
            "exchange": exchange,
            "request": request,
            "at": at.isoformat(),
            "error": error,
            "bytes": len(body),
            "is_cut": len(body) > _LARGEST,
            "body": body[:_LARGEST].decode(errors="backslashreplace"),
        }
        path = self.folder / f"{exchange}-{kind}.json"
        try:
            private_folder(self.folder)
            replace_file(path, msgspec.json.format(msgspec.json.encode(description)))
            files = [p for p in self.folder.glob("*.json") if not p.name.startswith(TEMPORARY)]
            for old in sorted(files, key=lambda p: (p == path, _changed(p)))[:-_FILES]:
                old.unlink(missing_ok=True)
        except OSError as problem:  # a full disk must not end the collector
            return f"{error} (not kept: {problem})"
        return f"{error} (kept as {path.name})"

    def keep_records(
        self, exchange: str, names: Iterable[str], records: Records | None, at: pd.Timestamp
    ) -> None:
        """Add doubtful records, as rows of some tables, to the files of their day."""
        if records is None or self.folder is None:
            return
        for table in names:
            try:
                rows = frames(exchange, records, [table], at=times.us(at))[table]
            except SchemaError as problem:  # the records do not fit the table at all
                self.keep(exchange, table, msgspec.json.encode(records), str(problem), at)
                continue
            self.keep_rows(exchange, table, rows, f"{at:%Y-%m-%d}")

    def keep_rows(self, exchange: str, table: str, rows: pd.DataFrame, group: str) -> str:
        """Add new rows of a table to the file of a `group`, and return its name, or why it failed."""
        if self.folder is None or rows.empty:
            return "not kept"
        path = self.folder / f"{exchange}-{table}-{group}.csv"
        try:
            private_folder(self.folder)
            lines = csv_text(rows).encode().splitlines(keepends=True)
            if path.exists():
                stored = {*path.read_bytes().splitlines(keepends=True)}
                with path.open("ab") as file:
                    file.writelines(line for line in lines if line not in stored)
            else:
                replace_file(path, b"".join(lines))
        except OSError as problem:
            return f"not kept: {problem}"
        return f"kept as {path.name}"


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # another collector has removed it
        return 0.0
