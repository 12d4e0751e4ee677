"""Missing rows of a history at the step of its series, and notices about histories that are rarely right.

The step is the resolution of the rows, or the interval of each payment. A window with missing rows is
incomplete: it is requested again, until a second response lacks the same rows (see the ledger).

`derivdata.sources.collect.questions` rejects impossible rows. Rows that do not change, are 0, or differ from
other venues are stored, with a notice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from derivdata import tables
from derivdata.sources import Query
from derivdata.sources.archive import Archive
from derivdata.sources.archive.ledger import LedgerEntry
from derivdata.sources.collect.history_rows import PartialPage
from derivdata.sources.venues.row_checks import LEVELS, STEADY, series_doubts
from derivdata.support import times
from derivdata.tables.payments import confirmed_runs, is_valid

INCOMPLETE = "incomplete"
"""First word of the text about a window with missing rows."""

_PAYMENTS = "funding_settlements"
_REACH = pd.Timedelta(2, "D")
"""Time around a window in which stored rows are read: two of the longest steps."""
_JOINED_WITHIN = pd.Timedelta(1, "D")
_LISTED_WITHIN = pd.Timedelta(1, "D")
"""Maximum time until venues list a row."""
_FIRST_STEPS = 2
"""Steps after the listing of a contract within which its first row is due."""
_MICROSECOND = pd.Timedelta(1, "us")
_HOUR_US = 3_600_000_000


def has_step(table: str) -> bool:
    """Return whether rows of a table have a step."""
    return table == _PAYMENTS or "resolution" in tables.TABLES[table].columns


def joined(windows: Sequence[times.Window]) -> list[times.Window]:
    """Join windows that are less than a day apart, so that one request covers them."""
    result: list[times.Window] = []
    for window in windows:
        if result and window.start - result[-1].end < _JOINED_WITHIN:
            result[-1] = times.Window(result[-1].start, window.end)
        else:
            result.append(window)
    return result


class Surroundings:
    """The stored rows in and around a window of one series."""

    def __init__(
        self, archive: Archive, exchange: str, table: str, symbol: str, window: times.Window
    ) -> None:
        keyed = tables.TABLES[table]
        self.table = table
        self.window = window
        self._archive = archive
        self._exchange = exchange
        self._symbol = symbol
        self._groups = [name for name in keyed.key if name not in ("symbol", "exchange", "time")]
        self._groups += ["resolution"] if table != _PAYMENTS and "resolution" not in self._groups else []
        step_columns = ["interval_hours", "interval_source"] if table == _PAYMENTS else []
        self._columns = ["time", *step_columns, *self._groups]
        start = window.start - _REACH
        end = window.end + _REACH
        self._rows = archive.rows(Query(table, start, end, [symbol], [exchange], self._columns))

    def with_next_row(self) -> times.Window:
        """Return the window extended to the next stored row, which a response must have, too."""
        following = self._rows.loc[self._rows["time"] >= self.window.end, "time"]
        if following.empty:
            return self.window
        return times.Window(self.window.start, following.min() + _MICROSECOND)

    def missing(
        self,
        rows: pd.DataFrame,
        window: times.Window,
        now: pd.Timestamp,
        *,
        is_active: bool,
        listed: int | None = None,
    ) -> list[PartialPage]:
        """Return the sections of a window in which neither a response nor the archive has rows.

        After the last row, rows of a traded contract are missing until the end of the window; before the
        first row, they are missing since the contract was `listed` [µs].
        """
        present = pd.concat([self._rows, rows[self._columns]], ignore_index=True)
        sections: dict[times.Window, PartialPage] = {}
        if present.empty:  # a contract without rows may be without payments
            return []
        groups = present.groupby(self._groups, observed=True) if self._groups else [((), present)]
        for _, group in groups:
            for section in self._of_series(group, window, now, is_active=is_active, listed=listed):
                sections.setdefault(section.window, section)
        return list(sections.values())

    def late_start(self, rows: pd.DataFrame, window: times.Window) -> str:
        """Return a text with the first row of a series that begins late in a window, else an empty text."""
        present = pd.concat([self._rows, rows[self._columns]], ignore_index=True)
        if present.empty:
            return ""
        first = present.loc[present["time"].idxmin()]
        if self.table == _PAYMENTS:
            hours = first["interval_hours"]
            step = None if pd.isna(hours) else pd.Timedelta(float(hours), "h")
        else:
            step = times.RESOLUTIONS.get(str(first["resolution"]))
        if step is None:
            return ""
        absent = int((first["time"] - window.start) // step)
        if absent < 1 + _FIRST_STEPS:
            return ""
        return f"{self._symbol} from {times.iso(first['time'])} ({absent} rows)"

    def missing_before(
        self, rows: pd.DataFrame, window: times.Window, now: pd.Timestamp
    ) -> list[LedgerEntry]:
        """Return ledger entries for rows that are missing before a window in windows marked as answered.

        An interval that later payments confirm may show that earlier payments are missing.
        """
        before = times.Window(window.start - _REACH, window.start)
        sections = self.missing(rows, before, now, is_active=False)
        if not sections:
            return []
        ledger = self._archive.requests()
        is_own = (ledger["table"] == self.table) & (ledger["exchange"] == self._exchange)
        is_own &= ledger["answered"] & (ledger["source"] == "request")
        is_own &= ledger["symbol"].isna() | (ledger["symbol"] == self._symbol)
        answered = ledger[is_own]
        result = []
        for section in sections:
            start, end = section.window
            if ((answered["start"] <= start) & (answered["end"] >= end)).any():
                result.append(LedgerEntry(self._exchange, self._symbol, start, end, section.error, None, now))
        return result

    def _of_series(
        self,
        series: pd.DataFrame,
        window: times.Window,
        now: pd.Timestamp,
        *,
        is_active: bool,
        listed: int | None,
    ) -> Iterable[PartialPage]:
        """Yield the sections of a window with missing rows of one series."""
        series = series.drop_duplicates("time").sort_values("time")
        stamps = series["time"].astype("datetime64[us, UTC]").astype("int64").to_numpy()
        if self.table == _PAYMENTS:
            steps = _known_hours(series, stamps) * _HOUR_US
        else:
            length = times.RESOLUTIONS.get(str(series["resolution"].iloc[0]))
            if length is None:  # rows of polls
                return
            steps = np.full(len(stamps), float(times.us(length)))
        first = times.us(window.start)
        end = times.us(window.end)
        last = int(stamps[-1])
        step = float(steps[-1])
        # 1. Gaps between rows, with the number of missing rows in each.
        befores = stamps[:-1]
        afters = stamps[1:]
        of_gaps = steps[1:]
        counts = np.rint((afters - befores) / of_gaps) - 1.0  # NaN where the step is unknown
        # 2. The gap after the last row. A payment is listed by the end of the window, other rows up to a step
        # later.
        within = step if self.table == _PAYMENTS else 2.0 * step
        is_sure = self.table != _PAYMENTS or len(stamps) == 1 or stamps[-1] - stamps[-2] == step
        if is_active and is_sure and end > last + within:
            befores = np.append(befores, last)
            afters = np.append(afters, end)
            of_gaps = np.append(of_gaps, step)
            counts = np.append(counts, np.ceil((end - last) / step) - 1.0)
        # 3. The gap before the first row.
        due = max(first, first if listed is None else listed)
        lead = float(steps[0])
        absent = 0.0
        if listed is not None and not np.isnan(lead):
            absent = np.floor((int(stamps[0]) - due) / lead)
        if absent >= 1.0 + _FIRST_STEPS:  # the first step may be partial
            text = (
                f"{int(absent)} rows missing before {times.iso(_time(int(stamps[0])))} "
                f"at a step of {_length(lead)}"
            )
            yield PartialPage(times.Window(_time(due), _time(int(stamps[0]))), text, int(absent))
        for place in np.flatnonzero(counts >= 1.0).tolist():
            before = int(befores[place])
            count = int(counts[place])
            start = max(before + int(of_gaps[place]), first)
            stop = min(int(afters[place]), end)
            if start < stop:
                text = (
                    f"{count} rows missing after {times.iso(_time(before))} "
                    f"at a step of {_length(float(of_gaps[place]))}"
                )
                is_open = place == len(stamps) - 1 and window.end > now - _LISTED_WITHIN
                yield PartialPage(times.Window(_time(start), _time(stop)), text, count, is_open)


def _known_hours(series: pd.DataFrame, stamps: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the interval of each payment; NaN where the gap before it may be a new interval.

    The interval is known if it is stated, if later payments confirm it, or if the gap is not an interval that
    venues use.
    """
    hours = series["interval_hours"].to_numpy(dtype=np.float64, na_value=np.nan)
    gaps = np.append(np.nan, np.rint(np.diff(stamps) / _HOUR_US))
    is_confirmed = confirmed_runs(np.append(False, gaps[1:] == gaps[:-1])) & (gaps == hours)
    is_followed = np.logical_or.accumulate(is_confirmed[::-1])[::-1]
    is_stated = series["interval_source"].isin(["row", "list"]).to_numpy()
    is_known = is_stated | is_followed | ~is_valid(gaps)
    return np.where(is_known, hours, np.nan)


