"""Converted rows that wait to be written, and the quote currency that is kept of each symbol and venue.

Rows wait in memory, and above a limit in a temporary file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from derivdata.errors import ArchiveError
from derivdata.sources.archive.audit import quoted_contracts
from derivdata.sources.archive.importing.conversion import CONTRACT, RANK
from derivdata.sources.archive.importing.missing import series_of
from derivdata.support.arrays import Array
from derivdata.tables.chain_snapshots import aligned

HOLD_ROWS = 2_000_000
"""Rows that are held in memory before they are checked and written: columns of 16 MB, which reuse memory."""


class WaitingRows:
    """Rows of an import, in the order in which they came, that are not written yet."""

    def __init__(self) -> None:
        self._frames: list[pd.DataFrame] = []
        self._rows = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._files: list[Path] = []

    def add(self, frame: pd.DataFrame) -> None:
        """Hold some rows."""
        if len(frame):
            self._frames.append(frame)
            self._rows += len(frame)

    @property
    def is_full(self) -> bool:
        """Whether the rows in memory reach the limit."""
        return self._rows >= HOLD_ROWS

    def take(self) -> pd.DataFrame | None:
        """Return the rows in memory, which are then not held any more; None without rows."""
        frames = self._frames
        self._frames = []
        self._rows = 0
        return joined(frames) if frames else None

    def set_aside(self, frame: pd.DataFrame) -> None:
        """Write rows into a temporary file until all files were read."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="derivdata-import-")
        path = Path(self._folder.name) / str(len(self._files))
        frame.to_feather(path, compression="uncompressed")
        self._files.append(path)

    def all(self) -> Iterator[pd.DataFrame]:
        """Yield all rows that wait, those of the temporary file first."""
        for path in self._files:
            yield pd.read_feather(path)
            path.unlink()
        self._files = []
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
        frame = self.take()
        if frame is not None:
            yield frame


def joined(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return frames below each other; text stays categories."""
    if len(frames) == 1:
        return frames[0].reset_index(drop=True)
    names = dict.fromkeys(name for frame in frames for name in frame.columns)
    columns: dict[str, Any] = {}
    for name in names:
        values = [frame[name] if name in frame else pd.Series(np.nan, frame.index) for frame in frames]
        if all(isinstance(series.dtype, pd.CategoricalDtype) for series in values):
            columns[name] = pd.api.types.union_categoricals(values)
        else:
            plain = [series.astype(object) if series.dtype == "category" else series for series in values]
            columns[name] = pd.concat(plain, ignore_index=True)
    return pd.DataFrame(columns, copy=False)


def in_open_chains(frame: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return which rows are of the newest chain of their symbol and venue, which may have more rows."""
    try:
        chains, _ = aligned(frame)
    except ValueError as problem:
        raise ArchiveError(f"options_snapshot: {problem}") from None
    series = [name for name in ("symbol", "exchange") if name in frame]
    keys = [frame[name].astype(str) for name in series] or [pd.Series("", index=frame.index)]
    newest = chains["time"].groupby([key[chains.index] for key in keys]).transform("max")
    quoted_at = chains["quoted_at"].fillna(chains["time"]) if "quoted_at" in chains else chains["time"]
    begins = quoted_at.where(chains["time"] == newest).groupby([key[chains.index] for key in keys]).min()
    names = pd.MultiIndex.from_arrays(keys) if len(keys) > 1 else pd.Index(keys[0])
    return np.asarray(pd.DatetimeIndex(frame["time"]) >= pd.DatetimeIndex(begins.reindex(names)))


_SERIES = ("exchange", "symbol")


class BestQuotes:
    """Highest priority among the quote currencies of each symbol on each venue, over all rows seen."""

    def __init__(self) -> None:
        self._ranks: dict[tuple[Any, ...], int] = {}
        self.contracts: dict[str, str] = {}
        """Name of the contract by venue and symbol."""

    def see(self, frame: pd.DataFrame) -> None:
        """Note the quote currencies of some rows."""
        numbers, words = series_of(frame, _SERIES)
        lowest = np.full(len(words), np.iinfo(np.int64).max)
        np.minimum.at(lowest, numbers, frame[RANK].to_numpy())
        for pair, rank in zip(words, lowest.tolist(), strict=True):
            self._ranks[pair] = min(rank, self._ranks.get(pair, rank))

    def are_best(self, frame: pd.DataFrame) -> Array:
        """Return which rows have the best quote currency of their symbol and venue, and note their names."""
        numbers, words = series_of(frame, _SERIES)
        best = np.array([self._ranks[pair] for pair in words], dtype=np.int64)
        is_best = np.asarray(frame[RANK].to_numpy() == best[numbers])
        rows = frame if is_best.all() else frame[is_best]
        distinct = series_of(rows, [*_SERIES, CONTRACT]).words
        self.contracts |= quoted_contracts(*zip(*distinct, strict=True)) if distinct else {}
        return is_best
