"""Rows of an import that wait to be written: the rules of serving, and the rows that their series lack."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from derivdata.errors import ArchiveError
from derivdata.sources.archive.archive import Archive
from derivdata.sources.archive.audit import quoted_contracts
from derivdata.sources.archive.importing.conversion import CONTRACT, RANK
from derivdata.sources.archive.importing.market_names import ALWAYS_HOURLY
from derivdata.sources.archive.importing.plan import Unclear
from derivdata.support import times
from derivdata.support.arrays import Array
from derivdata.support.text import escape_controls
from derivdata.tables.chains import aligned
from derivdata.tables.history_rows import MissingRuns, grid_runs, payment_runs, shown_time, step_text
from derivdata.tables.payments import HOUR_US, MINUTE_US, assign_intervals, payment_time
from derivdata.tables.schema import Kind, Table

_MOST_CODES = 1 << 20


class Series(NamedTuple):
    """Number of each row's series, from 0 without gaps, and the words of each series."""

    numbers: Array
    words: list[tuple[Any, ...]]


def series_of(frame: pd.DataFrame, names: Sequence[str]) -> Series:
    """Return the series of rows, identified by some text columns."""
    codes = np.zeros(len(frame), dtype=np.int64)
    for name in names:
        values = frame[name]
        own = values.cat.codes if isinstance(values.dtype, pd.CategoricalDtype) else pd.factorize(values)[0]
        column = np.asarray(own, dtype=np.int64)
        codes = codes * (int(column.max(initial=0)) + 2) + column + 1
    numbers = _without_gaps(codes)
    firsts = np.zeros(int(numbers.max(initial=-1)) + 1, dtype=np.int64)
    firsts[numbers[::-1]] = np.arange(len(numbers))[::-1]
    rows = frame[[*names]].iloc[firsts]
    return Series(numbers, [*rows.astype(object).itertuples(index=False, name=None)])


def _without_gaps(codes: Array) -> Array:
    """Return consecutive numbers from 0 for codes; without a hash table for small codes."""
    most = int(codes.max(initial=0))
    if most > _MOST_CODES:
        return np.asarray(pd.factorize(codes)[0])
    is_used = np.zeros(most + 1, dtype=bool)
    is_used[codes] = True
    return np.asarray((np.cumsum(is_used) - 1)[codes])


