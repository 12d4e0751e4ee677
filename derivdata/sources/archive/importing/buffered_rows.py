"""Buffer the rows of an import in memory or a temporary file, and record missing rows of each series."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from derivdata.errors import ArchiveError
from derivdata.sources.archive.audit import quoted_contracts
from derivdata.sources.archive.importing.conversion import CONTRACT, RANK
from derivdata.support import times
from derivdata.support.arrays import Array
from derivdata.tables.chains import aligned
from derivdata.tables.history_rows import MissingRuns, grid_runs, payment_runs, shown_time, step_text
from derivdata.tables.payments import HOUR_US, MINUTE_US, assign_intervals, payment_time
from derivdata.tables.schema import Table

_MAX_CODES = 1 << 20


class Series(NamedTuple):
    """Number of each row's series, from 0 without gaps, and the words of each series."""

    numbers: Array
    words: list[tuple[Any, ...]]


def series_of(frame: pd.DataFrame, names: Sequence[str]) -> Series:
    """Return the series of rows, identified by some text columns."""
    codes = np.zeros(len(frame), dtype=np.int64)
    for name in names:
        words = frame[name]
        if isinstance(words.dtype, pd.CategoricalDtype):
            column = np.asarray(words.cat.codes, dtype=np.int64)
        else:
            column = pd.factorize(words)[0]
        # A missing word has the code -1: each column needs one number more than it has words.
        codes = codes * (int(column.max(initial=0)) + 2) + column + 1
    numbers = _without_gaps(codes)
    firsts = np.zeros(int(numbers.max(initial=-1)) + 1, dtype=np.int64)
    # From the last row to the first, so that the first row of each series is assigned last.
    firsts[numbers[::-1]] = np.arange(len(numbers))[::-1]
    rows = frame[[*names]].iloc[firsts]
    return Series(numbers, [*rows.astype(object).itertuples(index=False, name=None)])


def _without_gaps(codes: Array) -> Array:
    """Return consecutive numbers from 0 for codes; without a hash table for small codes."""
    largest = int(codes.max(initial=0))
    if largest > _MAX_CODES:
        return np.asarray(pd.factorize(codes)[0])
    is_used = np.zeros(largest + 1, dtype=bool)
    is_used[codes] = True
    return np.asarray((np.cumsum(is_used) - 1)[codes])


_SERIES_COLUMNS = ("symbol", "exchange", "kind", "quote", "resolution")
_PAYMENTS = "funding_settlements"
_SAMPLE_ROWS = 100_000
_SHARE_OF_STEP = 0.9
_MAX_CELLS = 1 << 26
_SHOWN = 3


