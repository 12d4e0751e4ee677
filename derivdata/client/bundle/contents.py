"""Summary of a bundle, for people."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from derivdata.client.bundle.environment import differences
from derivdata.client.bundle.layout import Entry, Manifest, request_of
from derivdata.client.bundle.reading import Bundle
from derivdata.support import times

__all__ = ["Contents", "info", "verify"]

_UNITS = ("B", "kB", "MB", "GB")


@dataclass(frozen=True)
class Contents:
    """Summary of a whole bundle.

    Attributes
    ----------
    path, bytes
        The file and its size.
    manifest
        Source, clock, versions.
    requests
        One row per answer: ``path``, ``query``, ``status``, ``date`` and ``received`` (UTC), ``bytes``,
        ``sha256``, ``source``.
    """

    path: Path
    bytes: int
    manifest: Manifest
    requests: pd.DataFrame

    def __str__(self) -> str:
        m = self.manifest
        lines = [
            f"{self.path}: {m.answers} answers, {_size(self.bytes)}",
            f"source: {m.source or 'none'}{' (synthetic)' if m.synthetic else ''}",
            f"clock: {m.asof or 'none'}",
            f"made by: derivdata {m.versions.get('derivdata', 'unknown')}, Python {m.python}, {m.platform}",
        ]
        if m.attribution:
            lines.append(f"attribution: {m.attribution}")
        different = differences(m)
        lines.append("differs here: " + ("; ".join(different) if different else "nothing"))
        for row in self.requests.itertuples():
            query = f"?{row.query}" if row.query else ""
            lines.append(f"  {row.status} {_size(row.bytes):>9} {_date(row.date)} {row.path}{query}")
        return "\n".join(lines)


def info(path: str | Path) -> Contents:
    """Return what a bundle holds, after every hash was checked.

    Raises
    ------
    BundleError
        It is not a bundle, damaged, or built to do harm.
    """
    bundle = Bundle(path)
    try:
        return Contents(bundle.path, bundle.path.stat().st_size, bundle.manifest, _requests(bundle.entries))
    finally:
        bundle.close()


def verify(path: str | Path) -> int:
    """Check every hash of a bundle; return how many answers it holds.

    Raises
    ------
    BundleError
        It is not a bundle, damaged, or built to do harm; the message names the entry.
    """
    return int(info(path).manifest.answers)


def _requests(entries: list[Entry]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "path": [e.path for e in entries],
            "query": [str(request_of(e)).partition("?")[2] for e in entries],
            "status": [e.status for e in entries],
            "date": times.parse([e.date for e in entries]),
            "received": times.parse([e.received for e in entries]),
            "bytes": [e.bytes for e in entries],
            "sha256": [e.sha256 for e in entries],
            "source": [e.source for e in entries],
        }
    )


def _date(date: pd.Timestamp) -> str:
    return "no date".ljust(20) if date is pd.NaT else times.iso(date)


def _size(size: int) -> str:
    value = float(size)
    for unit in _UNITS:
        if value < 1000 or unit == _UNITS[-1]:
            break
        value /= 1000
    return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"
