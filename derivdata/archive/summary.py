"""What an archive holds, as a table for people."""

from __future__ import annotations

from typing import Any

import pandas as pd

from derivdata.archive.manifest import Holding, Manifest

__all__ = ["stamp", "summary"]

_COLUMNS = ("rows", "first", "last", "symbols", "exchanges", "files", "megabytes")


def summary(manifest: Manifest) -> pd.DataFrame:
    """One row per table: its rows, first and last instant, symbols, venues, files and size [MB]."""
    rows = {name: _row(holding) for name, holding in sorted(manifest.tables.items())}
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(_COLUMNS)).rename_axis("table")


def stamp(micros: int) -> pd.Timestamp:
    """Instant of microseconds since 1970."""
    return pd.Timestamp(micros, unit="us", tz="UTC").as_unit("us")


def _row(holding: Holding) -> list[Any]:
    return [
        sum(part.rows for part in holding.parts),
        stamp(min(part.first for part in holding.parts)),
        stamp(max(part.last for part in holding.parts)),
        len(holding.values.get("symbol", ())),
        len(holding.values.get("exchange", ())),
        len(holding.parts),
        round(sum(part.size for part in holding.parts) / 1e6, 3),
    ]