def summary(incomplete: Iterable[LedgerEntry]) -> list[str]:
    """Return one text for all incomplete windows of a response."""
    texts = [entry.error for entry in incomplete]
    if not texts:
        return []
    more = f", and more in {len(texts) - 1} other windows" if len(texts) > 1 else ""
    return [f"{INCOMPLETE}: {texts[0]}{more}"]


def _time(micros: int) -> pd.Timestamp:
    return pd.Timestamp(micros, unit="us", tz="UTC").as_unit("us")


def _length(micros: float) -> str:
    hours = micros / _HOUR_US
    return f"{hours:g} h" if hours >= 1 else f"{hours * 60:g} min"


_RATE = "rate_bps_8h"
_COMPARED_ROWS = 12
_LASTING_FACTOR = 6.0
_ROW_FACTOR = 5.0
_LEAST_BPS = 0.3
_LARGE_BPS = 2.0
_LEAST_ROWS = 6
_LEAST_SHARE = 0.1
_OPPOSITE_SHARE = 0.95


def doubts(
    archive: Archive, exchange: str, table: str, rows: pd.DataFrame, usual_hours: float | None
) -> list[str]:
    """Return a sentence, with the first doubtful row, for each doubt about the rows of one contract."""
    if rows.empty:
        return []
    texts = list(series_doubts(exchange, table, rows, usual_hours))
    if table == _PAYMENTS:
        ordered = rows.sort_values("time")
        texts += _unlike_peers(archive, exchange, ordered)
    elif table in STEADY:
        texts += _unlike_stored(archive, exchange, table, rows.sort_values("time"))
    return [f"{exchange} {table} {rows['symbol'].iloc[0]}: {text}" for text in texts]


