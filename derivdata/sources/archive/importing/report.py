"""Rows on their way into the archive, gathered into large appends, every one of them counted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from derivdata.sources.archive.archive import Archive
from derivdata.sources.archive.importing.coin_amounts import usd_from_coins
from derivdata.sources.archive.importing.conversion import RANK, Rows
from derivdata.sources.archive.importing.plan import ImportPlan

__all__ = ["ImportReport"]

_FLUSH_ROWS = 500_000


class ImportReport:
    """Counts of one import."""

    def __init__(self, plan: ImportPlan, archive: Archive, best: Mapping[tuple[str, str], int]) -> None:
        self.read = self.written = self.present = self.differing = self.other_quotes = self.rejected = 0
        self.first_rejected: str | None = None
        self._plan = plan
        self._archive = archive
        self._best = best
        self._waiting: list[pd.DataFrame] = []

    def take(self, path: Path, chunk: Rows) -> None:
        """Count the rows of a chunk, and keep those to write."""
        self.read += len(chunk.frame) + chunk.rejected
        self.rejected += chunk.rejected
        if chunk.first is not None and self.first_rejected is None:
            self.first_rejected = f"{path.name}, {chunk.first}"
        self._waiting.append(self._of_best_quote(chunk.frame))
        if sum(map(len, self._waiting)) >= _FLUSH_ROWS:
            self.flush()

    def flush(self) -> None:
        """Append what waits."""
        if not any(map(len, self._waiting)):
            return
        rows = pd.concat([frame for frame in self._waiting if len(frame)], ignore_index=True)
        self._waiting = []
        again = rows.duplicated(list(self._plan.table.key))
        equal = rows.duplicated()
        rows = rows[~again]
        if self._plan.unit == "coins":
            rows = usd_from_coins(rows, self._archive)
        counts = self._archive.merge(
            self._plan.table.name,
            self._complete(rows),
            unit=self._plan.unit,
            accept=self._plan.accept,
        )
        self.written += counts.written
        self.present += counts.present + int((again & equal).sum())
        self.differing += counts.differing + int((again & ~equal).sum())

    def _of_best_quote(self, frame: pd.DataFrame) -> pd.DataFrame:
        if RANK not in frame.columns:
            return frame
        if self._best:
            pairs = zip(frame["exchange"], frame["symbol"], strict=True)
            best = frame[RANK].to_numpy() == [self._best[pair] for pair in pairs]
            self.other_quotes += int((~best).sum())
            frame = frame[best]
        return frame.drop(columns=RANK)

    def _complete(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Add the table's columns that no row gives, as missing."""
        absent: dict[str, Any] = dict.fromkeys(set(self._plan.table.columns) - set(frame.columns))
        return frame.assign(**absent)
