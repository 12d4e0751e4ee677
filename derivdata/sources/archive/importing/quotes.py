"""The one contract of each symbol and venue: that in the quote currency of the highest priority."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from derivdata.sources.archive.audit import quoted_contracts
from derivdata.sources.archive.importing.conversion import CONTRACT, RANK
from derivdata.sources.archive.importing.series import series_of
from derivdata.support.arrays import Array

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