_STORED_SPAN = pd.Timedelta(1, "D")
_STORED_ROWS = 12
_STORED_FACTOR = {"oi_history": 3.0, "prices_history": 1.3}
"""Factor by which a day's last and first rows of one series may differ."""


def _unlike_stored(archive: Archive, exchange: str, table: str, rows: pd.DataFrame) -> list[str]:
    """Return a doubt about levels of another size than the rows that the archive has of the day before."""
    if exchange not in archive.exchanges(table):
        return []
    name = LEVELS[table]
    symbol = str(rows["symbol"].iloc[0])
    start = rows["time"].iloc[0]
    stored = archive.read(table, start - _STORED_SPAN, start, symbols=[symbol], venues=[exchange])
    keys = [key for key in ("kind", "quote") if key in rows]
    for key in keys:
        stored = stored[(stored[key] == rows[key].iloc[0]).to_numpy(dtype=bool)]
        rows = rows[(rows[key] == rows[key].iloc[0]).to_numpy(dtype=bool)]
    before = float(stored.sort_values("time")[name].tail(_STORED_ROWS).median())
    now = float(rows[name].head(_STORED_ROWS).median())
    factor = _STORED_FACTOR[table]
    if len(stored) < _LEAST_ROWS or not (before > 0 and now > 0) or before / factor <= now <= before * factor:
        return []
    return [
        f"{name} is {now:.4g} from {_shown(rows, 0)} on and was {before:.4g} in the stored rows before: "
        "another unit, or the market moved by as much in a day"
    ]


