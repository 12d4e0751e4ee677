"""Questions to rows of venues that are well-formed and may be wrong: too old, in another unit, of other size.

An import asks the person who imports (`derivdata.sources.archive.audit`); here nobody is there to answer, so
that what is doubtful is left out or fails, named, and is asked for again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from statistics import median

import msgspec
import numpy as np
import pandas as pd

from derivdata import tables
from derivdata.errors import ArchiveError, SchemaError
from derivdata.sources.archive import Archive
from derivdata.sources.archive.audit import audit
from derivdata.sources.collect.session import VenueSession
from derivdata.sources.venues.endpoint import VenueEndpoint
from derivdata.sources.venues.record_types import Option, OrderBook, Records, State
from derivdata.support import times

_AGE_US = times.us(pd.Timedelta(10, "min"))
_SEVERAL, _JUMP = 5, 3.0
"""Contracts from which the median counts, and the factor between two polls that no market makes."""
_FACTOR = 20.0
"""How many times a figure may be that which the series had last."""
_USUAL_BPS = 1.0
"""Rates below it count as it: they pass through 0."""
_NEAR_USD = 1.25
"""Factor within which coins × price are the USD beside them: the price may be of another second."""
_MOST_USD = 1e11
_SERIES = pd.Timedelta(7, "D")
_SERIES_ROWS = 50


def require_current(endpoint: VenueEndpoint, records: Records, at: pd.Timestamp) -> None:
    """Refuse an answer about the present whose newest own instant is 10 minutes from the clock."""
    parts: tuple[Sequence[State | Option | OrderBook], ...] = (records.states, records.options, records.books)
    stamps = [row.time for rows in parts for row in rows if row.time is not None]
    if endpoint.every is None and endpoint.what != "book":
        return
    apart = max(stamps, default=times.us(at)) - times.us(at)
    if abs(apart) > _AGE_US:
        stamp = times.iso(pd.Timestamp(max(stamps), unit="us", tz="UTC"))
        raise SchemaError(
            f"{endpoint.exchange} {endpoint.place}: the newest row is of {stamp}, and not of the present "
            f"({times.iso(at)})"
        )


class LastPolls:
    """The figures that a venue told last, to which each poll is held."""

    def __init__(self, exchange: str) -> None:
        self._exchange = exchange
        self._open: dict[str, float] = {}
        self._rates: dict[str, float] = {}

    def hold(self, states: list[State]) -> tuple[list[State], dict[str, str], list[str]]:
        """Return states without the doubtful figures, why tables fail, and what else is left out."""
        left_out: list[str] = []
        rows = [self._sound(row, left_out) for row in states]
        failed = {}
        if why := self._jump(rows):
            failed["oi_history"] = why
            rows = [row._replace(oi_usd=None, oi_coins=None) for row in rows]
        return rows, failed, left_out

    def _sound(self, row: State, left_out: list[str]) -> State:
        """Return the state of a contract without the figures that others contradict."""
        name, price = row.instrument.name, row.mark or row.price or row.last
        if row.oi_usd and row.oi_coins and price:
            ratio = row.oi_coins * price / row.oi_usd
            if not 1 / _NEAR_USD < ratio < _NEAR_USD or row.oi_usd > _MOST_USD:
                left_out.append(
                    f"open interest of {name}: {row.oi_coins:g} at {price:g} and {row.oi_usd:g} USD"
                )
                row = row._replace(oi_usd=None, oi_coins=None)
        if row.rate is not None and row.period_h:
            bps = abs(row.rate) * 1e4 * 8 / row.period_h
            if bps > _FACTOR * max(self._rates.get(name, np.inf), _USUAL_BPS):
                left_out.append(f"rate of {name}: {bps:.4g} bps in 8 hours after {self._rates[name]:.4g}")
                return row._replace(rate=None)
            self._rates[name] = bps
        return row

    def _jump(self, rows: list[State]) -> str:
        """Return why open interest is in another unit or of other sides, by the median; "" if not."""
        now = {row.instrument.name: row.oi_usd for row in rows if row.oi_usd}
        ratios = [usd / self._open[name] for name, usd in now.items() if name in self._open]
        jump = median(ratios) if len(ratios) >= _SEVERAL else 1.0
        if 1 / _JUMP < jump < _JUMP:
            self._open |= now
            return ""
        return (
            f"{self._exchange}: open interest is {jump:.3g} times that of the last poll, of the median of "
            f"{len(ratios)} contracts: not the unit that the venue is known to use"
        )


def require_plausible(session: VenueSession, archive: Archive, table: str, rows: pd.DataFrame) -> None:
    """Refuse rows of a history that an import would ask about, or 20 times the series' own last rows.

    What is refused goes to the quarantine.
    """
    try:
        _ask(archive, table, rows)
        _hold_to_series(archive, table, rows)
    except (ArchiveError, SchemaError) as problem:
        quarantine, exchange = session.shared.quarantine, session.venue.exchange
        why = f"{exchange} {table}: {str(problem).partition(': say ')[0]}"
        if quarantine is not None:
            body = msgspec.json.encode(rows.head(_SERIES_ROWS).astype(str).to_dict("records"))
            why = f"{why} ({quarantine.keep(exchange, table, body, why, session.clock.utc())})"
        raise SchemaError(why) from None


def _ask(archive: Archive, table: str, rows: pd.DataFrame) -> None:
    def read(symbols: Collection[str], start: pd.Timestamp, end: pd.Timestamp) -> pd.DataFrame:
        return archive.read(table, start, end + pd.Timedelta(1, "us"), symbols=list(symbols))

    audit(tables.TABLES[table], rows, archive.exchanges(table), read, accept=("future", "schedule"))


def _hold_to_series(archive: Archive, table: str, rows: pd.DataFrame) -> None:
    column = {"funding_settlements": "rate_bps_8h", "funding_history": "rate_bps_8h", "oi_history": "oi_usd"}
    if table not in column or rows.empty or not archive.exchanges(table):
        return
    name, first = column[table], rows["time"].min()
    venue = [str(rows["exchange"].iloc[0])]
    for symbol, part in rows.groupby("symbol", observed=True):
        last = archive.read(table, first - _SERIES, first, symbols=[str(symbol)], venues=venue)
        if last.empty:
            continue
        before, now = (float(f[name].abs().median()) for f in (last.tail(_SERIES_ROWS), part))
        is_rate = name == "rate_bps_8h"
        ratio = now / max(before, _USUAL_BPS) if is_rate else now / before if before else 1.0
        if ratio > _FACTOR or (not is_rate and ratio < 1 / _FACTOR):
            raise SchemaError(
                f"{name} of {symbol} is {now:g}, of the median row, and was {before:g} in the rows before: "
                "not the unit that the venue is known to use"
            )