_SERIES_COLUMNS = ("symbol", "exchange", "kind", "quote", "resolution")
_PAYMENTS = "funding_settlements"
_SAMPLE_ROWS = 100_000
_SHARE_OF_STEP = 0.9
_MOST_CELLS = 1 << 26
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
        """Note the times of some rows."""
        if not self._is_regular or not len(frame):
            return
        names = [name for name in _SERIES_COLUMNS if name in frame]
        self._has_resolution = names[-1:] == ["resolution"]
        numbers, words = series_of(frame, names)
        places = [self._numbers.setdefault(word, len(self._numbers)) for word in words]
        self._series.append(np.array(places, dtype=np.int32)[numbers])
        self._stamps.append(np.asarray(frame["time"].array.as_unit("us").asi8))
        if self._is_of_payments:
            has_hours = "interval_hours" in frame
            hours = frame["interval_hours"].to_numpy(np.float64) if has_hours else np.full(len(frame), np.nan)
            self._hours.append(hours)

    def text(self) -> str:
        """Return how many rows are missing, and the longest runs; empty without a step or missing rows."""
        if not self._stamps:
            return ""
        if self._is_of_payments:
            series, stamps, hours = map(np.concatenate, (self._series, self._stamps, self._hours))
            return self._shown([(_of_payments(series, stamps, hours), "")])
        texts = []
        steps = self._steps()
        for step in np.unique(steps[steps > 0]).tolist():
            runs = self._of_grid(steps == step, step)
            texts.append((runs, f" (step {step_text(step)})"))
        return self._shown(texts)

    def _of_grid(self, has_step: Array, step: int) -> MissingRuns:
        """Return the missing steps of some series. Complete series are recognised without a sort."""
        first = min(int(stamps.min()) for stamps in self._stamps) // step
        width = max(int(stamps.max()) for stamps in self._stamps) // step - first + 1
        if width * has_step.size <= _MOST_CELLS:
            has_row = np.zeros((has_step.size, width), dtype=bool)
            for series, stamps in zip(self._series, self._stamps, strict=True):
                has_row[series, stamps // step - first] = True
            begin = np.argmax(has_row, axis=1)
            end = width - np.argmax(has_row[:, ::-1], axis=1)
            has_step = has_step & (has_row.sum(axis=1) < end - begin)
        chosen = [has_step[series] for series in self._series]
        series = np.concatenate([values[rows] for values, rows in zip(self._series, chosen, strict=True)])
        stamps = np.concatenate([values[rows] for values, rows in zip(self._stamps, chosen, strict=True)])
        return grid_runs(series, stamps, first * step, (first + width) * step, step)

    def _steps(self) -> Array:
        """Return the step of each series [µs], 0 without one."""
        words = [word[-1] if self._has_resolution else "raw" for word in self._numbers]
        steps = np.array([_length(word) for word in words], dtype=np.int64)
        if (steps == 0).any():
            series = self._series[0][:_SAMPLE_ROWS]
            stamps = self._stamps[0][:_SAMPLE_ROWS]
            is_raw = steps[series] == 0
            steps[steps == 0] = _common_step(series[is_raw], stamps[is_raw])
        return steps

    def _shown(self, found: list[tuple[MissingRuns, str]]) -> str:
        names = [*self._numbers]
        texts = []
        for runs, note in found:
            inner = runs.of(~(runs.is_head | runs.is_tail))
            if not inner.rows.size:
                continue
            longest = np.argsort(-inner.rows, kind="stable")[:_SHOWN]
            examples = [
                f"{' '.join(map(str, names[inner.series[place]][:2]))} {shown_time(inner.start[place])} to "
                f"{shown_time(inner.end[place])} ({inner.rows[place]:,})"
                for place in longest.tolist()
            ]
            count = f"{_counted(int(inner.rows.sum()), 'row')} in {_counted(inner.rows.size, 'run')}{note}"
            texts.append(f"{count}: {', '.join(examples)}{', …' if inner.rows.size > _SHOWN else ''}")
        return "; ".join(texts)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _length(resolution: Any) -> int:
    """Return the step of a resolution [µs]; 0 for raw rows."""
    length = times.RESOLUTIONS.get(str(resolution))
    return 0 if length is None else int(length / pd.Timedelta(1, "us"))


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
    is_step = np.max(counts) >= _SHARE_OF_STEP * gaps.size and step >= MINUTE_US and 24 * HOUR_US % step == 0
    return step if is_step else 0


def _of_payments(series: Array, stamps: Array, hours: Array) -> MissingRuns:
    """Return the missing payments; intervals missing in the rows follow from the spacing."""
    order = np.lexsort((stamps, series))
    series = series[order].astype(np.int64)
    stamps = payment_time(stamps[order])
    hours = hours[order]
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


_HOUR_US = 3_600_000_000
_SAME_PAYMENT_US = _HOUR_US // 2
_MOST_MEDIAN_IV = 10.0
_HUNDRED_TIMES = (30.0, 300.0)
"""Ratios of volatilities of one chain of which one is percent; a smile alone has smaller ones."""
_HIDDEN = r"[\p{Cc}\p{Cf}\p{Co}\p{Zl}\p{Zp}]"


def unservable(table: Table, rows: pd.DataFrame, archive: Archive) -> dict[int, str]:
    """Return the rows that could not be served, by place, with the reason. Stored rows stay."""
    reasons = _hidden_words(table, rows)
    reasons |= _outside_range(table, rows)
    if table.name == "funding_settlements":
        reasons |= _paid_twice(rows, archive)
    if table.name == "oi_history":
        reasons |= _lone_zeros(rows)
    if {"level", "side", "price_usd"} <= {*table.columns}:
        reasons |= _unsorted_books(rows)
    if "iv" in rows.columns and len(rows):
        reasons |= _in_percent(table, rows)
    if "strike" in rows.columns and table.name == "options_snapshot":
        reasons |= _scaled_strikes(rows)
    if {"start", "end"} <= {*rows.columns}:
        ended = np.flatnonzero((rows["start"] >= rows["end"]).to_numpy())
        reasons |= dict.fromkeys(ended.tolist(), "it ends before it starts")
    return reasons


_LARGE_INTEREST = 1e6
_AT_END = 3
"""Zeros at the end of a series from which its contract may have ended."""


def _lone_zeros(rows: pd.DataFrame) -> dict[int, str]:
    """Find zeros among large open interest, which programs write where a value is missing."""
    reasons: dict[int, str] = {}
    if not (rows["oi_usd"] == 0).any():
        return reasons
    places = pd.Series(np.arange(len(rows)), rows.index)
    for _, series in places.groupby([rows["symbol"], rows["exchange"]], observed=True):
        own = rows.iloc[series].assign(place=series).sort_values("time")
        values = own["oi_usd"].to_numpy(dtype=np.float64)
        is_zero = values == 0
        after_last = len(values) - 1 - int(np.max(np.flatnonzero(~is_zero), initial=-1))
        if after_last >= _AT_END:
            is_zero[-after_last:] = False
        if is_zero.any() and np.median(values) > _LARGE_INTEREST:
            why = "oi_usd=0 among values above a million: the value is missing"
            reasons |= dict.fromkeys(own["place"].to_numpy()[is_zero].tolist(), why)
    return reasons


def _hidden_words(table: Table, rows: pd.DataFrame) -> dict[int, str]:
    """Return words with control or invisible characters, by row."""
    reasons: dict[int, str] = {}
    for name, column in table.columns.items():
        if column.kind not in (Kind.TEXT, Kind.LABEL) or name not in rows.columns:
            continue
        values = rows[name]
        is_coded = isinstance(values.dtype, pd.CategoricalDtype)
        words = pa.array(values.cat.categories if is_coded else values, pa.string())
        hidden = np.asarray(pc.match_substring_regex(words, _HIDDEN).fill_null(False))
        if not hidden.any():
            continue
        wrong = np.append(hidden, False)[values.cat.codes] if is_coded else hidden
        for row in np.flatnonzero(wrong).tolist():
            shown = escape_controls(str(values.iloc[row]))
            reasons[row] = f"{name}='{shown}' has characters that are not shown"
    return reasons


def _outside_range(table: Table, rows: pd.DataFrame) -> dict[int, str]:
    """Return impossible values, also computed ones, by row."""
    reasons: dict[int, str] = {}
    for name, column in table.columns.items():
        if name not in rows.columns or (column.minimum is None and column.maximum is None):
            continue
        values = pd.to_numeric(rows[name]).to_numpy(dtype=np.float64, na_value=np.nan)
        for wrong, why in column.outside(values):
            reasons |= {row: f"{name}={values[row]:g} {why}" for row in np.flatnonzero(wrong).tolist()}
    return reasons


def _paid_twice(rows: pd.DataFrame, archive: Archive) -> dict[int, str]:
    """Return payments within half an hour of another one of their series, by row.

    A row with several payments after a halt may have another one near it, which is added to it later.
    """
    if not len(rows):
        return {}
    near = pd.Timedelta(1, "h")
    first = rows["time"].min() - near
    last = rows["time"].max() + near
    symbols = sorted(set(rows["symbol"].astype(object)))
    stored = archive.read("funding_settlements", first, last, symbols=symbols)
    symbol_codes = _common_codes(stored["symbol"], rows["symbol"])
    series = _common_codes(stored["exchange"], rows["exchange"]) * (np.max(symbol_codes) + 1) + symbol_codes
    stamps = np.concatenate([_micros(stored), _micros(rows)])
    places = np.concatenate([np.full(len(stored), -1), np.arange(len(rows))])
    order = np.lexsort((places >= 0, stamps, series))
    places = places[order]
    stamps = stamps[order]
    series = series[order]
    apart = np.diff(stamps)
    is_near = (np.diff(series) == 0) & (apart > 0) & (apart < _SAME_PAYMENT_US)
    is_sum = np.concatenate([_payment_counts(stored), _payment_counts(rows)])[order] > 1
    is_near &= ~(is_sum[1:] | is_sum[:-1])
    reasons: dict[int, str] = {}
    for at in np.flatnonzero(is_near).tolist():
        earlier = int(places[at])
        later = int(places[at + 1])
        wrong, other = (later, at) if later >= 0 else (earlier, at + 1)
        if wrong < 0 or earlier in reasons:
            continue
        stamp = times.iso(pd.Timestamp(int(stamps[other]), unit="us", tz="UTC"))
        reasons[wrong] = f"a payment of its series at {stamp} is less than half an hour away"
    return reasons


def _common_codes(first: pd.Series, second: pd.Series) -> Array:
    """Return the words of two columns as numbers, equal ones for equal words."""
    categoricals = [pd.Categorical(first), pd.Categorical(second)]
    words = dict.fromkeys(str(word) for column in categoricals for word in column.categories)
    numbers = {word: number for number, word in enumerate(words)}
    codes = []
    for column in categoricals:
        own = np.array([numbers[str(word)] for word in column.categories], dtype=np.int64)
        codes.append(own[column.codes] if len(own) else np.zeros(len(column), dtype=np.int64))
    return np.concatenate(codes)


def _micros(rows: pd.DataFrame) -> Array:
    """Return the times of rows [µs]."""
    return np.asarray(rows["time"].astype("datetime64[us, UTC]").astype("int64").to_numpy())


def _payment_counts(rows: pd.DataFrame) -> Array:
    """Return the number of payments in each row."""
    if "payment_count" not in rows:
        return np.ones(len(rows))
    return np.asarray(rows["payment_count"].to_numpy(dtype=np.float64, na_value=np.nan))


def _unsorted_books(rows: pd.DataFrame) -> dict[int, str]:
    """Return books whose prices are not sorted from the best one, by row."""
    keys = [name for name in ("symbol", "exchange", "time", "side") if name in rows.columns]
    book = rows.groupby(keys, sort=False, observed=True).ngroup().to_numpy()
    order = np.lexsort((rows["level"].to_numpy(dtype=np.float64), book))
    price = rows["price_usd"].to_numpy()[order]
    is_bid = (rows["side"].astype(object) == "bid").to_numpy()[order]
    step = np.diff(price)
    wrong = (np.diff(book[order]) == 0) & np.where(is_bid[1:], step > 0, step < 0)
    bad = np.isin(book, book[order][1:][wrong])
    why = "its book is not sorted by level"
    return dict.fromkeys(np.flatnonzero(bad).tolist(), why)


def _in_percent(table: Table, rows: pd.DataFrame) -> dict[int, str]:
    """Find chains whose median volatility is above 1,000 %, and rows a hundred times off it."""
    keys = [name for name in ("symbol", "exchange", "time") if name in table.key]
    group = rows.groupby(keys, sort=False, observed=True)["iv"]
    median: Array = group.transform("median").to_numpy()
    wrong = np.flatnonzero(median > _MOST_MEDIAN_IV)
    reasons = {
        row: f"the median volatility of its chain is {median[row]:.4g}: percent, not decimal (--unit percent)"
        for row in wrong.tolist()
    }
    values = rows["iv"].to_numpy(dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.abs(np.log(values / median))
    is_mixed = (apart > np.log(_HUNDRED_TIMES[0])) & (apart < np.log(_HUNDRED_TIMES[1]))
    return reasons | {
        row: f"iv={values[row]:.4g}, and the median of its chain is {median[row]:.4g}: one is in percent"
        for row in np.flatnonzero(is_mixed).tolist()
    }


_MOST_FROM_UNDERLYING = 20.0
"""Times by which the median strike of a chain is above or below the underlying price, and never more."""
_LEAST_STRIKES = {"BTC": 100.0, "ETH": 10.0}
"""Strikes [USD] under which no option of a coin was ever listed."""


def _scaled_strikes(rows: pd.DataFrame) -> dict[int, str]:
    """Find chains whose strikes are far from the underlying price, such as those in thousands."""
    keys = [name for name in ("symbol", "exchange", "time") if name in rows.columns]
    chains = rows.groupby(keys, sort=False, observed=True)
    strike: Array = chains["strike"].transform("median").to_numpy(dtype=np.float64)
    least = rows["symbol"].astype(object).map(_LEAST_STRIKES).to_numpy(dtype=np.float64)
    wrong = strike < least
    if "underlying_price" in rows.columns:
        price: Array = chains["underlying_price"].transform("median").to_numpy(dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            is_far = np.abs(np.log(strike / price)) > np.log(_MOST_FROM_UNDERLYING)
        wrong = np.where(price > 0, is_far, wrong)
    return {
        row: f"the median strike of its chain is {strike[row]:.4g}, far from the price: strikes are scaled, "
        "such as in thousands"
        for row in np.flatnonzero(wrong).tolist()
    }


_HOUR = 3_600_000_000
_LEAST_OFF = 3
"""Minimum number of rows off the hours of their step that suggest another zone, above that of late or lost
rows.
"""
_OTHER_HOURS = {("bitmex", 8): (4,), ("kucoin", 8): (0, 4)}
"""Hours from midnight UTC at which venues have rows of so many hours: BitMEX pays at 04:00, 12:00 and 20:00,
and so did KuCoin."""


_LEAST_APART = 1.9


def refuse_some_of_payments(frame: pd.DataFrame) -> None:
    """Raise for rows that are hours apart on a venue that always pays each hour: they are samples."""
    own = frame[frame["exchange"].astype(object).isin(ALWAYS_HOURLY)]
    for (venue, symbol), stamps in own.groupby(["exchange", "symbol"], observed=True)["time"]:
        apart = stamps.drop_duplicates().sort_values().diff().median() / pd.Timedelta(1, "h")
        if apart >= _LEAST_APART:
            raise Unclear(
                f"rows of {symbol} on {venue} are {apart:g} hours apart, and the venue pays each hour: pass "
                "--table funding_history if they are samples of the rate of an hour, or write the rate of an "
                "hour first",
                "--table",
                ["funding_history"],
            )


def refuse_local_times(frame: pd.DataFrame) -> None:
    """Raise a question about the zone of times that were read as UTC if they show another clock.

    Rows each 2 to 12 hours lie at multiples of their step since midnight UTC: payments and candles of all
    venues but BitMEX and KuCoin do. Rows each hour or less jump by an hour where clocks are set forward, and
    have an hour twice where they are set back.
    """
    if not {"symbol", "exchange", "time"} <= {*frame.columns}:
        return
    for (venue, symbol), stamps in frame.groupby(["exchange", "symbol"], observed=True)["time"]:
        instants = stamps.astype("datetime64[us, UTC]").astype("int64").to_numpy()
        stamps, counts = np.unique(instants, return_counts=True)
        if len(stamps) < 2:
            continue
        step = int(np.median(np.diff(stamps)))
        allowed = {hours: offs for (name, hours), offs in _OTHER_HOURS.items() if name == venue}
        if "rate_bps_8h" not in frame:  # candles begin at midnight
            allowed = {hours: (0, *offs) for hours, offs in allowed.items()}
        evidence = _jump(stamps, step) or _repeat(stamps, counts, step)
        evidence = evidence or _off_schedule(stamps, step, allowed)
        if evidence:
            raise ArchiveError(
                f"the times of {symbol} on {venue} are without a zone, and not in UTC: {evidence}. State it "
                "with --tz, such as --tz UTC+3 or --tz Europe/London (or --tz UTC if they are UTC)"
            )


def _off_schedule(stamps: Array, step: int, allowed: Mapping[int, tuple[int, ...]]) -> str:
    """Return a text about rows that are whole hours off the multiples of their step; empty if none are.

    `allowed` has other hours after midnight by step.
    """
    hours = round(step / _HOUR)
    if abs(step - hours * _HOUR) > 60_000_000 or not 2 <= hours <= 12:
        return ""
    shifted = stamps + 60_000_000  # rows are some seconds early or late
    at_hour = shifted % _HOUR <= 120_000_000
    off = shifted // _HOUR % hours
    has_step = np.append(False, np.diff(shifted // _HOUR) == hours)  # intervals of payments may change
    has_step[:-1] |= has_step[1:]
    wrong = at_hour & has_step & ~np.isin(off, allowed.get(hours, (0,)))
    if wrong.sum() < min(_LEAST_OFF, len(stamps)):
        return ""
    first = pd.Timestamp(int(stamps[np.argmax(wrong)]), unit="us")
    return f"{int(wrong.sum())} rows, first {first:%Y-%m-%d %H:%M}, are not at a multiple of {hours} hours"


_SUNDAY = 6


def _repeat(stamps: Array, counts: Array, step: int) -> str:
    """Return the hour that a file has twice where clocks are set back; empty where it has none."""
    is_twice = counts == 2
    if step > 1.1 * _HOUR or not is_twice.any() or is_twice.mean() > 0.5:
        return ""
    hours = np.unique(stamps[is_twice] // _HOUR)
    # Two pages share midnight, and two contracts of a coin many hours in a row
    is_lone = ~(np.isin(hours - 1, hours) | np.isin(hours + 1, hours))
    for lone in hours[is_lone].tolist():
        at = pd.Timestamp(lone * _HOUR, unit="us")
        is_autumn = (at.month == 10 and at.day >= 25) or (at.month in (4, 11) and at.day <= 7)
        is_change = is_autumn and at.weekday() == _SUNDAY and 1 <= at.hour <= 3
        if is_change and is_twice[stamps // _HOUR == lone].all():
            return f"they have the hour of {at:%Y-%m-%d %H:%M} twice, when clocks are set back"
    return ""


def _jump(stamps: Array, step: int) -> str:
    """Return the missing hour of a file when clocks are set forward; empty if none is missing."""
    if step > 1.1 * _HOUR:
        return ""
    gaps = np.diff(stamps)
    for place in np.flatnonzero(np.abs(gaps - step - _HOUR) < 60_000_000).tolist():
        after = pd.Timestamp(int(stamps[place + 1]), unit="us")
        is_spring = (after.month == 3 and after.day >= 8) or (after.month == 10 and after.day <= 7)
        if is_spring and after.weekday() == _SUNDAY and 1 <= after.hour <= 4:
            return f"they jump to {after:%Y-%m-%d %H:%M}, when clocks are set forward"
    return ""