def _unlike_peers(archive: Archive, exchange: str, rows: pd.DataFrame) -> list[str]:
    """Return a doubt about rates that differ from other venues at the same times and intervals."""
    if not set(archive.exchanges(_PAYMENTS)) - {exchange}:
        return []
    start = rows["time"].iloc[0]
    end = rows["time"].iloc[-1] + _MICROSECOND
    stored = archive.read(_PAYMENTS, start, end, symbols=[str(rows["symbol"].iloc[0])])
    stored = stored[(stored["exchange"] != exchange).to_numpy()]
    keys: list[Any] = ["time", "interval_hours"]
    peers = stored.groupby(keys, observed=True)[_RATE].median().rename("peer").reset_index()
    both = rows.merge(peers, on=keys, how="inner").sort_values("time", ignore_index=True)
    if len(both) < _COMPARED_ROWS:
        return []
    own, peer = (both[column].to_numpy(dtype=np.float64) for column in (_RATE, "peer"))
    larger = np.fmax(np.abs(own), np.abs(peer))
    is_judged = (own != 0) & (peer != 0)
    ratio = np.where(is_judged, np.abs(own) / np.where(peer == 0, 1.0, np.abs(peer)), 1.0)
    of_runs = pd.DataFrame({"ratio": ratio, "larger": larger}).rolling(_COMPARED_ROWS).median()
    lasting = of_runs["ratio"].to_numpy()
    size = of_runs["larger"].to_numpy()
    with np.errstate(invalid="ignore"):
        is_off = ((lasting >= _LASTING_FACTOR) | (lasting <= 1 / _LASTING_FACTOR)) & (size >= _LEAST_BPS)
    if is_off.any():
        place = int(np.argmax(is_off))
        return [_sentence(both, place - _COMPARED_ROWS + 1, f"{lasting[place]:.3g} times")]
    is_other = ((ratio >= _ROW_FACTOR) | (ratio <= 1 / _ROW_FACTOR)) & (larger >= _LARGE_BPS)
    if is_other.sum() >= max(_LEAST_ROWS, _LEAST_SHARE * len(both)):
        place = int(np.argmax(is_other))
        return [_sentence(both, place, f"in {int(is_other.sum())} rows {ratio[place]:.3g} times")]
    is_opposite = pd.Series((np.sign(own) == -np.sign(peer)) & (larger >= _LEAST_BPS) & is_judged)
    share = is_opposite.rolling(_COMPARED_ROWS).mean().to_numpy()
    if (share[_COMPARED_ROWS - 1 :] >= _OPPOSITE_SHARE - 0.35).any() and is_opposite.sum() >= _COMPARED_ROWS:
        place = int(np.flatnonzero(is_opposite)[0])
        return [_sentence(both, place, "of the other sign than")]
    return []


def _sentence(rows: pd.DataFrame, place: int, relation: str) -> str:
    return (
        f"{_RATE} is {relation} the median of other venues from {_shown(rows, place)} on "
        f"({rows[_RATE].iloc[place]:g} against {rows['peer'].iloc[place]:g})"
    )


def _shown(rows: pd.DataFrame, place: int) -> str:
    return times.iso(rows["time"].iloc[place])