class MissingRows:
    """Times of the rows of an import by series, and the runs of rows that the series lack.

    The step of a payment is its interval, and that of other rows their resolution. Rows of the resolution
    ``raw`` have a step if nine of ten distances between them are equal.
    """

    def __init__(self, table: Table) -> None:
        self._is_of_payments = table.name == _PAYMENTS
        is_sampled = "resolution" in table.columns and "symbol" in table.key and "time" in table.key
        self._is_regular = self._is_of_payments or (is_sampled and "instrument_name" not in table.key)
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._series: list[Array] = []
        self._stamps: list[Array] = []
        self._hours: list[Array] = []
        self._has_resolution = False

    def see(self, frame: pd.DataFrame) -> None:
        """Record the times of rows, to find missing ones."""
        if not self._is_regular or not len(frame):
            return
        names = [name for name in _SERIES_COLUMNS if name in frame]
        self._has_resolution = "resolution" in names
        numbers, words = series_of(frame, names)
        numbers_of_import = [self._numbers.setdefault(word, len(self._numbers)) for word in words]
        self._series.append(np.array(numbers_of_import, dtype=np.int32)[numbers])
        self._stamps.append(np.asarray(frame["time"].array.as_unit("us").asi8))
        if self._is_of_payments:
            hours = np.full(len(frame), np.nan)
            if "interval_hours" in frame:
                hours = frame["interval_hours"].to_numpy(np.float64)
            self._hours.append(hours)

    def text(self) -> str:
        """Return a text with the number of missing rows and the longest runs; empty without missing rows."""
        if not self._stamps:
            return ""
        if self._is_of_payments:
            series = np.concatenate(self._series)
            runs = _of_payments(series, np.concatenate(self._stamps), np.concatenate(self._hours))
            return self._shown(runs, "")
        texts: list[str] = []
        steps = self._steps()
        for step in np.unique(steps[steps > 0]).tolist():
            runs = self._of_grid(steps == step, step)
            texts.append(self._shown(runs, f" (step {step_text(step)})"))
        return "; ".join(filter(None, texts))

    def _of_grid(self, has_step: Array, step: int) -> MissingRuns:
        """Return the missing steps of some series. Complete series are recognised without a sort."""
        first = min(int(stamps.min()) for stamps in self._stamps) // step
        width = max(int(stamps.max()) for stamps in self._stamps) // step - first + 1
        if width * has_step.size <= _MAX_CELLS:
            has_row = np.zeros((has_step.size, width), dtype=bool)
            for series, stamps in zip(self._series, self._stamps, strict=True):
                has_row[series, stamps // step - first] = True
            begin = np.argmax(has_row, axis=1)
            end = width - np.argmax(has_row[:, ::-1], axis=1)
            has_step = has_step & (has_row.sum(axis=1) < end - begin)
        series_of_step: list[Array] = []
        stamps_of_step: list[Array] = []
        for series, stamps in zip(self._series, self._stamps, strict=True):
            rows = has_step[series]
            series_of_step.append(series[rows])
            stamps_of_step.append(stamps[rows])
        return grid_runs(
            np.concatenate(series_of_step),
            np.concatenate(stamps_of_step),
            first * step,
            (first + width) * step,
            step,
        )

    def _steps(self) -> Array:
        """Return the step of each series [µs], 0 without one."""
        steps = np.zeros(len(self._numbers), dtype=np.int64)
        if self._has_resolution:
            for number, words in enumerate(self._numbers):
                step = times.RESOLUTIONS.get(str(words[-1]), pd.Timedelta(0))
                steps[number] = step / pd.Timedelta(1, "us")
        is_raw = steps == 0
        if is_raw.any():
            series = self._series[0][:_SAMPLE_ROWS]
            stamps = self._stamps[0][:_SAMPLE_ROWS]
            rows = is_raw[series]
            steps[is_raw] = _common_step(series[rows], stamps[rows])
        return steps

    def _shown(self, runs: MissingRuns, note: str) -> str:
        """Return a text with the number of rows missing within series and the longest runs, or empty text."""
        inner = runs.of(~(runs.is_head | runs.is_tail))
        if not inner.rows.size:
            return ""
        names = [*self._numbers]
        examples: list[str] = []
        for run in np.argsort(-inner.rows, kind="stable")[:_SHOWN].tolist():
            series = " ".join(map(str, names[inner.series[run]][:2]))
            span = f"{shown_time(inner.start[run])} to {shown_time(inner.end[run])}"
            examples.append(f"{series} {span} ({inner.rows[run]:,})")
        if inner.rows.size > _SHOWN:
            examples.append("…")
        rows = _counted(int(inner.rows.sum()), "row")
        return f"{rows} in {_counted(inner.rows.size, 'run')}{note}: {', '.join(examples)}"


def _counted(number: int, noun: str) -> str:
    if number != 1:
        noun += "s"
    return f"{number:,} {noun}"


def _common_step(series: Array, stamps: Array) -> int:
    """Return the distance [µs] between nine of ten adjacent rows; 0 without one.

    It must divide a day, because `grid_runs` counts steps since 1970.
    """
    order = np.lexsort((stamps, series))
    gaps = np.diff(stamps[order])
    gaps = gaps[(np.diff(series[order]) == 0) & (gaps > 0)]
    if gaps.size < _SHOWN:
        return 0
    lengths, counts = np.unique(gaps, return_counts=True)
    step = int(lengths[np.argmax(counts)])
    if np.max(counts) < _SHARE_OF_STEP * gaps.size or step < MINUTE_US or 24 * HOUR_US % step != 0:
        return 0
    return step


def _of_payments(series: Array, stamps: Array, hours: Array) -> MissingRuns:
    """Return the missing payments; intervals missing in the rows follow from the spacing."""
    order = np.lexsort((stamps, series))
    series = series[order].astype(np.int64)
    stamps = payment_time(stamps[order])
    hours = hours[order]
    # Of rows of one payment the first counts.
    is_new = np.append(True, (np.diff(series) != 0) | (np.diff(stamps) > 0))
    series = series[is_new]
    stamps = stamps[is_new]
    hours = hours[is_new]
    if np.isnan(hours).any():
        spacing = assign_intervals(series, stamps, listed=np.full(len(stamps), np.nan)).hours
        hours = np.where(np.isnan(hours), spacing, hours)
    ones = np.ones(len(stamps), dtype=np.int64)
    return payment_runs(series, stamps, hours, ones, int(stamps.min()), int(stamps.max()) + 1)


HOLD_ROWS = 2_000_000
"""Maximum number of buffered rows before they are checked and written: columns of 16 MB, which reuse memory.
"""


class RowBuffer:
    """Rows of an import that are not written yet, in order of arrival."""

    def __init__(self) -> None:
        self._frames: list[pd.DataFrame] = []
        self._rows = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._files: list[Path] = []

    def add(self, frame: pd.DataFrame) -> None:
        """Add rows to the buffer."""
        if len(frame):
            self._frames.append(frame)
            self._rows += len(frame)

    @property
    def is_full(self) -> bool:
        """Whether the rows in memory reach the limit."""
        return self._rows >= HOLD_ROWS

    def take(self) -> pd.DataFrame | None:
        """Return the rows in memory and clear the buffer; None without rows."""
        if not self._frames:
            return None
        frames = self._frames
        self._frames = []
        self._rows = 0
        return joined(frames)

    def set_aside(self, frame: pd.DataFrame) -> None:
        """Write rows into a temporary file until all files were read."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="derivdata-import-")
        path = Path(self._folder.name) / str(len(self._files))
        frame.to_feather(path, compression="uncompressed")
        self._files.append(path)

    def all(self) -> Iterator[pd.DataFrame]:
        """Yield all buffered rows, those of the temporary file first."""
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
    """Concatenate frames; text columns stay categorical."""
    if len(frames) == 1:
        return frames[0].reset_index(drop=True)
    names: dict[str, None] = {}
    for frame in frames:
        names.update(dict.fromkeys(frame.columns))
    columns: dict[str, Any] = {}
    for name in names:
        values: list[pd.Series] = []
        for frame in frames:
            if name in frame:
                values.append(frame[name])
            else:
                values.append(pd.Series(np.nan, frame.index))
        are_words = [isinstance(series.dtype, pd.CategoricalDtype) for series in values]
        if all(are_words):
            columns[name] = pd.api.types.union_categoricals(values)
            continue
        if any(are_words):
            values = [series.astype(object) for series in values]
        columns[name] = pd.concat(values, ignore_index=True)
    return pd.DataFrame(columns, copy=False)


def in_open_chains(frame: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return a mask of rows in the newest chain of their symbol and venue, to which more rows may follow."""
    try:
        chains, _ = aligned(frame)
    except ValueError as problem:
        raise ArchiveError(f"options_snapshot: {problem}") from None
    series = pd.Series(series_of(frame, [name for name in _SERIES if name in frame]).numbers, frame.index)
    series_of_chain = series[chains.index]
    quoted_at = chains["time"]
    if "quoted_at" in chains:
        quoted_at = chains["quoted_at"].fillna(quoted_at)
    is_newest = chains["time"] == chains["time"].groupby(series_of_chain).transform("max")
    begins = quoted_at[is_newest].groupby(series_of_chain[is_newest]).min()
    return np.asarray(frame["time"] >= series.map(begins))


_SERIES = ("exchange", "symbol")


class BestQuotes:
    """Highest priority among the quote currencies of each symbol on each venue, over all rows seen."""

    def __init__(self) -> None:
        self._ranks: dict[tuple[Any, ...], int] = {}
        self.contracts: dict[str, str] = {}
        """Name of the contract by venue and symbol."""

    def see(self, frame: pd.DataFrame) -> None:
        """Record the quote currencies of rows."""
        ranked = frame[frame[RANK].notna()]
        numbers, words = series_of(ranked, _SERIES)
        lowest = np.full(len(words), np.iinfo(np.int64).max)
        np.minimum.at(lowest, numbers, ranked[RANK].to_numpy(dtype=np.int64))
        for pair, rank in zip(words, lowest.tolist(), strict=True):
            self._ranks[pair] = min(rank, self._ranks.get(pair, rank))

    def are_best(self, frame: pd.DataFrame) -> Array:
        """Return a mask of rows with the best quote currency of their symbol and venue, and record names.

        Rows of a venue's response have no priority, because its adapter has selected their contracts.
        """
        has_rank = frame[RANK].notna().to_numpy()
        ranked = frame[has_rank]
        numbers, words = series_of(ranked, _SERIES)
        best = np.array([self._ranks[pair] for pair in words], dtype=np.int64)
        is_best_of_ranked = ranked[RANK].to_numpy() == best[numbers]
        if not is_best_of_ranked.all():
            ranked = ranked[is_best_of_ranked]
        contracts = series_of(ranked, [*_SERIES, CONTRACT]).words
        if contracts:
            self.contracts |= quoted_contracts(*zip(*contracts, strict=True))
        is_best: Array = ~has_rank
        is_best[has_rank] = is_best_of_ranked
        return is_best
